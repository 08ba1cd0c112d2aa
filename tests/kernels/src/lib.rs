//! Kernels that test `cuda_std` and its grid emulator.
//!
//! [`selftest`] uses every operation once, with results that plain Rust can predict: on the emulator and on a GPU they
//! must be the same. [`planted_bugs`] holds one bug a kernel, which the emulator must find at the marked line.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod planted_bugs;
pub mod selftest;

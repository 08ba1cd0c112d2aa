//! Kernels that test `cuda_std` and its grid emulator.
//!
//! [`selftest`] uses every operation once, with results that plain Rust can predict: on the emulator and on a GPU they
//! must be the same. [`planted_bugs`] holds one bug a kernel, which the emulator must find at the marked line.
//! [`hopper`] and [`hopper_bugs`] are the same for the instructions of `sm_90a`, which no GPU has run yet in these kernels.
//! [`cases`] says for each kernel how to launch it, and what is in memory before and after; [`gpu`] launches on a GPU.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

#[cfg(not(target_arch = "nvptx64"))]
pub mod cases;
#[cfg(not(target_arch = "nvptx64"))]
pub mod gpu;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "90a"))]
pub mod hopper;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "90a"))]
pub mod hopper_bugs;
pub mod planted_bugs;
pub mod selftest;

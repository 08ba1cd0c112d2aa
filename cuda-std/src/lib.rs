//! What a GPU kernel needs beyond `core`: indices, barriers, warp operations, shared memory, atomics, typed memory
//! access, fused multiply-add, products on the tensor cores, and Hopper's barriers, bulk copies and products by warpgroups.
//!
//! Names and signatures follow rust-cuda's `cuda_std` wherever it has them, so that a kernel written here reads as a
//! rust-cuda kernel. The code generator differs: this crate targets rustc's own `nvptx64-nvidia-cuda`, with no LLVM
//! tools, no linker and no toolkit.
//!
//! Every operation is a thin function over one of two backends: inline PTX on `nvptx64`, where all the `asm!` of the
//! project lives, and everywhere else the [grid emulator](emulator), which runs the same kernel source on the CPU and
//! checks every access.
//!
//! ```
//! use cuda_std::{kernel, mem, thread};
//!
//! /// `y[i] = a * x[i] + y[i]` for `i < n`.
//! ///
//! /// # Safety
//! /// `x` and `y` hold at least `n` elements of global memory.
//! #[kernel]
//! pub unsafe fn saxpy(n: u32, a: f32, x: *const f32, y: *mut f32) {
//!     let i = thread::index_1d();
//!     if i < n {
//!         // SAFETY: i < n, and both arrays hold n elements.
//!         unsafe {
//!             let sum = a * mem::load_readonly(x.add(i as usize)) + mem::load(y.add(i as usize));
//!             mem::store(y.add(i as usize), sum);
//!         }
//!     }
//! }
//! ```
#![cfg_attr(target_arch = "nvptx64", no_std, feature(asm_experimental_arch, stdarch_nvptx))]

pub mod atomic;
#[cfg(not(target_arch = "nvptx64"))]
pub mod emulator;
pub mod float;
pub mod grid;
pub mod mbarrier;
pub mod mem;
pub mod mma;
pub mod shared;
pub mod thread;
pub mod tma;
pub mod warp;
pub mod wgmma;

#[cfg(not(target_arch = "nvptx64"))]
use emulator::backend;
#[cfg(target_arch = "nvptx64")]
#[path = "nvptx/mod.rs"]
mod backend;

pub use cuda_std_macros::kernel;
pub use float::GpuFloat;

/// The directory of this crate's sources, for tools that hash or rebuild kernels.
pub const SOURCE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// What in [`SOURCE_DIR`] is compiled for the host only, and so cannot change a kernel's PTX.
pub const HOST_ONLY_SOURCES: &[&str] = &["emulator", "tensor_layout.rs"];

/// The directory of the sources of `#[kernel]`.
pub const MACROS_SOURCE_DIR: &str = cuda_std_macros::source_dir!();

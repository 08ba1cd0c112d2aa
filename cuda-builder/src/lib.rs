//! Compiles Rust GPU kernels to PTX from a build script, like rust-cuda's `cuda_builder`, but with rustc's own
//! `nvptx64-nvidia-cuda` target: no LLVM tools, no linker, no CUDA toolkit.
//!
//! ```no_run
//! // build.rs
//! use cuda_builder::{Arch, CudaBuilder};
//!
//! fn main() -> Result<(), cuda_builder::CudaBuilderError> {
//!     println!("cargo::rerun-if-changed=kernels");
//!     let out_dir = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
//!     CudaBuilder::new("kernels").arch(Arch::Sm80).copy_to(format!("{out_dir}/kernels.ptx")).build()?;
//!     Ok(())
//! }
//! ```
//!
//! It needs a rustc with its library sources: the `rust-src` component of a rustup toolchain, or a distribution's
//! packages ([`KernelToolchain`] says where it looks). A crate that ships its PTX spares its users even that:
//! [`Prebuilt`] stores compressed PTX files, detects which of them no longer match the kernel sources, and rebuilds only
//! those. It also stores the machine code (cubins) that `ptxas` made from them, which a driver loads without compiling.
//!
//! The build fails if the PTX has barriers that not all threads of a block execute, or duplicated shared arrays: see
//! [`faults`](fn@faults).
//!
//! | variable | meaning |
//! |---|---|
//! | `CUDA_BUILDER_RUSTC` | the rustc to build kernels with, and no other |
//! | `CUDA_BUILDER_CARGO` | the cargo to drive it with |
//! | `CUDA_BUILDER_TARGET_DIR` | where compiled dependencies are kept between builds |

mod arch;
mod builder;
mod error;
mod faults;
mod kept;
mod launch_bounds;
mod manifest;
mod prebuilt;
mod ptx;
mod sources;
mod text;
mod toolchain;

pub use arch::Arch;
pub use builder::CudaBuilder;
pub use error::CudaBuilderError;
pub use faults::{Fault, Place, faults};
pub use manifest::{CubinRecord, FileRecord, Manifest};
pub use prebuilt::{Prebuilt, PtxFile, ReadyFile, Stale, StaleReason, TEXT_SOURCE, kept_text};
pub use ptx::PtxInfo;
pub use sources::SourceTree;
pub use toolchain::{KernelToolchain, Rejected};

/// The variables that affect the builds of this crate: a build script should rerun when one changes.
pub const VARIABLES: &[&str] = &["CUDA_BUILDER_RUSTC", "CUDA_BUILDER_CARGO", "CUDA_BUILDER_TARGET_DIR"];

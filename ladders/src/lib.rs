//! Published kernels on the devices of warpsparse, for study and comparison: ladders, in which each rung adds one idea to the one
//! below.
//!
//! - [`SpmmLadder`]: products of a sparse matrix with dense ones, from the obvious kernel to GE-SpMM, and by atomic additions.
//! - [`GemmLadder`]: products of dense matrices, from the obvious kernel to asynchronous copies.
//! - [`CgSteps`]: the steps of conjugate gradients that vendors' libraries leave to the program.
//!
//! They run on the emulated device and on GPUs, over the public interface of warpsparse alone.

mod cg;
mod kernel;
mod sgemm;
mod spmm;

pub use cg::CgSteps;
/// The kernels, with their keys and arguments.
pub use ladder_kernels as kernels;
pub use sgemm::{GemmLadder, GemmRung};
pub use spmm::{SpmmLadder, SpmmRung};

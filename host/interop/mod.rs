//! Conversions from and to the matrices of other libraries, serialisation, and GPU memory and streams of other
//! libraries. Each has its own feature.

#[cfg(any(feature = "faer", feature = "nalgebra-sparse", feature = "sprs"))]
mod arrays;
#[cfg(feature = "cuda")]
mod cudarc;
#[cfg(feature = "cust")]
mod cust;
#[cfg(feature = "faer")]
mod faer;
#[cfg(feature = "nalgebra-sparse")]
mod nalgebra_sparse;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "sprs")]
mod sprs;

#[cfg(feature = "cust")]
pub use cust::{KernelArgs, cust_module};

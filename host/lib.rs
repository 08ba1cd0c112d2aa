//! Sparse linear algebra on NVIDIA GPUs with every kernel in Rust, and on the CPU with the same API.

mod coo;
mod csr;
mod error;
#[cfg(feature = "io")]
pub mod io;
mod scalar;

pub use coo::CooMatrix;
pub use csr::CsrMatrix;
pub use error::{Error, ErrorKind, Result};
pub use scalar::{DType, Scalar};

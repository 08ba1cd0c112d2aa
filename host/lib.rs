//! Sparse linear algebra on NVIDIA GPUs with every kernel in Rust, and on the CPU with the same API.

mod coo;
mod csr;
mod device;
mod device_matrix;
mod error;
#[cfg(feature = "io")]
pub mod io;
#[cfg(feature = "cuda")]
mod ptx;
mod scalar;
mod spmv;
#[cfg(feature = "proptest")]
pub mod strategies;
mod structure;

pub use coo::CooMatrix;
pub use csr::CsrMatrix;
pub use device::{CudaInfo, Device, DeviceInfo, DeviceVec, Kernel, Launch, PinnedVec};
pub use device_matrix::{DeviceMatrix, KernelChoice};
pub use error::{Error, ErrorKind, Result};
pub use scalar::{DType, Element, Scalar};
pub use spmv::{Lanes, SpmvOptions};
pub use structure::Structure;

//! Sparse linear algebra on NVIDIA GPUs with every kernel in Rust, and on the CPU with the same API.
//!
//! Today that is the product of a sparse matrix with a dense vector, `y = alpha * A * x + beta * y`, for matrices in six
//! formats, and with a dense matrix, `C = alpha * A * B + beta * C`, for CSR, that of two dense matrices, and the solution of
//! `A * x = b` by conjugate gradients; all in `f32` and `f64`.
//!
//! ```
//! use warpsparse::{CsrMatrix, Device};
//!
//! // 1 0 2
//! // 0 3 0
//! let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0])?;
//! let device = Device::auto(); // the first GPU, else the CPU: device.describe() says which and why
//! let a = device.upload(&a)?; // chooses the kernel: a.describe() names it and gives the reason
//! let x = device.upload_vec(&[10.0, 20.0, 30.0])?;
//! let mut y = device.zeros(2)?;
//! a.spmv(1.0, &x, 0.0, &mut y)?;
//! assert_eq!(y.to_vec()?, [70.0, 60.0]);
//! # Ok::<(), warpsparse::Error>(())
//! ```
//!
//! - [`CsrMatrix`], [`CscMatrix`], [`CooMatrix`], [`DiaMatrix`], [`EllMatrix`] and [`HybMatrix`] hold a matrix on the host,
//!   valid by construction, and convert into one another by `From` and `TryFrom`; [`CsrView`] and its like borrow their
//!   arrays. The module `io` reads and writes Matrix Market files and generates matrices.
//! - [`Device`] is a GPU, the CPU, or a GPU emulated on the CPU, for tests: that one runs the GPU's kernels, checks every
//!   access they make, and gives the GPU's bits. It uploads matrices ([`DeviceMatrix`]) and vectors ([`DeviceVec`], by way of
//!   [`PinnedVec`] where the copies have to be fast), and measures how long operations take.
//! - [`Structure`] tells a matrix's row lengths, bandwidths, diagonals and locality; the upload of a CSR matrix finds it on
//!   the device.
//! - [`CsrMatrix::cluster_rows`] and [`CsrMatrix::reverse_cuthill_mckee`] find orders of rows and columns in which a product
//!   finds more in the caches.
//! - [`DeviceMatrix::spmv`] multiplies, [`DeviceMatrix::spmv_transposed`] by the transpose; [`SpmvOptions`] overrules the
//!   choice of format and kernel, or has it made by timing. A [`Graph`] is any number of operations, recorded once
//!   ([`Device::record`]) and queued many times.
//! - [`DeviceMatrix::spmm`] multiplies by a dense matrix, a [`DeviceDense`] in any [`DenseLayout`], and
//!   [`DeviceMatrix::spmm_reduce`] takes the mean, maximum or minimum of neighbours instead of the sum.
//! - [`gemm`] multiplies dense matrices, by rows or by columns; [`gemm_with`] by a kernel of [`GemmOptions`], the fastest by [`gemm_autotune`].
//! - [`Cg`] solves `A * x = b` for a symmetric positive definite matrix, or an operator of your own ([`LinearOperator`]), with
//!   [`Jacobi`]'s preconditioner or another ([`Preconditioner`]). [`Tolerance`] says when it ends, [`SolveInfo`] how it went.
//! - [`DeviceVec`] and its slices ([`DeviceSlice`], [`DeviceSliceMut`]) have elementwise operations, reductions and random numbers. Their
//!   numbers may be the host's or the device's ([`DeviceScalar`]), so that nothing waits for a dot product.
//! - [`Kernel`] is a kernel of your own, written with `cuda_std`, for the same devices and vectors.
//! - [`Device::from_cudarc`](Device) and its like work on the streams and memory of programs that use cudarc or cust.
//! - Everything that can fail returns an [`Error`], which tells what was wrong and where.
//!
//! [`guide`] tells which format and kernel to choose, what waits for what, what precision to expect, and has a cheat-sheet from
//! nalgebra-sparse, sprs, faer and SciPy.
//!
//! | feature | default | meaning |
//! |---|---|---|
//! | `cuda` | yes | GPUs; the driver is looked for at run time, so the program also runs where there is none |
//! | `rayon` | yes | the CPU's products use all cores |
//! | `io` | yes | the module `io` |
//! | `proptest` | no | the module `strategies`: sparse matrices that are hard on kernels, for property tests |
//! | `nalgebra-sparse` | no | COO, CSR and CSC matrices from and to those of nalgebra-sparse |
//! | `sprs` | no | COO, CSR and CSC matrices from and to those of sprs; views too, of `u32` indices |
//! | `faer` | no | CSR and CSC matrices from and to those of faer, views of `u32` indices too; dense matrices to and from a device |
//! | `cust` | no | work on streams and buffers of cust, and kernels in its modules. The program then links libcuda, which is looked for in CUDA toolkits and in `lib64` of the folder that the environment variable `CUDA_LIBRARY_PATH` names |
//! | `serde` | no | matrices of every format are `Serialize` and `Deserialize`; what is read is checked |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod dense;
mod device;
mod device_matrix;
mod error;
mod formats;
mod gemm;
#[cfg(any(doc, doctest))]
pub mod guide;
mod interop;
#[cfg(feature = "io")]
pub mod io;
mod kernel_choice;
mod memory;
mod offset;
mod pieces;
#[cfg(feature = "cuda")]
mod ptx;
mod reorder;
mod scalar;
mod solver;
mod spmm;
mod spmv;
#[cfg(feature = "proptest")]
pub mod strategies;
mod structure;
mod vector;

/// The bindings of the CUDA driver, in the version whose types are in this interface.
#[cfg(feature = "cuda")]
pub use cudarc;
/// The crate, in the version whose types are in this interface.
#[cfg(feature = "cust")]
pub use cust;
pub use dense::{DenseLayout, DenseMut, DenseRef, DeviceDense, Order};
pub use device::{
    CudaInfo, Device, DeviceInfo, DeviceSlice, DeviceSliceMut, DeviceVec, Graph, Kernel, Launch, PinnedVec,
};
#[cfg(feature = "cuda")]
pub use device::{DeviceVecMut, DeviceVecRef};
pub use device_matrix::{DeviceMatrix, SpmmPlan, Upload};
pub use error::{Error, ErrorKind, Result};
pub use formats::{CooMatrix, CooView, CscMatrix, CscView, CsrMatrix, CsrView, DiaMatrix, EllMatrix, HybMatrix};
pub use gemm::{GemmOptions, gemm, gemm_autotune, gemm_choice, gemm_with};
#[cfg(feature = "cust")]
pub use interop::{KernelArgs, cust_module};
pub use kernel_choice::KernelChoice;
/// The kernels as Rust functions: their families, entry points and argument structs.
pub use kernels_gpu;
pub use offset::Offset;
pub use scalar::{DType, Element, Scalar};
pub use solver::{Cg, CgMethod, Jacobi, LinearOperator, Preconditioner, Progress, SolveInfo, StopReason, Tolerance};
pub use spmm::{Reduce, SpmmOptions, Weights};
pub use spmv::{CsrKernel, FormatChoice, Lanes, SpmvOptions};
pub use structure::Structure;
pub use vector::{CastFrom, DeviceIndices, DeviceScalar, Factor, IntoFactor, Map, Reduction, Zip};

/// The README's example is a test.
#[cfg(all(doctest, feature = "io"))]
#[doc = include_str!("../README.md")]
struct Readme;

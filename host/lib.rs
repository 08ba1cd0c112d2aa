//! Sparse and dense linear algebra on NVIDIA GPUs with every kernel written in Rust, and the same API on the CPU.
//!
//! The crate multiplies sparse matrices in seven formats by vectors, `y = alpha * A * x + beta * y`, and CSR matrices by dense
//! matrices, `C = alpha * A * B + beta * C`. It multiplies dense matrices, has the usual vector operations, and solves
//! `A * x = b` by Krylov methods and multigrid; all in `f32` and `f64`.
//!
//! ```
//! use warpsparse::{CsrMatrix, Device};
//!
//! // 1 0 2
//! // 0 3 0
//! let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0])?;
//! let device = Device::auto(); // the first GPU, else the CPU: device.describe() says which and why
//! let a = device.upload(&a)?; // chooses the kernel: a.describe() says which and why
//! let x = device.upload_vec(&[10.0, 20.0, 30.0])?;
//! let mut y = device.zeros(2)?;
//! a.spmv(1.0, &x, 0.0, &mut y)?;
//! assert_eq!(y.to_vec()?, [70.0, 60.0]);
//! # Ok::<(), warpsparse::Error>(())
//! ```
//!
//! - [`CsrMatrix`], [`CscMatrix`], [`CooMatrix`], [`DiaMatrix`], [`EllMatrix`], [`HybMatrix`] and [`BsrMatrix`] store a matrix on the host.
//!   They are valid by construction, and convert into one another by `From` and `TryFrom`. [`CsrView`], [`CscView`] and [`CooView`]
//!   borrow their arrays. The module `io` reads and writes Matrix Market files and generates matrices.
//! - [`Device`] is a GPU, the CPU, or, for tests, a GPU emulated on the CPU, which runs the GPU's kernels, checks every memory
//!   access, and computes the GPU's bits. A device uploads matrices ([`DeviceMatrix`]) and vectors ([`DeviceVec`]; copies from a
//!   [`PinnedVec`] are fastest), and times operations.
//! - [`DeviceMatrix::spmv`] multiplies by a vector, [`DeviceMatrix::spmv_transposed`] multiplies the transpose by a vector.
//!   [`SpmvOptions`] overrides the choice of format and kernel, or makes it by timing.
//! - [`DeviceMatrix::spmm`] multiplies by a dense matrix, a [`DeviceDense`] in any [`DenseLayout`].
//!   [`DeviceMatrix::spmm_reduce`] computes the mean, maximum or minimum over neighbours instead of the sum.
//! - [`Adjacency`] has the operations of graph networks on values of edges, such as attention, and their gradients. A [`HalfDense`] stores features
//!   in 16 bits.
//! - [`gemm`] multiplies dense matrices, row-major or column-major; [`gemm_with`] uses the kernel chosen by [`GemmOptions`], and
//!   [`gemm_autotune`] finds the fastest one.
//! - [`DeviceVec`] and its slices ([`DeviceSlice`], [`DeviceSliceMut`]) have elementwise operations, reductions and random numbers.
//!   Scalars may be on the host or on the device ([`DeviceScalar`]), so nothing waits for a dot product.
//! - [`Device::record`] records any number of operations once, as a [`Graph`] that queues them many times.
//! - [`Cg`] solves `A * x = b` for a symmetric positive definite matrix or your own [`LinearOperator`], preconditioned by
//!   [`Jacobi`] or your own [`Preconditioner`]. [`Tolerance`] sets the stopping criterion, [`SolveInfo`] reports the result.
//!   [`BlockCg`] solves for many right-hand sides at once.
//! - [`Solver`] solves any square system, by MINRES, BiCGSTAB, IDR(s), GMRES and others, and least squares by LSMR. [`Amg`] is algebraic multigrid.
//! - The module [`learning`] has what training a neural network takes beside products: losses, dropout, gradients, an optimiser.
//! - The module [`distributed`] divides a system among several devices: matrices, vectors, products and conjugate gradients.
//! - [`Structure`] describes a matrix: row lengths, bandwidths, diagonals and locality. The upload of a CSR matrix computes it on the
//!   device.
//! - [`CsrMatrix::cluster_rows`] and [`CsrMatrix::reverse_cuthill_mckee`] compute orders of rows and columns in which products
//!   hit the caches more often; [`DeviceMatrix`] has the same functions, which stay on its device.
//! - [`Kernel`] is your own kernel, written with `cuda_std`, for the same devices and vectors.
//! - [`Device::from_cudarc`](Device) and similar functions use the streams and memory of programs that use cudarc or cust.
//! - Every function that can fail returns an [`Error`], which says what was wrong and where.
//!
//! The [`guide`] explains which format and kernel to choose, what waits for what, and what precision to expect. It has a cheat sheet for
//! users of nalgebra-sparse, sprs, faer and SciPy.
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `cuda` | yes | GPUs; the driver is loaded at run time, so the program also runs without one |
//! | `rayon` | yes | all cores on the CPU |
//! | `io` | yes | the module `io` |
//! | `proptest` | no | the module `strategies`: difficult sparse matrices for property tests |
//! | `nalgebra-sparse` | no | conversions of COO, CSR and CSC matrices from and to nalgebra-sparse |
//! | `sprs` | no | conversions of COO, CSR and CSC matrices from and to sprs, including views with `u32` indices |
//! | `faer` | no | conversions of CSR and CSC matrices from and to faer, including views with `u32` indices; copies of dense matrices to and from a device |
//! | `cust` | no | streams, buffers and modules of cust. The program then links libcuda, which the build searches for in CUDA toolkits and in `$CUDA_LIBRARY_PATH/lib64` |
//! | `serde` | no | `Serialize` and `Deserialize` for matrices of every format; deserialised matrices are validated |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod algebra;
mod conversion;
mod dense;
mod device;
mod device_matrix;
pub mod distributed;
mod error;
mod formats;
mod gemm;
mod graph;
#[cfg(any(doc, doctest))]
pub mod guide;
#[cfg(all(shared_instances, not(test)))]
#[doc(hidden)]
pub mod instances;
mod interop;
#[cfg(feature = "io")]
pub mod io;
mod kernel_choice;
pub mod learning;
mod memory;
mod offset;
mod parallel;
mod pieces;
mod primitives;
#[cfg(feature = "cuda")]
mod ptx;
mod reorder;
mod scalar;
mod solver;
mod spmm;
mod spmv;
mod stored;
#[cfg(feature = "proptest")]
pub mod strategies;
mod structure;
mod triangular;
mod vector;

pub use algebra::spgemm::{Semiring, SpgemmOptions, SpgemmPlan};
/// The CUDA driver bindings, in the version whose types this API uses.
#[cfg(feature = "cuda")]
pub use cudarc;
/// The crate cust, in the version whose types this API uses.
#[cfg(feature = "cust")]
pub use cust;
pub use dense::{DenseLayout, DenseMut, DenseRef, DeviceDense, Half, HalfDense, Order};
pub use device::{
    CudaInfo, Device, DeviceInfo, DeviceSlice, DeviceSliceMut, DeviceVec, Graph, Kernel, Launch, PinnedVec,
};
#[cfg(feature = "cuda")]
pub use device::{DeviceVecMut, DeviceVecRef};
pub use device_matrix::{DeviceMatrix, SpmmPlan, Upload};
pub use error::{Error, ErrorKind, Result};
pub use formats::{
    BlockSize, Blocks, BsrMatrix, CooMatrix, CooView, CscMatrix, CscView, CsrMatrix, CsrView, DiaMatrix, EllMatrix,
    Format, HybMatrix,
};
pub use gemm::{GemmOptions, gemm, gemm_autotune, gemm_choice, gemm_with};
pub use graph::{Adjacency, Attention, AttentionGradients, AttentionInputs};
/// Numbers of 16 bits, of the crate `half`.
pub use half::{bf16, f16};
#[cfg(feature = "cust")]
pub use interop::{KernelArgs, cust_module};
pub use kernel_choice::KernelChoice;
/// The kernels as Rust functions: families, entry points and argument structs.
pub use kernels_gpu;
pub use offset::Offset;
pub use primitives::SortKey;
pub use scalar::{DType, Element, Scalar};
pub use solver::{
    Amg, AmgCycle, AmgInfo, AmgLevel, AmgOptions, AmgSmoother, Attempt, BlockCg, BlockJacobi, Cg, CgMethod, Chebyshev,
    Fsai, Ilu, Jacobi, LinearOperator, MixedAmg, NearNullSpace, Preconditioner, Progress, SolveInfo, Solver,
    SolverMethod, SolverPreconditioner, StopReason, Tolerance,
};
pub use spmm::{Reduce, SpmmOptions, Weights};
pub use spmv::{CsrKernel, FormatChoice, Lanes, SpmvOptions};
pub use stored::HostMatrix;
pub use structure::Structure;
pub use triangular::{Diagonal, Triangle, TriangularSolver, TriangularSweeps};
pub use vector::{CastFrom, DeviceIndices, DeviceScalar, Factor, IntoFactor, Map, Reduction, Zip};

/// Tests the example in the README.
#[cfg(all(doctest, feature = "io"))]
#[doc = include_str!("../README.md")]
struct Readme;

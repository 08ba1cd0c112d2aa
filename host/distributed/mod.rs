//! One system over many devices: ranks that each hold a block of rows, and exchange what the others need.
//!
//! [`run`] starts a thread for each device, a *rank*, with a [`Communicator`]; [`join`] makes a process one of several, on one machine or
//! more. Every rank runs the same program, on its own part of the
//! data: a [`DistributedMatrix`] holds a block of rows, a [`DistributedVec`] or [`DistributedDense`] the same block of elements. A
//! [`Partition`] says which rank has which rows. [`DistributedCg`] solves systems, with [`DistributedAmg`] in
//! fewer iterations.
//!
//! ```
//! use warpsparse::{CsrMatrix, Device, Tolerance, distributed::{self, DistributedCg, DistributedMatrix, DistributedVec}};
//!
//! // 4 1
//! // 1 3
//! let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![4.0f64, 1.0, 1.0, 3.0])?;
//! let devices = [Device::auto(), Device::auto()]; // each a GPU of its own, where there are some
//! let solutions = distributed::run(&devices, |communicator| {
//!     let a = DistributedMatrix::from_whole(communicator, &a)?;
//!     let b = DistributedVec::from_whole(communicator, a.rows(), &[1.0, 2.0])?;
//!     let mut x = DistributedVec::zeros(communicator, a.columns())?; // the first guess
//!     let jacobi = a.jacobi()?;
//!     DistributedCg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(jacobi).solve(&b, &mut x)?;
//!     x.gather()
//! })?;
//! assert!((solutions[0][0] - 1.0 / 11.0).abs() < 1e-11);
//! # Ok::<(), warpsparse::Error>(())
//! ```
//!
//! # Results
//! Every sum over ranks is added in the order of ranks. So the same input on the same devices gives the same bits for a number of ranks,
//! whatever the timing. Another number of ranks divides sums elsewhere, and may lead to other kernels for a block than for the whole:
//! results then differ by rounding.
//!
//! # Order of rows
//! A rank needs the elements of `x` that its columns refer to: its own, and a *halo* of those of other ranks. The fewer there are, the less
//! is exchanged. A matrix whose entries are close to the diagonal has a small halo: order rows and columns by
//! [`CsrMatrix::reverse_cuthill_mckee`](crate::CsrMatrix::reverse_cuthill_mckee) first where they are not. Rows that need no halo are
//! multiplied while it is on its way.

mod amg;
mod blocks;
mod bytes;
mod cg;
mod communicator;
mod dense;
mod halo;
mod inbox;
mod matrix;
#[cfg(feature = "cuda")]
mod nccl;
mod partition;
mod peers;
mod process;
mod product;
mod rows;
mod run;
mod transport;
mod vector;
mod windows;
mod wires;

pub use amg::{DistributedAmg, DistributedAmgOptions};
pub use cg::DistributedCg;
pub use communicator::Communicator;
pub use dense::DistributedDense;
pub use matrix::DistributedMatrix;
pub use partition::Partition;
pub use process::{Rendezvous, join, join_with};
pub use run::{run, run_with};
pub use transport::TransportChoice;
pub use vector::DistributedVec;

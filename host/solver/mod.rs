//! Solvers of linear systems, and what they share.
//!
//! A solver is one file over the vector layer; [`cg/plain.rs`](cg) is the model for others. It computes the iterations,
//! and [`course`] does the rest, from the first residual to the report.

mod block_cg;
mod cg;
mod course;
mod criterion;
mod info;
mod krylov;
mod operator;
mod preconditioner;
mod scaled;
mod symmetry;

pub use block_cg::BlockCg;
pub use cg::{Cg, CgMethod};
pub(crate) use cg::{StateArrays, ended_in, ending, lanes_of, verdict};
pub(crate) use course::{Callback, Course, Method, Phase, Round, breakdown};
pub(crate) use criterion::Criterion;
pub use criterion::Tolerance;
pub use info::{Progress, SolveInfo, StopReason};
pub use krylov::{Attempt, Solver, SolverMethod, SolverPreconditioner};
pub use operator::LinearOperator;
pub(crate) use preconditioner::multigrid;
pub use preconditioner::{
    Amg, AmgCycle, AmgInfo, AmgLevel, AmgOptions, AmgSmoother, BlockJacobi, Chebyshev, Fsai, Ilu, Jacobi, MixedAmg,
    NearNullSpace, Preconditioner,
};

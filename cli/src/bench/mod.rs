//! `warpsparse bench`: many products measured beside those of other libraries.

mod cg;
mod compare;
mod first_use;
mod formats;
mod graphs;
mod html;
mod report;
mod rivals;
mod session;
mod sgemm;
mod spmm;
mod spmv;
mod suite;
mod table;

use clap::Subcommand;

use crate::Outcome;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Measures the product of sparse matrices with vectors: the kernel chosen by itself, every other kernel, and other
    /// libraries.
    Spmv(spmv::Options),
    /// Measures the product of sparse matrices with dense ones of several widths: the kernel chosen by itself, and other
    /// libraries.
    ///
    /// C = A B with A in CSR, and B and C row-major. The report on stdout is Markdown:
    /// `warpsparse bench spmm gen:rmat:17:8 -n 32,64 --json spmm.json`.
    Spmm(spmm::Options),
    /// Measures a ladder of kernels on stand-ins for 13 published graphs: from a row per thread over atomic additions and
    /// GE-SpMM to the kernel chosen by itself and clustered rows, beside another library.
    ///
    /// C = A B with A in CSR, f32, and B and C row-major. The report on stdout is Markdown:
    /// `warpsparse bench graphs --graph ddi,collab --json graphs.json`.
    Graphs(graphs::Options),
    /// Measures the product of dense matrices of several shapes, by the kernel for all of them or by a ladder of kernels
    /// from the obvious to the best, beside cuBLAS.
    ///
    /// C = A B, row-major. The report on stdout is Markdown: `warpsparse bench sgemm 1024 4096x512x64 --json sgemm.json`.
    Sgemm(sgemm::Options),
    /// Measures conjugate gradients: a ladder from the way that NVIDIA's sample calls cuSPARSE and cuBLAS to one launch for
    /// many iterations, and the CPU.
    ///
    /// A x = b with Jacobi's preconditioner. The report on stdout is Markdown:
    /// `warpsparse bench cg gen:poisson2d:512 --dtype f64 --json cg.json`.
    Cg(cg::Options),
    /// Measures how long a program takes from its start to its first result.
    FirstUse(first_use::Options),
    /// Measures the product in every format, and what a conversion costs.
    Formats(formats::Options),
    /// Compares two reports of `bench spmv`; exit status 1 if a product got slower by more than the spread.
    Compare(compare::Options),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Spmv(options) => spmv::run(options),
        Command::Spmm(options) => spmm::run(options),
        Command::Graphs(options) => graphs::run(options),
        Command::Sgemm(options) => sgemm::run(options),
        Command::Cg(options) => cg::run(options),
        Command::FirstUse(options) => first_use::run(options),
        Command::Formats(options) => formats::run(options),
        Command::Compare(options) => compare::run(options),
    }
}

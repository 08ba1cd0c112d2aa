//! `warpsparse-bench`: the operations of warpsparse measured, beside those of other libraries and published kernels. Reports go to stdout,
//! narration and progress to stderr.

mod all;
mod baselines;
mod cg;
mod clock;
mod compare;
mod first_use;
mod formats;
mod gemm;
mod gpu;
mod graphs;
mod html;
mod page;
mod reading;
mod report;
mod session;
mod spmm;
mod spmv;
mod suite;
mod table;
mod vector;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use measure::{Outcome, emit, exit_status};

use self::{report::Finished, session::Basics};

/// The benchmarks of warpsparse, beside other libraries and published kernels.
///
/// Exit status: 0 done, 1 failure, 2 wrong usage, 4 no such device.
#[derive(Parser)]
#[command(name = "warpsparse-bench", version)]
enum Command {
    /// Measures all that the commands below measure, on one device and within minutes, and writes one report and one page.
    ///
    /// The headline on stdout is Markdown: `warpsparse-bench all --html report.html --json report.json`.
    All(all::Options),
    #[command(flatten)]
    One(Benchmark),
    /// Draws the page of a report in JSON, that of any benchmark.
    Page(page::Options),
    /// Compares two reports of one benchmark, or of all; exit status 1 if anything of ours got slower by more than the spread.
    ///
    /// Reports of different devices, benchmarks or caches are refused. The table on stdout is Markdown.
    Compare(compare::Options),
}

/// One of the benchmarks, each of which makes a report of its own.
#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// Measures the product of sparse matrices with vectors: the kernel chosen by itself, every other kernel, and other
    /// libraries.
    Spmv(spmv::Options),
    /// Measures the product of sparse matrices with dense ones of several widths: the kernel chosen by itself, and other
    /// libraries.
    ///
    /// C = A B with A in CSR, and B and C row-major. The report on stdout is Markdown:
    /// `warpsparse-bench spmm gen:rmat:17:8 -n 32,64 --json spmm.json`.
    Spmm(spmm::Options),
    /// Measures a ladder of kernels on stand-ins for 13 published graphs: from a row per thread over atomic additions and
    /// GE-SpMM to the kernel chosen by itself and clustered rows, beside another library.
    ///
    /// C = A B with A in CSR, f32, and B and C row-major. The report on stdout is Markdown:
    /// `warpsparse-bench graphs --graph ddi,collab --json graphs.json`.
    Graphs(graphs::Options),
    /// Measures the product of dense matrices of several shapes, by the kernel for all of them or by a ladder of kernels
    /// from the obvious to the best, beside cuBLAS.
    ///
    /// C = A B, row-major. The report on stdout is Markdown: `warpsparse-bench gemm 1024 4096x512x64 --json gemm.json`.
    Gemm(gemm::Options),
    /// Measures conjugate gradients: a ladder from the way that NVIDIA's sample calls cuSPARSE and cuBLAS to one launch for
    /// many iterations, and the CPU.
    ///
    /// A x = b with Jacobi's preconditioner. The report on stdout is Markdown:
    /// `warpsparse-bench cg gen:poisson2d:512 --dtype f64 --json cg.json`.
    Cg(cg::Options),
    /// Measures operations on vectors of several lengths, from axpy to random numbers, and those that cuBLAS has also against cuBLAS.
    ///
    /// The report on stdout is Markdown: `warpsparse-bench vector -n 1048576 --operation axpy,dot --json vector.json`.
    Vector(vector::Options),
    /// Checks the clock of the other benchmarks: dense products, ours and cuBLAS's, by it and by NVIDIA's profiler (ncu).
    Clock(clock::Options),
    /// Measures how long a program takes from its start to its first result.
    FirstUse(first_use::Options),
    /// Measures the product in every format, and what a conversion costs.
    Formats(formats::Options),
}

fn main() -> ExitCode {
    match run(&Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(exit_status(failure.as_ref()))
        }
    }
}

fn run(command: &Command) -> Outcome {
    match command {
        Command::All(options) => all::run(options),
        Command::One(Benchmark::FirstUse(options)) if options.is_child() => first_use::child(options),
        Command::One(Benchmark::Clock(options)) if options.is_child() => clock::child(options),
        Command::One(benchmark) => {
            let report = benchmark.measure()?;
            benchmark.basics().write(&report.json)?;
            emit(&report.text)?;
            Ok(report.check?)
        }
        Command::Page(options) => page::run(options),
        Command::Compare(options) => compare::run(options),
    }
}

impl Benchmark {
    fn measure(&self) -> Outcome<Finished> {
        match self {
            Self::Spmv(options) => spmv::measure(options),
            Self::Spmm(options) => spmm::measure(options),
            Self::Graphs(options) => graphs::measure(options),
            Self::Gemm(options) => gemm::measure(options),
            Self::Cg(options) => cg::measure(options),
            Self::Vector(options) => vector::measure(options),
            Self::Clock(options) => clock::measure(options),
            Self::FirstUse(options) => first_use::measure(options),
            Self::Formats(options) => formats::measure(options),
        }
    }

    fn basics(&self) -> &Basics {
        match self {
            Self::Spmv(options) => &options.settings.conditions.basics,
            Self::Spmm(options) => &options.settings.conditions.basics,
            Self::Graphs(options) => &options.basics,
            Self::Gemm(options) => &options.conditions.basics,
            Self::Cg(options) => &options.basics,
            Self::Vector(options) => &options.conditions.basics,
            Self::Clock(options) => &options.basics,
            Self::FirstUse(options) => &options.basics,
            Self::Formats(options) => &options.settings.conditions.basics,
        }
    }
}

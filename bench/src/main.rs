//! `warpsparse-bench`: benchmarks of warpsparse against other libraries and published kernels. Reports go to stdout,
//! narration and progress to stderr.

mod all;
mod amg;
mod baselines;
mod cg;
mod clock;
mod compare;
mod faults;
mod first_use;
mod formats;
mod gemm;
mod gpu;
mod graphs;
mod html;
mod learning;
mod many;
mod matrix;
mod orders;
mod page;
mod pool;
mod reading;
mod report;
mod scaling;
mod session;
mod solution;
mod solvers;
mod sort;
mod spgemm;
mod spmm;
mod spmv;
mod suite;
mod table;
mod trsv;
mod vector;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use measure::{Outcome, emit, exit_status};

use self::{report::Finished, session::Basics};

/// Benchmarks of warpsparse against other libraries and published kernels.
///
/// Exit status: 0 success, 1 failure, 2 wrong usage, 4 no such device.
#[derive(Parser)]
#[command(name = "warpsparse-bench", version)]
enum Command {
    /// Runs the main benchmarks on one device within minutes, and writes one report and one page.
    ///
    /// Prints the summary as Markdown: `warpsparse-bench all --html report.html --json report.json`.
    All(all::Options),
    #[command(flatten)]
    One(Benchmark),
    /// Draws the page of a JSON report of any benchmark; the file may be compressed by xz.
    Page(page::Options),
    /// Compares two reports of the same benchmark; exit status 1 if a kernel of ours got slower by more than 2% and the spread.
    ///
    /// Rejects reports of different devices, benchmarks, clocks or cache states. Prints the table as Markdown.
    Compare(compare::Options),
    /// Solves random systems over processes, kills some of them, and verifies that the others notice and that all answers are right.
    ///
    /// A run has a process for each of some devices, and repeats its system with threads. Where a rank is killed, at a random moment, all others must end within the time
    /// limit with an error that names it, and their devices must work; elsewhere the residual must meet the tolerance, and the solution must have the bits of threads.
    /// Exit status 1 if anything else happens: `warpsparse-bench faults --minutes 10`.
    Faults(faults::Options),
}

/// One of the benchmarks, each of which makes a report of its own.
#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// Measures sparse matrix times vector: the automatically chosen kernel, every other kernel, and other libraries.
    Spmv(spmv::Options),
    /// Measures sparse matrix times dense matrix of several widths: the automatically chosen kernel, and other libraries.
    ///
    /// C = A B with A in CSR, and B and C row-major. Prints the report as Markdown:
    /// `warpsparse-bench spmm gen:rmat:17:8 -n 32,64 --json spmm.json`.
    Spmm(spmm::Options),
    /// Measures a ladder of SpMM kernels on stand-ins for 13 published graphs, and cuSPARSE: one thread per row, atomic
    /// additions, GE-SpMM, the automatically chosen kernel, and clustered rows.
    ///
    /// C = A B with A in CSR, f32, and B and C row-major. Prints the report as Markdown:
    /// `warpsparse-bench graphs --graph ddi,collab --json graphs.json`.
    Graphs(graphs::Options),
    /// Measures dense matrix times dense matrix of several shapes against cuBLAS: the default kernel, or a ladder of kernels
    /// from the naive to the best.
    ///
    /// C = A B, row-major. Prints the report as Markdown: `warpsparse-bench gemm 1024 4096x512x64 --json gemm.json`.
    Gemm(gemm::Options),
    /// Measures conjugate gradients: a ladder from cuSPARSE and cuBLAS, called as in NVIDIA's sample, to one launch for many
    /// iterations, and the CPU.
    ///
    /// A x = b with the Jacobi preconditioner. Prints the report as Markdown:
    /// `warpsparse-bench cg gen:poisson2d:512 --dtype f64 --json cg.json`.
    Cg(cg::Options),
    /// Measures vector operations of several lengths, from axpy to random numbers; against cuBLAS where it has them.
    ///
    /// Prints the report as Markdown: `warpsparse-bench vector -n 1048576 --operation axpy,dot --json vector.json`.
    Vector(vector::Options),
    /// Verifies the clock of the other benchmarks: times dense products, ours and cuBLAS's, with it and with Nsight Compute (ncu).
    Clock(clock::Options),
    /// Measures the time from the start of a program to its first result.
    FirstUse(first_use::Options),
    /// Measures sparse matrix times sparse matrix, A A or R A P, against cuSPARSE: whole products, and new values on the same patterns.
    ///
    /// Prints the report as Markdown: `warpsparse-bench spgemm gen:poisson2d:1024 --dtype f32 --json spgemm.json`.
    Spgemm(spgemm::Options),
    /// Measures triangular solves with incomplete factors, and their analysis, against cuSPARSE.
    ///
    /// Prints the report as Markdown: `warpsparse-bench trsv gen:poisson2d:1024 --dtype f64 --json trsv.json`.
    Trsv(trsv::Options),
    /// Measures learning on graphs: SDDMM against cuSPARSE, softmax and attention over edges, and steps of training.
    ///
    /// Prints the report as Markdown: `warpsparse-bench learning gen:rmat:17:8 -k 32 --json learning.json`.
    Learning(learning::Options),
    /// Measures algebraic multigrid: setup, new values and solutions, compared with conjugate gradients with Jacobi's preconditioner.
    ///
    /// Prints the report as Markdown: `warpsparse-bench amg gen:poisson3d:200 --json amg.json`.
    Amg(amg::Options),
    /// Measures block conjugate gradients for many right-hand sides, compared with conjugate gradients for one after the other.
    ///
    /// A X = B with the Jacobi preconditioner. Prints the report as Markdown: `warpsparse-bench many gen:poisson2d:1024 -c 16 --json many.json`.
    Many(many::Options),
    /// Measures orders of rows on the device, reverse Cuthill-McKee and clustering, in products of the same matrix.
    ///
    /// Prints the report as Markdown: `warpsparse-bench orders gen:poisson3d:160 --json orders.json`.
    Orders(orders::Options),
    /// Measures products and conjugate gradients on 1, 2, 4, .. devices: strong and weak scaling, against a model.
    ///
    /// Prints the report as Markdown: `warpsparse-bench scaling gen:poisson3d:256 --weak 200 --json scaling.json`.
    Scaling(scaling::Options),
    /// Measures Krylov methods and preconditioners: an iteration, against the bandwidth's bound where it is known, and whole solutions.
    ///
    /// A x = b. Prints the report as Markdown: `warpsparse-bench solvers gen:convdiff2d:256:10 --method gmres --precond none --json solvers.json`.
    Solvers(solvers::Options),
    /// Measures prefix sums and radix sorts of several lengths against CUB.
    ///
    /// Prints the report as Markdown: `warpsparse-bench sort -n 1048576 --cub cub.csv --json sort.json`. Build bench/cub/sort.cu and run it
    /// on the same GPU for cub.csv.
    Sort(sort::Options),
    /// Measures operations on a matrix between products: new values, scaling, the diagonal, the transpose, triplets to CSR, and conversions
    /// between the formats.
    ///
    /// Prints the report as Markdown: `warpsparse-bench matrix gen:poisson2d:2048 --dtype f32 --json matrix.json`.
    Matrix(matrix::Options),
    /// Measures sparse matrix times vector in every format, and the cost of conversions.
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
            if benchmark.basics().wants_page() && !benchmark.has_page() {
                return Err("--html: this benchmark has no page; --json writes its figures".into());
            }
            let report = benchmark.measure()?;
            benchmark.basics().write(&report.json)?;
            emit(&report.text)?;
            Ok(report.check?)
        }
        Command::Page(options) => page::run(options),
        Command::Compare(options) => compare::run(options),
        Command::Faults(options) => faults::run(options),
    }
}

impl Benchmark {
    fn measure(&self) -> Outcome<Finished> {
        match self {
            Self::Spmv(options) => spmv::measure(options),
            Self::Spmm(options) => spmm::measure(options),
            Self::Spgemm(options) => spgemm::measure(options),
            Self::Trsv(options) => trsv::measure(options),
            Self::Learning(options) => learning::measure(options),
            Self::Amg(options) => amg::measure(options),
            Self::Graphs(options) => graphs::measure(options),
            Self::Gemm(options) => gemm::measure(options),
            Self::Cg(options) => cg::measure(options),
            Self::Vector(options) => vector::measure(options),
            Self::Clock(options) => clock::measure(options),
            Self::FirstUse(options) => first_use::measure(options),
            Self::Many(options) => many::measure(options),
            Self::Orders(options) => orders::measure(options),
            Self::Scaling(options) => scaling::measure(options),
            Self::Solvers(options) => solvers::measure(options),
            Self::Sort(options) => sort::measure(options),
            Self::Matrix(options) => matrix::measure(options),
            Self::Formats(options) => formats::measure(options),
        }
    }

    /// Whether its report can be written as a page with plots.
    fn has_page(&self) -> bool {
        matches!(self, Self::Spmv(_) | Self::Spmm(_) | Self::Graphs(_) | Self::Gemm(_) | Self::Cg(_) | Self::Formats(_))
            || matches!(self, Self::Vector(_) | Self::Clock(_) | Self::FirstUse(_))
    }

    fn basics(&self) -> &Basics {
        match self {
            Self::Spmv(options) => &options.settings.conditions.basics,
            Self::Spmm(options) => &options.settings.conditions.basics,
            Self::Spgemm(options) => &options.settings.conditions.basics,
            Self::Trsv(options) => &options.settings.conditions.basics,
            Self::Learning(options) => &options.settings.conditions.basics,
            Self::Amg(options) => &options.settings.conditions.basics,
            Self::Graphs(options) => &options.basics,
            Self::Gemm(options) => &options.conditions.basics,
            Self::Cg(options) => &options.basics,
            Self::Vector(options) => &options.conditions.basics,
            Self::Clock(options) => &options.basics,
            Self::FirstUse(options) => &options.basics,
            Self::Many(options) => &options.basics,
            Self::Orders(options) => &options.settings.conditions.basics,
            Self::Scaling(options) => &options.basics,
            Self::Solvers(options) => &options.basics,
            Self::Sort(options) => &options.basics,
            Self::Matrix(options) => &options.settings.conditions.basics,
            Self::Formats(options) => &options.settings.conditions.basics,
        }
    }
}

//! The `warpsparse` command. Results go to stdout, narration and progress to stderr.

mod convert;
mod gemm;
mod info;
mod launch;
mod multiply;
mod output;
mod reorder;
mod solve;
mod spmm;
mod spmv;
mod spy;
mod transpose;

use std::process::ExitCode;

use clap::Parser;

/// Sparse and dense linear algebra on NVIDIA GPUs with every kernel in Rust, and on the CPU.
///
/// Exit status: 0 success, 1 failure, 2 wrong usage, 3 not converged, 4 no such device.
#[derive(Parser)]
#[command(name = "warpsparse", version)]
enum Command {
    /// Shows the driver, the devices, the kernels they run, and why a GPU is not used.
    Info(info::Options),
    /// Solves a linear system by an iterative method; reports iterations, residual and time.
    Solve(solve::Options),
    /// Multiplies a sparse matrix by a vector; reports the kernel, its time, bandwidth and error.
    Spmv(spmv::Options),
    /// Multiplies a sparse matrix by a dense one; reports the kernel, its time, bandwidth, speed and error.
    ///
    /// Computes C = A B with A in CSR, a random B of N columns, and B and C row-major: `warpsparse spmm gen:rmat:17:8
    /// -n 64`.
    Spmm(spmm::Options),
    /// Multiplies two dense matrices; reports the kernel, its time, speed and error.
    ///
    /// Computes C = A B with random row-major matrices: `warpsparse gemm -m 1024 -n 512 -k 2048`.
    Gemm(gemm::Options),
    /// Multiplies two sparse matrices, and writes the product to a Matrix Market file.
    ///
    /// Without B, A by itself: `warpsparse multiply tests/data/cora.mtx.gz --out square.mtx.gz`.
    Multiply(multiply::Options),
    /// Transposes a sparse matrix, and writes the transpose to a Matrix Market file.
    ///
    /// `warpsparse transpose tests/data/cora.mtx.gz --out transpose.mtx.gz`.
    Transpose(transpose::Options),
    /// Converts a matrix to a Matrix Market file.
    Convert(convert::Options),
    /// Starts a command in several processes, as the ranks of one computation.
    ///
    /// A process for each GPU of this machine: `warpsparse launch -n 2 -- solve gen:poisson3d:128 --devices ranks`.
    Launch(launch::Options),
    /// Reorders a matrix for better locality, and writes it to a Matrix Market file.
    Reorder(reorder::Options),
    /// Draws the sparsity pattern of a matrix.
    Spy(spy::Options),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Info(options) => info::run(&options),
        Command::Solve(options) => solve::run(&options),
        Command::Spmv(options) => spmv::run(&options),
        Command::Spmm(options) => spmm::run(&options),
        Command::Gemm(options) => gemm::run(&options),
        Command::Multiply(options) => multiply::run(&options),
        Command::Transpose(options) => transpose::run(&options),
        Command::Convert(options) => convert::run(&options),
        Command::Launch(options) => launch::run(&options),
        Command::Reorder(options) => reorder::run(&options),
        Command::Spy(options) => spy::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(exit_status(failure.as_ref()))
        }
    }
}

fn exit_status(failure: &(dyn std::error::Error + 'static)) -> u8 {
    if failure.is::<solve::NotConverged>() { 3 } else { measure::exit_status(failure) }
}

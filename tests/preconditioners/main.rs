//! Preconditioners against references on the host.

#[path = "../common/mod.rs"]
mod common;

mod block_jacobi;
mod chebyshev;
mod fsai;
mod ilu;
mod sweeps;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut trials = ilu::trials();
    trials.extend(block_jacobi::trials());
    trials.extend(chebyshev::trials());
    trials.extend(fsai::trials());
    trials.extend(sweeps::trials());
    common::run(trials)
}

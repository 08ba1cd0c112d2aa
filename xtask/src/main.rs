//! Tasks of this repository that are not cargo's: keeping the prebuilt PTX, and moving to another machine.
#![allow(clippy::print_stdout, reason = "a command's results go to stdout")]

mod bundle;
mod kept;
mod mutants;
mod ptx;
mod ptxas;

#[path = "../../host/ptx/only.rs"]
mod only;

use std::{path::Path, process::ExitCode};

use clap::Parser;

/// Keeps the prebuilt PTX of the kernels, and bundles what a GPU machine needs to test it.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    Bundle(bundle::Options),
    /// What a changed kernel needs before it is committed: `ptx`, then `ptxas --update`.
    Kernels,
    Mutants(mutants::Options),
    Ptx(ptx::Options),
    Ptxas(ptxas::Options),
    TestKernels(ptxas::TestKernels),
}

fn main() -> ExitCode {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let done = root.canonicalize().map_err(Into::into).and_then(|root| match Task::parse() {
        Task::Bundle(options) => bundle::run(&root, &options),
        Task::Kernels => {
            ptx::run(&root, &ptx::Options::default()).and_then(|()| ptxas::run(&root, &ptxas::Options { update: true }))
        }
        Task::Mutants(options) => mutants::run(&root, &options),
        Task::Ptx(options) => ptx::run(&root, &options),
        Task::Ptxas(options) => ptxas::run(&root, &options),
        Task::TestKernels(ptxas::TestKernels) => ptxas::test_kernels(&root),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

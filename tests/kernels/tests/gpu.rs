//! Every self-test kernel gives what plain Rust works out: under the emulator, and from its PTX on the GPU.
//!
//! Without a GPU the trials on it are reported ignored, unless `WARPSPARSE_REQUIRE_GPU=1` demands one: then they fail.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use test_kernels::{
    cases::{Case, selftests},
    gpu::{Gpu, first_device},
};

fn main() -> ExitCode {
    let required = std::env::var("WARPSPARSE_REQUIRE_GPU").is_ok_and(|value| value == "1");
    let ignored = first_device().is_err() && !required;
    let trials = selftests().into_iter().flat_map(|case| {
        let on_emulator = case.clone();
        [
            Trial::test(format!("selftest::{}::emulator", case.name), move || {
                run_on_emulator(&on_emulator)
            }),
            Trial::test(format!("selftest::{}::cuda", case.name), move || run_on_gpu(&case)).with_ignored_flag(ignored),
        ]
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn run_on_emulator(case: &Case) -> Result<(), Failed> {
    case.check(&case.emulate(0, 1)?);
    Ok(())
}

fn run_on_gpu(case: &Case) -> Result<(), Failed> {
    let device = first_device().map_err(|reason| format!("WARPSPARSE_REQUIRE_GPU=1, but {reason}"))?;
    case.check(&Gpu::new(device)?.run(case)?);
    Ok(())
}

//! Every self-test kernel gives what plain Rust works out: under the emulator, and from its PTX on the GPU.
//!
//! Without a GPU the trials on it are reported ignored, unless `WARPSPARSE_REQUIRE_GPU=1` demands one: then they fail.

use std::{
    process::ExitCode,
    sync::{Arc, LazyLock},
};

use cudarc::driver::CudaContext;
use libtest_mimic::{Arguments, Failed, Trial};
use test_kernels::{
    cases::{Case, selftests},
    gpu::{Gpu, first_device},
};

/// One for all trials: each would load the PTX anew.
static GPU: LazyLock<Result<Gpu, String>> = LazyLock::new(|| {
    let device = DEVICE.clone().map_err(|reason| format!("WARPSPARSE_REQUIRE_GPU=1, but {reason}"))?;
    Gpu::new(device)
});
static DEVICE: LazyLock<Result<Arc<CudaContext>, String>> = LazyLock::new(first_device);

fn main() -> ExitCode {
    let required = std::env::var("WARPSPARSE_REQUIRE_GPU").is_ok_and(|value| value == "1");
    let ignored = DEVICE.is_err() && !required;
    let trials = selftests().into_iter().flat_map(|case| {
        let on_emulator = case.clone();
        [
            Trial::test(format!("selftest::{}::emulator", case.name), move || run_on_emulator(&on_emulator)),
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
    let gpu = GPU.as_ref()?;
    case.check(&gpu.run(case)?);
    Ok(())
}

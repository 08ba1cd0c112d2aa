//! Every self-test kernel gives what plain Rust works out: under the emulator, and from its PTX on the GPU.
//!
//! Without a GPU the trials on it are reported ignored, unless `WARPSPARSE_REQUIRE_GPU=1` demands one: then they fail. They
//! are ignored too where there is a GPU, but neither the kernels' PTX nor a toolchain to build it.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, LazyLock},
};

use cuda_builder::{Arch, CudaBuilder};
use cudarc::driver::CudaContext;
use libtest_mimic::{Arguments, Failed, Trial};
use test_kernels::{
    cases::{Case, hopper, selftests},
    gpu::{Gpu, first_device, ptx_for},
};

/// One for all trials: each would load the PTX anew.
static GPU: LazyLock<Result<Gpu, String>> = LazyLock::new(|| {
    let device = DEVICE.clone().map_err(|reason| format!("WARPSPARSE_REQUIRE_GPU=1, but {reason}"))?;
    Gpu::with_ptx(device, PTX.as_ref()?)
});
static DEVICE: LazyLock<Result<Arc<CudaContext>, String>> = LazyLock::new(first_device);

/// What a bundle brings along, or else is built here and now.
static PTX: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    ptx_for(DEVICE.as_ref()?).or_else(|missing| {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("test_kernels.sm_75.ptx");
        let builder = CudaBuilder::new(env!("CARGO_MANIFEST_DIR")).arch(Arch::Sm75).allow_faults(true).copy_to(built);
        builder.build().map_err(|error| format!("{missing}; and building it failed: {error}"))
    })
});

fn main() -> ExitCode {
    let required = std::env::var("WARPSPARSE_REQUIRE_GPU").is_ok_and(|value| value == "1");
    // A GPU can be demanded, but not a kernel toolchain.
    let ignored = if DEVICE.is_err() { !required } else { PTX.is_err() };
    if let (Ok(_), Err(reason)) = (&*DEVICE, &*PTX) {
        eprintln!("the trials on the GPU are ignored: {reason}");
    }
    let trials = selftests().into_iter().flat_map(|case| {
        let on_emulator = case.clone();
        [
            Trial::test(format!("selftest::{}::emulator", case.name), move || run_on_emulator(&on_emulator)),
            Trial::test(format!("selftest::{}::cuda", case.name), move || run_on_gpu(&case)).with_ignored_flag(ignored),
        ]
    });
    // No GPU has run these yet: the driver would have to make their tensor maps.
    let of_hopper = hopper()
        .into_iter()
        .map(|case| Trial::test(format!("hopper::{}::emulator", case.name), move || run_on_emulator(&case)));
    libtest_mimic::run(&Arguments::from_args(), trials.chain(of_hopper).collect()).exit_code()
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

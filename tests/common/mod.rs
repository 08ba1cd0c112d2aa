//! What the tests on devices share: one body runs on every device, and matrices whose structure is hard in some way.

#![allow(dead_code)] // every test binary uses a part

pub(crate) mod dense;
pub(crate) mod direct;
pub(crate) mod extremes;
pub(crate) mod integers;
pub(crate) mod matrices;
pub(crate) mod properties;
pub(crate) mod sums;
pub(crate) mod uploads;

use std::{process::ExitCode, sync::LazyLock};

use libtest_mimic::{Arguments, Trial};
use warpsparse::{Device, Scalar};

pub(crate) use self::sums::{assert_exact, assert_within};

/// The test `body` once for each device: `name::cpu`, `name::emulated`, `name::cuda`.
///
/// Without a GPU the last is reported ignored, unless `WARPSPARSE_REQUIRE_GPU=1` demands one: then it fails.
pub(crate) fn on_every_device(name: &str, body: fn(&Device)) -> Vec<Trial> {
    let mut trials = on_cpu_and_gpu(name, body);
    // Any seed but 0, so that threads run in another order than their natural one.
    trials.push(on_device(format!("{name}::emulated"), body, || Device::emulated(1)));
    trials
}

/// As [`on_every_device`], without the emulator: for what would take it too long.
pub(crate) fn on_cpu_and_gpu(name: &str, body: fn(&Device)) -> Vec<Trial> {
    vec![on_device(format!("{name}::cpu"), body, Device::cpu), on_gpu(name, body)]
}

/// As [`on_every_device`], without the CPU: for what concerns the GPU's kernels.
pub(crate) fn on_emulator_and_gpu(name: &str, body: impl FnOnce(&Device) + Send + Clone + 'static) -> Vec<Trial> {
    vec![on_device(format!("{name}::emulated"), body.clone(), || Device::emulated(1)), on_gpu(name, body)]
}

/// A device that shares no memory with this one.
pub(crate) fn other(device: &Device) -> Device {
    if device.to_string() == "cpu" { Device::emulated(1) } else { Device::cpu() }
}

pub(crate) fn on_device(name: String, body: impl FnOnce(&Device) + Send + 'static, device: fn() -> Device) -> Trial {
    Trial::test(name, move || {
        body(&device());
        Ok(())
    })
}

/// The first GPU, which stays open between tests: opening it anew takes tenths of a second, and seconds under compute-sanitizer.
static GPU: LazyLock<Result<Device, String>> =
    LazyLock::new(|| Device::cuda(0).map_err(|error| format!("WARPSPARSE_REQUIRE_GPU=1, but {error}")));

/// The test `body` on the first GPU.
pub(crate) fn on_gpu(name: &str, body: impl FnOnce(&Device) + Send + 'static) -> Trial {
    let required = std::env::var("WARPSPARSE_REQUIRE_GPU").is_ok_and(|value| value == "1");
    let without_gpu = !required && GPU.is_err();
    let run = move || {
        body(GPU.as_ref()?);
        Ok(())
    };
    Trial::test(format!("{name}::cuda"), run).with_ignored_flag(without_gpu)
}

/// Runs the tests as `cargo test` expects.
pub(crate) fn run(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The bits of numbers, as those of `f64`.
pub(crate) fn bits<T: Scalar>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.to_f64().to_bits()).collect()
}

/// A reproducible sequence of numbers in [-1, 1): Knuth's 64-bit linear congruential generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next_unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub(crate) fn next_below(&mut self, limit: usize) -> usize {
        (((self.next_unit() + 1.0) / 2.0 * limit as f64) as usize).min(limit.saturating_sub(1))
    }

    pub(crate) fn vector<T: Scalar>(&mut self, len: usize) -> Vec<T> {
        (0..len).map(|_| T::from_f64(self.next_unit())).collect()
    }
}

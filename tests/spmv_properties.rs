//! Every SpMV kernel on random matrices, on every device: within rounding of the reference in f64, and the same bits
//! from the emulator and from the GPU.

mod common;

use std::process::ExitCode;

use common::{assert_within, on_device, on_gpu, reference_spmv};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use warpsparse::{CsrMatrix, DType, Device, Lanes, Scalar, SpmvOptions, strategies};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for family in kernels_gpu::FAMILIES.iter().filter(|family| family.name.starts_with("spmv_")) {
        assert_eq!(family.name, "spmv_csr_vector", "a new family needs its own properties here");
        for variant in family.variants {
            let body = match variant.dtype.expect("a product has elements") {
                DType::F32 => every_case::<f32>,
                DType::F64 => every_case::<f64>,
            };
            let lanes = variant.lanes;
            let body = move |device: &Device| body(device, lanes);
            trials.push(on_device(format!("{}::emulated", variant.entry), body, || Device::emulated(1)));
            trials.push(on_gpu(variant.entry, body));
        }
    }
    trials.push(on_device("cpu_csr_f32::cpu".into(), |cpu| every_case::<f32>(cpu, 1), Device::cpu));
    trials.push(on_device("cpu_csr_f64::cpu".into(), |cpu| every_case::<f64>(cpu, 1), Device::cpu));
    common::run(trials)
}

/// proptest's number of cases: 256, or what `PROPTEST_CASES` says. The same cases in every run.
fn every_case<T: Scalar>(device: &Device, lanes: u32) {
    let cases = strategies::csr_matrix::<T>().prop_flat_map(|matrix| {
        let (x, y) = (strategies::vector(matrix.ncols()), strategies::vector(matrix.nrows()));
        (Just(matrix), x, y, strategies::factor(), strategies::factor())
    });
    let config = Config { failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, random).run(&cases, |(matrix, x, mut y, alpha, beta)| {
        if beta == T::from_f64(0.0) {
            y.fill(T::from_f64(f64::NAN));
        }
        let found = product(device, &matrix, lanes, alpha, &x, beta, &y);
        assert_within("a random matrix", &found, &reference_spmv(&matrix, alpha, &x, beta, &y));
        if device.is_cuda() {
            let bits = |values: &[T]| values.iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>();
            let emulated = product(&Device::emulated(2), &matrix, lanes, alpha, &x, beta, &y);
            prop_assert_eq!(bits(&found), bits(&emulated));
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

fn product<T: Scalar>(
    device: &Device,
    matrix: &CsrMatrix<T>,
    lanes: u32,
    alpha: T,
    x: &[T],
    beta: T,
    y: &[T],
) -> Vec<T> {
    let matrix = device.upload_with(matrix, &SpmvOptions::default().lanes(Lanes::Fixed(lanes))).unwrap();
    let mut y = device.upload_vec(y).unwrap();
    matrix.spmv(alpha, &device.upload_vec(x).unwrap(), beta, &mut y).unwrap();
    y.to_vec().unwrap()
}

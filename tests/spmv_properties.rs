//! Every SpMV kernel on random matrices, on every device: within rounding of the reference in f64, and the same bits
//! from the emulator and from the GPU.

mod common;

use std::process::ExitCode;

use common::{assert_within, on_device, on_gpu, reference_spmv};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use warpsparse::{CsrKernel, CsrMatrix, DType, Device, Lanes, Offset, Scalar, SpmvOptions, strategies};

/// Checks the kernel that the options name.
type Body = fn(&Device, &SpmvOptions);

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for family in kernels_gpu::FAMILIES.iter().filter(|family| family.name.starts_with("spmv_")) {
        let options = match family.name {
            "spmv_csr_vector" => SpmvOptions::default().kernel(CsrKernel::Vector),
            // So that most matrices have rows in several pieces.
            "spmv_csr_adaptive" => SpmvOptions::default().kernel(CsrKernel::Adaptive).long_row(7),
            // In tests/spmv_formats.rs.
            "spmv_coo" | "spmv_csr_scatter" | "spmv_dia" | "spmv_ell" => continue,
            other => panic!("{other} needs its own properties here"),
        };
        for variant in family.variants {
            let body: Body = match (variant.dtype.expect("a product has elements"), variant.offset_bytes) {
                (DType::F32, 4) => every_case::<f32, u32>,
                (DType::F64, 4) => every_case::<f64, u32>,
                (DType::F32, 8) => every_case::<f32, u64>,
                (DType::F64, 8) => every_case::<f64, u64>,
                (_, bytes) => panic!("{}: offsets of {bytes} bytes", variant.entry),
            };
            let options = options.clone().lanes(Lanes::Fixed(variant.lanes));
            let body = move |device: &Device| body(device, &options);
            trials.push(on_device(format!("{}::emulated", variant.entry), body.clone(), || Device::emulated(1)));
            trials.push(on_gpu(variant.entry, body));
        }
    }
    let cpu_bodies: [(_, Body); 4] = [
        ("cpu_csr_f32::cpu", every_case::<f32, u32>),
        ("cpu_csr_f64::cpu", every_case::<f64, u32>),
        ("cpu_csr_f32_o64::cpu", every_case::<f32, u64>),
        ("cpu_csr_f64_o64::cpu", every_case::<f64, u64>),
    ];
    for (name, body) in cpu_bodies {
        trials.push(on_device(name.into(), move |cpu| body(cpu, &SpmvOptions::default()), Device::cpu));
    }
    common::run(trials)
}

/// proptest's number of cases: 256, or what `PROPTEST_CASES` says. The same cases in every run.
fn every_case<T: Scalar, O: Offset>(device: &Device, options: &SpmvOptions) {
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
        let with_offsets = with_offsets::<T, O>(&matrix);
        let found = product(device, &with_offsets, options, alpha, &x, beta, &y);
        assert_within("a random matrix", &found, &reference_spmv(&matrix, alpha, &x, beta, &y));
        if device.is_cuda() {
            let bits = |values: &[T]| values.iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>();
            let emulated = product(&Device::emulated(2), &with_offsets, options, alpha, &x, beta, &y);
            prop_assert_eq!(bits(&found), bits(&emulated));
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The same matrix with offsets of type `O`.
fn with_offsets<T: Scalar, O: Offset>(matrix: &CsrMatrix<T>) -> CsrMatrix<T, O> {
    let offsets = matrix.row_offsets().iter().map(|&offset| offset.into()).collect();
    let (columns, values) = (matrix.col_indices().to_vec(), matrix.values().to_vec());
    CsrMatrix::try_from_csr_data(matrix.nrows(), matrix.ncols(), offsets, columns, values).expect("it was valid")
}

fn product<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T, O>,
    options: &SpmvOptions,
    alpha: T,
    x: &[T],
    beta: T,
    y: &[T],
) -> Vec<T> {
    let matrix = device.upload_with(matrix, options).unwrap();
    let mut y = device.upload_vec(y).unwrap();
    matrix.spmv(alpha, &device.upload_vec(x).unwrap(), beta, &mut y).unwrap();
    y.to_vec().unwrap()
}

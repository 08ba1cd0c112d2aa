//! Every SpMV kernel on random matrices, on every device: within rounding of the reference in f64, also where numbers are infinite, NaN,
//! huge, tiny or denormal; and the same bits from the emulator and from the GPU.

mod common;

use std::process::ExitCode;

use common::{
    assert_within,
    extremes::{self, Additions},
    on_device, on_gpu, properties,
    sums::reference_spmv,
};
use kernels_gpu::{spmv_csr_adaptive, spmv_csr_vector};
use proptest::prelude::*;
use warpsparse::{CsrKernel, CsrMatrix, DType, Device, Lanes, Offset, Scalar, SpmvOptions, strategies};

/// Checks the kernel of a name that the options choose.
type Body = fn(&str, &Device, &SpmvOptions);

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for family in kernels_gpu::FAMILIES.iter().filter(|family| family.name.starts_with("spmv_")) {
        match family.name {
            "spmv_csr_vector" | "spmv_csr_adaptive" => {}
            // In tests/spmv_formats.rs and tests/bsr.rs.
            "spmv_bsr" | "spmv_coo" | "spmv_csr_scatter" | "spmv_dia" | "spmv_ell" => {}
            // In tests/spmv_packed.rs.
            "spmv_csr_packed" => {}
            other => panic!("{other} needs its own properties here"),
        }
    }
    let vector = SpmvOptions::default().kernel(CsrKernel::Vector);
    let vector = spmv_csr_vector::KEYS.iter().map(|key| (key.entry(), key.dtype, key.offset_bytes, key.lanes, &vector));
    // So that most matrices have rows in several pieces.
    let adaptive = SpmvOptions::default().kernel(CsrKernel::Adaptive).split_threshold(7);
    let adaptive =
        spmv_csr_adaptive::KEYS.iter().map(|key| (key.entry(), key.dtype, key.offset_bytes, key.lanes, &adaptive));
    for (entry, dtype, offset_bytes, lanes, options) in vector.chain(adaptive) {
        let body: Body = match (dtype, offset_bytes) {
            (DType::F32, 4) => every_case::<f32, u32>,
            (DType::F64, 4) => every_case::<f64, u32>,
            (DType::F32, 8) => every_case::<f32, u64>,
            (DType::F64, 8) => every_case::<f64, u64>,
            (_, bytes) => panic!("{}: offsets of {bytes} bytes", entry.name),
        };
        let options = options.clone().lanes(Lanes::Fixed(lanes));
        let body = move |device: &Device| body(entry.name, device, &options);
        trials.push(on_device(format!("{}::emulated", entry.name), body.clone(), || Device::emulated(1)));
        trials.push(on_gpu(entry.name, body));
    }
    let cpu_bodies: [(_, Body); 4] = [
        ("cpu_csr_f32", every_case::<f32, u32>),
        ("cpu_csr_f64", every_case::<f64, u32>),
        ("cpu_csr_f32_o64", every_case::<f32, u64>),
        ("cpu_csr_f64_o64", every_case::<f64, u64>),
    ];
    for (name, body) in cpu_bodies {
        let body = move |cpu: &Device| body(name, cpu, &SpmvOptions::default());
        trials.push(on_device(format!("{name}::cpu"), body, Device::cpu));
    }
    common::run(trials)
}

fn every_case<T: Scalar, O: Offset>(name: &str, device: &Device, options: &SpmvOptions) {
    let cases = strategies::csr_matrix::<T>().prop_flat_map(|matrix| {
        let (x, y) = (strategies::vector(matrix.ncols()), strategies::vector(matrix.nrows()));
        (Just(matrix), x, y, strategies::factor(), strategies::factor())
    });
    properties::check(name, 96, cases, |(matrix, x, mut y, alpha, beta)| {
        if beta == T::default() {
            y.fill(T::from_f64(f64::NAN));
        }
        let found = product::<T, O>(device, &matrix, options, (alpha, &x), (beta, &y))?;
        assert_within("a random matrix", &found, &reference_spmv(&matrix, alpha, &x, beta, &y));
        Ok(())
    });
    let cases = strategies::csr_matrix_with_extremes::<T>().prop_flat_map(|matrix| {
        let x = strategies::vector_with_extremes(matrix.ncols());
        let y = strategies::vector_with_extremes(matrix.nrows());
        (Just(matrix), x, y, strategies::factor(), strategies::factor())
    });
    properties::check(&format!("{name}_extremes"), 32, cases, |(matrix, x, y, alpha, beta)| {
        let found = product::<T, O>(device, &matrix, options, (alpha, &x), (beta, &y))?;
        extremes::check("a random matrix", Additions::InRegisters, matrix.triplets(), (alpha, &x), (beta, &y), &found);
        Ok(())
    });
}

/// The product; on a GPU, one that has the bits of the emulator's.
fn product<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T>,
    options: &SpmvOptions,
    (alpha, x): (T, &[T]),
    (beta, y): (T, &[T]),
) -> Result<Vec<T>, TestCaseError> {
    let matrix = with_offsets::<T, O>(matrix);
    let product_on = |device: &Device| {
        let matrix = device.upload_with(&matrix, options).unwrap();
        let mut y = device.upload_vec(y).unwrap();
        matrix.spmv(alpha, &device.upload_vec(x).unwrap(), beta, &mut y).unwrap();
        y.to_vec().unwrap()
    };
    let found = product_on(device);
    if device.is_cuda() {
        // GPUs have a NaN of their own.
        let bits = |value: &T| if value.to_f64().is_nan() { f64::NAN.to_bits() } else { value.to_f64().to_bits() };
        let bits = |values: &[T]| values.iter().map(bits).collect::<Vec<_>>();
        prop_assert_eq!(bits(&found), bits(&product_on(&Device::emulated(2))));
    }
    Ok(found)
}

/// The same matrix with offsets of type `O`.
fn with_offsets<T: Scalar, O: Offset>(matrix: &CsrMatrix<T>) -> CsrMatrix<T, O> {
    let offsets = matrix.row_offsets().iter().map(|&offset| offset.into()).collect();
    let (columns, values) = (matrix.col_indices().to_vec(), matrix.values().to_vec());
    CsrMatrix::try_from_csr_data(matrix.nrows(), matrix.ncols(), offsets, columns, values).expect("it was valid")
}

//! Products in every format, on every device, against a reference in f64.

mod common;

use std::process::ExitCode;

use common::{
    Random, assert_exact, assert_within, bits,
    extremes::{self, Additions},
    integers, matrices, on_device, on_every_device, on_gpu, other, properties,
    sums::reference_spmv,
};
use proptest::prelude::*;
use warpsparse::{
    BlockSize, BsrMatrix, CooMatrix, CscMatrix, CsrKernel, CsrMatrix, DType, Device, DeviceMatrix, DiaMatrix,
    EllMatrix, Error, FormatChoice, HostMatrix, HybMatrix, IntoFactor, Result, Scalar, SpmvOptions, strategies,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("every_format_f32", every_format::<f32>));
    trials.extend(on_every_device("every_format_f64", every_format::<f64>));
    trials.extend(on_every_device("sums_of_integers_are_exact_f32", sums_of_integers::<f32>));
    trials.extend(on_every_device("sums_of_integers_are_exact_f64", sums_of_integers::<f64>));
    trials.extend(on_every_device("transposed_products_f32", transposed_products::<f32>));
    trials.extend(on_every_device("transposed_products_f64", transposed_products::<f64>));
    trials.extend(on_every_device("many_diagonals_f32", many_diagonals::<f32>));
    trials.extend(on_every_device("many_diagonals_f64", many_diagonals::<f64>));
    trials.extend(on_every_device("what_is_no_entry_does_not_touch_x", what_is_no_entry_does_not_touch_x));
    trials.extend(on_every_device("factors_in_device_memory_f32", factors_in_device_memory::<f32>));
    trials.extend(on_every_device("factors_in_device_memory_f64", factors_in_device_memory::<f64>));
    trials.extend(on_every_device("beta_zero_does_not_read_y", beta_zero_does_not_read_y));
    trials.extend(on_every_device("same_input_same_bits", same_input_same_bits));
    trials.extend(on_every_device("slices_get_the_same_bits_f32", slices_get_the_same_bits::<f32>));
    trials.extend(on_every_device("slices_get_the_same_bits_f64", slices_get_the_same_bits::<f64>));
    trials.extend(on_every_device("graphs_repeat_products", graphs_repeat_products));
    trials.extend(on_every_device("csr_is_converted_as_the_options_say", csr_is_converted_as_the_options_say));
    trials.extend(on_every_device("what_does_not_suit_a_format_is_an_error", what_does_not_suit_a_format));
    trials.extend(on_every_device("bytes_are_those_of_the_format", bytes_are_those_of_the_format));
    trials.extend(on_every_device("wrong_lengths_are_errors", wrong_lengths_are_errors));
    trials.extend(on_every_device("random_matrices_f32", random_matrices::<f32>));
    trials.extend(on_every_device("random_matrices_f64", random_matrices::<f64>));
    trials.extend(on_every_device("extreme_numbers_f32", extreme_numbers::<f32>));
    trials.extend(on_every_device("extreme_numbers_f64", extreme_numbers::<f64>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    trials.push(on_device("auto_keeps_csr::cpu".into(), auto_keeps_csr, Device::cpu));
    trials.push(on_gpu("auto_finds_diagonals", auto_finds_diagonals));
    trials.extend(on_every_device("timing_considers_every_format_f32", timing_considers_every_format::<f32>));
    trials.extend(on_every_device("timing_considers_every_format_f64", timing_considers_every_format::<f64>));
    trials.push(on_gpu("graphs_and_products_take_turns", graphs_and_products_take_turns));
    trials.extend(on_every_device("options_lead_back_to_the_same_kernels", options_lead_back));
    trials.extend(on_every_device("an_infinite_factor_stays_in_rows_of_hyb", an_infinite_factor_stays_in_rows_of_hyb));
    common::run(trials)
}

/// The matrix in every format that it fits into, but for CSR.
fn uploads<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>) -> Vec<(&'static str, DeviceMatrix<T>)> {
    // The emulator is slow.
    let fill = if device.to_string() == "emulated" { 40.0 } else { 1000.0 };
    let coo = CooMatrix::from(matrix);
    let triplets: Vec<_> = coo.triplets().collect();
    let backwards = |of: fn(&(usize, usize, T)) -> u32| triplets.iter().rev().map(of).collect();
    let values = triplets.iter().rev().map(|&(_, _, value)| value).collect();
    let (rows, columns) = (backwards(|&(i, _, _)| i as u32), backwards(|&(_, j, _)| j as u32));
    let unsorted = CooMatrix::try_from_triplets(matrix.nrows(), matrix.ncols(), rows, columns, values).unwrap();
    let mut uploads = vec![
        ("COO", device.upload(&coo).unwrap()),
        ("COO, unsorted", device.upload(&unsorted).unwrap()),
        ("HYB", device.upload(&HybMatrix::try_from(matrix).unwrap()).unwrap()),
    ];
    if let Some(hyb) = fitting(HybMatrix::from_csr_with_width(matrix, 3)) {
        uploads.push(("HYB of 3 slots", device.upload(&hyb).unwrap()));
    }
    if let Some(ell) = fitting(EllMatrix::from_csr_with_fill(matrix, fill)) {
        uploads.push(("ELL", device.upload(&ell).unwrap()));
    }
    if let Some(dia) = fitting(DiaMatrix::from_csr_with_fill(matrix, fill)) {
        uploads.push(("DIA", device.upload(&dia).unwrap()));
    }
    for (name, size) in [("BSR of 2", 2), ("BSR of 3", 3), ("BSR of 8", 8)] {
        if let Some(bsr) = fitting(BsrMatrix::from_csr_with_fill(matrix, BlockSize::Fixed(size), fill)) {
            uploads.push((name, device.upload(&bsr).unwrap()));
        }
    }
    let nondeterministic = SpmvOptions::default().nondeterministic();
    uploads.push(("CSC", device.upload_with(&CscMatrix::try_from(matrix).unwrap(), &nondeterministic).unwrap()));
    uploads
}

fn fitting<M>(converted: Result<M>) -> Option<M> {
    match converted {
        Ok(matrix) => Some(matrix),
        Err(Error::PaddingExceeded { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

const FACTORS: [(f64, f64); 4] = [(1.0, 0.0), (1.0, 1.0), (-2.5, 0.75), (0.0, 2.0)];

fn every_format<T: Scalar>(device: &Device) {
    let mut formats = 0;
    for (name, matrix) in matrices::all::<T>() {
        for (format, uploaded) in uploads(device, &matrix) {
            formats += 1;
            assert_eq!((uploaded.nrows(), uploaded.ncols()), (matrix.nrows(), matrix.ncols()));
            for (alpha, beta) in FACTORS {
                let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
                let case = format!("{name} in {format}, alpha {alpha}, beta {beta}");
                let (x, y) = vectors(matrix.ncols(), matrix.nrows(), beta);
                let found = product(&uploaded, alpha, &x, beta, &y);
                assert_within(&case, &found, &reference_spmv(&matrix, alpha, &x, beta, &y));
            }
        }
    }
    // 19 matrices in 4 formats at least: most of them also in ELL, DIA, and HYB of 3 slots.
    assert!(formats > 19 * 6, "{formats}");
}

/// Not one entry is lost, or taken twice: see [`integers`].
fn sums_of_integers<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let matrix = integers::matrix(&matrix);
        let (alpha, beta) = (T::from_f64(-1.0), T::from_f64(3.0));
        let (x, y) = (integers::vector(1, matrix.ncols()), integers::vector(2, matrix.nrows()));
        let expected = reference_spmv(&matrix, alpha, &x, beta, &y);
        for (format, uploaded) in uploads(device, &matrix) {
            assert_exact(&format!("{name} in {format}"), &product(&uploaded, alpha, &x, beta, &y), &expected);
        }

        let (x, y) = (integers::vector(1, matrix.nrows()), integers::vector(2, matrix.ncols()));
        let expected = reference_spmv(&matrix.transpose().unwrap(), alpha, &x, beta, &y);
        for (format, uploaded) in transposable(device, &matrix) {
            let found = product_with_transpose(&uploaded, alpha, &x, beta, &y);
            assert_exact(&format!("the transpose of {name} in {format}"), &found, &expected);
        }
    }
}

/// Of 515 rows.
fn banded<T: Scalar>(diagonals: usize) -> CsrMatrix<T> {
    let n = 515;
    let columns = |i: usize| (0..diagonals).filter_map(move |d| (i + 3 * d).checked_sub(20).filter(|&j| j < n));
    let rows = (0..n).map(|i| columns(i).map(|j| (j, ((i * 7 + j) % 13) as f64 - 6.0)).collect()).collect();
    matrices::from_rows::<T>(n, rows)
}

/// DIA has a kernel for few diagonals and one for more than 16; bands that leave a remainder of either's steps and rows.
fn many_diagonals<T: Scalar>(device: &Device) {
    for (diagonals, rows_of_thread) in [(16, 2), (17, if T::DTYPE == DType::F32 { 4 } else { 2 }), (27, 0)] {
        let (n, matrix) = (515, banded::<T>(diagonals));
        let uploaded = device.upload(&DiaMatrix::try_from(&matrix).unwrap()).unwrap();
        if rows_of_thread > 0 && device.to_string() != "cpu" {
            assert!(uploaded.describe().kernel.ends_with(&format!("_r{rows_of_thread}")), "{}", uploaded.describe());
        }
        for (alpha, beta) in FACTORS {
            let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
            let (x, y) = vectors(n, n, beta);
            let found = product(&uploaded, alpha, &x, beta, &y);
            let case = format!("{diagonals} diagonals, beta {beta}");
            assert_within(&case, &found, &reference_spmv(&matrix, alpha, &x, beta, &y));
        }
    }
}

/// The matrix in every format that has a product with the transpose.
fn transposable<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>) -> [(&'static str, DeviceMatrix<T>); 3] {
    let nondeterministic = SpmvOptions::default().nondeterministic();
    let csr_64 = CsrMatrix::<T, u64>::from(matrix);
    [
        ("CSR", device.upload_with(matrix, &nondeterministic).unwrap()),
        ("CSR, 64-bit offsets", device.upload_with(&csr_64, &nondeterministic).unwrap()),
        ("CSC", device.upload(&CscMatrix::try_from(matrix).unwrap()).unwrap()),
    ]
}

fn transposed_products<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let transpose = matrix.transpose().unwrap();
        for (format, uploaded) in transposable(device, &matrix) {
            for (alpha, beta) in FACTORS {
                let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
                let (x, y) = vectors::<T>(matrix.nrows(), matrix.ncols(), beta);
                let found = product_with_transpose(&uploaded, alpha, &x, beta, &y);
                let case = format!("{name} in {format}, beta {beta}");
                assert_within(&case, &found, &reference_spmv(&transpose, alpha, &x, beta, &y));
            }
        }
    }
}

/// x, and y, which is not a number where it must not be read.
fn vectors<T: Scalar>(x_len: usize, y_len: usize, beta: T) -> (Vec<T>, Vec<T>) {
    let mut random = Random(7);
    let x = random.vector(x_len);
    let y = if beta.to_f64() == 0.0 { vec![T::from_f64(f64::NAN); y_len] } else { random.vector(y_len) };
    (x, y)
}

fn product<T: Scalar>(matrix: &DeviceMatrix<T>, alpha: T, x: &[T], beta: T, y: &[T]) -> Vec<T> {
    let device = matrix.device();
    let mut y = device.upload_vec(y).unwrap();
    matrix.spmv(alpha, &device.upload_vec(x).unwrap(), beta, &mut y).unwrap();
    y.to_vec().unwrap()
}

fn product_with_transpose<T: Scalar>(matrix: &DeviceMatrix<T>, alpha: T, x: &[T], beta: T, y: &[T]) -> Vec<T> {
    let device = matrix.device();
    let mut y = device.upload_vec(y).unwrap();
    matrix.spmv_transposed(alpha, &device.upload_vec(x).unwrap(), beta, &mut y).unwrap();
    y.to_vec().unwrap()
}

/// Sums of integers, and eighths of them, are exact: also those in no fixed order. With a `beta` of 0, `y` is not read.
fn factors_in_device_memory<T: Scalar>(device: &Device) {
    let number = T::from_f64;
    let rows = (0..43).map(|i| (0..i % 7).map(|k| ((i * 5 + k * 3) % 31, 0.1 + k as f64)).collect()).collect();
    let matrix = integers::matrix(&matrices::from_rows::<T>(31, rows));
    let transpose = matrix.transpose().unwrap();
    let adaptive = SpmvOptions::default().kernel(CsrKernel::Adaptive).split_threshold(4);
    let mut all = uploads(device, &matrix);
    all.push(("adaptive", device.upload_with(&matrix, &adaptive).unwrap()));
    all.push(("vector", device.upload_with(&matrix, &SpmvOptions::default().kernel(CsrKernel::Vector)).unwrap()));
    let [three, eight, zero] = [3.0, 8.0, 0.0].map(|value| device.scalar(number(value)).unwrap());
    let (x, y) = (integers::vector::<T>(1, 31), integers::vector::<T>(2, 43));
    let (x_on_device, nans) = (device.upload_vec(&x).unwrap(), vec![number(f64::NAN); 43]);
    let of = |scalar| IntoFactor::<T>::into_factor(scalar);
    let factors = [
        ((of(&three), 3.0), (of(&eight), 8.0), &y),
        ((-&eight, -8.0), (&three / &eight, 0.375), &y),
        ((of(&three), 3.0), (of(&zero), 0.0), &nans),
    ];
    for (name, uploaded) in &all {
        for ((alpha, host_alpha), (beta, host_beta), y) in factors {
            let mut found = device.upload_vec(y).unwrap();
            uploaded.spmv(alpha, &x_on_device, beta, &mut found).unwrap();
            let expected = reference_spmv(&matrix, number(host_alpha), &x, number(host_beta), y);
            assert_exact(&format!("{name}, alpha {host_alpha}"), &found.to_vec().unwrap(), &expected);
        }
    }
    let y_on_device = device.upload_vec(&y).unwrap();
    for (name, uploaded) in transposable(device, &matrix) {
        let mut found = device.upload_vec(&x).unwrap();
        uploaded.spmv_transposed(-&three, &y_on_device, &eight, &mut found).unwrap();
        let expected = reference_spmv(&transpose, number(-3.0), &y, number(8.0), &x);
        assert_exact(name, &found.to_vec().unwrap(), &expected);
    }
    // A scalar of another device.
    let (elsewhere, uploaded) = (other(device).scalar(number(1.0)).unwrap(), &all[0].1);
    let mut y = device.zeros(43).unwrap();
    for error in [
        uploaded.spmv(&elsewhere, &x_on_device, number(0.0), &mut y).unwrap_err(),
        uploaded.spmv(number(1.0), &x_on_device, &three / &elsewhere, &mut y).unwrap_err(),
    ] {
        assert!(matches!(error, Error::DeviceMismatch { what: "alpha" | "beta", .. }), "{error}");
    }
}

/// Wherever the slices begin, and the elements around `y` stay.
fn slices_get_the_same_bits<T: Scalar>(device: &Device) {
    let rows = (0..43).map(|i| (0..i % 7).map(|k| ((i * 5 + k * 3) % 31, 0.1 + k as f64)).collect()).collect();
    let matrix = matrices::from_rows::<T>(31, rows);
    let adaptive = SpmvOptions::default().kernel(CsrKernel::Adaptive).split_threshold(4);
    let mut all = uploads(device, &matrix);
    all.push(("adaptive", device.upload_with(&matrix, &adaptive).unwrap()));
    all.push(("vector", device.upload_with(&matrix, &SpmvOptions::default().kernel(CsrKernel::Vector)).unwrap()));
    all.push(("CSC, transposed", device.upload(&CscMatrix::try_from(&matrix.transpose().unwrap()).unwrap()).unwrap()));
    for (name, uploaded) in all {
        for (first, (alpha, beta)) in (0..5).flat_map(|first| FACTORS.map(|factors| (first, factors))) {
            let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
            let (x, y) = vectors::<T>(31, 43, beta);
            let within = |values: &[T]| {
                let around = vec![T::from_f64(7.0); 4];
                device.upload_vec(&[&around[..first], values, &around].concat()).unwrap()
            };
            let (x_within, mut y_within) = (within(&x), within(&y));
            let (x_slice, y_slice) =
                (x_within.slice(first..first + 31).unwrap(), y_within.slice_mut(first..first + 43).unwrap());
            let expected = match name {
                "CSC, transposed" => {
                    uploaded.spmv_transposed(alpha, x_slice, beta, y_slice).unwrap();
                    product_with_transpose(&uploaded, alpha, &x, beta, &y)
                }
                _ => {
                    uploaded.spmv(alpha, x_slice, beta, y_slice).unwrap();
                    product(&uploaded, alpha, &x, beta, &y)
                }
            };
            let found = y_within.to_vec().unwrap();
            let case = format!("{name} at {first}, beta {beta}");
            match name {
                // Its additions have no fixed order.
                "CSC" => assert_within(&case, &found[first..first + 43], &reference_spmv(&matrix, alpha, &x, beta, &y)),
                _ => assert_eq!(found[first..first + 43], expected, "{case}"),
            }
            assert!(
                found[..first].iter().chain(&found[first + 43..]).all(|&value| value == T::from_f64(7.0)),
                "{name} at {first}"
            );
        }
    }
}

/// Infinities and NaN in x stay in the rows that have entries there.
fn what_is_no_entry_does_not_touch_x(device: &Device) {
    let rows = vec![vec![(1, 1.0)], vec![(0, 1.0), (1, 1.0)], vec![], vec![(2, 1.0)], vec![(3, 2.0), (1, 1.0)]];
    let matrix = matrices::from_rows::<f32>(4, rows);
    // In BSR the zeros that fill up blocks are entries.
    for (format, uploaded) in uploads(device, &matrix).into_iter().filter(|(format, _)| !format.starts_with("BSR")) {
        let y = product(&uploaded, 1.0, &[f32::NAN, 7.0, f32::INFINITY, f32::NEG_INFINITY], 0.0, &[0.0; 5]);
        assert_eq!((y[0], y[2], y[3], y[4]), (7.0, 0.0, f32::INFINITY, f32::NEG_INFINITY), "{format}");
        assert!(y[1].is_nan(), "{format}: {y:?}");
    }
}

fn beta_zero_does_not_read_y(device: &Device) {
    let matrix = matrices::from_rows::<f64>(2, vec![vec![(0, 1.0), (1, 2.0)], vec![], vec![(1, -4.0)]]);
    for (format, uploaded) in uploads(device, &matrix) {
        let y = product(&uploaded, 2.0, &[3.0, 5.0], 0.0, &[f64::NAN, f64::INFINITY, f64::NAN]);
        assert_eq!(y, [26.0, 0.0, -40.0], "{format}");
        let y = product(&uploaded, 1.0, &[3.0, 5.0], 10.0, &y);
        assert_eq!(y, [273.0, 0.0, -420.0], "{format}");
    }
}

fn same_input_same_bits(device: &Device) {
    let runs = if device.is_cuda() { 100 } else { 3 };
    for (name, matrix) in matrices::all::<f32>() {
        for (format, uploaded) in uploads(device, &matrix).into_iter().filter(|&(format, _)| format != "CSC") {
            let (x, y) = vectors(matrix.ncols(), matrix.nrows(), 0.5f32);
            let bits = || product(&uploaded, 1.25, &x, 0.5, &y).into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let first = bits();
            for _ in 1..runs {
                assert!(bits() == first, "{name} in {format}");
            }
        }
    }
}

/// The sums are of integers, so they are exact.
fn graphs_repeat_products(device: &Device) {
    let rows = (0..300).map(|i| (0..=i % 3).map(|k| ((i + k) % 300, 1.0)).collect()).collect();
    let matrix = matrices::from_rows::<f64>(300, rows);
    for (format, uploaded) in uploads(device, &matrix) {
        let x = device.upload_vec(&[2.0; 300]).unwrap();
        let mut y = device.upload_vec(&[100.0; 300]).unwrap();
        device.record(|| uploaded.spmv(3.0, &x, 1.0, &mut y)).unwrap().launch(4).unwrap();
        let row = |i: usize| 100.0 + 4.0 * 6.0 * (i % 3 + 1) as f64;
        assert_eq!(y.to_vec().unwrap(), (0..300).map(row).collect::<Vec<_>>(), "{format}");
    }
}

fn csr_is_converted_as_the_options_say(device: &Device) {
    let on_cpu = device.to_string() == "cpu";
    // Two thirds of 13 000 rows have a second entry, a few a third one.
    let row = |i: usize| [vec![(i, 2.0)], vec![(0, 1.0); (i % 3).min(1)], vec![(1, 3.0); usize::from(i < 4)]].concat();
    let matrix = matrices::from_rows::<f32>(13_000, (0..13_000).map(row).collect());
    let diagonal = matrices::from_rows::<f32>(100, (0..100).map(|i| vec![(i, 2.0)]).collect());
    let in_coo = if on_cpu { "cpu_coo" } else { "spmv_coo_f32" };
    let in_ell = if on_cpu { "cpu_ell" } else { "spmv_ell_f32" };
    let in_dia = if on_cpu { "cpu_dia" } else { "spmv_dia_f32_r2" };
    let in_hyb = format!("{in_ell} + {in_coo}");
    let in_bsr = if on_cpu { "cpu_bsr" } else { "spmv_bsr_f32_b2" };
    let mut cases = vec![
        (FormatChoice::Coo, &matrix, in_coo),
        (FormatChoice::Ell, &matrix, in_ell),
        (FormatChoice::Hyb, &matrix, &in_hyb),
        (FormatChoice::Dia, &diagonal, in_dia),
    ];
    if !device.is_cuda() {
        cases.push((FormatChoice::Bsr(BlockSize::Fixed(2)), &diagonal, in_bsr));
    }
    for (format, matrix, kernel) in cases {
        let options = SpmvOptions::default().format(format);
        let uploaded = device.upload_with(matrix, &options).unwrap();
        assert_eq!(uploaded.describe().kernel, kernel, "{}", uploaded.describe());
        assert_eq!(uploaded.nnz(), matrix.nnz());
        assert!(uploaded.structure().is_none());
        assert_eq!(*uploaded.options(), options);
        let (x, y) = vectors(matrix.ncols(), matrix.nrows(), 0.5f32);
        let found = product(&uploaded, 1.25, &x, 0.5, &y);
        assert_within(kernel, &found, &reference_spmv(matrix, 1.25, &x, 0.5, &y));
        let wide = device.upload_with(&CsrMatrix::<f32, u64>::from(matrix), &options).unwrap();
        assert_eq!(product(&wide, 1.25, &x, 0.5, &y), found, "{kernel}");
    }
    let error = device.upload_with(&matrix, &SpmvOptions::default().format(FormatChoice::Dia)).unwrap_err();
    assert!(matches!(error, Error::PaddingExceeded { format: "DIA", .. }), "{error}");
}

fn what_does_not_suit_a_format(device: &Device) {
    let matrix = matrices::from_rows::<f32>(2, vec![vec![(0, 1.0)]; 3]);
    let message = |error: Error| error.to_string();
    let options = SpmvOptions::default().nondeterministic();
    let ell = EllMatrix::try_from(&matrix).unwrap();
    let error = message(device.upload_with(&ell, &options).unwrap_err());
    assert_eq!(error, "invalid option: options for a ELL matrix, which has none");
    let csc = CscMatrix::try_from(&matrix).unwrap();
    let error = device.upload_with(&csc, &SpmvOptions::default().format(FormatChoice::Dia)).unwrap_err();
    assert_eq!(message(error), "invalid option: format Dia: a CSC matrix stays as it is");

    let (x, y) = (device.zeros(2).unwrap(), device.zeros(3).unwrap());
    let (mut x_out, mut y_out) = (device.zeros(2).unwrap(), device.zeros(3).unwrap());
    let csr = device.upload(&matrix).unwrap();
    let error = message(csr.spmv_transposed(1.0, &y, 0.0, &mut x_out).unwrap_err());
    assert!(error.starts_with("invalid option: a product with the transpose of a CSR matrix adds in"), "{error}");
    let csc = device.upload(&csc).unwrap();
    let error = message(csc.spmv(1.0, &x, 0.0, &mut y_out).unwrap_err());
    assert!(error.starts_with("invalid option: a product with a CSC matrix adds in an order"), "{error}");
    assert!(error.contains("CsrMatrix::try_from(&matrix)"), "{error}");
    let error = device.upload(&ell).unwrap().spmv_transposed(1.0, &y, 0.0, &mut x_out).unwrap_err();
    assert_eq!(message(error), "not supported: products with the transpose of a matrix in this format");
}

/// 10 x 10 with 3 diagonals, of which the outer ones lack an entry: 28 entries.
fn bytes_are_those_of_the_format(device: &Device) {
    let row = |i: usize| (i.saturating_sub(1)..(i + 2).min(10)).map(|j| (j, 1.0)).collect();
    let matrix = matrices::from_rows::<f64>(10, (0..10).map(row).collect());
    let bytes = |format| device.upload_with(&matrix, &SpmvOptions::default().format(format)).unwrap().spmv_bytes();
    let vectors = 2 * 10 * 8;
    assert_eq!(bytes(FormatChoice::Csr), 28 * 12 + 11 * 4 + vectors);
    assert_eq!(bytes(FormatChoice::Coo), 28 * 16 + vectors);
    assert_eq!(bytes(FormatChoice::Dia), 3 * (8 + 10 * 8) + vectors);
    assert_eq!(bytes(FormatChoice::Ell), 3 * 10 * 12 + vectors);
    assert_eq!(bytes(FormatChoice::Hyb), 28 * 16 + vectors); // so few rows are all COO
    if !device.is_cuda() {
        // Blocks on the diagonal and two beside each, but for the outer ones.
        assert_eq!(bytes(FormatChoice::Bsr(BlockSize::Fixed(2))), 13 * (4 + 4 * 8) + 6 * 4 + vectors);
    }
    let csc = device.upload(&CscMatrix::try_from(&matrix).unwrap()).unwrap();
    assert_eq!(csc.spmv_bytes(), 28 * 12 + 11 * 4 + vectors);
}

fn wrong_lengths_are_errors(device: &Device) {
    let matrix = matrices::from_rows::<f32>(3, vec![vec![(0, 1.0)]; 2]);
    for (format, uploaded) in uploads(device, &matrix) {
        let vector = |len| device.zeros::<f32>(len).unwrap();
        let error = uploaded.spmv(1.0, &vector(2), 0.0, &mut vector(2)).unwrap_err();
        assert_eq!(error.to_string(), "x has 2 elements where the operation needs 3", "{format}");
        let error = uploaded.spmv(1.0, &vector(3), 0.0, &mut vector(3)).unwrap_err();
        assert_eq!(error.to_string(), "y has 3 elements where the operation needs 2", "{format}");
    }
    let csc = device.upload(&CscMatrix::try_from(&matrix).unwrap()).unwrap();
    let error = csc.spmv_transposed(1.0, &device.zeros(3).unwrap(), 0.0, &mut device.zeros(3).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "x has 3 elements where the operation needs 2");
}

/// Every format that a random matrix fits into.
fn random_matrices<T: Scalar>(device: &Device) {
    let cases = strategies::csr_matrix::<T>().prop_flat_map(|matrix| {
        let (x, y) = (strategies::vector(matrix.ncols()), strategies::vector(matrix.nrows()));
        (Just(matrix), x, y, strategies::factor(), strategies::factor())
    });
    let count = if device.to_string() == "emulated" { 32 } else { 256 };
    properties::check(&format!("formats_{:?}", T::DTYPE), count, cases, |(matrix, x, y, alpha, beta)| {
        let expected = reference_spmv(&matrix, alpha, &x, beta, &y);
        for (format, uploaded) in uploads(device, &matrix) {
            assert_within(format, &product(&uploaded, alpha, &x, beta, &y), &expected);
        }
        Ok(())
    });
}

/// In DIA a zero is no entry, so that the matrix has none; nor has it duplicates, which DIA and COO sum up before.
fn extreme_numbers<T: Scalar>(device: &Device) {
    let cases = strategies::csr_matrix_with_extremes::<T>().prop_flat_map(|matrix| {
        let matrix = matrix.canonical().drop_zeros();
        let (x, y) =
            (strategies::vector_with_extremes(matrix.ncols()), strategies::vector_with_extremes(matrix.nrows()));
        (Just(matrix), x, y, strategies::factor(), strategies::factor())
    });
    let count = if device.to_string() == "emulated" { 24 } else { 256 };
    properties::check(&format!("formats_extremes_{:?}", T::DTYPE), count, cases, |(matrix, x, y, alpha, beta)| {
        for (format, uploaded) in uploads(device, &matrix) {
            let found = product(&uploaded, alpha, &x, beta, &y);
            let additions = if format == "CSC" { Additions::Atomic } else { Additions::InRegisters };
            // In BSR with the zeros that fill up blocks.
            let entries: Vec<_> = match uploaded.download().unwrap() {
                HostMatrix::Bsr(bsr) => bsr.triplets().collect(),
                _ => matrix.triplets().collect(),
            };
            extremes::check(format, additions, entries, (alpha, &x), (beta, &y), &found);
        }
        for (format, uploaded) in transposable(device, &matrix) {
            let found = product_with_transpose(&uploaded, alpha, &y, beta, &x);
            let transpose = matrix.triplets().map(|(i, j, value)| (j, i, value));
            let additions = if format == "CSC" { Additions::InRegisters } else { Additions::Atomic };
            extremes::check(&format!("transpose, {format}"), additions, transpose, (alpha, &y), (beta, &x), &found);
        }
        Ok(())
    });
}

/// The emulator does the same operations in the same order, but for those whose order is not fixed.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let mut compared = 0;
    let mut matrices = matrices::all::<T>();
    matrices.extend([("16 diagonals", banded(16)), ("17 diagonals", banded(17))]);
    for (name, matrix) in matrices {
        let emulated = uploads(&Device::emulated(3), &matrix);
        for (format, on_gpu) in uploads(gpu, &matrix) {
            let Some((_, emulated)) = emulated.iter().find(|emulated| emulated.0 == format && format != "CSC") else {
                continue;
            };
            let (x, y) = vectors(matrix.ncols(), matrix.nrows(), T::from_f64(0.5));
            let bits = |matrix| {
                let product = product(matrix, T::from_f64(1.25), &x, T::from_f64(-0.3), &y);
                product.into_iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>()
            };
            assert!(bits(&on_gpu) == bits(emulated), "{name} in {format}");
            compared += 1;
        }
    }
    assert!(compared > 21 * 4, "{compared}");
}

/// The 5-point stencil on an n x n grid.
fn stencil(n: usize) -> CsrMatrix<f32> {
    let row = |i: usize| {
        let (x, y) = (i % n, i / n);
        let beside = [(y > 0, -(n as i64)), (x > 0, -1), (true, 0), (x + 1 < n, 1), (y + 1 < n, n as i64)];
        let entries = beside.into_iter().filter(|&(there, _)| there);
        entries.map(|(_, at)| ((i as i64 + at) as usize, if at == 0 { 4.0 } else { -1.0 })).collect()
    };
    matrices::from_rows(n * n, (0..n * n).map(row).collect())
}

/// A product that another interrupts would add up the other's slots.
fn graphs_and_products_take_turns(gpu: &Device) {
    let matrices = matrices::all::<f64>();
    let (_, matrix) = matrices.iter().find(|(name, _)| *name == "power law").unwrap();
    let long_rows = SpmvOptions::default().kernel(CsrKernel::Adaptive).split_threshold(7);
    let in_coo = gpu.upload(&CooMatrix::from(matrix)).unwrap();
    let in_hyb = gpu.upload(&HybMatrix::from_csr_with_width(matrix, 2).unwrap()).unwrap();
    for uploaded in [in_coo, in_hyb, gpu.upload_with(matrix, &long_rows).unwrap()] {
        let vectors = [1, 2].map(|seed| Random(seed).vector::<f64>(matrix.ncols()));
        let expected = vectors.each_ref().map(|x| product(&uploaded, 1.0, x, 0.0, &vec![0.0; matrix.nrows()]));
        let [x, other] = vectors.each_ref().map(|x| gpu.upload_vec(x).unwrap());
        let y_of = || gpu.zeros(matrix.nrows()).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..300 {
                    let mut y = y_of();
                    gpu.record(|| uploaded.spmv(1.0, &x, 0.0, &mut y)).unwrap().launch(3).unwrap();
                    assert!(y.to_vec().unwrap() == expected[0], "{}", uploaded.describe());
                }
            });
            for _ in 0..1000 {
                let mut y = y_of();
                uploaded.spmv(1.0, &other, 0.0, &mut y).unwrap();
                assert!(y.to_vec().unwrap() == expected[1], "{}", uploaded.describe());
            }
        });
    }
}

fn options_lead_back(device: &Device) {
    let matrix = matrices::from_rows::<f32>(3, vec![vec![(0, 1.0), (2, 2.0)]; 4]);
    let options = SpmvOptions::default().nondeterministic();
    let csc = CscMatrix::try_from(&matrix).unwrap();
    for options in [options.clone(), options.autotune()] {
        let by_rows = device.upload_with(&matrix, &options).unwrap();
        let again = device.upload_with(&matrix, by_rows.options()).unwrap();
        assert_eq!((again.describe().kernel, again.options()), (by_rows.describe().kernel, by_rows.options()));
        assert!(again.spmv_transposed(1.0, &device.zeros(4).unwrap(), 0.0, &mut device.zeros(3).unwrap()).is_ok());
        let by_columns = device.upload_with(&csc, &options).unwrap();
        let again = device.upload_with(&csc, by_columns.options()).unwrap();
        assert_eq!((again.describe().kernel, again.options()), (by_columns.describe().kernel, by_columns.options()));
        assert!(!again.options().autotune);
        assert!(again.spmv(1.0, &device.zeros(3).unwrap(), 0.0, &mut device.zeros(4).unwrap()).is_ok());
    }
}

/// The COO part has nothing to add there, not 0 times infinity.
fn an_infinite_factor_stays_in_rows_of_hyb(device: &Device) {
    let matrix = matrices::from_rows::<f64>(2, vec![vec![(0, 3.0)], vec![(1, -2.0), (0, 1.0)]]);
    for width in [1, 2] {
        let uploaded = device.upload(&HybMatrix::from_csr_with_width(&matrix, width).unwrap()).unwrap();
        let y = product(&uploaded, f64::INFINITY, &[1.0, 5.0], 0.0, &[0.0; 2]);
        assert_eq!(y[0], f64::INFINITY, "{width} slots");
    }
}

fn auto_keeps_csr(cpu: &Device) {
    let auto = SpmvOptions::default().format(FormatChoice::Auto);
    assert_eq!(cpu.upload_with(&stencil(40), &auto).unwrap().describe().kernel, "cpu_csr");
}

fn auto_finds_diagonals(gpu: &Device) {
    let auto = SpmvOptions::default().format(FormatChoice::Auto);
    let matrix = stencil(100);
    let uploaded = gpu.upload_with(&matrix, &auto).unwrap();
    assert_eq!(uploaded.describe().kernel, "spmv_dia_f32_r2");
    assert_eq!(uploaded.structure().unwrap().diagonals, Some(5));
    assert_eq!(gpu.upload_with(&matrix, uploaded.options()).unwrap().describe().kernel, "spmv_dia_f32_r2");
    let timed = gpu.upload_with(&matrix, &auto.clone().autotune()).unwrap();
    assert!(timed.describe().reason.starts_with("the fastest of 14 candidates, "), "{}", timed.describe());
    // As many diagonals as the band is wide, most of them nearly empty.
    let scattered = matrices::from_rows::<f32>(4000, (0..4000).map(|i| vec![((i * 37) % 4000, 1.0)]).collect());
    assert!(gpu.upload_with(&scattered, &auto).unwrap().describe().kernel.starts_with("spmv_csr_vector_"));
    // So few entries on one diagonal that it would be mostly padding, though fewer bytes than the offsets.
    let mut offsets = vec![1000u64; 100_001];
    offsets.iter_mut().zip(0..1000).for_each(|(offset, i)| *offset = i);
    let sparse = CsrMatrix::try_from_csr_data(100_000, 100_000, offsets, (0..1000).collect(), vec![1.0f32; 1000]);
    let uploaded = gpu.upload_with(&sparse.unwrap(), &auto).unwrap();
    assert!(uploaded.describe().kernel.starts_with("spmv_csr_"), "{}", uploaded.describe());
}

/// Whatever is the fastest: the product, the matrix that comes back, and the options that lead to the same again.
fn timing_considers_every_format<T: Scalar>(device: &Device) {
    let full_blocks = |number: fn(usize, usize) -> f64| {
        let columns = |i: usize| (i / 3 * 3..i / 3 * 3 + 3).chain(180 - i / 3 * 3..183 - i / 3 * 3);
        matrices::from_rows::<T>(183, (0..60).map(|i| columns(i).map(|j| (j, number(i, j))).collect()).collect())
    };
    let band = matrices::from_rows(
        2000,
        (0..2000).map(|i| (i..2000.min(i + 3)).map(|j| (j, j as f64 + 1.0)).collect()).collect(),
    );
    let far = matrices::from_rows(70_000, (0..9).map(|i| vec![(i, i as f64), (69_999, 0.5)]).collect());
    let cases = [
        // 11 kernels for CSR, narrow columns, few values, blocks, diagonals.
        ("blocks", full_blocks(|i, j| (i * 183 + j) as f64), 11 + 1 + 1),
        ("blocks of few values", full_blocks(|i, j| ((i + j) % 7) as f64), 11 + 1 + 1 + 1),
        ("a band", band, 11 + 1 + 1),
        ("few values far apart", far, 11 + 1),
    ];
    let auto = SpmvOptions::default().format(FormatChoice::Auto);
    for (name, matrix, candidates) in cases {
        let timed = device.upload_with(&matrix, &auto.clone().autotune()).unwrap();
        let case = format!("{name}: {}", timed.describe());
        if device.to_string() != "cpu" {
            let reason = timed.describe().reason;
            assert!(reason.starts_with(&format!("the fastest of {candidates} candidates, ")), "{case}");
            assert_eq!(reason.contains("; "), timed.options().format != FormatChoice::Csr, "{case}");
        }
        assert_eq!(timed.download().unwrap().into_csr().unwrap(), matrix, "{case}");
        let (x, y) = vectors(matrix.ncols(), matrix.nrows(), T::from_f64(0.5));
        let (two, half) = (T::from_f64(2.0), T::from_f64(0.5));
        assert_within(&case, &product(&timed, two, &x, half, &y), &reference_spmv(&matrix, two, &x, half, &y));
        let again = device.upload_with(&matrix, timed.options()).unwrap();
        assert_eq!(
            (again.describe().kernel, again.spmv_bytes()),
            (timed.describe().kernel, timed.spmv_bytes()),
            "{case}"
        );
        assert!(bits(&product(&again, two, &x, half, &y)) == bits(&product(&timed, two, &x, half, &y)), "{case}");
        // Without timing only what has been measured.
        let untimed = device.upload_with(&matrix, &auto).unwrap().options().format;
        assert!(matches!(untimed, FormatChoice::Csr | FormatChoice::Dia), "{name}: {untimed:?}");
    }
}

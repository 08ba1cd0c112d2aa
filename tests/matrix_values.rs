//! Values of matrices on a device: back to the host, the diagonal, new values, scaled rows and columns; in every format.

mod common;

use std::{collections::BTreeMap, process::ExitCode};

use common::{
    Random, assert_within, integers,
    matrices::{self, from_rows, stencil},
    on_every_device, other,
    sums::reference_spmv,
    uploads::in_every_format,
};
use warpsparse::{
    BlockSize, CsrMatrix, DenseLayout, Device, DeviceMatrix, EllMatrix, Error, FormatChoice, HostMatrix, Scalar,
    SpmvOptions,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("matrices_come_back_f32", matrices_come_back::<f32>));
    trials.extend(on_every_device("matrices_come_back_f64", matrices_come_back::<f64>));
    trials.extend(on_every_device("diagonals_f32", diagonals::<f32>));
    trials.extend(on_every_device("diagonals_f64", diagonals::<f64>));
    trials.extend(on_every_device("new_values_f32", new_values::<f32>));
    trials.extend(on_every_device("new_values_f64", new_values::<f64>));
    trials.extend(on_every_device("new_values_reach_every_product", new_values_reach_every_product));
    trials.extend(on_every_device("padding_is_ignored", padding_is_ignored));
    trials.extend(on_every_device("scaled_f32", scaled::<f32>));
    trials.extend(on_every_device("scaled_f64", scaled::<f64>));
    trials.extend(on_every_device("scaled_once_per_factor", scaled_once_per_factor));
    trials.extend(on_every_device("the_uploaded_matrix_stays", the_uploaded_matrix_stays));
    trials.extend(on_every_device("updates_are_recorded", updates_are_recorded));
    trials.extend(on_every_device("bad_arguments_are_errors", bad_arguments_are_errors));
    common::run(trials)
}

/// The elements that are not zero, duplicates summed in storage order.
fn elements<T: Scalar>(matrix: &CsrMatrix<T>) -> BTreeMap<(usize, usize), f64> {
    let canonical = matrix.canonical();
    let not_zero = canonical.triplets().filter(|(_, _, value)| value.to_f64() != 0.0);
    not_zero.map(|(i, j, value)| ((i, j), value.to_f64())).collect()
}

fn downloaded<T: Scalar>(matrix: &DeviceMatrix<T>) -> BTreeMap<(usize, usize), f64> {
    elements(&matrix.download().unwrap().into_csr().unwrap())
}

/// The values of a matrix in the order in which a device stores them.
fn values_of<T: Scalar>(matrix: &HostMatrix<T>) -> Vec<T> {
    match matrix {
        HostMatrix::Csr(matrix) => matrix.values().to_vec(),
        HostMatrix::Csr64(matrix) => matrix.values().to_vec(),
        HostMatrix::Csc(matrix) => matrix.values().to_vec(),
        HostMatrix::Csc64(matrix) => matrix.values().to_vec(),
        HostMatrix::Coo(matrix) => matrix.values().to_vec(),
        HostMatrix::Dia(matrix) => matrix.values().to_vec(),
        HostMatrix::Ell(matrix) => matrix.values().to_vec(),
        HostMatrix::Bsr(matrix) => matrix.values().to_vec(),
        HostMatrix::Hyb(matrix) => [matrix.ell().values(), matrix.coo().values()].concat(),
        _ => unreachable!("every format is above"),
    }
}

/// In every format that the matrix fits in.
fn in_formats<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>) -> Vec<(String, DeviceMatrix<T>)> {
    let in_blocks = FormatChoice::Bsr(BlockSize::Fixed(3));
    let padded = [FormatChoice::Dia, FormatChoice::Ell, FormatChoice::Hyb, in_blocks];
    let fits = |format| device.upload_with(matrix, &SpmvOptions::default().format(format)).is_ok();
    match padded.into_iter().all(fits) && matrix.nrows() > 0 {
        true => in_every_format(device, matrix),
        false => [FormatChoice::Csr, FormatChoice::Coo, FormatChoice::Ell, FormatChoice::Narrow, FormatChoice::Packed]
            .into_iter()
            .chain([in_blocks])
            .filter_map(|format| {
                let uploaded = device.upload_with(matrix, &SpmvOptions::default().format(format)).ok()?;
                Some((format!("{format:?}"), uploaded))
            })
            .collect(),
    }
}

fn every_matrix<T: Scalar>() -> Vec<(&'static str, CsrMatrix<T>)> {
    let mut all = matrices::all::<T>();
    // Many blocks, in every format.
    all.push(("a stencil of 3600 rows", stencil(60).cast()));
    // Each lane that looks through the first row finds several entries on the diagonal.
    all.push(("an element in 30 entries", from_rows(2, vec![(0..60).map(|k| (k % 2, 1.0)).collect(), vec![(1, 1.0)]])));
    // Sums of integers are exact, in any order.
    all.into_iter().map(|(name, matrix)| (name, integers::matrix(&matrix))).collect()
}

fn matrices_come_back<T: Scalar>(device: &Device) {
    for (name, matrix) in every_matrix::<T>() {
        let expected = elements(&matrix);
        for (format, uploaded) in in_formats(device, &matrix) {
            let host = uploaded.download().unwrap();
            assert_eq!((host.nrows(), host.ncols()), (matrix.nrows(), matrix.ncols()), "{name}, {format}");
            let is_its_own = match &host {
                HostMatrix::Csr(_) => ["Csr", "adaptive", "Narrow", "Packed"].contains(&&*format),
                HostMatrix::Csr64(_) => format == "64-bit offsets",
                HostMatrix::Csc(_) => format.starts_with("CSC"),
                HostMatrix::Coo(_) => format == "Coo",
                HostMatrix::Dia(_) => format == "Dia",
                HostMatrix::Ell(_) => format == "Ell",
                HostMatrix::Bsr(_) => format == "Bsr(Fixed(3))",
                HostMatrix::Hyb(_) => format.to_uppercase().starts_with("HYB"),
                _ => false,
            };
            assert!(is_its_own, "{name}, {format}: {host:?}");
            assert_eq!(elements(&host.into_csr().unwrap()), expected, "{name}, {format}");
        }
    }
}

fn diagonals<T: Scalar>(device: &Device) {
    for (name, matrix) in every_matrix::<T>() {
        let mut expected = vec![0.0; matrix.nrows().min(matrix.ncols())];
        matrix.triplets().filter(|(i, j, _)| i == j).for_each(|(i, _, value)| expected[i] += value.to_f64());
        for (format, uploaded) in in_formats(device, &matrix) {
            let found: Vec<f64> = uploaded.diagonal().unwrap().to_vec().unwrap().iter().map(|d| d.to_f64()).collect();
            assert_eq!(found, expected, "{name}, {format}");
        }
    }
}

fn new_values<T: Scalar>(device: &Device) {
    let minus_two = T::from_f64(-2.0);
    for (name, matrix) in every_matrix::<T>() {
        let (x, y): (Vec<T>, Vec<T>) = (Random(1).vector(matrix.ncols()), Random(2).vector(matrix.nrows()));
        let expected: BTreeMap<_, _> = elements(&matrix).into_iter().map(|(at, value)| (at, -2.0 * value)).collect();
        for (format, mut uploaded) in in_formats(device, &matrix) {
            let values: Vec<T> = values_of(&uploaded.download().unwrap()).iter().map(|&v| v * minus_two).collect();
            let kernel = uploaded.describe();
            uploaded.update_values(&device.upload_vec(&values).unwrap()).unwrap();
            assert_eq!(downloaded(&uploaded), expected, "{name}, {format}");
            assert_eq!(uploaded.describe(), kernel, "{name}, {format}");
            if format == "CSC" {
                continue;
            }
            let (on_device, mut product) = (device.upload_vec(&x).unwrap(), device.upload_vec(&y).unwrap());
            uploaded.spmv(T::from_f64(1.0), &on_device, T::from_f64(0.5), &mut product).unwrap();
            let reference = reference_spmv(&matrix, minus_two, &x, T::from_f64(0.5), &y);
            assert_within(&format!("{name}, {format}"), &product.to_vec().unwrap(), &reference);
        }
    }
}

fn new_values_reach_every_product(device: &Device) {
    let matrix = integers::matrix(&stencil(12).cast::<f32>());
    let tripled: Vec<f32> = matrix.values().iter().map(|value| 3.0 * value).collect();
    let mut uploaded = device.upload_with(&matrix, &SpmvOptions::default().nondeterministic()).unwrap();
    let x = device.upload_vec(&integers::vector::<f32>(3, 144)).unwrap();
    let products = |uploaded: &DeviceMatrix<f32>| {
        let (mut y, mut transposed) = (device.zeros(144).unwrap(), device.zeros(144).unwrap());
        uploaded.spmv(1.0, &x, 0.0, &mut y).unwrap();
        uploaded.spmv_transposed(1.0, &x, 0.0, &mut transposed).unwrap();
        let mut c = device.zeros_dense(DenseLayout::row_major(144, 1)).unwrap();
        uploaded.spmm(1.0, x.matrix((144, 1)).unwrap(), 0.0, &mut c).unwrap();
        [y.to_vec().unwrap(), transposed.to_vec().unwrap(), c.to_vec().unwrap()]
    };
    let before = products(&uploaded);
    uploaded.update_values(&device.upload_vec(&tripled).unwrap()).unwrap();
    let expected = before.map(|product| product.iter().map(|element| 3.0 * element).collect::<Vec<_>>());
    assert_eq!(products(&uploaded), expected);
}

/// What stands in the slots that are no entries.
fn padding_is_ignored(device: &Device) {
    let matrix = from_rows::<f64>(5, vec![vec![(0, 1.0), (3, 2.0)], vec![(4, 3.0)], vec![]]);
    for format in [FormatChoice::Dia, FormatChoice::Ell, FormatChoice::Bsr(BlockSize::Fixed(2))] {
        let mut uploaded = device.upload_with(&matrix, &SpmvOptions::default().format(format)).unwrap();
        let host = uploaded.download().unwrap();
        let mut values = values_of(&host);
        let is_padding = |k: usize| match &host {
            HostMatrix::Ell(ell) => ell.col_indices()[k] == EllMatrix::<f64>::PADDING,
            HostMatrix::Dia(dia) => {
                let ld = dia.leading_dimension();
                k % ld >= 3 || !(0..5).contains(&((k % ld) as i64 + dia.offsets()[k / ld]))
            }
            HostMatrix::Bsr(bsr) => {
                let (block, element) = (k / 4, k % 4);
                let block_row = bsr.block_row_offsets().partition_point(|&offset| offset as usize <= block) - 1;
                let col = 2 * bsr.block_col_indices()[block] as usize + element % 2;
                2 * block_row + element / 2 >= 3 || col >= 5
            }
            _ => unreachable!("as the options specify"),
        };
        let padding: Vec<usize> = (0..values.len()).filter(|&k| is_padding(k)).collect();
        assert!(!padding.is_empty());
        padding.into_iter().for_each(|k| values[k] = f64::NAN);
        uploaded.update_values(&device.upload_vec(&values).unwrap()).unwrap();
        uploaded.scale_rows(&device.upload_vec(&[1.0, 10.0, 100.0]).unwrap()).unwrap();
        assert_eq!(downloaded(&uploaded), BTreeMap::from([((0, 0), 1.0), ((0, 3), 2.0), ((1, 4), 30.0)]), "{format:?}");
        let (x, mut y) = (device.upload_vec(&[1.0; 5]).unwrap(), device.zeros(3).unwrap());
        uploaded.spmv(1.0, &x, 0.0, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [3.0, 30.0, 0.0], "{format:?}");
        assert_eq!(uploaded.diagonal().unwrap().to_vec().unwrap(), [1.0, 0.0, 0.0], "{format:?}");
    }
}

/// By powers of two of either sign, which round nothing.
fn scaled<T: Scalar>(device: &Device) {
    let factor = |i: usize, period: usize| (if i % 3 == 1 { -1.0 } else { 1.0 }) * 2f64.powi((i % period) as i32 - 2);
    for (name, matrix) in every_matrix::<T>() {
        let upload = |len: usize, period| {
            device.upload_vec(&(0..len).map(|i| T::from_f64(factor(i, period))).collect::<Vec<_>>()).unwrap()
        };
        let (rows, cols) = (upload(matrix.nrows(), 5), upload(matrix.ncols(), 7));
        let original = elements(&matrix);
        for (format, mut uploaded) in in_formats(device, &matrix) {
            let expect = |scaled: &dyn Fn(usize, usize) -> f64| -> BTreeMap<_, _> {
                original.iter().map(|(&(i, j), value)| ((i, j), value * scaled(i, j))).collect()
            };
            uploaded.scale_rows(&rows).unwrap();
            assert_eq!(downloaded(&uploaded), expect(&|i, _| factor(i, 5)), "rows, {name}, {format}");
            uploaded.scale_cols(&cols).unwrap();
            let both = expect(&|i, j| factor(i, 5) * factor(j, 7));
            assert_eq!(downloaded(&uploaded), both, "columns too, {name}, {format}");
        }
    }
}

/// Each product is rounded once, the same on every device.
fn scaled_once_per_factor(device: &Device) {
    let matrix: CsrMatrix<f32> = stencil(20).cast();
    let (rows, cols): (Vec<f32>, Vec<f32>) = (Random(5).vector(400), Random(6).vector(400));
    let mut uploaded = device.upload(&matrix).unwrap();
    uploaded.scale_rows(&device.upload_vec(&rows).unwrap()).unwrap();
    uploaded.scale_cols(&device.upload_vec(&cols).unwrap()).unwrap();
    let expected: Vec<f32> = matrix.triplets().map(|(i, j, value)| rows[i] * value * cols[j]).collect();
    assert_eq!(values_of(&uploaded.download().unwrap()), expected);
}

fn the_uploaded_matrix_stays(device: &Device) {
    let matrix = from_rows::<f64>(2, vec![vec![(0, 1.0)], vec![(1, 2.0)]]);
    let (first, mut second) = (device.upload(&matrix).unwrap(), device.upload(&matrix).unwrap());
    second.scale_rows(&device.upload_vec(&[5.0, 6.0]).unwrap()).unwrap();
    assert_eq!(matrix.values(), [1.0, 2.0]);
    assert_eq!(first.diagonal().unwrap().to_vec().unwrap(), [1.0, 2.0]);
    assert_eq!(second.diagonal().unwrap().to_vec().unwrap(), [5.0, 12.0]);
    // A matrix that comes from one device goes to another as it is.
    let moved = Device::cpu().upload(&second.download().unwrap()).unwrap();
    assert_eq!(moved.diagonal().unwrap().to_vec().unwrap(), [5.0, 12.0]);
}

/// A graph that changes the values and multiplies by them.
fn updates_are_recorded(device: &Device) {
    for format in [FormatChoice::Csr, FormatChoice::Dia] {
        let matrix = from_rows::<f64>(2, vec![vec![(0, 1.0)], vec![(1, 2.0)]]);
        let mut a = device.upload_with(&matrix, &SpmvOptions::default().format(format)).unwrap();
        let values = values_of(&a.download().unwrap());
        let mut values = device.upload_vec(&values).unwrap();
        let minus = device.upload_vec(&[-1.0, -1.0]).unwrap();
        let (x, mut y) = (device.upload_vec(&[1.0, 1.0]).unwrap(), device.zeros(2).unwrap());
        let steps = device.record(|| {
            values.scale(2.0)?;
            a.update_values(&values)?;
            a.scale_rows(&minus)?;
            a.spmv(1.0, &x, 1.0, &mut y)
        });
        steps.unwrap().launch(3).unwrap();
        assert_eq!(y.to_vec().unwrap(), [-14.0, -28.0], "{format:?}");
        assert_eq!(a.diagonal().unwrap().to_vec().unwrap(), [-8.0, -16.0], "{format:?}");
    }
}

fn bad_arguments_are_errors(device: &Device) {
    let matrix = from_rows::<f64>(3, vec![vec![(0, 1.0)], vec![(1, 2.0), (2, 3.0)]]);
    for (format, mut uploaded) in in_every_format(device, &matrix) {
        let stored = values_of(&uploaded.download().unwrap()).len();
        let mismatch = |result: warpsparse::Result<()>, what: &str, expected: usize, found: usize| {
            let text = format!("{what} has {found} elements where the operation needs {expected}");
            assert_eq!(result.unwrap_err().to_string(), text, "{format}");
        };
        let of = |len: usize| device.zeros::<f64>(len).unwrap();
        mismatch(uploaded.update_values(&of(stored + 1)), "the vector of values", stored, stored + 1);
        mismatch(uploaded.scale_rows(&of(3)), "the vector of row factors", 2, 3);
        mismatch(uploaded.scale_cols(&of(2)), "the vector of column factors", 3, 2);
        let elsewhere = other(device);
        let other = |len: usize| elsewhere.zeros::<f64>(len).unwrap();
        let foreign =
            [uploaded.update_values(&other(stored)), uploaded.scale_rows(&other(2)), uploaded.scale_cols(&other(3))];
        for result in foreign {
            assert!(matches!(result, Err(Error::DeviceMismatch { .. })), "{format}: {result:?}");
        }
        assert_eq!(downloaded(&uploaded), elements(&matrix), "{format}");
    }
}

//! Matrices made of others on the device: transposes, matrices of triplets, sorted and summed entries, parts and permutations.

mod common;

use std::process::ExitCode;

use common::{
    Random,
    matrices::{self, bits},
    on_every_device, on_gpu, properties,
};
use proptest::{prelude::*, test_runner::TestCaseError};
use warpsparse::{CooMatrix, CscMatrix, CsrMatrix, Device, DeviceMatrix, Error, ErrorKind, Result, Scalar};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! both {
        ($($name:ident),*) => {$(
            trials.extend(on_every_device(concat!(stringify!($name), "_f32"), $name::<f32>));
            trials.extend(on_every_device(concat!(stringify!($name), "_f64"), $name::<f64>));
        )*};
    }
    both!(transposes, symmetric_patterns, lengths_around_limits, canonical, triplets, parts, permutations);
    trials.extend(on_every_device("other_formats", other_formats));
    trials.extend(on_every_device("results_have_products", results_have_products));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.push(on_gpu("nothing_is_recorded", nothing_is_recorded));
    trials.push(common::on_device("convert_properties::emulated".into(), random_cases, || Device::emulated(3)));
    common::run(trials)
}

fn of<T: Scalar>(matrix: &DeviceMatrix<T>) -> CsrMatrix<T> {
    let host = matrix.download().unwrap().into_csr().unwrap();
    assert_eq!((matrix.nrows(), matrix.ncols(), matrix.nnz()), (host.nrows(), host.ncols(), host.nnz()));
    host
}

/// The result has the bits that are expected.
#[track_caller]
fn assert_same<T: Scalar>(case: &str, compute: impl Fn() -> Result<DeviceMatrix<T>>, expected: &CsrMatrix<T>) {
    let found = bits(&of(&compute().unwrap()));
    assert!(found == bits(expected), "{case}: another matrix");
}

fn transposes<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let a = device.upload(&matrix).unwrap();
        // The reference by plain code: a stable sort by column.
        let mut entries: Vec<_> = matrix.triplets().collect();
        entries.sort_by_key(|&(_, column, _)| column);
        let mut rows = vec![vec![]; matrix.ncols()];
        entries.iter().for_each(|&(row, column, value)| rows[column].push((row, value.to_f64())));
        let expected = matrices::from_rows(matrix.nrows(), rows);
        assert_same(name, || a.transpose(), &expected);
        assert_same(name, || a.transpose()?.transpose(), &expected.transpose().unwrap());
    }
}

/// Patterns that are symmetric, with values that are not, and patterns that miss one entry.
fn symmetric_patterns<T: Scalar>(device: &Device) {
    for side in [1, 2, 7, 40] {
        let stencil = matrices::stencil(side);
        let values: Vec<T> = (0..stencil.nnz()).map(|k| T::from_f64(k as f64 - 7.5)).collect();
        let (offsets, columns) = (stencil.row_offsets().to_vec(), stencil.col_indices().to_vec());
        let matrix = CsrMatrix::try_from_csr_data(side * side, side * side, offsets, columns, values).unwrap();
        let a = device.upload(&matrix).unwrap();
        assert_same("stencil", || a.transpose(), &matrix.transpose().unwrap());
        for missing in [0, matrix.nnz() / 2, matrix.nnz() - 1] {
            let mut rows = vec![vec![]; matrix.nrows()];
            let kept = matrix.triplets().enumerate().filter(|&(k, _)| k != missing);
            kept.for_each(|(_, (row, column, value))| rows[row].push((column, value.to_f64())));
            let matrix = matrices::from_rows::<T>(matrix.ncols(), rows);
            let a = device.upload(&matrix).unwrap();
            assert_same("one entry less", || a.transpose(), &matrix.transpose().unwrap());
        }
    }
    // Symmetric, and its rows of all lengths: the mirrored entry stands at another place.
    let n = 150;
    let mut random = Random(8);
    let mut rows = vec![vec![]; n];
    for row in 0..n {
        for column in 0..=row {
            if random.next_below(3) == 0 || row == 77 {
                rows[row].push((column, random.next_unit()));
                if row != column {
                    rows[column].push((row, random.next_unit()));
                }
            }
        }
    }
    let matrix = matrices::from_rows::<T>(n, rows).canonical();
    let a = device.upload(&matrix).unwrap();
    assert_same("random symmetric", || a.transpose(), &matrix.transpose().unwrap());
}

/// Columns of lengths around the limits of what groups of lanes sort, alone and among shorter ones.
fn lengths_around_limits<T: Scalar>(device: &Device) {
    let mut random = Random(9);
    for (length, others) in [(7, 0), (8, 1), (9, 3), (63, 2), (64, 2), (65, 2), (511, 3), (512, 3), (513, 3), (1030, 1)]
    {
        let row = |i: usize, random: &mut Random| {
            let mut row = if i < length { vec![(0, random.next_unit())] } else { vec![] };
            row.extend((0..others).map(|j| (1 + (i * 7 + j) % 40, random.next_unit())));
            row
        };
        let matrix = matrices::from_rows::<T>(41, (0..length + 5).map(|i| row(i, &mut random)).collect());
        let a = device.upload(&matrix).unwrap();
        assert_same(&format!("a column of {length}"), || a.transpose(), &matrix.transpose().unwrap());
        // The transpose as triplets in disorder: rows of those lengths.
        check_triplets(device, &matrix.transpose().unwrap(), &mut random);
    }
    for entries in [31, 32, 33, 511, 512, 513, 4095, 4096, 4097] {
        let rows = (0..entries).map(|k| vec![((k * 37) % 300, k as f64)]).collect();
        let matrix = matrices::from_rows::<T>(300, rows);
        let a = device.upload(&matrix).unwrap();
        assert_same(&format!("{entries} entries"), || a.transpose(), &matrix.transpose().unwrap());
        let rows: Vec<u32> = (0..entries as u32).collect();
        assert_eq!(a.to_triplets().unwrap().0.to_vec().unwrap(), rows);
    }
}

fn canonical<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let compute = || device.upload(&matrix)?.canonical();
        assert_same(name, compute, &matrix.canonical());
        assert!(of(&compute().unwrap()).is_canonical());
    }
    // Rounding shows the order of a sum, here that of storage; columns fall, and sums of 0 stay.
    let row = vec![(3, 1e30), (1, 5.0), (3, 1.0), (3, -1e30), (1, -5.0), (0, 2.0), (3, 0.5)];
    let matrix = matrices::from_rows::<T>(4, vec![row, vec![], vec![(2, 1.0), (2, 2.0)]]);
    let found = of(&device.upload(&matrix).unwrap().canonical().unwrap());
    assert_eq!(found.col_indices(), [0, 1, 3, 2]);
    assert_eq!(found.values().iter().map(|value| value.to_f64()).collect::<Vec<_>>(), [2.0, 0.0, 0.5, 3.0]);
    for length in [64, 65, 512, 513, 700] {
        let falling: Vec<_> = (0..length).map(|k| (1000 - k / 2, k as f64)).collect();
        let matrix = matrices::from_rows::<T>(1001, vec![falling, vec![(5, 1.0), (4, 1.0)]]);
        assert_same(&format!("{length} in a row"), || device.upload(&matrix)?.canonical(), &matrix.canonical());
    }
}

/// The matrix from its triplets, in a random order in which duplicates keep theirs.
#[track_caller]
fn check_triplets<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>, random: &mut Random) {
    let mut triplets: Vec<_> = matrix.triplets().collect();
    for last in (1..triplets.len()).rev() {
        triplets.swap(last, random.next_below(last + 1));
    }
    let rows: Vec<u32> = triplets.iter().map(|&(row, _, _)| row as u32).collect();
    let cols: Vec<u32> = triplets.iter().map(|&(_, col, _)| col as u32).collect();
    let values: Vec<T> = triplets.iter().map(|&(_, _, value)| value).collect();
    let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
    let coo = CooMatrix::try_from_triplets(nrows, ncols, rows.clone(), cols.clone(), values.clone()).unwrap();
    let expected = CsrMatrix::try_from(&coo).unwrap();
    let (rows, cols) = (device.upload_vec(&rows).unwrap(), device.upload_vec(&cols).unwrap());
    let values = device.upload_vec(&values).unwrap();
    assert_same("triplets", || device.csr_from_triplets(nrows, ncols, &rows, &cols, &values), &expected);
}

fn triplets<T: Scalar>(device: &Device) {
    let mut random = Random(10);
    for (name, matrix) in matrices::all::<T>() {
        check_triplets(device, &matrix, &mut random);
        let (rows, cols, values) = device.upload(&matrix).unwrap().to_triplets().unwrap();
        let found: Vec<_> = rows.to_vec().unwrap().into_iter().zip(cols.to_vec().unwrap()).collect();
        let expected: Vec<_> = matrix.triplets().map(|(row, col, _)| (row as u32, col as u32)).collect();
        assert!(found == expected && values.to_vec().unwrap() == matrix.values(), "{name}: other triplets");
    }
}

/// What is kept of a matrix by plain code.
fn filtered<T: Scalar>(
    matrix: &CsrMatrix<T>,
    rows: std::ops::Range<usize>,
    cols: std::ops::Range<usize>,
    keep: impl Fn(i64, f64) -> bool,
) -> CsrMatrix<T> {
    let mut kept = vec![vec![]; rows.len()];
    for (row, col, value) in matrix.triplets() {
        if rows.contains(&row) && cols.contains(&col) && keep(col as i64 - row as i64, value.to_f64()) {
            kept[row - rows.start].push((col - cols.start, value.to_f64()));
        }
    }
    matrices::from_rows(cols.len(), kept)
}

fn parts<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let a = device.upload(&matrix).unwrap();
        let (m, n) = (matrix.nrows(), matrix.ncols());
        for k in [i64::MIN, -1, 0, 40] {
            let case = format!("{name}, diagonal {k}");
            assert_same(&case, || a.lower_triangle(k), &filtered(&matrix, 0..m, 0..n, |at, _| at <= k));
            assert_same(&case, || a.upper_triangle(k), &filtered(&matrix, 0..m, 0..n, |at, _| at >= k));
        }
        for range in [0..0, m / 3..m / 2, m / 2..m] {
            let expected = filtered(&matrix, range.clone(), 0..n, |_, _| true);
            assert_same(&format!("{name}, rows {range:?}"), || a.slice_rows(range.clone()), &expected);
        }
        for range in [0..0, n / 3..n / 2, n / 2..n] {
            let expected = filtered(&matrix, 0..m, range.clone(), |_, _| true);
            assert_same(&format!("{name}, columns {range:?}"), || a.slice_cols(range.clone()), &expected);
        }
        assert_same(name, || a.drop_zeros(), &filtered(&matrix, 0..m, 0..n, |_, value| value != 0.0));
        let half = filtered(&matrix, 0..m, 0..n, |_, value| value.abs() > 0.5);
        assert_same(name, || a.drop_small(T::from_f64(0.5)), &half);
    }
    let special = [f64::NAN, 0.0, -0.0, f64::INFINITY, -0.25, 0.25, f64::NEG_INFINITY, 0.5];
    let matrix = matrices::from_rows::<T>(8, vec![special.into_iter().enumerate().collect()]);
    let a = device.upload(&matrix).unwrap();
    assert_eq!(of(&a.drop_zeros().unwrap()).col_indices(), [0, 3, 4, 5, 6, 7]);
    assert_eq!(of(&a.drop_small(T::from_f64(0.25)).unwrap()).col_indices(), [0, 3, 6, 7]);
}

fn permutation(random: &mut Random, size: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..size as u32).collect();
    for last in (1..size).rev() {
        order.swap(last, random.next_below(last + 1));
    }
    order
}

fn permutations<T: Scalar>(device: &Device) {
    let mut random = Random(12);
    for (name, matrix) in matrices::all::<T>() {
        let (rows, cols) = (permutation(&mut random, matrix.nrows()), permutation(&mut random, matrix.ncols()));
        let a = device.upload(&matrix).unwrap();
        let mut old = vec![vec![]; matrix.nrows()];
        let mut new_col = vec![0; matrix.ncols()];
        cols.iter().enumerate().for_each(|(new, &old)| new_col[old as usize] = new);
        matrix.triplets().for_each(|(row, col, value)| old[row].push((new_col[col], value.to_f64())));
        let rows_of_new = rows.iter().map(|&row| old[row as usize].clone()).collect();
        assert_same(name, || a.permute(&rows, &cols), &matrices::from_rows(matrix.ncols(), rows_of_new));
    }
}

/// A matrix in any format is an operand.
fn other_formats(device: &Device) {
    let matrix = matrices::stencil(9);
    let expected = matrix.transpose().unwrap();
    let wide = CsrMatrix::<f64, u64>::from(&matrix);
    let (csc, coo) = (CscMatrix::try_from(&matrix).unwrap(), CooMatrix::from(&matrix));
    assert_same("CSR with 64-bit offsets", || device.upload(&wide)?.transpose(), &expected);
    assert_same("CSC", || device.upload(&csc)?.transpose(), &expected);
    assert_same("COO", || device.upload(&coo)?.transpose(), &expected);
    assert_same("COO, canonical", || device.upload(&coo)?.canonical(), &matrix);
    let diagonal = filtered(&matrix, 0..81, 0..81, |at, _| at == 0);
    assert_same("CSC, a part of a part", || device.upload(&csc)?.lower_triangle(0)?.upper_triangle(0), &diagonal);
}

/// A result multiplies, scales and changes like an upload, and what it was made of stays.
fn results_have_products(device: &Device) {
    let matrix = matrices::stencil(6);
    let a = device.upload(&matrix).unwrap();
    let mut lower = a.lower_triangle(0).unwrap().canonical().unwrap();
    let x = device.filled(36, 1.0f64).unwrap();
    let mut y = device.zeros::<f64>(36).unwrap();
    lower.spmv(2.0, &x, 0.0, &mut y).unwrap();
    let sums: Vec<f64> = filtered(&matrix, 0..36, 0..36, |at, _| at <= 0)
        .rows()
        .map(|(_, values)| 2.0 * values.iter().sum::<f64>())
        .collect();
    assert_eq!(y.to_vec().unwrap(), sums);
    lower.scale_rows(&x).unwrap();
    assert_eq!(bits(&of(&a)), bits(&matrix));
}

fn what_does_not_fit(device: &Device) {
    let matrix = matrices::from_rows::<f32>(3, vec![vec![(0, 1.0), (2, 2.0)], vec![(1, 3.0)]]);
    let a = device.upload(&matrix).unwrap();
    let message = |result: Result<DeviceMatrix<f32>>| result.expect_err("it does not fit").to_string();
    assert!(message(a.slice_rows(1..3)).ends_with("rows 1..3 of a matrix with 2 rows"));
    #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let reversed = 2..1;
    assert!(message(a.slice_cols(reversed)).ends_with("columns 2..1 of a matrix with 3 columns"));
    for threshold in [-1.0, f32::NAN] {
        assert!(message(a.drop_small(threshold)).contains(&format!("a threshold of {threshold}")));
    }
    for (rows, cols) in [(&[0u32, 0][..], &[0u32, 1, 2][..]), (&[0, 1], &[0, 1]), (&[0, 2], &[0, 1, 2])] {
        let expected = matrix.permute(rows, cols).unwrap_err().to_string();
        assert_eq!(message(a.permute(rows, cols)), expected);
    }
    let make = |rows: &[u32], cols: &[u32], values: &[f32]| {
        let (rows, cols) = (device.upload_vec(rows).unwrap(), device.upload_vec(cols).unwrap());
        device.csr_from_triplets(2, 3, &rows, &cols, &device.upload_vec(values).unwrap())
    };
    let many: Vec<u32> = (0..1000).map(|k| if k >= 300 { 3 + k % 7 } else { 1 }).collect();
    let ones = vec![1.0; 1000];
    assert!(message(make(&many, &vec![0; 1000], &ones)).ends_with("entry 300 is in row 9 of 2"));
    assert!(message(make(&vec![0; 1000], &many, &ones)).ends_with("entry 300 is in column 9 of 3"));
    assert!(message(make(&[0, 5], &[7, 0], &[1.0; 2])).ends_with("entry 1 is in row 5 of 2"));
    // One beyond the last.
    assert!(message(make(&[0, 1, 2], &[2, 0, 0], &[1.0; 3])).ends_with("entry 2 is in row 2 of 2"));
    assert!(message(make(&[1, 0, 1], &[2, 3, 0], &[1.0; 3])).ends_with("entry 1 is in column 3 of 3"));
    assert!(matches!(make(&[0, 1], &[0], &[1.0, 2.0]), Err(Error::LengthMismatch { what: "cols", .. })));
    assert!(matches!(make(&[0, 1], &[0, 1], &[1.0]), Err(Error::LengthMismatch { what: "values", .. })));
    let other = common::other(device);
    let (here, there) = (device.upload_vec(&[0u32]).unwrap(), other.upload_vec(&[0u32]).unwrap());
    let value = device.upload_vec(&[1.0f32]).unwrap();
    let result = device.csr_from_triplets(2, 3, &here, &there, &value);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
}

fn nothing_is_recorded(device: &Device) {
    let a = device.upload(&matrices::stencil(3)).unwrap();
    let refused = |operate: &dyn Fn() -> Result<()>| {
        let mut result = Ok(());
        let _ = device.record(|| {
            result = operate();
            Ok(())
        });
        result.is_err()
    };
    assert!(refused(&|| a.transpose().map(drop)));
    assert!(refused(&|| a.lower_triangle(0).map(drop)));
    assert!(refused(&|| a.to_triplets().map(drop)));
    assert!(refused(&|| a.add(1.0, 1.0, &a).map(drop)));
    assert!(refused(&|| a.kronecker(&a).map(drop)));
}

/// Rows of `(column, value)`, in any order and with duplicates.
fn rows() -> impl Strategy<Value = (usize, Vec<Vec<(usize, f64)>>)> {
    (1usize..90).prop_flat_map(|ncols| {
        let entry = (0..ncols, (-8i32..8).prop_map(f64::from));
        (Just(ncols), prop::collection::vec(prop::collection::vec(entry, 0..40), 0..90))
    })
}

fn random_cases(device: &Device) {
    properties::check("convert", 20, (rows(), any::<u64>()), |((ncols, rows), seed)| {
        let matrix = matrices::from_rows::<f32>(ncols, rows);
        let a = device.upload(&matrix).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let nrows = matrix.nrows();
        prop_assert_eq!(bits(&of(&a.transpose().unwrap())), bits(&matrix.transpose().unwrap()));
        check_triplets(device, &matrix, &mut Random(seed));
        let k = (seed % 50) as i64 - 25;
        let lower = filtered(&matrix, 0..nrows, 0..ncols, |at, _| at <= k);
        prop_assert_eq!(bits(&of(&a.lower_triangle(k).unwrap())), bits(&lower));
        let mut random = Random(seed);
        let (rows, cols) = (permutation(&mut random, nrows), permutation(&mut random, ncols));
        let permuted = a.permute(&rows, &cols).unwrap();
        prop_assert_eq!(bits(&of(&permuted)), bits(&matrix.permute(&rows, &cols).unwrap()));
        prop_assert_eq!(bits(&of(&a.drop_zeros().unwrap())), bits(&matrix.drop_zeros()));
        prop_assert_eq!(bits(&of(&a.canonical().unwrap())), bits(&matrix.canonical()));
        Ok(())
    });
}

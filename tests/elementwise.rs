//! Sums, elementwise products and Kronecker products of sparse matrices.

mod common;

use std::{collections::BTreeMap, process::ExitCode};

use common::{
    Random,
    matrices::{self, bits},
    on_every_device, properties,
};
use proptest::prelude::*;
use warpsparse::{CooMatrix, CsrMatrix, Device, DeviceMatrix, Error, Result, Scalar};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! both {
        ($($name:ident),*) => {$(
            trials.extend(on_every_device(concat!(stringify!($name), "_f32"), $name::<f32>));
            trials.extend(on_every_device(concat!(stringify!($name), "_f64"), $name::<f64>));
        )*};
    }
    both!(sums_and_products, rows_of_all_lengths, kronecker_products);
    trials.extend(on_every_device("sums_are_rounded_term_by_term", rounding));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.push(common::on_device("elementwise_properties::emulated".into(), random_cases, || Device::emulated(3)));
    common::run(trials)
}

#[track_caller]
fn assert_same<T: Scalar>(case: &str, compute: impl Fn() -> Result<DeviceMatrix<T>>, expected: &CsrMatrix<T>) {
    let found = compute().unwrap().download().unwrap().into_csr().unwrap();
    assert!(bits(&found) == bits(expected), "{case}: another matrix");
}

/// The entries by row and column, duplicates summed in order.
fn entries<T: Scalar>(matrix: &CsrMatrix<T>) -> BTreeMap<(usize, usize), T> {
    let mut entries = BTreeMap::new();
    for (row, col, value) in matrix.triplets() {
        entries.entry((row, col)).and_modify(|sum| *sum += value).or_insert(value);
    }
    entries
}

fn from_entries<T: Scalar>(nrows: usize, ncols: usize, entries: BTreeMap<(usize, usize), T>) -> CsrMatrix<T> {
    let mut rows = vec![vec![]; nrows];
    entries.into_iter().for_each(|((row, col), value)| rows[row].push((col, value.to_f64())));
    matrices::from_rows(ncols, rows)
}

/// Of sums, `alpha * a + beta * b` by entries, and of products, `a * b`.
fn references<T: Scalar>(a: &CsrMatrix<T>, b: &CsrMatrix<T>, alpha: T, beta: T) -> [CsrMatrix<T>; 2] {
    let (of_a, of_b) = (entries(a), entries(b));
    let mut sum: BTreeMap<_, _> = of_a.iter().map(|(&at, &value)| (at, alpha * value)).collect();
    for (&at, &value) in &of_b {
        let term = beta * value;
        sum.entry(at).and_modify(|sum| *sum += term).or_insert(term);
    }
    let common = of_a.iter().filter_map(|(at, &value)| Some((*at, value * *of_b.get(at)?)));
    let product = common.collect();
    [from_entries(a.nrows(), a.ncols(), sum), from_entries(a.nrows(), a.ncols(), product)]
}

#[track_caller]
fn check<T: Scalar>(case: &str, device: &Device, a: &CsrMatrix<T>, b: &CsrMatrix<T>) {
    let (on_a, on_b) = (device.upload(a).unwrap(), device.upload(b).unwrap());
    let (alpha, beta) = (T::from_f64(0.3), T::from_f64(-0.7));
    let [sum, product] = references(a, b, alpha, beta);
    assert_same(&format!("{case}: a sum"), || on_a.add(alpha, beta, &on_b), &sum);
    assert_same(&format!("{case}: a product"), || on_a.hadamard(&on_b), &product);
}

/// A matrix of another pattern and of the same size, with about half of the entries in common.
fn partner<T: Scalar>(matrix: &CsrMatrix<T>) -> CsrMatrix<T> {
    let mut random = Random(21);
    let mut rows = vec![vec![]; matrix.nrows()];
    for (row, col, _) in matrix.triplets() {
        match random.next_below(4) {
            0 => rows[row].push((random.next_below(matrix.ncols()), random.next_unit())),
            1 | 2 => rows[row].push((col, random.next_unit())),
            _ => {}
        }
    }
    matrices::from_rows(matrix.ncols(), rows)
}

fn sums_and_products<T: Scalar>(device: &Device) {
    for (name, a) in matrices::all::<T>() {
        let nothing = matrices::from_rows(a.ncols(), vec![vec![]; a.nrows()]);
        let b = partner(&a);
        check(name, device, &a, &b);
        check(&format!("{name}, itself"), device, &a, &a);
        check(&format!("{name}, nothing"), device, &a, &nothing);
        check(&format!("{name}, to nothing"), device, &nothing, &a);
    }
}

/// Rows of all lengths up to more than two steps of a group, in either operand.
fn rows_of_all_lengths<T: Scalar>(device: &Device) {
    let mut random = Random(22);
    for most in [20, 70] {
        let mut of = |length: &dyn Fn(usize) -> usize| {
            let mut row = |i: usize| {
                let mut columns: Vec<usize> = (0..100).collect();
                (0..100).for_each(|k| columns.swap(k, random.next_below(100)));
                columns.truncate(length(i));
                columns.sort_unstable();
                columns.into_iter().map(|column| (column, random.next_unit())).collect()
            };
            matrices::from_rows::<T>(100, (0..3 * most).map(&mut row).collect())
        };
        let (a, b) = (of(&|i| i % most), of(&|i| (i * 7 + 3) % most));
        check(&format!("rows of up to {most}"), device, &a, &b);
    }
}

fn kronecker_products<T: Scalar>(device: &Device) {
    let small = || {
        let all = matrices::all::<T>().into_iter();
        let mut of = Random(23);
        let duplicates = vec![vec![(2, 1.5), (0, of.next_unit()), (2, 2.0)], vec![], vec![(1, -0.5)]];
        let more = [("disorder", matrices::from_rows(3, duplicates)), ("uneven", matrices::uneven())];
        all.filter(|(_, matrix)| matrix.nnz() <= 200 && matrix.nrows() <= 64).chain(more)
    };
    for (a_name, a) in small() {
        for (b_name, b) in small().filter(|(_, b)| a.nnz() * b.nnz() <= 6_000) {
            let mut rows = vec![vec![]; a.nrows() * b.nrows()];
            for (i, (a_columns, a_values)) in a.rows().enumerate() {
                for (p, (b_columns, b_values)) in b.rows().enumerate() {
                    for (&j, &u) in a_columns.iter().zip(a_values) {
                        let of_b = b_columns.iter().zip(b_values);
                        let block = of_b.map(|(&q, &v)| (j as usize * b.ncols() + q as usize, (u * v).to_f64()));
                        rows[i * b.nrows() + p].extend(block);
                    }
                }
            }
            let expected = matrices::from_rows::<T>(a.ncols() * b.ncols(), rows);
            let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            assert_same(&format!("{a_name} (x) {b_name}"), || on_a.kronecker(&on_b), &expected);
        }
    }
}

/// A sum of two products is rounded three times: a fused one would differ here.
fn rounding(device: &Device) {
    let x = 1.0 + f64::EPSILON;
    let one = |value| device.upload(&matrices::from_rows::<f64>(1, vec![vec![(0, value)]])).unwrap();
    let sum = one(x).add(x, -1.0, &one(x * x)).unwrap().download().unwrap().into_csr().unwrap();
    assert_eq!(sum.values(), [0.0]);
}

fn what_does_not_fit(device: &Device) {
    let of =
        |nrows: usize, ncols: usize| device.upload(&matrices::from_rows::<f32>(ncols, vec![vec![]; nrows])).unwrap();
    let a = of(2, 3);
    assert!(matches!(a.add(1.0, 1.0, &of(3, 3)), Err(Error::LengthMismatch { what: "the rows of b", .. })));
    assert!(matches!(a.hadamard(&of(2, 2)), Err(Error::LengthMismatch { what: "the columns of b", .. })));
    let there = common::other(device).upload(&matrices::from_rows::<f32>(3, vec![vec![]; 2])).unwrap();
    assert!(matches!(a.add(1.0, 1.0, &there), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(a.kronecker(&there), Err(Error::DeviceMismatch { .. })));
    let tall = of(1 << 16, 1);
    let error = tall.kronecker(&tall).unwrap_err().to_string();
    assert!(error.contains("4294967296 rows"), "{error}");
    // Another format is an operand, too.
    let matrix = matrices::from_rows::<f32>(3, vec![vec![(1, 2.0)], vec![]]);
    let coo = device.upload(&CooMatrix::from(&matrix)).unwrap();
    assert_same("COO", || coo.add(1.0, 2.0, &coo), &matrices::from_rows(3, vec![vec![(1, 6.0)], vec![]]));
}

fn random_cases(device: &Device) {
    let matrix = |nrows: usize, ncols: usize| {
        let entry = (0..ncols, (-8i32..8).prop_map(f64::from));
        prop::collection::vec(prop::collection::vec(entry, 0..50), nrows)
    };
    let two = (1usize..60, 1usize..60)
        .prop_flat_map(move |(nrows, ncols)| (Just(ncols), matrix(nrows, ncols), matrix(nrows, ncols)));
    properties::check("elementwise", 20, two, |(ncols, a, b)| {
        let (a, b) = (matrices::from_rows::<f32>(ncols, a), matrices::from_rows::<f32>(ncols, b));
        check("random", device, &a, &b);
        Ok(())
    });
}

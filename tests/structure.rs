//! The structure of matrices, on every device: every figure against a slow reference, and by hand for a few.

mod common;

use std::{collections::HashSet, process::ExitCode};

use common::{
    matrices::{self, from_rows},
    on_cpu_and_gpu, on_every_device, properties,
};
use warpsparse::{CsrMatrix, Device, Structure, strategies};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("every_matrix", every_matrix));
    trials.extend(on_every_device("random_matrices", random_matrices));
    trials.extend(on_every_device("a_five_point_stencil", a_five_point_stencil));
    trials.extend(on_every_device("a_matrix_without_entries", a_matrix_without_entries));
    trials.extend(on_every_device("one_huge_row", one_huge_row));
    trials.extend(on_every_device("an_arrow", an_arrow));
    trials.extend(on_every_device("duplicates_and_unsorted_columns", duplicates_and_unsorted_columns));
    trials.extend(on_every_device("near_columns", near_columns));
    trials.extend(on_every_device("diagonals_are_counted_up_to_a_limit", diagonals_are_counted_up_to_a_limit));
    trials.extend(on_every_device("diagonals_1024_apart", diagonals_1024_apart));
    trials.extend(on_every_device("a_large_stencil", a_large_stencil));
    trials.extend(on_cpu_and_gpu("empty_rows_by_the_million", empty_rows_by_the_million));
    common::run(trials)
}

fn every_matrix(device: &Device) {
    for (name, matrix) in matrices::all::<f32>() {
        check(name, device, &matrix);
    }
}

fn random_matrices(device: &Device) {
    properties::check("structure", 128, strategies::csr_matrix::<f64>(), |matrix| {
        check("a random matrix", device, &matrix);
        Ok(())
    });
}

fn a_five_point_stencil(device: &Device) {
    let structure = structure(device, &stencil(40));
    assert_eq!((structure.nrows, structure.ncols, structure.nnz), (1600, 1600, 7840));
    assert_eq!((structure.min_row, structure.max_row), (3, 5));
    // 4 corners of 3 entries; of the others, 4 or 5.
    assert_eq!(structure.row_histogram[..5], [0, 0, 4, 1596, 0]);
    assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth), (40, 40));
    assert_eq!(structure.diagonals, Some(5));
    assert_eq!(structure.mean_row(), 4.9);
    let text = "1600 x 1600, 7840 entries, 3 to 5 a row, mean 4.90; bandwidth 40 below and 40 above the diagonal, \
                5 diagonals; locality ";
    assert!(structure.to_string().starts_with(text), "{structure}");
}

fn a_matrix_without_entries(device: &Device) {
    let structure = structure(device, &from_rows(7, vec![vec![]; 3000]));
    assert_eq!((structure.min_row, structure.max_row, structure.row_histogram[0]), (0, 0, 3000));
    assert_eq!((structure.mean_row(), from_rows::<f32>(7, vec![]).structure().mean_row()), (0.0, 0.0));
    assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth), (0, 0));
    assert_eq!((structure.diagonals, structure.near_entries), (Some(0), 0));
    assert!((structure.locality() - 1.0).abs() < f64::EPSILON);
}

fn one_huge_row(device: &Device) {
    let mut rows = vec![vec![]; 300];
    rows[150] = (0..70_001).map(|j| (j, 1.0)).collect();
    let structure = structure(device, &from_rows(70_001, rows));
    assert_eq!((structure.min_row, structure.max_row), (0, 70_001));
    // 2^16 <= 70 001 < 2^17.
    assert_eq!((structure.row_histogram[0], structure.row_histogram[17]), (299, 1));
    assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth), (150, 69_850));
    assert_eq!((structure.diagonals, structure.near_entries), (None, 70_000));
}

/// A full first row, a full first column and the diagonal.
fn an_arrow(device: &Device) {
    let mut rows: Vec<_> = (0..500).map(|i| vec![(0, 1.0), (i, 1.0)]).collect();
    rows[0] = (0..500).map(|j| (j, 1.0)).collect();
    let structure = structure(device, &from_rows(500, rows));
    assert_eq!((structure.row_histogram[2], structure.row_histogram[9]), (499, 1));
    assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth), (499, 499));
    assert_eq!(structure.diagonals, Some(999));
    // All that follow in the first row, and the diagonal of the rows whose column is below 64.
    assert_eq!(structure.near_entries, 499 + 63);
}

fn duplicates_and_unsorted_columns(device: &Device) {
    let rows = vec![vec![(2, 1.0), (0, 1.0), (2, 1.0)], vec![], vec![(1, 1.0), (1, 1.0)]];
    let structure = structure(device, &from_rows(3, rows));
    assert_eq!((structure.nnz, structure.min_row, structure.max_row), (5, 0, 3));
    assert_eq!(structure.row_histogram[..4], [1, 0, 2, 0]);
    assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth), (1, 2));
    assert_eq!((structure.diagonals, structure.near_entries), (Some(3), 3));
}

/// Groups of 32 columns: 31 and 32 are adjacent, 31 and 63 too, 31 and 64 are not.
fn near_columns(device: &Device) {
    let rows = vec![vec![(31, 1.0), (32, 1.0), (200, 1.0)], vec![(31, 1.0), (63, 1.0), (0, 1.0)], vec![(31, 1.0)]];
    let found = structure(device, &from_rows(300, rows));
    assert_eq!(found.near_entries, 3);
    assert!((found.locality() - 0.75).abs() < f64::EPSILON);
    let found = structure(device, &from_rows(300, vec![vec![(31, 1.0), (64, 1.0), (31, 1.0)]]));
    assert_eq!(found.near_entries, 0);
}

fn diagonals_are_counted_up_to_a_limit(device: &Device) {
    let row = |diagonals: usize| from_rows::<f32>(5000, vec![vec![], (0..diagonals).map(|j| (j, 1.0)).collect()]);
    assert_eq!(Structure::MAX_DIAGONALS, 1024);
    assert_eq!(structure(device, &row(1024)).diagonals, Some(1024));
    assert_eq!(structure(device, &row(1025)).diagonals, None);
    assert_eq!(structure(device, &row(5000)).diagonals, None);
}

/// Those that share a place in what a block remembers; odd rows turned round, so that no entry continues a diagonal.
fn diagonals_1024_apart(device: &Device) {
    let row = |i: usize| {
        let mut row: Vec<_> = (0..4).map(|diagonal| (i + 1024 * diagonal, 1.0)).collect();
        if i % 2 == 1 {
            row.reverse();
        }
        row
    };
    let structure = structure(device, &from_rows(8000, (0..3000).map(row).collect()));
    assert_eq!((structure.diagonals, structure.near_entries), (Some(4), 0));
    assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth), (0, 3072));
}

/// Many blocks.
fn a_large_stencil(device: &Device) {
    let size = if device.is_cuda() { 3000 } else { 150 };
    let structure = structure(device, &stencil(size));
    assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth, structure.diagonals), (size, size, Some(5)));
    assert_eq!(structure.nnz, 5 * size * size - 4 * size);
}

fn empty_rows_by_the_million(device: &Device) {
    let nrows = 10_000_000;
    let mut row_offsets = vec![0u32; nrows + 1];
    row_offsets[nrows - 1] = 1;
    row_offsets[nrows] = 3;
    let matrix = CsrMatrix::try_from_csr_data(nrows, 2, row_offsets, vec![0, 0, 1], vec![1.0f32; 3]).unwrap();
    check("ten million rows", device, &matrix);
}

/// The Laplacian of a grid of `n` by `n` points: each is coupled to its four neighbours.
fn stencil(n: usize) -> CsrMatrix<f32> {
    let row = |i: usize| {
        let (x, y) = (i % n, i / n);
        let mut row = vec![(i, 4.0)];
        row.extend((x > 0).then(|| (i - 1, -1.0)));
        row.extend((x < n - 1).then(|| (i + 1, -1.0)));
        row.extend((y > 0).then(|| (i - n, -1.0)));
        row.extend((y < n - 1).then(|| (i + n, -1.0)));
        row.sort_by_key(|&(column, _)| column);
        row
    };
    from_rows(n * n, (0..n * n).map(row).collect())
}

/// The structure found on the device, once it is the reference's.
fn structure(device: &Device, matrix: &CsrMatrix<f32>) -> Structure {
    check("a matrix", device, matrix);
    *device.upload(matrix).unwrap().structure().unwrap()
}

fn check<T: warpsparse::Scalar>(case: &str, device: &Device, matrix: &CsrMatrix<T>) {
    let found = *device.upload(matrix).unwrap().structure().unwrap();
    assert_eq!(figures(&found), reference(matrix), "{case}");
    assert_eq!(found, matrix.structure(), "{case}");
}

/// All figures, in the order of the struct.
type Figures = ([usize; 5], [usize; 33], [usize; 2], Option<usize>, usize);

fn figures(of: &Structure) -> Figures {
    let size = [of.nrows, of.ncols, of.nnz, of.min_row, of.max_row];
    (size, of.row_histogram, [of.lower_bandwidth, of.upper_bandwidth], of.diagonals, of.near_entries)
}

/// Row by row, entry by entry, as the documentation has it.
fn reference<T: warpsparse::Scalar>(matrix: &CsrMatrix<T>) -> Figures {
    let lengths: Vec<usize> = (0..matrix.nrows()).map(|i| matrix.row_range(i).len()).collect();
    let (min, max) = (lengths.iter().min().copied().unwrap_or(0), lengths.iter().max().copied().unwrap_or(0));
    let mut histogram = [0; 33];
    for length in lengths {
        histogram[if length == 0 { 0 } else { length.ilog2() as usize + 1 }] += 1;
    }
    let (mut lower, mut upper, mut near, mut diagonals) = (0, 0, 0, HashSet::new());
    let mut previous = None;
    for (i, j, _) in matrix.triplets() {
        lower = lower.max(i.saturating_sub(j));
        upper = upper.max(j.saturating_sub(i));
        diagonals.insert(j as i64 - i as i64);
        near += usize::from(
            previous.is_some_and(|(row, column): (_, usize)| row == i && (column / 32).abs_diff(j / 32) <= 1),
        );
        previous = Some((i, j));
    }
    let diagonals = (diagonals.len() <= Structure::MAX_DIAGONALS).then_some(diagonals.len());
    ([matrix.nrows(), matrix.ncols(), matrix.nnz(), min, max], histogram, [lower, upper], diagonals, near)
}

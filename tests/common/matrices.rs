//! Matrices that are hard on kernels, each with a name.

use warpsparse::{CooMatrix, CsrMatrix, Scalar};

use super::Random;

/// Every matrix that a product must get right.
pub(crate) fn all<T: Scalar>() -> Vec<(&'static str, CsrMatrix<T>)> {
    vec![
        ("0 x 0", from_rows(0, vec![])),
        ("0 x 5", from_rows(5, vec![])),
        ("5 x 0", from_rows(0, vec![vec![]; 5])),
        ("1 x 1", from_rows(1, vec![vec![(0, 2.0)]])),
        ("1 x 1 without entries", from_rows(1, vec![vec![]])),
        ("empty rows only", from_rows(7, vec![vec![]; 1000])),
        ("diagonal", from_rows(777, (0..777).map(|i| vec![(i, i as f64 + 0.5)]).collect())),
        ("explicit zeros", from_rows(64, (0..64).map(|i| vec![(i, 0.0), (63 - i, 1.0), (i / 2, 0.0)]).collect())),
        ("row lengths around every step", row_lengths(0..=140)),
        ("row lengths falling", row_lengths((0..=140).rev())),
        ("one huge row among empty ones", huge_row(300, 150)),
        ("a huge last row", huge_row(300, 299)),
        ("one row only, huge", huge_row(1, 0)),
        ("arrow", arrow(1500)),
        ("duplicates and unsorted columns", duplicates()),
        ("wide", random(3, 5000, 400)),
        ("tall", random(5000, 3, 2)),
        ("random", random(1003, 997, 30)),
        ("power law", power_law(2000)),
    ]
}

/// A matrix by rows of `(column, value)`, taken as they are: order and duplicates stay.
pub(crate) fn from_rows<T: Scalar>(ncols: usize, rows: Vec<Vec<(usize, f64)>>) -> CsrMatrix<T> {
    let mut row_offsets = vec![0u32];
    for row in &rows {
        row_offsets.push(row_offsets[row_offsets.len() - 1] + row.len() as u32);
    }
    let columns = rows.iter().flatten().map(|&(column, _)| column as u32).collect();
    let values = rows.iter().flatten().map(|&(_, value)| T::from_f64(value)).collect();
    CsrMatrix::try_from_csr_data(rows.len(), ncols, row_offsets, columns, values).expect("a valid test matrix")
}

/// The 5-point stencil on `side * side` points: 4 on the diagonal, -1 for each neighbour.
pub(crate) fn stencil(side: usize) -> CsrMatrix<f64> {
    let row = |i: usize| {
        let (row, col) = (i / side, i % side);
        let mut entries = vec![];
        let mut entry = |there: bool, column: usize, value| there.then(|| entries.push((column, value)));
        entry(row > 0, i.wrapping_sub(side), -1.0);
        entry(col > 0, i.wrapping_sub(1), -1.0);
        entry(true, i, 4.0);
        entry(col + 1 < side, i + 1, -1.0);
        entry(row + 1 < side, i + side, -1.0);
        entries
    };
    from_rows(side * side, (0..side * side).map(row).collect())
}

/// A matrix with empty, short and long rows, in which pieces of 16 entries have remainders of every kind.
pub(crate) fn uneven<T: Scalar>() -> CsrMatrix<T> {
    let mut random = Random(11);
    let rows = (0..45).map(|i| {
        (0..[0, 1, 3, 4, 5, 8, 31, 64, 150][i % 9]).map(|_| (random.next_below(60), random.next_unit())).collect()
    });
    from_rows(60, rows.collect())
}

fn row_lengths<T: Scalar>(lengths: impl Iterator<Item = usize>) -> CsrMatrix<T> {
    let mut random = Random(1);
    from_rows(150, lengths.map(|len| (0..len).map(|j| (j, random.next_unit())).collect()).collect())
}

/// Row `at` of `rows` has 70 001 entries, the others none.
fn huge_row<T: Scalar>(rows: usize, at: usize) -> CsrMatrix<T> {
    let mut random = Random(2);
    let mut matrix = vec![vec![]; rows];
    matrix[at] = (0..70_001).map(|j| (j, random.next_unit())).collect();
    from_rows(70_001, matrix)
}

/// One full row, one full column, and the diagonal.
fn arrow<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let mut random = Random(3);
    let mut row = |i: usize| match i {
        0 => (0..n).map(|j| (j, random.next_unit())).collect(),
        _ => vec![(0, random.next_unit()), (i, random.next_unit())],
    };
    from_rows(n, (0..n).map(&mut row).collect())
}

fn duplicates<T: Scalar>() -> CsrMatrix<T> {
    let mut random = Random(4);
    let mut row = |i: usize| (0..i % 90).map(|_| (random.next_below(10), random.next_unit())).collect();
    from_rows(10, (0..400).map(&mut row).collect())
}

fn random<T: Scalar>(nrows: usize, ncols: usize, per_row: usize) -> CsrMatrix<T> {
    let mut random = Random(5);
    let triplets: Vec<_> = (0..nrows * per_row)
        .map(|_| (random.next_below(nrows) as u32, random.next_below(ncols) as u32, random.next_unit()))
        .collect();
    let rows = triplets.iter().map(|&(i, _, _)| i).collect();
    let columns = triplets.iter().map(|&(_, j, _)| j).collect();
    let values = triplets.iter().map(|&(_, _, value)| T::from_f64(value)).collect();
    CsrMatrix::try_from(&CooMatrix::try_from_triplets(nrows, ncols, rows, columns, values).expect("indices in range"))
        .unwrap()
}

/// Row `i` has about `n / (i + 1)` entries.
fn power_law<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let mut random = Random(6);
    let mut row = |i: usize| (0..n / (i + 1)).map(|_| (random.next_below(n), random.next_unit())).collect();
    from_rows(n, (0..n).map(&mut row).collect())
}

/// A matrix that can be compared bit for bit: size, offsets, columns, and values whose NaN and -0 count.
pub(crate) type Bits = (usize, usize, Vec<u32>, Vec<u32>, Vec<u64>);

pub(crate) fn bits<T: Scalar>(matrix: &CsrMatrix<T>) -> Bits {
    let values = matrix.values().iter().map(|value| value.to_f64().to_bits()).collect();
    (matrix.nrows(), matrix.ncols(), matrix.row_offsets().to_vec(), matrix.col_indices().to_vec(), values)
}

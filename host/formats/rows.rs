//! Building CSR matrices row by row, on all cores with the feature `rayon`.

use std::ops::Range;

use super::coo::check_limits;
use crate::{
    CsrMatrix, Offset, Result, Scalar,
    memory::zeros,
    parallel::{BLOCK, for_blocks, join},
};

/// Builds a matrix, rows in parallel: `row_length(row)` says how many entries a row has, no more than `O` counts, and
/// `fill(row, columns, values)` writes them.
///
/// # Errors
/// [`Error::InvalidMatrix`](crate::Error::InvalidMatrix) if there are more entries than `O` counts, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub(crate) fn from_rows<T: Scalar, O: Offset>(
    nrows: usize,
    ncols: usize,
    row_length: impl Fn(usize) -> usize + Sync,
    fill: impl Fn(usize, &mut [u32], &mut [T]) + Sync,
) -> Result<CsrMatrix<T, O>> {
    let mut offsets = zeros::<O>(nrows + 1)?;
    for_blocks(0..nrows, &mut offsets[1..], &|rows: Range<usize>, lengths: &mut [O]| {
        for (row, length) in rows.zip(lengths) {
            *length = O::try_from(row_length(row)).ok().expect("no row has more entries than offsets count");
        }
    });
    let mut nnz = 0u64;
    for offset in &mut offsets {
        nnz += offset.index() as u64;
        // A number that does not fit is refused below.
        *offset = O::try_from(nnz as usize).unwrap_or_default();
    }
    let nnz = usize::try_from(nnz).unwrap_or(usize::MAX);
    check_limits::<O>("CSR", nrows, ncols, nnz)?;
    let (mut columns, mut values) = (zeros(nnz)?, zeros(nnz)?);
    fill_rows(0..nrows, &offsets, &mut columns, &mut values, &fill);
    // SAFETY: the offsets are running sums of the rows' lengths, the limits have been checked, and every caller writes
    // columns of its matrix.
    Ok(unsafe { CsrMatrix::from_csr_data_unchecked(nrows, ncols, offsets, columns, values) })
}

fn fill_rows<T: Scalar, O: Offset>(
    rows: Range<usize>,
    offsets: &[O],
    columns: &mut [u32],
    values: &mut [T],
    fill: &(impl Fn(usize, &mut [u32], &mut [T]) + Sync),
) {
    let begin = offsets[rows.start].index();
    if rows.len() <= BLOCK {
        for row in rows {
            let entries = offsets[row].index() - begin..offsets[row + 1].index() - begin;
            fill(row, &mut columns[entries.clone()], &mut values[entries]);
        }
        return;
    }
    let middle = rows.start + rows.len() / 2;
    let split = offsets[middle].index() - begin;
    let (columns, later_columns) = columns.split_at_mut(split);
    let (values, later_values) = values.split_at_mut(split);
    join(
        || fill_rows(rows.start..middle, offsets, columns, values, fill),
        || fill_rows(middle..rows.end, offsets, later_columns, later_values, fill),
    );
}

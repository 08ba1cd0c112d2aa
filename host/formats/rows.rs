//! Building CSR matrices row by row, on all cores with the feature `rayon`.

use std::ops::Range;

use super::coo::check_limits;
use crate::{CsrMatrix, Offset, Result, Scalar, memory::zeros};

/// Below this many rows, or other elements, a block of work is not split any more.
pub(crate) const BLOCK: usize = 4096;

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

/// Calls `work(indices, elements)` for consecutive blocks of `elements`, in parallel.
pub(crate) fn for_blocks<E: Send>(
    indices: Range<usize>,
    elements: &mut [E],
    work: &(impl Fn(Range<usize>, &mut [E]) + Sync),
) {
    for_blocks_of(BLOCK, indices, elements, work);
}

/// As [`for_blocks`], with blocks of at most so many elements.
pub(crate) fn for_blocks_of<E: Send>(
    block: usize,
    indices: Range<usize>,
    elements: &mut [E],
    work: &(impl Fn(Range<usize>, &mut [E]) + Sync),
) {
    if indices.len() <= block {
        return work(indices, elements);
    }
    let half = indices.len() / 2;
    let middle = indices.start + half;
    let (elements, later) = elements.split_at_mut(half);
    join(
        || for_blocks_of(block, indices.start..middle, elements, work),
        || for_blocks_of(block, middle..indices.end, later, work),
    );
}

/// Does both, in parallel with the feature `rayon`.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    #[cfg(feature = "rayon")]
    return rayon::join(a, b);
    #[cfg(not(feature = "rayon"))]
    return (a(), b());
}

//! What the compressed formats, by rows and by columns, have in common: their arrays and how those are built.
//!
//! Compressed by columns, a matrix has the arrays of its transpose compressed by rows. So all of this, and every
//! operation, is written for rows; only errors have to know which of the two it is.

use super::CsrMatrix;
use crate::{
    Error, Offset, Result, Scalar,
    memory::{room, zeros},
};

/// What errors call a compressed format, the dimension that it is compressed along, the other, and what it stores: one and several.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) format: &'static str,
    pub(crate) major: &'static str,
    pub(crate) minor: &'static str,
    pub(crate) stored: [&'static str; 2],
}

pub(crate) const CSR: Names = Names { format: "CSR", major: "row", minor: "column", stored: ["entry", "entries"] };
pub(crate) const CSC: Names = Names { format: "CSC", major: "column", minor: "row", stored: ["entry", "entries"] };
pub(crate) const BSR: Names =
    Names { format: "BSR", major: "block row", minor: "block column", stored: ["block", "blocks"] };

impl Names {
    pub(crate) fn invalid(&self, problem: String) -> Error {
        Error::InvalidMatrix { format: self.format, problem }
    }
}

/// Whether these are the arrays of a compressed matrix of `nmajor` rows (or columns). The error names the first
/// violation.
pub(super) fn check_arrays<O: Offset>(
    names: &Names,
    nmajor: usize,
    nminor: usize,
    offsets: &[O],
    indices: &[u32],
    nnz: usize,
) -> Result<()> {
    let Names { major, minor, stored: [one, several], .. } = names;
    let invalid = |problem| Err(names.invalid(problem));
    if offsets.len().checked_sub(1) != Some(nmajor) {
        let found = offsets.len();
        return invalid(format!(
            "{found} {major} offsets for {nmajor} {major}s, where there must be one more than {major}s"
        ));
    }
    if indices.len() != nnz {
        return invalid(format!("{} {minor} indices and {nnz} values", indices.len()));
    }
    if offsets[0] != O::default() {
        return invalid(format!("the first {major} offset is {}, not 0", offsets[0]));
    }
    if let Some(i) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return invalid(format!("{major} {i} begins at {} and ends at {}", offsets[i], offsets[i + 1]));
    }
    // Compared as offsets: as an index, one beyond the address space would wrap.
    if O::try_from(nnz).ok() != Some(offsets[nmajor]) {
        return invalid(format!("the last {major} offset is {}, and there are {nnz} {several}", offsets[nmajor]));
    }
    if let Some(k) = indices.iter().position(|&index| index as usize >= nminor) {
        let at = offsets.partition_point(|&offset| offset.index() <= k) - 1;
        return invalid(format!("{one} {k}, in {major} {at}, is in {minor} {} of {nminor}", indices[k]));
    }
    Ok(())
}

/// The matrix whose `k`-th entry, in any order, is in row `rows[k]` and has the column and the value that `entries`
/// gives `k`-th. The entries of a row keep their order, and duplicates stay apart.
///
/// A counting sort: `O(nnz + nrows)`. There are no more entries than `O` counts.
///
/// # Errors
/// [`Error::OutOfMemory`]: `nrows` may come from a file, and there may be many more rows than entries.
///
/// # Safety
/// Dimensions are at most `u32::MAX`. `entries` has as many elements as `rows`, with columns smaller than `ncols`.
pub(super) unsafe fn sort_into_rows<T: Scalar, O: Offset>(
    nrows: usize,
    ncols: usize,
    rows: &[u32],
    entries: impl Iterator<Item = (u32, T)>,
) -> Result<CsrMatrix<T, O>> {
    let mut row_offsets = zeros::<O>(nrows + 1)?;
    let mut next = room::<O>(nrows + 1)?;
    for &row in rows {
        let length = &mut row_offsets[row as usize + 1];
        *length = offset(length.index() + 1);
    }
    for i in 0..nrows {
        row_offsets[i + 1] = offset(row_offsets[i].index() + row_offsets[i + 1].index());
    }

    // Columns and values scatter together, for one cache miss an entry rather than two.
    next.extend_from_slice(&row_offsets);
    let mut sorted = vec![(0, T::default()); rows.len()];
    for (&row, entry) in rows.iter().zip(entries) {
        let position = next[row as usize].index();
        sorted[position] = entry;
        next[row as usize] = offset(position + 1);
    }
    let (col_indices, values) = sorted.into_iter().unzip();
    // SAFETY: the offsets are running sums of the rows' lengths; the columns are the caller's promise.
    Ok(unsafe { CsrMatrix::from_csr_data_unchecked(nrows, ncols, row_offsets, col_indices, values) })
}

/// The matrix whose row `i` has the entries that `append(i, col_indices, values)` adds to the arrays, as many to the one
/// as to the other. Room for `capacity` entries is made beforehand. `row_offsets` is empty, with room for all.
///
/// There are no more entries than `O` counts.
///
/// # Safety
/// Dimensions are at most `u32::MAX`. `append` leaves alone what the arrays hold already, and the columns that it adds
/// are smaller than `ncols`.
pub(super) unsafe fn append_rows<T: Scalar, O: Offset>(
    nrows: usize,
    ncols: usize,
    mut row_offsets: Vec<O>,
    capacity: usize,
    mut append: impl FnMut(usize, &mut Vec<u32>, &mut Vec<T>),
) -> CsrMatrix<T, O> {
    row_offsets.push(O::default());
    let (mut col_indices, mut values) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    for i in 0..nrows {
        append(i, &mut col_indices, &mut values);
        assert_eq!(col_indices.len(), values.len(), "a value for every column");
        row_offsets.push(offset(values.len()));
    }
    // SAFETY: the offsets are the lengths that the arrays had; the columns are the caller's promise.
    unsafe { CsrMatrix::from_csr_data_unchecked(nrows, ncols, row_offsets, col_indices, values) }
}

/// An index as an offset, where it is known to fit.
fn offset<O: Offset>(index: usize) -> O {
    O::try_from(index).ok().expect("no more entries than offsets count")
}

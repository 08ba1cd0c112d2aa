//! Hybrid format: ELL and COO.

use super::{
    coo::check_limits,
    ell::{check_fill, longest_row},
    padded::slot_limit,
    rows::from_rows,
};
use crate::{
    CooMatrix, CsrMatrix, Element, EllMatrix, Error, Offset, Result, Scalar, memory::zeros, parallel::for_blocks,
};

/// A sparse matrix as the sum of a matrix in ELL, for the length of most rows, and one in COO, for the remaining
/// entries of longer rows (N. Bell, M. Garland: Efficient Sparse Matrix-Vector Multiplication on CUDA, 2008).
///
/// Both parts have the matrix's shape, and the entries of the COO part are sorted by row; this is checked once, when
/// the matrix is built. Clones share the arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct HybMatrix<T> {
    ell: EllMatrix<T>,
    coo: CooMatrix<T>,
}

impl<T: Scalar> HybMatrix<T> {
    /// Creates the sum of two matrices.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`] if they differ in shape, or the entries of `coo` are not sorted by row; the text names
    /// the first that is out of order.
    pub fn try_from_parts(ell: EllMatrix<T>, coo: CooMatrix<T>) -> Result<Self> {
        let invalid = |problem| Err(Error::InvalidMatrix { format: "HYB", problem });
        if (ell.nrows(), ell.ncols()) != (coo.nrows(), coo.ncols()) {
            return invalid(format!(
                "an ELL part of {} x {} and a COO part of {} x {}",
                ell.nrows(),
                ell.ncols(),
                coo.nrows(),
                coo.ncols()
            ));
        }
        if let Some(k) = coo.row_indices().windows(2).position(|pair| pair[0] > pair[1]) {
            let (before, row) = (coo.row_indices()[k], coo.row_indices()[k + 1]);
            return invalid(format!("entry {} of the COO part is in row {row}, after one in row {before}", k + 1));
        }
        Ok(Self { ell, coo })
    }

    /// Converts a CSR matrix, with the first `width` entries of each row in the ELL part and the others, row by row, in
    /// the COO part. The width is at most the length of the longest row.
    ///
    /// # Errors
    /// [`Error::PaddingExceeded`] if the ELL part would have more than [`EllMatrix::MAX_FILL`] slots per entry of the
    /// matrix, and more than 2¹⁶; [`Error::InvalidMatrix`] if the COO part would have more than `u32::MAX` entries; and
    /// [`Error::OutOfMemory`].
    pub fn from_csr_with_width<O: Offset>(csr: &CsrMatrix<T, O>, width: usize) -> Result<Self> {
        let width = width.min(longest_row(csr));
        check_fill("HYB", (csr.nrows(), csr.nnz()), width, slot_limit(csr.nnz(), EllMatrix::<T>::MAX_FILL)?)?;
        Self::split(csr, width)
    }

    fn split<O: Offset>(csr: &CsrMatrix<T, O>, width: usize) -> Result<Self> {
        // First the part that can be too large.
        let coo = row_ends(csr, width)?;
        Ok(Self { ell: EllMatrix::from_row_starts(csr, width)?, coo })
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.ell.nrows()
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ell.ncols()
    }

    /// Returns the number of stored entries of both parts, including duplicates and explicit zeros but not padding.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.ell.nnz() + self.coo.nnz()
    }

    /// Returns the ELL part.
    #[must_use]
    pub fn ell(&self) -> &EllMatrix<T> {
        &self.ell
    }

    /// Returns the COO part, sorted by row.
    #[must_use]
    pub fn coo(&self) -> &CooMatrix<T> {
        &self.coo
    }

    /// Iterates over the entries as `(row, column, value)`, row by row; in each row, the ELL part comes first.
    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        (0..self.nrows()).flat_map(move |i| self.row(i).map(move |(column, value)| (i, column as usize, value)))
    }

    /// The entries of a row, as columns and values. Costs a binary search.
    fn row(&self, i: usize) -> impl Iterator<Item = (u32, T)> {
        let rows = self.coo.row_indices();
        let begin = rows.partition_point(|&row| (row as usize) < i);
        let in_coo = (begin..rows.len()).take_while(move |&k| rows[k] as usize == i);
        self.ell.row(i).chain(in_coo.map(|k| (self.coo.col_indices()[k], self.coo.values()[k])))
    }
}

/// The entries behind the first `width` of each row, in their order.
pub(crate) fn row_ends<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, width: usize) -> Result<CooMatrix<T>> {
    let (nrows, ncols) = (csr.nrows(), csr.ncols());
    let length = |i: usize| csr.row_range(i).len().saturating_sub(width);
    let nnz = (0..nrows).map(length).sum();
    check_limits::<u32>("COO", nrows, ncols, nnz)?;
    let mut begins = zeros::<u32>(nrows + 1)?;
    for i in 0..nrows {
        // Fits, as the sum of all lengths does.
        begins[i + 1] = begins[i] + length(i) as u32;
    }
    let entry_of = |i: usize, k: usize| csr.row_range(i).start + width + k;
    let row_indices = by_entries(&begins, |i, _| i as u32)?;
    let col_indices = by_entries(&begins, |i, k| csr.col_indices()[entry_of(i, k)])?;
    let values = by_entries(&begins, |i, k| csr.values()[entry_of(i, k)])?;
    CooMatrix::try_from_triplets(nrows, ncols, row_indices, col_indices, values)
}

/// `of(i, k)` for the `k`-th entry of row `i`, in row order; row `i` begins at `begins[i]`. Blocks of entries in parallel.
fn by_entries<E: Element>(begins: &[u32], of: impl Fn(usize, usize) -> E + Sync) -> Result<Vec<E>> {
    let nnz = begins[begins.len() - 1] as usize;
    let mut array = zeros(nnz)?;
    for_blocks(0..nnz, &mut array, &|entries, elements| {
        let mut i = begins.partition_point(|&begin| begin as usize <= entries.start) - 1;
        for (entry, element) in entries.zip(elements) {
            while begins[i + 1] as usize <= entry {
                i += 1;
            }
            *element = of(i, entry - begins[i] as usize);
        }
    });
    Ok(array)
}

/// The width of the ELL part: a column of it pays where at least a third of the rows have an entry for it, because an
/// entry costs about three times as much in the COO part as a slot in ELL, and where it keeps enough rows busy (Bell &
/// Garland).
fn best_width<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>) -> Result<usize> {
    let most = most_width(csr.nrows(), csr.nnz());
    let mut rows_of_length = zeros::<u32>(most + 1)?;
    for i in 0..csr.nrows() {
        rows_of_length[csr.row_range(i).len().min(most)] += 1;
    }
    Ok(width_for(csr.nrows(), &rows_of_length))
}

/// So many rows must have an entry for a column of the ELL part.
fn enough_rows(nrows: usize) -> usize {
    const BUSY_ROWS: usize = 4096;
    nrows.div_ceil(3).max(BUSY_ROWS)
}

/// The greatest width that a matrix with so many rows and entries can get: enough rows cannot all be longer. Rows that are count as of this length.
pub(crate) fn most_width(nrows: usize, entries: usize) -> usize {
    entries / enough_rows(nrows)
}

/// The best width where so many rows have each of the lengths up to [`most_width`].
pub(crate) fn width_for(nrows: usize, rows_of_length: &[u32]) -> usize {
    let enough = enough_rows(nrows);
    let mut rows = 0;
    let is_enough = |&width: &usize| {
        rows += rows_of_length[width] as usize;
        rows >= enough
    };
    (0..rows_of_length.len()).rev().find(is_enough).unwrap_or(0)
}

/// Keeps all entries and their order: the first of each row in the ELL part, the others in the COO part. The ELL part
/// gets another column as long as at least a third of the rows, and at least 4096, have an entry for it; so it has
/// about three slots per entry at most.
///
/// Fails with [`Error::InvalidMatrix`] if the COO part would have more than `u32::MAX` entries, which requires 64-bit
/// offsets, and with [`Error::OutOfMemory`].
impl<T: Scalar, O: Offset> TryFrom<&CsrMatrix<T, O>> for HybMatrix<T> {
    type Error = Error;

    fn try_from(csr: &CsrMatrix<T, O>) -> Result<Self> {
        Self::split(csr, best_width(csr)?)
    }
}

/// Keeps all entries; in each row, those of the ELL part come first. Fails with [`Error::InvalidMatrix`] if there are
/// more than `O` can count, and with [`Error::OutOfMemory`].
impl<T: Scalar, O: Offset> TryFrom<&HybMatrix<T>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(hyb: &HybMatrix<T>) -> Result<Self> {
        check_limits::<O>("CSR", hyb.nrows(), hyb.ncols(), hyb.nnz())?;
        from_rows(
            hyb.nrows(),
            hyb.ncols(),
            |i| hyb.row(i).count(),
            |i, columns, values| {
                for ((entry, column), value) in hyb.row(i).zip(columns).zip(values) {
                    (*column, *value) = entry;
                }
            },
        )
    }
}

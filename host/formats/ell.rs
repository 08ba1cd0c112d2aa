//! ELLPACK format.

use std::sync::Arc;

use super::{
    coo::check_limits,
    padded::{self, check_slots, for_row_blocks, is_positive_zero, leading_dimension, slot_limit},
    rows::from_rows,
};
use crate::{CsrMatrix, Element, Error, Offset, Result, Scalar, memory::zeros};

/// A sparse matrix with the same number of slots in every row, the `width`, for matrices with rows of similar length
/// (N. Bell, M. Garland: Efficient Sparse Matrix-Vector Multiplication on CUDA, 2008).
///
/// Slots are stored column by column, so that threads of consecutive rows read consecutive addresses: slot `k` of row
/// `i` is at `k * leading_dimension + i` in `col_indices` and `values`. The entries of a row come first, in any order
/// of columns, with duplicates and explicit zeros allowed. The remaining slots, and those of rows from `nrows` to
/// `leading_dimension`, are padding: column [`PADDING`](Self::PADDING) and value +0.0. The leading dimension is a
/// multiple of 4, for loads of several elements.
///
/// All this is checked once, when the matrix is built. Clones share the arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct EllMatrix<T> {
    nrows: usize,
    ncols: usize,
    width: usize,
    leading_dimension: usize,
    nnz: usize,
    col_indices: Arc<Vec<u32>>,
    values: Arc<Vec<T>>,
}

impl<T: Scalar> EllMatrix<T> {
    /// The column index of padding. No matrix has such a column.
    pub const PADDING: u32 = kernels_gpu::ELL_PADDING;

    /// The default maximum of slots per entry in conversions; up to 2¹⁶ slots are always accepted.
    pub const MAX_FILL: f64 = padded::MAX_FILL;

    /// Creates a matrix from its arrays, both of length `leading_dimension * width`.
    ///
    /// Takes the arrays without copying, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a dimension beyond `u32::MAX`, a leading dimension that is
    /// less than `nrows` or not a multiple of 4, a wrong array length, a column index out of range, an entry after
    /// padding or below the last row, or padding with a value other than +0.0.
    pub fn try_from_ell_data(
        nrows: usize,
        ncols: usize,
        width: usize,
        leading_dimension: usize,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        check_limits::<u64>("ELL", nrows, ncols, values.len())?;
        check_structure(nrows, ncols, width, leading_dimension, &col_indices, &values)
            .map_err(|problem| Error::InvalidMatrix { format: "ELL", problem })?;
        let nnz = count_entries(&col_indices);
        Ok(Self::from_valid_parts(nrows, ncols, width, leading_dimension, nnz, col_indices, values))
    }

    /// Creates a matrix like [`try_from_ell_data`](Self::try_from_ell_data), without the checks; still counts the
    /// entries.
    ///
    /// # Safety
    /// `try_from_ell_data` accepts these arguments.
    #[must_use]
    pub unsafe fn from_ell_data_unchecked(
        nrows: usize,
        ncols: usize,
        width: usize,
        leading_dimension: usize,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Self {
        let nnz = count_entries(&col_indices);
        Self::from_valid_parts(nrows, ncols, width, leading_dimension, nnz, col_indices, values)
    }

    fn from_valid_parts(
        nrows: usize,
        ncols: usize,
        width: usize,
        leading_dimension: usize,
        nnz: usize,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Self {
        debug_assert_eq!(check_structure(nrows, ncols, width, leading_dimension, &col_indices, &values), Ok(()));
        debug_assert_eq!(count_entries(&col_indices), nnz);
        let (col_indices, values) = (Arc::new(col_indices), Arc::new(values));
        Self { nrows, ncols, width, leading_dimension, nnz, col_indices, values }
    }

    /// Converts a CSR matrix like `TryFrom`, with at most `max_fill` slots per entry instead of
    /// [`MAX_FILL`](Self::MAX_FILL).
    ///
    /// # Errors
    /// [`Error::PaddingExceeded`] if the matrix needs more, [`Error::InvalidOption`] if `max_fill` is negative or NaN,
    /// and [`Error::OutOfMemory`].
    pub fn from_csr_with_fill<O: Offset>(csr: &CsrMatrix<T, O>, max_fill: f64) -> Result<Self> {
        let limit = slot_limit(csr.nnz(), max_fill)?;
        let width = longest_row(csr);
        check_fill("ELL", (csr.nrows(), csr.nnz()), width, limit)?;
        Self::from_row_starts(csr, width)
    }

    /// The first `width` entries of every row.
    pub(super) fn from_row_starts<O: Offset>(csr: &CsrMatrix<T, O>, width: usize) -> Result<Self> {
        let leading_dimension = leading_dimension(csr.nrows());
        let col_indices = transpose(csr, csr.col_indices(), width, Self::PADDING)?;
        let values = transpose(csr, csr.values(), width, T::default())?;
        let nnz = (0..csr.nrows()).map(|i| csr.row_range(i).len().min(width)).sum();
        Ok(Self::from_valid_parts(csr.nrows(), csr.ncols(), width, leading_dimension, nnz, col_indices, values))
    }

    /// The same matrix with as many other values; those of padding are ignored.
    pub(crate) fn with_values(&self, mut values: Vec<T>) -> Self {
        assert_eq!(values.len(), self.values.len());
        let columns = self.col_indices.iter().zip(&mut values);
        columns.filter(|(column, _)| **column == Self::PADDING).for_each(|(_, value)| *value = T::default());
        Self { values: Arc::new(values), ..self.clone() }
    }

    /// The two arrays, to share.
    pub(crate) fn arrays(&self) -> (&Arc<Vec<u32>>, &Arc<Vec<T>>) {
        (&self.col_indices, &self.values)
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.nrows
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// Returns the number of slots per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the distance between the slots of a row in the arrays: `nrows` or more.
    #[must_use]
    pub fn leading_dimension(&self) -> usize {
        self.leading_dimension
    }

    /// Returns the number of stored entries, including duplicates and explicit zeros but not padding.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.nnz
    }

    /// Returns the column index of each slot.
    #[must_use]
    pub fn col_indices(&self) -> &[u32] {
        &self.col_indices
    }

    /// Returns the value of each slot.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Iterates over the entries as `(row, column, value)`, row by row.
    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        (0..self.nrows).flat_map(move |i| self.row(i).map(move |(column, value)| (i, column as usize, value)))
    }

    /// The entries of a row, as columns and values.
    pub(super) fn row(&self, i: usize) -> impl Iterator<Item = (u32, T)> {
        let slots = (0..self.width).map(move |k| k * self.leading_dimension + i);
        slots.map(|slot| (self.col_indices[slot], self.values[slot])).take_while(|&(column, _)| column != Self::PADDING)
    }
}

/// Refuses to store a matrix with so many rows and entries in more slots than the limit.
pub(super) fn check_fill(
    format: &'static str,
    (nrows, entries): (usize, usize),
    width: usize,
    limit: usize,
) -> Result<()> {
    let slots = leading_dimension(nrows).saturating_mul(width);
    if slots > limit {
        return Err(Error::PaddingExceeded { format, slots, entries, limit });
    }
    Ok(())
}

/// Refuses a matrix with so many rows and entries, the longest row of this width, beyond the slots that conversions accept.
pub(crate) fn check_width((nrows, entries): (usize, usize), width: usize) -> Result<()> {
    check_fill("ELL", (nrows, entries), width, slot_limit(entries, padded::MAX_FILL)?)
}

/// Returns the length of the longest row; 0 without rows.
pub(super) fn longest_row<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>) -> usize {
    (0..csr.nrows()).map(|i| csr.row_range(i).len()).max().unwrap_or(0)
}

/// The slots, column by column, that hold what `of_entries` has for the first `width` entries of each row.
fn transpose<T: Scalar, O: Offset, E: Element>(
    csr: &CsrMatrix<T, O>,
    of_entries: &[E],
    width: usize,
    padding: E,
) -> Result<Vec<E>> {
    let leading_dimension = leading_dimension(csr.nrows());
    let mut slots = zeros(leading_dimension.saturating_mul(width))?;
    let columns = slots.chunks_exact_mut(leading_dimension.max(1)).collect();
    for_row_blocks(0..leading_dimension, columns, &|rows, columns| {
        for (at, i) in rows.enumerate() {
            let row = if i < csr.nrows() { &of_entries[csr.row_range(i)] } else { &[] };
            for (k, column) in columns.iter_mut().enumerate() {
                column[at] = row.get(k).copied().unwrap_or(padding);
            }
        }
    });
    Ok(slots)
}

fn count_entries(col_indices: &[u32]) -> usize {
    col_indices.iter().filter(|&&column| column != EllMatrix::<f32>::PADDING).count()
}

fn check_structure<T: Scalar>(
    nrows: usize,
    ncols: usize,
    width: usize,
    leading_dimension: usize,
    col_indices: &[u32],
    values: &[T],
) -> std::result::Result<(), String> {
    check_slots(nrows, leading_dimension, (width, "columns"), (values.len(), "values"))?;
    check_slots(nrows, leading_dimension, (width, "columns"), (col_indices.len(), "column indices"))?;
    let chunk = leading_dimension.max(1);
    for (k, (columns, values)) in col_indices.chunks_exact(chunk).zip(values.chunks_exact(chunk)).enumerate() {
        let before = if k == 0 { columns } else { &col_indices[(k - 1) * chunk..k * chunk] };
        for (i, (&column, &value)) in columns.iter().zip(values).enumerate() {
            let problem = if column == EllMatrix::<T>::PADDING {
                if is_positive_zero(value) {
                    continue;
                }
                format!("padding of the value {value}")
            } else if i >= nrows {
                format!("column {column}, where there are only {nrows} rows")
            } else if column as usize >= ncols {
                format!("column {column} of {ncols}")
            } else if before[i] == EllMatrix::<T>::PADDING {
                format!("column {column} behind padding")
            } else {
                continue;
            };
            return Err(format!("row {i}, slot {k}: {problem}"));
        }
    }
    Ok(())
}

/// Keeps all entries and their order. Two passes over the rows, on all cores with the feature `rayon`.
///
/// Fails with [`Error::PaddingExceeded`] beyond [`EllMatrix::MAX_FILL`] slots per entry, before it allocates anything,
/// and with [`Error::OutOfMemory`].
impl<T: Scalar, O: Offset> TryFrom<&CsrMatrix<T, O>> for EllMatrix<T> {
    type Error = Error;

    fn try_from(csr: &CsrMatrix<T, O>) -> Result<Self> {
        Self::from_csr_with_fill(csr, Self::MAX_FILL)
    }
}

/// Keeps all entries and their order. Fails with [`Error::InvalidMatrix`] if there are more than `O` can count, and
/// with [`Error::OutOfMemory`].
impl<T: Scalar, O: Offset> TryFrom<&EllMatrix<T>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(ell: &EllMatrix<T>) -> Result<Self> {
        check_limits::<O>("CSR", ell.nrows, ell.ncols, ell.nnz)?;
        from_rows(
            ell.nrows,
            ell.ncols,
            |i| ell.row(i).count(),
            |i, columns, values| {
                for ((entry, column), value) in ell.row(i).zip(columns).zip(values) {
                    (*column, *value) = entry;
                }
            },
        )
    }
}

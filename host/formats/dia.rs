//! Diagonal format.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{
    coo::check_limits,
    padded::{self, check_slots, for_row_blocks, is_positive_zero, leading_dimension, slot_limit},
    rows::from_rows,
};
use crate::{
    CsrMatrix, Error, Offset, Result, Scalar,
    memory::zeros,
    parallel::{BLOCK, merged},
};

/// A sparse matrix by diagonals, for matrices with entries on few diagonals, such as stencils on regular grids (N.
/// Bell, M. Garland: Efficient Sparse Matrix-Vector Multiplication on CUDA, 2008). It stores no column indices.
///
/// A diagonal is identified by its offset, column minus row: 0 for the main diagonal, positive above. Diagonal `d` has
/// the offset `offsets[d]`, and its entry in row `i` is `values[d * leading_dimension + i]`. The offsets increase, and
/// each lies within the matrix. The leading dimension is a multiple of 4, for loads of several elements.
///
/// Slots outside of the matrix hold +0.0, and a slot inside that holds +0.0 is not an entry: the format cannot
/// represent explicit zeros. -0.0 and NaN are entries, but products skip zeros of either sign.
///
/// All this is checked once, when the matrix is built. Clones share the arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct DiaMatrix<T> {
    nrows: usize,
    ncols: usize,
    leading_dimension: usize,
    nnz: usize,
    offsets: Arc<Vec<i64>>,
    values: Arc<Vec<T>>,
}

impl<T: Scalar> DiaMatrix<T> {
    /// The default maximum of slots per entry in conversions; up to 2¹⁶ slots are always accepted.
    pub const MAX_FILL: f64 = padded::MAX_FILL;

    /// Creates a matrix from its diagonals: `values` has length `leading_dimension * offsets.len()`.
    ///
    /// Takes the arrays without copying, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a dimension beyond `u32::MAX`, a leading dimension that is
    /// less than `nrows` or not a multiple of 4, a wrong array length, an offset outside of the matrix or not above the
    /// one before, or a slot outside of the matrix that does not hold +0.0.
    pub fn try_from_dia_data(
        nrows: usize,
        ncols: usize,
        leading_dimension: usize,
        offsets: Vec<i64>,
        values: Vec<T>,
    ) -> Result<Self> {
        check_limits::<u64>("DIA", nrows, ncols, values.len())?;
        check_structure(nrows, ncols, leading_dimension, &offsets, &values)
            .map_err(|problem| Error::InvalidMatrix { format: "DIA", problem })?;
        let nnz = count_entries(&values);
        Ok(Self::from_valid_parts(nrows, ncols, leading_dimension, nnz, offsets, values))
    }

    /// Creates a matrix like [`try_from_dia_data`](Self::try_from_dia_data), without the checks; still counts the
    /// entries.
    ///
    /// # Safety
    /// `try_from_dia_data` accepts these arguments.
    #[must_use]
    pub unsafe fn from_dia_data_unchecked(
        nrows: usize,
        ncols: usize,
        leading_dimension: usize,
        offsets: Vec<i64>,
        values: Vec<T>,
    ) -> Self {
        let nnz = count_entries(&values);
        Self::from_valid_parts(nrows, ncols, leading_dimension, nnz, offsets, values)
    }

    fn from_valid_parts(
        nrows: usize,
        ncols: usize,
        leading_dimension: usize,
        nnz: usize,
        offsets: Vec<i64>,
        values: Vec<T>,
    ) -> Self {
        debug_assert_eq!(check_structure(nrows, ncols, leading_dimension, &offsets, &values), Ok(()));
        debug_assert_eq!(count_entries(&values), nnz);
        Self { nrows, ncols, leading_dimension, nnz, offsets: Arc::new(offsets), values: Arc::new(values) }
    }

    /// Converts a CSR matrix like `TryFrom`, with at most `max_fill` slots per entry instead of
    /// [`MAX_FILL`](Self::MAX_FILL).
    ///
    /// # Errors
    /// [`Error::PaddingExceeded`] if the matrix needs more, [`Error::InvalidOption`] if `max_fill` is negative or NaN,
    /// and [`Error::OutOfMemory`].
    pub fn from_csr_with_fill<O: Offset>(csr: &CsrMatrix<T, O>, max_fill: f64) -> Result<Self> {
        let (most, too_many) = most_diagonals((csr.nrows(), csr.nnz()), max_fill)?;
        let leading_dimension = leading_dimension(csr.nrows());
        let offsets: Vec<i64> = diagonals(csr, most).into_iter().collect();
        if offsets.len() > most {
            return Err(too_many);
        }
        let mut values = zeros(leading_dimension * offsets.len())?;
        let columns = values.chunks_exact_mut(leading_dimension.max(1)).collect();
        let nnz = AtomicUsize::new(0);
        for_row_blocks(0..leading_dimension, columns, &|rows, diagonals| {
            add_rows(csr, rows, &offsets, diagonals);
            nnz.fetch_add(diagonals.iter().map(|diagonal| count_entries(diagonal)).sum(), Relaxed);
        });
        let nnz = nnz.into_inner();
        Ok(Self::from_valid_parts(csr.nrows(), csr.ncols(), leading_dimension, nnz, offsets, values))
    }

    /// As [`try_from_dia_data`](Self::try_from_dia_data); values outside of the matrix are ignored.
    pub(crate) fn of_slots(
        nrows: usize,
        ncols: usize,
        leading_dimension: usize,
        offsets: Vec<i64>,
        mut values: Vec<T>,
    ) -> Result<Self> {
        for (&offset, diagonal) in offsets.iter().zip(values.chunks_exact_mut(leading_dimension.max(1))) {
            let rows = rows_of(nrows, ncols, offset);
            diagonal[..rows.start].fill(T::default());
            diagonal[rows.end..].fill(T::default());
        }
        Self::try_from_dia_data(nrows, ncols, leading_dimension, offsets, values)
    }

    /// The same matrix with as many other values; those outside of the matrix are ignored.
    pub(crate) fn with_values(&self, values: Vec<T>) -> Result<Self> {
        let Self { nrows, ncols, leading_dimension, .. } = *self;
        Self::of_slots(nrows, ncols, leading_dimension, self.offsets.to_vec(), values)
    }

    /// The two arrays, to share.
    pub(crate) fn arrays(&self) -> (&Arc<Vec<i64>>, &Arc<Vec<T>>) {
        (&self.offsets, &self.values)
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

    /// Returns the distance between diagonals in `values`: `nrows` or more.
    #[must_use]
    pub fn leading_dimension(&self) -> usize {
        self.leading_dimension
    }

    /// Returns the number of entries: slots that do not hold +0.0.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.nnz
    }

    /// Returns the offset of each diagonal, column minus row, in increasing order.
    #[must_use]
    pub fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    /// Returns the value of each slot, diagonal by diagonal.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Iterates over the entries as `(row, column, value)`, row by row, with increasing columns.
    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        (0..self.nrows).flat_map(move |i| self.row(i).map(move |(column, value)| (i, column as usize, value)))
    }

    /// The entries of a row, as columns and values.
    fn row(&self, i: usize) -> impl Iterator<Item = (u32, T)> {
        let slots = self.offsets.iter().enumerate();
        let all = slots.map(move |(d, &offset)| (i as i64 + offset, self.values[d * self.leading_dimension + i]));
        // Entries are inside the matrix: their columns fit.
        all.filter(|&(_, value)| !is_positive_zero(value)).map(|(column, value)| (column as u32, value))
    }
}

/// The most diagonals that a matrix with so many rows and entries may have, and the error for one that has more.
pub(crate) fn most_diagonals((nrows, entries): (usize, usize), max_fill: f64) -> Result<(usize, Error)> {
    let limit = slot_limit(entries, max_fill)?;
    let leading_dimension = leading_dimension(nrows);
    let most = limit.checked_div(leading_dimension).unwrap_or(0);
    let slots = (most + 1).saturating_mul(leading_dimension);
    Ok((most, Error::PaddingExceeded { format: "DIA", slots, entries, limit }))
}

/// The rows that a diagonal passes through; none if the matrix has no such diagonal.
fn rows_of(nrows: usize, ncols: usize, offset: i64) -> Range<usize> {
    let begin = offset.saturating_neg().max(0);
    let end = (ncols as i64).saturating_sub(offset).min(nrows as i64);
    if begin < end { begin as usize..end as usize } else { 0..0 }
}

/// The offsets of the diagonals that entries stand on; if more than `most`, some of them, but more than `most`.
fn diagonals<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, most: usize) -> BTreeSet<i64> {
    let of_block = |rows| diagonals_of_rows(csr, rows, most);
    merged(BLOCK, 0..csr.nrows(), &of_block, &|mut found: BTreeSet<i64>, later| {
        if found.len() <= most {
            found.extend(later);
        }
        found
    })
}

fn diagonals_of_rows<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, rows: Range<usize>, most: usize) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    let mut before: &[u32] = &[];
    for i in rows {
        let row = &csr.col_indices()[csr.row_range(i)];
        for (k, &column) in row.iter().enumerate() {
            // Most entries continue the diagonal of the one to their upper left, which stands at the same place of the
            // row before: then the diagonal is known.
            let continues = before.get(k).is_some_and(|&left| left + 1 == column);
            if !continues && found.insert(i64::from(column) - i as i64) && found.len() > most {
                return found;
            }
        }
        before = row;
    }
    found
}

/// Adds the entries of these rows, in storage order, to the slots of just these rows, which hold +0.0.
fn add_rows<T: Scalar, O: Offset>(
    csr: &CsrMatrix<T, O>,
    rows: Range<usize>,
    offsets: &[i64],
    diagonals: &mut [&mut [T]],
) {
    for (at, i) in rows.enumerate().take_while(|&(_, i)| i < csr.nrows()) {
        let row = csr.row_range(i);
        let (columns, values) = (&csr.col_indices()[row.clone()], &csr.values()[row]);
        // Sums begin at -0.0, to which +0.0 and -0.0 can be added without a change.
        let negative_zero = T::from_f64(-0.0);
        for_each_diagonal(i, columns, offsets, |d, _| diagonals[d][at] = negative_zero);
        for_each_diagonal(i, columns, offsets, |d, k| diagonals[d][at] += values[k]);
    }
}

/// Calls `visit(d, k)` for the entries of row `i`: entry `k` of the row stands on diagonal `d`.
fn for_each_diagonal(i: usize, columns: &[u32], offsets: &[i64], mut visit: impl FnMut(usize, usize)) {
    // Where columns are sorted, the next entry often stands on the next diagonal.
    let mut next = 0;
    for (k, &column) in columns.iter().enumerate() {
        let offset = i64::from(column) - i as i64;
        if offsets.get(next) != Some(&offset) {
            next = offsets.binary_search(&offset).expect("every entry's diagonal was found");
        }
        visit(next, k);
        next += 1;
    }
}

fn count_entries<T: Scalar>(values: &[T]) -> usize {
    values.iter().filter(|&&value| !is_positive_zero(value)).count()
}

fn check_structure<T: Scalar>(
    nrows: usize,
    ncols: usize,
    leading_dimension: usize,
    offsets: &[i64],
    values: &[T],
) -> std::result::Result<(), String> {
    check_slots(nrows, leading_dimension, (offsets.len(), "diagonals"), (values.len(), "values"))?;
    for (d, &offset) in offsets.iter().enumerate() {
        let rows = rows_of(nrows, ncols, offset);
        if rows.is_empty() {
            return Err(format!("diagonal {d} has the offset {offset}, which a {nrows} x {ncols} matrix has not"));
        }
        if d > 0 && offsets[d - 1] >= offset {
            return Err(format!("diagonal {d} has the offset {offset}, after {}", offsets[d - 1]));
        }
        let slots = &values[d * leading_dimension..][..leading_dimension];
        let outside = (0..rows.start).chain(rows.end..leading_dimension);
        for i in outside {
            if !is_positive_zero(slots[i]) {
                let value = slots[i];
                return Err(format!("diagonal {d}, row {i}: {value} outside of a {nrows} x {ncols} matrix"));
            }
        }
    }
    Ok(())
}

/// Sums duplicates in storage order; entries that sum to +0.0, and explicit zeros, are dropped. Stores every diagonal
/// that has entries, even if all of them are zeros. Two passes over the entries, on all cores with the feature `rayon`.
///
/// Fails with [`Error::PaddingExceeded`] beyond [`DiaMatrix::MAX_FILL`] slots per entry, before it allocates anything
/// of the matrix's size, and with [`Error::OutOfMemory`].
impl<T: Scalar, O: Offset> TryFrom<&CsrMatrix<T, O>> for DiaMatrix<T> {
    type Error = Error;

    fn try_from(csr: &CsrMatrix<T, O>) -> Result<Self> {
        Self::from_csr_with_fill(csr, Self::MAX_FILL)
    }
}

/// The entries with increasing columns. Fails with [`Error::InvalidMatrix`] if there are more than `O` can count, and
/// with [`Error::OutOfMemory`].
impl<T: Scalar, O: Offset> TryFrom<&DiaMatrix<T>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(dia: &DiaMatrix<T>) -> Result<Self> {
        check_limits::<O>("CSR", dia.nrows, dia.ncols, dia.nnz)?;
        from_rows(
            dia.nrows,
            dia.ncols,
            |i| dia.row(i).count(),
            |i, columns, values| {
                for ((entry, column), value) in dia.row(i).zip(columns).zip(values) {
                    (*column, *value) = entry;
                }
            },
        )
    }
}

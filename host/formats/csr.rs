//! Compressed sparse row format.

use std::{ops::Range, sync::Arc};

use super::coo::check_limits;
use crate::{CooMatrix, Error, Offset, Result, Scalar};

/// A sparse matrix by rows: row `i` holds the entries `row_offsets[i]..row_offsets[i + 1]` of `col_indices` and
/// `values`.
///
/// Columns within a row may stand in any order and may repeat (a product adds them up); explicit zeros are entries.
/// The structure is checked once, when the matrix is built. The arrays are shared: a clone copies none of them.
///
/// Row offsets are `u32`, or `u64` for 2³² entries and more: files, generators and conversions from COO make the former,
/// and [`From`] and [`TryFrom`] lead from one to the other. Column indices are always `u32`.
#[derive(Clone, Debug, PartialEq)]
pub struct CsrMatrix<T, O = u32> {
    ncols: usize,
    row_offsets: Arc<Vec<O>>,
    col_indices: Arc<Vec<u32>>,
    values: Arc<Vec<T>>,
}

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// The matrix with these arrays: `row_offsets` of length `nrows + 1`, `col_indices` and `values` of length `nnz`.
    ///
    /// Takes the arrays as they are, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a wrong array length, a first offset that is not 0, an
    /// offset smaller than the one before, a last offset that is not `nnz`, a column out of range, or a dimension beyond
    /// `u32::MAX`, or more entries than `O` counts.
    pub fn try_from_csr_data(
        nrows: usize,
        ncols: usize,
        row_offsets: Vec<O>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        check_limits::<O>("CSR", nrows, ncols, values.len())?;
        check_structure(nrows, ncols, &row_offsets, &col_indices, values.len())
            .map_err(|problem| Error::InvalidMatrix { format: "CSR", problem })?;
        Ok(Self::from_valid_parts(ncols, row_offsets, col_indices, values))
    }

    /// The three arrays, to share.
    #[expect(clippy::type_complexity, reason = "a struct for the three would be this one")]
    pub(crate) fn arrays(&self) -> (&Arc<Vec<O>>, &Arc<Vec<u32>>, &Arc<Vec<T>>) {
        (&self.row_offsets, &self.col_indices, &self.values)
    }

    /// For parts that are valid by construction.
    pub(crate) fn from_valid_parts(ncols: usize, row_offsets: Vec<O>, col_indices: Vec<u32>, values: Vec<T>) -> Self {
        debug_assert_eq!(
            check_structure(row_offsets.len() - 1, ncols, &row_offsets, &col_indices, values.len()),
            Ok(())
        );
        Self { ncols, row_offsets: Arc::new(row_offsets), col_indices: Arc::new(col_indices), values: Arc::new(values) }
    }

    /// Number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.row_offsets.len() - 1
    }

    /// Number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// Number of entries; duplicates and explicit zeros count.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.values.len()
    }

    /// Where each row begins in the other two arrays, and at the end `nnz`: `nrows + 1` offsets.
    #[must_use]
    pub fn row_offsets(&self) -> &[O] {
        &self.row_offsets
    }

    /// The column of each entry.
    #[must_use]
    pub fn col_indices(&self) -> &[u32] {
        &self.col_indices
    }

    /// The value of each entry.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Where row `i`'s entries stand.
    ///
    /// # Panics
    /// If there is no row `i`.
    #[must_use]
    pub fn row_range(&self, i: usize) -> Range<usize> {
        self.row_offsets[i].index()..self.row_offsets[i + 1].index()
    }

    /// The entries as `(row, column, value)`, row by row.
    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        (0..self.nrows())
            .flat_map(move |i| self.row_range(i).map(move |k| (i, self.col_indices[k] as usize, self.values[k])))
    }

    /// The same matrix with its values rounded to another element type.
    #[must_use]
    pub fn cast<U: Scalar>(&self) -> CsrMatrix<U, O> {
        CsrMatrix {
            ncols: self.ncols,
            row_offsets: Arc::clone(&self.row_offsets),
            col_indices: Arc::clone(&self.col_indices),
            values: Arc::new(self.values.iter().map(|value| U::from_f64(value.to_f64())).collect()),
        }
    }
}

fn check_structure<O: Offset>(
    nrows: usize,
    ncols: usize,
    row_offsets: &[O],
    col_indices: &[u32],
    nnz: usize,
) -> std::result::Result<(), String> {
    if row_offsets.len() != nrows + 1 {
        return Err(format!(
            "{} row offsets for {nrows} rows, where there must be one more than rows",
            row_offsets.len()
        ));
    }
    if col_indices.len() != nnz {
        return Err(format!("{} column indices and {nnz} values", col_indices.len()));
    }
    if row_offsets[0] != O::default() {
        return Err(format!("the first row offset is {}, not 0", row_offsets[0]));
    }
    if let Some(i) = row_offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(format!("row {i} begins at {} and ends at {}", row_offsets[i], row_offsets[i + 1]));
    }
    // Compared as offsets: as an index, one beyond the address space would wrap.
    if O::try_from(nnz).ok() != Some(row_offsets[nrows]) {
        return Err(format!("the last row offset is {}, and there are {nnz} entries", row_offsets[nrows]));
    }
    if let Some(k) = col_indices.iter().position(|&column| column as usize >= ncols) {
        let row = row_offsets.partition_point(|&offset| offset.index() <= k) - 1;
        return Err(format!("entry {k}, in row {row}, is in column {} of {ncols}", col_indices[k]));
    }
    Ok(())
}

/// The same matrix with 64-bit offsets. Shares the columns and the values.
impl<T: Scalar> From<&CsrMatrix<T, u32>> for CsrMatrix<T, u64> {
    fn from(matrix: &CsrMatrix<T, u32>) -> Self {
        Self {
            ncols: matrix.ncols,
            row_offsets: Arc::new(matrix.row_offsets.iter().map(|&offset| offset.into()).collect()),
            col_indices: Arc::clone(&matrix.col_indices),
            values: Arc::clone(&matrix.values),
        }
    }
}

/// The same matrix with 32-bit offsets. Shares the columns and the values. An [`Error::InvalidMatrix`] if it has 2³²
/// entries or more.
impl<T: Scalar> TryFrom<&CsrMatrix<T, u64>> for CsrMatrix<T, u32> {
    type Error = Error;

    fn try_from(matrix: &CsrMatrix<T, u64>) -> Result<Self> {
        Ok(Self {
            ncols: matrix.ncols,
            row_offsets: Arc::new(narrow(&matrix.row_offsets)?),
            col_indices: Arc::clone(&matrix.col_indices),
            values: Arc::clone(&matrix.values),
        })
    }
}

/// Valid row offsets in 32 bits, if the last of them, the number of entries, has as many.
fn narrow(row_offsets: &[u64]) -> Result<Vec<u32>> {
    let narrowed = row_offsets.iter().map(|&offset| u32::try_from(offset).ok()).collect::<Option<_>>();
    narrowed.ok_or_else(|| {
        let nnz = row_offsets[row_offsets.len() - 1];
        let problem = format!("{nnz} entries, and 32-bit offsets reach {}", u32::MAX);
        Error::InvalidMatrix { format: "CSR", problem }
    })
}

/// Sorts the entries by row and column, and sums duplicates (in storage order). Costs `O(nnz log(row length))` time
/// and one copy of the entries.
impl<T: Scalar> From<&CooMatrix<T>> for CsrMatrix<T> {
    fn from(coo: &CooMatrix<T>) -> Self {
        let mut row_offsets = vec![0u32; coo.nrows() + 1];
        for &row in coo.row_indices() {
            row_offsets[row as usize + 1] += 1;
        }
        for i in 0..coo.nrows() {
            row_offsets[i + 1] += row_offsets[i];
        }

        // A counting sort by row keeps the entries of a row in storage order.
        let mut next = row_offsets.clone();
        let mut entries = vec![(0u32, T::default()); coo.nnz()];
        for ((&row, &column), &value) in coo.row_indices().iter().zip(coo.col_indices()).zip(coo.values()) {
            let position = &mut next[row as usize];
            entries[*position as usize] = (column, value);
            *position += 1;
        }

        let (mut col_indices, mut values) = (Vec::with_capacity(coo.nnz()), Vec::<T>::with_capacity(coo.nnz()));
        for i in 0..coo.nrows() {
            let row = &mut entries[row_offsets[i] as usize..next[i] as usize];
            row.sort_by_key(|&(column, _)| column);
            let begin = col_indices.len();
            row_offsets[i] = begin as u32;
            for &(column, value) in row.iter() {
                if col_indices.len() > begin && col_indices.last() == Some(&column) {
                    *values.last_mut().expect("a value stands beside every column") += value;
                } else {
                    col_indices.push(column);
                    values.push(value);
                }
            }
        }
        row_offsets[coo.nrows()] = col_indices.len() as u32;
        Self::from_valid_parts(coo.ncols(), row_offsets, col_indices, values)
    }
}

/// The entries in row order.
impl<T: Scalar> From<&CsrMatrix<T>> for CooMatrix<T> {
    fn from(csr: &CsrMatrix<T>) -> Self {
        let mut row_indices = Vec::with_capacity(csr.nnz());
        for i in 0..csr.nrows() {
            row_indices.resize(csr.row_offsets()[i + 1] as usize, i as u32);
        }
        let (columns, values) = (csr.col_indices().to_vec(), csr.values().to_vec());
        CooMatrix::try_from_triplets(csr.nrows(), csr.ncols(), row_indices, columns, values)
            .expect("a CSR matrix has valid indices")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_narrow_where_they_fit() {
        assert_eq!(narrow(&[0]).unwrap(), [0]);
        assert_eq!(narrow(&[0, 7, u32::MAX.into()]).unwrap(), [0, 7, u32::MAX]);
        let error = narrow(&[0, 7, 1 << 32, (1 << 32) + 5]).unwrap_err();
        assert_eq!(error.to_string(), "invalid CSR matrix: 4294967301 entries, and 32-bit offsets reach 4294967295");
    }
}

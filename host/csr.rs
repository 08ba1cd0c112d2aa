//! Compressed sparse row format.

use std::{ops::Range, sync::Arc};

use crate::{CooMatrix, Error, Result, Scalar, coo::check_limits};

/// A sparse matrix by rows: row `i` holds the entries `row_offsets[i]..row_offsets[i + 1]` of `col_indices` and
/// `values`.
///
/// Columns within a row may stand in any order and may repeat (a product adds them up); explicit zeros are entries.
/// The structure is checked once, when the matrix is built. The arrays are shared: a clone copies none of them.
#[derive(Clone, Debug, PartialEq)]
pub struct CsrMatrix<T> {
    ncols: usize,
    row_offsets: Arc<Vec<u32>>,
    col_indices: Arc<Vec<u32>>,
    values: Arc<Vec<T>>,
}

impl<T: Scalar> CsrMatrix<T> {
    /// The matrix with these arrays: `row_offsets` of length `nrows + 1`, `col_indices` and `values` of length `nnz`.
    ///
    /// Takes the arrays as they are, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a wrong array length, a first offset that is not 0, an
    /// offset smaller than the one before, a last offset that is not `nnz`, a column out of range, or a dimension or
    /// entry count beyond `u32::MAX`.
    pub fn try_from_csr_data(
        nrows: usize,
        ncols: usize,
        row_offsets: Vec<u32>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        check_limits("CSR", nrows, ncols, values.len())?;
        check_structure(nrows, ncols, &row_offsets, &col_indices, values.len())
            .map_err(|problem| Error::InvalidMatrix { format: "CSR", problem })?;
        Ok(Self::from_valid_parts(ncols, row_offsets, col_indices, values))
    }

    /// For parts that are valid by construction.
    pub(crate) fn from_valid_parts(ncols: usize, row_offsets: Vec<u32>, col_indices: Vec<u32>, values: Vec<T>) -> Self {
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
    pub fn row_offsets(&self) -> &[u32] {
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
        self.row_offsets[i] as usize..self.row_offsets[i + 1] as usize
    }

    /// The entries as `(row, column, value)`, row by row.
    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        (0..self.nrows())
            .flat_map(move |i| self.row_range(i).map(move |k| (i, self.col_indices[k] as usize, self.values[k])))
    }

    /// The same matrix with its values rounded to another element type.
    #[must_use]
    pub fn cast<U: Scalar>(&self) -> CsrMatrix<U> {
        CsrMatrix {
            ncols: self.ncols,
            row_offsets: Arc::clone(&self.row_offsets),
            col_indices: Arc::clone(&self.col_indices),
            values: Arc::new(self.values.iter().map(|value| U::from_f64(value.to_f64())).collect()),
        }
    }
}

fn check_structure(
    nrows: usize,
    ncols: usize,
    row_offsets: &[u32],
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
    if row_offsets[0] != 0 {
        return Err(format!("the first row offset is {}, not 0", row_offsets[0]));
    }
    if let Some(i) = row_offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(format!("row {i} begins at {} and ends at {}", row_offsets[i], row_offsets[i + 1]));
    }
    if row_offsets[nrows] as usize != nnz {
        return Err(format!("the last row offset is {}, and there are {nnz} entries", row_offsets[nrows]));
    }
    if let Some(k) = col_indices.iter().position(|&column| column as usize >= ncols) {
        let row = row_offsets.partition_point(|&offset| offset as usize <= k) - 1;
        return Err(format!("entry {k}, in row {row}, is in column {} of {ncols}", col_indices[k]));
    }
    Ok(())
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

//! Matrices of some of the entries of another: triangles, rows, columns, permutations, dropped entries.

use std::ops::Range;

use crate::{
    DeviceIndices, DeviceMatrix, Error, Result, Scalar,
    conversion::{Operand, Rows, Selection, select, select_on_cpu},
    device,
    formats::operations::inverse,
};

/// Matrices of some of the entries, in CSR, in the order that they have. Duplicates are looked at one by one. The same matrix gives the same bits on
/// every device.
///
/// `O(nnz)` work in two passes over the entries; the call waits for their number. A matrix in another format is converted to CSR
/// first, on the host if it has 64-bit offsets. The kernels for products with the result are chosen at its first product.
///
/// All fail with [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver), and [`InvalidOption`](Error::InvalidOption) while a graph is
/// recorded.
impl<T: Scalar> DeviceMatrix<T> {
    /// Returns the entries in row `i` and column `j` with `j - i <= k`: with `k` = 0 the lower triangle and the diagonal, with -1 the strict
    /// lower triangle.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is
    /// recorded.
    pub fn lower_triangle(&self, k: i64) -> Result<Self> {
        self.select(&Selection { diagonals: i64::MIN..=k, ..self.all() })
    }

    /// Returns the entries in row `i` and column `j` with `j - i >= k`: with `k` = 0 the upper triangle and the diagonal, with 1 the strict
    /// upper triangle.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is
    /// recorded.
    pub fn upper_triangle(&self, k: i64) -> Result<Self> {
        self.select(&Selection { diagonals: k..=i64::MAX, ..self.all() })
    }

    /// Returns the rows in `range`: a matrix with `range.len()` rows and as many columns.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the range exceeds the matrix, or ends before it begins;
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is
    /// recorded.
    pub fn slice_rows(&self, range: Range<usize>) -> Result<Self> {
        let Range { start, end } = range;
        if start > end || end > self.nrows() {
            return Err(Error::InvalidOption(format!("rows {start}..{end} of a matrix with {} rows", self.nrows())));
        }
        let rows = Rows::Range(start as u32..end as u32);
        self.select(&Selection { rows, ..self.all() })
    }

    /// Returns the columns in `range`: a matrix with as many rows and `range.len()` columns.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the range exceeds the matrix, or ends before it begins;
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is
    /// recorded.
    pub fn slice_cols(&self, range: Range<usize>) -> Result<Self> {
        let Range { start, end } = range;
        if start > end || end > self.ncols() {
            let problem = format!("columns {start}..{end} of a matrix with {} columns", self.ncols());
            return Err(Error::InvalidOption(problem));
        }
        self.select(&Selection { cols: start as u32..end as u32, ..self.all() })
    }

    /// Returns the matrix `B` with `B[i, j] = A[row_permutation[i], col_permutation[j]]`: new row `i` is old row `row_permutation[i]`, and
    /// likewise for columns. The entries of a row keep their order, as in [`CsrMatrix::permute`](crate::CsrMatrix::permute).
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) if the length of a permutation is not the number of rows or columns;
    /// [`InvalidOption`](Error::InvalidOption), naming the first position, if a permutation has an index out of range or an index twice; see
    /// above.
    pub fn permute(&self, row_permutation: &[u32], col_permutation: &[u32]) -> Result<Self> {
        inverse("row_permutation", "row", row_permutation, self.nrows())?;
        let col_map = inverse("col_permutation", "column", col_permutation, self.ncols())?;
        device::refuse("a choice of entries")?;
        let (rows, col_map) = (self.device().upload_vec(row_permutation)?, self.device().upload_vec(&col_map)?);
        self.select(&Selection { rows: Rows::Map(&rows), col_map: Some(&col_map), ..self.all() })
    }

    /// Permutes rows and columns like [`permute`](Self::permute), by permutations on the matrix's device, such as
    /// [`cluster_rows`](Self::cluster_rows) and [`reverse_cuthill_mckee`](Self::reverse_cuthill_mckee) compute. `None` keeps the rows or the
    /// columns in their order.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// // The path 1 - 3 - 0 - 2.
    /// let a = CsrMatrix::try_from_csr_data(4, 4, vec![0u32, 2, 3, 4, 6], vec![2, 3, 3, 0, 0, 1], vec![1.0f32; 6])?;
    /// let a = Device::auto().upload(&a)?;
    /// let order = a.reverse_cuthill_mckee()?;
    /// let banded = a.permute_by(Some(&order), Some(&order))?;
    /// assert_eq!(banded.structure().unwrap().upper_bandwidth, 1);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) if the length of a permutation is not the number of rows or columns;
    /// [`InvalidOption`](Error::InvalidOption) if indices are not distinct, or their bound exceeds that number; [`DeviceMismatch`](Error::DeviceMismatch); see
    /// above.
    pub fn permute_by(&self, rows: Option<&DeviceIndices>, columns: Option<&DeviceIndices>) -> Result<Self> {
        for (name, permutation, size) in [("rows", rows, self.nrows()), ("columns", columns, self.ncols())] {
            if let Some(permutation) = permutation {
                permutation.check_permutation(name, size)?;
                self.device().check_same(name, permutation.vector().device())?;
            }
        }
        let col_map = columns.map(DeviceIndices::inverse).transpose()?;
        let whole = self.all();
        let rows = rows.map_or(whole.rows, |rows| Rows::Map(rows.vector()));
        self.select(&Selection { rows, col_map: col_map.as_ref().map(DeviceIndices::vector), ..self.all() })
    }

    /// Returns the matrix without the entries that are 0 or -0.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is
    /// recorded.
    pub fn drop_zeros(&self) -> Result<Self> {
        self.drop_small(T::default())
    }

    /// Returns the matrix without the entries whose absolute value is `threshold` or less. Entries that are NaN stay.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the threshold is negative or NaN; [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is recorded.
    pub fn drop_small(&self, threshold: T) -> Result<Self> {
        if threshold >= T::default() {
            return self.select(&Selection { threshold: Some(threshold), ..self.all() });
        }
        Err(Error::InvalidOption(format!("a threshold of {threshold}")))
    }

    fn all(&self) -> Selection<'static, T> {
        // More than 32 bits are refused when the matrix is converted to an operand.
        Selection::all(self.nrows() as u32, self.ncols() as u32)
    }

    fn select(&self, selection: &Selection<'_, T>) -> Result<Self> {
        device::refuse("a choice of entries")?;
        let selected = match self.operand()? {
            Operand::Host(matrix) => Operand::Host(select_on_cpu(&matrix, selection)?),
            Operand::Device(arrays) => Operand::Device(select(&arrays, selection)?.into()),
        };
        Ok(selected.into_matrix(self.device()))
    }
}

//! Matrices of some of the entries of another: triangles, rows, columns, permutations, dropped entries.

use std::ops::{Range, RangeInclusive};

use kernels_gpu::csr_select::{self, CopyArgs, CountArgs, Key, Operation, Rule, grid_size};

use super::operand::{Operand, lanes, offsets_of};
use crate::{
    CsrMatrix, DeviceIndices, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    device::{self, KernelLaunch, launch},
    formats::{operations::inverse, rows::from_rows},
    stored::CsrArrays,
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
    /// See above.
    pub fn lower_triangle(&self, k: i64) -> Result<Self> {
        self.select(&Selection { diagonals: i64::MIN..=k, ..self.all() })
    }

    /// Returns the entries in row `i` and column `j` with `j - i >= k`: with `k` = 0 the upper triangle and the diagonal, with 1 the strict
    /// upper triangle.
    ///
    /// # Errors
    /// See above.
    pub fn upper_triangle(&self, k: i64) -> Result<Self> {
        self.select(&Selection { diagonals: k..=i64::MAX, ..self.all() })
    }

    /// Returns the rows in `range`: a matrix with `range.len()` rows and as many columns.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the range exceeds the matrix, or ends before it begins; see above.
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
    /// [`InvalidOption`](Error::InvalidOption) if the range exceeds the matrix, or ends before it begins; see above.
    pub fn slice_cols(&self, range: Range<usize>) -> Result<Self> {
        let Range { start, end } = range;
        if start > end || end > self.ncols() {
            let problem = format!("columns {start}..{end} of a matrix with {} columns", self.ncols());
            return Err(Error::InvalidOption(problem));
        }
        self.select(&Selection { cols: start as u32..end as u32, ..self.all() })
    }

    /// Returns the matrix `B` with `B[i, j] = A[row_permutation[i], col_permutation[j]]`: new row `i` is old row `row_permutation[i]`, and
    /// likewise for columns. The entries of a row keep their order, as in [`CsrMatrix::permute`].
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
    /// See above.
    pub fn drop_zeros(&self) -> Result<Self> {
        self.drop_small(T::default())
    }

    /// Returns the matrix without the entries whose absolute value is `threshold` or less. Entries that are NaN stay.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if the threshold is negative or NaN; see above.
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

/// Which entries are kept, and where they go.
pub(super) struct Selection<'a, T> {
    pub(super) rows: Rows<'a>,
    /// The first becomes the first column, unless there is a map.
    pub(super) cols: Range<u32>,
    /// The new column of each old one.
    pub(super) col_map: Option<&'a DeviceVec<u32>>,
    /// Column minus row.
    pub(super) diagonals: RangeInclusive<i64>,
    /// Entries of no greater absolute value are dropped.
    pub(super) threshold: Option<T>,
    /// Whether neighbours in one column become their sum. Not on the CPU.
    pub(super) sums: bool,
    /// Whether it is known that the columns of the result ascend, or do not.
    pub(super) canonical: Option<bool>,
}

/// The old row of each new one.
pub(super) enum Rows<'a> {
    Range(Range<u32>),
    Map(&'a DeviceVec<u32>),
}

impl<T> Selection<'_, T> {
    /// Everything.
    pub(super) fn all(nrows: u32, ncols: u32) -> Self {
        let (rows, diagonals) = (Rows::Range(0..nrows), i64::MIN..=i64::MAX);
        Self { rows, cols: 0..ncols, col_map: None, diagonals, threshold: None, sums: false, canonical: None }
    }

    fn new_rows(&self) -> u32 {
        match &self.rows {
            Rows::Range(range) => range.end - range.start,
            Rows::Map(map) => map.len() as u32,
        }
    }
}

fn select_on_cpu<T: Scalar>(matrix: &CsrMatrix<T>, selection: &Selection<'_, T>) -> Result<CsrMatrix<T>> {
    let zero = T::default();
    let old_row = |row: usize| match &selection.rows {
        Rows::Range(range) => range.start as usize + row,
        Rows::Map(map) => map.as_slice().on_cpu()[row] as usize,
    };
    let col_map = selection.col_map.map(|map| map.as_slice().on_cpu());
    let kept = |row: usize| {
        let row = old_row(row);
        let (columns, values) = matrix.row(row);
        columns.iter().copied().zip(values.iter().copied()).filter(move |&(column, value)| {
            let is_small =
                |threshold| value >= zero && value <= threshold || value < zero && zero_minus(value) <= threshold;
            selection.cols.contains(&column)
                && selection.diagonals.contains(&(i64::from(column) - row as i64))
                && !selection.threshold.is_some_and(is_small)
        })
    };
    let new_column = |column: u32| col_map.map_or(column - selection.cols.start, |map| map[column as usize]);
    let fill = |row: usize, columns: &mut [u32], values: &mut [T]| {
        for ((column, value), (old_column, old_value)) in columns.iter_mut().zip(values).zip(kept(row)) {
            (*column, *value) = (new_column(old_column), old_value);
        }
    };
    let ncols = selection.cols.len();
    from_rows(selection.new_rows() as usize, ncols, |row| kept(row).count(), fill)
}

/// `-value`.
fn zero_minus<T: Scalar>(value: T) -> T {
    T::from_f64(-value.to_f64())
}

/// The selection, on a GPU or in the emulator.
pub(super) fn select<T: Scalar>(arrays: &CsrArrays<T, u32>, selection: &Selection<'_, T>) -> Result<CsrArrays<T, u32>> {
    let (device, new_rows) = (&arrays.device, selection.new_rows());
    let size = (new_rows, selection.cols.len() as u32);
    let lanes = lanes(arrays.nnz, arrays.nrows);
    let old_values = arrays.values.read();
    let mut counts = device.scratch(new_rows as usize)?;
    if new_rows > 0 {
        let args = CountArgs {
            rule: rule(selection),
            rows: arrays.nrows,
            entries: arrays.nnz,
            row_offsets: arrays.row_offsets.readable(device),
            col_indices: arrays.col_indices.readable(device),
            values: old_values.readable(),
            counts: counts.writable(),
        };
        let key = Key { operation: Operation::Count, lanes, dtype: T::DTYPE };
        // SAFETY: a valid matrix, of which there are these rows, and a count for each new row; the entry is for `T`.
        unsafe { launch(device, key.entry(), grid_size(new_rows, lanes), args) }?;
    }
    let (offsets, entries) = offsets_of(&counts, size)?;
    let (mut columns, mut values) = (device.scratch(entries as usize)?, device.scratch(entries as usize)?);
    if entries > 0 {
        let args = CopyArgs {
            rule: rule(selection),
            rows: arrays.nrows,
            cols: arrays.ncols,
            entries: arrays.nnz,
            new_entries: entries,
            row_offsets: arrays.row_offsets.readable(device),
            col_indices: arrays.col_indices.readable(device),
            values: old_values.readable(),
            col_map: selection.col_map.map(DeviceVec::readable).unwrap_or_default(),
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
        };
        let key = Key { operation: Operation::Copy, lanes, dtype: T::DTYPE };
        // SAFETY: as above, with the offsets of the new rows.
        unsafe { launch(device, key.entry(), grid_size(new_rows, lanes), args) }?;
    }
    // SAFETY: the offsets count what is kept, and new columns are within the range, or in the map.
    Ok(unsafe { CsrArrays::of_vectors((size.0, size.1, entries), offsets, columns, values, selection.canonical) })
}

fn rule<'a, T: Scalar>(selection: &Selection<'a, T>) -> csr_select::Rule<T, KernelLaunch<'a>> {
    Rule {
        new_rows: selection.new_rows(),
        first_row: if let Rows::Range(range) = &selection.rows { range.start } else { 0 },
        first_col: selection.cols.start,
        end_col: selection.cols.end,
        lowest: *selection.diagonals.start() as u64,
        highest: *selection.diagonals.end() as u64,
        threshold: selection.threshold.unwrap_or(T::from_f64(-1.0)),
        sums: selection.sums.into(),
        row_map: match selection.rows {
            Rows::Range(_) => Default::default(),
            Rows::Map(map) => map.readable(),
        },
    }
}

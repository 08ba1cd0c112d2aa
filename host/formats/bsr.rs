//! Block compressed sparse row format.

use std::{ops::Range, sync::Arc};

use super::{
    blocks::{SIZES, best_blocks, block_columns},
    compressed::{BSR, check_arrays},
    coo::check_limits,
    padded::{self, is_positive_zero, slot_limit},
    rows::from_rows,
};
use crate::{
    BlockSize, CsrMatrix, Error, Offset, Result, Scalar,
    memory::{room, zeros},
    parallel::{BLOCK, join},
};

/// A sparse matrix of dense square blocks by block rows, for systems with several unknowns per node: one column index serves a whole block.
///
/// Block row `i` holds the rows from `i * block_size` on, and the blocks `block_row_offsets[i]..block_row_offsets[i + 1]`. Block `k` holds the columns from
/// `block_col_indices[k] * block_size` on, and its elements are `block_size * block_size` values, row by row, from `k * block_size * block_size` on in `values`. Blocks
/// have 2 to 8 rows. Block columns may be in any order and may repeat (products sum duplicates).
///
/// Every element of a block is an entry, whatever its value: an infinity in `x` that meets an explicit zero makes a NaN, as in CSR and in SciPy's and cuSPARSE's BSR.
///
/// The matrix may have any number of rows and columns. Where these are no multiples of the block size, the last blocks reach beyond the matrix (as in cuSPARSE's
/// conversion `csr2bsr`; SciPy refuses such sizes). What lies beyond is padding: values of +0.0, which are no entries.
///
/// All this is checked once, when the matrix is built. Clones share the arrays.
///
/// ```
/// use warpsparse::{BlockSize, BsrMatrix, CsrMatrix};
///
/// // 1 2 0
/// // 3 4 0
/// // 0 0 5
/// let a = CsrMatrix::try_from_csr_data(3, 3, vec![0u32, 2, 4, 5], vec![0, 1, 0, 1, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0])?;
/// let a = BsrMatrix::from_csr(&a, BlockSize::Fixed(2))?;
/// assert_eq!((a.block_row_offsets(), a.block_col_indices()), (&[0, 1, 2][..], &[0, 1][..]));
/// assert_eq!(a.values(), [1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BsrMatrix<T> {
    nrows: usize,
    ncols: usize,
    block_size: usize,
    nnz: usize,
    block_row_offsets: Arc<Vec<u32>>,
    block_col_indices: Arc<Vec<u32>>,
    values: Arc<Vec<T>>,
}

impl<T: Scalar> BsrMatrix<T> {
    /// The default maximum of stored values per entry in conversions; up to 2¹⁶ values are always accepted.
    pub const MAX_FILL: f64 = padded::MAX_FILL;

    /// Creates a matrix from its arrays: an offset for each block row and one more, a column index for each block, and `block_size * block_size` values for each.
    ///
    /// Takes the arrays without copying, and reads each once to check it.
    ///
    /// # Errors
    /// [`Error::InvalidMatrix`], naming the first violation: a dimension beyond `u32::MAX`, a block size other than 2 to 8, a wrong array length, a nonzero first
    /// offset, an offset smaller than the one before, a last offset other than the number of blocks, a block column out of range, or padding with a value other than
    /// +0.0.
    pub fn try_from_bsr_data(
        nrows: usize,
        ncols: usize,
        block_size: usize,
        block_row_offsets: Vec<u32>,
        block_col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        check_structure((nrows, ncols), block_size, &block_row_offsets, &block_col_indices, &values)?;
        Ok(Self::from_valid_parts((nrows, ncols), block_size, block_row_offsets, block_col_indices, values))
    }

    /// Creates a matrix like [`try_from_bsr_data`](Self::try_from_bsr_data), without the checks; still counts the entries.
    ///
    /// # Safety
    /// `try_from_bsr_data` accepts these arguments.
    #[must_use]
    pub unsafe fn from_bsr_data_unchecked(
        nrows: usize,
        ncols: usize,
        block_size: usize,
        block_row_offsets: Vec<u32>,
        block_col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Self {
        Self::from_valid_parts((nrows, ncols), block_size, block_row_offsets, block_col_indices, values)
    }

    fn from_valid_parts(
        (nrows, ncols): (usize, usize),
        block_size: usize,
        block_row_offsets: Vec<u32>,
        block_col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Self {
        let checked = || check_structure((nrows, ncols), block_size, &block_row_offsets, &block_col_indices, &values);
        debug_assert!(checked().is_ok(), "{:?}", checked());
        let nnz = values.len() - padding((nrows, ncols), block_size, &block_row_offsets, &block_col_indices).count();
        let (block_row_offsets, block_col_indices) = (Arc::new(block_row_offsets), Arc::new(block_col_indices));
        Self { nrows, ncols, block_size, nnz, block_row_offsets, block_col_indices, values: Arc::new(values) }
    }

    /// Converts a CSR matrix to blocks of this size, in ascending order. Elements of blocks that are no entries become explicit zeros. Duplicates are summed, in storage
    /// order. On all cores with the feature `rayon`; `O(nnz)` work for a canonical matrix, and that of [`CsrMatrix::blocks`] to choose the size.
    ///
    /// # Errors
    /// [`Error::PaddingExceeded`] beyond [`MAX_FILL`](Self::MAX_FILL) values per entry, before they are allocated; [`Error::InvalidOption`] for a size other than 2 to 8;
    /// [`Error::InvalidMatrix`] for 2³² blocks and more; [`Error::OutOfMemory`].
    pub fn from_csr<O: Offset>(csr: &CsrMatrix<T, O>, block_size: BlockSize) -> Result<Self> {
        Self::from_csr_with_fill(csr, block_size, Self::MAX_FILL)
    }

    /// Converts a CSR matrix like [`from_csr`](Self::from_csr), with at most `max_fill` values per entry instead of [`MAX_FILL`](Self::MAX_FILL).
    ///
    /// # Errors
    /// As [`from_csr`](Self::from_csr); [`Error::InvalidOption`] also if `max_fill` is negative or NaN.
    pub fn from_csr_with_fill<O: Offset>(csr: &CsrMatrix<T, O>, block_size: BlockSize, max_fill: f64) -> Result<Self> {
        let size = size_for(block_size, || Ok(csr.clone()))?;
        let csr = csr.canonical();
        let limit = slot_limit(csr.nnz(), max_fill)?;
        let (block_rows, block_cols) = (csr.nrows().div_ceil(size), csr.ncols().div_ceil(size));
        let columns_of = |block_row| {
            let mut columns = Vec::new();
            block_columns(&csr, block_row, size, &mut columns);
            columns
        };
        // The blocks as the entries of a matrix, whose values do not matter.
        let blocks: CsrMatrix<f32> = from_rows(
            block_rows,
            block_cols,
            |block_row| columns_of(block_row).len(),
            |block_row, columns, _| columns.copy_from_slice(&columns_of(block_row)),
        )?;
        check_fill((csr.nnz(), blocks.nnz()), size, limit)?;
        let (offsets, columns, _) = blocks.into_csr_data();
        let mut values = zeros(columns.len().saturating_mul(size * size))?;
        fill_blocks(&csr, size, 0..block_rows, &offsets, &columns, &mut values);
        Ok(Self::from_valid_parts((csr.nrows(), csr.ncols()), size, offsets, columns, values))
    }

    /// The matrix of these arrays; values of padding are ignored.
    pub(crate) fn of_blocks(
        size: (usize, usize),
        block_size: usize,
        block_row_offsets: Vec<u32>,
        block_col_indices: Vec<u32>,
        mut values: Vec<T>,
    ) -> Result<Self> {
        padding(size, block_size, &block_row_offsets, &block_col_indices).for_each(|k| values[k] = T::default());
        Self::try_from_bsr_data(size.0, size.1, block_size, block_row_offsets, block_col_indices, values)
    }

    /// The same matrix with as many other values; those of padding are ignored.
    pub(crate) fn with_values(&self, mut values: Vec<T>) -> Self {
        assert_eq!(values.len(), self.values.len());
        let size = (self.nrows, self.ncols);
        padding(size, self.block_size, &self.block_row_offsets, &self.block_col_indices)
            .for_each(|k| values[k] = T::default());
        Self { values: Arc::new(values), ..self.clone() }
    }

    /// The three arrays, to share.
    #[expect(clippy::type_complexity, reason = "a struct for the three would be this one")]
    pub(crate) fn arrays(&self) -> (&Arc<Vec<u32>>, &Arc<Vec<u32>>, &Arc<Vec<T>>) {
        (&self.block_row_offsets, &self.block_col_indices, &self.values)
    }

    /// Row and column of a stored value; `None` for padding.
    pub(crate) fn place(&self, k: usize) -> Option<(usize, usize)> {
        let (size, area) = (self.block_size, self.block_size * self.block_size);
        let (block, element) = (k / area, k % area);
        let block_row = self.block_row_offsets.partition_point(|&offset| offset as usize <= block) - 1;
        let row = block_row * size + element / size;
        let column = self.block_col_indices[block] as usize * size + element % size;
        (row < self.nrows && column < self.ncols).then_some((row, column))
    }

    /// Computes the transpose: the transposes of the blocks, with ascending block columns. Duplicates keep their order. `O(nnz + nrows + ncols)` work.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn transpose(&self) -> Result<Self> {
        let (size, area) = (self.block_size, self.block_size * self.block_size);
        let mut offsets = zeros::<u32>(self.ncols.div_ceil(size) + 1)?;
        self.block_col_indices.iter().for_each(|&column| offsets[column as usize + 1] += 1);
        (1..offsets.len()).for_each(|i| offsets[i] += offsets[i - 1]);
        let mut next = room(offsets.len())?;
        next.extend_from_slice(&offsets);
        let (mut columns, mut values) = (zeros(self.block_col_indices.len())?, zeros(self.values.len())?);
        for block_row in 0..self.block_rows() {
            for block in self.blocks_of(block_row) {
                let next = &mut next[self.block_col_indices[block] as usize];
                columns[*next as usize] = block_row as u32;
                let to = &mut values[*next as usize * area..][..area];
                *next += 1;
                for (element, &value) in self.values[block * area..][..area].iter().enumerate() {
                    to[element % size * size + element / size] = value;
                }
            }
        }
        Ok(Self::from_valid_parts((self.ncols, self.nrows), size, offsets, columns, values))
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

    /// Returns the number of rows and columns of a block.
    #[must_use]
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Returns the number of entries: all elements of the blocks but padding.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.nnz
    }

    /// Returns where each block row begins among the blocks, and finally their number.
    #[must_use]
    pub fn block_row_offsets(&self) -> &[u32] {
        &self.block_row_offsets
    }

    /// Returns the block column of each block.
    #[must_use]
    pub fn block_col_indices(&self) -> &[u32] {
        &self.block_col_indices
    }

    /// Returns the values of each block, row by row.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Iterates over the entries as `(row, column, value)`, row by row.
    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        (0..self.nrows).flat_map(move |i| self.row(i).map(move |(column, value)| (i, column as usize, value)))
    }

    /// The number of block rows.
    pub(crate) fn block_rows(&self) -> usize {
        self.block_row_offsets.len() - 1
    }

    /// The blocks of a block row.
    pub(crate) fn blocks_of(&self, block_row: usize) -> Range<usize> {
        self.block_row_offsets[block_row] as usize..self.block_row_offsets[block_row + 1] as usize
    }

    /// The columns within the matrix of a block: the first, and how many.
    pub(crate) fn columns_of(&self, block: usize) -> (usize, usize) {
        let first = self.block_col_indices[block] as usize * self.block_size;
        (first, self.block_size.min(self.ncols - first))
    }

    /// The entries of a row, as columns and values.
    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = (u32, T)> {
        let size = self.block_size;
        self.blocks_of(i / size).flat_map(move |block| {
            let (first, columns) = self.columns_of(block);
            let values = &self.values[(block * size + i % size) * size..][..columns];
            values.iter().enumerate().map(move |(column, &value)| ((first + column) as u32, value))
        })
    }
}

/// The size of blocks for a matrix, which is looked at where the size is not given.
pub(crate) fn size_for<T: Scalar, O: Offset>(
    block_size: BlockSize,
    csr: impl FnOnce() -> Result<CsrMatrix<T, O>>,
) -> Result<usize> {
    match block_size {
        BlockSize::Auto => Ok(best_blocks(&csr()?).size),
        BlockSize::Fixed(size) => check_size(size).map_err(Error::InvalidOption).map(|()| size),
    }
}

fn check_size(size: usize) -> std::result::Result<(), String> {
    if SIZES.contains(&size) { Ok(()) } else { Err(format!("blocks of {size} x {size}: they have 2 to 8 rows")) }
}

/// Refuses to store so many entries in so many blocks that there are more values than the limit.
fn check_fill((entries, blocks): (usize, usize), size: usize, limit: usize) -> Result<()> {
    let slots = blocks.saturating_mul(size * size);
    if slots > limit {
        return Err(Error::PaddingExceeded { format: "BSR", slots, entries, limit });
    }
    Ok(())
}

/// Refuses so many blocks for so many entries, beyond the values that conversions accept.
pub(crate) fn check_blocks((entries, blocks): (usize, usize), size: usize) -> Result<()> {
    check_fill((entries, blocks), size, slot_limit(entries, padded::MAX_FILL)?)
}

/// Writes the entries of some block rows of a canonical matrix to the zeros of their blocks.
fn fill_blocks<T: Scalar, O: Offset>(
    csr: &CsrMatrix<T, O>,
    size: usize,
    block_rows: Range<usize>,
    offsets: &[u32],
    columns: &[u32],
    values: &mut [T],
) {
    let begin = offsets[block_rows.start] as usize;
    if block_rows.len() > BLOCK {
        let middle = block_rows.start + block_rows.len() / 2;
        let (below, above) = values.split_at_mut((offsets[middle] as usize - begin) * size * size);
        join(
            || fill_blocks(csr, size, block_rows.start..middle, offsets, columns, below),
            || fill_blocks(csr, size, middle..block_rows.end, offsets, columns, above),
        );
        return;
    }
    for block_row in block_rows {
        let (first, end) = (offsets[block_row] as usize, offsets[block_row + 1] as usize);
        for row in block_row * size..((block_row + 1) * size).min(csr.nrows()) {
            let mut block = first;
            let (row_columns, row_values) = csr.row(row);
            for (&column, &value) in row_columns.iter().zip(row_values) {
                // Both ascend, and the block is among them.
                while block < end && columns[block] < column / size as u32 {
                    block += 1;
                }
                values[((block - begin) * size + row % size) * size + column as usize % size] = value;
            }
        }
    }
}

/// The places of values that lie beyond the last row or column of a matrix of this size.
fn padding<'a>(
    (nrows, ncols): (usize, usize),
    size: usize,
    offsets: &'a [u32],
    columns: &'a [u32],
) -> impl Iterator<Item = usize> + 'a {
    (0..offsets.len() - 1).flat_map(move |block_row| {
        let rows = size.min(nrows - block_row * size);
        (offsets[block_row] as usize..offsets[block_row + 1] as usize).flat_map(move |block| {
            let cols = size.min(ncols - columns[block] as usize * size);
            // Few blocks have any.
            let elements = if rows < size || cols < size { size * size } else { 0 };
            let is_beyond = move |element: &usize| element / size >= rows || element % size >= cols;
            (0..elements).filter(is_beyond).map(move |element| block * size * size + element)
        })
    })
}

fn check_structure<T: Scalar>(
    (nrows, ncols): (usize, usize),
    block_size: usize,
    block_row_offsets: &[u32],
    block_col_indices: &[u32],
    values: &[T],
) -> Result<()> {
    check_limits::<u64>("BSR", nrows, ncols, values.len())?;
    check_size(block_size).map_err(|problem| BSR.invalid(problem))?;
    let (block_rows, block_cols) = (nrows.div_ceil(block_size), ncols.div_ceil(block_size));
    let blocks = block_col_indices.len();
    check_arrays(&BSR, block_rows, block_cols, block_row_offsets, block_col_indices, blocks)?;
    if blocks.checked_mul(block_size * block_size) != Some(values.len()) {
        return Err(BSR.invalid(format!("{} values for {blocks} blocks of {block_size} x {block_size}", values.len())));
    }
    let mut padding = padding((nrows, ncols), block_size, block_row_offsets, block_col_indices);
    if let Some(k) = padding.find(|&k| !is_positive_zero(values[k])) {
        let block = k / (block_size * block_size);
        return Err(BSR.invalid(format!("value {k}, in block {block}, is {} beyond the matrix", values[k])));
    }
    Ok(())
}

/// With blocks of the size that [`BlockSize::Auto`] chooses: see [`BsrMatrix::from_csr`].
impl<T: Scalar, O: Offset> TryFrom<&CsrMatrix<T, O>> for BsrMatrix<T> {
    type Error = Error;

    fn try_from(csr: &CsrMatrix<T, O>) -> Result<Self> {
        Self::from_csr(csr, BlockSize::Auto)
    }
}

/// Every element of the blocks becomes an entry, zeros too, in the order of the blocks. Fails with [`Error::InvalidMatrix`] if there are more than `O` can count, and
/// with [`Error::OutOfMemory`].
impl<T: Scalar, O: Offset> TryFrom<&BsrMatrix<T>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(bsr: &BsrMatrix<T>) -> Result<Self> {
        check_limits::<O>("CSR", bsr.nrows, bsr.ncols, bsr.nnz)?;
        from_rows(
            bsr.nrows,
            bsr.ncols,
            |i| bsr.blocks_of(i / bsr.block_size).map(|block| bsr.columns_of(block).1).sum(),
            |i, columns, values| {
                for ((entry, column), value) in bsr.row(i).zip(columns).zip(values) {
                    (*column, *value) = entry;
                }
            },
        )
    }
}

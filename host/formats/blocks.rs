//! Square blocks in a CSR matrix: how many there are of each size, and the size that suits BSR.

use std::{cmp::Reverse, ops::Range};

use crate::{
    CsrMatrix, Offset, Scalar,
    parallel::{BLOCK, merged},
};

/// The sizes of blocks that there are kernels for.
pub(super) const SIZES: std::ops::RangeInclusive<usize> = 2..=8;

/// The square blocks of one size in which the entries of a matrix lie: what a [`BsrMatrix`](crate::BsrMatrix) would store.
///
/// Blocks are aligned: block row `i` begins at row `i * size`, and block columns likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocks {
    /// The number of rows and columns of a block.
    pub size: usize,
    /// The number of blocks with an entry at least.
    pub count: usize,
    /// The number of entries of the matrix, duplicates counted once.
    pub entries: usize,
    /// The number of elements of the blocks, within the matrix, that are no entries: the explicit zeros that BSR adds.
    pub added: usize,
}

impl Blocks {
    /// The maximum of [`fill`](Self::fill) that [`CsrMatrix::blocks`] accepts: a quarter as many zeros as entries.
    pub const MAX_FILL: f64 = 1.25;

    /// Returns the number of values stored for each entry; 1 without entries. Blocks that reach beyond the matrix count whole.
    #[must_use]
    pub fn fill(&self) -> f64 {
        if self.entries == 0 { 1.0 } else { self.slots() as f64 / self.entries as f64 }
    }

    /// Returns whether all elements of the blocks, within the matrix, are entries.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.added == 0
    }

    /// The number of values stored.
    pub(super) fn slots(&self) -> usize {
        self.count.saturating_mul(self.size * self.size)
    }

    fn fits(&self) -> bool {
        self.fill() <= Self::MAX_FILL
    }

    /// The bytes of the blocks with elements of so many bytes.
    fn bytes(&self, element_bytes: usize) -> usize {
        self.count * 4 + self.slots().saturating_mul(element_bytes)
    }
}

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Finds square blocks of 2 to 8 rows, all of whose elements are entries, or that hold at most a quarter as many zeros as entries ([`Blocks::MAX_FILL`]). Sizes
    /// without added zeros come first, and then the one that takes the fewest bytes. `None` if no size fits, or there are no entries.
    ///
    /// ```
    /// use warpsparse::CsrMatrix;
    ///
    /// // 1 2 0
    /// // 3 4 0
    /// let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![1.0, 2.0, 3.0, 4.0])?;
    /// let blocks = a.blocks().expect("the entries are a block");
    /// assert_eq!((blocks.size, blocks.count, blocks.added), (2, 1, 0));
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// Reads the pattern once for each size, on all cores with the feature `rayon`: `O(nnz)` work if the columns of each row ascend, otherwise
    /// `O(nnz log(row length))`.
    #[must_use]
    pub fn blocks(&self) -> Option<Blocks> {
        Some(best_blocks(self)).filter(|blocks| blocks.entries > 0 && blocks.fits())
    }
}

/// The blocks of the size that suits the matrix best, however many zeros they hold.
pub(super) fn best_blocks<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>) -> Blocks {
    let entries = distinct_entries(csr);
    let rank =
        |blocks: &Blocks| (!blocks.fits(), !blocks.is_exact(), blocks.bytes(size_of::<T>()), Reverse(blocks.size));
    SIZES.map(|size| blocks_of_size(csr, size, entries)).min_by_key(rank).expect("there are sizes")
}

/// The number of entries, duplicates counted once.
fn distinct_entries<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>) -> usize {
    let mut sorted = Vec::new();
    let distinct = |(columns, _): (&[u32], &[T])| {
        if columns.is_sorted_by(|a, b| a < b) {
            return columns.len();
        }
        sorted.clear();
        sorted.extend_from_slice(columns);
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len()
    };
    csr.rows().map(distinct).sum()
}

/// Counts the blocks of one size.
fn blocks_of_size<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, size: usize, entries: usize) -> Blocks {
    let of_block = |block_rows| count(csr, size, block_rows);
    let sum = |a: [usize; 2], b: [usize; 2]| [a[0] + b[0], a[1] + b[1]];
    let [count, elements] = merged(BLOCK, 0..csr.nrows().div_ceil(size), &of_block, &sum);
    Blocks { size, count, entries, added: elements - entries }
}

/// The blocks in some block rows, and their elements within the matrix.
fn count<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, size: usize, block_rows: Range<usize>) -> [usize; 2] {
    let (mut blocks, mut elements, mut columns) = (0, 0, Vec::new());
    for block_row in block_rows {
        block_columns(csr, block_row, size, &mut columns);
        blocks += columns.len();
        let rows = size.min(csr.nrows() - block_row * size);
        let width = |&column: &u32| size.min(csr.ncols() - column as usize * size);
        elements += rows * columns.iter().map(width).sum::<usize>();
    }
    [blocks, elements]
}

/// Replaces `columns` by the block columns with entries in a block row, ascending.
pub(super) fn block_columns<T: Scalar, O: Offset>(
    csr: &CsrMatrix<T, O>,
    block_row: usize,
    size: usize,
    columns: &mut Vec<u32>,
) {
    columns.clear();
    for row in block_row * size..((block_row + 1) * size).min(csr.nrows()) {
        let mut last = None;
        for &column in csr.row(row).0 {
            let column = column / size as u32;
            if last != Some(column) {
                columns.push(column);
            }
            last = Some(column);
        }
    }
    // Rows that ascend are runs, which a stable sort merges.
    columns.sort();
    columns.dedup();
}

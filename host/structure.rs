//! The structure of a sparse matrix, which decides the choice of formats and kernels.

mod cpu;
mod gpu;

use std::fmt;

use kernels_gpu::csr_structure::{LENGTH_CLASSES, MAX_DIAGONALS};

use crate::{CsrMatrix, Offset, Scalar};
pub(crate) use gpu::analyse as analyse_on_gpu;

/// Size, row lengths and sparsity pattern of a matrix, in figures. The values do not matter.
///
/// Every device computes the same figures.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Structure {
    /// The number of rows.
    pub nrows: usize,
    /// The number of columns.
    pub ncols: usize,
    /// The number of stored entries, including duplicates and explicit zeros, here and below.
    pub nnz: usize,
    /// The length of the shortest row; 0 without rows.
    pub min_row: usize,
    /// The length of the longest row; 0 without rows.
    pub max_row: usize,
    /// The number of rows of length 0, 1, 2 to 3, 4 to 7, and so on by powers of two; the last element counts all rows
    /// of 2³¹ entries or more.
    pub row_histogram: [usize; LENGTH_CLASSES],
    /// The lower bandwidth: the maximum of row minus column; 0 if there are no entries below the diagonal.
    pub lower_bandwidth: usize,
    /// The upper bandwidth: the maximum of column minus row; 0 if there are no entries above the diagonal.
    pub upper_bandwidth: usize,
    /// The number of diagonals with entries; `None` beyond [`MAX_DIAGONALS`](Self::MAX_DIAGONALS).
    pub diagonals: Option<usize>,
    /// The number of entries near the preceding entry of their row: in the same group of 32 columns or an adjacent one.
    /// See [`locality`](Self::locality).
    pub near_entries: usize,
}

impl Structure {
    /// The maximum of [`diagonals`](Self::diagonals) that is counted. Diagonal formats need few of them, and counting
    /// many would be the most expensive part of the analysis.
    pub const MAX_DIAGONALS: usize = MAX_DIAGONALS as usize;

    /// The figure `diagonals` for this count.
    fn counted(diagonals: usize) -> Option<usize> {
        (diagonals <= Self::MAX_DIAGONALS).then_some(diagonals)
    }

    /// Returns the mean row length; 0 without rows.
    #[must_use]
    pub fn mean_row(&self) -> f64 {
        if self.nrows == 0 { 0.0 } else { self.nnz as f64 / self.nrows as f64 }
    }

    /// How much the lengths of rows of up to `longest` entries vary: their mean over entries, as an entry sees it, over
    /// their mean over rows. From the histogram, as if all rows of a class were of one length: 1 where all are in one
    /// class.
    pub(crate) fn spread(&self, longest: usize) -> f64 {
        let (mut rows, mut entries, mut squares) = (0.0, 0.0, 0.0);
        for (class, &count) in self.row_histogram.iter().enumerate() {
            // The shortest and the middle of 2^(class - 1) to 2^class - 1.
            let (shortest, middle) =
                if class == 0 { (0, 0.0) } else { (1 << (class - 1), 0.75 * (1u64 << class) as f64 - 0.5) };
            if shortest < longest {
                rows += count as f64;
                entries += count as f64 * middle;
                squares += count as f64 * middle * middle;
            }
        }
        if entries == 0.0 { 1.0 } else { squares * rows / (entries * entries) }
    }

    /// Returns the fraction of entries, excluding the first of each row, that are near the preceding entry; 1 if there
    /// are none.
    ///
    /// A product gathers an element of the vector for each entry. Threads that share a row gather for consecutive
    /// entries at a time. Close to 1, one cache line serves several of them, and gathers are almost as good as
    /// coalesced loads. Close to 0, every entry costs a separate memory access. The figure does not measure locality
    /// between rows.
    /// rows share with one another the figure does not tell.
    #[must_use]
    pub fn locality(&self) -> f64 {
        let nonempty_rows = self.nrows - self.row_histogram[0];
        match self.nnz - nonempty_rows {
            0 => 1.0,
            followers => self.near_entries as f64 / followers as f64,
        }
    }
}

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Analyses the matrix's structure. Reads the row offsets and the column indices, on all cores with the feature
    /// `rayon`.
    #[must_use]
    pub fn structure(&self) -> Structure {
        cpu::analyse(self.ncols(), self.row_offsets(), self.col_indices())
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nrows, ncols, nnz, min_row, max_row, lower_bandwidth, upper_bandwidth, .. } = self;
        write!(f, "{nrows} x {ncols}, {nnz} entries, {min_row} to {max_row} a row, mean {:.2}", self.mean_row())?;
        write!(f, "; bandwidth {lower_bandwidth} below and {upper_bandwidth} above the diagonal, ")?;
        match self.diagonals {
            Some(diagonals) => write!(f, "{diagonals} diagonals")?,
            None => write!(f, "more than {} diagonals", Self::MAX_DIAGONALS)?,
        }
        write!(f, "; locality {:.2}", self.locality())
    }
}

//! The structure of a sparse matrix in figures: what the choice of a format and of a kernel looks at.

mod cpu;
mod gpu;

use std::fmt;

use kernels_gpu::csr_structure::{LENGTH_CLASSES, MAX_DIAGONALS};

use crate::{CsrMatrix, Offset, Scalar};
pub(crate) use gpu::analyse as analyse_on_gpu;

/// Size, row lengths and places of the entries of a sparse matrix. The values play no part.
///
/// Every device finds the same figures.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Structure {
    /// Number of rows.
    pub nrows: usize,
    /// Number of columns.
    pub ncols: usize,
    /// Number of entries; duplicates and explicit zeros count, here and below.
    pub nnz: usize,
    /// Entries in the shortest row; 0 without rows.
    pub min_row: usize,
    /// Entries in the longest row; 0 without rows.
    pub max_row: usize,
    /// How many rows have a length of 0, 1, 2 or 3, 4 to 7, and so on by powers of two; the last element counts all
    /// rows of 2³¹ entries and more.
    pub row_histogram: [usize; LENGTH_CLASSES],
    /// How far entries lie below the diagonal, row minus column, at most; 0 if none do.
    pub lower_bandwidth: usize,
    /// How far entries lie above the diagonal, column minus row, at most; 0 if none do.
    pub upper_bandwidth: usize,
    /// How many diagonals hold entries; `None` beyond [`MAX_DIAGONALS`](Self::MAX_DIAGONALS).
    pub diagonals: Option<usize>,
    /// How many entries are near the entry that is stored before them in their row: in the same group of 32 columns or
    /// in an adjacent one. See [`locality`](Self::locality).
    pub near_entries: usize,
}

impl Structure {
    /// The most [`diagonals`](Self::diagonals) that are counted: formats by diagonals want few, and in a matrix of many
    /// the count would be the dearest figure.
    pub const MAX_DIAGONALS: usize = MAX_DIAGONALS as usize;

    /// The figure `diagonals` for this count.
    fn counted(diagonals: usize) -> Option<usize> {
        (diagonals <= Self::MAX_DIAGONALS).then_some(diagonals)
    }

    /// The mean number of entries in a row; 0 without rows.
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

    /// The fraction of entries, the first of each row left out, that are near the entry before them; 1 where there are
    /// none.
    ///
    /// A product gathers an element of the vector for each entry. Threads that share a row gather for consecutive
    /// entries at a time: where those are near one another, one cache line serves several, and close to 1 the gathers
    /// are almost as good as coalesced loads. Close to 0, every entry costs an access to memory of its own. How much
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
    /// The matrix's structure in figures. Reads the row offsets and the column indices, on all cores with the feature
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

//! The structure of a sparse matrix in figures: what the choice of a kernel looks at.

use std::fmt;

use crate::{CsrMatrix, Offset, Scalar};

/// Size and row lengths of a sparse matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Structure {
    /// Number of rows.
    pub nrows: usize,
    /// Number of columns.
    pub ncols: usize,
    /// Number of entries.
    pub nnz: usize,
    /// Entries in the shortest row; 0 without rows.
    pub min_row: usize,
    /// Entries in the longest row; 0 without rows.
    pub max_row: usize,
}

impl Structure {
    /// The mean number of entries in a row; 0 without rows.
    #[must_use]
    pub fn mean_row(&self) -> f64 {
        if self.nrows == 0 { 0.0 } else { self.nnz as f64 / self.nrows as f64 }
    }
}

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// The matrix's structure in figures. Reads the row offsets once.
    #[must_use]
    pub fn structure(&self) -> Structure {
        let lengths = || self.row_offsets().windows(2).map(|pair| (pair[1] - pair[0]).index());
        Structure {
            nrows: self.nrows(),
            ncols: self.ncols(),
            nnz: self.nnz(),
            min_row: lengths().min().unwrap_or(0),
            max_row: lengths().max().unwrap_or(0),
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nrows, ncols, nnz, min_row, max_row } = self;
        write!(f, "{nrows} x {ncols}, {nnz} entries, {min_row} to {max_row} a row, mean {:.2}", self.mean_row())
    }
}

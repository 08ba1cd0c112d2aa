//! Layouts of dense matrices in memory.

use std::ops::Range;

use crate::{Error, Result};

/// The storage order of a dense matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Row by row, as in C.
    RowMajor,
    /// Column by column, as in Fortran.
    ColumnMajor,
}

/// The layout of a dense matrix in a vector.
///
/// A pair `(nrows, ncols)` converts to the layout of a row-major matrix without gaps, at the beginning of the vector.
///
/// ```
/// use warpsparse::DenseLayout;
/// let layout = DenseLayout::row_major(3, 5).leading_dimension(8).offset(16);
/// assert_eq!(layout.elements(), Some(16 + 2 * 8 + 5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseLayout {
    pub(super) nrows: usize,
    pub(super) ncols: usize,
    pub(super) order: Order,
    pub(super) leading_dimension: usize,
    pub(super) offset: usize,
}

impl DenseLayout {
    /// Returns the row-major layout without gaps.
    #[must_use]
    pub fn row_major(nrows: usize, ncols: usize) -> Self {
        Self { nrows, ncols, order: Order::RowMajor, leading_dimension: ncols, offset: 0 }
    }

    /// Returns the column-major layout without gaps.
    #[must_use]
    pub fn column_major(nrows: usize, ncols: usize) -> Self {
        Self { nrows, ncols, order: Order::ColumnMajor, leading_dimension: nrows, offset: 0 }
    }

    /// Sets the leading dimension: the distance between rows, in elements, or between columns of a column-major matrix.
    #[must_use]
    pub fn leading_dimension(mut self, elements: usize) -> Self {
        self.leading_dimension = elements;
        self
    }

    /// Sets the index of the first element in the vector.
    #[must_use]
    pub fn offset(mut self, elements: usize) -> Self {
        self.offset = elements;
        self
    }

    /// Returns the layout of the transpose: the same elements with rows and columns exchanged.
    #[must_use]
    pub fn transpose(self) -> Self {
        let order = match self.order {
            Order::RowMajor => Order::ColumnMajor,
            Order::ColumnMajor => Order::RowMajor,
        };
        Self { nrows: self.ncols, ncols: self.nrows, order, ..self }
    }

    /// Returns the layout of the same matrix without gaps, at the beginning of a vector.
    pub(crate) fn packed(self) -> Self {
        Self { leading_dimension: self.lines().1, offset: 0, ..self }
    }

    /// Returns the minimum length of a vector that holds the matrix; `None` if it overflows.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let (lines, line) = self.lines();
        match (lines, line) {
            (0, _) | (_, 0) => Some(self.offset),
            _ => (lines - 1).checked_mul(self.leading_dimension)?.checked_add(line)?.checked_add(self.offset),
        }
    }

    /// Returns the number and length of rows, or of columns if column-major.
    pub(super) fn lines(&self) -> (usize, usize) {
        match self.order {
            Order::RowMajor => (self.nrows, self.ncols),
            Order::ColumnMajor => (self.ncols, self.nrows),
        }
    }

    /// Returns the layout of a submatrix.
    pub(super) fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let (line, at) = match self.order {
            Order::RowMajor => (rows.start, cols.start),
            Order::ColumnMajor => (cols.start, rows.start),
        };
        // An empty part may begin anywhere, so let it begin where the matrix does.
        let is_empty = rows.is_empty() || cols.is_empty();
        let offset = self.offset + if is_empty { 0 } else { line * self.leading_dimension + at };
        Self { nrows: rows.len(), ncols: cols.len(), offset, ..self }
    }

    /// Returns the index of an element in the vector.
    pub(super) fn index(&self, row: usize, col: usize) -> usize {
        let (line, at) = match self.order {
            Order::RowMajor => (row, col),
            Order::ColumnMajor => (col, row),
        };
        self.offset + line * self.leading_dimension + at
    }

    /// Returns whether rows (columns) are contiguous.
    pub(super) fn is_without_gaps(&self) -> bool {
        let (lines, line) = self.lines();
        lines <= 1 || self.leading_dimension == line
    }

    /// Fails unless rows (columns) are disjoint.
    pub(super) fn check_lines(&self) -> Result<()> {
        let (_, line) = self.lines();
        if self.leading_dimension < line {
            let least = match self.order {
                Order::RowMajor => "columns of a row",
                Order::ColumnMajor => "rows of a column",
            };
            let problem = format!("leading dimension {} is less than the {line} {least}", self.leading_dimension);
            return Err(Error::InvalidOption(problem));
        }
        Ok(())
    }

    /// Fails unless a vector of `len` elements holds the matrix.
    pub(super) fn check(&self, len: usize) -> Result<()> {
        self.check_lines()?;
        match self.elements() {
            Some(elements) if elements <= len => Ok(()),
            elements => {
                let expected = elements.unwrap_or(usize::MAX);
                Err(Error::LengthMismatch { what: "the vector of a dense matrix", expected, found: len })
            }
        }
    }
}

impl From<(usize, usize)> for DenseLayout {
    fn from((nrows, ncols): (usize, usize)) -> Self {
        Self::row_major(nrows, ncols)
    }
}

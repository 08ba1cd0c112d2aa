//! How dense matrices lie in memory.

use std::ops::Range;

use crate::{Error, Result};

/// In which direction the elements of a dense matrix follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Row by row, as in C.
    RowMajor,
    /// Column by column, as in Fortran.
    ColumnMajor,
}

/// Where the elements of a dense matrix lie in a vector.
///
/// A pair `(nrows, ncols)` is the layout of a row-major matrix without gaps, from the vector's beginning.
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
    /// Row by row, without gaps.
    #[must_use]
    pub fn row_major(nrows: usize, ncols: usize) -> Self {
        Self { nrows, ncols, order: Order::RowMajor, leading_dimension: ncols, offset: 0 }
    }

    /// Column by column, without gaps.
    #[must_use]
    pub fn column_major(nrows: usize, ncols: usize) -> Self {
        Self { nrows, ncols, order: Order::ColumnMajor, leading_dimension: nrows, offset: 0 }
    }

    /// Sets the distance from one row to the next, in elements; of a column-major matrix that from one column to the next.
    #[must_use]
    pub fn leading_dimension(mut self, elements: usize) -> Self {
        self.leading_dimension = elements;
        self
    }

    /// Sets where in the vector the first element is.
    #[must_use]
    pub fn offset(mut self, elements: usize) -> Self {
        self.offset = elements;
        self
    }

    /// The layout of the transpose: the same elements, rows for columns.
    #[must_use]
    pub fn transpose(self) -> Self {
        let order = match self.order {
            Order::RowMajor => Order::ColumnMajor,
            Order::ColumnMajor => Order::RowMajor,
        };
        Self { nrows: self.ncols, ncols: self.nrows, order, ..self }
    }

    /// How many elements a vector must have to hold the matrix; `None` if that is beyond counting.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let (lines, line) = self.lines();
        match (lines, line) {
            (0, _) | (_, 0) => Some(self.offset),
            _ => (lines - 1).checked_mul(self.leading_dimension)?.checked_add(line)?.checked_add(self.offset),
        }
    }

    /// The number of rows, and the length of each; or of columns.
    pub(super) fn lines(&self) -> (usize, usize) {
        match self.order {
            Order::RowMajor => (self.nrows, self.ncols),
            Order::ColumnMajor => (self.ncols, self.nrows),
        }
    }

    /// The layout of these rows and columns alone: of a part of the matrix.
    pub(super) fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let (line, at) = match self.order {
            Order::RowMajor => (rows.start, cols.start),
            Order::ColumnMajor => (cols.start, rows.start),
        };
        // A part of nothing may begin anywhere, and so begins where the matrix does.
        let is_empty = rows.is_empty() || cols.is_empty();
        let offset = self.offset + if is_empty { 0 } else { line * self.leading_dimension + at };
        Self { nrows: rows.len(), ncols: cols.len(), offset, ..self }
    }

    /// Where in the vector an element is.
    pub(super) fn index(&self, row: usize, col: usize) -> usize {
        let (line, at) = match self.order {
            Order::RowMajor => (row, col),
            Order::ColumnMajor => (col, row),
        };
        self.offset + line * self.leading_dimension + at
    }

    /// Whether there is nothing between the lines.
    pub(super) fn is_without_gaps(&self) -> bool {
        let (lines, line) = self.lines();
        lines <= 1 || self.leading_dimension == line
    }

    /// Fails unless the lines do not overlap.
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

    /// Fails unless a vector of so many elements holds the matrix.
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

//! Dense matrices in device vectors.

use crate::{Device, DeviceVec, Element, Error, Result};

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
    nrows: usize,
    ncols: usize,
    order: Order,
    leading_dimension: usize,
    offset: usize,
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
    fn lines(&self) -> (usize, usize) {
        match self.order {
            Order::RowMajor => (self.nrows, self.ncols),
            Order::ColumnMajor => (self.ncols, self.nrows),
        }
    }

    fn check(&self, len: usize) -> Result<()> {
        let (_, line) = self.lines();
        if self.leading_dimension < line {
            let least = match self.order {
                Order::RowMajor => "columns",
                Order::ColumnMajor => "rows",
            };
            let problem = format!("a leading dimension of {} for {line} {least}", self.leading_dimension);
            return Err(Error::InvalidOption(problem));
        }
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

/// A dense matrix in a vector, to read from.
#[derive(Clone, Copy, Debug)]
pub struct DenseRef<'a, T> {
    vec: &'a DeviceVec<T>,
    layout: DenseLayout,
}

/// A dense matrix in a vector, to write to. Elements between its rows, or columns, stay as they are.
#[derive(Debug)]
pub struct DenseMut<'a, T> {
    vec: &'a mut DeviceVec<T>,
    layout: DenseLayout,
}

impl<T: Element> DeviceVec<T> {
    /// The elements as a dense matrix: `b.matrix((nrows, ncols))`, or with any other [`DenseLayout`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the leading dimension is less than a row is long, or a column of a column-major matrix;
    /// [`Error::LengthMismatch`] if the vector is too short.
    pub fn matrix(&self, layout: impl Into<DenseLayout>) -> Result<DenseRef<'_, T>> {
        let layout = layout.into();
        layout.check(self.len())?;
        Ok(DenseRef { vec: self, layout })
    }

    /// As [`matrix`](Self::matrix), to write to.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn matrix_mut(&mut self, layout: impl Into<DenseLayout>) -> Result<DenseMut<'_, T>> {
        let layout = layout.into();
        layout.check(self.len())?;
        Ok(DenseMut { vec: self, layout })
    }
}

macro_rules! accessors {
    ($($matrix:ident),*) => {$(
        impl<T: Element> $matrix<'_, T> {
            /// Number of rows.
            #[must_use]
            pub fn nrows(&self) -> usize {
                self.layout.nrows
            }

            /// Number of columns.
            #[must_use]
            pub fn ncols(&self) -> usize {
                self.layout.ncols
            }

            /// By rows or by columns.
            #[must_use]
            pub fn order(&self) -> Order {
                self.layout.order
            }

            /// From one row to the next, in elements; or from one column to the next.
            #[must_use]
            pub fn leading_dimension(&self) -> usize {
                self.layout.leading_dimension
            }

            /// Where in the vector the first element is.
            #[must_use]
            pub fn offset(&self) -> usize {
                self.layout.offset
            }

            /// Where the matrix lives.
            #[must_use]
            pub fn device(&self) -> &Device {
                self.vec.device()
            }

            /// Whether the matrix is one column, and the whole vector.
            pub(crate) fn is_vector(&self) -> bool {
                let Self { vec, layout: DenseLayout { nrows, ncols, leading_dimension, .. } } = self;
                (*ncols, *leading_dimension) == (1, 1) && *nrows == vec.len()
            }
        }
    )*};
}
accessors!(DenseRef, DenseMut);

impl<'a, T: Element> DenseRef<'a, T> {
    /// The transpose: the same elements, rows for columns.
    #[must_use]
    pub fn transpose(self) -> Self {
        Self { layout: self.layout.transpose(), ..self }
    }

    pub(crate) fn vec(&self) -> &'a DeviceVec<T> {
        self.vec
    }
}

impl<'a, T: Element> DenseMut<'a, T> {
    /// The transpose: the same elements, rows for columns.
    #[must_use]
    pub fn transpose(self) -> Self {
        Self { layout: self.layout.transpose(), ..self }
    }

    pub(crate) fn into_vec(self) -> &'a mut DeviceVec<T> {
        self.vec
    }

    pub(crate) fn reborrow(&mut self) -> DenseMut<'_, T> {
        DenseMut { vec: self.vec, layout: self.layout }
    }
}

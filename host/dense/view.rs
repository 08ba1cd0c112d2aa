//! Dense matrices in vectors, borrowed.

use std::ops::{Range, RangeBounds};

use super::{
    DeviceDense, copy,
    layout::{DenseLayout, Order},
};
use crate::{
    Device, DeviceSlice, DeviceSliceMut, DeviceVec, Element, Result,
    device::{Readable, Writable, within},
};

/// A dense matrix in a vector, to read from.
///
/// Made by [`DeviceVec::matrix`] and [`DeviceDense::view`]. Where a function takes `impl Into<DenseRef>`, a `&DeviceDense` will do.
#[derive(Debug)]
pub struct DenseRef<'a, T> {
    vec: &'a DeviceVec<T>,
    layout: DenseLayout,
}

impl<T> Clone for DenseRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DenseRef<'_, T> {}

/// A dense matrix in a vector, to write to. Elements between its rows, or columns, stay as they are.
///
/// Made by [`DeviceVec::matrix_mut`] and [`DeviceDense::view_mut`]. Where a function takes `impl Into<DenseMut>`, a `&mut DeviceDense`
/// will do.
#[derive(Debug)]
pub struct DenseMut<'a, T> {
    vec: &'a mut DeviceVec<T>,
    layout: DenseLayout,
}

impl<T: Element> DeviceVec<T> {
    /// The elements as a dense matrix: `b.matrix((nrows, ncols))`, or with any other [`DenseLayout`].
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the leading dimension is less than a row is long, or a column of a column-major matrix;
    /// [`LengthMismatch`](crate::Error::LengthMismatch) if the vector is too short.
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

            /// Where in the vector all elements are.
            #[must_use]
            pub fn layout(&self) -> DenseLayout {
                self.layout
            }

            /// Where the matrix lives.
            #[must_use]
            pub fn device(&self) -> &Device {
                self.vec.device()
            }

            /// The transpose: the same elements, rows for columns.
            #[must_use]
            pub fn transpose(self) -> Self {
                Self { layout: self.layout.transpose(), ..self }
            }

            /// Some of the rows: `a.rows(10..20)?`.
            ///
            /// # Errors
            /// [`InvalidOption`](crate::Error::InvalidOption) if the range is not within the matrix.
            pub fn rows(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let rows = lines_within("rows", self.layout.nrows, range)?;
                Ok(Self { layout: self.layout.part(rows, 0..self.layout.ncols), ..self })
            }

            /// Some of the columns.
            ///
            /// # Errors
            /// [`InvalidOption`](crate::Error::InvalidOption) if the range is not within the matrix.
            pub fn columns(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let cols = lines_within("columns", self.layout.ncols, range)?;
                Ok(Self { layout: self.layout.part(0..self.layout.nrows, cols), ..self })
            }

            /// Where the elements lie, and the gaps between them.
            fn range(&self) -> Range<usize> {
                self.layout.offset..self.layout.elements().expect("a vector holds it")
            }

            /// Where the elements lie, if they do one after the other and make up one column.
            fn one_column(&self) -> Option<Range<usize>> {
                let DenseLayout { nrows, ncols, order, leading_dimension, offset } = self.layout;
                let is_slice = ncols == 1 && (order == Order::ColumnMajor || leading_dimension == 1 || nrows <= 1);
                is_slice.then(|| offset..offset + nrows)
            }
        }
    )*};
}
accessors!(DenseRef, DenseMut);

impl<'a, T: Element> DenseRef<'a, T> {
    /// A copy of the elements, row by row without gaps, after everything queued before has finished.
    ///
    /// # Errors
    /// As [`DeviceVec::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let layout = self.layout;
        let elements = layout.nrows * layout.ncols;
        if elements == 0 {
            return Ok(vec![]);
        }
        let lines = self.elements().to_vec()?;
        let layout = layout.offset(0);
        if layout.order == Order::RowMajor && layout.is_without_gaps() {
            return Ok(lines);
        }
        let mut values = crate::memory::room(elements)?;
        values.extend((0..elements).map(|k| lines[layout.index(k / layout.ncols, k % layout.ncols)]));
        Ok(values)
    }

    /// The elements from the first to the last, as the layout has them, gaps included: for kernels of your own.
    #[must_use]
    pub fn elements(&self) -> DeviceSlice<'a, T> {
        self.vec.slice(self.range()).expect("a vector holds its matrix")
    }

    pub(crate) fn vec(&self) -> &'a DeviceVec<T> {
        self.vec
    }

    /// For a kernel to read, from the first element on.
    pub(crate) fn readable(self) -> Readable<'a, T> {
        self.vec.readable().skip(self.layout.offset)
    }

    /// The one column, if its elements lie one after the other.
    pub(crate) fn as_vector(&self) -> Option<DeviceSlice<'a, T>> {
        self.one_column().map(|range| self.vec.slice(range).expect("a vector holds its matrix"))
    }
}

impl<'a, T: Element> DenseMut<'a, T> {
    /// The same matrix, to read.
    #[must_use]
    pub fn view(&self) -> DenseRef<'_, T> {
        DenseRef { vec: self.vec, layout: self.layout }
    }

    /// The same matrix, to write it for a while.
    #[must_use]
    pub fn view_mut(&mut self) -> DenseMut<'_, T> {
        DenseMut { vec: self.vec, layout: self.layout }
    }

    /// Overwrites the elements by those of a matrix of the same size in any layout; queued on this matrix's queue. Reads one matrix and writes
    /// the other, once each.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch), [`Driver`](crate::Error::Driver).
    pub fn assign<'b>(&mut self, source: impl Into<DenseRef<'b, T>>) -> Result<()> {
        copy::assign(self.view_mut(), source.into())
    }

    /// The elements from the first to the last, as the layout has them, gaps included: for kernels of your own.
    #[must_use]
    pub fn into_elements(self) -> DeviceSliceMut<'a, T> {
        let range = self.range();
        self.vec.slice_mut(range).expect("a vector holds its matrix")
    }

    pub(crate) fn into_vec(self) -> &'a mut DeviceVec<T> {
        self.vec
    }

    /// The queue, and the matrix for a kernel to write, from the first element on.
    pub(crate) fn into_writable(self) -> (&'a Device, Writable<'a, T>) {
        let (queue, vec) = self.vec.as_slice_mut().into_writable();
        (queue, vec.skip(self.layout.offset))
    }

    /// The one column, if its elements lie one after the other.
    pub(crate) fn as_vector_mut(&mut self) -> Option<DeviceSliceMut<'_, T>> {
        self.one_column().map(|range| self.vec.slice_mut(range).expect("a vector holds its matrix"))
    }
}

impl<'a, T: Element> From<&'a DeviceDense<T>> for DenseRef<'a, T> {
    fn from(matrix: &'a DeviceDense<T>) -> Self {
        matrix.view()
    }
}

impl<'a, T: Element> From<&'a DenseMut<'_, T>> for DenseRef<'a, T> {
    fn from(matrix: &'a DenseMut<'_, T>) -> Self {
        matrix.view()
    }
}

impl<'a, T: Element> From<&'a mut DeviceDense<T>> for DenseMut<'a, T> {
    fn from(matrix: &'a mut DeviceDense<T>) -> Self {
        matrix.view_mut()
    }
}

fn lines_within(what: &str, len: usize, range: impl RangeBounds<usize>) -> Result<Range<usize>> {
    within(what, len, &range).map(|(first, count)| first..first + count)
}

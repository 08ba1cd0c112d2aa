//! Views of dense matrices in vectors.

use std::ops::{Range, RangeBounds};

use super::{
    DeviceDense, copy,
    layout::{DenseLayout, Order},
};
use crate::{
    Device, DeviceSlice, DeviceSliceMut, DeviceVec, Element, Result,
    device::{Readable, Writable, within},
};

/// A read-only dense matrix in a vector.
///
/// Created by [`DeviceVec::matrix`], [`DeviceSlice::matrix`] and [`DeviceDense::view`]. Functions that take `impl Into<DenseRef>` also accept a
/// `&DeviceDense`.
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

/// A mutable dense matrix in a vector. Writing it leaves the elements between its rows (columns) unchanged.
///
/// Created by [`DeviceVec::matrix_mut`], [`DeviceSliceMut::matrix_mut`] and [`DeviceDense::view_mut`]. Functions that take `impl Into<DenseMut>` also
/// accept a `&mut DeviceDense`.
#[derive(Debug)]
pub struct DenseMut<'a, T> {
    vec: &'a mut DeviceVec<T>,
    layout: DenseLayout,
}

impl<T: Element> DeviceVec<T> {
    /// Views the elements as a dense matrix: `b.matrix((nrows, ncols))`, or with any other [`DenseLayout`].
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the leading dimension is less than the length of a row (of a
    /// column, if column-major); [`LengthMismatch`](crate::Error::LengthMismatch) if the vector is too short.
    pub fn matrix(&self, layout: impl Into<DenseLayout>) -> Result<DenseRef<'_, T>> {
        let layout = layout.into();
        layout.check(self.len())?;
        Ok(DenseRef { vec: self, layout })
    }

    /// Views the elements as a mutable dense matrix: see [`matrix`](Self::matrix).
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn matrix_mut(&mut self, layout: impl Into<DenseLayout>) -> Result<DenseMut<'_, T>> {
        let layout = layout.into();
        layout.check(self.len())?;
        Ok(DenseMut { vec: self, layout })
    }
}

impl<'a, T: Element> DeviceSlice<'a, T> {
    /// Views the elements as a dense matrix: see [`DeviceVec::matrix`].
    ///
    /// ```
    /// use warpsparse::{DenseLayout, Device, gemm};
    ///
    /// // A basis of vectors of 4 elements, one after another, and the dot products of the first two with a third.
    /// let device = Device::auto();
    /// let basis = device.upload_vec(&[1.0f64, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 5.0])?;
    /// let first_two = basis.slice(..8)?.matrix(DenseLayout::column_major(4, 2))?;
    /// let mut dots = device.zeros(2)?;
    /// let third = basis.slice(8..)?.matrix((4, 1))?;
    /// gemm(1.0, first_two.transpose(), third, 0.0, dots.matrix_mut((2, 1))?)?;
    /// assert_eq!(dots.to_vec()?, [8.0, 8.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`DeviceVec::matrix`].
    pub fn matrix(self, layout: impl Into<DenseLayout>) -> Result<DenseRef<'a, T>> {
        let layout = layout.into();
        layout.check(self.len())?;
        let (vec, first) = self.parts();
        Ok(DenseRef { vec, layout: layout.offset(first + layout.offset) })
    }
}

impl<'a, T: Element> DeviceSliceMut<'a, T> {
    /// Views the elements as a mutable dense matrix: see [`DeviceVec::matrix`].
    ///
    /// # Errors
    /// As [`DeviceVec::matrix`].
    pub fn matrix_mut(self, layout: impl Into<DenseLayout>) -> Result<DenseMut<'a, T>> {
        let layout = layout.into();
        layout.check(self.len())?;
        let (vec, first) = self.into_vector();
        Ok(DenseMut { vec, layout: layout.offset(first + layout.offset) })
    }
}

macro_rules! accessors {
    ($($matrix:ident),*) => {$(
        impl<T: Element> $matrix<'_, T> {
            /// Returns the number of rows.
            #[must_use]
            pub fn nrows(&self) -> usize {
                self.layout.nrows
            }

            /// Returns the number of columns.
            #[must_use]
            pub fn ncols(&self) -> usize {
                self.layout.ncols
            }

            /// Returns the storage order.
            #[must_use]
            pub fn order(&self) -> Order {
                self.layout.order
            }

            /// Returns the distance between rows, in elements; between columns if column-major.
            #[must_use]
            pub fn leading_dimension(&self) -> usize {
                self.layout.leading_dimension
            }

            /// Returns the index of the first element in the vector.
            #[must_use]
            pub fn offset(&self) -> usize {
                self.layout.offset
            }

            /// Returns the range of the matrix in the vector.
            #[must_use]
            pub fn layout(&self) -> DenseLayout {
                self.layout
            }

            /// Returns the device that holds the matrix.
            #[must_use]
            pub fn device(&self) -> &Device {
                self.vec.device()
            }

            /// Returns the transpose as a view of the same elements.
            #[must_use]
            pub fn transpose(self) -> Self {
                Self { layout: self.layout.transpose(), ..self }
            }

            /// Returns a range of rows: `a.rows(10..20)?`.
            ///
            /// # Errors
            /// [`InvalidOption`](crate::Error::InvalidOption) if the range is not within the matrix.
            pub fn rows(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let rows = lines_within("rows", self.layout.nrows, range)?;
                Ok(Self { layout: self.layout.part(rows, 0..self.layout.ncols), ..self })
            }

            /// Returns a range of columns.
            ///
            /// # Errors
            /// [`InvalidOption`](crate::Error::InvalidOption) if the range is not within the matrix.
            pub fn columns(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let cols = lines_within("columns", self.layout.ncols, range)?;
                Ok(Self { layout: self.layout.part(0..self.layout.nrows, cols), ..self })
            }

            /// Returns the range of the elements, gaps included.
            fn range(&self) -> Range<usize> {
                self.layout.offset..self.layout.elements().expect("a vector holds it")
            }

            /// Returns the range of the elements if they form one contiguous column.
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
    /// Copies the elements to the host in row-major order without gaps, after all earlier operations on the stream have
    /// finished.
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

    /// Returns the elements from the first to the last in memory order, gaps included: for your own kernels, and for
    /// operations on one column as a vector.
    #[must_use]
    pub fn elements(&self) -> DeviceSlice<'a, T> {
        self.vec.slice(self.range()).expect("a vector holds its matrix")
    }

    pub(crate) fn vec(&self) -> &'a DeviceVec<T> {
        self.vec
    }

    /// Returns the matrix for a kernel to read, from the first element on.
    pub(crate) fn readable(self) -> Readable<'a, T> {
        self.vec.readable().skip(self.layout.offset)
    }

    /// Returns the only column, if its elements are contiguous.
    pub(crate) fn as_vector(&self) -> Option<DeviceSlice<'a, T>> {
        self.one_column().map(|range| self.vec.slice(range).expect("a vector holds its matrix"))
    }
}

impl<'a, T: Element> DenseMut<'a, T> {
    /// Returns the same matrix, read-only.
    #[must_use]
    pub fn view(&self) -> DenseRef<'_, T> {
        DenseRef { vec: self.vec, layout: self.layout }
    }

    /// Reborrows the matrix.
    #[must_use]
    pub fn view_mut(&mut self) -> DenseMut<'_, T> {
        DenseMut { vec: self.vec, layout: self.layout }
    }

    /// Overwrites the elements with those of a matrix of the same size in any layout. Queued on this matrix's stream;
    /// reads one matrix and writes the other once.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch), [`Driver`](crate::Error::Driver).
    pub fn assign<'b>(&mut self, source: impl Into<DenseRef<'b, T>>) -> Result<()> {
        copy::assign(self.view_mut(), source.into())
    }

    /// Returns the elements from the first to the last in memory order, gaps included: for your own kernels, and for
    /// operations on one column as a vector.
    #[must_use]
    pub fn into_elements(self) -> DeviceSliceMut<'a, T> {
        let range = self.range();
        self.vec.slice_mut(range).expect("a vector holds its matrix")
    }

    pub(crate) fn into_vec(self) -> &'a mut DeviceVec<T> {
        self.vec
    }

    /// Returns the stream, and the matrix for a kernel to write, from the first element on.
    pub(crate) fn into_writable(self) -> (&'a Device, Writable<'a, T>) {
        let (queue, vec) = self.vec.as_slice_mut().into_writable();
        (queue, vec.skip(self.layout.offset))
    }

    /// Returns the only column, if its elements are contiguous.
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

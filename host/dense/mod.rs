//! Dense matrices on a device.

mod copy;
mod half;
mod layout;
mod rows;
mod scaled;
mod view;

use std::ops::RangeBounds;

pub use self::half::{Half, HalfDense};
pub use layout::{DenseLayout, Order};
pub(crate) use rows::{Rows, RowsMut, in_rows, write_rows};
pub(crate) use scaled::{TimesZero, add, scaled};
pub use view::{DenseMut, DenseRef};

use crate::{Device, DeviceSlice, DeviceSliceMut, DeviceVec, Element, Result};

/// A dense matrix in device memory, row-major or column-major.
///
/// ```
/// use warpsparse::{DenseLayout, Device, Map};
///
/// let device = Device::auto();
/// let a = device.upload_dense((2, 3), &[1.0f32, -2.0, 3.0, -4.0, 5.0, -6.0])?;
/// let mut c = device.zeros_dense(DenseLayout::column_major(2, 2))?;
/// a.gemm(1.0, a.transpose(), 0.0, &mut c)?; // A times its transpose
/// assert_eq!(c.to_vec()?, [14.0, -32.0, -32.0, 77.0]);
/// c.elements_mut().map(Map::Relu)?;
/// assert_eq!(c.view().columns(1..)?.to_vec()?, [0.0, 77.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Memory: [`elements`](DenseLayout::elements) of its layout.
#[derive(Debug)]
pub struct DeviceDense<T> {
    vec: DeviceVec<T>,
    layout: DenseLayout,
}

impl Device {
    /// Creates a matrix of zeros: `device.zeros_dense((nrows, ncols))`, or with any other [`DenseLayout`].
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the leading dimension is less than the length of a row (of a
    /// column, if column-major); [`OutOfMemory`](crate::Error::OutOfMemory); [`Driver`](crate::Error::Driver).
    pub fn zeros_dense<T: Element>(&self, layout: impl Into<DenseLayout>) -> Result<DeviceDense<T>> {
        let layout = layout.into();
        layout.check_lines()?;
        let vec = self.zeros(layout.elements().unwrap_or(usize::MAX))?;
        Ok(DeviceDense { vec, layout })
    }

    /// Uploads a matrix: `device.upload_dense((nrows, ncols), &values)` for row-major elements without gaps, or with
    /// any other layout. Waits for the copy.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the leading dimension is less than the length of a row (of a
    /// column, if column-major), and while a graph is recorded; [`LengthMismatch`](crate::Error::LengthMismatch) unless there are as many values as
    /// the layout has [`elements`](DenseLayout::elements); [`OutOfMemory`](crate::Error::OutOfMemory);
    /// [`Driver`](crate::Error::Driver).
    pub fn upload_dense<T: Element>(&self, layout: impl Into<DenseLayout>, values: &[T]) -> Result<DeviceDense<T>> {
        let layout = layout.into();
        check_exact(&layout, values.len())?;
        Ok(DeviceDense { vec: self.upload_vec(values)?, layout })
    }
}

impl<T: Element> DeviceDense<T> {
    /// Creates a matrix from the elements of a vector, without a copy.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the leading dimension is less than the length of a row (of a
    /// column, if column-major); [`LengthMismatch`](crate::Error::LengthMismatch) unless the vector has as many
    /// elements as the layout.
    pub fn from_vec(layout: impl Into<DenseLayout>, vec: DeviceVec<T>) -> Result<Self> {
        let layout = layout.into();
        check_exact(&layout, vec.len())?;
        Ok(Self { vec, layout })
    }

    /// Returns the elements as a vector, in the order of the layout, without a copy.
    #[must_use]
    pub fn into_vec(self) -> DeviceVec<T> {
        self.vec
    }

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

    /// Returns the layout of the elements in memory.
    #[must_use]
    pub fn layout(&self) -> DenseLayout {
        self.layout
    }

    /// Returns the device that holds the matrix, whose stream runs the operations that write it.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.vec.device()
    }

    /// Returns a read-only view of the matrix.
    #[must_use]
    pub fn view(&self) -> DenseRef<'_, T> {
        self.vec.matrix(self.layout).expect("the vector has been made for the layout")
    }

    /// Returns a mutable view of the matrix.
    #[must_use]
    pub fn view_mut(&mut self) -> DenseMut<'_, T> {
        self.vec.matrix_mut(self.layout).expect("the vector has been made for the layout")
    }

    /// Returns the transpose as a view of the same elements.
    #[must_use]
    pub fn transpose(&self) -> DenseRef<'_, T> {
        self.view().transpose()
    }

    /// Returns a range of rows.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the range is not within the matrix.
    pub fn rows(&self, range: impl RangeBounds<usize>) -> Result<DenseRef<'_, T>> {
        self.view().rows(range)
    }

    /// Returns a range of columns.
    ///
    /// # Errors
    /// [`InvalidOption`](crate::Error::InvalidOption) if the range is not within the matrix.
    pub fn columns(&self, range: impl RangeBounds<usize>) -> Result<DenseRef<'_, T>> {
        self.view().columns(range)
    }

    /// Returns a range of rows, to write them.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn rows_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DenseMut<'_, T>> {
        self.view_mut().rows(range)
    }

    /// Returns a range of columns, to write them.
    ///
    /// # Errors
    /// As [`columns`](Self::columns).
    pub fn columns_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DenseMut<'_, T>> {
        self.view_mut().columns(range)
    }

    /// Returns all elements in the order of the layout, including gaps, for elementwise operations and reductions.
    #[must_use]
    pub fn elements(&self) -> DeviceSlice<'_, T> {
        (&self.vec).into()
    }

    /// Returns the same elements, to write them.
    #[must_use]
    pub fn elements_mut(&mut self) -> DeviceSliceMut<'_, T> {
        (&mut self.vec).into()
    }

    /// Copies the elements to the host in row-major order without gaps, after all earlier operations on the stream have
    /// finished.
    ///
    /// # Errors
    /// As [`DeviceVec::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.view().to_vec()
    }

    /// Overwrites the elements with those of a matrix of the same size in any layout: see [`DenseMut::assign`].
    ///
    /// # Errors
    /// As [`DenseMut::assign`].
    pub fn assign<'b>(&mut self, source: impl Into<DenseRef<'b, T>>) -> Result<()> {
        self.view_mut().assign(source)
    }
}

fn check_exact(layout: &DenseLayout, len: usize) -> Result<()> {
    layout.check(len)?;
    let expected = layout.elements().expect("no more than there are");
    crate::device::check_length("the vector of a dense matrix", expected, len)
}

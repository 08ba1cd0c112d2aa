//! Slices of vectors.

use std::ops::{Bound, RangeBounds};

use super::{Buffer, Device, DeviceVec, check_length};
#[cfg(feature = "cuda")]
use super::{DeviceVecMut, DeviceVecRef};
use crate::{Element, Error, Result};

/// A read-only slice of a [`DeviceVec`].
///
/// Created by [`DeviceVec::slice`]. Operations are somewhat slower on slices that do not begin at a multiple of 16
/// bytes.
#[derive(Debug)]
pub struct DeviceSlice<'a, T> {
    vector: &'a DeviceVec<T>,
    first: usize,
    len: usize,
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

/// A mutable slice of a [`DeviceVec`].
///
/// Created by [`DeviceVec::slice_mut`].
#[derive(Debug)]
pub struct DeviceSliceMut<'a, T> {
    vector: &'a mut DeviceVec<T>,
    first: usize,
    len: usize,
}

impl<T: Element> DeviceVec<T> {
    /// Returns the elements in a range of indices: `x.slice(10..20)?`.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let device = Device::auto();
    /// let x = device.upload_vec(&[1.0f32, 2.0, 3.0, 4.0])?;
    /// let mut y = device.zeros::<f32>(6)?;
    /// y.slice_mut(1..3)?.axpy(10.0, x.slice(2..)?)?;
    /// assert_eq!(y.to_vec()?, [0.0, 30.0, 40.0, 0.0, 0.0, 0.0]);
    /// assert_eq!(y.slice(..3)?.sum()?.get()?, 70.0);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the range is not within the vector.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// Returns the elements in a range of indices, to write them.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the range is not within the vector.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        let (first, len) = within("elements", self.len(), &range)?;
        Ok(DeviceSliceMut { vector: self, first, len })
    }

    /// Returns all elements, for functions that take a slice, such as [`LinearOperator::apply`](crate::LinearOperator::apply).
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice { vector: self, first: 0, len: self.len() }
    }

    /// Returns all elements, to write them: see [`as_slice`](Self::as_slice).
    #[must_use]
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        let len = self.len();
        DeviceSliceMut { vector: self, first: 0, len }
    }
}

impl<'a, T: Element> DeviceSlice<'a, T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the slice is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device that holds the vector.
    #[must_use]
    pub fn device(&self) -> &'a Device {
        self.vector.device()
    }

    /// Returns a part of the slice.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the range is not within the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (first, len) = within("elements", self.len, &range)?;
        Ok(Self { vector: self.vector, first: self.first + first, len })
    }

    /// Copies the elements to the host, after all earlier operations on the stream have finished.
    ///
    /// # Errors
    /// As [`DeviceVec::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut values = crate::memory::zeros(self.len)?;
        self.vector.copy_range_to(self.first, &mut values)?;
        Ok(values)
    }

    pub(crate) fn as_slice(&self) -> Self {
        *self
    }

    /// Returns the vector and the index of the slice's first element in it.
    pub(crate) fn parts(self) -> (&'a DeviceVec<T>, usize) {
        (self.vector, self.first)
    }

    /// Returns the elements of a vector on the CPU device.
    pub(crate) fn on_cpu(self) -> &'a [T] {
        &self.vector.buffer().on_cpu()[self.first..][..self.len]
    }
}

impl<T: Element> DeviceSliceMut<'_, T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the slice is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device that holds the vector.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.vector.device()
    }

    /// Returns the same elements, read-only.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice { vector: self.vector, first: self.first, len: self.len }
    }

    /// Reborrows the slice.
    pub(crate) fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut { vector: self.vector, first: self.first, len: self.len }
    }

    /// Copies the elements to the host, after all earlier operations on the stream have finished.
    ///
    /// # Errors
    /// As [`DeviceVec::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// Overwrites all elements with `source`. Waits for the copy.
    ///
    /// # Errors
    /// As [`DeviceVec::copy_from`].
    pub fn copy_from(&mut self, source: &[T]) -> Result<()> {
        check_length("the source", self.len, source.len())?;
        let (device, buffer) = self.vector.parts_mut();
        buffer.overwrite(device, self.first, source)
    }

    /// Returns a part of the slice.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the range is not within the slice.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        let (first, len) = within("elements", self.len, &range)?;
        Ok(DeviceSliceMut { vector: self.vector, first: self.first + first, len })
    }
}

impl<'a, T: Element> DeviceSliceMut<'a, T> {
    /// Returns the vector and the index of the slice's first element in it.
    pub(crate) fn into_vector(self) -> (&'a mut DeviceVec<T>, usize) {
        (self.vector, self.first)
    }

    /// Returns the stream, the vector's memory, and the index of the slice's first element in it.
    pub(crate) fn into_parts(self) -> (&'a Device, &'a mut Buffer<T>, usize) {
        let (queue, buffer) = self.vector.parts_mut();
        (queue, buffer, self.first)
    }

    /// Returns the elements of a vector on the CPU device.
    pub(crate) fn on_cpu_mut(self) -> &'a mut [T] {
        &mut self.vector.parts_mut().1.on_cpu_mut()[self.first..][..self.len]
    }

    /// Returns whether the slice begins at a multiple of 16 bytes, as kernels that write several elements at a time
    /// require.
    pub(crate) fn is_aligned(&self) -> bool {
        (self.first * size_of::<T>()).is_multiple_of(16)
    }
}

impl<'a, T: Element> From<&'a DeviceVec<T>> for DeviceSlice<'a, T> {
    fn from(vector: &'a DeviceVec<T>) -> Self {
        vector.as_slice()
    }
}

/// For closures, such as those of [`Device::record_swapping`].
impl<'a, T: Element> From<&'a mut DeviceVec<T>> for DeviceSlice<'a, T> {
    fn from(vector: &'a mut DeviceVec<T>) -> Self {
        vector.as_slice()
    }
}

impl<'a, T: Element> From<&'a mut DeviceVec<T>> for DeviceSliceMut<'a, T> {
    fn from(vector: &'a mut DeviceVec<T>) -> Self {
        vector.as_slice_mut()
    }
}

impl<'a, T: Element> From<&'a mut DeviceSliceMut<'_, T>> for DeviceSliceMut<'a, T> {
    fn from(slice: &'a mut DeviceSliceMut<'_, T>) -> Self {
        slice.as_slice_mut()
    }
}

/// Memory borrowed from another library.
#[cfg(feature = "cuda")]
impl<'a, T: Element> From<&'a mut DeviceVecMut<'_, T>> for DeviceSliceMut<'a, T> {
    fn from(vector: &'a mut DeviceVecMut<'_, T>) -> Self {
        vector.as_slice_mut()
    }
}

/// Memory borrowed from another library.
#[cfg(feature = "cuda")]
impl<'a, T: Element> From<&'a DeviceVecRef<'_, T>> for DeviceSlice<'a, T> {
    fn from(vector: &'a DeviceVecRef<'_, T>) -> Self {
        vector.as_slice()
    }
}

/// Memory borrowed from another library.
#[cfg(feature = "cuda")]
impl<'a, T: Element> From<&'a DeviceVecMut<'_, T>> for DeviceSlice<'a, T> {
    fn from(vector: &'a DeviceVecMut<'_, T>) -> Self {
        vector.as_slice()
    }
}

impl<'a, T: Element> From<&'a DeviceSliceMut<'_, T>> for DeviceSlice<'a, T> {
    fn from(slice: &'a DeviceSliceMut<'_, T>) -> Self {
        slice.as_slice()
    }
}

/// Returns the first index and the length of a range within `len` items.
pub(crate) fn within(what: &str, len: usize, range: &impl RangeBounds<usize>) -> Result<(usize, usize)> {
    // What saturates is beyond every length.
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if first > end || end > len {
        return Err(Error::InvalidOption(format!("the range {first}..{end} is not within {len} {what}")));
    }
    Ok((first, end - first))
}

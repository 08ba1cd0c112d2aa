//! Streams of other libraries, and vectors in memory that they lend.

use std::{
    ffi::c_void,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use cudarc::driver::SyncOnDrop;

use super::{Device, DeviceVec, Owner, Stream, release};
use crate::{Element, Error, Result};

/// A read-only vector in GPU memory borrowed from another library: a [`DeviceVec`] for the duration of the borrow.
///
/// Created by [`from_cudarc`](Self::from_cudarc), with the feature `cust` by `from_cust`, and for any other library by
/// [`from_raw`](Self::from_raw). Nothing is copied.
pub struct DeviceVecRef<'a, T> {
    vector: DeviceVec<T>,
    /// What must happen when the borrow ends.
    loan: Loan<'a>,
}

/// How the lender learns that memory has been read.
pub(crate) enum Loan<'a> {
    /// The caller promises it: nothing to do.
    Promised,
    /// By cudarc's events.
    Tracked(Option<SyncOnDrop<'a>>),
    /// Not at all: the end of the borrow waits for all reads.
    Untracked,
}

/// A mutable vector in GPU memory borrowed from another library: a [`DeviceVec`] for the duration of the borrow.
///
/// Created by [`from_cudarc`](Self::from_cudarc), with the feature `cust` by `from_cust`, and for any other library by
/// [`from_raw`](Self::from_raw). Nothing is copied.
///
/// During the borrow the vector owns the memory, and the lender's variable is empty. Dropping this value returns the
/// memory. So the variable stays empty if this value is forgotten, as by [`std::mem::forget`]. If the vector in it is
/// swapped for another one, the variable gets that one's memory, or stays empty if that memory is of another kind.
pub struct DeviceVecMut<'a, T> {
    vector: DeviceVec<T>,
    give_back: GiveBack<'a, T>,
}

/// Takes the memory out of a vector.
type GiveBack<'a, T> = Box<dyn FnMut(&mut DeviceVec<T>) + Send + Sync + 'a>;

impl<'a, T> DeviceVecRef<'a, T> {
    pub(crate) fn new(vector: DeviceVec<T>, loan: Loan<'a>) -> Self {
        Self { vector, loan }
    }

    /// Returns a vector of the `len` elements from `address` on, on the stream of `device`.
    ///
    /// # Errors
    /// Those of [`DeviceVecMut::from_raw`].
    ///
    /// # Safety
    /// During `'a` the elements are valid, and all writes to them are ordered with the stream of `device`: on the same
    /// stream, or on one that waits for it.
    pub unsafe fn from_raw(device: &Device, address: *const T, len: usize) -> Result<Self>
    where
        T: Element,
    {
        // SAFETY: the caller's promise.
        let vector = unsafe { borrowed(device, address as u64, len) }?;
        Ok(Self::new(vector, Loan::Promised))
    }
}

impl<'a, T> DeviceVecMut<'a, T> {
    pub(crate) fn new(mut vector: DeviceVec<T>, give_back: impl FnMut(&mut DeviceVec<T>) + Send + Sync + 'a) -> Self {
        vector.lend();
        Self { vector, give_back: Box::new(give_back) }
    }

    /// Returns a vector of the `len` elements from `address` on, on the stream of `device`.
    ///
    /// ```no_run
    /// # use warpsparse::{Device, DeviceVecMut};
    /// # fn address_from_elsewhere() -> *mut f32 { std::ptr::null_mut() }
    /// let device = Device::cuda(0)?;
    /// // SAFETY: `address` is that of 1000 floats, which nobody else touches before this stream has got there.
    /// let mut y = unsafe { DeviceVecMut::from_raw(&device, address_from_elsewhere(), 1000) }?;
    /// y.copy_from(&[1.0; 1000])?;
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) if `device` is not a GPU, or the memory belongs to another GPU or to a
    /// context other than the primary one; [`InvalidOption`](Error::InvalidOption) if the address is not a multiple of
    /// 16, or is null although `len` is not 0; [`Driver`](Error::Driver) if it is not an address of GPU memory.
    ///
    /// # Safety
    /// During `'a` the elements are valid, and all accesses to them are ordered with the stream of `device`: on the same
    /// stream, or on one that waits for it. The vector is not moved out, as by [`std::mem::swap`], because it would
    /// outlive `'a`. No other vector overlaps these elements.
    pub unsafe fn from_raw(device: &Device, address: *mut T, len: usize) -> Result<Self>
    where
        T: Element,
    {
        // SAFETY: the caller's promise.
        let vector = unsafe { borrowed(device, address as u64, len) }?;
        Ok(Self::new(vector, |_| {}))
    }
}

/// # Safety
/// That of the callers.
unsafe fn borrowed<T: Element>(device: &Device, address: u64, len: usize) -> Result<DeviceVec<T>> {
    let queue = device.queue_for("the memory")?;
    if address == 0 && len > 0 {
        return Err(Error::InvalidOption(format!("a vector of {len} elements at the address 0")));
    }
    check_alignment(address)?;
    queue.check_memory(address)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { DeviceVec::of_parts(queue, address, len, Owner::Borrowed) })
}

/// Kernels read 16 bytes at a time from the beginning of a vector.
pub(crate) fn check_alignment(address: u64) -> Result<()> {
    if address.is_multiple_of(16) {
        return Ok(());
    }
    let problem = format!("a vector at the address {address:#x}, which is not a multiple of 16");
    Err(Error::InvalidOption(problem))
}

impl Device {
    /// Returns a device that queues on a stream of another library: the counterpart of
    /// [`cuda_stream`](Self::cuda_stream). `stream` is a `CUstream`; null is the default stream of the current context.
    ///
    /// For streams of cudarc use [`from_cudarc`](Self::from_cudarc), for those of cust `from_cust`; both are safe.
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) if the stream belongs to a context other than the primary one of its
    /// GPU; [`InvalidOption`](Error::InvalidOption) for the per-thread default stream; those of [`cuda`](Self::cuda).
    ///
    /// # Safety
    /// The stream stays valid until every handle of this device, and every vector and matrix on it, has been dropped.
    pub unsafe fn from_raw_stream(stream: *mut c_void) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Stream::of_raw(stream, None) }.map(Self::of_queue)
    }
}

impl<T> Deref for DeviceVecRef<'_, T> {
    type Target = DeviceVec<T>;

    fn deref(&self) -> &DeviceVec<T> {
        &self.vector
    }
}

impl<T> Deref for DeviceVecMut<'_, T> {
    type Target = DeviceVec<T>;

    fn deref(&self) -> &DeviceVec<T> {
        &self.vector
    }
}

impl<T> DerefMut for DeviceVecMut<'_, T> {
    fn deref_mut(&mut self) -> &mut DeviceVec<T> {
        &mut self.vector
    }
}

impl<T> Drop for DeviceVecRef<'_, T> {
    fn drop(&mut self) {
        let queue = self.vector.owner_mut().map(|(queue, ..)| Arc::clone(queue));
        match (&mut self.loan, queue) {
            // It records an event, unless cudarc keeps an error.
            (Loan::Tracked(loan), Some(queue)) => release(queue.queue().context(), || drop(loan.take())),
            // An error here is that of an operation queued earlier, and the next one has it too.
            (Loan::Untracked, Some(queue)) => drop(queue.wait()),
            _ => {}
        }
    }
}

impl<T> Drop for DeviceVecMut<'_, T> {
    fn drop(&mut self) {
        (self.give_back)(&mut self.vector);
    }
}

impl<T: fmt::Debug> fmt::Debug for DeviceVecRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceVecRef").field(&self.vector).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for DeviceVecMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceVecMut").field(&self.vector).finish()
    }
}

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

/// A vector to read from in GPU memory that another library lends: a [`DeviceVec`] for as long as the borrow lives.
///
/// Made by [`from_cudarc`](Self::from_cudarc), with the feature `cust` by `from_cust`, and for any other library by
/// [`from_raw`](Self::from_raw). Nothing is copied.
pub struct DeviceVecRef<'a, T> {
    vector: DeviceVec<T>,
    /// What the end of the borrow has to do.
    loan: Loan<'a>,
}

/// How a lender learns that memory has been read.
pub(crate) enum Loan<'a> {
    /// By a promise of the caller's: nothing is to be done.
    Promised,
    /// By cudarc's events.
    Tracked(Option<SyncOnDrop<'a>>),
    /// It does not: all reading ends with the loan.
    Untracked,
}

/// A vector to write in GPU memory that another library lends: a [`DeviceVec`] for as long as the borrow lives.
///
/// Made by [`from_cudarc`](Self::from_cudarc), with the feature `cust` by `from_cust`, and for any other library by
/// [`from_raw`](Self::from_raw). Nothing is copied.
///
/// Meanwhile the vector owns the memory, and the lender's variable is empty; when this is dropped, the memory goes back
/// there. So whoever forgets this, as by [`std::mem::forget`], has an empty variable. Whoever swaps the vector in here
/// for another one gets that one's memory back, or an empty variable where it is of another kind.
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

    /// A vector of the `len` elements from `address` on, on the queue of `device`.
    ///
    /// # Errors
    /// Those of [`DeviceVecMut::from_raw`].
    ///
    /// # Safety
    /// For as long as `'a`, the elements are there, and nothing writes them except in an order with the queue of
    /// `device`: on the same stream, or on one that is made to wait.
    pub unsafe fn from_raw(device: &Device, address: *const T, len: usize) -> Result<Self>
    where
        T: Element,
    {
        // SAFETY: the caller's promise.
        let vector = unsafe { lent(device, address as u64, len) }?;
        Ok(Self::new(vector, Loan::Promised))
    }
}

impl<'a, T> DeviceVecMut<'a, T> {
    pub(crate) fn new(mut vector: DeviceVec<T>, give_back: impl FnMut(&mut DeviceVec<T>) + Send + Sync + 'a) -> Self {
        vector.lend();
        Self { vector, give_back: Box::new(give_back) }
    }

    /// A vector of the `len` elements from `address` on, on the queue of `device`.
    ///
    /// ```no_run
    /// # use warpsparse::{Device, DeviceVecMut};
    /// # fn address_from_elsewhere() -> *mut f32 { std::ptr::null_mut() }
    /// let device = Device::cuda(0)?;
    /// // SAFETY: `address` is that of 1000 floats, which nobody else touches before this queue has got there.
    /// let mut y = unsafe { DeviceVecMut::from_raw(&device, address_from_elsewhere(), 1000) }?;
    /// y.copy_from(&[1.0; 1000])?;
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) if `device` is no GPU, or the memory belongs to another GPU or another
    /// context than the primary one; [`InvalidOption`](Error::InvalidOption) if the address is not a multiple of 16,
    /// or is null where there are elements; [`Driver`](Error::Driver) if it is no address of a GPU's memory.
    ///
    /// # Safety
    /// For as long as `'a`, the elements are there, and nothing touches them except in an order with the queue of
    /// `device`: on the same stream, or on one that is made to wait. The vector is not moved out of this, as by
    /// [`std::mem::swap`], for it would outlive `'a`. No other vector has elements of these.
    pub unsafe fn from_raw(device: &Device, address: *mut T, len: usize) -> Result<Self>
    where
        T: Element,
    {
        // SAFETY: the caller's promise.
        let vector = unsafe { lent(device, address as u64, len) }?;
        Ok(Self::new(vector, |_| {}))
    }
}

/// # Safety
/// That of the callers.
unsafe fn lent<T: Element>(device: &Device, address: u64, len: usize) -> Result<DeviceVec<T>> {
    let queue = device.queue_for("the memory")?;
    if address == 0 && len > 0 {
        return Err(Error::InvalidOption(format!("a vector of {len} elements at the address 0")));
    }
    check_alignment(address)?;
    queue.check_memory(address)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { DeviceVec::of_parts(queue, address, len, Owner::Lender) })
}

/// Kernels read 16 bytes at a time from where they take a vector to begin.
pub(crate) fn check_alignment(address: u64) -> Result<()> {
    if address.is_multiple_of(16) {
        return Ok(());
    }
    let problem = format!("a vector at the address {address:#x}, which is not a multiple of 16");
    Err(Error::InvalidOption(problem))
}

impl Device {
    /// A device that queues on a stream which another library made: the counterpart of
    /// [`cuda_stream`](Self::cuda_stream). `stream` is a `CUstream`; null is the default stream of the current context.
    ///
    /// For streams of cudarc there is [`from_cudarc`](Self::from_cudarc), and for those of cust `from_cust`, both safe.
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) if the stream is of another context than the primary one of its GPU;
    /// [`InvalidOption`](Error::InvalidOption) for the per-thread default stream; those of [`cuda`](Self::cuda).
    ///
    /// # Safety
    /// The stream is live, and stays so until every handle of this device has been dropped, and every vector and
    /// matrix on it.
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

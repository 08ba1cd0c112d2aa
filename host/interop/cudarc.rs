//! Streams and memory of cudarc.

use std::{mem, sync::Arc};

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

use crate::{
    Device, DeviceVec, DeviceVecMut, DeviceVecRef, Element, Error, Result,
    device::{Loan, Owner, Stream, apart_from_errors, check_alignment, driver, release},
};

impl Device {
    /// Returns a device that queues on a stream of cudarc, in order with the program's own work on that stream. The
    /// stream lives as long as any handle of it. All devices of the same GPU share their loaded kernels.
    ///
    /// ```no_run
    /// use warpsparse::{CsrMatrix, Device, DeviceVecMut, DeviceVecRef, cudarc::driver::CudaContext};
    ///
    /// let stream = CudaContext::new(0)?.new_stream()?;
    /// let x = stream.clone_htod(&[10.0f32, 20.0, 30.0])?;
    /// let mut y = stream.alloc_zeros::<f32>(2)?;
    ///
    /// let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0])?;
    /// let a = Device::from_cudarc(stream.clone())?.upload(&a)?;
    /// {
    ///     let (x, mut y) = (DeviceVecRef::from_cudarc(&x)?, DeviceVecMut::from_cudarc(&mut y)?);
    ///     a.spmv(1.0, &x, 0.0, &mut y)?;
    /// } // gives `y` back
    ///
    /// assert_eq!(stream.clone_dtoh(&y)?, [70.0, 60.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # In your own graph
    /// Between `begin_capture` and `end_capture` of the stream you can call operations that only launch kernels:
    /// [`spmv`](crate::DeviceMatrix::spmv); [`spmm`](crate::DeviceMatrix::spmm) after a first such product, or a
    /// [`SpmmPlan`](crate::SpmmPlan); and a [`Launch`](crate::Launch) of a kernel. Matrix and vectors must live on that
    /// stream. The first use of a kernel loads it, which takes a millisecond or two, or its compilation time if there
    /// is no machine code for the GPU; compute the product once beforehand to keep the capture short.
    ///
    /// Operations that allocate, free, wait, or copy from or to the host cannot be captured: uploads,
    /// [`zeros`](Self::zeros), reading and overwriting a vector, a solve by [`Cg`](crate::Cg), and autotuning. Vector
    /// operations and [`gemm`](crate::gemm) can be captured. Reductions, `axpy_dot`, `axpby_norm`, and products that
    /// split their sums ([`GemmOptions::split_k`](crate::GemmOptions::split_k)) use a workspace of the stream, which the
    /// first one allocates: call such an operation once before the capture, keep a device handle of the stream, and
    /// launch the graph on this stream only.
    ///
    /// With event tracking on, as in a new `CudaContext` once it has created a stream, borrowing a slice waits for an
    /// event and returning it records one: borrow before the capture, and return after it. The first `new_stream` of
    /// such a context waits for all work of the GPU, which breaks captures in other threads: create streams beforehand.
    /// While the graph is launched, the device handle, the matrix and the memory of the vectors must exist; cudarc does
    /// not check this.
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) if the stream belongs to a context other than the primary one, which
    /// `CudaContext::new` returns; [`InvalidOption`](Error::InvalidOption) for the per-thread default stream; those of
    /// [`cuda`](Self::cuda).
    pub fn from_cudarc(stream: Arc<CudaStream>) -> Result<Self> {
        Stream::of_cudarc(stream).map(Self::of_queue)
    }
}

impl<T: Element> DeviceVec<T> {
    /// Converts a slice of cudarc to a vector on the slice's stream. Nothing is copied.
    ///
    /// ```no_run
    /// # use warpsparse::{DeviceVec, cudarc::driver::CudaContext};
    /// let stream = CudaContext::new(0)?.new_stream()?;
    /// let mut vector = DeviceVec::from_cudarc(stream.alloc_zeros::<f32>(3)?)?;
    /// vector.copy_from(&[1.0, 2.0, 3.0])?;
    /// let slice = vector.into_cudarc()?;
    /// assert_eq!(stream.clone_dtoh(&slice)?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Device::from_cudarc`] for the slice's stream, and [`InvalidOption`](Error::InvalidOption) if its
    /// address is not a multiple of 16, as that of an allocation is. On error the slice is dropped.
    pub fn from_cudarc(mut slice: CudaSlice<T>) -> Result<Self> {
        let queue = Stream::of_cudarc(Arc::clone(slice.stream()))?;
        let address = acquire(&queue, &mut slice)?;
        Ok(own(&queue, address, slice))
    }

    /// Converts the vector to a slice of cudarc on the same stream. Nothing is copied.
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) unless the vector comes from [`from_cudarc`](Self::from_cudarc), or
    /// was created on a device of [`Device::from_cudarc`]: cudarc would not order accesses to other memory.
    /// [`InvalidOption`](Error::InvalidOption) while a graph uses it. On error the vector is dropped.
    pub fn into_cudarc(mut self) -> Result<CudaSlice<T>> {
        self.check_no_graph()?;
        take(&mut self)?.ok_or_else(|| Error::DeviceMismatch {
            what: "the vector",
            expected: "a stream of cudarc's".into(),
            found: self.device().to_string(),
        })
    }
}

impl<'a, T: Element> DeviceVecRef<'a, T> {
    /// Borrows a slice of cudarc, or a view of one, as a vector on the slice's stream. Operations on the vector run
    /// after earlier writes to the slice on any stream, and before writes that follow the end of the borrow. The end of
    /// the borrow waits for the stream if the slice is in unified memory and cudarc does not track its uses, as in a
    /// context with one stream: otherwise the host could write while a kernel reads.
    ///
    /// # Errors
    /// Those of [`Device::from_cudarc`] for the slice's stream; [`InvalidOption`](Error::InvalidOption) for a view
    /// whose address is not a multiple of 16.
    pub fn from_cudarc(slice: &'a impl DevicePtr<T>) -> Result<Self> {
        let queue = Stream::of_cudarc(Arc::clone(slice.stream()))?;
        let (address, loan) = ordered(&queue, || slice.device_ptr(slice.stream()))?;
        check_alignment(address)?;
        let is_tracked = slice.stream().context().is_managing_stream_synchronization();
        let loan = match is_tracked || !queue.is_managed(address)? {
            true => Loan::Tracked(Some(loan)),
            false => Loan::Untracked,
        };
        // SAFETY: the slice is borrowed as long as this lives, and freed in the order of its stream, which is this
        // queue, or, as cudarc's unified memory is, after its event, which is recorded when this is given back, or at once,
        // when giving it back has waited.
        let vector = unsafe { DeviceVec::of_parts(&queue, address, slice.len(), Owner::Borrowed) };
        Ok(Self::new(vector, loan))
    }
}

impl<'a, T: Element> DeviceVecMut<'a, T> {
    /// Borrows a slice of cudarc as a mutable vector on the slice's stream. Operations on the vector run after earlier
    /// uses of the slice on any stream, and before uses that follow the end of the borrow. For a part of a slice use
    /// [`from_raw`](Self::from_raw).
    ///
    /// # Errors
    /// Those of [`DeviceVecRef::from_cudarc`].
    pub fn from_cudarc(slice: &'a mut CudaSlice<T>) -> Result<Self> {
        let queue = Stream::of_cudarc(Arc::clone(slice.stream()))?;
        let address = acquire(&queue, slice)?;
        // SAFETY: a slice of nothing, which is never freed but where this is forgotten: then nothing is freed.
        let empty = unsafe { queue.of_nothing().upgrade_device_ptr(0, 0) };
        let vector = own(&queue, address, mem::replace(slice, empty));
        Ok(Self::new(vector, move |vector| {
            // What cannot be taken has no elements, like the variable now.
            if let Ok(Some(borrowed)) = take(vector) {
                mem::replace(slice, borrowed).leak();
            }
        }))
    }
}

/// The address of a slice, for what is queued on its stream from now on: after whatever has used it.
fn acquire<T>(queue: &Arc<Stream>, slice: &mut CudaSlice<T>) -> Result<u64> {
    let address = ordered(queue, || slice.device_ptr_mut(queue.queue()).0)?;
    check_alignment(address)?;
    Ok(address)
}

/// What `borrow` gives, unless cudarc has not been able to order a slice's stream after what has used the slice.
fn ordered<R>(queue: &Stream, borrow: impl FnOnce() -> R) -> Result<R> {
    apart_from_errors(queue.queue().context(), borrow).map_err(driver("ordering a slice"))
}

/// The slice, which is at this address, as a vector on its stream.
fn own<T>(queue: &Arc<Stream>, address: u64, slice: CudaSlice<T>) -> DeviceVec<T> {
    let len = slice.len();
    // SAFETY: the vector owns the slice, and the stream is that which it is freed on.
    unsafe { DeviceVec::of_parts(queue, address, len, Owner::Slice(slice)) }
}

/// Takes the slice out of a vector, if it is one of the caller's contexts, and tells cudarc's tracking that it has been
/// written.
fn take<T>(vector: &mut DeviceVec<T>) -> Result<Option<CudaSlice<T>>> {
    let Some((queue, len, owner)) = vector.owner_mut() else { return Ok(None) };
    if !queue.is_of_callers_context() || !matches!(owner, Owner::Slice(_)) {
        return Ok(None);
    }
    let Owner::Slice(mut slice) = mem::replace(owner, Owner::Borrowed) else { return Ok(None) };
    let context = queue.queue().context();
    if slice.len() != len || !Arc::ptr_eq(slice.stream(), queue.queue()) {
        slice = rebuilt(queue, slice, len)?;
    }
    release(context, || drop(slice.device_ptr_mut(queue.queue())));
    Ok(Some(slice))
}

/// The allocation as a slice of the stream's, of so many elements: none, where a vector of none has an allocation all the same.
fn rebuilt<T>(queue: &Stream, slice: CudaSlice<T>, len: usize) -> Result<CudaSlice<T>> {
    let context = queue.queue().context();
    let rebuild = || {
        // cudarc makes events of its own next, and panics if it cannot.
        context.new_event(None)?;
        // SAFETY: the same allocation, which has as many elements.
        Ok(unsafe { queue.queue().upgrade_device_ptr(slice.leak(), len) })
    };
    apart_from_errors(context, rebuild).and_then(|rebuilt| rebuilt).map_err(driver("giving a vector back"))
}

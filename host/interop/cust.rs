//! Streams, memory and modules of cust.

use std::{any::Any, mem, sync::Arc};

use cust::{
    context::CurrentContext,
    device::DeviceAttribute,
    error::CudaError,
    memory::{DeviceBuffer, DeviceCopy},
    module::Module,
    stream::Stream as CustStream,
};
use kernels_gpu::FAMILIES;

use crate::{
    Device, DeviceVec, DeviceVecMut, DeviceVecRef, Element, Error, Result,
    device::{Loan, Owner, Stream, check_alignment},
    ptx,
};

/// Loads the PTX of a kernel family of this crate as a module of cust, in the current context, for its GPU: with all
/// entries of the family, or only the named one, which loads faster.
///
/// [`kernels_gpu::FAMILIES`] lists families and entries; an [`Entry`](kernels_gpu::Entry) states the threads per block
/// and the bytes of dynamic shared memory. An entry takes one struct. The module of its family in [`kernels_gpu`]
/// defines this struct, the grid size and the safety rules; launches pass the struct as [`KernelArgs`].
///
/// ```no_run
/// use cust::{launch, memory::{CopyDestination, DeviceBuffer}, stream::{Stream, StreamFlags}};
/// use warpsparse::{KernelArgs, cust_module, kernels_gpu::vector_scale::{Args, grid_size}};
///
/// let _context = cust::quick_init()?;
/// let stream = Stream::new(StreamFlags::DEFAULT, None)?;
/// let module = cust_module("vector_scale", Some("vector_scale_f64"))?;
/// let y = DeviceBuffer::from_slice(&[1.0, 2.0, 3.0])?;
/// let args = Args { n: 3, beta: 10.0, y: y.as_device_ptr().as_mut_ptr() };
/// // SAFETY: the struct that the entry takes; the buffer has 3 elements, and the grid is that for 3.
/// unsafe {
///     let args = KernelArgs::new(args);
///     launch!(module.vector_scale_f64<<<grid_size(3), 256, 0, stream>>>(args))?;
/// }
/// stream.synchronize()?;
/// let mut found = [0.0; 3];
/// y.copy_to(&mut found)?;
/// assert_eq!(found, [10.0, 20.0, 30.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`InvalidOption`](Error::InvalidOption) if there is no such family or entry; [`NoDevice`](Error::NoDevice) if the
/// GPU is older than any kernel; [`Driver`](Error::Driver), also if no context is current.
pub fn cust_module(family: &str, entry: Option<&str>) -> Result<Module> {
    let invalid = |problem: String| Error::InvalidOption(format!("module of kernels: {problem}"));
    let known = FAMILIES.iter().find(|known| known.name == family);
    let known = known.ok_or_else(|| invalid(format!("there is no family `{family}`")))?;
    if let Some(entry) = entry
        && !known.entries.iter().any(|known| known.name == entry)
    {
        return Err(invalid(format!("the family `{family}` has no entry `{entry}`")));
    }
    let failed = || driver("finding the GPU of the current context");
    let device = CurrentContext::get_device().map_err(failed())?;
    let attribute = |attribute| device.get_attribute(attribute).map(|value| value as u32).map_err(failed());
    let capability =
        (attribute(DeviceAttribute::ComputeCapabilityMajor)?, attribute(DeviceAttribute::ComputeCapabilityMinor)?);
    let embedded = ptx::best_for(family, capability).ok_or_else(|| Error::NoDevice {
        wanted: format!("GPU that runs {family}"),
        reason: format!("this one has compute capability {}.{}, older than any kernel", capability.0, capability.1),
    })?;
    let mut text = embedded.text();
    if let Some(entry) = entry {
        text = ptx::only(&text, entry);
    }
    Module::from_ptx(text, &[]).map_err(driver(family))
}

/// The argument struct of a kernel of this crate, in the form that cust's `launch!` accepts.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct KernelArgs<Args>(Args);

impl<Args: Copy> KernelArgs<Args> {
    /// Passes `args` by value.
    ///
    /// # Safety
    /// `args` is an argument struct of [`kernels_gpu`], or another that may be copied to a GPU: `#[repr(C)]`, made of
    /// numbers and addresses in the GPU's memory.
    pub const unsafe fn new(args: Args) -> Self {
        Self(args)
    }
}

// SAFETY: whoever made it has promised this.
unsafe impl<Args: Copy> DeviceCopy for KernelArgs<Args> {}

impl Device {
    /// Returns a device that queues on a stream of cust, in order with the program's own work on that stream. The
    /// stream lives as long as any handle of it. All devices of the same GPU share their loaded kernels.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cust::{memory::DeviceBuffer, stream::{Stream, StreamFlags}};
    /// use warpsparse::{CsrMatrix, Device, DeviceVecMut, DeviceVecRef};
    ///
    /// let _context = cust::quick_init()?;
    /// let stream = Arc::new(Stream::new(StreamFlags::DEFAULT, None)?);
    /// let (x, mut y) = (DeviceBuffer::from_slice(&[10.0f32, 20.0, 30.0])?, DeviceBuffer::from_slice(&[0.0f32; 2])?);
    ///
    /// let device = Device::from_cust(stream.clone())?;
    /// let a = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 3], vec![0, 2, 1], vec![1.0f32, 2.0, 3.0])?;
    /// let a = device.upload(&a)?;
    /// {
    ///     let (x, mut y) = (DeviceVecRef::from_cust(&device, &x)?, DeviceVecMut::from_cust(&device, &mut y)?);
    ///     a.spmv(1.0, &x, 0.0, &mut y)?;
    /// } // gives `y` back
    ///
    /// stream.synchronize()?;
    /// assert_eq!(y.as_host_vec()?, [70.0, 60.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) if the stream belongs to a context other than the primary one of its
    /// GPU, which `cust::context::Context` uses, unlike `cust::context::legacy`. Those of [`cuda`](Self::cuda).
    pub fn from_cust(stream: Arc<CustStream>) -> Result<Self> {
        let handle = stream.as_inner().cast();
        // SAFETY: the owner destroys the stream.
        unsafe { Stream::of_raw(handle, Some(stream)) }.map(Self::of_queue)
    }
}

impl<T: Element + DeviceCopy + Send + Sync + 'static> DeviceVec<T> {
    /// Converts a buffer of cust to a vector on the stream of `device`, which comes from [`Device::from_cust`]. Nothing
    /// is copied.
    ///
    /// # Errors
    /// Those of [`DeviceVecRef::from_cust`]. On error the buffer is dropped.
    pub fn from_cust(device: &Device, buffer: DeviceBuffer<T>) -> Result<Self> {
        Ok(own(check(device, &buffer)?, buffer))
    }

    /// Converts a vector from [`from_cust`](Self::from_cust) to its buffer. Nothing is copied. Waits for the stream,
    /// because cust can use and free the buffer on any other stream.
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) for any other vector, whose memory does not belong to cust;
    /// [`InvalidOption`](Error::InvalidOption) while a graph uses it. On error the vector is dropped.
    pub fn into_cust(mut self) -> Result<DeviceBuffer<T>> {
        self.check_no_graph()?;
        take(&mut self).ok_or_else(|| Error::DeviceMismatch {
            what: "the vector",
            expected: "a buffer of cust's".into(),
            found: self.device().to_string(),
        })
    }
}

impl<'a, T: Element + DeviceCopy> DeviceVecRef<'a, T> {
    /// Borrows a buffer of cust as a vector on the stream of `device`, which comes from [`Device::from_cust`]. The end
    /// of the borrow waits for the stream, because cust can write and free the buffer on any other stream: borrow once
    /// for many products.
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch) if `device` is not a GPU, or the buffer belongs to another GPU or to a
    /// context other than the primary one; [`InvalidOption`](Error::InvalidOption) if cust's copies, which use the
    /// default stream, would not be ordered with the stream of `device`, as for a device from [`Device::cuda`] or a
    /// stream created with `StreamFlags::NON_BLOCKING`; [`Driver`](Error::Driver).
    pub fn from_cust(device: &Device, buffer: &'a DeviceBuffer<T>) -> Result<Self> {
        let queue = check(device, buffer)?;
        // SAFETY: the buffer is borrowed as long as this lives, and the end of the loan waits for all that reads it.
        let vector =
            unsafe { DeviceVec::of_parts(queue, buffer.as_device_ptr().as_raw(), buffer.len(), Owner::Borrowed) };
        Ok(Self::new(vector, Loan::Untracked))
    }
}

impl<'a, T: Element + DeviceCopy + Send + Sync + 'static> DeviceVecMut<'a, T> {
    /// Borrows a buffer of cust as a mutable vector on the stream of `device`, which comes from [`Device::from_cust`].
    /// For a part of a buffer use [`from_raw`](Self::from_raw). The end of the borrow waits for the stream.
    ///
    /// # Errors
    /// Those of [`DeviceVecRef::from_cust`].
    pub fn from_cust(device: &Device, buffer: &'a mut DeviceBuffer<T>) -> Result<Self> {
        let queue = check(device, buffer)?;
        // SAFETY: it has no elements.
        let empty = unsafe { DeviceBuffer::uninitialized(0) }.map_err(driver("making an empty buffer"))?;
        let vector = own(queue, mem::replace(buffer, empty));
        Ok(Self::new(vector, move |vector| {
            if let Some(borrowed) = take(vector) {
                *buffer = borrowed;
            }
        }))
    }
}

/// The stream, if a buffer of cust's may be used there.
fn check<'a, T: DeviceCopy>(device: &'a Device, buffer: &DeviceBuffer<T>) -> Result<&'a Arc<Stream>> {
    let queue = device.queue_for("the buffer")?;
    if !queue.follows_default_stream()? {
        let problem = "a buffer of cust's on a queue that its copies are not ordered with: take Device::from_cust of a stream with StreamFlags::DEFAULT";
        return Err(Error::InvalidOption(problem.into()));
    }
    let address = buffer.as_device_ptr().as_raw();
    check_alignment(address)?;
    queue.check_memory(address)?;
    Ok(queue)
}

/// The buffer as a vector on the stream.
fn own<T: DeviceCopy + Send + Sync + 'static>(queue: &Arc<Stream>, buffer: DeviceBuffer<T>) -> DeviceVec<T> {
    let (address, len) = (buffer.as_device_ptr().as_raw(), buffer.len());
    // SAFETY: the vector owns the buffer, and waits for the stream before it drops it.
    unsafe { DeviceVec::of_parts(queue, address, len, Owner::Other(Box::new(buffer))) }
}

/// Takes the buffer out of a vector, if it is of cust's kind, and waits for what has been queued with it.
fn take<T: DeviceCopy + 'static>(vector: &mut DeviceVec<T>) -> Option<DeviceBuffer<T>> {
    let (queue, _, owner) = vector.owner_mut()?;
    let is_buffer = |other: &(dyn Any + Send + Sync)| other.is::<DeviceBuffer<T>>();
    if !matches!(owner, Owner::Other(other) if is_buffer(&**other)) {
        return None;
    }
    // An error here is that of an operation queued earlier, and the next one has it too.
    drop(queue.wait());
    let Owner::Other(buffer) = mem::replace(owner, Owner::Borrowed) else { return None };
    buffer.downcast().ok().map(|buffer| *buffer)
}

/// Turns an error of cust's met while doing `what` into ours.
fn driver(what: &str) -> impl Fn(CudaError) -> Error {
    let call = what.to_owned();
    move |error| Error::Driver { call: call.clone(), message: error.to_string() }
}

//! Vectors and other arrays in device memory.

use std::{fmt, sync::Arc};

use super::{Backend, Device, recording};
use crate::{Element, Error, Result, memory};

#[cfg(feature = "cuda")]
use {
    super::cuda::{Stream, release},
    cuda_std::mem::DeviceValue,
    cudarc::driver::{CudaSlice, DevicePtr, sys::CUdeviceptr},
    std::{any::Any, mem},
};

/// A dense vector in device memory, without padding.
///
/// Created by [`Device::upload_vec`] and [`Device::zeros`].
pub struct DeviceVec<T> {
    device: Device,
    buffer: Buffer<T>,
}

/// The device and the length: elements may be many, and on a GPU they may still be computed.
impl<T> fmt::Debug for DeviceVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = format_args!("{}", self.device);
        f.debug_struct("DeviceVec").field("device", &device).field("len", &self.buffer.len()).finish()
    }
}

impl Device {
    /// Copies `values` to a new vector on this device. Waits for the copy.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`]; [`Error::InvalidOption`] while a graph is recorded.
    pub fn upload_vec<T: Element>(&self, values: &[T]) -> Result<DeviceVec<T>> {
        Ok(DeviceVec { device: self.clone(), buffer: Buffer::upload(self, values)? })
    }

    /// Creates a vector of `len` zeros on this device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn zeros<T: Element>(&self, len: usize) -> Result<DeviceVec<T>> {
        Ok(DeviceVec { device: self.clone(), buffer: Buffer::zeros(self, len)? })
    }

    /// Creates a vector whose elements the next operation writes, all of them, before anything reads one: a GPU does not clear it first.
    pub(crate) fn scratch<T: Element>(&self, len: usize) -> Result<DeviceVec<T>> {
        Ok(DeviceVec { device: self.clone(), buffer: Buffer::scratch(self, len)? })
    }
}

impl<T: Element> DeviceVec<T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns whether the vector is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the device that holds the vector, whose stream runs the operations that write it.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies the elements to the host, after all earlier operations on the stream have finished.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Driver`], also for a failure of an operation queued earlier; [`Error::InvalidOption`] while a graph is
    /// recorded.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.buffer.to_vec(&self.device)
    }

    /// Copies the elements to `target`, after all earlier operations on the stream have finished.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::Driver`], also for a failure of an operation queued earlier; [`Error::InvalidOption`] while a graph is
    /// recorded.
    pub fn copy_to(&self, target: &mut [T]) -> Result<()> {
        check_length("the target", self.len(), target.len())?;
        self.buffer.download(&self.device, 0, target)
    }

    /// Copies `target.len()` elements, from index `first` on, to `target`, after all earlier operations on the stream
    /// have finished.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if the range exceeds the vector; [`Error::Driver`], also for a failure of an operation
    /// queued earlier.
    pub fn copy_range_to(&self, first: usize, target: &mut [T]) -> Result<()> {
        let end = first.saturating_add(target.len());
        if end > self.len() {
            return Err(Error::LengthMismatch { what: "the vector", expected: end, found: self.len() });
        }
        self.buffer.download(&self.device, first, target)
    }

    /// Copies the vector on its device, without waiting.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn try_clone(&self) -> Result<Self> {
        let mut copy = self.device.zeros(self.len())?;
        copy.copy_from_vec(self)?;
        Ok(copy)
    }

    /// Overwrites all elements with `source`. Waits for the copy.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::Driver`]; [`Error::InvalidOption`] while a graph is recorded.
    pub fn copy_from(&mut self, source: &[T]) -> Result<()> {
        check_length("the source", self.len(), source.len())?;
        self.buffer.overwrite(&self.device, 0, source)
    }

    /// Keeps the first `len` elements, no more than there are. The memory stays as large as it is.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.buffer {
            Buffer::Host(values) => values.truncate(len),
            Buffer::Shared(_) => unreachable!("nothing changes a shared array"),
            #[cfg(feature = "cuda")]
            Buffer::Cuda(buffer) => buffer.len = buffer.len.min(len),
        }
    }

    /// A vector that nothing writes before it [owns](Self::own) its elements: copied to the memory of a GPU, otherwise shared.
    pub(crate) fn share(device: &Device, values: &Arc<Vec<T>>) -> Result<Self> {
        Ok(Self { device: device.clone(), buffer: Buffer::share(device, values)? })
    }

    /// Copies elements that are shared.
    pub(crate) fn own(&mut self) -> Result<()> {
        if let Buffer::Shared(values) = &self.buffer {
            let mut copy = memory::room(values.len()).map_err(|error| of_device(&self.device, error))?;
            copy.extend_from_slice(values);
            self.buffer = Buffer::Host(copy);
        }
        Ok(())
    }

    pub(crate) fn buffer(&self) -> &Buffer<T> {
        &self.buffer
    }

    /// The same elements, which nothing writes any more, so that several matrices can have them.
    pub(crate) fn into_shared(self) -> Self {
        let buffer = match self.buffer {
            Buffer::Host(values) => Buffer::Shared(Arc::new(values)),
            other => other,
        };
        Self { buffer, ..self }
    }

    /// Another handle of [shared](Self::into_shared) elements.
    pub(crate) fn alias(&self) -> Self {
        Self { device: self.device.clone(), buffer: self.buffer.alias() }
    }

    pub(crate) fn into_buffer(self) -> Buffer<T> {
        self.buffer
    }

    pub(crate) fn parts_mut(&mut self) -> (&Device, &mut Buffer<T>) {
        (&self.device, &mut self.buffer)
    }
}

pub(crate) fn check_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::LengthMismatch { what, expected, found }) }
}

/// An array in device memory.
pub(crate) enum Buffer<T> {
    Host(Vec<T>),
    /// Read-only: an array of the user's matrix.
    Shared(Arc<Vec<T>>),
    #[cfg(feature = "cuda")]
    Cuda(CudaBuffer<T>),
}

/// Memory on a GPU. Its users order their accesses by streams.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(crate) struct CudaBuffer<T> {
    address: CUdeviceptr,
    len: usize,
    /// Shared with graphs whose launches access the memory.
    memory: Arc<Memory<T>>,
}

/// Memory and its owner, freed after its last use.
#[cfg(feature = "cuda")]
#[derive(Debug)]
struct Memory<T> {
    owner: Owner<T>,
    /// Whether another library borrows the memory and will return it.
    is_borrowed: bool,
    /// The stream in whose order the memory is freed. Comes last, because it must live until the free has been queued.
    queue: Arc<Stream>,
}

/// Who frees memory on a GPU.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(crate) enum Owner<T> {
    /// An allocation by cudarc. This crate's own hold at least one element, because the driver has no empty
    /// allocations.
    Slice(CudaSlice<T>),
    /// A value of another library.
    #[cfg_attr(not(feature = "cust"), expect(dead_code, reason = "cust has such values"))]
    Other(Box<dyn Any + Send + Sync>),
    /// The stream, which owns it as a workspace for its launches.
    Queue,
    /// Another library, from which it is borrowed.
    Borrowed,
}

/// A read-only array in device memory, whoever owns it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Array<'a, T> {
    Host(&'a [T]),
    #[cfg(feature = "cuda")]
    Cuda(&'a CudaBuffer<T>),
}

#[cfg(feature = "cuda")]
impl<T> CudaBuffer<T> {
    /// The address for a kernel's arguments.
    pub(super) fn address(&self) -> *mut T {
        self.address as *mut T
    }

    /// Returns what a graph that accesses the memory must keep alive.
    pub(super) fn kept(&self) -> Arc<dyn Send + Sync>
    where
        T: DeviceValue,
    {
        Arc::clone(&self.memory) as _
    }

    /// Returns whether another library will take the memory back, so that a graph cannot keep it.
    pub(super) fn is_borrowed(&self) -> bool {
        self.memory.is_borrowed
    }

    fn new(address: CUdeviceptr, len: usize, owner: Owner<T>, queue: &Arc<Stream>) -> Self {
        let is_borrowed = matches!(owner, Owner::Borrowed);
        Self { address, len, memory: Arc::new(Memory { owner, is_borrowed, queue: Arc::clone(queue) }) }
    }

    /// Returns the first `len` elements of an allocation on a stream of the same context.
    fn of_slice(queue: &Arc<Stream>, slice: CudaSlice<T>, len: usize) -> Self {
        // Bypasses cudarc's events: see the head of cuda.rs.
        let address = slice.device_ptr(slice.stream()).0;
        Self::new(address, len, Owner::Slice(slice), queue)
    }
}

/// Vectors in memory that this crate has not allocated.
#[cfg(feature = "cuda")]
impl<T> DeviceVec<T> {
    /// Returns `len` elements from `address` on, which `owner` frees.
    ///
    /// # Safety
    /// The elements live as long as the vector, and all other accesses to them are ordered with the stream.
    pub(crate) unsafe fn of_parts(queue: &Arc<Stream>, address: CUdeviceptr, len: usize, owner: Owner<T>) -> Self {
        let buffer = Buffer::Cuda(CudaBuffer::new(address, len, owner, queue));
        Self { device: Device::of_queue(Arc::clone(queue)), buffer }
    }

    /// Marks the memory as borrowed.
    pub(super) fn lend(&mut self) {
        if let Buffer::Cuda(CudaBuffer { memory, .. }) = &mut self.buffer
            && let Some(memory) = Arc::get_mut(memory)
        {
            memory.is_borrowed = true;
        }
    }

    /// Fails while a graph uses the memory.
    pub(crate) fn check_no_graph(&self) -> Result<()> {
        match &self.buffer {
            Buffer::Cuda(buffer) if Arc::strong_count(&buffer.memory) > 1 => {
                Err(Error::InvalidOption("a graph still uses the vector: drop that first".into()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the stream, length and owner of the vector's memory. `None` if it is not on a GPU, or a graph may access
    /// it.
    pub(crate) fn owner_mut(&mut self) -> Option<(&Arc<Stream>, usize, &mut Owner<T>)> {
        match &mut self.buffer {
            Buffer::Cuda(CudaBuffer { len, memory, .. }) => {
                let Memory { owner, queue, .. } = Arc::get_mut(memory)?;
                Some((queue, *len, owner))
            }
            _ => None,
        }
    }
}

#[cfg(feature = "cuda")]
impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        let owner = mem::replace(&mut self.owner, Owner::Borrowed);
        match owner {
            // Freed elsewhere.
            Owner::Borrowed | Owner::Queue => return,
            Owner::Slice(_) => {}
            // The owner may free the memory at once, so wait. Errors surface in the next call.
            Owner::Other(_) => drop(self.queue.wait()),
        }
        release(self.queue.queue().context(), || drop(owner));
    }
}

impl<T> Buffer<T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            Self::Shared(values) => values.len(),
            #[cfg(feature = "cuda")]
            Self::Cuda(buffer) => buffer.len,
        }
    }
}

/// The length.
impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeros(device: &Device, len: usize) -> Result<Self> {
        match device.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Ok(Self::Host(host_zeros(device, len)?)),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => {
                let slice = stream.zeros(len.max(1), byte_size::<T>(device, len.max(1))?)?;
                let buffer = CudaBuffer::of_slice(stream, slice, len);
                recording::keep_new(|| buffer.kept());
                Ok(Self::Cuda(buffer))
            }
        }
    }

    /// As [`zeros`](Self::zeros), but on a GPU the elements may be anything: somebody writes them before they are read.
    fn scratch(device: &Device, len: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        if let Backend::Cuda(stream) = device.backend()
            && recording::recorder(stream)?.is_none()
        {
            let bytes = byte_size::<T>(device, len.max(1))?;
            // SAFETY: as the caller promises, nothing reads an element before it is written.
            let slice = unsafe { stream.queue().alloc(len.max(1)) };
            let slice = slice.map_err(|error| stream.allocation_error(error, bytes))?;
            return Ok(Self::Cuda(CudaBuffer::of_slice(stream, slice, len)));
        }
        let mut buffer = Self::zeros(device, len)?;
        if let (Backend::Emulated { .. }, Self::Host(elements)) = (device.backend(), &mut buffer) {
            fill_with_garbage(elements);
        }
        Ok(buffer)
    }

    pub(crate) fn upload(device: &Device, values: &[T]) -> Result<Self> {
        recording::refuse("an upload")?;
        match device.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => {
                let mut copy = memory::room(values.len()).map_err(|error| of_device(device, error))?;
                copy.extend_from_slice(values);
                Ok(Self::Host(copy))
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => {
                let mut buffer = Self::scratch(device, values.len())?;
                buffer.overwrite(device, 0, values)?;
                Ok(buffer)
            }
        }
    }

    /// Copies the array to a GPU's memory, or shares it on other devices.
    pub(crate) fn share(device: &Device, values: &Arc<Vec<T>>) -> Result<Self> {
        match device.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Ok(Self::Shared(Arc::clone(values))),
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => Self::upload(device, values),
        }
    }

    /// Another handle of [shared](DeviceVec::into_shared) elements.
    pub(crate) fn alias(&self) -> Self {
        match self {
            Self::Host(_) => unreachable!("elements that are not shared have one owner"),
            Self::Shared(values) => Self::Shared(Arc::clone(values)),
            #[cfg(feature = "cuda")]
            Self::Cuda(CudaBuffer { address, len, memory }) => {
                Self::Cuda(CudaBuffer { address: *address, len: *len, memory: Arc::clone(memory) })
            }
        }
    }

    /// Whether both are handles of the same memory.
    pub(crate) fn is_alias_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shared(own), Self::Shared(other)) => Arc::ptr_eq(own, other),
            #[cfg(feature = "cuda")]
            (Self::Cuda(own), Self::Cuda(other)) => Arc::ptr_eq(&own.memory, &other.memory),
            _ => false,
        }
    }

    /// Returns the elements if they are in host memory.
    pub(crate) fn as_host(&self) -> Option<&[T]> {
        match self {
            Self::Host(values) => Some(values),
            Self::Shared(values) => Some(values),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => None,
        }
    }

    pub(crate) fn as_host_mut(&mut self) -> Option<&mut [T]> {
        match self {
            Self::Host(values) => Some(values),
            Self::Shared(_) => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => None,
        }
    }

    /// Returns the elements of an array on the CPU device.
    ///
    /// # Panics
    /// If the array is on a GPU.
    pub(crate) fn on_cpu(&self) -> &[T] {
        self.as_host().expect(IN_HOST_MEMORY)
    }

    /// Returns the elements of an array on the CPU device, to write them.
    ///
    /// # Panics
    /// If the array is on a GPU, or shared.
    pub(crate) fn on_cpu_mut(&mut self) -> &mut [T] {
        self.as_host_mut().expect(IN_HOST_MEMORY)
    }

    /// Returns a read-only view of the array.
    pub(crate) fn array(&self) -> Array<'_, T> {
        match self {
            Self::Host(values) => Array::Host(values),
            Self::Shared(values) => Array::Host(values),
            #[cfg(feature = "cuda")]
            Self::Cuda(buffer) => Array::Cuda(buffer),
        }
    }

    /// Copies the elements to the host, after all earlier operations have finished.
    pub(crate) fn to_vec(&self, device: &Device) -> Result<Vec<T>> {
        let mut values = host_zeros(device, self.len())?;
        self.download(device, 0, &mut values)?;
        Ok(values)
    }

    /// Copies elements from index `first` on, after all earlier operations have finished.
    pub(crate) fn download(&self, device: &Device, first: usize, target: &mut [T]) -> Result<()> {
        recording::refuse("a copy to the host")?;
        let range = first..first + target.len();
        match (self, device.backend()) {
            (Self::Host(values), _) => target.copy_from_slice(&values[range]),
            (Self::Shared(values), _) => target.copy_from_slice(&values[range]),
            #[cfg(feature = "cuda")]
            (Self::Cuda(buffer), Backend::Cuda(stream)) if !range.is_empty() => {
                let source = buffer.address + (first * size_of::<T>()) as CUdeviceptr;
                // SAFETY: the elements exist, and are touched in the order of this stream alone.
                unsafe { stream.copy_out(source, target) }?;
            }
            #[cfg(feature = "cuda")]
            _ => {}
        }
        Ok(())
    }

    /// Overwrites elements from index `first` on. Waits for the copy.
    pub(crate) fn overwrite(&mut self, device: &Device, first: usize, source: &[T]) -> Result<()> {
        recording::refuse("a copy from the host")?;
        match (self, device.backend()) {
            (Self::Host(values), _) => values[first..first + source.len()].copy_from_slice(source),
            (Self::Shared(_), _) => unreachable!("nothing writes a shared array"),
            #[cfg(feature = "cuda")]
            (Self::Cuda(buffer), Backend::Cuda(stream)) if !source.is_empty() => {
                assert!(source.len() <= buffer.len - first);
                let target = buffer.address + (first * size_of::<T>()) as CUdeviceptr;
                // SAFETY: the elements exist, and are touched in the order of this stream alone.
                unsafe { stream.copy_in(target, source) }?;
            }
            #[cfg(feature = "cuda")]
            _ => {}
        }
        Ok(())
    }
}

impl<T: Element> DeviceVec<T> {
    /// Overwrites all elements with those of a vector of the same length on the same device. A copy by the driver,
    /// without a kernel; queued on this vector's stream, without waiting.
    pub(crate) fn copy_from_vec(&mut self, source: &Self) -> Result<()> {
        match (&mut self.buffer, &source.buffer, self.device.backend(), source.device.backend()) {
            #[cfg(feature = "cuda")]
            (Buffer::Cuda(own), Buffer::Cuda(source), Backend::Cuda(stream), Backend::Cuda(foreign)) if own.len > 0 => {
                let foreign: &[&Stream] = if stream.is(foreign) { &[] } else { &[foreign] };
                assert_eq!(source.len, own.len);
                if recording::recorder(stream)?.is_some() {
                    let is_borrowed = (own.is_borrowed() || source.is_borrowed()) && recording::refuses_borrowed();
                    if is_borrowed || !foreign.is_empty() {
                        let problem = "a copy of memory that is borrowed, or on another queue, cannot be recorded";
                        return Err(Error::InvalidOption(problem.into()));
                    }
                }
                recording::keep(|| own.kept());
                recording::keep(|| source.kept());
                stream.with_joined(foreign, || {
                    // SAFETY: as many elements, in the order of both streams.
                    unsafe { stream.copy_within(own.address, source.address, own.len * size_of::<T>()) }
                })
            }
            (own, source, ..) => {
                if let (Some(own), Some(source)) = (own.as_host_mut(), source.as_host()) {
                    own.copy_from_slice(source);
                }
                Ok(())
            }
        }
    }
}

const IN_HOST_MEMORY: &str = "all that the CPU device holds is in host memory";

/// Allocates zeros in the host memory that a device uses as its own.
pub(super) fn host_zeros<T: Element>(device: &Device, len: usize) -> Result<Vec<T>> {
    memory::zeros(len).map_err(|error| of_device(device, error))
}

/// What a GPU may find in memory that nobody has written, so that the emulator notices who reads it.
fn fill_with_garbage<T: Element>(elements: &mut [T]) {
    // SAFETY: elements are numbers, and any bits are one.
    unsafe { elements.as_mut_ptr().cast::<u8>().write_bytes(0xa5, size_of_val(elements)) }
}

/// Names the device that is out of memory.
fn of_device(device: &Device, error: Error) -> Error {
    match error {
        Error::OutOfMemory { requested, available, .. } => {
            Error::OutOfMemory { device: device.to_string(), requested, available }
        }
        other => other,
    }
}

/// Returns the size of `len` elements in bytes; a size beyond the address space is out of memory at once.
#[cfg(feature = "cuda")]
pub(super) fn byte_size<T>(device: &Device, len: usize) -> Result<usize> {
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    bytes.ok_or_else(|| out_of_memory(device, usize::MAX))
}

#[cfg(feature = "cuda")]
fn out_of_memory(device: &Device, bytes: usize) -> Error {
    Error::OutOfMemory { device: device.to_string(), requested: bytes as u64, available: None }
}

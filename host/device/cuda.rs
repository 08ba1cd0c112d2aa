//! CUDA devices: contexts, streams, modules loaded on first use, launches, and the driver's errors.
//!
//! Streams alone order everything. cudarc's own event tracking is off: it would cost events on every launch and could
//! not be captured in a graph. Instead, a [`Stream`] joins the streams of foreign arguments before a launch, and makes
//! them join it afterwards (see [`Stream::with_joined`]).
//!
//! A caller's stream comes with the caller's context object, which may have tracking on. Kernels are launched without
//! it there too; memory borrowed from a caller waits for its events once, and records them when it is returned (see
//! interop/cudarc.rs).
//!
//! If a destructor fails, cudarc stores the error in its context object, and its next call there returns that error
//! instead of doing its work. Steps that must follow queued work (waiting for a copy, ordering another stream, ending a
//! capture) therefore call the driver directly.

use std::{
    any::Any,
    collections::HashMap,
    env,
    ffi::c_void,
    fmt,
    hash::{Hash, Hasher},
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use cudarc::{
    driver::{
        CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError,
        ValidAsZeroBits, result,
        sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute, CUresult},
    },
    nvrtc::Ptx,
};

use super::{
    info::{CudaInfo, DeviceInfo},
    launch::Shape,
    recording::{self, Borrowed, Kept},
    workspace::Workspaces,
};
use crate::{
    Error, Result,
    ptx::{self, EmbeddedModule},
};

/// The oldest CUDA version whose driver has every function that the bindings use.
const OLDEST_DRIVER: (u32, u32) = (12, 0);

/// One GPU: its context and the kernels loaded so far, shared by all its streams.
struct Gpu {
    context: Arc<CudaContext>,
    capability: (u32, u32),
    multiprocessors: u32,
    shared_bytes: u32,
    /// Whether PTX is compiled even where there is machine code.
    compile_all: bool,
    /// Users' modules, and this crate's own as machine code. For PTX, each entry point is a separate module.
    modules: Mutex<HashMap<ModuleSource, Arc<CudaModule>>>,
    functions: Mutex<HashMap<(ModuleSource, &'static str), CudaFunction>>,
    /// The workspaces of each stream, by its handle: all who borrow a caller's stream share them.
    workspaces: Mutex<HashMap<usize, Weak<Workspaces>>>,
    /// Empty slices are freed here, if ever: through a separate object of the context, because cudarc stores the
    /// resulting error there for the next call.
    of_nothing: Arc<CudaStream>,
}

/// A stream of operations on a GPU.
#[derive(Clone)]
pub(crate) struct Stream {
    /// Shared by all streams with the same handle. First, so that they are freed before the stream.
    workspaces: Arc<Workspaces>,
    queue: Arc<CudaStream>,
    /// Destroys a stream that another library created.
    _owner: Option<Arc<dyn Any + Send + Sync>>,
    /// Last, so that the context outlives the stream.
    gpu: Arc<Gpu>,
}

/// Returns the number of devices that the driver shows.
pub(super) fn device_count() -> Result<usize> {
    require_driver("CUDA device")?;
    visible_devices()
}

fn visible_devices() -> Result<usize> {
    let count = CudaContext::device_count().map_err(driver("counting the devices"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Fails unless a driver is installed, starts, and is new enough.
fn require_driver(wanted: &str) -> Result<()> {
    let no_device = |reason: &str| Error::NoDevice { wanted: wanted.into(), reason: reason.into() };
    // SAFETY: opens the driver's library, whose initialisers are the vendor's, as any CUDA program does. Asked first,
    // because the bindings panic where the library is missing.
    if !unsafe { sys::is_culib_present() } {
        return Err(no_device("no NVIDIA driver is installed (libcuda was not found)"));
    }
    let version = driver_version()?;
    if version < OLDEST_DRIVER {
        let needs = format!("warpsparse needs CUDA {}.{}", OLDEST_DRIVER.0, OLDEST_DRIVER.1);
        return Err(Error::DriverTooOld { driver: version, needs });
    }
    result::init().map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => no_device("the NVIDIA driver finds no GPU"),
        _ => no_device(&format!("the NVIDIA driver does not start: {}", message(error))),
    })
}

/// Returns the CUDA version that the driver supports.
fn driver_version() -> Result<(u32, u32)> {
    let mut version = 0;
    // SAFETY: writes the one integer; allowed before initialisation.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(driver("reading the driver's version"))?;
    Ok(((version / 1000) as u32, (version % 1000 / 10) as u32))
}

impl Gpu {
    /// Returns the GPU with this device number.
    fn of_device(index: usize) -> Result<Arc<Self>> {
        static GPUS: OnceLock<Mutex<HashMap<usize, Weak<Gpu>>>> = OnceLock::new();
        let mut gpus = GPUS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = gpus.get(&index).and_then(Weak::upgrade) {
            return Ok(gpu);
        }
        let gpu = Arc::new(Self::new(index)?);
        gpus.insert(index, Arc::downgrade(&gpu));
        Ok(gpu)
    }

    /// Returns the GPU whose primary context is `context`; fails for other contexts.
    fn of_context(index: usize, context: sys::CUcontext) -> Result<Arc<Self>> {
        let current = result::ctx::get_current().map_err(driver("reading the current context"))?;
        let gpu = Self::of_device(index)?;
        if gpu.context.cu_ctx() == context {
            return Ok(gpu);
        }
        // The caller continues in its own context.
        // SAFETY: it was current before.
        unsafe { result::ctx::set_current(current.unwrap_or(std::ptr::null_mut())) }
            .map_err(driver("going back to the context before"))?;
        Err(gpu.other_context("the stream"))
    }

    fn other_context(&self, what: &'static str) -> Error {
        let device = format!("cuda:{}", self.context.ordinal());
        let expected = format!("the primary context of {device}");
        Error::DeviceMismatch { what, expected, found: format!("another context of {device}") }
    }

    fn new(index: usize) -> Result<Self> {
        let wanted = format!("CUDA device {index}");
        require_driver(&wanted)?;
        let count = visible_devices()?;
        if index >= count {
            return Err(Error::NoDevice { wanted, reason: format!("the driver shows {count}, counted from 0") });
        }
        let context = CudaContext::new(index).map_err(driver("creating a context"))?;
        // SAFETY: streams are ordered here, as the head of this file says, and memory is freed in the order of the
        // stream that it belongs to.
        unsafe { context.disable_event_tracking() };
        let (major, minor) = context.compute_capability().map_err(driver("reading the compute capability"))?;
        let multiprocessors = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        let multiprocessors = multiprocessors.map_err(driver("counting the multiprocessors"))? as u32;
        let shared = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared_bytes = context.attribute(shared).map_err(driver("reading the shared memory's size"))? as u32;
        keep_memory(&context)?;
        let apart = CudaContext::new(index).map_err(driver("creating a context"))?;
        // SAFETY: nothing is ever queued there.
        unsafe { apart.disable_event_tracking() };
        Ok(Self {
            of_nothing: apart.default_stream(),
            context,
            capability: (major as u32, minor as u32),
            multiprocessors,
            shared_bytes,
            compile_all: env::var_os("WARPSPARSE_PTX").is_some_and(|value| value == "1"),
            modules: Mutex::default(),
            functions: Mutex::default(),
            workspaces: Mutex::default(),
        })
    }

    fn workspaces_of(&self, queue: &CudaStream) -> Arc<Workspaces> {
        let mut known = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = queue.cu_stream() as usize;
        if let Some(workspaces) = known.get(&handle).and_then(Weak::upgrade) {
            return workspaces;
        }
        known.retain(|_, workspaces| workspaces.strong_count() > 0);
        let workspaces = Arc::default();
        known.insert(handle, Arc::downgrade(&workspaces));
        workspaces
    }
}

/// Lets the GPU's memory pool, from which streams allocate, keep what is freed. Otherwise every wait gives it back to the system, and results of
/// operations, which are allocated by each call, cost milliseconds. A program that has set a threshold keeps it.
fn keep_memory(context: &CudaContext) -> Result<()> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let keep = || {
        let (mut pool, mut threshold) = (std::ptr::null_mut(), 0u64);
        // SAFETY: the context is live; the pool is the device's own, and its threshold is a 64-bit number.
        unsafe {
            sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()).result()?;
            sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut threshold).cast()).result()?;
            if threshold == 0 {
                threshold = u64::MAX;
                sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()).result()?;
            }
        }
        Ok(())
    };
    inside(context.cu_ctx(), keep).map_err(driver("setting up the memory pool"))
}

/// Calls the driver in this context, which is live. The thread's current context stays the same.
fn inside<R>(
    context: sys::CUcontext,
    ask: impl FnOnce() -> std::result::Result<R, DriverError>,
) -> std::result::Result<R, DriverError> {
    // SAFETY: the context is live.
    unsafe { sys::cuCtxPushCurrent_v2(context) }.result()?;
    let answer = ask();
    let mut popped = std::ptr::null_mut();
    // SAFETY: it has just been pushed.
    unsafe { sys::cuCtxPopCurrent_v2(&mut popped) }.result()?;
    answer
}

/// Runs `work`, which calls cudarc, in this context, because the null stream belongs to the current one. Errors that
/// cudarc has stored are set aside meanwhile, because they would make it skip half of the work; errors that it stores
/// now are returned.
pub(crate) fn apart_from_errors<R>(
    context: &CudaContext,
    work: impl FnOnce() -> R,
) -> std::result::Result<R, DriverError> {
    let kept = context.check_err();
    let done = inside(context.cu_ctx(), || Ok(work()));
    let done = done.and_then(|done| context.check_err().map(|()| done));
    context.record_err(kept);
    done
}

/// Does the same in a destructor: cudarc stores the error for the next call.
pub(crate) fn release(context: &CudaContext, work: impl FnOnce()) {
    context.record_err(apart_from_errors(context, work));
}

/// The number of a context's device.
fn device_of(context: sys::CUcontext) -> std::result::Result<usize, DriverError> {
    let mut device = 0;
    // SAFETY: writes the one integer.
    inside(context, || unsafe { sys::cuCtxGetDevice(&mut device) }.result())?;
    let count = result::device::get_count()?;
    let index = (0..count).find(|&index| result::device::get(index) == Ok(device));
    Ok(index.ok_or(DriverError(CUresult::CUDA_ERROR_INVALID_DEVICE))? as usize)
}

/// Rejects the handle that means a different stream in each thread: work of two threads would not be ordered.
fn refuse_per_thread(stream: sys::CUstream) -> Result<()> {
    if stream as usize == 2 {
        return Err(Error::InvalidOption("a device of the per-thread default stream: take a stream of its own".into()));
    }
    Ok(())
}

impl Stream {
    fn new(gpu: Arc<Gpu>, queue: Arc<CudaStream>, owner: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        Self { workspaces: gpu.workspaces_of(&queue), queue, _owner: owner, gpu }
    }

    /// Returns the default stream of a device.
    pub(super) fn of_device(index: usize) -> Result<Arc<Self>> {
        static DEFAULT: OnceLock<Mutex<HashMap<usize, Weak<Stream>>>> = OnceLock::new();
        let mut streams = DEFAULT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&index).and_then(Weak::upgrade) {
            return Ok(stream);
        }
        let gpu = Gpu::of_device(index)?;
        let queue = gpu.context.new_stream().map_err(driver("creating a stream"))?;
        let stream = Arc::new(Self::new(gpu, queue, None));
        streams.insert(index, Arc::downgrade(&stream));
        Ok(stream)
    }

    /// Creates a stream on a caller's stream.
    pub(crate) fn of_cudarc(queue: Arc<CudaStream>) -> Result<Arc<Self>> {
        refuse_per_thread(queue.cu_stream())?;
        let gpu = Gpu::of_context(queue.context().ordinal(), queue.context().cu_ctx())?;
        Ok(Arc::new(Self::new(gpu, queue, None)))
    }

    /// A stream that another library made; `owner` destroys it when dropped.
    ///
    /// # Safety
    /// `handle` is a stream, and stays one until `owner` is dropped, or for ever where there is none.
    pub(crate) unsafe fn of_raw(handle: *mut c_void, owner: Option<Arc<dyn Any + Send + Sync>>) -> Result<Arc<Self>> {
        require_driver("CUDA stream")?;
        let handle = handle.cast();
        refuse_per_thread(handle)?;
        let failed = || driver("finding a stream's context");
        let mut context = std::ptr::null_mut();
        // SAFETY: the handle is a stream; the null stream is that of the current context.
        unsafe { sys::cuStreamGetCtx(handle, &mut context) }.result().map_err(failed())?;
        let gpu = Gpu::of_context(device_of(context).map_err(failed())?, context)?;
        // SAFETY: a stream of this context, which the owner keeps alive as long as this. What is queued here is in one
        // order with what the owner queues.
        let queue = unsafe { gpu.context.wrap_borrowed_stream(handle) };
        Ok(Arc::new(Self::new(gpu, queue, owner)))
    }

    /// Another stream on the same GPU.
    pub(super) fn sibling(&self) -> Result<Arc<Self>> {
        let queue = self.gpu.context.new_stream().map_err(driver("creating a stream"))?;
        Ok(Arc::new(Self::new(Arc::clone(&self.gpu), queue, None)))
    }

    pub(super) fn device_index(&self) -> usize {
        self.gpu.context.ordinal()
    }

    /// Returns whether the two are the same stream.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.queue == other.queue
    }

    pub(super) fn same_device(&self, other: &Self) -> bool {
        self.device_index() == other.device_index()
    }

    /// Waits for the stream, then reports errors that cudarc has stored in this crate's own context, such as a failure
    /// to free.
    pub(super) fn synchronize(&self) -> Result<()> {
        self.wait()?;
        self.gpu.context.check_err().map_err(driver("freeing memory or another object"))
    }

    /// Gives memory that the pool of the GPU keeps, and nobody uses, back to the system.
    pub(super) fn trim_memory(&self) -> Result<()> {
        self.wait()?;
        if !self.gpu.context.has_async_alloc() {
            return Ok(());
        }
        let trim = || {
            let mut pool = std::ptr::null_mut();
            // SAFETY: the pool is the device's own.
            unsafe {
                sys::cuDeviceGetDefaultMemPool(&mut pool, self.gpu.context.cu_device()).result()?;
                sys::cuMemPoolTrimTo(pool, 0).result()
            }
        };
        self.inside(trim).map_err(driver("trimming the memory pool"))
    }

    /// Waits until everything queued here has finished, whatever errors cudarc has stored.
    pub(crate) fn wait(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream is live.
        unsafe { result::stream::synchronize(self.queue.cu_stream()) }.map_err(driver("waiting for the queue"))
    }

    /// Returns whether the host can access memory at this address too.
    pub(crate) fn is_managed(&self, address: sys::CUdeviceptr) -> Result<bool> {
        if address == 0 {
            return Ok(false);
        }
        let mut managed = 0u32;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED;
        // SAFETY: the attribute is a truth value, which the driver writes as an integer or as one byte of it.
        let ask = || unsafe { sys::cuPointerGetAttribute((&raw mut managed).cast(), attribute, address) }.result();
        self.inside(ask).map_err(driver("asking for the kind of memory"))?;
        Ok(managed != 0)
    }

    pub(crate) fn queue(&self) -> &Arc<CudaStream> {
        &self.queue
    }

    pub(super) fn workspaces(&self) -> &Workspaces {
        &self.workspaces
    }

    /// Returns whether the stream belongs to a caller's context object, with event tracking as the caller has set it.
    pub(crate) fn is_of_callers_context(&self) -> bool {
        !Arc::ptr_eq(self.queue.context(), &self.gpu.context)
    }

    /// Returns the stream of empty slices.
    pub(crate) fn of_nothing(&self) -> &Arc<CudaStream> {
        &self.gpu.of_nothing
    }

    /// Fails unless memory at this address belongs to this context, or to the GPU, like memory of pools. Address 0
    /// stands for no memory.
    pub(crate) fn check_memory(&self, address: sys::CUdeviceptr) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        let (mut context, mut device): (sys::CUcontext, i32) = (std::ptr::null_mut(), -1);
        let (of_context, of_device) = (
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        );
        // SAFETY: the attributes are a context and an integer.
        let ask = || unsafe {
            sys::cuPointerGetAttribute((&raw mut device).cast(), of_device, address).result()?;
            match sys::cuPointerGetAttribute((&raw mut context).cast(), of_context, address) {
                CUresult::CUDA_ERROR_INVALID_VALUE => Ok(()), // of no context
                answer => answer.result(),
            }
        };
        self.inside(ask).map_err(driver("finding the context of memory"))?;
        if device != self.device_index() as i32 {
            let (expected, found) = (format!("cuda:{}", self.device_index()), format!("cuda:{device}"));
            return Err(Error::DeviceMismatch { what: "the memory", expected, found });
        }
        if context.is_null() || context == self.gpu.context.cu_ctx() {
            return Ok(());
        }
        Err(self.gpu.other_context("the memory"))
    }

    /// Returns whether the stream is ordered with the default stream, which runs copies without an explicit stream.
    #[cfg(feature = "cust")]
    pub(crate) fn follows_default_stream(&self) -> Result<bool> {
        let mut flags = 0;
        // SAFETY: the stream is live.
        let ask = || unsafe { sys::cuStreamGetFlags(self.queue.cu_stream(), &mut flags) }.result();
        self.inside(ask).map_err(driver("reading a stream's flags"))?;
        Ok(flags & sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32 == 0)
    }

    /// Copies to memory at `address`, in the order of the stream. Waits until the copy is done.
    ///
    /// # Safety
    /// There is memory for `source`, which nothing touches but in the order of this stream.
    pub(super) unsafe fn copy_in<T>(&self, address: sys::CUdeviceptr, source: &[T]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { result::memcpy_htod_async(address, source, self.queue.cu_stream()) }
            .map_err(driver("copying to the device"))?;
        self.wait()
    }

    /// Copies from memory at `address`, in the order of the stream. Waits until the copy is done.
    ///
    /// # Safety
    /// As of [`copy_in`](Self::copy_in). The memory holds values of `T`.
    pub(super) unsafe fn copy_out<T>(&self, address: sys::CUdeviceptr, target: &mut [T]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { result::memcpy_dtoh_async(target, address, self.queue.cu_stream()) }
            .map_err(driver("copying from the device"))?;
        self.wait()
    }

    /// Queues or records a copy of `bytes` bytes within the device.
    ///
    /// # Safety
    /// As of [`copy_in`](Self::copy_in), of both addresses.
    pub(super) unsafe fn copy_within(&self, to: sys::CUdeviceptr, from: sys::CUdeviceptr, bytes: usize) -> Result<()> {
        let recorder = recording::recorder(self)?;
        let stream = recorder.as_deref().unwrap_or(self).queue.cu_stream();
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { result::memcpy_dtod_async(to, from, bytes, stream) }.map_err(driver("copying on the device"))
    }

    /// Allocates `len` zeros of this many bytes. While a graph is recorded, the memory is allocated at once, and
    /// cleared in every launch of the graph.
    pub(super) fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize, bytes: usize) -> Result<CudaSlice<T>> {
        let Some(recorder) = recording::recorder(self)? else {
            return self.queue.alloc_zeros(len).map_err(|error| self.allocation_error(error, bytes));
        };
        let zeros = self.allocate_zeros_apart(len, bytes)?;
        let address = zeros.device_ptr(zeros.stream()).0;
        self.enter()?;
        // SAFETY: so many bytes, which are not freed before the graph is, as the caller sees to.
        unsafe { result::memset_d8_async(address, 0, bytes, recorder.queue.cu_stream()) }
            .map_err(driver("clearing memory"))?;
        Ok(zeros)
    }

    /// Makes the context current in this thread.
    pub(super) fn enter(&self) -> Result<()> {
        let context = self.gpu.context.cu_ctx();
        let entered = result::ctx::get_current().and_then(|current| match current == Some(context) {
            true => Ok(()),
            // SAFETY: the context is live.
            false => unsafe { result::ctx::set_current(context) },
        });
        entered.map_err(driver("entering the context"))
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.gpu.context
    }

    pub(super) fn info(&self) -> Result<DeviceInfo> {
        let context = &self.gpu.context;
        let attribute = |attribute| context.attribute(attribute).map_err(driver("reading an attribute"));
        // Any family tells: all are built for the same architectures.
        let kernel_arch =
            kernels_gpu::FAMILIES.first().and_then(|family| ptx::best_for(family.name, self.gpu.capability));
        Ok(DeviceInfo {
            name: context.name().map_err(driver("reading the device's name"))?,
            parallel_units: self.gpu.multiprocessors as usize,
            memory_bytes: Some(context.total_mem().map_err(driver("reading the memory size"))? as u64),
            l2_bytes: Some(attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64),
            cuda: Some(CudaInfo {
                compute_capability: self.gpu.capability,
                driver_cuda: driver_version()?,
                kernel_arch: kernel_arch.map_or(0, |module| module.arch),
            }),
        })
    }

    pub(super) fn compute_capability(&self) -> (u32, u32) {
        self.gpu.capability
    }

    pub(super) fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors
    }

    /// Returns the maximum shared memory per block.
    pub(super) fn shared_bytes(&self) -> u32 {
        self.gpu.shared_bytes
    }

    /// Returns the error of an allocation of `bytes`, with the sizes if memory is short.
    pub(super) fn allocation_error(&self, error: DriverError, bytes: usize) -> Error {
        if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return driver("allocating memory")(error);
        }
        let available = self.gpu.context.mem_get_info().ok();
        Error::OutOfMemory {
            device: format!("cuda:{}", self.device_index()),
            requested: bytes as u64,
            available: available.map(|(free, total)| (free as u64, total as u64)),
        }
    }

    /// Allocates `len` zeros of this many bytes, which are freed in the order of this stream. They are allocated on a
    /// separate stream, because this one may be captured.
    pub(super) fn allocate_zeros_apart<T: DeviceRepr + ValidAsZeroBits>(
        &self,
        len: usize,
        bytes: usize,
    ) -> Result<CudaSlice<T>> {
        let _relaxed = Relaxed::enter()?;
        let apart = self.gpu.context.new_stream().map_err(driver("creating a stream"))?;
        let zeros = apart.alloc_zeros::<T>(len).map_err(|error| self.allocation_error(error, bytes))?;
        apart.synchronize().map_err(driver("clearing memory"))?;
        // SAFETY: a stream of this context. By way of this crate's own context object, where no events are recorded: the
        // caller's might record some in a capture. An allocation of so many elements, which nobody else has.
        unsafe {
            let queue = self.gpu.context.wrap_borrowed_stream(self.queue.cu_stream());
            Ok(queue.upgrade_device_ptr(zeros.leak(), len))
        }
    }

    /// Runs `queue_work`, which queues work here that accesses data of the queues `others`: after everything queued
    /// there now, and before everything queued there later.
    pub(super) fn with_joined(&self, others: &[&Stream], queue_work: impl FnOnce() -> Result<()>) -> Result<()> {
        let failed = || driver("ordering two queues");
        others.iter().try_for_each(|other| self.join(other)).map_err(failed())?;
        let queued = queue_work();
        let joined = others.iter().try_for_each(|other| other.join(self));
        if joined.is_err() {
            // Wait for what cannot be ordered.
            self.wait()?;
        }
        queued.and(joined.map_err(failed()))
    }

    /// Calls the driver in this stream's context. The thread's current context stays the same.
    pub(super) fn inside<R>(
        &self,
        ask: impl FnOnce() -> std::result::Result<R, DriverError>,
    ) -> std::result::Result<R, DriverError> {
        inside(self.gpu.context.cu_ctx(), ask)
    }

    /// Makes work queued here later wait for everything queued on `other` now.
    fn join(&self, other: &Stream) -> std::result::Result<(), DriverError> {
        self.inside(|| {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            let wait = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // SAFETY: both streams and the event are live and of one context. The driver keeps an event as long as a
            // queue waits for it.
            unsafe {
                let joined = result::event::record(event, other.queue.cu_stream())
                    .and_then(|()| result::stream::wait_event(self.queue.cu_stream(), event, wait));
                let destroyed = result::event::destroy(event);
                joined.and(destroyed)
            }
        })
    }

    /// Queues a launch, in one dimension.
    ///
    /// # Safety
    /// `args` points to the struct that the kernel takes, and the kernel's own rules hold for it. The memory that its pointers
    /// point to stays allocated until the launch has run, which freeing it in the order of this stream ensures.
    pub(super) unsafe fn launch(
        &self,
        module: ModuleSource,
        entry: &'static str,
        shape: Shape,
        args: *const (),
    ) -> Result<()> {
        let function = self.function(module, entry, shape.dynamic_shared_bytes)?;
        self.enter()?;
        let mut parameters = [args.cast::<c_void>().cast_mut()];
        let launch = if shape.cooperative { result::launch_cooperative_kernel } else { result::launch_kernel };
        // SAFETY: the parameter is the one struct that the entry takes; the rest is the caller's promise.
        unsafe {
            launch(
                function.cu_function(),
                (shape.blocks, 1, 1),
                (shape.block_size, 1, 1),
                shape.dynamic_shared_bytes,
                self.queue.cu_stream(),
                &mut parameters,
            )
        }
        .map_err(|error| driver(entry)(error))
    }

    /// Returns the entry point, loaded at its first use, for launches with this much dynamic shared memory, always the
    /// same.
    fn function(&self, module: ModuleSource, entry: &'static str, dynamic_shared_bytes: u32) -> Result<CudaFunction> {
        let functions = || self.gpu.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = functions().get(&(module, entry)).cloned();
        if let Some(function) = known {
            return Ok(function);
        }
        self.enter()?;
        let _relaxed = Relaxed::enter()?;
        // The lock is free meanwhile: compiling a module takes long, and others may launch.
        let loaded = match module {
            ModuleSource::Text(text) => self.module(module, || self.compile(module, text.to_owned()))?,
            ModuleSource::Family(family) => self.family(module, family, entry)?,
        };
        let function = loaded.load_function(entry).map_err(driver(entry))?;
        if dynamic_shared_bytes > 0 {
            // More than 48 KiB must be asked for.
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, dynamic_shared_bytes as i32).map_err(driver(entry))?;
        }
        // Where another thread has done the same meanwhile, its function stays: launches of it may be under way, and graphs
        // may hold it. Nothing has launched this one yet; a module of its own is unloaded again.
        Ok(functions().entry((module, entry)).or_insert(function).clone())
    }

    /// The module of one of this crate's families: all of it as machine code, or the entry point alone, compiled now.
    fn family(&self, source: ModuleSource, family: &'static str, entry: &str) -> Result<Arc<CudaModule>> {
        let embedded = self.embedded(family)?;
        let code = embedded.machine_code(self.gpu.capability.0).filter(|_| !self.gpu.compile_all);
        if let Some(code) = code {
            let load = || self.gpu.context.load_module(Ptx::from_binary(code())).map_err(driver(family));
            // A driver older than the assembler does not load it.
            if let Ok(module) = self.module(source, load) {
                return Ok(module);
            }
        }
        self.compile(source, ptx::only(&embedded.text(), entry))
    }

    /// The module of this source, loaded if this is the first use.
    fn module(&self, source: ModuleSource, load: impl FnOnce() -> Result<Arc<CudaModule>>) -> Result<Arc<CudaModule>> {
        let mut modules = self.gpu.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&source) {
            return Ok(Arc::clone(module));
        }
        let module = load()?;
        modules.insert(source, Arc::clone(&module));
        Ok(module)
    }

    fn compile(&self, source: ModuleSource, text: String) -> Result<Arc<CudaModule>> {
        let isa = ptx::isa(&text).to_owned();
        self.gpu.context.load_module(Ptx::from_src(text)).map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
                let needs = format!("{source} is PTX ISA {isa}");
                driver_version().map_or_else(|error| error, |driver| Error::DriverTooOld { driver, needs })
            }
            _ => driver(&format!("loading {source}"))(error),
        })
    }

    /// The one of a family's modules that suits the GPU.
    fn embedded(&self, family: &'static str) -> Result<&'static EmbeddedModule> {
        let (major, minor) = self.gpu.capability;
        ptx::best_for(family, self.gpu.capability).ok_or_else(|| Error::NoDevice {
            wanted: format!("GPU that runs {family}"),
            reason: format!(
                "cuda:{} has compute capability {major}.{minor}, older than any kernel",
                self.device_index()
            ),
        })
    }
}

/// While it lives, this thread may load modules and allocate memory although a stream is being captured: nothing of it is a
/// part of the capture.
struct Relaxed {
    before: sys::CUstreamCaptureMode,
}

impl Relaxed {
    fn enter() -> Result<Self> {
        let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        exchange_capture_mode(relaxed).map(|before| Self { before }).map_err(driver("leaving a capture"))
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // The same call has just succeeded.
        let _ = exchange_capture_mode(self.before);
    }
}

/// Sets what this thread may do while a stream is captured; the mode before.
fn exchange_capture_mode(
    mut mode: sys::CUstreamCaptureMode,
) -> std::result::Result<sys::CUstreamCaptureMode, DriverError> {
    // SAFETY: exchanges the one value.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result()?;
    Ok(mode)
}

/// Where a kernel's PTX comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum ModuleSource {
    /// A family of this crate.
    Family(&'static str),
    /// A text handed in by the user.
    Text(&'static str),
}

/// Tells texts apart by where they stand: to compare them would take longer than a launch.
impl PartialEq for ModuleSource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Family(name), Self::Family(other)) => name == other,
            (Self::Text(text), Self::Text(other)) => std::ptr::eq(*text, *other),
            _ => false,
        }
    }
}
impl Eq for ModuleSource {}
impl Hash for ModuleSource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Family(name) => name.hash(state),
            Self::Text(text) => text.as_ptr().hash(state),
        }
    }
}

impl fmt::Display for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Family(family) => f.write_str(family),
            Self::Text(_) => f.write_str("a module of the caller's own"),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream(cuda:{}, {:?})", self.device_index(), self.queue.cu_stream())
    }
}

/// Turns a driver error met while doing `what` into ours.
pub(crate) fn driver(what: &str) -> impl Fn(DriverError) -> Error {
    let call = what.to_owned();
    move |error| Error::Driver { call: call.clone(), message: message(error) }
}

fn message(error: DriverError) -> String {
    let text = |text: std::result::Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(|_| "unknown".into(), |text| text.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(error.error_string()), text(error.error_name()))
}

/// Operations recorded as a CUDA graph, and the stream that they are for.
pub(crate) struct Recording {
    graph: sys::CUgraphExec,
    queue: Arc<Stream>,
    /// What they touch, which outlives the graph.
    kept: Kept,
}

impl Recording {
    /// Queues the operations.
    pub(crate) fn launch(&self) -> Result<()> {
        let Self { graph, queue, kept } = self;
        queue.enter()?;
        kept.hold_locks(&mut || {
            let _turn = queue.workspaces().turn();
            // SAFETY: graph and queue are live and of one context. The graph has one user, for it is not `Sync`; what its
            // operations touch is kept, or lives as long by the promise of whoever recorded them.
            unsafe { result::graph::launch(*graph, queue.queue.cu_stream()) }.map_err(driver("launching a graph"))
        })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // The driver keeps a graph that is running until it has ended. Errors would be those of a driver that is shutting down.
        // SAFETY: the graph is live, and nobody has it any more.
        let _ = self.queue.inside(|| unsafe { result::graph::exec_destroy(self.graph) });
    }
}

impl Stream {
    /// Records what this thread queues here in `work`; nothing of it runs. Whatever else is queued here meanwhile stays out of it.
    pub(super) fn record(self: &Arc<Self>, borrowed: Borrowed, work: impl FnOnce() -> Result<()>) -> Result<Recording> {
        // Loading modules and allocating memory are no part of it.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.record_by(&self.sibling()?, mode, borrowed, work)
    }

    /// Records what is queued here during `work`, by whatever library; nothing of it runs.
    pub(super) fn capture(self: &Arc<Self>, work: impl FnOnce() -> Result<()>) -> Result<Recording> {
        // What this thread must not do meanwhile fails; other threads may do as they like.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.record_by(self, mode, Borrowed::Allowed, work)
    }

    fn record_by(
        self: &Arc<Self>,
        recorder: &Arc<Stream>,
        mode: sys::CUstreamCaptureMode,
        borrowed: Borrowed,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Recording> {
        let failed = || driver("recording a graph");
        self.enter()?;
        // SAFETY: the stream is live.
        unsafe { result::stream::begin_capture(recorder.queue.cu_stream(), mode) }.map_err(failed())?;
        // A stream must not stay in capture, whatever happens.
        let kept = panic::catch_unwind(AssertUnwindSafe(|| recording::record(self, recorder, borrowed, work)));
        let graph = self.inside(|| recorder.end_capture());
        let recording = |graph| Recording { graph, queue: Arc::clone(self), kept: Kept::default() };
        let recording = graph.map(|graph| graph.map(recording));
        // What a failed recording has kept goes now, that nothing is captured any more.
        let (kept, worked) = kept.unwrap_or_else(|panic| panic::resume_unwind(panic));
        worked?;
        let no_graph = || Error::Driver { call: "recording a graph".into(), message: "the driver made none".into() };
        let mut recording = recording.map_err(failed())?.ok_or_else(no_graph)?;
        recording.kept = kept;
        Ok(recording)
    }

    /// The graph that has been captured here, ready to launch.
    fn end_capture(&self) -> std::result::Result<Option<sys::CUgraphExec>, DriverError> {
        // SAFETY: the stream is live; the graph is used here alone.
        unsafe {
            let graph = result::stream::end_capture(self.queue.cu_stream())?;
            if graph.is_null() {
                return Ok(None);
            }
            let ready = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let destroyed = result::graph::destroy(graph);
            ready.and_then(|ready| destroyed.map(|()| Some(ready)))
        }
    }
}

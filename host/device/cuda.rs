//! CUDA devices: contexts, streams, modules loaded on first use, launches, and the driver's errors.
//!
//! Everything is ordered by streams alone. cudarc's own event tracking is off: it would cost events on every launch and
//! could not be captured in a graph. In its place a [`Stream`] joins the streams of foreign arguments before a launch,
//! and has them join it afterwards (see [`Stream::with_joined`]).

use std::{
    collections::HashMap,
    env,
    ffi::c_void,
    fmt,
    hash::{Hash, Hasher},
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};

use cudarc::{
    driver::{
        CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaStream, DriverError, result,
        sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute, CUresult},
    },
    nvrtc::Ptx,
};

use super::{
    info::{CudaInfo, DeviceInfo},
    launch::Shape,
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
    /// Users' modules, and this crate's own as machine code. Of PTX, each entry point of theirs is a module by itself.
    modules: Mutex<HashMap<ModuleSource, Arc<CudaModule>>>,
    functions: Mutex<HashMap<(ModuleSource, &'static str), CudaFunction>>,
}

/// A queue of operations on a GPU.
#[derive(Clone)]
pub(crate) struct Stream {
    gpu: Arc<Gpu>,
    queue: Arc<CudaStream>,
}

/// How many devices the driver shows.
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

/// The CUDA version that the driver supports.
fn driver_version() -> Result<(u32, u32)> {
    let mut version = 0;
    // SAFETY: writes the one integer; allowed before initialisation.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(driver("reading the driver's version"))?;
    Ok(((version / 1000) as u32, (version % 1000 / 10) as u32))
}

impl Stream {
    /// The one default queue of a device.
    pub(super) fn of_device(index: usize) -> Result<Arc<Self>> {
        static DEFAULT: OnceLock<Mutex<HashMap<usize, Weak<Stream>>>> = OnceLock::new();
        let mut streams = DEFAULT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&index).and_then(Weak::upgrade) {
            return Ok(stream);
        }
        let stream = Arc::new(Self::on_new_gpu(index)?);
        streams.insert(index, Arc::downgrade(&stream));
        Ok(stream)
    }

    fn on_new_gpu(index: usize) -> Result<Self> {
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
        let queue = context.new_stream().map_err(driver("creating a stream"))?;
        let gpu = Gpu {
            context,
            capability: (major as u32, minor as u32),
            multiprocessors,
            shared_bytes,
            compile_all: env::var_os("WARPSPARSE_PTX").is_some_and(|value| value == "1"),
            modules: Mutex::default(),
            functions: Mutex::default(),
        };
        Ok(Self { gpu: Arc::new(gpu), queue })
    }

    /// Another queue on the same GPU.
    pub(super) fn sibling(&self) -> Result<Arc<Self>> {
        let queue = self.gpu.context.new_stream().map_err(driver("creating a stream"))?;
        Ok(Arc::new(Self { gpu: Arc::clone(&self.gpu), queue }))
    }

    pub(super) fn device_index(&self) -> usize {
        self.gpu.context.ordinal()
    }

    /// Whether the two are one queue.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.queue == other.queue
    }

    pub(super) fn same_device(&self, other: &Self) -> bool {
        self.device_index() == other.device_index()
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        self.queue.synchronize().map_err(driver("waiting for the queue"))
    }

    pub(super) fn queue(&self) -> &Arc<CudaStream> {
        &self.queue
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

    pub(super) fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors
    }

    /// The most shared memory of a block.
    pub(super) fn shared_bytes(&self) -> u32 {
        self.gpu.shared_bytes
    }

    /// Fails if an operation queued earlier has; whether all have finished.
    pub(super) fn is_idle(&self) -> Result<bool> {
        self.gpu.context.bind_to_thread().map_err(driver("entering the context"))?;
        // SAFETY: the queue is live.
        match unsafe { sys::cuStreamQuery(self.queue.cu_stream()) }.result() {
            Ok(()) => Ok(true),
            Err(error) if error.0 == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(driver("looking at the queue")(error)),
        }
    }

    /// The error of an allocation of `bytes`, with the sizes if memory is what lacks.
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

    /// Runs `queue_work`, which queues work here that touches data of the queues `others`: after all that is queued
    /// there now, and before all that will be.
    pub(super) fn with_joined(&self, others: &[&Stream], queue_work: impl FnOnce() -> Result<()>) -> Result<()> {
        for other in others {
            self.queue.join(&other.queue).map_err(driver("ordering two queues"))?;
        }
        queue_work()?;
        for other in others {
            other.queue.join(&self.queue).map_err(driver("ordering two queues"))?;
        }
        Ok(())
    }

    /// Queues a launch, in one dimension.
    ///
    /// # Safety
    /// The kernel's own rules hold for `args`, and `Args` is the struct that it takes. The memory that `args` points to
    /// stays allocated until the launch has run, which freeing it in the order of this queue ensures.
    pub(super) unsafe fn launch<Args: Copy>(
        &self,
        module: ModuleSource,
        entry: &'static str,
        shape: Shape,
        args: &Args,
    ) -> Result<()> {
        let function = self.function(module, entry, shape.dynamic_shared_bytes)?;
        self.gpu.context.bind_to_thread().map_err(driver("entering the context"))?;
        let mut parameters = [std::ptr::from_ref(args).cast::<c_void>().cast_mut()];
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

    /// Loads the entry point's module, if this is its first use.
    pub(super) fn load(&self, module: ModuleSource, entry: &'static str, shape: Shape) -> Result<()> {
        self.function(module, entry, shape.dynamic_shared_bytes).map(drop)
    }

    /// The entry point, loaded if this is the first use, for launches with so much dynamic shared memory, always the same.
    fn function(&self, module: ModuleSource, entry: &'static str, dynamic_shared_bytes: u32) -> Result<CudaFunction> {
        let functions = || self.gpu.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = functions().get(&(module, entry)).cloned();
        if let Some(function) = known {
            return Ok(function);
        }
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
        // may hold it. Nothing has launched this one yet, whose module is unloaded again.
        Ok(functions().entry((module, entry)).or_insert(function).clone())
    }

    /// The module of one of this crate's families: all of it as machine code, or the entry point alone, compiled now.
    fn family(&self, source: ModuleSource, family: &'static str, entry: &str) -> Result<Arc<CudaModule>> {
        let embedded = self.embedded(family)?;
        let code = embedded.machine_code(self.gpu.capability.0).filter(|_| !self.gpu.compile_all);
        if let Some(code) = code {
            let load = || self.gpu.context.load_module(Ptx::from_binary(code)).map_err(driver(family));
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
pub(super) fn driver(what: &str) -> impl Fn(DriverError) -> Error {
    let call = what.to_owned();
    move |error| Error::Driver { call: call.clone(), message: message(error) }
}

fn message(error: DriverError) -> String {
    let text = |text: std::result::Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(|_| "unknown".into(), |text| text.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(error.error_string()), text(error.error_name()))
}

/// Launches recorded as a CUDA graph, and the queue that they are for.
pub(crate) struct Recording {
    graph: CudaGraph,
    stream: Stream,
}

impl Recording {
    /// Queues the launches.
    pub(crate) fn launch(&self) -> Result<()> {
        self.stream.gpu.context.bind_to_thread().map_err(driver("entering the context"))?;
        // SAFETY: graph and queue are live and of one context. The graph has one user, for it is not `Sync`; what its
        // launches touch is alive, as whoever recorded them saw to.
        unsafe { result::graph::launch(self.graph.cu_graph_exec(), self.stream.queue.cu_stream()) }
            .map_err(driver("launching a graph"))
    }
}

impl Stream {
    /// Records what `queue_work` queues here; nothing of it runs. The recording is for the queue `target`.
    pub(super) fn record(&self, target: &Stream, queue_work: impl FnOnce() -> Result<()>) -> Result<Recording> {
        let failed = || driver("recording a graph");
        // What this thread must not do meanwhile fails; other threads may do as they like.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.queue.begin_capture(mode).map_err(failed())?;
        // A queue must not stay in capture, whatever happens.
        let queued = panic::catch_unwind(AssertUnwindSafe(queue_work));
        let graph = self.queue.end_capture(sys::CUgraphInstantiate_flags(0));
        queued.unwrap_or_else(|panic| panic::resume_unwind(panic))?;
        let no_graph = || Error::Driver { call: "recording a graph".into(), message: "the driver made none".into() };
        let graph = graph.map_err(failed())?.ok_or_else(no_graph)?;
        Ok(Recording { graph, stream: target.clone() })
    }

    /// Records what `queue_work` queues on the stream that it is given: whatever else is queued here meanwhile, by any
    /// thread, stays out of it.
    pub(super) fn record_apart(&self, queue_work: impl FnOnce(&Stream) -> Result<()>) -> Result<Recording> {
        let recorder = self.sibling()?;
        recorder.record(self, || queue_work(&recorder))
    }
}

impl Stream {
    /// See [`Device::time_each`](super::Device::time_each).
    pub(super) fn time_each(
        &self,
        repeats: usize,
        mut operation: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = || self.gpu.context.new_event(flags).map_err(driver("creating an event"));
        let events = (0..=repeats).map(|_| event()).collect::<Result<Vec<_>>>()?;
        let record = |event: &CudaEvent| event.record(&self.queue).map_err(driver("recording an event"));
        record(&events[0])?;
        for repeat in 0..repeats {
            operation(repeat)?;
            record(&events[repeat + 1])?;
        }
        let elapsed = |pair: &[CudaEvent]| {
            let milliseconds = pair[0].elapsed_ms(&pair[1]).map_err(driver("reading an event"))?;
            Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
        };
        events.windows(2).map(elapsed).collect()
    }

    /// The bytes of a large copy within the device, and how long 21 of them took.
    pub(super) fn time_copies(&self) -> Result<(usize, Vec<Duration>)> {
        let (free, _) = self.gpu.context.mem_get_info().map_err(driver("reading the free memory"))?;
        let bytes = (1 << 30).min(free / 8).max(1 << 20);
        let allocate = || self.queue.alloc_zeros::<u8>(bytes).map_err(|error| self.allocation_error(error, bytes));
        let (source, mut target) = (allocate()?, allocate()?);
        let copy = |_| self.queue.memcpy_dtod(&source, &mut target).map_err(driver("copying on the device"));
        Ok((bytes, self.time_each(21, copy)?))
    }
}

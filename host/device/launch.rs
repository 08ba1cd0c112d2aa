//! One launch of a kernel, on a GPU or in the emulator.

use cuda_std::{emulator, mem::DeviceValue};
use kernels_gpu::{Entry, args::Arguments};

use super::{Array, Backend, Buffer, Device, Mailbox};
#[cfg(feature = "cuda")]
use super::{
    cuda::{ModuleSource, Stream},
    recording,
    vector::CudaBuffer,
};
use crate::{Error, Result};

/// A launch in preparation: register the arrays that the kernel reads and writes, put the returned addresses into its
/// argument struct, and [`run`](Self::run) it. Grids and blocks are one-dimensional.
#[derive(Debug)]
pub(crate) enum KernelLaunch<'a> {
    /// Knows the arrays, and so finds any other access.
    Emulated(emulator::Launch<'a>),
    #[cfg(feature = "cuda")]
    Cuda(CudaLaunch<'a>),
}

#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(crate) struct CudaLaunch<'a> {
    stream: &'a Stream,
    module: ModuleSource,
    entry: &'static str,
    shape: Shape,
    /// Other streams whose data the kernel accesses.
    foreign: Vec<&'a Stream>,
    /// Whether the kernel accesses borrowed memory, which the graph being recorded cannot keep.
    refused: bool,
}

/// The number of blocks, threads per block, and bytes of dynamic shared memory per block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) blocks: u32,
    pub(crate) block_size: u32,
    pub(crate) dynamic_shared_bytes: u32,
    /// Whether all blocks run concurrently.
    pub(crate) cooperative: bool,
}

impl<'a> KernelLaunch<'a> {
    /// Prepares a launch of a kernel of this crate on the stream of `device`, which is not the CPU.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only a GPU loads modules"))]
    pub(crate) fn of_entry(device: &'a Device, entry: &'static Entry, blocks: u32) -> Self {
        let Entry { family, name, block_size, dynamic_shared_bytes, .. } = *entry;
        let shape = Shape { blocks, block_size, dynamic_shared_bytes, cooperative: false };
        match device.backend() {
            Backend::Cpu { .. } => unreachable!("kernels do not run on the CPU device"),
            Backend::Emulated { seed } => Self::emulated(*seed, name, shape),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Self::on_gpu(stream, ModuleSource::Family(family), name, shape),
        }
    }

    pub(super) fn emulated(seed: u64, entry: &'static str, shape: Shape) -> Self {
        let launch = emulator::Launch::new(shape.blocks, shape.block_size).name(entry).seed(seed);
        let launch = launch.dynamic_shared_bytes(shape.dynamic_shared_bytes);
        Self::Emulated(if shape.cooperative { launch.cooperative() } else { launch })
    }

    #[cfg(feature = "cuda")]
    pub(super) fn on_gpu(stream: &'a Stream, module: ModuleSource, entry: &'static str, shape: Shape) -> Self {
        Self::Cuda(CudaLaunch { stream, module, entry, shape, foreign: Vec::new(), refused: false })
    }

    /// Registers an array that the kernel only reads, and returns its address. `owner` is the array's device.
    pub(crate) fn read<T: DeviceValue>(&mut self, name: &str, array: Array<'a, T>, owner: &'a Device) -> *const T {
        self.join(owner);
        match (self, array) {
            (Self::Emulated(launch), Array::Host(values)) => launch.borrow(name, values),
            #[cfg(feature = "cuda")]
            (Self::Cuda(launch), Array::Cuda(buffer)) => launch.touch(buffer),
            #[cfg(feature = "cuda")]
            _ => unreachable!("the array is on the launch's device"),
        }
    }

    /// Registers an array that the kernel writes, and returns its address. `owner` is the array's device.
    pub(crate) fn write<T: DeviceValue>(&mut self, name: &str, buffer: &'a mut Buffer<T>, owner: &'a Device) -> *mut T {
        self.join(owner);
        match (self, buffer) {
            (Self::Emulated(launch), Buffer::Host(values)) => launch.borrow_mut(name, values),
            (Self::Emulated(_), Buffer::Shared(_)) => unreachable!("nothing writes a shared array"),
            #[cfg(feature = "cuda")]
            (Self::Cuda(launch), Buffer::Cuda(buffer)) => launch.touch(buffer),
            #[cfg(feature = "cuda")]
            _ => unreachable!("the array is on the launch's device"),
        }
    }

    /// Registers words that the kernel writes while the host reads them, and returns their address.
    pub(crate) fn mailbox(&mut self, mailbox: &'a mut Mailbox) -> *mut u64 {
        match self {
            Self::Emulated(launch) => launch.borrow_mut("mailbox", mailbox.words_mut()),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => mailbox.address(),
        }
    }

    /// Makes all blocks run concurrently, each with this much dynamic shared memory, which is always the same for a
    /// kernel on a device.
    ///
    /// # Errors
    /// [`Error::Driver`] if an emulated GPU cannot hold so many blocks at once: one per multiprocessor. A GPU reports
    /// this when the launch is [run](Self::run).
    pub(crate) fn cooperative(
        device: &'a Device,
        entry: &'static Entry,
        blocks: u32,
        dynamic_shared_bytes: u32,
    ) -> Result<Self> {
        Ok(match Self::of_entry(device, entry, blocks) {
            Self::Emulated(_) if blocks > device.multiprocessors() => {
                let message = format!("{blocks} blocks, and {} run at the same time", device.multiprocessors());
                return Err(Error::Driver { call: entry.name.into(), message });
            }
            Self::Emulated(launch) => Self::Emulated(launch.dynamic_shared_bytes(dynamic_shared_bytes).cooperative()),
            #[cfg(feature = "cuda")]
            Self::Cuda(mut launch) => {
                launch.shape = Shape { dynamic_shared_bytes, cooperative: true, ..launch.shape };
                Self::Cuda(launch)
            }
        })
    }

    /// Orders the launch with the stream of `owner`.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only a GPU has queues"))]
    fn join(&mut self, owner: &'a Device) {
        #[cfg(feature = "cuda")]
        if let (Self::Cuda(launch), Backend::Cuda(owner)) = (self, owner.backend())
            && !launch.stream.is(owner)
            && !launch.foreign.iter().any(|foreign| foreign.is(owner))
        {
            launch.foreign.push(owner);
        }
    }

    /// Calls [`run`](Self::run) for a kernel of this crate.
    ///
    /// # Safety
    /// `Args` is the struct that this entry takes, and the kernel's own rules hold for `args`.
    pub(crate) unsafe fn run_entry<Args: Copy>(self, entry: &Entry, args: &Args) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.run_checked(entry, std::ptr::from_ref(args).cast(), size_of::<Args>()) }
    }

    /// As [`run_entry`](Self::run_entry), for a struct of this many bytes.
    ///
    /// # Safety
    /// As there, for what `args` points to.
    unsafe fn run_checked(self, entry: &Entry, args: *const (), bytes: usize) -> Result<()> {
        assert_eq!(bytes, entry.args_bytes, "the arguments of {}", entry.name);
        // SAFETY: the caller's promise.
        unsafe { self.run(args, &|| (entry.call)(args)) }
    }

    /// Queues or records the launch; the emulator runs it at once, as `call` for each thread of the grid. Not generic, so that it
    /// is compiled once instead of for every kernel.
    ///
    /// # Safety
    /// `args` points to the struct that the kernel takes, which satisfies its safety rules, and `call` calls the kernel with these
    /// arguments.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only a GPU takes the struct"))]
    pub(super) unsafe fn run(self, args: *const (), call: &dyn Fn()) -> Result<()> {
        match self {
            Self::Emulated(launch) => launch.run(call).map(|_| ()).map_err(Error::KernelCheck),
            #[cfg(feature = "cuda")]
            Self::Cuda(CudaLaunch { stream, module, entry, shape, foreign, refused }) => {
                let refuse = |problem: &str| Err(Error::InvalidOption(format!("{entry}: {problem}")));
                match recording::recorder(stream)? {
                    None => stream.with_joined(&foreign, || {
                        // SAFETY: the caller's promise; every array is freed in the order of a stream that joins this one.
                        unsafe { stream.launch(module, entry, shape, args) }
                    }),
                    Some(_) if !foreign.is_empty() => {
                        refuse("a graph is for one queue, and an argument lives on another queue of the GPU")
                    }
                    Some(_) if refused => {
                        refuse("a graph cannot keep memory that another library lends: see Device::capture")
                    }
                    // SAFETY: the caller's promise; the graph keeps what the launch touches, or whoever records it.
                    Some(recorder) => unsafe { recorder.launch(module, entry, shape, args) },
                }
            }
        }
    }
}

/// Queues or records a launch of a kernel of this crate; the emulator runs it at once.
///
/// # Safety
/// `args` is the struct that this entry takes, and the kernel's own rules hold for it.
pub(crate) unsafe fn launch<'a, Args: Arguments<KernelLaunch<'a>>>(
    queue: &'a Device,
    entry: &'static Entry,
    blocks: u32,
    args: Args,
) -> Result<()> {
    let mut launch = KernelLaunch::of_entry(queue, entry, blocks);
    let args = args.bind(&mut launch);
    // SAFETY: the caller's promise.
    unsafe { launch.run_entry(entry, &args) }
}

/// As [`launch`], for a grid whose blocks wait for others': the emulator runs all at the same time, and a GPU does, if it has room for them.
///
/// # Safety
/// As for [`launch`]; the grid is so small that a GPU has.
pub(crate) unsafe fn launch_at_once<'a, Args: Arguments<KernelLaunch<'a>>>(
    queue: &'a Device,
    entry: &'static Entry,
    blocks: u32,
    args: Args,
) -> Result<()> {
    let mut launch = match KernelLaunch::of_entry(queue, entry, blocks) {
        KernelLaunch::Emulated(emulated) => KernelLaunch::Emulated(emulated.cooperative()),
        #[cfg(feature = "cuda")]
        on_gpu => on_gpu,
    };
    let args = args.bind(&mut launch);
    // SAFETY: the caller's promise.
    unsafe { launch.run_entry(entry, &args) }
}

#[cfg(feature = "cuda")]
impl CudaLaunch<'_> {
    /// Returns the address of memory that the kernel accesses.
    fn touch<T: DeviceValue>(&mut self, buffer: &CudaBuffer<T>) -> *mut T {
        self.refused |= buffer.is_borrowed() && recording::refuses_borrowed();
        recording::keep(|| buffer.kept());
        buffer.address()
    }
}

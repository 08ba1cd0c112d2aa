//! One launch of a kernel, on a GPU or in the emulator.

use cuda_std::emulator;
use kernels_gpu::Variant;

#[cfg(feature = "cuda")]
use super::cuda::Stream;
use super::{Array, Backend, Buffer, Device};
use crate::{Error, Result, scalar::DeviceElement};

/// A launch being prepared: name the arrays that the kernel reads and writes, put the addresses got into its argument
/// struct, and [`run`](Self::run) it.
pub(crate) struct KernelLaunch<'a> {
    variant: &'static Variant,
    target: Target<'a>,
}

enum Target<'a> {
    /// The launch knows the arrays, and so finds any other access.
    Emulator(emulator::Launch<'a>),
    #[cfg(feature = "cuda")]
    Cuda {
        stream: &'a Stream,
        family: &'static str,
        blocks: u32,
        foreign: Vec<&'a Stream>,
    },
}

impl<'a> KernelLaunch<'a> {
    /// A launch of `blocks` blocks, in one dimension, on the queue of `device`, which is not the CPU.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "only a GPU loads modules"))]
    pub(crate) fn new(device: &'a Device, family: &'static str, variant: &'static Variant, blocks: u32) -> Self {
        let target = match device.backend() {
            Backend::Cpu { .. } => unreachable!("kernels do not run on the CPU device"),
            Backend::Emulated { seed } => {
                let launch = emulator::Launch::new(blocks, variant.block_size);
                Target::Emulator(launch.name(variant.entry).seed(*seed))
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Target::Cuda {
                stream,
                family,
                blocks,
                foreign: Vec::new(),
            },
        };
        Self { variant, target }
    }

    /// The address of an array that the kernel only reads. `at` is where the array lives.
    pub(crate) fn read<T: DeviceElement>(&mut self, name: &str, array: Array<'a, T>, at: &'a Device) -> *const T {
        match (&mut self.target, array, at.backend()) {
            (Target::Emulator(launch), Array::Host(values), _) => launch.borrow(name, values),
            #[cfg(feature = "cuda")]
            (Target::Cuda { stream, foreign, .. }, Array::Cuda(buffer), Backend::Cuda(owner)) => {
                if !stream.is(owner) {
                    foreign.push(owner);
                }
                buffer.address()
            }
            #[cfg(feature = "cuda")]
            _ => unreachable!("the array is on the launch's device"),
        }
    }

    /// The address of an array that the kernel writes, which belongs to the launch's queue.
    pub(crate) fn write<T: DeviceElement>(&mut self, name: &str, buffer: &'a mut Buffer<T>) -> *mut T {
        match (&mut self.target, buffer) {
            (Target::Emulator(launch), Buffer::Host(values)) => launch.borrow_mut(name, values),
            #[cfg(feature = "cuda")]
            (Target::Cuda { .. }, Buffer::Cuda(buffer)) => buffer.address(),
            #[cfg(feature = "cuda")]
            _ => unreachable!("the array is on the launch's device"),
        }
    }

    /// Queues the launch; the emulator runs it at once.
    ///
    /// # Safety
    /// `Args` is the struct that the kernel takes, and the kernel's own rules hold for `args`.
    pub(crate) unsafe fn run<Args: Copy>(self, args: &Args) -> Result<()> {
        assert_eq!(
            size_of::<Args>(),
            self.variant.args_bytes,
            "the arguments of {}",
            self.variant.entry
        );
        match self.target {
            Target::Emulator(launch) => {
                // SAFETY: the caller keeps the kernel's rules, and the struct is the one that it takes.
                let kernel = || unsafe { (self.variant.call)(std::ptr::from_ref(args).cast()) };
                launch.run(kernel).map(|_| ()).map_err(Error::KernelCheck)
            }
            #[cfg(feature = "cuda")]
            Target::Cuda {
                stream,
                family,
                blocks,
                foreign,
            } => stream.with_joined(&foreign, || {
                // SAFETY: as above; every array is freed in the order of a queue that joins this one.
                unsafe { stream.launch(family, self.variant, blocks, args) }
            }),
        }
    }
}

//! Where operations run: a CUDA GPU, the CPU, or a GPU emulated on the CPU.

mod arrays;
#[cfg(feature = "cuda")]
mod borrowed;
#[cfg(feature = "cuda")]
mod cuda;
mod graph;
mod info;
mod kernel;
mod launch;
mod mailbox;
mod mark;
#[cfg(feature = "cuda")]
mod outside;
mod pinned;
mod reach;
mod recording;
mod slice;
mod timing;
mod vector;
mod window;
mod workspace;

use std::fmt;
#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg(feature = "cuda")]
pub use borrowed::{DeviceVecMut, DeviceVecRef};
#[cfg(feature = "cuda")]
pub(crate) use borrowed::{Loan, check_alignment};
pub use graph::Graph;
pub(crate) use graph::Recording;
pub use info::{CudaInfo, DeviceInfo};
pub use kernel::{Kernel, Launch};
pub use pinned::PinnedVec;
pub(crate) use slice::within;
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use vector::DeviceVec;

pub(crate) use arrays::{Readable, Writable};
#[cfg(feature = "cuda")]
pub(crate) use cuda::{Stream, apart_from_errors, driver, release};
pub(crate) use launch::{KernelLaunch, launch, launch_at_once};
pub(crate) use mailbox::Mailbox;
pub(crate) use mark::Mark;
pub(crate) use recording::{anew, lock, paused, refuse};
#[cfg(feature = "cuda")]
pub(crate) use vector::Owner;
pub(crate) use vector::{Array, Buffer, check_length};
pub(crate) use window::{OpenWindow, Window};
pub(crate) use workspace::Found;

use crate::{Error, Result};

/// A device to compute on, and a stream of operations on it.
///
/// On a GPU the stream is a CUDA stream: operations run in order while the host continues; reading a result waits for
/// it. All handles returned by [`cuda`](Self::cuda) or [`auto`](Self::auto) are the same stream of that GPU;
/// [`new_stream`](Self::new_stream) creates another one. An operation runs on the stream of the vector that it writes. If
/// it uses data of another stream of the same GPU, it waits for the earlier work on that stream, and later work there
/// waits for it.
///
/// On the CPU every operation has finished when its call returns.
///
/// Cloning a handle is cheap.
#[derive(Clone, Debug)]
pub struct Device {
    backend: Backend,
}

#[derive(Clone, Debug)]
pub(crate) enum Backend {
    /// The host, and why it was chosen if a GPU was preferred.
    Cpu { no_gpu: Option<std::sync::Arc<str>> },
    /// The GPU's kernels in the grid emulator; the seed sets the order of threads and blocks.
    Emulated { seed: u64 },
    #[cfg(feature = "cuda")]
    Cuda(Arc<Stream>),
}

impl Device {
    /// Returns the first CUDA device, or the CPU if there is no usable GPU; [`describe`](Self::describe) says which and
    /// why. Never fails.
    #[must_use]
    pub fn auto() -> Self {
        Self::cuda(0).unwrap_or_else(|error| {
            let reason = match error {
                Error::NoDevice { reason, .. } => reason,
                other => other.to_string(),
            };
            Self { backend: Backend::Cpu { no_gpu: Some(reason.into()) } }
        })
    }

    /// Returns the CPU: all threads of rayon's pool, or the calling thread without the feature `rayon`.
    #[must_use]
    pub fn cpu() -> Self {
        Self { backend: Backend::Cpu { no_gpu: None } }
    }

    /// Returns a GPU emulated on the CPU. It runs the GPU's kernels with checks, and computes the GPU's bits unless a
    /// kernel uses floating-point atomics. For tests: it is thousands of times slower than a GPU.
    ///
    /// An operation fails with [`Error::KernelCheck`] if its kernel accesses memory out of bounds, has a race, or
    /// breaks a rule of warps or blocks. The error names the kernel, thread, array and source line.
    ///
    /// `seed` sets the order in which threads and blocks run; 0 is their natural order. Emulated devices share memory: vectors and matrices
    /// of devices with different seeds can be used together.
    #[must_use]
    pub fn emulated(seed: u64) -> Self {
        Self { backend: Backend::Emulated { seed } }
    }

    /// Returns the CUDA device number `index`, in the driver's order.
    ///
    /// The first call for a device creates its context, which takes tenths of a second. Kernels are loaded at their
    /// first use. On GPUs of compute capability 9.x they are machine code, which loads in a millisecond or two.
    /// On other GPUs, with a driver older than CUDA 13.0, or if the environment variable `WARPSPARSE_PTX` is 1, the
    /// driver compiles them and caches the result.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no driver, no such device, or the crate was built without the feature `cuda`;
    /// [`Error::DriverTooOld`]; [`Error::Driver`] for any other failure.
    pub fn cuda(index: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self { backend: Backend::Cuda(Stream::of_device(index)?) });
        #[cfg(not(feature = "cuda"))]
        return Err(Error::NoDevice {
            wanted: format!("CUDA device {index}"),
            reason: "warpsparse was built without the feature `cuda`".into(),
        });
    }

    /// Returns the number of CUDA devices that the driver shows.
    ///
    /// # Errors
    /// As [`cuda`](Self::cuda), if there is no usable driver.
    pub fn cuda_count() -> Result<usize> {
        #[cfg(feature = "cuda")]
        return cuda::device_count();
        #[cfg(not(feature = "cuda"))]
        return Ok(0);
    }

    /// Returns the device with a name: `auto`, `cpu`, `emulated` (with seed 0), `cuda` (the first GPU) or `cuda:N`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for any other name; for `cuda`, the errors of [`cuda`](Self::cuda).
    pub fn from_name(name: &str) -> Result<Self> {
        let index = match name {
            "auto" => return Ok(Self::auto()),
            "cpu" => return Ok(Self::cpu()),
            "emulated" => return Ok(Self::emulated(0)),
            "cuda" => Some(0),
            _ => name.strip_prefix("cuda:").and_then(|index| index.parse().ok()),
        };
        match index {
            Some(index) => Self::cuda(index),
            None => {
                let names = "`auto`, `cpu`, `emulated`, `cuda` or `cuda:N`";
                Err(Error::InvalidOption(format!("no device `{name}`: it is {names}")))
            }
        }
    }

    /// Creates a new stream on the same device, whose operations may overlap with those of other streams. The CPU has one
    /// queue.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new_stream(&self) -> Result<Self> {
        match &self.backend {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Ok(self.clone()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Ok(Self { backend: Backend::Cuda(stream.sibling()?) }),
        }
    }

    /// Waits for the stream, then returns to the system all GPU memory that the driver's pool keeps for later allocations.
    ///
    /// Vectors and matrices are allocated from the default memory pool of the GPU. It keeps what is freed, so that operations which
    /// allocate their results are quick: its release threshold is raised to the maximum, unless the program has set one. Call this
    /// where another program, or a library that allocates otherwise, needs the memory. Does nothing on other devices.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::InvalidOption`] while a graph is recorded.
    pub fn trim_memory(&self) -> Result<()> {
        refuse("a return of memory")?;
        match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Ok(()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.trim_memory(),
        }
    }

    /// Waits until all operations on this stream have finished.
    ///
    /// # Errors
    /// [`Error::Driver`], also for a failure of an operation queued earlier.
    pub fn synchronize(&self) -> Result<()> {
        recording::refuse("waiting for the queue")?;
        match &self.backend {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Ok(()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.synchronize(),
        }
    }

    /// Returns whether this is a GPU.
    #[must_use]
    pub fn is_cuda(&self) -> bool {
        match &self.backend {
            Backend::Cpu { .. } | Backend::Emulated { .. } => false,
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => true,
        }
    }

    /// Returns the driver's handle of this stream, a `CUstream`, for other libraries: work that they queue on it runs in
    /// order with the operations of this crate. The stream belongs to the device's primary context, and lives as long
    /// as a handle of this stream or a vector on it. `None` if this is not a GPU.
    #[must_use]
    pub fn cuda_stream(&self) -> Option<*mut std::ffi::c_void> {
        match &self.backend {
            Backend::Cpu { .. } | Backend::Emulated { .. } => None,
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Some(stream.queue().cu_stream().cast()),
        }
    }

    /// Returns the number of multiprocessors, for choosing kernels: without a GPU, that of a large one.
    pub(crate) fn multiprocessors(&self) -> u32 {
        match &self.backend {
            Backend::Cpu { .. } | Backend::Emulated { .. } => 132,
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.multiprocessors(),
        }
    }

    /// Returns the compute capability, for choosing kernels: without a GPU, that of a large one.
    pub(crate) fn compute_capability(&self) -> (u32, u32) {
        match &self.backend {
            Backend::Cpu { .. } | Backend::Emulated { .. } => (9, 0),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.compute_capability(),
        }
    }

    /// Returns the maximum shared memory per block, for choosing kernels: without a GPU, that of a large one.
    pub(crate) fn shared_bytes(&self) -> u32 {
        match &self.backend {
            Backend::Cpu { .. } | Backend::Emulated { .. } => 227 << 10,
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.shared_bytes(),
        }
    }

    /// Returns whether the two are the same stream. The CPU and the emulated device have one each.
    pub(crate) fn is_same_stream(&self, other: &Self) -> bool {
        match (&self.backend, &other.backend) {
            #[cfg(feature = "cuda")]
            (Backend::Cuda(own), Backend::Cuda(other)) => own.is(other),
            _ => self.shares_memory_with(other),
        }
    }

    /// Returns whether operations here can use data on `other`: both are the same GPU, both the CPU, or both emulated.
    #[must_use]
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        match (&self.backend, &other.backend) {
            (Backend::Cpu { .. }, Backend::Cpu { .. }) | (Backend::Emulated { .. }, Backend::Emulated { .. }) => true,
            #[cfg(feature = "cuda")]
            (Backend::Cuda(own), Backend::Cuda(other)) => own.same_device(other),
            _ => false,
        }
    }

    /// Describes the device in one line; for the CPU, also says why no GPU is used, and for the emulator, its seed.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.backend {
            Backend::Cpu { no_gpu: Some(reason) } => format!("{self}; no GPU: {reason}"),
            Backend::Cpu { no_gpu: None } => self.to_string(),
            Backend::Emulated { seed } => format!("{self}, seed {seed}"),
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => match self.info() {
                Ok(info) => format!("{self}, {info}"),
                Err(error) => format!("{self} ({error})"),
            },
        }
    }

    /// Returns the device of a stream.
    #[cfg(feature = "cuda")]
    pub(crate) fn of_queue(queue: Arc<Stream>) -> Self {
        Self { backend: Backend::Cuda(queue) }
    }

    /// Returns the stream if this is a GPU; otherwise an error about the argument `what`.
    #[cfg(feature = "cuda")]
    pub(crate) fn queue_for(&self, what: &'static str) -> Result<&Arc<Stream>> {
        match &self.backend {
            Backend::Cuda(queue) => Ok(queue),
            _ => Err(Error::DeviceMismatch { what, expected: self.to_string(), found: "a GPU".into() }),
        }
    }

    /// Whether operations run on the host.
    pub(crate) fn is_cpu(&self) -> bool {
        matches!(self.backend, Backend::Cpu { .. })
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Fails unless the argument `what`, which is on `found`, shares memory with this device.
    pub(crate) fn check_same(&self, what: &'static str, found: &Self) -> Result<()> {
        if self.shares_memory_with(found) {
            return Ok(());
        }
        Err(Error::DeviceMismatch { what, expected: self.to_string(), found: found.to_string() })
    }
}

/// The short name that [`Device::from_name`] takes: `cpu`, `emulated` or `cuda:N`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Backend::Cpu { .. } => f.write_str("cpu"),
            Backend::Emulated { .. } => f.write_str("emulated"),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => write!(f, "cuda:{}", stream.device_index()),
        }
    }
}

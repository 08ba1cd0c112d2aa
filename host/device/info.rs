//! Facts about devices.

use std::fmt;

use super::{Backend, Device};
use crate::{Result, parallel};

/// Facts about a device, as reported by its driver or the operating system.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The vendor's name of the device.
    pub name: String,
    /// The number of multiprocessors of a GPU, or of threads that the CPU backend uses.
    pub parallel_units: usize,
    /// Memory in bytes; `None` for the CPU.
    pub memory_bytes: Option<u64>,
    /// The size of the L2 cache in bytes; `None` for the CPU.
    pub l2_bytes: Option<u64>,
    /// Facts that only a GPU has.
    pub cuda: Option<CudaInfo>,
}

/// Facts about a CUDA device.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CudaInfo {
    /// The compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// The CUDA version that the driver supports, major and minor.
    pub driver_cuda: (u32, u32),
    /// The architecture of the kernels that run on this device, such as 90 for `sm_90`.
    pub kernel_arch: u32,
}

impl Device {
    /// Returns facts about the device.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn info(&self) -> Result<DeviceInfo> {
        match self.backend() {
            Backend::Cpu { .. } => Ok(DeviceInfo::of_host("CPU", parallel::threads())),
            Backend::Emulated { .. } => Ok(DeviceInfo::of_host("emulated GPU", 1)),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.info(),
        }
    }
}

impl DeviceInfo {
    fn of_host(name: &str, parallel_units: usize) -> Self {
        Self { name: name.into(), parallel_units, memory_bytes: None, l2_bytes: None, cuda: None }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cuda, self.memory_bytes) {
            (Some(cuda), Some(memory)) => write!(
                f,
                "{}, {:.0} GiB, compute capability {}.{}, kernels for sm_{}, driver for CUDA {}.{}",
                self.name,
                memory as f64 / f64::from(1 << 30),
                cuda.compute_capability.0,
                cuda.compute_capability.1,
                cuda.kernel_arch,
                cuda.driver_cuda.0,
                cuda.driver_cuda.1
            ),
            _ => write!(f, "{}, {} threads", self.name, self.parallel_units),
        }
    }
}

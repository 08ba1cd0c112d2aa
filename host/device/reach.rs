//! Which GPUs see each other's memory.

use super::Device;
use crate::Result;
#[cfg(feature = "cuda")]
use {
    super::{Backend, driver},
    cudarc::driver::sys,
};

impl Device {
    /// Returns whether the driver lets this GPU read and write the memory of another GPU directly, over NVLink or PCIe. False for a GPU and
    /// itself, and for devices that are no GPUs.
    ///
    /// # Errors
    /// [`Driver`](crate::Error::Driver).
    pub fn reaches(&self, other: &Self) -> Result<bool> {
        #[cfg(feature = "cuda")]
        if let (Backend::Cuda(own), Backend::Cuda(other)) = (self.backend(), other.backend()) {
            let mut can = 0;
            let [own, other] = [own, other].map(|stream| stream.context().cu_device());
            // SAFETY: two devices of the driver's; the answer is written.
            let asked = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, own, other) };
            asked.result().map_err(driver("asking which GPUs see each other's memory"))?;
            return Ok(can != 0);
        }
        #[cfg(not(feature = "cuda"))]
        let _ = other;
        Ok(false)
    }
}

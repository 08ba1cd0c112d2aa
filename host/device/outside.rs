//! Work that another library queues on a GPU's stream.

use std::ffi::c_void;

use super::{Backend, Buffer, Device, DeviceVec, recording};
use crate::{Element, Error, Result};

impl Device {
    /// Returns the number that the driver tells GPUs apart by; `None` if this is no GPU, or the driver does not say.
    pub(crate) fn uuid(&self) -> Option<u128> {
        let Backend::Cuda(stream) = self.backend() else { return None };
        let uuid = stream.context().uuid().ok()?;
        Some(u128::from_be_bytes(uuid.bytes.map(|byte| byte as u8)))
    }

    /// Calls `work` with the handle of this GPU's stream, in its context, to queue what another library does; of the stream that is
    /// captured, while this thread records. `work` keeps the memory alive that it gets by [`DeviceVec::address`].
    pub(crate) fn outside(&self, work: impl FnOnce(*mut c_void) -> Result<()>) -> Result<()> {
        let Backend::Cuda(stream) = self.backend() else {
            return Err(Error::Unsupported(format!("work of another library on {self}, which is no GPU")));
        };
        let recorder = recording::recorder(stream)?;
        stream.enter()?;
        work(recorder.as_deref().unwrap_or(stream).queue().cu_stream().cast())
    }
}

impl<T: Element> DeviceVec<T> {
    /// Returns the address of the elements on a GPU; a recording keeps them.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] on another device.
    pub(crate) fn address(&self) -> Result<*mut T> {
        match self.buffer() {
            Buffer::Cuda(buffer) => {
                recording::keep(|| buffer.kept());
                Ok(buffer.address())
            }
            _ => Err(Error::DeviceMismatch {
                what: "the vector",
                expected: "a GPU".into(),
                found: self.device().to_string(),
            }),
        }
    }
}

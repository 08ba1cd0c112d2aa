//! Places in a stream that can be waited for.

#[cfg(feature = "cuda")]
use {
    super::{Stream, driver},
    cudarc::driver::{
        result,
        sys::{CUevent, CUevent_flags, CUresult},
    },
    std::sync::Arc,
};

use super::{Backend, Device};
use crate::Result;

/// A position in a device's stream: after everything queued when it was last [`set`](Self::set). Waiting for it does not
/// wait for later operations. On other devices than GPUs it has always been reached.
#[derive(Debug)]
pub(crate) enum Mark {
    Past,
    #[cfg(feature = "cuda")]
    Cuda(Event),
}

impl Mark {
    /// After all that is queued now.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let mark = match device.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Self::Past,
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Self::Cuda(Event::new(stream)?),
        };
        mark.set()?;
        Ok(mark)
    }

    /// Moves it to after all that is queued now.
    pub(crate) fn set(&self) -> Result<()> {
        match self {
            Self::Past => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(event) => event.record(),
        }
    }

    /// Whether the device has got there, without waiting. Fails if an operation queued earlier has.
    pub(crate) fn is_past(&self) -> Result<bool> {
        match self {
            Self::Past => Ok(true),
            #[cfg(feature = "cuda")]
            Self::Cuda(event) => event.has_happened(),
        }
    }

    /// Waits until the device has got there. Fails if an operation queued earlier has.
    pub(crate) fn wait(&self) -> Result<()> {
        match self {
            Self::Past => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(event) => event.wait(),
        }
    }
}

/// An event of the driver's.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(crate) struct Event {
    event: CUevent,
    stream: Arc<Stream>,
}

#[cfg(feature = "cuda")]
impl Event {
    fn new(stream: &Arc<Stream>) -> Result<Self> {
        let event = stream.inside(|| result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING));
        Ok(Self { event: event.map_err(driver("creating an event"))?, stream: Arc::clone(stream) })
    }

    fn record(&self) -> Result<()> {
        self.stream.enter()?;
        // SAFETY: event and queue are live and of one context.
        unsafe { result::event::record(self.event, self.stream.queue().cu_stream()) }
            .map_err(driver("marking a place in the queue"))
    }

    fn has_happened(&self) -> Result<bool> {
        self.stream.enter()?;
        // SAFETY: the event is live.
        match unsafe { result::event::query(self.event) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(driver("looking at the queue")(error)),
        }
    }

    fn wait(&self) -> Result<()> {
        self.stream.enter()?;
        // SAFETY: the event is live.
        unsafe { result::event::synchronize(self.event) }.map_err(driver("waiting for the queue"))
    }
}

#[cfg(feature = "cuda")]
impl Drop for Event {
    fn drop(&mut self) {
        // An error would be that of a driver that is shutting down.
        // SAFETY: the event is live, and nobody else has it.
        let _ = self.stream.inside(|| unsafe { result::event::destroy(self.event) });
    }
}

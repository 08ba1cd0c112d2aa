//! Operations recorded once and queued many times.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

#[cfg(feature = "cuda")]
pub(crate) use super::cuda::Recording;
use super::{Backend, Device, Mode};
use crate::Result;

/// Without a GPU nothing is recorded.
#[cfg(not(feature = "cuda"))]
#[derive(Debug)]
pub(crate) enum Recording {}

#[cfg(not(feature = "cuda"))]
impl Recording {
    pub(crate) fn launch(&self) -> Result<()> {
        match *self {}
    }
}

/// Without a GPU there are no streams.
#[cfg(not(feature = "cuda"))]
#[derive(Debug)]
pub(crate) enum Stream {}

/// A lock, whatever it protects.
pub(crate) trait Exclusive: Sync {
    /// Does `work` with the lock held.
    fn hold(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

impl<P: Send> Exclusive for Mutex<P> {
    fn hold(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _held = self.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

/// Operations that are queued again and again, with the same arguments.
///
/// On a GPU it is a CUDA graph: the driver has checked and prepared the operations once, and queues all of them in one
/// call. On the CPU and the emulated device the operations are called anew.
///
/// Made by [`DeviceMatrix::spmv_graph`](crate::DeviceMatrix::spmv_graph),
/// [`DeviceMatrix::spmm_graph`](crate::DeviceMatrix::spmm_graph) and [`Device::capture`].
pub struct Graph<'a> {
    /// Called where nothing is recorded. In any case it holds the borrows of what the operations touch.
    operations: Box<dyn FnMut() -> Result<()> + 'a>,
    recording: Option<Recording>,
    /// Held while a recording is queued: whoever else queues what it touches holds it too.
    exclusive: Option<&'a dyn Exclusive>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(
        operations: impl FnMut() -> Result<()> + 'a,
        recording: Option<Recording>,
        exclusive: Option<&'a dyn Exclusive>,
    ) -> Self {
        Self { operations: Box::new(operations), recording, exclusive }
    }

    /// Queues the operations `times` times, one after the other. On a GPU nothing is allocated, and nothing waits.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver); not on a GPU, those of the operations.
    pub fn launch(&mut self, times: usize) -> Result<()> {
        for _ in 0..times {
            match &self.recording {
                None => (self.operations)()?,
                Some(recording) => match self.exclusive {
                    None => recording.launch()?,
                    Some(lock) => lock.hold(&mut || recording.launch())?,
                },
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.recording.is_some() { "Graph(recorded)" } else { "Graph(called anew)" })
    }
}

impl Device {
    /// Records the launches of `operation`, all of them on this queue; nothing of it runs. Only a GPU records.
    ///
    /// # Safety
    /// What `operation` touches stays borrowed for as long as the recording may be launched.
    #[cfg_attr(not(feature = "cuda"), expect(unused_mut, unused_variables, reason = "only a GPU records"))]
    pub(crate) unsafe fn record(&self, mut operation: impl FnMut(Mode<'_>) -> Result<()>) -> Result<Option<Recording>> {
        match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => Ok(None),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => {
                operation(Mode::Load)?;
                stream.record_apart(|recorder| operation(Mode::Record(recorder))).map(Some)
            }
        }
    }

    /// Records what `operations` queues on this queue, without running it. For one product,
    /// [`DeviceMatrix::spmv_graph`](crate::DeviceMatrix::spmv_graph) does the same and is safe.
    ///
    /// Only launches can be recorded: no copies to or from the host, no waiting, no new vectors, nothing that is ordered
    /// with another queue. A kernel's first use loads it, which makes the recording longer. On the CPU
    /// and the emulated device `operations` is kept, and called at every launch of the graph.
    ///
    /// # Errors
    /// Those of `operations`; [`Error::Driver`](crate::Error::Driver), also for what cannot be recorded.
    ///
    /// # Safety
    /// 1. What `operations` touches is neither freed nor moved in the device's memory while the graph exists. It is
    ///    enough that `operations` borrows or owns it, and does not itself give it away.
    /// 2. Until this returns, no other thread queues anything on this queue, or on data that lives on it.
    /// 3. While the graph is being launched, no other thread multiplies by a matrix whose products are in it.
    #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "only a GPU records"))]
    pub unsafe fn capture<'a>(&self, mut operations: impl FnMut() -> Result<()> + 'a) -> Result<Graph<'a>> {
        let recording = match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => None,
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Some(stream.record(stream, &mut operations)?),
        };
        Ok(Graph::new(operations, recording, None))
    }
}

//! Times between events on a CUDA stream that is held back.
//!
//! An event that the host records after a short launch is reached before the host has queued the next one: the time between
//! two such events is then the host's time for a call, some microseconds. So the stream waits in a host function
//! until a whole chunk of operations is queued, and the device finds no gap. A host function is the one gate that
//! opens by itself: it returns after [`MAX_WAIT`] whatever the host does meanwhile, so that neither an operation that waits for the
//! stream nor a full launch queue is a deadlock.

use std::{
    ffi::c_void,
    sync::mpsc::{self, Receiver, Sender},
    time::Duration,
};

use cudarc::driver::{
    CudaEvent, CudaStream,
    result::stream::launch_host_function,
    sys::{CUevent_flags, CUstreamCaptureStatus},
};

use super::super::cuda::{Stream, driver};
use crate::{Error, Result};

/// Operations that are queued while the stream is held. A driver takes about 1024 launches before it makes the host wait: with the
/// events that is room for operations of 15 launches.
const CHUNK: usize = 64;

/// How long a stream is held at most: longer than a chunk takes to queue, some 10 us an operation.
const MAX_WAIT: Duration = Duration::from_millis(100);

impl Stream {
    /// See [`Device::time_each`](crate::Device::time_each).
    pub(super) fn time_each(
        &self,
        repeats: usize,
        mut operation: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let mut chunks = Vec::new();
        for first in (0..repeats).step_by(CHUNK) {
            let hold = Hold::new(self.queue())?;
            let mut events = vec![self.event()?];
            for repeat in first..repeats.min(first + CHUNK) {
                operation(repeat)?;
                events.push(self.event()?);
            }
            drop(hold);
            chunks.push(events);
        }
        let elapsed = |pair: &[CudaEvent]| {
            let milliseconds = pair[0].elapsed_ms(&pair[1]).map_err(driver("reading an event"))?;
            Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
        };
        chunks.iter().flat_map(|events| events.windows(2)).map(elapsed).collect()
    }

    /// An event recorded now.
    fn event(&self) -> Result<CudaEvent> {
        let event = self.queue().context().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        let event = event.map_err(driver("creating an event"))?;
        event.record(self.queue()).map_err(driver("recording an event"))?;
        Ok(event)
    }

    /// The bytes of a large copy within the device, and how long 21 of them took.
    pub(super) fn time_copies(&self) -> Result<(usize, Vec<Duration>)> {
        let (free, _) = self.context().mem_get_info().map_err(driver("reading the free memory"))?;
        let bytes = (1 << 30).min(free / 8).max(1 << 20);
        let allocate = || self.queue().alloc_zeros::<u8>(bytes).map_err(|error| self.allocation_error(error, bytes));
        let (source, mut target) = (allocate()?, allocate()?);
        let copy = |_| self.queue().memcpy_dtod(&source, &mut target).map_err(driver("copying on the device"));
        Ok((bytes, self.time_each(21, copy)?))
    }
}

/// While it lives, nothing runs that is queued on the stream after it was made; but no longer than [`MAX_WAIT`].
struct Hold {
    /// Dropped, it wakes the host function.
    _release: Sender<()>,
}

impl Hold {
    fn new(stream: &CudaStream) -> Result<Self> {
        // In a graph the function would run at each launch, and its box is there once.
        if stream.capture_status().map_err(driver("looking at the queue"))?
            != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
        {
            let message = "operations that are being captured do not run, so they cannot be timed".into();
            return Err(Error::Driver { call: "holding the queue back".into(), message });
        }
        let (release, released) = mpsc::channel::<()>();
        let released = Box::into_raw(Box::new(released));
        // SAFETY: the stream is live. The function owns the box from now on.
        if let Err(error) = unsafe { launch_host_function(stream.cu_stream(), wait, released.cast()) } {
            // SAFETY: the function has not been queued, so that nobody else has the box.
            drop(unsafe { Box::from_raw(released) });
            return Err(driver("holding the queue back")(error));
        }
        Ok(Self { _release: release })
    }
}

/// Runs on a thread of the driver's when the stream comes to it.
unsafe extern "C" fn wait(released: *mut c_void) {
    // SAFETY: the box of `Hold::new`, which nobody else has.
    let released = unsafe { Box::from_raw(released.cast::<Receiver<()>>()) };
    // Nothing is ever sent: either the hold was dropped, or time is up.
    let _ = released.recv_timeout(MAX_WAIT);
}

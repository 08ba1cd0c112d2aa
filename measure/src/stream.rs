//! What NVIDIA's libraries work on: queues as streams, their errors, events on them.

use std::{sync::Arc, time::Duration};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, sys::CUevent_flags};
use warpsparse::Device;

/// The queue as a stream, on which libraries then work in one order with our own kernels.
///
/// # Safety
/// A handle of the queue is kept for as long as the stream, and what is allocated on it.
pub unsafe fn stream_of(queue: &Device) -> Result<Arc<CudaStream>, String> {
    let raw = queue.cuda_stream().ok_or("not a CUDA device")?;
    // SAFETY: queues are streams of the primary context; the rest is the caller's promise.
    Ok(unsafe { primary_context(queue)?.wrap_borrowed_stream(raw.cast()) })
}

/// The number of a device as CUDA counts them.
pub fn device_index(device: &Device) -> Result<i32, String> {
    let name = device.to_string();
    let index = name.strip_prefix("cuda:").and_then(|index| index.parse().ok());
    index.ok_or_else(|| "not a CUDA device".into())
}

/// The primary context of a GPU.
///
/// # Errors
/// If the device is no GPU, or the driver fails.
pub fn primary_context(device: &Device) -> Result<Arc<CudaContext>, String> {
    let context = CudaContext::new(device_index(device)? as usize).map_err(driver("creating a context"))?;
    // SAFETY: everything here happens on one stream, whose order is all that is needed; events of cudarc's own would
    // get between what is measured.
    unsafe { context.disable_event_tracking() };
    Ok(context)
}

/// The times between events on the stream, one before each operation and one at the end. They have no host in them as long as each
/// operation takes the device longer than the host.
pub(super) fn times_between_events(
    stream: &CudaStream,
    repeats: usize,
    mut operation: impl FnMut() -> warpsparse::Result<()>,
) -> warpsparse::Result<Vec<Duration>> {
    let failed = |error: DriverError| warpsparse::Error::Driver { call: "timing".into(), message: error.to_string() };
    let event = |_| stream.context().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
    let events = (0..=repeats).map(event).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    events[0].record(stream).map_err(failed)?;
    for event in &events[1..] {
        operation()?;
        event.record(stream).map_err(failed)?;
    }
    let elapsed = |pair: &[CudaEvent]| {
        let milliseconds = pair[0].elapsed_ms(&pair[1]).map_err(failed)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    };
    events.windows(2).map(elapsed).collect()
}

/// An error of the driver, with what was being done.
pub fn driver(what: &'static str) -> impl Fn(DriverError) -> String {
    move |error| format!("{what}: {error}")
}

/// A queue for a library to work on, and the same as a stream.
#[derive(Debug)]
pub struct LibraryQueue {
    /// The stream.
    pub stream: Arc<CudaStream>,
    /// Last, for it has to outlive the stream.
    pub device: Device,
}

impl LibraryQueue {
    /// A new one on this device. What is allocated on the stream has to be dropped before the queue.
    pub fn new(device: &Device) -> Result<Self, String> {
        let device = device.new_stream().map_err(|error| error.to_string())?;
        // SAFETY: the queue is kept beside the stream, and goes last.
        let stream = unsafe { stream_of(&device)? };
        Ok(Self { stream, device })
    }
}

/// What a library's call failed with, for the clock.
pub fn library_error(message: String) -> warpsparse::Error {
    warpsparse::Error::Driver { call: "a library's call".into(), message }
}

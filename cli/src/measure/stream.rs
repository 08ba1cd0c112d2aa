//! What NVIDIA's libraries work on: a stream, its errors, its clock.

use std::{sync::Arc, time::Duration};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, sys::CUevent_flags};
use warpsparse::Device;

/// A new stream in the primary context of the device.
pub(super) fn new_stream(device: &Device) -> Result<Arc<CudaStream>, String> {
    primary_context(device)?.new_stream().map_err(driver("creating a stream"))
}

/// The queue as a stream, on which libraries then work in one order with our own kernels.
///
/// # Safety
/// A handle of the queue is kept for as long as the stream, and what is allocated on it.
pub(super) unsafe fn stream_of(queue: &Device) -> Result<Arc<CudaStream>, String> {
    let raw = queue.cuda_stream().ok_or("not a CUDA device")?;
    // SAFETY: queues are streams of the primary context; the rest is the caller's promise.
    Ok(unsafe { primary_context(queue)?.wrap_borrowed_stream(raw.cast()) })
}

/// The number of a device as CUDA counts them.
pub(crate) fn device_index(device: &Device) -> Result<i32, String> {
    let name = device.to_string();
    let index = name.strip_prefix("cuda:").and_then(|index| index.parse().ok());
    index.ok_or_else(|| "not a CUDA device".into())
}

pub(super) fn primary_context(device: &Device) -> Result<Arc<CudaContext>, String> {
    let context = CudaContext::new(device_index(device)? as usize).map_err(driver("creating a context"))?;
    // SAFETY: everything here happens on one stream, whose order is all that is needed; events of cudarc's own would
    // get between the measured products.
    unsafe { context.disable_event_tracking() };
    Ok(context)
}

/// As `Device::time_each`: operations queued back to back with an event between.
pub(super) fn time_each(
    stream: &CudaStream,
    repeats: usize,
    mut operation: impl FnMut(usize) -> Result<(), String>,
) -> Result<Vec<Duration>, String> {
    let event = |_| stream.context().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
    let events = (0..=repeats).map(event).collect::<Result<Vec<_>, _>>().map_err(driver("creating an event"))?;
    let record = |event: &CudaEvent| event.record(stream).map_err(driver("recording an event"));
    record(&events[0])?;
    for repeat in 0..repeats {
        operation(repeat)?;
        record(&events[repeat + 1])?;
    }
    let elapsed = |pair: &[CudaEvent]| {
        let milliseconds = pair[0].elapsed_ms(&pair[1]).map_err(driver("reading an event"))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    };
    events.windows(2).map(elapsed).collect()
}

/// An error of the driver, with what was being done.
pub(super) fn driver(what: &'static str) -> impl Fn(DriverError) -> String {
    move |error| format!("{what}: {error}")
}

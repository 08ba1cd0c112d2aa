//! Timing of operations on the device.

#[cfg(feature = "cuda")]
mod events;

use std::time::{Duration, Instant};

use super::{Backend, Device, recording, vector::host_zeros};
use crate::{
    Result,
    parallel::{for_pieces, threads},
};

impl Device {
    /// Runs `operation` `repeats` times, passing the number of the repeat, and returns the device time of each run.
    ///
    /// On a GPU the stream is blocked while up to 64 operations are queued, with an event between each two, and then
    /// released. The times are those between events, without the host time for queueing. The operations must be queued
    /// on this device. Call the operation once beforehand, because the first use of a kernel loads it. On the CPU and
    /// the emulated device the result is the wall time of each call.
    ///
    /// The stream is blocked for a tenth of a second at most. If an operation waits for the device, here or in another
    /// thread, or the driver's queue fills up, the stream continues after that time, and the measured times may include
    /// host time. To time such operations, record them in a [`Graph`](crate::Graph), or measure the wall time of many.
    ///
    /// # Errors
    /// Those of `operation`; [`Error::Driver`](crate::Error::Driver).
    pub fn time_each(&self, repeats: usize, mut operation: impl FnMut(usize) -> Result<()>) -> Result<Vec<Duration>> {
        recording::refuse("timing")?;
        match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => (0..repeats)
                .map(|repeat| {
                    let start = Instant::now();
                    operation(repeat)?;
                    Ok(start.elapsed())
                })
                .collect(),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.time_each(repeats, operation),
        }
    }

    /// Measures the bandwidth of a large copy within the device's memory, in bytes per second, counting bytes read and
    /// bytes written: the median of 20 copies of up to 1 GiB on a GPU, of 10 copies of 256 MiB by all threads on the
    /// CPU.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Driver`](crate::Error::Driver).
    pub fn measure_copy_bandwidth(&self) -> Result<f64> {
        let (bytes, mut times) = match self.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => {
                let bytes = 256 << 20;
                let mut source = host_zeros::<u64>(self, bytes / 8)?;
                source.fill(1); // pages of zeros may all be one page
                let mut target = host_zeros::<u64>(self, bytes / 8)?;
                let copy = |_| {
                    copy_by_all_threads(&source, &mut target);
                    Ok(())
                };
                (bytes, self.time_each(11, copy)?)
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.time_copies()?,
        };
        times.remove(0); // the warm-up
        times.sort();
        Ok(2.0 * bytes as f64 / times[times.len() / 2].as_secs_f64())
    }
}

fn copy_by_all_threads(source: &[u64], target: &mut [u64]) {
    let chunk = source.len().div_ceil(threads());
    for_pieces(target, chunk, |number, to| to.copy_from_slice(&source[number * chunk..][..to.len()]));
}

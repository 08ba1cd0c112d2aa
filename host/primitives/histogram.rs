//! Counts of keys.

use kernels_gpu::histogram::{Args, Key, SHARED_BINS, grid_size};

use crate::{
    DeviceVec, Error, Result,
    device::{Backend, launch},
};

impl DeviceVec<u32> {
    /// Returns how often each of the numbers `0..bins` occurs among the elements. Greater elements are not counted. Queued without waiting;
    /// `O(n + bins)` work.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let x = Device::auto().upload_vec(&[2u32, 0, 2, 9])?;
    /// assert_eq!(x.histogram(4)?.to_vec()?, [1, 0, 2, 0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](Error::Unsupported) for 2^32 elements or bins and more, [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver).
    pub fn histogram(&self, bins: usize) -> Result<Self> {
        let (n, limit) = (self.len(), u32::MAX as usize);
        if n > limit || bins > limit {
            return Err(Error::Unsupported(format!("a histogram of {n} elements in {bins} bins: at most 2^32 - 1")));
        }
        let mut counts = self.device().zeros::<u32>(bins)?;
        if let Backend::Cpu { .. } = self.device().backend() {
            let counts = counts.as_slice_mut().on_cpu_mut();
            for &key in self.as_slice().on_cpu() {
                if let Some(count) = counts.get_mut(key as usize) {
                    *count += 1;
                }
            }
        } else if n > 0 && bins > 0 {
            let bins = bins as u32;
            let entry = Key { in_shared: bins <= SHARED_BINS }.entry();
            let (queue, counts) = counts.as_slice_mut().into_writable();
            let args = Args { n: n as u64, bins, keys: self.readable(), counts };
            // SAFETY: the arrays are as long as their fields say, and the counts new zeros, in shared memory no more than fit.
            unsafe { launch(queue, entry, grid_size(n as u64), args) }?;
        }
        Ok(counts)
    }
}

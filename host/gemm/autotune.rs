//! Autotuning of dense products.

use std::time::Duration;

use super::{GemmOptions, check, gemm_with, gpu};
use crate::{DenseMut, DenseRef, Result, Scalar, device::Backend};

/// Finds the fastest options for products of such matrices. Times every tile, with its sums split among 1, 2, 4...
/// blocks until all multiprocessors are busy, with a temporary `C`. `A` and `B` should hold realistic values, which
/// affect the speed.
///
/// ```
/// use warpsparse::{Device, gemm_autotune, gemm_with};
///
/// let device = Device::auto();
/// let (a, b) = (device.upload_vec(&[1.0f32; 6])?, device.upload_vec(&[2.0; 12])?);
/// let mut c = device.zeros(8)?;
/// let (a, b) = (a.matrix((2, 3))?, b.matrix((3, 4))?);
/// let fastest = gemm_autotune(a, b, &c.matrix_mut((2, 4))?)?;
/// gemm_with(&fastest, 1.0, a, b, 0.0, c.matrix_mut((2, 4))?)?;
/// assert_eq!(c.to_vec()?, [6.0; 8]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Returns the default options on the CPU, and for empty products.
///
/// # Errors
/// As [`gemm`](crate::gemm); [`OutOfMemory`](crate::Error::OutOfMemory) if there is no room for another `C`, or for the
/// partial sums of split products.
pub fn gemm_autotune<T: Scalar>(a: DenseRef<'_, T>, b: DenseRef<'_, T>, c: &DenseMut<'_, T>) -> Result<GemmOptions> {
    check(&a, &b, c)?;
    let (device, size) = (c.device(), (c.nrows(), c.ncols()));
    if matches!(device.backend(), Backend::Cpu { .. }) || size.0 == 0 || size.1 == 0 {
        return Ok(GemmOptions::default());
    }
    let layout = c.layout().packed();
    let repeats = if device.is_cuda() { 9 } else { 1 };
    let mut scratch = device.zeros::<T>(size.0 * size.1)?;
    let mut best: Option<(Duration, GemmOptions)> = None;
    for options in gpu::candidates(a, b, c)? {
        let mut product = |_| gemm_with(&options, T::from_f64(1.0), a, b, T::default(), scratch.matrix_mut(layout)?);
        product(0)?; // the first use of a kernel loads it
        let mut times = device.time_each(repeats, product)?;
        times.sort();
        let time = times[times.len() / 2];
        if best.as_ref().is_none_or(|(least, _)| time < *least) {
            best = Some((time, options));
        }
    }
    Ok(best.map_or_else(GemmOptions::default, |(_, options)| options))
}

//! Launches of the kernel family `vector_scale`.

use kernels_gpu::vector_scale::{Args, VARIANTS, grid_size};

use super::variant_of;
use crate::{DeviceSliceMut, Result, Scalar, device::KernelLaunch};

/// `y = beta * y` on a GPU or in the emulator, of a `y` that is aligned to 16 bytes. With `beta` = 0 the old `y` is not read.
pub(super) fn scale<T: Scalar>(beta: T, y: DeviceSliceMut<'_, T>) -> Result<()> {
    let n = y.len() as u32;
    if n == 0 || beta == T::from_f64(1.0) {
        return Ok(());
    }
    let variant = variant_of(VARIANTS, T::DTYPE);
    let (queue, y, first) = y.into_parts();
    let mut launch = KernelLaunch::of_family(queue, "vector_scale", variant, grid_size(n));
    let args = Args { n, beta, y: launch.write("y", y, queue).wrapping_add(first) };
    // SAFETY: `y` has `n` elements, for matrices have at most u32::MAX rows and columns, and is borrowed mutably.
    unsafe { launch.run_variant(variant, &args) }
}

//! Launches of the kernel family `vector_scale`.

use kernels_gpu::vector_scale::{Args, Key, grid_size};

use crate::{DeviceSliceMut, Result, Scalar, device::launch};

/// Computes `y = beta * y` on a GPU or in the emulator, for a `y` aligned to 16 bytes. With `beta` = 0 the old `y` is
/// not read.
pub(super) fn scale<T: Scalar>(beta: T, y: DeviceSliceMut<'_, T>) -> Result<()> {
    let n = y.len() as u32;
    if n == 0 || beta == T::from_f64(1.0) {
        return Ok(());
    }
    let entry = Key { dtype: T::DTYPE }.entry();
    let (queue, y) = y.into_writable();
    let blocks = grid_size(n);
    let args = Args { n, beta, y };
    // SAFETY: `y` has `n` elements, for matrices have at most u32::MAX rows and columns, and is borrowed mutably.
    unsafe { launch(queue, entry, blocks, args) }
}

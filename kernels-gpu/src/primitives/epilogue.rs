//! What a product does with the old `y`.

use cuda_std::mem;

use crate::{Scalar, unroll::unroll};

/// `alpha * sum + beta * old`, where `old` does not count if `beta` is 0.
#[inline(always)]
pub(crate) fn combine<T: Scalar>(alpha: T, sum: T, beta: T, old: T) -> T {
    combine_with(alpha, sum, beta, || old)
}

/// [`combine`], where `old` is called unless `beta` is 0.
#[inline(always)]
fn combine_with<T: Scalar>(alpha: T, sum: T, beta: T, old: impl FnOnce() -> T) -> T {
    let product = alpha * sum;
    if beta == T::ZERO { product } else { beta.mul_add(old(), product) }
}

/// `y = alpha * sum + beta * y`, where the old `y` is not read if `beta` is 0.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<T> {
    pub(crate) alpha: T,
    pub(crate) beta: T,
    pub(crate) rows: u32,
    pub(crate) y: *mut T,
}

impl<T: Scalar> Epilogue<T> {
    /// Writes one row.
    ///
    /// # Safety
    /// `row` is a row of `y`, which is live global memory of `rows` elements, and no other thread has it.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, row: usize, sum: T) {
        // SAFETY: the caller's promise.
        unsafe {
            let y = self.y.add(row);
            mem::store(y, combine_with(self.alpha, sum, self.beta, || mem::load(y)));
        }
    }

    /// Writes the rows from `row` on, as many as there are of the `ROWS`, 2 or 4.
    ///
    /// # Safety
    /// `row` is a row of `y` and a multiple of `ROWS`; `y` is live global memory of `rows` elements, aligned to 16 bytes, and
    /// no other thread has these rows.
    #[inline(always)]
    pub(crate) unsafe fn write_rows<const ROWS: usize>(&self, row: usize, sums: [T; ROWS]) {
        // SAFETY: the caller's promise.
        unsafe {
            if row + ROWS > self.rows as usize {
                unroll!(R in [0, 1, 2, 3] {
                    if (R as usize) < ROWS && row + (R as usize) < self.rows as usize {
                        self.write(row + R as usize, sums[R as usize % ROWS]);
                    }
                });
                return;
            }
            let y = self.y.add(row);
            let mut new = [T::ZERO; ROWS];
            if self.beta != T::ZERO {
                new = load_rows::<T, ROWS, false>(y);
            }
            unroll!(R in [0, 1, 2, 3] {
                if (R as usize) < ROWS {
                    new[R as usize % ROWS] = combine(self.alpha, sums[R as usize % ROWS], self.beta, new[R as usize % ROWS]);
                }
            });
            if ROWS == 4 {
                mem::store_v4(y, [new[0], new[1 % ROWS], new[2 % ROWS], new[3 % ROWS]]);
            } else {
                mem::store_v2(y, [new[0], new[1 % ROWS]]);
            }
        }
    }
}

/// `ROWS` elements from `ptr` on, 2 or 4, by one load: past the cache if `STREAMING`.
///
/// # Safety
/// What the load asks for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load_rows<T: mem::DeviceValue, const ROWS: usize, const STREAMING: bool>(
    ptr: *const T,
) -> [T; ROWS] {
    let mut rows = [T::default(); ROWS];
    // SAFETY: the caller's promise.
    unsafe {
        match (ROWS, STREAMING) {
            (4, true) => rows.copy_from_slice(&mem::load_streaming_v4(ptr)),
            (4, false) => rows.copy_from_slice(&mem::load_v4(ptr)),
            (_, true) => rows.copy_from_slice(&mem::load_streaming_v2(ptr)),
            (_, false) => rows.copy_from_slice(&mem::load_v2(ptr)),
        }
    }
    rows
}

//! The inverse of a small matrix.

use cuda_std::{GpuFloat, mem, shared_array, thread};

use super::{InvertArgs, rows::MAX_COLUMNS};
use crate::{DType, Scalar};

/// Threads of `invert`, one for each element.
pub const INVERT_BLOCK_SIZE: u32 = MAX_COLUMNS * MAX_COLUMNS;

/// Of a matrix with ones on its diagonal, whose products are rounded to this type: the pivot from which on a column counts, and the pivot below which the matrix is
/// not positive definite.
#[must_use]
pub const fn pivots(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F32 => (1e-6, -1e-3),
        DType::F64 => (1e-12, -1e-8),
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn invert<T: Scalar>(args: InvertArgs<T>) {
    let matrix = shared_array![f64; INVERT_BLOCK_SIZE as usize];
    let InvertArgs { size, width, gram, factor, inverse } = args;
    let (least, lowest) = pivots(T::DTYPE);
    let at = thread::thread_idx_x();
    let (i, j) = (at / MAX_COLUMNS, at % MAX_COLUMNS);
    let exists = i < size && j < size;
    // SAFETY: the rules of this family; barriers separate what threads store from what others load.
    unsafe {
        let element = |i: u32, j: u32| mem::load_readonly(gram.wrapping_add((i * width + j) as usize));
        let (mut norms, mut is_definite) = (1.0, true);
        if exists {
            norms = GpuFloat::sqrt(element(i, i)) * GpuFloat::sqrt(element(j, j));
        }
        let own = if exists { 0.5 * (element(i, j) + element(j, i)) / norms } else { 0.0 };
        matrix.store(at, own);
        thread::sync_threads();
        let (mut kept, mut k) = (0u32, 0);
        while k < size {
            let pivot = matrix.load(k * MAX_COLUMNS + k);
            let (own, left, above) =
                (matrix.load(at), matrix.load(i * MAX_COLUMNS + k), matrix.load(k * MAX_COLUMNS + j));
            // A NaN, as of the root of what is less than 0, is not.
            is_definite &= pivot >= lowest;
            thread::sync_threads();
            if pivot > least {
                kept |= 1 << k;
                let swept = match (i == k, j == k) {
                    (true, true) => -1.0 / pivot,
                    (false, false) => own - left * above / pivot,
                    _ => own / pivot,
                };
                matrix.store(at, swept);
            }
            thread::sync_threads();
            k += 1;
        }
        if i < width && j < width {
            let is_kept = exists && (kept >> i) & (kept >> j) & 1 == 1;
            let result = match is_definite {
                true if is_kept => matrix.load(at) / norms,
                true => 0.0,
                false => f64::NAN,
            };
            mem::store(factor.wrapping_add((i * width + j) as usize), T::narrow(result));
            mem::store(inverse.wrapping_add((i * width + j) as usize), result);
        }
    }
}

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
    // Before and after a step; and the reciprocals of the pivots.
    let matrices = shared_array![f64; 2 * INVERT_BLOCK_SIZE as usize];
    let reciprocals = shared_array![f64; 2];
    let InvertArgs { width, state, gram, factor, inverse } = args;
    let (least, lowest) = pivots(T::DTYPE);
    let at = thread::thread_idx_x();
    let (i, j) = (at / MAX_COLUMNS, at % MAX_COLUMNS);
    // SAFETY: the rules of this family; barriers separate what threads store from what others load.
    unsafe {
        let size = mem::load_readonly(state.add(1));
        let exists = i < size && j < size;
        let element = |i: u32, j: u32| mem::load_readonly(gram.wrapping_add((i * width + j) as usize));
        let (mut norms, mut is_definite) = (1.0, true);
        if exists {
            norms = GpuFloat::sqrt(element(i, i)) * GpuFloat::sqrt(element(j, j));
        }
        let mut own = if exists { 0.5 * (element(i, j) + element(j, i)) / norms } else { 0.0 };
        let (mut kept, mut k) = (0u32, 0);
        while k < size {
            let matrix = matrices.offset(k % 2 * INVERT_BLOCK_SIZE);
            let reciprocal = reciprocals.offset(k % 2);
            matrix.store(at, own);
            if i == k && j == k {
                reciprocal.store(0, 1.0 / own);
            }
            thread::sync_threads();
            let pivot = matrix.load(k * MAX_COLUMNS + k);
            let (left, above) = (matrix.load(i * MAX_COLUMNS + k), matrix.load(k * MAX_COLUMNS + j));
            // A NaN, as of the root of what is less than 0, is not.
            is_definite &= pivot >= lowest;
            if pivot > least {
                kept |= 1 << k;
                let reciprocal = reciprocal.load(0);
                own = match (i == k, j == k) {
                    (true, true) => -reciprocal,
                    (false, false) => GpuFloat::mul_add(-left * reciprocal, above, own),
                    _ => own * reciprocal,
                };
            }
            k += 1;
        }
        if i < width && j < width {
            let is_kept = exists && (kept >> i) & (kept >> j) & 1 == 1;
            let result = match is_definite {
                true if is_kept => own / norms,
                true => 0.0,
                false => f64::NAN,
            };
            mem::store(factor.wrapping_add((i * width + j) as usize), T::narrow(result));
            mem::store(inverse.wrapping_add((i * width + j) as usize), result);
        }
    }
}

//! Dropout: `y[i] = x[i] / (1 - p)` with probability `1 - p`, otherwise 0 (Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
//! Overfitting", 2014).
//!
//! # The mathematics
//! Whether an element is kept depends on a seed, the number of the step and the element's index alone. Philox4x32-10 (Salmon et al., "Parallel Random
//! Numbers: As Easy as 1, 2, 3", 2011) gives 32 bits for each element: the seed is the key, and the counter has the index of a group of 4 elements and the
//! step. So the backward pass computes the same mask again, and nothing stores it. The step is read from memory, so that a recorded launch gets a new mask
//! for each step.
//!
//! # Threads
//! A chunk of 16 bytes each: 4 elements of `f32`, 2 of `f64`.
//!
//! # Bytes moved
//! `2 * n * sizeof T`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; `x` may be `y`. Nothing else accesses `y` during the launch, and nothing
//!    writes `x` and `step`.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::mem;

pub use crate::vector::chunk::{BLOCK_SIZE, grid_size};
use crate::{
    DType, Scalar,
    args::args,
    family::family,
    unroll::unroll,
    vector::chunk::{are_aligned, first, load, store},
};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u64,
        /// The key.
        value seed: u64,
        /// An element is dropped if its 32 bits are less: `p * 2^32`.
        value threshold: u32,
        /// `1 / (1 - p)`.
        value factor: T,
        /// The number of the step, an integer.
        read step: f64 [1],
        /// `n` elements, or null for those of `y`.
        read x: T [null or n as usize],
        /// `n` elements.
        write y: T [n as usize],
    }
}

family! {
    "dropout", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    dropout_f32(DType::F32): Args<f32> => dropout::<f32, 4>;
    dropout_f64(DType::F64): Args<f64> => dropout::<f64, 2>;
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dropout<T: Scalar, const W: usize>(args: Args<T>) {
    const { assert!(W == 2 || W == 4) }
    let Args { n, seed, threshold, factor, step, x, y } = args;
    let x = if x.is_null() { y.cast_const() } else { x };
    let at = first::<W>(1, 0);
    if at >= n {
        return;
    }
    // SAFETY: at < n; the caller's promise.
    unsafe {
        let [a, b, c, d] = philox(at / 4, mem::load(step) as u64, seed);
        let bits = if at.is_multiple_of(4) { [a, b, c, d] } else { [c, d, a, b] };
        let applied = |x: T, bits: u32| if bits < threshold { T::ZERO } else { x * factor };
        if are_aligned([x as usize, y as usize]) {
            let mut chunk = load::<T, W>(x, at, n);
            unroll!(E in [0, 1, 2, 3] {
                if (E as usize) < W {
                    chunk[E as usize % W] = applied(chunk[E as usize % W], bits[E as usize]);
                }
            });
            store(y, at, n, chunk);
        } else {
            unroll!(E in [0, 1, 2, 3] {
                if (E as usize) < W && at + u64::from(E) < n {
                    let [element] = load::<T, 1>(x, at + u64::from(E), n);
                    store(y, at + u64::from(E), n, [applied(element, bits[E as usize])]);
                }
            });
        }
    }
}

/// Philox4x32-10 of the counter `[group, step]`: 32 bits for each of the 4 elements of a group.
#[inline(always)]
#[must_use]
pub fn philox(group: u64, step: u64, seed: u64) -> [u32; 4] {
    let mut counter = [group as u32, (group >> 32) as u32, step as u32, (step >> 32) as u32];
    let mut key = [seed as u32, (seed >> 32) as u32];
    unroll!(ROUND in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] {
        if ROUND != 0 {
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let third = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (third >> 32) as u32 ^ counter[1] ^ key[0],
            third as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
    });
    counter
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::philox;

    /// The known answers of Random123.
    #[test]
    fn philox_gives_the_published_numbers() {
        assert_eq!(philox(0, 0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u64::MAX, u64::MAX, u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox(0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e, 0x299f_31d0_a409_3822),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}

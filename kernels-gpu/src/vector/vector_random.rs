//! Random numbers, each a function of a seed and of its place alone: the same on every device, in any order.
//!
//! # The mathematics
//! [`philox`](crate::philox): the seed is the key, the number of the block of 16 bytes the counter. Uniform numbers are multiples of 2^-24
//! (`f32`) and 2^-53 (`f64`) in [0, 1), scaled. Normal ones are made of two uniform ones each two (Box & Muller, "A Note on the Generation of
//! Random Normal Deviates", 1958), by the functions of
//! [`math`](super::math).
//!
//! # Threads
//! A chunk of 16 bytes each, which is a block of the generator.
//!
//! # Bytes moved
//! `n * sizeof T`.
//!
//! # Safety
//! Every entry:
//! 1. `y` is live global memory of `n` elements, and nothing else accesses it during the launch.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::GpuFloat;

pub use super::chunk::{BLOCK_SIZE, grid_size};
use super::{
    chunk::{are_aligned, first, store},
    math::Math,
};
use crate::{DType, args::args, family::family, philox::philox, unroll::unroll};

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u64,
        /// The key.
        value seed: u64,
        /// Added to the numbers, after the factor.
        value shift: T,
        /// What numbers are multiplied by.
        value factor: T,
        /// `n` elements.
        write y: T [n as usize],
    }
}

family! {
    "vector_random", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Whether numbers are of the normal distribution, or else uniform.
        normal: bool,
    }

    vector_random_uniform_f32(DType::F32, false): Args<f32> => uniform::<f32, 4>;
    vector_random_uniform_f64(DType::F64, false): Args<f64> => uniform::<f64, 2>;
    vector_random_normal_f32(DType::F32, true): Args<f32> => normal::<f32, 4>;
    vector_random_normal_f64(DType::F64, true): Args<f64> => normal::<f64, 2>;
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn uniform<T: Math, const W: usize>(args: Args<T>) {
    // SAFETY: the caller's promise.
    unsafe { write::<T, W>(args, uniform_numbers) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn normal<T: Math, const W: usize>(args: Args<T>) {
    // SAFETY: the caller's promise.
    unsafe { write::<T, W>(args, normal_numbers) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn write<T: Math, const W: usize>(args: Args<T>, numbers: impl Fn([u32; 4]) -> [T; 4]) {
    let Args { n, seed, shift, factor, y } = args;
    let at = first::<W>(1, 0);
    if at >= n {
        return;
    }
    let numbers = numbers(philox([at / W as u64, 0], seed));
    let mut chunk = [T::ZERO; W];
    unroll!(E in [0, 1, 2, 3] {
        if (E as usize) < W {
            chunk[E as usize % W] = factor.mul_add(numbers[E as usize], shift);
        }
    });
    // SAFETY: at < n; the caller's promise.
    unsafe {
        if are_aligned([y as usize]) {
            store(y, at, n, chunk);
        } else {
            unroll!(E in [0, 1, 2, 3] {
                if (E as usize) < W && at + u64::from(E) < n {
                    store(y, at + u64::from(E), n, [chunk[E as usize % W]]);
                }
            });
        }
    }
}

/// Uniform numbers in [0, 1): four of 24 bits, or of 53 bits two, then zeros.
#[inline(always)]
#[must_use]
pub fn uniform_numbers<T: Math>(words: [u32; 4]) -> [T; 4] {
    if matches!(T::DTYPE, DType::F32) {
        let number = |word: u32| T::narrow(f64::from((word >> 8) as f32 * (1.0 / 16_777_216.0)));
        [number(words[0]), number(words[1]), number(words[2]), number(words[3])]
    } else {
        let number = |low: u32, high: u32| {
            let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
            T::narrow(bits as f64 * (1.0 / 9_007_199_254_740_992.0))
        };
        [number(words[0], words[1]), number(words[2], words[3]), T::ZERO, T::ZERO]
    }
}

/// Normal numbers with mean 0 and variance 1: four, or two and then zeros.
#[inline(always)]
#[must_use]
pub fn normal_numbers<T: Math>(words: [u32; 4]) -> [T; 4] {
    let [a, b, c, d] = uniform_numbers::<T>(words);
    let pair = |uniform: T, turns: T| {
        // 1 - [0, 1) is greater than 0, and exact.
        let two = T::ONE + T::ONE;
        let radius = GpuFloat::sqrt(-(two * (T::ONE - uniform).ln()));
        let (sin, cos) = turns.sin_cos_turns();
        (radius * cos, radius * sin)
    };
    let (first, second) = pair(a, b);
    if matches!(T::DTYPE, DType::F64) {
        return [first, second, T::ZERO, T::ZERO];
    }
    let (third, fourth) = pair(c, d);
    [first, second, third, fourth]
}

//! A step of Adam (Kingma & Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1).
//!
//! # The mathematics
//! For step `t` = 1, 2, ... and every weight `w` with gradient `g`:
//! ```text
//! g' = g + decay * w
//! m  = beta1 * m + (1 - beta1) * g'
//! v  = beta2 * v + (1 - beta2) * g'^2
//! w  = w - rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
//! ```
//! `beta^t` is `e^(t ln beta)` in `f64`. The step is read from memory, so that a recorded launch serves every step.
//!
//! # Threads
//! An element each. The first thread of a block computes the [`Correction`] for all of them.
//!
//! # Bytes moved
//! `7 * n * sizeof T`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing else accesses `m`, `v` and `w` during the launch, and nothing
//!    writes `gradient` and `step`.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{GpuFloat, mem, shared_array, thread};

use crate::{DType, Scalar, args::args, family::family, grid::thread_index, math::Math};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// The numbers of the method.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Numbers<T> {
    /// The learning rate.
    pub rate: f64,
    /// The natural logarithm of `beta1`.
    pub ln_beta1: f64,
    /// The natural logarithm of `beta2`.
    pub ln_beta2: f64,
    /// How much of the first moment stays.
    pub beta1: T,
    /// How much of the second moment stays.
    pub beta2: T,
    /// Added to the root of the second moment.
    pub epsilon: T,
    /// The weight decay.
    pub decay: T,
}

/// What depends on the step alone.
#[derive(Clone, Copy, Debug)]
pub struct Correction<T> {
    /// `rate / (1 - beta1^t)`.
    pub rate: T,
    /// `1 / sqrt(1 - beta2^t)`.
    pub root: T,
}

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Weights.
        value n: u64,
        /// The numbers of the method.
        value numbers: Numbers<T>,
        /// The number of the step, an integer and at least 1.
        read step: f64 [1],
        /// `n` elements.
        read gradient: T [n as usize],
        /// The first moments: `n` elements.
        write m: T [n as usize],
        /// The second moments: `n` elements.
        write v: T [n as usize],
        /// The weights: `n` elements.
        write w: T [n as usize],
    }
}

family! {
    "adam", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
    }

    adam_f32(DType::F32): Args<f32> => adam::<f32>;
    adam_f64(DType::F64): Args<f64> => adam::<f64>;
}

/// Blocks for `n` weights.
#[must_use]
pub const fn grid_size(n: u64) -> u64 {
    n.div_ceil(BLOCK_SIZE as u64)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn adam<T: Scalar>(args: Args<T>) {
    let of_block = shared_array![T; 2];
    let Args { n, numbers, step, gradient, m, v, w } = args;
    let i = thread_index::<BLOCK_SIZE>();
    // SAFETY: whole blocks come to the barrier, before which the first thread alone writes. i < n, and no other thread has this weight.
    unsafe {
        if thread::thread_idx_x() == 0 {
            let Correction { rate, root } = correction(&numbers, mem::load(step));
            of_block.store(0, rate);
            of_block.store(1, root);
        }
        thread::sync_threads();
        if i < n {
            let i = i as usize;
            let correction = Correction { rate: of_block.load(0), root: of_block.load(1) };
            let old = [mem::load(m.add(i)), mem::load(v.add(i)), mem::load(w.add(i))];
            let [of_m, of_v, of_w] = update(&numbers, correction, mem::load(gradient.add(i)), old);
            mem::store(m.add(i), of_m);
            mem::store(v.add(i), of_v);
            mem::store(w.add(i), of_w);
        }
    }
}

/// The correction of step `t`.
#[inline(always)]
#[must_use]
pub fn correction<T: Scalar>(numbers: &Numbers<T>, t: f64) -> Correction<T> {
    let first = 1.0 - Math::exp(t * numbers.ln_beta1);
    let second = 1.0 - Math::exp(t * numbers.ln_beta2);
    Correction { rate: T::narrow(numbers.rate / first), root: T::narrow(1.0 / GpuFloat::sqrt(second)) }
}

/// The new moments and the new weight.
#[inline(always)]
#[must_use]
pub fn update<T: Scalar>(numbers: &Numbers<T>, correction: Correction<T>, gradient: T, [m, v, w]: [T; 3]) -> [T; 3] {
    let Numbers { beta1, beta2, epsilon, decay, .. } = *numbers;
    let g = GpuFloat::mul_add(decay, w, gradient);
    let m = GpuFloat::mul_add(beta1, m, (T::ONE - beta1) * g);
    let v = GpuFloat::mul_add(beta2, v, (T::ONE - beta2) * g * g);
    let w = w - correction.rate * m / GpuFloat::mul_add(GpuFloat::sqrt(v), correction.root, epsilon);
    [m, v, w]
}

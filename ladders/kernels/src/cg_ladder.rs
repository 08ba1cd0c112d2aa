//! Steps of the preconditioned conjugate gradient method, each a kernel of its own, for programs that have vendors'
//! libraries do the others, one operation after the other.
//!
//! # The mathematics
//! ```text
//! alpha    alpha = rz / pq, minus_alpha = -alpha
//! beta     beta = rz / rz_old, then rz_old = rz
//! jacobi   z[i] = inverse_diagonal[i] * r[i]
//! dot      result = sum(a[i] * b[i]), the products and the sum in f64, rounded once
//! ```
//! Scalars lie on the device, so that no step waits for the host.
//!
//! # When to use it
//! To compare with: a solver of this library's own fuses these steps with their neighbours.
//!
//! # Blocks and threads of a dot product
//! ```text
//! thread   0   1   ...  255 | 0  ...  255 | ...      elements of blocks 0, 1, ..., then from block 0 on again
//! block    lane 0: threads 0, 32, ... 224   lane 1: threads 1, 33, ...     of warp 0, from shared memory
//! grid     lane 0: blocks 0, 32, ...        lane 1: blocks 1, 33, ...      of warp 0 in the block that comes last
//! ```
//! Which block comes last differs from launch to launch, but not the order of the additions: the same input gives the same
//! bits. A NaN or an infinity among the elements is found in the result.
//!
//! # Bytes moved
//! `alpha` and `beta` a few scalars; `jacobi` `3 * n * sizeof T`; `dot` `2 * n * sizeof T`, half of that if `a` is `b` and
//! stays in the caches, and 16 bytes a block.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else,
//!    and nothing else accesses it during the launch; what is read only is not written meanwhile.
//! 2. Blocks have the variant's threads in one dimension. The grid has 1 block for `alpha` and `beta`,
//!    [`jacobi_grid_size`] for `jacobi`, [`dot_grid_size`] for `dot`.
//! 3. `arrivals` is zero before the launch, which leaves it so, and no two launches that share it run at a time.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use cuda_std::{
    GpuFloat,
    atomic::{atomic_fetch_add_u32_device, atomic_store_u32_device, device_thread_fence},
    mem,
    shared::Shared,
    shared_array, thread,
    warp::{self, WARP_SIZE},
};

use kernels_gpu::{DType, Scalar, family, unroll};

/// Threads per block of `jacobi` and `dot`.
pub const BLOCK_SIZE: u32 = 256;

/// The most blocks of a `dot`.
pub const MAX_DOT_BLOCKS: u32 = 1024;

/// Elements that a thread of `dot` loads before it uses the first.
const ELEMENTS_PER_STEP: u32 = 4;

/// The arguments of `alpha`, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AlphaArgs<T> {
    /// One element, the dividend.
    pub rz: *const T,
    /// One element, the divisor.
    pub pq: *const T,
    /// One element, to write.
    pub alpha: *mut T,
    /// One element, to write.
    pub minus_alpha: *mut T,
}

/// The arguments of `beta`, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BetaArgs<T> {
    /// One element, the dividend.
    pub rz: *const T,
    /// One element, the divisor, and then `rz`.
    pub rz_old: *mut T,
    /// One element, to write.
    pub beta: *mut T,
}

/// The arguments of `jacobi`, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct JacobiArgs<T> {
    /// Elements.
    pub n: u32,
    /// `n` elements.
    pub inverse_diagonal: *const T,
    /// `n` elements.
    pub r: *const T,
    /// `n` elements, to write.
    pub z: *mut T,
}

/// The arguments of `dot`, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DotArgs<T> {
    /// Elements.
    pub n: u32,
    /// `n` elements.
    pub a: *const T,
    /// `n` elements, which may be those of `a`.
    pub b: *const T,
    /// Room for a number a block.
    pub partials: *mut f64,
    /// A counter, 0.
    pub arrivals: *mut u32,
    /// One element, to write.
    pub result: *mut T,
}

/// A step of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// With [`AlphaArgs`].
    Alpha,
    /// With [`BetaArgs`].
    Beta,
    /// With [`JacobiArgs`].
    Jacobi,
    /// With [`DotArgs`].
    Dot,
}

family! {
    "cg_ladder", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The step.
        step: Step,
        /// The type of the elements.
        dtype: DType,
    }

    cg_ladder_alpha_f32(Step::Alpha, DType::F32): AlphaArgs<f32>, blocks of 1 => alpha::<f32>;
    cg_ladder_alpha_f64(Step::Alpha, DType::F64): AlphaArgs<f64>, blocks of 1 => alpha::<f64>;
    cg_ladder_beta_f32(Step::Beta, DType::F32): BetaArgs<f32>, blocks of 1 => beta::<f32>;
    cg_ladder_beta_f64(Step::Beta, DType::F64): BetaArgs<f64>, blocks of 1 => beta::<f64>;
    cg_ladder_jacobi_f32(Step::Jacobi, DType::F32): JacobiArgs<f32> => jacobi::<f32>;
    cg_ladder_jacobi_f64(Step::Jacobi, DType::F64): JacobiArgs<f64> => jacobi::<f64>;
    cg_ladder_dot_f32(Step::Dot, DType::F32): DotArgs<f32> => dot::<f32>;
    cg_ladder_dot_f64(Step::Dot, DType::F64): DotArgs<f64> => dot::<f64>;
}

/// Blocks of `jacobi` for `n` elements.
#[must_use]
pub const fn jacobi_grid_size(n: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE)
}

/// Blocks of `dot` for `n` elements: at least one, for the sum of nothing is written too.
#[must_use]
pub const fn dot_grid_size(n: u32) -> u32 {
    match n.div_ceil(BLOCK_SIZE * ELEMENTS_PER_STEP) {
        0 => 1,
        blocks if blocks > MAX_DOT_BLOCKS => MAX_DOT_BLOCKS,
        blocks => blocks,
    }
}

/// The step that is one thread's: how far to go along `p`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn alpha<T: Scalar>(args: AlphaArgs<T>) {
    // SAFETY: single elements, and there is one thread.
    unsafe {
        let alpha = mem::load(args.rz) / mem::load(args.pq);
        mem::store(args.alpha, alpha);
        mem::store(args.minus_alpha, -alpha);
    }
}

/// The step that is one thread's: how much of the old `p` the new one keeps.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn beta<T: Scalar>(args: BetaArgs<T>) {
    // SAFETY: single elements, and there is one thread.
    unsafe {
        let rz = mem::load(args.rz);
        mem::store(args.beta, rz / mem::load(args.rz_old));
        mem::store(args.rz_old, rz);
    }
}

/// An element of the preconditioned residual.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn jacobi<T: Scalar>(args: JacobiArgs<T>) {
    // 64 bits: the last block's elements may lie beyond 2^32.
    let i = u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE) + u64::from(thread::thread_idx_x());
    if i < u64::from(args.n) {
        let i = i as usize;
        // SAFETY: i < n, and no other thread has this element.
        unsafe {
            let product = mem::load_readonly(args.inverse_diagonal.add(i)) * mem::load_readonly(args.r.add(i));
            mem::store(args.z.add(i), product);
        }
    }
}

/// The dot product: each block's part, and the whole in the block that comes last.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dot<T: Scalar>(args: DotArgs<T>) {
    const { assert!(BLOCK_SIZE == 8 * WARP_SIZE) }
    let sums = shared_array![f64; BLOCK_SIZE as usize];
    let thread = thread::thread_idx_x();
    // SAFETY: a place for each thread; the barrier parts the stores from the loads, and all threads come to it. All of
    // warp 0 goes on.
    unsafe {
        // Every thread stores, and no branch comes before the barrier but the loop's: LLVM would copy the barrier into
        // each side of such a branch.
        sums.store(thread, sum_of_thread(&args));
        thread::sync_threads();
        if thread < WARP_SIZE {
            add_block(&args, sums);
        }
    }
}

/// The sum over this thread's share of the elements.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sum_of_thread<T: Scalar>(args: &DotArgs<T>) -> f64 {
    let (n, threads) = (u64::from(args.n), u64::from(thread::grid_dim_x() * BLOCK_SIZE));
    let mut i = u64::from(thread::block_idx_x() * BLOCK_SIZE + thread::thread_idx_x());
    let mut sum = 0.0;
    // Whole steps, whose loads stand before the first use of any. Under a condition each, LLVM would widen the `f32`s at
    // once, and so wait for every load by itself.
    while i + u64::from(ELEMENTS_PER_STEP - 1) * threads < n {
        let mut a = [T::ZERO; ELEMENTS_PER_STEP as usize];
        let mut b = [T::ZERO; ELEMENTS_PER_STEP as usize];
        unroll!(K in [0, 1, 2, 3] {
            // SAFETY: the step ends below n.
            (a[K as usize], b[K as usize]) = unsafe { elements(args, i + u64::from(K) * threads) };
        });
        unroll!(K in [0, 1, 2, 3] {
            sum = GpuFloat::mul_add(a[K as usize].widen(), b[K as usize].widen(), sum);
        });
        i += u64::from(ELEMENTS_PER_STEP) * threads;
    }
    while i < n {
        // SAFETY: i < n.
        let (a, b) = unsafe { elements(args, i) };
        sum = GpuFloat::mul_add(a.widen(), b.widen(), sum);
        i += threads;
    }
    sum
}

/// The two elements at `i`.
///
/// # Safety
/// The rules at the head of this module; `i < n`.
#[inline(always)]
unsafe fn elements<T: Scalar>(args: &DotArgs<T>, i: u64) -> (T, T) {
    // SAFETY: i < n.
    unsafe { (mem::load_readonly(args.a.add(i as usize)), mem::load_readonly(args.b.add(i as usize))) }
}

/// The block's sum, and that of all blocks if this is the last to come.
///
/// # Safety
/// The rules at the head of this module; all lanes of one warp call it, and each thread's sum is stored.
#[inline(always)]
unsafe fn add_block<T: Scalar>(args: &DotArgs<T>, sums: Shared<f64>) {
    let (lane, block, blocks) = (thread::thread_idx_x(), thread::block_idx_x(), thread::grid_dim_x());
    // SAFETY: a sum for each thread, a partial for each block; all 32 lanes are here.
    unsafe {
        let mut sum = 0.0;
        unroll!(WARP in [0, 1, 2, 3, 4, 5, 6, 7] {
            sum += sums.load(WARP * WARP_SIZE + lane);
        });
        let sum = sum_of_lanes(sum);
        let mut arrived = 0;
        if lane == 0 {
            mem::store(args.partials.add(block as usize), sum);
            arrived = atomic_fetch_add_u32_device(args.arrivals, Release, 1);
        }
        arrived = warp::warp_shuffle_idx(u32::MAX, arrived, 0, WARP_SIZE).0;
        if arrived + 1 == blocks {
            // What lane 0 acquires, all see after the barrier.
            if lane == 0 {
                device_thread_fence(Acquire);
            }
            warp::sync_warp(u32::MAX);
            let sum = sum_of_lanes(sum_of_partials(args, lane, blocks));
            if lane == 0 {
                atomic_store_u32_device(args.arrivals, Relaxed, 0);
                mem::store(args.result, T::narrow(sum));
            }
        }
    }
}

/// The sum over a lane's share of the blocks' sums.
///
/// # Safety
/// The rules at the head of this module; each block's sum is stored, and seen here.
#[inline(always)]
unsafe fn sum_of_partials<T>(args: &DotArgs<T>, lane: u32, blocks: u32) -> f64 {
    let mut sum = 0.0;
    let mut block = lane;
    while block < blocks {
        let mut partials = [0.0; 4];
        unroll!(K in [0, 1, 2, 3] {
            if block + K * WARP_SIZE < blocks {
                // SAFETY: a block.
                partials[K as usize] = unsafe { mem::load(args.partials.add((block + K * WARP_SIZE) as usize)) };
            }
        });
        unroll!(K in [0, 1, 2, 3] {
            sum += partials[K as usize];
        });
        block += 4 * WARP_SIZE;
    }
    sum
}

/// The sum over a warp, the same in every lane.
///
/// # Safety
/// All 32 lanes call it.
#[inline(always)]
unsafe fn sum_of_lanes(mut sum: f64) -> f64 {
    unroll!(DISTANCE in [16, 8, 4, 2, 1] {
        // SAFETY: all 32 lanes are here.
        sum += unsafe { warp::warp_shuffle_xor(u32::MAX, sum, DISTANCE, WARP_SIZE).0 };
    });
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_the_elements() {
        assert_eq!([0, 1, 256, 257, u32::MAX].map(jacobi_grid_size), [0, 1, 1, 2, 1 << 24]);
        assert_eq!([0, 1, 1024, 1025, 1 << 20, u32::MAX].map(dot_grid_size), [1, 1, 1, 2, 1024, 1024]);
    }
}

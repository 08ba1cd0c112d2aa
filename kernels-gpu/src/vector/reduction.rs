//! One value of a whole vector, merged over a thread, a warp, a block and the grid. The same elements at the same alignment to 16 bytes give the
//! same bits.
//!
//! Every thread goes over the vector in strides of the grid. A block stores what it has, and the last block to come merges what all have
//! stored, in an order that is always the same.

use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use cuda_std::{
    GpuFloat,
    atomic::{atomic_fetch_add_u32_device, atomic_store_u32_device},
    mem,
    shared::Shared,
    thread,
    warp::WARP_SIZE,
};

use super::chunk::BLOCK_SIZE;
use crate::{
    DType, Scalar,
    args::args,
    lanes::{Partner, butterfly},
    unroll::unroll,
};

/// Chunks of a thread in one stride, of all vectors together: 64 bytes of a thread, 64 KiB of a multiprocessor, are on their way at a time.
/// With half as many an H200 reads 3% less of doubles (2026-11-23).
pub(crate) const CHUNKS: u32 = 4;

/// Blocks that a multiprocessor runs at a time, as far as registers go.
pub(crate) const BLOCKS_AT_A_TIME: u32 = 4;

/// The most blocks of a grid: as many as the 132 multiprocessors of an H100 or H200 run at a time. It is the same for every GPU, so that the
/// bits are.
const MAX_BLOCKS: u64 = BLOCKS_AT_A_TIME as u64 * 132;

/// Doubles that a value takes in memory.
const WORDS: usize = 4;

const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// Elements of [`Workspace::partials`].
pub const PARTIALS: usize = MAX_BLOCKS as usize * WORDS;

/// Elements of [`Workspace::arrivals`].
pub const ARRIVALS: usize = 1;

args! {
    /// Where blocks leave what they have.
    ///
    /// # Safety
    /// Whoever launches with it: `partials` has [`PARTIALS`] elements and `arrivals` [`ARRIVALS`], which are 0 before the launch, and again
    /// after it; nothing else accesses them during the launch.
    pub struct Workspace {
        /// The values of the blocks.
        write partials: f64 [PARTIALS],
        /// Blocks that have come.
        write arrivals: u32 [ARRIVALS],
    }
}

/// Blocks for `n` elements of so many vectors, 1 or 2: one for none.
#[must_use]
pub const fn grid_size<T>(n: u64, vectors: u32) -> u64 {
    let blocks = n.div_ceil((BLOCK_SIZE * CHUNKS / vectors) as u64 * (16 / size_of::<T>()) as u64);
    if blocks == 0 {
        1
    } else if blocks > MAX_BLOCKS {
        MAX_BLOCKS
    } else {
        blocks
    }
}

/// The chunks of each vector that a thread takes, `CHUNKS` at a time.
pub(crate) struct Strides<const CHUNKS: u32> {
    n: u64,
    /// The first element of the block's stride.
    base: u64,
    /// Elements of a stride of the whole grid.
    step: u64,
}

impl<const CHUNKS: u32> Strides<CHUNKS> {
    #[inline(always)]
    pub(crate) fn start<const W: usize>(n: u64) -> Self {
        let of_block = u64::from(BLOCK_SIZE * CHUNKS) * W as u64;
        let (block, blocks) = (u64::from(thread::block_idx_x()), u64::from(thread::grid_dim_x()));
        Self { n, base: block * of_block, step: blocks * of_block }
    }

    #[inline(always)]
    pub(crate) fn has_more(&self) -> bool {
        self.base < self.n
    }

    /// Whether the vector goes on beyond the block's stride, or ends with it.
    #[inline(always)]
    pub(crate) fn is_whole<const W: usize>(&self) -> bool {
        self.base + u64::from(BLOCK_SIZE * CHUNKS) * W as u64 <= self.n
    }

    /// The first element of chunk number `k` of the stride.
    #[inline(always)]
    pub(crate) fn first<const W: usize>(&self, k: u32) -> u64 {
        self.base + u64::from(k * BLOCK_SIZE + thread::thread_idx_x()) * W as u64
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.base += self.step;
    }
}

/// What is known of a part of the vector. Merging is associative but for rounding, and commutative.
pub(crate) trait State: Copy {
    /// Of how many doubles it consists: 1 to 3.
    const USED: usize;
    /// Of no elements.
    const EMPTY: Self;
    fn merge(self, other: Self) -> Self;
    fn words(self) -> [f64; 3];
    fn of_words(words: [f64; 3]) -> Self;
}

/// What several states know together.
#[inline(always)]
pub(crate) fn merged<S: State, const N: usize>(states: [S; N]) -> S {
    let mut merged = states[0];
    unroll!(K in [1, 2, 3] {
        if (K as usize) < N {
            merged = merged.merge(states[K as usize % N]);
        }
    });
    merged
}

/// A state that sums products.
pub(crate) trait AddProduct: State {
    fn add_product(&mut self, a: f64, b: f64);
    fn total(self) -> f64;
}

/// A sum in `f64`.
#[derive(Clone, Copy)]
pub(crate) struct Total(pub(crate) f64);

impl State for Total {
    const USED: usize = 1;
    const EMPTY: Self = Self(0.0);

    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline(always)]
    fn words(self) -> [f64; 3] {
        [self.0, 0.0, 0.0]
    }

    #[inline(always)]
    fn of_words([sum, ..]: [f64; 3]) -> Self {
        Self(sum)
    }
}

impl AddProduct for Total {
    #[inline(always)]
    fn add_product(&mut self, a: f64, b: f64) {
        self.0 = GpuFloat::mul_add(a, b, self.0);
    }

    #[inline(always)]
    fn total(self) -> f64 {
        self.0
    }
}

/// A sum of squares that neither overflows nor underflows before its root does (Blue, "A Portable Fortran Program to Find the Euclidean
/// Norm of a Vector", 1978; Anderson, "Algorithm 978: Safe Scaling in the Level 1 BLAS", 2017): squares of large, of usual and of small numbers are
/// summed apart. The squares of all `f32` are in the range of `f64` and need one sum.
#[derive(Clone, Copy)]
pub(crate) struct Squares<T> {
    usual: f64,
    large: f64,
    small: f64,
    of: core::marker::PhantomData<T>,
}

/// Above it, squares are those of large numbers, scaled by [`SHRINK`].
const LARGE: f64 = power_of_two(486);
/// Below it, squares are those of small numbers, scaled by [`STRETCH`].
const SMALL: f64 = power_of_two(-511);
const SHRINK: f64 = power_of_two(-538);
const STRETCH: f64 = power_of_two(537);

const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

impl<T: Scalar> Squares<T> {
    /// Adds a product that is no square: then [`sum_of_products`](Self::sum_of_products) is the result.
    #[inline(always)]
    pub(crate) fn add_any_product(&mut self, a: f64, b: f64) {
        self.usual = GpuFloat::mul_add(a, b, self.usual);
    }

    #[inline(always)]
    pub(crate) fn sum_of_products(self) -> f64 {
        self.usual
    }
}

impl<T: Scalar> State for Squares<T> {
    const USED: usize = if matches!(T::DTYPE, DType::F64) { 3 } else { 1 };
    const EMPTY: Self = Self { usual: 0.0, large: 0.0, small: 0.0, of: core::marker::PhantomData };

    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        let (large, small) = (self.large + other.large, self.small + other.small);
        Self { usual: self.usual + other.usual, large, small, ..self }
    }

    #[inline(always)]
    fn words(self) -> [f64; 3] {
        [self.usual, self.large, self.small]
    }

    #[inline(always)]
    fn of_words([usual, large, small]: [f64; 3]) -> Self {
        Self { usual, large, small, ..Self::EMPTY }
    }
}

impl<T: Scalar> AddProduct for Squares<T> {
    #[inline(always)]
    fn add_product(&mut self, a: f64, _: f64) {
        let magnitude = if a < 0.0 { -a } else { a };
        if Self::USED == 3 && magnitude > LARGE {
            let a = a * SHRINK;
            self.large = GpuFloat::mul_add(a, a, self.large);
        } else if Self::USED == 3 && magnitude < SMALL {
            let a = a * STRETCH;
            self.small = GpuFloat::mul_add(a, a, self.small);
        } else {
            self.usual = GpuFloat::mul_add(a, a, self.usual);
        }
    }

    /// The root of the sum.
    #[inline(always)]
    fn total(self) -> f64 {
        let Self { usual, large, small, .. } = self;
        if Self::USED == 3 && large > 0.0 {
            // Small numbers are too small to matter, and a NaN among the usual ones is not lost.
            GpuFloat::sqrt(large + usual * SHRINK * SHRINK) / SHRINK
        } else if Self::USED == 3 && small > 0.0 {
            // Larger squares than the small ones' are so by far, unless they are few: the root of the larger sum, corrected.
            let (a, b) = (GpuFloat::sqrt(usual), GpuFloat::sqrt(small) / STRETCH);
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            let ratio = low / high;
            if usual.is_nan() { usual } else { high * GpuFloat::sqrt(1.0 + ratio * ratio) }
        } else {
            GpuFloat::sqrt(usual)
        }
    }
}

/// The largest value, if `MAX`, otherwise the smallest, and the first place that has it. A NaN is more extreme than any number.
#[derive(Clone, Copy)]
pub(crate) struct Extremum<const MAX: bool> {
    pub(crate) value: f64,
    pub(crate) index: f64,
}

impl<const MAX: bool> Extremum<MAX> {
    #[inline(always)]
    fn is_before(self, other: Self) -> bool {
        let (own, others) = (self.value, other.value);
        if own.is_nan() || others.is_nan() {
            return own.is_nan() && (!others.is_nan() || self.index < other.index);
        }
        let is_more_extreme = if MAX { own > others } else { own < others };
        is_more_extreme || own == others && self.index < other.index
    }
}

impl<const MAX: bool> State for Extremum<MAX> {
    const USED: usize = 2;
    const EMPTY: Self = Self { value: if MAX { f64::NEG_INFINITY } else { f64::INFINITY }, index: f64::INFINITY };

    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }

    #[inline(always)]
    fn words(self) -> [f64; 3] {
        [self.value, self.index, 0.0]
    }

    #[inline(always)]
    fn of_words([value, index, _]: [f64; 3]) -> Self {
        Self { value, index }
    }
}

/// The state of the whole grid, in the first thread of the block that is the last to come; no other thread gets one.
///
/// # Safety
/// All threads of the grid call it, once a launch, with a [`Workspace`] that keeps its rules; blocks have [`BLOCK_SIZE`] threads.
#[inline(always)]
pub(crate) unsafe fn over_grid<S: State>(state: S, workspace: Workspace) -> Option<S> {
    let of_warps = cuda_std::shared_array![f64; 8 * 4];
    let last = cuda_std::shared_array![u32; 1];
    let (thread, blocks) = (thread::thread_idx_x(), thread::grid_dim_x());
    // SAFETY: whole blocks come here. The stores of partial states are ordered before their loads by the arrivals, and by the barrier for
    // the other threads of the last block.
    unsafe {
        let of_block = over_block(state, of_warps);
        if thread == 0 {
            let words = of_block.words();
            let partial = workspace.partials.add(thread::block_idx_x() as usize * WORDS);
            mem::store_v2(partial, [words[0], words[1]]);
            mem::store_v2(partial.add(2), [words[2], 0.0]);
            let arrived = atomic_fetch_add_u32_device(workspace.arrivals, AcqRel, 1);
            last.store(0, u32::from(arrived + 1 == blocks));
        }
        thread::sync_threads();
        if last.load(0) == 0 {
            return None;
        }
        if thread == 0 {
            atomic_store_u32_device(workspace.arrivals, Relaxed, 0);
        }
        let mut state = S::EMPTY;
        let mut block = thread;
        while block < blocks {
            let partial = workspace.partials.add(block as usize * WORDS);
            let [first, second] = mem::load_v2(partial);
            let [third, _] = mem::load_v2(partial.add(2));
            state = state.merge(S::of_words([first, second, third]));
            block += BLOCK_SIZE;
        }
        let total = over_block(state, of_warps);
        (thread == 0).then_some(total)
    }
}

/// The state of the block, in its first warp. One barrier.
///
/// # Safety
/// All threads of the block call it; `of_warps` is not read any more.
#[inline(always)]
unsafe fn over_block<S: State>(state: S, of_warps: Shared<f64>) -> S {
    let (lane, warp) = (thread::thread_idx_x() % WARP_SIZE, thread::thread_idx_x() / WARP_SIZE);
    // SAFETY: all threads are here; indices are below 8 * 4.
    unsafe {
        let of_warp = over_lanes(state);
        if lane == 0 {
            let words = of_warp.words();
            unroll!(I in [0, 1, 2] {
                if (I as usize) < S::USED {
                    of_warps.store(warp * WORDS as u32 + I, words[I as usize]);
                }
            });
        }
        thread::sync_threads();
        let mut words = S::EMPTY.words();
        if lane < WARPS {
            unroll!(I in [0, 1, 2] {
                if (I as usize) < S::USED {
                    words[I as usize] = of_warps.load(lane * WORDS as u32 + I);
                }
            });
        }
        over_lanes(S::of_words(words))
    }
}

/// The state of the warp, in every lane.
///
/// # Safety
/// All lanes call it.
#[inline(always)]
unsafe fn over_lanes<S: State>(mut state: S) -> S {
    let step = |partner: Partner| {
        let mut words = state.words();
        unroll!(I in [0, 1, 2] {
            if (I as usize) < S::USED {
                words[I as usize] = partner.value(words[I as usize]);
            }
        });
        state = state.merge(S::of_words(words));
    };
    // SAFETY: all lanes are here.
    unsafe { butterfly::<WARP_SIZE>(u32::MAX, step) };
    state
}

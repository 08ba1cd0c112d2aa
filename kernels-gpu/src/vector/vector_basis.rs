//! Orthogonal bases of Krylov spaces: the dot products and the step of Gram-Schmidt, and linear combinations.
//!
//! # The mathematics
//! The columns `v[0], ..., v[count - 1]` of `V` are vectors of `n` elements, stored at a fixed distance; the first `j = count - 1` are orthonormal, and `w = v[j]` is orthogonal to them, but for
//! rounding. `u` is the next direction, as `A w`. An iteration of classical Gram-Schmidt with delayed reorthogonalisation (Świrydowicz, Langou, Ananthan, Yang & Thomas, "Low synchronization
//! Gram-Schmidt and generalized minimal residual algorithms", 2021; Bielich, Langou, Thomas, Świrydowicz, Yamazaki & Boman, "Low-synch Gram-Schmidt with delayed reorthogonalization for Krylov
//! solvers", 2022) makes `w` orthogonal for the second time and `u` for the first:
//!
//! ```text
//! dots        s[i] = v[i] . w,  t[i] = v[i] . u                                       for i < count
//! extend      alpha = sqrt(s[j] - sum of s[i]^2 for i < j)
//!             c = (t[j] - sum of s[i] t[i] for i < j) / alpha
//!             v[j] = (w - sum of s[i] v[i] for i < j) / alpha
//!             v[j + 1] = (u - sum of t[i] v[i] for i < j - c v[j]) / scale
//!             scale = scale |v[j + 1]| / sqrt(s[j])
//! combine     w = w + V h
//! ```
//! Sums are added up in `f64`. The same elements at the same alignment to 16 bytes give the same bits.
//!
//! # When to use it
//! To make a new vector orthogonal to many, twice, so that they stay orthogonal to rounding (Giraud, Langou & Rozložník, "The loss of orthogonality in the Gram-Schmidt orthogonalization
//! process", 2005), with two passes over `V` instead of four.
//!
//! # Threads
//! A thread holds a chunk of 16 bytes of `w` and `u`, and loads the chunks of [`GROUP`] vectors at the same place at a time.
//!
//! ```text
//!         v[0] ... v[7]   v[8] ... v[15]        w, u
//! strip 0 block 0         block 1               a chunk a thread, in strides of the strips
//! strip 1 block 2         block 3
//! ```
//! A block of `_dots` has one group of vectors and one strip. It reduces eight sums together: each step of a warp's exchange halves the
//! vectors of a lane. The last block of a group to come adds up the sums of all strips. A block of `_extend` or `_combine` has one strip, and all groups.
//!
//! # Bytes moved
//! `count * n * sizeof T` for `V`, which each entry reads once. Besides, `_dots` reads `u` once, and from the L2 cache both vectors once for each further
//! group; `_extend` reads `u` and writes two vectors; `_combine` reads and writes `w` once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing else accesses what is written during the launch, and nothing
//!    writes the rest. `count` is at least 1.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid at most [`dots_grid_size`] blocks, a multiple of
//!    [`groups`], or [`combine_grid_size`].
//! 3. `_dots`: `arrivals` are 0 before the launch, and again after it. `_extend`: what [`Workspace`] asks for.

mod sums;

use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use cuda_std::{
    GpuFloat,
    atomic::{atomic_fetch_add_u32_device, atomic_store_u32_device},
    mem, thread,
    warp::{self, WARP_SIZE},
};

use self::sums::{over_block, over_lanes};
pub use super::{
    chunk::BLOCK_SIZE,
    reduction::{ARRIVALS, PARTIALS, Workspace},
};
use super::{
    chunk::{are_aligned, load, load_whole, store},
    reduction::{AddProduct, Squares, State, Strides, grid_size, merged, over_grid},
};
use crate::{DType, Scalar, args::args, family::family, lanes::sum_over_lanes, unroll::unroll};

/// Vectors whose chunks a thread loads at a time: 128 bytes of a thread are on their way.
pub const GROUP: u32 = 8;

/// The most strips: two blocks for each of the 132 multiprocessors of an H100 or H200. It is the same for every GPU, so that the bits are.
const MAX_STRIPS: u64 = 2 * 132;

/// Blocks that a multiprocessor runs at a time: with 64 KiB of loads on their way. Three have too few registers for eight chunks of `f32` in `f64`.
const BLOCKS_AT_A_TIME: u32 = 2;

args! {
    /// The arguments of the entries `_dots`, passed by value.
    pub struct DotsArgs<T> {
        /// Elements of a vector.
        value n: u64,
        /// Vectors, at least 1.
        value count: u32,
        /// Elements from the beginning of a vector to that of the next, at least `n`.
        value stride: u64,
        /// The vectors, of which the last is `w`.
        read v: T [(count as usize - 1) * stride as usize + n as usize],
        /// `n` elements.
        read u: T [n as usize],
        /// Becomes `s`, and then `t`.
        write sums: f64 [2 * count as usize],
        /// For the sums of the blocks.
        write partials: f64 [2 * dots_grid_size::<T>(n, count) as usize * GROUP as usize],
        /// For each group, the blocks that have come.
        write arrivals: u32 [groups(count) as usize],
    }
}

args! {
    /// The arguments of the entries `_extend`, passed by value.
    pub struct ExtendArgs<T> {
        /// Elements of a vector.
        value n: u64,
        /// Vectors, at least 1, before the one that is new.
        value count: u32,
        /// Elements from the beginning of a vector to that of the next, at least `n`.
        value stride: u64,
        /// The vectors. The last but one is `w` and becomes orthogonal to those before; the last one becomes the next `w`.
        write v: T [count as usize * stride as usize + n as usize],
        /// `n` elements.
        read u: T [n as usize],
        /// `s`, `t`, and two numbers that become the divisor of the next `w` and its 2-norm.
        write sums: f64 [2 * count as usize + 2],
        /// The next `w` is divided by it, unless it is 0; becomes the scale for the next launch.
        write scale: T [1],
        /// For the sums of the blocks.
        part workspace: Workspace<A>,
    }
}

args! {
    /// The arguments of the entries `_combine`, passed by value.
    pub struct CombineArgs<T> {
        /// Elements of a vector.
        value n: u64,
        /// Vectors, at least 1.
        value count: u32,
        /// Elements from the beginning of a vector to that of the next, at least `n`.
        value stride: u64,
        /// The vectors.
        read v: T [(count as usize - 1) * stride as usize + n as usize],
        /// The coefficients.
        read h: T [count as usize],
        /// `n` elements.
        write w: T [n as usize],
    }
}

/// What to do with the basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The dot products, with [`DotsArgs`].
    Dots,
    /// The next two vectors, with [`ExtendArgs`].
    Extend,
    /// `w = w + V h`, with [`CombineArgs`].
    Combine,
}

family! {
    "vector_basis", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The step.
        step: Step,
        /// The type of the elements.
        dtype: DType,
    }

    vector_basis_dots_f32(Step::Dots, DType::F32): DotsArgs<f32> => dots::<f32, 4>;
    vector_basis_dots_f64(Step::Dots, DType::F64): DotsArgs<f64> => dots::<f64, 2>;
    vector_basis_extend_f32(Step::Extend, DType::F32): ExtendArgs<f32> => extend::<f32, 4>;
    vector_basis_extend_f64(Step::Extend, DType::F64): ExtendArgs<f64> => extend::<f64, 2>;
    vector_basis_combine_f32(Step::Combine, DType::F32): CombineArgs<f32> => combine::<f32, 4>;
    vector_basis_combine_f64(Step::Combine, DType::F64): CombineArgs<f64> => combine::<f64, 2>;
}

/// Groups of so many vectors.
#[must_use]
pub const fn groups(count: u32) -> u32 {
    count.div_ceil(GROUP)
}

/// Blocks of an entry `_dots`.
#[must_use]
pub const fn dots_grid_size<T>(n: u64, count: u32) -> u64 {
    let strips = n.div_ceil(BLOCK_SIZE as u64 * (16 / size_of::<T>()) as u64);
    let strips = if strips > MAX_STRIPS { MAX_STRIPS } else { strips };
    if strips == 0 { groups(count) as u64 } else { strips * groups(count) as u64 }
}

/// Blocks of an entry `_combine`.
#[must_use]
pub const fn combine_grid_size<T>(n: u64) -> u64 {
    // A chunk a thread and stride.
    grid_size::<T>(n.saturating_mul(2), 2)
}

/// Vectors in a row.
#[derive(Clone, Copy)]
struct Basis<T> {
    n: u64,
    count: u32,
    stride: usize,
    v: *const T,
}

/// The body of the entries `_dots`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dots<T: Scalar, const W: usize>(args: DotsArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    let of_warps = cuda_std::shared_array![f64; 64];
    let last = cuda_std::shared_array![u32; 1];
    let DotsArgs { n, count, stride, v, u, sums, partials, arrivals } = args;
    let basis = Basis { n, count, stride: stride as usize, v };
    // The compiler does not know that there is a vector: a division by 0 would call for a panic.
    let (thread, groups) = (thread::thread_idx_x(), groups(count).max(1));
    let (strips, strip, group) =
        (thread::grid_dim_x() / groups, thread::block_idx_x() / groups, thread::block_idx_x() % groups);
    let index = group * GROUP + thread;
    // SAFETY: whole blocks come to the barriers. Partial sums are ordered before their loads by the barrier, the arrivals and the next barrier.
    unsafe {
        let of_thread = match is_aligned(basis, u) {
            true => dots_of_thread::<T, W>(basis, u, group, (strip, strips)),
            false => dots_of_thread::<T, 1>(basis, u, group, (strip, strips)),
        };
        let place =
            |strip: u32, which: u32, lane: u32| (((strip * groups + group) * 2 + which) * GROUP + lane) as usize;
        unroll!(WHICH in [0, 1] {
            let sum = over_block(over_lanes(of_thread[WHICH as usize]), of_warps);
            if thread < GROUP {
                mem::store(partials.add(place(strip, WHICH, thread)), sum);
            }
            thread::sync_threads();
        });
        if thread == 0 {
            let arrived = atomic_fetch_add_u32_device(arrivals.add(group as usize), AcqRel, 1);
            last.store(0, u32::from(arrived + 1 == strips));
        }
        thread::sync_threads();
        if last.load(0) == 0 {
            return;
        }
        if thread == 0 {
            atomic_store_u32_device(arrivals.add(group as usize), Relaxed, 0);
        }
        unroll!(WHICH in [0, 1] {
            let (mut sum, mut strip) = (0.0, thread / GROUP);
            while strip < strips {
                sum += mem::load(partials.add(place(strip, WHICH, thread % GROUP)));
                strip += BLOCK_SIZE / GROUP;
            }
            let sum = over_block(sum, of_warps);
            if thread < GROUP && index < count {
                mem::store(sums.add((WHICH * count + index) as usize), sum);
            }
            thread::sync_threads();
        });
    }
}

/// This thread's part of the dot products of a group with `w`, and with `u`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dots_of_thread<T: Scalar, const W: usize>(
    basis: Basis<T>,
    u: *const T,
    group: u32,
    (strip, strips): (u32, u32),
) -> [[f64; GROUP as usize]; 2] {
    let n = basis.n;
    let mut sums = [[0.0; GROUP as usize]; 2];
    // SAFETY: every chunk begins below n, and the group has a vector; the last vector is w.
    unsafe {
        let w = basis.v.add((basis.count - 1) as usize * basis.stride);
        let vectors = vectors(basis, group * GROUP);
        let mut at = (u64::from(strip) * u64::from(BLOCK_SIZE) + u64::from(thread::thread_idx_x())) * W as u64;
        while at < n {
            // What is beyond the end is 0, and adds nothing.
            let (w, u) = (load::<T, W>(w, at, n), load::<T, W>(u, at, n));
            let v = chunks::<T, W>(vectors, at, n);
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                unroll!(E in [0, 1, 2, 3] {
                    if (E as usize) < W {
                        let v = v[K as usize][E as usize % W].widen();
                        let (w, u) = (w[E as usize % W].widen(), u[E as usize % W].widen());
                        sums[0][K as usize] = GpuFloat::mul_add(v, w, sums[0][K as usize]);
                        sums[1][K as usize] = GpuFloat::mul_add(v, u, sums[1][K as usize]);
                    }
                });
            });
            at += u64::from(strips) * u64::from(BLOCK_SIZE) * W as u64;
        }
    }
    sums
}

/// The body of the entries `_extend`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn extend<T: Scalar, const W: usize>(args: ExtendArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    // SAFETY: the caller keeps the rules; every thread comes to the sum over the grid, whose last block writes the scale when all have read it.
    unsafe {
        let scale = mem::load(args.scale).widen();
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let basis = Basis { n: args.n, count: args.count - 1, stride: args.stride as usize, v: args.v.cast_const() };
        let lengths = Lengths::of(args.sums.cast_const(), args.count);
        let squares = match is_aligned(basis, args.u) {
            true => extend_of_thread::<T, W>(args, basis, lengths, scale),
            false => extend_of_thread::<T, 1>(args, basis, lengths, scale),
        };
        if let Some(squares) = over_grid(squares, args.workspace) {
            let norm = squares.total();
            let log = args.sums.add(2 * args.count as usize);
            mem::store(log, scale);
            mem::store(log.add(1), norm);
            let norm_of_w = GpuFloat::sqrt(mem::load(args.sums.add(args.count as usize - 1)));
            mem::store(args.scale, T::narrow(scale * norm / norm_of_w));
        }
    }
}

/// What `_extend` takes from the dot products.
#[derive(Clone, Copy)]
struct Lengths {
    /// The norm of what is left of `w`.
    alpha: f64,
    /// How much of `u` lies along it.
    c: f64,
}

impl Lengths {
    /// Every warp adds up the same numbers in the same order.
    ///
    /// # Safety
    /// All threads of the warp call it; there are `2 * count` sums.
    #[inline(always)]
    unsafe fn of(sums: *const f64, count: u32) -> Self {
        let (mut ss, mut st, mut i) = (0.0, 0.0, warp::lane_id());
        // SAFETY: indices are below 2 * count; all lanes are here.
        unsafe {
            let (s_of, t_of) =
                (|i: u32| mem::load(sums.add(i as usize)), |i: u32| mem::load(sums.add((count + i) as usize)));
            while i + 1 < count {
                let (s, t) = (s_of(i), t_of(i));
                ss = GpuFloat::mul_add(s, s, ss);
                st = GpuFloat::mul_add(s, t, st);
                i += WARP_SIZE;
            }
            let [ss, st] = [ss, st].map(|sum| sum_over_lanes::<_, WARP_SIZE>(u32::MAX, sum));
            let alpha = GpuFloat::sqrt(s_of(count - 1) - ss);
            Self { alpha, c: (t_of(count - 1) - st) / alpha }
        }
    }
}

/// Computes this thread's part of the two vectors, and the squares of the last one.
///
/// # Safety
/// The rules at the head of this module. `basis` has the vectors before `w`.
#[inline(always)]
unsafe fn extend_of_thread<T: Scalar, const W: usize>(
    args: ExtendArgs<T>,
    basis: Basis<T>,
    lengths: Lengths,
    scale: f64,
) -> Squares<T> {
    let ExtendArgs { n, v, u, sums, .. } = args;
    let (by_alpha, by_scale, c) = (1.0 / lengths.alpha, 1.0 / scale, lengths.c);
    let mut squares = [Squares::<T>::EMPTY; W];
    let mut strides = Strides::<1>::start::<W>(n);
    // SAFETY: the chunks of all threads make up the vectors; every sum has a number below 2 * (basis.count + 1).
    unsafe {
        let w = v.add(basis.count as usize * basis.stride);
        let next = w.add(basis.stride);
        while strides.has_more() {
            let at = strides.first::<W>(0);
            if at < n {
                let mut of_w = load::<T, W>(w, at, n).map(T::widen);
                let mut of_u = load::<T, W>(u, at, n).map(T::widen);
                let mut first = 0;
                while first < basis.count {
                    let v = chunks::<T, W>(vectors(basis, first), at, n);
                    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                        if first + K < basis.count {
                            let s = mem::load(sums.add((first + K) as usize));
                            let t = mem::load(sums.add((basis.count + 1 + first + K) as usize));
                            unroll!(E in [0, 1, 2, 3] {
                                if (E as usize) < W {
                                    let e = E as usize % W;
                                    let v = v[K as usize][e].widen();
                                    of_w[e] = GpuFloat::mul_add(-s, v, of_w[e]);
                                    of_u[e] = GpuFloat::mul_add(-t, v, of_u[e]);
                                }
                            });
                        }
                    });
                    first += GROUP;
                }
                let orthogonal = of_w.map(|w| T::narrow(w * by_alpha));
                store(w, at, n, orthogonal);
                let mut new = [T::ZERO; W];
                unroll!(E in [0, 1, 2, 3] {
                    if (E as usize) < W {
                        let e = E as usize % W;
                        new[e] = T::narrow(GpuFloat::mul_add(-c, orthogonal[e].widen(), of_u[e]) * by_scale);
                    }
                });
                store(next, at, n, new);
                // What is beyond the end is 0, and so is its square.
                unroll!(E in [0, 1, 2, 3] {
                    if (E as usize) < W {
                        let new = new[E as usize % W].widen();
                        squares[E as usize % W].add_product(new, new);
                    }
                });
            }
            strides.advance();
        }
    }
    merged(squares)
}

/// The body of the entries `_combine`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn combine<T: Scalar, const W: usize>(args: CombineArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    let CombineArgs { n, count, stride, v, .. } = args;
    let basis = Basis { n, count, stride: stride as usize, v };
    // SAFETY: the caller keeps the rules.
    unsafe {
        match is_aligned(basis, args.w) {
            true => combine_of_thread::<T, W>(args, basis),
            false => combine_of_thread::<T, 1>(args, basis),
        }
    }
}

/// Computes this thread's part of `w`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn combine_of_thread<T: Scalar, const W: usize>(args: CombineArgs<T>, basis: Basis<T>) {
    let CombineArgs { n, count, h, w, .. } = args;
    let mut strides = Strides::<1>::start::<W>(n);
    // SAFETY: the chunks of all threads make up the vectors; every coefficient has a number below count.
    unsafe {
        while strides.has_more() {
            let at = strides.first::<W>(0);
            if at < n {
                let mut sums = load::<T, W>(w, at, n).map(T::widen);
                let mut first = 0;
                while first < count {
                    let v = chunks::<T, W>(vectors(basis, first), at, n);
                    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                        if first + K < count {
                            let length = mem::load(h.add((first + K) as usize)).widen();
                            unroll!(E in [0, 1, 2, 3] {
                                if (E as usize) < W {
                                    let e = E as usize % W;
                                    sums[e] = GpuFloat::mul_add(length, v[K as usize][e].widen(), sums[e]);
                                }
                            });
                        }
                    });
                    first += GROUP;
                }
                store(w, at, n, sums.map(T::narrow));
            }
            strides.advance();
        }
    }
}

/// Whether `w` and each vector are aligned to 16 bytes.
#[inline(always)]
fn is_aligned<T: Scalar>(basis: Basis<T>, w: *const T) -> bool {
    are_aligned([basis.v as usize, w as usize]) && (basis.stride * size_of::<T>()).is_multiple_of(16)
}

/// The vectors of the group from number `first` on. The last one takes the place of those that there are not: their chunks come from the L1 cache,
/// and every load is on its way before the first is used.
///
/// # Safety
/// The rules at the head of this module; `first` is below `count`.
#[inline(always)]
unsafe fn vectors<T: Scalar>(basis: Basis<T>, first: u32) -> [*const T; GROUP as usize] {
    let mut vectors = [basis.v; GROUP as usize];
    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
        let index = if first + K < basis.count { first + K } else { basis.count - 1 };
        // SAFETY: there is this vector.
        vectors[K as usize] = unsafe { basis.v.add(index as usize * basis.stride) };
    });
    vectors
}

/// The chunks of a group's vectors from element `at` on; 0 in place of elements from number `n` on.
///
/// # Safety
/// That of [`load`], for each vector.
#[inline(always)]
unsafe fn chunks<T: Scalar, const W: usize>(
    vectors: [*const T; GROUP as usize],
    at: u64,
    n: u64,
) -> [[T; W]; GROUP as usize] {
    let mut chunks = [[T::ZERO; W]; GROUP as usize];
    // SAFETY: the caller's promise.
    unsafe {
        if at + W as u64 <= n {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                chunks[K as usize] = load_whole(vectors[K as usize], at);
            });
        } else {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                chunks[K as usize] = load(vectors[K as usize], at, n);
            });
        }
    }
    chunks
}

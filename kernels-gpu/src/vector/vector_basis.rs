//! Products with a basis: `h = V^T w` and `w = w + alpha V h`.
//!
//! # The mathematics
//! The columns `v[0], ..., v[count - 1]` of `V` are vectors of `n` elements, stored at a fixed distance. The entries `_dots` compute all
//! `h[i] = v[i] . w`; the entries `_combine` add a linear combination of the columns to `w`, and compute the 2-norm of the result on the way. Sums
//! are added up in `f64` and rounded once. The same elements at the same alignment to 16 bytes give the same bits.
//!
//! # When to use it
//! To make `w` orthogonal to many vectors: classical Gram-Schmidt is a `_dots` and a `_combine` with `alpha` = -1, however many vectors there
//! are, and done twice it is as accurate as rounding allows (Giraud, Langou & Rozložník, "The loss of orthogonality in the Gram-Schmidt
//! orthogonalization process", 2005).
//!
//! # Threads
//! A thread holds a chunk of 16 bytes of `w`, and loads the chunks of [`GROUP`] vectors at the same place at a time.
//!
//! ```text
//!         v[0] ... v[7]   v[8] ... v[15]        w
//! strip 0 block 0         block 1               a chunk a thread, in strides of the strips
//! strip 1 block 2         block 3
//! ```
//! A block of `_dots` has one group of vectors and one strip. It reduces its eight sums together: each step of a warp's exchange halves the
//! vectors of a lane. The last block of a group to come adds up the sums of all strips. A block of `_combine` has one strip, and all groups.
//!
//! # Bytes moved
//! `count * n * sizeof T` for `V`, which each entry reads once. Besides, `_dots` reads `w` once, and from the L2 cache once for each further
//! group; `_combine` reads and writes `w` once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. Nothing else accesses what is written during the launch, and nothing
//!    writes the rest. `count` is at least 1.
//! 2. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid at most [`dots_grid_size`] blocks, a multiple of
//!    [`groups`], or [`combine_grid_size`].
//! 3. `_dots`: `arrivals` are 0 before the launch, and again after it. `_combine`: what [`Workspace`] asks for.

mod sums;

use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use cuda_std::{
    GpuFloat,
    atomic::{atomic_fetch_add_u32_device, atomic_store_u32_device},
    mem, thread,
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
use crate::{DType, Scalar, args::args, family::family, unroll::unroll};

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
        /// The vectors.
        read v: T [(count as usize - 1) * stride as usize + n as usize],
        /// `n` elements.
        read w: T [n as usize],
        /// Becomes `V^T w`.
        write h: T [count as usize],
        /// `h` is added to it, if it is not null.
        write total: T [null or count as usize],
        /// For the sums of the blocks.
        write partials: f64 [dots_grid_size::<T>(n, count) as usize * GROUP as usize],
        /// For each group, the blocks that have come.
        write arrivals: u32 [groups(count) as usize],
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
        /// Their factor.
        value alpha: T,
        /// `n` elements.
        write w: T [n as usize],
        /// Becomes the 2-norm of the new `w`.
        write norm: T [1],
        /// Becomes it too, if it is not null.
        write log: T [null or 1],
        /// For the sums of the blocks.
        part workspace: Workspace<A>,
    }
}

/// A product with the basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// `h = V^T w`, with [`DotsArgs`].
    Dots,
    /// `w = w + alpha V h`, with [`CombineArgs`].
    Combine,
}

family! {
    "vector_basis", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The product.
        product: Product,
        /// The type of the elements.
        dtype: DType,
    }

    vector_basis_dots_f32(Product::Dots, DType::F32): DotsArgs<f32> => dots::<f32, 4>;
    vector_basis_dots_f64(Product::Dots, DType::F64): DotsArgs<f64> => dots::<f64, 2>;
    vector_basis_combine_f32(Product::Combine, DType::F32): CombineArgs<f32> => combine::<f32, 4>;
    vector_basis_combine_f64(Product::Combine, DType::F64): CombineArgs<f64> => combine::<f64, 2>;
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
    let DotsArgs { n, count, stride, v, w, h, total, partials, arrivals } = args;
    let basis = Basis { n, count, stride: stride as usize, v };
    // The compiler does not know that there is a vector: a division by 0 would call for a panic.
    let (thread, groups) = (thread::thread_idx_x(), groups(count).max(1));
    let (strips, strip, group) =
        (thread::grid_dim_x() / groups, thread::block_idx_x() / groups, thread::block_idx_x() % groups);
    let index = group * GROUP + thread;
    // SAFETY: whole blocks come to the barriers. Partial sums are ordered before their loads by the barrier, the arrivals and the next barrier.
    unsafe {
        let sums = match is_aligned(basis, w) {
            true => dots_of_thread::<T, W>(basis, w, group, (strip, strips)),
            false => dots_of_thread::<T, 1>(basis, w, group, (strip, strips)),
        };
        let sum = over_block(over_lanes(sums), of_warps);
        let place = |strip: u32, lane: u32| ((strip * groups + group) * GROUP + lane) as usize;
        if thread < GROUP {
            mem::store(partials.add(place(strip, thread)), sum);
        }
        thread::sync_threads();
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
        let (mut sum, mut strip) = (0.0, thread / GROUP);
        while strip < strips {
            sum += mem::load(partials.add(place(strip, thread % GROUP)));
            strip += BLOCK_SIZE / GROUP;
        }
        let sum = over_block(sum, of_warps);
        if thread < GROUP && index < count {
            let dot = T::narrow(sum);
            mem::store(h.add(index as usize), dot);
            if !total.is_null() {
                let total = total.add(index as usize);
                mem::store(total, mem::load(total) + dot);
            }
        }
    }
}

/// This thread's part of the dot products of a group.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dots_of_thread<T: Scalar, const W: usize>(
    basis: Basis<T>,
    w: *const T,
    group: u32,
    (strip, strips): (u32, u32),
) -> [f64; GROUP as usize] {
    let n = basis.n;
    let mut sums = [0.0; GROUP as usize];
    // SAFETY: every chunk begins below n, and the group has a vector.
    unsafe {
        let vectors = vectors(basis, group * GROUP);
        let mut at = (u64::from(strip) * u64::from(BLOCK_SIZE) + u64::from(thread::thread_idx_x())) * W as u64;
        while at < n {
            // What is beyond the end is 0, and adds nothing.
            let w = load::<T, W>(w, at, n);
            let v = chunks::<T, W>(vectors, at, n);
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                unroll!(E in [0, 1, 2, 3] {
                    if (E as usize) < W {
                        let (v, w) = (v[K as usize][E as usize % W].widen(), w[E as usize % W].widen());
                        sums[K as usize] = GpuFloat::mul_add(v, w, sums[K as usize]);
                    }
                });
            });
            at += u64::from(strips) * u64::from(BLOCK_SIZE) * W as u64;
        }
    }
    sums
}

/// The body of the entries `_combine`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn combine<T: Scalar, const W: usize>(args: CombineArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, BLOCKS_AT_A_TIME>();
    // SAFETY: the caller keeps the rules; every thread comes to the sum over the grid.
    unsafe {
        let CombineArgs { n, count, stride, v, .. } = args;
        let basis = Basis { n, count, stride: stride as usize, v };
        let squares = match is_aligned(basis, args.w) {
            true => combine_of_thread::<T, W>(args, basis),
            false => combine_of_thread::<T, 1>(args, basis),
        };
        if let Some(squares) = over_grid(squares, args.workspace) {
            let norm = T::narrow(squares.total());
            mem::store(args.norm, norm);
            if !args.log.is_null() {
                mem::store(args.log, norm);
            }
        }
    }
}

/// Computes this thread's part of `w`, and its squares.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn combine_of_thread<T: Scalar, const W: usize>(args: CombineArgs<T>, basis: Basis<T>) -> Squares<T> {
    let CombineArgs { n, count, h, w, .. } = args;
    let alpha = args.alpha.widen();
    let mut squares = [Squares::<T>::EMPTY; W];
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
                            let length = alpha * mem::load(h.add((first + K) as usize)).widen();
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
                let new = sums.map(T::narrow);
                store(w, at, n, new);
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

//! Elements to other places, and to other types: copy, gather, scatter, invert, cast.
//!
//! # The mathematics
//! `y[i] = x[indices[i]]` (gather), `y[indices[i]] = x[i]` (scatter), `y[indices[i]] = i` (invert), `y[i] = x[i]`, as it is
//! (copy) or as the nearest number of another type (cast).
//!
//! # Threads
//! An element each; of a copy two chunks of 16 bytes.
//!
//! # Bytes moved
//! `n` elements read and written, and for gather, scatter and invert `n * 4` for the indices. Of what is not in order, whole sectors of 32 bytes
//! move.
//!
//! # Safety
//! Every entry:
//! 1. `x`, `y` and, for gather, scatter and invert, `indices` are live global memory. `indices` has `n` elements. The array that the indices point
//!    into (`x` of gather, `y` of scatter and invert) is longer than the largest index; all others have `n` elements. Nothing else accesses `y` during
//!    the launch, and nothing writes the others.
//! 2. For scatter and invert, the indices are distinct.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::mem::{self, DeviceValue};

pub use super::chunk::BLOCK_SIZE;
use super::chunk::{are_aligned, first, load, store};
use crate::{Scalar, args::args, family::family, grid::thread_index, unroll::unroll};

/// Chunks of a thread of a copy.
const CHUNKS_OF_THREAD: u32 = 2;

args! {
    /// The arguments of gather and scatter, passed by value: `T` is any type of as many bytes.
    pub struct Args<T> {
        /// Indices.
        value n: u64,
        /// `n` of them.
        read indices: u32 [n as usize],
        /// What is read.
        read x: T,
        /// What is written.
        write y: T,
    }
}

args! {
    /// The arguments of copies and casts, passed by value.
    pub struct CastArgs<T, U> {
        /// Elements.
        value n: u64,
        /// `n` elements.
        read x: T [n as usize],
        /// `n` elements.
        write y: U [n as usize],
    }
}

args! {
    /// The arguments of invert.
    pub struct InvertArgs {
        /// Indices.
        value n: u64,
        /// `n` of them.
        read indices: u32 [n as usize],
        /// What is written.
        write y: u32,
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A copy of elements of so many bytes, 4 or 8, with [`CastArgs`].
    Copy {
        /// Of an element.
        bytes: usize,
    },
    /// Elements from where the indices say, with [`Args`].
    Gather {
        /// Of an element, 4 or 8.
        bytes: usize,
    },
    /// Elements to where the indices say, with [`Args`].
    Scatter {
        /// Of an element, 4 or 8.
        bytes: usize,
    },
    /// The positions of indices to where they say, with [`InvertArgs`].
    Invert,
    /// Elements of another type, with [`CastArgs`].
    Cast {
        /// What is read.
        from: Number,
        /// What is written.
        to: Number,
    },
}

/// A type that casts are from, or to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `u32`.
    U32,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

family! {
    "vector_move", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is done.
        operation: Move,
    }

    vector_move_copy_4(Move::Copy { bytes: 4 }): CastArgs<u32, u32> => copy::<u32, 4>;
    vector_move_copy_8(Move::Copy { bytes: 8 }): CastArgs<u64, u64> => copy::<u64, 2>;
    vector_move_gather_4(Move::Gather { bytes: 4 }): Args<u32> => gather::<u32>;
    vector_move_gather_8(Move::Gather { bytes: 8 }): Args<u64> => gather::<u64>;
    vector_move_scatter_4(Move::Scatter { bytes: 4 }): Args<u32> => scatter::<u32>;
    vector_move_scatter_8(Move::Scatter { bytes: 8 }): Args<u64> => scatter::<u64>;
    vector_move_invert(Move::Invert): InvertArgs => invert;
    vector_move_cast_f32_f64(Move::Cast { from: Number::F32, to: Number::F64 }): CastArgs<f32, f64> => cast_from_f32;
    vector_move_cast_f64_f32(Move::Cast { from: Number::F64, to: Number::F32 }): CastArgs<f64, f32> => cast_from_f64;
    vector_move_cast_u32_f32(Move::Cast { from: Number::U32, to: Number::F32 }): CastArgs<u32, f32> => cast_from_u32::<f32>;
    vector_move_cast_u32_f64(Move::Cast { from: Number::U32, to: Number::F64 }): CastArgs<u32, f64> => cast_from_u32::<f64>;
}

/// Blocks for `n` elements, but for a copy.
#[must_use]
pub const fn grid_size(n: u64) -> u64 {
    n.div_ceil(BLOCK_SIZE as u64)
}

/// Blocks for a copy of `n` elements of so many bytes.
#[must_use]
pub const fn copy_grid_size(n: u64, bytes: usize) -> u64 {
    n.div_ceil((BLOCK_SIZE * CHUNKS_OF_THREAD) as u64 * (16 / bytes) as u64)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn copy<T: DeviceValue, const W: usize>(args: CastArgs<T, T>) {
    let CastArgs { n, x, y } = args;
    // SAFETY: the chunks of all threads make up the vectors.
    unsafe {
        if are_aligned([x as usize, y as usize]) {
            let at = [first::<W>(CHUNKS_OF_THREAD, 0), first::<W>(CHUNKS_OF_THREAD, 1)];
            let mut chunks = [[T::default(); W]; 2];
            unroll!(K in [0, 1] {
                if at[K as usize] < n {
                    chunks[K as usize] = load(x, at[K as usize], n);
                }
            });
            unroll!(K in [0, 1] {
                if at[K as usize] < n {
                    store(y, at[K as usize], n, chunks[K as usize]);
                }
            });
        } else {
            let mut k = 0;
            while k < CHUNKS_OF_THREAD * W as u32 {
                let at = first::<1>(CHUNKS_OF_THREAD * W as u32, k);
                if at < n {
                    store(y, at, n, load::<T, 1>(x, at, n));
                }
                k += 1;
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn gather<T: DeviceValue>(args: Args<T>) {
    let i = thread_index::<BLOCK_SIZE>() as usize;
    if (i as u64) < args.n {
        // SAFETY: the caller's promise; i < n.
        unsafe {
            let from = mem::load_streaming(args.indices.add(i)) as usize;
            mem::store(args.y.add(i), mem::load_readonly(args.x.add(from)));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn scatter<T: DeviceValue>(args: Args<T>) {
    let i = thread_index::<BLOCK_SIZE>() as usize;
    if (i as u64) < args.n {
        // SAFETY: the caller's promise; i < n.
        unsafe {
            let to = mem::load_streaming(args.indices.add(i)) as usize;
            mem::store(args.y.add(to), mem::load_readonly(args.x.add(i)));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn invert(args: InvertArgs) {
    let i = thread_index::<BLOCK_SIZE>();
    if i < args.n {
        // SAFETY: the caller's promise; i < n.
        unsafe {
            let to = mem::load_streaming(args.indices.add(i as usize)) as usize;
            mem::store(args.y.add(to), i as u32);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn cast_from_f32(args: CastArgs<f32, f64>) {
    // SAFETY: the caller's promise.
    unsafe { cast(args, f64::from) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn cast_from_f64(args: CastArgs<f64, f32>) {
    // SAFETY: the caller's promise.
    unsafe { cast(args, |x| x as f32) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn cast_from_u32<U: Scalar>(args: CastArgs<u32, U>) {
    // SAFETY: the caller's promise.
    unsafe { cast(args, |x| U::from_count(u64::from(x))) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn cast<T: DeviceValue, U: DeviceValue>(args: CastArgs<T, U>, convert: impl Fn(T) -> U) {
    let i = thread_index::<BLOCK_SIZE>() as usize;
    if (i as u64) < args.n {
        // SAFETY: i < n.
        unsafe { mem::store(args.y.add(i), convert(mem::load(args.x.add(i)))) }
    }
}

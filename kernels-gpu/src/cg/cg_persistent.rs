//! Many iterations of the conjugate gradient method in one cooperative launch.
//!
//! # The mathematics
//! That of `cg_steps`, with no preconditioner or a diagonal one. A block has some rows of the matrix, and keeps for itself the vector that is multiplied
//! in all their columns: its own rows, and those of other blocks, its halo. It gets an element of each halo row in each iteration, and computes the rest as the rows'
//! own blocks do, to the bit.
//! ```text
//! with two reductions
//!   product     q = A p for the block's rows                                      -> sum over the grid: p . q
//!   update      r = r - alpha q, z = M r, leaves z for the other blocks           -> sums over the grid: r . z and r . r
//!   step        fetches z of the halo meanwhile; x = x + alpha p, p = z + beta p
//!
//! with one reduction
//!   product     q = A z for the block's rows, leaves q for the other blocks       -> sums over the grid: z . q, r . z and r . r
//!   step        fetches q of the halo meanwhile; p = z + beta p, s = q + beta s = A p, x = x + alpha p, r = r - alpha s, z = M r
//! ```
//! One reduction suffices because `p . A p` follows from `z . A z` and the one before: `p . s = z . q - beta^2 p_old . s_old` (Chronopoulos & Gear, "s-step iterative methods for
//! symmetric linear systems", 1989). Where most digits of that difference cancel, it is computed from the vectors, by another reduction. `s` is not
//! multiplied by the matrix, and rounding takes it away from `A p`: the residual of `x` parts from `r` sooner.
//!
//! # When to use it
//! Systems that the caches hold: there the launches of kernels are what takes time. Vectors and as much of the matrix as fits stay in
//! shared memory from iteration to iteration (Zhang et al., "PERKS: a locality-optimized execution model for iterative
//! memory-bound GPU applications", 2023).
//!
//! # Blocks, rows, shared memory
//! ```text
//! block b     consecutive rows, with about as many entries as those of any other block; columns are places in its own p or z, in 16 bits
//! two         | x | r | q | diagonal | p of rows, p of halo | z of halo | offsets of rows | values | columns |   of its first entries
//! one         | x | r | q | diagonal | p | s | z of rows, z of halo | r, diagonal, s, q of halo | offsets of rows | values | columns |
//! ```
//!
//! # Exchange without fences
//! What goes from block to block, sums and elements of `z` or `q`, goes in 64-bit words, half of each a number that says of which iteration it is: who
//! needs it reads the word until it bears that number (the LL protocol of NVIDIA's NCCL). So data need no other word to be
//! ordered with, and no fence. A word is written anew only after a sum to which its readers have added something that they computed from it. With one reduction,
//! where a block may be an iteration ahead of those that still read, there are two sets of words.
//! One barrier with fences, at the beginning, orders what launches do before and after.
//!
//! # Bytes moved
//! An iteration: the halo's elements and the entries that do not fit, from the L2 cache; a few words for each block.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. None overlaps another, and nothing else accesses
//!    any of them during the launch, but for the host the mailbox.
//! 2. `shares` describes each row once, and the rows, entries, halo rows and column words that it names exist; `row_offsets` starts at 0
//!    and never falls. A block's columns are below the number of its rows and its halo's rows together.
//! 3. The launch is cooperative, of [`BLOCK_SIZE`] threads a block in one dimension, at most [`MAX_BLOCKS`] blocks, and
//!    `shared_bytes` of dynamic shared memory, at least [`vector_bytes`] of each block's rows and halo.
//! 4. No word of `slots` and `words` holds one of the [`numbers`] of the launch from `epoch` on.

#[path = "cg_persistent/exchange.rs"]
mod exchange;
#[path = "cg_persistent/one.rs"]
mod one;
#[path = "cg_persistent/share.rs"]
mod share;
#[path = "cg_persistent/two.rs"]
mod two;

pub use exchange::{STATIC_SHARED_BYTES, slot_words};

use crate::{DType, args::args, cg_state::State, family::family};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 768;

/// The most blocks of a grid.
pub const MAX_BLOCKS: u32 = 256;

/// The most rows and halo rows of a block: as many as 16 bits tell apart.
pub const MAX_PLACES: u32 = 1 << 16;

/// How often an iteration adds up numbers of all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reductions {
    /// Once, by the recurrences of Chronopoulos and Gear.
    One,
    /// Twice.
    Two,
}

/// The part of `z . A z` below which `p . A p` is computed from the vectors, because half of the digits have cancelled.
#[inline(always)]
#[must_use]
pub const fn least_difference(element_bytes: usize) -> f64 {
    if element_bytes == 4 { 1.0 / 4096.0 } else { 1.0 / 67_108_864.0 }
}

/// The vectors of the rows and of the halo in shared memory.
#[must_use]
pub const fn vectors(reductions: Reductions) -> (u32, u32) {
    match reductions {
        Reductions::One => (7, 5),
        Reductions::Two => (5, 2),
    }
}

/// Bytes of shared memory for the vectors and offsets of so many rows, and so many halo rows; what is left is for entries.
#[must_use]
pub const fn vector_bytes(reductions: Reductions, rows: u32, halo: u32, element_bytes: u32) -> u32 {
    let (row_vectors, halo_vectors) = vectors(reductions);
    let rows = rows.next_multiple_of(4);
    let halo = halo.next_multiple_of(4);
    (row_vectors * rows + halo_vectors * halo) * element_bytes + (rows + 4) * 4
}

/// The numbers of exchanges that a launch of so many iterations uses at most.
#[must_use]
pub const fn numbers(reductions: Reductions, iterations: u32) -> u32 {
    match reductions {
        // One for each, and another where digits cancel.
        Reductions::One => 2 * iterations + 2,
        Reductions::Two => iterations + 1,
    }
}

/// Bytes of shared memory for two entries.
#[must_use]
pub const fn bytes_of_two_entries(element_bytes: u32) -> u32 {
    2 * element_bytes + 4
}

/// Numbers that describe a block's share, in this order: its first row, how many rows, its first entry, how many entries, its first
/// halo row and how many, its first word of columns, and 0.
pub const SHARE_NUMBERS: usize = 8;

/// Words for an element of a row; with one reduction there are two sets.
#[must_use]
pub const fn words_of_row(element_bytes: usize) -> usize {
    element_bytes / 4
}

args! {
    /// The arguments of every entry, passed by value: elements `T`.
    pub struct Args<T> {
        /// Whether there is a `diagonal`.
        value has_diagonal: u32,
        /// The most iterations of this launch.
        value iterations: u32,
        /// The number of the launch's first exchange.
        value epoch: u32,
        /// Bytes of dynamic shared memory.
        value shared_bytes: u32,
        /// [`SHARE_NUMBERS`] for each block.
        read shares: u32,
        /// An offset more than the matrix has rows.
        read row_offsets: u32,
        /// Columns of entries as places in the block's own direction: its rows, then its halo. Two in a word, the first in the lower half; each
        /// block's from a word of its own on.
        read columns: u32,
        /// The values.
        read values: T,
        /// The rows of the blocks' halos.
        read halo: u32,
        /// The inverse of the diagonal, an element for each row, and so have the next three.
        read diagonal: T,
        /// The solution.
        write x: T,
        /// The residual.
        write r: T,
        /// The direction.
        write p: T,
        /// `A p`, with one reduction alone.
        write s: T,
        /// [`words_of_row`] for each row, with one reduction twice.
        write words: u64,
        /// [`slot_words`] words.
        write slots: u64,
        /// How the method stands.
        part state: State<A>,
    }
}

family! {
    "cg_persistent", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// How often an iteration adds up numbers of all blocks.
        reductions: Reductions,
        /// The type of the elements.
        dtype: DType,
        /// Lanes of a row: a power of two up to 32.
        lanes: u32,
    }

    cg_persistent_f32_t1(Reductions::Two, DType::F32, 1): Args<f32> => two::iterate::<f32, 1>;
    cg_persistent_f32_t2(Reductions::Two, DType::F32, 2): Args<f32> => two::iterate::<f32, 2>;
    cg_persistent_f32_t4(Reductions::Two, DType::F32, 4): Args<f32> => two::iterate::<f32, 4>;
    cg_persistent_f32_t8(Reductions::Two, DType::F32, 8): Args<f32> => two::iterate::<f32, 8>;
    cg_persistent_f32_t16(Reductions::Two, DType::F32, 16): Args<f32> => two::iterate::<f32, 16>;
    cg_persistent_f32_t32(Reductions::Two, DType::F32, 32): Args<f32> => two::iterate::<f32, 32>;
    cg_persistent_f64_t1(Reductions::Two, DType::F64, 1): Args<f64> => two::iterate::<f64, 1>;
    cg_persistent_f64_t2(Reductions::Two, DType::F64, 2): Args<f64> => two::iterate::<f64, 2>;
    cg_persistent_f64_t4(Reductions::Two, DType::F64, 4): Args<f64> => two::iterate::<f64, 4>;
    cg_persistent_f64_t8(Reductions::Two, DType::F64, 8): Args<f64> => two::iterate::<f64, 8>;
    cg_persistent_f64_t16(Reductions::Two, DType::F64, 16): Args<f64> => two::iterate::<f64, 16>;
    cg_persistent_f64_t32(Reductions::Two, DType::F64, 32): Args<f64> => two::iterate::<f64, 32>;
    cg_persistent_one_f32_t1(Reductions::One, DType::F32, 1): Args<f32> => one::iterate::<f32, 1>;
    cg_persistent_one_f32_t2(Reductions::One, DType::F32, 2): Args<f32> => one::iterate::<f32, 2>;
    cg_persistent_one_f32_t4(Reductions::One, DType::F32, 4): Args<f32> => one::iterate::<f32, 4>;
    cg_persistent_one_f32_t8(Reductions::One, DType::F32, 8): Args<f32> => one::iterate::<f32, 8>;
    cg_persistent_one_f32_t16(Reductions::One, DType::F32, 16): Args<f32> => one::iterate::<f32, 16>;
    cg_persistent_one_f32_t32(Reductions::One, DType::F32, 32): Args<f32> => one::iterate::<f32, 32>;
    cg_persistent_one_f64_t1(Reductions::One, DType::F64, 1): Args<f64> => one::iterate::<f64, 1>;
    cg_persistent_one_f64_t2(Reductions::One, DType::F64, 2): Args<f64> => one::iterate::<f64, 2>;
    cg_persistent_one_f64_t4(Reductions::One, DType::F64, 4): Args<f64> => one::iterate::<f64, 4>;
    cg_persistent_one_f64_t8(Reductions::One, DType::F64, 8): Args<f64> => one::iterate::<f64, 8>;
    cg_persistent_one_f64_t16(Reductions::One, DType::F64, 16): Args<f64> => one::iterate::<f64, 16>;
    cg_persistent_one_f64_t32(Reductions::One, DType::F64, 32): Args<f64> => one::iterate::<f64, 32>;
}

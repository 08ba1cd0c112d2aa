//! Between triplets `(row, column, value)` and CSR: the steps around a sort.
//!
//! # The mathematics
//! - `pack` makes the key `row << column_bits | column` of each triplet, and the bits of its value what the sort moves along. It finds the first triplet that is out of range.
//! - `unpack` takes both apart again after the sort, and says whether any two neighbours have the same key.
//! - `offsets` finds where each row begins among sorted keys: `offsets[i]` is the number of keys before `i << column_bits`.
//! - `rows` gives each entry of a CSR matrix its row.
//!
//! # When to use it
//! Triplets in any order: `pack`, a stable sort by as many bits as keys have, `unpack` and `offsets`; duplicates are neighbours then. With
//! `column_bits` = 0, `offsets` also serves row indices that are sorted already.
//!
//! # Threads
//! A thread per triplet, or per offset, which it finds by bisection. `rows`: the entries are shared among warps, which search their rows.
//!
//! # Bytes moved
//! Pack and unpack: each triplet once, and once its key and bits. Offsets: the offsets, and the keys that are looked at. Rows: 4 bytes an entry.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch.
//! 2. `pack`: keys of triplets within range fit. `unpack`: keys and bits are what `pack` made of triplets within range. `offsets`: keys ascend. `rows`: `row_offsets` starts at 0,
//!    never falls and ends at `entries`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for the threads, or [`rows_grid_size`].

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_min_u32_device, atomic_fetch_or_u32_device},
    mem::{self, DeviceValue},
    warp::WarpShuffleValue,
};

use crate::{
    DType, Scalar,
    args::args,
    csr_rows::{blocks_of_entries, for_entries_of_warp},
    family::family,
    grid::thread_index,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `pack`.
    pub struct PackArgs<T, K, V> {
        /// Triplets.
        value entries: u32,
        /// Rows of the matrix.
        value rows: u32,
        /// Columns of the matrix.
        value cols: u32,
        /// Bits of a key that hold the column.
        value column_bits: u32,
        /// `entries` row indices.
        read row_indices: u32 [entries as usize],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// `entries` keys.
        write keys: K [entries as usize],
        /// The bits of `entries` values.
        write bits: V [entries as usize],
        /// The first triplet whose row is out of range, and the first whose column is: to start from the greatest numbers.
        write bad: u32 [2],
    }
}

args! {
    /// The arguments of `unpack`.
    pub struct UnpackArgs<T, K, V> {
        /// Triplets.
        value entries: u32,
        /// Bits of a key that hold the column.
        value column_bits: u32,
        /// `entries` keys.
        read keys: K [entries as usize],
        /// The bits of `entries` values.
        read bits: V [entries as usize],
        /// `entries` column indices.
        write col_indices: u32 [entries as usize],
        /// `entries` values.
        write values: T [entries as usize],
        /// To start from 0. Not 0 afterwards: there are duplicates.
        write duplicates: u32 [1],
    }
}

args! {
    /// The arguments of `offsets`.
    pub struct OffsetsArgs<K> {
        /// Rows.
        value rows: u32,
        /// Keys.
        value entries: u32,
        /// Bits of a key that hold the column.
        value column_bits: u32,
        /// `entries` keys.
        read keys: K [entries as usize],
        /// `rows + 1` offsets.
        write row_offsets: u32 [rows as usize + 1],
    }
}

args! {
    /// The arguments of `rows`.
    pub struct RowsArgs {
        /// Rows.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` row indices.
        write row_indices: u32 [entries as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`PackArgs`].
    Pack(DType),
    /// With [`UnpackArgs`].
    Unpack(DType),
    /// With [`OffsetsArgs`].
    Offsets,
    /// With [`RowsArgs`].
    Rows,
}

family! {
    "triplets", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// Bytes of a key: 4 or 8.
        key_bytes: usize,
    }

    triplets_pack_f32_k32(Operation::Pack(DType::F32), 4): PackArgs<f32, u32, u32> => pack::<f32, u32, u32>;
    triplets_pack_f32_k64(Operation::Pack(DType::F32), 8): PackArgs<f32, u64, u32> => pack::<f32, u64, u32>;
    triplets_pack_f64_k32(Operation::Pack(DType::F64), 4): PackArgs<f64, u32, u64> => pack::<f64, u32, u64>;
    triplets_pack_f64_k64(Operation::Pack(DType::F64), 8): PackArgs<f64, u64, u64> => pack::<f64, u64, u64>;
    triplets_unpack_f32_k32(Operation::Unpack(DType::F32), 4): UnpackArgs<f32, u32, u32> => unpack::<f32, u32, u32>;
    triplets_unpack_f32_k64(Operation::Unpack(DType::F32), 8): UnpackArgs<f32, u64, u32> => unpack::<f32, u64, u32>;
    triplets_unpack_f64_k32(Operation::Unpack(DType::F64), 4): UnpackArgs<f64, u32, u64> => unpack::<f64, u32, u64>;
    triplets_unpack_f64_k64(Operation::Unpack(DType::F64), 8): UnpackArgs<f64, u64, u64> => unpack::<f64, u64, u64>;
    triplets_offsets_k32(Operation::Offsets, 4): OffsetsArgs<u32> => offsets::<u32>;
    triplets_offsets_k64(Operation::Offsets, 8): OffsetsArgs<u64> => offsets::<u64>;
    triplets_rows(Operation::Rows, 4): RowsArgs => rows;
}

/// Blocks for so many threads.
#[must_use]
pub const fn grid_size(threads: u64) -> u64 {
    threads.div_ceil(BLOCK_SIZE as u64)
}

/// Blocks of `rows`.
#[must_use]
pub const fn rows_grid_size(entries: u32) -> u32 {
    blocks_of_entries(entries, BLOCK_SIZE)
}

/// A key, or the bits of a value: 32 or 64 bits.
pub trait Bits: DeviceValue {
    /// The lower bits.
    fn narrow(value: u64) -> Self;
    /// The same number.
    fn widen(self) -> u64;
}

impl Bits for u32 {
    #[inline(always)]
    fn narrow(value: u64) -> Self {
        value as u32
    }
    #[inline(always)]
    fn widen(self) -> u64 {
        self as u64
    }
}

impl Bits for u64 {
    #[inline(always)]
    fn narrow(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn widen(self) -> u64 {
        self
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn pack<T: Scalar, K: Bits, V: Bits>(args: PackArgs<T, K, V>) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= u64::from(args.entries) {
        return;
    }
    // SAFETY: entry < entries, and each thread has a triplet of its own.
    unsafe {
        let row = mem::load_streaming(args.row_indices.add(entry as usize));
        let col = mem::load_streaming(args.col_indices.add(entry as usize));
        let [low, high] = mem::load_streaming(args.values.add(entry as usize)).to_words();
        if row >= args.rows {
            atomic_fetch_min_u32_device(args.bad, Relaxed, entry as u32);
        }
        if col >= args.cols {
            atomic_fetch_min_u32_device(args.bad.add(1), Relaxed, entry as u32);
        }
        mem::store(args.keys.add(entry as usize), K::narrow(u64::from(row) << args.column_bits | u64::from(col)));
        mem::store(args.bits.add(entry as usize), V::narrow(u64::from(high) << 32 | u64::from(low)));
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn unpack<T: Scalar, K: Bits, V: Bits>(args: UnpackArgs<T, K, V>) {
    let entry = thread_index::<BLOCK_SIZE>();
    if entry >= u64::from(args.entries) {
        return;
    }
    // SAFETY: entry < entries, and each thread has a triplet of its own; the one before exists for all but the first.
    unsafe {
        let key = mem::load_readonly(args.keys.add(entry as usize)).widen();
        if entry > 0 && mem::load_readonly(args.keys.add(entry as usize - 1)).widen() == key {
            atomic_fetch_or_u32_device(args.duplicates, Relaxed, 1);
        }
        let bits = mem::load_streaming(args.bits.add(entry as usize)).widen();
        mem::store(args.col_indices.add(entry as usize), (key & ((1 << args.column_bits) - 1)) as u32);
        mem::store(args.values.add(entry as usize), T::from_words([bits as u32, (bits >> 32) as u32]));
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn offsets<K: Bits>(args: OffsetsArgs<K>) {
    let row = thread_index::<BLOCK_SIZE>();
    if row > u64::from(args.rows) {
        return;
    }
    let (mut begin, mut end) = (0, args.entries);
    // Beyond the last row no key needs comparing, and its bits may not fit.
    if row == u64::from(args.rows) {
        begin = end;
    }
    while begin < end {
        let middle = begin + (end - begin) / 2;
        // SAFETY: middle < entries.
        let key = unsafe { mem::load_readonly(args.keys.add(middle as usize)) }.widen();
        if key >> args.column_bits < row { begin = middle + 1 } else { end = middle }
    }
    // SAFETY: row <= rows.
    unsafe { mem::store(args.row_offsets.add(row as usize), begin) }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn rows(args: RowsArgs) {
    // SAFETY: a valid matrix, each entry of which has one thread; all lanes are here.
    unsafe {
        for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.rows, args.entries, |entry, row| {
            mem::store(args.row_indices.add(entry as usize), row);
        });
    }
}

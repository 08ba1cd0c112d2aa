//! Sums over neighbours, and means.

use cuda_std::{GpuFloat, mem, thread, warp::WARP_SIZE};

use super::{
    BLOCK_SIZE, Half, VECTOR,
    format::{narrow_all, widen},
};
use crate::{
    args::args,
    graph_lists::{Lists, Pieces, part_of},
    grid::group_index,
    unroll::unroll,
};

args! {
    /// The arguments of products, passed by value.
    pub struct Args {
        /// What is summed.
        part lists: Lists<A>,
        /// The pieces of long lists; with the lists, fewer than 2^32.
        part pieces: Pieces<A>,
        /// Vectors of a row of `x` and `y`, at least 1 and less than 2^28.
        value vectors: u32,
        /// 1 for means, 0 for sums.
        value mean: u32,
        /// Bytes from one value to the next.
        value value_bytes: u32,
        /// Of products with weights: a value for each entry. Otherwise null.
        read values: f32,
        /// A row for each neighbour.
        read x: u32,
        /// A row for each list.
        write y: u32,
        /// A row of sums for each piece.
        write of_pieces: f32,
    }
}

/// Groups of `lanes` lanes for so many lists, pieces and vectors of a row.
#[must_use]
pub const fn groups(lists: u32, pieces: u32, vectors: u32, lanes: u32) -> u64 {
    (lists as u64 + pieces as u64) * vectors.div_ceil(lanes) as u64
}

/// The body of products.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn product<H: Half, const WEIGHTED: bool, const LANES: u32>(args: Args) {
    const { assert!(WARP_SIZE.is_multiple_of(LANES)) }
    // The most blocks for whose registers nothing spills. Not measured.
    thread::launch_bounds::<BLOCK_SIZE, 10>();
    let group = group_index::<BLOCK_SIZE>(LANES);
    let (tile, number) = part_of(group, args.lists.lists + args.pieces.count);
    let vector = tile as u32 * LANES + thread::thread_idx_x() % LANES;
    if vector >= args.vectors {
        return;
    }
    // SAFETY: the list exists, and so do the lane's columns.
    unsafe {
        let Some((piece, list, begin, length)) = args.pieces.part(&args.lists, number.into()) else { return };
        let mut sums = over_entries::<H, WEIGHTED>(&args, begin, length, args.x.add(4 * vector as usize));
        let place = |row: u32| (u64::from(row) * u64::from(args.vectors) + u64::from(vector)) as usize;
        if let Some(piece) = piece {
            let sums_of_piece = args.of_pieces.add(VECTOR * place(piece));
            let [a, b, c, d, e, f, g, h] = sums;
            mem::store_v4(sums_of_piece, [a, b, c, d]);
            mem::store_v4(sums_of_piece.add(4), [e, f, g, h]);
            return;
        }
        if args.mean != 0 {
            sums = means(sums, length);
        }
        mem::store_streaming_v4(args.y.add(4 * place(list)), narrow_all::<H>(sums));
    }
}

/// Sums divided by a number of entries; without entries 0.
#[inline(always)]
pub(super) fn means(mut sums: [f32; VECTOR], entries: u32) -> [f32; VECTOR] {
    let entries = entries.max(1) as f32;
    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
        sums[K as usize] /= entries;
    });
    sums
}

/// The sums of a vector of columns over `left` entries from `begin` on, four at a time. `x` is the vector in row 0.
///
/// # Safety
/// The rules at the head of the family; the entries exist, and the columns.
#[inline(always)]
unsafe fn over_entries<H: Half, const WEIGHTED: bool>(
    args: &Args,
    begin: u32,
    mut left: u32,
    x: *const u32,
) -> [f32; VECTOR] {
    let mut sums = [0.0; VECTOR];
    let mut at = begin as usize;
    // SAFETY: as many entries are left.
    unsafe {
        while left >= 4 {
            add_four::<H, WEIGHTED, true>(args, &mut sums, at, 4, x);
            at += 4;
            left -= 4;
        }
        if left > 0 {
            add_four::<H, WEIGHTED, false>(args, &mut sums, at, left, x);
        }
    }
    sums
}

/// Adds up to four entries from `at` on, exactly four if `ALL`: their rows are loaded before the first is used.
///
/// # Safety
/// The rules at the head of the family; so many entries exist.
#[inline(always)]
unsafe fn add_four<H: Half, const WEIGHTED: bool, const ALL: bool>(
    args: &Args,
    sums: &mut [f32; VECTOR],
    at: usize,
    entries: u32,
    x: *const u32,
) {
    let (mut neighbours, mut rows) = ([0; 4], [[0; 4]; 4]);
    // SAFETY: the entry exists, and so does its neighbour's row; products with weights have values.
    unsafe {
        unroll!(K in [0, 1, 2, 3] {
            if ALL || K < entries {
                neighbours[K as usize] = mem::load_readonly(args.lists.neighbours.add(at + K as usize));
            }
        });
        let weights = if WEIGHTED { weights::<ALL>(args, at, entries) } else { [1.0; 4] };
        unroll!(K in [0, 1, 2, 3] {
            if ALL || K < entries {
                let row = u64::from(neighbours[K as usize]) * u64::from(16 * args.vectors);
                rows[K as usize] = mem::load_readonly_v4(x.byte_add(row as usize));
            }
        });
        unroll!(K in [0, 1, 2, 3] {
            if ALL || K < entries {
                add::<H, WEIGHTED>(sums, weights[K as usize], rows[K as usize]);
            }
        });
    }
}

/// The values of up to four entries.
///
/// # Safety
/// As for [`add_four`]; there are values.
#[inline(always)]
unsafe fn weights<const ALL: bool>(args: &Args, at: usize, entries: u32) -> [f32; 4] {
    let mut weights = [0.0; 4];
    let mut numbers = [at as u32, at as u32 + 1, at as u32 + 2, at as u32 + 3];
    // SAFETY: the entry exists; it has a number, and that a value.
    unsafe {
        if !args.lists.numbers.is_null() {
            unroll!(K in [0, 1, 2, 3] {
                if ALL || K < entries {
                    numbers[K as usize] = mem::load_readonly(args.lists.numbers.add(at + K as usize));
                }
            });
        }
        unroll!(K in [0, 1, 2, 3] {
            if ALL || K < entries {
                let value = u64::from(numbers[K as usize]) * u64::from(args.value_bytes);
                weights[K as usize] = mem::load_readonly(args.values.byte_add(value as usize));
            }
        });
    }
    weights
}

/// `sums += weight * row`, or `sums += row`.
#[inline(always)]
fn add<H: Half, const WEIGHTED: bool>(sums: &mut [f32; VECTOR], weight: f32, row: [u32; 4]) {
    let added = |sum: f32, element: f32| match WEIGHTED {
        true => GpuFloat::mul_add(weight, element, sum),
        false => sum + element,
    };
    unroll!(W in [0, 1, 2, 3] {
        let (at, [low, high]) = (2 * W as usize, widen::<H>(row[W as usize]));
        sums[at] = added(sums[at], low);
        sums[at + 1] = added(sums[at + 1], high);
    });
}

//! The output of a block.

use cuda_std::{
    GpuFloat, mem,
    shared::dynamic_shared_mem,
    thread,
    warp::{self, WARP_SIZE, warp_vote_any},
};

use super::{COLUMNS, LINES, MULTIPLYING, MultiplyArgs, ROWS, WARPS, line_in, product::Sums};
use crate::{
    arrival::arrive,
    gemm_block::{BlockArgs, tile_and_split, write_group},
    unroll::unroll,
};

/// `C = alpha * sums + beta * C`, where there are such rows and columns. The sums go through shared memory, each thread's for itself: so this is a loop over the
/// thread's groups of four columns, which takes an eighth of the instructions. If they are split, they go through global memory, and the last warp that comes with its part of the
/// tile adds them up, in order. What is not finite is computed again.
///
/// # Safety
/// All threads that multiply come here, and nobody needs what is in shared memory any more; the rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn write(sums: &Sums, args: &MultiplyArgs<f32>, first_row: u32, first_col: u32) {
    let (i, lane) = (thread::thread_idx_x(), warp::lane_id());
    let BlockArgs { gemm, split_k, .. } = &args.block;
    let (tile, split) = tile_and_split(&args.block);
    // The number of splits is at least 1, which the compiler cannot know.
    let tiles = thread::grid_dim_x() / (*split_k).max(1);
    let groups = dynamic_shared_mem::<f32>().offset(4 * i);
    let of_split = |split: u32| {
        let before = (split as usize * tiles as usize + tile as usize) * (ROWS * COLUMNS) as usize;
        args.block.partials.wrapping_add(before + 4 * i as usize)
    };
    // SAFETY: each thread has its own part of the shared memory, and of the partial sums of its block; each warp counts its arrivals.
    unsafe {
        each_group(sums, |at, group| groups.store_v4(at, group));
        if *split_k > 1 {
            let mut at = 0;
            while at < ROWS * COLUMNS {
                mem::store_v4(of_split(split).wrapping_add(at as usize), groups.load_v4(at));
                at += const { 4 * MULTIPLYING };
            }
            warp::sync_warp(u32::MAX);
            let counter = args.block.arrivals.wrapping_add((tile * WARPS + i / WARP_SIZE) as usize);
            if !arrive::<WARP_SIZE>(u32::MAX, counter, *split_k) {
                return;
            }
        }
    }
    let by_vectors = (gemm.c.addr() as u32).is_multiple_of(16) && (gemm.ldc | gemm.n).is_multiple_of(4);
    // The warp's 16 rows are in the same place of both halves.
    let row = first_row + i / WARP_SIZE * 16 + line_in(lane / 4);
    let row_of = |r: u32| row + r / 2 * LINES + r % 2 * 2;
    let mut group = 0;
    while group < const { COLUMNS / 16 } {
        let col = group * 16 + lane % 4 * 4;
        let mut values = [[0.0; 4]; 4];
        let mut split = 0;
        while split < *split_k {
            unroll!(R in [0, 1, 2, 3] {
                let at = place(R, group);
                // SAFETY: the thread has stored them, or has seen all that others have stored.
                let part = unsafe {
                    if *split_k == 1 { groups.load_v4(at) } else { mem::load_v4(of_split(split).wrapping_add(at as usize)) }
                };
                unroll!(C in [0, 1, 2, 3] {
                    values[R as usize][C as usize] += part[C as usize];
                });
            });
            split += 1;
        }
        // SAFETY: all lanes vote.
        if unsafe { warp_vote_any(u32::MAX, !is_finite(&values)) } {
            let rows = [row_of(0), row_of(1), row_of(2), row_of(3)];
            // SAFETY: the rules at the head of the family.
            values = unsafe { multiply_again(args, rows, first_col + col) };
        }
        unroll!(R in [0, 1, 2, 3] {
            let row = row_of(R);
            if row < gemm.m {
                let at = gemm.c.wrapping_add(row as usize * gemm.ldc as usize + (first_col + col) as usize);
                // SAFETY: the row exists, and so do the columns that are written.
                unsafe { write_group(gemm, at, gemm.n - first_col, col, by_vectors, |v: usize| values[R as usize][v]) };
            }
        });
        group += 1;
    }
}

/// Where a group of one of the thread's four rows is, counted from the first.
#[inline(always)]
const fn place(row: u32, group: u32) -> u32 {
    (8 * row + group) * MULTIPLYING * 4
}

/// Hands over all groups, each with its place: columns `8 j + 2 t + i` of 16 are four neighbours for each `t`.
#[inline(always)]
fn each_group(sums: &Sums, mut store: impl FnMut(u32, [f32; 4])) {
    unroll!(R in [0, 1, 2, 3] {
        unroll!(G in [0, 1, 2, 3, 4, 5, 6, 7] {
            let (half, first) = (&sums[R as usize / 2], (8 * G + 2 * (R % 2)) as usize);
            store(place(R, G), [half[first], half[first + 1], half[first + 4], half[first + 5]]);
        });
    });
}

/// Whether all are finite: zero times what is not is NaN, which stays.
#[inline(always)]
fn is_finite(values: &[[f32; 4]; 4]) -> bool {
    let mut zero = 0.0;
    unroll!(R in [0, 1, 2, 3] {
        unroll!(C in [0, 1, 2, 3] {
            zero = GpuFloat::mul_add(values[R as usize][C as usize], 0.0, zero);
        });
    });
    zero == 0.0
}

/// Four sums of each of these rows, of the columns from `col` on: fused multiply-adds from zero, in the order of the places. What does not exist counts as zero.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn multiply_again(args: &MultiplyArgs<f32>, rows: [u32; 4], col: u32) -> [[f32; 4]; 4] {
    let gemm = &args.block.gemm;
    let (lda, ldb) = (gemm.lda as usize, gemm.ldb as usize);
    // From one line to the next, and from one place to the next.
    let (a_line, a_place) = if args.a_by_rows != 0 { (lda, 1) } else { (1, lda) };
    let (b_line, b_place) = if args.b_by_rows != 0 { (1, ldb) } else { (ldb, 1) };
    let mut sums = [[0.0; 4]; 4];
    let mut place = 0;
    while place < gemm.k as usize {
        let (mut a, mut b) = ([0.0; 4], [0.0; 4]);
        unroll!(N in [0, 1, 2, 3] {
            let n = N as usize;
            // SAFETY: the row, the column and the place exist.
            unsafe {
                if rows[n] < gemm.m {
                    a[n] = mem::load(gemm.a.wrapping_add(rows[n] as usize * a_line + place * a_place));
                }
                if col + N < gemm.n {
                    b[n] = mem::load(gemm.b.wrapping_add((col + N) as usize * b_line + place * b_place));
                }
            }
        });
        unroll!(R in [0, 1, 2, 3] {
            unroll!(C in [0, 1, 2, 3] {
                let sum = &mut sums[R as usize][C as usize];
                *sum = GpuFloat::mul_add(a[R as usize], b[C as usize], *sum);
            });
        });
        place += 1;
    }
    sums
}

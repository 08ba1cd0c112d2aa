//! The output of a block.

use cuda_std::{
    GpuFloat, mem,
    shared::{Shared, dynamic_shared_mem},
    thread,
    warp::{self, WARP_SIZE, warp_vote_any},
};

use super::{
    LINES, MULTIPLYING, MultiplyArgs, line_in,
    product::{Sums, each_sum},
};
use crate::{gemm_block::write_group, unroll::unroll};

/// `C = alpha * sums + beta * C`, where there are such rows and columns. The sums go through shared memory, each thread's for itself: so this is a loop over the
/// thread's groups of four columns, which takes an eighth of the instructions. A warp that has sums that are not finite computes them again.
///
/// # Safety
/// Nobody needs what is in shared memory any more; the rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn write(sums: &Sums, args: &MultiplyArgs<f32>, first_row: u32, first_col: u32) {
    let (i, lane) = (thread::thread_idx_x(), warp::lane_id());
    let groups = dynamic_shared_mem::<f32>().offset(4 * i);
    // SAFETY: each thread has its own part of the shared memory; all lanes vote.
    let is_finite = unsafe {
        store(sums, groups);
        !warp_vote_any(u32::MAX, !is_finite(sums))
    };
    let gemm = &args.gemm;
    let by_vectors = (gemm.c.addr() as u32).is_multiple_of(16) && (gemm.ldc | gemm.n).is_multiple_of(4);
    // The warp's 16 rows are in the same place of both halves.
    let row = first_row + i / WARP_SIZE * 16 + line_in(lane / 4);
    let row_of = |r: u32| row + r / 2 * LINES + r % 2 * 2;
    let mut group = 0;
    while group < const { LINES / 16 } {
        let col = group * 16 + lane % 4 * 4;
        let values = if is_finite {
            // SAFETY: the thread has stored them.
            let load = |r: u32| unsafe { groups.load_v4(place(r, group)) };
            [load(0), load(1), load(2), load(3)]
        } else {
            let rows = [row_of(0), row_of(1), row_of(2), row_of(3)];
            // SAFETY: the rules at the head of the family.
            unsafe { multiply_again(args, rows, first_col + col) }
        };
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

/// Stores all sums: columns `8 j + 2 t + i` of 16 are four neighbours for each `t`.
///
/// # Safety
/// The shared memory is the thread's.
#[inline(always)]
unsafe fn store(sums: &Sums, groups: Shared<f32>) {
    unroll!(R in [0, 1, 2, 3] {
        unroll!(G in [0, 1, 2, 3, 4, 5, 6, 7] {
            let (half, first) = (&sums[R as usize / 2], (8 * G + 2 * (R % 2)) as usize);
            // SAFETY: the caller's promise.
            unsafe { groups.store_v4(place(R, G), [half[first], half[first + 1], half[first + 4], half[first + 5]]) };
        });
    });
}

/// Whether all of the thread's sums are finite.
#[inline(always)]
fn is_finite(sums: &Sums) -> bool {
    // Zero times what is not finite is NaN, which stays.
    let mut zero = 0.0;
    macro_rules! add {
        ($($sum:literal)*) => { $(
            zero = GpuFloat::mul_add(sums[0][$sum], 0.0, zero);
            zero = GpuFloat::mul_add(sums[1][$sum], 0.0, zero);
        )* };
    }
    each_sum!(add);
    zero == 0.0
}

/// Four sums of each of these rows, of the columns from `col` on: fused multiply-adds from zero, in the order of the places. What does not exist counts as zero.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn multiply_again(args: &MultiplyArgs<f32>, rows: [u32; 4], col: u32) -> [[f32; 4]; 4] {
    let gemm = &args.gemm;
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

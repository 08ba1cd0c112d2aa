//! The output of a block.

use cuda_std::shared::dynamic_shared_mem;

use super::product::WarpTile;
use crate::{
    gemm_args::GemmArgs,
    gemm_block::{ThreadSums, write_group},
    unroll::unroll,
};

/// `C = alpha * sums + beta * C`, where there are such rows and columns. The sums go through shared memory, each thread's for itself: so this is a loop, which takes
/// an eighth of the instructions.
///
/// # Safety
/// No thread of the block needs what is in shared memory any more, or has copies under way; `C` is there; no other block has these elements.
#[inline(always)]
pub(super) unsafe fn write<const A_ALONG: bool, const B_ALONG: bool>(
    sums: &WarpTile<A_ALONG, B_ALONG>,
    args: &GemmArgs<f32>,
    first_row: u32,
    first_col: u32,
) {
    let groups = dynamic_shared_mem::<f32>();
    // SAFETY: each thread has its own part of the shared memory. Rows of C that are written exist, and so do the columns.
    unsafe {
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            unroll!(G in [0, 1] {
                groups.store_v4(sums.exchange_index(R, G), sums.group(R, G));
            });
        });
        let by_vectors = (args.c.addr() as u32).is_multiple_of(16) && (args.ldc | args.n).is_multiple_of(4);
        let (row_in_tile, col_in_tile) = sums.first();
        let mut index = 0;
        while index < const { 8 * 2 } {
            let (row, group) = (index / 2, index % 2);
            let values = groups.load_v4(sums.exchange_index(row, group));
            let row = first_row + row_in_tile + WarpTile::<A_ALONG, B_ALONG>::rows_to(row);
            let col = col_in_tile + WarpTile::<A_ALONG, B_ALONG>::cols_to(group);
            if row < args.m {
                let at = args.c.wrapping_add(row as usize * args.ldc as usize + (first_col + col) as usize);
                write_group(args, at, args.n - first_col, col, by_vectors, |v: usize| values[v]);
            }
            index += 1;
        }
    }
}

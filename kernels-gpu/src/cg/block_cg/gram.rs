//! Gram matrices.

use cuda_std::{mem, shared_array, thread};

use super::{
    GramArgs, SumArgs,
    tile::{BLOCK_SIZE, Gram, TILE, Tile},
};
use crate::Scalar;

/// Threads per block of `sum`.
pub const SUM_BLOCK_SIZE: u32 = SUMS * SLICES;

/// Elements of the result that a block of `sum` adds up.
const SUMS: u32 = 8;
/// Threads for each.
const SLICES: u32 = 32;

/// Blocks of `sum`.
#[must_use]
pub const fn sum_grid_size(width: u32) -> u32 {
    width * width / SUMS
}

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn gram<T: Scalar>(args: GramArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 4>();
    let of_y = shared_array![f64; 2 * TILE as usize];
    let of_z = of_y.offset(TILE);
    let GramArgs { rows, width, y, z, scale, partials } = args;
    let mut sums = Gram::new(width);
    // SAFETY: the rules of this family; barriers separate what threads store from what others load.
    unsafe {
        Tile::each(rows, width, |tile| {
            tile.load(y, of_y, |y, row| tile.of_row(scale, row).widen() * y.widen());
            tile.load(z, of_z, |z, row| tile.of_row(scale, row).widen() * z.widen());
            thread::sync_threads();
            sums.add(of_y, of_z);
            thread::sync_threads();
        });
        sums.finish(of_y, partials);
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn sum(args: SumArgs) {
    let of_slices = shared_array![f64; SUM_BLOCK_SIZE as usize];
    let SumArgs { width, blocks, partials, gram } = args;
    let (at, slice) = (thread::thread_idx_x() % SUMS, thread::thread_idx_x() / SUMS);
    let element = (thread::block_idx_x() * SUMS + at) as usize;
    // SAFETY: the rules of this family; the barrier separates stores from loads.
    unsafe {
        let (mut sum, mut block) = (0.0, slice);
        while block < blocks {
            sum += mem::load_readonly(partials.wrapping_add(block as usize * (width * width) as usize + element));
            block += SLICES;
        }
        of_slices.store(thread::thread_idx_x(), sum);
        thread::sync_threads();
        if slice == 0 {
            let mut total = 0.0;
            let mut slice = 0;
            while slice < SLICES {
                total += of_slices.load(slice * SUMS + at);
                slice += 1;
            }
            mem::store(gram.wrapping_add(element), total);
        }
    }
}

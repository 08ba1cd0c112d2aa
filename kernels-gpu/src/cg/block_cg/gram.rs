//! Gram matrices.

use cuda_std::{mem, shared::Shared, shared_array, thread};

use super::{
    GramArgs, SumArgs,
    rows::{bounds, piece, warp_of_grid},
    sums::Gram,
    update::SMALL,
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
    bounds();
    let of_block = shared_array![f64; SMALL as usize];
    // SAFETY: the rules of this family.
    unsafe {
        match args.width {
            8 => gram_of::<T, 1>(args, of_block),
            16 => gram_of::<T, 2>(args, of_block),
            _ => gram_of::<T, 4>(args, of_block),
        }
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
unsafe fn gram_of<T: Scalar, const G: u32>(args: GramArgs<T>, of_block: Shared<f64>) {
    let GramArgs { rows, y, z, scale, partials, .. } = args;
    let mut sums = Gram::<G, false>::new();
    // SAFETY: the rules of this family; all lanes of a warp take the same steps.
    unsafe {
        let (mut step, warps) = warp_of_grid();
        while step < rows / 16 {
            sums.add_rows(y, z, scale, 16 * step);
            step += warps;
        }
        sums.finish(const { piece::<T>(G) }, of_block, partials);
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

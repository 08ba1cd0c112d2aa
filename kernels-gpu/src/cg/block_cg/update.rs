//! Tall matrices times small ones.

use cuda_std::{
    shared::{Shared, dynamic_shared_mem},
    shared_array, thread,
};

use super::{
    DirectionArgs, ResidualArgs,
    tile::{BLOCK_SIZE, Gram, MAX_COLUMNS, TILE, Tile, load_small, room},
};
use crate::Scalar;

/// Elements of the largest small matrix.
const SMALL: u32 = MAX_COLUMNS * MAX_COLUMNS;

/// Bytes of dynamic shared memory of `direction`, which 32 columns need most of: two tiles and three small matrices.
pub(super) const fn direction_bytes<T>() -> u32 {
    (2 * room(MAX_COLUMNS) + 3 * SMALL) * size_of::<T>() as u32
}

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn residual<T: Scalar>(args: ResidualArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 3>();
    let of_q = shared_array![T; TILE as usize];
    let factor = shared_array![T; SMALL as usize];
    let scaled = shared_array![f64; TILE as usize];
    let ResidualArgs { rows, width, v, q, scale, partials, .. } = args;
    // One after the other in the same memory.
    let of_v = scaled.cast::<T>();
    let mut gram = Gram::new(width);
    // SAFETY: the rules of this family; barriers separate what threads store from what others load.
    unsafe {
        load_small(args.factor, factor, width * width);
        Tile::each(rows, width, |tile| {
            tile.load(q.cast_const(), of_q, |value, _| value);
            tile.load(v, of_v, |value, _| value);
            thread::sync_threads();
            let mut sums = tile.elements(of_q);
            tile.multiply(&mut sums, of_v, factor);
            thread::sync_threads();
            tile.overwrite(of_q, sums);
            tile.overwrite(scaled, tile.scaled(sums, |q, row| tile.of_row(scale, row).widen() * q.widen()));
            thread::sync_threads();
            tile.store(of_q, q);
            gram.add(scaled, scaled);
            thread::sync_threads();
        });
        gram.finish(scaled, partials);
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn direction<T: Scalar>(args: DirectionArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 3>();
    let DirectionArgs { rows, width, factors, scale, q, s, x } = args;
    let small = width * width;
    let [to_q, to_s, to_x] = [0, 1, 2].map(|k| dynamic_shared_mem::<T>().offset(k * small));
    let of_q: Shared<T> = dynamic_shared_mem().offset(3 * small);
    let of_s = of_q.offset(room(width));
    // SAFETY: the rules of this family; barriers separate what threads store from what others load.
    unsafe {
        load_small(factors, to_q, 3 * small);
        Tile::each(rows, width, |tile| {
            tile.load(q.cast_const(), of_q, |value, _| value);
            tile.load(s.cast_const(), of_s, |value, _| value);
            thread::sync_threads();
            let mut sums = [[T::ZERO; 4]; 4];
            tile.multiply(&mut sums, of_q, to_q);
            thread::sync_threads();
            tile.overwrite(of_q, sums);
            thread::sync_threads();
            tile.store(of_q, q);
            let weighted = |q, row| {
                let root = tile.of_row(scale, row);
                root * (root * q)
            };
            sums = tile.scaled(sums, weighted);
            tile.multiply(&mut sums, of_s, to_s);
            thread::sync_threads();
            // From here on in place of `q`.
            let of_x = of_q;
            tile.load(x.cast_const(), of_x, |value, _| value);
            thread::sync_threads();
            let mut sums_of_x = tile.elements(of_x);
            tile.multiply(&mut sums_of_x, of_s, to_x);
            thread::sync_threads();
            tile.overwrite(of_x, sums_of_x);
            tile.overwrite(of_s, sums);
            thread::sync_threads();
            tile.store(of_x, x);
            tile.store(of_s, s);
            thread::sync_threads();
        });
    }
}

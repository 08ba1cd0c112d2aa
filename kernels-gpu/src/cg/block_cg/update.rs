//! Tall matrices times small ones.

use cuda_std::{mem, shared::Shared, shared_array, thread};

use super::{
    DirectionArgs, ResidualArgs,
    factor::progress,
    product::{Product, load_small},
    rows::{MAX_COLUMNS, WARPS, bounds, load, scales, store, warp_index, warp_of_grid},
    sums::{EXCHANGE, Gram},
};
use crate::unroll::unroll;

/// Elements of the largest small matrix.
pub(super) const SMALL: u32 = MAX_COLUMNS * MAX_COLUMNS;

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn residual<T: Product, const R: usize>(args: ResidualArgs<T>) {
    bounds();
    // SAFETY: the rules of this family.
    if unsafe { mem::load_readonly(args.state) } != progress::RUNS {
        return;
    }
    let small = shared_array![T; SMALL as usize];
    let exchange = shared_array![f64; (WARPS * EXCHANGE) as usize].offset(warp_index() * EXCHANGE);
    let of_block = shared_array![f64; SMALL as usize];
    // SAFETY: the rules of this family.
    unsafe {
        match args.width {
            8 => residual_of::<T, R, 2, 1>(args, small, exchange, of_block),
            16 => residual_of::<T, R, 4, 2>(args, small, exchange, of_block),
            _ => residual_of::<T, R, 8, 4>(args, small, exchange, of_block),
        }
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
unsafe fn residual_of<T: Product, const R: usize, const C: u32, const G: u32>(
    args: ResidualArgs<T>,
    small: Shared<T>,
    exchange: Shared<f64>,
    of_block: Shared<f64>,
) {
    let ResidualArgs { rows, v, factor, q, scale, partials, .. } = args;
    let height = const { 8 * R as u32 };
    let mut gram = Gram::<G, true>::new();
    // SAFETY: the rules of this family; a barrier separates what threads store from what others load, a lane has its elements of the tall matrices alone, and a warp its
    // exchange.
    unsafe {
        load_small::<T, C>(factor, small, 1);
        thread::sync_threads();
        let (mut step, warps) = warp_of_grid();
        while step < rows / height {
            let first = step * height;
            let of_v = load::<T, R, C>(v, first);
            let mut sums = load::<T, R, C>(q, first);
            T::multiply::<R, C>(&mut sums, &of_v, small);
            store::<T, R, C>(q, first, &sums);
            gram.add_elements::<T, R, C>(&sums, scales(scale, first), exchange);
            step += warps;
        }
        gram.finish(const { if G == 1 { 1 } else { 2 } }, of_block, partials);
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn direction<T: Product, const R: usize>(args: DirectionArgs<T>) {
    bounds();
    // SAFETY: the rules of this family.
    if unsafe { mem::load_readonly(args.state.add(2)) } == 0 {
        return;
    }
    let small = shared_array![T; 3 * SMALL as usize];
    // SAFETY: the rules of this family.
    unsafe {
        match args.width {
            8 => direction_of::<T, R, 2>(args, small),
            16 => direction_of::<T, R, 4>(args, small),
            _ => direction_of::<T, R, 8>(args, small),
        }
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
unsafe fn direction_of<T: Product, const R: usize, const C: u32>(args: DirectionArgs<T>, small: Shared<T>) {
    let DirectionArgs { rows, factors, scale, q, s, x, .. } = args;
    let height = const { 8 * R as u32 };
    let [to_q, to_s, to_x] = [0, 1, 2].map(|k| small.offset(k * const { 16 * C * C }));
    // SAFETY: the rules of this family; a barrier separates what threads store from what others load, and a lane has its elements of the tall matrices alone.
    unsafe {
        load_small::<T, C>(factors, small, 3);
        thread::sync_threads();
        let (mut step, warps) = warp_of_grid();
        while step < rows / height {
            let first = step * height;
            let of_q = load::<T, R, C>(q, first);
            let mut sums = [[T::ZERO; 8]; R];
            T::multiply::<R, C>(&mut sums, &of_q, to_q);
            store::<T, R, C>(q, first, &sums);
            let of_s = load::<T, R, C>(s, first);
            let scales = scales::<T, R>(scale, first);
            unroll!(U in [0, 1, 2, 3] {
                if U < R as u32 {
                    let root = scales[U as usize];
                    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                        sums[U as usize][K as usize] = root * (root * sums[U as usize][K as usize]);
                    });
                }
            });
            T::multiply::<R, C>(&mut sums, &of_s, to_s);
            store::<T, R, C>(s, first, &sums);
            let mut sums = load::<T, R, C>(x, first);
            T::multiply::<R, C>(&mut sums, &of_s, to_x);
            store::<T, R, C>(x, first, &sums);
            step += warps;
        }
    }
}

//! The small matrices of an iteration.

use cuda_std::{GpuFloat, mem, shared::Shared, shared_array, thread};

use super::{FactorArgs, rows::MAX_COLUMNS};
use crate::{Scalar, lanes::Group};

/// Threads of `factor`, one for each element; a warp has a row.
pub const FACTOR_BLOCK_SIZE: u32 = MAX_COLUMNS * MAX_COLUMNS;

/// A pivot of a Gram matrix with ones on its diagonal that is at most this: but for rounding, the column is a sum of those with earlier pivots.
pub const DEPENDENT: f64 = 1e-12;

/// If the least pivot is below this, the columns are made orthonormal twice (Yamamoto et al., "Roundoff error analysis of the CholeskyQR2 algorithm", 2015):
/// once leaves errors of about the precision divided by the pivot.
pub const TWICE: f64 = 1e-4;

/// How the iterations go on: [`FactorArgs::state`] begins with one of these.
pub mod progress {
    /// With the next iteration.
    pub const RUNS: u32 = 0;
    /// A column has reached its limit in this iteration, which is complete.
    pub const ENDED: u32 = 1;
    /// This iteration lacks `factor` and `direction`: the columns of `Q` have to be made orthonormal twice.
    pub const TWICE: u32 = 2;
    /// `S^T A S` is not positive definite, or not finite.
    pub const NO_INVERSE: u32 = 3;
    /// `Q^T W Q` is not finite.
    pub const NOT_FINITE: u32 = 4;
}

/// Squares in shared memory, and a number for each row.
#[derive(Clone, Copy)]
struct Room {
    /// What is left of the scaled Gram matrix, then `R`, and then the old `C`.
    left: Shared<f64>,
    /// The rows of Cholesky's factor, a pivot each, and then `Z`.
    rows: Shared<f64>,
    /// The inverse of that factor's columns of pivots, and then the new `C`.
    inverse: Shared<f64>,
    of_rows: Shared<f64>,
    /// What all threads branch by.
    of_block: Shared<f64>,
    pivots: Shared<u32>,
}

#[inline(always)]
const fn at(i: u32, j: u32) -> u32 {
    i * MAX_COLUMNS + j
}

/// A number of each row, added up.
///
/// # Safety
/// All threads of the block call it; nothing else accesses `of_rows` and `of_block`.
#[inline(always)]
unsafe fn sum_of_rows(number: f64, Room { of_rows, of_block, .. }: Room) -> f64 {
    let (warp, i) = (Group::<32>::new(), thread::thread_idx_x() / MAX_COLUMNS);
    // SAFETY: a place a row, and one for the sum; barriers separate what threads store from what others load.
    unsafe {
        if warp.lane == 0 {
            of_rows.store(i, number);
        }
        thread::sync_threads();
        if i == 0 {
            let sum = warp.reduce(of_rows.load(warp.lane), |a, b| a + b);
            if warp.lane == 0 {
                of_block.store(0, sum);
            }
        }
        thread::sync_threads();
        of_block.load(0)
    }
}

/// # Safety
/// The rules of this family.
#[inline(always)]
pub(super) unsafe fn factor<T: Scalar>(args: FactorArgs<T>) {
    let room = Room {
        left: shared_array![f64; FACTOR_BLOCK_SIZE as usize],
        rows: shared_array![f64; FACTOR_BLOCK_SIZE as usize],
        inverse: shared_array![f64; FACTOR_BLOCK_SIZE as usize],
        of_rows: shared_array![f64; MAX_COLUMNS as usize],
        of_block: shared_array![f64; 1],
        pivots: shared_array![u32; MAX_COLUMNS as usize],
    };
    // SAFETY: the rules of this family; the state is the same for all threads.
    unsafe {
        let (state, rank) = (mem::load(args.state.cast_const()), mem::load(args.state.add(1).cast_const()));
        thread::sync_threads();
        let runs = state == progress::RUNS;
        let next = if runs { factor_of(args, room, rank) } else { state };
        if thread::thread_idx_x() == 0 {
            let moves = runs && (next == progress::RUNS || next == progress::ENDED);
            mem::store(args.state, next);
            mem::store(args.state.add(2), u32::from(moves));
            let log = args.log.add(args.width as usize);
            mem::store(log, if runs { f64::from(next) } else { -1.0 });
            mem::store(log.add(1), f64::from(mem::load(args.state.add(1).cast_const())));
        }
    }
}

/// 1 if a number is not finite, or 0.
#[inline(always)]
fn broken(number: f64) -> f64 {
    if number.is_finite() { 0.0 } else { 1.0 }
}

/// Returns how the iterations go on.
///
/// # Safety
/// The rules of this family; all threads of the block call it.
#[inline(always)]
unsafe fn factor_of<T: Scalar>(args: FactorArgs<T>, room: Room, size: u32) -> u32 {
    let FactorArgs { width, gram, inverse: n, factors, c, state, limits, log, .. } = args;
    let Room { left, rows, inverse, of_block, pivots, .. } = room;
    let warp = Group::<32>::new();
    let (i, j) = (thread::thread_idx_x() / MAX_COLUMNS, warp.lane);
    let exists = i < size && j < size;
    // SAFETY: the rules of this family; barriers separate what threads store from what others load.
    unsafe {
        let of_gram = |i: u32, j: u32| mem::load(gram.add((i * width + j) as usize));
        let own_n = if exists { mem::load(n.add((i * width + j) as usize)) } else { 0.0 };
        if sum_of_rows(warp.reduce(broken(own_n), |a, b| a + b), room) != 0.0 {
            return progress::NO_INVERSE;
        }
        let mean = if exists { 0.5 * (of_gram(i, j) + of_gram(j, i)) } else { 0.0 };
        if sum_of_rows(warp.reduce(broken(mean), |a, b| a + b), room) != 0.0 {
            return progress::NOT_FINITE;
        }
        // The norms of columns `lane` and `i`.
        let square = if j < size { of_gram(j, j) } else { 0.0 };
        let norm = GpuFloat::sqrt(if square < 0.0 { -square } else { square });
        let norms = norm * warp.get(norm, i);
        left.store(at(i, j), if norms == 0.0 { 0.0 } else { mean / norms });
        thread::sync_threads();

        // Cholesky's method with pivots. A column that is none has a 0 in the rows after its own.
        let (mut others, mut rank, mut least) = (u32::MAX, 0, 1.0);
        while rank < size {
            if i == 0 {
                let own = if others >> j & 1 == 1 { left.load(at(j, j)) } else { -1.0 };
                let most = warp.reduce(own, |a, b| if a > b { a } else { b });
                let pivot = warp.ballot(own == most).trailing_zeros();
                let root = GpuFloat::sqrt(most);
                let element = match others >> j & 1 == 1 {
                    _ if j == pivot => root,
                    true => left.load(at(pivot, j)) / root,
                    false => 0.0,
                };
                rows.store(at(rank, j), element);
                if j == 0 {
                    of_block.store(0, most);
                    pivots.store(rank, pivot);
                }
            }
            thread::sync_threads();
            let square = of_block.load(0);
            if square <= DEPENDENT {
                break;
            }
            least = if square < least { square } else { least };
            others &= !(1 << pivots.load(rank));
            if others >> i & 1 == 1 && others >> j & 1 == 1 {
                let (factor_j, factor_i) = (rows.load(at(rank, j)), rows.load(at(rank, i)));
                left.store(at(i, j), GpuFloat::mul_add(-factor_i, factor_j, left.load(at(i, j))));
            }
            thread::sync_threads();
            rank += 1;
        }
        if rank > 0 && least < TWICE {
            return progress::TWICE;
        }

        // The inverse of the columns of the pivots, row by row, from the last to the first.
        let (mut known, mut row) = (0.0, rank);
        while row > 0 {
            row -= 1;
            let pivot = pivots.load(row);
            if i == row {
                let one = if j == row { 1.0 } else { 0.0 };
                let element = if j < row || j >= rank { 0.0 } else { (one - known) / rows.load(at(row, pivot)) };
                inverse.store(at(row, j), element);
            }
            thread::sync_threads();
            if i < row {
                known = GpuFloat::mul_add(rows.load(at(i, pivot)), inverse.load(at(row, j)), known);
            }
        }
        // Row `pivots[i]` of R, and Z.
        left.store(at(i, j), 0.0);
        thread::sync_threads();
        if i < rank {
            let pivot = pivots.load(i);
            left.store(at(pivot, j), inverse.load(at(i, j)) / warp.get(norm, pivot));
        }
        rows.store(at(i, j), if i < rank { rows.load(at(i, j)) * norm } else { 0.0 });
        thread::sync_threads();
        let (square, place) = ((width * width) as usize, (i * width + j) as usize);
        let fits = i < width && j < width;
        if fits {
            mem::store(factors.add(place), T::narrow(left.load(at(i, j))));
            mem::store(factors.add(square + place), T::narrow(rows.load(at(j, i))));
        }
        thread::sync_threads();

        // The steps -N C of the columns that take part, and the new C = Z C.
        left.store(at(i, j), if i < size && j < width { mem::load(c.add(place).cast_const()) } else { 0.0 });
        thread::sync_threads();
        let (mut step, mut new, mut m) = (0.0, 0.0, 0);
        while m < size {
            let of_c = left.load(at(m, j));
            if i < size {
                step = GpuFloat::mul_add(mem::load(n.add((i * width + m) as usize)), of_c, step);
            }
            new = GpuFloat::mul_add(rows.load(at(i, m)), of_c, new);
            m += 1;
        }
        inverse.store(at(i, j), new);
        thread::sync_threads();
        let limit = if j < width { mem::load(limits.add(j as usize)) } else { -1.0 };
        if fits {
            mem::store(factors.add(2 * square + place), T::narrow(if limit >= 0.0 { -step } else { 0.0 }));
            mem::store(c.add(place), new);
        }
        // The norm of column `i`.
        let element = inverse.load(at(j, i));
        let length = GpuFloat::sqrt(warp.reduce(element * element, |a, b| a + b));
        let is_end = i < width && length <= mem::load(limits.add((i % width) as usize));
        if i < width && j == 0 {
            mem::store(log.add(i as usize), length);
        }
        if i == 0 && j == 0 {
            mem::store(state.add(1), rank);
        }
        match sum_of_rows(if is_end { 1.0 } else { 0.0 }, room) > 0.0 {
            true => progress::ENDED,
            false => progress::RUNS,
        }
    }
}

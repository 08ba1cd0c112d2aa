//! Residual replacement of the conjugate gradient method in two precisions: the matrix and the iterations in `f32`, the solution in `f64`.
//!
//! # The mathematics
//! van der Vorst & Ye, "Residual replacement strategies for Krylov subspace iterative methods for the convergence of true residuals"
//! (2000): now and then what the iterations have added to the solution is added to it for good, and their residual
//! is replaced by that of the sum.
//! ```text
//! add         x = x + dx, dx = 0            in f64
//! residual    r = b - A x, r . r, b . b     in f64, A of f32; r then rounded to f32
//! ```
//!
//! # When to use it
//! Between the iterations of `cg_steps` or `cg_persistent`, each time that the residual has become a tenth.
//!
//! # Rows, lanes
//! Eight lanes a row; blocks take as many rows as they have groups of lanes, then those that as many blocks are further.
//!
//! # Bytes moved
//! `residual`: the matrix once, 8 bytes for `b` and for `x`, and 4 for `r`, an element. `add`: 24 an element.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. None overlaps another, and nothing else accesses
//!    what the launch writes meanwhile.
//! 2. `row_offsets` starts at 0 and never falls, and the entries that it names exist; every column index is below `rows`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{GpuFloat, mem, thread, warp::WARP_SIZE};

use crate::{
    args::args,
    family::family,
    row_sum::sum_of_group,
    sums::{MAX_BLOCKS, PARTIALS, Sum, over_grid},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;
/// Lanes of a row.
const LANES: u32 = 8;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args {
        /// Rows, and columns, of the matrix.
        value rows: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// The column indices.
        read col_indices: u32,
        /// The values.
        read values: f32,
        /// The right-hand side, `rows` elements, and so have the next three.
        read b: f64 [rows as usize],
        /// The solution.
        write x: f64 [rows as usize],
        /// What is added to the solution.
        write dx: f32 [null or rows as usize],
        /// The residual.
        write r: f32 [rows as usize],
        /// Sums of blocks; `residual` leaves `r . r` and `b . b` in the first two elements.
        write partials: f64 [PARTIALS],
        /// Blocks that have arrived at a sum; 0 between launches.
        write arrivals: u32 [1],
    }
}

/// The two launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adds to the solution.
    Add,
    /// The residual of the solution.
    Residual,
}

family! {
    "cg_mixed", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The launch.
        step: Step,
    }

    cg_mixed_add(Step::Add): Args => add;
    cg_mixed_residual(Step::Residual): Args => residual;
}

/// Blocks for so many rows on a GPU of so many multiprocessors.
#[must_use]
pub fn grid_size(rows: u32, multiprocessors: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / LANES).clamp(1, (8 * multiprocessors).min(MAX_BLOCKS))
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn add(args: Args) {
    let mut row = u64::from(thread::index_1d());
    while row < u64::from(args.rows) {
        // SAFETY: row < rows, and each thread has rows of its own.
        unsafe {
            let (x, dx) = (args.x.add(row as usize), args.dx.add(row as usize));
            mem::store(x, mem::load(x) + f64::from(mem::load(dx)));
            mem::store(dx, 0.0);
        }
        row += u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE);
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn residual(args: Args) {
    let lane = thread::thread_idx_x() % LANES;
    let mut sums = [Sum::<true>::ZERO; 2];
    let mut first = u64::from(thread::block_idx_x()) * u64::from(BLOCK_SIZE / LANES);
    // SAFETY: rows below `rows` and their entries; all lanes of a warp come to the shuffles, all threads to the sums. Who gets them has
    // read all partial ones.
    unsafe {
        while first < u64::from(args.rows) {
            let row = first + u64::from(thread::thread_idx_x() / LANES);
            let ours = row < u64::from(args.rows);
            let mut sum = 0.0;
            if ours {
                let end = mem::load_readonly(args.row_offsets.add(row as usize + 1)) as usize;
                let mut entry = mem::load_readonly(args.row_offsets.add(row as usize)) as usize + lane as usize;
                while entry < end {
                    let column = mem::load_streaming(args.col_indices.add(entry)) as usize;
                    let value = f64::from(mem::load_streaming(args.values.add(entry)));
                    sum = GpuFloat::mul_add(value, mem::load_readonly(args.x.cast_const().add(column)), sum);
                    entry += LANES as usize;
                }
            }
            sum_of_group!(sum, LANES);
            if ours && lane == 0 {
                let b = mem::load_readonly(args.b.add(row as usize));
                let r = b - sum;
                mem::store(args.r.add(row as usize), r as f32);
                sums[0].add_product(r, r);
                sums[1].add_product(b, b);
            }
            first += u64::from(thread::grid_dim_x()) * u64::from(BLOCK_SIZE / LANES);
        }
        if let Some([rr, bb]) = over_grid::<true, 2, { BLOCK_SIZE / WARP_SIZE }>(sums, args.partials, args.arrivals) {
            mem::store(args.partials, rr.total());
            mem::store(args.partials.add(1), bb.total());
        }
    }
}

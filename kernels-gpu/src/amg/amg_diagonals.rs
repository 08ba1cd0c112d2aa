//! A symmetric matrix of few diagonals: the main one and those above it, in place of all entries. Sweeps of a smoother of multigrid over it.
//!
//! # The mathematics
//! ```text
//! values[k * leading_dimension + i] = a[i][i + d] = a[i + d][i], d = offsets[k]     offsets[0] = 0, ascending
//!
//! fill       the diagonals of a matrix in CSR
//! check      whether its entries below are those above
//! sweep      y = A x                                                   without b
//!            y = b - A x                                               without `inverse`
//!            y = x + alpha D (b - A x) + beta (x - older)              without `older`, that is 0
//! ```
//! The matrix is of numbers `T`, and the diagonals hold them as `V`: `f32` where that is exact, as for many stencils. `D` is the inverse of the diagonal. The products of a row are added in the order of the columns, as by `amg_sweep` with one lane: the same bits.
//!
//! # When to use it
//! Symmetric matrices of stencils, on the finest level: no column indices are read, and each value once, of 4 bytes if possible.
//!
//! # Rows and threads
//! ```text
//! sweep    a thread per row      row i    v[i-d2] x[i-d2]   v[i-d1] x[i-d1]   v[i] x[i]   v[i] x[i+d1]   v[i] x[i+d2]      STEP loads before the first is used
//!                                         diagonal 2        1                 0           1              2
//! march    rows d2 apart         row i    v[i-d2] x[i-d2] have been loaded two rows before, x[i] one row before
//! ```
//! On a grid, a thread of `march` goes from line to line, or from plane to plane, and keeps in registers what its rows share; in `sweep` each thread loads it from the L2
//! cache.
//!
//! # Bytes moved
//! A sweep: a value for each row and diagonal, `x`, `b`, `y` once each; in a step `D`, and with `beta` `older`. What rows share comes from the caches. `fill`:
//! the matrix and the diagonals once. `check`: the same.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses it during the
//!    launch; but `differs` has words that all threads count in.
//! 2. `offsets` starts with 0, ascends strictly, and is below `rows`; `leading_dimension` is at least `rows`.
//! 3. `row_offsets` starts at 0, never falls and ends at `entries`; columns are below `rows`, and ascend strictly in a row.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] or, for `march`, [`march_grid_size`] blocks.
//! 5. For `march` there are 2 to [`MARCHED`] diagonals, the last offset is `distance`, and `rows + distance` is below 2^32.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_fetch_add_u32_device, mem, thread};

use crate::{DType, Scalar, args::args, csr_rows::first_not_below, family::family, grid::thread_index, unroll::unroll};

/// Threads per block: neighbours in the next row of a grid of up to so many points a row come from the same cache. Not measured yet.
pub const BLOCK_SIZE: u32 = 512;

/// Entries of a row that are loaded before the first is used: all of a 7-point stencil. Not measured yet.
const STEP: u32 = 7;

/// Diagonals of a matrix that threads march over, at most: those of a 7-point stencil.
pub const MARCHED: u32 = 4;

/// The rows of a thread that marches. With 2 to 32, solutions on 256^3 and 2048^2 points take the same time, within 4% (H100, driver 580.159.04, 2026-11-26).
pub const STEPS: u32 = 4;

args! {
    /// The matrix.
    pub struct Diagonals<V> {
        /// Rows, and columns.
        value rows: u32,
        /// Diagonals that are stored.
        value diagonals: u32,
        /// From one diagonal to the next, in elements of `values`.
        value leading_dimension: u64,
        /// Column minus row of each.
        read offsets: u32 [diagonals as usize],
        /// `diagonals * leading_dimension` values; 0 outside of the matrix. Null for `fill`, which writes them.
        read values: V [null or diagonals as usize * leading_dimension as usize],
    }
}

args! {
    /// The arguments of `fill` and `check`.
    pub struct FillArgs<T, V> {
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [matrix.rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read csr_values: T [entries as usize],
        /// The values of the diagonals; null for `check`, which reads them.
        write new_values: V [null or matrix.diagonals as usize * matrix.leading_dimension as usize],
        /// Rows with an entry on no diagonal, or with another below the diagonal than above it; and rows with a number that is no `V`: to start from 0.
        write differs: u32 [2],
        /// The diagonals.
        part matrix: Diagonals<V, A>,
    }
}

args! {
    /// The arguments of `sweep`.
    pub struct SweepArgs<T, V> {
        /// The factor of the residual.
        value alpha: T,
        /// The factor of the last step.
        value beta: T,
        /// For `march`, from each row of a thread to its next.
        value distance: u32,
        /// The inverse of the diagonal; null for the residual and the product.
        read inverse: T [null or matrix.rows as usize],
        /// The right-hand side; null for the product.
        read b: T [null or matrix.rows as usize],
        /// The iterate.
        read x: T [matrix.rows as usize],
        /// The iterate before, or null.
        read older: T [null or matrix.rows as usize],
        /// The result.
        write y: T [matrix.rows as usize],
        /// The matrix.
        part matrix: Diagonals<V, A>,
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`FillArgs`].
    Fill,
    /// With [`FillArgs`].
    Check,
    /// With [`SweepArgs`].
    Sweep,
    /// With [`SweepArgs`], of few diagonals.
    March,
}

family! {
    "amg_diagonals", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// The type of the matrix and the vectors.
        dtype: DType,
        /// The type of the diagonals.
        stored: DType,
    }

    amg_diagonals_fill_f32(Operation::Fill, DType::F32, DType::F32): FillArgs<f32, f32> => fill::<f32, f32>;
    amg_diagonals_fill_f64_of_f32(Operation::Fill, DType::F64, DType::F32): FillArgs<f64, f32> => fill::<f64, f32>;
    amg_diagonals_fill_f64(Operation::Fill, DType::F64, DType::F64): FillArgs<f64, f64> => fill::<f64, f64>;
    amg_diagonals_check_f32(Operation::Check, DType::F32, DType::F32): FillArgs<f32, f32> => check::<f32, f32>;
    amg_diagonals_check_f64_of_f32(Operation::Check, DType::F64, DType::F32): FillArgs<f64, f32> => check::<f64, f32>;
    amg_diagonals_check_f64(Operation::Check, DType::F64, DType::F64): FillArgs<f64, f64> => check::<f64, f64>;
    amg_diagonals_sweep_f32(Operation::Sweep, DType::F32, DType::F32): SweepArgs<f32, f32> => sweep::<f32, f32>;
    amg_diagonals_sweep_f64_of_f32(Operation::Sweep, DType::F64, DType::F32): SweepArgs<f64, f32> => sweep::<f64, f32>;
    amg_diagonals_sweep_f64(Operation::Sweep, DType::F64, DType::F64): SweepArgs<f64, f64> => sweep::<f64, f64>;
    amg_diagonals_march_f32(Operation::March, DType::F32, DType::F32): SweepArgs<f32, f32> => march::<f32, f32>;
    amg_diagonals_march_f64_of_f32(Operation::March, DType::F64, DType::F32): SweepArgs<f64, f32> => march::<f64, f32>;
    amg_diagonals_march_f64(Operation::March, DType::F64, DType::F64): SweepArgs<f64, f64> => march::<f64, f64>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE)
}

/// Blocks that march over so many rows.
#[must_use]
pub const fn march_grid_size(rows: u32, distance: u32) -> u32 {
    distance.div_ceil(BLOCK_SIZE) * rows.div_ceil(distance).div_ceil(STEPS)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar, V: Scalar>(args: FillArgs<T, V>) {
    let FillArgs { row_offsets, col_indices, csr_values, new_values, matrix, .. } = args;
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(matrix.rows) {
        return;
    }
    // SAFETY: row < rows, entries between offsets exist, and each thread has slots of its own.
    unsafe {
        let end = mem::load_readonly(row_offsets.add(row as usize + 1));
        let mut entry = mem::load_readonly(row_offsets.add(row as usize));
        entry = first_not_below(col_indices, entry, end, row as u32);
        let (mut k, mut is_exact) = (0, true);
        while k < matrix.diagonals {
            let column = row + u64::from(mem::load_readonly(matrix.offsets.add(k as usize)));
            let mut value = T::ZERO;
            if entry < end && u64::from(mem::load_readonly(col_indices.add(entry as usize))) == column {
                value = mem::load_readonly(csr_values.add(entry as usize));
                entry += 1;
            }
            let stored = V::narrow(value.widen());
            is_exact &= stored.widen() == value.widen();
            mem::store(new_values.add((u64::from(k) * matrix.leading_dimension + row) as usize), stored);
            k += 1;
        }
        if entry < end {
            atomic_fetch_add_u32_device(args.differs, Relaxed, 1);
        }
        if !is_exact {
            atomic_fetch_add_u32_device(args.differs.add(1), Relaxed, 1);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn check<T: Scalar, V: Scalar>(args: FillArgs<T, V>) {
    let FillArgs { row_offsets, col_indices, csr_values, matrix, .. } = args;
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(matrix.rows) {
        return;
    }
    // SAFETY: row < rows, entries between offsets exist, and an offset of at most `row` leads to a row.
    unsafe {
        let (begin, end) = (row_offsets.add(row as usize), row_offsets.add(row as usize + 1));
        let (mut entry, end) = (mem::load_readonly(begin), mem::load_readonly(end));
        // Columns ascend, so distances to the diagonal descend.
        let (mut is_same, mut k) = (true, matrix.diagonals);
        while k > 1 {
            k -= 1;
            let offset = u64::from(mem::load_readonly(matrix.offsets.add(k as usize)));
            if offset <= row {
                let column = row - offset;
                let mut value = T::ZERO;
                if entry < end && u64::from(mem::load_readonly(col_indices.add(entry as usize))) == column {
                    value = mem::load_readonly(csr_values.add(entry as usize));
                    entry += 1;
                }
                let slot = u64::from(k) * matrix.leading_dimension + column;
                is_same &= mem::load_readonly(matrix.values.add(slot as usize)) == V::narrow(value.widen());
            }
        }
        // Others below the diagonal are on none of these.
        is_same &= entry == end || u64::from(mem::load_readonly(col_indices.add(entry as usize))) >= row;
        if !is_same {
            atomic_fetch_add_u32_device(args.differs, Relaxed, 1);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sweep<T: Scalar, V: Scalar>(args: SweepArgs<T, V>) {
    let (x, matrix) = (args.x, args.matrix);
    let row = thread_index::<BLOCK_SIZE>();
    if row >= u64::from(matrix.rows) {
        return;
    }
    // Entries of a row: those below the diagonal, from the outermost diagonal on, then the others.
    let (below, entries) = (matrix.diagonals - 1, 2 * matrix.diagonals - 1);
    let (mut sum, mut first) = (T::ZERO, 0);
    while first < entries {
        let mut values = [V::ZERO; STEP as usize];
        let mut elements = [T::ZERO; STEP as usize];
        unroll!(K in [0, 1, 2, 3, 4, 5, 6] {
            let entry = first + K;
            if entry < entries {
                let k = entry.abs_diff(below);
                // SAFETY: k < diagonals.
                let offset = u64::from(unsafe { mem::load_readonly(matrix.offsets.add(k as usize)) });
                // Beyond all columns where that is negative.
                let column = if entry < below { row.wrapping_sub(offset) } else { row + offset };
                if column < u64::from(matrix.rows) {
                    let slot = u64::from(k) * matrix.leading_dimension + row.min(column);
                    // SAFETY: the column exists, and a slot for each diagonal and row.
                    unsafe {
                        values[K as usize] = mem::load_readonly(matrix.values.add(slot as usize));
                        elements[K as usize] = mem::load_readonly(x.add(column as usize));
                    }
                }
            }
        });
        unroll!(K in [0, 1, 2, 3, 4, 5, 6] {
            sum = T::narrow(values[K as usize].widen()).mul_add(elements[K as usize], sum);
        });
        first += STEP;
    }
    // SAFETY: row < rows, and each thread has a row of its own.
    unsafe { finish(&args, row as usize, sum, mem::load_readonly(x.add(row as usize))) }
}

/// The result of a row, from its product and its `x`.
///
/// # Safety
/// The rules at the head of this module; `row` is below `rows`, and no other thread has it.
#[inline(always)]
unsafe fn finish<T: Scalar, V: Scalar>(args: &SweepArgs<T, V>, row: usize, sum: T, x: T) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut result = sum;
        if !args.b.is_null() {
            result = mem::load_readonly(args.b.add(row)) - sum;
        }
        if !args.inverse.is_null() {
            let mut step = args.alpha * (mem::load_readonly(args.inverse.add(row)) * result);
            if args.beta != T::ZERO {
                let last = if args.older.is_null() { x } else { x - mem::load_readonly(args.older.add(row)) };
                step = args.beta.mul_add(last, step);
            }
            result = x + step;
        }
        mem::store(args.y.add(row), result);
    }
}

/// An entry of the matrix, and the element of `x` that it is multiplied by.
#[derive(Clone, Copy)]
struct Pair<T, V> {
    value: V,
    element: T,
}

impl<T: Scalar, V: Scalar> Pair<T, V> {
    const NONE: Self = Self { value: V::ZERO, element: T::ZERO };

    #[inline(always)]
    fn add_to(self, sum: T) -> T {
        T::narrow(self.value.widen()).mul_add(self.element, sum)
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn march<T: Scalar, V: Scalar>(args: SweepArgs<T, V>) {
    let (x, matrix, distance) = (args.x, args.matrix, args.distance);
    let blocks = distance.div_ceil(BLOCK_SIZE);
    let (line, block) = (thread::block_idx_x() / blocks * STEPS, thread::block_idx_x() % blocks);
    let column = block * BLOCK_SIZE + thread::thread_idx_x();
    let start = u64::from(line) * u64::from(distance) + u64::from(column);
    if column >= distance || start >= u64::from(matrix.rows) {
        return;
    }
    let (mut row, mut steps, outer) = (start as u32, STEPS, matrix.diagonals - 1);
    // SAFETY: rows below `rows`, columns that exist, slots for each diagonal and row, and each thread has rows of its own.
    unsafe {
        // The inner diagonals; beyond all columns those that do not exist.
        let offset = |k: u32| if k < outer { mem::load_readonly(matrix.offsets.add(k as usize)) } else { u32::MAX };
        let near = [offset(1), offset(2)];
        let values = |k: u32| matrix.values.add((u64::from(k) * matrix.leading_dimension) as usize);
        let (main, inner, outer) = (values(0), [values(1), values(2)], values(outer));
        let pair = |values: *const V, slot: u32, column: u32| Pair {
            value: mem::load_readonly(values.add(slot as usize)),
            element: mem::load_readonly(x.add(column as usize)),
        };
        let mut below = if row >= distance { pair(outer, row - distance, row - distance) } else { Pair::NONE };
        let mut here = mem::load_readonly(x.add(row as usize));
        loop {
            let next = row + distance;
            let (mut above, mut before, mut after) = (Pair::NONE, [Pair::NONE; 2], [Pair::NONE; 2]);
            if next < matrix.rows {
                above = pair(outer, row, next);
            }
            unroll!(K in [0, 1] {
                let (values, offset) = (inner[K as usize], near[K as usize]);
                if row >= offset {
                    before[K as usize] = pair(values, row - offset, row - offset);
                }
                if offset < matrix.rows - row {
                    after[K as usize] = pair(values, row, row + offset);
                }
            });
            let own = Pair { value: mem::load_readonly(main.add(row as usize)), element: here };
            let mut sum = before[0].add_to(before[1].add_to(below.add_to(T::ZERO)));
            sum = above.add_to(after[1].add_to(after[0].add_to(own.add_to(sum))));
            finish(&args, row as usize, sum, here);
            steps -= 1;
            if steps == 0 || next >= matrix.rows {
                return;
            }
            below = Pair { value: above.value, element: here };
            (row, here) = (next, above.element);
        }
    }
}

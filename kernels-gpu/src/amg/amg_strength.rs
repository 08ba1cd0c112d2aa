//! Strong connections of a symmetric matrix, and the matrix that smooths a prolongator along them.
//!
//! # The mathematics
//! ```text
//! m_i              the greatest |a_ij| / sqrt(a_ii a_jj) in row i, j != i
//! t_i              sqrt(a_ii min(1, 8 m_i))
//! a_ij is strong   if |a_ij| > theta t_i t_j, i != j. A row without a strong entry keeps its largest, if the others together
//!                  have more than half of its diagonal: of equal ones the first.
//! f_i              a_ii plus the entries that are not strong, or a_ii if that is not positive
//! g_i              the greater of f_i and the sum of the strong |a_ij|
//! S                s_ii = 1 - omega f_i / g_i, s_ij = -omega a_ij / g_i for the strong ones: I - omega G^-1 F
//! ```
//! Where rows have large entries that is the usual |a_ij| > theta sqrt(a_ii a_jj); where all are small, as in long rows, they are compared with the largest.
//! `F` is the filtered matrix, whose row sums are those of `A`. By Gershgorin's theorem no eigenvalue of `G^-1 F` exceeds 2.
//!
//! # When to use it
//! Setup of smoothed aggregation (Vanek, Mandel & Brezina, 1996): `scale`, `measure`, an exclusive scan of the counts, then `fill`. The pattern of `S` is
//! the graph that is aggregated.
//!
//! # Rows and threads
//! [`LANES`] a row: each goes through every `LANES`-th entry, sums are added up in a tree, and ballots say how many entries of the row are
//! kept before a lane's. The CPU adds in the same order.
//!
//! # Bytes moved
//! Columns and values once, the diagonal by columns; `fill` looks at a row twice, from the cache the second time, and writes what is kept.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else
//!    accesses it during the launch; but `first_bad` and `zero_rows` are words that all threads count in.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; columns are below `rows`, and ascend strictly in a row. `new_offsets` are the
//!    exclusive sums of the counts.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_fetch_add_u32_device, atomic_fetch_min_u32_device},
    mem, thread, warp,
};

use crate::{
    DType, Scalar,
    args::args,
    csr_rows::blocks_of_groups,
    family::family,
    grid::group_index,
    lanes::{butterfly, group_mask},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes of a row, for short rows and for others.
pub const LANES: [u32; 2] = [8, 32];

args! {
    /// A symmetric matrix in CSR, and which of its entries are strong.
    pub struct Matrix<T> {
        /// Rows, and columns.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `theta`.
        value threshold: f64,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// Values.
        read values: T [entries as usize],
        /// The elements on the diagonal; 0 where there is none.
        read diagonal: T [rows as usize],
        /// `t`; null for `scale`, which finds it.
        read scales: T [null or rows as usize],
    }
}

args! {
    /// The arguments of `scale`.
    pub struct ScaleArgs<T> {
        /// `t`.
        write new_scales: T [matrix.rows as usize],
        /// The matrix.
        part matrix: Matrix<T, A>,
    }
}

args! {
    /// The arguments of `measure`.
    pub struct MeasureArgs<T> {
        /// Entries of each row of `S`.
        write counts: u32 [matrix.rows as usize],
        /// The inverse of the diagonal; 0 for a row of zeros.
        write inverse: T [matrix.rows as usize],
        /// The sum of a row's absolute values over its diagonal; 0 for a row of zeros.
        write bounds: T [matrix.rows as usize],
        /// The first row whose diagonal is not positive, though it is no row of zeros, or that has a number that is not finite.
        write first_bad: u32 [1],
        /// How many rows are zeros.
        write zero_rows: u32 [1],
        /// The matrix.
        part matrix: Matrix<T, A>,
    }
}

args! {
    /// The arguments of `fill`.
    pub struct FillArgs<T> {
        /// Of the smoothing.
        value omega: f64,
        /// Entries of `S`.
        value new_entries: u32,
        /// `rows + 1` offsets of `S`.
        read new_offsets: u32 [matrix.rows as usize + 1],
        /// Columns of `S`.
        write new_columns: u32 [new_entries as usize],
        /// Values of `S`.
        write new_values: T [new_entries as usize],
        /// The matrix.
        part matrix: Matrix<T, A>,
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`ScaleArgs`].
    Scale,
    /// With [`MeasureArgs`].
    Measure,
    /// With [`FillArgs`].
    Fill,
}

family! {
    "amg_strength", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// One of [`LANES`].
        lanes: u32,
        /// The type of the elements.
        dtype: DType,
    }

    amg_strength_scale_f32_t8(Operation::Scale, 8, DType::F32): ScaleArgs<f32> => scale::<f32, 8>;
    amg_strength_scale_f64_t8(Operation::Scale, 8, DType::F64): ScaleArgs<f64> => scale::<f64, 8>;
    amg_strength_scale_f32_t32(Operation::Scale, 32, DType::F32): ScaleArgs<f32> => scale::<f32, 32>;
    amg_strength_scale_f64_t32(Operation::Scale, 32, DType::F64): ScaleArgs<f64> => scale::<f64, 32>;
    amg_strength_measure_f32_t8(Operation::Measure, 8, DType::F32): MeasureArgs<f32> => measure::<f32, 8>;
    amg_strength_measure_f64_t8(Operation::Measure, 8, DType::F64): MeasureArgs<f64> => measure::<f64, 8>;
    amg_strength_measure_f32_t32(Operation::Measure, 32, DType::F32): MeasureArgs<f32> => measure::<f32, 32>;
    amg_strength_measure_f64_t32(Operation::Measure, 32, DType::F64): MeasureArgs<f64> => measure::<f64, 32>;
    amg_strength_fill_f32_t8(Operation::Fill, 8, DType::F32): FillArgs<f32> => fill::<f32, 8>;
    amg_strength_fill_f64_t8(Operation::Fill, 8, DType::F64): FillArgs<f64> => fill::<f64, 8>;
    amg_strength_fill_f32_t32(Operation::Fill, 32, DType::F32): FillArgs<f32> => fill::<f32, 32>;
    amg_strength_fill_f64_t32(Operation::Fill, 32, DType::F64): FillArgs<f64> => fill::<f64, 32>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    blocks_of_groups(rows, lanes, BLOCK_SIZE)
}

/// Of the off-diagonal entries of a row, or of those that a lane looks at. The host sums up the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many are strong.
    pub strong: u32,
    /// The sum of the strong ones' absolute values.
    pub strong_sum: f64,
    /// The sum of the others.
    pub weak_sum: f64,
    /// The sum of all absolute values.
    pub sum: f64,
    /// The greatest absolute value, the column of the first entry that has it, and the entry's value.
    pub largest: (f64, u32, f64),
}

impl Summary {
    /// Of no entries.
    pub const NONE: Self = Self { strong: 0, strong_sum: 0.0, weak_sum: 0.0, sum: 0.0, largest: (0.0, u32::MAX, 0.0) };

    /// With an entry in this column more.
    #[inline(always)]
    #[must_use]
    pub fn with(self, column: u32, value: f64, is_strong: bool) -> Self {
        let magnitude = if value < 0.0 { -value } else { value };
        let largest = greater(self.largest, (magnitude, column, value));
        let sum = self.sum + magnitude;
        match is_strong {
            true => Self { strong: self.strong + 1, strong_sum: self.strong_sum + magnitude, sum, largest, ..self },
            false => Self { weak_sum: self.weak_sum + value, sum, largest, ..self },
        }
    }

    /// Of what both have seen: the same bits in either order.
    #[inline(always)]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            strong: self.strong + other.strong,
            strong_sum: self.strong_sum + other.strong_sum,
            weak_sum: self.weak_sum + other.weak_sum,
            sum: self.sum + other.sum,
            largest: greater(self.largest, other.largest),
        }
    }

    /// Of a whole row with this diagonal: the largest entry is strong if no other is, and the row is not one that smoothing alone solves.
    /// Returns its column too, where that is so.
    #[inline(always)]
    #[must_use]
    pub fn of_row(self, diagonal: f64) -> (Self, u32) {
        let (magnitude, column, value) = self.largest;
        match self.strong == 0 && self.sum > 0.5 * diagonal && magnitude > 0.0 {
            true => (Self { strong: 1, strong_sum: magnitude, weak_sum: self.weak_sum - value, ..self }, column),
            false => (self, u32::MAX),
        }
    }

    /// `f_i` and `g_i`.
    #[inline(always)]
    #[must_use]
    pub fn diagonals(self, diagonal: f64) -> (f64, f64) {
        let lumped = diagonal + self.weak_sum;
        let filtered = if lumped > 0.0 { lumped } else { diagonal };
        (filtered, if filtered > self.strong_sum { filtered } else { self.strong_sum })
    }
}

/// The one with the greater magnitude, of equal ones the one with the lesser column.
#[inline(always)]
fn greater(a: (f64, u32, f64), b: (f64, u32, f64)) -> (f64, u32, f64) {
    if b.0 > a.0 || b.0 == a.0 && b.1 < a.1 { b } else { a }
}

/// The root of an element on the diagonal, or 0. The host computes the same bits.
#[inline(always)]
fn root(diagonal: f64) -> f64 {
    if diagonal > 0.0 { cuda_std::GpuFloat::sqrt(diagonal) } else { 0.0 }
}

/// An entry's absolute value relative to the diagonals of its row and column, for `m_i`. The host computes the same bits.
#[inline(always)]
#[must_use]
pub fn scaled(value: f64, diagonal: f64, other_diagonal: f64) -> f64 {
    let (magnitude, divisor) = (if value < 0.0 { -value } else { value }, root(diagonal) * root(other_diagonal));
    if divisor > 0.0 { magnitude / divisor } else { 0.0 }
}

/// `t_i`. The host computes the same bits.
#[inline(always)]
#[must_use]
pub fn scale_of(diagonal: f64, greatest: f64) -> f64 {
    let part = 8.0 * greatest;
    root(diagonal) * root(if part < 1.0 { part } else { 1.0 })
}

/// Whether an entry is strong. The host computes the same bits.
#[inline(always)]
#[must_use]
pub fn is_strong(value: f64, scale: f64, other_scale: f64, threshold: f64) -> bool {
    let magnitude = if value < 0.0 { -value } else { value };
    magnitude > threshold * (scale * other_scale)
}

/// Whether a row with this diagonal and this sum of the other absolute values can be smoothed, and the inverse of its diagonal.
#[inline(always)]
#[must_use]
pub fn inverse_of<T: Scalar>(diagonal: T, sum: f64) -> (bool, T) {
    if diagonal == T::ZERO && sum == 0.0 {
        return (true, T::ZERO);
    }
    let inverse = T::ONE / diagonal;
    let is_good = diagonal > T::ZERO && inverse > T::ZERO && inverse.widen().is_finite() && sum.is_finite();
    (is_good, inverse)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn scale<T: Scalar, const LANES: u32>(args: ScaleArgs<T>) {
    let ScaleArgs { matrix, new_scales } = args;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(matrix.rows) {
        return;
    }
    let (mask, lane, row) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES, row as u32);
    // SAFETY: row < rows, whose lanes are all here; entries between offsets exist.
    unsafe {
        let mut entry = mem::load_readonly(matrix.row_offsets.add(row as usize));
        let end = mem::load_readonly(matrix.row_offsets.add(row as usize + 1));
        let diagonal = mem::load_readonly(matrix.diagonal.add(row as usize)).widen();
        let mut greatest = 0.0;
        entry += lane.min(end - entry);
        while entry < end {
            let column = mem::load_readonly(matrix.col_indices.add(entry as usize));
            if column != row {
                let value = mem::load_readonly(matrix.values.add(entry as usize)).widen();
                let found = scaled(value, diagonal, mem::load_readonly(matrix.diagonal.add(column as usize)).widen());
                greatest = if found > greatest { found } else { greatest };
            }
            entry += LANES.min(end - entry);
        }
        butterfly::<LANES>(mask, |partner| {
            let found = partner.value(greatest);
            greatest = if found > greatest { found } else { greatest };
        });
        if lane == 0 {
            mem::store(new_scales.add(row as usize), T::narrow(scale_of(diagonal, greatest)));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn measure<T: Scalar, const LANES: u32>(args: MeasureArgs<T>) {
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(args.matrix.rows) {
        return;
    }
    // SAFETY: row < rows, whose lanes are all here; the first one alone stores what is found.
    unsafe {
        let (summary, _) = summary::<T, LANES>(args.matrix, row as u32);
        if !thread::thread_idx_x().is_multiple_of(LANES) {
            return;
        }
        let diagonal = mem::load_readonly(args.matrix.diagonal.add(row as usize));
        let (is_good, inverse) = inverse_of(diagonal, summary.sum);
        if !is_good {
            atomic_fetch_min_u32_device(args.first_bad, Relaxed, row as u32);
        }
        let is_zero = is_good && inverse == T::ZERO;
        if is_zero {
            atomic_fetch_add_u32_device(args.zero_rows, Relaxed, 1);
        }
        let bound = if is_zero { 0.0 } else { (diagonal.widen() + summary.sum) / diagonal.widen() };
        mem::store(args.counts.add(row as usize), if is_zero { 0 } else { summary.strong + 1 });
        mem::store(args.inverse.add(row as usize), inverse);
        mem::store(args.bounds.add(row as usize), T::narrow(bound));
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn fill<T: Scalar, const LANES: u32>(args: FillArgs<T>) {
    let FillArgs { matrix, omega, new_offsets, new_columns, new_values, .. } = args;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(matrix.rows) {
        return;
    }
    let row = row as u32;
    // SAFETY: row < rows, whose lanes are all here; the new row has as many places as `measure` has counted, each for one entry.
    unsafe {
        let first = mem::load_readonly(new_offsets.add(row as usize));
        if mem::load_readonly(new_offsets.add(row as usize + 1)) == first {
            return;
        }
        let (summary, kept) = summary::<T, LANES>(matrix, row);
        let diagonal = mem::load_readonly(matrix.diagonal.add(row as usize)).widen();
        let (filtered, divisor) = summary.diagonals(diagonal);
        let scale = mem::load_readonly(matrix.scales.add(row as usize)).widen();
        let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
        let begin = mem::load_readonly(matrix.row_offsets.add(row as usize));
        let end = mem::load_readonly(matrix.row_offsets.add(row as usize + 1));
        let (mut place, mut step) = (first, begin);
        while step < end {
            let is_ours = lane < end - step;
            let (mut column, mut value, mut is_kept) = (0, 0.0, false);
            if is_ours {
                column = mem::load_readonly(matrix.col_indices.add((step + lane) as usize));
                value = mem::load_readonly(matrix.values.add((step + lane) as usize)).widen();
                is_kept = column == row || column == kept || {
                    let other = mem::load_readonly(matrix.scales.add(column as usize)).widen();
                    is_strong(value, scale, other, matrix.threshold)
                };
            }
            let lanes = warp::warp_vote_ballot(mask, is_kept) & mask;
            if is_kept {
                let at = (place + (lanes & ((1 << warp::lane_id()) - 1)).count_ones()) as usize;
                mem::store(new_columns.add(at), column);
                mem::store(new_values.add(at), T::narrow(smoothing(omega, column == row, value, filtered, divisor)));
            }
            place += lanes.count_ones();
            step += LANES.min(end - step);
        }
    }
}

/// An entry of `S`. The host computes the same bits.
#[inline(always)]
#[must_use]
pub fn smoothing(omega: f64, is_diagonal: bool, value: f64, filtered: f64, divisor: f64) -> f64 {
    if is_diagonal { 1.0 - omega * (filtered / divisor) } else { -(omega * (value / divisor)) }
}

/// Of a row, in all its lanes, and the column of an entry that is strong only because no other is.
///
/// # Safety
/// The rules at the head of this module; the lanes of the row's group are all here.
#[inline(always)]
unsafe fn summary<T: Scalar, const LANES: u32>(matrix: Matrix<T>, row: u32) -> (Summary, u32) {
    let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
    // SAFETY: row < rows, and entries between offsets exist.
    unsafe {
        let mut entry = mem::load_readonly(matrix.row_offsets.add(row as usize));
        let end = mem::load_readonly(matrix.row_offsets.add(row as usize + 1));
        let diagonal = mem::load_readonly(matrix.diagonal.add(row as usize)).widen();
        let scale = mem::load_readonly(matrix.scales.add(row as usize)).widen();
        let mut summary = Summary::NONE;
        entry += lane.min(end - entry);
        while entry < end {
            let column = mem::load_readonly(matrix.col_indices.add(entry as usize));
            if column != row {
                let value = mem::load_readonly(matrix.values.add(entry as usize)).widen();
                let other = mem::load_readonly(matrix.scales.add(column as usize)).widen();
                summary = summary.with(column, value, is_strong(value, scale, other, matrix.threshold));
            }
            entry += LANES.min(end - entry);
        }
        butterfly::<LANES>(mask, |partner| {
            let (a, b, c) = summary.largest;
            summary = summary.plus(Summary {
                strong: partner.value(summary.strong),
                strong_sum: partner.value(summary.strong_sum),
                weak_sum: partner.value(summary.weak_sum),
                sum: partner.value(summary.sum),
                largest: (partner.value(a), partner.value(b), partner.value(c)),
            });
        });
        summary.of_row(diagonal)
    }
}

//! Sums of runs of consecutive elements.
//!
//! # The mathematics
//! `sums[r] = x[starts[r]] + ... + x[starts[r + 1] - 1]`, or `lengths[r] = starts[r + 1] - starts[r]`; the last run ends at `n`.
//!
//! # When to use it
//! After the starts of runs of equal keys have been found (`compact`), to add up what goes with each key.
//!
//! # Threads
//! A group of `LANES` lanes a run: 4 for short runs, 32 for long ones. Lane `l` adds the elements `l`, `l + LANES`, ... of the run from left
//! to right. Then the lanes are added in pairs: `l` and `l + LANES / 2`, and so on. So the order of additions depends on the run's
//! length and on `LANES` alone.
//!
//! # Bytes moved
//! `x`, `starts` and `sums` once.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says; nothing else accesses `sums` during the launch, and nothing
//!    writes the others.
//! 2. `starts` never falls, and is at most `n`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread};

use crate::{
    args::args,
    family::family,
    grid::group_index,
    lanes::butterfly,
    summand::{ElementType, Summand},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of every entry, passed by value.
    pub struct Args<T> {
        /// Elements.
        value n: u32,
        /// Runs.
        value runs: u32,
        /// Where each run starts.
        read starts: u32 [runs as usize],
        /// `n` elements.
        read x: T [n as usize],
        /// `runs` sums.
        write sums: T [runs as usize],
    }
}

args! {
    /// The arguments of the entry that finds lengths.
    pub struct LengthArgs {
        /// Elements.
        value n: u32,
        /// Runs.
        value runs: u32,
        /// Where each run starts.
        read starts: u32 [runs as usize],
        /// `runs` lengths.
        write lengths: u32 [runs as usize],
    }
}

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Sums of elements of a type.
    Of(ElementType),
    /// The lengths of the runs.
    Lengths,
}

family! {
    "run_sums", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is found.
        sum: Sum,
        /// Lanes of a run: 4 or 32, and 1 for lengths.
        lanes: u32,
    }

    run_sums_u32_t4(Sum::Of(ElementType::U32), 4): Args<u32> => sum_runs::<u32, 4>;
    run_sums_u64_t4(Sum::Of(ElementType::U64), 4): Args<u64> => sum_runs::<u64, 4>;
    run_sums_f32_t4(Sum::Of(ElementType::F32), 4): Args<f32> => sum_runs::<f32, 4>;
    run_sums_f64_t4(Sum::Of(ElementType::F64), 4): Args<f64> => sum_runs::<f64, 4>;
    run_sums_u32_t32(Sum::Of(ElementType::U32), 32): Args<u32> => sum_runs::<u32, 32>;
    run_sums_u64_t32(Sum::Of(ElementType::U64), 32): Args<u64> => sum_runs::<u64, 32>;
    run_sums_f32_t32(Sum::Of(ElementType::F32), 32): Args<f32> => sum_runs::<f32, 32>;
    run_sums_f64_t32(Sum::Of(ElementType::F64), 32): Args<f64> => sum_runs::<f64, 32>;
    run_sums_lengths(Sum::Lengths, 1): LengthArgs => lengths;
}

/// Lanes for runs of so many elements together. Not measured yet.
#[must_use]
pub const fn lanes(n: u32, runs: u32) -> u32 {
    if n / 16 < runs { 4 } else { 32 }
}

/// Blocks for so many runs.
#[must_use]
pub const fn grid_size(runs: u32, lanes: u32) -> u32 {
    runs.div_ceil(BLOCK_SIZE / lanes)
}

/// The body of every entry.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sum_runs<T: Summand, const LANES: u32>(args: Args<T>) {
    let run = group_index::<BLOCK_SIZE>(LANES);
    let lane = u64::from(thread::thread_idx_x() % LANES);
    let mut sum = T::default();
    // SAFETY: the run and its elements exist. All lanes of the warp come to the shuffles.
    unsafe {
        if run < u64::from(args.runs) {
            let (start, end) = ends(args.starts, run, args.runs, args.n);
            let mut at = u64::from(start) + lane;
            while at < u64::from(end) {
                sum = sum.plus(mem::load_streaming(args.x.add(at as usize)));
                at += u64::from(LANES);
            }
        }
        butterfly::<LANES>(u32::MAX, |partner| sum = sum.plus(partner.value(sum)));
        if lane == 0 && run < u64::from(args.runs) {
            mem::store(args.sums.add(run as usize), sum);
        }
    }
}

/// The body of the entry that finds lengths: a thread a run.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn lengths(args: LengthArgs) {
    let run = group_index::<BLOCK_SIZE>(1);
    if run < u64::from(args.runs) {
        // SAFETY: the run exists.
        unsafe {
            let (start, end) = ends(args.starts, run, args.runs, args.n);
            mem::store(args.lengths.add(run as usize), end - start);
        }
    }
}

/// Where a run starts and ends.
///
/// # Safety
/// The rules at the head of this module; `run < runs`.
#[inline(always)]
unsafe fn ends(starts: *const u32, run: u64, runs: u32, n: u32) -> (u32, u32) {
    // SAFETY: the run exists, and so does the next, if it is one.
    unsafe {
        let start = mem::load_readonly(starts.add(run as usize));
        let is_last = run + 1 == u64::from(runs);
        (start, if is_last { n } else { mem::load_readonly(starts.add(run as usize + 1)) })
    }
}

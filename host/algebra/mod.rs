//! Primitives of parallel algorithms on vectors of a device: prefix sums, sorts, selections, runs and counts.

mod compact;
mod cpu;
mod histogram;
mod prefix_sum;
mod sort;

#[allow(unused_imports, reason = "for operations that build matrices")]
pub(crate) use compact::{Runs, run_lengths, runs, sum_runs};
#[allow(unused_imports, reason = "for operations that build matrices")]
pub(crate) use prefix_sum::row_offsets;
pub use sort::SortKey;
#[allow(unused_imports, reason = "for operations that build matrices")]
pub(crate) use sort::sort_pairs;

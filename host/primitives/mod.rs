//! Parallel primitives on vectors: prefix sums, sorts, sorts of segments, selections, runs and counts.

mod compact;
mod histogram;
mod prefix_sum;
mod row_sort;
mod segments;
mod sort;

pub(crate) use compact::{Runs, runs};
pub(crate) use prefix_sum::row_offsets;
pub(crate) use row_sort::{Columns, Sorted, UnsortedRows, lanes, radix_sorted};
pub use sort::SortKey;
pub(crate) use sort::{bits_below, sort_pairs};

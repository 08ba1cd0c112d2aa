//! Algebra of sparse matrices on a device, and the parallel primitives below it: prefix sums, sorts, selections, runs and counts.

mod compact;
pub(crate) mod cpu;
pub(crate) mod from_csr;
mod histogram;
mod kronecker;
mod merge;
mod operand;
mod prefix_sum;
mod row_sort;
mod segments;
mod select;
mod sort;
pub(crate) mod spgemm;
pub(crate) mod symmetric;
pub(crate) mod to_csr;
mod transpose;
mod triple;

pub(crate) use compact::{Runs, runs};
pub(crate) use operand::{Operand, copy_of, lanes};
pub(crate) use prefix_sum::row_offsets;
pub use sort::SortKey;
pub(crate) use sort::{bits_below, sort_pairs};

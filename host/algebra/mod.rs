//! Algebra of sparse matrices on a device, and the parallel primitives below it: prefix sums.

mod cpu;
mod kronecker;
mod merge;
mod operand;
mod prefix_sum;
mod select;
mod transpose;

pub(crate) use prefix_sum::row_offsets;

//! Primitives of parallel algorithms on vectors of a device: prefix sums.

mod cpu;
mod prefix_sum;

#[allow(unused_imports, reason = "for operations that build matrices")]
pub(crate) use prefix_sum::row_offsets;

//! The types of row offsets.

use std::fmt::Display;

use crate::Element;

/// `u32` or `u64`: what the row offsets of a [`CsrMatrix`](crate::CsrMatrix) are. 32 bits are enough for fewer than 2³²
/// entries, and take half the memory.
///
/// The trait is sealed: kernels exist for these types alone.
pub trait Offset: kernels_gpu::Offset + Element + Ord + Display + From<u32> + TryFrom<usize> + sealed::Sealed {}

impl Offset for u32 {}
impl Offset for u64 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

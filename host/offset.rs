//! The types of row offsets.

use std::fmt::Display;

use crate::Element;

/// The type of a [`CsrMatrix`](crate::CsrMatrix)'s row offsets: `u32` or `u64`. 32 bits suffice for fewer than 2³²
/// entries, and take half the memory.
///
/// The trait is sealed: only these types have kernels.
pub trait Offset: kernels_gpu::Offset + Element + Ord + Display + From<u32> + TryFrom<usize> + sealed::Sealed {}

impl Offset for u32 {}
impl Offset for u64 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

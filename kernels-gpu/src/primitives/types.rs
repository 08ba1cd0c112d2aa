//! The types that kernels exist for.

use core::ops::Sub;

use cuda_std::{GpuFloat, mem::DeviceValue};

/// The element types that kernels exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit IEEE 754.
    F32,
    /// 64-bit IEEE 754.
    F64,
}

/// The column index of a slot of ELL that is not used.
pub const ELL_PADDING: u32 = u32::MAX;

/// An element type that kernels exist for.
pub trait Scalar: GpuFloat {
    /// Its name in the variant tables.
    const DTYPE: DType;

    /// A number of entries, rounded.
    fn from_count(count: u64) -> Self;

    /// The value, exactly.
    fn widen(self) -> f64;

    /// The nearest value.
    fn narrow(value: f64) -> Self;
}

impl Scalar for f32 {
    const DTYPE: DType = DType::F32;

    #[inline(always)]
    fn from_count(count: u64) -> Self {
        count as f32
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        self as f64
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

impl Scalar for f64 {
    const DTYPE: DType = DType::F64;

    #[inline(always)]
    fn from_count(count: u64) -> Self {
        count as f64
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }
}

/// A row offset, `u32` or `u64`: a position among the entries, or a number of entries.
///
/// What a kernel asks of it goes by value: through the references of `PartialOrd`, worse code comes out.
pub trait Offset: DeviceValue + Sub<Output = Self> {
    /// The offset as an index. An offset of a matrix in memory always fits.
    fn index(self) -> usize;
    /// Whether it is more than `count`.
    fn exceeds(self, count: u32) -> bool;
    /// `self - count`, or 0 where `count` is more.
    fn minus(self, count: u32) -> Self;
}

macro_rules! offsets {
    ($($type:ty),*) => {$(
        impl Offset for $type {
            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
            #[inline(always)]
            fn exceeds(self, count: u32) -> bool {
                self > count as $type
            }
            #[inline(always)]
            fn minus(self, count: u32) -> Self {
                if self.exceeds(count) { self - count as $type } else { 0 }
            }
        }
    )*};
}
offsets!(u32, u64);

//! The floating-point types of kernels.

use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use crate::{backend, mem::DeviceValue, warp::WarpShuffleValue};

/// `f32` or `f64`, as a kernel that is generic over its scalar sees it.
///
/// Multiplication and addition never fuse by themselves: write [`mul_add`](Self::mul_add) where one rounding is wanted.
pub trait GpuFloat:
    DeviceValue
    + WarpShuffleValue
    + PartialEq
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// `self * factor + addend` with one rounding (`fma.rn`).
    #[must_use]
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// The square root, rounded to nearest (`sqrt.rn`); a NaN of what is less than 0.
    #[must_use]
    fn sqrt(self) -> Self;
}

impl GpuFloat for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        backend::fma_f32(self, factor, addend)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        backend::sqrt_f32(self)
    }
}

impl GpuFloat for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        backend::fma_f64(self, factor, addend)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        backend::sqrt_f64(self)
    }
}

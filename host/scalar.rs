//! The element types of matrices and vectors.

use std::{
    fmt::{Debug, Display},
    iter::Sum,
    ops::{Add, AddAssign, Mul},
    str::FromStr,
};

pub use kernels_gpu::DType;

/// `f32` or `f64`: a type that every format, device and operation handles.
///
/// The trait is sealed: kernels exist for these types alone.
pub trait Scalar:
    kernels_gpu::vector::math::Math
    + Element
    + Copy
    + Default
    + Debug
    + Display
    + FromStr
    + PartialEq
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Mul<Output = Self>
    + Sum
    + Send
    + Sync
    + 'static
{
    /// Rounds an `f64` to this type.
    fn from_f64(value: f64) -> Self;
    /// The value as an `f64`, exactly.
    fn to_f64(self) -> f64;
}

macro_rules! scalars {
    ($($type:ty),*) => {$(
        impl Scalar for $type {
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}
scalars!(f32, f64);

/// What device vectors hold: `f32`, `f64`, `u32` or `u64`. The trait is sealed.
#[cfg(feature = "cuda")]
pub trait Element: cuda_std::mem::DeviceValue + cudarc::driver::DeviceRepr + cudarc::driver::ValidAsZeroBits {}
/// What device vectors hold: `f32`, `f64`, `u32` or `u64`. The trait is sealed.
#[cfg(not(feature = "cuda"))]
pub trait Element: cuda_std::mem::DeviceValue {}

impl Element for u32 {}
impl Element for u64 {}
impl Element for f32 {}
impl Element for f64 {}

//! The element types of matrices and vectors.

use std::{
    fmt::{Debug, Display},
    iter::Sum,
    ops::{Add, AddAssign, Mul},
    str::FromStr,
};

pub use kernels_gpu::DType;
use kernels_gpu::vector_random::{normal_numbers, uniform_numbers};

/// `f32` or `f64`: a type that every format, device and operation handles.
///
/// The trait is sealed: only these types have kernels.
pub trait Scalar:
    kernels_gpu::Scalar
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
    /// Converts the value to an `f64`, exactly.
    fn to_f64(self) -> f64;
    /// The random numbers that a block of the generator gives: those of 16 bytes, then zeros.
    #[doc(hidden)]
    fn random(words: [u32; 4], normal: bool) -> [Self; 4];
}

/// The distance from 1 to the next number of the type.
pub(crate) fn precision<T: Scalar>() -> f64 {
    if size_of::<T>() == size_of::<f32>() { f32::EPSILON.into() } else { f64::EPSILON }
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
            fn random(words: [u32; 4], normal: bool) -> [Self; 4] {
                if normal { normal_numbers(words) } else { uniform_numbers(words) }
            }
        }
    )*};
}
scalars!(f32, f64);

/// An element type of device vectors: `f32`, `f64`, `u32` or `u64`. The trait is sealed.
#[cfg(feature = "cuda")]
pub trait Element:
    sealed::Sealed + kernels_gpu::Summand + cudarc::driver::DeviceRepr + cudarc::driver::ValidAsZeroBits
{
}
/// An element type of device vectors: `f32`, `f64`, `u32` or `u64`. The trait is sealed.
#[cfg(not(feature = "cuda"))]
pub trait Element: sealed::Sealed + kernels_gpu::Summand {}

macro_rules! elements {
    ($($type:ty)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {}
    )*};
}
elements!(u32 u64 f32 f64);

mod sealed {
    /// What only this crate can name. Kernels are chosen by element types, so that another type with their names would be read as one of them.
    pub trait Sealed {}
}

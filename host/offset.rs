//! The types of row offsets.

use std::fmt::Display;

use crate::{CsrMatrix, Element};

/// `u32` or `u64`: what the row offsets of a [`CsrMatrix`] are. 32 bits are enough for fewer than 2³² entries, and take
/// half the memory.
///
/// The trait is sealed: kernels exist for these types alone.
pub trait Offset: kernels_gpu::Offset + Element + Ord + Display + From<u32> + TryFrom<usize> + Width {}

impl Offset for u32 {}
impl Offset for u64 {}

/// Seals [`Offset`], and tells the two types apart.
pub trait Width: Sized {
    /// The matrix, as one of offsets of the type that `Self` is.
    fn by_width<T>(matrix: &CsrMatrix<T, Self>) -> ByWidth<'_, T>;
}

/// A matrix with offsets of either width.
#[derive(Debug)]
pub enum ByWidth<'a, T> {
    /// With 32-bit offsets.
    Bits32(&'a CsrMatrix<T, u32>),
    /// With 64-bit offsets.
    Bits64(&'a CsrMatrix<T, u64>),
}

impl Width for u32 {
    fn by_width<T>(matrix: &CsrMatrix<T, u32>) -> ByWidth<'_, T> {
        ByWidth::Bits32(matrix)
    }
}

impl Width for u64 {
    fn by_width<T>(matrix: &CsrMatrix<T, u64>) -> ByWidth<'_, T> {
        ByWidth::Bits64(matrix)
    }
}

//! The arguments of dense products.

/// `C = alpha * A * B + beta * C`: the one argument of every entry, passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GemmArgs<T> {
    /// Rows of `A` and `C`, at least 1. All sizes and distances are less than 2^31.
    pub m: u32,
    /// Columns of `B` and `C`, at least 1.
    pub n: u32,
    /// Columns of `A`, rows of `B`.
    pub k: u32,
    /// From one row of `A` to the next, in elements; or from one column to the next, as the kernel says.
    pub lda: u32,
    /// The same of `B`.
    pub ldb: u32,
    /// From one row of `C` to the next.
    pub ldc: u32,
    /// The factor of the product.
    pub alpha: T,
    /// The factor of the old `C`; at 0 the old `C` is not read.
    pub beta: T,
    /// The first element of `A`.
    pub a: *const T,
    /// The first element of `B`.
    pub b: *const T,
    /// The first element of `C`.
    pub c: *mut T,
}

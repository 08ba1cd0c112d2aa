//! The arguments of dense products.

use crate::args::args;

args! {
    /// `C = alpha * A * B + beta * C`: the one argument of every entry, passed by value.
    pub struct GemmArgs<T> {
        /// Rows of `A` and `C`, at least 1. All sizes and distances are less than 2^31.
        value m: u32,
        /// Columns of `B` and `C`, at least 1.
        value n: u32,
        /// Columns of `A`, rows of `B`.
        value k: u32,
        /// From one row of `A` to the next, in elements; or from one column to the next, as the kernel says.
        value lda: u32,
        /// The same of `B`.
        value ldb: u32,
        /// From one row of `C` to the next.
        value ldc: u32,
        /// The factor of the product.
        value alpha: T,
        /// The factor of the old `C`; at 0 the old `C` is not read.
        value beta: T,
        /// The first element of `A`.
        read a: T,
        /// The first element of `B`.
        read b: T,
        /// The first element of `C`.
        write c: T [(m as usize - 1) * ldc as usize + n as usize],
    }
}

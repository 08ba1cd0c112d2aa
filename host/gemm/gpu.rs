//! Dense products on a GPU: launches of the kernel family `gemm_tiles`.

use super::Product;
use crate::{DenseMut, DenseRef, Error, KernelChoice, Result, Scalar};

pub(super) fn choice<T: Scalar>(
    _a: &DenseRef<'_, T>,
    _b: &DenseRef<'_, T>,
    _c: &DenseMut<'_, T>,
) -> Result<KernelChoice> {
    Err(Error::Unsupported("tiles".into()))
}

/// `C` has rows and columns.
pub(super) fn gemm<T: Scalar>(_product: Product<'_, T>) -> Result<()> {
    Err(Error::Unsupported("tiles".into()))
}

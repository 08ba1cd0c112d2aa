//! Undirected graphs of matrices.

use std::sync::Arc;

use super::merge::{Merge, on_gpu};
use crate::{
    DeviceIndices, Result, Scalar,
    conversion::{Operand, Rows, Selection, mirrored, select, transposed},
    stored::CsrArrays,
};

/// A canonical matrix with the pattern of `A + Aᵀ`, on a GPU or in the emulator: a square `A` itself if it is canonical and its pattern
/// symmetric. Values are of no account.
pub(crate) fn symmetric<T: Scalar>(matrix: Arc<CsrArrays<T, u32>>) -> Result<Arc<CsrArrays<T, u32>>> {
    let matrix = canonical(matrix)?;
    if matrix.nnz == 0 || mirrored(&matrix)?.is_some() {
        return Ok(matrix);
    }
    let sum = Merge::Sum { alpha: T::default(), beta: T::default() };
    Ok(Arc::new(on_gpu(&matrix, &*transposed(&matrix)?, sum)?))
}

/// The square matrix with rows and columns in this order, canonical.
pub(crate) fn reordered<T: Scalar>(
    matrix: &CsrArrays<T, u32>,
    order: &DeviceIndices,
) -> Result<Arc<CsrArrays<T, u32>>> {
    let new_numbers = order.inverse()?;
    let all = Selection::all(matrix.nrows, matrix.ncols);
    let selection = Selection { rows: Rows::Map(order.vector()), col_map: Some(new_numbers.vector()), ..all };
    canonical(Arc::new(select(matrix, &selection)?))
}

fn canonical<T: Scalar>(matrix: Arc<CsrArrays<T, u32>>) -> Result<Arc<CsrArrays<T, u32>>> {
    match Operand::Device(matrix).canonical()? {
        Operand::Device(matrix) => Ok(matrix),
        Operand::Host(_) => unreachable!("it stays on its device"),
    }
}

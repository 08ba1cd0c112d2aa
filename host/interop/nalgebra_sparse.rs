//! Matrices of nalgebra-sparse. Its indices are `usize`, sorted and unique in each row (column).

use nalgebra_sparse as theirs;

use super::arrays::{convert, export, import};
use crate::{
    CooMatrix, CscMatrix, CsrMatrix, Error, Offset, Result, Scalar,
    formats::{
        compressed::{CSC, CSR, Names},
        coo::check_limits,
    },
};

const THEIR_CSR: Names = Names { format: "nalgebra-sparse CSR", ..CSR };
const THEIR_CSC: Names = Names { format: "nalgebra-sparse CSC", ..CSC };

/// From nalgebra-sparse, with the same entries in the same order. Takes the values without copying and converts the
/// indices: `O(nnz)`. Fails with [`Error::InvalidMatrix`] if a dimension or the number of entries exceeds `u32::MAX`.
impl<T: Scalar> TryFrom<theirs::CooMatrix<T>> for CooMatrix<T> {
    type Error = Error;

    fn try_from(matrix: theirs::CooMatrix<T>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        check_limits::<u32>("COO", nrows, ncols, matrix.nnz())?;
        let (rows, columns, values) = matrix.disassemble();
        let rows = convert("COO", "row index", rows, narrow)?;
        let columns = convert("COO", "column index", columns, narrow)?;
        Self::try_from_triplets(nrows, ncols, rows, columns, values)
    }
}

/// To nalgebra-sparse, with the same entries in the same order. Takes the values without copying and converts the
/// indices: `O(nnz)`.
impl<T: Scalar> From<CooMatrix<T>> for theirs::CooMatrix<T> {
    fn from(matrix: CooMatrix<T>) -> Self {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        let (rows, columns, values) = matrix.into_triplets();
        let widen = |indices: Vec<u32>| indices.into_iter().map(|index| index as usize).collect();
        Self::try_from_triplets(nrows, ncols, widen(rows), widen(columns), values).expect("indices are in range")
    }
}

/// From nalgebra-sparse, with the same entries in the same order. Takes the values without copying and converts the
/// indices: `O(nnz + nrows)`. Fails with [`Error::InvalidMatrix`] if a dimension exceeds `u32::MAX`, or there are more
/// entries than `O` can count.
///
/// ```
/// use warpsparse::CsrMatrix;
///
/// let theirs = nalgebra_sparse::CsrMatrix::<f64>::identity(3);
/// let ours = CsrMatrix::<f64>::try_from(theirs)?;
/// assert_eq!(ours.col_indices(), [0, 1, 2]);
/// let theirs = nalgebra_sparse::CsrMatrix::try_from(ours)?;
/// assert_eq!(theirs.col_indices(), [0, 1, 2]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
impl<T: Scalar, O: Offset> TryFrom<theirs::CsrMatrix<T>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(matrix: theirs::CsrMatrix<T>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        let (offsets, columns, values) = import(&CSR, (nrows, ncols), matrix.disassemble(), offset, narrow)?;
        Self::try_from_csr_data(nrows, ncols, offsets, columns, values)
    }
}

/// To nalgebra-sparse, with the same entries in the same order. Takes the values, or copies them if another matrix
/// shares them, and converts the indices: `O(nnz + nrows)`.
///
/// Fails with [`Error::InvalidMatrix`], naming the first row, if the columns of a row are unsorted or repeat: make the
/// matrix [`canonical`](CsrMatrix::canonical) first.
impl<T: Scalar, O: Offset> TryFrom<CsrMatrix<T, O>> for theirs::CsrMatrix<T> {
    type Error = Error;

    fn try_from(matrix: CsrMatrix<T, O>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        let (offsets, columns, values) = export(&THEIR_CSR, matrix, |offset| Some(offset.index()), widen)?;
        let refused = |error: theirs::SparseFormatError| THEIR_CSR.invalid(error.to_string());
        Self::try_from_csr_data(nrows, ncols, offsets, columns, values).map_err(refused)
    }
}

/// From nalgebra-sparse, with the same entries in the same order. Takes the values without copying and converts the
/// indices: `O(nnz + ncols)`. Fails with [`Error::InvalidMatrix`] if a dimension exceeds `u32::MAX`, or there are more
/// entries than `O` can count.
impl<T: Scalar, O: Offset> TryFrom<theirs::CscMatrix<T>> for CscMatrix<T, O> {
    type Error = Error;

    fn try_from(matrix: theirs::CscMatrix<T>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        let (offsets, rows, values) = import(&CSC, (nrows, ncols), matrix.disassemble(), offset, narrow)?;
        Self::try_from_csc_data(nrows, ncols, offsets, rows, values)
    }
}

/// To nalgebra-sparse, with the same entries in the same order. Takes the values, or copies them if another matrix
/// shares them, and converts the indices: `O(nnz + ncols)`.
///
/// Fails with [`Error::InvalidMatrix`], naming the first column, if the rows of a column are unsorted or repeat: make
/// the [transpose](CscMatrix::into_transposed) [`canonical`](CsrMatrix::canonical) first.
impl<T: Scalar, O: Offset> TryFrom<CscMatrix<T, O>> for theirs::CscMatrix<T> {
    type Error = Error;

    fn try_from(matrix: CscMatrix<T, O>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        let arrays = export(&THEIR_CSC, matrix.into_transposed(), |offset| Some(offset.index()), widen)?;
        let (offsets, rows, values) = arrays;
        let refused = |error: theirs::SparseFormatError| THEIR_CSC.invalid(error.to_string());
        Self::try_from_csc_data(nrows, ncols, offsets, rows, values).map_err(refused)
    }
}

fn offset<O: Offset>(offset: usize) -> Option<O> {
    offset.try_into().ok()
}

fn narrow(index: usize) -> Option<u32> {
    index.try_into().ok()
}

fn widen(index: u32) -> Option<usize> {
    index.try_into().ok()
}

//! Matrices of sprs. Its indices have any integer type, sorted and unique in each row (column), and one type represents
//! both CSR and CSC.

use std::{any::type_name, ops::Deref};

use sprs::{CsMatI, CsMatViewI, SpIndex, TriMatBase, TriMatI, errors::StructureError};

use super::arrays::{check_rising, convert, export, import};
use crate::{
    CooMatrix, CooView, CscMatrix, CscView, CsrMatrix, CsrView, Error, Offset, Result, Scalar,
    formats::{
        compressed::{CSC, CSR, Names},
        coo::check_limits,
    },
};

const THEIR_CSR: Names = Names { format: "sprs CSR", ..CSR };
const THEIR_CSC: Names = Names { format: "sprs CSC", ..CSC };

/// Copies the entries in the same order, because sprs does not give its arrays away. Fails with
/// [`Error::InvalidMatrix`] if a dimension or the number of entries exceeds `u32::MAX`, or an index is out of range,
/// which sprs permits.
impl<T, I, IS, DS> TryFrom<&TriMatBase<IS, DS>> for CooMatrix<T>
where
    T: Scalar,
    I: SpIndex + 'static,
    IS: Deref<Target = [I]>,
    DS: Deref<Target = [T]>,
{
    type Error = Error;

    fn try_from(matrix: &TriMatBase<IS, DS>) -> Result<Self> {
        let (nrows, ncols) = matrix.shape();
        check_limits::<u32>("COO", nrows, ncols, matrix.nnz())?;
        let rows = convert("COO", "row index", matrix.row_inds().to_vec(), our_index)?;
        let columns = convert("COO", "column index", matrix.col_inds().to_vec(), our_index)?;
        Self::try_from_triplets(nrows, ncols, rows, columns, matrix.data().to_vec())
    }
}

/// A view of the matrix. Fails with [`Error::InvalidMatrix`] if a dimension or the number of entries exceeds
/// `u32::MAX`, or an index is out of range.
impl<'a, T, IS, DS> TryFrom<&'a TriMatBase<IS, DS>> for CooView<'a, T>
where
    T: Scalar,
    IS: Deref<Target = [u32]>,
    DS: Deref<Target = [T]>,
{
    type Error = Error;

    fn try_from(matrix: &'a TriMatBase<IS, DS>) -> Result<Self> {
        Self::try_from_triplets(matrix.rows(), matrix.cols(), matrix.row_inds(), matrix.col_inds(), matrix.data())
    }
}

/// The same entries in the same order. Takes the arrays without copying.
impl<T: Scalar> From<CooMatrix<T>> for TriMatI<T, u32> {
    fn from(matrix: CooMatrix<T>) -> Self {
        let shape = (matrix.nrows(), matrix.ncols());
        let (rows, columns, values) = matrix.into_triplets();
        Self::from_triplets(shape, rows, columns, values)
    }
}

/// The same entries in the same order. Takes the values without copying and converts the indices: `O(nnz)`.
impl<T: Scalar> From<CooMatrix<T>> for TriMatI<T, usize> {
    fn from(matrix: CooMatrix<T>) -> Self {
        let shape = (matrix.nrows(), matrix.ncols());
        let (rows, columns, values) = matrix.into_triplets();
        let widen = |indices: Vec<u32>| indices.into_iter().map(|index| index as usize).collect();
        Self::from_triplets(shape, widen(rows), widen(columns), values)
    }
}

/// The same matrix, with the same entries in the same order if it is by rows; one by columns is converted. Takes the
/// values without copying, and also indices that are `u32` and offsets that are `O`; other types are converted: `O(nnz
/// + nrows)`.
///
/// Fails with [`Error::InvalidMatrix`] if a dimension exceeds `u32::MAX`, or there are more entries than `O` can count.
///
/// ```
/// use sprs::CsMat;
/// use warpsparse::CsrMatrix;
///
/// let ours = CsrMatrix::<f64>::try_from(CsMat::<f64>::eye(3))?;
/// assert_eq!(ours.col_indices(), [0, 1, 2]);
/// let theirs: CsMat<f64> = ours.try_into()?;
/// assert_eq!(theirs, CsMat::eye(3));
/// # Ok::<(), warpsparse::Error>(())
/// ```
impl<T, O, I, P> TryFrom<CsMatI<T, I, P>> for CsrMatrix<T, O>
where
    T: Scalar,
    O: Offset,
    I: SpIndex + 'static,
    P: SpIndex + 'static,
{
    type Error = Error;

    fn try_from(matrix: CsMatI<T, I, P>) -> Result<Self> {
        if matrix.is_csc() {
            return Self::try_from(&CscMatrix::try_from(matrix)?);
        }
        let (nrows, ncols) = matrix.shape();
        let (offsets, columns, values) = import(&CSR, (nrows, ncols), arrays(matrix), our_offset, our_index)?;
        Self::try_from_csr_data(nrows, ncols, offsets, columns, values)
    }
}

/// The same matrix, with the same entries in the same order if it is by columns; one by rows is converted. Takes the
/// values without copying, and also indices that are `u32` and offsets that are `O`; other types are converted: `O(nnz
/// + ncols)`.
///
/// Fails with [`Error::InvalidMatrix`] if a dimension exceeds `u32::MAX`, or there are more entries than `O` can count.
impl<T, O, I, P> TryFrom<CsMatI<T, I, P>> for CscMatrix<T, O>
where
    T: Scalar,
    O: Offset,
    I: SpIndex + 'static,
    P: SpIndex + 'static,
{
    type Error = Error;

    fn try_from(matrix: CsMatI<T, I, P>) -> Result<Self> {
        if matrix.is_csr() {
            return Self::try_from(&CsrMatrix::try_from(matrix)?);
        }
        let (nrows, ncols) = matrix.shape();
        let (offsets, rows, values) = import(&CSC, (nrows, ncols), arrays(matrix), our_offset, our_index)?;
        Self::try_from_csc_data(nrows, ncols, offsets, rows, values)
    }
}

/// The same entries in the same order, by rows. Takes the arrays, or copies those that another matrix shares; converts
/// indices that are not `u32` and offsets that are not `O`: `O(nnz + nrows)`.
///
/// Fails with [`Error::InvalidMatrix`], naming the first row, if the columns of a row are unsorted or repeat: make the
/// matrix [`canonical`](CsrMatrix::canonical) first. Also fails if the index types of sprs are too small.
impl<T, O, I, P> TryFrom<CsrMatrix<T, O>> for CsMatI<T, I, P>
where
    T: Scalar,
    O: Offset,
    I: SpIndex + 'static,
    P: SpIndex + 'static,
{
    type Error = Error;

    fn try_from(matrix: CsrMatrix<T, O>) -> Result<Self> {
        let shape = (matrix.nrows(), matrix.ncols());
        let (offsets, columns, values) = export(&THEIR_CSR, matrix, their_offset, their_index)?;
        Self::try_new(shape, offsets, columns, values).map_err(|(.., error)| refused::<I, P>(&THEIR_CSR, shape, error))
    }
}

/// The same entries in the same order, by columns. Takes the arrays, or copies those that another matrix shares;
/// converts indices that are not `u32` and offsets that are not `O`: `O(nnz + ncols)`.
///
/// Fails with [`Error::InvalidMatrix`], naming the first column, if the rows of a column are unsorted or repeat: make
/// the [transpose](CscMatrix::into_transposed) [`canonical`](CsrMatrix::canonical) first. Also fails if the index types
/// of sprs are too small.
impl<T, O, I, P> TryFrom<CscMatrix<T, O>> for CsMatI<T, I, P>
where
    T: Scalar,
    O: Offset,
    I: SpIndex + 'static,
    P: SpIndex + 'static,
{
    type Error = Error;

    fn try_from(matrix: CscMatrix<T, O>) -> Result<Self> {
        let shape = (matrix.nrows(), matrix.ncols());
        let (offsets, rows, values) = export(&THEIR_CSC, matrix.into_transposed(), their_offset, their_index)?;
        Self::try_new_csc(shape, offsets, rows, values).map_err(|(.., error)| refused::<I, P>(&THEIR_CSC, shape, error))
    }
}

/// A view of the matrix. Fails with [`Error::InvalidMatrix`] if it is by columns, or part of a larger matrix whose
/// offsets do not begin at 0.
impl<'a, T: Scalar, O: Offset + SpIndex> TryFrom<CsMatViewI<'a, T, u32, O>> for CsrView<'a, T, O> {
    type Error = Error;

    fn try_from(view: CsMatViewI<'a, T, u32, O>) -> Result<Self> {
        if view.is_csc() {
            return Err(CSR.invalid("the matrix of sprs is by columns".into()));
        }
        let (nrows, ncols) = view.shape();
        let (offsets, columns, values) = view.into_raw_storage();
        Self::try_from_csr_data(nrows, ncols, offsets, columns, values)
    }
}

/// A view of the matrix. Fails with [`Error::InvalidMatrix`] if it is by rows, or part of a larger matrix whose offsets
/// do not begin at 0.
impl<'a, T: Scalar, O: Offset + SpIndex> TryFrom<CsMatViewI<'a, T, u32, O>> for CscView<'a, T, O> {
    type Error = Error;

    fn try_from(view: CsMatViewI<'a, T, u32, O>) -> Result<Self> {
        if view.is_csr() {
            return Err(CSC.invalid("the matrix of sprs is by rows".into()));
        }
        let (nrows, ncols) = view.shape();
        let (offsets, rows, values) = view.into_raw_storage();
        Self::try_from_csc_data(nrows, ncols, offsets, rows, values)
    }
}

/// A view of the matrix by rows. Fails with [`Error::InvalidMatrix`], naming the first row, if the columns of a row are
/// unsorted or repeat.
impl<'a, T: Scalar, O: Offset + SpIndex> TryFrom<CsrView<'a, T, O>> for CsMatViewI<'a, T, u32, O> {
    type Error = Error;

    fn try_from(view: CsrView<'a, T, O>) -> Result<Self> {
        check_rising(&THEIR_CSR, view)?;
        let shape = (view.nrows(), view.ncols());
        Self::try_new(shape, view.row_offsets(), view.col_indices(), view.values())
            .map_err(|(.., error)| refused::<u32, O>(&THEIR_CSR, shape, error))
    }
}

/// A view of the matrix by columns. Fails with [`Error::InvalidMatrix`], naming the first column, if the rows of a
/// column are unsorted or repeat.
impl<'a, T: Scalar, O: Offset + SpIndex> TryFrom<CscView<'a, T, O>> for CsMatViewI<'a, T, u32, O> {
    type Error = Error;

    fn try_from(view: CscView<'a, T, O>) -> Result<Self> {
        check_rising(&THEIR_CSC, view.as_transposed())?;
        let shape = (view.nrows(), view.ncols());
        Self::try_new_csc(shape, view.col_offsets(), view.row_indices(), view.values())
            .map_err(|(.., error)| refused::<u32, O>(&THEIR_CSC, shape, error))
    }
}

/// The arrays of a matrix. A copy of a part of a larger matrix has offsets that do not begin at 0: here they do.
fn arrays<T, I: SpIndex, P: SpIndex>(matrix: CsMatI<T, I, P>) -> (Vec<P>, Vec<I>, Vec<T>) {
    let (mut offsets, indices, values) = matrix.into_raw_storage();
    let first = offsets.first().copied().unwrap_or_default();
    if first != P::default() {
        offsets.iter_mut().for_each(|offset| *offset = *offset - first);
    }
    (offsets, indices, values)
}

/// What sprs finds wrong beyond the order of columns: a type of indices or offsets too small for the dimensions.
fn refused<I, P>(names: &Names, (nrows, ncols): (usize, usize), error: StructureError) -> Error {
    let (indices, offsets) = (type_name::<I>(), type_name::<P>());
    names.invalid(format!("{nrows} x {ncols}, indices of {indices}, offsets of {offsets}: {error}"))
}

fn our_offset<P: SpIndex, O: Offset>(offset: P) -> Option<O> {
    O::try_from(offset.try_index()?).ok()
}

fn our_index<I: SpIndex>(index: I) -> Option<u32> {
    u32::try_from(index.try_index()?).ok()
}

fn their_offset<O: Offset, P: SpIndex>(offset: O) -> Option<P> {
    P::try_from_usize(offset.index())
}

fn their_index<I: SpIndex>(index: u32) -> Option<I> {
    I::try_from_usize(index as usize)
}

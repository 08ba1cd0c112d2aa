//! Matrices of faer: CSR and CSC, whose offsets and indices are of one type, and dense matrices.
//!
//! Matrices of faer may have unused room before the first entry, between rows (columns) and after the last entry. Copies
//! drop it; borrowed views refuse it, except at the end. In turn faer wants the indices of a row (column) to rise, and
//! counts rows, columns and entries up to the maximum of the signed type that is as wide as the index.

use std::any::type_name;

use faer::{
    Index, Mat, MatRef,
    sparse::{
        SparseColMat, SparseColMatRef, SparseRowMat, SparseRowMatRef, SymbolicSparseColMat, SymbolicSparseColMatRef,
        SymbolicSparseRowMat, SymbolicSparseRowMatRef,
    },
    traits::SignedIndex,
};

use super::arrays::{check_rising, export, import};
use crate::{
    CscMatrix, CscView, CsrMatrix, CsrView, DenseLayout, DenseRef, Device, DeviceDense, Element, Error, Offset, Result,
    Scalar,
    formats::compressed::{CSC, CSR, Names},
    memory::{out_of_memory, room},
};

const THEIR_CSR: Names = Names { format: "faer CSR", ..CSR };
const THEIR_CSC: Names = Names { format: "faer CSC", ..CSC };

/// From faer, the same entries in the same order. Takes the values as they are, and so the indices and offsets that are
/// `u32`; others it converts: `O(nnz + nrows)`.
///
/// An [`Error::InvalidMatrix`] if a dimension is beyond `u32::MAX`, or there are more entries than `O` counts.
///
/// ```
/// use faer::sparse::{SparseRowMat, Triplet};
/// use warpsparse::CsrMatrix;
///
/// let entries = [Triplet::new(0, 0, 4.0), Triplet::new(1, 0, -1.0), Triplet::new(1, 1, 2.0)];
/// let theirs = SparseRowMat::<usize, f64>::try_new_from_triplets(2, 2, &entries)?;
/// let ours = CsrMatrix::<f64>::try_from(theirs)?;
/// assert_eq!(ours.col_indices(), [0, 0, 1]);
/// let theirs = SparseRowMat::<usize, f64>::try_from(ours)?;
/// assert_eq!(theirs.col_idx(), [0, 0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: Scalar, O: Offset, I: Index> TryFrom<SparseRowMat<I, T>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(matrix: SparseRowMat<I, T>) -> Result<Self> {
        let (pattern, values) = matrix.into_parts();
        let (nrows, ncols, offsets, lengths, columns) = pattern.into_parts();
        let arrays = packed(offsets, lengths.as_deref(), columns, values);
        let (offsets, columns, values) = import(&CSR, (nrows, ncols), arrays, our_offset, our_index)?;
        Self::try_from_csr_data(nrows, ncols, offsets, columns, values)
    }
}

/// From a view of faer, the same entries in the same order, copied: `O(nnz + nrows)`. Errors are those of the conversion
/// from the owned matrix.
impl<T: Scalar, O: Offset, I: Index> TryFrom<SparseRowMatRef<'_, I, T>> for CsrMatrix<T, O> {
    type Error = Error;

    fn try_from(matrix: SparseRowMatRef<'_, I, T>) -> Result<Self> {
        let (pattern, values) = matrix.parts();
        let (nrows, ncols, offsets, lengths, columns) = pattern.parts();
        let arrays = packed(offsets.to_vec(), lengths, columns.to_vec(), values.to_vec());
        let (offsets, columns, values) = import(&CSR, (nrows, ncols), arrays, our_offset, our_index)?;
        Self::try_from_csr_data(nrows, ncols, offsets, columns, values)
    }
}

/// For faer, the same entries in the same order. Takes the values as they are, and so the offsets and indices that have
/// faer's type, or copies if another matrix shares them; converts others: `O(nnz + nrows)`.
///
/// An [`Error::InvalidMatrix`], naming the first row, if the columns of a row are not sorted or repeat: make the matrix
/// [`canonical`](CsrMatrix::canonical) first. Another if there are more rows, columns or entries than the maximum of the
/// signed type as wide as `I`.
impl<T: Scalar, O: Offset, I: Index> TryFrom<CsrMatrix<T, O>> for SparseRowMat<I, T> {
    type Error = Error;

    fn try_from(matrix: CsrMatrix<T, O>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        check_sizes::<I>(&THEIR_CSR, (nrows, ncols), matrix.nnz())?;
        let (offsets, columns, values) = export(&THEIR_CSR, matrix, their_offset, their_index)?;
        Ok(Self::new(SymbolicSparseRowMat::new_checked(nrows, ncols, offsets, None, columns), values))
    }
}

/// From faer, the same entries in the same order. Takes the values as they are, and so the indices and offsets that are
/// `u32`; others it converts: `O(nnz + ncols)`. To upload it by rows, convert the result: `CsrMatrix::try_from(&csc)?`.
///
/// An [`Error::InvalidMatrix`] if a dimension is beyond `u32::MAX`, or there are more entries than `O` counts.
impl<T: Scalar, O: Offset, I: Index> TryFrom<SparseColMat<I, T>> for CscMatrix<T, O> {
    type Error = Error;

    fn try_from(matrix: SparseColMat<I, T>) -> Result<Self> {
        let (pattern, values) = matrix.into_parts();
        let (nrows, ncols, offsets, lengths, rows) = pattern.into_parts();
        let arrays = packed(offsets, lengths.as_deref(), rows, values);
        let (offsets, rows, values) = import(&CSC, (nrows, ncols), arrays, our_offset, our_index)?;
        Self::try_from_csc_data(nrows, ncols, offsets, rows, values)
    }
}

/// From a view of faer, the same entries in the same order, copied: `O(nnz + ncols)`. Errors are those of the conversion
/// from the owned matrix.
impl<T: Scalar, O: Offset, I: Index> TryFrom<SparseColMatRef<'_, I, T>> for CscMatrix<T, O> {
    type Error = Error;

    fn try_from(matrix: SparseColMatRef<'_, I, T>) -> Result<Self> {
        let (pattern, values) = matrix.parts();
        let (nrows, ncols, offsets, lengths, rows) = pattern.parts();
        let arrays = packed(offsets.to_vec(), lengths, rows.to_vec(), values.to_vec());
        let (offsets, rows, values) = import(&CSC, (nrows, ncols), arrays, our_offset, our_index)?;
        Self::try_from_csc_data(nrows, ncols, offsets, rows, values)
    }
}

/// For faer, the same entries in the same order. Takes the values as they are, and so the offsets and indices that have
/// faer's type, or copies if another matrix shares them; converts others: `O(nnz + ncols)`.
///
/// An [`Error::InvalidMatrix`], naming the first column, if the rows of a column are not sorted or repeat: make the
/// [transpose](CscMatrix::into_transposed) [`canonical`](CsrMatrix::canonical) first. Another if there are more rows,
/// columns or entries than the maximum of the signed type as wide as `I`.
impl<T: Scalar, O: Offset, I: Index> TryFrom<CscMatrix<T, O>> for SparseColMat<I, T> {
    type Error = Error;

    fn try_from(matrix: CscMatrix<T, O>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        check_sizes::<I>(&THEIR_CSC, (nrows, ncols), matrix.nnz())?;
        let (offsets, rows, values) = export(&THEIR_CSC, matrix.into_transposed(), their_offset, their_index)?;
        Ok(Self::new(SymbolicSparseColMat::new_checked(nrows, ncols, offsets, None, rows), values))
    }
}

/// The matrix, its arrays borrowed. An [`Error::InvalidMatrix`] if it is uncompressed, or its first offset is not 0:
/// convert it to a [`CsrMatrix`], which copies it.
impl<'a, T: Scalar> TryFrom<SparseRowMatRef<'a, u32, T>> for CsrView<'a, T> {
    type Error = Error;

    fn try_from(matrix: SparseRowMatRef<'a, u32, T>) -> Result<Self> {
        let (pattern, values) = matrix.parts();
        let (nrows, ncols, offsets, lengths, columns) = pattern.parts();
        let end = end_of_compressed(&CSR, offsets, lengths)?;
        Self::try_from_csr_data(nrows, ncols, offsets, &columns[..end], &values[..end])
    }
}

/// The matrix, its arrays borrowed. An [`Error::InvalidMatrix`] if it is uncompressed, or its first offset is not 0:
/// convert it to a [`CscMatrix`], which copies it.
impl<'a, T: Scalar> TryFrom<SparseColMatRef<'a, u32, T>> for CscView<'a, T> {
    type Error = Error;

    fn try_from(matrix: SparseColMatRef<'a, u32, T>) -> Result<Self> {
        let (pattern, values) = matrix.parts();
        let (nrows, ncols, offsets, lengths, rows) = pattern.parts();
        let end = end_of_compressed(&CSC, offsets, lengths)?;
        Self::try_from_csc_data(nrows, ncols, offsets, &rows[..end], &values[..end])
    }
}

/// The matrix by rows, its arrays borrowed. An [`Error::InvalidMatrix`], naming the first row, if the columns of a row
/// are not sorted or repeat. Another if there are more than `i32::MAX` rows, columns or entries.
impl<'a, T: Scalar> TryFrom<CsrView<'a, T>> for SparseRowMatRef<'a, u32, T> {
    type Error = Error;

    fn try_from(view: CsrView<'a, T>) -> Result<Self> {
        let (nrows, ncols) = (view.nrows(), view.ncols());
        check_sizes::<u32>(&THEIR_CSR, (nrows, ncols), view.nnz())?;
        check_rising(&THEIR_CSR, view)?;
        let (offsets, columns) = (view.row_offsets(), view.col_indices());
        Ok(Self::new(SymbolicSparseRowMatRef::new_checked(nrows, ncols, offsets, None, columns), view.values()))
    }
}

/// The matrix by columns, its arrays borrowed. An [`Error::InvalidMatrix`], naming the first column, if the rows of a
/// column are not sorted or repeat. Another if there are more than `i32::MAX` rows, columns or entries.
impl<'a, T: Scalar> TryFrom<CscView<'a, T>> for SparseColMatRef<'a, u32, T> {
    type Error = Error;

    fn try_from(view: CscView<'a, T>) -> Result<Self> {
        let (nrows, ncols) = (view.nrows(), view.ncols());
        check_sizes::<u32>(&THEIR_CSC, (nrows, ncols), view.nnz())?;
        check_rising(&THEIR_CSC, view.as_transposed())?;
        let (offsets, rows) = (view.col_offsets(), view.row_indices());
        Ok(Self::new(SymbolicSparseColMatRef::new_checked(nrows, ncols, offsets, None, rows), view.values()))
    }
}

impl Device {
    /// Uploads a dense matrix of faer, whatever its strides. On the device it is column-major without gaps. Waits until it
    /// is copied. Takes host memory for a second copy: the columns of a [`Mat`] have uninitialised memory between them.
    ///
    /// ```
    /// use faer::mat;
    /// use warpsparse::{DenseLayout, Device};
    ///
    /// let device = Device::auto();
    /// let a = device.upload_faer(mat![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].as_ref())?;
    /// let mut c = device.zeros_dense(DenseLayout::column_major(2, 2))?;
    /// a.transpose().gemm(1.0, &a, 0.0, &mut c)?;
    /// assert_eq!(c.to_faer()?, mat![[35.0, 44.0], [44.0, 56.0]]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory), also of the host; [`Driver`](Error::Driver).
    pub fn upload_faer<T: Element>(&self, matrix: MatRef<'_, T>) -> Result<DeviceDense<T>> {
        let (nrows, ncols) = matrix.shape();
        // Strides may be 0: a matrix can have more elements than memory has.
        let elements = nrows.saturating_mul(ncols);
        let mut values = room(elements)?;
        // Columns without elements may be very many.
        for column in matrix.col_iter().take(elements) {
            values.extend(column.iter());
        }
        self.upload_dense(DenseLayout::column_major(nrows, ncols), &values)
    }
}

impl<T: Element> DenseRef<'_, T> {
    /// A copy for faer, after everything queued before has finished.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory) of the host; [`Driver`](Error::Driver), also for a failure of an operation
    /// queued earlier.
    pub fn to_faer(&self) -> Result<Mat<T>> {
        let (nrows, ncols) = (self.nrows(), self.ncols());
        let by_columns = self.transpose().to_vec()?;
        let mut matrix = Mat::new();
        matrix.try_reserve(nrows, ncols).map_err(|_| out_of_memory::<T>(nrows.saturating_mul(ncols)))?;
        matrix.resize_with(nrows, ncols, |i, j| by_columns[j * nrows + i]);
        Ok(matrix)
    }
}

impl<T: Element> DeviceDense<T> {
    /// A copy for faer: see [`DenseRef::to_faer`].
    ///
    /// # Errors
    /// As [`DenseRef::to_faer`].
    pub fn to_faer(&self) -> Result<Mat<T>> {
        self.view().to_faer()
    }
}

/// The arrays without unused room: row `i` (or column) is `offsets[i]..offsets[i + 1]`, or, in a matrix with `lengths`,
/// the `lengths[i]` entries from `offsets[i]` on.
fn packed<I: Index, T: Copy>(
    mut offsets: Vec<I>,
    lengths: Option<&[I]>,
    mut indices: Vec<I>,
    mut values: Vec<T>,
) -> (Vec<I>, Vec<I>, Vec<T>) {
    let mut end = 0;
    for i in 0..offsets.len() - 1 {
        let start = offsets[i].zx();
        let stop = lengths.map_or(offsets[i + 1].zx(), |lengths| start + lengths[i].zx());
        if start != end {
            indices.copy_within(start..stop, end);
            values.copy_within(start..stop, end);
        }
        offsets[i] = I::truncate(end);
        end += stop - start;
    }
    // There is one more offset than rows, of which there may be none.
    *offsets.last_mut().expect("an offset") = I::truncate(end);
    indices.truncate(end);
    values.truncate(end);
    (offsets, indices, values)
}

/// Where the entries end. Refuses uncompressed matrices, whose rows (columns) have lengths and unused room behind them.
fn end_of_compressed(names: &Names, offsets: &[u32], lengths: Option<&[u32]>) -> Result<usize> {
    match (lengths, offsets) {
        (None, [.., end]) => Ok(*end as usize),
        _ => Err(names.invalid("the matrix of faer is uncompressed: copy it instead of borrowing it".into())),
    }
}

/// Refuses sizes beyond the maximum of the signed type as wide as `I`, faer's limit.
fn check_sizes<I: Index>(names: &Names, (nrows, ncols): (usize, usize), nnz: usize) -> Result<()> {
    let most = I::from_signed(I::Signed::MAX).zx();
    for (count, what) in [(nrows, "rows"), (ncols, "columns"), (nnz, "entries")] {
        if count > most {
            let indices = type_name::<I>();
            return Err(names.invalid(format!("{count} {what}, and indices of {indices} reach {most}")));
        }
    }
    Ok(())
}

fn our_offset<I: Index, O: Offset>(offset: I) -> Option<O> {
    O::try_from(offset.zx()).ok()
}

fn our_index<I: Index>(index: I) -> Option<u32> {
    u32::try_from(index.zx()).ok()
}

/// Truncates nothing: `check_sizes` comes first.
fn their_offset<O: Offset, I: Index>(offset: O) -> Option<I> {
    Some(I::truncate(offset.index()))
}

/// Truncates nothing: `check_sizes` comes first.
fn their_index<I: Index>(index: u32) -> Option<I> {
    Some(I::truncate(index as usize))
}

//! Matrices of faer: CSR and CSC, whose offsets and indices have the same type, and dense matrices.
//!
//! Matrices of faer may have unused space before the first entry, between rows (columns) and after the last entry.
//! Copies drop it; borrowed views reject it, except at the end. Conversely, faer requires sorted unique indices in a
//! row (column), and limits rows, columns and entries to the maximum of the signed type as wide as the index.

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

/// From faer, with the same entries in the same order. Takes the values without copying, and also indices and offsets
/// that are `u32`; other types are converted: `O(nnz + nrows)`.
///
/// Fails with [`Error::InvalidMatrix`] if a dimension exceeds `u32::MAX`, or there are more entries than `O` can count.
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

/// Copies a view of faer, with the same entries in the same order: `O(nnz + nrows)`. Fails like the conversion from the
/// owned matrix.
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

/// To faer, with the same entries in the same order. Takes the values without copying, and also offsets and indices of
/// faer's type, but copies arrays that another matrix shares; other types are converted: `O(nnz + nrows)`.
///
/// Fails with [`Error::InvalidMatrix`], naming the first row, if the columns of a row are unsorted or repeat: make the
/// matrix [`canonical`](CsrMatrix::canonical) first. Also fails if there are more rows, columns or entries than the
/// maximum of the signed type as wide as `I`.
impl<T: Scalar, O: Offset, I: Index> TryFrom<CsrMatrix<T, O>> for SparseRowMat<I, T> {
    type Error = Error;

    fn try_from(matrix: CsrMatrix<T, O>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        check_sizes::<I>(&THEIR_CSR, (nrows, ncols), matrix.nnz())?;
        let (offsets, columns, values) = export(&THEIR_CSR, matrix, their_offset, their_index)?;
        Ok(Self::new(SymbolicSparseRowMat::new_checked(nrows, ncols, offsets, None, columns), values))
    }
}

/// From faer, with the same entries in the same order. Takes the values without copying, and also indices and offsets
/// that are `u32`; other types are converted: `O(nnz + ncols)`. To upload it in CSR, convert the result:
/// `CsrMatrix::try_from(&csc)?`.
///
/// Fails with [`Error::InvalidMatrix`] if a dimension exceeds `u32::MAX`, or there are more entries than `O` can count.
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

/// Copies a view of faer, with the same entries in the same order: `O(nnz + ncols)`. Fails like the conversion from the
/// owned matrix.
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

/// To faer, with the same entries in the same order. Takes the values without copying, and also offsets and indices of
/// faer's type, but copies arrays that another matrix shares; other types are converted: `O(nnz + ncols)`.
///
/// Fails with [`Error::InvalidMatrix`], naming the first column, if the rows of a column are unsorted or repeat: make
/// the [transpose](CscMatrix::into_transposed) [`canonical`](CsrMatrix::canonical) first. Also fails if there are more
/// rows, columns or entries than the maximum of the signed type as wide as `I`.
impl<T: Scalar, O: Offset, I: Index> TryFrom<CscMatrix<T, O>> for SparseColMat<I, T> {
    type Error = Error;

    fn try_from(matrix: CscMatrix<T, O>) -> Result<Self> {
        let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
        check_sizes::<I>(&THEIR_CSC, (nrows, ncols), matrix.nnz())?;
        let (offsets, rows, values) = export(&THEIR_CSC, matrix.into_transposed(), their_offset, their_index)?;
        Ok(Self::new(SymbolicSparseColMat::new_checked(nrows, ncols, offsets, None, rows), values))
    }
}

/// A view of the matrix. Fails with [`Error::InvalidMatrix`] if it is uncompressed, or its first offset is not 0:
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

/// A view of the matrix. Fails with [`Error::InvalidMatrix`] if it is uncompressed, or its first offset is not 0:
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

/// A view of the matrix by rows. Fails with [`Error::InvalidMatrix`], naming the first row, if the columns of a row are
/// unsorted or repeat, and if there are more than `i32::MAX` rows, columns or entries.
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

/// A view of the matrix by columns. Fails with [`Error::InvalidMatrix`], naming the first column, if the rows of a
/// column are unsorted or repeat, and if there are more than `i32::MAX` rows, columns or entries.
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
    /// Uploads a dense matrix of faer with any strides. On the device it is column-major without gaps. Waits for the
    /// copy. Takes host memory for a second copy, because a [`Mat`] has uninitialised memory between its columns.
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
    /// [`OutOfMemory`](Error::OutOfMemory), also of the host; [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is
    /// recorded.
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
    /// Copies the matrix to faer, after all earlier operations on the stream have finished.
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
    /// Copies the matrix to faer: see [`DenseRef::to_faer`].
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

//! Distributed matrices: how they come to be.

use std::ops::Range;

use super::{
    Communicator, Partition,
    halo::Halo,
    rows::{outside, renumbered, stacked},
};
use crate::{CsrMatrix, DeviceMatrix, Error, Jacobi, Offset, Result, Scalar, SpmvOptions, device::check_length};

/// A sparse matrix of which each rank holds a block of rows on its device.
///
/// Within a block, columns are renumbered: first those of the rank's own elements of `x`, then the *halo*, those of other ranks' elements
/// that the block refers to. If more than half of the rows, in one run, refer to no halo, they are multiplied while the halo is on its way; but not on a
/// GPU if the block has few entries.
/// Every row is multiplied at once, whatever the timing, so a product has the same bits in every run.
#[derive(Debug)]
pub struct DistributedMatrix<T> {
    communicator: Communicator,
    rows: Partition,
    columns: Partition,
    nnz: usize,
    parts: Vec<Part<T>>,
    halo: Halo<T>,
    /// The columns of the halo, in ascending order.
    others: Vec<u32>,
    /// This rank's elements on the diagonal, if rows and columns are divided alike.
    diagonal: Option<Vec<T>>,
}

/// Some of this rank's rows.
#[derive(Debug)]
pub(super) struct Part<T> {
    /// Its place among the parts, the rows before the interior, the interior, and the rows after it.
    pub(super) place: usize,
    pub(super) rows: Range<usize>,
    pub(super) needs_halo: bool,
    pub(super) matrix: DeviceMatrix<T>,
}

impl<T: Scalar> DistributedMatrix<T> {
    /// Distributes a matrix that every rank has: its rows are [balanced](Partition::balanced). The columns of a square matrix are
    /// divided like the rows, others [evenly](Partition::even). Collective.
    ///
    /// Each rank copies its block, and uploads it like [`Device::upload`](crate::Device::upload). With threads, all may refer to the same
    /// matrix.
    ///
    /// # Errors
    /// As [`from_rows`](Self::from_rows).
    pub fn from_whole<O: Offset>(communicator: &Communicator, matrix: &CsrMatrix<T, O>) -> Result<Self> {
        Self::from_whole_with(communicator, matrix, &SpmvOptions::default())
    }

    /// Distributes a matrix like [`from_whole`](Self::from_whole), with the format and kernel that `options` prescribe.
    ///
    /// # Errors
    /// As [`from_rows_with`](Self::from_rows_with).
    pub fn from_whole_with<O: Offset>(
        communicator: &Communicator,
        matrix: &CsrMatrix<T, O>,
        options: &SpmvOptions,
    ) -> Result<Self> {
        let (nrows, ncols, nnz) = (matrix.nrows(), matrix.ncols(), matrix.nnz());
        let rows = Partition::balanced(communicator, matrix);
        let columns = if nrows == ncols { rows.clone() } else { Partition::even(communicator, ncols) };
        let fingerprint = rows.fingerprint();
        let call =
            format!("a distribution of a {nrows} x {ncols} matrix of {nnz} entries, divided as {fingerprint:016x}");
        communicator.call(call).all_gather(&[])?;
        let block = matrix.slice_rows(rows.rows(communicator.rank()))?;
        Self::from_rows_with(communicator, &block, &columns, options)
    }

    /// Reads a matrix from a Matrix Market file, which every rank reads, and distributes it like [`from_whole`](Self::from_whole).
    /// Collective. See [`MatrixMarketReader`](crate::io::MatrixMarketReader) for what it reads, and for its errors.
    ///
    /// Threads of one process need less memory if the program reads the file before they start.
    ///
    /// # Errors
    /// As [`from_rows`](Self::from_rows), and those of the reader.
    #[cfg(feature = "io")]
    pub fn read_matrix_market(communicator: &Communicator, path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::from_whole(communicator, &CsrMatrix::<T>::read_matrix_market(path)?)
    }

    /// Makes a matrix from blocks of rows: `block` has this rank's rows, which follow those of the ranks before, and all columns of the
    /// matrix. `columns` says which rank has which elements of `x`; for a square matrix usually that of the rows, as
    /// [`Partition::from_local`] makes it. Collective.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device, distributed::{self, DistributedMatrix, DistributedVec, Partition}};
    ///
    /// // The differences of neighbours in a ring of 4, two on each of two ranks.
    /// let sums = distributed::run(&[Device::cpu(), Device::cpu()], |communicator| {
    ///     let first = 2 * communicator.rank() as u32;
    ///     let columns = vec![first, first + 1, first + 1, (first + 2) % 4];
    ///     let block = CsrMatrix::try_from_csr_data(2, 4, vec![0u32, 2, 4], columns, vec![-1.0f64, 1.0, -1.0, 1.0])?;
    ///     let rows = Partition::from_local(communicator, 2)?;
    ///     let a = DistributedMatrix::from_rows(communicator, &block, &rows)?;
    ///     let mut x = DistributedVec::from_whole(communicator, &rows, &[1.0, 4.0, 9.0, 16.0])?;
    ///     let mut y = DistributedVec::zeros(communicator, &rows)?;
    ///     a.spmv(1.0, &mut x, 0.0, &mut y)?;
    ///     y.gather()
    /// })?;
    /// assert_eq!(sums[0], [3.0, 5.0, 7.0, -15.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) if a block has another number of columns than the partition;
    /// [`InvalidOption`](Error::InvalidOption) if the partition is one for another number of ranks; [`Rank`](Error::Rank);
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver).
    pub fn from_rows<O: Offset>(
        communicator: &Communicator,
        block: &CsrMatrix<T, O>,
        columns: &Partition,
    ) -> Result<Self> {
        Self::from_rows_with(communicator, block, columns, &SpmvOptions::default())
    }

    /// Makes a matrix like [`from_rows`](Self::from_rows), with the format and kernel that `options` prescribe.
    ///
    /// # Errors
    /// As [`from_rows`](Self::from_rows), and those of [`Device::upload_with`](crate::Device::upload_with).
    pub fn from_rows_with<O: Offset>(
        communicator: &Communicator,
        block: &CsrMatrix<T, O>,
        columns: &Partition,
        options: &SpmvOptions,
    ) -> Result<Self> {
        let call =
            communicator.call(format!("a matrix from rows, its columns divided as {:016x}", columns.fingerprint()));
        columns.check(communicator)?;
        check_length("a row of the block", columns.len(), block.ncols())?;
        let sizes = call.numbers(&[block.nrows() as u64, block.nnz() as u64])?;
        let rows = Partition::of_lengths(sizes.iter().map(|sizes| sizes[0]))?;
        let nnz = Partition::of_lengths(sizes.iter().map(|sizes| sizes[1]))?.len();
        let own = columns.rows(communicator.rank());
        let own_columns = own.len();
        let (local, others) = renumber(block, own)?;
        let halo = Halo::new(communicator, columns, &others)?;
        let diagonal = (rows == *columns).then(|| local.diagonal());
        let is_divided = !communicator.device().is_cuda() || local.nnz() >= LEAST_ENTRIES;
        let interior = if is_divided { interior(&local, own_columns) } else { 0..0 };
        let ranges = [(0..interior.start, true), (interior.clone(), false), (interior.end..local.nrows(), true)];
        let part = |(place, (rows, needs_halo)): (usize, (Range<usize>, bool))| {
            let matrix = communicator.device().upload_with(&local.slice_rows(rows.clone())?, options)?;
            Ok(Part { place, rows, needs_halo, matrix })
        };
        let ranges = ranges.into_iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty());
        let parts = ranges.map(part).collect::<Result<_>>()?;
        let (communicator, columns) = (communicator.clone(), columns.clone());
        Ok(Self { communicator, rows, columns, nnz, parts, halo, others, diagonal })
    }

    /// Returns the number of rows of all ranks.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.columns.len()
    }

    /// Returns the number of stored entries of all ranks.
    #[must_use]
    pub fn nnz(&self) -> usize {
        self.nnz
    }

    /// Returns how many elements of other ranks a product with a vector needs on this rank.
    #[must_use]
    pub fn halo_len(&self) -> usize {
        self.halo.rows()
    }

    /// Returns which rank has which rows, and elements of `y`.
    #[must_use]
    pub fn rows(&self) -> &Partition {
        &self.rows
    }

    /// Returns which rank has which elements of `x`.
    #[must_use]
    pub fn columns(&self) -> &Partition {
        &self.columns
    }

    /// Returns the communicator of the ranks.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    /// Describes this rank's block in one line: its rows, its halo, and the kernels of its products.
    #[must_use]
    pub fn describe(&self) -> String {
        let (rank, size) = (self.communicator.rank(), self.communicator.size());
        let (rows, interior) = (self.rows.rows(rank), self.parts.iter().filter(|part| !part.needs_halo));
        let interior: usize = interior.map(|part| part.rows.len()).sum();
        let (halo, neighbours) = (self.halo.rows(), self.halo.neighbours());
        let mut text = format!(
            "rank {rank} of {size}: rows {} to {} of {}, {interior} of them multiplied while a halo of {halo} elements comes \
             from {neighbours} ranks",
            rows.start,
            rows.end,
            self.nrows()
        );
        for Part { rows, matrix, .. } in &self.parts {
            text += &format!("; rows {} to {} of these: {}", rows.start, rows.end, matrix.describe().kernel);
        }
        text
    }

    /// Returns the Jacobi preconditioner for [`DistributedCg`](super::DistributedCg): the inverse of this rank's elements on the diagonal.
    /// Not collective.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) if rows and columns are divided differently; [`Breakdown`](Error::Breakdown), naming the
    /// first such row, if an element is missing, zero or not finite, or has no finite inverse; [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver).
    pub fn jacobi(&self) -> Result<Jacobi<T>> {
        let Some(diagonal) = &self.diagonal else {
            let problem = "Jacobi's preconditioner needs a matrix whose rows and columns are divided alike";
            return Err(Error::InvalidOption(problem.into()));
        };
        let first = self.rows.rows(self.communicator.rank()).start;
        Jacobi::of_diagonal(self.communicator.device().upload_vec(diagonal)?, first)
    }

    /// Copies this rank's rows to the host, with the columns of the whole matrix, which ascend in each row and occur once.
    pub(super) fn block(&self) -> Result<CsrMatrix<T>> {
        let own = self.columns.rows(self.communicator.rank());
        let parts = self.parts.iter().map(|part| part.matrix.download()?.into_csr()).collect::<Result<Vec<_>>>()?;
        let local = stacked(&parts.iter().collect::<Vec<_>>(), own.len() + self.others.len())?;
        renumbered(&local, self.ncols(), |column| {
            let column = column as usize;
            Some(if column < own.len() { (own.start + column) as u32 } else { self.others[column - own.len()] })
        })
    }

    pub(super) fn parts(&self) -> &[Part<T>] {
        &self.parts
    }

    pub(super) fn halo(&self) -> &Halo<T> {
        &self.halo
    }
}

/// Entries of a block from which on a GPU multiplies rows while the halo is on its way. With fewer, one more kernel takes longer than that saves.
const LEAST_ENTRIES: usize = 1 << 18;

/// Renumbers the columns of a block: the own ones from 0 on, then the others in ascending order. Returns the block and these others.
fn renumber<T: Scalar, O: Offset>(block: &CsrMatrix<T, O>, own: Range<usize>) -> Result<(CsrMatrix<T, O>, Vec<u32>)> {
    let is_own = |column: u32| own.contains(&(column as usize));
    let others = outside(block, own.clone());
    let new = |&column: &u32| match is_own(column) {
        true => column - own.start as u32,
        false => (own.len() + others.partition_point(|&other| other < column)) as u32,
    };
    let columns = block.col_indices().iter().map(new).collect();
    let (offsets, values) = (block.row_offsets().to_vec(), block.values().to_vec());
    let ncols = own.len() + others.len();
    Ok((CsrMatrix::try_from_csr_data(block.nrows(), ncols, offsets, columns, values)?, others))
}

/// Finds the rows to multiply while the halo is on its way: the longest run of rows that need none, if it is more than half of all.
///
/// It begins and ends at multiples of 16 bytes of `y`, as some kernels need.
fn interior<T: Scalar, O: Offset>(local: &CsrMatrix<T, O>, own_columns: usize) -> Range<usize> {
    const STEP: usize = 4;
    let nrows = local.nrows();
    if local.ncols() == own_columns {
        return 0..nrows;
    }
    let (mut longest, mut start) = (0..0, 0);
    for (row, (columns, _)) in local.rows().enumerate() {
        if columns.iter().any(|&column| column as usize >= own_columns) {
            start = row + 1;
        } else if row + 1 - start > longest.len() {
            longest = start..row + 1;
        }
    }
    let begin = longest.start.next_multiple_of(STEP);
    let end = if longest.end == nrows { nrows } else { longest.end / STEP * STEP };
    if begin < end && end - begin > nrows / 2 { begin..end } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interior_is_one_run_of_more_than_half_the_rows() {
        // Rows with a halo, of two own columns and one other.
        let of = |nrows: usize, with_halo: &[usize]| {
            let columns: Vec<u32> = (0..nrows).map(|row| if with_halo.contains(&row) { 2 } else { 1 }).collect();
            let offsets = (0..=nrows as u32).collect();
            let local = CsrMatrix::try_from_csr_data(nrows, 3, offsets, columns, vec![1.0f32; nrows]).unwrap();
            interior(&local, 2)
        };
        assert_eq!(of(20, &[0, 19]), 4..16);
        assert_eq!(of(20, &[]), 0..20);
        assert_eq!(of(20, &[3]), 4..20);
        assert_eq!(of(20, &[4]), 8..20);
        assert_eq!(of(20, &[18]), 0..16);
        assert_eq!(of(20, &[10]), 0..0);
        assert_eq!(of(0, &[]), 0..0);
        assert_eq!(of(3, &[0]), 0..0);
        assert_eq!(of(3, &[0, 1, 2]), 0..0);
    }
}

//! The transpose, canonical matrices, and matrices of triplets: entries placed in rows, and rows sorted.

use std::sync::Arc;

use kernels_gpu::{csr_transpose, triplets};

use super::{
    operand::{Operand, copy_of, offsets_of},
    row_sort::{Columns, Sorted, UnsortedRows, radix_sorted},
    select::{Selection, select},
    to_csr::{cast, offsets_of_sorted},
};
use crate::{
    CastFrom, CooView, CsrMatrix, Device, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    device::{self, check_length, launch},
    formats::coo::check_limits,
    stored::{Csr, CsrArrays},
};

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes the transpose in CSR, with columns in ascending order. Duplicates are kept, in storage order. The same matrix gives the same
    /// bits on every device.
    ///
    /// On a GPU a matrix with ascending columns and a symmetric pattern takes one pass over its entries, others three. If a row of the
    /// transpose has more than 512 entries, all are sorted by a radix sort. A matrix in another format is converted to CSR first, on the host if it has 64-bit offsets.
    /// Waits for the number of entries. The kernels for products with the result are chosen at its first product.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver); [`InvalidMatrix`](Error::InvalidMatrix) for 2³² entries and more;
    /// [`InvalidOption`](Error::InvalidOption) while a graph is recorded.
    pub fn transpose(&self) -> Result<Self> {
        device::refuse("a transpose")?;
        let transpose = match self.operand()? {
            Operand::Host(matrix) => Operand::Host(matrix.transpose()?),
            Operand::Device(arrays) => Operand::Device(transposed(&arrays)?),
        };
        Ok(transpose.into_matrix(self.device()))
    }

    /// Makes the matrix canonical: in CSR, with ascending columns and duplicates summed in storage order. Explicit zeros stay, and so do sums that
    /// are zero. A matrix that is canonical already comes back as it is, with its kernels.
    ///
    /// On a GPU short rows are sorted in shared memory; if one has more than 512 entries, all are sorted by a radix sort. Waits for the answer whether the matrix is canonical, and for
    /// the number of entries.
    ///
    /// # Errors
    /// As [`transpose`](Self::transpose).
    pub fn canonical(self) -> Result<Self> {
        device::refuse("a sum of duplicates")?;
        match self.csr() {
            Some(Csr::Host(matrix)) if matrix.is_canonical() => return Ok(self),
            Some(Csr::Device(arrays)) if arrays.is_canonical()? => return Ok(self),
            _ => {}
        }
        Ok(self.operand()?.canonical()?.into_matrix(self.device()))
    }

    /// Returns the matrix in CSR with values of another type, each the nearest to the old one: for a preconditioner in `f32`, say.
    ///
    /// `O(nnz)` work. A matrix in another format is converted to CSR first, on the host if it has 64-bit offsets.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// let a = CsrMatrix::try_from_csr_data(1, 1, vec![0u32, 1], vec![0], vec![0.1f64])?;
    /// let single = Device::auto().upload(&a)?.cast::<f32>()?;
    /// assert_eq!(single.download()?.into_csr()?.values(), [0.1f32]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`transpose`](Self::transpose).
    pub fn cast<U: Scalar + CastFrom<T>>(&self) -> Result<DeviceMatrix<U>> {
        device::refuse("a copy of a matrix")?;
        Ok(match self.operand()? {
            Operand::Host(matrix) => Operand::Host(matrix.cast::<U>()),
            Operand::Device(arrays) => Operand::Device(Arc::new(cast(&arrays)?)),
        }
        .into_matrix(self.device()))
    }

    /// Returns row indices, column indices and values of the entries, in storage order: see [`Device::csr_from_triplets`] for the way back.
    ///
    /// `O(nnz)` work. A matrix in another format is converted to CSR first, on the host if it has 64-bit offsets.
    ///
    /// # Errors
    /// As [`transpose`](Self::transpose).
    pub fn to_triplets(&self) -> Result<(DeviceVec<u32>, DeviceVec<u32>, DeviceVec<T>)> {
        device::refuse("a copy of entries")?;
        match self.operand()? {
            Operand::Host(matrix) => {
                let device = self.device();
                let rows: Vec<u32> = matrix.triplets().map(|(row, _, _)| row as u32).collect();
                let columns = device.upload_vec(matrix.col_indices())?;
                Ok((device.upload_vec(&rows)?, columns, device.upload_vec(matrix.values())?))
            }
            Operand::Device(arrays) => {
                let columns = copy_of(&arrays.col_indices, &arrays.device)?;
                Ok((row_indices(&arrays)?, columns, arrays.values.read().try_clone()?))
            }
        }
    }
}

impl Device {
    /// Creates a canonical CSR matrix of triplets in any order: sorted by row and column, duplicates summed in the order given. The same triplets
    /// give the same bits on every device.
    ///
    /// On a GPU, integer atomics count the rows and place the triplets, and short rows are sorted in shared memory; if one has more than 512 triplets, all
    /// are sorted by a radix sort. Waits for the number of entries.
    ///
    /// ```
    /// use warpsparse::Device;
    ///
    /// let device = Device::auto();
    /// let (rows, cols) = (device.upload_vec(&[1u32, 0, 1])?, device.upload_vec(&[2u32, 0, 2])?);
    /// let a = device.csr_from_triplets(2, 3, &rows, &cols, &device.upload_vec(&[1.0f32, 2.0, 3.0])?)?;
    /// assert_eq!((a.nnz(), a.download()?.into_csr()?.values()), (2, &[2.0, 4.0][..]));
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) unless `rows`, `cols` and `values` have the same length; [`InvalidMatrix`](Error::InvalidMatrix),
    /// naming the first triplet out of range, and for 2³² rows, columns or triplets and more; [`DeviceMismatch`](Error::DeviceMismatch);
    /// otherwise as [`DeviceMatrix::transpose`].
    pub fn csr_from_triplets<T: Scalar>(
        &self,
        nrows: usize,
        ncols: usize,
        rows: &DeviceVec<u32>,
        cols: &DeviceVec<u32>,
        values: &DeviceVec<T>,
    ) -> Result<DeviceMatrix<T>> {
        device::refuse("a matrix of triplets")?;
        check_limits::<u32>("COO", nrows, ncols, values.len())?;
        check_length("cols", rows.len(), cols.len())?;
        check_length("values", rows.len(), values.len())?;
        for (name, device) in [("rows", rows.device()), ("cols", cols.device()), ("values", values.device())] {
            self.check_same(name, device)?;
        }
        if self.is_cpu() {
            let (rows, cols, values) = (rows.buffer().on_cpu(), cols.buffer().on_cpu(), values.buffer().on_cpu());
            let matrix = CsrMatrix::try_from(CooView::try_from_triplets(nrows, ncols, rows, cols, values)?)?;
            return Ok(DeviceMatrix::of_host_csr(self, matrix));
        }
        let size = (nrows as u32, ncols as u32);
        check_triplets(self, size, rows, cols)?;
        let sorted = place_triplets(self, size, rows, cols, values)?;
        Ok(Operand::Device(Arc::new(sorted)).canonical()?.into_matrix(self))
    }
}

impl<T: Scalar> Operand<T> {
    /// With ascending columns, duplicates summed. Itself if it is canonical.
    pub(crate) fn canonical(self) -> Result<Self> {
        let arrays = match self {
            Self::Host(matrix) => return Ok(Self::Host(matrix.canonical())),
            Self::Device(arrays) if arrays.is_canonical()? => return Ok(Self::Device(arrays)),
            Self::Device(arrays) => arrays,
        };
        let (entries, device) = (arrays.nnz, &arrays.device);
        // What is sorted once more stays as it is: so no pass is needed to find out whether only duplicates are in the way.
        let (old_columns, old_values) = (arrays.col_indices.readable(device), arrays.values.read());
        let unsorted = UnsortedRows {
            device,
            rows: arrays.nrows,
            entries,
            offsets: arrays.row_offsets.readable(device),
            columns: Columns::Own(old_columns),
            values: Some(&old_values),
        };
        let (columns, values) = match unsorted.sorted()? {
            Some(sorted) => sorted,
            None => {
                let size = (arrays.nrows, arrays.ncols);
                let Sorted { columns, values, .. } =
                    radix_sorted(size, row_indices(&arrays)?, old_columns, &old_values)?;
                (columns, values)
            }
        };
        let offsets = copy_of(&arrays.row_offsets, device)?;
        // SAFETY: the offsets of the matrix, and the columns of each of its rows in order.
        let sorted =
            unsafe { CsrArrays::of_vectors((arrays.nrows, arrays.ncols, entries), offsets, columns, values, None) };
        if sorted.is_canonical()? {
            return Ok(Self::Device(Arc::new(sorted)));
        }
        let whole = Selection { sums: true, canonical: Some(true), ..Selection::all(sorted.nrows, sorted.ncols) };
        Ok(Self::Device(Arc::new(select(&sorted, &whole)?)))
    }
}

pub(super) fn transposed<T: Scalar>(arrays: &Arc<CsrArrays<T, u32>>) -> Result<Arc<CsrArrays<T, u32>>> {
    if arrays.nrows == arrays.ncols
        && arrays.nnz > 0
        && arrays.is_canonical()?
        && let Some(mirrored) = mirrored(arrays)?
    {
        return Ok(Arc::new(mirrored));
    }
    let device = &arrays.device;
    let (size, entries) = ((arrays.ncols, arrays.nrows), arrays.nnz);
    let place = |ranks: &DeviceVec<u32>, new_offsets: &DeviceVec<u32>, keys: &mut DeviceVec<u64>| {
        let args = csr_transpose::PlaceArgs {
            rows: arrays.nrows,
            cols: arrays.ncols,
            entries,
            row_offsets: arrays.row_offsets.readable(device),
            col_indices: arrays.col_indices.readable(device),
            ranks: ranks.readable(),
            new_offsets: new_offsets.readable(),
            keys: keys.writable(),
        };
        let key = csr_transpose::Key { operation: csr_transpose::Operation::Place };
        // SAFETY: a valid matrix, with ranks in its columns and the offsets of its transpose.
        unsafe { launch(device, key.entry(), csr_transpose::grid_size(entries), args) }
    };
    let (columns, values) = (arrays.col_indices.readable(device), arrays.values.read());
    let by_radix_sort = || {
        // In the order of the old rows already.
        let (columns, rows) = (copy_of(&arrays.col_indices, device)?, row_indices(arrays)?);
        radix_sorted((arrays.ncols, 1), columns, rows.readable(), &values)
    };
    Ok(Arc::new(placed(device, size, entries, columns, &values, place, by_radix_sort)?))
}

/// The transpose of a square matrix with ascending columns, or `None` if its pattern is not symmetric.
pub(super) fn mirrored<T: Scalar>(arrays: &CsrArrays<T, u32>) -> Result<Option<CsrArrays<T, u32>>> {
    let (device, rows, entries) = (&arrays.device, arrays.nrows, arrays.nnz);
    let (mut columns, mut values) = (device.scratch(entries as usize)?, device.scratch(entries as usize)?);
    let (old_values, mut asymmetric) = (arrays.values.read(), device.zeros::<u32>(1)?);
    let args = csr_transpose::MirrorArgs {
        rows,
        entries,
        row_offsets: arrays.row_offsets.readable(device),
        col_indices: arrays.col_indices.readable(device),
        values: old_values.readable(),
        new_columns: columns.writable(),
        new_values: values.writable(),
        asymmetric: asymmetric.writable(),
    };
    let key = csr_transpose::Key { operation: csr_transpose::Operation::Mirror(T::DTYPE) };
    // SAFETY: a valid, square matrix with ascending columns, and new arrays for as many entries.
    unsafe { launch(device, key.entry(), csr_transpose::grid_size(entries), args) }?;
    if asymmetric.to_vec()? != [0] {
        return Ok(None);
    }
    let offsets = copy_of(&arrays.row_offsets, device)?;
    // SAFETY: each column index is that of the matrix, whose pattern is symmetric.
    Ok(Some(unsafe { CsrArrays::of_vectors((rows, rows, entries), offsets, columns, values, Some(true)) }))
}

/// The first triplet out of range is an error.
fn check_triplets(
    device: &Device,
    (nrows, ncols): (u32, u32),
    rows: &DeviceVec<u32>,
    cols: &DeviceVec<u32>,
) -> Result<()> {
    let entries = rows.len() as u32;
    if entries == 0 {
        return Ok(());
    }
    let mut first_bad = device.upload_vec(&[u32::MAX; 2])?;
    let args = triplets::CheckArgs {
        entries,
        rows: nrows,
        cols: ncols,
        row_indices: rows.readable(),
        col_indices: cols.readable(),
        first_bad: first_bad.writable(),
    };
    let key = triplets::Key { operation: triplets::Operation::Check };
    // SAFETY: as many row as column indices.
    unsafe { launch(device, key.entry(), triplets::entry_grid_size(entries), args) }?;
    let first_bad = first_bad.to_vec()?;
    for (what, limit, indices, k) in [("row", nrows, rows, first_bad[0]), ("column", ncols, cols, first_bad[1])] {
        if k != u32::MAX {
            let mut index = [0];
            indices.copy_range_to(k as usize, &mut index)?;
            let problem = format!("entry {k} is in {what} {} of {limit}", index[0]);
            return Err(Error::InvalidMatrix { format: "COO", problem });
        }
    }
    Ok(())
}

/// The triplets, all within range, sorted by row and column.
fn place_triplets<T: Scalar>(
    device: &Device,
    size: (u32, u32),
    rows: &DeviceVec<u32>,
    cols: &DeviceVec<u32>,
    values: &DeviceVec<T>,
) -> Result<CsrArrays<T, u32>> {
    let entries = rows.len() as u32;
    let place = |ranks: &DeviceVec<u32>, new_offsets: &DeviceVec<u32>, keys: &mut DeviceVec<u64>| {
        let args = csr_transpose::TripletArgs {
            rows: size.0,
            entries,
            row_indices: rows.readable(),
            col_indices: cols.readable(),
            ranks: ranks.readable(),
            new_offsets: new_offsets.readable(),
            keys: keys.writable(),
        };
        let key = csr_transpose::Key { operation: csr_transpose::Operation::PlaceTriplets };
        // SAFETY: indices within range, with ranks in their rows and the offsets of those.
        unsafe { launch(device, key.entry(), csr_transpose::entry_grid_size(entries), args) }
    };
    let by_radix_sort = || radix_sorted(size, copy_of(rows.buffer(), device)?, cols.readable(), values);
    placed(device, size, entries, rows.readable(), values, place, by_radix_sort)
}

/// The entries from which a radix sort is faster than counting rows.
const RADIX_SORT_FROM: u32 = 1 << 17;

/// The matrix of `size` whose entries are in rows `rows`: counted, placed by `place` with their ranks in their rows and the rows' offsets, and
/// sorted within each row; or `by_radix_sort` if there are many entries or a row is too long.
fn placed<T: Scalar>(
    device: &Device,
    size: (u32, u32),
    entries: u32,
    rows: device::Readable<'_, u32>,
    values: &DeviceVec<T>,
    place: impl Fn(&DeviceVec<u32>, &DeviceVec<u32>, &mut DeviceVec<u64>) -> Result<()>,
    by_radix_sort: impl Fn() -> Result<Sorted<T>>,
) -> Result<CsrArrays<T, u32>> {
    let (nrows, ncols) = size;
    let len = entries as usize;
    if entries == 0 {
        // SAFETY: no entries.
        return Ok(unsafe {
            let offsets = device.zeros(nrows as usize + 1)?;
            CsrArrays::of_vectors((nrows, ncols, 0), offsets, device.zeros(0)?, device.zeros(0)?, Some(true))
        });
    }
    let sorted_by_radix = || {
        let Sorted { rows, columns, values } = by_radix_sort()?;
        let offsets = offsets_of_sorted(device, (nrows, entries), rows.readable())?;
        // SAFETY: the offsets are those of the sorted rows, and the columns are within range.
        Ok(unsafe { CsrArrays::of_vectors((nrows, ncols, entries), offsets, columns, values, None) })
    };
    if entries >= RADIX_SORT_FROM {
        return sorted_by_radix();
    }
    let (mut counts, mut ranks) = (device.zeros(nrows as usize)?, device.scratch(len)?);
    let args = csr_transpose::RankArgs {
        entries,
        cols: nrows,
        col_indices: rows,
        counts: counts.writable(),
        ranks: ranks.writable(),
    };
    let key = csr_transpose::Key { operation: csr_transpose::Operation::Rank };
    // SAFETY: every entry is in one of the rows.
    unsafe { launch(device, key.entry(), csr_transpose::entry_grid_size(entries), args) }?;
    let (offsets, _) = offsets_of(&counts, size)?;
    let mut keys = device.scratch(len)?;
    place(&ranks, &offsets, &mut keys)?;
    drop((counts, ranks));
    let unsorted = UnsortedRows {
        device,
        rows: nrows,
        entries,
        offsets: offsets.readable(),
        columns: Columns::WithPlaces(keys.readable()),
        values: Some(values),
    };
    let Some((columns, values)) = unsorted.sorted()? else { return sorted_by_radix() };
    // SAFETY: the offsets count the rows' entries, whose columns are within range.
    Ok(unsafe { CsrArrays::of_vectors((nrows, ncols, entries), offsets, columns, values, None) })
}

/// The row of each entry.
fn row_indices<T: Scalar>(arrays: &CsrArrays<T, u32>) -> Result<DeviceVec<u32>> {
    let (device, entries) = (&arrays.device, arrays.nnz);
    let mut rows = device.scratch(entries as usize)?;
    if entries > 0 {
        let args = triplets::RowsArgs {
            rows: arrays.nrows,
            entries,
            row_offsets: arrays.row_offsets.readable(device),
            row_indices: rows.writable(),
        };
        let key = triplets::Key { operation: triplets::Operation::Rows };
        // SAFETY: a valid matrix.
        unsafe { launch(device, key.entry(), triplets::rows_grid_size(entries), args) }?;
    }
    Ok(rows)
}

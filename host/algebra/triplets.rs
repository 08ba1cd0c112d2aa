//! Matrices from triplets, and triplets of matrices.

use std::sync::Arc;

use kernels_gpu::{csr_transpose, triplets};

use crate::{
    CooView, CsrMatrix, Device, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    conversion::{Operand, copy_of, placed, row_indices},
    device::{self, check_length, launch},
    formats::coo::check_limits,
    primitives::radix_sorted,
    stored::CsrArrays,
};

impl<T: Scalar> DeviceMatrix<T> {
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

//! The transpose, canonical matrices, and matrices of triplets: entries placed in rows, and rows sorted.

use std::sync::Arc;

use kernels_gpu::{csr_transpose, triplets};

use super::{Operand, Selection, copy_of, offsets_of, select, to_csr::offsets_of_sorted};
use crate::{
    Device, DeviceVec, Result, Scalar,
    device::{Readable, launch},
    primitives::{Columns, Sorted, UnsortedRows, radix_sorted},
    stored::CsrArrays,
};

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

pub(crate) fn transposed<T: Scalar>(arrays: &Arc<CsrArrays<T, u32>>) -> Result<Arc<CsrArrays<T, u32>>> {
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
pub(crate) fn mirrored<T: Scalar>(arrays: &CsrArrays<T, u32>) -> Result<Option<CsrArrays<T, u32>>> {
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

/// The entries from which a radix sort is faster than counting rows.
const RADIX_SORT_FROM: u32 = 1 << 17;

/// The matrix of `size` whose entries are in rows `rows`: counted, placed by `place` with their ranks in their rows and the rows' offsets, and
/// sorted within each row; or `by_radix_sort` if there are many entries or a row is too long.
pub(crate) fn placed<T: Scalar>(
    device: &Device,
    size: (u32, u32),
    entries: u32,
    rows: Readable<'_, u32>,
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
pub(crate) fn row_indices<T: Scalar>(arrays: &CsrArrays<T, u32>) -> Result<DeviceVec<u32>> {
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

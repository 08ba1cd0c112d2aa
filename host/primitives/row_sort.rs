//! Sorts of the entries of each row by column, equal columns in the order that they had.

use kernels_gpu::{csr_sort_rows, triplets};

use super::sort::{bits_below, sort_pairs};
use crate::{
    Device, DeviceVec, Result, Scalar,
    device::{Readable, launch},
};

/// Entries in rows, to be sorted.
#[derive(Clone, Copy)]
pub(crate) struct UnsortedRows<'a, T> {
    pub(crate) device: &'a Device,
    pub(crate) rows: u32,
    pub(crate) entries: u32,
    /// `rows + 1`, from 0 to `entries`, never falling.
    pub(crate) offsets: Readable<'a, u32>,
    pub(crate) columns: Columns<'a>,
    pub(crate) values: Option<&'a DeviceVec<T>>,
}

/// The columns of entries.
#[derive(Clone, Copy)]
pub(crate) enum Columns<'a> {
    /// Each entry has the value at its own place.
    Own(Readable<'a, u32>),
    /// `column << 32 | k`, where `k` is the place of the entry's value.
    WithPlaces(Readable<'a, u64>),
}

impl<T: Scalar> UnsortedRows<'_, T> {
    /// The columns and values of all rows, sorted in shared memory by few lanes a row where rows are short, and by more where a row was too long for those.
    /// `None` if one is too long for any. Without values, the second vector is empty.
    pub(crate) fn sorted(self) -> Result<Option<(DeviceVec<u32>, DeviceVec<T>)>> {
        let [few, most] = csr_sort_rows::LANES;
        if lanes(self.entries, self.rows) == few
            && let Some(sorted) = self.sorted_by(few)?
        {
            return Ok(Some(sorted));
        }
        self.sorted_by(most)
    }

    fn sorted_by(self, lanes: u32) -> Result<Option<(DeviceVec<u32>, DeviceVec<T>)>> {
        let device = self.device;
        let mut columns = device.scratch(self.entries as usize)?;
        let mut values = device.scratch(self.values.map_or(0, DeviceVec::len))?;
        let mut too_long = device.zeros(1)?;
        let (col_indices, keys) = match self.columns {
            Columns::Own(columns) => (columns, Readable::default()),
            Columns::WithPlaces(keys) => (Readable::default(), keys),
        };
        let args = csr_sort_rows::Args {
            rows: self.rows,
            entries: self.entries,
            row_offsets: self.offsets,
            keys,
            col_indices,
            values: self.values.map(DeviceVec::readable).unwrap_or_default(),
            new_columns: columns.writable(),
            new_values: if self.values.is_some() { values.writable() } else { Default::default() },
            too_long: too_long.writable(),
        };
        let entry = csr_sort_rows::Key { lanes, dtype: T::DTYPE }.entry();
        // SAFETY: offsets in order, and new arrays for as many entries; the entry is for `T`.
        unsafe { launch(device, entry, csr_sort_rows::grid_size(self.rows, lanes), args) }?;
        Ok((too_long.to_vec()? == [0]).then_some((columns, values)))
    }
}

/// Rows, columns and values of entries, as [`radix_sorted`] gives them.
pub(crate) struct Sorted<T> {
    pub(crate) rows: DeviceVec<u32>,
    pub(crate) columns: DeviceVec<u32>,
    pub(crate) values: DeviceVec<T>,
}

/// Entries sorted by row and column, those of the same in the order that they had: by a radix sort of all entries. Of a matrix with
/// one column the columns stay in the order that they have.
pub(crate) fn radix_sorted<T: Scalar>(
    (nrows, ncols): (u32, u32),
    rows: DeviceVec<u32>,
    columns: Readable<'_, u32>,
    values: &DeviceVec<T>,
) -> Result<Sorted<T>> {
    let (device, entries) = (rows.device().clone(), rows.len() as u32);
    let blocks = triplets::entry_grid_size(entries);
    let mut keys = device.scratch::<u64>(rows.len())?;
    let args = triplets::PackArgs { entries, col_indices: columns, keys: keys.writable() };
    // SAFETY: as many keys as entries.
    unsafe { launch(&device, triplets::Key { operation: triplets::Operation::Pack }.entry(), blocks, args) }?;
    let (keys, rows) = sort_pairs(keys, rows, 32..32 + bits_below(ncols))?;
    let (rows, keys) = sort_pairs(rows, keys, 0..bits_below(nrows))?;
    let (mut new_columns, mut new_values) = (device.scratch(keys.len())?, device.scratch(keys.len())?);
    let args = triplets::UnpackArgs {
        entries,
        keys: keys.readable(),
        values: values.readable(),
        col_indices: new_columns.writable(),
        new_values: new_values.writable(),
    };
    let key = triplets::Key { operation: triplets::Operation::Unpack(T::DTYPE) };
    // SAFETY: the keys' lower halves are numbers of values; the entry is for `T`.
    unsafe { launch(&device, key.entry(), blocks, args) }?;
    Ok(Sorted { rows, columns: new_columns, values: new_values })
}

/// The lanes of a group for rows of so many entries in the mean. Not measured yet.
pub(crate) fn lanes(entries: u32, rows: u32) -> u32 {
    if u64::from(entries) > 12 * u64::from(rows) { 32 } else { 8 }
}

//! Some of the entries of a matrix, in new rows and columns.

use std::ops::{Range, RangeInclusive};

use kernels_gpu::csr_select::{self, CopyArgs, CountArgs, Key, Operation, Rule, grid_size};

use super::offsets_of;
use crate::{
    CsrMatrix, DeviceVec, Result, Scalar,
    device::{KernelLaunch, launch},
    formats::rows::from_rows,
    primitives::lanes,
    stored::CsrArrays,
};

/// Which entries are kept, and where they go.
pub(crate) struct Selection<'a, T> {
    pub(crate) rows: Rows<'a>,
    /// The first becomes the first column, unless there is a map.
    pub(crate) cols: Range<u32>,
    /// The new column of each old one.
    pub(crate) col_map: Option<&'a DeviceVec<u32>>,
    /// Column minus row.
    pub(crate) diagonals: RangeInclusive<i64>,
    /// Entries of no greater absolute value are dropped.
    pub(crate) threshold: Option<T>,
    /// Whether neighbours in one column become their sum. Not on the CPU.
    pub(crate) sums: bool,
    /// Whether it is known that the columns of the result ascend, or do not.
    pub(crate) canonical: Option<bool>,
}

/// The old row of each new one.
pub(crate) enum Rows<'a> {
    Range(Range<u32>),
    Map(&'a DeviceVec<u32>),
}

impl<T> Selection<'_, T> {
    /// Everything.
    pub(crate) fn all(nrows: u32, ncols: u32) -> Self {
        let (rows, diagonals) = (Rows::Range(0..nrows), i64::MIN..=i64::MAX);
        Self { rows, cols: 0..ncols, col_map: None, diagonals, threshold: None, sums: false, canonical: None }
    }

    fn new_rows(&self) -> u32 {
        match &self.rows {
            Rows::Range(range) => range.end - range.start,
            Rows::Map(map) => map.len() as u32,
        }
    }
}

pub(crate) fn select_on_cpu<T: Scalar>(matrix: &CsrMatrix<T>, selection: &Selection<'_, T>) -> Result<CsrMatrix<T>> {
    let zero = T::default();
    let old_row = |row: usize| match &selection.rows {
        Rows::Range(range) => range.start as usize + row,
        Rows::Map(map) => map.as_slice().on_cpu()[row] as usize,
    };
    let col_map = selection.col_map.map(|map| map.as_slice().on_cpu());
    let kept = |row: usize| {
        let row = old_row(row);
        let (columns, values) = matrix.row(row);
        columns.iter().copied().zip(values.iter().copied()).filter(move |&(column, value)| {
            let is_small =
                |threshold| value >= zero && value <= threshold || value < zero && zero_minus(value) <= threshold;
            selection.cols.contains(&column)
                && selection.diagonals.contains(&(i64::from(column) - row as i64))
                && !selection.threshold.is_some_and(is_small)
        })
    };
    let new_column = |column: u32| col_map.map_or(column - selection.cols.start, |map| map[column as usize]);
    let fill = |row: usize, columns: &mut [u32], values: &mut [T]| {
        for ((column, value), (old_column, old_value)) in columns.iter_mut().zip(values).zip(kept(row)) {
            (*column, *value) = (new_column(old_column), old_value);
        }
    };
    let ncols = selection.cols.len();
    from_rows(selection.new_rows() as usize, ncols, |row| kept(row).count(), fill)
}

/// `-value`.
fn zero_minus<T: Scalar>(value: T) -> T {
    T::from_f64(-value.to_f64())
}

/// The selection, on a GPU or in the emulator.
pub(crate) fn select<T: Scalar>(arrays: &CsrArrays<T, u32>, selection: &Selection<'_, T>) -> Result<CsrArrays<T, u32>> {
    let (device, new_rows) = (&arrays.device, selection.new_rows());
    let size = (new_rows, selection.cols.len() as u32);
    let lanes = lanes(arrays.nnz, arrays.nrows);
    let old_values = arrays.values.read();
    let mut counts = device.scratch(new_rows as usize)?;
    if new_rows > 0 {
        let args = CountArgs {
            rule: rule(selection),
            rows: arrays.nrows,
            entries: arrays.nnz,
            row_offsets: arrays.row_offsets.readable(device),
            col_indices: arrays.col_indices.readable(device),
            values: old_values.readable(),
            counts: counts.writable(),
        };
        let key = Key { operation: Operation::Count, lanes, dtype: T::DTYPE };
        // SAFETY: a valid matrix, of which there are these rows, and a count for each new row; the entry is for `T`.
        unsafe { launch(device, key.entry(), grid_size(new_rows, lanes), args) }?;
    }
    let (offsets, entries) = offsets_of(&counts, size)?;
    let (mut columns, mut values) = (device.scratch(entries as usize)?, device.scratch(entries as usize)?);
    if entries > 0 {
        let args = CopyArgs {
            rule: rule(selection),
            rows: arrays.nrows,
            cols: arrays.ncols,
            entries: arrays.nnz,
            new_entries: entries,
            row_offsets: arrays.row_offsets.readable(device),
            col_indices: arrays.col_indices.readable(device),
            values: old_values.readable(),
            col_map: selection.col_map.map(DeviceVec::readable).unwrap_or_default(),
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
        };
        let key = Key { operation: Operation::Copy, lanes, dtype: T::DTYPE };
        // SAFETY: as above, with the offsets of the new rows.
        unsafe { launch(device, key.entry(), grid_size(new_rows, lanes), args) }?;
    }
    // SAFETY: the offsets count what is kept, and new columns are within the range, or in the map.
    Ok(unsafe { CsrArrays::of_vectors((size.0, size.1, entries), offsets, columns, values, selection.canonical) })
}

fn rule<'a, T: Scalar>(selection: &Selection<'a, T>) -> csr_select::Rule<T, KernelLaunch<'a>> {
    Rule {
        new_rows: selection.new_rows(),
        first_row: if let Rows::Range(range) = &selection.rows { range.start } else { 0 },
        first_col: selection.cols.start,
        end_col: selection.cols.end,
        lowest: *selection.diagonals.start() as u64,
        highest: *selection.diagonals.end() as u64,
        threshold: selection.threshold.unwrap_or(T::from_f64(-1.0)),
        sums: selection.sums.into(),
        row_map: match selection.rows {
            Rows::Range(_) => Default::default(),
            Rows::Map(map) => map.readable(),
        },
    }
}

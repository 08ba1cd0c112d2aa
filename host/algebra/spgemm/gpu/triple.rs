//! Products of three sparse matrices without the product of two.

use kernels_gpu::{
    spgemm_common::{COUNTERS, SHORT_LIMITS, counter},
    spgemm_triple::{self, Factors, Key, Step},
};

use super::{super::too_large, Pattern, Tasks, patterns, row_offsets};
use crate::{
    DeviceMatrix, Result, Scalar,
    device::{KernelLaunch, launch},
    stored::CsrArrays,
};

/// `R A P`, if every row has few products; otherwise nothing has been computed.
pub(in super::super) fn multiply<T: Scalar>(
    r: &CsrArrays<T, u32>,
    a: &CsrArrays<T, u32>,
    p: &CsrArrays<T, u32>,
) -> Result<Option<DeviceMatrix<T>>> {
    let per_row = |matrix: &CsrArrays<T, u32>| f64::from(matrix.nnz) / f64::from(matrix.nrows.max(1));
    let products = per_row(r) * per_row(a) * per_row(p);
    if r.nrows == 0 || products > f64::from(SHORT_LIMITS[SHORT_LIMITS.len() - 1]) {
        return Ok(None);
    }
    let device = &r.device;
    let mut counters = device.zeros::<u64>(COUNTERS as usize)?;
    let mut rows = device.scratch::<u32>(4 * r.nrows as usize)?;
    let args =
        spgemm_triple::ClassifyArgs { factors: factors(r, a, p), rows: rows.writable(), counters: counters.writable() };
    let blocks = spgemm_triple::classify_grid_size(r.nrows);
    // SAFETY: valid matrices, the columns of P ascend, as the caller has checked; counters of 0.
    unsafe { launch(device, Key { step: Step::Classify }.entry(), blocks, args) }?;
    let found = counters.to_vec()?;
    if found[counter::LONG_ROWS as usize] > 0 {
        return Ok(None);
    }
    let tasks = Tasks::place(device, &rows, &mut counters, &found)?;
    drop(rows);
    let blocks = spgemm_triple::grid_size(tasks.short()) as u32;
    let mut lengths = device.zeros::<u32>(r.nrows as usize)?;
    if blocks > 0 {
        let (factors, tasks) = (factors(r, a, p), tasks.sorted());
        let args = spgemm_triple::CountArgs { factors, tasks, lengths: lengths.writable() };
        // SAFETY: the tasks of these matrices, and a length for each row.
        unsafe { launch(device, Key { step: Step::Count }.entry(), blocks, args) }?;
    }
    let (offsets, entries) = row_offsets(&lengths)?;
    drop(lengths);
    let names = |error| too_large(error, found[counter::PRODUCTS as usize], entries, size_of::<T>());
    let mut columns = device.scratch::<u32>(entries as usize).map_err(names)?;
    let mut values = device.scratch::<T>(entries as usize).map_err(names)?;
    if blocks > 0 {
        let (values_r, values_a, values_p) = (r.values.read(), a.values.read(), p.values.read());
        let args = spgemm_triple::FillArgs {
            factors: factors(r, a, p),
            tasks: tasks.sorted(),
            values_r: values_r.readable(),
            values_a: values_a.readable(),
            values_p: values_p.readable(),
            rows: offsets.readable(),
            columns: columns.writable(),
            values: values.writable(),
        };
        // SAFETY: the tasks of these matrices, and the rows' places in C; the entry is for `T`.
        unsafe { launch(device, Key { step: Step::Fill(T::DTYPE) }.entry(), blocks, args) }?;
    }
    let size = (r.nrows, p.ncols);
    let pattern = Pattern { device: device.clone(), size, entries, offsets, columns, short: None, long: None };
    Ok(Some(pattern.shared().matrix(values)))
}

fn factors<'a, T: Scalar>(
    r: &'a CsrArrays<T, u32>,
    a: &'a CsrArrays<T, u32>,
    p: &'a CsrArrays<T, u32>,
) -> Factors<KernelLaunch<'a>> {
    Factors { left: patterns(r, a), right: patterns(a, p) }
}

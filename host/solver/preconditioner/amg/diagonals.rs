//! A symmetric matrix of few diagonals, of which the main one and those above it are stored: sweeps move fewer bytes than over CSR.

use std::{collections::BTreeSet, ops::Range};

use kernels_gpu::amg_diagonals::{self, FillArgs, Key, Operation, SweepArgs, grid_size};

use super::{strength::csr, sweep::Factors};
use crate::{
    DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar,
    device::{KernelLaunch, Readable, Writable, launch},
    formats::padded::leading_dimension,
    stored::{Csr, CsrArrays},
};

/// Rows in which diagonals are looked for, at the start and in the middle.
const WINDOW: u32 = 2048;

/// Entries of such a row, at most, in the mean.
const MAX_ROW: u32 = 64;

/// The bytes of the diagonals are at most so many times those of the entries in CSR. 7-point stencils have 0.38 in `f64`.
const MOST: f64 = 0.6;

/// The diagonals of a matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(super) struct Diagonals<T> {
    rows: u32,
    /// Column minus row, from 0 on.
    offsets: DeviceVec<u32>,
    values: DeviceVec<T>,
}

/// What a sweep computes.
pub(super) struct Sweep<'a, T> {
    pub(super) factors: Factors,
    /// The inverse of the diagonal, for a step.
    pub(super) inverse: Option<DeviceSlice<'a, T>>,
    /// The right-hand side, but for a product.
    pub(super) b: Option<DeviceSlice<'a, T>>,
    pub(super) x: DeviceSlice<'a, T>,
    pub(super) older: Option<DeviceSlice<'a, T>>,
}

impl<T: Scalar> Diagonals<T> {
    /// Of a canonical square matrix, if it has few diagonals, mostly full, and equals its transpose. Waits for the answer.
    pub(super) fn of(a: &DeviceMatrix<T>) -> Result<Option<Self>> {
        let Csr::Device(arrays) = csr(a) else { return Ok(None) };
        let Some(offsets) = offsets(arrays)? else { return Ok(None) };
        let (device, rows) = (&arrays.device, arrays.nrows);
        let slots = offsets.len() * leading_dimension(rows as usize);
        let mut own = Self { rows, offsets: device.upload_vec(&offsets)?, values: device.scratch(slots)? };
        let (values, mut differs) = (arrays.values.read(), device.zeros(1)?);
        for operation in [Operation::Fill, Operation::Check] {
            let (matrix, new_values) = match operation {
                Operation::Fill => own.written(),
                _ => (own.readable(), Writable::default()),
            };
            let args = FillArgs {
                entries: arrays.nnz,
                row_offsets: arrays.row_offsets.readable(device),
                col_indices: arrays.col_indices.readable(device),
                csr_values: values.readable(),
                new_values,
                differs: differs.writable(),
                matrix,
            };
            let entry = Key { operation, dtype: T::DTYPE }.entry();
            // SAFETY: a canonical square matrix with rows, ascending offsets from 0 on that are below their number, and slots for each; the entry is for `T`.
            unsafe { launch(device, entry, grid_size(rows), args) }?;
        }
        Ok((differs.to_vec()? == [0]).then_some(own))
    }

    /// How many are stored.
    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.values.len() * size_of::<T>()
    }

    /// `y = A x`.
    pub(super) fn product(&self, x: DeviceSlice<'_, T>, y: DeviceSliceMut<'_, T>) -> Result<()> {
        self.sweep(Sweep { factors: Factors::NONE, inverse: None, b: None, x, older: None }, y)
    }

    /// `y = b - A x`.
    pub(super) fn residual(
        &self,
        b: DeviceSlice<'_, T>,
        x: DeviceSlice<'_, T>,
        y: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        self.sweep(Sweep { factors: Factors::NONE, inverse: None, b: Some(b), x, older: None }, y)
    }

    /// `y = A x`, `y = b - A x`, or a step from `x`.
    pub(super) fn sweep(&self, sweep: Sweep<'_, T>, y: DeviceSliceMut<'_, T>) -> Result<()> {
        let Sweep { factors, inverse, b, x, older } = sweep;
        let (queue, y) = y.into_writable();
        let args = SweepArgs {
            alpha: T::from_f64(factors.alpha),
            beta: T::from_f64(factors.beta),
            inverse: inverse.map(DeviceSlice::readable).unwrap_or_default(),
            b: b.map(DeviceSlice::readable).unwrap_or_default(),
            x: x.readable(),
            older: older.map(DeviceSlice::readable).unwrap_or_default(),
            y,
            matrix: self.readable(),
        };
        let entry = Key { operation: Operation::Sweep, dtype: T::DTYPE }.entry();
        // SAFETY: valid diagonals, and vectors of the matrix's size, of which `y` is borrowed mutably; the entry is for `T`.
        unsafe { launch(queue, entry, grid_size(self.rows), args) }
    }

    fn readable(&self) -> amg_diagonals::Diagonals<T, KernelLaunch<'_>> {
        let Self { rows, offsets, values } = self;
        amg_diagonals::Diagonals { values: values.readable(), ..without_values(*rows, offsets) }
    }

    /// For the kernel that writes the values.
    fn written(&mut self) -> (amg_diagonals::Diagonals<T, KernelLaunch<'_>>, Writable<'_, T>) {
        let Self { rows, offsets, values } = self;
        (without_values(*rows, offsets), values.writable())
    }
}

fn without_values<T: Scalar>(rows: u32, offsets: &DeviceVec<u32>) -> amg_diagonals::Diagonals<T, KernelLaunch<'_>> {
    amg_diagonals::Diagonals {
        rows,
        diagonals: offsets.len() as u32,
        leading_dimension: leading_dimension(rows as usize) as u64,
        offsets: offsets.readable(),
        values: Readable::default(),
    }
}

/// The offsets of the diagonals that entries of some rows are on, from 0 on, unless they are too many to pay.
fn offsets<T: Scalar>(arrays: &CsrArrays<T, u32>) -> Result<Option<Vec<u32>>> {
    let (rows, bytes) = (arrays.nrows, f64::from(arrays.nnz) * (4 + size_of::<T>()) as f64);
    let most = MOST * bytes / (leading_dimension(rows as usize) * size_of::<T>()) as f64;
    let mut found = BTreeSet::from([0]);
    for first in [0, rows / 2] {
        let window = first..rows.min(first + WINDOW);
        if rows == 0 || !add_offsets(arrays, window, &mut found)? || found.len() as f64 > most {
            return Ok(None);
        }
    }
    Ok(Some(found.into_iter().collect()))
}

/// Adds those of the rows of a window; or finds that these rows are too long.
fn add_offsets<T: Scalar>(arrays: &CsrArrays<T, u32>, window: Range<u32>, found: &mut BTreeSet<u32>) -> Result<bool> {
    let mut row_offsets = vec![0; window.len() + 1];
    arrays.row_offsets.download(&arrays.device, window.start as usize, &mut row_offsets)?;
    let (first, end) = (row_offsets[0], row_offsets[window.len()]);
    if end - first > MAX_ROW * WINDOW {
        return Ok(false);
    }
    let mut columns = vec![0; (end - first) as usize];
    arrays.col_indices.download(&arrays.device, first as usize, &mut columns)?;
    for (row, ends) in window.zip(row_offsets.windows(2)) {
        found.extend(columns[(ends[0] - first) as usize..(ends[1] - first) as usize].iter().map(|&j| j.abs_diff(row)));
    }
    Ok(true)
}

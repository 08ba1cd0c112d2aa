//! A symmetric matrix of few diagonals, of which the main one and those above it are stored: sweeps move fewer bytes than over CSR.

use std::{collections::BTreeSet, ops::Range};

use kernels_gpu::amg_diagonals::{
    self, BLOCK_SIZE, FillArgs, Key, MARCHED, Operation, SweepArgs, grid_size, march_grid_size,
};

use super::{strength::csr, sweep::Factors};
use crate::{
    DType, Device, DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, LinearOperator, Result, Scalar,
    device::{KernelLaunch, Readable, Writable, launch},
    formats::padded::leading_dimension,
    stored::{Csr, CsrArrays},
};

/// Rows in which diagonals are looked for, at the start and in the middle.
const WINDOW: u32 = 2048;

/// Entries of such a row, at most, in the mean.
const MAX_ROW: u32 = 64;

/// The bytes of the diagonals are at most so many times those of the entries in CSR. 7-point stencils have 0.38 in `f64`.
const MAX_SHARE: f64 = 0.6;

/// The diagonals of a matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(super) struct Diagonals<T> {
    rows: u32,
    /// Column minus row, from 0 on.
    offsets: DeviceVec<u32>,
    values: Values<T>,
    /// How far apart the rows of a thread are, if it has several.
    distance: Option<u32>,
}

/// Numbers of a matrix of `T`.
#[derive(Debug)]
enum Values<T> {
    /// They are all numbers of `f32`.
    Short(DeviceVec<f32>),
    Own(DeviceVec<T>),
}

/// A canonical matrix, and its diagonals where they pay.
#[derive(Debug)]
pub(in super::super) struct Operator<T> {
    pub(in super::super) a: DeviceMatrix<T>,
    /// In place of the matrix in products and sweeps.
    pub(super) diagonals: Option<Diagonals<T>>,
}

impl<T: Scalar> Operator<T> {
    pub(in super::super) fn of(a: DeviceMatrix<T>) -> Result<Self> {
        let diagonals = Diagonals::of(&a)?;
        Ok(Self { a, diagonals })
    }
}

impl<T: Scalar> LinearOperator<T> for Operator<T> {
    fn nrows(&self) -> usize {
        self.a.nrows()
    }

    fn ncols(&self) -> usize {
        self.a.ncols()
    }

    fn device(&self) -> &Device {
        self.a.device()
    }

    fn apply(&self, x: DeviceSlice<'_, T>, y: DeviceSliceMut<'_, T>) -> Result<()> {
        match &self.diagonals {
            Some(diagonals) => diagonals.product(x, y),
            None => self.a.apply(x, y),
        }
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    /// None by its diagonals.
    fn as_matrix(&self) -> Option<&DeviceMatrix<T>> {
        self.diagonals.is_none().then_some(&self.a)
    }
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
    fn of(a: &DeviceMatrix<T>) -> Result<Option<Self>> {
        let Csr::Device(arrays) = csr(a) else { return Ok(None) };
        let Some(offsets) = offsets(arrays)? else { return Ok(None) };
        let distance = marched(arrays.nrows, &offsets);
        let (rows, offsets) = (arrays.nrows, arrays.device.upload_vec(&offsets)?);
        let values = match filled::<T, f32>(arrays, &offsets)? {
            Filled::Exactly(values) => Values::Short(values),
            Filled::Rounded => match filled::<T, T>(arrays, &offsets)? {
                Filled::Exactly(values) => Values::Own(values),
                _ => return Ok(None),
            },
            Filled::Differs => return Ok(None),
        };
        Ok(Some(Self { rows, offsets, values, distance }))
    }

    /// How many are stored.
    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The type that they are stored in.
    pub(super) fn dtype(&self) -> DType {
        match &self.values {
            Values::Short(_) => DType::F32,
            Values::Own(_) => T::DTYPE,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.values {
            Values::Short(values) => values.len() * size_of::<f32>(),
            Values::Own(values) => values.len() * size_of::<T>(),
        }
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
        match &self.values {
            Values::Short(values) => sweep_over((self.rows, &self.offsets, values), self.distance, sweep, y),
            Values::Own(values) => sweep_over((self.rows, &self.offsets, values), self.distance, sweep, y),
        }
    }
}

fn sweep_over<T: Scalar, V: Scalar>(
    (rows, offsets, values): (u32, &DeviceVec<u32>, &DeviceVec<V>),
    distance: Option<u32>,
    Sweep { factors, inverse, b, x, older }: Sweep<'_, T>,
    y: DeviceSliceMut<'_, T>,
) -> Result<()> {
    let (queue, y) = y.into_writable();
    let (operation, blocks) = match distance {
        None => (Operation::Sweep, grid_size(rows)),
        Some(distance) => (Operation::March, march_grid_size(rows, distance)),
    };
    let args = SweepArgs {
        alpha: T::from_f64(factors.alpha),
        beta: T::from_f64(factors.beta),
        distance: distance.unwrap_or_default(),
        inverse: inverse.map(DeviceSlice::readable).unwrap_or_default(),
        b: b.map(DeviceSlice::readable).unwrap_or_default(),
        x: x.readable(),
        older: older.map(DeviceSlice::readable).unwrap_or_default(),
        y,
        matrix: arguments(rows, offsets, values.readable()),
    };
    let entry = Key { operation, dtype: T::DTYPE, stored: V::DTYPE }.entry();
    // SAFETY: valid diagonals, and vectors of the matrix's size, of which `y` is borrowed mutably; the entry is for `T` and `V`; a march is by the last offset of few.
    unsafe { launch(queue, entry, blocks, args) }
}

fn arguments<'a, V: Scalar>(
    rows: u32,
    offsets: &'a DeviceVec<u32>,
    values: Readable<'a, V>,
) -> amg_diagonals::Diagonals<V, KernelLaunch<'a>> {
    let (diagonals, leading_dimension) = (offsets.len() as u32, leading_dimension(rows as usize) as u64);
    amg_diagonals::Diagonals { rows, diagonals, leading_dimension, offsets: offsets.readable(), values }
}

/// The values of the diagonals with these offsets.
enum Filled<V> {
    Exactly(DeviceVec<V>),
    /// Some are not numbers of `V`.
    Rounded,
    /// Some entries are on other diagonals, or are not those of the transpose.
    Differs,
}

fn filled<T: Scalar, V: Scalar>(arrays: &CsrArrays<T, u32>, offsets: &DeviceVec<u32>) -> Result<Filled<V>> {
    let (device, rows) = (&arrays.device, arrays.nrows);
    let mut values = device.scratch::<V>(offsets.len() * leading_dimension(rows as usize))?;
    let (csr_values, mut differs) = (arrays.values.read(), device.zeros(2)?);
    for operation in [Operation::Fill, Operation::Check] {
        let (read, written) = match operation {
            Operation::Fill => (Readable::default(), values.writable()),
            _ => (values.readable(), Writable::default()),
        };
        let args = FillArgs {
            entries: arrays.nnz,
            row_offsets: arrays.row_offsets.readable(device),
            col_indices: arrays.col_indices.readable(device),
            csr_values: csr_values.readable(),
            new_values: written,
            differs: differs.writable(),
            matrix: arguments(rows, offsets, read),
        };
        let entry = Key { operation, dtype: T::DTYPE, stored: V::DTYPE }.entry();
        // SAFETY: a canonical square matrix with rows, ascending offsets from 0 on that are below their number, and slots for each; the entry is for `T` and `V`.
        unsafe { launch(device, entry, grid_size(rows), args) }?;
    }
    Ok(match differs.to_vec()?[..] {
        [0, 0] => Filled::Exactly(values),
        [0, _] => Filled::Rounded,
        _ => Filled::Differs,
    })
}

/// The last of these offsets, if threads are to march by it: far enough for each thread of a block to have a row, and not beyond 32 bits from the last row.
fn marched(rows: u32, offsets: &[u32]) -> Option<u32> {
    let is_short = i32::try_from(rows).is_ok();
    offsets
        .last()
        .copied()
        .filter(|&last| (2..=MARCHED as usize).contains(&offsets.len()) && last >= BLOCK_SIZE && is_short)
}

/// The offsets of the diagonals that entries of some rows are on, from 0 on, unless they are too many to pay.
fn offsets<T: Scalar>(arrays: &CsrArrays<T, u32>) -> Result<Option<Vec<u32>>> {
    let (rows, bytes) = (arrays.nrows, f64::from(arrays.nnz) * (4 + size_of::<T>()) as f64);
    let most = MAX_SHARE * bytes / (leading_dimension(rows as usize) * size_of::<T>()) as f64;
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

//! Sweeps of the smoother.

use kernels_gpu::amg_sweep::{Args, FirstArgs, Key, Operation, grid_size};

use super::{
    diagonals::{Operator, Sweep},
    strength::csr,
};
use crate::{
    DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar, Zip,
    device::{Backend, launch},
    parallel::for_blocks,
    stored::Csr,
};

/// Rows are too different for one group of lanes a row if one is longer than this, and than so many times the mean.
const LONG_ROW: usize = 1024;

/// The factors of a step: `x + alpha D (b - A x) + beta (x - older)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factors {
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
}

impl Factors {
    /// Where there is no step.
    pub(super) const NONE: Self = Self { alpha: 0.0, beta: 0.0 };
}

/// The factors of Chebyshev's iteration of this degree for eigenvalues in `[low, high]` (Saad, 2003, algorithm 12.1).
pub(in super::super) fn chebyshev(degree: u32, low: f64, high: f64) -> Vec<Factors> {
    let (centre, radius) = (0.5 * (high + low), 0.5 * (high - low));
    let sigma = centre / radius;
    let mut rho = 1.0 / sigma;
    let mut factors = vec![Factors { alpha: 1.0 / centre, beta: 0.0 }];
    for _ in 1..degree {
        let next = 1.0 / (2.0 * sigma - rho);
        factors.push(Factors { alpha: 2.0 * next / radius, beta: next * rho });
        rho = next;
    }
    factors
}

/// A matrix as the smoother sees it.
#[derive(Debug)]
pub(in super::super) struct Smoothed<T> {
    pub(in super::super) operator: Operator<T>,
    /// The inverse of the diagonal; 0 for rows of zeros.
    pub(super) inverse: DeviceVec<T>,
    /// Of the kernel that goes over the matrix; none if its rows are too different, and a product and operations on vectors take its place.
    pub(super) lanes: Option<u32>,
    pub(in super::super) factors: Vec<Factors>,
}

impl<T: Scalar> Smoothed<T> {
    pub(in super::super) fn new(operator: Operator<T>, inverse: DeviceVec<T>, factors: Vec<Factors>) -> Self {
        // With diagonals the matrix need not be analysed.
        let lanes = if operator.diagonals.is_none() { lanes(&operator.a) } else { None };
        Self { operator, inverse, lanes, factors }
    }

    /// `y = alpha D b`, the first step from 0.
    pub(super) fn first(&self, b: DeviceSlice<'_, T>, mut y: DeviceSliceMut<'_, T>) -> Result<()> {
        let alpha = T::from_f64(self.factors[0].alpha);
        if let Backend::Cpu { .. } = y.device().backend() {
            let (inverse, b) = (self.inverse.as_slice().on_cpu(), b.on_cpu());
            for_blocks(0..b.len(), y.as_slice_mut().on_cpu_mut(), &|rows, y: &mut [T]| {
                y.iter_mut().zip(rows).for_each(|(y, row)| *y = alpha * (inverse[row] * b[row]));
            });
            return Ok(());
        }
        let (rows, (queue, y)) = (b.len() as u32, y.into_writable());
        let args = FirstArgs { rows, alpha, inverse: self.inverse.readable(), b: b.readable(), y };
        let entry = Key { operation: Operation::First, dtype: T::DTYPE }.entry();
        // SAFETY: vectors of the matrix's size; the entry is for `T`.
        unsafe { launch(queue, entry, grid_size(rows, 1), args) }
    }

    /// `y = b - A x`.
    pub(super) fn residual(
        &self,
        b: DeviceSlice<'_, T>,
        x: DeviceSlice<'_, T>,
        mut y: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        if let Some(diagonals) = &self.operator.diagonals {
            return diagonals.residual(b, x, y);
        }
        if let Some(lanes) = self.lanes {
            return self.sweep(lanes, Factors::NONE, None, b, x, None, y);
        }
        y.assign(b)?;
        self.operator.a.spmv(T::from_f64(-1.0), x, T::from_f64(1.0), y)
    }

    /// `y = x + alpha D (b - A x) + beta (x - older)`; no `older` is 0.
    pub(super) fn step(
        &self,
        factors: Factors,
        b: DeviceSlice<'_, T>,
        x: DeviceSlice<'_, T>,
        older: Option<DeviceSlice<'_, T>>,
        mut y: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        let inverse = Some(self.inverse.as_slice());
        if let Some(diagonals) = &self.operator.diagonals {
            return diagonals.sweep(Sweep { factors, inverse, b: Some(b), x, older }, y);
        }
        if let Some(lanes) = self.lanes {
            return self.sweep(lanes, factors, inverse, b, x, older, y);
        }
        self.residual(b, x, y.as_slice_mut())?;
        y.zip(Zip::Mul, &self.inverse)?;
        y.axpby(T::from_f64(1.0 + factors.beta), x, T::from_f64(factors.alpha))?;
        match older {
            Some(older) if factors.beta != 0.0 => y.axpy(T::from_f64(-factors.beta), older),
            _ => Ok(()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the operands of one formula")]
    fn sweep(
        &self,
        lanes: u32,
        Factors { alpha, beta }: Factors,
        inverse: Option<DeviceSlice<'_, T>>,
        b: DeviceSlice<'_, T>,
        x: DeviceSlice<'_, T>,
        older: Option<DeviceSlice<'_, T>>,
        mut y: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
        let arrays = match csr(&self.operator.a) {
            Csr::Device(arrays) => arrays,
            Csr::Host(matrix) => {
                let (b, x) = (b.on_cpu(), x.on_cpu());
                let (inverse, older) = (inverse.map(DeviceSlice::on_cpu), older.map(DeviceSlice::on_cpu));
                for_blocks(0..b.len(), y.as_slice_mut().on_cpu_mut(), &|rows, y: &mut [T]| {
                    for (row, y) in rows.zip(y) {
                        let (columns, values) = matrix.row(row);
                        let products = columns.iter().zip(values).map(|(&column, &value)| value * x[column as usize]);
                        let residual = b[row] - products.fold(T::default(), |sum, product| sum + product);
                        *y = match inverse {
                            None => residual,
                            Some(inverse) => {
                                let last = older.map_or(x[row], |older| x[row] - older[row]);
                                let momentum = if beta == T::default() { T::default() } else { beta * last };
                                x[row] + (momentum + alpha * (inverse[row] * residual))
                            }
                        };
                    }
                });
                return Ok(());
            }
        };
        let ((queue, y), values) = (y.into_writable(), arrays.values.read());
        let args = Args {
            rows: arrays.nrows,
            entries: arrays.nnz,
            alpha,
            beta,
            row_offsets: arrays.row_offsets.readable(&arrays.device),
            col_indices: arrays.col_indices.readable(&arrays.device),
            values: values.readable(),
            inverse: inverse.map(DeviceSlice::readable).unwrap_or_default(),
            b: b.readable(),
            x: x.readable(),
            older: older.map(DeviceSlice::readable).unwrap_or_default(),
            y,
        };
        let entry = Key { operation: Operation::Sweep(lanes), dtype: T::DTYPE }.entry();
        // SAFETY: a valid, square matrix and vectors of its size, of which `y` is borrowed mutably; the entry is for `T`.
        unsafe { launch(queue, entry, grid_size(arrays.nrows, lanes), args) }
    }
}

/// The lanes of a row in sweeps, if its rows are similar enough.
fn lanes<T: Scalar>(a: &DeviceMatrix<T>) -> Option<u32> {
    let structure = a.structure()?;
    let is_even = structure.max_row <= LONG_ROW || (structure.max_row as f64) < 4.0 * structure.mean_row();
    is_even.then(|| kernels_gpu::spmv_csr_vector::lanes_for(structure.mean_row()))
}

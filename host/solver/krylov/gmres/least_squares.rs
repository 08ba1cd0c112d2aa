//! The least squares problem of GMRES, solved where the basis is.

use kernels_gpu::gmres::{Key, RotateArgs, SolveArgs, Step, outcome, row};

use super::cpu::Columns;
use crate::{
    DType, Device, DeviceSliceMut, DeviceVec, Result, Scalar,
    device::{Backend, launch},
    scalar::precision,
};

/// The least squares problem of a cycle, `min |right - H y|`, solved column by column by Givens rotations in `f64`. It knows of the basis what
/// [`Basis`](crate::vector::Basis) finds: with `w[j]` for vector `j` while it is orthogonal to those before but for rounding, `A M w[j] = V h[j]` and
/// `w[j] = V r[j]`.
pub(super) struct LeastSquares {
    restart: usize,
    /// For each iteration, what [`Basis::extend`](crate::vector::Basis::extend) takes and finds.
    numbers: DeviceVec<f64>,
    /// On the CPU.
    columns: Columns,
    /// On other devices: see [`RotateArgs`].
    arrays: Option<Arrays>,
}

/// What the kernels have found.
struct Arrays {
    vectors: DeviceVec<f64>,
    rotated: DeviceVec<f64>,
    rotations: DeviceVec<f64>,
    right: DeviceVec<f64>,
    newest: DeviceVec<f64>,
    results: DeviceVec<f64>,
    y: DeviceVec<f64>,
}

/// What a column is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Found,
    /// The vectors span an invariant space, but for rounding.
    Invariant,
    /// There is no column: the vector depends on those before.
    Dependent,
    /// There is no column: a number is not finite.
    NotFinite,
}

impl LeastSquares {
    /// Allocates memory for up to `restart` columns.
    pub(super) fn new(device: &Device, restart: usize) -> Result<Self> {
        let array = |len: usize| device.zeros::<f64>(len);
        let arrays = match device.backend() {
            Backend::Cpu { .. } => None,
            _ => Some(Arrays {
                vectors: array(restart.saturating_mul(restart))?,
                rotated: array(restart.saturating_mul(restart))?,
                rotations: array(2 * restart)?,
                right: array(restart + 1)?,
                newest: array(restart + 1)?,
                results: array(2 * restart)?,
                y: array(restart)?,
            }),
        };
        Ok(Self { restart, numbers: array(restart.saturating_mul(row(restart)))?, columns: Columns::default(), arrays })
    }

    /// Begins a cycle at a residual of this norm.
    pub(super) fn begin(&mut self, norm: f64) -> Result<()> {
        match &mut self.arrays {
            Some(arrays) => arrays.right.slice_mut(..1)?.fill(norm),
            None => {
                self.columns = Columns::new(norm);
                Ok(())
            }
        }
    }

    /// The first numbers of column `j`.
    pub(super) fn numbers(&mut self, j: usize, count: usize) -> Result<DeviceSliceMut<'_, f64>> {
        let first = j * row(self.restart);
        self.numbers.slice_mut(first..first + count)
    }

    /// Adds `count` columns, and corrects the one before each, by the dot products of vectors 0 to `j` with `w[j]` and with `A M w[j]`, the divisor of
    /// `w[j + 1]` and its norm. Queued; none follows one that is of no use.
    pub(super) fn add<T: Scalar>(&mut self, first: usize, count: usize) -> Result<()> {
        let Some(Arrays { vectors, rotated, rotations, right, newest, results, .. }) = &mut self.arrays else {
            let numbers = self.numbers.as_slice().on_cpu();
            let rows = numbers.chunks(row(self.restart)).enumerate().skip(first).take(count);
            self.columns.add(rows.map(|(j, numbers)| &numbers[..2 * j + 4]), precision::<T>());
            return Ok(());
        };
        let args = RotateArgs {
            restart: self.restart as u32,
            first: first as u32,
            count: count as u32,
            precision: precision::<T>(),
            numbers: self.numbers.readable(),
            vectors: vectors.writable(),
            rotated: rotated.writable(),
            rotations: rotations.writable(),
            right: right.writable(),
            newest: newest.writable(),
            results: results.writable(),
        };
        let entry = Key { step: Step::Rotate, dtype: DType::F64 }.entry();
        // SAFETY: there is room for `restart` columns, at least `first + count`; what is written is borrowed mutably.
        unsafe { launch(self.numbers.device(), entry, 1, args) }
    }

    /// The norm of the residual with each of `count` columns, and what the column is worth. Waits for them.
    pub(super) fn results(&self, first: usize, count: usize) -> Result<Vec<(f64, Outcome)>> {
        let Some(arrays) = &self.arrays else {
            return Ok(self.columns.results[first..].to_vec());
        };
        let results = arrays.results.slice(2 * first..2 * (first + count))?.to_vec()?;
        let of_column = |pair: &[f64]| {
            let found = match pair[1] {
                outcome::FOUND => Outcome::Found,
                outcome::INVARIANT => Outcome::Invariant,
                outcome::DEPENDENT => Outcome::Dependent,
                _ => Outcome::NotFinite,
            };
            (pair[0], found)
        };
        Ok(results.chunks(2).map(of_column).collect())
    }

    /// The solution with the first `columns`, at least one: the lengths `y` of the steps along `M w`, or `R y`, those along the vectors of the basis.
    pub(super) fn solve<T: Scalar>(&mut self, columns: usize, along_basis: bool) -> Result<DeviceVec<T>> {
        let device = self.numbers.device();
        let Some(arrays) = &mut self.arrays else {
            let y = self.columns.solution(columns);
            let lengths = if along_basis { self.columns.along_basis(&y) } else { y };
            return device.upload_vec(&lengths.into_iter().map(T::from_f64).collect::<Vec<T>>());
        };
        let mut lengths = device.zeros(columns)?;
        let args = SolveArgs {
            restart: self.restart as u32,
            columns: columns as u32,
            along_basis: u32::from(along_basis),
            vectors: arrays.vectors.readable(),
            rotated: arrays.rotated.readable(),
            rotations: arrays.rotations.readable(),
            right: arrays.right.readable(),
            y: arrays.y.writable(),
            lengths: lengths.writable(),
        };
        let entry = Key { step: Step::Solve, dtype: T::DTYPE }.entry();
        // SAFETY: there are so many columns, at most `restart`; what is written is borrowed mutably.
        unsafe { launch(device, entry, 1, args) }?;
        Ok(lengths)
    }
}

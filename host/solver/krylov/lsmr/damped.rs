//! The system with the damping below it.

use crate::{DeviceMatrix, DeviceSlice, DeviceVec, LinearOperator, Result, Scalar};

/// `[A; damping I]`: the least `|b - A x|^2 + damping^2 |x|^2` is the least squares solution of it with `[b; 0]`.
pub(super) struct Damped<'s, T: Scalar> {
    pub(super) a: &'s dyn LinearOperator<T>,
    /// None for an operator, which multiplies by its transpose itself.
    pub(super) transpose: Option<DeviceMatrix<T>>,
    pub(super) damping: T,
}

impl<T: Scalar> Damped<'_, T> {
    pub(super) fn nrows(&self) -> usize {
        let rows = self.a.nrows();
        if self.damping == T::default() { rows } else { rows.saturating_add(self.a.ncols()) }
    }

    pub(super) fn apply(&self, x: DeviceSlice<'_, T>, y: &mut DeviceVec<T>) -> Result<()> {
        let rows = self.a.nrows();
        self.a.apply(x, y.slice_mut(..rows)?)?;
        if self.nrows() == rows { Ok(()) } else { y.slice_mut(rows..)?.axpby(self.damping, x, T::default()) }
    }

    pub(super) fn apply_transposed(&self, y: &DeviceVec<T>, x: &mut DeviceVec<T>) -> Result<()> {
        let rows = self.a.nrows();
        let top = y.slice(..rows)?;
        match &self.transpose {
            Some(transpose) => transpose.apply(top, (&mut *x).into())?,
            None => self.a.apply_transposed(top, (&mut *x).into())?,
        }
        if self.nrows() == rows { Ok(()) } else { x.axpy(self.damping, y.slice(rows..)?) }
    }
}

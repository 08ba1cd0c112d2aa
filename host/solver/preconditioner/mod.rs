//! Preconditioners.

mod jacobi;

pub use jacobi::Jacobi;

use crate::{DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar};

/// A linear map that approximates the inverse of the matrix. For [`Cg`](crate::Cg) it is symmetric and positive definite.
pub trait Preconditioner<T: Scalar> {
    /// `z = M * r`, queued on `z`'s queue. The old `z` may hold anything.
    ///
    /// # Errors
    /// Its own. They end the solution.
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()>;

    /// Whether [`apply`](Self::apply) can be recorded: see [`LinearOperator::can_be_recorded`](crate::LinearOperator::can_be_recorded).
    fn can_be_recorded(&self) -> bool {
        false
    }

    /// The diagonal, if the preconditioner is a diagonal matrix: methods then use kernels that multiply by it on the way, in place of
    /// [`apply`](Self::apply).
    fn as_diagonal(&self) -> Option<&DeviceVec<T>> {
        None
    }
}

impl<T: Scalar, P: Preconditioner<T> + ?Sized> Preconditioner<T> for &P {
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()> {
        (**self).apply(r, z)
    }

    fn can_be_recorded(&self) -> bool {
        (**self).can_be_recorded()
    }

    fn as_diagonal(&self) -> Option<&DeviceVec<T>> {
        (**self).as_diagonal()
    }
}

//! Preconditioners.

mod amg;
mod block_jacobi;
mod chebyshev;
mod fsai;
mod ilu;
mod jacobi;

pub(crate) use amg::parts as multigrid;
pub use amg::{Amg, AmgCycle, AmgInfo, AmgLevel, AmgOptions, AmgSmoother, MixedAmg, NearNullSpace};
pub use block_jacobi::BlockJacobi;
pub use chebyshev::Chebyshev;
pub use fsai::Fsai;
pub use ilu::Ilu;
pub use jacobi::Jacobi;

use crate::{Device, DeviceSlice, DeviceSliceMut, DeviceVec, Result, Scalar};

/// A linear map that approximates the inverse of the matrix. For [`Cg`](crate::Cg) it must be symmetric positive
/// definite.
pub trait Preconditioner<T: Scalar> {
    /// Computes `z = M * r` on `z`'s stream. The old `z` may hold anything.
    ///
    /// # Errors
    /// Any error ends the solve and is returned by it.
    fn apply(&self, r: DeviceSlice<'_, T>, z: DeviceSliceMut<'_, T>) -> Result<()>;

    /// Returns whether [`apply`](Self::apply) can be recorded: see
    /// [`LinearOperator::can_be_recorded`](crate::LinearOperator::can_be_recorded).
    fn can_be_recorded(&self) -> bool {
        false
    }

    /// Returns the stream of the preconditioner's data, if it has any: solvers record [`apply`](Self::apply) on no other. By default none.
    fn device(&self) -> Option<&Device> {
        None
    }

    /// Returns whether [`apply`](Self::apply) takes much longer than a product with the matrix. Solvers then queue fewer iterations ahead, since those
    /// after the last one are in vain.
    fn is_expensive(&self) -> bool {
        false
    }

    /// Returns the diagonal if the preconditioner is a diagonal matrix; solvers then fuse the multiplication with other
    /// kernels instead of calling [`apply`](Self::apply).
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

    fn device(&self) -> Option<&Device> {
        (**self).device()
    }

    fn is_expensive(&self) -> bool {
        (**self).is_expensive()
    }

    fn as_diagonal(&self) -> Option<&DeviceVec<T>> {
        (**self).as_diagonal()
    }
}

/// Whether the data of the preconditioner, if any, are on this stream.
pub(crate) fn lives_on<T: Scalar>(m: &dyn Preconditioner<T>, stream: &Device) -> bool {
    m.device().is_none_or(|own| own.is_same_stream(stream))
}

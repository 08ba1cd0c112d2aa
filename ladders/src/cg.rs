//! Steps of conjugate gradients: launches of the family `cg_ladder`.

use ladder_kernels::cg_ladder::{AlphaArgs, BetaArgs, DotArgs, JacobiArgs, Key, Step};
use warpsparse::{Device, Kernel, Result, Scalar};

use crate::kernel::kernel;

/// The steps of preconditioned conjugate gradients that vendors' libraries leave to the program, and a dot product: a kernel each, for
/// [`Device::launch`]. [`cg_ladder`](ladder_kernels::cg_ladder) has their arguments, grids and rules of safety.
#[derive(Debug)]
pub struct CgSteps<T> {
    /// How far to go along the direction.
    pub alpha: Kernel<AlphaArgs<T>>,
    /// How much of the old direction the new one keeps.
    pub beta: Kernel<BetaArgs<T>>,
    /// Jacobi's preconditioner.
    pub jacobi: Kernel<JacobiArgs<T>>,
    /// A dot product.
    pub dot: Kernel<DotArgs<T>>,
}

impl<T: Scalar> CgSteps<T> {
    /// The kernels for this device, or others of the same GPU.
    ///
    /// # Errors
    /// [`NoDevice`](warpsparse::Error::NoDevice) for a GPU that is older than the kernels; [`Driver`](warpsparse::Error::Driver).
    pub fn new(device: &Device) -> Result<Self> {
        let entry = |step| Key { step, dtype: T::DTYPE }.entry();
        Ok(Self {
            alpha: kernel(device, entry(Step::Alpha))?,
            beta: kernel(device, entry(Step::Beta))?,
            jacobi: kernel(device, entry(Step::Jacobi))?,
            dot: kernel(device, entry(Step::Dot))?,
        })
    }
}

//! HYB matrices on a device: the arrays of both parts.

use super::{Arrays, Factors, HostMatrix, InFormat};
use crate::{DeviceSlice, DeviceSliceMut, HybMatrix, Result, Scalar};

/// The arrays of a HYB matrix on a GPU or in the emulator. Its values are those of the ELL part, then those of the COO part.
#[derive(Debug)]
pub(crate) struct HybArrays<T> {
    pub(crate) ell: Box<dyn Arrays<T>>,
    pub(crate) coo: Box<dyn Arrays<T>>,
}

impl<T: Scalar> Arrays<T> for HybArrays<T> {
    fn in_format(&self) -> InFormat<'_, T> {
        InFormat::Hyb(self)
    }

    fn add_diagonal(&self, mut diagonal: DeviceSliceMut<'_, T>) -> Result<()> {
        self.ell.add_diagonal(diagonal.as_slice_mut())?;
        self.coo.add_diagonal(diagonal)
    }

    fn scale(&self, factors: Factors<'_, T>) -> Result<()> {
        self.ell.scale(factors)?;
        self.coo.scale(factors)
    }

    fn values_len(&self) -> usize {
        self.ell.values_len() + self.coo.values_len()
    }

    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        let in_ell = self.ell.values_len();
        self.ell.assign(values.slice(..in_ell)?)?;
        self.coo.assign(values.slice(in_ell..)?)
    }

    fn download(&self) -> Result<HostMatrix<T>> {
        match (self.ell.download()?, self.coo.download()?) {
            (HostMatrix::Ell(ell), HostMatrix::Coo(coo)) => HybMatrix::try_from_parts(ell, coo).map(HostMatrix::Hyb),
            _ => unreachable!("the parts are in ELL and COO"),
        }
    }
}

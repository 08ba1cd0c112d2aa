//! HYB matrices on a device: a product of the ELL part, then the COO part added to it.

use super::{Chosen, Product, Spmv, Uploaded, coo, ell};
use crate::{
    Device, HostMatrix, HybMatrix, KernelChoice, Result, Scalar,
    stored::{HybArrays, Stored},
};

/// A HYB matrix on any device.
#[derive(Debug)]
struct Hyb<T> {
    ell: Chosen<T>,
    coo: Chosen<T>,
    entries_in_coo: usize,
}

pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &HybMatrix<T>) -> Result<Uploaded<T>> {
    let (ell, coo) = (ell::upload(device, matrix.ell())?, coo::upload(device, matrix.coo())?);
    let sizes = (matrix.ell().width(), matrix.ell().nnz(), matrix.coo().nnz());
    let (chosen, stored) = of_parts(ell, coo, sizes);
    Ok((chosen, stored.unwrap_or_else(|| Stored::Host(HostMatrix::Hyb(matrix.clone())))))
}

/// The two parts as one, with the width and entries of the ELL part and the entries of the COO part; its arrays, if it is on a GPU or in the emulator.
pub(crate) fn of_parts<T: Scalar>(
    (ell, ell_stored): Uploaded<T>,
    (coo, coo_stored): Uploaded<T>,
    (width, in_ell, in_coo): (usize, usize, usize),
) -> (Chosen<T>, Option<Stored<T>>) {
    let kernel = format!("{} + {}", ell.choice.kernel, coo.choice.kernel);
    let reason = format!("the format's only kernels; {in_ell} entries in {width} slots a row, {in_coo} behind them");
    let stored = match (ell_stored, coo_stored) {
        (Stored::Device(ell), Stored::Device(coo)) => Some(Stored::Device(Box::new(HybArrays { ell, coo }) as _)),
        _ => None,
    };
    (Chosen::new(Hyb { ell, coo, entries_in_coo: in_coo }, KernelChoice { kernel, reason }), stored)
}

/// Returns the minimum bytes of a product: both parts once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>(nrows: usize, ncols: usize, width: usize, in_coo: usize) -> usize {
    ell::spmv_bytes::<T>(nrows, ncols, width) + in_coo * (8 + size_of::<T>())
}

impl<T: Scalar> Spmv<T> for Hyb<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, mut y } = product;
        self.ell.operator.spmv(Product { alpha, x, beta, y: y.as_slice_mut() })?;
        match self.entries_in_coo {
            0 => Ok(()),
            _ => self.coo.operator.spmv(Product { alpha, x, beta: T::from_f64(1.0), y }),
        }
    }

    fn needs_alignment(&self) -> bool {
        self.ell.operator.needs_alignment() || self.coo.operator.needs_alignment()
    }
}

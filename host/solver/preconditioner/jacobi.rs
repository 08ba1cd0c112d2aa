//! The Jacobi preconditioner.

use kernels_gpu::csr_diagonal::{Args, Key, grid_size};

use super::Preconditioner;
use crate::{
    DeviceMatrix, DeviceSlice, DeviceSliceMut, DeviceVec, Error, Result, Scalar, Zip,
    device::{Buffer, check_length, launch},
    formats::{Csr, CsrArrays},
};

/// The Jacobi preconditioner: the inverse of the diagonal of a matrix in any format.
///
/// ```
/// use warpsparse::{Cg, CsrMatrix, Device, Jacobi};
///
/// let device = Device::auto();
/// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 1, 2], vec![0, 1], vec![2.0, 8.0])?;
/// let a = device.upload(&a)?;
/// let (b, mut x) = (device.upload_vec(&[2.0, 8.0])?, device.zeros(2)?);
/// let info = Cg::new(&a).preconditioner(Jacobi::new(&a)?).solve(&b, &mut x)?;
/// assert_eq!((info.iterations, x.to_vec()?), (1, vec![1.0, 1.0]));
/// # Ok::<(), warpsparse::Error>(())
/// ```
#[derive(Debug)]
pub struct Jacobi<T> {
    inverse: DeviceVec<T>,
}

impl<T: Scalar> Jacobi<T> {
    /// Inverts the diagonal of a matrix. Duplicate entries are summed. `O(nnz)` work; waits for the result.
    ///
    /// A CSR matrix with 32-bit offsets is processed on its device; other formats are copied to the host.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) for a matrix that is not square; [`Breakdown`](Error::Breakdown),
    /// naming the first such row, if a diagonal element is missing, zero or not finite, or has no finite inverse;
    /// [`OutOfMemory`](Error::OutOfMemory) and [`Driver`](Error::Driver).
    pub fn new(matrix: &DeviceMatrix<T>) -> Result<Self> {
        check_length("the row of A", matrix.nrows(), matrix.ncols())?;
        if let Some(Csr::Device(csr)) = matrix.csr() {
            return inverted_by_kernel(csr);
        }
        let invert = |element: &T| T::from_f64(1.0 / element.to_f64());
        let inverse: Vec<T> = matrix.diagonal_on_host()?.iter().map(invert).collect();
        check_inverse(&inverse)?;
        Ok(Self { inverse: matrix.device().upload_vec(&inverse)? })
    }
}

impl<T: Scalar> Preconditioner<T> for Jacobi<T> {
    fn apply(&self, r: DeviceSlice<'_, T>, mut z: DeviceSliceMut<'_, T>) -> Result<()> {
        z.zip_from(Zip::Mul, &self.inverse, r)
    }

    fn can_be_recorded(&self) -> bool {
        true
    }

    fn as_diagonal(&self) -> Option<&DeviceVec<T>> {
        Some(&self.inverse)
    }
}

fn inverted_by_kernel<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<Jacobi<T>> {
    let device = &csr.device;
    let mut inverse = device.zeros::<T>(csr.nrows as usize)?;
    let mut suspect = Buffer::upload(device, &[u32::MAX])?;
    if csr.nrows > 0 {
        let entry = Key { dtype: T::DTYPE }.entry();
        let args = Args {
            rows: csr.nrows,
            row_offsets: csr.row_offsets.readable(device),
            col_indices: csr.col_indices.readable(device),
            values: csr.values.readable(device),
            diagonal: inverse.writable(),
            bad_row: suspect.writable(device),
        };
        // SAFETY: a valid matrix, a vector of its rows, and a word; the entry is for `T`.
        unsafe { launch(device, entry, grid_size(csr.nrows), args) }?;
    }
    // The kernel also reports negative elements, which are valid here.
    if suspect.to_vec(device)?[0] != u32::MAX {
        check_inverse(&inverse.to_vec()?)?;
    }
    Ok(Jacobi { inverse })
}

/// The inverse of 0 is infinity, the inverse of infinity is 0, and the inverse of NaN is NaN.
fn check_inverse<T: Scalar>(inverse: &[T]) -> Result<()> {
    let is_bad = |inverse: &T| *inverse == T::default() || !inverse.to_f64().is_finite();
    match inverse.iter().position(is_bad) {
        None => Ok(()),
        Some(row) => {
            let element = "the element on the diagonal is missing, zero or not finite, or has no finite inverse";
            Err(Error::Breakdown { iteration: 0, problem: format!("Jacobi's preconditioner, row {row}: {element}") })
        }
    }
}

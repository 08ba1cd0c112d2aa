//! The inverse of a matrix's diagonal.

use kernels_gpu::csr_diagonal::{Args, Key, grid_size};

use crate::{
    CsrMatrix, DeviceMatrix, DeviceVec, Error, Result, Scalar,
    device::{Buffer, KernelLaunch},
    formats::{Csr, CsrArrays},
};

/// The inverse of the diagonal, where the matrix is.
///
/// # Errors
/// [`Error::Unsupported`] for a matrix in another format than CSR; [`Error::Breakdown`] for one whose diagonal is not positive.
pub(super) fn inverse<T: Scalar>(matrix: &DeviceMatrix<T>) -> Result<DeviceVec<T>> {
    let (inverse, bad_row) = match matrix.product()?.csr() {
        Some(Csr::Host(csr)) => on_host(matrix, csr)?,
        Some(Csr::Device(csr)) => on_device(csr)?,
        None => {
            let problem = "Jacobi's preconditioner of a matrix that is not in CSR with 32-bit offsets on the device";
            return Err(Error::Unsupported(problem.into()));
        }
    };
    match bad_row {
        None => Ok(inverse),
        Some(row) => {
            let element = "the element on the diagonal is missing, or not positive, or has no finite inverse";
            Err(Error::Breakdown { iteration: 0, problem: format!("Jacobi's preconditioner, row {row}: {element}") })
        }
    }
}

fn on_host<T: Scalar>(matrix: &DeviceMatrix<T>, csr: &CsrMatrix<T>) -> Result<(DeviceVec<T>, Option<usize>)> {
    let mut bad_row = None;
    let mut inverse = Vec::with_capacity(csr.nrows());
    for row in 0..csr.nrows() {
        let entries = csr.row_offsets()[row] as usize..csr.row_offsets()[row + 1] as usize;
        let on_diagonal = entries.filter(|&entry| csr.col_indices()[entry] as usize == row);
        let sum: T = on_diagonal.map(|entry| csr.values()[entry]).sum();
        let inverted = 1.0 / sum.to_f64();
        inverse.push(T::from_f64(inverted));
        if !(sum > T::default() && sum.to_f64().is_finite() && inverse[row].to_f64().is_finite()) {
            bad_row.get_or_insert(row);
        }
    }
    Ok((matrix.device().upload_vec(&inverse)?, bad_row))
}

fn on_device<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<(DeviceVec<T>, Option<usize>)> {
    let device = &csr.device;
    let mut inverse = device.zeros::<T>(csr.nrows as usize)?;
    let mut bad_row = Buffer::upload(device, &[u32::MAX])?;
    if csr.nrows > 0 {
        let entry = Key { dtype: T::DTYPE }.entry();
        let mut launch = KernelLaunch::of_entry(device, entry, grid_size(csr.nrows));
        let args = Args {
            rows: csr.nrows,
            row_offsets: launch.read("row_offsets", csr.row_offsets.array(), device),
            col_indices: launch.read("col_indices", csr.col_indices.array(), device),
            values: launch.read("values", csr.values.array(), device),
            diagonal: launch.write("diagonal", inverse.parts_mut().1, device),
            bad_row: launch.write("bad_row", &mut bad_row, device),
        };
        // SAFETY: a valid matrix, a vector of its rows, and a word; the entry is for `T`.
        unsafe { launch.run_entry(entry, &args) }?;
    }
    let bad_row = bad_row.to_vec(device)?[0];
    Ok((inverse, (bad_row != u32::MAX).then_some(bad_row as usize)))
}

//! BSR matrices on a device: the kernel family `spmv_bsr`.

use std::sync::Arc;

use kernels_gpu::{
    spmv_bsr::{Args, Key, grid_size},
    spmv_csr_vector::lanes_for,
};

use super::{Chosen, Product, Spmv, Uploaded, cpu::OnCpu};
use crate::{
    BsrMatrix, Device, HostMatrix, KernelChoice, Result, Scalar,
    device::{Backend, launch},
    stored::{BsrArrays, Stored},
};

/// A BSR matrix on a GPU or in the emulator.
#[derive(Debug)]
struct GpuBsr<T> {
    arrays: Arc<BsrArrays<T>>,
    lanes: u32,
}

pub(crate) fn upload<T: Scalar>(device: &Device, matrix: &BsrMatrix<T>) -> Result<Uploaded<T>> {
    if let Backend::Cpu { .. } = device.backend() {
        let reason = reason::<T>((matrix.block_size(), matrix.block_col_indices().len()), matrix.nnz());
        let choice = KernelChoice { kernel: "cpu_bsr".into(), reason };
        return Ok((Chosen::new(OnCpu(matrix.clone()), choice), Stored::Host(HostMatrix::Bsr(matrix.clone()))));
    }
    Ok(of_arrays(BsrArrays::upload(device, matrix)?))
}

/// For a matrix on a GPU or in the emulator.
pub(crate) fn of_arrays<T: Scalar>(arrays: BsrArrays<T>) -> Uploaded<T> {
    let arrays = Arc::new(arrays);
    let mean_row = arrays.nnz as f64 / f64::from(arrays.nrows.max(1));
    let operator = GpuBsr { arrays: Arc::clone(&arrays), lanes: lanes(arrays.block_rows(), mean_row) };
    let blocks = (arrays.size as usize, arrays.block_columns.len());
    let reason = format!("{}; {} lanes per block row", reason::<T>(blocks, arrays.nnz), operator.lanes);
    let choice = KernelChoice { kernel: operator.key().entry().name.into(), reason };
    (Chosen::new(operator, choice), Stored::Device(Box::new(arrays)))
}

/// The lanes of a block row, in a matrix of so many with rows of so many entries: as many as a row of that length has in CSR, and more where there are too few block rows
/// to fill a GPU. Not measured yet.
fn lanes(block_rows: u32, mean_row: f64) -> u32 {
    /// Almost three times the number of concurrent threads of a large GPU: enough to keep it busy to the end.
    const FILL: u64 = 3 << 18;
    let mut lanes = lanes_for(mean_row);
    while lanes < 32 && u64::from(block_rows) * u64::from(2 * lanes) <= FILL && f64::from(2 * lanes) <= mean_row {
        lanes *= 2;
    }
    lanes
}

fn reason<T>((size, blocks): (usize, usize), entries: usize) -> String {
    let bytes = bytes_of_blocks::<T>((size, blocks)) as f64 / entries.max(1) as f64;
    format!("the format's only kernel; blocks of {size} x {size}, {bytes:.1} bytes per entry")
}

/// Of indices and values.
fn bytes_of_blocks<T>((size, blocks): (usize, usize)) -> usize {
    blocks * (4 + size * size * size_of::<T>())
}

/// Returns the minimum bytes of a product with a matrix of so many rows and columns in blocks of this size and number: indices, values and offsets once, `x` and `y` once.
pub(crate) fn spmv_bytes<T: Scalar>((nrows, ncols): (usize, usize), (size, blocks): (usize, usize)) -> usize {
    bytes_of_blocks::<T>((size, blocks)) + 4 * (nrows.div_ceil(size) + 1) + (nrows + ncols) * size_of::<T>()
}

impl<T: Scalar> GpuBsr<T> {
    fn key(&self) -> Key {
        Key { dtype: T::DTYPE, size: self.arrays.size as usize }
    }
}

impl<T: Scalar> Spmv<T> for GpuBsr<T> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let (arrays, lanes) = (&*self.arrays, self.lanes);
        let blocks = grid_size(arrays.block_rows(), lanes);
        if blocks == 0 {
            return Ok(());
        }
        let values = arrays.values.read();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: arrays.nrows,
            cols: arrays.ncols,
            block_rows: arrays.block_rows(),
            lanes,
            alpha,
            beta,
            block_offsets: arrays.block_offsets.readable(&arrays.device),
            block_columns: arrays.block_columns.readable(&arrays.device),
            values: values.readable(),
            x: x.readable(),
            y,
        };
        // SAFETY: the arrays are a valid BSR matrix and vectors of fitting lengths; `y` is borrowed mutably, so it overlaps none of the others. `Args<T>` is what the
        // entry for `T` takes.
        unsafe { launch(queue, self.key().entry(), blocks, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_those_of_rows_in_csr_or_more() {
        assert_eq!([3.0, 7.0, 42.0, 81.0, 1000.0].map(|row| lanes(1 << 20, row)), [1, 1, 8, 16, 32]);
        // Few block rows get more lanes, as long as each has a column.
        assert_eq!([1.0, 3.0, 7.0, 42.0].map(|row| lanes(100, row)), [1, 2, 4, 32]);
        assert_eq!(lanes(0, 0.0), 1);
    }
}

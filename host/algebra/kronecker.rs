//! Kronecker products.

use kernels_gpu::csr_kronecker::{CountArgs, FillArgs, Key, Operation, count_grid_size, fill_grid_size};

use crate::{
    CsrMatrix, DeviceMatrix, Result, Scalar,
    conversion::{Operand, offsets_of},
    device::{self, launch},
    formats::{coo::check_limits, rows::from_rows},
    stored::CsrArrays,
};

impl<T: Scalar> DeviceMatrix<T> {
    /// Computes the Kronecker product: a matrix with the block `a[i, j] * B` at row `i` and column `j` of blocks. In CSR; its columns ascend if those of both
    /// operands do. The same matrices give the same bits on every device.
    ///
    /// Operands in another format are converted to CSR first, on the host if they have 64-bit offsets. Waits for the number of entries. The kernels for products
    /// with the result are chosen at its first product.
    ///
    /// # Errors
    /// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² rows, columns or entries and more;
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch), [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver);
    /// [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn kronecker(&self, b: &Self) -> Result<Self> {
        device::refuse("a Kronecker product")?;
        self.device().check_same("b", b.device())?;
        let (nrows, ncols) = (self.nrows().saturating_mul(b.nrows()), self.ncols().saturating_mul(b.ncols()));
        check_limits::<u32>("CSR", nrows, ncols, self.nnz().saturating_mul(b.nnz()))?;
        let product = match (self.operand()?, b.operand()?) {
            (Operand::Host(a), Operand::Host(b)) => Operand::Host(on_cpu(&a, &b)?),
            (Operand::Device(a), Operand::Device(b)) => Operand::Device(on_gpu(&a, &b)?.into()),
            _ => unreachable!("both are on one device"),
        };
        Ok(product.into_matrix(self.device()))
    }
}

fn on_cpu<T: Scalar>(a: &CsrMatrix<T>, b: &CsrMatrix<T>) -> Result<CsrMatrix<T>> {
    let rows = |row: usize| (a.row(row / b.nrows()), b.row(row % b.nrows()));
    let length = |row: usize| {
        let (of_a, of_b) = rows(row);
        of_a.0.len() * of_b.0.len()
    };
    from_rows(a.nrows() * b.nrows(), a.ncols() * b.ncols(), length, |row, columns, values| {
        let ((a_columns, a_values), (b_columns, b_values)) = rows(row);
        let pairs = (0..a_columns.len()).flat_map(|i| (0..b_columns.len()).map(move |k| (i, k)));
        for ((i, k), (column, value)) in pairs.zip(columns.iter_mut().zip(values)) {
            *column = a_columns[i] * b.ncols() as u32 + b_columns[k];
            *value = a_values[i] * b_values[k];
        }
    })
}

fn on_gpu<T: Scalar>(a: &CsrArrays<T, u32>, b: &CsrArrays<T, u32>) -> Result<CsrArrays<T, u32>> {
    let device = &a.device;
    let (nrows, ncols) = (a.nrows * b.nrows, a.ncols * b.ncols);
    let mut counts = device.scratch(nrows as usize)?;
    if nrows > 0 {
        let args = CountArgs {
            a_rows: a.nrows,
            b_rows: b.nrows,
            a_offsets: a.row_offsets.readable(&a.device),
            b_offsets: b.row_offsets.readable(&b.device),
            counts: counts.writable(),
        };
        let key = Key { operation: Operation::Count };
        // SAFETY: two valid matrices, and a count for each row of the product.
        unsafe { launch(device, key.entry(), count_grid_size(nrows), args) }?;
    }
    let (offsets, entries) = offsets_of(&counts, (nrows, ncols))?;
    let (mut columns, mut values) = (device.scratch(entries as usize)?, device.scratch(entries as usize)?);
    if entries > 0 {
        let (a_values, b_values) = (a.values.read(), b.values.read());
        let args = FillArgs {
            a_rows: a.nrows,
            b_rows: b.nrows,
            b_cols: b.ncols,
            new_entries: entries,
            a_offsets: a.row_offsets.readable(&a.device),
            a_columns: a.col_indices.readable(&a.device),
            a_values: a_values.readable(),
            b_offsets: b.row_offsets.readable(&b.device),
            b_columns: b.col_indices.readable(&b.device),
            b_values: b_values.readable(),
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
        };
        let key = Key { operation: Operation::Fill(T::DTYPE) };
        // SAFETY: as above, with the offsets of the product.
        unsafe { launch(device, key.entry(), fill_grid_size(entries), args) }?;
    }
    let (offsets, columns) = (offsets.into_shared(), columns.into_shared());
    // SAFETY: the offsets count the products of entries, whose columns are within range.
    Ok(unsafe { CsrArrays::of_vectors((nrows, ncols, entries), offsets, columns, values, None) })
}

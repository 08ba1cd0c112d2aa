//! Sums and elementwise products of sparse matrices.

use kernels_gpu::csr_merge::{CountArgs, FillArgs, Key, Operation, Patterns, grid_size};

use crate::{
    CsrMatrix, DeviceMatrix, Result, Scalar,
    conversion::{Operand, offsets_of},
    device::{self, KernelLaunch, check_length, launch},
    formats::rows::from_rows,
    primitives::lanes,
    stored::CsrArrays,
};

/// Operations on two matrices entry by entry. The result is canonical, in CSR. Operands that are not canonical are made so first; operands in
/// another format are converted to CSR first, on the host if they have 64-bit offsets. The same matrices give the same bits on every device.
///
/// `O(nnz)` work, times the logarithm of row lengths, in two passes over the entries of both; the call waits for their number. The kernels for products with the
/// result are chosen at its first product.
///
/// All fail with [`LengthMismatch`](crate::Error::LengthMismatch) if the sizes differ, [`DeviceMismatch`](crate::Error::DeviceMismatch),
/// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2³² entries and more, [`OutOfMemory`](crate::Error::OutOfMemory),
/// [`Driver`](crate::Error::Driver), and [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
impl<T: Scalar> DeviceMatrix<T> {
    /// Computes `C = alpha * A + beta * B`, with an entry wherever one of the two has one, even if the sum or a factor is 0.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// let device = Device::auto();
    /// let a = CsrMatrix::try_from_csr_data(1, 3, vec![0u32, 2], vec![0, 1], vec![1.0f32, 2.0])?;
    /// let b = CsrMatrix::try_from_csr_data(1, 3, vec![0u32, 2], vec![1, 2], vec![3.0f32, 4.0])?;
    /// let c = device.upload(&a)?.add(1.0, 10.0, &device.upload(&b)?)?.download()?.into_csr()?;
    /// assert_eq!((c.col_indices(), c.values()), (&[0, 1, 2][..], &[1.0, 32.0, 40.0][..]));
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`InvalidMatrix`](crate::Error::InvalidMatrix), [`OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Driver`](crate::Error::Driver); [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn add(&self, alpha: T, beta: T, b: &Self) -> Result<Self> {
        self.merge(b, Merge::Sum { alpha, beta })
    }

    /// Computes the elementwise product: `a[i, j] * b[i, j]` wherever both have an entry, even if the product is 0.
    ///
    /// # Errors
    /// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`InvalidMatrix`](crate::Error::InvalidMatrix), [`OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Driver`](crate::Error::Driver); [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn hadamard(&self, b: &Self) -> Result<Self> {
        self.merge(b, Merge::Product)
    }

    fn merge(&self, b: &Self, merge: Merge<T>) -> Result<Self> {
        device::refuse("a matrix of two others")?;
        check_length("the rows of b", self.nrows(), b.nrows())?;
        check_length("the columns of b", self.ncols(), b.ncols())?;
        self.device().check_same("b", b.device())?;
        let merged = match (self.operand()?.canonical()?, b.operand()?.canonical()?) {
            (Operand::Host(a), Operand::Host(b)) => Operand::Host(on_cpu(&a, &b, merge)?),
            (Operand::Device(a), Operand::Device(b)) => Operand::Device(on_gpu(&a, &b, merge)?.into()),
            _ => unreachable!("both are on one device"),
        };
        Ok(merged.into_matrix(self.device()))
    }
}

#[derive(Clone, Copy)]
pub(super) enum Merge<T> {
    Sum { alpha: T, beta: T },
    Product,
}

fn on_cpu<T: Scalar>(a: &CsrMatrix<T>, b: &CsrMatrix<T>, merge: Merge<T>) -> Result<CsrMatrix<T>> {
    let each = |row: usize, put: &mut dyn FnMut(u32, T)| {
        let ((a_columns, a_values), (b_columns, b_values)) = (a.row(row), b.row(row));
        let (mut i, mut k) = (0, 0);
        while i < a_columns.len() || k < b_columns.len() {
            // A column index is below u32::MAX.
            let column = |columns: &[u32], at: usize| columns.get(at).copied().unwrap_or(u32::MAX);
            let (of_a, of_b) = (column(a_columns, i), column(b_columns, k));
            match merge {
                Merge::Sum { alpha, beta } if of_a == of_b => put(of_a, alpha * a_values[i] + beta * b_values[k]),
                Merge::Sum { alpha, .. } if of_a < of_b => put(of_a, alpha * a_values[i]),
                Merge::Sum { beta, .. } => put(of_b, beta * b_values[k]),
                Merge::Product if of_a == of_b => put(of_a, a_values[i] * b_values[k]),
                Merge::Product => {}
            }
            i += usize::from(of_a <= of_b);
            k += usize::from(of_b <= of_a);
        }
    };
    let length = |row| {
        let mut length = 0;
        each(row, &mut |_, _| length += 1);
        length
    };
    from_rows(a.nrows(), a.ncols(), length, |row, columns, values| {
        let mut next = 0;
        each(row, &mut |column, value| {
            (columns[next], values[next]) = (column, value);
            next += 1;
        });
    })
}

/// Of canonical matrices of one size, on a GPU or in the emulator.
pub(super) fn on_gpu<T: Scalar>(
    a: &CsrArrays<T, u32>,
    b: &CsrArrays<T, u32>,
    merge: Merge<T>,
) -> Result<CsrArrays<T, u32>> {
    let (device, rows) = (&a.device, a.nrows);
    let lanes = lanes(a.nnz.max(b.nnz), rows);
    let mut counts = device.scratch(rows as usize)?;
    if rows > 0 {
        let args = CountArgs { patterns: patterns(a, b, merge), counts: counts.writable() };
        let key = Key { operation: Operation::Count, lanes };
        // SAFETY: two canonical matrices of one size, and a count for each row.
        unsafe { launch(device, key.entry(), grid_size(rows, lanes), args) }?;
    }
    let (offsets, entries) = offsets_of(&counts, (rows, a.ncols))?;
    let (mut columns, mut values) = (device.scratch(entries as usize)?, device.scratch(entries as usize)?);
    if entries > 0 {
        let (alpha, beta) = match merge {
            Merge::Sum { alpha, beta } => (alpha, beta),
            Merge::Product => (T::default(), T::default()),
        };
        let (a_values, b_values) = (a.values.read(), b.values.read());
        let args = FillArgs {
            patterns: patterns(a, b, merge),
            new_entries: entries,
            alpha,
            beta,
            a_values: a_values.readable(),
            b_values: b_values.readable(),
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
        };
        let key = Key { operation: Operation::Fill(T::DTYPE), lanes };
        // SAFETY: as above, with the offsets of the result.
        unsafe { launch(device, key.entry(), grid_size(rows, lanes), args) }?;
    }
    // SAFETY: the offsets count the merged entries, whose columns are those of the operands and ascend.
    Ok(unsafe { CsrArrays::of_vectors((rows, a.ncols, entries), offsets, columns, values, Some(true)) })
}

fn patterns<'a, T: Scalar>(
    a: &'a CsrArrays<T, u32>,
    b: &'a CsrArrays<T, u32>,
    merge: Merge<T>,
) -> Patterns<KernelLaunch<'a>> {
    Patterns {
        rows: a.nrows,
        a_entries: a.nnz,
        b_entries: b.nnz,
        product: matches!(merge, Merge::Product).into(),
        a_offsets: a.row_offsets.readable(&a.device),
        a_columns: a.col_indices.readable(&a.device),
        b_offsets: b.row_offsets.readable(&b.device),
        b_columns: b.col_indices.readable(&b.device),
    }
}

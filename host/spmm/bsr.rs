//! Products of a BSR matrix with dense matrices: loops on the CPU, on all cores with the feature `rayon`, and launches of the kernel family `spmm_bsr`.

use std::{ops::Range, sync::Arc};

use kernels_gpu::spmm_bsr::{Args, COLUMNS, Key, grid_size};

use super::{
    Multiply, OnCpu, Product, Reduction, Spmm, SpmmOptions,
    cpu::{BLOCK, add_row},
    shares::columns,
};
use crate::{
    BsrMatrix, Error, KernelChoice, Result, Scalar,
    dense::{Rows, RowsMut},
    device::launch,
    parallel::{join, threads},
    spmv::output,
    stored::BsrArrays,
};

/// A BSR matrix on a GPU or in the emulator.
#[derive(Debug)]
pub(crate) struct GpuBsr<T>(pub(crate) Arc<BsrArrays<T>>);

/// There is one kernel, and nothing to choose.
fn check(options: &SpmmOptions) -> Result<()> {
    match *options == SpmmOptions::default() {
        true => Ok(()),
        false => Err(Error::InvalidOption(
            "options for products of a BSR matrix with dense matrices, which have none".into(),
        )),
    }
}

fn no_reduction() -> Error {
    Error::Unsupported("reductions over the entries of a matrix in BSR: convert it to CSR".into())
}

impl<T: Scalar> Multiply<T> for OnCpu<BsrMatrix<T>> {
    fn multiply(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, b, beta, c } = product;
        if b.ncols() > 0 && self.0.nrows() > 0 {
            let b = (Rows::new(b), b.ncols());
            multiply_rows(&self.0, 0..self.0.block_rows(), alpha, b, beta, RowsMut::new(c));
        }
        Ok(())
    }
}

impl<T: Scalar> Spmm<T> for OnCpu<BsrMatrix<T>> {
    fn plan(&self, cols: usize, options: &SpmmOptions) -> Result<(Box<dyn Multiply<T>>, KernelChoice)> {
        check(options)?;
        let threads = threads();
        let reason = format!("the CPU's only kernel; {cols} columns by {BLOCK}, rows shared among {threads} threads");
        Ok((Box::new(Self(self.0.clone())), KernelChoice { kernel: "cpu_spmm_bsr".into(), reason }))
    }

    fn reduce(&self, _: Reduction<'_, T>) -> Result<()> {
        Err(no_reduction())
    }
}

/// Computes some block rows of C; splits them among threads until the work is small.
fn multiply_rows<T: Scalar>(
    matrix: &BsrMatrix<T>,
    block_rows: Range<usize>,
    alpha: T,
    (b, cols): (Rows<'_, T>, usize),
    beta: T,
    c: RowsMut<'_, T>,
) {
    let size = matrix.block_size();
    if let Some(middle) = crate::spmv::middle_row(matrix.block_row_offsets(), block_rows.clone(), size * size * cols) {
        let (below, above) = c.split_at((middle - block_rows.start) * size);
        join(
            || multiply_rows(matrix, block_rows.start..middle, alpha, (b, cols), beta, below),
            || multiply_rows(matrix, middle..block_rows.end, alpha, (b, cols), beta, above),
        );
        return;
    }
    let rows = block_rows.start * size..(block_rows.end * size).min(matrix.nrows());
    for (row, c) in rows.zip(c.rows()) {
        for (block, c) in c[..cols].chunks_mut(BLOCK).enumerate() {
            let mut sums = [T::default(); BLOCK];
            add_row(matrix.row(row), b, block * BLOCK, &mut sums[..c.len()]);
            for (c, sum) in c.iter_mut().zip(sums) {
                *c = output(alpha, sum, beta, *c);
            }
        }
    }
}

impl<T: Scalar> Multiply<T> for GpuBsr<T> {
    fn multiply(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, b, beta, c } = product;
        let (arrays, cols) = (&*self.0, columns(b.ncols())?);
        if cols == 0 || arrays.nrows == 0 {
            return Ok(());
        }
        let lanes = cols.div_ceil(COLUMNS).next_power_of_two().min(32);
        let blocks = u32::try_from(grid_size(arrays.block_rows(), cols, lanes)).ok().filter(|&blocks| blocks < 1 << 31);
        let blocks = blocks.ok_or_else(|| Error::Unsupported(format!("{cols} columns of {} rows", arrays.nrows)))?;
        let (b_distance, c_distance) = (b.leading_dimension() as u64, c.leading_dimension() as u64);
        let values = arrays.values.read();
        let (queue, c) = c.into_writable();
        let args = Args {
            rows: arrays.nrows,
            b_rows: arrays.ncols,
            block_rows: arrays.block_rows(),
            cols,
            lanes,
            alpha,
            beta,
            b_distance,
            c_distance,
            block_offsets: arrays.block_offsets.readable(&arrays.device),
            block_columns: arrays.block_columns.readable(&arrays.device),
            values: values.readable(),
            b: b.readable(),
            c,
        };
        let entry = Key { dtype: T::DTYPE, size: arrays.size as usize }.entry();
        // SAFETY: the arrays are a valid BSR matrix, and dense matrices of fitting sizes that their vectors have room for; `c` is borrowed mutably, so it is none of the
        // others. `Args<T>` is what the entry for `T` takes.
        unsafe { launch(queue, entry, blocks, args) }
    }
}

impl<T: Scalar> Spmm<T> for GpuBsr<T> {
    fn plan(&self, cols: usize, options: &SpmmOptions) -> Result<(Box<dyn Multiply<T>>, KernelChoice)> {
        check(options)?;
        let entry = Key { dtype: T::DTYPE, size: self.0.size as usize }.entry();
        let reason = format!("the format's only kernel; {} columns, {COLUMNS} per thread", columns(cols)?);
        Ok((Box::new(Self(Arc::clone(&self.0))), KernelChoice { kernel: entry.name.into(), reason }))
    }

    fn reduce(&self, _: Reduction<'_, T>) -> Result<()> {
        Err(no_reduction())
    }
}

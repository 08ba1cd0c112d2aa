//! Products of a CSR matrix with dense matrices on the CPU, on all cores with the feature `rayon`.

use std::ops::Range;

use super::{Product, Spmm, SpmmOptions};
use crate::{CsrMatrix, KernelChoice, Offset, Result, Scalar, device::cpu_threads};

/// Columns whose sums are kept at hand while a row is gone through: they fit the registers and the first-level cache.
const BLOCK: usize = 32;

/// A CSR matrix in host memory.
#[derive(Debug)]
pub(crate) struct OnCpu<M>(pub(crate) M);

/// A row-major dense matrix of `cols` columns, from its first element on.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    elements: &'a [T],
    leading_dimension: usize,
}

impl<T: Scalar, O: Offset> Spmm<T> for OnCpu<CsrMatrix<T, O>> {
    fn prepare(&self, cols: usize, _: &SpmmOptions) -> Result<KernelChoice> {
        let threads = cpu_threads();
        let reason = format!("the CPU's only kernel; {cols} columns by {BLOCK}, rows shared among {threads} threads");
        Ok(KernelChoice { kernel: "cpu_spmm_csr".into(), reason })
    }

    fn spmm(&self, product: Product<'_, T>) -> Result<()> {
        const IN_HOST_MEMORY: &str = "all that the CPU device holds is in host memory";
        let Product { alpha, b, beta, c, .. } = product;
        let (cols, b_offset, c_offset) = (b.ncols(), b.offset(), c.offset());
        if cols == 0 || self.0.nrows() == 0 {
            return Ok(());
        }
        let leading_dimension = c.leading_dimension();
        let elements = b.vec().buffer().as_host().expect(IN_HOST_MEMORY);
        let b = Rows { elements: &elements[b_offset.min(elements.len())..], leading_dimension: b.leading_dimension() };
        let c = c.into_vec().parts_mut().1.as_host_mut().expect(IN_HOST_MEMORY);
        let c_elements = (self.0.nrows() - 1) * leading_dimension + cols;
        let c = &mut c[c_offset..c_offset + c_elements];
        add_rows(&self.0, 0..self.0.nrows(), cols, (alpha, b), (beta, c, leading_dimension));
        Ok(())
    }
}

/// The product for some rows: halves the work, counted in entries, among threads until it is small.
fn add_rows<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    rows: Range<usize>,
    cols: usize,
    (alpha, b): (T, Rows<'_, T>),
    (beta, c, leading_dimension): (T, &mut [T], usize),
) {
    #[cfg(feature = "rayon")]
    if let Some(middle) = crate::spmv::middle_row(matrix.row_offsets(), rows.clone(), cols) {
        let (c_below, c_above) = c.split_at_mut((middle - rows.start) * leading_dimension);
        rayon::join(
            || add_rows(matrix, rows.start..middle, cols, (alpha, b), (beta, c_below, leading_dimension)),
            || add_rows(matrix, middle..rows.end, cols, (alpha, b), (beta, c_above, leading_dimension)),
        );
        return;
    }
    for (i, c) in rows.zip(c.chunks_mut(leading_dimension)) {
        for (block, c) in c[..cols].chunks_mut(BLOCK).enumerate() {
            let mut sums = [T::default(); BLOCK];
            add_row(matrix, i, b, block * BLOCK, &mut sums[..c.len()]);
            for (c, sum) in c.iter_mut().zip(sums) {
                let product = alpha * sum;
                *c = if beta == T::default() { product } else { product + beta * *c };
            }
        }
    }
}

/// Adds to `sums` the products of row `i` with the columns of `b` from `first` on.
fn add_row<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>, i: usize, b: Rows<'_, T>, first: usize, sums: &mut [T]) {
    let entries = matrix.row_range(i);
    let entries = matrix.col_indices()[entries.clone()].iter().zip(&matrix.values()[entries]);
    let row_of_b = |column: u32| &b.elements[column as usize * b.leading_dimension + first..];
    // A block of known size is added in a few vector instructions.
    if let Ok(sums) = <&mut [T; BLOCK]>::try_from(&mut *sums) {
        for (&column, &value) in entries {
            let row = row_of_b(column).first_chunk::<BLOCK>().expect("a row of B has the columns of C");
            for (sum, &element) in sums.iter_mut().zip(row) {
                *sum += value * element;
            }
        }
        return;
    }
    for (&column, &value) in entries {
        for (sum, &element) in sums.iter_mut().zip(row_of_b(column)) {
            *sum += value * element;
        }
    }
}

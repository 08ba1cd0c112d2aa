//! Products of a CSR matrix with dense matrices on the CPU, on all cores with the feature `rayon`.

use std::ops::Range;

use kernels_gpu::spmm_csr_reduce::NO_ENTRY;

use super::{Multiply, Product, Reduce, Reduction, Spmm, SpmmOptions, Weights};
use crate::{
    CsrMatrix, KernelChoice, Offset, Result, Scalar,
    dense::{Rows, RowsMut},
    parallel::{join, threads},
    spmv::output,
};

/// Columns whose sums are accumulated together: they fit in registers and the L1 cache.
pub(super) const BLOCK: usize = 32;

/// A CSR matrix in host memory.
#[derive(Debug)]
pub(crate) struct OnCpu<M>(pub(crate) M);

impl<T: Scalar, O: Offset> Multiply<T> for OnCpu<CsrMatrix<T, O>> {
    fn multiply(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, b, beta, c, .. } = product;
        let (matrix, cols) = (&self.0, b.ncols());
        if cols == 0 || matrix.nrows() == 0 {
            return Ok(());
        }
        let b = Rows::new(b);
        for_rows(matrix, 0..matrix.nrows(), cols, RowsMut::new(c), None, &|i, c, _| {
            for (block, c) in c.chunks_mut(BLOCK).enumerate() {
                let mut sums = [T::default(); BLOCK];
                let (columns, values) = matrix.row(i);
                let entries = columns.iter().copied().zip(values.iter().copied());
                add_row(entries, b, block * BLOCK, &mut sums[..c.len()]);
                for (c, sum) in c.iter_mut().zip(sums) {
                    *c = output(alpha, sum, beta, *c);
                }
            }
        });
        Ok(())
    }
}

impl<T: Scalar, O: Offset> Spmm<T> for OnCpu<CsrMatrix<T, O>> {
    fn plan(&self, cols: usize, _: &SpmmOptions) -> Result<(Box<dyn Multiply<T>>, KernelChoice)> {
        let threads = threads();
        let reason = format!("the CPU's only kernel; {cols} columns by {BLOCK}, rows shared among {threads} threads");
        Ok((Box::new(Self(self.0.clone())), KernelChoice { kernel: "cpu_spmm_csr".into(), reason }))
    }

    fn reduce(&self, reduction: Reduction<'_, T>) -> Result<()> {
        let Reduction { reduce, weights, b, c, entries } = reduction;
        let (matrix, cols) = (&self.0, b.ncols());
        if cols == 0 || matrix.nrows() == 0 {
            return Ok(());
        }
        let b = Rows::new(b);
        for_rows(matrix, 0..matrix.nrows(), cols, RowsMut::new(c), entries.map(RowsMut::new), &|i, c, entries| {
            // In blocks, with a buffer for unwanted indices of entries.
            let mut unwanted = [0; BLOCK];
            let mut entries = entries.map(|entries| entries.chunks_mut(BLOCK));
            for (block, c) in c.chunks_mut(BLOCK).enumerate() {
                let of = entries.as_mut().and_then(Iterator::next).unwrap_or(&mut unwanted[..c.len()]);
                reduce_block(matrix, i, (reduce, weights), b, block * BLOCK, c, of);
            }
        });
        Ok(())
    }
}

/// Does `work` for a range of rows of C and of the argmax; splits it among threads until it is small.
fn for_rows<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    rows: Range<usize>,
    cols: usize,
    c: RowsMut<'_, T>,
    entries: Option<RowsMut<'_, u32>>,
    work: &(impl Fn(usize, &mut [T], Option<&mut [u32]>) + Sync),
) {
    if let Some(middle) = crate::spmv::middle_row(matrix.row_offsets(), rows.clone(), cols) {
        let (c, later_c) = c.split_at(middle - rows.start);
        let (entries, later_entries) = entries.map(|entries| entries.split_at(middle - rows.start)).unzip();
        join(
            || for_rows(matrix, rows.start..middle, cols, c, entries, work),
            || for_rows(matrix, middle..rows.end, cols, later_c, later_entries, work),
        );
        return;
    }
    let mut entries = entries.map(|entries| entries.elements.chunks_mut(entries.leading_dimension));
    for (i, c) in rows.zip(c.elements.chunks_mut(c.leading_dimension)) {
        let entries = entries.as_mut().and_then(Iterator::next);
        work(i, &mut c[..cols], entries.map(|entries| &mut entries[..cols]));
    }
}

/// Adds to `sums` the products of a row's entries with the columns of `b` from `first` on.
pub(super) fn add_row<T: Scalar>(
    entries: impl Iterator<Item = (u32, T)>,
    b: Rows<'_, T>,
    first: usize,
    sums: &mut [T],
) {
    let row_of_b = |column: u32| &b.elements[column as usize * b.leading_dimension + first..];
    // A block of known size is added in a few vector instructions, in registers.
    if let Ok(block) = <&mut [T; BLOCK]>::try_from(&mut *sums) {
        let mut sums = *block;
        for (column, value) in entries {
            let row = row_of_b(column).first_chunk::<BLOCK>().expect("a row of B has the columns of C");
            for (sum, &element) in sums.iter_mut().zip(row) {
                *sum += value * element;
            }
        }
        *block = sums;
        return;
    }
    for (column, value) in entries {
        for (sum, &element) in sums.iter_mut().zip(row_of_b(column)) {
            *sum += value * element;
        }
    }
}

/// Computes the columns of a row of C from `first` on; for an extremum, `of` receives the indices of the entries.
fn reduce_block<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    i: usize,
    (reduce, weights): (Reduce, Weights),
    b: Rows<'_, T>,
    first: usize,
    c: &mut [T],
    of: &mut [u32],
) {
    let entries = matrix.row_range(i);
    let width = c.len();
    let products = |entry: usize| {
        let row = &b.elements[matrix.col_indices()[entry] as usize * b.leading_dimension + first..][..width];
        let factor = match weights {
            Weights::Values => matrix.values()[entry],
            Weights::Ones => T::from_f64(1.0),
        };
        row.iter().map(move |&element| factor * element)
    };
    c.fill(T::default());
    match reduce {
        Reduce::Sum | Reduce::Mean => {
            for entry in entries.clone() {
                c.iter_mut().zip(products(entry)).for_each(|(c, product)| *c += product);
            }
            if reduce == Reduce::Mean && !entries.is_empty() {
                let count = kernels_gpu::Scalar::from_count(entries.len() as u64);
                c.iter_mut().for_each(|c| *c = *c / count);
            }
        }
        Reduce::Max => extremum(entries, products, c, of, |next, best| next > best),
        Reduce::Min => extremum(entries, products, c, of, |next, best| next < best),
    }
}

/// Returns the first of the most extreme products, and the entry of each. NaN exceeds every number.
fn extremum<T: Scalar, P: Iterator<Item = T>>(
    entries: Range<usize>,
    products: impl Fn(usize) -> P,
    c: &mut [T],
    of: &mut [u32],
    beyond: impl Fn(T, T) -> bool,
) {
    let Some(first) = entries.clone().next() else { return of.fill(NO_ENTRY) };
    c.iter_mut().zip(products(first)).for_each(|(c, product)| *c = product);
    of.fill(first as u32);
    #[expect(clippy::eq_op, reason = "NaN alone differs from itself")]
    let is_nan = |value: T| value != value;
    for entry in entries.skip(1) {
        for ((best, of), product) in c.iter_mut().zip(&mut *of).zip(products(entry)) {
            let better = beyond(product, *best) | (is_nan(product) & !is_nan(*best));
            *best = if better { product } else { *best };
            *of = if better { entry as u32 } else { *of };
        }
    }
}

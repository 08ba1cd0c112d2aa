//! Dense products on the CPU, by the crate `matrixmultiply`; on all cores with the feature `rayon`.

use super::Product;
use crate::{DType, DenseMut, DenseRef, KernelChoice, Order, Scalar, parallel};

/// The size of the blocks of `C` that one thread computes at a time, if there are enough for all threads.
/// `matrixmultiply` copies its part of `A` and `B` for each block, one access per 128 operations.
const LARGE: usize = 256;

/// The smallest block size for which these copies are worth another thread.
const SMALL: usize = 64;

pub(super) fn choice(m: usize, n: usize) -> KernelChoice {
    let (block, threads) = (block_size(m, n), parallel::threads());
    let reason = format!("the crate matrixmultiply, blocks of {block} x {block} shared among {threads} threads");
    KernelChoice { kernel: "cpu_gemm".into(), reason }
}

/// Returns the largest size that gives each thread a block, or the smallest size.
fn block_size(m: usize, n: usize) -> usize {
    let mut block = LARGE;
    while block > SMALL && m.div_ceil(block).saturating_mul(n.div_ceil(block)) < parallel::threads() {
        block /= 2;
    }
    block
}

/// A matrix by the address of its first element and the distances of rows and columns, in elements.
#[derive(Clone, Copy)]
struct Strided<P> {
    first: P,
    rows: isize,
    cols: isize,
}

// SAFETY: threads read it, or write parts that do not overlap.
unsafe impl<P> Send for Strided<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for Strided<P> {}

fn distances(order: Order, leading_dimension: usize) -> (isize, isize) {
    match order {
        Order::RowMajor => (leading_dimension as isize, 1),
        Order::ColumnMajor => (1, leading_dimension as isize),
    }
}

impl<T: Scalar> Strided<*const T> {
    fn read(matrix: DenseRef<'_, T>) -> Self {
        let elements = matrix.vec().buffer().on_cpu();
        let (rows, cols) = distances(matrix.order(), matrix.leading_dimension());
        Self { first: elements.as_ptr().wrapping_add(matrix.offset()), rows, cols }
    }
}

impl<T: Scalar> Strided<*mut T> {
    fn write(matrix: DenseMut<'_, T>) -> Self {
        let (rows, cols) = distances(matrix.order(), matrix.leading_dimension());
        let offset = matrix.offset();
        let elements = matrix.into_vec().parts_mut().1.on_cpu_mut();
        Self { first: elements.as_mut_ptr().wrapping_add(offset), rows, cols }
    }
}

pub(super) fn gemm<T: Scalar>(product: Product<'_, T>) {
    let Product { alpha, a, b, beta, c, .. } = product;
    let (m, n) = (c.nrows(), c.ncols());
    let k = if alpha == T::default() { 0 } else { a.ncols() };
    let product = Strides { alpha, a: Strided::read(a), b: Strided::read(b), beta, c: Strided::write(c), k };
    let size = block_size(m, n);
    let down = m.div_ceil(size);
    let block = |index: usize| {
        let (row, col) = (index % down * size, index / down * size);
        // SAFETY: the three matrices have these sizes, their vectors room for them, and `C` is borrowed mutably; no two blocks
        // have an element of it in common.
        unsafe { product.compute((row, size.min(m - row)), (col, size.min(n - col))) }
    };
    parallel::for_each(down * n.div_ceil(size), &block);
}

/// A product that can be computed in parts.
#[derive(Clone, Copy)]
struct Strides<T> {
    alpha: T,
    a: Strided<*const T>,
    b: Strided<*const T>,
    beta: T,
    c: Strided<*mut T>,
    k: usize,
}

impl<T: Scalar> Strides<T> {
    /// Computes the rows and columns given by the first index and the number in each pair.
    ///
    /// # Safety
    /// They exist, and nobody else accesses these elements of `C`.
    unsafe fn compute(self, (row, m): (usize, usize), (col, n): (usize, usize)) {
        let Self { a, b, c, k, .. } = self;
        let first_a = a.first.wrapping_offset(row as isize * a.rows);
        let first_b = b.first.wrapping_offset(col as isize * b.cols);
        let first_c = c.first.wrapping_offset(row as isize * c.rows + col as isize * c.cols);
        let (alpha, beta) = (self.alpha.to_f64(), self.beta.to_f64());
        // SAFETY: the caller's promise; `T` is the type that each call is for.
        unsafe {
            match T::DTYPE {
                DType::F32 => matrixmultiply::sgemm(
                    m,
                    k,
                    n,
                    alpha as f32,
                    first_a.cast(),
                    a.rows,
                    a.cols,
                    first_b.cast(),
                    b.rows,
                    b.cols,
                    beta as f32,
                    first_c.cast(),
                    c.rows,
                    c.cols,
                ),
                DType::F64 => matrixmultiply::dgemm(
                    m,
                    k,
                    n,
                    alpha,
                    first_a.cast(),
                    a.rows,
                    a.cols,
                    first_b.cast(),
                    b.rows,
                    b.cols,
                    beta,
                    first_c.cast(),
                    c.rows,
                    c.cols,
                ),
            }
        }
    }
}

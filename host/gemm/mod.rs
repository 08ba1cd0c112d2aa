//! Dense matrix times dense matrix.

mod cpu;
mod gpu;
mod options;

pub use options::{GemmKernel, GemmOptions, GemmRung};

use crate::{
    DenseMut, DenseRef, Graph, KernelChoice, Result, Scalar,
    device::{Backend, Mode, check_length},
};

/// `C = alpha * A * B + beta * C`, dense, `A` of `m` rows and `k` columns, `B` of `k` and `n`, `C` of `m` and `n`; each of them
/// row-major or column-major, with any leading dimension. A transpose is [`DenseRef::transpose`], which moves nothing.
///
/// With `beta` = 0 the old `C` is not read, so it may hold NaN; with `alpha` = 0 or `k` = 0, `A` and `B` are not, as in BLAS.
/// Elements between the rows of `C`, or columns, stay as they are. The same input on the same device gives the same bits.
/// `O(m * n * k)` work.
///
/// On a GPU the product is queued on the queue of `C`, and nothing waits. On the CPU it is that of the crate `matrixmultiply`; with the
/// feature `rayon` blocks of `C` are shared among all cores.
///
/// ```
/// use warpsparse::{DenseLayout, Device, gemm};
///
/// let device = Device::auto();
/// // 1 2   times   5 6   =   19 22
/// // 3 4           7 8       43 50
/// let a = device.upload_vec(&[1.0f32, 2.0, 3.0, 4.0])?;
/// let b = device.upload_vec(&[5.0, 6.0, 7.0, 8.0])?;
/// let mut c = device.zeros(4)?;
/// gemm(1.0, a.matrix((2, 2))?, b.matrix((2, 2))?, 0.0, c.matrix_mut((2, 2))?)?;
/// assert_eq!(c.to_vec()?, [19.0, 22.0, 43.0, 50.0]);
/// // The transpose of A, and columns of C one after the other.
/// gemm(1.0, a.matrix((2, 2))?.transpose(), b.matrix((2, 2))?, 0.0, c.matrix_mut(DenseLayout::column_major(2, 2))?)?;
/// assert_eq!(c.to_vec()?, [26.0, 38.0, 30.0, 44.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// # Errors
/// [`LengthMismatch`](crate::Error::LengthMismatch) if sizes do not fit;
/// [`DeviceMismatch`](crate::Error::DeviceMismatch) if one of the three is on another device;
/// [`Unsupported`](crate::Error::Unsupported) for sizes and leading dimensions of 2^31 and more, not on the CPU;
/// [`DriverTooOld`](crate::Error::DriverTooOld) and [`Driver`](crate::Error::Driver) at the first use of a kernel.
pub fn gemm<T: Scalar>(alpha: T, a: DenseRef<'_, T>, b: DenseRef<'_, T>, beta: T, c: DenseMut<'_, T>) -> Result<()> {
    gemm_with(&GemmOptions::default(), alpha, a, b, beta, c)
}

/// [`gemm`] by the kernel that the options name.
///
/// # Errors
/// As [`gemm`]; [`InvalidOption`](crate::Error::InvalidOption) for a tile that there is no kernel for; [`Unsupported`](crate::Error::Unsupported) also
/// for what a forced kernel does not do.
pub fn gemm_with<T: Scalar>(
    options: &GemmOptions,
    alpha: T,
    a: DenseRef<'_, T>,
    b: DenseRef<'_, T>,
    beta: T,
    c: DenseMut<'_, T>,
) -> Result<()> {
    check(&a, &b, &c)?;
    run(options, Product { mode: Mode::Queue, alpha, a, b, beta, c })
}

/// The kernel that [`gemm_with`] takes for these matrices, and why.
///
/// # Errors
/// As [`gemm_with`].
pub fn gemm_choice<T: Scalar>(
    options: &GemmOptions,
    a: DenseRef<'_, T>,
    b: DenseRef<'_, T>,
    c: &DenseMut<'_, T>,
) -> Result<KernelChoice> {
    check(&a, &b, c)?;
    match c.device().backend() {
        Backend::Cpu { .. } => Ok(cpu::choice(c.nrows(), c.ncols())),
        _ => gpu::choice(options, a, b, c),
    }
}

/// The product of [`gemm_with`] as a [`Graph`], which queues it any number of times: with the same matrices, which stay borrowed.
///
/// # Errors
/// As [`gemm_with`], and [`InvalidOption`](crate::Error::InvalidOption) if the matrices live on different queues of a GPU.
pub fn gemm_graph<'a, T: Scalar>(
    options: &GemmOptions,
    alpha: T,
    a: DenseRef<'a, T>,
    b: DenseRef<'a, T>,
    beta: T,
    mut c: DenseMut<'a, T>,
) -> Result<Graph<'a>> {
    check(&a, &b, &c)?;
    let (queue, options) = (c.device().clone(), options.clone());
    let mut product = |mode: Mode<'_>| run(&options, Product { mode, alpha, a, b, beta, c: c.reborrow() });
    // SAFETY: the graph holds the borrows of all arguments, for as long as it can be launched.
    let recording = unsafe { queue.record(&mut product) }?;
    let again = move || run(&options, Product { mode: Mode::Queue, alpha, a, b, beta, c: c.reborrow() });
    Ok(Graph::new(again, recording, None))
}

/// `C = alpha * A * B + beta * C`, where the sizes fit and all arguments are on one device.
pub(crate) struct Product<'a, T> {
    pub(crate) mode: Mode<'a>,
    pub(crate) alpha: T,
    pub(crate) a: DenseRef<'a, T>,
    pub(crate) b: DenseRef<'a, T>,
    pub(crate) beta: T,
    pub(crate) c: DenseMut<'a, T>,
}

fn run<T: Scalar>(options: &GemmOptions, product: Product<'_, T>) -> Result<()> {
    let Product { a, b, c, .. } = &product;
    let is_empty = c.nrows() == 0 || c.ncols() == 0;
    match c.device().backend() {
        // Wrong options are errors all the same.
        _ if is_empty => gemm_choice(options, *a, *b, c).map(|_| ()),
        Backend::Cpu { .. } => {
            cpu::gemm(product);
            Ok(())
        }
        _ => gpu::gemm(options, product),
    }
}

fn check<T: Scalar>(a: &DenseRef<'_, T>, b: &DenseRef<'_, T>, c: &DenseMut<'_, T>) -> Result<()> {
    check_length("the column of B", a.ncols(), b.nrows())?;
    check_length("the column of C", a.nrows(), c.nrows())?;
    check_length("the row of C", b.ncols(), c.ncols())?;
    c.device().check_same("A", a.device())?;
    c.device().check_same("B", b.device())
}

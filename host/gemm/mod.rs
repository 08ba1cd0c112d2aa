//! Products of dense matrices.

mod autotune;
mod cpu;
mod gpu;
mod options;
mod tiling;

pub use autotune::gemm_autotune;
pub use options::GemmOptions;

use crate::{
    DenseMut, DenseRef, DeviceDense, IntoFactor, KernelChoice, Result, Scalar,
    dense::{TimesZero, scaled},
    device::{Backend, check_length},
};

/// Computes `C = alpha * A * B + beta * C` for dense matrices: `A` is `m` x `k`, `B` is `k` x `n`, `C` is `m` x `n`,
/// each row-major or column-major with any leading dimension. Use [`DenseRef::transpose`] for transposes; it moves no
/// data.
///
/// With `beta` = 0 the old `C` is not read, so it may hold NaN; with `alpha` = 0 or `k` = 0, `A` and `B` are not read,
/// as in BLAS. Elements between the rows (columns) of `C` are left unchanged. The same input on the same device gives
/// the same bits. `O(m * n * k)` work.
///
/// `alpha` and `beta` are host scalars, [`DeviceScalar`](crate::DeviceScalar)s, or a [`Factor`](crate::Factor) made of them; those in
/// device memory cost a temporary product and a pass over `C`, an `alpha` there another; the bits are the same.
///
/// On a GPU the product is queued on the stream of `C`, and nothing waits. Products with split sums use a workspace of
/// the stream, which grows only if a product needs more than any before. The CPU uses the crate `matrixmultiply`; with
/// the feature `rayon`, all cores share the blocks of `C`.
///
/// On compute capability 8.0 and 9.0 (A100, H100, H200) large products in `f64` run on the tensor cores, which fuse and round like `fma`.
/// Those in `f32` run on the other units of a multiprocessor, unless [`GemmOptions::tensor_cores`] demands them.
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
/// // The transpose of A, and a column-major C.
/// gemm(1.0, a.matrix((2, 2))?.transpose(), b.matrix((2, 2))?, 0.0, c.matrix_mut(DenseLayout::column_major(2, 2))?)?;
/// assert_eq!(c.to_vec()?, [26.0, 38.0, 30.0, 44.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// # Errors
/// [`LengthMismatch`](crate::Error::LengthMismatch) if the sizes do not match;
/// [`DeviceMismatch`](crate::Error::DeviceMismatch) if an argument is on another device;
/// [`Unsupported`](crate::Error::Unsupported) for sizes and leading dimensions of 2^31 and more, except on the CPU;
/// [`OutOfMemory`](crate::Error::OutOfMemory) if there is no room for a workspace or a temporary product;
/// [`DriverTooOld`](crate::Error::DriverTooOld) and [`Driver`](crate::Error::Driver) at the first use of a kernel.
pub fn gemm<'f, 'a, 'b, 'c, T: Scalar>(
    alpha: impl IntoFactor<'f, T>,
    a: impl Into<DenseRef<'a, T>>,
    b: impl Into<DenseRef<'b, T>>,
    beta: impl IntoFactor<'f, T>,
    c: impl Into<DenseMut<'c, T>>,
) -> Result<()> {
    gemm_with(&GemmOptions::default(), alpha, a, b, beta, c)
}

/// Computes [`gemm`] with the tile, the split-k and the units of the options.
///
/// # Errors
/// As [`gemm`]; [`InvalidOption`](crate::Error::InvalidOption) for a tile without a kernel, or split_k out of range;
/// [`Unsupported`](crate::Error::Unsupported) if the options demand tensor cores and the GPU has none for the type, or none that speed up `f64`.
pub fn gemm_with<'f, 'a, 'b, 'c, T: Scalar>(
    options: &GemmOptions,
    alpha: impl IntoFactor<'f, T>,
    a: impl Into<DenseRef<'a, T>>,
    b: impl Into<DenseRef<'b, T>>,
    beta: impl IntoFactor<'f, T>,
    c: impl Into<DenseMut<'c, T>>,
) -> Result<()> {
    let (a, b, c) = (a.into(), b.into(), c.into());
    check(&a, &b, &c)?;
    scaled((alpha.into_factor(), beta.into_factor()), c, TimesZero::Zero, |alpha, beta, c| {
        Plan::new(options, a, b, &c)?.run(Product { alpha, a, b, beta, c })
    })
}

impl<T: Scalar> DenseRef<'_, T> {
    /// Computes `C = alpha * A * B + beta * C`: see [`gemm`].
    ///
    /// # Errors
    /// As [`gemm`].
    pub fn gemm<'f, 'b, 'c>(
        self,
        alpha: impl IntoFactor<'f, T>,
        b: impl Into<DenseRef<'b, T>>,
        beta: impl IntoFactor<'f, T>,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        gemm(alpha, self, b, beta, c)
    }
}

impl<T: Scalar> DeviceDense<T> {
    /// Computes `C = alpha * A * B + beta * C`: see [`gemm`](crate::gemm).
    ///
    /// # Errors
    /// As [`gemm`](crate::gemm).
    pub fn gemm<'f, 'b, 'c>(
        &self,
        alpha: impl IntoFactor<'f, T>,
        b: impl Into<DenseRef<'b, T>>,
        beta: impl IntoFactor<'f, T>,
        c: impl Into<DenseMut<'c, T>>,
    ) -> Result<()> {
        self.view().gemm(alpha, b, beta, c)
    }
}

/// Returns the kernel that [`gemm_with`] uses for these matrices, and why.
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
        Backend::Cpu { .. } => {
            gpu::check_options(options, a, b, c)?;
            Ok(cpu::choice(c.nrows(), c.ncols()))
        }
        _ => gpu::choice(options, a, b, c),
    }
}

/// `C = alpha * A * B + beta * C`, where the sizes fit and all arguments are on one device.
pub(crate) struct Product<'a, T> {
    pub(crate) alpha: T,
    pub(crate) a: DenseRef<'a, T>,
    pub(crate) b: DenseRef<'a, T>,
    pub(crate) beta: T,
    pub(crate) c: DenseMut<'a, T>,
}

/// How a product is computed.
enum Plan {
    /// There are no elements to compute.
    Nothing,
    Cpu,
    Gpu(gpu::Plan),
}

impl Plan {
    /// For matrices such as these. Wrong options are errors also where nothing is computed.
    fn new<T: Scalar>(
        options: &GemmOptions,
        a: DenseRef<'_, T>,
        b: DenseRef<'_, T>,
        c: &DenseMut<'_, T>,
    ) -> Result<Self> {
        let is_empty = c.nrows() == 0 || c.ncols() == 0;
        match c.device().backend() {
            Backend::Cpu { .. } => {
                gpu::check_options(options, a, b, c)?;
                Ok(if is_empty { Self::Nothing } else { Self::Cpu })
            }
            _ if is_empty => gpu::Plan::new(options, a, b, c).map(|_| Self::Nothing),
            _ => Ok(Self::Gpu(gpu::Plan::new(options, a, b, c)?)),
        }
    }

    fn run<T: Scalar>(&self, product: Product<'_, T>) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Cpu => {
                cpu::gemm(product);
                Ok(())
            }
            Self::Gpu(plan) => plan.run(product),
        }
    }
}

fn check<T: Scalar>(a: &DenseRef<'_, T>, b: &DenseRef<'_, T>, c: &DenseMut<'_, T>) -> Result<()> {
    check_length("the column of B", a.ncols(), b.nrows())?;
    check_length("the column of C", a.nrows(), c.nrows())?;
    check_length("the row of C", b.ncols(), c.ncols())?;
    c.device().check_same("A", a.device())?;
    c.device().check_same("B", b.device())
}

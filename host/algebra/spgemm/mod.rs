//! Products of sparse matrices.

mod cpu;
mod gpu;

use std::sync::Arc;

use kernels_gpu::spgemm_common::semiring;

use crate::{
    CsrMatrix, Device, DeviceMatrix, Error, HostMatrix, Result, Scalar, device,
    stored::{Csr, CsrArrays, Stored},
};

/// What stands for the sum and the product in a product of matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Semiring {
    /// The sum of products.
    #[default]
    PlusTimes,
    /// The least of sums, as for shortest paths. NaN is left out; of nothing else, infinity.
    MinPlus,
    /// The greatest of products. NaN is left out; of nothing else, minus infinity.
    MaxTimes,
    /// 1 if any product has two factors that are not 0, otherwise 0.
    OrAnd,
}

impl Semiring {
    /// The kernels' number.
    fn number(self) -> u32 {
        match self {
            Self::PlusTimes => semiring::PLUS_TIMES,
            Self::MinPlus => semiring::MIN_PLUS,
            Self::MaxTimes => semiring::MAX_TIMES,
            Self::OrAnd => semiring::OR_AND,
        }
    }
}

/// Options of [`DeviceMatrix::multiply_with`] and [`SpgemmPlan::with`].
#[derive(Debug)]
pub struct SpgemmOptions<'m, T> {
    semiring: Semiring,
    mask: Option<&'m DeviceMatrix<T>>,
}

impl<T> Default for SpgemmOptions<'_, T> {
    fn default() -> Self {
        Self { semiring: Semiring::default(), mask: None }
    }
}

impl<T> Clone for SpgemmOptions<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SpgemmOptions<'_, T> {}

impl<'m, T> SpgemmOptions<'m, T> {
    /// Computes in another semiring than that of sums and products.
    #[must_use]
    pub fn semiring(self, semiring: Semiring) -> Self {
        Self { semiring, ..self }
    }

    /// Computes only entries that the mask has, whatever their values there: the result has an entry where the mask has one and there is a product.
    #[must_use]
    pub fn mask(self, mask: &'m DeviceMatrix<T>) -> Self {
        Self { mask: Some(mask), ..self }
    }
}

/// The pattern of a product of two sparse matrices, for products of other values on the same patterns.
///
/// It keeps the arrays of both matrices. New values are best written [into them](DeviceMatrix::update_values); other matrices are
/// compared with them first.
#[derive(Debug)]
pub struct SpgemmPlan<T> {
    device: Device,
    /// Rows and columns of A, columns of B.
    shape: [usize; 3],
    semiring: Semiring,
    plan: Plan<T>,
}

#[derive(Debug)]
enum Plan<T> {
    Cpu(cpu::Plan<T>),
    Device(Box<gpu::Plan<T>>),
}

/// The pattern of a product on a GPU or in the emulator, without the matrices.
#[derive(Debug)]
pub(crate) struct ProductPattern(gpu::Pattern);

impl ProductPattern {
    /// The bytes of its arrays.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Two matrices, and perhaps a mask.
enum Operands<'a, T> {
    Host([&'a CsrMatrix<T>; 2], Option<&'a CsrMatrix<T>>),
    Device([&'a Arc<CsrArrays<T, u32>>; 2], Option<&'a Arc<CsrArrays<T, u32>>>),
}

impl<T: Scalar> SpgemmPlan<T> {
    /// Computes the pattern of `C = A * B`.
    ///
    /// # Errors
    /// As [`DeviceMatrix::multiply`].
    pub fn new(a: &DeviceMatrix<T>, b: &DeviceMatrix<T>) -> Result<Self> {
        Self::with(a, b, &SpgemmOptions::default())
    }

    /// Computes the pattern of `C = A * B` with options.
    ///
    /// # Errors
    /// As [`DeviceMatrix::multiply_with`].
    pub fn with(a: &DeviceMatrix<T>, b: &DeviceMatrix<T>, options: &SpgemmOptions<'_, T>) -> Result<Self> {
        device::refuse("a product whose size the host must know")?;
        let SpgemmOptions { semiring, mask } = *options;
        let (device, shape) = (a.device().clone(), [a.nrows(), a.ncols(), b.ncols()]);
        let plan = match operands(a, b, mask)? {
            Operands::Host([a, b], mask) => Plan::Cpu(cpu::Plan::new(&device, a, b, mask)?),
            Operands::Device([a, b], mask) => Plan::Device(Box::new(gpu::Plan::new(a, b, mask.map(|mask| &**mask))?)),
        };
        Ok(Self { device, shape, semiring, plan })
    }

    /// Returns the number of entries of the product.
    #[must_use]
    pub fn nnz(&self) -> usize {
        match &self.plan {
            Plan::Cpu(plan) => plan.nnz(),
            Plan::Device(plan) => plan.nnz(),
        }
    }

    /// Returns the product of matrices with the patterns of the plan's.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if a pattern is another; [`Error::LengthMismatch`], [`Error::DeviceMismatch`], [`Error::Unsupported`],
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn multiply(&self, a: &DeviceMatrix<T>, b: &DeviceMatrix<T>) -> Result<DeviceMatrix<T>> {
        self.check(a, b)?;
        match (&self.plan, operands(a, b, None)?) {
            (Plan::Cpu(plan), Operands::Host([a, b], _)) => plan.multiply(&self.device, self.semiring, a, b),
            (Plan::Device(plan), Operands::Device([a, b], _)) => plan.multiply(self.semiring, a, b),
            _ => unreachable!("the devices are the same"),
        }
    }

    /// Computes the values of `c`, a product of this plan, again.
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply); [`Error::InvalidOption`] if `c` is not of this plan.
    pub fn compute(&self, a: &DeviceMatrix<T>, b: &DeviceMatrix<T>, c: &mut DeviceMatrix<T>) -> Result<()> {
        self.check(a, b)?;
        self.device.check_same("C", c.device())?;
        let is_own = match (&self.plan, c.stored()) {
            (Plan::Cpu(plan), Stored::Host(HostMatrix::Csr(c))) => plan.has_made(c),
            (Plan::Cpu(plan), Stored::Host(HostMatrix::Csr64(c))) => plan.has_made64(c),
            (Plan::Device(plan), Stored::Device(c)) => plan.has_made(&**c),
            _ => false,
        };
        if !is_own {
            return Err(Error::InvalidOption(
                "C is not a product of this plan: make it by SpgemmPlan::multiply".into(),
            ));
        }
        match (&self.plan, operands(a, b, None)?, c.stored()) {
            (Plan::Cpu(plan), Operands::Host([a, b], _), _) => {
                *c = plan.multiply(&self.device, self.semiring, a, b)?;
                Ok(())
            }
            (Plan::Device(plan), Operands::Device([a, b], _), Stored::Device(c)) => {
                plan.compute(self.semiring, a, b, &**c)
            }
            _ => unreachable!("the devices are the same"),
        }
    }

    fn check(&self, a: &DeviceMatrix<T>, b: &DeviceMatrix<T>) -> Result<()> {
        device::check_length("the rows of A", self.shape[0], a.nrows())?;
        device::check_length("the columns of A", self.shape[1], a.ncols())?;
        device::check_length("the columns of B", self.shape[2], b.ncols())?;
        self.device.check_same("A", a.device())
    }
}

impl<T: Scalar> DeviceMatrix<T> {
    /// Returns the sparse product `C = A * B`, with ascending columns in every row.
    ///
    /// `C` has an entry wherever there is a product, also if it is 0. The products of an entry are rounded and added one by one, in the order of the
    /// entries of `A` in the row: the same bits on every device, in every run. A matrix of 2³² entries or more has 64-bit offsets. Both matrices are in
    /// CSR with 32-bit offsets, and the columns of each row of `B` ascend strictly; `A` may have duplicates.
    ///
    /// `O(products)` work; waits for the number of entries. On a GPU the workspace is at most [`WORKSPACE_BYTES`](Self::WORKSPACE_BYTES) and a quarter of
    /// the size of `C`, 40 bytes per row of `A`, and 16 per 384 entries of `C`. The method is Gustavson's, "Two Fast Algorithms for Sparse Matrices" (1978), with
    /// kernels by length of row as in Nagasaka, Nukada & Matsuoka (2017) and in Parger et al., "spECK" (2020).
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 3], vec![0, 1, 1], vec![1.0f64, 2.0, 3.0])?;
    /// let a = Device::auto().upload(&a)?;
    /// let c = a.multiply(&a)?.download()?.into_csr()?;
    /// assert_eq!((c.col_indices(), c.values()), (&[0, 1, 1][..], &[1.0, 8.0, 9.0][..]));
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if `B` has not as many rows as `A` has columns, [`Error::DeviceMismatch`], [`Error::Unsupported`] for other formats and
    /// for a `B` whose columns do not ascend strictly; [`Error::OutOfMemory`] before anything is computed if `C` does not fit, with its size;
    /// [`Error::InvalidOption`] while a graph is recorded; [`Error::Driver`].
    pub fn multiply(&self, b: &Self) -> Result<Self> {
        self.multiply_with(b, &SpgemmOptions::default())
    }

    /// Returns the product as [`multiply`](Self::multiply), under a mask or in another semiring.
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply), also for the mask, which has the shape of `C` and ascending columns.
    pub fn multiply_with(&self, b: &Self, options: &SpgemmOptions<'_, T>) -> Result<Self> {
        device::refuse("a product whose size the host must know")?;
        let SpgemmOptions { semiring, mask } = *options;
        match operands(self, b, mask)? {
            Operands::Host([a, b], mask) => {
                cpu::Plan::new(self.device(), a, b, mask)?.multiply(self.device(), semiring, a, b)
            }
            Operands::Device([a, b], mask) => {
                let mask = mask.map(|mask| &**mask);
                Ok(gpu::Pattern::with_product(a, b, mask, semiring)?.1)
            }
        }
    }

    /// The [product](Self::multiply) of matrices whose product has the pattern of `c`, which is one of the same patterns: only values are computed.
    pub(crate) fn multiply_on(&self, b: &Self, c: &Self) -> Result<Self> {
        match (operands(self, b, None)?, c.csr()) {
            (Operands::Device([a, b], _), Some(Csr::Device(pattern))) => {
                Ok(Self::of_csr_like(gpu::on_pattern(a, b, pattern)?, c))
            }
            (Operands::Host([a, b], _), Some(Csr::Host(pattern))) => cpu::on_pattern(self.device(), a, b, pattern),
            _ => self.multiply(b),
        }
    }

    /// The [product](Self::multiply) with the pattern that another of the same patterns has left here, or that this one leaves. The CPU leaves none.
    pub(crate) fn multiply_keeping(&self, b: &Self, kept: &mut Option<Arc<ProductPattern>>) -> Result<Self> {
        match (operands(self, b, None)?, &kept) {
            (Operands::Device([a, b], _), Some(pattern)) => pattern.0.multiply(Semiring::PlusTimes, a, b),
            (Operands::Device([a, b], _), None) => {
                let (pattern, product) = gpu::Pattern::with_product(a, b, None, Semiring::PlusTimes)?;
                *kept = Some(Arc::new(ProductPattern(pattern)));
                Ok(product)
            }
            (Operands::Host(..), _) => self.multiply(b),
        }
    }

    /// The most bytes of columns and bitmaps that [`multiply`](Self::multiply) keeps between its passes; what does not fit is computed twice.
    pub const WORKSPACE_BYTES: u64 = gpu::WORKSPACE_BYTES;
}

/// `R A P` without `A P`, where that is possible.
pub(super) fn triple<T: Scalar>(
    r: &DeviceMatrix<T>,
    a: &DeviceMatrix<T>,
    p: &DeviceMatrix<T>,
) -> Result<Option<DeviceMatrix<T>>> {
    let fits = r.ncols() == a.nrows() && r.device().check_same("A", a.device()).is_ok();
    match (operands(a, p, None)?, r.csr()) {
        (Operands::Device([a, p], _), Some(Csr::Device(r))) if fits => gpu::triple::multiply(r, a, p),
        _ => Ok(None),
    }
}

/// Both matrices in CSR, if they can be multiplied.
fn operands<'a, T: Scalar>(
    a: &'a DeviceMatrix<T>,
    b: &'a DeviceMatrix<T>,
    mask: Option<&'a DeviceMatrix<T>>,
) -> Result<Operands<'a, T>> {
    device::check_length("B, in rows,", a.ncols(), b.nrows())?;
    a.device().check_same("B", b.device())?;
    if let Some(mask) = mask {
        device::check_length("the mask, in rows,", a.nrows(), mask.nrows())?;
        device::check_length("the mask, in columns,", b.ncols(), mask.ncols())?;
        a.device().check_same("the mask", mask.device())?;
    }
    let in_csr = |name: &str, matrix: &'a DeviceMatrix<T>| {
        matrix.csr().ok_or_else(|| {
            let way_out = "download it, convert it by into_csr, and upload that";
            Error::Unsupported(format!("a sparse product where {name} is not in CSR with 32-bit offsets: {way_out}"))
        })
    };
    let canonical = |name: &str, matrix: &'a DeviceMatrix<T>| {
        let csr = in_csr(name, matrix)?;
        let is_canonical = match &csr {
            Csr::Host(matrix) => matrix.is_canonical(),
            Csr::Device(arrays) => arrays.is_canonical()?,
        };
        if !is_canonical {
            let problem = "has rows whose columns do not ascend strictly: upload CsrMatrix::canonical() of it";
            return Err(Error::Unsupported(format!("a sparse product where {name} {problem}")));
        }
        Ok(csr)
    };
    let mask = mask.map(|mask| canonical("the mask", mask)).transpose()?;
    match (in_csr("A", a)?, canonical("B", b)?, mask) {
        (Csr::Host(a), Csr::Host(b), None) => Ok(Operands::Host([a, b], None)),
        (Csr::Host(a), Csr::Host(b), Some(Csr::Host(mask))) => Ok(Operands::Host([a, b], Some(mask))),
        (Csr::Device(a), Csr::Device(b), None) => Ok(Operands::Device([a, b], None)),
        (Csr::Device(a), Csr::Device(b), Some(Csr::Device(mask))) => Ok(Operands::Device([a, b], Some(mask))),
        _ => unreachable!("the devices are the same"),
    }
}

/// What does not fit, with the size of the product.
fn too_large(error: Error, products: u64, entries: u64, size: usize) -> Error {
    match error {
        Error::OutOfMemory { device, available, .. } => {
            let device = format!("{device}, for a product of {products} products and {entries} entries or more");
            Error::OutOfMemory { device, requested: entries.saturating_mul(4 + size as u64), available }
        }
        other => other,
    }
}

fn other_pattern(name: &str) -> Error {
    Error::InvalidOption(format!("the pattern of {name} is not that of the plan: make a new SpgemmPlan"))
}

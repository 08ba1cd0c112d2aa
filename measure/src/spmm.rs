//! Products with dense matrices.

use serde::Serialize;
use warpsparse::{
    CsrMatrix, DenseMut, DenseRef, Device, DeviceMatrix, DeviceVec, Result, Scalar, SpmmOptions, Weights,
    io::MatrixSource,
};

use super::{
    Measurement, ProductReport, load,
    random::random_elements,
    reference::{Reduction, Reference, read},
};

/// The most columns of a dense matrix that a command line may name.
pub const MAX_COLUMNS: i64 = 1 << 16;

/// A matrix, and elements for the dense matrices that it is multiplied by.
#[derive(Debug)]
pub struct DenseProblems<T> {
    /// The matrix.
    pub matrix: CsrMatrix<T>,
    /// Of them each `B` has the first ones, as many as it needs.
    elements: Vec<T>,
}

/// A matrix, a row-major `B`, and what their product or another reduction is, or many rows of it.
#[derive(Debug)]
pub struct DenseProblem<'a, T> {
    /// The matrix.
    pub matrix: &'a CsrMatrix<T>,
    /// Columns of `B`.
    pub cols: usize,
    /// `B`, row by row.
    pub b: &'a [T],
    reduction: Reduction,
    /// Bytes that one product must move at least.
    pub bytes: usize,
    /// What the product is.
    pub reference: Reference,
}

impl<T: Scalar> DenseProblems<T> {
    /// The matrix of this source, and random numbers from -1 to 1 for a `B` of up to `most_cols` columns.
    pub fn load(source: &MatrixSource, most_cols: usize) -> Result<Self> {
        let matrix = load::<T>(source)?;
        let elements = random_elements(matrix.ncols().saturating_mul(most_cols), 0)?;
        Ok(Self { matrix, elements })
    }

    /// With a `B` of `cols` columns.
    pub fn with_cols(&self, cols: usize) -> Result<DenseProblem<'_, T>> {
        self.problem(&self.matrix, cols, Reduction::PRODUCT)
    }

    /// With a `B` of `cols` columns and another matrix of as many columns as the given one.
    pub fn with_matrix<'a>(&'a self, matrix: &'a CsrMatrix<T>, cols: usize) -> Result<DenseProblem<'a, T>> {
        self.problem(matrix, cols, Reduction::PRODUCT)
    }

    /// With a `B` of `cols` columns, reduced in another way than to a product.
    pub fn reduced(&self, cols: usize, reduction: Reduction) -> Result<DenseProblem<'_, T>> {
        let mut problem = self.problem(&self.matrix, cols, reduction)?;
        if reduction.weights == Weights::Ones {
            problem.bytes -= size_of_val(self.matrix.values());
        }
        Ok(problem)
    }

    fn problem<'a>(
        &'a self,
        matrix: &'a CsrMatrix<T>,
        cols: usize,
        reduction: Reduction,
    ) -> Result<DenseProblem<'a, T>> {
        /// Products of elements that the reference takes about, so that it takes a second at most.
        const REFERENCE: usize = 1 << 26;
        let b = &self.elements[..matrix.ncols() * cols];
        // On the CPU the matrix is shared, so that this copies nothing.
        let bytes = Device::cpu().upload(matrix)?.spmm_bytes(cols);
        let reference = Reference::of_reduction(reduction, matrix, b, cols, REFERENCE);
        Ok(DenseProblem { matrix, cols, b, reduction, bytes, reference })
    }
}

/// A product with a dense matrix, measured.
#[derive(Clone, Debug, Serialize)]
pub struct DenseReport {
    /// Its kernel, time and errors.
    #[serde(flatten)]
    pub product: ProductReport,
    /// Two operations for each entry of the matrix and column of `B`, one where entries have no weights.
    pub gflop_per_s: f64,
    /// Samples timed.
    pub repeats: usize,
    /// Rows of the product that the errors are those of.
    pub checked_rows: usize,
}

impl<T: Scalar> Measurement<'_, DenseProblem<'_, T>> {
    /// Measures the kernel that `options` lead to, on copies of the matrix and of `B`, to which those are added that are
    /// missing.
    pub fn product(
        &self,
        matrices: &mut Vec<DeviceMatrix<T>>,
        dense: &mut Vec<DeviceVec<T>>,
        options: &SpmmOptions,
    ) -> Result<DenseReport> {
        let cols = self.problem.cols;
        self.fill(matrices, || self.device.upload(self.problem.matrix))?;
        let rotation = self.rotation(self.problem.bytes);
        let plans = matrices[..rotation].iter().map(|matrix| matrix.spmm_plan(cols, options));
        let plans = plans.collect::<Result<Vec<_>>>()?;
        let choice = plans[0].describe().clone();
        self.product_by((choice.kernel, choice.reason), &plans, dense, |plan, b, c| {
            plan.multiply(T::from_f64(1.0), b, T::from_f64(0.0), c)
        })
    }

    /// Measures the problem's reduction.
    pub fn reduction(&self) -> Result<DenseReport> {
        let Reduction { reduce, weights } = self.problem.reduction;
        let (mut matrices, mut dense) = (Vec::new(), Vec::new());
        self.fill(&mut matrices, || self.device.upload(self.problem.matrix))?;
        let (kernel, reason) = match self.device.to_string().as_str() {
            "cpu" => ("cpu_spmm_csr", "the CPU's only kernel"),
            _ => ("spmm_csr_reduce", "the only kernels for reductions, the tile as it suits the columns"),
        };
        self.product_by((kernel.into(), reason.into()), &matrices, &mut dense, |matrix, b, c| {
            matrix.spmm_reduce(reduce, weights, b, c, None)
        })
    }

    /// Adds the copies that are missing, of as many as products go round.
    ///
    /// # Errors
    /// Those of `copy`.
    pub fn fill<M>(&self, copies: &mut Vec<M>, copy: impl Fn() -> Result<M>) -> Result<()> {
        while copies.len() < self.rotation(self.problem.bytes) {
            copies.push(copy()?);
        }
        Ok(())
    }

    /// Measures what `multiply` makes of copies of the matrix, as many as products go round, by a kernel that is taken for a reason; copies of
    /// `B` are added that are missing.
    ///
    /// # Errors
    /// Those of `multiply`; [`OutOfMemory`](warpsparse::Error::OutOfMemory).
    pub fn product_by<M>(
        &self,
        (kernel, reason): (String, String),
        matrices: &[M],
        dense: &mut Vec<DeviceVec<T>>,
        multiply: impl Fn(&M, DenseRef<'_, T>, DenseMut<'_, T>) -> Result<()>,
    ) -> Result<DenseReport> {
        let &DenseProblem { matrix, cols, b, bytes, reduction, ref reference, .. } = self.problem;
        let rotation = self.rotation(bytes);
        self.fill(dense, || self.device.upload_vec(b))?;
        let c_size = (matrix.nrows(), cols);
        // New ones, so that what is checked below is the result of this kernel.
        let c = (0..rotation).map(|_| self.device.zeros(c_size.0 * c_size.1));
        let mut c = c.collect::<Result<Vec<_>>>()?;
        let times = self.times(self.device, rotation, |set| {
            multiply(&matrices[set], dense[set].matrix((matrix.ncols(), cols))?, c[set].matrix_mut(c_size)?)
        })?;

        let figures = self.figures(&times, bytes, &reference.errors(&read(&c[0], reference.places())?));
        let operations = if reduction.weights == Weights::Ones { 1.0 } else { 2.0 };
        Ok(DenseReport {
            gflop_per_s: 1e-3 * operations * (matrix.nnz() * cols) as f64 / figures.timing.time_us.median,
            product: ProductReport { kernel, reason, bytes, rotation, figures },
            repeats: times.each.len(),
            checked_rows: reference.known_rows(),
        })
    }
}

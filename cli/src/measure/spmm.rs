//! Products with dense matrices.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rayon::prelude::*;
use serde::Serialize;
use warpsparse::{CsrMatrix, Device, DeviceMatrix, DeviceVec, Error, Result, Scalar, SpmmOptions, io::MatrixSource};

use super::{Measurement, ProductReport, reference::Reference};
use crate::source;

/// A matrix, and elements for the dense matrices that it is multiplied by.
pub(crate) struct DenseProblems<T> {
    pub(crate) matrix: CsrMatrix<T>,
    /// Of them each `B` has the first ones, as many as it needs.
    elements: Vec<T>,
}

/// A matrix, a row-major `B`, and what their product is, or many rows of it.
pub(crate) struct DenseProblem<'a, T> {
    pub(crate) matrix: &'a CsrMatrix<T>,
    pub(crate) cols: usize,
    pub(crate) b: &'a [T],
    /// Bytes that one product must move at least.
    pub(crate) bytes: usize,
    pub(crate) reference: Reference,
}

impl<T: Scalar> DenseProblems<T> {
    /// The matrix of this source, and random numbers from -1 to 1 for a `B` of up to `most_cols` columns.
    pub(crate) fn load(source: &MatrixSource, most_cols: usize) -> Result<Self> {
        /// Each piece of the elements has a seed of its own, so that threads share the work.
        const PIECE: usize = 1 << 16;
        let matrix = source::load::<T>(source)?;
        let mut elements = zeros(matrix.ncols().saturating_mul(most_cols))?;
        elements.par_chunks_mut(PIECE).enumerate().for_each(|(seed, elements)| {
            let mut random = Pcg64::seed_from_u64(seed as u64);
            elements.fill_with(|| T::from_f64(random.random_range(-1.0..1.0)));
        });
        Ok(Self { matrix, elements })
    }

    /// With a `B` of `cols` columns.
    pub(crate) fn with_cols(&self, cols: usize) -> Result<DenseProblem<'_, T>> {
        /// Products of elements that the reference takes about, so that it takes a second at most.
        const REFERENCE: usize = 1 << 26;
        let Self { matrix, elements } = self;
        let b = &elements[..matrix.ncols() * cols];
        // On the CPU the matrix is shared, so that this copies nothing.
        let bytes = Device::cpu().upload(matrix)?.spmm_bytes(cols);
        Ok(DenseProblem { matrix, cols, b, bytes, reference: Reference::new(matrix, b, cols, REFERENCE) })
    }
}

/// As many may be more than the host has room for.
fn zeros<T: Scalar>(count: usize) -> Result<Vec<T>> {
    let requested = count.saturating_mul(size_of::<T>()) as u64;
    let out_of_memory = |_| Error::OutOfMemory { device: Device::cpu().to_string(), requested, available: None };
    Vec::<T>::new().try_reserve_exact(count).map_err(out_of_memory)?;
    // Zeros that the system gives, so that the threads that fill them are the first to touch them.
    Ok(vec![T::default(); count])
}

/// A product with a dense matrix, measured.
#[derive(Clone, Serialize)]
pub(crate) struct DenseReport {
    #[serde(flatten)]
    pub(crate) product: ProductReport,
    /// Two operations for each entry of the matrix and column of `B`.
    pub(crate) gflop_per_s: f64,
    /// Products timed.
    pub(crate) repeats: usize,
    /// Rows of the product that the errors are those of.
    pub(crate) checked_rows: usize,
}

impl<T: Scalar> Measurement<'_, DenseProblem<'_, T>> {
    /// Measures the kernel that `options` lead to, on copies of the matrix, to which those are added that are missing.
    pub(crate) fn product(&self, matrices: &mut Vec<DeviceMatrix<T>>, options: &SpmmOptions) -> Result<DenseReport> {
        let &DenseProblem { matrix, cols, bytes, ref reference, .. } = self.problem;
        let rotation = self.rotation(bytes);
        while matrices.len() < rotation {
            matrices.push(self.device.upload(matrix)?);
        }
        let matrices = &matrices[..rotation];
        let choice = matrices[0].prepare_spmm(cols, options)?;
        matrices[1..].iter().try_for_each(|matrix| matrix.prepare_spmm(cols, options).map(drop))?;

        let mut dense = self.dense_matrices(rotation)?;
        let mut multiply = |set: usize| {
            let (b, c) = &mut dense[set % rotation];
            let (b, c) = (b.matrix((matrix.ncols(), cols))?, c.matrix_mut((matrix.nrows(), cols))?);
            matrices[set % rotation].spmm(T::from_f64(1.0), b, T::from_f64(0.0), c)
        };
        let times = self.times(rotation, |count| self.device.time_each(count, &mut multiply))?;

        let known = reference.pick(&dense[0].1.to_vec()?);
        let figures = self.figures(&times, bytes, &reference.errors(&known));
        Ok(DenseReport {
            gflop_per_s: 2e-3 * (matrix.nnz() * cols) as f64 / figures.time_us.median,
            product: ProductReport { kernel: choice.kernel, reason: choice.reason, bytes, rotation, figures },
            repeats: times.len(),
            checked_rows: reference.known_rows(),
        })
    }

    /// Each `B` with its `C`. An element is added to both: a `B` of one column that fills its vector would be multiplied as
    /// a vector.
    fn dense_matrices(&self, count: usize) -> Result<Vec<(DeviceVec<T>, DeviceVec<T>)>> {
        let &DenseProblem { matrix, cols, b, .. } = self.problem;
        let one_column = (cols == 1).then(|| [b, &[T::default()]].concat());
        let b = one_column.as_deref().unwrap_or(b);
        let pair = |_| Ok((self.device.upload_vec(b)?, self.device.zeros(matrix.nrows() * cols + 1)?));
        (0..count).map(pair).collect()
    }
}

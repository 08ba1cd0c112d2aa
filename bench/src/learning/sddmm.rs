//! Sampled dense-dense products, compared with cuSPARSE's.

use measure::{
    Errors, Figures, Measurement, random_elements,
    reference::{bound, spread},
};
use warpsparse::{Adjacency, CsrMatrix, Error, Result, Scalar, io::MatrixSource};

use super::{LEAST, report::Product};
use crate::{baselines::Number, session::Session, suite};

/// Entries of a result that are compared.
const CHECKED: usize = 1 << 16;

/// A matrix at whose entries the dot products of rows of `x` and of `y`, of `k` elements each, are sampled.
pub(crate) struct SddmmProblem<'a, T> {
    pub(crate) matrix: &'a CsrMatrix<T>,
    pub(crate) k: usize,
    pub(crate) x: &'a [T],
    pub(crate) y: &'a [T],
    /// That must move at least: offsets and columns, `x` and `y` once, and the result.
    pub(crate) bytes: usize,
    /// Entries, and what is expected there, with what it may be off.
    places: Vec<usize>,
    expected: Vec<(f64, f64)>,
}

impl<'a, T: Scalar> SddmmProblem<'a, T> {
    fn new(matrix: &'a CsrMatrix<T>, k: usize, x: &'a [T], y: &'a [T]) -> Self {
        let (x, y) = (&x[..matrix.nrows() * k], &y[..matrix.ncols() * k]);
        let dot = |&entry: &usize| {
            let row = matrix.row_offsets().partition_point(|&offset| offset as usize <= entry) - 1;
            let column = matrix.col_indices()[entry] as usize;
            let products = (0..k).map(|c| x[row * k + c].to_f64() * y[column * k + c].to_f64());
            (products.clone().sum(), bound::<T>(k, products.map(f64::abs).sum()))
        };
        let places = spread(matrix.nnz(), CHECKED);
        let expected = places.iter().map(dot).collect();
        let bytes = 4 * (matrix.nrows() + 1 + matrix.nnz()) + size_of::<T>() * (matrix.nnz() + x.len() + y.len());
        Self { matrix, k, x, y, bytes, places, expected }
    }

    /// Of all values of a result.
    pub(crate) fn errors(&self, found: &[T]) -> Errors {
        Errors::of(self.places.iter().map(|&place| found[place]), &self.expected)
    }
}

/// Measures products with each `k`.
pub(super) fn products<T: Number>(
    session: &mut Session<'_>,
    source: &MatrixSource,
    all: &[u32],
) -> Result<Vec<Product>> {
    let matrix = session.load(|| measure::load::<T>(source))?;
    let most = all.iter().max().map_or(0, |&k| k as usize);
    let x: Vec<T> = random_elements(matrix.nrows().saturating_mul(most), 1)?;
    let y: Vec<T> = random_elements(matrix.ncols().saturating_mul(most), 2)?;
    let (mut graphs, mut products) = (Vec::new(), Vec::new());
    for &k in all {
        let problem = SddmmProblem::new(&matrix, k as usize, &x, &y);
        let (name, measurement) = (suite::name(source), session.measurement_from(LEAST, &problem)?);
        let label = format!("{name}, k = {k}");
        match ours(&measurement, &mut graphs) {
            Ok(figures) => {
                let baselines = session.baselines.clone();
                let runs = |_| crate::baselines::sddmm_runs(&measurement);
                let cusparse = session.measure_baselines(&baselines, runs, &figures.timing, &label).pop();
                products.push(Product { name, k, entries: matrix.nnz(), figures, cusparse });
            }
            // Narrower ones may fit.
            Err(error @ Error::OutOfMemory { .. }) => session.skip(label, error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok(products)
}

/// On copies of the graph, to which those are added that are missing.
fn ours<T: Number>(measurement: &Measurement<'_, SddmmProblem<'_, T>>, graphs: &mut Vec<Adjacency>) -> Result<Figures> {
    let &SddmmProblem { matrix, k, x, y, bytes, .. } = measurement.problem;
    let (device, rotation) = (measurement.device, measurement.rotation(bytes));
    while graphs.len() < rotation {
        graphs.push(device.upload(matrix)?.adjacency()?);
    }
    let set = |_| {
        let (x, y) = (device.upload_dense((matrix.nrows(), k), x)?, device.upload_dense((matrix.ncols(), k), y)?);
        Ok((x, y, device.zeros_dense((matrix.nnz(), 1))?))
    };
    let mut sets = (0..rotation).map(set).collect::<Result<Vec<_>>>()?;
    let times = measurement.times(device, rotation, |set| {
        let (x, y, values) = &mut sets[set];
        graphs[set].sddmm(<T as Scalar>::from_f64(1.0), &*x, &*y, T::default(), values)
    })?;
    Ok(measurement.figures(&times, bytes, &measurement.problem.errors(&sets[0].2.to_vec()?)))
}

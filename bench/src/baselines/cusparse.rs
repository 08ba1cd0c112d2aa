//! NVIDIA's cuSPARSE, through its generic API: `cusparseSpMV`, `cusparseSpMM` and others on matrices in CSR and COO.
//!
//! The library is loaded when the program runs and need not be there. It works in the same context as our products (the
//! device's primary one), on a stream of its own, on sets of the same arrays, which are gone round just as ours are,
//! by the same clock.

mod library;
mod matrix;
mod product;
mod sddmm;
mod spgemm;
mod spmm;
mod spsv;

use cudarc::cusparse::sys::cusparseSpMVAlg_t as Algorithm;
use measure::{
    Measurement, Problem, Times,
    stream::{LibraryQueue, driver, library_error},
};
use warpsparse::{CooMatrix, CsrMatrix, Scalar};

use self::library::find_preprocess;
use super::Run;

pub(super) use self::{
    library::{Handle, describe},
    matrix::Number,
    product::{Product, Set},
    spmm::dense_runs,
};
pub(crate) use self::{sddmm::sddmm_runs, spgemm::spgemm_runs, spsv::spsv_run};

/// A format that cuSPARSE multiplies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csr,
    Coo,
}

impl Format {
    pub(super) const ALL: [Self; 2] = [Self::Csr, Self::Coo];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Csr => "CSR",
            Self::Coo => "COO",
        }
    }

    pub(super) fn algorithms(self) -> [(&'static str, Algorithm); 3] {
        match self {
            Self::Csr => [
                ("CSR, ALG_DEFAULT", Algorithm::CUSPARSE_SPMV_ALG_DEFAULT),
                ("CSR_ALG1", Algorithm::CUSPARSE_SPMV_CSR_ALG1),
                ("CSR_ALG2", Algorithm::CUSPARSE_SPMV_CSR_ALG2),
            ],
            Self::Coo => [
                ("COO, ALG_DEFAULT", Algorithm::CUSPARSE_SPMV_ALG_DEFAULT),
                ("COO_ALG1", Algorithm::CUSPARSE_SPMV_COO_ALG1),
                ("COO_ALG2", Algorithm::CUSPARSE_SPMV_COO_ALG2),
            ],
        }
    }

    /// What the columns and values lie beside in this format: the offsets of the rows, or a row for each entry.
    pub(super) fn rows<T: Scalar>(self, matrix: &CsrMatrix<T>) -> Vec<u32> {
        match self {
            Self::Csr => matrix.row_offsets().to_vec(),
            Self::Coo => CooMatrix::from(matrix).row_indices().to_vec(),
        }
    }

    /// Bytes that one product must move at least: the arrays of the matrix once, x and y once.
    fn bytes<T: Scalar>(self, problem: &Problem<T>) -> usize {
        let matrix = &problem.matrix;
        match self {
            Self::Csr => problem.bytes,
            Self::Coo => matrix.nnz() * (8 + size_of::<T>()) + (matrix.nrows() + matrix.ncols()) * size_of::<T>(),
        }
    }
}

/// What is compared must be there, and cuSPARSE be told of it in the indices that it is used with.
pub(super) fn check_size<T: Scalar>(matrix: &CsrMatrix<T>) -> Result<(), String> {
    if matrix.nnz() == 0 {
        return Err("the matrix has no entries".into());
    }
    if [matrix.nrows(), matrix.ncols(), matrix.nnz()].iter().any(|&count| i32::try_from(count).is_err()) {
        return Err("the matrix takes more than 32-bit signed indices".into());
    }
    Ok(())
}

/// Every algorithm on matrices in these formats, measured; those that cuSPARSE refuses are left out unless it refuses all.
pub(super) fn runs<T: Scalar + Number>(
    measurement: &Measurement<'_, Problem<T>>,
    formats: &[Format],
) -> Result<Vec<Run>, String> {
    let Problem { matrix, x, reference, .. } = measurement.problem;
    check_size(matrix)?;
    let queue = LibraryQueue::new(measurement.device)?;
    let handle = Handle::new(&queue.stream)?;
    let preprocessed = if find_preprocess().is_some() { ", preprocessed" } else { "" };
    let mut refusal = None;
    let mut runs = Vec::new();
    for &format in formats {
        let (bytes, rows) = (format.bytes(measurement.problem), format.rows(matrix));
        let sets = (0..measurement.rotation(bytes)).map(|_| Set::new(&queue.stream, matrix, x, format, &rows));
        let mut sets = sets.collect::<Result<Vec<_>, _>>()?;
        for (name, algorithm) in format.algorithms() {
            match run(measurement, &queue, &handle, &mut sets, algorithm) {
                Ok((times, y)) => {
                    let variant = format!("{name}{preprocessed}");
                    let figures = measurement.figures(&times, bytes, &reference.errors(&y));
                    runs.push(Run { variant, format: Some(format.name()), figures });
                }
                Err(problem) => refusal = Some(problem),
            }
        }
    }
    refusal.filter(|_| runs.is_empty()).map_or(Ok(runs), Err)
}

/// The times of the products, and the result.
fn run<T: Scalar + Number>(
    measurement: &Measurement<'_, Problem<T>>,
    queue: &LibraryQueue,
    handle: &Handle,
    sets: &mut [Set<T>],
    algorithm: Algorithm,
) -> Result<(Times, Vec<T>), String> {
    let stream = &queue.stream;
    // So that the result below is this algorithm's.
    stream.memset_zeros(&mut sets[0].y).map_err(driver("clearing the result"))?;

    let products = sets.iter_mut().map(|set| Product::new(handle, set, algorithm));
    let products = products.collect::<Result<Vec<_>, _>>()?;
    let multiply = |set: usize| products[set].multiply().map_err(library_error);
    let times = measurement.times(&queue.device, products.len(), multiply).map_err(|error| error.to_string())?;
    drop(products);
    let y = stream.clone_dtoh(&sets[0].y).map_err(driver("copying from the device"))?;
    Ok((times, y))
}

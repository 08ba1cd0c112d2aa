//! Conjugate gradients preconditioned by the diagonal (Jacobi), as programs have them that call NVIDIA's libraries: the
//! product by cuSPARSE, dot products and sums by cuBLAS, and the rest by kernels of our `cg_ladder`.
//!
//! ```text
//! q = A p              cusparseSpMV
//! pq = p . q           cuBLAS dot, or our own
//! alpha = rz / pq      on the host, or a kernel of one thread
//! x += alpha p         cuBLAS axpy
//! r -= alpha q         cuBLAS axpy
//! z[i] = r[i] / a[i,i] our kernel
//! rz = r . z           cuBLAS dot, or our own
//! beta = rz / old rz   on the host, or a kernel of one thread
//! p = z + beta p       cuBLAS scal and axpy
//! ```
//! All of it is queued on one stream of ours, which the libraries are told of, so that it can be recorded as one graph.

mod steps;
mod vectors;

use std::time::Duration;

use cudarc::cusparse::sys::cusparseSpMVAlg_t as Algorithm;
use ladders::CgSteps;
use measure::stream::{LibraryQueue, driver, library_error};
use warpsparse::{CsrMatrix, Device, Scalar};

use self::{
    steps::{Dots, Steps},
    vectors::Vectors,
};
use super::{
    Baseline, cublas,
    cusparse::{self, Format, Product, Set},
};

/// An element type that both libraries handle.
pub(crate) trait Number: Scalar + cublas::Number + cusparse::Number {}
impl<T: Scalar + cublas::Number + cusparse::Number> Number for T {}

/// A way to iterate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Dot products come to the host, which divides: three waits an iteration, with the residual. This is how NVIDIA's
    /// sample does it.
    HostSync,
    /// Scalars stay on the device. The host reads the residual every [`READ_EVERY`] iterations.
    DeviceScalars,
    /// As before, [`RECORDED`] iterations recorded as a CUDA graph.
    Captured,
    /// As [`DeviceScalars`](Self::DeviceScalars), with dot products of our own.
    OwnDots,
}

/// Iterations of a graph, as many as ours.
pub(crate) const RECORDED: usize = 8;

/// From one residual that the host reads to the next, in iterations: three graphs.
pub(crate) const READ_EVERY: usize = 3 * RECORDED;

#[cfg(test)]
impl Way {
    const ALL: [Self; 4] = [Self::HostSync, Self::DeviceScalars, Self::Captured, Self::OwnDots];
}

/// The libraries and their versions, or why they cannot be used.
pub(crate) fn describe(device: &Device) -> Result<String, String> {
    Ok(format!("{}; {}", Baseline::Cublas.describe(device)?, Baseline::Cusparse.describe(device)?))
}

/// A system of equations on the device, and the libraries to solve it with.
pub(crate) struct VendorCg<T> {
    blas: cublas::Handle,
    sparse: cusparse::Handle,
    algorithm: (&'static str, Algorithm),
    /// The matrix, `p` and `q`.
    set: Set<T>,
    vectors: Vectors<T>,
    kernels: CgSteps<T>,
    /// Last, for it has to outlive all that is on it.
    queue: LibraryQueue,
}

impl<T: Number> VendorCg<T> {
    /// Uploads the system `A x = b`, and finds out which algorithm of cuSPARSE multiplies fastest.
    ///
    /// # Errors
    /// Without the libraries or a GPU; if the matrix is not square, or too large for cuSPARSE's indices, or has a 0 on the
    /// diagonal; if `b` does not fit.
    pub(crate) fn new(matrix: &CsrMatrix<T>, b: &[T], device: &Device) -> Result<Self, String> {
        describe(device)?;
        cusparse::check_size(matrix)?;
        let (rows, columns) = (matrix.nrows(), matrix.ncols());
        if rows != columns || b.len() != rows {
            return Err(format!("a matrix of {rows} rows and {columns} columns, and {} right-hand sides", b.len()));
        }
        let inverse_diagonal = inverse_diagonal(matrix)?;

        let queue = LibraryQueue::new(device)?;
        let blas = cublas::Handle::new(&queue.stream)?;
        let sparse = cusparse::Handle::new(&queue.stream)?;
        let vectors = Vectors::new(&queue.stream, b, &inverse_diagonal)?;
        let (algorithm, set) = fastest(&queue, &sparse, matrix, b)?;
        let kernels = CgSteps::new(&queue.device).map_err(|error| error.to_string())?;
        Ok(Self { blas, sparse, algorithm, set, vectors, kernels, queue })
    }

    /// The algorithm of cuSPARSE that was the fastest.
    pub(crate) fn algorithm(&self) -> &'static str {
        self.algorithm.0
    }

    /// Prepares a way, loads its kernels, and calls `measure` with what iterates so often from `x` = 0 and says how long that took: wall
    /// time, from the start to the last iteration with the residuals read between, and not the recording of a graph.
    pub(crate) fn prepared<R>(
        &mut self,
        way: Way,
        measure: impl FnOnce(&mut dyn FnMut(usize) -> Result<Duration, String>) -> Result<R, String>,
    ) -> Result<R, String> {
        let dots = if way == Way::OwnDots { Dots::Own } else { Dots::Cublas };
        let (queue, blas, kernels) = (&self.queue, &self.blas, &self.kernels);
        let at = self.vectors.addresses(&queue.stream, &mut self.set);
        let product = Product::new(&self.sparse, &mut self.set, self.algorithm.1)?;
        // SAFETY: the addresses are of vectors of `self`, which nothing else touches meanwhile.
        let steps = unsafe { Steps::new(&queue.device, &queue.stream, blas, product, kernels, at, dots) };
        let one_by_one = |count| (0..count).try_for_each(|_| steps.iterate());
        match way {
            Way::HostSync => {
                steps.time_with_host(2)?;
                measure(&mut |iterations| steps.time_with_host(iterations))
            }
            Way::DeviceScalars | Way::OwnDots => {
                steps.time(2, one_by_one)?;
                measure(&mut |iterations| steps.time(iterations, one_by_one))
            }
            Way::Captured => {
                steps.time(2, one_by_one)?; // what is not loaded cannot be recorded
                // SAFETY: `steps` borrows all that an iteration touches, and nobody else has this stream.
                let graph = unsafe { queue.device.capture(|| one_by_one(RECORDED).map_err(library_error)) };
                let mut graph = graph.map_err(|error| error.to_string())?;
                let mut iterate = |count: usize| {
                    graph.launch(count / RECORDED).map_err(|error| error.to_string())?;
                    one_by_one(count % RECORDED)
                };
                iterate(RECORDED)?; // the first launch uploads it
                measure(&mut |iterations| steps.time(iterations, &mut iterate))
            }
        }
    }

    /// The norm of the residual after the last iteration, as the iteration carries it along.
    pub(crate) fn residual_norm(&self) -> Result<f64, String> {
        let r = self.queue.stream.clone_dtoh(self.vectors.residual()).map_err(driver("copying from the device"))?;
        Ok(r.iter().map(|&r| r.to_f64() * r.to_f64()).sum::<f64>().sqrt())
    }

    /// The solution so far.
    pub(crate) fn solution(&self) -> Result<Vec<T>, String> {
        self.queue.stream.clone_dtoh(self.vectors.solution()).map_err(driver("copying from the device"))
    }
}

/// `|b - A x|`, in f64.
pub(crate) fn true_residual<T: Scalar>(matrix: &CsrMatrix<T>, b: &[T], x: &[T]) -> f64 {
    let mut residual: Vec<f64> = b.iter().map(|b| b.to_f64()).collect();
    for (row, column, value) in matrix.triplets() {
        residual[row] -= value.to_f64() * x[column].to_f64();
    }
    residual.iter().map(|r| r * r).sum::<f64>().sqrt()
}

/// `1 / A[i][i]` for each row `i`.
fn inverse_diagonal<T: Number>(matrix: &CsrMatrix<T>) -> Result<Vec<T>, String> {
    let mut diagonal = vec![T::from_f64(0.0); matrix.nrows()];
    for (row, column, value) in matrix.triplets() {
        if row == column {
            diagonal[row] += value;
        }
    }
    match diagonal.iter().position(|&element| element == T::from_f64(0.0)) {
        Some(row) => Err(format!("row {row} has a 0 on the diagonal")),
        None => Ok(diagonal.into_iter().map(|element| T::from_f64(1.0) / element).collect()),
    }
}

/// The algorithm whose products take the least time on the device, in CSR or COO, and the matrix and vectors for it.
fn fastest<T: Number>(
    queue: &LibraryQueue,
    sparse: &cusparse::Handle,
    matrix: &CsrMatrix<T>,
    b: &[T],
) -> Result<((&'static str, Algorithm), Set<T>), String> {
    let mut best: Option<(Duration, (&'static str, Algorithm), Set<T>)> = None;
    let mut refusal = "cuSPARSE has no algorithm".to_owned();
    for format in Format::ALL {
        for named in format.algorithms() {
            let mut set = Set::new(&queue.stream, matrix, b, format, &format.rows(matrix))?;
            match Product::new(sparse, &mut set, named.1).and_then(|product| time(queue, &product)) {
                Ok(time) if best.as_ref().is_none_or(|(least, ..)| time < *least) => best = Some((time, named, set)),
                Ok(_) => {}
                Err(problem) => refusal = problem,
            }
        }
    }
    best.map(|(_, named, set)| (named, set)).ok_or(refusal)
}

/// The median of ten products, after one that loads the kernel.
fn time<T: Number>(queue: &LibraryQueue, product: &Product<'_, T>) -> Result<Duration, String> {
    product.multiply()?;
    let times = queue.device.time_each(10, |_| product.multiply().map_err(library_error));
    let mut times = times.map_err(|error| error.to_string())?;
    times.sort();
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix for which iterations go on for long, with a diagonal that differs from row to row.
    fn system<T: Number>(n: usize) -> (CsrMatrix<T>, Vec<T>) {
        let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..n {
            for j in i.saturating_sub(1)..(i + 2).min(n) {
                columns.push(j as u32);
                values.push(T::from_f64(if i == j { 2.0 + 0.01 * (i % 7) as f64 } else { -1.0 }));
            }
            offsets.push(columns.len() as u32);
        }
        let b = (0..n).map(|i| T::from_f64(1.0 + (i % 5) as f64)).collect();
        (CsrMatrix::try_from_csr_data(n, n, offsets, columns, values).unwrap(), b)
    }

    /// The norm of the residual after so many iterations, in `f64`.
    fn reference<T: Number>(matrix: &CsrMatrix<T>, b: &[T], iterations: usize) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let d: Vec<f64> = inverse_diagonal(matrix).unwrap().iter().map(|d| d.to_f64()).collect();
        let precondition = |r: &[f64]| r.iter().zip(&d).map(|(r, d)| r * d).collect::<Vec<_>>();
        let mut r: Vec<f64> = b.iter().map(|b| b.to_f64()).collect();
        let mut p = precondition(&r);
        let mut rz = dot(&r, &p);
        for _ in 0..iterations {
            let mut q = vec![0.0; b.len()];
            for (i, j, value) in matrix.triplets() {
                q[i] += value.to_f64() * p[j];
            }
            let alpha = rz / dot(&p, &q);
            r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
            let z = precondition(&r);
            let old = std::mem::replace(&mut rz, dot(&r, &z));
            p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + rz / old * *p);
        }
        dot(&r, &r).sqrt()
    }

    /// Every way comes to the residual of the reference, relative to that of the start, and again.
    fn every_way_agrees<T: Number>(tolerance: f64) {
        let device = Device::cuda(0).unwrap();
        let (matrix, b) = system::<T>(5000);
        let start = reference(&matrix, &b, 0);
        let mut solver = VendorCg::new(&matrix, &b, &device).unwrap();
        assert!(solver.algorithm().contains("ALG"));
        for way in Way::ALL.into_iter().chain(Way::ALL) {
            for iterations in [0, 1, RECORDED, 2 * READ_EVERY + 5] {
                let expected = reference(&matrix, &b, iterations);
                let time = solver.prepared(way, |solve| solve(iterations)).unwrap();
                let found = solver.residual_norm().unwrap();
                assert!(
                    (found - expected).abs() <= tolerance * start,
                    "{way:?}, {iterations}: {found}, not {expected}"
                );
                assert!(time > Duration::ZERO, "{way:?}");
            }
            // What is carried along is that of x.
            let of_x = true_residual(&matrix, &b, &solver.solution().unwrap());
            assert!((of_x - solver.residual_norm().unwrap()).abs() <= tolerance * start, "{way:?}: {of_x}");
        }
    }

    #[test]
    #[cfg_attr(not(gpu_required), ignore = "needs a GPU with cuBLAS and cuSPARSE: set WARPSPARSE_REQUIRE_GPU=1")]
    fn every_way_agrees_f32() {
        every_way_agrees::<f32>(1e-4);
    }

    #[test]
    #[cfg_attr(not(gpu_required), ignore = "needs a GPU with cuBLAS and cuSPARSE: set WARPSPARSE_REQUIRE_GPU=1")]
    fn every_way_agrees_f64() {
        every_way_agrees::<f64>(1e-10);
    }

    #[test]
    fn without_a_gpu_there_is_a_reason() {
        let (matrix, b) = system::<f64>(10);
        let problem = VendorCg::new(&matrix, &b, &Device::cpu()).err().unwrap();
        assert!(problem.contains("runs on GPUs"), "{problem}");
    }

    #[test]
    fn a_zero_on_the_diagonal_is_refused() {
        let matrix = CsrMatrix::try_from_csr_data(2, 2, vec![0, 1, 2], vec![0, 0], vec![2.0f32, 1.0]).unwrap();
        assert_eq!(inverse_diagonal(&matrix).unwrap_err(), "row 1 has a 0 on the diagonal");
    }
}

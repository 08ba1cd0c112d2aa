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
//! All of it is queued on one queue of ours, which the libraries are told of, so that it can be recorded as one graph.

mod steps;
mod vectors;

use std::{sync::Arc, time::Duration};

use cudarc::{cusparse::sys::cusparseSpMVAlg_t as Algorithm, driver::CudaStream};
use warpsparse::{CsrMatrix, Device, Scalar};

use self::{
    steps::{Dots, Kernels, Steps},
    vectors::Vectors,
};
use super::{
    Rival, cublas,
    cusparse::{self, Format, Product, Set},
    stream::{driver, stream_of, time_each},
};

/// What cuBLAS works in: as much as NVIDIA recommends for its newer GPUs.
const WORKSPACE_BYTES: usize = 32 << 20;

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
    /// As before, an iteration recorded as a CUDA graph.
    Captured,
    /// As [`DeviceScalars`](Self::DeviceScalars), with dot products of our own.
    OwnDots,
}

/// From one residual that the host reads to the next, in iterations.
pub(crate) const READ_EVERY: usize = 20;

#[cfg(test)]
impl Way {
    const ALL: [Self; 4] = [Self::HostSync, Self::DeviceScalars, Self::Captured, Self::OwnDots];
}

/// The libraries and their versions, or why they cannot be used.
pub(crate) fn describe(device: &Device) -> Result<String, String> {
    Ok(format!("{}; {}", Rival::Cublas.describe(device)?, Rival::Cusparse.describe(device)?))
}

/// A system of equations on the device, and the libraries to solve it with.
pub(crate) struct VendorCg<T> {
    blas: cublas::Handle,
    sparse: cusparse::Handle,
    algorithm: (&'static str, Algorithm),
    /// The matrix, `p` and `q`.
    set: Set<T>,
    vectors: Vectors<T>,
    kernels: Kernels<T>,
    /// The queue, as the libraries see it.
    stream: Arc<CudaStream>,
    /// Last, for it has to outlive all that is on it.
    queue: Device,
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

        let queue = device.new_queue().map_err(|error| error.to_string())?;
        // SAFETY: the queue goes last, here and in the struct.
        let stream = unsafe { stream_of(&queue)? };
        let mut blas = cublas::Handle::new(&stream)?;
        blas.allocate_workspace(WORKSPACE_BYTES)?;
        let sparse = cusparse::Handle::new(&stream)?;
        let vectors = Vectors::new(&stream, b, &inverse_diagonal)?;
        let mut set = Set::new(&stream, matrix, b, Format::Csr, matrix.row_offsets())?;
        let algorithm = fastest(&stream, &sparse, &mut set)?;
        Ok(Self { blas, sparse, algorithm, set, vectors, kernels: Kernels::new()?, stream, queue })
    }

    /// The algorithm of cuSPARSE that was the fastest.
    pub(crate) fn algorithm(&self) -> &'static str {
        self.algorithm.0
    }

    /// From `x` = 0 on exactly so many iterations: how long they took, and the norm of the residual in the end, as the
    /// iteration carries it along.
    ///
    /// It is the device's time, from the first iteration to the last with the residuals read between; with scalars on the
    /// host the host's time. What comes before is not in it: the start, two iterations to load all kernels, the recording.
    pub(crate) fn solve(&mut self, way: Way, iterations: usize) -> Result<(Duration, f64), String> {
        let dots = if way == Way::OwnDots { Dots::Own } else { Dots::Cublas };
        let at = self.vectors.addresses(&self.stream, &mut self.set);
        let product = Product::new(&self.sparse, &mut self.set, self.algorithm.1)?;
        let (queue, stream, blas, kernels) = (&self.queue, &self.stream, &self.blas, &self.kernels);
        // SAFETY: the addresses are of vectors of `self`, which nothing else touches meanwhile.
        let steps = unsafe { Steps::new(queue, stream, blas, product, kernels, at, dots) };
        let one_by_one = |count| (0..count).try_for_each(|_| steps.iterate());
        let time = match way {
            Way::HostSync => steps.time_on_host(iterations)?,
            Way::DeviceScalars | Way::OwnDots => steps.time_on_device(iterations, one_by_one)?,
            Way::Captured => {
                steps.start()?;
                one_by_one(1)?; // what is not loaded cannot be recorded
                // SAFETY: `steps` borrows all that an iteration touches, and nobody else has this queue.
                let graph = unsafe { queue.capture(|| steps.iterate().map_err(while_recording)) };
                let mut graph = graph.map_err(|error| error.to_string())?;
                steps.time_on_device(iterations, |count| graph.launch(count).map_err(|error| error.to_string()))?
            }
        };
        drop(steps);
        let r = stream.clone_dtoh(self.vectors.residual()).map_err(driver("copying from the device"))?;
        Ok((time, r.iter().map(|&r| r.to_f64() * r.to_f64()).sum::<f64>().sqrt()))
    }

    /// The solution so far.
    #[cfg(test)]
    pub(crate) fn solution(&self) -> Result<Vec<T>, String> {
        self.stream.clone_dtoh(self.vectors.solution()).map_err(driver("copying from the device"))
    }
}

fn while_recording(message: String) -> warpsparse::Error {
    warpsparse::Error::Driver { call: "recording an iteration".into(), message }
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

/// The algorithm whose products take the least time, by the median of ten.
fn fastest<T: Number>(
    stream: &CudaStream,
    sparse: &cusparse::Handle,
    set: &mut Set<T>,
) -> Result<(&'static str, Algorithm), String> {
    let mut timed = Vec::new();
    let mut refusal = "cuSPARSE has no algorithm".to_owned();
    for named in Format::Csr.algorithms() {
        let product = Product::new(sparse, set, named.1);
        match product.and_then(|product| time_each(stream, 12, |_| product.multiply())) {
            Ok(mut times) => {
                times.drain(..2); // the warm-up
                times.sort();
                timed.push((times[times.len() / 2], named));
            }
            Err(problem) => refusal = problem,
        }
    }
    timed.into_iter().min_by_key(|&(time, _)| time).map(|(_, named)| named).ok_or(refusal)
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
        let usable = Device::cuda(0).map_err(|error| error.to_string());
        let usable = usable.and_then(|device| describe(&device).map(|_| device));
        let device = match usable {
            Ok(device) => device,
            Err(problem) if std::env::var("WARPSPARSE_REQUIRE_GPU").is_ok_and(|value| value == "1") => {
                panic!("WARPSPARSE_REQUIRE_GPU=1, but {problem}")
            }
            Err(_) => return,
        };
        let (matrix, b) = system::<T>(5000);
        let start = reference(&matrix, &b, 0);
        let mut solver = VendorCg::new(&matrix, &b, &device).unwrap();
        assert!(solver.algorithm().contains("ALG"));
        for way in Way::ALL.into_iter().chain(Way::ALL) {
            for iterations in [0, 1, READ_EVERY, 2 * READ_EVERY + 5] {
                let expected = reference(&matrix, &b, iterations);
                let (time, found) = solver.solve(way, iterations).unwrap();
                assert!(
                    (found - expected).abs() <= tolerance * start,
                    "{way:?}, {iterations}: {found}, not {expected}"
                );
                assert!(iterations == 0 || time > Duration::ZERO, "{way:?}");
            }
        }
        assert!(solver.solution().unwrap().iter().all(|x| x.to_f64() != 0.0));
    }

    #[test]
    fn every_way_agrees_f32() {
        every_way_agrees::<f32>(1e-4);
    }

    #[test]
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

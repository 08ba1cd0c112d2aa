//! NVIDIA's cuBLAS: `cublasSgemm` and `cublasDgemm`, the algorithms of cuBLASLt for the same products, and what it does with vectors.
//!
//! As with cuSPARSE, the library is loaded when the program runs and need not be there. It works on a stream of its own in
//! the context of our products, on as many sets of the same matrices, by the same clock.

mod library;
mod lt;
pub(super) mod operation;
mod vector;

use std::{sync::Arc, time::Duration};

use cudarc::{
    cublas::sys::{self, cublasHandle_t as RawHandle, cublasOperation_t as Operation, cublasStatus_t as Status},
    driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits},
};
use measure::{
    GemmProblem, Measurement, Shape,
    stream::{LibraryQueue, driver, library_error},
};
use warpsparse::{Device, Scalar};

use self::library::{WORKSPACE_BYTES, check};
use super::Run;
use crate::report::Skipped;

pub(super) use self::{
    library::{Handle, describe},
    vector::Scalars,
};

/// What cuBLAS and its bindings ask of an element type.
pub(crate) trait Number: DeviceRepr + ValidAsZeroBits + Copy + 'static {
    const NAME: &'static str;
    const GEMM: Gemm<Self>;
    const DOT: vector::Dot<Self>;
    const AXPY: vector::Axpy<Self>;
    const SCAL: vector::Scal<Self>;
    const COPY: vector::Copying<Self>;
    const NRM2: vector::Nrm2<Self>;
}

impl Number for f32 {
    const NAME: &'static str = "cublasSgemm";
    const GEMM: Gemm<Self> = sys::cublasSgemm_v2;
    const DOT: vector::Dot<Self> = sys::cublasSdot_v2;
    const AXPY: vector::Axpy<Self> = sys::cublasSaxpy_v2;
    const SCAL: vector::Scal<Self> = sys::cublasSscal_v2;
    const COPY: vector::Copying<Self> = sys::cublasScopy_v2;
    const NRM2: vector::Nrm2<Self> = sys::cublasSnrm2_v2;
}

impl Number for f64 {
    const NAME: &'static str = "cublasDgemm";
    const GEMM: Gemm<Self> = sys::cublasDgemm_v2;
    const DOT: vector::Dot<Self> = sys::cublasDdot_v2;
    const AXPY: vector::Axpy<Self> = sys::cublasDaxpy_v2;
    const SCAL: vector::Scal<Self> = sys::cublasDscal_v2;
    const COPY: vector::Copying<Self> = sys::cublasDcopy_v2;
    const NRM2: vector::Nrm2<Self> = sys::cublasDnrm2_v2;
}

/// The function for an element type.
type Gemm<T> = unsafe fn(
    RawHandle,
    Operation,
    Operation,
    i32,
    i32,
    i32,
    *const T,
    *const T,
    i32,
    *const T,
    i32,
    *const T,
    *mut T,
    i32,
) -> Status;

/// A way to have the library compute products of one shape.
enum Way<T> {
    /// `cublasSgemm` or `cublasDgemm`, which choose by themselves.
    Blas(Handle),
    /// A proposal of cuBLASLt's, by its number.
    Lt(usize, lt::Algorithm<T>),
}

impl<T: Scalar + Number> Way<T> {
    /// All of them, the first by cuBLAS itself. It is the only one where cuBLASLt is not there, which [`describe`] tells, or
    /// where that has no proposals, for a reason that is then `left_out`.
    fn all(
        stream: &Arc<CudaStream>,
        problem: &GemmProblem<T>,
        left_out: &mut Vec<Skipped>,
    ) -> Result<Vec<Self>, String> {
        let itself = Self::Blas(Handle::new(stream)?);
        let algorithms = worked(Some("cuBLASLt".into()), lt::algorithms(stream, problem), left_out)?;
        let algorithms = algorithms.unwrap_or_default().into_iter().enumerate();
        let algorithms = algorithms.map(|(number, algorithm)| Self::Lt(number, algorithm));
        Ok([itself].into_iter().chain(algorithms).collect())
    }

    fn name(&self) -> String {
        match self {
            Self::Blas(_) => T::NAME.into(),
            Self::Lt(number, _) => format!("cublasLtMatmul, proposal {}", number + 1),
        }
    }

    /// The name of a proposal, which may fail.
    fn proposal(&self) -> Option<String> {
        matches!(self, Self::Lt(..)).then(|| self.name())
    }

    /// Queues the product.
    fn multiply(&self, set: &mut Set<T>, problem: &GemmProblem<T>) -> Result<(), String> {
        match self {
            Self::Blas(handle) => set.multiply(handle, problem),
            Self::Lt(_, algorithm) => algorithm.multiply(set),
        }
    }
}

/// What worked: cuBLAS itself has to, and a `proposal` of this name need not, but is then `left_out`.
fn worked<R>(
    proposal: Option<String>,
    outcome: Result<R, String>,
    left_out: &mut Vec<Skipped>,
) -> Result<Option<R>, String> {
    match (proposal, outcome) {
        (Some(what), Err(reason)) => {
            left_out.push(Skipped { what, reason });
            Ok(None)
        }
        (_, outcome) => outcome.map(Some),
    }
}

/// Proposals that take so many times the fastest way's time at a first look are not measured.
const HOPELESS: f64 = 1.3;

/// The product in each of the library's ways, measured. What is missing among them is `left_out`.
pub(super) fn runs<T: Scalar + Number>(
    measurement: &Measurement<'_, GemmProblem<T>>,
    left_out: &mut Vec<Skipped>,
) -> Result<Vec<Run>, String> {
    let problem = measurement.problem;
    let queue = LibraryQueue::new(measurement.device)?;
    let sets = (0..measurement.rotation(problem.bytes)).map(|_| Set::new(&queue.stream, problem));
    let mut sets = sets.collect::<Result<Vec<_>, _>>()?;
    let mut ways = Vec::new();
    for way in Way::all(&queue.stream, problem, left_out)? {
        let time = probe(&queue, &way, &mut sets[0], problem);
        if let Some(time) = worked(way.proposal(), time, left_out)? {
            ways.push((way, time));
        }
    }
    let least = ways.iter().map(|(_, time)| *time).min().unwrap_or_default();
    // cuBLAS itself in any case: it is what is called as a rule.
    ways.retain(|(way, time)| way.proposal().is_none() || *time <= least.mul_f64(HOPELESS));
    let mut runs = Vec::new();
    for (way, _) in &ways {
        runs.extend(worked(way.proposal(), run(measurement, &queue, way, &mut sets), left_out)?);
    }
    Ok(runs)
}

/// About how long a product takes on one set.
fn probe<T: Scalar + Number>(
    queue: &LibraryQueue,
    way: &Way<T>,
    set: &mut Set<T>,
    problem: &GemmProblem<T>,
) -> Result<Duration, String> {
    way.multiply(set, problem)?; // the first use of a kernel loads it
    let times = queue.device.time_each(3, |_| way.multiply(set, problem).map_err(library_error));
    times.map_err(|error| error.to_string())?.into_iter().min().ok_or_else(|| "no times".into())
}

fn run<T: Scalar + Number>(
    measurement: &Measurement<'_, GemmProblem<T>>,
    queue: &LibraryQueue,
    way: &Way<T>,
    sets: &mut [Set<T>],
) -> Result<Run, String> {
    let problem = measurement.problem;
    sets[0].forget(&queue.stream)?;
    let multiply = |set: usize| way.multiply(&mut sets[set], problem).map_err(library_error);
    let rotation = measurement.rotation(problem.bytes);
    let times = measurement.times(&queue.device, rotation, multiply).map_err(|error| error.to_string())?;
    let c = queue.stream.clone_dtoh(&sets[0].c).map_err(driver("copying from the device"))?;
    let figures = measurement.figures(&times, problem.bytes, &problem.reference.errors(&c));
    Ok(Run { variant: way.name(), format: None, figures })
}

/// Products in one way, to be called one by one.
pub(crate) struct Calls<'a, T> {
    problem: &'a GemmProblem<T>,
    sets: Vec<Set<T>>,
    way: Way<T>,
    /// Last, for it has to outlive all that is on it.
    queue: LibraryQueue,
}

impl<'a, T: Scalar + Number> Calls<'a, T> {
    /// In the way of this name, going round so many sets of matrices.
    pub(crate) fn new(device: &Device, problem: &'a GemmProblem<T>, name: &str, sets: usize) -> Result<Self, String> {
        let queue = LibraryQueue::new(device)?;
        let way = Way::all(&queue.stream, problem, &mut Vec::new())?.into_iter().find(|way| way.name() == name);
        let sets = (0..sets).map(|_| Set::new(&queue.stream, problem)).collect::<Result<_, _>>()?;
        Ok(Self { problem, sets, way: way.ok_or_else(|| format!("cuBLAS has no way `{name}`"))?, queue })
    }

    /// Queues a product on this set.
    pub(crate) fn call(&mut self, set: usize) -> Result<(), String> {
        self.way.multiply(&mut self.sets[set], self.problem)
    }

    pub(crate) fn wait(&self) -> Result<(), String> {
        self.queue.stream.synchronize().map_err(driver("waiting for products"))
    }
}

/// The matrices on the device.
struct Set<T> {
    a: CudaSlice<T>,
    b: CudaSlice<T>,
    c: CudaSlice<T>,
}

impl<T: Scalar + Number> Set<T> {
    fn new(stream: &Arc<CudaStream>, problem: &GemmProblem<T>) -> Result<Self, String> {
        let GemmProblem { shape: Shape { m, n, .. }, a, b, .. } = problem;
        let failed = driver("copying to the device");
        Ok(Self {
            a: stream.clone_htod(&a.elements).map_err(&failed)?,
            b: stream.clone_htod(&b.elements).map_err(&failed)?,
            c: stream.alloc_zeros(*m as usize * *n as usize).map_err(&failed)?,
        })
    }

    /// Forgets the product, so that what is checked later is that of another way.
    fn forget(&mut self, stream: &Arc<CudaStream>) -> Result<(), String> {
        stream.memset_zeros(&mut self.c).map_err(driver("overwriting a product"))
    }

    /// Queues the product. cuBLAS takes matrices column by column: what is row-major is to it the transpose, so that it is
    /// asked for that of `C`, `B` transposed times `A` transposed.
    fn multiply(&mut self, handle: &Handle, problem: &GemmProblem<T>) -> Result<(), String> {
        let Shape { m, n, k } = problem.shape;
        let (m, n, k) = (m as i32, n as i32, k as i32);
        let operand = |is_transposed, rows, cols| match is_transposed {
            false => (Operation::CUBLAS_OP_N, cols),
            true => (Operation::CUBLAS_OP_T, rows),
        };
        let (op_a, lda) = operand(problem.a.is_transposed, m, k);
        let (op_b, ldb) = operand(problem.b.is_transposed, k, n);
        let (one, zero) = (T::from_f64(1.0), T::from_f64(0.0));
        let a = self.a.device_ptr(&handle.stream).0 as *const T;
        let b = self.b.device_ptr(&handle.stream).0 as *const T;
        let c = self.c.device_ptr_mut(&handle.stream).0 as *mut T;
        // SAFETY: the handle is alive. The arrays have the elements of their matrices, whose sizes are below 2^31, without
        // gaps, and are freed in the order of the handle's stream, thus after the product; `C` is borrowed mutably. The
        // scalars are in host memory, as the handle's pointer mode (the default) wants them, and read during the call.
        let status = unsafe { (T::GEMM)(handle.raw, op_b, op_a, n, m, k, &one, b, ldb, a, lda, &zero, c, n) };
        check(T::NAME, status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_may_fail_and_cublas_may_not() {
        let mut left_out = Vec::new();
        assert_eq!(worked(Some("proposal 1".into()), Ok(1), &mut left_out), Ok(Some(1)));
        assert_eq!(worked(None, Ok(2), &mut left_out), Ok(Some(2)));
        assert_eq!(worked::<i32>(None, Err("broken".into()), &mut left_out), Err("broken".into()));
        assert!(left_out.is_empty());
        assert_eq!(worked::<i32>(Some("proposal 2".into()), Err("not supported".into()), &mut left_out), Ok(None));
        let [Skipped { what, reason }] = &left_out[..] else { panic!("{} left out", left_out.len()) };
        assert_eq!((what.as_str(), reason.as_str()), ("proposal 2", "not supported"));
    }
}

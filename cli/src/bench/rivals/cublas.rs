//! NVIDIA's cuBLAS: `cublasSgemm` and `cublasDgemm`, and what solvers take of it.
//!
//! As with cuSPARSE, the library is loaded when the program runs and need not be there. It works on a queue of its own in
//! the context of our products, on as many sets of the same matrices, by the same clock.

mod library;
mod vector;

use std::sync::Arc;

use cudarc::{
    cublas::sys::{self, cublasHandle_t as RawHandle, cublasOperation_t as Operation, cublasStatus_t as Status},
    driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits},
};
use warpsparse::{Device, Scalar};

use self::library::check;
use super::Run;
use crate::measure::{
    GemmProblem, Measurement, Shape,
    stream::{LibraryQueue, driver, library_error},
};

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
}

impl Number for f32 {
    const NAME: &'static str = "cublasSgemm";
    const GEMM: Gemm<Self> = sys::cublasSgemm_v2;
    const DOT: vector::Dot<Self> = sys::cublasSdot_v2;
    const AXPY: vector::Axpy<Self> = sys::cublasSaxpy_v2;
    const SCAL: vector::Scal<Self> = sys::cublasSscal_v2;
}

impl Number for f64 {
    const NAME: &'static str = "cublasDgemm";
    const GEMM: Gemm<Self> = sys::cublasDgemm_v2;
    const DOT: vector::Dot<Self> = sys::cublasDdot_v2;
    const AXPY: vector::Axpy<Self> = sys::cublasDaxpy_v2;
    const SCAL: vector::Scal<Self> = sys::cublasDscal_v2;
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

/// The product, measured.
pub(super) fn run<T: Scalar + Number>(measurement: &Measurement<'_, GemmProblem<T>>) -> Result<Run, String> {
    let GemmProblem { bytes, reference, .. } = measurement.problem;
    let queue = LibraryQueue::new(measurement.device)?;
    let stream = &queue.stream;
    let handle = Handle::new(stream)?;
    let sets = (0..measurement.rotation(*bytes)).map(|_| Set::new(stream, measurement.problem));
    let mut sets = sets.collect::<Result<Vec<_>, _>>()?;
    let times = measurement.times(&queue.device, sets.len(), |set| {
        sets[set].multiply(&handle, measurement.problem).map_err(library_error)
    });
    let times = times.map_err(|error| error.to_string())?;
    let c = stream.clone_dtoh(&sets[0].c).map_err(driver("copying from the device"))?;
    Ok(Run {
        variant: T::NAME.into(),
        format: None,
        figures: measurement.figures(&times, *bytes, &reference.errors(&c)),
    })
}

/// Products on one set of matrices, to be called one by one.
pub(crate) struct Calls<'a, T> {
    problem: &'a GemmProblem<T>,
    set: Set<T>,
    handle: Handle,
    /// Last, for it has to outlive all that is on it.
    queue: LibraryQueue,
}

impl<'a, T: Scalar + Number> Calls<'a, T> {
    pub(crate) fn new(device: &Device, problem: &'a GemmProblem<T>) -> Result<Self, String> {
        let queue = LibraryQueue::new(device)?;
        let (handle, set) = (Handle::new(&queue.stream)?, Set::new(&queue.stream, problem)?);
        Ok(Self { problem, set, handle, queue })
    }

    /// Queues a product.
    pub(crate) fn call(&mut self) -> Result<(), String> {
        self.set.multiply(&self.handle, self.problem)
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

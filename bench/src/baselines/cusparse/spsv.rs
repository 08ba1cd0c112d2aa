//! Triangular solves by cuSPARSE: `cusparseSpSV`, on a triangle of a matrix in CSR.

use std::{
    ffi::c_void,
    ptr::{from_ref, null_mut},
    time::{Duration, Instant},
};

use cudarc::{
    cusparse::sys::{
        self, cusparseDiagType_t as DiagonalType, cusparseFillMode_t as FillMode,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE as PLAIN,
        cusparseSpMatAttribute_t::{CUSPARSE_SPMAT_DIAG_TYPE, CUSPARSE_SPMAT_FILL_MODE},
        cusparseSpSVAlg_t::CUSPARSE_SPSV_ALG_DEFAULT as ALGORITHM,
    },
    driver::{CudaSlice, DevicePtr, DevicePtrMut},
};
use measure::{
    Measurement, Times,
    stream::{LibraryQueue, driver, library_error},
};
use warpsparse::{CsrMatrix, Diagonal, Scalar, Triangle};

use super::{
    Format, check_size,
    library::{Handle, check},
    matrix::{Arrays, MatrixDescriptor, Number, scalars},
    product::VectorDescriptor,
};

/// Solves with one triangle.
pub(crate) struct SpsvRun<T> {
    pub(crate) solves: Times,
    /// Of the analysis alone, until the device is idle. The size of its workspace, and that workspace, have been there before.
    pub(crate) analyses: Vec<Duration>,
    /// Bytes.
    pub(crate) workspace: usize,
    pub(crate) x: Vec<T>,
}

/// Measures both steps.
pub(crate) fn spsv_run<T: Scalar + Number, P>(
    measurement: &Measurement<'_, P>,
    matrix: &CsrMatrix<T>,
    (triangle, diagonal): (Triangle, Diagonal),
    b: &[T],
    repeats: usize,
) -> Result<SpsvRun<T>, String> {
    check_size(matrix)?;
    let queue = LibraryQueue::new(measurement.device)?;
    let (stream, handle) = (&queue.stream, Handle::new(&queue.stream)?);
    let arrays = Arrays::new(stream, matrix, Format::Csr, matrix.row_offsets())?;
    let b = stream.clone_htod(b).map_err(driver("copying to the device"))?;
    let mut x = stream.alloc_zeros::<T>(matrix.nrows()).map_err(driver("allocating"))?;
    let descriptor = MatrixDescriptor::new(stream, &arrays)?;
    set_attributes(&descriptor, triangle, diagonal)?;
    let b_descriptor = VectorDescriptor::new(arrays.rows, b.device_ptr(stream).0, T::DATA_TYPE)?;
    let x_descriptor = VectorDescriptor::new(arrays.rows, x.device_ptr_mut(stream).0, T::DATA_TYPE)?;
    let system = System { handle: &handle, matrix: descriptor, b: b_descriptor, x: x_descriptor };

    let mut analyses = Vec::new();
    let mut solver = system.prepared::<T>()?;
    solver.analyse::<T>()?;
    for _ in 0..repeats {
        drop(solver);
        solver = system.prepared::<T>()?;
        stream.synchronize().map_err(driver("waiting"))?;
        let begin = Instant::now();
        solver.analyse::<T>()?;
        stream.synchronize().map_err(driver("waiting"))?;
        analyses.push(begin.elapsed());
    }
    let solve = |_| solver.solve::<T>().map_err(library_error);
    let solves = measurement.times(&queue.device, 1, solve).map_err(|error| error.to_string())?;
    let workspace = solver.workspace.len();
    drop(solver);
    drop(system);
    let x = stream.clone_dtoh(&x).map_err(driver("copying from the device"))?;
    Ok(SpsvRun { solves, analyses, workspace, x })
}

/// Of a matrix that also holds the other triangle, which is ignored.
fn set_attributes(matrix: &MatrixDescriptor, triangle: Triangle, diagonal: Diagonal) -> Result<(), String> {
    let fill = match triangle {
        Triangle::Lower => FillMode::CUSPARSE_FILL_MODE_LOWER,
        Triangle::Upper => FillMode::CUSPARSE_FILL_MODE_UPPER,
    };
    let diagonal = match diagonal {
        Diagonal::Unit => DiagonalType::CUSPARSE_DIAG_TYPE_UNIT,
        Diagonal::Stored => DiagonalType::CUSPARSE_DIAG_TYPE_NON_UNIT,
    };
    let (fill_at, fill_size) = (from_ref(&fill).cast_mut().cast(), size_of_val(&fill));
    let (diagonal_at, diagonal_size) = (from_ref(&diagonal).cast_mut().cast(), size_of_val(&diagonal));
    // SAFETY: the descriptor is alive; each attribute is read during its call, and has the type that is asked for.
    unsafe {
        check(
            "cusparseSpMatSetAttribute",
            sys::cusparseSpMatSetAttribute(matrix.0, CUSPARSE_SPMAT_FILL_MODE, fill_at, fill_size),
        )?;
        check(
            "cusparseSpMatSetAttribute",
            sys::cusparseSpMatSetAttribute(matrix.0, CUSPARSE_SPMAT_DIAG_TYPE, diagonal_at, diagonal_size),
        )
    }
}

/// A triangle and its vectors, whose arrays outlive it.
struct System<'a> {
    handle: &'a Handle,
    matrix: MatrixDescriptor,
    b: VectorDescriptor,
    x: VectorDescriptor,
}

impl System<'_> {
    /// Its solver, with the workspace that it asks for.
    fn prepared<T: Number>(&self) -> Result<Solver<'_>, String> {
        let mut raw = null_mut();
        // SAFETY: writes the one descriptor.
        check("cusparseSpSV_createDescr", unsafe { sys::cusparseSpSV_createDescr(&mut raw) })?;
        let descriptor = Descriptor(raw);
        let (one, mut bytes) = (scalars::<T>().0, 0);
        // SAFETY: handle and descriptors are alive, `one` is a number of the compute type in host memory, and `bytes` takes the one number written.
        let status = unsafe {
            sys::cusparseSpSV_bufferSize(
                self.handle.raw,
                PLAIN,
                one,
                self.matrix.0,
                self.b.0,
                self.x.0,
                T::DATA_TYPE,
                ALGORITHM,
                raw,
                &mut bytes,
            )
        };
        check("cusparseSpSV_bufferSize", status)?;
        // An allocation of nothing is an error.
        let workspace = self.handle.stream.alloc_zeros::<u8>(bytes.max(1)).map_err(driver("allocating"))?;
        Ok(Solver { system: self, descriptor, workspace })
    }
}

/// What cuSPARSE keeps between analysis and solve.
struct Descriptor(sys::cusparseSpSVDescr_t);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by cuSPARSE, destroyed once.
        let _ = unsafe { sys::cusparseSpSV_destroyDescr(self.0) };
    }
}

struct Solver<'a> {
    system: &'a System<'a>,
    descriptor: Descriptor,
    workspace: CudaSlice<u8>,
}

impl Solver<'_> {
    fn analyse<T: Number>(&self) -> Result<(), String> {
        let System { handle, matrix, b, x } = self.system;
        let (one, dtype) = (scalars::<T>().0, T::DATA_TYPE);
        let workspace = self.workspace.device_ptr(&handle.stream).0 as *mut c_void;
        // SAFETY: as for the size of the workspace, which has that size; it is freed in the order of the handle's stream.
        let status = unsafe {
            sys::cusparseSpSV_analysis(
                handle.raw,
                PLAIN,
                one,
                matrix.0,
                b.0,
                x.0,
                dtype,
                ALGORITHM,
                self.descriptor.0,
                workspace,
            )
        };
        check("cusparseSpSV_analysis", status)
    }

    /// Queues a solve, after the analysis.
    fn solve<T: Number>(&self) -> Result<(), String> {
        let System { handle, matrix, b, x } = self.system;
        let (one, dtype, descriptor) = (scalars::<T>().0, T::DATA_TYPE, self.descriptor.0);
        // SAFETY: as for the analysis, with the same arguments; the workspace is still there.
        let status = unsafe {
            sys::cusparseSpSV_solve(handle.raw, PLAIN, one, matrix.0, b.0, x.0, dtype, ALGORITHM, descriptor)
        };
        check("cusparseSpSV_solve", status)
    }
}

//! Products with dense matrices by cuSPARSE: `cusparseSpMM` on a matrix in CSR, with `B` and `C` row-major.

use std::{ffi::c_void, ptr::null_mut, sync::Arc, time::Duration};

use cudarc::{
    cusparse::sys::{
        self, cudaDataType_t as DataType, cusparseDnMatDescr_t as RawDescriptor,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE as PLAIN, cusparseOrder_t::CUSPARSE_ORDER_ROW,
        cusparseSpMMAlg_t as Algorithm,
    },
    driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, sys::CUdeviceptr},
};
use warpsparse::Scalar;

use super::{
    Format, check_size,
    library::{Handle, check},
    matrix::{Arrays, MatrixDescriptor, Number, scalars},
};
use crate::{
    bench::rivals::{
        Run,
        stream::{driver, new_stream, time_each},
    },
    measure::{DenseProblem, Measurement},
};

const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("ALG_DEFAULT", Algorithm::CUSPARSE_SPMM_ALG_DEFAULT),
    ("CSR_ALG1", Algorithm::CUSPARSE_SPMM_CSR_ALG1),
    ("CSR_ALG2", Algorithm::CUSPARSE_SPMM_CSR_ALG2),
    ("CSR_ALG3", Algorithm::CUSPARSE_SPMM_CSR_ALG3),
];

/// Every algorithm, preprocessed and measured; those that cuSPARSE refuses are left out unless it refuses all.
pub(in super::super) fn dense_runs<T: Scalar + Number>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
) -> Result<Vec<Run>, String> {
    let &DenseProblem { matrix, bytes, ref reference, .. } = measurement.problem;
    check_size(matrix)?;
    let stream = new_stream(measurement.device)?;
    let handle = Handle::new(&stream)?;
    let sets = (0..measurement.rotation(bytes)).map(|_| Set::new(&stream, measurement.problem));
    let mut sets = sets.collect::<Result<Vec<_>, _>>()?;

    let mut refusal = None;
    let mut runs = Vec::new();
    for (name, algorithm) in ALGORITHMS {
        match run(measurement, &handle, &mut sets, algorithm) {
            Ok((times, known)) => {
                let figures = measurement.figures(&times, bytes, &reference.errors(&known));
                runs.push(Run { variant: name.into(), figures });
            }
            Err(problem) => refusal = Some(problem),
        }
    }
    refusal.filter(|_| runs.is_empty()).map_or(Ok(runs), Err)
}

/// The times of the products, and what is to be checked of the result.
fn run<T: Scalar + Number>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
    handle: &Handle,
    sets: &mut [Set<T>],
    algorithm: Algorithm,
) -> Result<(Vec<Duration>, Vec<T>), String> {
    let stream = &handle.stream;
    // So that the result below is this algorithm's.
    stream.memset_zeros(&mut sets[0].c).map_err(driver("clearing the result"))?;

    let cols = measurement.problem.cols as i64;
    let products = sets.iter_mut().map(|set| Product::new(handle, set, cols, algorithm));
    let products = products.collect::<Result<Vec<_>, _>>()?;
    let times = measurement.times(products.len(), |count| {
        time_each(stream, count, |repeat| products[repeat % products.len()].multiply())
    })?;
    drop(products);
    let mut known = Vec::new();
    for place in measurement.problem.reference.places().filter(|place| !place.is_empty()) {
        known.extend(stream.clone_dtoh(&sets[0].c.slice(place)).map_err(driver("copying from the device"))?);
    }
    Ok((times, known))
}

/// The matrices on the device.
struct Set<T> {
    a: Arrays<T>,
    b: CudaSlice<T>,
    c: CudaSlice<T>,
}

impl<T: Scalar + Number> Set<T> {
    fn new(stream: &Arc<CudaStream>, problem: &DenseProblem<'_, T>) -> Result<Self, String> {
        let &DenseProblem { matrix, cols, b, .. } = problem;
        let failed = driver("copying to the device");
        Ok(Self {
            a: Arrays::new(stream, matrix, Format::Csr, matrix.row_offsets())?,
            b: stream.clone_htod(b).map_err(&failed)?,
            c: stream.alloc_zeros(matrix.nrows() * cols).map_err(&failed)?,
        })
    }
}

/// `C = A B` of one set by one algorithm, ready to be queued.
struct Product<'a, T> {
    handle: &'a Handle,
    a: MatrixDescriptor,
    b: DenseDescriptor,
    c: DenseDescriptor,
    algorithm: Algorithm,
    /// What the algorithm works in: `cusparseSpMM_preprocess` leaves its findings there.
    workspace: CudaSlice<u8>,
    /// Its arrays are what the descriptors point to: borrowed, so that they neither go away nor are used elsewhere.
    _set: &'a mut Set<T>,
}

impl<'a, T: Scalar + Number> Product<'a, T> {
    /// Has cuSPARSE prepare the product.
    fn new(handle: &'a Handle, set: &'a mut Set<T>, cols: i64, algorithm: Algorithm) -> Result<Self, String> {
        let stream = &handle.stream;
        let a = MatrixDescriptor::new(stream, &set.a)?;
        let b = DenseDescriptor::new((set.a.columns, cols), set.b.device_ptr(stream).0, T::DATA_TYPE)?;
        let c = DenseDescriptor::new((set.a.rows, cols), set.c.device_ptr_mut(stream).0, T::DATA_TYPE)?;
        let (one, zero) = scalars::<T>();
        let mut bytes = 0;
        // SAFETY: handle and descriptors are alive, `one` and `zero` point to numbers of the compute type in host
        // memory, as the handle's pointer mode (the default) wants them, and `bytes` takes the one number written.
        let status = unsafe {
            sys::cusparseSpMM_bufferSize(
                handle.raw,
                PLAIN,
                PLAIN,
                one,
                a.0,
                b.0,
                zero,
                c.0,
                T::DATA_TYPE,
                algorithm,
                &mut bytes,
            )
        };
        check("cusparseSpMM_bufferSize", status)?;
        // An allocation of nothing is an error.
        let workspace = stream.alloc_zeros::<u8>(bytes.max(1)).map_err(driver("allocating the workspace"))?;
        let product = Self { handle, a, b, c, algorithm, workspace, _set: set };
        // SAFETY: as `call` demands.
        check("cusparseSpMM_preprocess", unsafe { product.call(sys::cusparseSpMM_preprocess) })?;
        Ok(product)
    }

    /// Queues the product.
    fn multiply(&self) -> Result<(), String> {
        // SAFETY: as `call` demands.
        check("cusparseSpMM", unsafe { self.call(sys::cusparseSpMM) })
    }

    /// # Safety
    /// `function` is cuSPARSE's `cusparseSpMM` or `cusparseSpMM_preprocess`.
    unsafe fn call(&self, function: Function) -> sys::cusparseStatus_t {
        let (one, zero) = scalars::<T>();
        let workspace = self.workspace.device_ptr(&self.handle.stream).0 as *mut c_void;
        let (a, b, c) = (self.a.0, self.b.0, self.c.0);
        // SAFETY: handle and descriptors are alive; the arrays that these point to are borrowed by `self`, have the sizes
        // that the descriptors give, and are freed in the order of the handle's stream, thus after the product. The scalars
        // are in host memory and read during the call. The workspace has the size asked for with the same arguments,
        // belongs to this matrix descriptor and this algorithm alone, and is the one that is preprocessed.
        unsafe { function(self.handle.raw, PLAIN, PLAIN, one, a, b, zero, c, T::DATA_TYPE, self.algorithm, workspace) }
    }
}

/// `cusparseSpMM`, and `cusparseSpMM_preprocess`, which takes the same.
type Function = unsafe fn(
    sys::cusparseHandle_t,
    sys::cusparseOperation_t,
    sys::cusparseOperation_t,
    *const c_void,
    sys::cusparseConstSpMatDescr_t,
    sys::cusparseConstDnMatDescr_t,
    *const c_void,
    RawDescriptor,
    DataType,
    Algorithm,
    *mut c_void,
) -> sys::cusparseStatus_t;

/// What cuSPARSE knows of a dense matrix.
struct DenseDescriptor(RawDescriptor);

impl DenseDescriptor {
    /// Row-major without gaps, with so many rows and columns, at the address, which must outlive what uses the descriptor.
    fn new((rows, cols): (i64, i64), address: CUdeviceptr, dtype: DataType) -> Result<Self, String> {
        let mut raw = null_mut();
        let values = address as *mut c_void;
        // SAFETY: writes the descriptor; what it points to is of no concern before it is used.
        check("cusparseCreateDnMat", unsafe {
            sys::cusparseCreateDnMat(&mut raw, rows, cols, cols, values, dtype, CUSPARSE_ORDER_ROW)
        })?;
        Ok(Self(raw))
    }
}

impl Drop for DenseDescriptor {
    fn drop(&mut self) {
        // SAFETY: as that of a matrix.
        let _ = unsafe { sys::cusparseDestroyDnMat(self.0) };
    }
}

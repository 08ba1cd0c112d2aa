//! Products with dense matrices by cuSPARSE: `cusparseSpMM` on a matrix in CSR or COO, with `B` and `C` row-major.

use std::{ffi::c_void, ptr::null_mut, sync::Arc, time::Duration};

use cudarc::{
    cusparse::sys::{
        self, cudaDataType_t as DataType, cusparseDnMatDescr_t as RawDescriptor,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE as PLAIN,
        cusparseOrder_t::{self as Order, CUSPARSE_ORDER_ROW},
        cusparseSpMMAlg_t as Algorithm,
    },
    driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, sys::CUdeviceptr},
};
use measure::{
    DenseProblem, Measurement, Times,
    stream::{LibraryQueue, driver, library_error},
};
use warpsparse::Scalar;

use super::{
    Format, check_size,
    library::{Handle, check},
    matrix::{Arrays, MatrixDescriptor, Number, scalars},
};
use crate::baselines::Run;

fn algorithms(format: Format) -> &'static [(&'static str, Algorithm)] {
    match format {
        Format::Csr => &[
            ("CSR, ALG_DEFAULT", Algorithm::CUSPARSE_SPMM_ALG_DEFAULT),
            ("CSR_ALG1", Algorithm::CUSPARSE_SPMM_CSR_ALG1),
            ("CSR_ALG2", Algorithm::CUSPARSE_SPMM_CSR_ALG2),
            ("CSR_ALG3", Algorithm::CUSPARSE_SPMM_CSR_ALG3),
        ],
        Format::Coo => &[
            ("COO, ALG_DEFAULT", Algorithm::CUSPARSE_SPMM_ALG_DEFAULT),
            ("COO_ALG1", Algorithm::CUSPARSE_SPMM_COO_ALG1),
            ("COO_ALG2", Algorithm::CUSPARSE_SPMM_COO_ALG2),
            ("COO_ALG3", Algorithm::CUSPARSE_SPMM_COO_ALG3),
            ("COO_ALG4", Algorithm::CUSPARSE_SPMM_COO_ALG4),
        ],
    }
}

/// Algorithms slower than this multiple of their format's fastest time, in a trial on one set of buffers, are not measured in full.
pub(super) const HOPELESS: f64 = 1.5;

/// The algorithms of each format, preprocessed and measured; those that cuSPARSE refuses are left out unless it refuses all.
pub(in super::super) fn dense_runs<T: Scalar + Number>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
) -> Result<Vec<Run>, String> {
    let &DenseProblem { matrix, bytes, ref reference, .. } = measurement.problem;
    check_size(matrix)?;
    let queue = LibraryQueue::new(measurement.device)?;
    let handle = Handle::new(&queue.stream)?;
    let mut refusal = None;
    let mut runs = Vec::new();
    for format in Format::ALL {
        let rows = format.rows(matrix);
        let set = |_| Set::new(&queue.stream, measurement.problem, format, &rows);
        let mut sets = (0..measurement.rotation(bytes)).map(set).collect::<Result<Vec<_>, _>>()?;
        let cols = measurement.problem.cols as i64;
        let mut probed = Vec::new();
        for &(name, algorithm) in algorithms(format) {
            match probe(&queue, &handle, &mut sets[0], cols, algorithm) {
                Ok(time) => probed.push((time, name, algorithm)),
                Err(problem) => refusal = Some(problem),
            }
        }
        let fastest = probed.iter().map(|(time, ..)| *time).min().unwrap_or_default();
        probed.retain(|(time, ..)| *time <= fastest.mul_f64(HOPELESS));
        for (_, name, algorithm) in probed {
            match run(measurement, &queue, &handle, &mut sets, algorithm) {
                Ok((times, known)) => {
                    let figures = measurement.figures(&times, bytes, &reference.errors(&known));
                    runs.push(Run { variant: name.into(), format: Some(format.name()), figures });
                }
                Err(problem) => refusal = Some(problem),
            }
        }
    }
    refusal.filter(|_| runs.is_empty()).map_or(Ok(runs), Err)
}

/// About how long a product takes on one set.
fn probe<T: Scalar + Number>(
    queue: &LibraryQueue,
    handle: &Handle,
    set: &mut Set<T>,
    cols: i64,
    algorithm: Algorithm,
) -> Result<Duration, String> {
    let product = Product::new(handle, set, cols, algorithm)?;
    product.multiply()?; // the first use of a kernel loads it
    let times = queue.device.time_each(3, |_| product.multiply().map_err(library_error));
    times.map_err(|error| error.to_string())?.into_iter().min().ok_or_else(|| "no times".into())
}

/// The times of the products, and what is to be checked of the result.
fn run<T: Scalar + Number>(
    measurement: &Measurement<'_, DenseProblem<'_, T>>,
    queue: &LibraryQueue,
    handle: &Handle,
    sets: &mut [Set<T>],
    algorithm: Algorithm,
) -> Result<(Times, Vec<T>), String> {
    let stream = &queue.stream;
    // So that the result below is this algorithm's.
    stream.memset_zeros(&mut sets[0].c).map_err(driver("clearing the result"))?;

    let cols = measurement.problem.cols as i64;
    let products = sets.iter_mut().map(|set| Product::new(handle, set, cols, algorithm));
    let products = products.collect::<Result<Vec<_>, _>>()?;
    let multiply = |set: usize| products[set].multiply().map_err(library_error);
    let times = measurement.times(&queue.device, products.len(), multiply).map_err(|error| error.to_string())?;
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
    /// `rows` is what [`Format::rows`] gives for the matrix.
    fn new(
        stream: &Arc<CudaStream>,
        problem: &DenseProblem<'_, T>,
        format: Format,
        rows: &[u32],
    ) -> Result<Self, String> {
        let &DenseProblem { matrix, cols, b, .. } = problem;
        let failed = driver("copying to the device");
        Ok(Self {
            a: Arrays::new(stream, matrix, format, rows)?,
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
        let b =
            DenseDescriptor::new((set.a.columns, cols), CUSPARSE_ORDER_ROW, set.b.device_ptr(stream).0, T::DATA_TYPE)?;
        let c =
            DenseDescriptor::new((set.a.rows, cols), CUSPARSE_ORDER_ROW, set.c.device_ptr_mut(stream).0, T::DATA_TYPE)?;
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
pub(super) struct DenseDescriptor(pub(super) RawDescriptor);

impl DenseDescriptor {
    /// Without gaps, with so many rows and columns, at the address, which must outlive what uses the descriptor.
    pub(super) fn new(
        (rows, cols): (i64, i64),
        order: Order,
        address: CUdeviceptr,
        dtype: DataType,
    ) -> Result<Self, String> {
        let mut raw = null_mut();
        let distance = if order == CUSPARSE_ORDER_ROW { cols } else { rows };
        let values = address as *mut c_void;
        // SAFETY: writes the descriptor; what it points to is of no concern before it is used.
        check("cusparseCreateDnMat", unsafe {
            sys::cusparseCreateDnMat(&mut raw, rows, cols, distance, values, dtype, order)
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

//! NVIDIA's cuSPARSE, through its generic API: `cusparseSpMV` on CSR matrices.
//!
//! The library is loaded when the program runs and need not be there. It works in the same context as our products (the
//! device's primary one), on a stream of its own, on sets of the same arrays, which are gone round just as ours are,
//! and its products are timed by events between them just as ours are.

use std::{
    ffi::{CStr, c_void},
    ptr::null_mut,
    sync::Arc,
    time::Duration,
};

use cudarc::{
    cusparse::sys::{
        self, cudaDataType_t as DataType, cusparseDnVecDescr_t as VectorDescriptor, cusparseHandle_t as RawHandle,
        cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO, cusparseIndexType_t::CUSPARSE_INDEX_32I,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE as PLAIN, cusparseSpMVAlg_t as Algorithm,
        cusparseSpMatDescr_t as MatrixDescriptor, cusparseStatus_t as Status,
    },
    driver::{
        CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DriverError,
        ValidAsZeroBits, sys::CUevent_flags,
    },
};
use warpsparse::{Device, Scalar};

use super::Run;
use crate::measure::{Measurement, Problem};

/// What cuSPARSE and its bindings ask of an element type.
pub(crate) trait Number: DeviceRepr + ValidAsZeroBits + Copy + 'static {
    const DATA_TYPE: DataType;
    /// The product's `alpha` and `beta`.
    const ONE_AND_ZERO: &'static [Self; 2];
}

impl Number for f32 {
    const DATA_TYPE: DataType = DataType::CUDA_R_32F;
    const ONE_AND_ZERO: &'static [Self; 2] = &[1.0, 0.0];
}

impl Number for f64 {
    const DATA_TYPE: DataType = DataType::CUDA_R_64F;
    const ONE_AND_ZERO: &'static [Self; 2] = &[1.0, 0.0];
}

const ALGORITHMS: [(&str, Algorithm); 3] = [
    ("ALG_DEFAULT", Algorithm::CUSPARSE_SPMV_ALG_DEFAULT),
    ("CSR_ALG1", Algorithm::CUSPARSE_SPMV_CSR_ALG1),
    ("CSR_ALG2", Algorithm::CUSPARSE_SPMV_CSR_ALG2),
];

/// The functions called below without which there is nothing to compare: the bindings panic where one is missing.
const FUNCTIONS: [&CStr; 11] = [
    c"cusparseCreate",
    c"cusparseDestroy",
    c"cusparseGetVersion",
    c"cusparseGetErrorString",
    c"cusparseSetStream",
    c"cusparseCreateCsr",
    c"cusparseDestroySpMat",
    c"cusparseCreateDnVec",
    c"cusparseDestroyDnVec",
    c"cusparseSpMV_bufferSize",
    c"cusparseSpMV",
];

/// The library and its version, or why it cannot be used. To be asked before anything else here.
pub(super) fn describe(device: &Device) -> Result<String, String> {
    // SAFETY: opens the library, whose initialisers are the vendor's, as any program does that uses it.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "cuSPARSE not found: is the folder of libcusparse.so, and of what it needs, in LD_LIBRARY_PATH?".into()
        );
    }
    if let Some(missing) = FUNCTIONS.iter().find(|name| !has_function(name)) {
        return Err(format!("the cuSPARSE found has no {}", missing.to_string_lossy()));
    }
    let version = Handle::new(&new_stream(device)?)?.version()?;
    let preprocess = if find_preprocess().is_some() { "with" } else { "which has no" };
    let (major, minor, patch) = (version / 1000, version % 1000 / 100, version % 100);
    Ok(format!("cuSPARSE {major}.{minor}.{patch}, {preprocess} cusparseSpMV_preprocess"))
}

/// Every algorithm, measured; those that cuSPARSE refuses are left out unless it refuses all.
pub(super) fn runs<T: Scalar + Number>(measurement: &Measurement<'_, T>) -> Result<Vec<Run<T>>, String> {
    let matrix = &measurement.problem.matrix;
    if matrix.nnz() == 0 {
        return Err("the matrix has no entries".into());
    }
    if [matrix.nrows(), matrix.ncols(), matrix.nnz()].iter().any(|&count| i32::try_from(count).is_err()) {
        return Err("the matrix takes more than 32-bit signed indices".into());
    }
    let stream = new_stream(measurement.device)?;
    let handle = Handle::new(&stream)?;
    let sets = (0..measurement.rotation).map(|_| Set::new(&stream, measurement.problem));
    let mut sets = sets.collect::<Result<Vec<_>, _>>()?;

    let mut refusal = None;
    let mut runs = Vec::new();
    for (name, algorithm) in ALGORITHMS {
        match run(measurement, &handle, &mut sets, name, algorithm) {
            Ok(run) => runs.push(run),
            Err(problem) => refusal = Some(problem),
        }
    }
    refusal.filter(|_| runs.is_empty()).map_or(Ok(runs), Err)
}

fn run<T: Scalar + Number>(
    measurement: &Measurement<'_, T>,
    handle: &Handle,
    sets: &mut [Set<T>],
    name: &str,
    algorithm: Algorithm,
) -> Result<Run<T>, String> {
    let preprocess = find_preprocess();
    let stream = &handle.stream;
    // So that the result below is this algorithm's.
    stream.memset_zeros(&mut sets[0].y).map_err(driver("clearing the result"))?;

    let products = sets.iter_mut().map(|set| Product::new(handle, set, algorithm, preprocess));
    let products = products.collect::<Result<Vec<_>, _>>()?;
    let all = measurement.warm_up() + measurement.repeats;
    let times = time_each(stream, all, |repeat| products[repeat % products.len()].multiply())?;
    drop(products);
    let y = stream.clone_dtoh(&sets[0].y).map_err(driver("copying from the device"))?;
    let variant = if preprocess.is_some() { format!("{name}, preprocessed") } else { name.into() };
    Ok(Run { variant, times: times[measurement.warm_up()..].to_vec(), y })
}

/// A new stream in the primary context of the device.
fn new_stream(device: &Device) -> Result<Arc<CudaStream>, String> {
    let name = device.to_string();
    let index = name.strip_prefix("cuda:").and_then(|index| index.parse().ok()).ok_or("not a CUDA device")?;
    let context = CudaContext::new(index).map_err(driver("creating a context"))?;
    // SAFETY: everything here happens on one stream, whose order is all that is needed; events of cudarc's own would
    // get between the measured products.
    unsafe { context.disable_event_tracking() };
    context.new_stream().map_err(driver("creating a stream"))
}

/// The matrix and its vectors on the device.
struct Set<T> {
    rows: i64,
    columns: i64,
    entries: i64,
    row_offsets: CudaSlice<u32>,
    col_indices: CudaSlice<u32>,
    values: CudaSlice<T>,
    x: CudaSlice<T>,
    y: CudaSlice<T>,
}

impl<T: Scalar + Number> Set<T> {
    fn new(stream: &Arc<CudaStream>, problem: &Problem<T>) -> Result<Self, String> {
        let Problem { matrix, x, .. } = problem;
        let failed = driver("copying to the device");
        Ok(Self {
            rows: matrix.nrows() as i64,
            columns: matrix.ncols() as i64,
            entries: matrix.nnz() as i64,
            row_offsets: stream.clone_htod(matrix.row_offsets()).map_err(&failed)?,
            col_indices: stream.clone_htod(matrix.col_indices()).map_err(&failed)?,
            values: stream.clone_htod(matrix.values()).map_err(&failed)?,
            x: stream.clone_htod(x).map_err(&failed)?,
            y: stream.alloc_zeros(matrix.nrows()).map_err(&failed)?,
        })
    }
}

/// `y = A x` of one set by one algorithm, ready to be queued.
struct Product<'a, T> {
    handle: &'a Handle,
    descriptors: Descriptors,
    algorithm: Algorithm,
    /// What the algorithm works in: `cusparseSpMV_preprocess` leaves its findings there.
    workspace: CudaSlice<u8>,
    /// Its arrays are what the descriptors point to: borrowed, so that they neither go away nor are used elsewhere.
    _set: &'a mut Set<T>,
}

impl<'a, T: Scalar + Number> Product<'a, T> {
    fn new(
        handle: &'a Handle,
        set: &'a mut Set<T>,
        algorithm: Algorithm,
        preprocess: Option<Preprocess>,
    ) -> Result<Self, String> {
        let stream = &handle.stream;
        let descriptors = Descriptors::new(stream, set)?;
        let Descriptors { matrix, x, y } = descriptors;
        let (one, zero) = scalars::<T>();
        let mut bytes = 0;
        // SAFETY: handle and descriptors are alive, `one` and `zero` point to numbers of the compute type in host
        // memory, as the handle's pointer mode (the default) wants them, and `bytes` takes the one number written.
        let status = unsafe {
            sys::cusparseSpMV_bufferSize(
                handle.raw,
                PLAIN,
                one,
                matrix,
                x,
                zero,
                y,
                T::DATA_TYPE,
                algorithm,
                &mut bytes,
            )
        };
        check("cusparseSpMV_bufferSize", status)?;
        // An allocation of nothing is an error.
        let workspace = stream.alloc_zeros::<u8>(bytes.max(1)).map_err(driver("allocating the workspace"))?;
        if let Some(preprocess) = preprocess {
            let workspace = workspace.device_ptr(stream).0 as *mut c_void;
            // SAFETY: as above, with the `bytes` of device memory that were asked for, which belong to this matrix
            // descriptor and this algorithm alone, as the function demands. `find_preprocess` vouches for its type.
            let status =
                unsafe { preprocess(handle.raw, PLAIN, one, matrix, x, zero, y, T::DATA_TYPE, algorithm, workspace) };
            check("cusparseSpMV_preprocess", status)?;
        }
        Ok(Self { handle, descriptors, algorithm, workspace, _set: set })
    }

    /// Queues the product.
    fn multiply(&self) -> Result<(), String> {
        let Descriptors { matrix, x, y } = self.descriptors;
        let (one, zero) = scalars::<T>();
        let workspace = self.workspace.device_ptr(&self.handle.stream).0 as *mut c_void;
        // SAFETY: handle and descriptors are alive; the arrays that these point to are borrowed by `self`, have the
        // sizes that the descriptors give, and are freed in the order of the handle's stream, thus after the product.
        // The scalars are in host memory and read during the call. The workspace has the size asked for with the same
        // arguments, and is the one that was preprocessed.
        let status = unsafe {
            sys::cusparseSpMV(self.handle.raw, PLAIN, one, matrix, x, zero, y, T::DATA_TYPE, self.algorithm, workspace)
        };
        check("cusparseSpMV", status)
    }
}

/// Where cuSPARSE finds `alpha` and `beta`.
fn scalars<T: Number>() -> (*const c_void, *const c_void) {
    let [one, zero] = T::ONE_AND_ZERO;
    (std::ptr::from_ref(one).cast(), std::ptr::from_ref(zero).cast())
}

/// cuSPARSE's context, bound to a stream.
struct Handle {
    raw: RawHandle,
    stream: Arc<CudaStream>,
}

impl Handle {
    fn new(stream: &Arc<CudaStream>) -> Result<Self, String> {
        // The library works in the thread's current context.
        stream.context().bind_to_thread().map_err(driver("entering the context"))?;
        let mut raw = null_mut();
        // SAFETY: writes the one handle.
        check("cusparseCreate", unsafe { sys::cusparseCreate(&mut raw) })?;
        let handle = Self { raw, stream: Arc::clone(stream) };
        // SAFETY: the handle is alive, and the stream lives as long. The driver's stream and the runtime's, which the
        // function takes, are one type under two names.
        check("cusparseSetStream", unsafe { sys::cusparseSetStream(raw, stream.cu_stream().cast()) })?;
        Ok(handle)
    }

    fn version(&self) -> Result<i32, String> {
        let mut version = 0;
        // SAFETY: the handle is alive; writes the one integer.
        check("cusparseGetVersion", unsafe { sys::cusparseGetVersion(self.raw, &mut version) })?;
        Ok(version)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `cusparseCreate`, destroyed once. A failure, if any, has shown before.
        let _ = unsafe { sys::cusparseDestroy(self.raw) };
    }
}

/// What cuSPARSE knows of a set; null where there is none yet.
struct Descriptors {
    matrix: MatrixDescriptor,
    x: VectorDescriptor,
    y: VectorDescriptor,
}

impl Descriptors {
    fn new<T: Number>(stream: &CudaStream, set: &mut Set<T>) -> Result<Self, String> {
        let &mut Set { rows, columns, entries, .. } = set;
        let mut new = Self { matrix: null_mut(), x: null_mut(), y: null_mut() };
        let row_offsets = set.row_offsets.device_ptr(stream).0 as *mut c_void;
        let col_indices = set.col_indices.device_ptr(stream).0 as *mut c_void;
        let values = set.values.device_ptr(stream).0 as *mut c_void;
        // SAFETY: the pointers are to device memory with `rows + 1`, `entries` and `entries` elements of the types
        // named (indices fit 31 bits, so their sign does not matter); `SpMV` reads them only. Writes the descriptor.
        let status = unsafe {
            let (index, base) = (CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO);
            sys::cusparseCreateCsr(
                &mut new.matrix,
                rows,
                columns,
                entries,
                row_offsets,
                col_indices,
                values,
                index,
                index,
                base,
                T::DATA_TYPE,
            )
        };
        check("cusparseCreateCsr", status)?;
        let x = set.x.device_ptr(stream).0 as *mut c_void;
        // SAFETY: the pointer is to `columns` elements of the type named; `SpMV` only reads them. Writes the descriptor.
        check("cusparseCreateDnVec", unsafe { sys::cusparseCreateDnVec(&mut new.x, columns, x, T::DATA_TYPE) })?;
        let y = set.y.device_ptr_mut(stream).0 as *mut c_void;
        // SAFETY: the pointer is to `rows` elements of the type named, for writing too. Writes the descriptor.
        check("cusparseCreateDnVec", unsafe { sys::cusparseCreateDnVec(&mut new.y, rows, y, T::DATA_TYPE) })?;
        Ok(new)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: each was made by the matching function, or is null and left alone, and is destroyed once. That is
        // about host memory alone: products queued with them may still run.
        unsafe {
            if !self.matrix.is_null() {
                let _ = sys::cusparseDestroySpMat(self.matrix);
            }
            for vector in [self.x, self.y] {
                if !vector.is_null() {
                    let _ = sys::cusparseDestroyDnVec(vector);
                }
            }
        }
    }
}

/// `cusparseSpMV_preprocess`, which older versions lack, and with them the bindings.
type Preprocess = unsafe extern "C" fn(
    RawHandle,
    sys::cusparseOperation_t,
    *const c_void,
    sys::cusparseConstSpMatDescr_t,
    sys::cusparseConstDnVecDescr_t,
    *const c_void,
    VectorDescriptor,
    DataType,
    Algorithm,
    *mut c_void,
) -> Status;

fn find_preprocess() -> Option<Preprocess> {
    // SAFETY: `describe` has made sure of the library, which stays loaded. The type is that of the function in the
    // library's header.
    unsafe { sys::culib().get::<Preprocess>(c"cusparseSpMV_preprocess".to_bytes_with_nul()).ok().map(|found| *found) }
}

/// Whether the library, which is present, has this function.
fn has_function(name: &CStr) -> bool {
    // SAFETY: only looked up, not called.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.to_bytes_with_nul()).is_ok() }
}

/// As `Device::time_each`: operations queued back to back with an event between.
fn time_each(
    stream: &CudaStream,
    repeats: usize,
    operation: impl Fn(usize) -> Result<(), String>,
) -> Result<Vec<Duration>, String> {
    let event = |_| stream.context().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
    let events = (0..=repeats).map(event).collect::<Result<Vec<_>, _>>().map_err(driver("creating an event"))?;
    let record = |event: &CudaEvent| event.record(stream).map_err(driver("recording an event"));
    record(&events[0])?;
    for repeat in 0..repeats {
        operation(repeat)?;
        record(&events[repeat + 1])?;
    }
    let elapsed = |pair: &[CudaEvent]| {
        let milliseconds = pair[0].elapsed_ms(&pair[1]).map_err(driver("reading an event"))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    };
    events.windows(2).map(elapsed).collect()
}

/// An error of cuSPARSE, with the call that gave it.
fn check(call: &str, status: Status) -> Result<(), String> {
    if status == Status::CUSPARSE_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: takes any status, and returns a string that stays, or null.
    let text = unsafe {
        let text = sys::cusparseGetErrorString(status);
        if text.is_null() { "unknown".into() } else { CStr::from_ptr(text).to_string_lossy() }
    };
    Err(format!("{call}: {text} ({status:?})"))
}

/// An error of the driver, with what was being done.
fn driver(what: &'static str) -> impl Fn(DriverError) -> String {
    move |error| format!("{what}: {error}")
}

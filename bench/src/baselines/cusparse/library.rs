//! cuSPARSE as a library: whether it is there, its context, its errors.

use std::{
    ffi::{CStr, c_void},
    ptr::null_mut,
    sync::Arc,
};

use cudarc::{
    cusparse::sys::{
        self, cudaDataType_t as DataType, cusparseDnVecDescr_t as VectorDescriptor, cusparseHandle_t as RawHandle,
        cusparseSpMVAlg_t as Algorithm, cusparseStatus_t as Status,
    },
    driver::CudaStream,
};
use measure::stream::{LibraryQueue, driver};
use warpsparse::Device;

/// The functions called here and for products without which there is nothing to compare: the bindings panic where one is
/// missing.
const FUNCTIONS: [&CStr; 17] = [
    c"cusparseCreate",
    c"cusparseDestroy",
    c"cusparseGetVersion",
    c"cusparseGetErrorString",
    c"cusparseSetStream",
    c"cusparseCreateCsr",
    c"cusparseCreateCoo",
    c"cusparseDestroySpMat",
    c"cusparseCreateDnVec",
    c"cusparseDestroyDnVec",
    c"cusparseSpMV_bufferSize",
    c"cusparseSpMV",
    c"cusparseCreateDnMat",
    c"cusparseDestroyDnMat",
    c"cusparseSpMM_bufferSize",
    c"cusparseSpMM_preprocess",
    c"cusparseSpMM",
];

/// The library and its version, or why it cannot be used. To be asked before anything else.
pub(in super::super) fn describe(device: &Device) -> Result<String, String> {
    // SAFETY: opens the library, whose initialisers are the vendor's, as any program does that uses it.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "cuSPARSE not found: is the folder of libcusparse.so, and of what it needs, in LD_LIBRARY_PATH?".into()
        );
    }
    if let Some(missing) = FUNCTIONS.iter().find(|name| !has_function(name)) {
        return Err(format!("the cuSPARSE found has no {}", missing.to_string_lossy()));
    }
    let queue = LibraryQueue::new(device)?;
    let version = Handle::new(&queue.stream)?.version()?;
    let preprocess = if find_preprocess().is_some() { "with" } else { "which has no" };
    let (major, minor, patch) = (version / 1000, version % 1000 / 100, version % 100);
    Ok(format!("cuSPARSE {major}.{minor}.{patch}, {preprocess} cusparseSpMV_preprocess"))
}

/// cuSPARSE's context, bound to a stream.
pub(in super::super) struct Handle {
    pub(super) raw: RawHandle,
    pub(super) stream: Arc<CudaStream>,
}

impl Handle {
    pub(in super::super) fn new(stream: &Arc<CudaStream>) -> Result<Self, String> {
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

/// `cusparseSpMV_preprocess`, which older versions lack, and with them the bindings.
pub(super) type Preprocess = unsafe extern "C" fn(
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

pub(super) fn find_preprocess() -> Option<Preprocess> {
    // SAFETY: `describe` has made sure of the library, which stays loaded. The type is that of the function in the
    // library's header.
    unsafe { sys::culib().get::<Preprocess>(c"cusparseSpMV_preprocess".to_bytes_with_nul()).ok().map(|found| *found) }
}

/// Whether the library, which is present, has this function.
pub(super) fn has_function(name: &CStr) -> bool {
    // SAFETY: only looked up, not called.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.to_bytes_with_nul()).is_ok() }
}

/// An error of cuSPARSE, with the call that gave it.
pub(super) fn check(call: &str, status: Status) -> Result<(), String> {
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

//! cuBLASLt: the same products by each of the algorithms that the library's heuristics propose. The first is what `cublasSgemm`
//! takes as a rule, and not always the fastest.

use std::{
    ffi::{CStr, c_void},
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{from_ref, null_mut},
    rc::Rc,
    sync::Arc,
};

use cudarc::{
    cublaslt::sys::{
        self, cublasComputeType_t as Compute, cublasLtHandle_t as RawHandle, cublasLtMatmulDesc_t as Desc,
        cublasLtMatmulDescAttributes_t as DescAttribute, cublasLtMatmulHeuristicResult_t as Heuristic,
        cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayout_t as Layout,
        cublasStatus_t as Status, cudaDataType as DataType,
    },
    driver::{CudaSlice, CudaStream, DevicePtr},
};
use measure::{GemmProblem, Operand, Shape, stream::driver};
use warpsparse::Scalar;

use super::{Number, Set, WORKSPACE_BYTES};

/// The most algorithms that are asked for.
const MAX_PROPOSALS: usize = 8;

/// The functions without which there are no proposals: the bindings panic where one is missing.
const FUNCTIONS: [&CStr; 13] = [
    c"cublasLtCreate",
    c"cublasLtDestroy",
    c"cublasLtGetStatusString",
    c"cublasLtMatmul",
    c"cublasLtMatmulAlgoGetHeuristic",
    c"cublasLtMatmulDescCreate",
    c"cublasLtMatmulDescDestroy",
    c"cublasLtMatmulDescSetAttribute",
    c"cublasLtMatmulPreferenceCreate",
    c"cublasLtMatmulPreferenceDestroy",
    c"cublasLtMatmulPreferenceSetAttribute",
    c"cublasLtMatrixLayoutCreate",
    c"cublasLtMatrixLayoutDestroy",
];

/// Why the library cannot be used, if it cannot.
pub(super) fn problem() -> Option<String> {
    // SAFETY: opens the library, whose initialisers are the vendor's, as any program does that uses it.
    if !unsafe { sys::is_culib_present() } {
        return Some("not found".into());
    }
    let missing = FUNCTIONS.iter().find(|name| !has_function(name))?;
    Some(format!("the one found has no {}", missing.to_string_lossy()))
}

/// Whether the library, which is present, has this function.
fn has_function(name: &CStr) -> bool {
    // SAFETY: only looked up, not called.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.to_bytes_with_nul()).is_ok() }
}

/// One algorithm for products of one shape.
pub(super) struct Algorithm<T> {
    shared: Rc<Shared>,
    heuristic: Heuristic,
    elements: PhantomData<T>,
}

/// What the algorithms for a shape have in common.
struct Shared {
    handle: RawHandle,
    desc: Desc,
    /// Of `B`, `A` and `C`, in the order in which cuBLAS gets them.
    layouts: [Layout; 3],
    stream: Arc<CudaStream>,
    workspace: CudaSlice<u8>,
}

/// The algorithms for this problem, the library's favourite first; none if it cannot be used.
pub(super) fn algorithms<T: Scalar + Number>(
    stream: &Arc<CudaStream>,
    problem: &GemmProblem<T>,
) -> Result<Vec<Algorithm<T>>, String> {
    if self::problem().is_some() {
        return Ok(Vec::new());
    }
    let shared = Rc::new(Shared::new(stream, problem)?);
    let heuristics = shared.heuristics()?;
    let algorithm = |heuristic| Algorithm { shared: Rc::clone(&shared), heuristic, elements: PhantomData };
    Ok(heuristics.into_iter().map(algorithm).collect())
}

impl<T: Scalar + Number> Algorithm<T> {
    /// Queues the product.
    pub(super) fn multiply(&self, set: &mut Set<T>) -> Result<(), String> {
        let Shared { handle, desc, layouts: [b_layout, a_layout, c_layout], stream, workspace } = &*self.shared;
        let (one, zero) = (T::from_f64(1.0), T::from_f64(0.0));
        let address = |slice: &CudaSlice<T>| slice.device_ptr(stream).0 as *mut c_void;
        let (a, b, c) = (address(&set.a), address(&set.b), address(&set.c));
        let workspace = workspace.device_ptr(stream).0 as *mut c_void;
        let stream = stream.cu_stream().cast();
        let (alpha, beta) = (from_ref(&one).cast(), from_ref(&zero).cast());
        let algorithm = &self.heuristic.algo;
        // SAFETY: everything is alive and of the shape; matrices and workspace are freed in the order of the stream, and `C` is
        // borrowed mutably. The scalars are read during the call.
        let status = unsafe {
            sys::cublasLtMatmul(
                *handle,
                *desc,
                alpha,
                b,
                *b_layout,
                a,
                *a_layout,
                beta,
                c,
                *c_layout,
                c,
                *c_layout,
                algorithm,
                workspace,
                WORKSPACE_BYTES,
                stream,
            )
        };
        check("cublasLtMatmul", status)
    }
}

impl Shared {
    fn new<T: Scalar + Number>(stream: &Arc<CudaStream>, problem: &GemmProblem<T>) -> Result<Self, String> {
        // The library works in the thread's current context.
        stream.context().bind_to_thread().map_err(driver("entering the context"))?;
        let workspace = stream.alloc_zeros(WORKSPACE_BYTES).map_err(driver("allocating the workspace"))?;
        let stream = Arc::clone(stream);
        let mut shared = Self { handle: null_mut(), desc: null_mut(), layouts: [null_mut(); 3], stream, workspace };
        let (compute, data) = match size_of::<T>() {
            4 => (Compute::CUBLAS_COMPUTE_32F, DataType::CUDA_R_32F),
            _ => (Compute::CUBLAS_COMPUTE_64F, DataType::CUDA_R_64F),
        };
        // SAFETY: writes the handle.
        check("cublasLtCreate", unsafe { sys::cublasLtCreate(&mut shared.handle) })?;
        // SAFETY: writes the description.
        let created = unsafe { sys::cublasLtMatmulDescCreate(&mut shared.desc, compute, data) };
        check("cublasLtMatmulDescCreate", created)?;
        // As of `cublasSgemm`: that of the transposes, column by column.
        let Shape { m, n, k } = problem.shape;
        let transposed = [
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &problem.b),
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &problem.a),
        ];
        for (attribute, operand) in transposed {
            let operation = i32::from(operand.is_transposed);
            // SAFETY: the attribute is a 32-bit number, 1 for the transpose.
            let set =
                unsafe { sys::cublasLtMatmulDescSetAttribute(shared.desc, attribute, from_ref(&operation).cast(), 4) };
            check("cublasLtMatmulDescSetAttribute", set)?;
        }
        let stored = |operand: &Operand<T>, rows, cols| if operand.is_transposed { (cols, rows) } else { (rows, cols) };
        let sizes = [stored(&problem.b, n, k), stored(&problem.a, k, m), (n, m)];
        for (layout, (rows, cols)) in shared.layouts.iter_mut().zip(sizes) {
            // SAFETY: writes the layout.
            let created =
                unsafe { sys::cublasLtMatrixLayoutCreate(layout, data, rows.into(), cols.into(), rows.into()) };
            check("cublasLtMatrixLayoutCreate", created)?;
        }
        Ok(shared)
    }

    fn heuristics(&self) -> Result<Vec<Heuristic>, String> {
        let mut preference = null_mut();
        // SAFETY: writes the preference.
        check("cublasLtMatmulPreferenceCreate", unsafe { sys::cublasLtMatmulPreferenceCreate(&mut preference) })?;
        let mut found = [const { MaybeUninit::uninit() }; MAX_PROPOSALS];
        let mut count = 0;
        let [b, a, c] = self.layouts;
        let workspace = PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the preference is alive until it is destroyed here; the attribute is a size. As many results are written as
        // there is room for.
        let (set, asked) = unsafe {
            let set =
                sys::cublasLtMatmulPreferenceSetAttribute(preference, workspace, from_ref(&WORKSPACE_BYTES).cast(), 8);
            let results = found.as_mut_ptr().cast();
            let asked = sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                self.desc,
                b,
                a,
                c,
                c,
                preference,
                MAX_PROPOSALS as i32,
                results,
                &mut count,
            );
            sys::cublasLtMatmulPreferenceDestroy(preference);
            (set, asked)
        };
        check("cublasLtMatmulPreferenceSetAttribute", set)?;
        check("cublasLtMatmulAlgoGetHeuristic", asked)?;
        // SAFETY: the call has written so many.
        let found =
            found.iter().take(count as usize).map(|result: &MaybeUninit<Heuristic>| unsafe { result.assume_init() });
        Ok(found.filter(|result| result.state == Status::CUBLAS_STATUS_SUCCESS).collect())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: each was made by the library, or is null, and is destroyed once. Failures have shown before.
        unsafe {
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                sys::cublasLtMatrixLayoutDestroy(layout);
            }
            if !self.desc.is_null() {
                sys::cublasLtMatmulDescDestroy(self.desc);
            }
            if !self.handle.is_null() {
                sys::cublasLtDestroy(self.handle);
            }
        }
    }
}

fn check(call: &str, status: Status) -> Result<(), String> {
    if status == Status::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: takes any status, and returns a string that stays, or null.
    let text = unsafe {
        let text = sys::cublasLtGetStatusString(status);
        if text.is_null() { "unknown".into() } else { CStr::from_ptr(text).to_string_lossy() }
    };
    Err(format!("{call}: {text} ({status:?})"))
}

//! Sparse matrix times sparse matrix by cuSPARSE: `cusparseSpGEMM`, with every algorithm that needs no tuning.

use std::{
    ptr::null_mut,
    sync::Arc,
    time::{Duration, Instant},
};

use cudarc::{
    cusparse::sys::{
        self, cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO, cusparseIndexType_t::CUSPARSE_INDEX_32I,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE, cusparseSpGEMMAlg_t as Algorithm,
    },
    driver::{CudaSlice, CudaStream, DevicePtr},
};
use measure::stream::{LibraryQueue, driver};
use warpsparse::{CsrMatrix, Device, Scalar};

use super::{
    Format, check_size,
    library::{Handle, check},
    matrix::{Arrays, MatrixDescriptor, Number, scalars},
};

const ALGORITHMS: [(&str, Algorithm); 3] = [
    ("DEFAULT", Algorithm::CUSPARSE_SPGEMM_DEFAULT),
    ("ALG2", Algorithm::CUSPARSE_SPGEMM_ALG2),
    ("ALG3", Algorithm::CUSPARSE_SPGEMM_ALG3),
];

/// The part of the products that ALG3 computes at a time, as in NVIDIA's sample.
const CHUNK: f32 = 0.2;

/// `A * B` by one algorithm.
pub(crate) struct SpgemmRun<T> {
    pub(crate) algorithm: &'static str,
    /// Of whole products: work estimation, computation, allocation of the result, copy. Host time, with a wait at the end of each.
    pub(crate) times: Vec<Duration>,
    /// Bytes of the workspaces that a product needs at once.
    pub(crate) workspace: usize,
    pub(crate) product: CsrMatrix<T>,
}

/// Every algorithm that computes the product.
pub(crate) fn spgemm_runs<T: Scalar + Number>(
    device: &Device,
    (a, b): (&CsrMatrix<T>, &CsrMatrix<T>),
    repeats: usize,
) -> Result<Vec<SpgemmRun<T>>, String> {
    check_size(a)?;
    check_size(b)?;
    let queue = LibraryQueue::new(device)?;
    let handle = Handle::new(&queue.stream)?;
    let arrays = |matrix: &CsrMatrix<T>| Arrays::new(&queue.stream, matrix, Format::Csr, matrix.row_offsets());
    let (a, b) = (arrays(a)?, arrays(b)?);
    let (mut runs, mut refusal) = (Vec::new(), None);
    for (name, algorithm) in ALGORITHMS {
        match measure(&queue.stream, &handle, (&a, &b), algorithm, repeats) {
            Ok((times, product)) => {
                let (workspace, product) = (product.workspace, product.download(&queue.stream)?);
                runs.push(SpgemmRun { algorithm: name, times, workspace, product });
            }
            Err(problem) => refusal = Some(format!("{name}: {problem}")),
        }
    }
    refusal.filter(|_| runs.is_empty()).map_or(Ok(runs), Err)
}

fn measure<T: Scalar + Number>(
    stream: &Arc<CudaStream>,
    handle: &Handle,
    operands: (&Arrays<T>, &Arrays<T>),
    algorithm: Algorithm,
    repeats: usize,
) -> Result<(Vec<Duration>, Product<T>), String> {
    let mut times = Vec::new();
    let mut last = multiply(stream, handle, operands, algorithm)?;
    for _ in 0..repeats {
        drop(last);
        stream.synchronize().map_err(driver("waiting"))?;
        let begin = Instant::now();
        last = multiply(stream, handle, operands, algorithm)?;
        stream.synchronize().map_err(driver("waiting"))?;
        times.push(begin.elapsed());
    }
    Ok((times, last))
}

/// The result on the device.
struct Product<T> {
    size: (usize, usize),
    row_offsets: CudaSlice<u32>,
    col_indices: CudaSlice<u32>,
    values: CudaSlice<T>,
    workspace: usize,
}

impl<T: Scalar + Number> Product<T> {
    fn download(&self, stream: &Arc<CudaStream>) -> Result<CsrMatrix<T>, String> {
        let failed = driver("copying from the device");
        let (rows, columns) = self.size;
        let offsets = stream.clone_dtoh(&self.row_offsets).map_err(&failed)?;
        let columns_of = stream.clone_dtoh(&self.col_indices).map_err(&failed)?;
        let values = stream.clone_dtoh(&self.values).map_err(&failed)?;
        CsrMatrix::try_from_csr_data(rows, columns, offsets, columns_of, values).map_err(|error| error.to_string())
    }
}

/// What an algorithm keeps between its steps.
struct Descriptor(sys::cusparseSpGEMMDescr_t);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by cuSPARSE, destroyed once.
        let _ = unsafe { sys::cusparseSpGEMM_destroyDescr(self.0) };
    }
}

fn multiply<T: Scalar + Number>(
    stream: &Arc<CudaStream>,
    handle: &Handle,
    (a, b): (&Arrays<T>, &Arrays<T>),
    algorithm: Algorithm,
) -> Result<Product<T>, String> {
    let failed = || driver("allocating");
    let bytes = |bytes: usize| {
        // SAFETY: the library writes what it reads.
        unsafe { stream.alloc::<u8>(bytes.max(1)) }.map_err(failed())
    };
    let (rows, columns) = (a.rows, b.columns);
    // SAFETY: the library writes all offsets.
    let row_offsets = unsafe { stream.alloc::<u32>(rows as usize + 1) }.map_err(failed())?;
    let (a, b) = (MatrixDescriptor::new(stream, a)?, MatrixDescriptor::new(stream, b)?);
    let (alpha, beta) = scalars::<T>();
    let (same, dtype) = (CUSPARSE_OPERATION_NON_TRANSPOSE, T::DATA_TYPE);
    let (mut c, mut raw) = (null_mut(), null_mut());
    let (index, base) = (CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO);
    // SAFETY: every pointer is to device memory as long as the library asks for, or null where it only asks for a size; all of it lives until
    // the stream has been waited for by the caller or freed in its order. The steps are in the order of the manual.
    unsafe {
        let offsets = row_offsets.device_ptr(stream).0 as *mut _;
        let created = sys::cusparseCreateCsr(
            &mut c,
            rows,
            columns,
            0,
            offsets,
            null_mut(),
            null_mut(),
            index,
            index,
            base,
            dtype,
        );
        check("cusparseCreateCsr", created)?;
        let c = MatrixDescriptor(c);
        check("cusparseSpGEMM_createDescr", sys::cusparseSpGEMM_createDescr(&mut raw))?;
        let descriptor = Descriptor(raw);
        // The steps take the product's operands first, then buffers of their own.
        macro_rules! step {
            ($function:ident $(, $argument:expr)*) => {
                check(
                    stringify!($function),
                    sys::$function(
                        handle.raw, same, same, alpha, a.0.cast(), b.0.cast(), beta, c.0, dtype, algorithm, descriptor.0
                        $(, $argument)*
                    ),
                )?
            };
        }
        let address = |buffer: &CudaSlice<u8>| buffer.device_ptr(stream).0 as *mut _;
        let (mut first, mut second, mut third) = (0, 0, 0);
        step!(cusparseSpGEMM_workEstimation, &mut first, null_mut());
        let buffer1 = bytes(first)?;
        step!(cusparseSpGEMM_workEstimation, &mut first, address(&buffer1));
        if matches!(algorithm, Algorithm::CUSPARSE_SPGEMM_ALG2 | Algorithm::CUSPARSE_SPGEMM_ALG3) {
            step!(cusparseSpGEMM_estimateMemory, CHUNK, &mut third, null_mut(), &mut second);
            let buffer3 = bytes(third)?;
            step!(cusparseSpGEMM_estimateMemory, CHUNK, &mut third, address(&buffer3), &mut second);
        } else {
            step!(cusparseSpGEMM_compute, &mut second, null_mut());
        }
        let buffer2 = bytes(second)?;
        step!(cusparseSpGEMM_compute, &mut second, address(&buffer2));
        let (mut r, mut k, mut entries) = (0, 0, 0);
        check("cusparseSpMatGetSize", sys::cusparseSpMatGetSize(c.0.cast(), &mut r, &mut k, &mut entries))?;
        let col_indices = stream.alloc::<u32>(entries as usize).map_err(failed())?;
        let values = stream.alloc::<T>(entries as usize).map_err(failed())?;
        let pointers = (col_indices.device_ptr(stream).0 as *mut _, values.device_ptr(stream).0 as *mut _);
        check("cusparseCsrSetPointers", sys::cusparseCsrSetPointers(c.0, offsets, pointers.0, pointers.1))?;
        step!(cusparseSpGEMM_copy);
        let size = (rows as usize, columns as usize);
        Ok(Product { size, row_offsets, col_indices, values, workspace: first + second.max(third) })
    }
}

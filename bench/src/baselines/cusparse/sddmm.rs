//! Sampled dense-dense products by cuSPARSE: `cusparseSDDMM` at the entries of a matrix in CSR, in every layout of the dense matrices.

use std::{ffi::c_void, time::Duration};

use cudarc::{
    cusparse::sys::{
        self,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE as PLAIN,
        cusparseOrder_t::{CUSPARSE_ORDER_COL, CUSPARSE_ORDER_ROW},
        cusparseSDDMMAlg_t::CUSPARSE_SDDMM_ALG_DEFAULT as ALGORITHM,
    },
    driver::{CudaSlice, DevicePtr},
};
use measure::{
    Measurement, Times,
    stream::{LibraryQueue, driver, library_error},
};
use rayon::prelude::*;
use warpsparse::Scalar;

use super::{
    Format, check_size,
    library::{Handle, check, has_function},
    matrix::{Arrays, MatrixDescriptor, Number, scalars},
    spmm::{DenseDescriptor, HOPELESS},
};
use crate::{baselines::Run, learning::SddmmProblem};

/// Of `A B`, whether `A` is row-major, and whether `B` is column-major: then they lie as `x` and `y` do.
const LAYOUTS: [(&str, [bool; 2]); 4] = [
    ("A row-major, B column-major", [true, true]),
    ("both row-major", [true, false]),
    ("both column-major", [false, true]),
    ("A column-major, B row-major", [false, false]),
];

/// The layouts, each preprocessed, but for those that take 1.5 times the fastest one's time in a trial.
pub(crate) fn sddmm_runs<T: Scalar + Number>(
    measurement: &Measurement<'_, SddmmProblem<'_, T>>,
) -> Result<Vec<Run>, String> {
    let &SddmmProblem { matrix, k, x, y, bytes, .. } = measurement.problem;
    check_size(matrix)?;
    if !has_function(c"cusparseSDDMM") || !has_function(c"cusparseSDDMM_preprocess") {
        return Err("the cuSPARSE found has no cusparseSDDMM".into());
    }
    let queue = LibraryQueue::new(measurement.device)?;
    let handle = Handle::new(&queue.stream)?;
    let other = [transposed(x, k), transposed(y, k)];
    let product = |[plain_a, plain_b]: [bool; 2]| {
        let dense = [if plain_a { x } else { &other[0] }, if plain_b { y } else { &other[1] }];
        Product::new(&handle, measurement.problem, [plain_a, !plain_b], dense)
    };
    let (mut refusal, mut probed) = (None, Vec::new());
    for (name, layout) in LAYOUTS {
        match product(layout).and_then(|product| probe(&queue, &product)) {
            Ok(time) => probed.push((time, name, layout)),
            Err(problem) => refusal = Some(problem),
        }
    }
    let fastest = probed.iter().map(|(time, ..)| *time).min().unwrap_or_default();
    probed.retain(|(time, ..)| *time <= fastest.mul_f64(HOPELESS));
    let mut runs = Vec::new();
    for (_, variant, layout) in probed {
        let products = (0..measurement.rotation(bytes)).map(|_| product(layout)).collect::<Result<Vec<_>, _>>();
        match products.and_then(|products| run(measurement, &queue, &products)) {
            Ok((times, values)) => {
                let figures = measurement.figures(&times, bytes, &measurement.problem.errors(&values));
                runs.push(Run { variant: variant.into(), format: None, figures });
            }
            Err(problem) => refusal = Some(problem),
        }
    }
    refusal.filter(|_| runs.is_empty()).map_or(Ok(runs), Err)
}

/// Of rows of `k` elements, the columns.
fn transposed<T: Scalar>(rows: &[T], k: usize) -> Vec<T> {
    let mut columns = vec![T::default(); rows.len()];
    columns.par_chunks_mut((rows.len() / k).max(1)).enumerate().for_each(|(column, elements)| {
        elements.iter_mut().zip(rows[column..].iter().step_by(k)).for_each(|(to, &from)| *to = from);
    });
    columns
}

/// About how long a product takes.
fn probe<T: Scalar + Number>(queue: &LibraryQueue, product: &Product<'_, T>) -> Result<Duration, String> {
    product.compute()?; // the first use of a kernel loads it
    let times = queue.device.time_each(3, |_| product.compute().map_err(library_error));
    times.map_err(|error| error.to_string())?.into_iter().min().ok_or_else(|| "no times".into())
}

/// The times of the products, and the result.
fn run<T: Scalar + Number>(
    measurement: &Measurement<'_, SddmmProblem<'_, T>>,
    queue: &LibraryQueue,
    products: &[Product<'_, T>],
) -> Result<(Times, Vec<T>), String> {
    let compute = |set: usize| products[set].compute().map_err(library_error);
    let times = measurement.times(&queue.device, products.len(), compute).map_err(|error| error.to_string())?;
    Ok((times, products[0].arrays.download_values(&queue.stream)?))
}

/// A product ready to be queued, with what it reads and writes.
struct Product<'a, T> {
    handle: &'a Handle,
    a: DenseDescriptor,
    b: DenseDescriptor,
    c: MatrixDescriptor,
    workspace: CudaSlice<u8>,
    /// What the descriptors point to.
    arrays: Arrays<T>,
    _dense: [CudaSlice<T>; 2],
}

impl<'a, T: Scalar + Number> Product<'a, T> {
    /// Has cuSPARSE prepare the product. `row_major` and `dense` are of `A` and of `B`.
    fn new(
        handle: &'a Handle,
        problem: &SddmmProblem<'_, T>,
        row_major: [bool; 2],
        dense: [&[T]; 2],
    ) -> Result<Self, String> {
        let stream = &handle.stream;
        let arrays = Arrays::new(stream, problem.matrix, Format::Csr, problem.matrix.row_offsets())?;
        let upload = |of: usize| stream.clone_htod(dense[of]).map_err(driver("copying to the device"));
        let dense = [upload(0)?, upload(1)?];
        let descriptor = |of: usize, size| {
            let order = if row_major[of] { CUSPARSE_ORDER_ROW } else { CUSPARSE_ORDER_COL };
            DenseDescriptor::new(size, order, dense[of].device_ptr(stream).0, T::DATA_TYPE)
        };
        let k = problem.k as i64;
        let (a, b) = (descriptor(0, (arrays.rows, k))?, descriptor(1, (k, arrays.columns))?);
        let (c, (one, zero), mut bytes) = (MatrixDescriptor::new(stream, &arrays)?, scalars::<T>(), 0);
        let (first, second, dtype) = (a.0.cast_const().cast(), b.0.cast_const().cast(), T::DATA_TYPE);
        // SAFETY: handle and descriptors are alive, `one` and `zero` point to numbers of the compute type in host memory, as the handle's pointer
        // mode (the default) wants them, and `bytes` takes the one number written.
        check("cusparseSDDMM_bufferSize", unsafe {
            sys::cusparseSDDMM_bufferSize(
                handle.raw, PLAIN, PLAIN, one, first, second, zero, c.0, dtype, ALGORITHM, &mut bytes,
            )
        })?;
        // An allocation of nothing is an error.
        let workspace = stream.alloc_zeros::<u8>(bytes.max(1)).map_err(driver("allocating the workspace"))?;
        let product = Self { handle, a, b, c, workspace, arrays, _dense: dense };
        // SAFETY: as `call` demands.
        check("cusparseSDDMM_preprocess", unsafe { product.call(sys::cusparseSDDMM_preprocess) })?;
        Ok(product)
    }

    /// Queues the product.
    fn compute(&self) -> Result<(), String> {
        // SAFETY: as `call` demands.
        check("cusparseSDDMM", unsafe { self.call(sys::cusparseSDDMM) })
    }

    /// # Safety
    /// `function` is cuSPARSE's `cusparseSDDMM` or `cusparseSDDMM_preprocess`.
    unsafe fn call(&self, function: Function) -> sys::cusparseStatus_t {
        let (one, zero) = scalars::<T>();
        let workspace = self.workspace.device_ptr(&self.handle.stream).0 as *mut c_void;
        let (a, b) = (self.a.0.cast_const().cast(), self.b.0.cast_const().cast());
        // SAFETY: handle and descriptors are alive; the arrays that these point to belong to `self` alone, have the sizes that the descriptors
        // give, and are freed in the order of the handle's stream, thus after the product. The scalars are in host memory and read during the
        // call. The workspace has the size asked for with the same arguments.
        unsafe {
            function(self.handle.raw, PLAIN, PLAIN, one, a, b, zero, self.c.0, T::DATA_TYPE, ALGORITHM, workspace)
        }
    }
}

/// `cusparseSDDMM`, and `cusparseSDDMM_preprocess`, which takes the same.
type Function = unsafe fn(
    sys::cusparseHandle_t,
    sys::cusparseOperation_t,
    sys::cusparseOperation_t,
    *const c_void,
    sys::cusparseConstDnMatDescr_t,
    sys::cusparseConstDnMatDescr_t,
    *const c_void,
    sys::cusparseSpMatDescr_t,
    sys::cudaDataType_t,
    sys::cusparseSDDMMAlg_t,
    *mut c_void,
) -> sys::cusparseStatus_t;

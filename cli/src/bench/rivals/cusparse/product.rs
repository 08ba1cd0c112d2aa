//! A product by cuSPARSE: the arrays on the device, their descriptors, the workspace.

use std::{ffi::c_void, ptr::null_mut, sync::Arc};

use cudarc::{
    cusparse::sys::{
        self, cudaDataType_t as DataType, cusparseDnVecDescr_t as VectorDescriptor,
        cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO, cusparseIndexType_t::CUSPARSE_INDEX_32I,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE as PLAIN, cusparseSpMVAlg_t as Algorithm,
        cusparseSpMatDescr_t as MatrixDescriptor,
    },
    driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits},
};
use warpsparse::Scalar;

use super::{
    Format,
    library::{Handle, check, driver, find_preprocess},
};
use crate::measure::Problem;

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

/// The matrix and its vectors on the device.
pub(super) struct Set<T> {
    format: Format,
    rows: i64,
    columns: i64,
    entries: i64,
    /// Offsets in CSR, indices in COO.
    row_array: CudaSlice<u32>,
    col_indices: CudaSlice<u32>,
    values: CudaSlice<T>,
    x: CudaSlice<T>,
    pub(super) y: CudaSlice<T>,
}

impl<T: Scalar + Number> Set<T> {
    /// `row_array` is what [`Format::rows`] gives for the problem's matrix.
    pub(super) fn new(
        stream: &Arc<CudaStream>,
        problem: &Problem<T>,
        format: Format,
        row_array: &[u32],
    ) -> Result<Self, String> {
        let Problem { matrix, x, .. } = problem;
        let failed = driver("copying to the device");
        Ok(Self {
            format,
            rows: matrix.nrows() as i64,
            columns: matrix.ncols() as i64,
            entries: matrix.nnz() as i64,
            row_array: stream.clone_htod(row_array).map_err(&failed)?,
            col_indices: stream.clone_htod(matrix.col_indices()).map_err(&failed)?,
            values: stream.clone_htod(matrix.values()).map_err(&failed)?,
            x: stream.clone_htod(x).map_err(&failed)?,
            y: stream.alloc_zeros(matrix.nrows()).map_err(&failed)?,
        })
    }
}

/// `y = A x` of one set by one algorithm, ready to be queued.
pub(super) struct Product<'a, T> {
    handle: &'a Handle,
    descriptors: Descriptors,
    algorithm: Algorithm,
    /// What the algorithm works in: `cusparseSpMV_preprocess` leaves its findings there.
    workspace: CudaSlice<u8>,
    /// Its arrays are what the descriptors point to: borrowed, so that they neither go away nor are used elsewhere.
    _set: &'a mut Set<T>,
}

impl<'a, T: Scalar + Number> Product<'a, T> {
    /// Has cuSPARSE prepare the product, if it has a function for that.
    pub(super) fn new(handle: &'a Handle, set: &'a mut Set<T>, algorithm: Algorithm) -> Result<Self, String> {
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
        if let Some(preprocess) = find_preprocess() {
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
    pub(super) fn multiply(&self) -> Result<(), String> {
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
        let row_array = set.row_array.device_ptr(stream).0 as *mut c_void;
        let col_indices = set.col_indices.device_ptr(stream).0 as *mut c_void;
        let values = set.values.device_ptr(stream).0 as *mut c_void;
        let (matrix, index, base, dtype) =
            (&mut new.matrix, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, T::DATA_TYPE);
        match set.format {
            Format::Csr => {
                // SAFETY: the pointers are to device memory with `rows + 1`, `entries` and `entries` elements of the types
                // named (indices fit 31 bits, so their sign does not matter); `SpMV` reads them only. Writes the
                // descriptor.
                let status = unsafe {
                    sys::cusparseCreateCsr(
                        matrix,
                        rows,
                        columns,
                        entries,
                        row_array,
                        col_indices,
                        values,
                        index,
                        index,
                        base,
                        dtype,
                    )
                };
                check("cusparseCreateCsr", status)?;
            }
            Format::Coo => {
                // SAFETY: as above, with three arrays of `entries` elements, in the order of the rows.
                let status = unsafe {
                    sys::cusparseCreateCoo(
                        matrix,
                        rows,
                        columns,
                        entries,
                        row_array,
                        col_indices,
                        values,
                        index,
                        base,
                        dtype,
                    )
                };
                check("cusparseCreateCoo", status)?;
            }
        }
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

//! A matrix in CSR or COO on the device, as cuSPARSE sees it.

use std::{ffi::c_void, ptr::null_mut, sync::Arc};

use cudarc::{
    cusparse::sys::{
        self, cudaDataType_t as DataType, cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO,
        cusparseIndexType_t::CUSPARSE_INDEX_32I, cusparseSpMatDescr_t as RawDescriptor,
    },
    driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits},
};
use measure::stream::driver;
use warpsparse::{CsrMatrix, Scalar};

use super::{Format, library::check};

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

/// The arrays of a matrix on the device.
pub(super) struct Arrays<T> {
    format: Format,
    pub(super) rows: i64,
    pub(super) columns: i64,
    entries: i64,
    /// Offsets in CSR, indices in COO.
    row_array: CudaSlice<u32>,
    col_indices: CudaSlice<u32>,
    values: CudaSlice<T>,
}

impl<T: Scalar + Number> Arrays<T> {
    /// `row_array` is what [`Format::rows`] gives for the matrix.
    pub(super) fn new(
        stream: &Arc<CudaStream>,
        matrix: &CsrMatrix<T>,
        format: Format,
        row_array: &[u32],
    ) -> Result<Self, String> {
        let failed = driver("copying to the device");
        Ok(Self {
            format,
            rows: matrix.nrows() as i64,
            columns: matrix.ncols() as i64,
            entries: matrix.nnz() as i64,
            row_array: stream.clone_htod(row_array).map_err(&failed)?,
            col_indices: stream.clone_htod(matrix.col_indices()).map_err(&failed)?,
            values: stream.clone_htod(matrix.values()).map_err(&failed)?,
        })
    }

    pub(super) fn download_values(&self, stream: &Arc<CudaStream>) -> Result<Vec<T>, String> {
        stream.clone_dtoh(&self.values).map_err(driver("copying from the device"))
    }
}

/// What cuSPARSE knows of a matrix.
pub(super) struct MatrixDescriptor(pub(super) RawDescriptor);

impl MatrixDescriptor {
    /// It points to the arrays, which must outlive what uses it.
    pub(super) fn new<T: Number>(stream: &CudaStream, arrays: &Arrays<T>) -> Result<Self, String> {
        let &Arrays { format, rows, columns, entries, .. } = arrays;
        let mut raw = null_mut();
        let row_array = arrays.row_array.device_ptr(stream).0 as *mut c_void;
        let col_indices = arrays.col_indices.device_ptr(stream).0 as *mut c_void;
        let values = arrays.values.device_ptr(stream).0 as *mut c_void;
        let (index, base, dtype) = (CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, T::DATA_TYPE);
        match format {
            Format::Csr => {
                // SAFETY: the pointers are to device memory with `rows + 1`, `entries` and `entries` elements of the types
                // named (indices fit 31 bits, so their sign does not matter); products read them only. Writes the
                // descriptor.
                let status = unsafe {
                    sys::cusparseCreateCsr(
                        &mut raw,
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
                        &mut raw,
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
        Ok(Self(raw))
    }
}

impl Drop for MatrixDescriptor {
    fn drop(&mut self) {
        // SAFETY: made by cuSPARSE, destroyed once. That is about host memory alone: products queued with it may still run.
        let _ = unsafe { sys::cusparseDestroySpMat(self.0) };
    }
}

/// Where cuSPARSE finds `alpha` and `beta`.
pub(super) fn scalars<T: Number>() -> (*const c_void, *const c_void) {
    let [one, zero] = T::ONE_AND_ZERO;
    (std::ptr::from_ref(one).cast(), std::ptr::from_ref(zero).cast())
}

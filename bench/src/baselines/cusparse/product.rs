//! A product with a vector by cuSPARSE: the arrays on the device, their descriptors, the workspace.

use std::{ffi::c_void, ptr::null_mut, sync::Arc};

use cudarc::{
    cusparse::sys::{
        self, cudaDataType_t as DataType, cusparseDnVecDescr_t as RawDescriptor,
        cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE as PLAIN, cusparseSpMVAlg_t as Algorithm,
    },
    driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, sys::CUdeviceptr},
};
use measure::stream::driver;
use warpsparse::{CsrMatrix, Scalar};

use super::{
    Format,
    library::{Handle, check, find_preprocess},
    matrix::{Arrays, MatrixDescriptor, Number, scalars},
};

/// The matrix and its vectors on the device.
pub(in super::super) struct Set<T> {
    arrays: Arrays<T>,
    x: CudaSlice<T>,
    pub(super) y: CudaSlice<T>,
}

impl<T: Scalar + Number> Set<T> {
    /// `row_array` is what [`Format::rows`] gives for the matrix.
    pub(in super::super) fn new(
        stream: &Arc<CudaStream>,
        matrix: &CsrMatrix<T>,
        x: &[T],
        format: Format,
        row_array: &[u32],
    ) -> Result<Self, String> {
        let failed = driver("copying to the device");
        Ok(Self {
            arrays: Arrays::new(stream, matrix, format, row_array)?,
            x: stream.clone_htod(x).map_err(&failed)?,
            y: stream.alloc_zeros(matrix.nrows()).map_err(&failed)?,
        })
    }

    /// The addresses of `x` and `y`.
    pub(in super::super) fn addresses(&mut self, stream: &CudaStream) -> (*mut T, *mut T) {
        (self.x.device_ptr_mut(stream).0 as *mut T, self.y.device_ptr_mut(stream).0 as *mut T)
    }
}

/// `y = A x` of one set by one algorithm, ready to be queued.
pub(in super::super) struct Product<'a, T> {
    handle: &'a Handle,
    matrix: MatrixDescriptor,
    x: VectorDescriptor,
    y: VectorDescriptor,
    algorithm: Algorithm,
    /// What the algorithm works in: `cusparseSpMV_preprocess` leaves its findings there.
    workspace: CudaSlice<u8>,
    /// Its arrays are what the descriptors point to: borrowed, so that they neither go away nor are used elsewhere.
    _set: &'a mut Set<T>,
}

impl<'a, T: Scalar + Number> Product<'a, T> {
    /// Has cuSPARSE prepare the product, if it has a function for that.
    pub(in super::super) fn new(handle: &'a Handle, set: &'a mut Set<T>, algorithm: Algorithm) -> Result<Self, String> {
        let stream = &handle.stream;
        let matrix_descriptor = MatrixDescriptor::new(stream, &set.arrays)?;
        let x_descriptor = VectorDescriptor::new(set.arrays.columns, set.x.device_ptr(stream).0, T::DATA_TYPE)?;
        let y_descriptor = VectorDescriptor::new(set.arrays.rows, set.y.device_ptr_mut(stream).0, T::DATA_TYPE)?;
        let (matrix, x, y) = (matrix_descriptor.0, x_descriptor.0, y_descriptor.0);
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
        let (matrix, x, y) = (matrix_descriptor, x_descriptor, y_descriptor);
        Ok(Self { handle, matrix, x, y, algorithm, workspace, _set: set })
    }

    /// Queues the product.
    pub(in super::super) fn multiply(&self) -> Result<(), String> {
        let (matrix, x, y) = (self.matrix.0, self.x.0, self.y.0);
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

/// What cuSPARSE knows of a vector.
pub(super) struct VectorDescriptor(pub(super) RawDescriptor);

impl VectorDescriptor {
    /// Of so many elements at the address, which must outlive what uses the descriptor.
    pub(super) fn new(elements: i64, address: CUdeviceptr, dtype: DataType) -> Result<Self, String> {
        let mut raw = null_mut();
        // SAFETY: writes the descriptor; what it points to is of no concern before it is used.
        check("cusparseCreateDnVec", unsafe {
            sys::cusparseCreateDnVec(&mut raw, elements, address as *mut c_void, dtype)
        })?;
        Ok(Self(raw))
    }
}

impl Drop for VectorDescriptor {
    fn drop(&mut self) {
        // SAFETY: as that of a matrix.
        let _ = unsafe { sys::cusparseDestroyDnVec(self.0) };
    }
}

//! The values of a matrix on a device: its diagonal, new values, scaling, and the way back to the host.

use super::{DeviceMatrix, Parts, Upload, choice::Choice};
use crate::{
    DeviceSlice, DeviceVec, HostMatrix, Result, Scalar, SpmvOptions,
    device::{self, check_length},
    stored::{Factors, Stored},
};

impl<T: Scalar> DeviceMatrix<T> {
    /// Returns the `min(nrows, ncols)` elements on the diagonal. Duplicates are summed; missing entries are 0.
    ///
    /// `O(nnz)` work, queued on the matrix's stream.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn diagonal(&self) -> Result<DeviceVec<T>> {
        let mut diagonal = self.device.zeros(self.nrows.min(self.ncols))?;
        match &self.parts.stored {
            Stored::Host(matrix) => matrix.add_diagonal(diagonal.parts_mut().1.on_cpu_mut()),
            Stored::Device(arrays) => arrays.add_diagonal((&mut diagonal).into())?,
        }
        Ok(diagonal)
    }

    /// Replaces all values. The pattern and the chosen kernels stay. `values` is in the order of the values of the matrix that
    /// [`download`](Self::download) returns. For CSR, CSC, and COO sorted by row this is the order of the uploaded matrix.
    /// For DIA, ELL and BSR, `values` includes the padding, which is ignored; for HYB it holds the values of the ELL part, then those of the COO part.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device};
    ///
    /// let device = Device::auto();
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 3], vec![0, 1, 1], vec![1.0f64, 2.0, 3.0])?;
    /// let mut a = device.upload(&a)?;
    /// a.update_values(&device.upload_vec(&[10.0, 20.0, 30.0])?)?;
    /// let (x, mut y) = (device.upload_vec(&[1.0, 1.0])?, device.zeros(2)?);
    /// a.spmv(1.0, &x, 0.0, &mut y)?;
    /// assert_eq!(y.to_vec()?, [30.0, 30.0]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// `O(nnz)` work, queued on the matrix's stream, without waiting. Existing preconditioners keep the old values. The host matrix
    /// that was uploaded is unchanged. On the CPU the matrix is analysed again. In [`FormatChoice::Packed`](crate::FormatChoice::Packed), values that are
    /// stored as codes or once pass through the host, and the call waits.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) for more distinct values than a packed matrix has room for;
    /// [`LengthMismatch`](crate::Error::LengthMismatch), [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn update_values<'b>(&mut self, values: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
        let values = values.into();
        self.device.check_same("the vector of values", values.device())?;
        match &self.parts.stored {
            Stored::Host(matrix) => {
                check_length("the vector of values", matrix.values_len(), values.len())?;
                let matrix = matrix.with_values(values.on_cpu())?;
                self.replace(matrix)
            }
            Stored::Device(arrays) => {
                check_length("the vector of values", arrays.values_len(), values.len())?;
                arrays.assign(values)
            }
        }
    }

    /// Multiplies row `i` by `factors[i]`, for every row: `A = diag(factors) * A`.
    ///
    /// In DIA a zero remains a zero, whatever its factor. `O(nnz)` work, queued on the matrix's stream, without waiting; a packed matrix is scaled on the host.
    ///
    /// # Errors
    /// As [`update_values`](Self::update_values).
    pub fn scale_rows<'b>(&mut self, factors: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
        let factors = factors.into();
        check_length("the vector of row factors", self.nrows, factors.len())?;
        self.scale(Factors { rows: Some(factors), cols: None })
    }

    /// Multiplies column `j` by `factors[j]`, for every column: `A = A * diag(factors)`. Like [`scale_rows`](Self::scale_rows).
    ///
    /// # Errors
    /// As [`update_values`](Self::update_values).
    pub fn scale_cols<'b>(&mut self, factors: impl Into<DeviceSlice<'b, T>>) -> Result<()> {
        let factors = factors.into();
        check_length("the vector of column factors", self.ncols, factors.len())?;
        self.scale(Factors { rows: None, cols: Some(factors) })
    }

    fn scale(&mut self, factors: Factors<'_, T>) -> Result<()> {
        let Factors { rows, cols } = factors;
        for factors in rows.iter().chain(&cols) {
            self.device.check_same("the vector of factors", factors.device())?;
        }
        match &self.parts.stored {
            Stored::Host(matrix) => {
                let matrix = matrix.scaled(factors)?;
                self.replace(matrix)
            }
            Stored::Device(arrays) if self.parts.is_transposed => arrays.scale(Factors { rows: cols, cols: rows }),
            Stored::Device(arrays) => arrays.scale(factors),
        }
    }

    /// Copies the matrix to host memory in its device format, which differs from the uploaded one if the upload converted it.
    /// Waits for all earlier operations. On the CPU nothing is copied.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory); [`Driver`](crate::Error::Driver), also for a failure of an operation queued earlier;
    /// [`InvalidOption`](crate::Error::InvalidOption) while a graph is recorded.
    pub fn download(&self) -> Result<HostMatrix<T>> {
        device::refuse("a copy to the host")?;
        Ok(match &self.parts.stored {
            Stored::Host(matrix) => matrix.clone(),
            Stored::Device(arrays) if self.parts.is_transposed => arrays.download()?.into_transposed(),
            Stored::Device(arrays) => arrays.download()?,
        })
    }

    /// On the CPU, where operators hold the user's arrays: makes them anew.
    fn replace(&mut self, matrix: HostMatrix<T>) -> Result<()> {
        let options = self.options().clone();
        let nondeterministic = options.nondeterministic;
        let parts = matrix.upload_to(&self.device, &SpmvOptions { nondeterministic, ..SpmvOptions::default() })?.parts;
        let choices = parts.choices.map(|choice| Choice { options, ..choice })?;
        self.parts = Parts { choices, ..parts };
        Ok(())
    }
}

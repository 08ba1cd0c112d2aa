//! Conversions between the formats, on the matrix's device.

use std::{any::Any, sync::Arc};

use super::{
    DeviceMatrix, Parts,
    choice::{Choice, Choices},
    upload::{choose_csr, of_bsr},
};
use crate::{
    BsrMatrix, CsrMatrix, Device, DiaMatrix, EllMatrix, Error, Format, HostMatrix, HybMatrix, Offset, Result, Scalar,
    conversion::{copied, from_csr, to_csr},
    device,
    formats::{bsr::size_for, row_ends},
    spmv::{bsr, coo, csr, dia, ell, hyb},
    stored::{Arrays, CsrArrays, Stored},
};

impl<T: Scalar> DeviceMatrix<T> {
    /// Returns the matrix in another format, with the arrays that the conversions on the host give: `HybMatrix::try_from(&csr)` and the others.
    ///
    /// Every conversion goes through CSR, even one to the format that the matrix already has. A matrix in COO comes out with ascending columns and its duplicates summed;
    /// CSC has ascending columns; ELL and HYB keep the order of entries. BSR sums duplicates, and fills its blocks up with zeros, which are entries from then on. DIA sums duplicates and drops explicit zeros, which it cannot hold, but keeps `-0.0`. CSR is copied
    /// unchanged.
    ///
    /// ```
    /// use warpsparse::{CsrMatrix, Device, Format};
    ///
    /// let a = CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 3], vec![0, 1, 1], vec![1.0f64, 2.0, 3.0])?;
    /// let ell = Device::auto().upload(&a)?.convert(Format::Ell)?;
    /// assert_eq!(ell.convert(Format::Csr)?.download()?.into_csr()?, a);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// On a GPU this takes one or two passes over the entries and slots, and the call waits for the sizes: the width, the diagonals, the number of entries. `O(nnz)` work, and
    /// `O(nrows + ncols)` for DIA and CSC; to CSC as [`transpose`](Self::transpose). A block size of BSR that is not given
    /// is found on the host. A matrix with 64-bit offsets is converted on the host, and keeps them in CSR and CSC.
    ///
    /// # Errors
    /// [`PaddingExceeded`](Error::PaddingExceeded) if DIA, ELL or BSR would be mostly padding, before the slots are allocated; [`InvalidOption`](Error::InvalidOption) for a
    /// block size other than 2 to 8; [`InvalidMatrix`](Error::InvalidMatrix) for 2³²
    /// entries and more; [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver); [`InvalidOption`](Error::InvalidOption) while a graph is recorded.
    pub fn convert(&self, format: Format) -> Result<Self> {
        device::refuse("a conversion")?;
        let csr = match &self.parts.stored {
            Stored::Host(_) => None,
            Stored::Device(arrays) => match arrays.csr().filter(|_| !self.parts.is_transposed) {
                Some(csr) if format == Format::Csr => Some(Arc::new(copied(csr)?)),
                _ => to_csr(&**arrays, self.parts.is_transposed)?,
            },
        };
        match csr {
            Some(csr) => {
                let (parts, nnz) = converted(&csr, format)?;
                Ok(Self::new(self.device(), (self.nrows, self.ncols, nnz), parts))
            }
            None => match converted_on_host(self.download()?, format)? {
                HostMatrix::Csr(matrix) if self.device().is_cpu() => Ok(Self::of_host_csr(self.device(), matrix)),
                matrix => self.device().upload(&matrix),
            },
        }
    }
}

/// A matrix in CSR on a GPU or in the emulator in this format, and the number of its entries.
fn converted<T: Scalar>(csr: &Arc<CsrArrays<T, u32>>, format: Format) -> Result<(Parts<T>, usize)> {
    let (nrows, ncols, nnz) = (csr.nrows as usize, csr.ncols as usize, csr.nnz as usize);
    let (uploaded, bytes) = match format {
        Format::Csr => return Ok((DeviceMatrix::of_csr(Arc::clone(csr)).parts, nnz)),
        Format::Csc => return Ok((in_csc(csr)?, nnz)),
        Format::Coo => (coo::of_arrays(from_csr::to_coo(csr)?)?, coo::spmv_bytes::<T>((nrows, ncols, nnz))),
        Format::Ell => {
            let arrays = from_csr::to_ell(csr)?;
            let bytes = ell::spmv_bytes::<T>(nrows, ncols, arrays.width as usize);
            (ell::of_arrays(arrays), bytes)
        }
        Format::Hyb => {
            let (in_ell, in_coo) = from_csr::to_hyb(csr)?;
            let (width, rest) = (in_ell.width as usize, in_coo.entries as usize);
            let (ell, coo) = (ell::of_arrays(in_ell), coo::of_arrays(in_coo)?);
            let (chosen, stored) = hyb::of_parts(ell, coo, (width, nnz - rest, rest));
            let stored = stored.expect("both parts are on a device");
            ((chosen, stored), hyb::spmv_bytes::<T>(nrows, ncols, width, rest))
        }
        Format::Bsr(size) => {
            let size = size_for(size, || csr.download()?.into_csr())?;
            let arrays = from_csr::to_bsr(csr, size as u32)?;
            let (entries, blocks) = (arrays.nnz, arrays.block_columns.len());
            let bytes = bsr::spmv_bytes::<T>((nrows, ncols), (size, blocks));
            return Ok((of_bsr(bsr::of_arrays(arrays), bytes), entries));
        }
        Format::Dia => {
            let (arrays, entries) = from_csr::to_dia(csr)?;
            let bytes = dia::spmv_bytes::<T>(nrows, ncols, arrays.offsets.len());
            return Ok((Parts::of_one_kernel(dia::of_arrays(arrays), bytes), entries));
        }
    };
    Ok((Parts::of_one_kernel(uploaded, bytes), nnz))
}

/// The transpose in CSR, with the products exchanged. Nothing is analysed before the first product.
fn in_csc<T: Scalar>(csr: &Arc<CsrArrays<T, u32>>) -> Result<Parts<T>> {
    let arrays = to_csr(csr, true)?.expect("32-bit offsets stay so");
    let spmv_bytes = csr::spmv_bytes::<T, u32>((arrays.nrows as usize, arrays.ncols as usize, arrays.nnz as usize));
    let stored = Stored::Device(Box::new(Arc::clone(&arrays)) as _);
    let choices = Choices::later(move || choose_csr(&arrays, None).map(Choice::of_transpose));
    Ok(Parts { stored, is_transposed: true, spmv_bytes, choices })
}

/// Uploads a matrix in CSR, and converts it on the device. On the host it is converted for the CPU, with 64-bit offsets, and if the device has not enough memory
/// for the matrix in both formats.
pub(super) fn upload_converted<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T, O>,
    format: Format,
) -> Result<Parts<T>> {
    let narrow: Option<&CsrMatrix<T>> = (matrix as &dyn Any).downcast_ref();
    if let Some(narrow) = narrow.filter(|_| !device.is_cpu()) {
        match CsrArrays::upload(device, narrow).and_then(|arrays| converted(&Arc::new(arrays), format)) {
            Ok((parts, _)) => return Ok(parts),
            Err(Error::OutOfMemory { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(device.upload(&from_csr_on_host(matrix, format)?)?.parts)
}

fn converted_on_host<T: Scalar>(matrix: HostMatrix<T>, format: Format) -> Result<HostMatrix<T>> {
    match matrix {
        HostMatrix::Csr64(matrix) => from_csr_on_host(&matrix, format),
        HostMatrix::Csc64(matrix) => from_csr_on_host(&CsrMatrix::<T, u64>::try_from(&matrix)?, format),
        other => from_csr_on_host(&other.into_csr()?, format),
    }
}

fn from_csr_on_host<T: Scalar, O: Offset>(csr: &CsrMatrix<T, O>, format: Format) -> Result<HostMatrix<T>> {
    Ok(match format {
        Format::Csr => HostMatrix::of_csr(csr),
        Format::Csc => HostMatrix::of_csr(&csr.transpose()?).into_transposed(),
        Format::Coo => HostMatrix::Coo(row_ends(csr, 0)?),
        Format::Dia => HostMatrix::Dia(DiaMatrix::try_from(csr)?),
        Format::Ell => HostMatrix::Ell(EllMatrix::try_from(csr)?),
        Format::Hyb => HostMatrix::Hyb(HybMatrix::try_from(csr)?),
        Format::Bsr(size) => HostMatrix::Bsr(BsrMatrix::from_csr(csr, size)?),
    })
}

//! Uploads: turn a host matrix into a device matrix with the kernels for its products.

use std::sync::Arc;

use super::{Dense, DeviceMatrix, Parts, Products};
use crate::{
    CooMatrix, CscMatrix, CsrMatrix, Device, DiaMatrix, EllMatrix, Error, FormatChoice, HostMatrix, HybMatrix,
    KernelChoice, Offset, Result, Scalar, SpmvOptions, Structure,
    device::{Backend, cpu_threads},
    formats::row_ends,
    spmm::{self, GpuSpmm},
    spmv::{Chosen, Uploaded, autotune::autotune, coo, cpu, csr, csr_scatter, dia, ell, hyb},
    stored::{CsrArrays, Stored, with_matrix},
    structure::analyse_on_gpu,
};

/// A host matrix that [`Device::upload`] accepts. The trait is sealed.
///
/// CSR matrices are analysed and can be converted; other formats are uploaded as they are.
pub trait Upload: sealed::Sealed {
    /// The element type.
    type Scalar: Scalar;

    #[doc(hidden)]
    fn upload_to(&self, device: &Device, options: &SpmvOptions) -> Result<DeviceMatrix<Self::Scalar>>;
}

impl<T: Scalar, O: Offset> Upload for CsrMatrix<T, O> {
    type Scalar = T;

    fn upload_to(&self, device: &Device, options: &SpmvOptions) -> Result<DeviceMatrix<T>> {
        options.check()?;
        let mut parts = match options.format {
            FormatChoice::Csr | FormatChoice::Auto => upload_csr(device, self, options)?,
            FormatChoice::Coo => upload_coo(device, &row_ends(self, 0)?)?,
            FormatChoice::Dia => upload_dia(device, &self.try_into()?)?,
            FormatChoice::Ell => upload_ell(device, &self.try_into()?)?,
            FormatChoice::Hyb => upload_hyb(device, &self.try_into()?)?,
        };
        if options.format != FormatChoice::Auto {
            parts.options.format = options.format;
        }
        Ok(DeviceMatrix::new(device, (self.nrows(), self.ncols(), self.nnz()), parts))
    }
}

/// Uploads the transpose in CSR, with the products exchanged.
impl<T: Scalar, O: Offset> Upload for CscMatrix<T, O> {
    type Scalar = T;

    fn upload_to(&self, device: &Device, options: &SpmvOptions) -> Result<DeviceMatrix<T>> {
        options.check()?;
        if options.format != FormatChoice::Csr {
            return Err(Error::InvalidOption(format!("format {:?}: a CSC matrix stays as it is", options.format)));
        }
        let of_transpose = upload_csr(device, self.as_transposed(), options)?;
        let Products { product, transposed, dense } = of_transpose.products;
        let dense = match dense {
            Dense::Product(operator) => Dense::Transposed(operator),
            Dense::Transposed(_) | Dense::None => Dense::None,
        };
        let products = Products { product: transposed, transposed: product, dense };
        let stored = match of_transpose.stored {
            Stored::Host(matrix) => Stored::Host(matrix.into_transposed()),
            arrays => arrays,
        };
        let parts = Parts { structure: None, stored, is_transposed: true, products, ..of_transpose };
        Ok(DeviceMatrix::new(device, (self.nrows(), self.ncols(), self.nnz()), parts))
    }
}

macro_rules! as_they_are {
    ($($matrix:ident, $name:literal, $upload:ident;)*) => {$(
        impl<T: Scalar> Upload for $matrix<T> {
            type Scalar = T;

            fn upload_to(&self, device: &Device, options: &SpmvOptions) -> Result<DeviceMatrix<T>> {
                if *options != SpmvOptions::default() {
                    return Err(Error::InvalidOption(concat!("options for a ", $name, " matrix, which has none").into()));
                }
                let parts = $upload(device, self)?;
                Ok(DeviceMatrix::new(device, (self.nrows(), self.ncols(), self.nnz()), parts))
            }
        }
    )*};
}
as_they_are! {
    CooMatrix, "COO", upload_coo;
    DiaMatrix, "DIA", upload_dia;
    EllMatrix, "ELL", upload_ell;
    HybMatrix, "HYB", upload_hyb;
}

/// As the matrix in its format.
impl<T: Scalar> Upload for HostMatrix<T> {
    type Scalar = T;

    fn upload_to(&self, device: &Device, options: &SpmvOptions) -> Result<DeviceMatrix<T>> {
        with_matrix!(self, matrix => matrix.upload_to(device, options))
    }
}

mod sealed {
    use super::*;

    pub trait Sealed {}
    impl<T, O> Sealed for CsrMatrix<T, O> {}
    impl<T, O> Sealed for CscMatrix<T, O> {}
    impl<T> Sealed for CooMatrix<T> {}
    impl<T> Sealed for DiaMatrix<T> {}
    impl<T> Sealed for EllMatrix<T> {}
    impl<T> Sealed for HybMatrix<T> {}
    impl<T> Sealed for HostMatrix<T> {}
}

fn upload_coo<T: Scalar>(device: &Device, matrix: &CooMatrix<T>) -> Result<Parts<T>> {
    Ok(Parts::of_one_kernel(coo::upload(device, matrix)?, coo::spmv_bytes(matrix)))
}

fn upload_dia<T: Scalar>(device: &Device, matrix: &DiaMatrix<T>) -> Result<Parts<T>> {
    let bytes = dia::spmv_bytes::<T>(matrix.nrows(), matrix.ncols(), matrix.offsets().len());
    Ok(Parts::of_one_kernel(dia::upload(device, matrix)?, bytes))
}

fn upload_ell<T: Scalar>(device: &Device, matrix: &EllMatrix<T>) -> Result<Parts<T>> {
    let bytes = ell::spmv_bytes::<T>(matrix.nrows(), matrix.ncols(), matrix.width());
    Ok(Parts::of_one_kernel(ell::upload(device, matrix)?, bytes))
}

fn upload_hyb<T: Scalar>(device: &Device, matrix: &HybMatrix<T>) -> Result<Parts<T>> {
    Ok(Parts::of_one_kernel(hyb::upload(device, matrix)?, hyb::spmv_bytes(matrix)))
}

/// Uploads in CSR, unless the options leave the choice and DIA is better.
fn upload_csr<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T, O>,
    options: &SpmvOptions,
) -> Result<Parts<T>> {
    let spmv_bytes = csr::spmv_bytes(matrix);
    if let Backend::Cpu { .. } = device.backend() {
        let nondeterministic = options.nondeterministic;
        let options = SpmvOptions { nondeterministic, ..SpmvOptions::default() };
        let products = on_cpu(matrix, &options);
        let (structure, stored) = (Some(matrix.structure()), Stored::Host(HostMatrix::of_csr(matrix)));
        return Ok(Parts { structure, stored, is_transposed: false, spmv_bytes, products, options });
    }
    let arrays = Arc::new(CsrArrays::upload(device, matrix)?);
    let structure = analyse_on_gpu(&arrays, matrix.ncols())?;
    let dia = match options.format {
        FormatChoice::Auto => dia_that_pays(device, matrix, &structure)?,
        _ => None,
    };
    let (dia, stored_dia) = dia.map(|((dia, stored), bytes)| ((dia, bytes), stored)).unzip();
    let (product, spmv_bytes) = match (dia, options.autotune) {
        (Some(dia), false) => dia,
        (None, false) => (csr::choose(&arrays, matrix, &structure, options)?, spmv_bytes),
        (dia, true) => {
            let in_csr = options.eligible();
            let in_csr = in_csr.iter().map(|options| csr::choose(&arrays, matrix, &structure, options));
            let mut candidates = in_csr.map(|chosen| Ok((chosen?, spmv_bytes))).collect::<Result<Vec<_>>>()?;
            candidates.extend(dia);
            autotune(device, (matrix.nrows(), matrix.ncols()), candidates)?
        }
    };
    let transposed = options.nondeterministic.then(|| csr_scatter::choose(&arrays, &structure));
    let options = SpmvOptions { nondeterministic: options.nondeterministic, ..product.options.clone() };
    // Where the matrix is in DIA now, its CSR arrays go.
    let (dense, stored) = match stored_dia.filter(|_| options.format == FormatChoice::Dia) {
        Some(stored) => (Dense::None, stored),
        None => {
            let dense = Dense::Product(Box::new(GpuSpmm::new(&arrays, &structure)) as _);
            (dense, Stored::Device(Box::new(arrays) as _))
        }
    };
    let products = Products { product: Some(product), transposed, dense };
    Ok(Parts { structure: Some(structure), stored, is_transposed: false, spmv_bytes, products, options })
}

fn on_cpu<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>, options: &SpmvOptions) -> Products<T> {
    let threads = cpu_threads();
    let reason = format!("the CPU's only kernel; rows shared among {threads} threads by their entries");
    let choice = KernelChoice { kernel: "cpu_csr".into(), reason };
    let product = Some(Chosen::new(cpu::OnCpu(matrix.clone()), choice));
    let reason = "sums of several parts of the rows, added up in a fixed order".into();
    let choice = KernelChoice { kernel: "cpu_csr_scatter".into(), reason };
    let transposed = options.nondeterministic.then(|| Chosen::new(cpu::OnCpu(cpu::Transposed(matrix.clone())), choice));
    Products { product, transposed, dense: Dense::Product(Box::new(spmm::OnCpu(matrix.clone()))) }
}

/// Returns the matrix in DIA, the bytes of a product, and the arrays, if the conversion pays back within
/// [`FormatChoice::PAY_BACK`] products.
///
/// Products take time proportional to their bytes in either format, and a conversion takes as long as [`CONVERSION`]
/// products in CSR. So it pays if DIA saves more than `CONVERSION / PAY_BACK` of the bytes.
fn dia_that_pays<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T, O>,
    structure: &Structure,
) -> Result<Option<(Uploaded<T>, usize)>> {
    /// Twice the number of CSR products that take as long as the conversion on the host and its upload, to allow for hosts with
    /// fewer cores. On an H200 with 16 cores (2026-11-21), the three stencils: 510 to 680 in f32, 500 to 730 in f64.
    const CONVERSION: usize = 1250;
    let Some(diagonals) = structure.diagonals else { return Ok(None) };
    let (in_csr, in_dia) = (csr::spmv_bytes(matrix), dia::spmv_bytes::<T>(matrix.nrows(), matrix.ncols(), diagonals));
    let least_saving = in_csr / FormatChoice::PAY_BACK * CONVERSION;
    if in_dia + least_saving > in_csr {
        return Ok(None);
    }
    let dia = match DiaMatrix::try_from(matrix) {
        Ok(dia) => dia,
        Err(Error::PaddingExceeded { .. } | Error::OutOfMemory { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut chosen, stored) = dia::upload(device, &dia)?;
    chosen.options = chosen.options.format(FormatChoice::Dia);
    chosen.choice.reason =
        format!("{diagonals} diagonals, {}% of the bytes in CSR", (100.0 * in_dia as f64 / in_csr as f64).round());
    Ok(Some(((chosen, stored), in_dia)))
}

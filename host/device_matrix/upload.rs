//! Uploads: turn a host matrix into a device matrix with the kernels for its products.

use std::{borrow::Cow, sync::Arc};

use super::{
    DeviceMatrix, Parts,
    auto::{self, Place},
    choice::{Choice, Choices, Dense, Products},
    convert::upload_converted,
};
use crate::{
    BlockSize, BsrMatrix, CooMatrix, CscMatrix, CsrMatrix, Device, DiaMatrix, EllMatrix, Error, Format, FormatChoice,
    HostMatrix, HybMatrix, KernelChoice, Offset, Result, Scalar, SpmvOptions, Structure,
    device::Backend,
    formats::bsr::size_for,
    parallel,
    spmm::{self, GpuSpmm},
    spmv::{
        Chosen, Uploaded,
        autotune::autotune,
        bsr, coo, cpu, csr,
        csr_packed::{self, Packed},
        csr_scatter, dia, ell, hyb,
    },
    stored::{CsrArrays, InFormat, Stored, with_matrix},
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
        // Found here, for options that lead back to it.
        let format = match options.format {
            FormatChoice::Bsr(size) => FormatChoice::Bsr(BlockSize::Fixed(size_for(size, || Ok(self.clone()))?)),
            format => format,
        };
        let convert = |to| upload_converted(device, self, to)?.in_format(format);
        let parts = match format {
            FormatChoice::Csr | FormatChoice::Auto => upload_csr(device, self, options)?,
            FormatChoice::Coo => convert(Format::Coo)?,
            FormatChoice::Dia => convert(Format::Dia)?,
            FormatChoice::Ell => convert(Format::Ell)?,
            FormatChoice::Hyb => convert(Format::Hyb)?,
            FormatChoice::Narrow | FormatChoice::Packed => upload_packed(device, self, options)?,
            FormatChoice::Bsr(size) => convert(Format::Bsr(size))?,
        };
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
        let stored = match of_transpose.stored {
            Stored::Host(matrix) => Stored::Host(matrix.into_transposed()),
            arrays => arrays,
        };
        let choices = of_transpose.choices.map(Choice::of_transpose)?;
        let parts = Parts { stored, is_transposed: true, choices, ..of_transpose };
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
    BsrMatrix, "BSR", upload_bsr;
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
    impl<T> Sealed for BsrMatrix<T> {}
    impl<T> Sealed for CooMatrix<T> {}
    impl<T> Sealed for DiaMatrix<T> {}
    impl<T> Sealed for EllMatrix<T> {}
    impl<T> Sealed for HybMatrix<T> {}
    impl<T> Sealed for HostMatrix<T> {}
}

fn upload_bsr<T: Scalar>(device: &Device, matrix: &BsrMatrix<T>) -> Result<Parts<T>> {
    let blocks = (matrix.block_size(), matrix.block_col_indices().len());
    let bytes = bsr::spmv_bytes::<T>((matrix.nrows(), matrix.ncols()), blocks);
    Ok(of_bsr(bsr::upload(device, matrix)?, bytes))
}

/// With products with dense matrices too.
pub(super) fn of_bsr<T: Scalar>((product, stored): Uploaded<T>, spmv_bytes: usize) -> Parts<T> {
    let products = Products { product: Some(product), transposed: None, dense: dense_of_bsr(&stored) };
    let choice = Choice { structure: None, products, options: SpmvOptions::default() };
    Parts { stored, is_transposed: false, spmv_bytes, choices: Choices::made(choice) }
}

/// Products with dense matrices of a matrix in BSR.
pub(super) fn dense_of_bsr<T: Scalar>(stored: &Stored<T>) -> Dense<T> {
    Dense::Product(match stored {
        Stored::Host(HostMatrix::Bsr(matrix)) => Box::new(spmm::OnCpu(matrix.clone())),
        Stored::Device(arrays) => match arrays.in_format() {
            InFormat::Bsr(arrays) => Box::new(spmm::GpuBsr(Arc::clone(arrays))),
            _ => unreachable!("the arrays are in BSR"),
        },
        Stored::Host(_) => unreachable!("the matrix is in BSR"),
    })
}

fn upload_coo<T: Scalar>(device: &Device, matrix: &CooMatrix<T>) -> Result<Parts<T>> {
    Ok(Parts::of_one_kernel(
        coo::upload(device, matrix)?,
        coo::spmv_bytes::<T>((matrix.nrows(), matrix.ncols(), matrix.nnz())),
    ))
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
    let (width, in_coo) = (matrix.ell().width(), matrix.coo().nnz());
    let bytes = hyb::spmv_bytes::<T>(matrix.nrows(), matrix.ncols(), width, in_coo);
    Ok(Parts::of_one_kernel(hyb::upload(device, matrix)?, bytes))
}

/// Uploads in CSR, unless the options leave the choice and DIA is better.
fn upload_csr<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T, O>,
    options: &SpmvOptions,
) -> Result<Parts<T>> {
    let size = (matrix.nrows(), matrix.ncols(), matrix.nnz());
    let spmv_bytes = csr::spmv_bytes::<T, O>(size);
    if let Backend::Cpu { .. } = device.backend() {
        let stored = Stored::Host(HostMatrix::of_csr(matrix));
        let choices = Choices::made(choose_on_cpu(matrix, options.nondeterministic));
        return Ok(Parts { stored, is_transposed: false, spmv_bytes, choices });
    }
    let arrays = Arc::new(CsrArrays::upload(device, matrix)?);
    let structure = analyse_on_gpu(&arrays, matrix.ncols())?;
    let mut others = match options.format {
        FormatChoice::Auto => auto::other_formats(matrix, &arrays, &structure, options)?,
        _ => Vec::new(),
    };
    let offsets = || Ok(Cow::Borrowed(matrix.row_offsets()));
    let in_csr = |options: &SpmvOptions| {
        let chosen = csr::choose(&arrays, &offsets, &structure, options)?;
        Ok((chosen, Place { spmv_bytes, other: None }))
    };
    let (product, place) = match (options.autotune, others.pop()) {
        (false, Some(other)) => other,
        (false, None) => in_csr(options)?,
        (true, last) => {
            let mut candidates = options.eligible().iter().map(in_csr).collect::<Result<Vec<_>>>()?;
            candidates.extend(others.into_iter().chain(last));
            autotune(device, (matrix.nrows(), matrix.ncols()), candidates)?
        }
    };
    let mut choice = of_product(&arrays, structure, product, options.nondeterministic);
    // Where the matrix is in another format now, its CSR arrays go.
    let stored = match place.other {
        Some((stored, dense)) => {
            choice.products.dense = dense;
            stored
        }
        None => Stored::Device(Box::new(arrays) as _),
    };
    Ok(Parts { stored, is_transposed: false, spmv_bytes: place.spmv_bytes, choices: Choices::made(choice) })
}

/// Uploads in CSR in fewer bytes; on the CPU, and where there is nothing to pack, in CSR as it is.
fn upload_packed<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T, O>,
    options: &SpmvOptions,
) -> Result<Parts<T>> {
    let in_csr = || upload_csr(device, matrix, &SpmvOptions { format: FormatChoice::Csr, ..options.clone() });
    if device.is_cpu() {
        return in_csr()?.in_format(options.format);
    }
    match csr_packed::upload(device, matrix, options)? {
        Packed::Uploaded(uploaded, bytes) => Ok(Parts::of_one_kernel(uploaded, bytes)),
        Packed::NotPacked(why) => {
            let mut parts = in_csr()?;
            parts.choices = parts.choices.map(|choice| choice.with_reason(&format!("not packed: {why}")))?;
            Ok(parts)
        }
    }
}

/// Chooses the kernels for a matrix that is in CSR on a GPU or in the emulator, and analyses it unless its structure is known.
pub(super) fn choose_csr<T: Scalar, O: Offset>(
    arrays: &Arc<CsrArrays<T, O>>,
    known: Option<Structure>,
) -> Result<Choice<T>> {
    let structure = match known {
        Some(structure) => structure,
        None => analyse_on_gpu(arrays, arrays.ncols as usize)?,
    };
    let offsets = || Ok(Cow::Owned(arrays.row_offsets.to_vec(&arrays.device)?));
    let product = csr::choose(arrays, &offsets, &structure, &SpmvOptions::default())?;
    Ok(of_product(arrays, structure, product, false))
}

fn of_product<T: Scalar, O: Offset>(
    arrays: &Arc<CsrArrays<T, O>>,
    structure: Structure,
    product: Chosen<T>,
    nondeterministic: bool,
) -> Choice<T> {
    let options = SpmvOptions { nondeterministic, ..product.options.clone() };
    let transposed = nondeterministic.then(|| csr_scatter::choose(arrays, &structure));
    let dense = Dense::Product(Box::new(GpuSpmm::new(arrays, &structure)));
    Choice { structure: Some(structure), products: Products { product: Some(product), transposed, dense }, options }
}

/// The CPU's kernels.
pub(super) fn choose_on_cpu<T: Scalar, O: Offset>(matrix: &CsrMatrix<T, O>, nondeterministic: bool) -> Choice<T> {
    let threads = parallel::threads();
    let reason = format!("the CPU's only kernel; rows shared among {threads} threads by their entries");
    let choice = KernelChoice { kernel: "cpu_csr".into(), reason };
    let product = Some(Chosen::new(cpu::OnCpu(matrix.clone()), choice));
    let reason = "sums of several parts of the rows, added up in a fixed order".into();
    let choice = KernelChoice { kernel: "cpu_csr_scatter".into(), reason };
    let transposed = nondeterministic.then(|| Chosen::new(cpu::OnCpu(cpu::Transposed(matrix.clone())), choice));
    let products = Products { product, transposed, dense: Dense::Product(Box::new(spmm::OnCpu(matrix.clone()))) };
    let options = SpmvOptions { nondeterministic, ..SpmvOptions::default() };
    Choice { structure: Some(matrix.structure()), products, options }
}

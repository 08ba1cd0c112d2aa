//! A matrix on a device in every format.

use warpsparse::{
    BlockSize, CscMatrix, CsrKernel, CsrMatrix, Device, DeviceMatrix, FormatChoice, HybMatrix, Scalar, SpmvOptions,
};

/// The matrix in every format, with products of its own or not.
pub(crate) fn in_every_format<T: Scalar>(device: &Device, matrix: &CsrMatrix<T>) -> Vec<(String, DeviceMatrix<T>)> {
    let formats = [FormatChoice::Csr, FormatChoice::Coo, FormatChoice::Dia, FormatChoice::Ell, FormatChoice::Hyb];
    let with = |options: SpmvOptions| device.upload_with(matrix, &options).unwrap();
    let mut all: Vec<_> =
        formats.map(|format| (format!("{format:?}"), with(SpmvOptions::default().format(format)))).into();
    let choices = [FormatChoice::Narrow, FormatChoice::Packed, FormatChoice::Bsr(BlockSize::Fixed(3))];
    all.extend(choices.map(|format| (format!("{format:?}"), with(SpmvOptions::default().format(format)))));
    all.push(("adaptive".into(), with(SpmvOptions::default().kernel(CsrKernel::Adaptive).split_threshold(2))));
    all.push(("64-bit offsets".into(), device.upload(&CsrMatrix::<T, u64>::from(matrix)).unwrap()));
    let csc = CscMatrix::try_from(matrix).unwrap();
    all.push(("CSC".into(), device.upload(&csc).unwrap()));
    all.push((
        "CSC, products too".into(),
        device.upload_with(&csc, &SpmvOptions::default().nondeterministic()).unwrap(),
    ));
    all.push(("HYB of 2 slots".into(), device.upload(&HybMatrix::from_csr_with_width(matrix, 2).unwrap()).unwrap()));
    all
}

//! The formats that [`FormatChoice::Auto`] considers for a CSR matrix besides CSR, on a GPU or in the emulator.

use std::sync::Arc;

use super::{choice::Dense, upload::dense_of_bsr};
use crate::{
    BlockSize, BsrMatrix, CsrMatrix, DiaMatrix, Error, FormatChoice, Offset, Result, Scalar, SpmvOptions, Structure,
    conversion::from_csr::{to_bsr, to_dia},
    spmv::{
        Chosen, Uploaded, bsr, csr,
        csr_packed::{self, Packed},
        dia,
    },
    stored::{Arrays, CsrArrays, Stored, distinct},
};

/// A kernel, and where its arrays are.
pub(super) type Candidate<T> = (Chosen<T>, Place<T>);

/// Where the arrays of a kernel are.
pub(super) struct Place<T> {
    /// The bytes of a product.
    pub(super) spmv_bytes: usize,
    /// The arrays in another format than CSR, and their products with dense matrices.
    pub(super) other: Option<(Stored<T>, Dense<T>)>,
}

/// Returns the matrix in the formats that suit it: in DIA if that pays; for autotuning also with narrow columns, with packed values, and in BSR if its blocks hold
/// entries only. The others are not chosen without timing, as no measurement says yet when they pay.
///
/// The options are those of the upload.
pub(super) fn other_formats<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    arrays: &Arc<CsrArrays<T, O>>,
    structure: &Structure,
    options: &SpmvOptions,
) -> Result<Vec<Candidate<T>>> {
    let mut found = Vec::new();
    if options.autotune {
        found.extend(packed(matrix, arrays, FormatChoice::Narrow, options)?);
        // Without few values it would be the same again.
        if distinct(matrix.values()).is_some() {
            found.extend(packed(matrix, arrays, FormatChoice::Packed, options)?);
        }
        found.extend(in_exact_blocks(matrix, arrays)?);
    }
    found.extend(dia_that_pays(matrix, arrays, structure)?);
    Ok(found)
}

/// In CSR in fewer bytes, if there is something to pack, and a kernel with the lanes of the options.
fn packed<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    arrays: &Arc<CsrArrays<T, O>>,
    format: FormatChoice,
    options: &SpmvOptions,
) -> Result<Option<Candidate<T>>> {
    let options = options.clone().format(format);
    if options.check().is_err() {
        return Ok(None);
    }
    match that_fits(csr_packed::upload(&arrays.device, matrix, &options))? {
        Some(Packed::Uploaded((chosen, stored), spmv_bytes)) => {
            Ok(Some((chosen, Place { spmv_bytes, other: Some((stored, Dense::None)) })))
        }
        Some(Packed::NotPacked(_)) | None => Ok(None),
    }
}

/// In BSR, if every element of a block is an entry. A matrix with duplicates stays as it is.
fn in_exact_blocks<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    arrays: &Arc<CsrArrays<T, O>>,
) -> Result<Option<Candidate<T>>> {
    let is_exact = |entries: usize, added: usize| added == 0 && entries == matrix.nnz();
    let Some(blocks) = matrix.blocks().filter(|blocks| is_exact(blocks.entries, blocks.added)) else { return Ok(None) };
    let size = BlockSize::Fixed(blocks.size);
    let converted = match arrays.csr() {
        Some(arrays) => to_bsr(arrays, blocks.size as u32).map(bsr::of_arrays),
        None => BsrMatrix::from_csr(matrix, size).and_then(|matrix| bsr::upload(&arrays.device, &matrix)),
    };
    let Some((mut chosen, stored)) = that_fits(converted)? else { return Ok(None) };
    chosen.options = chosen.options.format(FormatChoice::Bsr(size));
    let spmv_bytes = bsr::spmv_bytes::<T>((matrix.nrows(), matrix.ncols()), (blocks.size, blocks.count));
    let dense = dense_of_bsr(&stored);
    Ok(Some((chosen, Place { spmv_bytes, other: Some((stored, dense)) })))
}

/// Returns the matrix in DIA, if the conversion pays back within [`FormatChoice::PAY_BACK`] products.
///
/// Products take time proportional to their bytes in either format, and a conversion takes as long as [`CONVERSION`]
/// products in CSR. So it pays if DIA saves more than `CONVERSION / PAY_BACK` of the bytes.
fn dia_that_pays<T: Scalar, O: Offset>(
    matrix: &CsrMatrix<T, O>,
    arrays: &Arc<CsrArrays<T, O>>,
    structure: &Structure,
) -> Result<Option<Candidate<T>>> {
    /// Twice the number of CSR products that take as long as a conversion on the host and its upload, to allow for hosts with fewer cores. Matrices with 32-bit
    /// offsets are converted on the device, whose time has not been measured yet. On an H200 with 16 cores (2026-11-21), the three stencils: 510 to 680 in f32, 500 to 730 in f64.
    const CONVERSION: usize = 1250;
    let Some(diagonals) = structure.diagonals else { return Ok(None) };
    let size = (matrix.nrows(), matrix.ncols(), matrix.nnz());
    let (in_csr, in_dia) =
        (csr::spmv_bytes::<T, O>(size), dia::spmv_bytes::<T>(matrix.nrows(), matrix.ncols(), diagonals));
    let least_saving = in_csr / FormatChoice::PAY_BACK * CONVERSION;
    if in_dia + least_saving > in_csr {
        return Ok(None);
    }
    let converted: Result<Uploaded<T>> = match arrays.csr() {
        Some(arrays) => to_dia(arrays).map(|(dia, _)| dia::of_arrays(dia)),
        None => DiaMatrix::try_from(matrix).and_then(|dia| dia::upload(&arrays.device, &dia)),
    };
    let Some((mut chosen, stored)) = that_fits(converted)? else { return Ok(None) };
    chosen.options = chosen.options.format(FormatChoice::Dia);
    chosen.choice.reason =
        format!("{diagonals} diagonals, {}% of the bytes in CSR", (100.0 * in_dia as f64 / in_csr as f64).round());
    Ok(Some((chosen, Place { spmv_bytes: in_dia, other: Some((stored, Dense::None)) })))
}

/// Returns `None` for a format that would be mostly padding, or does not fit into memory beside the matrix in CSR.
fn that_fits<M>(made: Result<M>) -> Result<Option<M>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(Error::PaddingExceeded { .. } | Error::OutOfMemory { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, DeviceMatrix, spmv::Product, structure::analyse_on_gpu};

    fn of_rows(ncols: usize, rows: &[Vec<(u32, f32)>]) -> CsrMatrix<f32> {
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len() as u32;
            Some(*end)
        });
        let offsets = std::iter::once(0).chain(ends).collect();
        let (columns, values) = rows.iter().flatten().copied().unzip();
        CsrMatrix::try_from_csr_data(rows.len(), ncols, offsets, columns, values).unwrap()
    }

    /// Four block rows of two blocks of 3 x 3 each, up to so far apart.
    fn in_blocks(apart: u32, value: impl Fn(u32, u32) -> f32) -> CsrMatrix<f32> {
        let row = |i: u32| {
            let first = i / 3 * 3;
            (first..first + 3).chain(apart - first..apart - first + 3).map(|j| (j, value(i, j))).collect()
        };
        of_rows(3 + apart as usize, &(0..12).map(row).collect::<Vec<_>>())
    }

    fn vector(length: usize) -> Vec<f32> {
        (0..length).map(|i| (i * 7 % 19) as f32 - 9.0).collect()
    }

    fn product(chosen: &Chosen<f32>, device: &Device, (nrows, ncols): (usize, usize)) -> Vec<f32> {
        let (x, mut y) = (device.upload_vec(&vector(ncols)).unwrap(), device.zeros(nrows).unwrap());
        let product = Product { alpha: 1.0, x: (&x).into(), beta: 0.0, y: (&mut y).into() };
        chosen.operator.spmv(product).unwrap();
        y.to_vec().unwrap()
    }

    /// The formats considered, each with the kernel, the bytes and the product of an upload in the format.
    fn formats<O: Offset>(matrix: &CsrMatrix<f32, O>, options: &SpmvOptions) -> Vec<FormatChoice> {
        let device = Device::emulated(0);
        let arrays = Arc::new(CsrArrays::upload(&device, matrix).unwrap());
        let structure = analyse_on_gpu(&arrays, matrix.ncols()).unwrap();
        let (x, mut y) = (device.upload_vec(&vector(matrix.ncols())).unwrap(), device.zeros(matrix.nrows()).unwrap());
        let mut formats = Vec::new();
        for (chosen, place) in other_formats(matrix, &arrays, &structure, options).unwrap() {
            let uploaded: DeviceMatrix<f32> = device.upload_with(matrix, &chosen.options).unwrap();
            assert_eq!(
                (uploaded.describe().kernel, uploaded.spmv_bytes()),
                (chosen.choice.kernel.clone(), place.spmv_bytes)
            );
            uploaded.spmv(1.0, &x, 0.0, &mut y).unwrap();
            assert_eq!(product(&chosen, &device, (matrix.nrows(), matrix.ncols())), y.to_vec().unwrap());
            assert_eq!(
                matches!(place.other.unwrap().1, Dense::Product(_)),
                chosen.choice.kernel.starts_with("spmv_bsr")
            );
            formats.push(chosen.options.format);
        }
        formats
    }

    #[test]
    fn every_format_that_fits_is_considered() {
        use FormatChoice::{Bsr, Dia, Narrow, Packed};
        let timed = SpmvOptions::default().format(FormatChoice::Auto).autotune();
        let blocks = Bsr(BlockSize::Fixed(3));
        let many = |i: u32, j: u32| (300 * i + j) as f32;
        let few = |i: u32, j: u32| ((i + j) % 5) as f32;
        // The second blocks begin at no multiple of 3.
        assert_eq!(formats(&in_blocks(100, few), &timed), [Narrow, Packed]);
        assert_eq!(formats(&in_blocks(102, few), &timed), [Narrow, Packed, blocks]);
        assert_eq!(formats(&CsrMatrix::<f32, u64>::from(&in_blocks(102, few)), &timed), [Narrow, Packed, blocks]);
        // Eight blocks of 3 x 3 with 72 values, which are distinct but fewer than 256.
        assert_eq!(formats(&in_blocks(102, many), &timed), [Narrow, Packed, blocks]);
        assert_eq!(formats(&in_blocks(99_999, few), &timed), [Packed, blocks]);
        // Other kernels than packed ones are asked for.
        for options in [timed.clone().kernel(crate::CsrKernel::Adaptive), timed.clone().lanes(crate::Lanes::Fixed(16))]
        {
            assert_eq!(formats(&in_blocks(102, few), &options), [blocks]);
        }
        // One entry less, or one twice, and the blocks are not exact.
        let mut rows: Vec<Vec<(u32, f32)>> =
            in_blocks(102, few).rows().map(|(j, v)| j.iter().copied().zip(v.iter().copied()).collect()).collect();
        rows[4].push((2, 1.0));
        assert_eq!(formats(&of_rows(105, &rows), &timed), [Narrow, Packed]);
        rows[4] = vec![(3, 1.0), (4, 1.0), (5, 1.0), (5, 1.0), (99, 1.0), (100, 1.0), (101, 1.0)];
        assert_eq!(formats(&of_rows(105, &rows), &timed), [Narrow, Packed]);
        // Diagonals; without timing they are all that is considered.
        let stencil: Vec<Vec<(u32, f32)>> =
            (0..3000).map(|i| (i..(i + 3).min(3000)).map(|j| (j, j as f32)).collect()).collect();
        let stencil = of_rows(3000, &stencil);
        assert_eq!(formats(&stencil, &timed), [Narrow, Dia]);
        assert_eq!(formats(&stencil, &SpmvOptions::default().format(FormatChoice::Auto)), [Dia]);
        assert_eq!(formats(&in_blocks(102, few), &SpmvOptions::default().format(FormatChoice::Auto)), []);
    }
}

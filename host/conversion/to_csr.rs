//! From the other formats into CSR, on a GPU or in the emulator: the kernel families `padded_to_csr` and `bsr_to_csr`. The arrays are those of the conversions on the host.

use std::sync::Arc;

use kernels_gpu::{
    bsr_to_csr,
    padded_to_csr::{self, Key, Operation, grid_size},
};

use super::{Operand, copy_of, offsets_of, transposed};
use crate::{
    CastFrom, Device, DeviceVec, Result, Scalar,
    device::{Readable, launch},
    stored::{Arrays, BsrArrays, CooArrays, CsrArrays, DiaArrays, EllArrays, InFormat},
};

/// A matrix in any format in CSR with 32-bit offsets; `None` for 64-bit offsets and packed matrices. One that is in CSR shares its arrays. If `is_transposed`, it is the transpose that
/// is in CSR.
///
/// # Errors
/// [`InvalidMatrix`](crate::Error::InvalidMatrix) for 2^32 entries and more.
pub(crate) fn to_csr<T: Scalar>(arrays: &dyn Arrays<T>, is_transposed: bool) -> Result<Option<Arc<CsrArrays<T, u32>>>> {
    match arrays.in_format() {
        InFormat::Csr64(_) | InFormat::Packed => Ok(None),
        InFormat::Csr(csr) if is_transposed => transposed(csr).map(Some),
        InFormat::Csr(csr) => Ok(Some(Arc::clone(csr))),
        InFormat::Coo(coo) => from_coo(coo).map(Some),
        InFormat::Bsr(bsr) => Ok(Some(Arc::new(from_bsr(bsr)?))),
        InFormat::Dia(dia) => Ok(Some(Arc::new(from_dia(dia)?))),
        InFormat::Ell(ell) => Ok(Some(Arc::new(from_ell(ell, None)?))),
        InFormat::Hyb(hyb) => match (hyb.ell.in_format(), hyb.coo.in_format()) {
            (InFormat::Ell(ell), InFormat::Coo(coo)) => Ok(Some(Arc::new(from_ell(ell, Some(coo))?))),
            _ => unreachable!("the parts are in ELL and COO"),
        },
    }
}

/// Arrays of its own for a matrix in CSR.
pub(crate) fn copied<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<CsrArrays<T, u32>> {
    let (offsets, columns) = (copy_of(&csr.row_offsets, &csr.device)?, copy_of(&csr.col_indices, &csr.device)?);
    let (size, values) = ((csr.nrows, csr.ncols, csr.nnz), csr.values.read().try_clone()?);
    // SAFETY: those of a valid matrix.
    Ok(unsafe { CsrArrays::of_vectors(size, offsets, columns, values, csr.canonical.get().copied()) })
}

/// A copy with values of another type.
pub(crate) fn cast<T: Scalar, U: Scalar + CastFrom<T>>(csr: &CsrArrays<T, u32>) -> Result<CsrArrays<U, u32>> {
    let (offsets, columns) = (copy_of(&csr.row_offsets, &csr.device)?, copy_of(&csr.col_indices, &csr.device)?);
    let (size, mut values) = ((csr.nrows, csr.ncols, csr.nnz), csr.device.scratch::<U>(csr.nnz as usize)?);
    values.cast_from(&csr.values.read())?;
    // SAFETY: those of a valid matrix.
    Ok(unsafe { CsrArrays::of_vectors(size, offsets, columns, values, csr.canonical.get().copied()) })
}

/// Sorted by column, duplicates summed.
fn from_coo<T: Scalar>(coo: &CooArrays<T>) -> Result<Arc<CsrArrays<T, u32>>> {
    let (device, size) = (&coo.device, (coo.nrows, coo.ncols, coo.entries));
    let (offsets, columns, values) =
        (coo_offsets(coo)?, copy_of(&coo.col_indices, device)?, coo.values.read().try_clone()?);
    // SAFETY: the entries of a valid matrix, sorted by row, and where each row begins.
    let rows = unsafe { CsrArrays::of_vectors(size, offsets, columns, values, None) };
    match Operand::Device(Arc::new(rows)).canonical()? {
        Operand::Device(csr) => Ok(csr),
        Operand::Host(_) => unreachable!("what is on a device stays there"),
    }
}

/// The offsets of the rows of a COO matrix.
fn coo_offsets<T: Scalar>(coo: &CooArrays<T>) -> Result<DeviceVec<u32>> {
    offsets_of_sorted(&coo.device, (coo.nrows, coo.entries), coo.row_indices.readable(&coo.device))
}

/// Where each row begins, from the rows of all entries in ascending order.
pub(crate) fn offsets_of_sorted(
    device: &Device,
    (rows, entries): (u32, u32),
    row_indices: Readable<'_, u32>,
) -> Result<DeviceVec<u32>> {
    let offsets = rows as usize + 1;
    let mut row_offsets = device.scratch(offsets)?;
    let args = padded_to_csr::OffsetArgs { rows, entries, row_indices, row_offsets: row_offsets.writable() };
    let entry = Key { operation: Operation::CooOffsets }.entry();
    // SAFETY: the rows of the entries in order, and a new array.
    unsafe { launch(device, entry, grid_size(offsets as u64), args) }?;
    Ok(row_offsets)
}

/// The entries of each row of the ELL part, then those of the COO part, if there is one.
fn from_ell<T: Scalar>(ell: &EllArrays<T>, coo: Option<&CooArrays<T>>) -> Result<CsrArrays<T, u32>> {
    let (device, rows, row_blocks) = (&ell.device, ell.nrows, grid_size(ell.nrows.into()));
    let coo = match coo.filter(|coo| coo.entries > 0) {
        Some(coo) => Some((coo, coo_offsets(coo)?)),
        None => None,
    };
    let mut counts = device.scratch(rows as usize)?;
    if rows > 0 {
        let args = padded_to_csr::EllCountArgs {
            rows,
            width: ell.width,
            leading_dimension: ell.leading_dimension,
            col_indices: ell.col_indices.readable(device),
            coo_offsets: coo.as_ref().map(|(_, offsets)| offsets.readable()).unwrap_or_default(),
            counts: counts.writable(),
        };
        let entry = Key { operation: Operation::EllCount }.entry();
        // SAFETY: a valid matrix, the offsets of its COO part, and a new count for each row.
        unsafe { launch(device, entry, row_blocks, args) }?;
    }
    let (offsets, new_entries) = offsets_of(&counts, (rows, ell.ncols))?;
    let (mut columns, mut values) = (device.scratch(new_entries as usize)?, device.scratch(new_entries as usize)?);
    if new_entries > 0 {
        let old = ell.values.read();
        let args = padded_to_csr::EllFillArgs {
            rows,
            width: ell.width,
            new_entries,
            leading_dimension: ell.leading_dimension,
            col_indices: ell.col_indices.readable(device),
            values: old.readable(),
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
        };
        let entry = Key { operation: Operation::EllFill(T::DTYPE) }.entry();
        // SAFETY: a valid matrix, with the offsets of as many entries as are counted, and new arrays for them; the entry is for `T`.
        unsafe { launch(device, entry, row_blocks, args) }?;
    }
    if let Some((coo, coo_offsets)) = &coo {
        let old = coo.values.read();
        let args = padded_to_csr::CooFillArgs {
            rows,
            entries: coo.entries,
            new_entries,
            row_indices: coo.row_indices.readable(device),
            col_indices: coo.col_indices.readable(device),
            values: old.readable(),
            coo_offsets: coo_offsets.readable(),
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
        };
        let entry = Key { operation: Operation::CooFill(T::DTYPE) }.entry();
        // SAFETY: a valid matrix, sorted by row, whose entries have been counted with those of the ELL part; the entry is for `T`.
        unsafe { launch(device, entry, grid_size(coo.entries.into()), args) }?;
    }
    // SAFETY: the offsets count the rows' entries, whose columns are those of a valid matrix.
    Ok(unsafe { CsrArrays::of_vectors((rows, ell.ncols, new_entries), offsets, columns, values, None) })
}

/// The slots that do not hold +0.0, with ascending columns.
fn from_dia<T: Scalar>(dia: &DiaArrays<T>) -> Result<CsrArrays<T, u32>> {
    let (device, rows, blocks) = (&dia.device, dia.nrows, grid_size(dia.nrows.into()));
    let old = dia.values.read();
    let args = || padded_to_csr::DiaArgs {
        rows,
        cols: dia.ncols,
        diagonals: dia.offsets.len() as u32,
        new_entries: 0,
        leading_dimension: dia.leading_dimension,
        offsets: dia.offsets.readable(device),
        values: old.readable(),
        new_offsets: Default::default(),
        counts: Default::default(),
        new_columns: Default::default(),
        new_values: Default::default(),
    };
    let mut counts = device.scratch(rows as usize)?;
    if rows > 0 {
        let args = padded_to_csr::DiaArgs { counts: counts.writable(), ..args() };
        let entry = Key { operation: Operation::DiaCount(T::DTYPE) }.entry();
        // SAFETY: a valid matrix, and a new count for each row; the entry is for `T`.
        unsafe { launch(device, entry, blocks, args) }?;
    }
    let (offsets, new_entries) = offsets_of(&counts, (rows, dia.ncols))?;
    let (mut columns, mut values) = (device.scratch(new_entries as usize)?, device.scratch(new_entries as usize)?);
    if new_entries > 0 {
        let args = padded_to_csr::DiaArgs {
            new_entries,
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
            ..args()
        };
        let entry = Key { operation: Operation::DiaFill(T::DTYPE) }.entry();
        // SAFETY: a valid matrix, with the offsets of as many entries as are counted, and new arrays for them; the entry is for `T`.
        unsafe { launch(device, entry, blocks, args) }?;
    }
    // SAFETY: the offsets count the rows' entries, whose columns are inside the matrix, and ascend as the diagonals do.
    Ok(unsafe { CsrArrays::of_vectors((rows, dia.ncols, new_entries), offsets, columns, values, Some(true)) })
}

/// The elements of the blocks, in their order.
fn from_bsr<T: Scalar>(bsr: &BsrArrays<T>) -> Result<CsrArrays<T, u32>> {
    let (device, rows) = (&bsr.device, bsr.nrows);
    let (block_offsets, block_columns) = (bsr.block_offsets.readable(device), bsr.block_columns.readable(device));
    let lengths = bsr_row_lengths(device, (rows, bsr.ncols, bsr.size), block_offsets, block_columns)?;
    let (offsets, new_entries) = offsets_of(&lengths, (rows, bsr.ncols))?;
    let (mut columns, mut values) = (device.scratch(new_entries as usize)?, device.scratch(new_entries as usize)?);
    if new_entries > 0 {
        let old = bsr.values.read();
        let args = bsr_to_csr::FillArgs {
            rows,
            cols: bsr.ncols,
            size: bsr.size,
            new_entries,
            block_offsets: bsr.block_offsets.readable(device),
            block_columns: bsr.block_columns.readable(device),
            values: old.readable(),
            new_offsets: offsets.readable(),
            new_columns: columns.writable(),
            new_values: values.writable(),
        };
        let entry = bsr_to_csr::Key { operation: bsr_to_csr::Operation::Fill(T::DTYPE) }.entry();
        // SAFETY: a valid matrix, with the offsets of as many elements as are counted, and new arrays for them; the entry is for `T`.
        unsafe { launch(device, entry, bsr_to_csr::grid_size(rows), args) }?;
    }
    // SAFETY: the offsets count the rows' elements, whose columns are within the matrix.
    Ok(unsafe { CsrArrays::of_vectors((rows, bsr.ncols, new_entries), offsets, columns, values, None) })
}

/// The elements in each row of the blocks of a valid matrix in BSR, of so many rows, columns, and rows of a block.
pub(super) fn bsr_row_lengths(
    device: &Device,
    (rows, cols, size): (u32, u32, u32),
    block_offsets: Readable<'_, u32>,
    block_columns: Readable<'_, u32>,
) -> Result<DeviceVec<u32>> {
    let mut counts = device.scratch(rows as usize)?;
    if rows > 0 {
        let args = bsr_to_csr::CountArgs { rows, cols, size, block_offsets, block_columns, counts: counts.writable() };
        let entry = bsr_to_csr::Key { operation: bsr_to_csr::Operation::Count }.entry();
        // SAFETY: a valid matrix, and a new count for each row.
        unsafe { launch(device, entry, bsr_to_csr::grid_size(rows), args) }?;
    }
    Ok(counts)
}

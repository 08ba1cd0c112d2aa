//! From CSR into the other formats, on a GPU or in the emulator: the kernel families `csr_to_coo`, `csr_to_ell`, `csr_to_dia` and `csr_to_bsr`. The arrays are those of the
//! conversions on the host.

use std::sync::Arc;

use kernels_gpu::{csr_to_bsr, csr_to_coo, csr_to_dia, csr_to_ell, spmv_dia::MAX_DIAGONALS};

use super::{Operand, copy_of, offsets_of, to_csr::bsr_row_lengths};
use crate::{
    DeviceVec, Error, Result, Scalar,
    device::launch,
    formats::{
        bsr::check_blocks,
        dia::most_diagonals,
        ell::check_width,
        hyb::{most_width, width_for},
        padded::{self, leading_dimension},
    },
    primitives::row_offsets,
    stored::{BsrArrays, CooArrays, CsrArrays, DiaArrays, EllArrays},
};

/// All entries as COO.
pub(crate) fn to_coo<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<CooArrays<T>> {
    entries_behind(csr, 0)
}

/// In ELL.
///
/// # Errors
/// [`Error::PaddingExceeded`] before the slots are allocated.
pub(crate) fn to_ell<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<EllArrays<T>> {
    let width = longest_row(csr)?;
    check_width((csr.nrows as usize, csr.nnz as usize), width as usize)?;
    row_starts(csr, width)
}

/// The two parts of HYB.
pub(crate) fn to_hyb<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<(EllArrays<T>, CooArrays<T>)> {
    let (nrows, most) = (csr.nrows as usize, most_width(csr.nrows as usize, csr.nnz as usize));
    let rows_of_length = lengths(csr, 0, most as u32)?.histogram(most + 1)?.to_vec()?;
    let width = width_for(nrows, &rows_of_length) as u32;
    Ok((row_starts(csr, width)?, entries_behind(csr, width)?))
}

/// In DIA, and the number of its entries.
///
/// # Errors
/// [`Error::PaddingExceeded`] before the slots are allocated.
pub(crate) fn to_dia<T: Scalar>(csr: &Arc<CsrArrays<T, u32>>) -> Result<(DiaArrays<T>, usize)> {
    let on_host = diagonals(csr)?;
    if on_host.len() > MAX_DIAGONALS as usize {
        return Err(Error::Unsupported(format!("{} diagonals on a GPU", on_host.len())));
    }
    let csr = canonical(csr)?;
    let (device, diagonals) = (&csr.device, on_host.len() as u32);
    let twos_complement: Vec<u64> = on_host.iter().map(|&offset| offset as u64).collect();
    let offsets = device.upload_vec(&twos_complement)?;
    let leading_dimension = leading_dimension(csr.nrows as usize);
    let (mut slots, mut count) = (device.scratch(on_host.len() * leading_dimension)?, device.zeros::<u64>(1)?);
    if !slots.is_empty() {
        let (values, leading_dimension) = (csr.values.read(), leading_dimension as u64);
        let args = csr_to_dia::FillArgs {
            rows: csr.nrows,
            entries: csr.nnz,
            diagonals,
            leading_dimension,
            row_offsets: csr.row_offsets.readable(device),
            col_indices: csr.col_indices.readable(device),
            values: values.readable(),
            offsets: offsets.readable(),
            new_values: slots.writable(),
            count: count.writable(),
        };
        let entry = csr_to_dia::Key { operation: csr_to_dia::Operation::Fill(T::DTYPE) }.entry();
        let blocks = blocks(csr_to_dia::fill_grid_size(leading_dimension, diagonals));
        // SAFETY: a valid matrix with strictly ascending columns, all of its diagonals in ascending order, and new slots for them.
        unsafe { launch(device, entry, blocks, args) }?;
    }
    let nnz = count.to_vec()?[0] as usize;
    let size = (csr.nrows, csr.ncols);
    // SAFETY: a slot of every row on every diagonal; those outside of the matrix hold +0.0, as no entry is there.
    Ok((unsafe { DiaArrays::of_vectors(size, leading_dimension as u64, (&on_host, offsets), slots) }, nnz))
}

/// In BSR with blocks of this size.
///
/// # Errors
/// [`Error::PaddingExceeded`] before the values are allocated.
pub(crate) fn to_bsr<T: Scalar>(csr: &Arc<CsrArrays<T, u32>>, size: u32) -> Result<BsrArrays<T>> {
    let csr = canonical(csr)?;
    let (device, blocks) = (&csr.device, blocks_of(&csr, size)?);
    check_blocks((csr.nnz as usize, blocks.nnz as usize), size as usize)?;
    let mut new_values = device.zeros(blocks.nnz as usize * (size * size) as usize)?;
    if csr.nnz > 0 {
        let values = csr.values.read();
        let args = csr_to_bsr::FillArgs {
            rows: csr.nrows,
            entries: csr.nnz,
            size,
            blocks: blocks.nnz,
            row_offsets: csr.row_offsets.readable(device),
            col_indices: csr.col_indices.readable(device),
            values: values.readable(),
            block_offsets: blocks.row_offsets.readable(device),
            block_columns: blocks.col_indices.readable(device),
            new_values: new_values.writable(),
        };
        let entry = csr_to_bsr::Key { operation: csr_to_bsr::Operation::Fill(T::DTYPE) }.entry();
        // SAFETY: a canonical matrix, the blocks of its entries, ascending, and zeros for their values; the entry is for `T`.
        unsafe { launch(device, entry, csr_to_bsr::fill_grid_size(csr.nnz), args) }?;
    }
    let (offsets, columns) = (copy_of(&blocks.row_offsets, device)?, copy_of(&blocks.col_indices, device)?);
    let lengths = bsr_row_lengths(device, (csr.nrows, csr.ncols, size), offsets.readable(), columns.readable())?;
    let (_, entries) = row_offsets::<u32>(&lengths)?;
    // SAFETY: blocks of a valid matrix, row by row, with as many elements in the matrix as its rows have; padding has kept its zeros.
    Ok(unsafe { BsrArrays::of_vectors((csr.nrows, csr.ncols, entries as usize), size, offsets, columns, new_values) })
}

/// The blocks with entries as the entries of a canonical matrix, whose values are zeros.
fn blocks_of<T: Scalar>(csr: &CsrArrays<T, u32>, size: u32) -> Result<Arc<CsrArrays<f32, u32>>> {
    let device = &csr.device;
    let (block_rows, block_cols) = (csr.nrows.div_ceil(size), csr.ncols.div_ceil(size));
    let (mut offsets, mut columns) = (device.scratch(block_rows as usize + 1)?, device.scratch(csr.nnz as usize)?);
    let args = csr_to_bsr::BlockArgs {
        rows: csr.nrows,
        entries: csr.nnz,
        size,
        row_offsets: csr.row_offsets.readable(device),
        col_indices: csr.col_indices.readable(device),
        block_offsets: offsets.writable(),
        block_columns: columns.writable(),
    };
    let entry = csr_to_bsr::Key { operation: csr_to_bsr::Operation::Blocks }.entry();
    // SAFETY: a valid matrix, and new arrays.
    unsafe { launch(device, entry, csr_to_bsr::blocks_grid_size(csr.nrows, csr.nnz, size), args) }?;
    let zeros = device.zeros(csr.nnz as usize)?;
    // SAFETY: offsets of every so many rows of a valid matrix, and columns below the number of block columns.
    let repeated = unsafe { CsrArrays::of_vectors((block_rows, block_cols, csr.nnz), offsets, columns, zeros, None) };
    canonical(&Arc::new(repeated))
}

/// The matrix with ascending columns and duplicates summed.
fn canonical<T: Scalar>(csr: &Arc<CsrArrays<T, u32>>) -> Result<Arc<CsrArrays<T, u32>>> {
    match Operand::Device(Arc::clone(csr)).canonical()? {
        Operand::Device(csr) => Ok(csr),
        Operand::Host(_) => unreachable!("what is on a device stays there"),
    }
}

/// Column minus row of the diagonals with entries, in ascending order.
fn diagonals<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<Vec<i64>> {
    let (most, too_many) = most_diagonals((csr.nrows as usize, csr.nnz as usize), padded::MAX_FILL)?;
    if csr.nnz == 0 {
        return Ok(vec![]);
    }
    let device = &csr.device;
    let mut marks = device.zeros::<u32>((csr.nrows as usize + csr.ncols as usize).div_ceil(32))?;
    let args = csr_to_dia::MarkArgs {
        rows: csr.nrows,
        cols: csr.ncols,
        entries: csr.nnz,
        row_offsets: csr.row_offsets.readable(device),
        col_indices: csr.col_indices.readable(device),
        marks: marks.writable(),
    };
    let entry = csr_to_dia::Key { operation: csr_to_dia::Operation::Mark }.entry();
    // SAFETY: a valid matrix, and zeros of its own.
    unsafe { launch(device, entry, csr_to_dia::mark_grid_size(csr.nnz), args) }?;
    let words = marks.flagged_indices()?;
    // Each has a diagonal at least: so what comes to the host is small.
    if words.len() > most {
        return Err(too_many);
    }
    let (words, marks) = (words.to_vec()?, marks.select(&marks)?.to_vec()?);
    let bits = words.iter().zip(marks).flat_map(|(&word, marks)| {
        (0..32).filter(move |bit| marks >> bit & 1 == 1).map(move |bit| i64::from(word) * 32 + bit)
    });
    let offsets: Vec<i64> = bits.map(|diagonal| diagonal - (i64::from(csr.nrows) - 1)).collect();
    if offsets.len() > most { Err(too_many) } else { Ok(offsets) }
}

/// The first `width` entries of each row in ELL.
fn row_starts<T: Scalar>(csr: &CsrArrays<T, u32>, width: u32) -> Result<EllArrays<T>> {
    let (device, leading_dimension) = (&csr.device, leading_dimension(csr.nrows as usize));
    let slots = leading_dimension.saturating_mul(width as usize);
    let (mut columns, mut new_values) = (device.scratch(slots)?, device.scratch(slots)?);
    let leading_dimension = leading_dimension as u64;
    if slots > 0 {
        let values = csr.values.read();
        let args = csr_to_ell::FillArgs {
            rows: csr.nrows,
            entries: csr.nnz,
            width,
            leading_dimension,
            row_offsets: csr.row_offsets.readable(device),
            col_indices: csr.col_indices.readable(device),
            values: values.readable(),
            new_columns: columns.writable(),
            new_values: new_values.writable(),
        };
        let entry = csr_to_ell::Key { operation: csr_to_ell::Operation::Fill(T::DTYPE) }.entry();
        // SAFETY: a valid matrix, and new slots; the entry is for `T`.
        unsafe { launch(device, entry, blocks(csr_to_ell::fill_grid_size(leading_dimension, width)), args) }?;
    }
    // SAFETY: every slot is either an entry of its row, before all padding, or padding.
    Ok(unsafe { EllArrays::of_vectors((csr.nrows, csr.ncols), width, leading_dimension, columns, new_values) })
}

/// The entries behind the first `width` of each row as COO.
fn entries_behind<T: Scalar>(csr: &CsrArrays<T, u32>, width: u32) -> Result<CooArrays<T>> {
    let (device, size) = (&csr.device, (csr.nrows, csr.ncols));
    let counted = match width {
        0 => None,
        _ => Some(offsets_of(&lengths(csr, width, u32::MAX)?, size)?),
    };
    let (rest_offsets, new_entries) = match &counted {
        None => (csr.row_offsets.readable(device), csr.nnz),
        Some((offsets, entries)) => (offsets.readable(), *entries),
    };
    let len = new_entries as usize;
    let (mut rows, mut columns, mut new_values) = (device.scratch(len)?, device.scratch(len)?, device.scratch(len)?);
    if new_entries > 0 {
        let values = csr.values.read();
        let args = csr_to_coo::FillArgs {
            rows: csr.nrows,
            entries: csr.nnz,
            width,
            new_entries,
            row_offsets: csr.row_offsets.readable(device),
            col_indices: csr.col_indices.readable(device),
            values: values.readable(),
            rest_offsets,
            new_rows: rows.writable(),
            new_columns: columns.writable(),
            new_values: new_values.writable(),
        };
        let entry = csr_to_coo::Key { operation: csr_to_coo::Operation::Fill(T::DTYPE) }.entry();
        // SAFETY: a valid matrix, the offsets of what is behind the first entries of its rows, and new arrays for that; the entry is for `T`.
        unsafe { launch(device, entry, csr_to_coo::fill_grid_size(new_entries), args) }?;
    }
    // SAFETY: entries of a valid matrix, row by row.
    Ok(unsafe { CooArrays::of_vectors(size, rows, columns, new_values) })
}

/// The lengths of the rows without the first `skip` entries, at most `most`.
fn lengths<T: Scalar>(csr: &CsrArrays<T, u32>, skip: u32, most: u32) -> Result<DeviceVec<u32>> {
    let mut lengths = csr.device.scratch(csr.nrows as usize)?;
    measure(csr, skip, most, Some(&mut lengths), None)?;
    Ok(lengths)
}

/// The length of the longest row; 0 without rows.
fn longest_row<T: Scalar>(csr: &CsrArrays<T, u32>) -> Result<u32> {
    let mut longest = csr.device.zeros(1)?;
    measure(csr, 0, u32::MAX, None, Some(&mut longest))?;
    Ok(longest.to_vec()?[0])
}

fn measure<T: Scalar>(
    csr: &CsrArrays<T, u32>,
    skip: u32,
    most: u32,
    lengths: Option<&mut DeviceVec<u32>>,
    longest: Option<&mut DeviceVec<u32>>,
) -> Result<()> {
    if csr.nrows == 0 {
        return Ok(());
    }
    let args = csr_to_ell::LengthArgs {
        rows: csr.nrows,
        skip,
        most,
        row_offsets: csr.row_offsets.readable(&csr.device),
        lengths: lengths.map(DeviceVec::writable).unwrap_or_default(),
        longest: longest.map(DeviceVec::writable).unwrap_or_default(),
    };
    let entry = csr_to_ell::Key { operation: csr_to_ell::Operation::Lengths }.entry();
    // SAFETY: a valid matrix, and new arrays: a length for each row, and one zero.
    unsafe { launch(&csr.device, entry, csr_to_ell::lengths_grid_size(csr.nrows), args) }
}

fn blocks(blocks: u64) -> u32 {
    u32::try_from(blocks).expect("2^32 blocks fill 2^43 slots, more than any memory holds")
}

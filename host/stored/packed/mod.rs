//! CSR matrices on a device in fewer bytes: narrow columns, few values. They are packed and unpacked on the host.

mod tiles;
mod values;
mod words;

use std::{marker::PhantomData, sync::Arc};

pub(crate) use tiles::Tiles;
use tiles::with_tiles;
use values::PackedValues;
pub(crate) use values::distinct;

use super::{Arrays, Factors, HostMatrix, InFormat};
use crate::{
    CsrMatrix, Device, DeviceSlice, DeviceSliceMut, Offset, Result, Scalar, device::Buffer, memory::zeros,
    parallel::for_blocks,
};

/// A CSR matrix on a GPU or in the emulator, as the kernels `spmv_csr_packed` take it.
#[derive(Debug)]
pub(crate) struct PackedArrays<T, O> {
    pub(crate) device: Device,
    pub(crate) nrows: u32,
    ncols: usize,
    entries: usize,
    rows_of_tile: usize,
    pub(crate) tile_entries: Buffer<u64>,
    /// `None` for columns of 32 bits.
    pub(crate) tile_columns: Option<Buffer<u32>>,
    /// Bytes of a row's end: 2 or 4.
    pub(crate) end_bytes: usize,
    pub(crate) row_ends: Buffer<u32>,
    pub(crate) columns: Buffer<u32>,
    pub(crate) values: PackedValues<T>,
    offsets: PhantomData<O>,
}

impl<T: Scalar, O: Offset> PackedArrays<T, O> {
    /// Packs a matrix that is cut into these tiles. With a table of all its [`distinct`] values they are stored as codes, or once.
    pub(crate) fn upload(
        device: &Device,
        matrix: &CsrMatrix<T, O>,
        tiles: &Tiles,
        table: Option<&[T]>,
    ) -> Result<Self> {
        let (row_offsets, col_indices, values) = matrix.arrays();
        let (tile_columns, columns) = match tiles.column_bytes() {
            2 => {
                let narrow = tiles.narrow_columns(col_indices)?;
                (Some(Buffer::upload(device, &tiles.columns)?), Buffer::upload(device, &narrow)?)
            }
            _ => (None, Buffer::share(device, col_indices)?),
        };
        Ok(Self {
            device: device.clone(),
            nrows: u32::try_from(matrix.nrows()).expect("a CSR matrix has at most u32::MAX rows"),
            ncols: matrix.ncols(),
            entries: matrix.nnz(),
            rows_of_tile: tiles.rows,
            tile_entries: Buffer::upload(device, &tiles.firsts)?,
            tile_columns,
            end_bytes: tiles.end_bytes(),
            row_ends: Buffer::upload(device, &tiles.row_ends(row_offsets)?)?,
            columns,
            values: PackedValues::upload(device, values, table)?,
            offsets: PhantomData,
        })
    }

    /// Bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        let words = self.row_ends.len() + self.columns.len() + self.tile_columns.as_ref().map_or(0, Buffer::len);
        8 * self.tile_entries.len() + 4 * words + self.values.bytes()
    }

    /// The matrix in host memory.
    fn unpacked(&self) -> Result<CsrMatrix<T, O>> {
        let (device, nrows) = (&self.device, self.nrows as usize);
        let (tile_entries, ends) = (self.tile_entries.to_vec(device)?, self.row_ends.to_vec(device)?);
        let end = |row: usize| match self.end_bytes {
            2 => words::narrow::<u16>(&ends)[row].into(),
            _ => ends[row],
        };
        let mut row_offsets = zeros::<O>(nrows + 1)?;
        for_blocks(0..nrows, &mut row_offsets[1..], &|rows, offsets: &mut [O]| {
            for (row, offset) in rows.zip(offsets) {
                let place = tile_entries[row / self.rows_of_tile] as usize + end(row) as usize;
                *offset = O::try_from(place).ok().expect("it was an offset of the matrix");
            }
        });
        let mut columns = self.columns.to_vec(device)?;
        if let Some(tile_columns) = &self.tile_columns {
            let tile_columns = tile_columns.to_vec(device)?;
            let packed = std::mem::replace(&mut columns, zeros(self.entries)?);
            let narrow = words::narrow::<u16>(&packed);
            for_blocks(0..self.entries, &mut columns, &|entries, columns: &mut [u32]| {
                for ((entry, tile), column) in with_tiles(&tile_entries, entries).zip(columns) {
                    *column = tile_columns[tile] + u32::from(narrow[entry]);
                }
            });
        }
        let values = self.values.to_vec(self.entries)?;
        // SAFETY: the offsets, the columns and the number of values are those of the valid matrix that was packed.
        Ok(unsafe { CsrMatrix::from_csr_data_unchecked(nrows, self.ncols, row_offsets, columns, values) })
    }
}

/// Everything but new values for those that are stored as they are passes through the host, and waits.
impl<T: Scalar, O: Offset> Arrays<T> for Arc<PackedArrays<T, O>> {
    fn in_format(&self) -> InFormat<'_, T> {
        InFormat::Packed
    }

    fn add_diagonal(&self, mut diagonal: DeviceSliceMut<'_, T>) -> Result<()> {
        let mut sums = diagonal.to_vec()?;
        self.download()?.add_diagonal(&mut sums);
        diagonal.copy_from(&sums)
    }

    fn scale(&self, factors: Factors<'_, T>) -> Result<()> {
        let on_host = |factors: Option<DeviceSlice<'_, T>>| {
            factors.map(|factors| Device::cpu().upload_vec(&factors.to_vec()?)).transpose()
        };
        let (rows, cols) = (on_host(factors.rows)?, on_host(factors.cols)?);
        let factors = Factors { rows: rows.as_ref().map(Into::into), cols: cols.as_ref().map(Into::into) };
        match self.download()?.scaled(factors)? {
            HostMatrix::Csr(matrix) => self.values.replace(matrix.values()),
            HostMatrix::Csr64(matrix) => self.values.replace(matrix.values()),
            _ => unreachable!("a format stays as it is"),
        }
    }

    fn values_len(&self) -> usize {
        self.entries
    }

    fn assign(&self, values: DeviceSlice<'_, T>) -> Result<()> {
        self.values.assign(values)
    }

    fn download(&self) -> Result<HostMatrix<T>> {
        Ok(HostMatrix::of_csr(&self.unpacked()?))
    }
}

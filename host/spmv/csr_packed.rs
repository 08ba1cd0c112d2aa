//! Launches of the kernel family `spmv_csr_packed`, and what of a matrix is packed.

use std::sync::Arc;

use kernels_gpu::spmv_csr_packed::{Args, Key, MAX_LANES, TABLE, grid_size, rows_of_tile};

use super::{Chosen, CsrKernel, FormatChoice, Lanes, Product, Spmv, SpmvOptions, Uploaded, csr, csr_vector};
use crate::{
    CsrMatrix, Device, DeviceVec, KernelChoice, Offset, Result, Scalar,
    device::launch,
    stored::{PackedArrays, Stored, Tiles, distinct},
};

/// A kernel of the family, and the matrix.
#[derive(Debug)]
struct CsrPacked<T, O> {
    key: Key,
    arrays: Arc<PackedArrays<T, O>>,
}

/// A matrix in fewer bytes than in CSR, and the bytes of a product; or why there is nothing to pack.
pub(crate) enum Packed<T> {
    Uploaded(Uploaded<T>, usize),
    NotPacked(String),
}

/// Packs the columns of a matrix, and its values if the format in the valid `options` says so, for a GPU or the emulator.
pub(crate) fn upload<T: Scalar, O: Offset>(
    device: &Device,
    matrix: &CsrMatrix<T, O>,
    options: &SpmvOptions,
) -> Result<Packed<T>> {
    /// Rows of as many entries are summed in several runs by `spmv_csr_vector`.
    const MOST_ENTRIES: usize = 1 << 31;
    let (lanes, of_lanes) = csr_vector::lanes(&matrix.structure(), options, MAX_LANES);
    let rows = rows_of_tile(lanes);
    let tiles = Tiles::of(matrix, rows as usize)?;
    let packs_values = options.format == FormatChoice::Packed;
    let table = if packs_values { distinct(matrix.values()) } else { None };

    let columns = format!("columns at most {} apart in {rows} rows", tiles.span);
    let values = match &table {
        Some(table) => format!("{} distinct value{}", table.len(), if table.len() == 1 { "" } else { "s" }),
        None if packs_values => format!("more than {TABLE} distinct values"),
        None => "values as they are".into(),
    };
    if tiles.column_bytes() == 4 && table.is_none() || tiles.longest >= MOST_ENTRIES {
        return Ok(Packed::NotPacked(format!("{columns}, {} entries at most; {values}", tiles.longest)));
    }
    let arrays = Arc::new(PackedArrays::upload(device, matrix, &tiles, table.as_deref())?);
    let key = Key { dtype: T::DTYPE, column_bytes: tiles.column_bytes(), values: arrays.values.stored, lanes };

    let size = (matrix.nrows(), matrix.ncols(), matrix.nnz());
    let vectors = size_of::<T>() * (matrix.nrows() + matrix.ncols());
    let per_entry = |bytes: usize| bytes as f64 / matrix.nnz().max(1) as f64;
    let in_csr = per_entry(csr::spmv_bytes::<T, O>(size) - vectors);
    let reason = format!(
        "{} bits for {columns}; {values}; {:.2} bytes per entry, {in_csr:.2} in CSR; {of_lanes}",
        8 * key.column_bytes,
        per_entry(arrays.bytes())
    );
    let choice = KernelChoice { kernel: key.entry().name.into(), reason };
    let operator = Box::new(CsrPacked { key, arrays: Arc::clone(&arrays) });
    let options = SpmvOptions::default().format(options.format).kernel(CsrKernel::Vector).lanes(Lanes::Fixed(lanes));
    let bytes = arrays.bytes() + vectors;
    Ok(Packed::Uploaded((Chosen { operator, choice, options }, Stored::Device(Box::new(arrays))), bytes))
}

impl<T: Scalar, O: Offset> Spmv<T> for CsrPacked<T, O> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let (entry, arrays) = (self.key.entry(), &self.arrays);
        let blocks = grid_size(arrays.nrows, self.key.lanes);
        if blocks == 0 {
            return Ok(());
        }
        let values = arrays.values.read();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: arrays.nrows,
            tiles: blocks,
            end_bytes: arrays.end_bytes as u32,
            alpha,
            beta,
            tile_entries: arrays.tile_entries.readable(&arrays.device),
            tile_columns: arrays.tile_columns.as_ref().map(|it| it.readable(&arrays.device)).unwrap_or_default(),
            row_ends: arrays.row_ends.readable(&arrays.device),
            columns: arrays.columns.readable(&arrays.device),
            codes: values.codes.as_ref().map(DeviceVec::readable).unwrap_or_default(),
            values: values.values.readable(),
            x: x.readable(),
            y,
        };
        // SAFETY: the arrays are those of a valid matrix, packed by tiles of this many lanes' rows, and vectors of fitting lengths; `y` is borrowed
        // mutably, so it overlaps none of the others. `Args<T>` is what the entry for `T` takes.
        unsafe { launch(queue, entry, blocks, args) }
    }
}

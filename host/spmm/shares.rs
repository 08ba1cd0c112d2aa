//! The distribution of the rows of a product over groups of GPU threads.

use kernels_gpu::{
    Entry,
    spmm_rows::{Rows, Tile},
};

use super::choice;
use crate::{
    Error, Offset, Result, Scalar, Structure,
    device::{Buffer, KernelLaunch, Readable},
    kernel_choice::lanes_per_row,
    pieces::Pieces,
    stored::CsrArrays,
};

/// A kernel with its tile, the pieces of the long rows, and the counters of their groups.
#[derive(Debug)]
pub(super) struct Shares {
    pub(super) cols: u32,
    pub(super) tile: Tile,
    pub(super) entry: &'static Entry,
    pub(super) pieces: u32,
    /// A description of the tile and the long rows.
    pub(super) summary: String,
    split_threshold: u32,
    ahead: u32,
    entries_ahead: u64,
    row_order: Option<Buffer<u32>>,
    piece_rows: Buffer<u32>,
    piece_bounds: Buffer<u64>,
    arrivals: Buffer<u32>,
}

impl Shares {
    /// Distributes rows for `cols` columns; `split_threshold` and the order of the rows, which is a permutation, if forced.
    pub(super) fn new<T: Scalar, O: Offset>(
        csr: &CsrArrays<T, O>,
        structure: &Structure,
        (tile, entry): (Tile, &'static Entry),
        cols: u32,
        split_threshold: Option<u32>,
        row_order: Option<&[u32]>,
    ) -> Result<Self> {
        let split_threshold = split_threshold.unwrap_or_else(|| choice::split_threshold(structure, tile, cols));
        let device = &csr.device;
        let longest = structure.max_row;
        let cut = match longest > split_threshold as usize {
            true => {
                let offsets = csr.row_offsets.to_vec(device)?;
                Pieces::cut(&offsets, split_threshold as usize, split_threshold.next_multiple_of(4) as usize)
            }
            false => Pieces::none(),
        };
        let too_many =
            || Error::Unsupported(format!("{cols} columns, and rows of more than {split_threshold} entries cut"));
        let pieces = u32::try_from(cut.rows.len() / 4).map_err(|_| too_many())?;
        let counters = (pieces as usize).checked_mul(tile.count(cols) as usize).ok_or_else(too_many)?;
        (pieces as usize).checked_mul(cols as usize).ok_or_else(too_many)?;
        let long = match cut.long_rows {
            0 => format!("no row of more than {split_threshold} entries"),
            rows => format!("{rows} rows of more than {split_threshold} entries, up to {longest}, in {pieces} pieces"),
        };
        // The emulator has no caches, but checks prefetches.
        let ahead = if device.is_cuda() { choice::ahead(tile) } else { 8 };
        let Tile { vector, lanes, coarsening } = tile;
        let ordered = if row_order.is_some() { "; rows in the order given" } else { "" };
        Ok(Self {
            cols,
            tile,
            entry,
            pieces,
            summary: format!(
                "{cols} columns: {lanes}, each with {coarsening} vectors of {vector}; {long}{ordered}",
                lanes = lanes_per_row(lanes)
            ),
            split_threshold,
            // In another order, the next rows are unknown.
            ahead: if row_order.is_none() { ahead } else { 0 },
            entries_ahead: (f64::from(ahead) * structure.mean_row()) as u64,
            row_order: row_order.map(|order| Buffer::upload(device, order)).transpose()?,
            piece_rows: Buffer::upload(device, &cut.rows)?,
            piece_bounds: Buffer::upload(device, &cut.bounds)?,
            arrivals: Buffer::zeros(device, counters)?,
        })
    }

    /// The memory for `cols` columns of each piece.
    pub(super) fn room(&self) -> usize {
        self.pieces as usize * self.cols as usize
    }

    /// Returns the number of blocks, at most 2³¹ - 1 on a GPU.
    pub(super) fn blocks(&self, nrows: u32) -> Result<u32> {
        grid(self.tile.grid_size(nrows, self.cols, self.pieces), nrows, self.cols)
    }

    /// Returns the part of a kernel's arguments without the row offsets. Its rules hold if the caller keeps launches of
    /// these shares apart.
    pub(super) fn rows<'a, T: Scalar, O: Offset>(
        &'a mut self,
        csr: &'a CsrArrays<T, O>,
        (b_row_bytes, c_row_bytes): (u32, u32),
    ) -> Rows<KernelLaunch<'a>> {
        let device = &csr.device;
        Rows {
            rows: csr.nrows,
            cols: self.cols,
            b_row_bytes,
            c_row_bytes,
            pieces: self.pieces,
            split_threshold: self.split_threshold,
            wide_offsets: u32::from(size_of::<O>() == 8),
            ahead: self.ahead,
            entries_ahead: self.entries_ahead,
            entries: csr.nnz.index() as u64,
            row_offsets: Readable::default(),
            col_indices: csr.col_indices.readable(device),
            row_order: self.row_order.as_ref().map(|order| order.readable(device)).unwrap_or_default(),
            piece_rows: self.piece_rows.readable(device),
            piece_bounds: self.piece_bounds.readable(device),
            arrivals: self.arrivals.writable(device),
        }
    }
}

/// Returns the address of the row offsets, which these kernels accept in either width.
pub(super) fn row_offsets<'a, T, O: Offset>(launch: &mut KernelLaunch<'a>, csr: &'a CsrArrays<T, O>) -> *const u32 {
    launch.read("row_offsets", csr.row_offsets.array(), &csr.device).cast()
}

/// Checks the number of blocks against the limit of a GPU.
pub(super) fn grid(blocks: u64, nrows: u32, cols: u32) -> Result<u32> {
    let blocks = u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32);
    blocks.ok_or_else(|| {
        Error::Unsupported(format!("a product of {nrows} rows and {cols} columns: the grid is too large"))
    })
}

/// Returns the distance between rows in bytes, in 32 bits as in kernels.
pub(super) fn row_bytes<T>(leading_dimension: usize) -> Result<u32> {
    let bytes = leading_dimension.checked_mul(size_of::<T>()).and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| Error::Unsupported(format!("a leading dimension of {leading_dimension}: 2^32 bytes and more")))
}

/// Returns the number of columns, in 32 bits as in kernels.
pub(super) fn columns(cols: usize) -> Result<u32> {
    u32::try_from(cols).map_err(|_| Error::Unsupported(format!("a dense matrix of {cols} columns: 2^32 and more")))
}

/// Returns the largest power of 2, up to 16, that divides all these numbers of elements.
pub(super) fn alignment(elements: &[usize]) -> usize {
    1 << elements.iter().fold(0, |bits, elements| bits | elements).trailing_zeros().min(4)
}

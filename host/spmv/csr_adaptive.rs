//! Launches of the kernel family `spmv_csr_adaptive`, and the pieces of long rows that it works on.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex},
};

use kernels_gpu::spmv_csr_adaptive::{Args, Key, grid_size};

use super::{
    Chosen, CsrKernel, Lanes, Product, Spmv, SpmvOptions,
    csr::{self, RowOffsets},
};
use crate::{
    Error, KernelChoice, Offset, Result, Scalar, Structure,
    device::{self, Buffer, launch},
    kernel_choice::lanes_per_row,
    pieces::Pieces,
    stored::CsrArrays,
};

/// Entries per piece: few in small matrices, to get many warps; in large ones as many as a warp of a full GPU gets, so
/// that few rows have several pieces, whose sums pass through memory.
///
/// On an H200 (driver 580, 2026-11-21), f32, R-MAT 17/8, the rows of more than 64 entries alone: 8.1 us in pieces of 256,
/// 9.7 of 512, 12.8 of 1024.
const PIECE_ENTRIES: RangeInclusive<usize> = 256..=4096;

/// A kernel of the family, the matrix, and the pieces of its long rows.
#[derive(Debug)]
struct CsrAdaptive<T, O> {
    key: Key,
    csr: Arc<CsrArrays<T, O>>,
    split_threshold: u32,
    pieces: u32,
    piece_rows: Buffer<u32>,
    piece_bounds: Buffer<u64>,
    /// The memory through which the warps of a launch communicate. Launches of one matrix are ordered on any stream,
    /// because each joins the matrix's own stream: the lock is held until a launch has been queued and has joined.
    exchange: Arc<Mutex<Exchange<T>>>,
}

#[derive(Debug)]
struct Exchange<T> {
    partials: Buffer<T>,
    arrivals: Buffer<u32>,
}

/// Returns the threshold for long rows: four times the mean, but at least 64, below which a group of lanes is never
/// busy for long, and at most 256, from where on one row occupies a warp.
///
/// On an H200 (driver 580, 2026-11-21), f32, short and long rows launched apart, R-MAT 20/16: 110 us with 64, 112 with
/// 128, 122 with 256; R-MAT 17/8: 18.0, 19.8 and 20.1.
pub(super) fn split_threshold(structure: &Structure) -> usize {
    ((4.0 * structure.mean_row()) as usize).clamp(64, 256)
}

/// Returns the threshold and the size of the pieces. If most rows are long and of equal length, a row is one piece.
fn cutting(structure: &Structure, options: &SpmvOptions) -> (usize, usize) {
    /// Concurrent warps of a large GPU.
    const WARPS: usize = 1 << 13;
    match options.split_threshold {
        None => {
            let for_rows = (structure.mean_row() as usize).next_power_of_two();
            let (least, most) = (*PIECE_ENTRIES.start(), *PIECE_ENTRIES.end());
            let piece = (structure.nnz / WARPS).next_power_of_two().max(for_rows).clamp(least, most);
            (split_threshold(structure), piece)
        }
        Some(forced) => (forced as usize, forced.next_multiple_of(4) as usize),
    }
}

pub(super) fn choose<T: Scalar, O: Offset>(
    arrays: &Arc<CsrArrays<T, O>>,
    row_offsets: RowOffsets<'_, O>,
    structure: &Structure,
    options: &SpmvOptions,
) -> Result<Chosen<T>> {
    let (split_threshold, piece_entries) = cutting(structure, options);
    let Pieces { rows, bounds, long_rows, long_entries } = match structure.max_row > split_threshold {
        true => Pieces::cut(&row_offsets()?, split_threshold, piece_entries),
        false => Pieces::none(),
    };
    let lanes = match options.lanes {
        Lanes::Auto => {
            let (rows, entries) = (structure.nrows - long_rows, structure.nnz - long_entries);
            let mean = if rows == 0 { 0.0 } else { entries as f64 / rows as f64 };
            csr::lanes(structure, mean, split_threshold, 16)
        }
        Lanes::Fixed(lanes) => lanes,
    };
    let key = Key { dtype: T::DTYPE, offset_bytes: size_of::<O>(), lanes };
    let (device, pieces) = (&arrays.device, rows.len() / 4);
    let operator = CsrAdaptive {
        key,
        csr: Arc::clone(arrays),
        split_threshold: split_threshold as u32,
        pieces: u32::try_from(pieces).map_err(|_| Error::Unsupported(format!("a matrix of {pieces} pieces")))?,
        piece_rows: Buffer::upload(device, &rows)?,
        piece_bounds: Buffer::upload(device, &bounds)?,
        exchange: Arc::new(Mutex::new(Exchange {
            partials: Buffer::zeros(device, pieces)?,
            arrivals: Buffer::zeros(device, pieces)?,
        })),
    };
    let long = match long_rows {
        0 => format!("no row of more than {split_threshold} entries"),
        _ => {
            let longest = structure.max_row;
            format!("{long_rows} rows of more than {split_threshold} entries, up to {longest}, in {pieces} pieces")
        }
    };
    let because = if *options == SpmvOptions::default() { "" } else { ", as the options specify" };
    let mean = structure.mean_row();
    let reason = format!("{long}; {} for the others (mean of all {mean:.1}){because}", lanes_per_row(lanes));
    Ok(Chosen {
        operator: Box::new(operator),
        choice: KernelChoice { kernel: key.entry().name.into(), reason },
        options: SpmvOptions {
            split_threshold: options.split_threshold,
            ..SpmvOptions::default().kernel(CsrKernel::Adaptive).lanes(Lanes::Fixed(lanes))
        },
    })
}

impl<T: Scalar, O: Offset> Spmv<T> for CsrAdaptive<T, O> {
    fn spmv(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, x, beta, y } = product;
        let (entry, csr) = (self.key.entry(), &self.csr);
        let blocks = grid_size(csr.nrows, self.key.lanes, self.pieces);
        if blocks == 0 {
            return Ok(());
        }
        let exchange = &mut *device::lock(&self.exchange);
        let values = csr.values.read();
        let (queue, y) = y.into_writable();
        let args = Args {
            rows: csr.nrows,
            pieces: self.pieces,
            split_threshold: self.split_threshold,
            alpha,
            beta,
            entries: csr.nnz,
            row_offsets: csr.row_offsets.readable(&csr.device),
            col_indices: csr.col_indices.readable(&csr.device),
            values: values.readable(),
            x: x.readable(),
            y,
            piece_rows: self.piece_rows.readable(&csr.device),
            piece_bounds: self.piece_bounds.readable(&csr.device),
            partials: exchange.partials.writable(&csr.device),
            arrivals: exchange.arrivals.writable(&csr.device),
        };
        // SAFETY: the arrays are a valid CSR matrix, aligned as allocations are, and vectors of fitting lengths;
        // `y` and the exchange are borrowed mutably, so they overlap none of the others. The pieces
        // are those of the matrix's rows of more than `split_threshold` entries. Launches follow one another, as `exchange`
        // says; those of a recording too, which is launched on the matrix's own stream with the lock held. `Args<T, O>` is what the
        // entry for `T` and `O` takes.
        unsafe { launch(queue, entry, blocks, args) }
    }
}

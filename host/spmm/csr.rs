//! Products of a CSR matrix with dense matrices on a GPU: launches of the kernel family `spmm_csr`.

use std::sync::{Arc, Mutex, PoisonError};

use kernels_gpu::{
    Variant,
    spmm_csr::Args,
    spmm_rows::{Rows, Tile},
};

use super::{Product, Spmm, SpmmKernel, SpmmOptions, choice, ladder::Ladder};
use crate::{
    DenseMut, DenseRef, Error, KernelChoice, Offset, Result, Scalar, Structure,
    device::{Buffer, Exclusive, KernelLaunch, Mode},
    pieces::Pieces,
    spmv::CsrArrays,
};

/// The name of the family and of its PTX module.
const FAMILY: &str = "spmm_csr";

/// A CSR matrix on a GPU or in the emulator, and what has been prepared for its products.
#[derive(Debug)]
pub(crate) struct GpuSpmm<T, O> {
    csr: Arc<CsrArrays<T, O>>,
    structure: Structure,
    /// Launches of one matrix are ordered, whatever their queues, since each joins the matrix's own: the lock is held until a
    /// launch has been queued and has joined.
    plans: Mutex<Vec<Plan<T>>>,
    ladder: Ladder<T>,
}

/// A kernel, the pieces of the long rows, and what the groups of one launch tell one another.
#[derive(Debug)]
struct Plan<T> {
    cols: u32,
    tile: Tile,
    variant: &'static Variant,
    long_row: u32,
    choice: KernelChoice,
    pieces: u32,
    piece_rows: Buffer<u32>,
    piece_bounds: Buffer<u64>,
    partials: Buffer<T>,
    arrivals: Buffer<u32>,
}

impl<T: Scalar, O: Offset> GpuSpmm<T, O> {
    pub(crate) fn new(csr: &Arc<CsrArrays<T, O>>, structure: &Structure) -> Self {
        Self { csr: Arc::clone(csr), structure: *structure, plans: Mutex::new(Vec::new()), ladder: Ladder::new() }
    }

    fn plan(&self, cols: u32, vector: u32, options: &SpmmOptions) -> Result<Plan<T>> {
        let (tile, variant) = choice::tile(T::DTYPE, vector, cols, options.tile)?;
        let long_row = options.long_row.unwrap_or_else(|| choice::long_row(&self.structure, tile, cols));
        let device = &self.csr.device;
        let longest = self.structure.max_row;
        let cut = match longest > long_row as usize {
            true => Pieces::cut(&self.csr.row_offsets.to_vec(device)?, long_row as usize, long_row as usize),
            false => Pieces::none(),
        };
        let pieces = u32::try_from(cut.rows.len() / 4)
            .map_err(|_| Error::Unsupported(format!("rows of more than {long_row} entries: too many pieces")))?;
        let partials = (pieces as usize).checked_mul(cols as usize);
        let counters = (pieces as usize).checked_mul(tile.count(cols) as usize);
        let (Some(partials), Some(counters)) = (partials, counters) else {
            return Err(Error::Unsupported(format!("{cols} columns times {pieces} pieces of rows")));
        };
        let long = match cut.long_rows {
            0 => format!("no row of more than {long_row} entries"),
            rows => format!("{rows} rows of more than {long_row} entries, up to {longest}, in {pieces} pieces"),
        };
        let Tile { vector, lanes, coarsening } = tile;
        let reason = format!("{cols} columns: {lanes} lanes a row, each with {coarsening} vectors of {vector}; {long}");
        Ok(Plan {
            cols,
            tile,
            variant,
            long_row,
            choice: KernelChoice { kernel: variant.entry.into(), reason },
            pieces,
            piece_rows: Buffer::upload(device, &cut.rows)?,
            piece_bounds: Buffer::upload(device, &cut.bounds)?,
            partials: Buffer::zeros(device, partials)?,
            arrivals: Buffer::zeros(device, counters)?,
        })
    }

    fn launch(&self, plan: &mut Plan<T>, product: Product<'_, T>) -> Result<()> {
        let Product { mode, alpha, b, beta, c } = product;
        let Self { csr, .. } = self;
        let blocks = plan.tile.grid_size(csr.nrows, plan.cols, plan.pieces);
        let blocks = grid(blocks, csr.nrows, plan.cols)?;
        let (b_offset, c_offset) = (b.offset(), c.offset());
        let (b_row_bytes, c_row_bytes) =
            (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
        let (queue, c) = c.into_vec().parts_mut();
        let mut launch = KernelLaunch::of_family(queue, mode, FAMILY, plan.variant, blocks);
        let rows = Rows {
            rows: csr.nrows,
            cols: plan.cols,
            b_row_bytes,
            c_row_bytes,
            pieces: plan.pieces,
            long_row: plan.long_row,
            wide_offsets: u32::from(size_of::<O>() == 8),
            row_offsets: launch.read("row_offsets", csr.row_offsets.array(), &csr.device).cast(),
            col_indices: launch.read("col_indices", csr.col_indices.array(), &csr.device),
            row_order: std::ptr::null(),
            piece_rows: launch.read("piece_rows", plan.piece_rows.array(), &csr.device),
            piece_bounds: launch.read("piece_bounds", plan.piece_bounds.array(), &csr.device),
            arrivals: launch.write("arrivals", &mut plan.arrivals, &csr.device),
        };
        let args = Args {
            rows,
            alpha,
            beta,
            values: launch.read("values", csr.values.array(), &csr.device),
            b: launch.read("b", b.vec().buffer().array(), b.device()).wrapping_add(b_offset),
            c: launch.write("c", c, queue).wrapping_add(c_offset),
            partials: launch.write("partials", &mut plan.partials, &csr.device),
        };
        // SAFETY: the arrays are a valid CSR matrix, and dense matrices of fitting sizes that their vectors have room for,
        // each an allocation of its own; `c` and what the plan has are borrowed mutably, so they are none of the others.
        // The plan's vector divides all distances and offsets, and allocations are aligned to more. Its pieces are those of
        // the rows of more than `long_row` entries. Launches follow one another, as `plans` says; those of a recording too,
        // which is launched on the matrix's own queue with the lock held.
        unsafe { launch.run_variant(plan.variant, &args) }
    }
}

/// The blocks of a grid, of which a GPU takes no more.
pub(super) fn grid(blocks: u64, nrows: u32, cols: u32) -> Result<u32> {
    let blocks = u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32);
    blocks.ok_or_else(|| {
        Error::Unsupported(format!("a product of {nrows} rows and {cols} columns: the grid is too large"))
    })
}

/// The distance of rows in bytes, which kernels count in 32 bits.
pub(super) fn row_bytes<T>(leading_dimension: usize) -> Result<u32> {
    let bytes = leading_dimension.checked_mul(size_of::<T>()).and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| Error::Unsupported(format!("a leading dimension of {leading_dimension}: 2^32 bytes and more")))
}

/// A common divisor of all that a vector must divide. A single row has no distances.
fn alignment<T: Scalar>(b: &DenseRef<'_, T>, c: &DenseMut<'_, T>) -> usize {
    let distances = [b.leading_dimension(), b.offset(), c.leading_dimension(), c.offset()];
    1 << distances.into_iter().fold(b.ncols(), |bits, distance| bits | distance).trailing_zeros().min(4)
}

fn columns(cols: usize) -> Result<u32> {
    u32::try_from(cols).map_err(|_| Error::Unsupported(format!("a dense matrix of {cols} columns: 2^32 and more")))
}

impl<T: Scalar, O: Offset> Spmm<T> for GpuSpmm<T, O> {
    fn prepare(&self, cols: usize, options: &SpmmOptions) -> Result<KernelChoice> {
        let cols = columns(cols)?;
        if options.kernel != SpmmKernel::Tiles {
            return self.ladder.prepare(&self.csr, self.structure.ncols, cols, options.kernel);
        }
        let cols = cols.max(1);
        let vector = choice::widest_vector(T::DTYPE, cols as usize);
        let plan = match options.autotune {
            true => self.autotuned(cols, vector, options)?,
            false => self.plan(cols, vector, options)?,
        };
        let choice = plan.choice.clone();
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|plan| (plan.cols, plan.tile.vector) != (cols, vector));
        plans.push(plan);
        self.ladder.forget(cols);
        Ok(choice)
    }

    fn spmm(&self, product: Product<'_, T>) -> Result<()> {
        let cols = columns(product.b.ncols())?;
        if cols == 0 || self.csr.nrows == 0 {
            return Ok(());
        }
        if let Some(forced) = self.ladder.forced(cols) {
            return self.ladder.launch(&self.csr, forced, product);
        }
        let vector = choice::widest_vector(T::DTYPE, alignment(&product.b, &product.c));
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match plans.iter().position(|plan| (plan.cols, plan.tile.vector) == (cols, vector)) {
            Some(known) => &mut plans[known],
            None => {
                plans.push(self.plan(cols, vector, &SpmmOptions::default())?);
                plans.last_mut().expect("one was added")
            }
        };
        self.launch(plan, product)
    }

    fn exclusive(&self) -> Option<&dyn Exclusive> {
        Some(&self.plans)
    }
}

impl<T: Scalar, O: Offset> GpuSpmm<T, O> {
    /// The fastest of all plans that the options leave.
    fn autotuned(&self, cols: u32, vector: u32, options: &SpmmOptions) -> Result<Plan<T>> {
        let device = &self.csr.device;
        let repeats = if device.is_cuda() { 9 } else { 1 };
        // Not zeros: they cost less power, and so are faster.
        let elements = self.structure.ncols * cols as usize;
        let b: Vec<T> = (0..elements).map(|i| T::from_f64(((i * 7919) % 1000) as f64 / 1000.0 - 0.5)).collect();
        let (b, mut c) = (device.upload_vec(&b)?, device.zeros(self.structure.nrows * cols as usize)?);
        let (b_size, c_size) = ((self.structure.ncols, cols as usize), (self.structure.nrows, cols as usize));

        let candidates = choice::candidates(T::DTYPE, vector, cols, options, &self.structure);
        let count = candidates.len();
        let mut best: Option<(std::time::Duration, Plan<T>)> = None;
        for candidate in candidates {
            let mut plan = self.plan(cols, vector, &candidate)?;
            let (alpha, beta) = (T::from_f64(1.0), T::default());
            let product = |_| {
                let (b, c) = (b.matrix(b_size)?, c.matrix_mut(c_size)?);
                self.launch(&mut plan, Product { mode: Mode::Queue, alpha, b, beta, c })
            };
            let mut times = device.time_each(1 + repeats, product)?;
            times.remove(0);
            times.sort();
            let time = times[times.len() / 2];
            if best.as_ref().is_none_or(|(least, _)| time < *least) {
                best = Some((time, plan));
            }
        }
        let (time, mut plan) = best.expect("there is a candidate");
        let by_timing = format!("the fastest of {count} candidates, {:.1} us a product; ", time.as_secs_f64() * 1e6);
        plan.choice.reason.insert_str(0, &by_timing);
        Ok(plan)
    }
}

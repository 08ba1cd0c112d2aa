//! Products of a CSR matrix with dense matrices on a GPU: launches of the kernel family `spmm_csr`.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kernels_gpu::{
    DType,
    args::Arguments,
    spmm_csr::{Args, KEYS, Key},
    spmm_rows::Tile,
};

use super::{
    Multiply, Product, Reduction, Spmm, SpmmOptions, choice, reduce,
    shares::{Shares, alignment, columns, row_bytes, row_offsets},
};
use crate::{
    KernelChoice, Offset, Result, Scalar, Structure,
    device::{self, Buffer, KernelLaunch},
    memory::zeros,
    stored::CsrArrays,
};

/// Returns the tiles with kernels.
pub(super) fn tiles(dtype: DType) -> impl Iterator<Item = Tile> + Clone {
    KEYS.iter().filter(move |key| key.dtype == dtype).map(|key| key.tile)
}

/// A CSR matrix on a GPU or in the emulator, and the data for its products.
#[derive(Debug)]
pub(crate) struct GpuSpmm<T, O> {
    products: Products<T, O>,
    /// Under one lock, like the plans of [`Products`].
    reductions: Arc<Mutex<Vec<reduce::Plan<T>>>>,
}

/// Products by the kernels of the family, chosen by the options.
#[derive(Debug)]
struct Products<T, O> {
    csr: Arc<CsrArrays<T, O>>,
    structure: Structure,
    /// The parts that do not depend on the alignment of B and C apply to every product.
    options: SpmmOptions,
    /// One for each number of columns and alignment so far. Launches of one matrix are ordered on any stream, because
    /// each joins the matrix's own stream: the lock is held until a launch has been queued and has joined.
    plans: Arc<Mutex<Vec<Plan<T>>>>,
}

/// A kernel, and the memory through which the groups of a launch communicate.
#[derive(Debug)]
struct Plan<T> {
    shares: Shares,
    b_ahead: u32,
    partials: Buffer<T>,
}

impl<T: Scalar, O: Offset> GpuSpmm<T, O> {
    pub(crate) fn new(csr: &Arc<CsrArrays<T, O>>, structure: &Structure) -> Self {
        Self { products: Products::new(csr, *structure, SpmmOptions::default()), reductions: Arc::default() }
    }
}

impl<T: Scalar, O: Offset> Multiply<T> for GpuSpmm<T, O> {
    fn multiply(&self, product: Product<'_, T>) -> Result<()> {
        self.products.multiply(product)
    }
}

impl<T: Scalar, O: Offset> Spmm<T> for GpuSpmm<T, O> {
    fn plan(&self, cols: usize, options: &SpmmOptions) -> Result<(Box<dyn Multiply<T>>, KernelChoice)> {
        let Products { csr, structure, .. } = &self.products;
        let cols = columns(cols)?;
        let products = Products::new(csr, *structure, options.clone());
        let choice = products.prepare(cols.max(1))?;
        Ok((Box::new(products), choice))
    }

    fn reduce(&self, reduction: Reduction<'_, T>) -> Result<()> {
        let Products { csr, structure, .. } = &self.products;
        let cols = columns(reduction.b.ncols())?;
        if cols == 0 || csr.nrows == 0 {
            return Ok(());
        }
        reduce::reduce(csr, structure, &mut device::lock(&self.reductions), cols, reduction)
    }
}

impl<T: Scalar, O: Offset> Multiply<T> for Products<T, O> {
    fn multiply(&self, product: Product<'_, T>) -> Result<()> {
        let cols = columns(product.b.ncols())?;
        if cols == 0 || self.csr.nrows == 0 {
            return Ok(());
        }
        let Product { b, c, .. } = &product;
        let distances = [b.ncols(), b.leading_dimension(), b.offset(), c.leading_dimension(), c.offset()];
        let vector = choice::widest_vector(T::DTYPE, alignment(&distances));
        let plans = &mut *device::lock(&self.plans);
        let index =
            match plans.iter().position(|Plan { shares, .. }| (shares.cols, shares.tile.vector) == (cols, vector)) {
                Some(index) => index,
                None => {
                    let SpmmOptions { split_threshold, row_order, .. } = self.options.clone();
                    let options = SpmmOptions { split_threshold, row_order, ..SpmmOptions::default() };
                    plans.push(device::paused(|| self.plan(cols, vector, &options))?);
                    plans.len() - 1
                }
            };
        self.launch(&mut plans[index], product)
    }
}

impl<T: Scalar, O: Offset> Products<T, O> {
    fn new(csr: &Arc<CsrArrays<T, O>>, structure: Structure, options: SpmmOptions) -> Self {
        Self { csr: Arc::clone(csr), structure, options, plans: Arc::default() }
    }

    /// Chooses the kernel for contiguous matrices of `cols` columns.
    fn prepare(&self, cols: u32) -> Result<KernelChoice> {
        let vector = choice::widest_vector(T::DTYPE, alignment(&[cols as usize]));
        let (plan, mut reason) = match self.options.autotune && self.csr.nrows > 0 {
            true => self.autotuned(cols, vector)?,
            false => (self.plan(cols, vector, &self.options)?, String::new()),
        };
        reason.push_str(&plan.shares.summary);
        let choice = KernelChoice { kernel: plan.shares.entry.name.into(), reason };
        device::lock(&self.plans).push(plan);
        Ok(choice)
    }

    fn plan(&self, cols: u32, vector: u32, options: &SpmmOptions) -> Result<Plan<T>> {
        let widest = choice::widest_tile(&self.structure, size_of::<T>());
        let tile = choice::tile(tiles(T::DTYPE), vector, cols, widest, options.tile)?;
        let order = options.row_order.as_deref();
        let entry = Key { dtype: T::DTYPE, tile }.entry();
        let shares = Shares::new(&self.csr, &self.structure, (tile, entry), cols, options.split_threshold, order)?;
        let b_ahead = match order {
            Some(_) => 0,
            None => choice::b_ahead(&self.structure, shares.tile, size_of::<T>()),
        };
        let partials = Buffer::zeros(&self.csr.device, shares.room())?;
        Ok(Plan { shares, b_ahead, partials })
    }

    fn launch(&self, plan: &mut Plan<T>, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, b, beta, c } = product;
        let (csr, Plan { shares, b_ahead, partials, .. }) = (&*self.csr, plan);
        let (entry, blocks) = (shares.entry, shares.blocks(csr.nrows)?);
        let row_bytes = (row_bytes::<T>(b.leading_dimension())?, row_bytes::<T>(c.leading_dimension())?);
        let values = csr.values.read();
        let (queue, c) = c.into_writable();
        let args = Args {
            rows: shares.rows(csr, row_bytes),
            b_ahead: *b_ahead,
            b_rows: self.structure.ncols as u32,
            alpha,
            beta,
            values: values.readable(),
            b: b.readable(),
            c,
            partials: partials.writable(&csr.device),
        };
        let mut launch = KernelLaunch::of_entry(queue, entry, blocks);
        let mut args = args.bind(&mut launch);
        args.rows.row_offsets = row_offsets(&mut launch, csr);
        // SAFETY: the arrays are a valid CSR matrix, and dense matrices of fitting sizes that their vectors have room for,
        // none a part of another; `c` and what the plan has are borrowed mutably, so they are none of the others.
        // The plan's vector divides all distances and offsets, and allocations are aligned to more. Launches follow one
        // another, as `plans` says; those of a recording too, which is launched on the matrix's own stream with the lock held.
        unsafe { launch.run_entry(entry, &args) }
    }

    /// Returns the fastest plan within the options, and its time in words.
    fn autotuned(&self, cols: u32, vector: u32) -> Result<(Plan<T>, String)> {
        let (device, options) = (&self.csr.device, &self.options);
        let repeats = if device.is_cuda() { 9 } else { 1 };
        let (b_size, c_size) = ((self.structure.ncols, cols as usize), (self.structure.nrows, cols as usize));
        // Zeros would cost less power, and so be faster.
        let mut b = zeros::<T>(b_size.0.saturating_mul(b_size.1))?;
        b.iter_mut().enumerate().for_each(|(i, b)| *b = T::from_f64(((i % 1000) * 919 % 1000) as f64 / 1000.0 - 0.5));
        let (b, mut c) = (device.upload_vec(&b)?, device.zeros(c_size.0 * c_size.1)?);

        let mut candidates = choice::candidates(vector, cols, options, &self.structure, tiles(T::DTYPE));
        if candidates.is_empty() {
            // All tiles are too wide, or the forced tile has no kernel.
            candidates.push(options.clone());
        }
        let count = candidates.len();
        let mut best: Option<(Duration, Plan<T>)> = None;
        for candidate in candidates {
            let mut plan = self.plan(cols, vector, &candidate)?;
            let (alpha, beta) = (T::from_f64(1.0), T::default());
            let mut product = |_| {
                let (b, c) = (b.matrix(b_size)?, c.matrix_mut(c_size)?);
                self.launch(&mut plan, Product { alpha, b, beta, c })
            };
            product(0)?; // the first use of a kernel loads it
            let mut times = device.time_each(repeats, product)?;
            times.sort();
            let time = times[times.len() / 2];
            if best.as_ref().is_none_or(|(least, _)| time < *least) {
                best = Some((time, plan));
            }
        }
        let (time, plan) = best.expect("there is a candidate");
        let reason = format!("the fastest of {count} candidates, {:.1} us a product; ", time.as_secs_f64() * 1e6);
        Ok((plan, reason))
    }
}

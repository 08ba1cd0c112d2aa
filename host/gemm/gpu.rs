//! Dense products on a GPU: launches of the kernel family `gemm_tiles`.

use kernels_gpu::{Entry, gemm_args::GemmArgs, gemm_tiles::TilesArgs};

use super::{
    GemmOptions, Product,
    tiling::{Task, Tiling},
};
use crate::{
    DenseMut, DenseRef, Device, DeviceVec, Error, KernelChoice, Order, Result, Scalar,
    device::{Found, launch},
};

/// The launches of a product with a row-major `C`; for a column-major `C`, that of `C^T = B^T A^T`.
#[derive(Debug)]
pub(super) struct Plan {
    entry: &'static Entry,
    /// Rows and columns per block.
    tile: (u32, u32),
    blocks: u32,
    split_k: u32,
    /// Rows and columns of `C`, and the length of the sums.
    sizes: [u32; 3],
    /// The leading dimensions of `A`, `B` and `C`.
    distances: [u32; 3],
}

/// Blocks per multiprocessor that should keep it busy: an estimate, which bounds the memory for tuning.
const ENOUGH: u64 = 4;

/// Fails if no kernel matches these options. They are checked even if ignored.
pub(super) fn check_options<T: Scalar>(
    options: &GemmOptions,
    a: DenseRef<'_, T>,
    b: DenseRef<'_, T>,
    c: &DenseMut<'_, T>,
) -> Result<()> {
    let (a, b) = oriented(a, b, c.order());
    // The available options do not depend on the sizes.
    let task = Task { dtype: T::DTYPE, orders: (a.order(), b.order()), sizes: [1; 3], multiprocessors: 1 };
    Tiling::choose(task, options.tile, options.split_k).map(|_| ())
}

/// Returns the kernel for these matrices.
pub(super) fn choice<T: Scalar>(
    options: &GemmOptions,
    a: DenseRef<'_, T>,
    b: DenseRef<'_, T>,
    c: &DenseMut<'_, T>,
) -> Result<KernelChoice> {
    let Plan { entry, tile: (rows, cols), blocks, split_k, .. } = Plan::new(options, a, b, c)?;
    let split = if split_k > 1 { format!(", the sums of each split among {split_k} blocks") } else { String::new() };
    let transposed = if c.order() == Order::ColumnMajor { ", of the transposes" } else { "" };
    let forced = if *options == GemmOptions::default() { "" } else { ", as the options specify" };
    let reason = format!("tiles of {rows} x {cols}, {} in all{split}{transposed}{forced}", blocks / split_k);
    Ok(KernelChoice { kernel: entry.name.into(), reason })
}

/// Returns the tiles and split_k to try for these matrices, as options. Excludes split_k beyond [`ENOUGH`] blocks per
/// multiprocessor, because each block needs memory for a tile.
pub(super) fn candidates<T: Scalar>(
    a: DenseRef<'_, T>,
    b: DenseRef<'_, T>,
    c: &DenseMut<'_, T>,
) -> Result<Vec<GemmOptions>> {
    let (task, _) = task(a, b, c)?;
    let enough = ENOUGH * u64::from(task.multiprocessors);
    let candidates = Tiling::candidates(task).filter(|tiling| tiling.split_k == 1 || tiling.blocks(task) <= 2 * enough);
    let options = candidates
        .map(|Tiling { key, split_k }| GemmOptions::default().tile(key.tile.rows(), key.tile.cols()).split_k(split_k));
    Ok(options.collect())
}

/// Returns `A` and `B`, or their replacements if the transpose of `C` is computed.
fn oriented<'a, T: Scalar>(a: DenseRef<'a, T>, b: DenseRef<'a, T>, c: Order) -> (DenseRef<'a, T>, DenseRef<'a, T>) {
    match c {
        Order::RowMajor => (a, b),
        Order::ColumnMajor => (b.transpose(), a.transpose()),
    }
}

/// The product of what is [`oriented`], and the leading dimensions.
fn task<T: Scalar>(a: DenseRef<'_, T>, b: DenseRef<'_, T>, c: &DenseMut<'_, T>) -> Result<(Task, [u32; 3])> {
    let (a, b) = oriented(a, b, c.order());
    let sizes = count("a size", [a.nrows(), b.ncols(), a.ncols()])?;
    let distances = [a.leading_dimension(), b.leading_dimension(), c.leading_dimension()];
    let distances = count("a leading dimension", distances)?;
    let (orders, multiprocessors) = ((a.order(), b.order()), c.device().multiprocessors());
    Ok((Task { dtype: T::DTYPE, orders, sizes, multiprocessors }, distances))
}

impl Plan {
    /// For matrices such as these.
    pub(super) fn new<T: Scalar>(
        options: &GemmOptions,
        a: DenseRef<'_, T>,
        b: DenseRef<'_, T>,
        c: &DenseMut<'_, T>,
    ) -> Result<Self> {
        let (task, distances) = task(a, b, c)?;
        let tiling = Tiling::choose(task, options.tile, options.split_k)?;
        let Tiling { key, split_k } = tiling;
        let (tile, blocks) = ((key.tile.rows(), key.tile.cols()), tiling.blocks(task));
        let too_large = |_| Error::Unsupported(format!("a product of {blocks} tiles: a grid has less than 2^31"));
        let blocks = i32::try_from(blocks).map_err(too_large)? as u32;
        Ok(Self { entry: key.entry(), tile, blocks, split_k, sizes: task.sizes, distances })
    }

    /// The product of matrices such as the plan was made for; `C` has rows and columns.
    pub(super) fn run<T: Scalar>(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, a, b, beta, c } = product;
        let &Self { entry, tile, blocks, split_k, sizes: [m, n, k], distances: [lda, ldb, ldc] } = self;
        let (a, b) = oriented(a, b, c.order());
        let (queue, c) = c.into_writable();
        let mut exchange = match split_k {
            1 => None,
            _ => Some(Exchange::new(queue, tile, blocks, split_k)?),
        };
        // Without a sum, infinity times nothing is nothing.
        let (alpha, k) = if alpha == T::default() || k == 0 { (T::default(), 0) } else { (alpha, k) };
        let gemm = GemmArgs { m, n, k, lda, ldb, ldc, alpha, beta, a: a.readable(), b: b.readable(), c };
        let (partials, arrivals) = match &mut exchange {
            Some(Exchange { partials, arrivals }) => (partials.writable(), arrivals.writable()),
            None => Default::default(),
        };
        let args = TilesArgs { gemm, split_k, partials, arrivals };
        // SAFETY: matrices of fitting sizes that their vectors have room for, no part of which is another's; `c` is borrowed
        // mutably, so it is none of the others. The entry is for their orders and for `T`. With several split_k there is room for
        // them, and launches that use it follow one another on this stream.
        unsafe { launch(queue, entry, blocks, args) }
    }
}

/// The workspace of blocks that split the sums of a tile: partial sums, and the number of arrived blocks per tile. Each
/// launch leaves the counters at zero.
struct Exchange<T> {
    partials: DeviceVec<T>,
    arrivals: DeviceVec<u32>,
}

impl<T: Scalar> Exchange<T> {
    fn new(queue: &Device, (rows, cols): (u32, u32), blocks: u32, split_k: u32) -> Result<Self> {
        Ok(Self {
            partials: queue.workspace(Found::Anything, blocks as usize * rows as usize * cols as usize)?,
            arrivals: queue.workspace(Found::Zeros, (blocks / split_k) as usize)?,
        })
    }
}

/// Converts sizes or distances to 32 bits, as in kernels; at most half of the range, so that a tile that extends beyond
/// the last row does not overflow.
fn count(what: &str, counts: [usize; 3]) -> Result<[u32; 3]> {
    match counts.iter().find(|&&count| count > i32::MAX as usize) {
        Some(count) => Err(Error::Unsupported(format!("{what} of {count}: 2^31 and more"))),
        None => Ok(counts.map(|count| count as u32)),
    }
}

//! Dense products on a GPU: launches of the kernel families `gemm_dmma`, `gemm_tf32`, `gemm_tiles` and `gemm_wgmma`.

use kernels_gpu::{DType, gemm_args::GemmArgs, gemm_block::BlockArgs, gemm_wgmma};

use super::{
    GemmOptions, Product,
    tiling::{Kernel, Task, Tiling, why_no_tensor_cores},
};
use crate::{
    DenseMut, DenseRef, Device, DeviceVec, Error, KernelChoice, Order, Result, Scalar,
    device::{Found, Writable, launch},
};

/// The launches of a product with a row-major `C`; for a column-major `C`, that of `C^T = B^T A^T`.
#[derive(Debug)]
pub(super) struct Plan {
    task: Task,
    tiling: Tiling,
    blocks: u32,
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
    let (orders, compute_capability) = ((a.order(), b.order()), c.device().compute_capability());
    let task = Task { dtype: T::DTYPE, orders, sizes: [1; 3], multiprocessors: 1, compute_capability };
    Tiling::choose(task, options).map(|_| ())
}

/// Returns the kernel for these matrices.
pub(super) fn choice<T: Scalar>(
    options: &GemmOptions,
    a: DenseRef<'_, T>,
    b: DenseRef<'_, T>,
    c: &DenseMut<'_, T>,
) -> Result<KernelChoice> {
    let Plan { task, tiling: Tiling { kernel, split_k }, blocks, .. } = Plan::new(options, a, b, c)?;
    let (rows, cols) = kernel.tile();
    let split = if split_k > 1 { format!(", the sums of each split among {split_k} blocks") } else { String::new() };
    let transposed = if c.order() == Order::ColumnMajor { ", of the transposes" } else { "" };
    let forced = if *options == GemmOptions::default() { "" } else { ", as the options specify" };
    let units = match task.dtype {
        DType::F32 if kernel.uses_tensor_cores() => ", on the tensor cores, by three products of TF32".to_owned(),
        DType::F64 if kernel.uses_tensor_cores() => ", on the tensor cores".to_owned(),
        DType::F64 if !task.has_tensor_cores() => format!("; {}", why_no_tensor_cores(task)),
        DType::F64 if forced.is_empty() => "; on the tensor cores they would be larger, and too few".to_owned(),
        _ => String::new(),
    };
    let reason = format!("tiles of {rows} x {cols}, {} in all{split}{transposed}{forced}{units}", blocks / split_k);
    Ok(KernelChoice { kernel: kernel.entry().name.into(), reason })
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
    let default = Tiling::candidates(task).filter(|tiling| !tiling.kernel.is_on_demand());
    let candidates = default.filter(|tiling| tiling.split_k == 1 || tiling.blocks(task) <= 2 * enough);
    let options = candidates.map(|Tiling { kernel, split_k }| {
        let (rows, cols) = kernel.tile();
        GemmOptions::default().tile(rows, cols).split_k(split_k).tensor_cores(kernel.uses_tensor_cores())
    });
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
    let (orders, device) = ((a.order(), b.order()), c.device());
    let (multiprocessors, compute_capability) = (device.multiprocessors(), device.compute_capability());
    Ok((Task { dtype: T::DTYPE, orders, sizes, multiprocessors, compute_capability }, distances))
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
        let tiling = Tiling::choose(task, options)?;
        let blocks = tiling.blocks(task);
        let too_large = |_| Error::Unsupported(format!("a product of {blocks} tiles: a grid has less than 2^31"));
        let blocks = i32::try_from(blocks).map_err(too_large)? as u32;
        Ok(Self { task, tiling, blocks, distances })
    }

    /// The product of matrices such as the plan was made for; `C` has rows and columns.
    pub(super) fn run<T: Scalar>(&self, product: Product<'_, T>) -> Result<()> {
        let Product { alpha, a, b, beta, c } = product;
        let &Self { task, tiling: Tiling { kernel, split_k }, blocks, distances: [lda, ldb, ldc] } = self;
        let [m, n, k] = task.sizes;
        let (a, b) = oriented(a, b, c.order());
        let (queue, c) = c.into_writable();
        // Without a sum, infinity times nothing is nothing.
        let (alpha, k) = if alpha == T::default() || k == 0 { (T::default(), 0) } else { (alpha, k) };
        if matches!(kernel, Kernel::Wgmma) {
            return multiply_images(self, (alpha, beta, k), (a, b), queue, c);
        }
        let mut exchange = match split_k {
            1 => None,
            _ => Some(Exchange::new(queue, kernel, blocks, split_k)?),
        };
        let gemm = GemmArgs { m, n, k, lda, ldb, ldc, alpha, beta, a: a.readable(), b: b.readable(), c };
        let (partials, arrivals) = match &mut exchange {
            Some(Exchange { partials, arrivals }) => (partials.writable(), arrivals.writable()),
            None => Default::default(),
        };
        let args = BlockArgs { gemm, split_k, partials, arrivals };
        // SAFETY: matrices of fitting sizes that their vectors have room for, no part of which is another's; `c` is borrowed
        // mutably, so it is none of the others. The entry is for their orders and for `T`. With several split_k there is room for
        // them, and launches that use it follow one another on this stream.
        unsafe { launch(queue, kernel.entry(), blocks, args) }
    }
}

/// The product by images of both operands, in workspace; `k` is 0 if the product counts for nothing.
fn multiply_images<T: Scalar>(
    plan: &Plan,
    (alpha, beta, k): (T, T, u32),
    (a, b): (DenseRef<'_, T>, DenseRef<'_, T>),
    queue: &Device,
    c: Writable<'_, T>,
) -> Result<()> {
    use gemm_wgmma::{IMAGE, Key, MultiplyArgs, Operation, SplitArgs, images};
    let &Plan { task, tiling: Tiling { kernel, split_k }, blocks, distances: [lda, ldb, ldc] } = plan;
    let [m, n, _] = task.sizes;
    let of_a = images(m, k) * IMAGE as usize;
    let of_both = of_a + images(n, k) * IMAGE as usize;
    let _turn = queue.workspace_turn();
    let mut images = queue.workspace(Found::Operands, of_both)?;
    let mut exchange = Exchange::new(queue, kernel, if split_k > 1 { blocks } else { 0 }, split_k)?;
    let (a_by_rows, b_by_rows) = (a.order() == Order::RowMajor, b.order() == Order::RowMajor);
    for (operand, lines, leading_dimension, by_lines, range) in
        [(a, m, lda, a_by_rows, 0..of_a), (b, n, ldb, !b_by_rows, of_a..of_both)]
    {
        let blocks = range.len() / IMAGE as usize;
        let too_large = |_| Error::Unsupported(format!("{blocks} images of an operand: a grid has less than 2^31"));
        let blocks = i32::try_from(blocks).map_err(too_large)? as u32;
        if blocks == 0 {
            continue;
        }
        let (_, images) = images.slice_mut(range)?.into_writable();
        let args = SplitArgs { lines, places: k, leading_dimension, operand: operand.readable(), images };
        let operation = if by_lines { Operation::SplitLines } else { Operation::SplitPlaces };
        // SAFETY: the operand has so many lines and places, and the workspace room for their images; a block for each. The
        // stream keeps the launches in order.
        unsafe { launch(queue, Key { operation }.entry(), blocks, args)? };
    }
    let gemm = GemmArgs { m, n, k, lda, ldb, ldc, alpha, beta, a: a.readable(), b: b.readable(), c };
    let (images_of_a, images_of_b) = (images.slice(0..of_a)?, images.slice(of_a..of_both)?);
    let block =
        BlockArgs { gemm, split_k, partials: exchange.partials.writable(), arrivals: exchange.arrivals.writable() };
    let args = MultiplyArgs {
        a_by_rows: a_by_rows.into(),
        b_by_rows: b_by_rows.into(),
        images_of_a: images_of_a.readable(),
        images_of_b: images_of_b.readable(),
        block,
    };
    // SAFETY: as for other kernels; the images are those of `A` and `B`.
    unsafe { launch(queue, kernel.entry(), blocks, args) }
}

/// The workspace of blocks that split the sums of a tile: partial sums, and the number of arrivals per tile. Each
/// launch leaves the counters at zero.
struct Exchange<T> {
    partials: DeviceVec<T>,
    arrivals: DeviceVec<u32>,
}

impl<T: Scalar> Exchange<T> {
    fn new(queue: &Device, kernel: Kernel, blocks: u32, split_k: u32) -> Result<Self> {
        let ((rows, cols), counters) = (kernel.tile(), (blocks / split_k) as usize * kernel.counters());
        Ok(Self {
            partials: queue.workspace(Found::Anything, blocks as usize * rows as usize * cols as usize)?,
            arrivals: queue.workspace(Found::Zeros, counters)?,
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

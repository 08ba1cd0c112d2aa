//! Dense products on a GPU: launches of the kernel families `gemm_tiles` and `sgemm_ladder`.

use kernels_gpu::{
    DType, Variant,
    gemm_args::GemmArgs,
    gemm_tiles::{Tile, tiles},
};

use super::{GemmKernel, GemmOptions, Product};
use crate::{DenseMut, DenseRef, Error, KernelChoice, Order, Result, Scalar, device::KernelLaunch};

/// Blocks of a tile that a large GPU has at a time, at least: 132 multiprocessors.
const FILL: u64 = 132;

/// A launch, for a row-major `C`: if it is column-major, for that of `C^T = B^T A^T`.
#[derive(Debug)]
struct Plan {
    family: &'static str,
    variant: &'static Variant,
    /// Rows and columns of a block.
    tile: (u32, u32),
    blocks: u32,
    /// Rows and columns of `C`, and the length of the sums.
    sizes: [u32; 3],
    /// The leading dimensions of `A`, `B` and `C`.
    distances: [u32; 3],
}

/// The kernel for these matrices.
pub(super) fn choice<T: Scalar>(
    options: &GemmOptions,
    a: DenseRef<'_, T>,
    b: DenseRef<'_, T>,
    c: &DenseMut<'_, T>,
) -> Result<KernelChoice> {
    let Plan { variant, tile: (rows, cols), blocks, .. } = Plan::new(options, a, b, c)?;
    let transposed = if c.order() == Order::ColumnMajor { ", of the transposes" } else { "" };
    let forced = if options.kernel == GemmKernel::Tiles { "" } else { ", as the options say" };
    let reason = format!("tiles of {rows} x {cols}, {blocks} in all{transposed}{forced}");
    Ok(KernelChoice { kernel: variant.entry.into(), reason })
}

/// `C` has rows and columns.
pub(super) fn gemm<T: Scalar>(options: &GemmOptions, product: Product<'_, T>) -> Result<()> {
    let Product { mode, alpha, a, b, beta, c } = product;
    let Plan { family, variant, blocks, sizes: [m, n, k], distances: [lda, ldb, ldc], .. } =
        Plan::new(options, a, b, &c)?;
    let (a, b) = oriented(a, b, c.order());
    let c_offset = c.offset();
    let (queue, c) = c.into_vec().parts_mut();
    let mut launch = KernelLaunch::of_family(queue, mode, family, variant, blocks);
    // Without a sum, infinity times nothing is nothing.
    let (alpha, k) = if alpha == T::default() || k == 0 { (T::default(), 0) } else { (alpha, k) };
    let args = GemmArgs {
        m,
        n,
        k,
        lda,
        ldb,
        ldc,
        alpha,
        beta,
        a: launch.read("a", a.vec().buffer().array(), a.device()).wrapping_add(a.offset()),
        b: launch.read("b", b.vec().buffer().array(), b.device()).wrapping_add(b.offset()),
        c: launch.write("c", c, queue).wrapping_add(c_offset),
    };
    // SAFETY: matrices of fitting sizes that their vectors have room for, each vector an allocation of its own; `c` is borrowed
    // mutably, so it is none of the others. The variant is for their orders and for `T`.
    unsafe { launch.run_variant(variant, &args) }
}

/// `A` and `B`, or what takes their places if the transpose of `C` is computed.
fn oriented<'a, T: Scalar>(a: DenseRef<'a, T>, b: DenseRef<'a, T>, c: Order) -> (DenseRef<'a, T>, DenseRef<'a, T>) {
    match c {
        Order::RowMajor => (a, b),
        Order::ColumnMajor => (b.transpose(), a.transpose()),
    }
}

impl Plan {
    fn new<T: Scalar>(
        options: &GemmOptions,
        a: DenseRef<'_, T>,
        b: DenseRef<'_, T>,
        c: &DenseMut<'_, T>,
    ) -> Result<Self> {
        if let GemmKernel::Ladder(_) = options.kernel {
            let orders = [("A", a.order()), ("B", b.order()), ("C", c.order())];
            refuse_for_ladder(T::DTYPE, orders)?;
        }
        let (a, b) = oriented(a, b, c.order());
        let [m, n, k] = count("a size", [a.nrows(), b.ncols(), a.ncols()])?;
        let leading_dimensions = [a.leading_dimension(), b.leading_dimension(), c.leading_dimension()];
        let distances = count("a leading dimension", leading_dimensions)?;
        let (family, variant, tile, blocks) = match options.kernel {
            GemmKernel::Tiles => {
                let (tile, variant) = tile(T::DTYPE, (a.order(), b.order()), (m, n), options.tile)?;
                ("gemm_tiles", variant, (tile.rows(), tile.cols()), tile.grid_size(m, n))
            }
            GemmKernel::Ladder(rung) => ("sgemm_ladder", rung.variant(), rung.tile(), rung.grid_size(m, n)),
        };
        let too_large = |_| Error::Unsupported(format!("a product of {blocks} tiles: a grid has less than 2^31"));
        let blocks = i32::try_from(blocks).map_err(too_large)? as u32;
        Ok(Self { family, variant, tile, blocks, sizes: [m, n, k], distances })
    }
}

fn refuse_for_ladder(dtype: DType, orders: [(&str, Order); 3]) -> Result<()> {
    if dtype != DType::F32 {
        return Err(Error::Unsupported("kernels of the ladder in f64: they are for f32".into()));
    }
    match orders.into_iter().find(|&(_, order)| order == Order::ColumnMajor) {
        None => Ok(()),
        Some((what, _)) => {
            Err(Error::Unsupported(format!("a column-major {what}: kernels of the ladder take row-major matrices")))
        }
    }
}

/// The forced tile, or the largest one of which there are enough to keep a large GPU busy, or else the smallest one.
fn tile(
    dtype: DType,
    (a, b): (Order, Order),
    (m, n): (u32, u32),
    forced: Option<(u32, u32)>,
) -> Result<(Tile, &'static Variant)> {
    let mut all: Vec<_> = tiles(dtype, a == Order::RowMajor, b == Order::RowMajor).collect();
    let found = match forced {
        Some(forced) => all.iter().position(|(tile, _)| (tile.rows(), tile.cols()) == forced).ok_or(forced),
        None => Ok(all.iter().position(|(tile, _)| tile.grid_size(m, n) >= FILL).unwrap_or(all.len() - 1)),
    };
    let there_are = || {
        let exist: Vec<_> = all.iter().map(|(tile, _)| format!("{} x {}", tile.rows(), tile.cols())).collect();
        exist.join(", ")
    };
    let index = found.map_err(|(rows, cols)| {
        Error::InvalidOption(format!("a tile of {rows} x {cols}: there are {}", there_are()))
    })?;
    Ok(all.swap_remove(index))
}

/// Sizes or distances, which kernels count in 32 bits; half of them, so that what a tile adds beyond the last row does not
/// overflow.
fn count(what: &str, counts: [usize; 3]) -> Result<[u32; 3]> {
    match counts.iter().find(|&&count| count > i32::MAX as usize) {
        Some(count) => Err(Error::Unsupported(format!("{what} of {count}: 2^31 and more"))),
        None => Ok(counts.map(|count| count as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_as_large_as_fills_the_gpu() {
        let rows = Order::RowMajor;
        let chosen = |dtype, m, n| tile(dtype, (rows, rows), (m, n), None).unwrap().1.entry;
        assert_eq!(chosen(DType::F32, 2048, 2048), "gemm_tiles_f32_128x128_a_rows_b_rows");
        assert_eq!(chosen(DType::F32, 1024, 1024), "gemm_tiles_f32_64x64_a_rows_b_rows");
        assert_eq!(chosen(DType::F32, 1, 1), "gemm_tiles_f32_32x32_a_rows_b_rows");
        assert_eq!(chosen(DType::F64, 2048, 2048), "gemm_tiles_f64_64x64_a_rows_b_rows");
        let entry = tile(DType::F32, (Order::ColumnMajor, rows), (128, 128), Some((64, 64))).unwrap().1.entry;
        assert_eq!(entry, "gemm_tiles_f32_64x64_a_cols_b_rows");
        let error = tile(DType::F64, (rows, rows), (128, 128), Some((3, 4))).unwrap_err().to_string();
        assert_eq!(error, "invalid option: a tile of 3 x 4: there are 64 x 64, 32 x 32");
    }
}

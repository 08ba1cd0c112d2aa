//! Dense products on a GPU: launches of the kernel family `gemm_tiles`.

use kernels_gpu::{
    DType, Variant,
    gemm_args::GemmArgs,
    gemm_tiles::{Tile, tiles},
};

use super::{Product, count};
use crate::{DenseMut, DenseRef, Error, KernelChoice, Order, Result, Scalar, device::KernelLaunch};

/// The name of the family and of its PTX module.
const FAMILY: &str = "gemm_tiles";

/// Blocks of a tile that a large GPU has at a time, at least: 132 multiprocessors.
const FILL: u64 = 132;

/// The kernel for these matrices. If `C` is column-major it is that for `C^T = B^T A^T`.
pub(super) fn choice<T: Scalar>(
    forced: Option<(u32, u32)>,
    a: &DenseRef<'_, T>,
    b: &DenseRef<'_, T>,
    c: &DenseMut<'_, T>,
) -> Result<KernelChoice> {
    let (m, n, orders) = match c.order() {
        Order::RowMajor => (c.nrows(), c.ncols(), (a.order(), b.order())),
        Order::ColumnMajor => (c.ncols(), c.nrows(), (b.transpose().order(), a.transpose().order())),
    };
    let (tile, variant) = tile(T::DTYPE, orders, (count("rows", m)?, count("columns", n)?), forced)?;
    let (rows, cols) = (tile.rows(), tile.cols());
    let blocks = tile.grid_size(m as u32, n as u32);
    let transposed = if c.order() == Order::ColumnMajor { ", of the transposes" } else { "" };
    let reason = format!("{blocks} tiles of {rows} x {cols}{transposed}");
    Ok(KernelChoice { kernel: variant.entry.into(), reason })
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

/// `C` has rows and columns.
pub(super) fn gemm<T: Scalar>(forced: Option<(u32, u32)>, product: Product<'_, T>) -> Result<()> {
    let Product { mode, alpha, a, b, beta, c } = match product.c.order() {
        Order::RowMajor => product,
        Order::ColumnMajor => {
            let Product { mode, alpha, a, b, beta, c } = product;
            Product { mode, alpha, a: b.transpose(), b: a.transpose(), beta, c: c.transpose() }
        }
    };
    let (m, n, k) = (count("rows", c.nrows())?, count("columns", c.ncols())?, count("an inner size", a.ncols())?);
    let distance = |elements: usize| count("a leading dimension", elements);
    let (lda, ldb) = (distance(a.leading_dimension())?, distance(b.leading_dimension())?);
    let (ldc, c_offset) = (distance(c.leading_dimension())?, c.offset());
    let (tile, variant) = tile(T::DTYPE, (a.order(), b.order()), (m, n), forced)?;
    let too_large = |_| Error::Unsupported(format!("a product of {m} rows and {n} columns: the grid is too large"));
    let blocks = i32::try_from(tile.grid_size(m, n)).map_err(too_large)? as u32;
    let (queue, c) = c.into_vec().parts_mut();
    let mut launch = KernelLaunch::of_family(queue, mode, FAMILY, variant, blocks);
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

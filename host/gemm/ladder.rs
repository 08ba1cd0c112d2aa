//! Dense products by forced kernels: launches of the family `sgemm_ladder`.

use kernels_gpu::{gemm_args::GemmArgs, sgemm_ladder::Rung};

use super::{Product, count};
use crate::{DType, Error, KernelChoice, Order, Result, Scalar, device::KernelLaunch};

pub(super) fn choice<T: Scalar>(rung: Rung) -> Result<KernelChoice> {
    if T::DTYPE != DType::F32 {
        return Err(Error::Unsupported("kernels of the ladder in f64: they are for f32".into()));
    }
    let (rows, cols) = rung.tile();
    let reason = format!("blocks of {rows} x {cols}, as the options say");
    Ok(KernelChoice { kernel: rung.variant().entry.into(), reason })
}

/// `C` has rows and columns.
pub(super) fn gemm<T: Scalar>(rung: Rung, product: Product<'_, T>) -> Result<()> {
    choice::<T>(rung)?;
    let Product { mode, alpha, a, b, beta, c } = product;
    for (what, order) in [("A", a.order()), ("B", b.order()), ("C", c.order())] {
        if order == Order::ColumnMajor {
            return Err(Error::Unsupported(format!(
                "a column-major {what}: kernels of the ladder take row-major matrices"
            )));
        }
    }
    let (m, n, k) = (count("rows", c.nrows())?, count("columns", c.ncols())?, count("an inner size", a.ncols())?);
    let lda = count("a leading dimension", a.leading_dimension())?;
    let ldb = count("a leading dimension", b.leading_dimension())?;
    let ldc = count("a leading dimension", c.leading_dimension())?;
    let too_large = || Error::Unsupported(format!("a product of {m} rows and {n} columns: the grid is too large"));
    let blocks = i32::try_from(rung.grid_size(m, n)).map_err(|_| too_large())? as u32;
    let (c_offset, variant) = (c.offset(), rung.variant());
    let (queue, c) = c.into_vec().parts_mut();
    let mut launch = KernelLaunch::of_family(queue, mode, "sgemm_ladder", variant, blocks);
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
    // mutably, so it is none of the others. `T` is the `f32` that the kernel takes.
    unsafe { launch.run_variant(variant, &args) }
}

//! Dense matrices to other places and in other orders: launches of the kernel family `dense_copy`.

use kernels_gpu::{
    Variant,
    dense_copy::{Args, VARIANTS, grid_size},
};

use super::{DenseMut, DenseRef};
use crate::{
    Element, Result,
    device::{Backend, KernelLaunch, check_length},
    formats::rows::for_blocks,
};

const FAMILY: &str = "dense_copy";

/// `target = source`, in whatever layouts.
pub(super) fn assign<T: Element>(mut target: DenseMut<'_, T>, source: DenseRef<'_, T>) -> Result<()> {
    check_length("the column of the matrix", target.nrows(), source.nrows())?;
    check_length("the row of the matrix", target.ncols(), source.ncols())?;
    target.device().check_same("the matrix", source.device())?;
    if target.nrows() == 0 || target.ncols() == 0 {
        return Ok(());
    }
    let (to, from) = (target.layout(), source.layout());
    let in_order = to.order == from.order;
    if in_order && to.is_without_gaps() && from.is_without_gaps() {
        let elements = to.nrows * to.ncols;
        let source = source.vec().slice(from.offset..from.offset + elements)?;
        return target.into_vec().slice_mut(to.offset..to.offset + elements)?.assign(source);
    }
    match target.device().backend() {
        Backend::Cpu { .. } => on_cpu(target, source),
        // Bits are copied: which type they are of is all the same.
        _ => match size_of::<T>() {
            4 => launch::<T, u32>(target.view_mut(), source, if in_order { &VARIANTS[0] } else { &VARIANTS[2] })?,
            _ => launch::<T, u64>(target.view_mut(), source, if in_order { &VARIANTS[1] } else { &VARIANTS[3] })?,
        },
    }
    Ok(())
}

fn launch<T: Element, Bits: Copy>(
    target: DenseMut<'_, T>,
    source: DenseRef<'_, T>,
    variant: &'static Variant,
) -> Result<()> {
    let (to, from) = (target.layout(), source.layout());
    let (lines, width) = from.lines();
    let (lines, width) = (lines as u64, width as u64);
    let (queue, buffer) = target.into_vec().parts_mut();
    let mut launch = KernelLaunch::of_family(queue, FAMILY, variant, grid_size(lines, width));
    let args = Args::<Bits> {
        lines,
        width,
        x_distance: from.leading_dimension as u64,
        y_distance: to.leading_dimension as u64,
        x: launch.read("x", source.vec().buffer().array(), source.device()).wrapping_add(from.offset).cast(),
        y: launch.write("y", buffer, queue).wrapping_add(to.offset).cast(),
    };
    // SAFETY: both vectors have room for their matrices, which are of one size, and `y` is borrowed mutably. `Bits` has as many bytes as
    // `T`, and is what the variant is for.
    unsafe { launch.run_variant(variant, &args) }
}

fn on_cpu<T: Element>(target: DenseMut<'_, T>, source: DenseRef<'_, T>) {
    let (to, from) = (target.layout(), source.layout());
    let elements = source.vec().buffer().on_cpu();
    let (_, width) = to.lines();
    let end = to.elements().expect("a vector holds its matrix");
    let lines = &mut target.into_vec().parts_mut().1.on_cpu_mut()[to.offset..end];
    for_blocks(0..lines.len(), lines, &|places, block| {
        for (place, element) in places.zip(block) {
            let (line, at) = (place / to.leading_dimension, place % to.leading_dimension);
            if at < width {
                let (row, col) = match to.order {
                    super::Order::RowMajor => (line, at),
                    super::Order::ColumnMajor => (at, line),
                };
                *element = elements[from.index(row, col)];
            }
        }
    });
}

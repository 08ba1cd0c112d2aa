//! Dense matrices to other places and in other orders: launches of the kernel family `dense_copy`.

use kernels_gpu::dense_copy::{Args, Key, grid_size};

use super::{DenseMut, DenseRef};
use crate::{
    Element, Result,
    device::{Backend, check_length, launch},
    parallel::for_blocks,
};

/// `target = source`, in whatever layouts.
pub(super) fn assign<T: Element>(target: DenseMut<'_, T>, source: DenseRef<'_, T>) -> Result<()> {
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
        _ => launch_copy(target, source, !in_order)?,
    }
    Ok(())
}

fn launch_copy<T: Element>(target: DenseMut<'_, T>, source: DenseRef<'_, T>, transposed: bool) -> Result<()> {
    let (to, from) = (target.layout(), source.layout());
    let (lines, width) = from.lines();
    let (lines, width) = (lines as u64, width as u64);
    let entry = Key { transposed, bytes: size_of::<T>() }.entry();
    let (queue, y) = target.into_writable();
    let args = Args {
        lines,
        width,
        x_distance: from.leading_dimension as u64,
        y_distance: to.leading_dimension as u64,
        x: source.readable(),
        y,
    };
    // SAFETY: both vectors have room for their matrices, which are of one size, and `y` is borrowed mutably. Bits are copied, so it does not
    // matter which type of as many bytes the entry is for.
    unsafe { launch(queue, entry, grid_size(lines, width), args) }
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

//! Clustering of rows on a GPU or in the emulator.

use kernels_gpu::{
    args::Arguments,
    clustering::{
        AddArgs, ChangesArgs, CountArgs, DegreesArgs, EdgesArgs, GroupKeysArgs, Key, Operation, RowKeysArgs,
        entries_grid_size, grid_size,
    },
};

use super::{
    MAX_ROUNDS, SETTLED,
    aggregation_on_gpu::{Edges, Graph, aggregate},
};
use crate::{
    Device, DeviceIndices, DeviceVec, Error, Result, Scalar,
    conversion::copy_of,
    device::{KernelLaunch, launch},
    primitives::{Runs, bits_below, runs, sort_pairs},
    stored::CsrArrays,
};

/// The order of the rows of a matrix.
///
/// # Errors
/// [`Error::Unsupported`] for 2^31 entries, or 2^32 vertices, and more; [`Error::OutOfMemory`], [`Error::Driver`].
pub(super) fn cluster_rows<T: Scalar>(matrix: &CsrArrays<T, u32>) -> Result<DeviceVec<u32>> {
    let (device, rows, entries) = (&matrix.device, matrix.nrows, matrix.nnz);
    let given = count(device, rows, 0, 1)?;
    if entries == 0 {
        return Ok(given);
    }
    let mut columns = copy_of(&matrix.col_indices, device)?;
    columns.sort()?;
    let columns = runs(&columns)?;
    // The last number is none.
    let vertices = rows.checked_add(columns.starts.len() as u32).filter(|&vertices| vertices < u32::MAX);
    let Some(vertices) = vertices.filter(|_| entries < 1 << 31) else {
        let problem = format!("a clustering of {rows} rows with {entries} entries: their graph is too large");
        return Err(Error::Unsupported(problem));
    };
    let graph = graph(matrix, &columns, vertices)?;
    let places = aggregate(graph, 2 * u64::from(entries))?;

    let mut keys = device.scratch::<u64>(rows as usize)?;
    let row_offsets = matrix.row_offsets.readable(device);
    let args = RowKeysArgs { rows, row_offsets, places: places.readable(), keys: keys.writable() };
    // SAFETY: a valid matrix, whose rows are the first vertices.
    unsafe { step(device, Operation::RowKeys, grid_size(rows), args) }?;
    let (_, order) = sort_pairs(keys, count(device, rows, 0, 1)?, 0..33)?;
    // SAFETY: all rows, sorted.
    let order = unsafe { DeviceIndices::of_permutation(order) };
    let is_better = group_columns(matrix, Some(&order))? < group_columns(matrix, None)?;
    Ok(if is_better { order.into_vector() } else { given })
}

/// `n` numbers: `first`, `first + step` and so on, modulo 2^32.
pub(super) fn count(device: &Device, n: u32, first: u32, each: u32) -> Result<DeviceVec<u32>> {
    let mut numbers = device.scratch(n as usize)?;
    if n > 0 {
        let args = CountArgs { n, first, step: each, numbers: numbers.writable() };
        // SAFETY: as many numbers.
        unsafe { step(device, Operation::Count, grid_size(n), args) }?;
    }
    Ok(numbers)
}

/// Sums of values by target, of which there are `targets`; the numbers of targets may be `NONE`.
pub(super) fn added(
    (targets, count): (&DeviceVec<u32>, u32),
    values: crate::device::Readable<'_, u32>,
) -> Result<DeviceVec<u32>> {
    let (device, n) = (targets.device(), targets.len() as u32);
    let mut sums = device.zeros(count as usize)?;
    if n > 0 {
        let args = AddArgs { n, targets: targets.readable(), values, sums: sums.writable() };
        // SAFETY: callers have targets below their number, and a value for each.
        unsafe { step(device, Operation::Add, grid_size(n), args) }?;
    }
    Ok(sums)
}

/// The bipartite graph of rows and columns, first the rows, with clusters by label propagation.
fn graph<T: Scalar>(matrix: &CsrArrays<T, u32>, columns: &Runs<u32>, vertices: u32) -> Result<Graph> {
    let (device, rows, entries) = (&matrix.device, matrix.nrows, matrix.nnz);
    let of_columns = columns.starts.len() as u32;
    let shift = bits_below(vertices + 1);
    let mut keys = device.scratch::<u64>(2 * entries as usize)?;
    let args = EdgesArgs {
        rows,
        columns: of_columns,
        entries,
        shift,
        row_offsets: matrix.row_offsets.readable(device),
        col_indices: matrix.col_indices.readable(device),
        distinct: if of_columns == matrix.ncols { Default::default() } else { columns.keys.readable() },
        keys: keys.writable(),
    };
    // SAFETY: a valid matrix, all columns of its entries, and two keys for each entry.
    unsafe { step(device, Operation::Edges, entries_grid_size(entries), args) }?;
    keys.sort()?;
    let (keys, weights) = keys.run_lengths()?;

    let mut degrees = device.scratch(vertices as usize)?;
    let args = DegreesArgs {
        rows,
        columns: of_columns,
        entries,
        row_offsets: matrix.row_offsets.readable(device),
        starts: columns.starts.readable(),
        degrees: degrees.writable(),
    };
    // SAFETY: a valid matrix, and the starts of all columns that have entries.
    unsafe { step(device, Operation::Degrees, grid_size(vertices), args) }?;
    let edges = Edges { shift, keys, weights };
    let clusters = label(&edges, &degrees, (rows, of_columns), entries)?;
    Ok(Graph { edges, degrees, clusters })
}

/// The labels of rows and columns, by label propagation; `NONE` for rows without entries.
fn label(edges: &Edges, degrees: &DeviceVec<u32>, (rows, columns): (u32, u32), entries: u32) -> Result<DeviceVec<u32>> {
    let device = degrees.device();
    let degrees_of_columns = || degrees.readable().skip(rows as usize);
    let mut of_columns = count(device, columns, 0, 1)?;
    let mut of_rows = count(device, rows, u32::MAX, 0)?;
    // Edges have two directions, those from rows first.
    let half = edges.keys.len() / 2;
    for _ in 0..MAX_ROUNDS {
        let sums = added((&of_columns, columns), degrees_of_columns())?;
        let labelled = edges.labelled(0..half, (&of_columns, rows))?;
        let new = labelled.best_labels((0, rows), degrees, &sums, entries)?;
        let before = std::mem::replace(&mut of_rows, new);
        let sums = added((&of_rows, columns), degrees.readable())?;
        let labelled = edges.labelled(half..2 * half, (&of_rows, 0))?;
        of_columns = labelled.best_labels((rows, columns), degrees, &sums, entries)?;
        if changes(&before, &of_rows)? as usize * SETTLED < rows as usize {
            break;
        }
    }
    let mut labels = device.scratch((rows + columns) as usize)?;
    labels.slice_mut(..rows as usize)?.assign(&of_rows)?;
    labels.slice_mut(rows as usize..)?.assign(&of_columns)?;
    Ok(labels)
}

/// How many labels differ. Waits for the number.
fn changes(before: &DeviceVec<u32>, after: &DeviceVec<u32>) -> Result<u32> {
    let (device, n) = (after.device(), after.len() as u32);
    let mut changes = device.zeros(1)?;
    let args = ChangesArgs { n, before: before.readable(), after: after.readable(), changes: changes.writable() };
    // SAFETY: as many labels before and after.
    unsafe { step(device, Operation::Changes, grid_size(n), args) }?;
    Ok(changes.to_vec()?[0])
}

/// The distinct columns of each group of rows that follow one another in an order, added up. Waits for the number.
fn group_columns<T: Scalar>(matrix: &CsrArrays<T, u32>, order: Option<&DeviceIndices>) -> Result<usize> {
    let (device, rows, entries) = (&matrix.device, matrix.nrows, matrix.nnz);
    let places = order.map(DeviceIndices::inverse).transpose()?;
    let mut keys = device.scratch::<u64>(entries as usize)?;
    let args = GroupKeysArgs {
        rows,
        entries,
        row_offsets: matrix.row_offsets.readable(device),
        col_indices: matrix.col_indices.readable(device),
        places: places.as_ref().map(|places| places.vector().readable()).unwrap_or_default(),
        keys: keys.writable(),
    };
    // SAFETY: a valid matrix, a place for each row, and a key for each entry.
    unsafe { step(device, Operation::GroupKeys, entries_grid_size(entries), args) }?;
    keys.sort()?;
    Ok(runs(&keys)?.starts.len())
}

/// # Safety
/// The rules of the kernels `clustering` hold for `args`, which are those of the operation.
unsafe fn step<'a, Args: Arguments<KernelLaunch<'a>>>(
    device: &'a Device,
    operation: Operation,
    blocks: u32,
    args: Args,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { launch(device, Key { operation }.entry(), blocks, args) }
}

//! Reverse Cuthill-McKee on a GPU or in the emulator.

use std::sync::Arc;

use kernels_gpu::{
    args::Arguments,
    breadth_first::{self, MAX_BLOCKS, STATE_LEN, TILE},
    components,
    cuthill_mckee::{self, DegreesArgs, EndsArgs, Operation, ReverseArgs, StartArgs, grid_size},
};

use crate::{
    Device, DeviceIndices, DeviceVec, Result, Scalar,
    algebra::symmetric::{reordered, symmetric},
    device::{KernelLaunch, launch},
    primitives::{bits_below, sort_pairs},
    stored::CsrArrays,
};

/// Entries of a level that are left to one block: more are worth the barriers of the grid. Not measured yet.
const ENTRIES_ALONE: u32 = 8192;

/// Entries of the matrix that justify another block. Not measured yet.
const ENTRIES_OF_BLOCK: u32 = 4096;

/// `cuthill_mckee` prepares the state of a search.
const _: () = assert!(cuthill_mckee::STATE_LEN == STATE_LEN && cuthill_mckee::FOUND == breadth_first::FOUND);

/// The order of a square matrix.
pub(super) fn reverse_cuthill_mckee<T: Scalar>(matrix: Arc<CsrArrays<T, u32>>) -> Result<DeviceVec<u32>> {
    let (device, n) = (matrix.device.clone(), matrix.nrows);
    if n == 0 {
        return device.zeros(0);
    }
    let graph = symmetric(matrix)?;
    let (by_degree, mut labels) = rows_by_degree(&graph)?;
    // From here on a row is its place among those, so that columns ascend with degrees.
    let graph = reordered(&graph, &by_degree)?;
    label_components(&graph, &mut labels)?;
    let mut search = Search::new(&graph, &labels)?;
    search.run(None)?;
    let ends = search.ends()?;
    search.run(Some(&ends))?;
    let order = components_in_turn(search.order, &labels)?;

    let mut reversed = device.scratch(n as usize)?;
    let args =
        ReverseArgs { n, order: order.readable(), rows: by_degree.vector().readable(), reversed: reversed.writable() };
    // SAFETY: both are permutations of the rows.
    unsafe { step(&device, Operation::Reverse, n, args) }?;
    Ok(reversed)
}

/// The rows of a canonical symmetric pattern by degree and index; and, as labels of components to begin with, the numbers of rows.
fn rows_by_degree<T: Scalar>(graph: &CsrArrays<T, u32>) -> Result<(DeviceIndices, DeviceVec<u32>)> {
    let (device, n) = (&graph.device, graph.nrows);
    let [mut degrees, mut rows, mut labels] =
        [device.scratch(n as usize)?, device.scratch(n as usize)?, device.scratch(n as usize)?];
    let args = DegreesArgs {
        n,
        entries: graph.nnz,
        row_offsets: graph.row_offsets.readable(device),
        col_indices: graph.col_indices.readable(device),
        degrees: degrees.writable(),
        rows: rows.writable(),
        labels: labels.writable(),
    };
    // SAFETY: a canonical matrix.
    unsafe { step(device, Operation::Degrees, n, args) }?;
    let (_, rows) = sort_pairs(degrees, rows, 0..bits_below(n))?;
    // SAFETY: all rows, sorted.
    Ok((unsafe { DeviceIndices::of_permutation(rows) }, labels))
}

/// Lowers each row's label, its own number, to the least row that it is connected with.
fn label_components<T: Scalar>(graph: &CsrArrays<T, u32>, labels: &mut DeviceVec<u32>) -> Result<()> {
    let (device, n, entries) = (&graph.device, graph.nrows, graph.nnz);
    if entries == 0 {
        return Ok(());
    }
    let args = components::HookArgs {
        n,
        entries,
        row_offsets: graph.row_offsets.readable(device),
        col_indices: graph.col_indices.readable(device),
        labels: labels.writable(),
    };
    let entry = components::Key { operation: components::Operation::Hook }.entry();
    // SAFETY: a valid square matrix, and labels that are the rows' own numbers.
    unsafe { launch(device, entry, components::hook_grid_size(entries), args) }?;
    let args = components::FlattenArgs { n, labels: labels.writable() };
    let entry = components::Key { operation: components::Operation::Flatten }.entry();
    // SAFETY: a label for each row, which leads to a root.
    unsafe { launch(device, entry, components::flatten_grid_size(n), args) }
}

/// Breadth-first searches in all components at once.
struct Search<'a, T> {
    /// A canonical symmetric pattern.
    graph: &'a CsrArrays<T, u32>,
    /// The component of each row.
    labels: &'a DeviceVec<u32>,
    /// The rows in the order found.
    order: DeviceVec<u32>,
    levels: DeviceVec<u32>,
    spans: DeviceVec<u64>,
    parents: DeviceVec<u32>,
    counts: DeviceVec<u32>,
    blocks: u32,
    /// The most rows of a level that are left to one block.
    alone: u32,
}

impl<'a, T: Scalar> Search<'a, T> {
    fn new(graph: &'a CsrArrays<T, u32>, labels: &'a DeviceVec<u32>) -> Result<Self> {
        let (device, n) = (&graph.device, graph.nrows as usize);
        let blocks = (graph.nnz / ENTRIES_OF_BLOCK).clamp(1, device.multiprocessors().min(MAX_BLOCKS));
        let mean_row = (graph.nnz / graph.nrows).max(1);
        let alone = if blocks == 1 { u32::MAX } else { (ENTRIES_ALONE / mean_row).clamp(1, TILE) };
        Ok(Self {
            graph,
            labels,
            order: device.scratch(n)?,
            levels: device.scratch(n)?,
            spans: device.scratch(n)?,
            parents: device.scratch(n)?,
            counts: device.scratch(blocks as usize)?,
            blocks,
            alone,
        })
    }

    /// Searches each component from its end, or without ends from its least row.
    fn run(&mut self, ends: Option<&DeviceVec<u64>>) -> Result<()> {
        let (graph, n) = (self.graph, self.graph.nrows);
        let device = &graph.device;
        let mut state = device.zeros::<u32>(STATE_LEN)?;
        let args = StartArgs {
            n,
            row_offsets: graph.row_offsets.readable(device),
            labels: self.labels.readable(),
            ends: ends.map(DeviceVec::readable).unwrap_or_default(),
            order: self.order.writable(),
            spans: self.spans.writable(),
            parents: self.parents.writable(),
            levels: self.levels.writable(),
            state: state.writable(),
        };
        // SAFETY: labels, and ends at all of them, of the matrix's rows; zeros.
        unsafe { step(device, Operation::Start, n, args) }?;
        let args = breadth_first::Args {
            n,
            entries: graph.nnz,
            alone: self.alone,
            row_offsets: graph.row_offsets.readable(device),
            col_indices: graph.col_indices.readable(device),
            order: self.order.writable(),
            spans: self.spans.writable(),
            parents: self.parents.writable(),
            levels: self.levels.writable(),
            counts: self.counts.writable(),
            state: state.writable(),
        };
        let entry = breadth_first::Key {}.entry();
        let mut launch = KernelLaunch::cooperative(device, entry, self.blocks, 0)?;
        let args = args.bind(&mut launch);
        // SAFETY: a canonical square matrix, the rows to start from as `start` leaves them, and a count for each block.
        unsafe { launch.run_entry(entry, &args) }
    }

    /// The end of each component, after a search.
    fn ends(&self) -> Result<DeviceVec<u64>> {
        let (device, n) = (&self.graph.device, self.graph.nrows);
        let mut ends = device.zeros(n as usize)?;
        let (labels, levels) = (self.labels.readable(), self.levels.readable());
        // SAFETY: all rows have labels and levels.
        unsafe { step(device, Operation::Ends, n, EndsArgs { n, labels, levels, ends: ends.writable() }) }?;
        Ok(ends)
    }
}

/// The rows of an order component by component, in the order of labels.
fn components_in_turn(order: DeviceVec<u32>, labels: &DeviceVec<u32>) -> Result<DeviceVec<u32>> {
    let n = order.len() as u32;
    let mut components = order.device().scratch(order.len())?;
    // SAFETY: every row is in one component, which a search has gone through.
    let order = unsafe { DeviceIndices::of_permutation(order) };
    components.gather(&order, labels)?;
    Ok(sort_pairs(components, order.into_vector(), 0..bits_below(n))?.1)
}

/// # Safety
/// The rules of `cuthill_mckee` hold for `args`, which are those of the operation.
unsafe fn step<'a, Args: Arguments<KernelLaunch<'a>>>(
    device: &'a Device,
    operation: Operation,
    n: u32,
    args: Args,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { launch(device, cuthill_mckee::Key { operation }.entry(), grid_size(n), args) }
}

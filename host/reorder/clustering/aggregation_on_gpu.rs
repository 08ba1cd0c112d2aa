//! Aggregation of the vertices of a graph, on a GPU or in the emulator.

use std::ops::Range;

use kernels_gpu::aggregation::{
    BestArgs, Key, LANES, MapArgs, Operation, RelabelArgs, StayArgs, best_grid_size, grid_size,
};

use super::{
    aggregation::MAX_ROUNDS,
    gpu::{added, count},
};
use crate::{
    DeviceIndices, DeviceVec, Result,
    device::{Readable, launch},
    primitives::{bits_below, row_offsets, sort_pairs},
};

/// An undirected graph with weighted edges, whose vertices are in clusters.
pub(super) struct Graph {
    pub(super) edges: Edges,
    /// The sum of the weights of each vertex's edges; and, after merges, of the vertices that are merged in it.
    pub(super) degrees: DeviceVec<u32>,
    pub(super) clusters: DeviceVec<u32>,
}

/// Edges as keys `vertex << shift | neighbour`, ascending and distinct, from both ends. There may be one of a vertex behind all others, which
/// stands for edges that became loops.
pub(super) struct Edges {
    pub(super) shift: u32,
    pub(super) keys: DeviceVec<u64>,
    pub(super) weights: DeviceVec<u32>,
}

/// The places of the vertices in an order in which those that are merged early stand together: as on the host. `total` is the sum of all degrees.
pub(super) fn aggregate(mut graph: Graph, total: u64) -> Result<DeviceVec<u32>> {
    let device = graph.degrees.device().clone();
    let mut merges = Vec::new();
    let mut round = 0;
    for within in [true, false] {
        for _ in 0..MAX_ROUNDS {
            let best = graph.best(total, within)?;
            let (numbers, stay) = graph.stays(&best, round)?;
            round += 1;
            if stay as usize == graph.degrees.len() {
                break;
            }
            let (merged, map) = graph.contracted(&best, &numbers, stay)?;
            graph = merged;
            merges.push(map);
        }
    }
    let mut places = count(&device, graph.degrees.len() as u32, 0, 1)?;
    for map in merges.into_iter().rev() {
        let (n, bound) = (map.len(), places.len());
        let mut keys = device.scratch(n)?;
        // SAFETY: the new numbers of vertices are below their number, which is that of the places.
        keys.gather(&unsafe { DeviceIndices::of_vector(map, bound) }, &places)?;
        let (_, order) = sort_pairs(keys, count(&device, n as u32, 0, 1)?, 0..bits_below(bound as u32))?;
        // SAFETY: all vertices, sorted.
        places = unsafe { DeviceIndices::of_permutation(order) }.inverse()?.into_vector();
    }
    Ok(places)
}

impl Graph {
    /// The best neighbour of each vertex.
    fn best(&self, total: u64, within: bool) -> Result<DeviceVec<u32>> {
        let clusters = if within { self.clusters.readable() } else { Readable::default() };
        let vertices = (0, self.degrees.len() as u32);
        self.edges.best(Operation::Neighbour, vertices, &self.degrees, (&self.degrees, total), clusters)
    }

    /// How many vertices before each stay in a round, one more element for all; and how many that are. Waits for the number.
    fn stays(&self, best: &DeviceVec<u32>, round: u32) -> Result<(DeviceVec<u32>, u32)> {
        let (device, n) = (best.device(), best.len() as u32);
        let mut stays = device.scratch(best.len())?;
        let degrees = self.degrees.readable();
        let args = StayArgs { n, round, degrees, best: best.readable(), stays: stays.writable() };
        // SAFETY: a degree and a best neighbour for each vertex.
        unsafe { launch(device, Key { operation: Operation::Stay }.entry(), grid_size(n), args) }?;
        let (numbers, total) = row_offsets::<u32>(&stays)?;
        Ok((numbers, total as u32))
    }

    /// The graph of the `stay` vertices with these numbers, and the new number of each vertex.
    fn contracted(&self, best: &DeviceVec<u32>, numbers: &DeviceVec<u32>, stay: u32) -> Result<(Self, DeviceVec<u32>)> {
        let (device, n) = (best.device(), best.len() as u32);
        let (mut map, mut clusters) = (device.scratch(best.len())?, device.scratch(stay as usize)?);
        let args = MapArgs {
            n,
            new_n: stay,
            best: best.readable(),
            numbers: numbers.readable(),
            clusters: self.clusters.readable(),
            map: map.writable(),
            new_clusters: clusters.writable(),
        };
        // SAFETY: a best neighbour and a cluster for each vertex, and the numbers of those that stay.
        unsafe { launch(device, Key { operation: Operation::Map }.entry(), grid_size(n), args) }?;
        let degrees = added((&map, stay), self.degrees.readable())?;
        let edges = self.edges.relabelled(0..self.edges.keys.len(), Labels::Both { map: &map, vertices: (n, stay) })?;
        Ok((Self { edges, degrees, clusters }, map))
    }
}

/// What the ends of edges become.
#[derive(Clone, Copy)]
enum Labels<'a> {
    /// The second ends get labels, of which that of `first` is the first.
    Second { labels: &'a DeviceVec<u32>, first: u32 },
    /// Both ends get new numbers; there are so many vertices before and after. Loops are dropped.
    Both { map: &'a DeviceVec<u32>, vertices: (u32, u32) },
}

impl Edges {
    /// These of the edges with labels in place of the second ends: `labels` has that of `first` first.
    pub(super) fn labelled(&self, edges: Range<usize>, (labels, first): (&DeviceVec<u32>, u32)) -> Result<Self> {
        self.relabelled(edges, Labels::Second { labels, first })
    }

    /// These of the edges with other ends, those that become the same added up. Waits for their number.
    fn relabelled(&self, edges: Range<usize>, labels: Labels<'_>) -> Result<Self> {
        let device = self.keys.device();
        let (mut keys, mut weights) = (device.scratch(edges.len())?, device.scratch(edges.len())?);
        let (columns, first_column) = match labels {
            Labels::Second { labels, first } => (labels, first),
            Labels::Both { map, .. } => (map, 0),
        };
        let (rows, vertices, shift) = match labels {
            Labels::Second { .. } => (Readable::default(), None, self.shift),
            Labels::Both { map, vertices } => (map.readable(), Some(vertices), bits_below(vertices.1 + 1)),
        };
        let (n, new_n) = vertices.unwrap_or_default();
        if !edges.is_empty() {
            let args = RelabelArgs {
                edges: edges.len() as u32,
                shift: self.shift,
                new_shift: shift,
                first_column,
                n,
                new_n,
                drop_loops: vertices.is_some().into(),
                keys: self.keys.readable().skip(edges.start),
                weights: self.weights.readable().skip(edges.start),
                rows,
                columns: columns.readable(),
                new_keys: keys.writable(),
                new_weights: weights.writable(),
            };
            let entry = Key { operation: Operation::Relabel }.entry();
            // SAFETY: callers have labels of all ends of these edges, or new numbers of all vertices.
            unsafe { launch(device, entry, grid_size(edges.len() as u32), args) }?;
        }
        let (keys, weights) = sort_pairs(keys, weights, 0..2 * shift)?;
        let (keys, weights) = keys.reduce_by_key(&weights)?;
        Ok(Self { shift, keys, weights })
    }

    /// The best label of each of `vertices`, the first and their number, of the labels that are the edges' second ends.
    pub(super) fn best_labels(
        &self,
        vertices: (u32, u32),
        degrees: &DeviceVec<u32>,
        degrees_of_labels: &DeviceVec<u32>,
        total: u32,
    ) -> Result<DeviceVec<u32>> {
        self.best(Operation::Label, vertices, degrees, (degrees_of_labels, total.into()), Readable::default())
    }

    fn best(
        &self,
        operation: fn(u32) -> Operation,
        (first, n): (u32, u32),
        degrees: &DeviceVec<u32>,
        (others, total): (&DeviceVec<u32>, u64),
        clusters: Readable<'_, u32>,
    ) -> Result<DeviceVec<u32>> {
        let (device, edges) = (degrees.device(), self.keys.len() as u32);
        let mut best = device.scratch(n as usize)?;
        let [few, most] = LANES;
        let lanes = if u64::from(edges) > 12 * u64::from(n) { most } else { few };
        let args = BestArgs {
            n,
            first,
            edges,
            shift: self.shift,
            total,
            keys: self.keys.readable(),
            weights: self.weights.readable(),
            degrees: degrees.readable(),
            others: others.readable(),
            clusters,
            best: best.writable(),
        };
        let entry = Key { operation: operation(lanes) }.entry();
        // SAFETY: callers have degrees of all vertices and of all second ends, and clusters, if any, of all.
        unsafe { launch(device, entry, best_grid_size(n, lanes), args) }?;
        Ok(best)
    }
}

//! Rounds of an aggregation: vertices of a weighted graph are merged into their best neighbours, and the graph is made of what they become.
//!
//! # The mathematics
//! ```text
//! gain(v, u)    w - d_v d_u / total       the edge's weight less what chance would give, by the weighted degrees: modularity
//! best(v)       the u with the greatest gain^2 / d_u, of equal ones the least; only gains above 0, and in `within` only the vertex's own cluster
//! v wants       to be merged into best(v) if (d, mix, number) of v is less than that of best(v)
//! v stays       unless it wants, and its best neighbour does not
//! ```
//! So vertices join others of higher degree, any number of them one, and no chains arise. With labels in place of neighbours `best` is a step of
//! label propagation: then the greatest gain counts, of whatever sign.
//!
//! # When to use it
//! `relabel` and a sort by keys, whose weights are added up, give the edges; `best`, `stay`, a sum of the stays, and `map` a round.
//!
//! # Edges
//! An edge is a key `v << shift | u` with a weight, in both directions; keys ascend and are distinct. What has become an edge from a vertex to
//! itself goes to vertex `n`, behind all others.
//!
//! # Threads
//! Best: [`LANES`] a vertex, which search the vertex's edges among the keys, and share them. All others: a thread for each edge or vertex.
//!
//! # Bytes moved
//! Relabel: keys and weights read and written once, and the new numbers of both ends. Best: keys, weights, and degrees of all neighbours.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses
//!    it during the launch.
//! 2. The ends of edges, less `first_column` or `first`, are below the lengths of the arrays that are indexed by them; so are best neighbours. Only
//!    in `relabel` with `drop_loops` there may be edges of vertex `n`.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] or [`best_grid_size`] blocks.

use cuda_std::{mem, thread, warp};

use crate::{
    args::args,
    csr_rows::blocks_of_groups,
    family::family,
    grid::{group_index, thread_index},
    lanes::{butterfly, group_mask},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes of a vertex, for few edges a vertex and for more.
pub const LANES: [u32; 2] = [8, 32];

/// No neighbour.
pub const NONE: u32 = u32::MAX;

args! {
    /// The arguments of `relabel`.
    pub struct RelabelArgs {
        /// Edges.
        value edges: u32,
        /// Of the keys read.
        value shift: u32,
        /// Of the keys written.
        value new_shift: u32,
        /// The least number of a second end.
        value first_column: u32,
        /// Vertices before.
        value n: u32,
        /// Vertices after.
        value new_n: u32,
        /// Whether edges from a vertex to itself go to vertex `new_n`, 0 or 1.
        value drop_loops: u32,
        /// `edges` keys.
        read keys: u64 [edges as usize],
        /// `edges` weights.
        read weights: u32 [edges as usize],
        /// The new number of each first end, or null.
        read rows: u32,
        /// The new number of each second end.
        read columns: u32,
        /// `edges` keys.
        write new_keys: u64 [edges as usize],
        /// `edges` weights.
        write new_weights: u32 [edges as usize],
    }
}

args! {
    /// The arguments of `best`.
    pub struct BestArgs {
        /// Vertices.
        value n: u32,
        /// The first one.
        value first: u32,
        /// Edges.
        value edges: u32,
        /// Of the keys.
        value shift: u32,
        /// The sum of the degrees.
        value total: u64,
        /// `edges` keys.
        read keys: u64 [edges as usize],
        /// `edges` weights.
        read weights: u32 [edges as usize],
        /// The degree of each vertex, from vertex 0 on.
        read degrees: u32 [first as usize + n as usize],
        /// The degree of each second end.
        read others: u32,
        /// The cluster of each vertex; or null, if any may be merged.
        read clusters: u32,
        /// The best neighbour of each vertex, or [`NONE`].
        write best: u32 [n as usize],
    }
}

args! {
    /// The arguments of `stay`.
    pub struct StayArgs {
        /// Vertices.
        value n: u32,
        /// The number of the round.
        value round: u32,
        /// The degree of each vertex.
        read degrees: u32 [n as usize],
        /// The best neighbour of each vertex, or [`NONE`].
        read best: u32 [n as usize],
        /// 1 for each vertex that stays, otherwise 0.
        write stays: u32 [n as usize],
    }
}

args! {
    /// The arguments of `map`.
    pub struct MapArgs {
        /// Vertices.
        value n: u32,
        /// Vertices that stay.
        value new_n: u32,
        /// The best neighbour of each vertex, or [`NONE`].
        read best: u32 [n as usize],
        /// How many vertices before each stay, and how many all.
        read numbers: u32 [n as usize + 1],
        /// The cluster of each vertex.
        read clusters: u32 [n as usize],
        /// The new number of each vertex, or of what it is merged into.
        write map: u32 [n as usize],
        /// The cluster of each vertex that stays.
        write new_clusters: u32 [new_n as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`RelabelArgs`].
    Relabel,
    /// With [`BestArgs`]: the best neighbour, by as many lanes a vertex as [`LANES`] has.
    Neighbour(u32),
    /// With [`BestArgs`]: the best label, by as many lanes.
    Label(u32),
    /// With [`StayArgs`].
    Stay,
    /// With [`MapArgs`].
    Map,
}

family! {
    "aggregation", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    aggregation_relabel(Operation::Relabel): RelabelArgs => relabel;
    aggregation_neighbour_t8(Operation::Neighbour(8)): BestArgs => best::<8, false>;
    aggregation_neighbour_t32(Operation::Neighbour(32)): BestArgs => best::<32, false>;
    aggregation_label_t8(Operation::Label(8)): BestArgs => best::<8, true>;
    aggregation_label_t32(Operation::Label(32)): BestArgs => best::<32, true>;
    aggregation_stay(Operation::Stay): StayArgs => stay;
    aggregation_map(Operation::Map): MapArgs => map;
}

/// Blocks for so many edges or vertices.
#[must_use]
pub const fn grid_size(n: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE)
}

/// Blocks of `best` for `n` vertices.
#[must_use]
pub const fn best_grid_size(n: u32, lanes: u32) -> u32 {
    blocks_of_groups(n, lanes, BLOCK_SIZE)
}

/// The weight of an edge less what chance would give between ends of these degrees. The host computes the same bits.
#[inline(always)]
#[must_use]
pub fn gain(weight: f64, degree: f64, other: f64, total: f64) -> f64 {
    weight - degree * other / total
}

/// How good a neighbour of degree `other` is, of those that a vertex gains with.
#[inline(always)]
#[must_use]
pub fn score(gain: f64, other: f64) -> f64 {
    gain * gain / other
}

/// A number that orders vertices of equal degree, in each round otherwise (a step of MurmurHash3, A. Appleby).
#[inline(always)]
#[must_use]
pub const fn mix(vertex: u32, round: u32) -> u32 {
    let mut hash = vertex ^ round.wrapping_mul(0x9e37_79b9);
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn relabel(args: RelabelArgs) {
    let edge = thread_index::<BLOCK_SIZE>();
    if edge >= u64::from(args.edges) {
        return;
    }
    let edge = edge as usize;
    // SAFETY: the edge exists, and the arrays have its ends.
    unsafe {
        let key = mem::load_streaming(args.keys.add(edge));
        let row = (key >> args.shift) as u32;
        let column = (key & ((1 << args.shift) - 1)) as u32;
        let (mut new_row, mut new_column) = (args.new_n, 0);
        if args.drop_loops == 0 || row < args.n {
            new_column = mem::load_readonly(args.columns.add((column - args.first_column) as usize));
            new_row = if args.rows.is_null() { row } else { mem::load_readonly(args.rows.add(row as usize)) };
            if args.drop_loops != 0 && new_row == new_column {
                (new_row, new_column) = (args.new_n, 0);
            }
        }
        mem::store(args.new_keys.add(edge), u64::from(new_row) << args.new_shift | u64::from(new_column));
        mem::store(args.new_weights.add(edge), mem::load_streaming(args.weights.add(edge)));
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn best<const LANES: u32, const LABELS: bool>(args: BestArgs) {
    let vertex = group_index::<BLOCK_SIZE>(LANES);
    if vertex >= u64::from(args.n) {
        return;
    }
    let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
    // SAFETY: the group's lanes are all here, with the same vertex; edges below the end exist, and so do their ends.
    unsafe {
        let number = args.first + vertex as u32;
        // The even lanes search the first edge, the odd ones the end.
        let bound = (u64::from(number) + u64::from(lane % 2)) << args.shift;
        let found = edges_below(args.keys, args.edges, bound);
        let (mut edge, _) = warp::warp_shuffle_idx(mask, found, 0, LANES);
        let (end, _) = warp::warp_shuffle_idx(mask, found, 1, LANES);
        let degree = f64::from(mem::load_readonly(args.degrees.add(number as usize)));
        let cluster = if args.clusters.is_null() { 0 } else { mem::load_readonly(args.clusters.add(number as usize)) };
        let mut best = (f64::NEG_INFINITY, NONE);
        edge += lane.min(end - edge);
        while edge < end {
            let other = (mem::load_readonly(args.keys.add(edge as usize)) & ((1 << args.shift) - 1)) as u32;
            let weight = f64::from(mem::load_readonly(args.weights.add(edge as usize)));
            let other_degree = f64::from(mem::load_readonly(args.others.add(other as usize)));
            let gain = gain(weight, degree, other_degree, args.total as f64);
            let is_allowed = LABELS
                || gain > 0.0
                    && (args.clusters.is_null() || mem::load_readonly(args.clusters.add(other as usize)) == cluster);
            if is_allowed {
                best = better(best, (if LABELS { gain } else { score(gain, other_degree) }, other));
            }
            edge += LANES.min(end - edge);
        }
        butterfly::<LANES>(mask, |partner| best = better(best, (partner.value(best.0), partner.value(best.1))));
        if lane == 0 {
            mem::store(args.best.add(vertex as usize), best.1);
        }
    }
}

/// The one with the greater score, of equal ones the one with the lesser number.
#[inline(always)]
fn better(a: (f64, u32), b: (f64, u32)) -> (f64, u32) {
    if b.0 > a.0 || b.0 == a.0 && b.1 < a.1 { b } else { a }
}

/// How many keys are below a bound.
///
/// # Safety
/// The keys exist in global memory, ascend, and nothing writes them during the launch.
#[inline(always)]
unsafe fn edges_below(keys: *const u64, edges: u32, bound: u64) -> u32 {
    let (mut low, mut high) = (0, edges);
    while low < high {
        let middle = low + (high - low) / 2;
        // SAFETY: middle < edges.
        if unsafe { mem::load_readonly(keys.add(middle as usize)) } < bound { low = middle + 1 } else { high = middle }
    }
    low
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn stay(args: StayArgs) {
    let vertex = thread_index::<BLOCK_SIZE>();
    if vertex < u64::from(args.n) {
        // SAFETY: vertex < n, and so is a best neighbour.
        unsafe {
            let best = mem::load_readonly(args.best.add(vertex as usize));
            let leaves = best != NONE && wants(args, vertex as u32, best) && {
                let next = mem::load_readonly(args.best.add(best as usize));
                next == NONE || !wants(args, best, next)
            };
            mem::store(args.stays.add(vertex as usize), u32::from(!leaves));
        }
    }
}

/// Whether a vertex wants to be merged into its best neighbour.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn wants(args: StayArgs, vertex: u32, best: u32) -> bool {
    // SAFETY: both are vertices.
    let (degree, other) = unsafe {
        (mem::load_readonly(args.degrees.add(vertex as usize)), mem::load_readonly(args.degrees.add(best as usize)))
    };
    comes_before((degree, vertex), (other, best), args.round)
}

/// Whether a vertex, of which the degree and the number are given, comes before another in a round.
#[inline(always)]
#[must_use]
pub fn comes_before<D: PartialOrd>(one: (D, u32), other: (D, u32), round: u32) -> bool {
    let (mix_of_one, mix_of_other) = (mix(one.1, round), mix(other.1, round));
    one.0 < other.0 || one.0 == other.0 && (mix_of_one < mix_of_other || mix_of_one == mix_of_other && one.1 < other.1)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn map(args: MapArgs) {
    let vertex = thread_index::<BLOCK_SIZE>();
    if vertex >= u64::from(args.n) {
        return;
    }
    let vertex = vertex as usize;
    // SAFETY: vertex < n, and so is the best neighbour of one that leaves.
    unsafe {
        let number = mem::load_readonly(args.numbers.add(vertex));
        let stays = mem::load_readonly(args.numbers.add(vertex + 1)) != number;
        let new_number = match stays {
            true => number,
            false => {
                let best = mem::load_readonly(args.best.add(vertex));
                mem::load_readonly(args.numbers.add(best as usize))
            }
        };
        mem::store(args.map.add(vertex), new_number);
        if stays {
            mem::store(args.new_clusters.add(number as usize), mem::load_readonly(args.clusters.add(vertex)));
        }
    }
}

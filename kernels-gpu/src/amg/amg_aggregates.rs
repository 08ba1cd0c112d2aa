//! Aggregates of the vertices of a graph: a maximal independent set at distance 2, and everybody with the one that is near.
//!
//! # The mathematics
//! Every undecided vertex has a number in a round, distinct from all others; [`ROOT`] stands for a root, and 0 for everybody else.
//! ```text
//! begin(v)     v may become a root if it has enough neighbours that are free, that is in no aggregate: one at first, see `least` later
//! nearest(v)   the greatest number among v and its neighbours; 0 for one that is not free
//! decide(v)    with m, the greatest `nearest` among v and its neighbours: v becomes a root if m is its own number, and is out if m is ROOT
//! join(v)      a root is a new aggregate, and free neighbours belong to it
//! rest(v)      others join the neighbouring aggregate that their entries are largest for in all; of equal ones the least
//! ```
//! No two roots are within two edges, by way of free vertices; and after the first pass every free vertex is within two edges of a root, so it has a neighbour that
//! has joined. Vertices whose row has no off-diagonal entry belong to no aggregate. Where no undecided vertex and no root is near, or a root is, it stays so:
//! `nearest` keeps those numbers.
//!
//! # When to use it
//! Coarsening for algebraic multigrid (Bell, Dalton & Olson, 2012), with new numbers in every round and a second pass over what the first has left (Kelley & Rajamanickam,
//! 2022). A pass is `begin`, rounds of `nearest` and `decide` until nobody is undecided, `roots`, a scan, and `join`; after two of them `rest`. Rounds may be
//! queued ahead: those after the last return at once. The same aggregates on every device.
//!
//! # Threads
//! [`lanes`] a row for what looks at neighbours; otherwise a thread per vertex.
//!
//! # Bytes moved
//! Columns once per launch, and a word for each by columns; in later rounds those of the vertices that are still of interest. `rest` reads values too, of
//! the vertices that are not placed.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses
//!    it during the launch; but `undecided` has a word that all blocks count in.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; columns are below `rows`, which is at most 2^31.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::atomic_fetch_add_u32_device,
    mem, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    DType, Scalar,
    args::args,
    csr_rows::blocks_of_groups,
    family::family,
    grid::group_index,
    lanes::{butterfly, group_mask},
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes of a row, of up to 8 entries in the mean, up to 12, and more. Not measured yet.
#[must_use]
pub const fn lanes(entries: u32, rows: u32) -> u32 {
    match entries.div_ceil(rows) {
        0..=8 => 2,
        9..=12 => 8,
        _ => 32,
    }
}

/// The state of a free vertex that is no root.
pub const OUT: u32 = 0;

/// The state of a vertex that may become a root.
pub const UNDECIDED: u32 = 1;

/// The state of a vertex that has an aggregate already: it is not there.
pub const GONE: u32 = 2;

/// No aggregate.
pub const NONE: u32 = u32::MAX;

/// The state of a root, and its number.
pub const ROOT: u32 = u32::MAX;

args! {
    /// A graph.
    pub struct Graph {
        /// Vertices.
        value rows: u32,
        /// Entries.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// Neighbours; a vertex may be its own.
        read col_indices: u32 [entries as usize],
    }
}

args! {
    /// The arguments of `begin`.
    pub struct BeginArgs {
        /// How many free neighbours a root needs: see [`least`].
        value rule: u32,
        /// The aggregate of each vertex, or [`NONE`]; null if nobody has one.
        read joined: u32 [null or graph.rows as usize],
        /// The states.
        write states: u32 [graph.rows as usize],
        /// The graph.
        part graph: Graph<A>,
    }
}

args! {
    /// The arguments of `nearest`.
    pub struct NearestArgs {
        /// The number of the round.
        value round: u32,
        /// Of each round before, and of this one, whether it has anything to do: 0 if not.
        read undecided: u32 [round as usize + 1],
        /// The states.
        read states: u32 [graph.rows as usize],
        /// The greatest number near each vertex, in the round before and then in this one.
        write nearest: u32 [graph.rows as usize],
        /// The graph.
        part graph: Graph<A>,
    }
}

args! {
    /// The arguments of `decide`.
    pub struct DecideArgs {
        /// The number of the round.
        value round: u32,
        /// The greatest number near each vertex.
        read nearest: u32 [graph.rows as usize],
        /// The states.
        write states: u32 [graph.rows as usize],
        /// As for `nearest`; and of the next round, to start from 0.
        write undecided: u32 [round as usize + 2],
        /// The graph.
        part graph: Graph<A>,
    }
}

args! {
    /// The arguments of `roots`.
    pub struct RootsArgs {
        /// Vertices.
        value rows: u32,
        /// The states.
        read states: u32 [rows as usize],
        /// 1 for a root, otherwise 0.
        write flags: u32 [rows as usize],
    }
}

args! {
    /// The arguments of `join`.
    pub struct JoinArgs {
        /// The number of the first new aggregate.
        value first: u32,
        /// How many new roots before each vertex, and one more element.
        read numbers: u32 [graph.rows as usize + 1],
        /// The aggregate of each vertex before, or [`NONE`]; null if nobody has one.
        read joined: u32 [null or graph.rows as usize],
        /// The aggregate of each vertex, or [`NONE`].
        write aggregates: u32 [graph.rows as usize],
        /// The graph.
        part graph: Graph<A>,
    }
}

args! {
    /// The arguments of `rest`.
    pub struct RestArgs<T> {
        /// The entries' values.
        read values: T [graph.entries as usize],
        /// The aggregates that `join` has found.
        read joined: u32 [graph.rows as usize],
        /// The aggregate of each vertex, or [`NONE`].
        write aggregates: u32 [graph.rows as usize],
        /// 1 for each vertex that has an aggregate, otherwise 0.
        write placed: u32 [graph.rows as usize],
        /// The graph.
        part graph: Graph<A>,
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`BeginArgs`].
    Begin,
    /// With [`NearestArgs`].
    Nearest,
    /// With [`DecideArgs`].
    Decide,
    /// With [`RootsArgs`], by one lane.
    Roots,
    /// With [`JoinArgs`].
    Join,
    /// With [`RestArgs`].
    Rest(DType),
}

family! {
    "amg_aggregates", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
        /// Lanes of a row.
        lanes: u32,
    }

    amg_aggregates_begin_t2(Operation::Begin, 2): BeginArgs => begin::<2>;
    amg_aggregates_begin_t8(Operation::Begin, 8): BeginArgs => begin::<8>;
    amg_aggregates_begin_t32(Operation::Begin, 32): BeginArgs => begin::<32>;
    amg_aggregates_nearest_t2(Operation::Nearest, 2): NearestArgs => nearest::<2>;
    amg_aggregates_nearest_t8(Operation::Nearest, 8): NearestArgs => nearest::<8>;
    amg_aggregates_nearest_t32(Operation::Nearest, 32): NearestArgs => nearest::<32>;
    amg_aggregates_decide_t2(Operation::Decide, 2): DecideArgs => decide::<2>;
    amg_aggregates_decide_t8(Operation::Decide, 8): DecideArgs => decide::<8>;
    amg_aggregates_decide_t32(Operation::Decide, 32): DecideArgs => decide::<32>;
    amg_aggregates_roots(Operation::Roots, 1): RootsArgs => roots;
    amg_aggregates_join_t2(Operation::Join, 2): JoinArgs => join::<2>;
    amg_aggregates_join_t8(Operation::Join, 8): JoinArgs => join::<8>;
    amg_aggregates_join_t32(Operation::Join, 32): JoinArgs => join::<32>;
    amg_aggregates_rest_f32_t2(Operation::Rest(DType::F32), 2): RestArgs<f32> => rest::<f32, 2>;
    amg_aggregates_rest_f32_t8(Operation::Rest(DType::F32), 8): RestArgs<f32> => rest::<f32, 8>;
    amg_aggregates_rest_f64_t2(Operation::Rest(DType::F64), 2): RestArgs<f64> => rest::<f64, 2>;
    amg_aggregates_rest_f64_t8(Operation::Rest(DType::F64), 8): RestArgs<f64> => rest::<f64, 8>;
    amg_aggregates_rest_f32_t32(Operation::Rest(DType::F32), 32): RestArgs<f32> => rest::<f32, 32>;
    amg_aggregates_rest_f64_t32(Operation::Rest(DType::F64), 32): RestArgs<f64> => rest::<f64, 32>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u32, lanes: u32) -> u32 {
    blocks_of_groups(rows, lanes, BLOCK_SIZE)
}

/// The number of a vertex in a state: of undecided ones below 2^31 one that no other has, and in each round another. (A step of
/// MurmurHash3, A. Appleby, on 31 bits: each step maps them one to one.) The host computes the same.
#[inline(always)]
#[must_use]
pub const fn number(vertex: u32, state: u32, round: u32) -> u32 {
    if state != UNDECIDED {
        return if state == ROOT { ROOT } else { 0 };
    }
    const BITS: u32 = (1 << 31) - 1;
    let mut hash = (vertex ^ round.wrapping_mul(0x9e37_79b9)) & BITS;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b) & BITS;
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35) & BITS;
    1 + (hash ^ hash >> 16)
}

/// How many of its neighbours must be free for a vertex to become a root, by [rule]: one at least. Half of a path's two is one, since of four vertices between two
/// roots the two in the middle are better off by themselves than in aggregates of five.
#[inline(always)]
#[must_use]
pub const fn least(rule: u32, neighbours: u32) -> u32 {
    if rule == rule::ONE || neighbours == 0 {
        1
    } else if rule == rule::HALF || neighbours <= 5 {
        neighbours.div_ceil(2)
    } else if neighbours <= 8 {
        neighbours
    } else {
        neighbours - neighbours / 4
    }
}

/// How many free neighbours a root needs.
pub mod rule {
    /// One.
    pub const ONE: u32 = 0;
    /// Half of the neighbours.
    pub const HALF: u32 = 1;
    /// Half of up to 5 neighbours, all of up to 8, three quarters of more: fewer aggregates where rows are long.
    pub const MOST_OF_MANY: u32 = 2;
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn begin<const LANES: u32>(args: BeginArgs) {
    let BeginArgs { graph, rule, joined, states } = args;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(graph.rows) {
        return;
    }
    let (mask, lane, row) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES, row as u32);
    // SAFETY: row < rows, whose lanes are all here; entries between offsets exist.
    unsafe {
        let is_free = |vertex: u32| joined.is_null() || mem::load_readonly(joined.add(vertex as usize)) == NONE;
        let (mut neighbours, mut free) = (0, 0);
        let (mut entry, end) = ends(graph, row);
        entry += lane.min(end - entry);
        while entry < end {
            let column = mem::load_readonly(graph.col_indices.add(entry as usize));
            if column != row {
                neighbours += 1;
                free += u32::from(is_free(column));
            }
            entry += LANES.min(end - entry);
        }
        butterfly::<LANES>(mask, |partner| {
            neighbours += partner.value(neighbours);
            free += partner.value(free);
        });
        if lane == 0 {
            let may = if free >= least(rule, neighbours) { UNDECIDED } else { OUT };
            mem::store(states.add(row as usize), if is_free(row) { may } else { GONE });
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn nearest<const LANES: u32>(args: NearestArgs) {
    let NearestArgs { graph, round, undecided, states, nearest } = args;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(graph.rows) {
        return;
    }
    let (mask, row) = (group_mask::<LANES>(), row as usize);
    // SAFETY: row < rows, whose lanes are all here: they learn its number from the first, the only one that accesses it.
    unsafe {
        if mem::load_readonly(undecided.add(round as usize)) == 0 {
            return;
        }
        let is_first = thread::thread_idx_x().is_multiple_of(LANES);
        if round > 0 {
            let before = if is_first { mem::load(nearest.add(row)) } else { 0 };
            let before = warp::warp_shuffle_idx(mask, before, 0, LANES).0;
            if before == 0 || before == ROOT {
                return;
            }
        }
        let of = |vertex: u32| number(vertex, mem::load_readonly(states.add(vertex as usize)), round);
        let is_gone = mem::load_readonly(states.add(row)) == GONE;
        let greatest = if is_gone { 0 } else { greatest_near::<LANES>(graph, row as u32, of) };
        if is_first {
            mem::store(nearest.add(row), greatest);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn decide<const LANES: u32>(args: DecideArgs) {
    const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;
    let of_warps = cuda_std::shared_array![u32; WARPS as usize];
    let row = group_index::<BLOCK_SIZE>(LANES);
    // SAFETY: all threads of the grid see the same word, which nothing writes; so all of a block are at the barrier.
    unsafe {
        if mem::load(args.undecided.add(args.round as usize)) == 0 {
            return;
        }
        let is_left = row < u64::from(args.graph.rows) && is_undecided::<LANES>(&args, row as u32);
        let is_left = warp::warp_vote_any(u32::MAX, is_left);
        if warp::lane_id() == 0 {
            of_warps.store(thread::thread_idx_x() / WARP_SIZE, is_left.into());
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let (mut warp, mut left) = (0, 0);
            while warp < WARPS {
                left |= of_warps.load(warp);
                warp += 1;
            }
            // A count by thread would have all blocks wait for one word.
            if left != 0 {
                atomic_fetch_add_u32_device(args.undecided.add(args.round as usize + 1), Relaxed, 1);
            }
        }
    }
}

/// Decides a vertex. Returns in the first lane of its group whether it is still undecided, in others `false`.
///
/// # Safety
/// The rules at the head of this module; the row exists, and the lanes of its group are all here.
#[inline(always)]
unsafe fn is_undecided<const LANES: u32>(args: &DecideArgs, row: u32) -> bool {
    let DecideArgs { graph, round, nearest, states, .. } = *args;
    let is_first = thread::thread_idx_x().is_multiple_of(LANES);
    // SAFETY: row < rows; its lanes learn its state from the first, the only one that accesses it.
    unsafe {
        let own = if is_first { mem::load(states.add(row as usize)) } else { OUT };
        if warp::warp_shuffle_idx(group_mask::<LANES>(), own, 0, LANES).0 != UNDECIDED {
            return false;
        }
        let greatest = greatest_near::<LANES>(graph, row, |vertex| mem::load_readonly(nearest.add(vertex as usize)));
        let is_root = greatest == number(row, UNDECIDED, round);
        if is_first && (is_root || greatest == ROOT) {
            mem::store(states.add(row as usize), if is_root { ROOT } else { OUT });
        }
        is_first && !is_root && greatest != ROOT
    }
}

/// The greatest of what `of` says of a vertex and its neighbours, in all lanes.
///
/// # Safety
/// The rules at the head of this module; the lanes of the row's group are all here.
#[inline(always)]
unsafe fn greatest_near<const LANES: u32>(graph: Graph, row: u32, of: impl Fn(u32) -> u32) -> u32 {
    let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
    let mut greatest = of(row);
    // SAFETY: row < rows, and entries between offsets exist.
    unsafe {
        let (mut entry, end) = ends(graph, row);
        entry += lane.min(end - entry);
        while entry < end {
            greatest = greatest.max(of(mem::load_readonly(graph.col_indices.add(entry as usize))));
            entry += LANES.min(end - entry);
        }
        butterfly::<LANES>(mask, |partner| greatest = greatest.max(partner.value(greatest)));
    }
    greatest
}

/// Where the entries of a row begin and end.
///
/// # Safety
/// The rules at the head of this module; the row exists.
#[inline(always)]
unsafe fn ends(graph: Graph, row: u32) -> (u32, u32) {
    // SAFETY: row < rows.
    unsafe {
        let begin = mem::load_readonly(graph.row_offsets.add(row as usize));
        (begin, mem::load_readonly(graph.row_offsets.add(row as usize + 1)))
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn roots(args: RootsArgs) {
    let row = group_index::<BLOCK_SIZE>(1);
    if row < u64::from(args.rows) {
        // SAFETY: row < rows.
        unsafe {
            let state = mem::load_readonly(args.states.add(row as usize));
            mem::store(args.flags.add(row as usize), u32::from(state == ROOT));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn join<const LANES: u32>(args: JoinArgs) {
    let JoinArgs { graph, first, numbers, joined, aggregates } = args;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(graph.rows) {
        return;
    }
    // SAFETY: row < rows, whose lanes are all here; vertices have a number each, and there is one more.
    unsafe {
        // The complement of the new aggregate of a root, of others 0: that of NONE.
        let of = |vertex: u32| {
            let number = mem::load_readonly(numbers.add(vertex as usize));
            let is_root = mem::load_readonly(numbers.add(vertex as usize + 1)) != number;
            !(if is_root { first + number } else { NONE })
        };
        let mut found = if joined.is_null() { NONE } else { mem::load_readonly(joined.add(row as usize)) };
        if found == NONE {
            let own = of(row as u32);
            found = !(if own == !NONE { greatest_near::<LANES>(graph, row as u32, of) } else { own });
        }
        if thread::thread_idx_x().is_multiple_of(LANES) {
            mem::store(aggregates.add(row as usize), found);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn rest<T: Scalar, const LANES: u32>(args: RestArgs<T>) {
    let RestArgs { graph, values, joined, aggregates, placed } = args;
    let row = group_index::<BLOCK_SIZE>(LANES);
    if row >= u64::from(graph.rows) {
        return;
    }
    let (mask, lane) = (group_mask::<LANES>(), thread::thread_idx_x() % LANES);
    // SAFETY: row < rows, whose lanes are all here; entries between offsets exist.
    unsafe {
        let mut found = mem::load_readonly(joined.add(row as usize));
        if found == NONE {
            let (begin, end) = ends(graph, row as u32);
            let of = |entry: u32| {
                let column = mem::load_readonly(graph.col_indices.add(entry as usize));
                mem::load_readonly(joined.add(column as usize))
            };
            let magnitude = |entry: u32| {
                let value = mem::load_readonly(values.add(entry as usize)).widen();
                if value < 0.0 { -value } else { value }
            };
            let mut best = (-1.0, NONE);
            let mut entry = begin + lane.min(end - begin);
            while entry < end {
                let aggregate = of(entry);
                if aggregate != NONE {
                    let mut sum = magnitude(entry);
                    if end - begin <= ADDED_UP {
                        sum = 0.0;
                        let mut other = begin;
                        while other < end {
                            if of(other) == aggregate {
                                sum += magnitude(other);
                            }
                            other += 1;
                        }
                    }
                    best = better(best, (sum, aggregate));
                }
                entry += LANES.min(end - entry);
            }
            butterfly::<LANES>(mask, |partner| best = better(best, (partner.value(best.0), partner.value(best.1))));
            found = best.1;
        }
        if lane == 0 {
            mem::store(aggregates.add(row as usize), found);
            mem::store(placed.add(row as usize), u32::from(found != NONE));
        }
    }
}

/// In longer rows the largest entry decides, not the sum of those to one aggregate.
pub const ADDED_UP: u32 = 64;

/// The aggregate with the greater sum, of equal ones the one with the lesser number.
#[inline(always)]
#[must_use]
pub fn better(a: (f64, u32), b: (f64, u32)) -> (f64, u32) {
    if b.0 > a.0 || b.0 == a.0 && b.1 < a.1 { b } else { a }
}

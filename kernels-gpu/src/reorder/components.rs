//! The connected components of an undirected graph: each vertex gets the least number of a vertex that it is connected with.
//!
//! # The mathematics
//! `labels[v] = v` at first. A label is a vertex of the same component, never a greater one: following labels ends at a root, which has its own.
//! `hook` sees to it that the two ends of each entry have one root, by giving the greater root the lesser as its label; `flatten` replaces each
//! label by the root. As a component keeps its least vertex as root, the result does not depend on the order of the steps.
//! (J. Jaiganesh and M. Burtscher, "A high-performance connected components implementation for GPUs", HPDC 2018.)
//!
//! # When to use it
//! `hook`, then `flatten`, for a symmetric pattern or any that has each edge at least once: then all components are weak ones.
//!
//! # Threads
//! Hook: the entries are shared among warps, a lane each. Flatten: a thread per vertex.
//!
//! # Bytes moved
//! Hook: offsets, columns, and labels of both ends, a few times. Flatten: labels, a few times.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. `labels` overlaps nothing else, and nothing else accesses it
//!    during the launch.
//! 2. `row_offsets` starts at 0, never falls, and ends at `entries`; columns are below `n`. Labels are at most their vertices.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`hook_grid_size`] or [`flatten_grid_size`] blocks.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_compare_and_swap_u32_device, atomic_load_u32_device, atomic_store_u32_device},
    mem,
};

use crate::{
    args::args,
    csr_rows::{blocks_of_entries, for_entries_of_warp},
    family::family,
    grid::thread_index,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

args! {
    /// The arguments of `hook`.
    pub struct HookArgs {
        /// Vertices.
        value n: u32,
        /// Entries.
        value entries: u32,
        /// `n + 1` offsets.
        read row_offsets: u32 [n as usize + 1],
        /// Column indices.
        read col_indices: u32 [entries as usize],
        /// A label for each vertex.
        write labels: u32 [n as usize],
    }
}

args! {
    /// The arguments of `flatten`.
    pub struct FlattenArgs {
        /// Vertices.
        value n: u32,
        /// A label for each vertex.
        write labels: u32 [n as usize],
    }
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// With [`HookArgs`].
    Hook,
    /// With [`FlattenArgs`].
    Flatten,
}

family! {
    "components", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What it does.
        operation: Operation,
    }

    components_hook(Operation::Hook): HookArgs => hook;
    components_flatten(Operation::Flatten): FlattenArgs => flatten;
}

/// Blocks of `hook`.
#[must_use]
pub const fn hook_grid_size(entries: u32) -> u32 {
    blocks_of_entries(entries, BLOCK_SIZE)
}

/// Blocks of `flatten`.
#[must_use]
pub const fn flatten_grid_size(n: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn hook(args: HookArgs) {
    // SAFETY: a valid pattern, and all lanes are here; rows and columns have labels.
    unsafe {
        for_entries_of_warp::<BLOCK_SIZE>(args.row_offsets, args.n, args.entries, |entry, row| {
            let col = mem::load_streaming(args.col_indices.add(entry as usize));
            if row != col {
                unite(args.labels, row, col);
            }
        });
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn flatten(args: FlattenArgs) {
    let vertex = thread_index::<BLOCK_SIZE>();
    if vertex < u64::from(args.n) {
        let vertex = vertex as u32;
        // SAFETY: vertex < n. Whoever follows the old label or the new one comes to the same root.
        unsafe { atomic_store_u32_device(args.labels.add(vertex as usize), Relaxed, root(args.labels, vertex)) }
    }
}

/// Gives two vertices one root.
///
/// # Safety
/// The rules at the head of this module; the vertices are below `n`.
#[inline(always)]
unsafe fn unite(labels: *mut u32, a: u32, b: u32) {
    // SAFETY: the caller's promise; labels are vertices.
    unsafe {
        let (mut a, mut b) = (root(labels, a), root(labels, b));
        while a != b {
            let (least, greatest) = (a.min(b), a.max(b));
            let found = atomic_compare_and_swap_u32_device(labels.add(greatest as usize), Relaxed, greatest, least);
            if found == greatest {
                return;
            }
            // No root any more.
            (a, b) = (least, root(labels, found));
        }
    }
}

/// The root that following the labels ends at. Shortens the way by half (R. E. Tarjan and J. van Leeuwen, 1984): only vertices that are no
/// roots get another label.
///
/// # Safety
/// The rules at the head of this module; the vertex is below `n`.
#[inline(always)]
unsafe fn root(labels: *mut u32, mut vertex: u32) -> u32 {
    // SAFETY: the caller's promise; labels are vertices.
    unsafe {
        let mut label = atomic_load_u32_device(labels.add(vertex as usize), Relaxed);
        while label != vertex {
            let next = atomic_load_u32_device(labels.add(label as usize), Relaxed);
            if next == label {
                return label;
            }
            atomic_store_u32_device(labels.add(vertex as usize), Relaxed, next);
            vertex = next;
            label = atomic_load_u32_device(labels.add(vertex as usize), Relaxed);
        }
        vertex
    }
}

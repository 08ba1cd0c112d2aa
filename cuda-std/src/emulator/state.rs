//! A launch in one schedule, as its blocks see it, and how to undo its writes.

use core::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    block,
    history::Histories,
    memory::{Allocation, Saved},
    release::SequentialFences,
    shadow::Now,
};

/// A number for a stretch of time without grid barriers, in one launch.
pub(super) fn next_epoch() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A launch in one schedule, as its blocks see it.
pub(super) struct LaunchState {
    pub(super) kernel: *const dyn Fn(),
    pub(super) name: String,
    pub(super) grid_dim: [u32; 3],
    pub(super) block_dim: [u32; 3],
    pub(super) blocks: u32,
    pub(super) dynamic_shared_bytes: u32,
    pub(super) seed: u64,
    pub(super) id: u32,
    pub(super) epoch: AtomicU32,
    pub(super) cooperative: bool,
    pub(super) contended: bool,
    /// The global memory, by address.
    pub(super) allocations: Vec<Arc<Allocation>>,
    /// How to undo the launch's writes, if there will be another.
    pub(super) undo: Option<Mutex<Undo>>,
    /// What atomic loads may read, and acquire.
    pub(super) histories: Mutex<Histories>,
    pub(super) sequential_fences: SequentialFences,
    /// Whether any thread has used a fence, or an atomic that is one.
    pub(super) has_fences: AtomicBool,
}

// SAFETY: the kernel is called from several CPU threads only if the caller has vouched for it (`Launch::parallel`).
unsafe impl Send for LaunchState {}
// SAFETY: as above.
unsafe impl Sync for LaunchState {}

impl LaunchState {
    pub(super) fn threads_per_block(&self) -> u32 {
        self.block_dim.iter().product()
    }

    pub(super) fn now(&self, allocation: &Allocation) -> Now {
        Now {
            epoch: self.epoch.load(Ordering::Relaxed),
            launch: self.id,
            initialised: allocation.initialised,
            outlives: true,
            contended: self.contended,
        }
    }

    /// Keeps what is needed to undo writes to the allocation, at the first of them.
    #[inline]
    pub(super) fn before_write(&self, allocation: &Allocation) {
        if let Some(undo) = &self.undo {
            undo.lock().unwrap_or_else(PoisonError::into_inner).note(self, allocation);
        }
    }

    /// The order of the blocks in the schedule: the number of each by its position.
    pub(super) fn block_order(&self) -> impl Fn(u32) -> u32 + Sync + use<> {
        let order = (self.seed != 0).then(|| {
            let mut order: Vec<u32> = (0..self.blocks).collect();
            let random = Cell::new(self.seed);
            for last in (1..order.len()).rev() {
                order.swap(last, block::next_random(&random) as usize % (last + 1));
            }
            order
        });
        move |position| order.as_ref().map_or(position, |order| order[position as usize])
    }
}

/// Contents from before the launch.
#[derive(Default)]
pub(super) struct Undo(HashMap<usize, (Arc<Allocation>, Saved)>);

impl Undo {
    fn note(&mut self, launch: &LaunchState, allocation: &Allocation) {
        if let Entry::Vacant(entry) = self.0.entry(allocation.start) {
            let same = |other: &&Arc<Allocation>| core::ptr::eq(&raw const ***other, allocation);
            if let Some(shared) = launch.allocations.iter().find(same) {
                entry.insert((Arc::clone(shared), allocation.save()));
            }
        }
    }

    pub(super) fn restore(self) {
        self.0.values().for_each(|(allocation, saved)| allocation.restore(saved));
    }
}

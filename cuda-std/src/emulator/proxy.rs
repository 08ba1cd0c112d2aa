//! Accesses that no thread makes itself: those of bulk copies and products, which go through the asynchronous proxy.
//!
//! They are recorded as if further blocks made them, one for each kind of them and each block of the grid, with threads and clocks of
//! their own. So what a thread knows of their end travels with barriers and releases like all that it knows. In the same way it knows which accesses of threads
//! a proxy fence has made visible to the asynchronous proxy.

use super::{
    report::FindingKind,
    shadow::{Access, CLOCK_LIMIT},
    thread::{Place, Thread},
};

/// What stands for the accesses of a block that are not its threads' own, or for what its threads have fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bulk copies to shared memory. A thread for each barrier, which counts its phases.
    Load = 1,
    /// The reads of products. A thread for each warpgroup, which counts its regions.
    Product,
    /// The reads of bulk copies to global memory. Each thread counts its groups.
    ReadOfStore,
    /// The writes of bulk copies to global memory, counted likewise.
    Store,
    /// No accesses: times before which those of the block's threads are visible to the asynchronous proxy.
    Fenced,
}

/// Blocks of the grid have lower numbers, if they use this.
const BLOCKS: u32 = 1 << KIND_SHIFT;
const KIND_SHIFT: u32 = 29;

impl Kind {
    /// The number of the block that stands for this of a block of the grid.
    pub(super) fn of_block(self, block: u32) -> u32 {
        (self as u32) << KIND_SHIFT | block
    }

    /// What the block of that number stands for, if it is not of the grid.
    pub(super) fn of(block: u32) -> Option<Self> {
        const KINDS: [Kind; 5] = [Kind::Load, Kind::Product, Kind::ReadOfStore, Kind::Store, Kind::Fenced];
        (block >> KIND_SHIFT).checked_sub(1).and_then(|kind| KINDS.get(kind as usize).copied())
    }

    /// The block of the grid that this belongs to.
    pub(super) fn block_of(block: u32) -> u32 {
        if Self::of(block).is_some() { block % BLOCKS } else { block }
    }
}

/// Who makes an asynchronous access, and when by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) kind: Kind,
    pub(super) thread: u32,
    pub(super) clock: u32,
}

impl Thread {
    /// The actor of that kind in this thread's block, at the time that follows `past` others of its.
    pub(super) fn actor(&self, kind: Kind, thread: u32, past: u32, place: Place) -> Actor {
        let clock = past + 1;
        if self.block().linear.get() >= BLOCKS || thread >= 1024 || clock >= CLOCK_LIMIT {
            let message = "more than 2^29 blocks, or in one block 1024 barriers or 2^21 phases, groups or regions";
            self.fail(FindingKind::InvalidArgument, place, message, None, None);
        }
        Actor { kind, thread, clock }
    }

    /// Learns that an actor's accesses of the first `past` times have ended.
    pub(super) fn learn_end(&self, kind: Kind, thread: u32, past: u32) {
        let block = kind.of_block(self.block().linear.get());
        self.knowledge.borrow_mut().learn_of_thread(block, thread, past + 1);
    }

    /// Whether an access of a thread is known to be visible to the asynchronous proxy.
    pub(super) fn knows_fenced(&self, access: Access) -> bool {
        let fenced = access.of_block(Kind::Fenced.of_block(access.block));
        self.knowledge.borrow().known.covers(fenced)
    }

    /// Makes all that has happened before visible to the asynchronous proxy.
    pub(super) fn fence_proxy(&self, place: Place) {
        let present = self.present(place);
        self.knowledge.borrow_mut().learn_fenced(&present);
    }
}

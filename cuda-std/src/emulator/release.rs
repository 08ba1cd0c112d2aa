//! Order through atomics: what a thread did before a release happened before what another does after the acquire
//! that sees it, as in the PTX memory model. A fence before a relaxed atomic releases, one after it acquires.

use core::sync::atomic::Ordering;
use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::{Mutex, PoisonError},
};

use super::{
    shadow::{Access, Touch},
    thread::{Place, Thread},
};
use crate::atomic::Scope;

/// Of one block, the times before which everything is known to have happened: for whole warps, and for threads.
#[derive(Clone, Default)]
struct Seen {
    warps: [u32; 32],
    threads: BTreeMap<u32, u32>,
}

/// What is known of the threads of other warps and blocks, beyond what barriers tell.
#[derive(Clone, Default)]
pub(super) struct Known(BTreeMap<u32, Seen>);

impl Known {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn covers(&self, past: Access) -> bool {
        let Some(seen) = self.0.get(&past.block) else {
            return false;
        };
        let (thread, clock) = (past.thread(), past.clock());
        clock < seen.warps[thread as usize / 32] || seen.threads.get(&thread).is_some_and(|&time| clock < time)
    }

    /// Adds what `other` knows; if `block` is given, only what it knows of that block.
    fn learn(&mut self, other: &Self, block: Option<u32>) {
        for (&number, theirs) in other.0.iter().filter(|&(&number, _)| block.is_none_or(|block| block == number)) {
            let mine = self.0.entry(number).or_default();
            mine.warps.iter_mut().zip(&theirs.warps).for_each(|(mine, &theirs)| *mine = theirs.max(*mine));
            for (&thread, &time) in &theirs.threads {
                let mine = mine.threads.entry(thread).or_default();
                *mine = time.max(*mine);
            }
        }
    }
}

/// What has been released through each address: for the whole grid, or for one block only.
#[derive(Default)]
pub(super) struct Releases(Mutex<HashMap<(usize, Option<u32>), Known>>);

/// A thread's own part in releases and acquires.
#[derive(Default)]
pub(super) struct Knowledge {
    pub(super) known: Rc<Known>,
    /// What its relaxed atomics saw: known after the next fence.
    pending: Known,
    /// What its relaxed atomics release, since its last fence; and whether to other blocks too.
    fenced: Option<(Known, bool)>,
}

/// Whether an operation of that scope orders between blocks.
fn is_wide(scope: Scope) -> bool {
    scope != Scope::Block
}

impl Thread {
    /// Everything that has happened before this thread's present. Its own time goes on, so that what it does next is
    /// no part of that.
    fn release_now(&self, place: Place) -> Known {
        let mut known = Known::clone(&self.knowledge.borrow().known);
        let mine = known.0.entry(self.block().linear.get()).or_default();
        let warp = self.warp();
        mine.warps.iter_mut().zip(&warp.seen).for_each(|(mine, seen)| *mine = seen.get().max(*mine));
        for (lane, seen) in (0..).zip(&self.lanes_seen).filter(|(_, seen)| seen.get() > 0) {
            mine.threads.insert(self.linear - self.lane + lane, seen.get());
        }
        self.advance_clock(self.clock.get() + 1, place);
        mine.threads.insert(self.linear, self.clock.get());
        known
    }

    pub(super) fn fence(&self, ordering: Ordering, scope: Scope, place: Place) {
        if ordering == Ordering::Relaxed {
            return;
        }
        let mut knowledge = self.knowledge.borrow_mut();
        let pending = core::mem::take(&mut knowledge.pending);
        let block = self.block().linear.get();
        Rc::make_mut(&mut knowledge.known).learn(&pending, (!is_wide(scope)).then_some(block));
        drop(knowledge);
        let released = self.release_now(place);
        self.knowledge.borrow_mut().fenced = Some((released, is_wide(scope)));
    }

    /// Acquires and releases through an atomic at `address`.
    pub(super) fn synchronise(&self, address: usize, touch: Touch, ordering: Ordering, scope: Scope, place: Place) {
        let acquires = matches!(ordering, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst);
        let releases = matches!(ordering, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst);
        let block = self.block().linear.get();
        let mut all = self.block().launch.releases.0.lock().unwrap_or_else(PoisonError::into_inner);
        if touch != Touch::AtomicStore {
            let mut seen = Known::default();
            if let Some(released) = all.get(&(address, None)) {
                seen.learn(released, (!is_wide(scope)).then_some(block));
            }
            if let Some(released) = all.get(&(address, Some(block))) {
                seen.learn(released, Some(block));
            }
            let knowledge = &mut *self.knowledge.borrow_mut();
            if seen.is_empty() {
            } else if acquires {
                Rc::make_mut(&mut knowledge.known).learn(&seen, None);
            } else {
                knowledge.pending.learn(&seen, None);
            }
        } else {
            // What was released before is not visible to those who read this value.
            all.remove(&(address, None));
            all.remove(&(address, Some(block)));
        }
        let released = if releases {
            Some((self.release_now(place), is_wide(scope)))
        } else {
            self.knowledge.borrow().fenced.clone().map(|(known, wide)| (known, wide && is_wide(scope)))
        };
        if let Some((known, wide)) = released {
            all.entry((address, (!wide).then_some(block))).or_default().learn(&known, None);
        }
    }
}

/// After a barrier, all of its threads know what one of them knew.
pub(super) fn share<'a>(threads: impl Iterator<Item = &'a Thread> + Clone) {
    let mut shared: Option<Rc<Known>> = None;
    for thread in threads.clone() {
        let known = &thread.knowledge.borrow().known;
        match &mut shared {
            _ if known.is_empty() => {}
            None => shared = Some(Rc::clone(known)),
            Some(shared) if Rc::ptr_eq(shared, known) => {}
            Some(shared) => Rc::make_mut(shared).learn(known, None),
        }
    }
    if let Some(shared) = shared {
        threads.for_each(|thread| thread.knowledge.borrow_mut().known = Rc::clone(&shared));
    }
}

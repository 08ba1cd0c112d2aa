//! Order through atomics: what a thread did before a release happened before what another does after the acquire
//! that sees it, as in the PTX memory model. A fence before a relaxed atomic releases, one after it acquires.

use core::sync::atomic::Ordering;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    proxy::Kind,
    shadow::Access,
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

    /// Adds what `other` knows.
    fn learn(&mut self, other: &Self) {
        other.0.iter().for_each(|(&block, theirs)| self.0.entry(block).or_default().learn(theirs));
    }
}

impl Seen {
    fn learn(&mut self, theirs: &Self) {
        self.warps.iter_mut().zip(&theirs.warps).for_each(|(mine, &theirs)| *mine = theirs.max(*mine));
        theirs.threads.iter().for_each(|(&thread, &time)| self.learn_of_thread(thread, time));
    }

    fn learn_of_thread(&mut self, thread: u32, time: u32) {
        let mine = self.threads.entry(thread).or_default();
        *mine = time.max(*mine);
    }
}

/// What some block has released, to its own threads only or to others too.
#[derive(Clone)]
struct Part {
    block: u32,
    narrow: bool,
    known: Arc<Known>,
}

/// What a store makes known to those who read it: its own release, and those that read-modify-writes have carried on.
#[derive(Clone, Default)]
pub(super) struct Released(Vec<Part>);

impl Released {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, part: &Part) {
        match self.0.iter_mut().find(|mine| (mine.block, mine.narrow) == (part.block, part.narrow)) {
            None => self.0.push(part.clone()),
            Some(mine) if Arc::ptr_eq(&mine.known, &part.known) => {}
            Some(mine) => Arc::make_mut(&mut mine.known).learn(&part.known),
        }
    }

    /// The parts that an operation of `block` sees. Between blocks, both sides must have a wider scope than the block.
    fn seen_by(&self, block: u32, scope: Scope) -> impl Iterator<Item = &Part> {
        self.0.iter().filter(move |part| part.block == block || !part.narrow && !is_narrow(scope))
    }
}

/// A thread's own part in releases and acquires.
pub(super) struct Knowledge {
    pub(super) known: Arc<Known>,
    /// What its relaxed atomics saw: known after the next fence.
    pending: Released,
    /// What its relaxed atomics release, since its last fence.
    fenced: Option<Part>,
}

impl Knowledge {
    /// That of a new thread. All threads of a block share `nothing` until they learn something, so that it is allocated once.
    pub(super) fn new(nothing: &Arc<Known>) -> Self {
        Self { known: Arc::clone(nothing), pending: Released::default(), fenced: None }
    }

    /// Of a thread that has not begun.
    pub(super) fn forget(&mut self) {
        if !self.known.is_empty() {
            self.known = Arc::default();
        }
        self.pending.0.clear();
        self.fenced = None;
    }

    /// Learns that what the thread did before `time` has happened.
    pub(super) fn learn_of_thread(&mut self, block: u32, thread: u32, time: u32) {
        Arc::make_mut(&mut self.known).0.entry(block).or_default().learn_of_thread(thread, time);
    }

    /// Learns that the accesses which are known in `present` are visible to the asynchronous proxy.
    pub(super) fn learn_fenced(&mut self, present: &Known) {
        let known = Arc::make_mut(&mut self.known);
        for (&block, seen) in present.0.iter().filter(|&(&block, _)| Kind::of(block).is_none()) {
            known.0.entry(Kind::Fenced.of_block(block)).or_default().learn(seen);
        }
    }
}

/// What fences with `SeqCst` have released: each of them acquires that of those before it.
#[derive(Default)]
pub(super) struct SequentialFences(Mutex<Released>);

/// Whether an operation of that scope orders within its block only.
fn is_narrow(scope: Scope) -> bool {
    scope == Scope::Block
}

impl Thread {
    fn release_now(&self, scope: Scope, place: Place) -> Part {
        let block = self.block().linear.get();
        Part { block, narrow: is_narrow(scope), known: Arc::new(self.present(place)) }
    }

    /// Everything that has happened before this thread's present. Its own time goes on, so that what it does next is
    /// no part of that.
    pub(super) fn present(&self, place: Place) -> Known {
        let block = self.block().linear.get();
        let mut known = Known::clone(&self.knowledge.borrow().known);
        let mine = known.0.entry(block).or_default();
        let warp = self.warp();
        mine.warps.iter_mut().zip(&warp.seen).for_each(|(mine, seen)| *mine = seen.get().max(*mine));
        for (lane, seen) in (0..).zip(&self.lanes_seen).filter(|(_, seen)| seen.get() > 0) {
            mine.threads.insert(self.linear - self.lane + lane, seen.get());
        }
        self.advance_clock(self.clock.get() + 1, place);
        mine.threads.insert(self.linear, self.clock.get());
        known
    }

    /// Makes known what others have released.
    fn learn(&self, released: &Released, scope: Scope) {
        let knowledge = &mut *self.knowledge.borrow_mut();
        for part in released.seen_by(self.block().linear.get(), scope) {
            Arc::make_mut(&mut knowledge.known).learn(&part.known);
        }
    }

    pub(super) fn fence(&self, ordering: Ordering, scope: Scope, place: Place) {
        if ordering == Ordering::Relaxed {
            return;
        }
        let pending = core::mem::take(&mut self.knowledge.borrow_mut().pending);
        self.learn(&pending, scope);
        let released = if ordering == Ordering::SeqCst {
            let fences = &self.block().launch.sequential_fences.0;
            let mut earlier = fences.lock().unwrap_or_else(PoisonError::into_inner);
            self.learn(&earlier, scope);
            let released = self.release_now(scope, place);
            earlier.add(&released);
            released
        } else {
            self.release_now(scope, place)
        };
        self.knowledge.borrow_mut().fenced = Some(released);
    }

    /// Acquires through an atomic that reads what a store has `released`.
    pub(super) fn acquire(&self, released: &Released, ordering: Ordering, scope: Scope) {
        if released.is_empty() {
        } else if matches!(ordering, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst) {
            self.learn(released, scope);
        } else {
            let pending = &mut self.knowledge.borrow_mut().pending;
            released.seen_by(self.block().linear.get(), scope).for_each(|part| pending.add(part));
        }
    }

    /// Adds to `released` what an atomic of this thread releases that stores.
    pub(super) fn release(&self, released: &mut Released, ordering: Ordering, scope: Scope, place: Place) {
        if matches!(ordering, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst) {
            released.add(&self.release_now(scope, place));
        } else if let Some(fenced) = &self.knowledge.borrow().fenced {
            released.add(&Part { narrow: fenced.narrow || is_narrow(scope), ..fenced.clone() });
        }
    }
}

/// After a barrier, all of its threads know what one of them knew.
pub(super) fn share<'a>(threads: impl Iterator<Item = &'a Thread> + Clone) {
    let mut shared: Option<Arc<Known>> = None;
    for thread in threads.clone() {
        let known = &thread.knowledge.borrow().known;
        match &mut shared {
            _ if known.is_empty() => {}
            None => shared = Some(Arc::clone(known)),
            Some(shared) if Arc::ptr_eq(shared, known) => {}
            Some(shared) => Arc::make_mut(shared).learn(known),
        }
    }
    if let Some(shared) = shared {
        threads.for_each(|thread| thread.knowledge.borrow_mut().known = Arc::clone(&shared));
    }
}

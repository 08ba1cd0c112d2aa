//! One GPU thread: where it stands, what it waits for, and how it ends.

use core::{
    cell::{Cell, RefCell},
    panic::Location,
    ptr,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use super::{
    block::{Block, unravel},
    copies::Copies,
    coroutine::Suspender,
    mma::Fragments,
    panics,
    release::{Knowledge, Known},
    report::{Finding, FindingKind, MemoryPlace, ThreadPlace},
    shadow::Access,
    tma::Stores,
    warp::Warp,
    warpgroup::Sums,
};

/// A source line of the kernel.
pub(super) type Place = &'static Location<'static>;

/// What a thread is doing.
#[derive(Clone, Copy)]
pub(super) enum State {
    NotStarted,
    Running,
    AtWarpOperation(Place),
    AtBarrier(Place),
    AtGridBarrier(Place),
    Spinning(Place),
    Exited,
}

impl State {
    pub(super) fn place(self) -> Option<Place> {
        match self {
            Self::NotStarted | Self::Running | Self::Exited => None,
            Self::AtWarpOperation(place)
            | Self::AtBarrier(place)
            | Self::AtGridBarrier(place)
            | Self::Spinning(place) => Some(place),
        }
    }
}

/// One GPU thread. What each wait and each warp operation touches comes first, in one cache line.
#[repr(C, align(64))]
pub(super) struct Thread {
    block: Cell<*const Block>,
    suspender: Cell<*const Suspender>,
    /// What it brings to a warp operation, and what it gets from it: words, or parts of matrices.
    pub(super) input: Cell<u64>,
    pub(super) output: Cell<(u64, bool)>,
    pub(super) operand: Cell<u32>,
    pub(super) width: Cell<u32>,
    /// Its number in the block, first axis fastest.
    pub(super) linear: u32,
    pub(super) lane: u32,
    /// Its own time: advances whenever it comes out of a barrier.
    pub(super) clock: Cell<u32>,
    pub(super) index: [u32; 3],
    pub(super) state: Cell<State>,
    /// What it knows through atomics.
    pub(super) knowledge: RefCell<Knowledge>,
    /// For each lane of its warp, the time before which everything is known to have happened.
    pub(super) lanes_seen: [Cell<u32>; 32],
    pub(super) fragments: Cell<Fragments>,
    /// Where it last read an older value of an atomic than the newest.
    pub(super) older_value: Cell<Option<Place>>,
    /// What it copies to shared memory meanwhile.
    pub(super) copies: RefCell<Copies>,
    /// What it copies to global memory meanwhile.
    pub(super) stores: Cell<Stores>,
    /// What it brings to the products of its warpgroup, and what it gets from them.
    pub(super) sums: Cell<Sums>,
}

/// What unwinds a thread of a launch that has its finding.
struct Stop;

#[cold]
fn stop() -> ! {
    resume_unwind(Box::new(Stop))
}

thread_local! {
    /// The GPU thread that runs on this CPU thread.
    pub(super) static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// Calls `f` with the running GPU thread.
///
/// # Panics
/// Outside a launch.
#[track_caller]
#[inline]
pub(super) fn with_current<R>(f: impl FnOnce(&Thread) -> R) -> R {
    let current = CURRENT.get();
    assert!(!current.is_null(), "this function works in a kernel only: on a GPU, or in a launch of the emulator");
    // SAFETY: set only while its block, which owns the thread, is running.
    f(unsafe { &*current })
}

/// Whether the code that calls is a kernel under the emulator.
pub(super) fn in_kernel() -> bool {
    !CURRENT.get().is_null()
}

/// A worker's job: the kernel, as the thread that is current when the worker resumes.
pub(super) fn run_current_thread(suspender: &Suspender) {
    with_current(|thread| {
        thread.suspender.set(suspender);
        thread.state.set(State::Running);
        let block = thread.block();
        // SAFETY: the kernel outlives the launch. Unwind safety: after a panic the launch only reports.
        let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*block.launch.kernel)() }));
        thread.state.set(State::Exited);
        match result {
            Ok(()) => thread.exit(),
            Err(payload) if payload.is::<Stop>() => {}
            Err(payload) => {
                let (message, place) = panics::describe(&*payload);
                let mut finding = thread.finding(FindingKind::Panic, message);
                finding.place.location = place;
                block.report(finding);
            }
        }
    });
}

impl Thread {
    pub(super) fn new(linear: u32, dim: [u32; 3], nothing: &Arc<Known>) -> Self {
        Self {
            linear,
            index: unravel(linear, dim),
            lane: linear % 32,
            state: Cell::new(State::NotStarted),
            clock: Cell::new(1),
            lanes_seen: Default::default(),
            input: Cell::new(0),
            operand: Cell::new(0),
            width: Cell::new(0),
            output: Cell::new((0, false)),
            fragments: Cell::default(),
            knowledge: RefCell::new(Knowledge::new(nothing)),
            older_value: Cell::new(None),
            copies: RefCell::default(),
            stores: Cell::default(),
            sums: Cell::new([0.0; 64]),
            block: Cell::new(ptr::null()),
            suspender: Cell::new(ptr::null()),
        }
    }

    /// Makes this a thread of the block as it is now, about to begin.
    pub(super) fn reset(&self, block: &Block) {
        self.block.set(block);
        self.state.set(State::NotStarted);
        self.clock.set(1);
        self.lanes_seen.iter().for_each(|seen| seen.set(0));
        self.knowledge.borrow_mut().forget();
        self.older_value.set(None);
        self.copies.take();
        self.stores.take();
    }

    #[inline]
    pub(super) fn block(&self) -> &Block {
        // SAFETY: set when the block starts; the block owns this thread.
        unsafe { &*self.block.get() }
    }

    pub(super) fn warp(&self) -> &Warp {
        &self.block().warps[self.linear as usize / 32]
    }

    /// Whether a past access surely happened before what this thread does now.
    #[inline]
    pub(super) fn comes_after(&self, past: Access) -> bool {
        let block = self.block();
        let (thread, clock) = (past.thread(), past.clock());
        let by_barriers = past.block == block.linear.get()
            && (thread == self.linear
                || clock < self.warp().seen[thread as usize / 32].get()
                || thread / 32 == self.linear / 32 && clock < self.lanes_seen[thread as usize % 32].get());
        by_barriers || self.knowledge.borrow().known.covers(past)
    }

    pub(super) fn place(&self, location: Option<Place>) -> ThreadPlace {
        ThreadPlace { block: self.block().index.get(), thread: self.index, location }
    }

    /// A finding about this thread, still without places.
    pub(super) fn finding(&self, kind: FindingKind, message: impl Into<String>) -> Finding {
        let launch = &self.block().launch;
        let mut message = message.into();
        if let Some(place) = self.older_value.get() {
            let read = format!("; before, it read an older value of an atomic at {}:{}", place.file(), place.line());
            message += &read;
        }
        Finding {
            kind,
            kernel: launch.name.clone(),
            place: self.place(None),
            memory: None,
            other: None,
            message,
            seed: launch.seed,
        }
    }

    /// Reports and ends this thread; the others end too.
    #[cold]
    pub(super) fn fail(
        &self,
        kind: FindingKind,
        location: Place,
        message: impl Into<String>,
        memory: Option<MemoryPlace>,
        other: Option<ThreadPlace>,
    ) -> ! {
        let place = self.place(Some(location));
        self.block().report(Finding { place, memory, other, ..self.finding(kind, message) });
        stop()
    }

    /// Lets other threads run until someone wakes this one.
    ///
    /// Inlined, like all between it and a kernel: a CPU guesses where a function returns to from the calls before, and on another stack each
    /// of these guesses is wrong.
    #[inline(always)]
    pub(super) fn wait(&self, state: State) {
        self.state.set(state);
        // SAFETY: the suspender lives as long as the worker that runs this thread.
        unsafe { (*self.suspender.get()).suspend(()) };
        self.state.set(State::Running);
        if self.block().stopping.get() {
            stop();
        }
    }

    /// Lets other threads run once, after an atomic that changed nothing: it may be waiting for them.
    #[inline(always)]
    pub(super) fn spin(&self, location: Place) {
        let block = self.block();
        block.idle_spins.set(block.idle_spins.get() + 1);
        block.wake(self.linear);
        self.wait(State::Spinning(location));
    }

    fn exit(&self) {
        let block = self.block();
        block.progress();
        if let Some(place) = self.unfinished_store() {
            let message =
                "this thread leaves the kernel before it has waited for the reads of its copy to global memory";
            let finding = self.finding(FindingKind::CopyUnderWay, message);
            block.report(Finding { place: self.place(Some(place)), ..finding });
        }
        block.live.set(block.live.get() - 1);
        self.warp().live.set(self.warp().live.get() & !(1 << self.lane));
        self.leave_warp();
        block.barriers_after_exit(self);
    }
}

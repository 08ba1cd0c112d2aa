//! One block of the grid: its threads, and the loop that runs them in turn.
//!
//! A thread runs until it has to wait: at a barrier, a warp operation, or an atomic that changed nothing. Then the
//! next ready one runs. Everything here belongs to one CPU thread, so plain cells suffice.

use core::{
    cell::{Cell, RefCell},
    panic::Location,
    ptr,
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use super::{
    barrier::Barrier,
    coroutine::{self, Suspender, Worker},
    launch::LaunchState,
    memory::Allocation,
    panics,
    release::Knowledge,
    report::{Finding, FindingKind, MemoryPlace, Stats, ThreadPlace},
    shadow::Access,
    shared::SharedMemory,
    warp::Warp,
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

/// One GPU thread.
pub(super) struct Thread {
    /// Its number in the block, first axis fastest.
    pub(super) linear: u32,
    pub(super) index: [u32; 3],
    pub(super) lane: u32,
    pub(super) state: Cell<State>,
    /// Its own time: advances whenever it comes out of a barrier.
    pub(super) clock: Cell<u32>,
    /// For each lane of its warp, the time before which everything is known to have happened.
    pub(super) lanes_seen: [Cell<u32>; 32],
    /// What it brings to a warp operation, and what it gets from it.
    pub(super) input: Cell<u64>,
    pub(super) operand: Cell<u32>,
    pub(super) width: Cell<u32>,
    pub(super) output: Cell<(u64, bool)>,
    /// What it knows through atomics.
    pub(super) knowledge: RefCell<Knowledge>,
    block: Cell<*const Block>,
    suspender: Cell<*const Suspender>,
}

/// A block, reused for one index after another.
pub(super) struct Block {
    pub(super) launch: Arc<LaunchState>,
    pub(super) index: Cell<[u32; 3]>,
    pub(super) linear: Cell<u32>,
    pub(super) threads: Vec<Thread>,
    pub(super) warps: Vec<Warp>,
    pub(super) barriers: [Barrier; 16],
    /// Threads that have not exited.
    pub(super) live: Cell<u32>,
    pub(super) at_grid_barrier: Cell<u32>,
    pub(super) shared: RefCell<SharedMemory>,
    pub(super) stats: RefCell<Stats>,
    /// The allocation that each source line touched last, by the line's hash.
    pub(super) recent: [Cell<*const Allocation>; 64],
    finding: RefCell<Option<Box<Finding>>>,
    stopping: Cell<bool>,
    ready: RefCell<VecDeque<u32>>,
    /// Spins since some thread last changed anything.
    pub(super) idle_spins: Cell<u64>,
    /// Whether anything has changed since someone last asked.
    pub(super) moved: Cell<bool>,
    random: Cell<u64>,
}

/// What unwinds a thread of a launch that has its finding.
struct Stop;

thread_local! {
    /// The GPU thread that runs on this CPU thread.
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// Calls `f` with the running GPU thread.
///
/// # Panics
/// Outside a launch.
#[track_caller]
#[inline]
pub(super) fn with_current<R>(f: impl FnOnce(&Thread) -> R) -> R {
    let current = CURRENT.get();
    assert!(
        !current.is_null(),
        "this function works in a kernel only: on a GPU, or in a launch of the emulator"
    );
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
    fn new(linear: u32, dim: [u32; 3]) -> Self {
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
            knowledge: RefCell::default(),
            block: Cell::new(ptr::null()),
            suspender: Cell::new(ptr::null()),
        }
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
        ThreadPlace {
            block: self.block().index.get(),
            thread: self.index,
            location,
        }
    }

    /// A finding about this thread, still without places.
    pub(super) fn finding(&self, kind: FindingKind, message: impl Into<String>) -> Finding {
        let launch = &self.block().launch;
        Finding {
            kind,
            kernel: launch.name.clone(),
            place: self.place(None),
            memory: None,
            other: None,
            message: message.into(),
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
        self.block().report(Finding {
            place,
            memory,
            other,
            ..self.finding(kind, message)
        });
        resume_unwind(Box::new(Stop))
    }

    /// Lets other threads run until someone wakes this one.
    pub(super) fn wait(&self, state: State) {
        self.state.set(state);
        // SAFETY: the suspender lives as long as the worker that runs this thread.
        unsafe { (*self.suspender.get()).suspend(()) };
        self.state.set(State::Running);
        if self.block().stopping.get() {
            resume_unwind(Box::new(Stop));
        }
    }

    /// Lets other threads run once, after an atomic that changed nothing: it may be waiting for them.
    pub(super) fn spin(&self, location: Place) {
        let block = self.block();
        block.idle_spins.set(block.idle_spins.get() + 1);
        block.ready.borrow_mut().push_back(self.linear);
        self.wait(State::Spinning(location));
    }

    fn exit(&self) {
        let block = self.block();
        block.progress();
        block.live.set(block.live.get() - 1);
        self.warp().live.set(self.warp().live.get() & !(1 << self.lane));
        self.leave_warp();
        block.barriers_after_exit(self);
    }
}

impl Block {
    /// Keeps the first finding.
    pub(super) fn report(&self, finding: Finding) {
        self.finding.borrow_mut().get_or_insert_with(|| Box::new(finding));
    }

    pub(super) fn wake(&self, thread: u32) {
        self.ready.borrow_mut().push_back(thread);
    }

    /// Notes that something changed, so that spinning threads may come to an end.
    #[inline]
    pub(super) fn progress(&self) {
        self.idle_spins.set(0);
        self.moved.set(true);
    }

    /// The next thread to run: the one that waits longest, or with a seed any.
    fn next_ready(&self) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        if self.launch.seed != 0 && ready.len() > 1 {
            let pick = next_random(&self.random) as usize % ready.len();
            ready.swap(0, pick);
        }
        ready.pop_front()
    }
}

/// A block and the stacks of its threads.
pub(super) struct BlockRunner {
    pub(super) block: Box<Block>,
    workers: Vec<Worker>,
}

impl BlockRunner {
    pub(super) fn new(launch: &Arc<LaunchState>) -> Self {
        let threads = launch.threads_per_block();
        let block = Box::new(Block {
            launch: Arc::clone(launch),
            index: Cell::default(),
            linear: Cell::default(),
            threads: (0..threads)
                .map(|linear| Thread::new(linear, launch.block_dim))
                .collect(),
            warps: (0..threads.div_ceil(32)).map(|_| Warp::default()).collect(),
            barriers: Default::default(),
            live: Cell::new(0),
            at_grid_barrier: Cell::new(0),
            shared: RefCell::new(SharedMemory::new(launch.dynamic_shared_bytes)),
            stats: RefCell::default(),
            recent: [const { Cell::new(ptr::null()) }; 64],
            finding: RefCell::default(),
            stopping: Cell::new(false),
            ready: RefCell::default(),
            idle_spins: Cell::new(0),
            moved: Cell::new(false),
            random: Cell::new(0),
        });
        Self {
            workers: coroutine::take_workers(threads as usize),
            block,
        }
    }

    /// Makes this the block of that number, about to begin.
    pub(super) fn start(&mut self, linear: u32) {
        let block = &*self.block;
        block.linear.set(linear);
        block.index.set(unravel(linear, block.launch.grid_dim));
        block.live.set(block.threads.len() as u32);
        block.at_grid_barrier.set(0);
        block.idle_spins.set(0);
        block.random.set(block.launch.seed ^ u64::from(linear) << 32);
        block.shared.borrow_mut().reset();
        for (number, warp) in block.warps.iter().enumerate() {
            let lanes = (block.threads.len() - 32 * number).min(32);
            warp.reset(u32::MAX >> (32 - lanes));
        }
        for thread in &block.threads {
            thread.block.set(block);
            thread.state.set(State::NotStarted);
            thread.clock.set(1);
            thread.lanes_seen.iter().for_each(|seen| seen.set(0));
            thread.knowledge.take();
        }
        *block.ready.borrow_mut() = (0..block.threads.len() as u32).collect();
        let mut stats = block.stats.borrow_mut();
        stats.blocks += 1;
        stats.threads += block.threads.len() as u64;
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.block.ready.borrow().is_empty()
    }

    /// Runs until all threads wait or have exited, or until all that run have spun for a while; or to a finding.
    pub(super) fn run(&mut self) -> Result<(), Box<Finding>> {
        let outer = CURRENT.get();
        let slice = 4 * self.block.threads.len() as u64;
        let mut spins_left = slice;
        while let Some(thread) = self.block.next_ready() {
            self.resume(thread);
            if self.block.finding.borrow().is_some() {
                break;
            }
            spins_left = if self.block.idle_spins.get() == 0 {
                slice
            } else {
                spins_left - 1
            };
            if spins_left == 0 {
                break;
            }
        }
        CURRENT.set(outer);
        let finding = self.block.finding.borrow_mut().take();
        finding.map_or(Ok(()), Err)
    }

    /// Whether nothing but spinning has happened for so long that nothing will.
    pub(super) fn spins_in_vain(&self) -> bool {
        self.block.idle_spins.get() > 1000 * self.block.threads.len() as u64 + 100_000
    }

    fn resume(&mut self, thread: u32) {
        CURRENT.set(&raw const self.block.threads[thread as usize]);
        self.workers[thread as usize].resume();
    }
}

impl Drop for BlockRunner {
    /// Ends the threads that wait, so that their workers can be used again.
    fn drop(&mut self) {
        let outer = CURRENT.get();
        self.block.stopping.set(true);
        for thread in 0..self.block.threads.len() {
            if !matches!(
                self.block.threads[thread].state.get(),
                State::NotStarted | State::Exited
            ) {
                self.resume(thread as u32);
            }
        }
        CURRENT.set(outer);
        coroutine::return_workers(core::mem::take(&mut self.workers));
    }
}

/// The index of a linear number, first axis fastest.
pub(super) fn unravel(linear: u32, dim: [u32; 3]) -> [u32; 3] {
    [linear % dim[0], linear / dim[0] % dim[1], linear / dim[0] / dim[1]]
}

/// SplitMix64.
pub(super) fn next_random(state: &Cell<u64>) -> u64 {
    state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
    let mut z = state.get();
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

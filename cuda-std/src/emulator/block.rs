//! One block of the grid: its threads, and the loop that runs them in turn.
//!
//! A thread runs until it has to wait: at a barrier, a warp operation, or an atomic that changed nothing. Then the
//! next ready one runs. Everything here belongs to one CPU thread, so plain cells suffice.

use core::{
    cell::{Cell, RefCell},
    ptr,
};
use std::{collections::VecDeque, sync::Arc};

use super::{
    barrier::Barrier,
    coroutine::{self, Worker},
    mbarrier::Mbarriers,
    memory::Allocation,
    report::{Finding, Stats},
    shared::SharedMemory,
    state::LaunchState,
    thread::{CURRENT, State, Thread},
    warp::Warp,
    warpgroup::Warpgroup,
};

/// A block, reused for one index after another.
pub(super) struct Block {
    pub(super) launch: Arc<LaunchState>,
    pub(super) index: Cell<[u32; 3]>,
    pub(super) linear: Cell<u32>,
    pub(super) threads: Vec<Thread>,
    pub(super) warps: Vec<Warp>,
    pub(super) warpgroups: Vec<RefCell<Warpgroup>>,
    pub(super) barriers: [Barrier; 16],
    pub(super) mbarriers: RefCell<Mbarriers>,
    /// Threads that have not exited.
    pub(super) live: Cell<u32>,
    pub(super) at_grid_barrier: Cell<u32>,
    pub(super) shared: RefCell<SharedMemory>,
    pub(super) stats: RefCell<Stats>,
    /// The allocation that each source line touched last, by the line's hash.
    pub(super) recent: [Cell<*const Allocation>; 64],
    finding: RefCell<Option<Box<Finding>>>,
    /// Whether waiting threads that go on are to end.
    pub(super) stopping: Cell<bool>,
    ready: RefCell<VecDeque<u32>>,
    /// Spins since some thread last changed anything.
    pub(super) idle_spins: Cell<u64>,
    /// Looks at memory of several devices since some thread last changed anything.
    pub(super) system_looks: Cell<u64>,
    /// Whether anything has changed since someone last asked.
    pub(super) moved: Cell<bool>,
    random: Cell<u64>,
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
        self.system_looks.set(0);
        self.moved.set(true);
    }

    /// What the schedule's seed decides next.
    pub(super) fn random(&self) -> u64 {
        next_random(&self.random)
    }

    /// The next thread to run: the one that waits longest, or with a seed any, whose place the former takes.
    fn next_ready(&self) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        let first = ready.pop_front()?;
        if self.launch.seed != 0 && !ready.is_empty() {
            let pick = random_below(self.random(), ready.len() + 1);
            if let Some(picked) = pick.checked_sub(1).and_then(|behind| ready.get_mut(behind)) {
                return Some(core::mem::replace(picked, first));
            }
        }
        Some(first)
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
        let nothing = Arc::default();
        let block = Box::new(Block {
            launch: Arc::clone(launch),
            index: Cell::default(),
            linear: Cell::default(),
            threads: (0..threads).map(|linear| Thread::new(linear, launch.block_dim, &nothing)).collect(),
            warps: (0..threads.div_ceil(32)).map(|_| Warp::default()).collect(),
            warpgroups: (0..threads / 128).map(|_| RefCell::default()).collect(),
            barriers: Default::default(),
            mbarriers: RefCell::default(),
            live: Cell::new(0),
            at_grid_barrier: Cell::new(0),
            shared: RefCell::new(SharedMemory::new(launch.dynamic_shared_bytes)),
            stats: RefCell::default(),
            recent: [const { Cell::new(ptr::null()) }; 64],
            finding: RefCell::default(),
            stopping: Cell::new(false),
            ready: RefCell::default(),
            idle_spins: Cell::new(0),
            system_looks: Cell::new(0),
            moved: Cell::new(false),
            random: Cell::new(0),
        });
        Self { workers: coroutine::take_workers(threads as usize), block }
    }

    /// Makes this the block of that number, about to begin.
    pub(super) fn start(&mut self, linear: u32) {
        let block = &*self.block;
        block.linear.set(linear);
        block.index.set(unravel(linear, block.launch.grid_dim));
        block.live.set(block.threads.len() as u32);
        block.at_grid_barrier.set(0);
        block.idle_spins.set(0);
        block.system_looks.set(0);
        block.random.set(block.launch.seed ^ u64::from(linear) << 32);
        block.shared.borrow_mut().reset();
        block.mbarriers.take();
        block.warpgroups.iter().for_each(|warpgroup| _ = warpgroup.take());
        for (number, warp) in block.warps.iter().enumerate() {
            let lanes = (block.threads.len() - 32 * number).min(32);
            warp.reset(u32::MAX >> (32 - lanes));
        }
        for thread in &block.threads {
            thread.reset(block);
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
            spins_left = if self.block.idle_spins.get() == 0 { slice } else { spins_left - 1 };
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

    #[inline(always)]
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
            if !matches!(self.block.threads[thread].state.get(), State::NotStarted | State::Exited) {
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

/// Maps a random number to one below `end`, without the division of a remainder, which took a twelfth of the time of a shuffle.
fn random_below(random: u64, end: usize) -> usize {
    (((random >> 32) * end as u64) >> 32) as usize
}

/// SplitMix64.
pub(super) fn next_random(state: &Cell<u64>) -> u64 {
    state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
    let mut z = state.get();
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

//! Stacks for GPU threads. A worker runs one thread after another; workers are kept between blocks and launches.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicUsize, Ordering},
};

use corosensei::{
    Coroutine, CoroutineResult, Yielder,
    stack::{DefaultStack, Stack, StackPointer},
};

use super::thread;

/// Enough for kernels that keep tiles of a few hundred registers, in unoptimised builds too. Untouched pages cost
/// nothing, and a guard page ends each stack.
const STACK_BYTES: usize = 256 << 10;

/// How far apart stacks begin in their pages, and how many different beginnings there are. What threads of a block use of their stacks
/// would otherwise lie at the same places of its pages for all, where a CPU's caches hold a dozen at most.
const STAGGER_BYTES: usize = 192;
const STAGGERS: usize = 64;

/// Stacks of all CPU threads up to which they are kept between launches. Linux lets a process map some 65 000 areas, and a stack is two.
const MAX_KEPT: usize = 16 << 10;

/// How many stacks there are.
static STACKS: AtomicUsize = AtomicUsize::new(0);

/// A stack that begins below its top.
struct StaggeredStack {
    stack: DefaultStack,
    unused: usize,
}

// SAFETY: the stack has a guard page, and far more than the unused bytes, whose number keeps the alignment.
unsafe impl Stack for StaggeredStack {
    fn base(&self) -> StackPointer {
        let base = self.stack.base().get() - self.unused;
        StackPointer::new(base).unwrap_or_else(|| self.stack.base())
    }
    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }
    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.stack.teb_fields()
    }
    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.stack.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// Where a running GPU thread hands back control.
pub(super) type Suspender = Yielder<(), ()>;

/// A coroutine that runs GPU threads for ever: each resumption from outside a thread starts the thread that
/// [`thread::run_current_thread`] finds, and each end of a thread suspends.
pub(super) struct Worker(Coroutine<(), (), (), StaggeredStack>);

impl Worker {
    fn new() -> Self {
        let stack = DefaultStack::new(STACK_BYTES).expect("memory for the stack of an emulated thread");
        let unused = STAGGER_BYTES * (STACKS.fetch_add(1, Ordering::Relaxed) % STAGGERS);
        let stack = StaggeredStack { stack, unused };
        Self(Coroutine::with_stack(stack, |suspender: &Suspender, ()| {
            loop {
                thread::run_current_thread(suspender);
                suspender.suspend(());
            }
        }))
    }

    /// Runs the thread until it waits or ends.
    #[inline(always)]
    pub(super) fn resume(&mut self) {
        match self.0.resume(()) {
            CoroutineResult::Yield(()) => {}
            CoroutineResult::Return(()) => unreachable!("workers never return"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: workers are dropped between threads, when their stack holds nothing that needs to be dropped.
        unsafe { self.0.force_reset() }
        STACKS.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    static IDLE: RefCell<Vec<Worker>> = const { RefCell::new(Vec::new()) };
}

/// Workers between threads, new or used.
pub(super) fn take_workers(count: usize) -> Vec<Worker> {
    IDLE.with_borrow_mut(|idle| {
        let mut workers = idle.split_off(idle.len().saturating_sub(count));
        workers.resize_with(count, Worker::new);
        workers
    })
}

/// Keeps workers, all of them between threads, for the next block on this CPU thread, unless there are too many.
pub(super) fn return_workers(workers: Vec<Worker>) {
    if STACKS.load(Ordering::Relaxed) > MAX_KEPT {
        return;
    }
    // At the end of the CPU thread there is no next block.
    let _ = IDLE.try_with(|idle| idle.borrow_mut().extend(workers));
}

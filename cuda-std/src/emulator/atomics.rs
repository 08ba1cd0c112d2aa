//! The atomic operations of a thread: what they read, what they store, and the order that they give.

use core::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::{
    access::{from_bits, read, to_bits, update, write},
    history::{Histories, History},
    release::Released,
    shadow::{Access, Touch},
    system,
    thread::{Place, Thread},
};
use crate::{atomic::Scope, mem::DeviceValue};

/// An atomic operation, after the checks of its access.
pub(super) struct Atomic<'a, T> {
    pub(super) thread: &'a Thread,
    pub(super) ptr: *mut T,
    pub(super) ordering: Ordering,
    pub(super) scope: Scope,
    pub(super) place: Place,
    /// Whether loads may read older values than the newest.
    pub(super) weak: bool,
    /// Whether something was stored there before the launch, for sure.
    pub(super) initialised: bool,
    /// Whether other devices access it too.
    pub(super) is_of_system: bool,
}

impl<T: DeviceValue> Atomic<'_, T> {
    /// Reads a value: the newest, or one of those before it.
    ///
    /// # Safety
    /// The checks of an atomic access have passed, and so for the others.
    pub(super) unsafe fn load(&self) -> T {
        self.sequential_fence();
        let mut histories = self.histories();
        let bits = if let Some(histories) = &mut histories {
            let history = self.history(histories);
            let (value, is_older) = history.choose(self.thread);
            if is_older {
                self.thread.block().stats.borrow_mut().older_values += 1;
                self.thread.older_value.set(Some(self.place));
            }
            self.read(history, value)
        } else {
            self.bits()
        };
        drop(histories);
        self.sequential_fence();
        self.count(false);
        from_bits(bits)
    }

    /// Stores a value, where there need not be one yet.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    pub(super) unsafe fn store(&self, value: T) {
        self.sequential_fence();
        let mut histories = self.histories();
        if let Some(histories) = &mut histories {
            self.add(self.history(histories), value, Released::default());
        }
        // SAFETY: the caller's promise.
        unsafe { write(self.ptr, value) };
        drop(histories);
        self.sequential_fence();
        self.count(true);
    }

    /// Replaces the newest value by what `change` makes of it, unless that is None, and returns it.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    pub(super) unsafe fn update(&self, change: impl Fn(T) -> Option<T>) -> T {
        self.sequential_fence();
        let mut histories = self.histories();
        let history = histories.as_mut().map(|histories| self.history(histories));
        // SAFETY: the caller's promise.
        let (old, new) = unsafe { update(self.ptr, change) };
        match (history, new) {
            (Some(history), Some(new)) => {
                self.acquire(history, history.newest());
                // What was released before goes on to those who read the new value.
                let released = history.hand_on(self.weak);
                self.add(history, new, released);
            }
            (Some(history), None) => _ = self.read(history, history.newest()),
            (None, _) => {}
        }
        drop(histories);
        self.sequential_fence();
        self.count(new.is_some_and(|new| to_bits(new) != to_bits(old)));
        old
    }

    /// The past of all addresses, or None where it does not matter: in memory of several devices, whose newest values count; and until someone uses a fence, relaxed atomics give no order,
    /// and loads may be for the newest values only.
    fn histories(&self) -> Option<MutexGuard<'_, Histories>> {
        if self.is_of_system {
            return None;
        }
        let launch = &self.thread.block().launch;
        if self.ordering != Ordering::Relaxed {
            launch.has_fences.store(true, Ordering::Relaxed);
        }
        let matters = self.weak || launch.contended || launch.has_fences.load(Ordering::Relaxed);
        matters.then(|| launch.histories.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn history<'h>(&self, histories: &'h mut Histories) -> &'h mut History {
        let epoch = self.thread.block().launch.epoch.load(Ordering::Relaxed);
        histories.of(self.ptr as usize, epoch, self.initialised, || self.bits())
    }

    /// The bits that are there.
    fn bits(&self) -> u64 {
        // SAFETY: the checks have passed, and something has been stored there: before the launch, or by an atomic.
        to_bits(unsafe { read(self.ptr) })
    }

    fn acquire(&self, history: &History, value: usize) {
        self.thread.acquire(history.released(value), self.ordering, self.scope);
    }

    /// Reads a value, and acquires what comes with it.
    fn read(&self, history: &mut History, value: usize) -> u64 {
        self.acquire(history, value);
        history.read(value, self.access())
    }

    /// Adds a value, which releases what the thread does, beside what it has got from the one before.
    fn add(&self, history: &mut History, value: T, mut released: Released) {
        // Whoever acquires the release knows of this access too: it is of the time before.
        let access = self.access();
        self.thread.release(&mut released, self.ordering, self.scope, self.place);
        history.store(to_bits(value), access, released);
        if !self.weak {
            history.forget();
        }
    }

    fn access(&self) -> Access {
        Access::of(self.thread, self.place, Touch::Atomic)
    }

    /// The fence before and after an operation that is sequentially consistent.
    fn sequential_fence(&self) {
        if self.ordering == Ordering::SeqCst {
            self.thread.fence(Ordering::SeqCst, self.scope, self.place);
        }
    }

    /// Counts the operation. If it has changed nothing, the thread may be waiting for another: others run first.
    #[inline(always)]
    fn count(&self, changed: bool) {
        let block = self.thread.block();
        block.stats.borrow_mut().atomics += 1;
        if changed {
            block.progress();
            if self.is_of_system {
                system::changed();
            }
        } else if self.is_of_system {
            self.thread.wait_for_system(self.place);
        } else {
            self.thread.spin(self.place);
        }
    }
}

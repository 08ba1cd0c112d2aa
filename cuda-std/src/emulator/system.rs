//! Waiting for other devices: threads of a kernel that look at memory of several devices in vain, and what wakes them.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use super::thread::{Place, State, Thread};

/// The CPU threads that wait for a change.
static WAITING: AtomicUsize = AtomicUsize::new(0);
static CHANGES: Mutex<u64> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

/// The longest wait before another look: a change just before the wait wakes nobody, nor does one that the CPU makes.
const LOOK: Duration = Duration::from_micros(200);

/// Notes that memory of several devices has changed.
pub(super) fn changed() {
    if WAITING.load(Ordering::SeqCst) > 0 {
        *CHANGES.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        CHANGED.notify_all();
    }
}

/// Waits for the next change, or for a while.
fn wait() {
    WAITING.fetch_add(1, Ordering::SeqCst);
    let changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = *changes;
    drop(CHANGED.wait_timeout_while(changes, LOOK, |changes| *changes == seen));
    WAITING.fetch_sub(1, Ordering::SeqCst);
}

impl Thread {
    /// Lets other threads run once, and other CPU threads, after a look at memory that other devices may change: for ever, if need be. When all
    /// threads of the block have looked in vain a few times, the CPU thread waits for a change.
    pub(super) fn wait_for_system(&self, location: Place) {
        let block = self.block();
        // In vain it may be for this block, so that others run; but never for good.
        block.idle_spins.set(1);
        let looks = block.system_looks.get() + 1;
        block.system_looks.set(looks);
        let live = u64::from(block.live.get());
        if looks.is_multiple_of(live) {
            if looks > LOOKS * live { wait() } else { thread::yield_now() }
        }
        block.wake(self.linear);
        self.wait(State::Spinning(location));
    }
}

/// How often all threads of a block look before they wait.
const LOOKS: u64 = 2;

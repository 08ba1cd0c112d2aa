//! What this thread records, if anything: operations look here for the stream of their launches.
//!
//! A recording keeps everything that its launches access, so a graph never accesses freed memory, whoever owned it. It
//! also keeps the locks under which operations queue launches that share memory; they are held while the graph is
//! queued.

#[cfg(feature = "cuda")]
mod tape;

use std::{
    cell::RefCell,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Error, Result};
#[cfg(feature = "cuda")]
pub(super) use tape::{Borrowed, Kept, keep, keep_new, record, recorder, refuses_borrowed};

thread_local! {
    static CURRENT: RefCell<State> = const { RefCell::new(State::Idle) };
}

/// What this thread does with operations.
enum State {
    /// They are queued.
    Idle,
    /// Queues them as the operations of a graph on the CPU or the emulator, and rejects what a GPU's graph would.
    Anew,
    /// They are recorded.
    #[cfg(feature = "cuda")]
    Recording(tape::Tape),
}

/// Restores the previous state on drop.
struct Before(State);

impl Before {
    fn enter(state: State) -> Self {
        Self(CURRENT.replace(state))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        // What a tape keeps may look here when it is dropped.
        let _after = CURRENT.replace(mem::replace(&mut self.0, State::Idle));
    }
}

/// Fails while this thread records, because a graph cannot hold `what`.
pub(crate) fn refuse(what: &str) -> Result<()> {
    match CURRENT.with_borrow(|state| matches!(state, State::Idle)) {
        true => Ok(()),
        false => Err(Error::InvalidOption(format!("{what} cannot be recorded: a graph holds device operations only"))),
    }
}

/// Does `work` as if nothing were recorded, for one-time preparations. Fails while the stream itself is captured.
pub(crate) fn paused<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    #[cfg(feature = "cuda")]
    if tape::is_capture() {
        let problem = "the first operation of this kind in a capture: call it once before";
        return Err(Error::InvalidOption(problem.into()));
    }
    let _before = Before::enter(State::Idle);
    work()
}

/// Does `work`, which calls the operations of a graph again.
pub(crate) fn anew<R>(work: impl FnOnce() -> R) -> R {
    let _before = Before::enter(State::Anew);
    work()
}

/// Locks what the launches of one operation share with those of others, until they are queued.
pub(crate) fn lock<P: Send + 'static>(mutex: &Arc<Mutex<P>>) -> MutexGuard<'_, P> {
    #[cfg(feature = "cuda")]
    tape::keep_lock(mutex);
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

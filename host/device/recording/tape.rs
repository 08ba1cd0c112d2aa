//! A graph being recorded on a GPU, and everything it keeps.

use std::{
    collections::{HashMap, HashSet},
    fmt, ptr,
    sync::{Arc, Mutex, PoisonError},
};

use super::{super::cuda::Stream, Before, CURRENT, State};
use crate::{Error, Result};

/// A graph being recorded.
pub(super) struct Tape {
    /// The stream on which the graph will run.
    queue: Arc<Stream>,
    /// The stream that the driver captures.
    recorder: Arc<Stream>,
    borrowed: Borrowed,
    kept: Kept,
    /// The addresses of memory allocated while recording.
    new: HashSet<usize>,
}

/// Whether launches may access memory borrowed from another library, which a graph cannot keep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Borrowed {
    /// The caller guarantees that the memory lives as long as the graph.
    Allowed,
    Refused,
}

/// Everything that a graph keeps as long as it exists.
#[derive(Default)]
pub(in super::super) struct Kept {
    /// The memory that launches access, by its address.
    memory: HashMap<usize, Arc<dyn Send + Sync>>,
    /// Held while the graph is queued, as by all others who queue work on the same data. In the same order in all
    /// graphs.
    locks: Vec<Arc<dyn Exclusive>>,
}

/// A lock, whatever it protects.
trait Exclusive: Send + Sync {
    /// Does `work` while holding the lock.
    fn hold(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

impl<P: Send> Exclusive for Mutex<P> {
    fn hold(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _held = self.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

/// Does `work`, and lets `recorder` record its launches on `queue`. Returns what the graph must keep, also on failure.
pub(in super::super) fn record(
    queue: &Arc<Stream>,
    recorder: &Arc<Stream>,
    borrowed: Borrowed,
    work: impl FnOnce() -> Result<()>,
) -> (Kept, Result<()>) {
    let (queue, recorder) = (Arc::clone(queue), Arc::clone(recorder));
    let tape = Tape { queue, recorder, borrowed, kept: Kept::default(), new: HashSet::new() };
    let before = Before::enter(State::Recording(tape));
    let worked = work();
    let state = CURRENT.replace(State::Idle);
    drop(before);
    let State::Recording(Tape { mut kept, new, .. }) = state else {
        unreachable!("whoever changes the state puts it back")
    };
    kept.locks.sort_by_key(|lock| ptr::from_ref(&**lock).addr());
    kept.locks.dedup_by_key(|lock| ptr::from_ref(&**lock).addr());
    // The graph would keep using this memory, whatever happens to the value.
    let has_escaped =
        new.iter().any(|place| kept.memory.get(place).is_some_and(|memory| Arc::strong_count(memory) > 1));
    let problem = "a vector or number made in a graph outlives it: write to one that exists before, by assign or set";
    let checked = if has_escaped { Err(Error::InvalidOption(problem.into())) } else { Ok(()) };
    (kept, worked.and(checked))
}

/// Returns whether this thread captures the stream itself.
pub(super) fn is_capture() -> bool {
    CURRENT.with_borrow(|state| matches!(state, State::Recording(tape) if tape.recorder.is(&tape.queue)))
}

/// Returns the stream for operations on `queue`, if this thread records.
pub(in super::super) fn recorder(queue: &Stream) -> Result<Option<Arc<Stream>>> {
    CURRENT.with_borrow(|state| match state {
        State::Recording(tape) if tape.queue.is(queue) => Ok(Some(Arc::clone(&tape.recorder))),
        State::Recording(_) => {
            let problem = "this operation runs on another queue than the one being recorded";
            Err(Error::InvalidOption(problem.into()))
        }
        State::Idle | State::Anew => Ok(None),
    })
}

/// Makes the current recording, if any, keep memory that a launch accesses.
pub(in super::super) fn keep(memory: impl FnOnce() -> Arc<dyn Send + Sync>) {
    CURRENT.with_borrow_mut(|state| {
        if let State::Recording(tape) = state {
            tape.keep(memory());
        }
    });
}

/// Does the same with newly allocated memory.
pub(in super::super) fn keep_new(memory: impl FnOnce() -> Arc<dyn Send + Sync>) {
    CURRENT.with_borrow_mut(|state| {
        if let State::Recording(tape) = state {
            let place = tape.keep(memory());
            tape.new.insert(place);
        }
    });
}

impl Tape {
    fn keep(&mut self, memory: Arc<dyn Send + Sync>) -> usize {
        let place = Arc::as_ptr(&memory).addr();
        self.kept.memory.insert(place, memory);
        place
    }
}

/// Makes the current recording, if any, keep a lock.
pub(super) fn keep_lock<P: Send + 'static>(mutex: &Arc<Mutex<P>>) {
    CURRENT.with_borrow_mut(|state| {
        if let State::Recording(tape) = state {
            tape.kept.locks.push(Arc::clone(mutex) as _);
        }
    });
}

/// Returns whether launches may not access borrowed memory.
pub(in super::super) fn refuses_borrowed() -> bool {
    CURRENT.with_borrow(|state| matches!(state, State::Recording(Tape { borrowed: Borrowed::Refused, .. })))
}

impl Kept {
    /// Does `work` while holding the locks.
    pub(in super::super) fn hold_locks(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        fn hold(locks: &[Arc<dyn Exclusive>], work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
            match locks {
                [] => work(),
                [first, rest @ ..] => first.hold(&mut || hold(rest, work)),
            }
        }
        hold(&self.locks, work)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({} pieces of memory, {} locks)", self.memory.len(), self.locks.len())
    }
}

//! A graph being recorded on a GPU, and what it keeps.

use std::{
    collections::{HashMap, HashSet},
    fmt, ptr,
    sync::{Arc, Mutex, PoisonError},
};

use super::{super::cuda::Stream, Before, CURRENT, State};
use crate::{Error, Result};

/// A graph being recorded.
pub(super) struct Tape {
    /// The queue that the graph is for.
    queue: Arc<Stream>,
    /// The stream that the driver captures.
    recorder: Arc<Stream>,
    lent: Lent,
    kept: Kept,
    /// The places of memory that has been allocated meanwhile.
    new: HashSet<usize>,
}

/// Whether launches may touch memory that another library lends, which a graph cannot keep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Lent {
    /// Whoever records sees to it that the memory is there for as long as the graph.
    Allowed,
    Refused,
}

/// What a graph keeps for as long as it exists.
#[derive(Default)]
pub(in super::super) struct Kept {
    /// What the launches touch, by its place.
    memory: HashMap<usize, Arc<dyn Send + Sync>>,
    /// Held while the graph is queued: whoever else queues what it touches holds them too. In one order in all graphs.
    locks: Vec<Arc<dyn Exclusive>>,
}

/// A lock, whatever it protects.
trait Exclusive: Send + Sync {
    /// Does `work` with the lock held.
    fn hold(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

impl<P: Send> Exclusive for Mutex<P> {
    fn hold(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _held = self.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

/// Does `work`, whose launches on `queue` are recorded by `recorder`; what the graph has to keep, also where it fails.
pub(in super::super) fn record(
    queue: &Arc<Stream>,
    recorder: &Arc<Stream>,
    lent: Lent,
    work: impl FnOnce() -> Result<()>,
) -> (Kept, Result<()>) {
    let (queue, recorder) = (Arc::clone(queue), Arc::clone(recorder));
    let tape = Tape { queue, recorder, lent, kept: Kept::default(), new: HashSet::new() };
    let before = Before::enter(State::Recording(tape));
    let worked = work();
    let state = CURRENT.replace(State::Idle);
    drop(before);
    let State::Recording(Tape { mut kept, new, .. }) = state else {
        unreachable!("whoever changes the state puts it back")
    };
    kept.locks.sort_by_key(|lock| ptr::from_ref(&**lock).addr());
    kept.locks.dedup_by_key(|lock| ptr::from_ref(&**lock).addr());
    // The graph would go on with this memory, whatever becomes of the value.
    let has_escaped =
        new.iter().any(|place| kept.memory.get(place).is_some_and(|memory| Arc::strong_count(memory) > 1));
    let problem = "a vector or number made in a graph outlives it: write to one that exists before, by assign or set";
    let checked = if has_escaped { Err(Error::InvalidOption(problem.into())) } else { Ok(()) };
    (kept, worked.and(checked))
}

/// Whether this thread captures the queue itself.
pub(super) fn is_capture() -> bool {
    CURRENT.with_borrow(|state| matches!(state, State::Recording(tape) if tape.recorder.is(&tape.queue)))
}

/// Where an operation on `queue` goes instead, if this thread records.
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

/// Has the recording, if there is one, keep memory that a launch touches.
pub(in super::super) fn keep(memory: impl FnOnce() -> Arc<dyn Send + Sync>) {
    CURRENT.with_borrow_mut(|state| {
        if let State::Recording(tape) = state {
            tape.keep(memory());
        }
    });
}

/// The same, of memory that has just been allocated.
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

/// Has the recording, if there is one, keep a lock.
pub(super) fn keep_lock<P: Send + 'static>(mutex: &Arc<Mutex<P>>) {
    CURRENT.with_borrow_mut(|state| {
        if let State::Recording(tape) = state {
            tape.kept.locks.push(Arc::clone(mutex) as _);
        }
    });
}

/// Whether launches may not touch memory that another library lends.
pub(in super::super) fn refuses_lent() -> bool {
    CURRENT.with_borrow(|state| matches!(state, State::Recording(Tape { lent: Lent::Refused, .. })))
}

impl Kept {
    /// Does `work` with the locks held.
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

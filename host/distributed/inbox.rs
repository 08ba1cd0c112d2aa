//! The messages that a rank has received, and what it knows of the others.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use kernels_gpu::cg_ranks::window::flag;

use crate::{Error, ErrorKind, Result, device::Window};

/// One rank's part of a collective operation, for another rank.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) label: Label,
    pub(super) content: Arc<[u8]>,
}

/// Which operation a message is part of. The same on every rank, or the ranks have called different operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The number of the operation on its rank.
    pub(super) number: u64,
    /// The operation, with its sizes.
    pub(super) text: Arc<str>,
}

/// Why the ranks cannot go on, and whose fault it is.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) rank: usize,
    pub(super) problem: String,
    pub(super) kind: ErrorKind,
    /// The last operation that the rank which says so has ended: every rank can end it too.
    pub(super) after: u64,
}

impl Failure {
    /// The failure of a rank in its own words; one that it has heard of stays another's.
    pub(super) fn of(rank: usize, error: Error, after: u64) -> Self {
        match error {
            Error::Rank { rank, problem, kind } => Self { rank, problem, kind, after },
            other => Self { rank, problem: other.to_string(), kind: other.kind(), after },
        }
    }

    /// The error of every rank. Not `From`, by which `?` in closures of other crates would need annotations.
    pub(super) fn into_error(self) -> Error {
        let Self { rank, problem, kind, .. } = self;
        Error::Rank { rank, problem, kind }
    }
}

/// The inbox of one rank, which all ranks write to.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    /// The memory that the other ranks' devices write, if they do. It stays as long as any rank may.
    window: OnceLock<Arc<Window>>,
}

#[derive(Debug)]
struct State {
    /// The messages of each rank, in the order of its operations.
    queues: Vec<VecDeque<Message>>,
    /// Whether each rank has ended and sends nothing more.
    ended: Vec<bool>,
    /// The first failure.
    failure: Option<Failure>,
}

impl Inbox {
    pub(super) fn new(ranks: usize) -> Self {
        let queues = vec![VecDeque::new(); ranks];
        let state = Mutex::new(State { queues, ended: vec![false; ranks], failure: None });
        Self { state, changed: Condvar::new(), window: OnceLock::new() }
    }

    /// Lends memory to the other ranks' devices, once.
    pub(super) fn lend(&self, window: Arc<Window>) {
        self.window.set(window).expect("ranks connect once");
    }

    /// What is lent.
    pub(super) fn window(&self) -> Option<&Arc<Window>> {
        self.window.get()
    }

    /// Delivers a message of a rank.
    pub(super) fn deliver(&self, sender: usize, message: Message) {
        self.change(|state| state.queues[sender].push_back(message));
    }

    /// Says that a rank has ended.
    pub(super) fn end(&self, rank: usize) {
        self.change(|state| state.ended[rank] = true);
    }

    /// Says that the ranks cannot go on. The first failure counts. Kernels that wait for other ranks end.
    pub(super) fn fail(&self, failure: &Failure) {
        self.change(|state| {
            state.failure.get_or_insert_with(|| failure.clone());
        });
        if let Some(window) = self.window.get() {
            window.flag(flag::END).store(1, Relaxed);
        }
    }

    /// The first failure, if there is one.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    /// Takes the message of every rank for the operation `number`. Waits for them up to the time limit.
    ///
    /// A failure after this operation does not count yet: so every rank sees how the operation ends, and fails in the same way if it is
    /// by what all have sent.
    pub(super) fn take(&self, number: u64, time_limit: Duration) -> Result<Vec<Message>> {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            let Some(missing) = state.queues.iter().position(VecDeque::is_empty) else {
                return Ok(state.queues.iter_mut().filter_map(VecDeque::pop_front).collect());
            };
            if let Some(failure) = state.failure.as_ref().filter(|failure| failure.after < number) {
                return Err(failure.clone().into_error());
            }
            let of = |rank, problem| Error::Rank { rank, problem, kind: ErrorKind::Rank };
            let has_ended = |&rank: &usize| state.ended[rank] && state.queues[rank].is_empty();
            if let Some(rank) = (0..state.ended.len()).find(has_ended) {
                return Err(of(rank, "has ended, while others wait for it".into()));
            }
            let Some(left) = time_limit.checked_sub(start.elapsed()) else {
                return Err(of(missing, format!("has not answered within {time_limit:?}")));
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

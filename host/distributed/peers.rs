//! The ways of messages to the other ranks.

use std::{sync::Arc, time::Duration};

use super::{
    inbox::{Failure, Inbox, Message},
    wires::Wires,
};
use crate::{Result, device::Window};

/// All ranks, as one of them reaches them.
#[derive(Debug)]
pub(super) enum Peers {
    /// The inboxes of threads of this process.
    Threads(Arc<[Arc<Inbox>]>),
    /// Other processes.
    Processes(Wires),
}

impl Peers {
    /// The number of ranks.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Threads(inboxes) => inboxes.len(),
            Self::Processes(wires) => wires.size(),
        }
    }

    /// The inbox of this rank.
    pub(super) fn inbox(&self, own: usize) -> &Arc<Inbox> {
        match self {
            Self::Threads(inboxes) => &inboxes[own],
            Self::Processes(wires) => wires.inbox(),
        }
    }

    /// The memory that a thread's rank lends to the others.
    pub(super) fn window_of_thread(&self, rank: usize) -> Option<Arc<Window>> {
        match self {
            Self::Threads(inboxes) => inboxes[rank].window().cloned(),
            Self::Processes(_) => None,
        }
    }

    /// Sends a message to a rank.
    pub(super) fn send(&self, own: usize, rank: usize, message: Message, limit: Duration) -> Result<()> {
        match self {
            Self::Threads(inboxes) => {
                inboxes[rank].deliver(own, message);
                Ok(())
            }
            Self::Processes(wires) => wires.send(rank, message, limit),
        }
    }

    /// Tells all ranks of a failure.
    pub(super) fn fail(&self, failure: &Failure, limit: Duration) {
        match self {
            Self::Threads(inboxes) => inboxes.iter().for_each(|inbox| inbox.fail(failure)),
            Self::Processes(wires) => wires.fail(failure, limit),
        }
    }

    /// Tells all ranks that this one has ended.
    pub(super) fn end(&self, own: usize, limit: Duration) {
        match self {
            Self::Threads(inboxes) => inboxes.iter().for_each(|inbox| inbox.end(own)),
            Self::Processes(wires) => wires.end(limit),
        }
    }
}

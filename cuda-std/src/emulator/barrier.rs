//! Barriers of a block and of the grid, and the order that they give to memory accesses.
//!
//! Every thread has a clock that advances at each barrier it passes. A warp knows for each warp of its block the
//! time before which everything happened before its own present; a lane knows the same of its warp's other lanes
//! (see `warp.rs`). An access is ordered after another when the other's clock lies before what is known.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::Ordering,
};

use super::{
    block::Block,
    release::{self, Released},
    report::{Finding, FindingKind},
    thread::{Place, State, Thread},
    warp::{bits, same_place},
};
use crate::atomic::Scope;

/// One of the 16 barriers of a block.
#[derive(Default)]
pub(super) struct Barrier {
    waiting: RefCell<Vec<u32>>,
    /// Those that have arrived and gone on, and what they make known.
    arrived: RefCell<(Vec<u32>, Released)>,
    /// Threads to wait for, in whole warps; None for all of the block that live.
    count: Cell<Option<u32>>,
}

impl Thread {
    /// Waits at a barrier for `count` threads, or for all live ones of the block.
    #[inline(always)]
    pub(super) fn barrier(&self, id: u32, count: Option<u32>, place: Place) {
        if !self.arrive_to_wait(id, count, place) {
            self.wait(State::AtBarrier(place));
        }
    }

    /// Comes to a barrier to wait there. Whether it is the last: then the others go on.
    fn arrive_to_wait(&self, id: u32, count: Option<u32>, place: Place) -> bool {
        let (block, warp) = (self.block(), self.warp());
        block.stats.borrow_mut().barriers += 1;
        if id >= 16 || count.is_some_and(|count| count == 0 || count % 32 != 0) {
            let message = format!("barrier {id} with {count:?} threads: ids are 0 to 15, counts whole warps");
            self.fail(FindingKind::InvalidArgument, place, message, None, None);
        }
        let barrier = &block.barriers[id as usize];
        if let Some(&first) = barrier.waiting.borrow().first() {
            let other = &block.threads[first as usize];
            let elsewhere = count.is_none() && other.state.get().place().is_some_and(|there| !same_place(there, place));
            if barrier.count.get() != count || elsewhere {
                let other = other.place(other.state.get().place());
                let message = format!("barrier {id} is reached at two places, or with two counts");
                self.fail(FindingKind::BarrierDivergence, place, message, None, Some(other));
            }
        }
        if !barrier.arrived.borrow().0.is_empty() && barrier.count.get() != count {
            let message = format!("barrier {id} is reached with two counts");
            self.fail(FindingKind::BarrierDivergence, place, message, None, None);
        }
        match warp.barrier.get() {
            Some((other_id, there)) if other_id != id || !same_place(there, place) => {
                let message = format!("lanes of one warp wait at barriers {id} and {other_id}, or at two places");
                let first = bits(warp.live.get()).map(|lane| &block.threads[(self.linear - self.lane + lane) as usize]);
                let other = first.into_iter().find(|lane| matches!(lane.state.get(), State::AtBarrier(..)));
                let other = other.map(|other| other.place(Some(there)));
                self.fail(FindingKind::BarrierDivergence, place, message, None, other);
            }
            _ => warp.barrier.set(Some((id, place))),
        }
        warp.at_barrier.set(warp.at_barrier.get() + 1);
        barrier.count.set(count);
        barrier.waiting.borrow_mut().push(self.linear);
        let is_complete = block.barrier_is_complete(barrier, self);
        if is_complete {
            block.release(barrier, Some(self.linear), place);
        }
        is_complete
    }

    /// Counts for a barrier of `count` threads, without waiting.
    pub(super) fn arrive(&self, id: u32, count: u32, place: Place) {
        let block = self.block();
        block.stats.borrow_mut().barriers += 1;
        if id >= 16 || count == 0 || !count.is_multiple_of(32) {
            let message = format!("barrier {id} with {count} threads: ids are 0 to 15, counts whole warps");
            self.fail(FindingKind::InvalidArgument, place, message, None, None);
        }
        let barrier = &block.barriers[id as usize];
        let mut arrived = barrier.arrived.borrow_mut();
        let is_first = arrived.0.is_empty() && barrier.waiting.borrow().is_empty();
        if !is_first && barrier.count.get() != Some(count) || arrived.0.contains(&self.linear) {
            let message = format!("barrier {id} is reached with two counts, or twice by a thread before the others");
            let waiting = barrier.waiting.borrow().first().map(|&other| &block.threads[other as usize]);
            let other = waiting.map(|other| other.place(other.state.get().place()));
            self.fail(FindingKind::BarrierDivergence, place, message, None, other);
        }
        barrier.count.set(Some(count));
        arrived.0.push(self.linear);
        self.release(&mut arrived.1, Ordering::Release, Scope::Block, place);
        drop(arrived);
        block.progress();
        if block.barrier_is_complete(barrier, self) {
            block.release(barrier, None, place);
        }
    }

    /// Waits for every thread of the grid.
    pub(super) fn grid_barrier(&self, place: Place) {
        let block = self.block();
        block.stats.borrow_mut().barriers += 1;
        if !block.launch.cooperative {
            let message = "the blocks of this launch do not all run at once: launch it as cooperative";
            self.fail(FindingKind::NotCooperative, place, message, None, None);
        }
        block.at_grid_barrier.set(block.at_grid_barrier.get() + 1);
        self.wait(State::AtGridBarrier(place));
    }
}

impl Block {
    /// Whether the barrier may open, after `last` arrived at it or left the kernel.
    fn barrier_is_complete(&self, barrier: &Barrier, last: &Thread) -> bool {
        let waiting = barrier.waiting.borrow();
        let Some(count) = barrier.count.get() else {
            return waiting.len() as u32 == self.live.get();
        };
        // A warp counts, as 32 threads, when all its live lanes are there, or have arrived.
        let arrived = &barrier.arrived.borrow().0;
        let there = |warp: usize| {
            let live = self.warps[warp].live.get().count_ones();
            let gone_on = arrived.iter().filter(|&&thread| thread as usize / 32 == warp).count() as u32;
            live != 0 && (self.warps[warp].at_barrier.get() == live || gone_on == live)
        };
        if !there(last.linear as usize / 32) && !matches!(last.state.get(), State::Exited) {
            return false;
        }
        let mut warps = 0u32;
        waiting.iter().chain(arrived).for_each(|thread| warps |= 1 << (thread / 32));
        bits(warps).filter(|&warp| there(warp as usize)).count() as u32 * 32 >= count
    }

    /// Opens the barrier: everyone who waits goes on, with all that came before ordered before.
    fn release(&self, barrier: &Barrier, running: Option<u32>, place: Place) {
        self.progress();
        let mut waiting = barrier.waiting.borrow_mut();
        let (_, released) = barrier.arrived.take();
        waiting
            .iter()
            .for_each(|&thread| self.threads[thread as usize].acquire(&released, Ordering::Acquire, Scope::Block));
        self.order(&waiting, place);
        waiting.drain(..).filter(|&thread| Some(thread) != running).for_each(|thread| self.wake(thread));
    }

    /// Orders what these threads, whole warps, did before ahead of what they do after.
    fn order(&self, threads: &[u32], place: Place) {
        let (mut clocks, mut warps) = ([0; 32], 0u32);
        for &thread in threads {
            let warp = thread as usize / 32;
            warps |= 1 << warp;
            clocks[warp] = self.threads[thread as usize].clock.get().max(clocks[warp]);
        }
        let mut seen = [0; 32];
        for warp in bits(warps) {
            self.warps[warp as usize]
                .seen
                .iter()
                .zip(&mut seen)
                .for_each(|(theirs, seen)| *seen = theirs.get().max(*seen));
        }
        bits(warps).for_each(|warp| seen[warp as usize] = clocks[warp as usize] + 1);
        for warp in bits(warps).map(|warp| &self.warps[warp as usize]) {
            warp.seen.iter().zip(seen).for_each(|(mine, seen)| mine.set(seen));
            warp.barrier.set(None);
            warp.at_barrier.set(0);
        }
        for &thread in threads {
            self.threads[thread as usize].advance_clock(seen[thread as usize / 32], place);
        }
        release::share(threads.iter().map(|&thread| &self.threads[thread as usize]));
    }

    /// Opens the barriers that waited for a thread which has exited.
    pub(super) fn barriers_after_exit(&self, exited: &Thread) {
        for barrier in &self.barriers {
            let first = barrier.waiting.borrow().first().copied();
            let place = first.and_then(|first| self.threads[first as usize].state.get().place());
            if let Some(place) = place
                && self.barrier_is_complete(barrier, exited)
            {
                self.release(barrier, None, place);
            }
        }
    }

    /// Opens the grid barrier for this block.
    pub(super) fn release_grid_barrier(&self) {
        self.at_grid_barrier.set(0);
        let all: Vec<u32> = (0..self.threads.len() as u32).collect();
        if let Some(place) = self.threads[0].state.get().place() {
            self.order(&all, place);
        }
        all.into_iter().for_each(|thread| self.wake(thread));
    }

    /// Nothing can go on, yet threads wait: for whom, and why that is wrong.
    pub(super) fn deadlock(&self) -> Box<Finding> {
        let waiting = |wanted: fn(State) -> bool| self.threads.iter().find(|thread| wanted(thread.state.get()));
        let at_barrier = waiting(|state| matches!(state, State::AtBarrier(..) | State::AtGridBarrier(_)));
        let at_warp = waiting(|state| matches!(state, State::AtWarpOperation(..)));
        let spinning = waiting(|state| matches!(state, State::Spinning(_)));
        let exited = waiting(|state| matches!(state, State::Exited));
        let (thread, other, kind, message) = match (at_barrier, at_warp.or(spinning)) {
            (Some(thread), Some(other)) => {
                (thread, Some(other), FindingKind::BarrierDivergence, "waits at a barrier that not all threads reach")
            }
            (Some(thread), None) => {
                let differs = |other: &&Thread| match (other.state.get().place(), thread.state.get().place()) {
                    (Some(there), Some(here)) => !same_place(there, here),
                    _ => false,
                };
                let other = self.threads.iter().find(differs).or(exited);
                (thread, other, FindingKind::BarrierDivergence, "waits at a barrier that not enough threads reach")
            }
            (None, Some(thread)) if at_warp.is_some() => {
                let differs = |other: &&Thread| match (other.state.get().place(), thread.state.get().place()) {
                    (Some(there), Some(here)) => !same_place(there, here),
                    _ => false,
                };
                let other = self.threads.iter().find(differs);
                (thread, other, FindingKind::WarpDivergence, "waits for lanes that are at other operations")
            }
            (None, other) => {
                let thread = other.unwrap_or(&self.threads[0]);
                (thread, None, FindingKind::Deadlock, "spins on an atomic or a phase that nobody changes any more")
            }
        };
        let mut finding = thread.finding(kind, message);
        finding.place = thread.place(thread.state.get().place());
        finding.other = other.map(|other| other.place(other.state.get().place()));
        Box::new(finding)
    }
}

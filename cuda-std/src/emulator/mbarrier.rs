//! Barriers in shared memory, with phases.
//!
//! Copies end where they start: what they bring is there at once, but only who knows that their phase has ended may touch it. So a phase ends as early as on any
//! GPU, and who relies on less is found out all the same.

use core::sync::atomic::Ordering;

use super::{
    access::{SharedAddress, write},
    proxy::{Actor, Kind},
    release::Released,
    report::FindingKind,
    shadow::{Access, Touch},
    thread::{Place, Thread},
};
use crate::atomic::Scope;

/// The most arrivals of a phase, and the most bytes.
const LIMIT: u32 = (1 << 20) - 1;

/// The barriers that a block has had, each at an address of its own.
#[derive(Default)]
pub(super) struct Mbarriers(Vec<State>);

struct State {
    address: SharedAddress,
    /// From `init` to `invalidate`.
    is_live: bool,
    made: Access,
    arrivals: u32,
    /// Arrivals that this phase lacks.
    pending: u32,
    /// Bytes that are expected and have not come, or less than 0 that have come and are not expected yet.
    bytes: i64,
    /// Phases since the block began, those before the last `init` included.
    phase: u32,
    first_phase: u32,
    /// What those who have arrived in this phase make known, and in the last one.
    released: Released,
    of_last_phase: Released,
    /// Who has started the last copy.
    copying: u32,
}

impl Mbarriers {
    pub(super) fn thread_of_copies(&self, number: u32) -> u32 {
        self.0[number as usize].copying
    }
}

impl State {
    fn begin(&mut self, arrivals: u32, made: Access) {
        self.is_live = true;
        self.made = made;
        (self.arrivals, self.pending, self.bytes) = (arrivals, arrivals, 0);
        self.phase += 1;
        self.first_phase = self.phase;
        (self.released, self.of_last_phase) = Default::default();
    }

    /// Goes on to the next phase if nothing is missing in this one.
    fn advance(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.of_last_phase = core::mem::take(&mut self.released);
            self.phase += 1;
            self.pending = self.arrivals;
        }
    }
}

impl Thread {
    pub(super) fn mbarrier_init(&self, address: SharedAddress, arrivals: u32, place: Place) {
        if !(1..=LIMIT).contains(&arrivals) {
            let message = format!("a barrier for {arrivals} arrivals: there are 1 to {LIMIT}");
            self.fail(FindingKind::InvalidArgument, place, message, None, None);
        }
        self.store_mbarrier(address, place);
        let made = Access::of(self, place, Touch::Store);
        let mbarriers = &mut self.block().mbarriers.borrow_mut().0;
        let number = mbarriers.iter().position(|state| state.address == address).unwrap_or_else(|| {
            mbarriers.push(State {
                address,
                is_live: false,
                made,
                arrivals,
                pending: arrivals,
                bytes: 0,
                phase: 0,
                first_phase: 0,
                released: Released::default(),
                of_last_phase: Released::default(),
                copying: self.linear,
            });
            mbarriers.len() - 1
        });
        let state = &mut mbarriers[number];
        if state.is_live {
            self.fail(
                FindingKind::InvalidMbarrier,
                place,
                "there is a barrier already: invalidate it before",
                None,
                None,
            );
        }
        state.begin(arrivals, made);
    }

    pub(super) fn mbarrier_invalidate(&self, address: SharedAddress, place: Place) {
        self.with_mbarrier(address, place, |_, state| state.is_live = false);
        self.store_mbarrier(address, place);
    }

    /// Announces `bytes`, and arrives if `arrives`.
    pub(super) fn mbarrier_arrive(&self, address: SharedAddress, bytes: u32, arrives: bool, place: Place) {
        self.with_mbarrier(address, place, |_, state| {
            state.bytes += i64::from(bytes);
            if state.bytes > i64::from(LIMIT) {
                let message = format!("the phase expects {} bytes: there are at most {LIMIT}", state.bytes);
                self.fail(FindingKind::InvalidMbarrier, place, message, None, None);
            }
            if arrives {
                let Some(pending) = state.pending.checked_sub(1) else {
                    let message = format!("all {} threads of the phase have arrived before", state.arrivals);
                    self.fail(FindingKind::InvalidMbarrier, place, message, None, None);
                };
                state.pending = pending;
                self.release(&mut state.released, Ordering::Release, Scope::Block, place);
                state.advance();
            }
        });
        self.block().progress();
    }

    /// Whether the phase of that parity is over. If not, others run.
    pub(super) fn mbarrier_try_wait(&self, address: SharedAddress, parity: u32, place: Place) -> bool {
        let is_over = self.with_mbarrier(address, place, |number, state| {
            if parity > 1 {
                let message = format!("a parity is 0 or 1, not {parity}");
                self.fail(FindingKind::InvalidArgument, place, message, None, None);
            }
            let is_over = (state.phase - state.first_phase) % 2 != parity;
            if is_over {
                self.acquire(&state.of_last_phase, Ordering::Acquire, Scope::Block);
                self.learn_end(Kind::Load, number, state.phase);
            }
            is_over
        });
        if !is_over {
            self.spin(place);
        }
        is_over
    }

    /// Who is to make the accesses of a copy that ends with the barrier's present phase.
    pub(super) fn begin_copy(&self, address: SharedAddress, place: Place) -> Actor {
        self.with_mbarrier(address, place, |number, state| {
            if state.made.lacks_fence(self) {
                let message = "the barrier of the copy has been made without a `fence_proxy_async` between";
                self.fail(FindingKind::MissingProxyFence, place, message, None, self.thread_of(state.made));
            }
            state.copying = self.linear;
            self.actor(Kind::Load, number, state.phase, place)
        })
    }

    /// Tells the barrier that `bytes` have been copied.
    pub(super) fn end_copy(&self, address: SharedAddress, bytes: u32, place: Place) {
        self.with_mbarrier(address, place, |_, state| {
            state.bytes -= i64::from(bytes);
            state.advance();
        });
        self.block().progress();
    }

    /// Calls `f` with the number and the state of a barrier, which must be one that this thread knows to have been made.
    fn with_mbarrier<R>(&self, address: SharedAddress, place: Place, f: impl FnOnce(u32, &mut State) -> R) -> R {
        self.block().stats.borrow_mut().atomics += 1;
        self.check_shared::<u64, 1>(&self.block().shared.borrow(), address, 0, Touch::Atomic, place);
        let mbarriers = &mut self.block().mbarriers.borrow_mut().0;
        match mbarriers.iter_mut().zip(0..).find(|(state, _)| state.is_live && state.address == address) {
            Some((state, _)) if !state.made.is_before(self) => {
                let message = "the other thread made the barrier, and no barrier of the block is between";
                self.fail(FindingKind::DataRace, place, message, None, self.thread_of(state.made))
            }
            Some((state, number)) => f(number, state),
            None => {
                let message = "there is no barrier: it has not been made, or invalidated";
                self.fail(FindingKind::InvalidMbarrier, place, message, None, None)
            }
        }
    }

    fn store_mbarrier(&self, address: SharedAddress, place: Place) {
        let to = self.check_shared::<u64, 1>(&self.block().shared.borrow(), address, 0, Touch::Store, place);
        // SAFETY: the checks have passed.
        unsafe { write(to, 0) }
    }
}

//! Warp operations: lanes wait for each other, then all get their results at once.

use core::cell::{Cell, RefCell};

use super::{
    FindingKind, mma, release,
    report::Finding,
    shadow::CLOCK_LIMIT,
    thread::{Place, State, Thread},
};
use crate::warp::ShuffleMode;

/// What the lanes of a mask do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpOperation {
    Sync,
    Shuffle(ShuffleMode),
    Ballot,
    MatchAny,
    MatchAll,
    /// A product of `m` x `k` by `k` x 8.
    Multiply {
        m: usize,
        k: usize,
    },
    /// A product of 16 x 8 by 8 x 8 in TF32.
    MultiplyTf32,
}

/// Lanes that have arrived at one operation.
struct Group {
    operation: WarpOperation,
    mask: u32,
    place: Place,
    arrived: u32,
}

#[derive(Default)]
pub(super) struct Warp {
    /// The lanes that have not exited.
    pub(super) live: Cell<u32>,
    /// For each warp of the block, the time before which everything is known to have happened.
    pub(super) seen: [Cell<u32>; 32],
    /// Where its lanes wait for a block barrier: the barrier's number and the line; and how many lanes.
    pub(super) barrier: Cell<Option<(u32, Place)>>,
    pub(super) at_barrier: Cell<u32>,
    groups: RefCell<Vec<Group>>,
}

impl Warp {
    pub(super) fn reset(&self, lanes: u32) {
        self.live.set(lanes);
        self.seen.iter().for_each(|seen| seen.set(0));
        self.barrier.set(None);
        self.at_barrier.set(0);
        self.groups.borrow_mut().clear();
    }
}

/// The numbers of the bits that are set.
pub(super) fn bits(mut mask: u32) -> impl Iterator<Item = u32> + Clone {
    core::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < 32).then_some(bit)
    })
}

/// Whether two calls are the same line. One line can have several locations in memory.
pub(super) fn same_place(a: Place, b: Place) -> bool {
    core::ptr::eq(a, b) || a == b
}

impl Thread {
    /// Takes part in a warp operation: waits for the other lanes, and returns this lane's result.
    #[inline(always)]
    pub(super) fn warp_operation(&self, operation: WarpOperation, mask: u32, input: u64, place: Place) -> (u64, bool) {
        if !self.arrive_at_warp_operation(operation, mask, input, place) {
            self.wait(State::AtWarpOperation(place));
        }
        self.output.get()
    }

    /// Brings `input` to a warp operation. Whether this lane came last: then all have their results, and the others go on.
    fn arrive_at_warp_operation(&self, operation: WarpOperation, mask: u32, input: u64, place: Place) -> bool {
        let warp = self.warp();
        let me = 1 << self.lane;
        self.block().stats.borrow_mut().warp_operations += 1;
        if mask & me == 0 {
            let message = format!("lane {} calls a warp operation with mask {mask:#010x}", self.lane);
            self.fail(FindingKind::CallerNotInMask, place, message, None, None);
        }
        if let Some(lane) = bits(mask & !warp.live.get()).next() {
            let message = format!("mask {mask:#010x} names lane {lane}, which has exited or does not exist");
            let other = self.lane_mate(lane).map(|other| other.place(None));
            self.fail(FindingKind::LaneExited, place, message, None, other);
        }
        self.input.set(input);

        let mut groups = warp.groups.borrow_mut();
        let same = |group: &Group| group.mask == mask && group.operation == operation && same_place(group.place, place);
        let number = groups.iter().position(same).unwrap_or_else(|| {
            // Each waits for the other. If only one waits, the other may get there later.
            if let Some(group) = groups.iter().find(|group| group.mask & me != 0 && group.arrived & mask != 0) {
                let message = format!(
                    "{operation:?} with mask {mask:#010x} here, {:?} with mask {:#010x} there",
                    group.operation, group.mask
                );
                let other = self.lane_mate(group.arrived.trailing_zeros()).map(|other| other.place(Some(group.place)));
                self.fail(FindingKind::WarpDivergence, place, message, None, other);
            }
            groups.push(Group { operation, mask, place, arrived: 0 });
            groups.len() - 1
        });
        groups[number].arrived |= me;
        if groups[number].arrived != mask {
            return false;
        }
        groups.swap_remove(number);
        drop(groups);
        self.complete(operation, mask, place);
        for lane in bits(mask & !me) {
            self.block().wake(self.linear - self.lane + lane);
        }
        true
    }

    /// What is left to do for a thread that exits: no lane may be waiting for it.
    pub(super) fn leave_warp(&self) {
        let groups = self.warp().groups.borrow();
        let Some(group) = groups.iter().find(|group| group.mask & 1 << self.lane != 0) else {
            return;
        };
        let Some(waiting) = self.lane_mate(group.arrived.trailing_zeros()) else {
            return;
        };
        let message = format!("mask {:#010x} names lane {}, which has exited", group.mask, self.lane);
        let mut finding = waiting.finding(FindingKind::LaneExited, message);
        finding.place.location = Some(group.place);
        finding.other = Some(self.place(None));
        self.block().report(finding);
    }

    fn lane_mate(&self, lane: u32) -> Option<&Self> {
        self.block().threads.get((self.linear - self.lane + lane) as usize)
    }

    /// Gives every lane of the mask its result; this lane came last.
    fn complete(&self, operation: WarpOperation, mask: u32, place: Place) {
        let first = (self.linear - self.lane) as usize;
        let block = self.block();
        let warp = &block.threads[first..(first + 32).min(block.threads.len())];
        let lanes = || bits(mask).map(|lane| &warp[lane as usize]);
        block.progress();
        match operation {
            WarpOperation::Sync => self.join(mask, warp, place),
            WarpOperation::Ballot => {
                let ballot = lanes().fold(0, |ballot, thread| ballot | thread.input.get() << thread.lane);
                lanes().for_each(|thread| thread.output.set((ballot, true)));
            }
            WarpOperation::MatchAny => lanes().for_each(|thread| {
                let equal = lanes().filter(|other| other.input.get() == thread.input.get());
                thread.output.set((equal.fold(0, |equal, other| equal | 1 << other.lane), true));
            }),
            WarpOperation::MatchAll => {
                let all = lanes().all(|thread| thread.input.get() == self.input.get());
                lanes().for_each(|thread| thread.output.set((if all { u64::from(mask) } else { 0 }, all)));
            }
            WarpOperation::Shuffle(mode) => lanes().for_each(|thread| {
                let source = shuffle_source(mode, thread.lane, thread.operand.get(), thread.width.get());
                let from = source.unwrap_or(thread.lane);
                if mask & 1 << from == 0 {
                    let message = format!("lane {} reads lane {from}, mask is {mask:#010x}", thread.lane);
                    thread.fail(FindingKind::ShuffleFromInactiveLane, place, message, None, None);
                }
                thread.output.set((warp[from as usize].input.get(), source.is_some()));
            }),
            WarpOperation::Multiply { m, k } => mma::multiply(warp, m, k),
            WarpOperation::MultiplyTf32 => mma::multiply_tf32(warp),
        }
    }

    /// Orders what the lanes did before ahead of what they do after.
    fn join(&self, mask: u32, warp: &[Self], place: Place) {
        let mut seen = [0; 32];
        for lane in bits(mask) {
            let thread = &warp[lane as usize];
            seen.iter_mut().zip(&thread.lanes_seen).for_each(|(seen, theirs)| *seen = theirs.get().max(*seen));
        }
        for lane in bits(mask) {
            let thread = &warp[lane as usize];
            thread.advance_clock(thread.clock.get() + 1, place);
            seen[lane as usize] = thread.clock.get();
        }
        for lane in bits(mask) {
            warp[lane as usize].lanes_seen.iter().zip(seen).for_each(|(mine, seen)| mine.set(seen));
        }
        release::share(bits(mask).map(|lane| &warp[lane as usize]));
    }

    pub(super) fn advance_clock(&self, clock: u32, place: Place) {
        if clock >= CLOCK_LIMIT {
            let message = format!("more than {CLOCK_LIMIT} barriers in one block");
            // Not `fail`, which unwinds: this also runs for threads that are not on their own stack.
            let finding = self.finding(FindingKind::InvalidArgument, message);
            self.block().report(Finding { place: self.place(Some(place)), ..finding });
        }
        self.clock.set(clock);
    }
}

/// The lane that `shfl.sync` reads from, or `None` outside the segment: the rules of the PTX ISA, with the operands
/// that CUDA passes for a width.
fn shuffle_source(mode: ShuffleMode, lane: u32, operand: u32, width: u32) -> Option<u32> {
    let first = lane & !(width - 1);
    let last = first + width - 1;
    let operand = operand & 31;
    match mode {
        ShuffleMode::Index => Some(first | operand & (width - 1)),
        ShuffleMode::Up => lane.checked_sub(operand).filter(|&source| source >= first),
        ShuffleMode::Down => Some(lane + operand).filter(|&source| source <= last),
        // Lower segments can be read, higher ones cannot.
        ShuffleMode::Xor => Some(lane ^ operand).filter(|&source| source <= last),
    }
}

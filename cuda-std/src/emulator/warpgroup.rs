//! What the 128 threads of a warpgroup do together.

use super::{
    report::FindingKind,
    thread::{Place, State, Thread},
    warp::same_place,
    wgmma::{Descriptor, Numbers},
};

/// Threads of a warpgroup.
pub(super) const WARPGROUP: u32 = 128;

/// A thread's elements of a product.
pub(super) type Sums = [f32; 64];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WarpgroupOperation {
    /// Products, one after the other. The descriptors of the operands `A` and `B` of each.
    Multiply(Numbers, Vec<(Descriptor, Descriptor)>),
    SetRegisters(u32),
}

/// Threads that have come to an operation, and how many regions of products there have been.
#[derive(Default)]
pub(super) struct Warpgroup {
    meeting: Option<(WarpgroupOperation, Place)>,
    arrived: Vec<u32>,
    pub(super) regions: u32,
}

impl Thread {
    /// Waits for the other threads of the warpgroup. The last one to come does what all are here for.
    pub(super) fn warpgroup_operation(&self, operation: WarpgroupOperation, place: Place) {
        let block = self.block();
        block.stats.borrow_mut().warp_operations += 1;
        let number = (self.linear / WARPGROUP) as usize;
        let warps = 4 * number..4 * number + 4;
        let is_whole = block.warps.get(warps).is_some_and(|warps| warps.iter().all(|warp| warp.live.get() == u32::MAX));
        if !is_whole {
            let message = format!("a thread of warpgroup {number} has exited or does not exist");
            self.fail(FindingKind::LaneExited, place, message, None, None);
        }
        let mut warpgroup = block.warpgroups[number].borrow_mut();
        if let Some((theirs, there)) =
            warpgroup.meeting.as_ref().filter(|(theirs, there)| *theirs != operation || !same_place(there, place))
        {
            let what = match (theirs, &operation) {
                (WarpgroupOperation::Multiply(numbers, _), WarpgroupOperation::Multiply(others, _))
                    if numbers == others && same_place(there, place) =>
                {
                    "with other descriptors"
                }
                _ => "at another operation",
            };
            let other = block.threads[warpgroup.arrived[0] as usize].place(Some(there));
            let message = format!("threads of warpgroup {number} are {what}");
            self.fail(FindingKind::WarpDivergence, place, message, None, Some(other));
        }
        warpgroup.arrived.push(self.linear);
        if warpgroup.arrived.len() < WARPGROUP as usize {
            warpgroup.meeting.get_or_insert((operation, place));
            drop(warpgroup);
            self.wait(State::AtWarpOperation(place));
            return;
        }
        warpgroup.meeting = None;
        let arrived = core::mem::take(&mut warpgroup.arrived);
        if let WarpgroupOperation::Multiply(numbers, products) = operation {
            warpgroup.regions += 1;
            let region = warpgroup.regions;
            drop(warpgroup);
            self.multiply(numbers, &products, region, place);
        }
        block.progress();
        arrived.into_iter().filter(|&thread| thread != self.linear).for_each(|thread| block.wake(thread));
    }
}

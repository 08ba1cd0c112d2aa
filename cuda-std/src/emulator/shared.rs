//! The shared memory of a block: one allocation for each array that its kernel declares.

use core::any::TypeId;

use super::{memory::Allocation, shadow::Now, thread::Place, warp::same_place};

/// What makes two declarations the same array: source line and column, element type and length.
struct Identity {
    place: Place,
    element: TypeId,
    bytes: usize,
}

/// Array 0 is the dynamic shared memory.
pub(super) struct SharedMemory {
    arrays: Vec<(Option<Identity>, Allocation)>,
    /// Counts the blocks that have used it, so that what one wrote is uninitialised to the next.
    uses: u32,
}

impl SharedMemory {
    pub(super) fn new(dynamic_bytes: u32) -> Self {
        let dynamic = Allocation::owned(dynamic_bytes as usize, 1, false).with_label("dynamic shared memory");
        Self { arrays: vec![(None, dynamic)], uses: 0 }
    }

    /// Forgets all contents.
    pub(super) fn reset(&mut self) {
        self.uses += 1;
    }

    /// The number of the array that belongs to a place in the source, new if no thread came by it before.
    pub(super) fn declare(&mut self, place: Place, element: TypeId, element_bytes: usize, len: usize) -> u32 {
        let bytes = element_bytes * len;
        let same = |identity: &Identity| {
            identity.element == element && identity.bytes == bytes && same_place(identity.place, place)
        };
        let known = self.arrays.iter().position(|(identity, _)| identity.as_ref().is_some_and(same));
        known.unwrap_or_else(|| {
            let label = format!("array of {}:{}", place.file(), place.line());
            let array = Allocation::owned(bytes, element_bytes, false).with_label(&label);
            self.arrays.push((Some(Identity { place, element, bytes }), array));
            self.arrays.len() - 1
        }) as u32
    }

    pub(super) fn array(&self, number: u32) -> (&Allocation, Now) {
        let now = Now { epoch: self.uses, launch: self.uses, initialised: false, outlives: false, contended: false };
        (&self.arrays[number as usize].1, now)
    }
}

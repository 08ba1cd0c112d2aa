//! The shared memory of a block: one allocation for each array that its kernel declares.

use core::any::TypeId;

use super::{memory::Allocation, shadow::Now, thread::Place, warp::same_place};
use crate::mem::DeviceValue;

/// An array that a kernel declares: in a source line and column, of an element type and a length.
struct Declared {
    place: Place,
    element: TypeId,
    bytes: usize,
    /// The threads of the block that have come by, a bit each.
    visitors: [u32; 32],
    memory: Allocation,
}

pub(super) struct SharedMemory {
    dynamic: Allocation,
    declared: Vec<Declared>,
    /// Counts the blocks that have used it, so that what one wrote is uninitialised to the next.
    uses: u32,
}

impl SharedMemory {
    pub(super) fn new(dynamic_bytes: u32) -> Self {
        let dynamic = Allocation::owned(dynamic_bytes as usize, 1, false).with_label("dynamic shared memory");
        Self { dynamic, declared: Vec::new(), uses: 0 }
    }

    /// Forgets all contents.
    pub(super) fn reset(&mut self) {
        self.uses += 1;
        self.declared.iter_mut().for_each(|array| array.visitors = [0; 32]);
    }

    /// The number of the array that belongs to a place in the source, new if no thread came by it before. None if this
    /// thread did.
    pub(super) fn declare<T: DeviceValue>(&mut self, place: Place, len: usize, thread: u32) -> Option<u32> {
        let (element, bytes) = (TypeId::of::<T>(), len * size_of::<T>());
        let same =
            |array: &Declared| array.element == element && array.bytes == bytes && same_place(array.place, place);
        let number = self.declared.iter().position(same).unwrap_or_else(|| {
            let label = format!("array of {}:{}", place.file(), place.line());
            let memory = Allocation::owned(bytes, size_of::<T>(), false).with_label(&label);
            self.declared.push(Declared { place, element, bytes, visitors: [0; 32], memory });
            self.declared.len() - 1
        });
        let (visitors, visitor) = (&mut self.declared[number].visitors[thread as usize / 32], 1 << (thread % 32));
        let is_first = *visitors & visitor == 0;
        *visitors |= visitor;
        is_first.then_some(number as u32 + 1)
    }

    /// An array by its number: 0 is the dynamic shared memory.
    pub(super) fn array(&self, number: u32) -> (&Allocation, Now) {
        let now = Now { epoch: self.uses, launch: self.uses, initialised: false, outlives: false, contended: false };
        let declared = number.checked_sub(1).map(|declared| &self.declared[declared as usize].memory);
        (declared.unwrap_or(&self.dynamic), now)
    }
}

//! The shared memory of a block: one allocation for each array that its kernel declares.

use core::{any::TypeId, cell::Cell};

use super::{
    access::SharedAddress,
    memory::Allocation,
    shadow::{Access, Now, WORD_BYTES},
    thread::Place,
    warp::same_place,
};
use crate::{mem::DeviceValue, tma::Swizzle};

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
    /// By which swizzle each 16 bytes of the dynamic shared memory were copied there, if by any; and whether any were.
    swizzles: Box<[Cell<Option<Swizzle>>]>,
    has_swizzles: Cell<bool>,
    declared: Vec<Declared>,
    /// Counts the blocks that have used it, so that what one wrote is uninitialised to the next.
    uses: u32,
}

impl SharedMemory {
    pub(super) fn new(dynamic_bytes: u32) -> Self {
        let dynamic = Allocation::owned(dynamic_bytes as usize, 1, false).with_label("dynamic shared memory");
        let swizzles = vec![Cell::new(None); dynamic_bytes.div_ceil(16) as usize].into();
        Self { dynamic, swizzles, has_swizzles: Cell::new(false), declared: Vec::new(), uses: 0 }
    }

    /// Forgets all contents.
    pub(super) fn reset(&mut self) {
        self.uses += 1;
        if self.has_swizzles.replace(false) {
            self.swizzles.iter().for_each(|swizzle| swizzle.set(None));
        }
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

    /// Who last wrote the word of that number from an address on.
    pub(super) fn last_write(&self, address: SharedAddress, word: usize) -> Access {
        let (allocation, _) = self.array(address.array);
        let write =
            allocation.shadow.as_ref().map(|shadow| shadow.last_write(address.byte as usize / WORD_BYTES + word));
        write.unwrap_or(Access::NONE)
    }

    /// By which swizzle a bulk copy has written these 16 bytes, if it was one that did.
    pub(super) fn swizzle(&self, array: u32, byte: u32) -> Option<Swizzle> {
        if array == 0 { self.swizzles.get(byte as usize / 16)?.get() } else { None }
    }

    /// Notes the swizzle of a bulk copy of 16 bytes.
    pub(super) fn note_swizzle(&self, array: u32, byte: u32, swizzle: Swizzle) {
        if array == 0 {
            self.has_swizzles.set(true);
            self.swizzles[byte as usize / 16].set(Some(swizzle));
        }
    }

    /// Notes that something else was stored there.
    pub(super) fn forget_swizzle(&self, array: u32, byte: usize, bytes: usize) {
        if array == 0 && self.has_swizzles.get() {
            self.swizzles[byte / 16..(byte + bytes).div_ceil(16)].iter().for_each(|swizzle| swizzle.set(None));
        }
    }
}

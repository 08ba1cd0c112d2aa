//! Every access of a kernel to memory: first all checks, then the bytes.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{
    block::unravel,
    memory::{self, Allocation},
    proxy::Kind,
    report::{FindingKind, MemoryPlace, ThreadPlace},
    shadow::{Access, Now, Problem, Touch, WORD_BYTES},
    shared::SharedMemory,
    thread::{Place, Thread},
};
use crate::{
    atomic::Scope,
    mem::{DeviceValue, NarrowValue},
};

/// Where an array in shared memory is: its number in the block, and the byte that a handle stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedAddress {
    pub(crate) array: u32,
    pub(crate) byte: u32,
}

/// What of memory an access wants.
#[derive(Clone, Copy)]
struct Request {
    address: usize,
    bytes: usize,
    /// The multiple that the address must be of.
    align: usize,
    touch: Touch,
    place: Place,
    space: &'static str,
}

impl Thread {
    /// Runs all checks of an access to `N` consecutive elements of global memory, and returns where they are.
    pub(super) fn check_global<T: DeviceValue, const N: usize>(
        &self,
        ptr: *const T,
        touch: Touch,
        place: Place,
    ) -> &Allocation {
        self.check_global_bytes(ptr as usize, size_of::<[T; N]>(), touch, place)
    }

    /// Runs all checks of an access to so many bytes of global memory, and returns where they are.
    pub(super) fn check_global_bytes(&self, address: usize, bytes: usize, touch: Touch, place: Place) -> &Allocation {
        let request = Request { address, bytes, align: bytes.min(16), touch, place, space: "global" };
        let allocation = self.allocation(request);
        let launch = &self.block().launch;
        if allocation.is_of_system {
            if !matches!(touch, Touch::Atomic | Touch::AtomicStore) {
                let message = "other devices access this memory at the same time, and the access is no atomic";
                self.fail_at(FindingKind::DataRace, request, message, Some(allocation), None);
            }
        } else if touch.writes() {
            if allocation.shadow.is_none() {
                let message = "the launch has this memory for reading only";
                self.fail_at(FindingKind::WriteToReadOnly, request, message, Some(allocation), None);
            }
            launch.before_write(allocation);
        }
        self.check(allocation, launch.now(allocation), request);
        allocation
    }

    /// Runs all checks of an atomic on global memory.
    pub(super) fn check_atomic<T: DeviceValue>(
        &self,
        ptr: *const T,
        touch: Touch,
        scope: Scope,
        place: Place,
    ) -> &Allocation {
        let allocation = self.check_global::<T, 1>(ptr, touch, place);
        if allocation.is_of_system && (scope != Scope::System || size_of::<T>() != size_of::<u64>()) {
            let bytes = size_of::<T>();
            let request = Request { address: ptr as usize, bytes, align: bytes, touch, place, space: "global" };
            let message = "other devices access this memory at the same time, and the atomic is not one of 64 bits in the system's scope";
            self.fail_at(FindingKind::DataRace, request, message, Some(allocation), None);
        }
        allocation
    }

    /// Runs all checks of an access to `N` consecutive elements of shared memory, and returns their address.
    pub(super) fn check_shared<T: DeviceValue, const N: usize>(
        &self,
        shared: &SharedMemory,
        base: SharedAddress,
        index: u32,
        touch: Touch,
        place: Place,
    ) -> *mut T {
        let bytes = size_of::<[T; N]>();
        let (allocation, now) = shared.array(base.array);
        let address = allocation.start + base.byte as usize + index as usize * size_of::<T>();
        let request = Request { address, bytes, align: bytes.min(16), touch, place, space: "shared" };
        self.check(allocation, now, request);
        if touch.writes() {
            shared.forget_swizzle(base.array, address - allocation.start, bytes);
        }
        address as *mut T
    }

    /// The allocation that an access to global memory starts in.
    #[inline]
    fn allocation(&self, request: Request) -> &Allocation {
        let block = self.block();
        // A source line mostly touches one allocation, so each line remembers the last. Lines can share a slot:
        // what they find there is checked like everything else.
        let recent = &block.recent[core::ptr::from_ref(request.place) as usize / size_of::<usize>() % 64];
        // SAFETY: points into the launch's allocations, which live as long as the block.
        if let Some(allocation) = unsafe { recent.get().as_ref() }
            && allocation.contains(request.address, request.bytes)
        {
            return allocation;
        }
        let allocations = &block.launch.allocations;
        let before = &allocations[..allocations.partition_point(|allocation| allocation.start <= request.address)];
        // Borrowed slices can overlap: one that holds the whole access comes first.
        let holds = |bytes: usize| before.iter().rev().find(move |a| a.contains(request.address, bytes));
        let Some(allocation) = holds(request.bytes).or_else(|| holds(1)) else { self.fail_outside(request) };
        recent.set(&raw const **allocation);
        allocation
    }

    #[inline]
    fn check(&self, allocation: &Allocation, now: Now, request: Request) {
        let offset = request.address.wrapping_sub(allocation.start);
        if !request.address.is_multiple_of(request.align) {
            let message = format!("the access needs an address that is a multiple of {} bytes", request.align);
            self.fail_at(FindingKind::Misaligned, request, message, Some(allocation), None);
        }
        if !allocation.contains(request.address, request.bytes) {
            let message = "the access goes beyond the end of the memory";
            self.fail_at(FindingKind::OutOfBounds, request, message, Some(allocation), None);
        }
        let Some(shadow) = &allocation.shadow else { return };
        let words = offset / WORD_BYTES..(offset + request.bytes).div_ceil(WORD_BYTES);
        if let Some((word, problem)) = shadow.touch(words, self, request.place, request.touch, now) {
            let address = allocation.start + word * WORD_BYTES;
            self.fail_problem(problem, Request { address, ..request }, allocation);
        }
    }

    #[cold]
    fn fail_problem(&self, problem: Problem, request: Request, allocation: &Allocation) -> ! {
        let verb = match request.touch {
            Touch::Load | Touch::ReadOnlyLoad => "reads",
            Touch::Store | Touch::StartOfCopy | Touch::EndOfCopy => "writes",
            Touch::AsyncLoad(_) => "lets a copy or a product read",
            Touch::AsyncStore(_) => "lets a copy write",
            Touch::Atomic | Touch::AtomicStore => "atomically accesses",
        };
        let (kind, message, other) = match problem {
            Problem::Uninitialised => {
                (FindingKind::Uninitialised, "the memory has never been written".to_owned(), None)
            }
            Problem::ReadOnlyLoadOfWritten(access) => {
                let message =
                    "one access is a read-only load or a copy, the other writes, both in this launch".to_owned();
                (FindingKind::ReadOnlyLoadOfWritten, message, self.thread_of(access))
            }
            Problem::CopyUnderWay(start) => {
                let by = if start.thread() == self.linear { "this thread" } else { "the other thread" };
                let message =
                    format!("this thread {verb} where a copy is under way: no `wait_copies` of {by} has ended it");
                (FindingKind::CopyUnderWay, message, self.thread_of(start))
            }
            Problem::MissingProxyFence(store) => {
                let message =
                    format!("this thread {verb} what the other stored, and no `fence_proxy_async` is between");
                (FindingKind::MissingProxyFence, message, self.thread_of(store))
            }
            Problem::Race { other, .. } if Kind::of(other.block).is_some() => {
                let (kind, theirs) = match Kind::of(other.block) {
                    Some(Kind::Load) => {
                        (FindingKind::CopyUnderWay, "a bulk copy brings, and does not know that its phase has ended")
                    }
                    Some(Kind::ReadOfStore) => {
                        (FindingKind::CopyUnderWay, "a bulk copy reads that no `wait_reads_of_stores` has ended")
                    }
                    Some(Kind::Store) => {
                        (FindingKind::CopyUnderWay, "a bulk copy writes that no `wait_stores` has ended")
                    }
                    _ => (FindingKind::DataRace, "a product reads, and no barrier is between"),
                };
                (kind, format!("this thread {verb} what {theirs}"), self.thread_of(other))
            }
            Problem::Race { other, other_wrote } => {
                let theirs = if other_wrote { "wrote" } else { "read" };
                let message = format!("this thread {verb} what the other {theirs}, and no barrier is between");
                (FindingKind::DataRace, message, self.thread_of(other))
            }
        };
        self.fail_at(kind, request, message, Some(allocation), other)
    }

    pub(super) fn thread_of(&self, access: Access) -> Option<ThreadPlace> {
        let launch = &self.block().launch;
        let thread = match Kind::of(access.block) {
            Some(Kind::Load) => self.block().mbarriers.borrow().thread_of_copies(access.thread()),
            Some(Kind::Product) => 128 * access.thread(),
            _ => access.thread(),
        };
        let (block, thread) = (Kind::block_of(access.block), unravel(thread, launch.block_dim));
        let block = unravel(block, launch.grid_dim);
        access.location.map(|location| ThreadPlace { block, thread, location: Some(location) })
    }

    /// Reports an access that is in no live allocation.
    #[cold]
    fn fail_outside(&self, request: Request) -> ! {
        if let Some(dropped) = memory::dropped_buffer(request.address) {
            let message = "the buffer has been dropped";
            self.fail_at(FindingKind::UseAfterFree, request, message, Some(&dropped), None);
        }
        let distance = |allocation: &Allocation| {
            let end = allocation.start + allocation.bytes;
            request.address.saturating_sub(end).max(allocation.start.saturating_sub(request.address))
        };
        let nearest = self.block().launch.allocations.iter().min_by_key(|allocation| distance(allocation));
        let nearest = nearest.filter(|allocation| distance(allocation) < 1 << 20);
        let message = "the address is in no memory of this launch";
        self.fail_at(FindingKind::OutOfBounds, request, message, nearest.map(|nearest| &**nearest), None)
    }

    #[cold]
    fn fail_at(
        &self,
        kind: FindingKind,
        request: Request,
        message: impl Into<String>,
        allocation: Option<&Allocation>,
        other: Option<ThreadPlace>,
    ) -> ! {
        let memory = MemoryPlace {
            space: request.space,
            allocation: allocation.map(|allocation| allocation.label().to_owned()),
            length: allocation.map_or(0, |allocation| allocation.bytes / allocation.element_bytes),
            element_bytes: allocation.map_or(1, |allocation| allocation.element_bytes),
            byte_offset: allocation.map_or(0, |a| request.address.wrapping_sub(a.start) as isize),
            address: request.address,
            access_bytes: request.bytes,
        };
        self.fail(kind, request.place, message, Some(memory), other)
    }
}

/// Reads a value that the checks have passed.
///
/// # Safety
/// The value lies in live, initialised memory, aligned to 4 bytes, which other CPU threads access atomically at most.
#[inline]
pub(super) unsafe fn read<T: DeviceValue>(ptr: *const T) -> T {
    // SAFETY: by the caller's promise; `T` is 4 or 8 bytes of any bits. Atomic, because a kernel with a race that is
    // about to be found may write at the same time; volatile would do the same where slices are read-only.
    unsafe {
        if size_of::<T>() == 4 {
            from_bits(u64::from(AtomicU32::from_ptr(ptr.cast_mut().cast()).load(Relaxed)))
        } else if (ptr as usize).is_multiple_of(8) {
            from_bits(AtomicU64::from_ptr(ptr.cast_mut().cast()).load(Relaxed))
        } else {
            let words = ptr.cast::<u32>();
            from_bits(u64::from(read(words)) | u64::from(read(words.add(1))) << 32)
        }
    }
}

/// Reads a value of 1 or 2 bytes that the checks have passed.
///
/// # Safety
/// As for [`read`], aligned to its size.
#[inline]
pub(super) unsafe fn read_narrow<N: NarrowValue>(ptr: *const N) -> u32 {
    // SAFETY: by the caller's promise; `N` is 1 or 2 bytes of any bits. Atomic as in `read`.
    unsafe {
        match size_of::<N>() {
            1 => AtomicU8::from_ptr(ptr.cast_mut().cast()).load(Relaxed).into(),
            _ => AtomicU16::from_ptr(ptr.cast_mut().cast()).load(Relaxed).into(),
        }
    }
}

/// Writes a value that the checks have passed.
///
/// # Safety
/// The value lies in live, writable memory, aligned to 4 bytes, which other CPU threads access atomically at most.
#[inline]
pub(super) unsafe fn write<T: DeviceValue>(ptr: *mut T, value: T) {
    let bits = to_bits(value);
    // SAFETY: as for `read`.
    unsafe {
        if size_of::<T>() == 4 {
            AtomicU32::from_ptr(ptr.cast()).store(bits as u32, Relaxed);
        } else if (ptr as usize).is_multiple_of(8) {
            AtomicU64::from_ptr(ptr.cast()).store(bits, Relaxed);
        } else {
            let words = ptr.cast::<u32>();
            write(words, bits as u32);
            write(words.add(1), (bits >> 32) as u32);
        }
    }
}

/// Replaces a value by what `change` makes of it, unless that is None, at one stroke. Returns the old one and the new one.
///
/// # Safety
/// The value lies in live, initialised, writable memory, aligned to its size.
pub(super) unsafe fn update<T: DeviceValue>(ptr: *mut T, change: impl Fn(T) -> Option<T>) -> (T, Option<T>) {
    let new = |old: u64| change(from_bits(old)).map(to_bits);
    // SAFETY: as for `read`.
    let old = unsafe {
        if size_of::<T>() == 4 {
            let atomic = AtomicU32::from_ptr(ptr.cast());
            let old = atomic.fetch_update(Relaxed, Relaxed, |old| new(u64::from(old)).map(|new| new as u32));
            u64::from(old.unwrap_or_else(|old| old))
        } else {
            AtomicU64::from_ptr(ptr.cast()).fetch_update(Relaxed, Relaxed, new).unwrap_or_else(|old| old)
        }
    };
    (from_bits(old), new(old).map(from_bits))
}

/// The bits of a value, in the low bytes.
#[inline]
pub(super) fn to_bits<T: DeviceValue>(value: T) -> u64 {
    // SAFETY: the trait promises 4 or 8 bytes without padding.
    unsafe {
        if size_of::<T>() == 4 {
            u64::from(core::mem::transmute_copy::<T, u32>(&value))
        } else {
            core::mem::transmute_copy::<T, u64>(&value)
        }
    }
}

/// The value of those bits.
#[inline]
pub(super) fn from_bits<T: DeviceValue>(bits: u64) -> T {
    // SAFETY: the trait promises 4 or 8 bytes, of which any value is one.
    unsafe {
        if size_of::<T>() == 4 {
            core::mem::transmute_copy::<u32, T>(&(bits as u32))
        } else {
            core::mem::transmute_copy::<u64, T>(&bits)
        }
    }
}

//! Global memory: buffers that the emulator owns, slices that a launch borrows, and the registry of both.

use core::{fmt, marker::PhantomData, ptr::NonNull, sync::atomic::AtomicU64};
use std::{
    alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error},
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use super::shadow::{Shadow, WORD_BYTES};
use crate::mem::DeviceValue;

/// Bytes before and after each buffer that belong to none, so that every step over its edge is found.
const GUARD: usize = 256;
/// What every allocation begins at a multiple of: as much as any access needs. So an address is aligned if its offset is.
const ALIGNMENT: usize = 16;
/// Dropped buffers keep their addresses until this many bytes are waiting, so that stale pointers are found.
const QUARANTINE_BYTES: usize = 64 << 20;

/// A stretch of global memory that kernels may access.
pub(super) struct Allocation {
    pub(super) start: usize,
    pub(super) bytes: usize,
    pub(super) element_bytes: usize,
    /// Whether it was initialised before any kernel ran.
    pub(super) initialised: bool,
    /// Who touched what. None for read-only memory, which needs no record: nothing can go wrong among reads; and for that of several devices.
    pub(super) shadow: Option<Shadow>,
    /// Whether launches on other CPU threads access it at the same time.
    pub(super) is_of_system: bool,
    label: OnceLock<String>,
    /// The base and layout of memory that is freed with the allocation; None for a borrowed slice that is used as it is.
    owned: Option<(NonNull<u8>, Layout)>,
    /// The slice for writing that this is a copy of.
    copy_of: Option<NonNull<u8>>,
}

// SAFETY: the pointers are owned or of slices that the launch borrows; what they point to is accessed as the launches' rules allow.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// The memory that it holds at most: its bytes, the guards, and its shadow, of 64 bytes for each word of 4.
    fn held_bytes(&self) -> usize {
        self.bytes * if self.shadow.is_some() { 17 } else { 1 } + 2 * GUARD
    }

    pub(super) fn owned(bytes: usize, element_bytes: usize, initialised: bool) -> Self {
        let layout = Layout::from_size_align(bytes + 2 * GUARD, GUARD).expect("a buffer fits the address space");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Self {
            start: base.as_ptr() as usize + GUARD,
            bytes,
            element_bytes,
            initialised,
            shadow: Some(Shadow::new(bytes)),
            is_of_system: false,
            label: OnceLock::new(),
            owned: Some((base, layout)),
            copy_of: None,
        }
    }

    /// Zeros for the launches of several CPU threads.
    fn of_system(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes + 2 * GUARD, GUARD).expect("a buffer fits the address space");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Self {
            start: base.as_ptr() as usize + GUARD,
            bytes,
            element_bytes: size_of::<u64>(),
            initialised: true,
            shadow: None,
            is_of_system: true,
            label: OnceLock::new(),
            owned: Some((base, layout)),
            copy_of: None,
        }
    }

    pub(super) fn with_label(self, label: &str) -> Self {
        self.label.get_or_init(|| label.to_owned());
        self
    }

    /// A slice that a launch borrows, or a copy of it if it does not begin where a buffer of a GPU could.
    pub(super) fn borrowed<T: DeviceValue>(slice: NonNull<[T]>, label: &str, writable: bool) -> Self {
        let (slice, bytes) = (slice.cast::<u8>(), slice.len() * size_of::<T>());
        let start = slice.as_ptr() as usize;
        let memory = if start.is_multiple_of(ALIGNMENT) {
            Self {
                start,
                bytes,
                element_bytes: size_of::<T>(),
                initialised: true,
                shadow: writable.then(|| Shadow::new(bytes)),
                is_of_system: false,
                label: OnceLock::new(),
                owned: None,
                copy_of: None,
            }
        } else {
            let mut copy = Self::owned(bytes, size_of::<T>(), true);
            // SAFETY: the copy has just been made with as many bytes.
            unsafe { core::ptr::copy_nonoverlapping(slice.as_ptr(), copy.start as *mut u8, bytes) }
            if writable {
                copy.copy_of = Some(slice);
            } else {
                copy.shadow = None;
            }
            copy
        };
        memory.with_label(label)
    }

    /// Writes the contents of a copy back to the slice.
    pub(super) fn write_back(&self) {
        if let Some(slice) = self.copy_of {
            // SAFETY: the launch borrows the slice for writing, and it has as many bytes.
            unsafe { core::ptr::copy_nonoverlapping(self.start as *const u8, slice.as_ptr(), self.bytes) }
        }
    }

    pub(super) fn contains(&self, address: usize, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.start);
        offset < self.bytes && bytes <= self.bytes - offset
    }

    pub(super) fn label(&self) -> &str {
        self.label.get().map_or("unnamed buffer", String::as_str)
    }

    fn is_initialised(&self) -> bool {
        let shadow = self.shadow.as_ref();
        self.initialised || shadow.is_none_or(|shadow| (0..self.bytes / WORD_BYTES).all(|i| shadow.is_initialised(i)))
    }

    /// A copy of contents and initialised state, to go back to.
    pub(super) fn save(&self) -> Saved {
        let words = self.bytes / WORD_BYTES;
        let contents = self.start as *const u32;
        Saved {
            // SAFETY: the allocation is live, and no launch is writing to it yet. Words of uninitialised memory are
            // not looked at.
            contents: (0..words)
                .map(|i| unsafe { contents.add(i).cast::<core::mem::MaybeUninit<u32>>().read() })
                .collect(),
            initialised: match &self.shadow {
                Some(shadow) if !self.initialised => (0..words).map(|i| shadow.is_initialised(i)).collect(),
                _ => Vec::new(),
            },
        }
    }

    /// Goes back to what [`save`](Self::save) saw.
    pub(super) fn restore(&self, saved: &Saved) {
        // SAFETY: the allocation is live and writable, and no launch is running on it.
        unsafe {
            core::ptr::copy_nonoverlapping(
                saved.contents.as_ptr(),
                self.start as *mut core::mem::MaybeUninit<u32>,
                saved.contents.len(),
            );
        }
        if let (Some(shadow), false) = (&self.shadow, self.initialised) {
            shadow.set_initialised(|i| saved.initialised[i]);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some((base, layout)) = self.owned {
            // SAFETY: allocated with this layout, freed once.
            unsafe { dealloc(base.as_ptr(), layout) }
        }
    }
}

/// Contents and initialised state of an allocation at one time.
pub(super) struct Saved {
    contents: Vec<core::mem::MaybeUninit<u32>>,
    initialised: Vec<bool>,
}

/// Every live buffer of the process, and the lately dropped ones.
struct Registry {
    live: BTreeMap<usize, Arc<Allocation>>,
    dropped: VecDeque<Arc<Allocation>>,
    dropped_bytes: usize,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { live: BTreeMap::new(), dropped: VecDeque::new(), dropped_bytes: 0 });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The buffers alive now, by address.
pub(super) fn live_buffers() -> Vec<Arc<Allocation>> {
    registry().live.values().cloned().collect()
}

/// The dropped buffer that the address was in, if that is not too long ago.
pub(super) fn dropped_buffer(address: usize) -> Option<Arc<Allocation>> {
    registry().dropped.iter().rev().find(|buffer| buffer.contains(address, 1)).cloned()
}

/// A buffer of emulated global memory, for kernels to work on.
///
/// Kernels see it from its construction until it is dropped, in every launch of the process. Each 4 bytes know
/// whether they have been written. Addresses are multiples of 256, as on a GPU; neighbours are guarded, so that an
/// access one past the end is always found; a dropped buffer's addresses are not reused for a while.
///
/// Costs 64 bytes of bookkeeping for each 4 bytes that kernels touch. Large inputs are better borrowed read-only, by
/// [`Launch::borrow`](super::Launch::borrow), which costs nothing.
pub struct GlobalBuffer<T: DeviceValue> {
    allocation: Arc<Allocation>,
    element: PhantomData<T>,
}

impl<T: DeviceValue> GlobalBuffer<T> {
    /// A buffer of `len` elements that must be written before they are read.
    ///
    /// # Panics
    /// If the size in bytes exceeds the address space.
    #[must_use]
    pub fn uninitialised(len: usize) -> Self {
        Self::allocate(len, false)
    }

    /// A buffer of `len` zeros.
    ///
    /// # Panics
    /// If the size in bytes exceeds the address space.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let buffer = Self::allocate(len, true);
        // SAFETY: the allocation has just been made with `len` elements, which are numbers.
        unsafe { (buffer.allocation.start as *mut T).write_bytes(0, len) }
        buffer
    }

    /// A buffer with a copy of `values`.
    #[must_use]
    pub fn from_slice(values: &[T]) -> Self {
        let buffer = Self::allocate(values.len(), true);
        // SAFETY: the allocation has just been made with as many elements.
        unsafe { core::ptr::copy_nonoverlapping(values.as_ptr(), buffer.allocation.start as *mut T, values.len()) }
        buffer
    }

    fn allocate(len: usize, initialised: bool) -> Self {
        let bytes = len.checked_mul(size_of::<T>()).expect("a buffer fits the address space");
        let allocation = Arc::new(Allocation::owned(bytes, size_of::<T>(), initialised));
        registry().live.insert(allocation.start, Arc::clone(&allocation));
        Self { allocation, element: PhantomData }
    }

    /// The same buffer with a name for reports. The first name stays.
    #[must_use]
    pub fn labelled(self, label: &str) -> Self {
        self.allocation.label.get_or_init(|| label.to_owned());
        self
    }

    /// Elements in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.allocation.bytes / size_of::<T>()
    }

    /// Whether the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address to pass to a kernel that reads the buffer.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.allocation.start as *const T
    }

    /// The address to pass to a kernel that writes the buffer.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.allocation.start as *mut T
    }

    /// A copy of the contents, or `None` if some element has never been written.
    #[must_use]
    pub fn to_vec(&self) -> Option<Vec<T>> {
        let initialised = self.allocation.is_initialised();
        // SAFETY: the buffer is live, initialised, and only a launch on another CPU thread could write to it, which
        // needs the pointer of `as_mut_ptr` and the unsafe call of a kernel that uses it wrongly.
        initialised.then(|| unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len()) }.to_vec())
    }
}

impl<T: DeviceValue> Drop for GlobalBuffer<T> {
    fn drop(&mut self) {
        retire(&self.allocation);
    }
}

/// Takes a buffer out of sight. Its addresses are kept for a while.
fn retire(allocation: &Allocation) {
    let mut registry = registry();
    if let Some(allocation) = registry.live.remove(&allocation.start) {
        registry.dropped_bytes += allocation.held_bytes();
        registry.dropped.push_back(allocation);
    }
    while registry.dropped_bytes > QUARANTINE_BYTES {
        let oldest = registry.dropped.pop_front();
        registry.dropped_bytes -= oldest.map_or(0, |allocation| allocation.held_bytes());
    }
}

impl<T: DeviceValue> fmt::Debug for GlobalBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalBuffer")
            .field("label", &self.allocation.label())
            .field("len", &self.len())
            .field("address", &format_args!("{:#x}", self.allocation.start))
            .finish()
    }
}

/// Words of 64 bits that launches on several CPU threads access at the same time, as GPUs of one machine access each other's memory, and hosts too.
///
/// Kernels see it as they see a [`GlobalBuffer`]. They may load and store words by atomics of the system's scope, and nothing else: anything else
/// is a finding. A load returns the newest value, orders nothing, and lets the other threads of the launch go on, and other CPU threads; waiting for
/// a word that another launch will store is no deadlock.
pub struct SystemBuffer {
    allocation: Arc<Allocation>,
}

impl SystemBuffer {
    /// A buffer of `len` zeros.
    ///
    /// # Panics
    /// If the size in bytes exceeds the address space.
    #[must_use]
    pub fn zeroed(len: usize, label: &str) -> Self {
        let bytes = len.checked_mul(size_of::<u64>()).expect("a buffer fits the address space");
        let allocation = Arc::new(Allocation::of_system(bytes).with_label(label));
        registry().live.insert(allocation.start, Arc::clone(&allocation));
        Self { allocation }
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the buffer is live, and all who access it do so by atomics.
        unsafe {
            core::slice::from_raw_parts(self.as_ptr() as *const AtomicU64, self.allocation.bytes / size_of::<u64>())
        }
    }

    /// The address to pass to kernels.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u64 {
        self.allocation.start as *mut u64
    }
}

impl Drop for SystemBuffer {
    fn drop(&mut self) {
        retire(&self.allocation);
    }
}

impl fmt::Debug for SystemBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = format_args!("{:#x}", self.allocation.start);
        f.debug_struct("SystemBuffer")
            .field("label", &self.allocation.label())
            .field("address", &address)
            .finish_non_exhaustive()
    }
}

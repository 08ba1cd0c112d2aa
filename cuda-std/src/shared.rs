//! Shared memory: what the threads of one block have in common.

use core::marker::PhantomData;

use crate::{
    atomic::{AtomicInteger, AtomicOperation, AtomicValue},
    backend,
    mem::DeviceValue,
};

/// A handle to an array in the block's shared memory, made by [`shared_array!`](crate::shared_array).
///
/// Indices are in elements. The memory starts uninitialised, and lives as long as the block.
///
/// # Safety
/// The same rules hold for every access:
/// 1. the elements lie within the array;
/// 2. a `_v2` or `_v4` access is aligned: its index is a multiple of its width (and, for 8-byte elements, of 2);
/// 3. what is loaded has been stored, with a barrier between if another thread stored it;
/// 4. no two threads touch the same element, one of them storing, without a barrier between.
#[derive(Debug)]
pub struct Shared<T> {
    address: backend::SharedAddress,
    element: PhantomData<T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

macro_rules! accesses {
    ($($load:ident $store:ident $width:literal;)*) => {$(
        #[doc = concat!("Loads ", $width, " consecutive element(s), by one `ld.shared` (two for 32 bytes).")]
        ///
        /// # Safety
        /// The rules at the head of this type.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $load(self, index: u32) -> [T; $width] {
            // SAFETY: the caller keeps the type's rules.
            unsafe { backend::shared_load(self.address, index) }
        }
        #[doc = concat!("Stores ", $width, " consecutive element(s), by one `st.shared` (two for 32 bytes).")]
        ///
        /// # Safety
        /// The rules at the head of this type.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $store(self, index: u32, values: [T; $width]) {
            // SAFETY: the caller keeps the type's rules.
            unsafe { backend::shared_store(self.address, index, values) }
        }
    )*};
}

macro_rules! copies {
    ($($copy:ident $width:literal;)*) => {$(
        #[doc = concat!("Starts to copy ", $width, " consecutive element(s) from global memory, by `cp.async` (two for 32 bytes).")]
        /// If not `exists`, zeros are stored in their place, and `from` is not looked at.
        ///
        /// The thread goes on meanwhile. Nobody may touch the elements here until the copy is in a group of
        /// [`commit_copies`] that [`wait_copies`] has waited for: the emulator writes them then, and reports who
        /// touches them earlier. A kernel may end with copies under way.
        ///
        /// # Safety
        /// The rules at the head of this type, as for a store; if it `exists`, those of [`mem`](crate::mem), as for
        /// [`load_readonly`](crate::mem::load_readonly).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $copy(self, index: u32, from: *const T, exists: bool) {
            // SAFETY: the caller keeps the rules.
            unsafe { backend::shared_copy_async::<T, $width>(self.address, index, from, exists) }
        }
    )*};
}

impl<T: DeviceValue> Shared<T> {
    /// What [`shared_array!`](crate::shared_array) expands to: the handle of the block's array of `LEN` elements, declared
    /// at this [`place`].
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn declare<const LEN: usize, const PLACE: u64>() -> Self {
        #[cfg(target_arch = "nvptx64")]
        let address = backend::shared_declare::<T, LEN, PLACE>();
        // The emulator knows the caller's place.
        #[cfg(not(target_arch = "nvptx64"))]
        let address = backend::shared_declare::<T, LEN>();
        Self { address, element: PhantomData }
    }

    /// The handle of the array that starts `elements` further on. What is aligned there follows from the two.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, elements: u32) -> Self {
        Self { address: backend::shared_offset(self.address, elements * size_of::<T>() as u32), ..self }
    }

    #[inline(always)]
    pub(crate) fn address(self) -> backend::SharedAddress {
        self.address
    }

    /// The same memory as elements of another type, for dynamic shared memory that holds several arrays.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: DeviceValue>(self) -> Shared<U> {
        Shared { address: self.address, element: PhantomData }
    }

    /// The element at `index`.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load(self, index: u32) -> T {
        // SAFETY: the caller keeps the type's rules.
        unsafe { backend::shared_load::<T, 1>(self.address, index)[0] }
    }

    /// Sets the element at `index`.
    ///
    /// # Safety
    /// The rules at the head of this type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn store(self, index: u32, value: T) {
        // SAFETY: the caller keeps the type's rules.
        unsafe { backend::shared_store(self.address, index, [value]) }
    }

    accesses! {
        load_v2 store_v2 2;
        load_v4 store_v4 4;
    }

    copies! {
        copy_async 1;
        copy_async_v2 2;
        copy_async_v4 4;
    }
}

/// Makes a group of the thread's copies that are in no group yet, by `cp.async.commit_group`. A group may be empty.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit_copies() {
    backend::commit_copies();
}

/// Waits until at most the last `PENDING` groups of the thread's copies are still under way, by `cp.async.wait_group`. What the
/// others have copied this thread may load, and after a barrier all threads of the block.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_copies<const PENDING: u32>() {
    backend::wait_copies::<PENDING>();
}

macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident = $operation:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Atomic among the threads of the block, and relaxed. Returns the old value.
        ///
        /// # Safety
        /// The rules at the head of this type, except that atomics need no barrier between them.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(self, index: u32, value: T) -> T {
            // SAFETY: the caller keeps the type's rules.
            unsafe { backend::shared_atomic(self.address, index, AtomicOperation::$operation, value) }
        }
    )*};
}

impl<T: AtomicValue> Shared<T> {
    atomics! {
        /// Adds `value` to the element at `index`; integers wrap, floats round to nearest.
        atomic_fetch_add = Add;
        /// Sets the element at `index`.
        atomic_exchange = Exchange;
    }

    /// Sets the element at `index` to `new` if its bits are those of `current`.
    ///
    /// Atomic among the threads of the block, and relaxed. Returns the old value.
    ///
    /// # Safety
    /// The rules at the head of this type, except that atomics need no barrier between them.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn atomic_compare_and_swap(self, index: u32, current: T, new: T) -> T {
        // SAFETY: the caller keeps the type's rules.
        unsafe { backend::shared_compare_and_swap(self.address, index, current, new) }
    }
}

impl<T: AtomicInteger> Shared<T> {
    atomics! {
        /// Sets the element at `index` to the lesser of itself and `value`.
        atomic_fetch_min = Min;
        /// Sets the element at `index` to the greater of itself and `value`.
        atomic_fetch_max = Max;
        /// Clears the bits of the element at `index` that `value` lacks.
        atomic_fetch_and = And;
        /// Sets the bits of the element at `index` that `value` has.
        atomic_fetch_or = Or;
        /// Flips the bits of the element at `index` that `value` has.
        atomic_fetch_xor = Xor;
    }
}

/// The block's dynamic shared memory, whose size the launch decides, aligned to 16 bytes.
///
/// Every call returns the same memory: kernels part it with [`Shared::offset`] and [`Shared::cast`].
#[inline(always)]
#[must_use]
pub fn dynamic_shared_mem<T: DeviceValue>() -> Shared<T> {
    Shared { address: backend::shared_dynamic(), element: PhantomData }
}

/// An array in shared memory: `shared_array![f32; 256]` is a [`Shared<f32>`](crate::shared::Shared) of 256 elements,
/// aligned to 16 bytes.
///
/// Every thread of a block that comes by this place gets the same array, and another `shared_array!` is another array.
/// Let a thread come by each place once, outside loops and outside helpers that a kernel calls twice: on a GPU each
/// inlined copy of the place would declare an array of its own, and `cuda_builder` refuses the kernel. All in one expansion
/// of a `macro_rules!` macro have the same place: they must differ in size. The length is a constant.
#[macro_export]
macro_rules! shared_array {
    ($element:ty; $len:expr) => {
        $crate::shared::Shared::<$element>::declare::<
            { $len },
            { $crate::shared::place(::core::module_path!(), ::core::line!(), ::core::column!()) },
        >()
    };
}

/// Identifies a place in the source: its line in the lower half, a hash of the module and the column in the upper half.
#[doc(hidden)]
#[must_use]
pub const fn place(module: &str, line: u32, column: u32) -> u64 {
    // FNV-1a.
    let (mut hash, mut at) = (0x811c_9dc5 ^ column, 0);
    while at < module.len() {
        hash = (hash ^ module.as_bytes()[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash as u64) << 32 | line as u64
}

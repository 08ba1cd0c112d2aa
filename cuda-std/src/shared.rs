//! Shared memory: what the threads of one block have in common.

use core::marker::PhantomData;

use crate::{backend, mem::DeviceValue};

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

impl<T: DeviceValue> Shared<T> {
    /// What [`shared_array!`](crate::shared_array) expands to: the handle of the block's array of `LEN` elements.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn declare<const LEN: usize>() -> Self {
        Self {
            address: backend::shared_declare::<T, LEN>(),
            element: PhantomData,
        }
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
}

/// An array in shared memory: `shared_array![f32; 256]` is a [`Shared<f32>`](shared::Shared) of 256 elements,
/// aligned to 16 bytes.
///
/// The array belongs to the place in the source, as a `static` would: every thread of a block that comes by gets the
/// same array, another `shared_array!` is another array. The length is a constant.
#[macro_export]
macro_rules! shared_array {
    ($element:ty; $len:expr) => {
        $crate::shared::Shared::<$element>::declare::<{ $len }>()
    };
}

//! Atomic operations on global memory, and fences.
//!
//! Names are `atomic_<operation>_<type>_<scope>`. The scope says among whom the operation is atomic: the threads of the
//! block, of the device, or of the whole system. The ordering is that of [`core::sync::atomic`]. Operations that read,
//! modify and write have it in the instruction, up to `AcqRel`. `SeqCst`, and any ordering but `Relaxed` of the others, is
//! made of a [fence](device_thread_fence) of the same scope before or after the operation.
//!
//! # Safety
//! The same rules hold for every function here:
//! 1. the pointer is to live global memory that holds a value, and is aligned to the value's size;
//! 2. no thread of the launch accesses the value without an atomic, unless a barrier is between;
//! 3. block scope: no other block accesses the value.

use core::sync::atomic::Ordering;

use crate::{backend, mem::DeviceValue};

/// Among whom an operation is atomic, or a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Block,
    Device,
    System,
}

/// What an atomic does with the old value and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOperation {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
}

/// How the bits of a value are read.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberClass {
    /// Binary.
    Unsigned,
    /// Two's complement.
    Signed,
    /// IEEE 754.
    Float,
}

/// A number with atomic operations. Sealed by its documentation: implemented for the six types of 4 and 8 bytes.
pub trait AtomicValue: DeviceValue {
    /// How its bits are read.
    #[doc(hidden)]
    const CLASS: NumberClass;
}

/// An [`AtomicValue`] with minimum, maximum and bit operations.
pub trait AtomicInteger: AtomicValue {}

macro_rules! atomic_values {
    ($($type:ty: $class:ident;)*) => {$(
        impl AtomicValue for $type {
            const CLASS: NumberClass = NumberClass::$class;
        }
    )*};
}
atomic_values! {
    u32: Unsigned;
    u64: Unsigned;
    i32: Signed;
    i64: Signed;
    f32: Float;
    f64: Float;
}
impl AtomicInteger for u32 {}
impl AtomicInteger for u64 {}
impl AtomicInteger for i32 {}
impl AtomicInteger for i64 {}

macro_rules! read_modify_writes {
    ($what:literal, $operation:ident: $($type:ident $scope:ident $name:ident;)*) => {$(
        #[doc = concat!($what, " Returns the old value.")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(ptr: *mut $type, ordering: Ordering, val: $type) -> $type {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::atomic(ptr, AtomicOperation::$operation, val, ordering, Scope::$scope) }
        }
    )*};
}

macro_rules! loads_stores_and_swaps {
    ($($type:ident $scope:ident $load:ident $store:ident $swap:ident;)*) => {$(
        /// The value.
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        ///
        /// # Panics
        /// If `ordering` is `Release` or `AcqRel`, as in [`core::sync::atomic`].
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $load(ptr: *const $type, ordering: Ordering) -> $type {
            assert!(!matches!(ordering, Ordering::Release | Ordering::AcqRel), "a load cannot release");
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::atomic_load(ptr, ordering, Scope::$scope) }
        }
        /// Sets the value, which need not hold one before.
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        ///
        /// # Panics
        /// If `ordering` is `Acquire` or `AcqRel`, as in [`core::sync::atomic`].
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $store(ptr: *mut $type, ordering: Ordering, val: $type) {
            assert!(!matches!(ordering, Ordering::Acquire | Ordering::AcqRel), "a store cannot acquire");
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::atomic_store(ptr, val, ordering, Scope::$scope) }
        }
        /// Sets the value to `new` if its bits are those of `current`. Returns the old value, whether that was so or
        /// not. `ordering` holds in both cases.
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $swap(ptr: *mut $type, ordering: Ordering, current: $type, new: $type) -> $type {
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::compare_and_swap(ptr, current, new, ordering, Scope::$scope) }
        }
    )*};
}

read_modify_writes! {
    "Adds `val`; integers wrap, floats round to nearest, and denormal numbers of `f32` count as 0.", Add:
    u32 Block atomic_fetch_add_u32_block;
    u32 Device atomic_fetch_add_u32_device;
    u32 System atomic_fetch_add_u32_system;
    i32 Block atomic_fetch_add_i32_block;
    i32 Device atomic_fetch_add_i32_device;
    i32 System atomic_fetch_add_i32_system;
    u64 Block atomic_fetch_add_u64_block;
    u64 Device atomic_fetch_add_u64_device;
    u64 System atomic_fetch_add_u64_system;
    i64 Block atomic_fetch_add_i64_block;
    i64 Device atomic_fetch_add_i64_device;
    i64 System atomic_fetch_add_i64_system;
    f32 Block atomic_fetch_add_f32_block;
    f32 Device atomic_fetch_add_f32_device;
    f32 System atomic_fetch_add_f32_system;
    f64 Block atomic_fetch_add_f64_block;
    f64 Device atomic_fetch_add_f64_device;
    f64 System atomic_fetch_add_f64_system;
}
read_modify_writes! {
    "Sets the value to the lesser of itself and `val`.", Min:
    u32 Block atomic_fetch_min_u32_block;
    u32 Device atomic_fetch_min_u32_device;
    u32 System atomic_fetch_min_u32_system;
    i32 Block atomic_fetch_min_i32_block;
    i32 Device atomic_fetch_min_i32_device;
    i32 System atomic_fetch_min_i32_system;
    u64 Block atomic_fetch_min_u64_block;
    u64 Device atomic_fetch_min_u64_device;
    u64 System atomic_fetch_min_u64_system;
    i64 Block atomic_fetch_min_i64_block;
    i64 Device atomic_fetch_min_i64_device;
    i64 System atomic_fetch_min_i64_system;
}
read_modify_writes! {
    "Sets the value to the greater of itself and `val`.", Max:
    u32 Block atomic_fetch_max_u32_block;
    u32 Device atomic_fetch_max_u32_device;
    u32 System atomic_fetch_max_u32_system;
    i32 Block atomic_fetch_max_i32_block;
    i32 Device atomic_fetch_max_i32_device;
    i32 System atomic_fetch_max_i32_system;
    u64 Block atomic_fetch_max_u64_block;
    u64 Device atomic_fetch_max_u64_device;
    u64 System atomic_fetch_max_u64_system;
    i64 Block atomic_fetch_max_i64_block;
    i64 Device atomic_fetch_max_i64_device;
    i64 System atomic_fetch_max_i64_system;
}
read_modify_writes! {
    "Clears the bits that `val` lacks.", And:
    u32 Block atomic_fetch_and_u32_block;
    u32 Device atomic_fetch_and_u32_device;
    u32 System atomic_fetch_and_u32_system;
    i32 Block atomic_fetch_and_i32_block;
    i32 Device atomic_fetch_and_i32_device;
    i32 System atomic_fetch_and_i32_system;
    u64 Block atomic_fetch_and_u64_block;
    u64 Device atomic_fetch_and_u64_device;
    u64 System atomic_fetch_and_u64_system;
    i64 Block atomic_fetch_and_i64_block;
    i64 Device atomic_fetch_and_i64_device;
    i64 System atomic_fetch_and_i64_system;
}
read_modify_writes! {
    "Sets the bits that `val` has.", Or:
    u32 Block atomic_fetch_or_u32_block;
    u32 Device atomic_fetch_or_u32_device;
    u32 System atomic_fetch_or_u32_system;
    i32 Block atomic_fetch_or_i32_block;
    i32 Device atomic_fetch_or_i32_device;
    i32 System atomic_fetch_or_i32_system;
    u64 Block atomic_fetch_or_u64_block;
    u64 Device atomic_fetch_or_u64_device;
    u64 System atomic_fetch_or_u64_system;
    i64 Block atomic_fetch_or_i64_block;
    i64 Device atomic_fetch_or_i64_device;
    i64 System atomic_fetch_or_i64_system;
}
read_modify_writes! {
    "Flips the bits that `val` has.", Xor:
    u32 Block atomic_fetch_xor_u32_block;
    u32 Device atomic_fetch_xor_u32_device;
    u32 System atomic_fetch_xor_u32_system;
    i32 Block atomic_fetch_xor_i32_block;
    i32 Device atomic_fetch_xor_i32_device;
    i32 System atomic_fetch_xor_i32_system;
    u64 Block atomic_fetch_xor_u64_block;
    u64 Device atomic_fetch_xor_u64_device;
    u64 System atomic_fetch_xor_u64_system;
    i64 Block atomic_fetch_xor_i64_block;
    i64 Device atomic_fetch_xor_i64_device;
    i64 System atomic_fetch_xor_i64_system;
}
read_modify_writes! {
    "Sets the value to `val`.", Exchange:
    u32 Block atomic_exchange_u32_block;
    u32 Device atomic_exchange_u32_device;
    u32 System atomic_exchange_u32_system;
    i32 Block atomic_exchange_i32_block;
    i32 Device atomic_exchange_i32_device;
    i32 System atomic_exchange_i32_system;
    u64 Block atomic_exchange_u64_block;
    u64 Device atomic_exchange_u64_device;
    u64 System atomic_exchange_u64_system;
    i64 Block atomic_exchange_i64_block;
    i64 Device atomic_exchange_i64_device;
    i64 System atomic_exchange_i64_system;
    f32 Block atomic_exchange_f32_block;
    f32 Device atomic_exchange_f32_device;
    f32 System atomic_exchange_f32_system;
    f64 Block atomic_exchange_f64_block;
    f64 Device atomic_exchange_f64_device;
    f64 System atomic_exchange_f64_system;
}
loads_stores_and_swaps! {
    u32 Block atomic_load_u32_block atomic_store_u32_block atomic_compare_and_swap_u32_block;
    u32 Device atomic_load_u32_device atomic_store_u32_device atomic_compare_and_swap_u32_device;
    u32 System atomic_load_u32_system atomic_store_u32_system atomic_compare_and_swap_u32_system;
    i32 Block atomic_load_i32_block atomic_store_i32_block atomic_compare_and_swap_i32_block;
    i32 Device atomic_load_i32_device atomic_store_i32_device atomic_compare_and_swap_i32_device;
    i32 System atomic_load_i32_system atomic_store_i32_system atomic_compare_and_swap_i32_system;
    u64 Block atomic_load_u64_block atomic_store_u64_block atomic_compare_and_swap_u64_block;
    u64 Device atomic_load_u64_device atomic_store_u64_device atomic_compare_and_swap_u64_device;
    u64 System atomic_load_u64_system atomic_store_u64_system atomic_compare_and_swap_u64_system;
    i64 Block atomic_load_i64_block atomic_store_i64_block atomic_compare_and_swap_i64_block;
    i64 Device atomic_load_i64_device atomic_store_i64_device atomic_compare_and_swap_i64_device;
    i64 System atomic_load_i64_system atomic_store_i64_system atomic_compare_and_swap_i64_system;
    f32 Block atomic_load_f32_block atomic_store_f32_block atomic_compare_and_swap_f32_block;
    f32 Device atomic_load_f32_device atomic_store_f32_device atomic_compare_and_swap_f32_device;
    f32 System atomic_load_f32_system atomic_store_f32_system atomic_compare_and_swap_f32_system;
    f64 Block atomic_load_f64_block atomic_store_f64_block atomic_compare_and_swap_f64_block;
    f64 Device atomic_load_f64_device atomic_store_f64_device atomic_compare_and_swap_f64_device;
    f64 System atomic_load_f64_system atomic_store_f64_system atomic_compare_and_swap_f64_system;
}

macro_rules! fences {
    ($($name:ident $scope:ident $who:literal;)*) => {$(
        #[doc = concat!("Orders this thread's memory accesses before it ahead of those after it, as ", $who, " sees them.")]
        ///
        /// Nothing happens if `ordering` is `Relaxed`; `SeqCst` also orders it among all such fences.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(ordering: Ordering) {
            backend::fence(ordering, Scope::$scope);
        }
    )*};
}
fences! {
    block_thread_fence Block "the block";
    device_thread_fence Device "the device";
    system_thread_fence System "the whole system";
}

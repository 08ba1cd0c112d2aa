//! The host backend: what the public functions call, for the GPU thread that is running.

use core::{panic::Location, sync::atomic::Ordering};

pub(crate) use super::{access::SharedAddress, hopper::*, wgmma::Descriptor};
use super::{
    access::{from_bits, read, read_narrow, to_bits, write},
    atomics::Atomic,
    mma::{Fragments, of_tf32},
    report::FindingKind,
    shadow::Touch,
    thread::{Place, Thread, with_current},
    warp::WarpOperation,
};
use crate::{
    atomic::{AtomicOperation, AtomicValue, NumberClass, Scope},
    mem::{Caching, DeviceValue, NarrowValue},
    warp::ShuffleMode,
};

#[track_caller]
pub(crate) fn thread_idx(axis: u32) -> u32 {
    with_current(|thread| thread.index[axis as usize])
}

#[track_caller]
pub(crate) fn block_idx(axis: u32) -> u32 {
    with_current(|thread| thread.block().index.get()[axis as usize])
}

#[track_caller]
pub(crate) fn block_dim(axis: u32) -> u32 {
    with_current(|thread| thread.block().launch.block_dim[axis as usize])
}

#[track_caller]
pub(crate) fn grid_dim(axis: u32) -> u32 {
    with_current(|thread| thread.block().launch.grid_dim[axis as usize])
}

/// A launch that breaks the promise is refused by the driver; here it is a panic of the kernel.
#[track_caller]
pub(crate) fn launch_bounds<const MAX_THREADS: u32, const MIN_BLOCKS: u32>() {
    let threads: u32 = (0..3).map(block_dim).product();
    assert!(threads <= MAX_THREADS, "blocks of {threads} threads where the launch bounds say {MAX_THREADS}");
}

#[track_caller]
pub(crate) fn sync_threads() {
    let place = Location::caller();
    with_current(|thread| thread.barrier(0, None, place));
}

#[track_caller]
pub(crate) unsafe fn sync_threads_named(id: u32, count: u32) {
    let place = Location::caller();
    with_current(|thread| thread.barrier(id, Some(count), place));
}

/// Only checks the counter in `state`, which a GPU needs: here the launch knows its blocks.
#[track_caller]
pub(crate) unsafe fn grid_sync(state: *mut u32) {
    let place = Location::caller();
    with_current(|thread| {
        thread.check_global::<u32, 1>(state, Touch::Atomic, place);
        thread.grid_barrier(place);
    });
}

#[track_caller]
pub(crate) fn lane_id() -> u32 {
    with_current(|thread| thread.lane)
}

#[track_caller]
pub(crate) fn activemask() -> u32 {
    with_current(|thread| thread.warp().live.get())
}

#[track_caller]
pub(crate) unsafe fn sync_warp(mask: u32) {
    let place = Location::caller();
    with_current(|thread| thread.warp_operation(WarpOperation::Sync, mask, 0, place));
}

/// Both words of a `wide` value go at once. On a GPU they take two operations, which are counted.
#[track_caller]
pub(crate) unsafe fn shuffle(
    mode: ShuffleMode,
    mask: u32,
    [low, high]: [u32; 2],
    wide: bool,
    operand: u32,
    width: u32,
) -> ([u32; 2], bool) {
    let place = Location::caller();
    with_current(|thread| {
        if !width.is_power_of_two() || width > 32 {
            let message = format!("a shuffle has a width of 1, 2, 4, 8, 16 or 32, not {width}");
            thread.fail(FindingKind::InvalidArgument, place, message, None, None);
        }
        thread.operand.set(operand);
        thread.width.set(width);
        thread.block().stats.borrow_mut().warp_operations += u64::from(wide);
        let words = u64::from(low) | u64::from(high) << 32;
        let (words, inside) = thread.warp_operation(WarpOperation::Shuffle(mode), mask, words, place);
        ([words as u32, (words >> 32) as u32], inside)
    })
}

#[track_caller]
pub(crate) unsafe fn ballot(mask: u32, predicate: bool) -> u32 {
    let place = Location::caller();
    with_current(|thread| thread.warp_operation(WarpOperation::Ballot, mask, u64::from(predicate), place).0 as u32)
}

#[track_caller]
pub(crate) unsafe fn match_any(mask: u32, value: u64, _wide: bool) -> u32 {
    let place = Location::caller();
    with_current(|thread| thread.warp_operation(WarpOperation::MatchAny, mask, value, place).0 as u32)
}

#[track_caller]
pub(crate) unsafe fn match_all(mask: u32, value: u64, _wide: bool) -> (u32, bool) {
    let place = Location::caller();
    with_current(|thread| {
        let (lanes, all) = thread.warp_operation(WarpOperation::MatchAll, mask, value, place);
        (lanes as u32, all)
    })
}

macro_rules! products {
    ($($name:ident: $m:literal x $k:literal, $a:literal $b:literal $c:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(a: [f64; $a], b: [f64; $b], c: [f64; $c]) -> [f64; $c] {
            let place = Location::caller();
            with_current(|thread| {
                thread.fragments.set(Fragments::new(&a, &b, &c));
                thread.warp_operation(WarpOperation::Multiply { m: $m, k: $k }, u32::MAX, 0, place);
                core::array::from_fn(|i| thread.fragments.get().c[i])
            })
        }
    )*};
}
products! {
    m8n8k4_f64: 8 x 4, 1 1 2;
    m16n8k4_f64: 16 x 4, 2 1 4;
    m16n8k8_f64: 16 x 8, 4 2 4;
    m16n8k16_f64: 16 x 16, 8 4 4;
}

#[track_caller]
pub(crate) unsafe fn m16n8k8_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let place = Location::caller();
    with_current(|thread| {
        thread.fragments.set(Fragments::new(&a.map(of_tf32), &b.map(of_tf32), &c.map(f64::from)));
        thread.warp_operation(WarpOperation::MultiplyTf32, u32::MAX, 0, place);
        thread.fragments.get().c.map(|element| element as f32)
    })
}

pub(crate) fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

pub(crate) fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

pub(crate) fn sqrt_f32(x: f32) -> f32 {
    x.sqrt()
}

pub(crate) fn sqrt_f64(x: f64) -> f64 {
    x.sqrt()
}

#[track_caller]
pub(crate) unsafe fn prefetch<T: DeviceValue>(ptr: *const T) {
    let place = Location::caller();
    with_current(|thread| _ = thread.check_global::<T, 1>(ptr, Touch::ReadOnlyLoad, place));
}

#[track_caller]
pub(crate) unsafe fn load<T: DeviceValue, const N: usize>(ptr: *const T, caching: Caching) -> [T; N] {
    let place = Location::caller();
    let touch = if caching == Caching::ReadOnly { Touch::ReadOnlyLoad } else { Touch::Load };
    with_current(|thread| {
        thread.check_global::<T, N>(ptr, touch, place);
        let mut stats = thread.block().stats.borrow_mut();
        stats.global_loads += 1;
        stats.global_bytes_loaded += size_of::<[T; N]>() as u64;
    });
    // SAFETY: the checks have passed.
    core::array::from_fn(|i| unsafe { read(ptr.add(i)) })
}

#[track_caller]
pub(crate) unsafe fn load_readonly_narrow<N: NarrowValue>(ptr: *const N) -> u32 {
    let place = Location::caller();
    with_current(|thread| {
        thread.check_global_bytes(ptr as usize, size_of::<N>(), Touch::ReadOnlyLoad, place);
        let mut stats = thread.block().stats.borrow_mut();
        stats.global_loads += 1;
        stats.global_bytes_loaded += size_of::<N>() as u64;
    });
    // SAFETY: the checks have passed.
    unsafe { read_narrow(ptr) }
}

#[track_caller]
pub(crate) unsafe fn store<T: DeviceValue, const N: usize>(ptr: *mut T, values: [T; N], _caching: Caching) {
    let place = Location::caller();
    with_current(|thread| {
        thread.check_global::<T, N>(ptr, Touch::Store, place);
        thread.block().progress();
        let mut stats = thread.block().stats.borrow_mut();
        stats.global_stores += 1;
        stats.global_bytes_stored += size_of::<[T; N]>() as u64;
    });
    for (i, value) in values.into_iter().enumerate() {
        // SAFETY: the checks have passed.
        unsafe { write(ptr.add(i), value) }
    }
}

#[track_caller]
pub(crate) fn shared_declare<T: DeviceValue, const LEN: usize>() -> SharedAddress {
    let place = Location::caller();
    with_current(|thread| {
        let array = thread.block().shared.borrow_mut().declare::<T>(place, LEN, thread.linear);
        let array = array.unwrap_or_else(|| {
            let message = "this thread has come by this `shared_array!` before: in a loop, or in a function that is called \
                           twice. On a GPU it can be another array each time";
            thread.fail(FindingKind::RepeatedSharedArray, place, message, None, None)
        });
        SharedAddress { array, byte: 0 }
    })
}

pub(crate) fn shared_dynamic() -> SharedAddress {
    SharedAddress { array: 0, byte: 0 }
}

pub(crate) fn shared_offset(base: SharedAddress, bytes: u32) -> SharedAddress {
    SharedAddress { byte: base.byte + bytes, ..base }
}

#[track_caller]
pub(crate) unsafe fn shared_load<T: DeviceValue, const N: usize>(base: SharedAddress, index: u32) -> [T; N] {
    let place = Location::caller();
    with_current(|thread| {
        let block = thread.block();
        block.stats.borrow_mut().shared_loads += 1;
        let shared = block.shared.borrow();
        let ptr = thread.check_shared::<T, N>(&shared, base, index, Touch::Load, place);
        // SAFETY: the checks have passed.
        core::array::from_fn(|i| unsafe { read(ptr.add(i)) })
    })
}

#[track_caller]
pub(crate) unsafe fn shared_store<T: DeviceValue, const N: usize>(base: SharedAddress, index: u32, values: [T; N]) {
    let place = Location::caller();
    with_current(|thread| {
        let block = thread.block();
        block.stats.borrow_mut().shared_stores += 1;
        block.progress();
        let shared = block.shared.borrow();
        let ptr = thread.check_shared::<T, N>(&shared, base, index, Touch::Store, place);
        for (i, value) in values.into_iter().enumerate() {
            // SAFETY: the checks have passed.
            unsafe { write(ptr.add(i), value) }
        }
    });
}

/// Reads the values now, and writes them when the thread has waited for them.
#[track_caller]
pub(crate) unsafe fn shared_copy_async<T: DeviceValue, const N: usize>(
    base: SharedAddress,
    index: u32,
    from: *const T,
    exists: bool,
) {
    let place = Location::caller();
    // SAFETY: the checks are those of a load.
    let values = if exists { unsafe { load::<T, N>(from, Caching::ReadOnly) } } else { [T::default(); N] };
    with_current(|thread| {
        thread.block().stats.borrow_mut().shared_stores += 1;
        thread.start_copy(base, index, values, place);
    });
}

#[track_caller]
pub(crate) fn commit_copies() {
    with_current(|thread| thread.copies.borrow_mut().commit());
}

#[track_caller]
pub(crate) fn wait_copies<const PENDING: u32>() {
    with_current(|thread| thread.wait_copies(PENDING));
}

/// An atomic operation on global memory, after its checks.
fn global_memory_atomic<T: AtomicValue>(
    thread: &Thread,
    ptr: *mut T,
    touch: Touch,
    (ordering, scope): (Ordering, Scope),
    place: Place,
) -> Atomic<'_, T> {
    let memory = thread.check_atomic::<T>(ptr, touch, scope, place);
    let initialised = memory.initialised || touch == Touch::Atomic;
    let (weak, is_of_system) = (thread.block().launch.seed != 0, memory.is_of_system);
    Atomic { thread, ptr, ordering, scope, place, weak, initialised, is_of_system }
}

/// An atomic operation on shared memory, after its checks. There are no loads among them.
fn shared_memory_atomic<T: AtomicValue>(
    thread: &Thread,
    base: SharedAddress,
    index: u32,
    place: Place,
) -> Atomic<'_, T> {
    let ptr = thread.check_shared::<T, 1>(&thread.block().shared.borrow(), base, index, Touch::Atomic, place);
    let (ordering, scope) = (Ordering::Relaxed, Scope::Block);
    Atomic { thread, ptr, ordering, scope, place, weak: false, initialised: true, is_of_system: false }
}

#[track_caller]
pub(crate) unsafe fn atomic<T: AtomicValue>(
    ptr: *mut T,
    operation: AtomicOperation,
    value: T,
    ordering: Ordering,
    scope: Scope,
) -> T {
    let place = Location::caller();
    with_current(|thread| {
        let atomic = global_memory_atomic(thread, ptr, Touch::Atomic, (ordering, scope), place);
        // SAFETY: the checks have passed.
        unsafe { atomic.update(|old| Some(combine_in_global_memory(operation, old, value))) }
    })
}

#[track_caller]
pub(crate) unsafe fn compare_and_swap<T: AtomicValue>(
    ptr: *mut T,
    current: T,
    new: T,
    ordering: Ordering,
    scope: Scope,
) -> T {
    let place = Location::caller();
    with_current(|thread| {
        let atomic = global_memory_atomic(thread, ptr, Touch::Atomic, (ordering, scope), place);
        // SAFETY: the checks have passed.
        unsafe { atomic.update(|old| (to_bits(old) == to_bits(current)).then_some(new)) }
    })
}

#[track_caller]
pub(crate) unsafe fn atomic_load<T: AtomicValue>(ptr: *const T, ordering: Ordering, scope: Scope) -> T {
    let place = Location::caller();
    with_current(|thread| {
        let atomic = global_memory_atomic(thread, ptr.cast_mut(), Touch::Atomic, (ordering, scope), place);
        // SAFETY: the checks have passed.
        unsafe { atomic.load() }
    })
}

#[track_caller]
pub(crate) unsafe fn atomic_store<T: AtomicValue>(ptr: *mut T, value: T, ordering: Ordering, scope: Scope) {
    let place = Location::caller();
    with_current(|thread| {
        let atomic = global_memory_atomic(thread, ptr, Touch::AtomicStore, (ordering, scope), place);
        // SAFETY: the checks have passed.
        unsafe { atomic.store(value) }
    });
}

#[track_caller]
pub(crate) unsafe fn shared_atomic<T: AtomicValue>(
    base: SharedAddress,
    index: u32,
    operation: AtomicOperation,
    value: T,
) -> T {
    let place = Location::caller();
    with_current(|thread| {
        let atomic = shared_memory_atomic(thread, base, index, place);
        // SAFETY: the checks have passed.
        unsafe { atomic.update(|old| Some(combine(operation, old, value))) }
    })
}

#[track_caller]
pub(crate) unsafe fn shared_compare_and_swap<T: AtomicValue>(base: SharedAddress, index: u32, current: T, new: T) -> T {
    let place = Location::caller();
    with_current(|thread| {
        let atomic = shared_memory_atomic(thread, base, index, place);
        // SAFETY: the checks have passed.
        unsafe { atomic.update(|old| (to_bits(old) == to_bits(current)).then_some(new)) }
    })
}

#[track_caller]
pub(crate) fn fence(ordering: Ordering, scope: Scope) {
    let place = Location::caller();
    with_current(|thread| {
        thread.block().launch.has_fences.store(true, Ordering::Relaxed);
        thread.fence(ordering, scope, place);
    });
}

/// A GPU's additions of `f32` to global memory, unlike those to shared memory, take denormal numbers for zeros of their sign, and
/// store such zeros for them.
fn combine_in_global_memory<T: AtomicValue>(operation: AtomicOperation, old: T, value: T) -> T {
    if operation != AtomicOperation::Add || T::CLASS != NumberClass::Float || size_of::<T>() == 8 {
        return combine(operation, old, value);
    }
    let flush = |number: T| {
        let number = f32::from_bits(to_bits(number) as u32);
        let flushed = if number.is_subnormal() { 0f32.copysign(number) } else { number };
        from_bits(u64::from(flushed.to_bits()))
    };
    flush(combine(operation, flush(old), flush(value)))
}

fn combine<T: AtomicValue>(operation: AtomicOperation, old: T, value: T) -> T {
    let (a, b) = (to_bits(old), to_bits(value));
    let wide = size_of::<T>() == 8;
    let bits = match (operation, T::CLASS) {
        (AtomicOperation::Exchange, _) => b,
        (AtomicOperation::And, _) => a & b,
        (AtomicOperation::Or, _) => a | b,
        (AtomicOperation::Xor, _) => a ^ b,
        (AtomicOperation::Add, NumberClass::Float) if wide => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
        (AtomicOperation::Add, NumberClass::Float) => {
            u64::from((f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits())
        }
        (AtomicOperation::Add, _) => a.wrapping_add(b),
        (AtomicOperation::Min, NumberClass::Signed) if wide => (a as i64).min(b as i64) as u64,
        (AtomicOperation::Max, NumberClass::Signed) if wide => (a as i64).max(b as i64) as u64,
        (AtomicOperation::Min, NumberClass::Signed) => u64::from((a as i32).min(b as i32) as u32),
        (AtomicOperation::Max, NumberClass::Signed) => u64::from((a as i32).max(b as i32) as u32),
        // Floats have no minimum and maximum: the public functions do not offer them.
        (AtomicOperation::Min, _) => a.min(b),
        (AtomicOperation::Max, _) => a.max(b),
    };
    from_bits(bits)
}

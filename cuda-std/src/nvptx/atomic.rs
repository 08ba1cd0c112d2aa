//! Atomics and fences.

use core::{arch::asm, sync::atomic::Ordering};

use super::SharedAddress;
use crate::atomic::{AtomicOperation, AtomicValue, NumberClass, Scope};

/// `$callback!` with the PTX name of a scope; LLVM keeps the one arm that is asked for.
macro_rules! for_scope {
    ($scope:expr, $callback:ident) => {
        match $scope {
            Scope::Block => $callback!("cta"),
            Scope::Device => $callback!("gpu"),
            Scope::System => $callback!("sys"),
        }
    };
}

#[inline(always)]
pub(crate) fn fence(ordering: Ordering, scope: Scope) {
    macro_rules! fence_instruction {
        ($scope:literal) => {
            match ordering {
                Ordering::Relaxed => {}
                Ordering::SeqCst => asm!(concat!("fence.sc.", $scope, ";"), options(nostack)),
                _ => asm!(concat!("fence.acq_rel.", $scope, ";"), options(nostack)),
            }
        };
    }
    // SAFETY: only orders.
    unsafe { for_scope!(scope, fence_instruction) }
}

/// The fence that makes what follows it a release, if the ordering is one.
#[inline(always)]
fn release(ordering: Ordering, scope: Scope) {
    if !matches!(ordering, Ordering::Relaxed | Ordering::Acquire) {
        fence(ordering, scope);
    }
}

/// The fence that makes what precedes it an acquire, if the ordering is one.
#[inline(always)]
fn acquire(ordering: Ordering, scope: Scope) {
    if !matches!(ordering, Ordering::Relaxed | Ordering::Release) {
        fence(ordering, scope);
    }
}

/// One `atom` instruction on `[$ptr]`; `$place` is its ordering, scope and state space, such as `relaxed.gpu.global`.
macro_rules! atom_instruction {
    ($T:ty, $operation:expr, $ptr:expr, $value:expr, $reg:ident, $place:expr) => {{
        let (ptr, value) = ($ptr, $value);
        macro_rules! narrow {
                        ($opcode:literal) => {{
                            let old: u32;
                            asm!(concat!("atom.", $place, ".", $opcode, " {0}, [{1}], {2};"), out(reg32) old,
                                in($reg) ptr, in(reg32) core::mem::transmute_copy::<$T, u32>(&value), options(nostack));
                            core::mem::transmute_copy::<u32, $T>(&old)
                        }};
                    }
        macro_rules! wide {
                        ($opcode:literal) => {{
                            let old: u64;
                            asm!(concat!("atom.", $place, ".", $opcode, " {0}, [{1}], {2};"), out(reg64) old,
                                in($reg) ptr, in(reg64) core::mem::transmute_copy::<$T, u64>(&value), options(nostack));
                            core::mem::transmute_copy::<u64, $T>(&old)
                        }};
                    }
        if size_of::<$T>() == 4 {
            match ($operation, <$T as AtomicValue>::CLASS) {
                (AtomicOperation::Add, NumberClass::Float) => narrow!("add.f32"),
                (AtomicOperation::Add, _) => narrow!("add.u32"),
                (AtomicOperation::Min, NumberClass::Signed) => narrow!("min.s32"),
                (AtomicOperation::Min, _) => narrow!("min.u32"),
                (AtomicOperation::Max, NumberClass::Signed) => narrow!("max.s32"),
                (AtomicOperation::Max, _) => narrow!("max.u32"),
                (AtomicOperation::And, _) => narrow!("and.b32"),
                (AtomicOperation::Or, _) => narrow!("or.b32"),
                (AtomicOperation::Xor, _) => narrow!("xor.b32"),
                (AtomicOperation::Exchange, _) => narrow!("exch.b32"),
            }
        } else {
            match ($operation, <$T as AtomicValue>::CLASS) {
                (AtomicOperation::Add, NumberClass::Float) => wide!("add.f64"),
                (AtomicOperation::Add, _) => wide!("add.u64"),
                (AtomicOperation::Min, NumberClass::Signed) => wide!("min.s64"),
                (AtomicOperation::Min, _) => wide!("min.u64"),
                (AtomicOperation::Max, NumberClass::Signed) => wide!("max.s64"),
                (AtomicOperation::Max, _) => wide!("max.u64"),
                (AtomicOperation::And, _) => wide!("and.b64"),
                (AtomicOperation::Or, _) => wide!("or.b64"),
                (AtomicOperation::Xor, _) => wide!("xor.b64"),
                (AtomicOperation::Exchange, _) => wide!("exch.b64"),
            }
        }
    }};
}

/// One `atom.cas` instruction on `[$ptr]`.
macro_rules! cas_instruction {
    ($T:ty, $ptr:expr, $current:expr, $new:expr, $reg:ident, $place:expr) => {{
        let (ptr, current, new) = ($ptr, $current, $new);
        if size_of::<$T>() == 4 {
            let old: u32;
            let word = |value: $T| core::mem::transmute_copy::<$T, u32>(&value);
            asm!(concat!("atom.relaxed.", $place, ".cas.b32 {0}, [{1}], {2}, {3};"), out(reg32) old, in($reg) ptr,
                in(reg32) word(current), in(reg32) word(new), options(nostack));
            core::mem::transmute_copy::<u32, $T>(&old)
        } else {
            let old: u64;
            let word = |value: $T| core::mem::transmute_copy::<$T, u64>(&value);
            asm!(concat!("atom.relaxed.", $place, ".cas.b64 {0}, [{1}], {2}, {3};"), out(reg64) old, in($reg) ptr,
                in(reg64) word(current), in(reg64) word(new), options(nostack));
            core::mem::transmute_copy::<u64, $T>(&old)
        }
    }};
}

#[inline(always)]
pub(crate) unsafe fn atomic<T: AtomicValue>(
    ptr: *mut T,
    operation: AtomicOperation,
    value: T,
    ordering: Ordering,
    scope: Scope,
) -> T {
    macro_rules! instruction {
        ($ordering:literal, $scope:literal) => {
            atom_instruction!(T, operation, ptr, value, reg64, concat!($ordering, ".", $scope, ".global"))
        };
    }
    // The instruction's own ordering, not fences about it: a fence at the GPU's scope also empties the L1 cache, which
    // a release has no need of.
    macro_rules! at_scope {
        ($scope:literal) => {
            match ordering {
                Ordering::Acquire => instruction!("acquire", $scope),
                Ordering::Release => instruction!("release", $scope),
                Ordering::AcqRel => instruction!("acq_rel", $scope),
                _ => instruction!("relaxed", $scope),
            }
        };
    }
    let sequential = ordering == Ordering::SeqCst;
    if sequential {
        fence(ordering, scope);
    }
    // SAFETY: the rules of `atomic`; each branch handles values of its size.
    let old = unsafe { for_scope!(scope, at_scope) };
    if sequential {
        fence(ordering, scope);
    }
    old
}

#[inline(always)]
pub(crate) unsafe fn compare_and_swap<T: AtomicValue>(
    ptr: *mut T,
    current: T,
    new: T,
    ordering: Ordering,
    scope: Scope,
) -> T {
    macro_rules! at_scope {
        ($scope:literal) => {
            cas_instruction!(T, ptr, current, new, reg64, concat!($scope, ".global"))
        };
    }
    release(ordering, scope);
    // SAFETY: the rules of `atomic`; each branch handles values of its size.
    let old = unsafe { for_scope!(scope, at_scope) };
    acquire(ordering, scope);
    old
}

#[inline(always)]
pub(crate) unsafe fn atomic_load<T: AtomicValue>(ptr: *const T, ordering: Ordering, scope: Scope) -> T {
    macro_rules! at_scope {
        ($scope:literal) => {
            if size_of::<T>() == 4 {
                let word: u32;
                asm!(concat!("ld.relaxed.", $scope, ".global.b32 {0}, [{1}];"), out(reg32) word, in(reg64) ptr,
                    options(nostack));
                core::mem::transmute_copy::<u32, T>(&word)
            } else {
                let word: u64;
                asm!(concat!("ld.relaxed.", $scope, ".global.b64 {0}, [{1}];"), out(reg64) word, in(reg64) ptr,
                    options(nostack));
                core::mem::transmute_copy::<u64, T>(&word)
            }
        };
    }
    if ordering == Ordering::SeqCst {
        fence(ordering, scope);
    }
    // SAFETY: the rules of `atomic`; each branch handles values of its size.
    let value = unsafe { for_scope!(scope, at_scope) };
    acquire(ordering, scope);
    value
}

#[inline(always)]
pub(crate) unsafe fn atomic_store<T: AtomicValue>(ptr: *mut T, value: T, ordering: Ordering, scope: Scope) {
    macro_rules! at_scope {
        ($scope:literal) => {
            if size_of::<T>() == 4 {
                asm!(concat!("st.relaxed.", $scope, ".global.b32 [{0}], {1};"), in(reg64) ptr,
                    in(reg32) core::mem::transmute_copy::<T, u32>(&value), options(nostack));
            } else {
                asm!(concat!("st.relaxed.", $scope, ".global.b64 [{0}], {1};"), in(reg64) ptr,
                    in(reg64) core::mem::transmute_copy::<T, u64>(&value), options(nostack));
            }
        };
    }
    release(ordering, scope);
    // SAFETY: the rules of `atomic`; each branch handles values of its size.
    unsafe { for_scope!(scope, at_scope) }
    if ordering == Ordering::SeqCst {
        fence(ordering, scope);
    }
}

#[inline(always)]
pub(crate) unsafe fn shared_atomic<T: AtomicValue>(
    base: SharedAddress,
    index: u32,
    operation: AtomicOperation,
    value: T,
) -> T {
    let address = base + index * size_of::<T>() as u32;
    // SAFETY: the rules of `Shared`; each branch handles values of its size.
    unsafe { atom_instruction!(T, operation, address, value, reg32, "relaxed.cta.shared") }
}

#[inline(always)]
pub(crate) unsafe fn shared_compare_and_swap<T: AtomicValue>(base: SharedAddress, index: u32, current: T, new: T) -> T {
    let address = base + index * size_of::<T>() as u32;
    // SAFETY: the rules of `Shared`; each branch handles values of its size.
    unsafe { cas_instruction!(T, address, current, new, reg32, "cta.shared") }
}

//! The GPU backend: PTX, one instruction a function.

use core::{
    arch::{asm, nvptx},
    sync::atomic::Ordering,
};

use crate::{
    atomic::{AtomicOperation, AtomicValue, NumberClass, Scope},
    mem::{Caching, DeviceValue},
    warp::ShuffleMode,
};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: ends the kernel with an error that the host sees.
    unsafe { nvptx::trap() }
}

macro_rules! special_registers {
    ($($name:ident: $x:ident $y:ident $z:ident;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(axis: u32) -> u32 {
            // SAFETY: reads a special register.
            unsafe {
                (match axis {
                    0 => nvptx::$x(),
                    1 => nvptx::$y(),
                    _ => nvptx::$z(),
                }) as u32
            }
        }
    )*};
}
special_registers! {
    thread_idx: _thread_idx_x _thread_idx_y _thread_idx_z;
    block_idx: _block_idx_x _block_idx_y _block_idx_z;
    block_dim: _block_dim_x _block_dim_y _block_dim_z;
    grid_dim: _grid_dim_x _grid_dim_y _grid_dim_z;
}

#[inline(always)]
pub(crate) fn sync_threads() {
    // The intrinsic, not `asm!`: LLVM knows it as convergent, and so neither merges two barriers nor duplicates one.
    // SAFETY: a barrier of the whole block; that all threads reach it is the kernel's promise.
    unsafe { nvptx::_syncthreads() }
}

#[inline(always)]
pub(crate) unsafe fn sync_threads_named(id: u32, count: u32) {
    // SAFETY: that whole warps come, as many as counted, is the caller's promise.
    unsafe { asm!("bar.sync {}, {};", in(reg32) id, in(reg32) count, options(nostack)) }
}

/// The word counts blocks in its low 31 bits. Each block adds 1, but block 0 adds what makes the sum of all 2^31: so
/// the last one to come flips the high bit, for which all wait, and the low bits are 0 again.
#[inline(always)]
pub(crate) unsafe fn grid_sync(state: *mut u32) {
    sync_threads();
    if thread_idx(0) | thread_idx(1) | thread_idx(2) == 0 {
        let first = block_idx(0) | block_idx(1) | block_idx(2) == 0;
        let blocks = grid_dim(0) * grid_dim(1) * grid_dim(2);
        let arrival = if first { (1 << 31) - (blocks - 1) } else { 1 };
        // SAFETY: the word is for this alone, by the caller's promise.
        unsafe {
            let before = atomic(state, AtomicOperation::Add, arrival, Ordering::AcqRel, Scope::Device);
            while (atomic_load(state, Ordering::Relaxed, Scope::Device) ^ before) >> 31 == 0 {}
        }
        fence(Ordering::AcqRel, Scope::Device);
    }
    sync_threads();
}

#[inline(always)]
pub(crate) fn lane_id() -> u32 {
    let lane;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {}, %laneid;", out(reg32) lane, options(pure, nomem, nostack)) }
    lane
}

#[inline(always)]
pub(crate) fn activemask() -> u32 {
    let mask;
    // SAFETY: reads the convergence state.
    unsafe { asm!("activemask.b32 {};", out(reg32) mask, options(nomem, nostack)) }
    mask
}

#[inline(always)]
pub(crate) unsafe fn sync_warp(mask: u32) {
    // SAFETY: every lane in the mask comes here, by the caller's promise.
    unsafe { asm!("bar.warp.sync {};", in(reg32) mask, options(nostack)) }
}

#[inline(always)]
pub(crate) unsafe fn shuffle(mode: ShuffleMode, mask: u32, value: u32, operand: u32, width: u32) -> (u32, bool) {
    // The last operand packs the segment's mask and the clamp: PTX ISA, shfl.sync.
    let segment = (32 - width) << 8;
    let (result, inside): (u32, u32);
    macro_rules! shfl {
        ($mode:literal, $clamp:literal) => {
            asm!(
                concat!("{{ .reg .pred p; shfl.sync.", $mode, ".b32 {0}|p, {2}, {3}, {4}, {5}; selp.u32 {1}, 1, 0, p; }}"),
                out(reg32) result, out(reg32) inside,
                in(reg32) value, in(reg32) operand, in(reg32) segment | $clamp, in(reg32) mask,
                options(nomem, nostack)
            )
        };
    }
    // SAFETY: the lanes in the mask all come here, by the caller's promise.
    unsafe {
        match mode {
            ShuffleMode::Index => shfl!("idx", 31),
            ShuffleMode::Up => shfl!("up", 0),
            ShuffleMode::Down => shfl!("down", 31),
            ShuffleMode::Xor => shfl!("bfly", 31),
        }
    }
    (result, inside != 0)
}

#[inline(always)]
pub(crate) unsafe fn ballot(mask: u32, predicate: bool) -> u32 {
    let lanes;
    // SAFETY: the lanes in the mask all come here, by the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred p; setp.ne.u32 p, {1}, 0; vote.sync.ballot.b32 {0}, p, {2}; }}",
            out(reg32) lanes, in(reg32) u32::from(predicate), in(reg32) mask,
            options(nomem, nostack)
        );
    }
    lanes
}

#[inline(always)]
pub(crate) unsafe fn match_any(mask: u32, value: u64, wide: bool) -> u32 {
    let lanes;
    // SAFETY: the lanes in the mask all come here, by the caller's promise.
    unsafe {
        if wide {
            asm!("match.any.sync.b64 {}, {}, {};", out(reg32) lanes, in(reg64) value, in(reg32) mask, options(nomem, nostack));
        } else {
            asm!("match.any.sync.b32 {}, {}, {};", out(reg32) lanes, in(reg32) value as u32, in(reg32) mask,
                options(nomem, nostack));
        }
    }
    lanes
}

#[inline(always)]
pub(crate) unsafe fn match_all(mask: u32, value: u64, wide: bool) -> (u32, bool) {
    let (lanes, all): (u32, u32);
    macro_rules! match_all {
        ($type:literal, $reg:ident, $value:expr) => {
            asm!(
                concat!("{{ .reg .pred p; match.all.sync.", $type, " {0}|p, {2}, {3}; selp.u32 {1}, 1, 0, p; }}"),
                out(reg32) lanes, out(reg32) all, in($reg) $value, in(reg32) mask,
                options(nomem, nostack)
            )
        };
    }
    // SAFETY: the lanes in the mask all come here, by the caller's promise.
    unsafe {
        if wide {
            match_all!("b64", reg64, value);
        } else {
            match_all!("b32", reg32, value as u32);
        }
    }
    (lanes, all != 0)
}

#[inline(always)]
pub(crate) fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    let result;
    // SAFETY: arithmetic.
    unsafe {
        asm!("fma.rn.f32 {}, {}, {}, {};", out(reg32) result, in(reg32) a, in(reg32) b, in(reg32) c,
            options(pure, nomem, nostack));
    }
    result
}

#[inline(always)]
pub(crate) fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    let result;
    // SAFETY: arithmetic.
    unsafe {
        asm!("fma.rn.f64 {}, {}, {}, {};", out(reg64) result, in(reg64) a, in(reg64) b, in(reg64) c,
            options(pure, nomem, nostack));
    }
    result
}

/// Instructions that load `N` elements from `[$ptr]`; `$space` is the rest of the opcode, such as `global.nc`.
macro_rules! load_instructions {
    ($T:ty, $N:expr, $ptr:expr, $reg:ident, $space:literal) => {{
        let ptr = $ptr;
        // LLVM keeps the one arm that the type and the width select; the rest is dead code.
        if size_of::<$T>() == 4 {
            let mut words = [0u32; 4];
            match $N {
                1 => asm!(concat!("ld.", $space, ".b32 {0}, [{1}];"), out(reg32) words[0], in($reg) ptr, options(nostack, readonly)),
                2 => asm!(concat!("ld.", $space, ".v2.b32 {{{0}, {1}}}, [{2}];"),
                    out(reg32) words[0], out(reg32) words[1], in($reg) ptr, options(nostack, readonly)),
                _ => asm!(concat!("ld.", $space, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                    out(reg32) words[0], out(reg32) words[1], out(reg32) words[2], out(reg32) words[3],
                    in($reg) ptr, options(nostack, readonly)),
            }
            core::mem::transmute_copy::<[u32; 4], [$T; $N]>(&words)
        } else {
            let mut words = [0u64; 4];
            match $N {
                1 => asm!(concat!("ld.", $space, ".b64 {0}, [{1}];"), out(reg64) words[0], in($reg) ptr, options(nostack, readonly)),
                _ => asm!(concat!("ld.", $space, ".v2.b64 {{{0}, {1}}}, [{2}];"),
                    out(reg64) words[0], out(reg64) words[1], in($reg) ptr, options(nostack, readonly)),
            }
            if $N == 4 {
                asm!(concat!("ld.", $space, ".v2.b64 {{{0}, {1}}}, [{2}+16];"),
                    out(reg64) words[2], out(reg64) words[3], in($reg) ptr, options(nostack, readonly));
            }
            core::mem::transmute_copy::<[u64; 4], [$T; $N]>(&words)
        }
    }};
}

/// Instructions that store `$values` to `[$ptr]`.
macro_rules! store_instructions {
    ($T:ty, $N:expr, $ptr:expr, $values:expr, $reg:ident, $space:literal) => {{
        let (ptr, values) = ($ptr, $values);
        if size_of::<$T>() == 4 {
            let word = |i: usize| core::mem::transmute_copy::<$T, u32>(&values[i]);
            match $N {
                1 => asm!(concat!("st.", $space, ".b32 [{1}], {0};"), in(reg32) word(0), in($reg) ptr, options(nostack)),
                2 => asm!(concat!("st.", $space, ".v2.b32 [{2}], {{{0}, {1}}};"),
                    in(reg32) word(0), in(reg32) word(1), in($reg) ptr, options(nostack)),
                _ => asm!(concat!("st.", $space, ".v4.b32 [{4}], {{{0}, {1}, {2}, {3}}};"),
                    in(reg32) word(0), in(reg32) word(1), in(reg32) word(2), in(reg32) word(3),
                    in($reg) ptr, options(nostack)),
            }
        } else {
            let word = |i: usize| core::mem::transmute_copy::<$T, u64>(&values[i]);
            match $N {
                1 => asm!(concat!("st.", $space, ".b64 [{1}], {0};"), in(reg64) word(0), in($reg) ptr, options(nostack)),
                _ => asm!(concat!("st.", $space, ".v2.b64 [{2}], {{{0}, {1}}};"),
                    in(reg64) word(0), in(reg64) word(1), in($reg) ptr, options(nostack)),
            }
            if $N == 4 {
                asm!(concat!("st.", $space, ".v2.b64 [{2}+16], {{{0}, {1}}};"),
                    in(reg64) word(2), in(reg64) word(3), in($reg) ptr, options(nostack));
            }
        }
    }};
}

#[inline(always)]
pub(crate) unsafe fn load<T: DeviceValue, const N: usize>(ptr: *const T, caching: Caching) -> [T; N] {
    const { assert!((N == 1 || N == 2 || N == 4) && (size_of::<T>() == 4 || size_of::<T>() == 8)) }
    // SAFETY: the rules of `mem`; the words read are a T each, of the size that the branch is for.
    unsafe {
        match caching {
            Caching::Plain => load_instructions!(T, N, ptr, reg64, "global"),
            Caching::ReadOnly => load_instructions!(T, N, ptr, reg64, "global.nc"),
            Caching::Streaming => load_instructions!(T, N, ptr, reg64, "global.cs"),
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn store<T: DeviceValue, const N: usize>(ptr: *mut T, values: [T; N], caching: Caching) {
    const { assert!((N == 1 || N == 2 || N == 4) && (size_of::<T>() == 4 || size_of::<T>() == 8)) }
    // SAFETY: the rules of `mem`; the words written are a T each, of the size that the branch is for.
    unsafe {
        match caching {
            Caching::Streaming => store_instructions!(T, N, ptr, values, reg64, "global.cs"),
            Caching::Plain | Caching::ReadOnly => store_instructions!(T, N, ptr, values, reg64, "global"),
        }
    }
}

/// A byte address in the block's shared window.
pub(crate) type SharedAddress = u32;

#[inline(always)]
pub(crate) fn shared_declare<T: DeviceValue, const LEN: usize>() -> SharedAddress {
    let address;
    // SAFETY: declares memory and takes its address. Not `pure`: two arrays of one size are two arrays.
    unsafe {
        asm!(
            "{{ .shared .align 16 .b8 array[{1}]; mov.u32 {0}, array; }}",
            out(reg32) address, const size_of::<T>() * LEN, options(nomem, nostack)
        );
    }
    address
}

#[inline(always)]
pub(crate) unsafe fn shared_load<T: DeviceValue, const N: usize>(base: SharedAddress, index: u32) -> [T; N] {
    let address = base + index * size_of::<T>() as u32;
    // SAFETY: the rules of `Shared`; the words read are a T each, of the size that the branch is for.
    unsafe { load_instructions!(T, N, address, reg32, "shared") }
}

#[inline(always)]
pub(crate) unsafe fn shared_store<T: DeviceValue, const N: usize>(base: SharedAddress, index: u32, values: [T; N]) {
    let address = base + index * size_of::<T>() as u32;
    // SAFETY: the rules of `Shared`; the words written are a T each, of the size that the branch is for.
    unsafe { store_instructions!(T, N, address, values, reg32, "shared") }
}

// The dynamic shared memory is one for all kernels of a module, and only a module can declare it.
core::arch::global_asm!(".extern .shared .align 16 .b8 cuda_std_dynamic_shared[];");

#[inline(always)]
pub(crate) fn shared_dynamic() -> SharedAddress {
    let address;
    // SAFETY: takes an address.
    unsafe { asm!("mov.u32 {}, cuda_std_dynamic_shared;", out(reg32) address, options(pure, nomem, nostack)) }
    address
}

#[inline(always)]
pub(crate) fn shared_offset(base: SharedAddress, bytes: u32) -> SharedAddress {
    base + bytes
}

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

/// One `atom` instruction on `[$ptr]`; `$place` is its scope and state space, such as `gpu.global`.
macro_rules! atom_instruction {
    ($T:ty, $operation:expr, $ptr:expr, $value:expr, $reg:ident, $place:expr) => {{
        let (ptr, value) = ($ptr, $value);
        macro_rules! narrow {
                        ($opcode:literal) => {{
                            let old: u32;
                            asm!(concat!("atom.relaxed.", $place, ".", $opcode, " {0}, [{1}], {2};"), out(reg32) old,
                                in($reg) ptr, in(reg32) core::mem::transmute_copy::<$T, u32>(&value), options(nostack));
                            core::mem::transmute_copy::<u32, $T>(&old)
                        }};
                    }
        macro_rules! wide {
                        ($opcode:literal) => {{
                            let old: u64;
                            asm!(concat!("atom.relaxed.", $place, ".", $opcode, " {0}, [{1}], {2};"), out(reg64) old,
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
    macro_rules! at_scope {
        ($scope:literal) => {
            atom_instruction!(T, operation, ptr, value, reg64, concat!($scope, ".global"))
        };
    }
    release(ordering, scope);
    // SAFETY: the rules of `atomic`; each branch handles values of its size.
    let old = unsafe { for_scope!(scope, at_scope) };
    acquire(ordering, scope);
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
    unsafe { atom_instruction!(T, operation, address, value, reg32, "cta.shared") }
}

#[inline(always)]
pub(crate) unsafe fn shared_compare_and_swap<T: AtomicValue>(base: SharedAddress, index: u32, current: T, new: T) -> T {
    let address = base + index * size_of::<T>() as u32;
    // SAFETY: the rules of `Shared`; each branch handles values of its size.
    unsafe { cas_instruction!(T, address, current, new, reg32, "cta.shared") }
}

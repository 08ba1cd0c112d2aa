//! Global and shared memory: loads, stores, and what a block declares.

use core::arch::asm;

use crate::mem::{Caching, DeviceValue, NarrowValue};

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

/// Widened to a register of 32 bits.
#[inline(always)]
pub(crate) unsafe fn load_readonly_narrow<N: NarrowValue>(ptr: *const N) -> u32 {
    const { assert!(size_of::<N>() == 1 || size_of::<N>() == 2) }
    let value;
    // SAFETY: the rules of `mem`; as many bytes are read as the type has.
    unsafe {
        match size_of::<N>() {
            1 => asm!("ld.global.nc.u8 {0}, [{1}];", out(reg32) value, in(reg64) ptr, options(nostack, readonly)),
            _ => asm!("ld.global.nc.u16 {0}, [{1}];", out(reg32) value, in(reg64) ptr, options(nostack, readonly)),
        }
    }
    value
}

#[inline(always)]
pub(crate) unsafe fn prefetch<T: DeviceValue>(ptr: *const T) {
    // SAFETY: brings a line of live memory into a cache.
    unsafe { asm!("prefetch.global.L2 [{}];", in(reg64) ptr, options(nostack, preserves_flags)) }
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

/// By the mark, `cuda_builder` finds arrays that were duplicated. It removes it.
#[inline(always)]
pub(crate) fn shared_declare<T: DeviceValue, const LEN: usize, const PLACE: u64>() -> SharedAddress {
    let address;
    // SAFETY: declares memory and takes its address. Not `pure`: two arrays of one size are two arrays.
    unsafe {
        asm!(
            "// cuda_std::shared_array {2} {1}",
            "\t{{ .shared .align 16 .b8 array[{1}]; mov.u32 {0}, array; }}",
            out(reg32) address, const size_of::<T>() * LEN, const PLACE, options(nomem, nostack)
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

/// Turing has no `cp.async`: the copy is a load and a store, done when this returns.
#[cfg(cuda_arch = "75")]
mod copies {
    use super::{Caching, DeviceValue, SharedAddress, load, shared_store};

    #[inline(always)]
    pub(crate) unsafe fn shared_copy_async<T: DeviceValue, const N: usize>(
        base: SharedAddress,
        index: u32,
        from: *const T,
        exists: bool,
    ) {
        // SAFETY: the rules of `Shared`.
        unsafe {
            let values = if exists { load::<T, N>(from, Caching::Plain) } else { [T::default(); N] };
            shared_store(base, index, values);
        }
    }

    #[inline(always)]
    pub(crate) fn commit_copies() {}

    #[inline(always)]
    pub(crate) fn wait_copies<const PENDING: u32>() {}
}

#[cfg(not(cuda_arch = "75"))]
mod copies {
    use super::{DeviceValue, SharedAddress, asm};

    /// Copies `$bytes` bytes, or fills as many with zeros.
    macro_rules! copy_instruction {
        ($caching:literal, $bytes:literal, $to:expr, $from:expr, $exists:expr) => {
            asm!(
                concat!("cp.async.", $caching, ".shared.global [{0}], [{1}], ", $bytes, ", {2};"),
                in(reg32) $to, in(reg64) $from, in(reg32) if $exists { $bytes } else { 0u32 }, options(nostack)
            )
        };
    }

    #[inline(always)]
    pub(crate) unsafe fn shared_copy_async<T: DeviceValue, const N: usize>(
        base: SharedAddress,
        index: u32,
        from: *const T,
        exists: bool,
    ) {
        let to = base + index * size_of::<T>() as u32;
        // SAFETY: the rules of `Shared`. Only copies of 16 bytes can leave the L1 cache alone.
        unsafe {
            match size_of::<T>() * N {
                32 => {
                    copy_instruction!("cg", 16, to, from, exists);
                    copy_instruction!("cg", 16, to + 16, from.wrapping_byte_add(16), exists);
                }
                16 => copy_instruction!("cg", 16, to, from, exists),
                8 => copy_instruction!("ca", 8, to, from, exists),
                _ => copy_instruction!("ca", 4, to, from, exists),
            }
        }
    }

    #[inline(always)]
    pub(crate) fn commit_copies() {
        // SAFETY: touches no memory of the program's own.
        unsafe { asm!("cp.async.commit_group;", options(nostack)) }
    }

    #[inline(always)]
    pub(crate) fn wait_copies<const PENDING: u32>() {
        // SAFETY: what arrives meanwhile nobody touches before this, by the rules of the copies.
        unsafe { asm!("cp.async.wait_group {};", const PENDING, options(nostack)) }
    }
}
pub(crate) use copies::{commit_copies, shared_copy_async, wait_copies};

// The dynamic shared memory is one for all kernels of a module, and only a module can declare it.
#[cfg(not(cuda_arch = "90a"))]
core::arch::global_asm!(".extern .shared .align 16 .b8 cuda_std_dynamic_shared[];");
// Swizzled tiles are aligned to 1024 bytes.
#[cfg(cuda_arch = "90a")]
core::arch::global_asm!(".extern .shared .align 1024 .b8 cuda_std_dynamic_shared[];");

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

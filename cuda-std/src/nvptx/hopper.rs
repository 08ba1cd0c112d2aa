//! Instructions of Hopper: barriers in shared memory, bulk copies, and products by warpgroups.
//!
//! They are for `sm_90a` only. Nothing here is compiled for a kernel that does not call it.

use core::arch::asm;

use super::memory::SharedAddress;
use crate::tma::TensorMap;

#[inline(always)]
pub(crate) unsafe fn mbarrier_init(barrier: SharedAddress, arrivals: u32) {
    // SAFETY: the rules of `Mbarrier`, here and in what follows.
    unsafe { asm!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) barrier, in(reg32) arrivals, options(nostack)) }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_invalidate(barrier: SharedAddress) {
    // SAFETY: as above.
    unsafe { asm!("mbarrier.inval.shared::cta.b64 [{}];", in(reg32) barrier, options(nostack)) }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_expect(barrier: SharedAddress, bytes: u32) {
    // SAFETY: as above.
    unsafe {
        asm!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{}], {};", in(reg32) barrier, in(reg32) bytes, options(nostack));
    }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_arrive(barrier: SharedAddress) {
    // SAFETY: as above.
    unsafe { asm!("mbarrier.arrive.release.cta.shared::cta.b64 _, [{}];", in(reg32) barrier, options(nostack)) }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_arrive_expect(barrier: SharedAddress, bytes: u32) {
    // SAFETY: as above.
    unsafe {
        asm!("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [{}], {};",
            in(reg32) barrier, in(reg32) bytes, options(nostack));
    }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_try_wait(barrier: SharedAddress, parity: u32) -> bool {
    let done: u32;
    // SAFETY: as above.
    unsafe {
        asm!(
            "{{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}",
            out(reg32) done, in(reg32) barrier, in(reg32) parity, options(nostack)
        );
    }
    done != 0
}

#[inline(always)]
pub(crate) fn fence_proxy_async() {
    // SAFETY: orders accesses.
    unsafe { asm!("fence.proxy.async;", options(nostack)) }
}

#[inline(always)]
pub(crate) unsafe fn tma_load_tile(to: SharedAddress, map: *const TensorMap, [x, y]: [i32; 2], barrier: SharedAddress) {
    // SAFETY: the rules of `tma`, here and in what follows.
    unsafe {
        asm!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [{}], [{}, {{{}, {}}}], [{}];",
            in(reg32) to, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) barrier, options(nostack)
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn tma_load_bytes(to: SharedAddress, from: *const u8, bytes: u32, barrier: SharedAddress) {
    // SAFETY: as above.
    unsafe {
        asm!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}], {}, [{}];",
            in(reg32) to, in(reg64) from, in(reg32) bytes, in(reg32) barrier, options(nostack)
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn tma_store_tile(map: *const TensorMap, [x, y]: [i32; 2], from: SharedAddress) {
    // SAFETY: as above.
    unsafe {
        asm!(
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [{}, {{{}, {}}}], [{}];",
            in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) from, options(nostack)
        );
    }
}

#[inline(always)]
pub(crate) fn tma_commit_stores() {
    // SAFETY: touches no memory.
    unsafe { asm!("cp.async.bulk.commit_group;", options(nostack)) }
}

#[inline(always)]
pub(crate) fn tma_wait_stores<const PENDING: u32, const READS_ONLY: bool>() {
    // SAFETY: touches no memory of the program's own.
    unsafe {
        if READS_ONLY {
            asm!("cp.async.bulk.wait_group.read {};", const PENDING, options(nostack));
        } else {
            asm!("cp.async.bulk.wait_group {};", const PENDING, options(nostack));
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn arrive_threads_named(id: u32, count: u32) {
    // SAFETY: that whole warps come, as many as counted, is the caller's promise.
    unsafe { asm!("barrier.arrive {}, {};", in(reg32) id, in(reg32) count, options(nostack)) }
}

#[inline(always)]
pub(crate) unsafe fn increase_registers<const REGISTERS: u32>() {
    // SAFETY: all threads of the warpgroup come here, by the caller's promise.
    unsafe { asm!("setmaxnreg.inc.sync.aligned.u32 {};", const REGISTERS, options(nostack)) }
}

#[inline(always)]
pub(crate) unsafe fn decrease_registers<const REGISTERS: u32>() {
    // SAFETY: all threads of the warpgroup come here, by the caller's promise.
    unsafe { asm!("setmaxnreg.dec.sync.aligned.u32 {};", const REGISTERS, options(nostack)) }
}

/// The descriptor of a matrix, as `wgmma` takes it: PTX ISA, "Matrix Descriptor Format".
pub(crate) type Descriptor = u64;

#[inline(always)]
pub(crate) fn descriptor(start: SharedAddress, leading: u32, stride: u32, swizzle: crate::tma::Swizzle) -> Descriptor {
    use crate::tma::Swizzle;
    let mode: u64 = match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes128 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes32 => 3,
    };
    let in_16_bytes = |bytes: u32| u64::from(bytes >> 4 & 0x3fff);
    in_16_bytes(start) | in_16_bytes(leading) << 16 | in_16_bytes(stride) << 32 | mode << 62
}

/// The low word holds the start, and no start in shared memory overflows its field.
#[inline(always)]
pub(crate) fn descriptor_offset(descriptor: Descriptor, bytes: u32) -> Descriptor {
    descriptor + u64::from(bytes >> 4)
}

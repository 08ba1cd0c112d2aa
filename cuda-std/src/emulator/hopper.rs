//! The host backend of Hopper's instructions: what the public functions call, for the GPU thread that is running.

use core::panic::Location;

use super::{
    access::SharedAddress,
    thread::with_current,
    warpgroup::WarpgroupOperation,
    wgmma::{Descriptor, Numbers},
};
use crate::tma::{Swizzle, TensorMap};

#[track_caller]
pub(crate) unsafe fn mbarrier_init(barrier: SharedAddress, arrivals: u32) {
    let place = Location::caller();
    with_current(|thread| thread.mbarrier_init(barrier, arrivals, place));
}

#[track_caller]
pub(crate) unsafe fn mbarrier_invalidate(barrier: SharedAddress) {
    let place = Location::caller();
    with_current(|thread| thread.mbarrier_invalidate(barrier, place));
}

#[track_caller]
pub(crate) unsafe fn mbarrier_expect(barrier: SharedAddress, bytes: u32) {
    let place = Location::caller();
    with_current(|thread| thread.mbarrier_arrive(barrier, bytes, false, place));
}

#[track_caller]
pub(crate) unsafe fn mbarrier_arrive(barrier: SharedAddress) {
    let place = Location::caller();
    with_current(|thread| thread.mbarrier_arrive(barrier, 0, true, place));
}

#[track_caller]
pub(crate) unsafe fn mbarrier_arrive_expect(barrier: SharedAddress, bytes: u32) {
    let place = Location::caller();
    with_current(|thread| thread.mbarrier_arrive(barrier, bytes, true, place));
}

#[track_caller]
pub(crate) unsafe fn mbarrier_try_wait(barrier: SharedAddress, parity: u32) -> bool {
    let place = Location::caller();
    with_current(|thread| thread.mbarrier_try_wait(barrier, parity, place))
}

#[track_caller]
pub(crate) fn fence_proxy_async() {
    let place = Location::caller();
    with_current(|thread| thread.fence_proxy(place));
}

#[track_caller]
pub(crate) unsafe fn tma_load_tile(to: SharedAddress, map: *const TensorMap, corner: [i32; 2], barrier: SharedAddress) {
    let place = Location::caller();
    with_current(|thread| thread.load_tile(to, map, corner, barrier, place));
}

#[track_caller]
pub(crate) unsafe fn tma_load_bytes(to: SharedAddress, from: *const u8, bytes: u32, barrier: SharedAddress) {
    let place = Location::caller();
    with_current(|thread| thread.load_bytes(to, from, bytes, barrier, place));
}

#[track_caller]
pub(crate) unsafe fn tma_store_tile(map: *const TensorMap, corner: [i32; 2], from: SharedAddress) {
    let place = Location::caller();
    with_current(|thread| thread.store_tile(map, corner, from, place));
}

#[track_caller]
pub(crate) fn tma_commit_stores() {
    with_current(|thread| thread.commit_stores());
}

#[track_caller]
pub(crate) fn tma_wait_stores<const PENDING: u32, const READS_ONLY: bool>() {
    with_current(|thread| thread.wait_stores(PENDING, READS_ONLY));
}

#[track_caller]
pub(crate) unsafe fn arrive_threads_named(id: u32, count: u32) {
    let place = Location::caller();
    with_current(|thread| thread.arrive(id, count, place));
}

/// How many registers a thread has does not matter here.
#[track_caller]
pub(crate) unsafe fn increase_registers<const REGISTERS: u32>() {
    let place = Location::caller();
    with_current(|thread| thread.warpgroup_operation(WarpgroupOperation::SetRegisters(REGISTERS), place));
}

#[track_caller]
pub(crate) unsafe fn decrease_registers<const REGISTERS: u32>() {
    let place = Location::caller();
    with_current(|thread| thread.warpgroup_operation(WarpgroupOperation::SetRegisters(REGISTERS), place));
}

pub(crate) fn descriptor(start: SharedAddress, leading: u32, stride: u32, swizzle: Swizzle) -> Descriptor {
    Descriptor { start, leading, stride, swizzle }
}

pub(crate) fn descriptor_offset(descriptor: Descriptor, bytes: u32) -> Descriptor {
    let start = SharedAddress { byte: descriptor.start.byte + bytes, ..descriptor.start };
    Descriptor { start, ..descriptor }
}

macro_rules! products {
    ($($product:ident $product_add:ident $numbers:ident;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $product<const N: usize>(products: [(Descriptor, Descriptor); N]) -> [f32; 64] {
            // SAFETY: the caller's promise.
            unsafe { $product_add([0.0; 64], products) }
        }

        #[track_caller]
        pub(crate) unsafe fn $product_add<const N: usize>(
            sums: [f32; 64],
            products: [(Descriptor, Descriptor); N],
        ) -> [f32; 64] {
            let place = Location::caller();
            with_current(|thread| {
                thread.sums.set(sums);
                thread.warpgroup_operation(WarpgroupOperation::Multiply(Numbers::$numbers, products.to_vec()), place);
                thread.sums.get()
            })
        }
    )*};
}
products! {
    m64n128k8_tf32 m64n128k8_tf32_add Tf32;
    m64n128k16_bf16 m64n128k16_bf16_add Bf16;
    m64n128k16_f16 m64n128k16_f16_add F16;
}

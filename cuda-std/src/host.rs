//! The host backend.

use crate::{
    mem::{Caching, DeviceValue},
    warp::ShuffleMode,
};

#[cold]
#[track_caller]
fn gpu_only() -> ! {
    panic!("this function runs on the GPU only")
}

pub(crate) fn thread_idx(_axis: u32) -> u32 {
    gpu_only()
}
pub(crate) fn block_idx(_axis: u32) -> u32 {
    gpu_only()
}
pub(crate) fn block_dim(_axis: u32) -> u32 {
    gpu_only()
}
pub(crate) fn grid_dim(_axis: u32) -> u32 {
    gpu_only()
}
pub(crate) fn sync_threads() {
    gpu_only()
}
pub(crate) fn lane_id() -> u32 {
    gpu_only()
}
pub(crate) fn activemask() -> u32 {
    gpu_only()
}
pub(crate) unsafe fn sync_warp(_mask: u32) {
    gpu_only()
}
pub(crate) unsafe fn shuffle(_mode: ShuffleMode, _mask: u32, _value: u32, _operand: u32, _width: u32) -> (u32, bool) {
    gpu_only()
}
pub(crate) unsafe fn ballot(_mask: u32, _predicate: bool) -> u32 {
    gpu_only()
}
pub(crate) fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}
pub(crate) fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}
pub(crate) unsafe fn load<T: DeviceValue, const N: usize>(_ptr: *const T, _caching: Caching) -> [T; N] {
    gpu_only()
}
pub(crate) unsafe fn store<T: DeviceValue, const N: usize>(_ptr: *mut T, _values: [T; N], _caching: Caching) {
    gpu_only()
}
pub(crate) type SharedAddress = usize;
pub(crate) fn shared_declare<T: DeviceValue, const LEN: usize>() -> SharedAddress {
    gpu_only()
}
pub(crate) unsafe fn shared_load<T: DeviceValue, const N: usize>(_base: SharedAddress, _index: u32) -> [T; N] {
    gpu_only()
}
pub(crate) unsafe fn shared_store<T: DeviceValue, const N: usize>(_base: SharedAddress, _index: u32, _values: [T; N]) {
    gpu_only()
}

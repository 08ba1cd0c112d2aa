//! The GPU backend: PTX, one instruction a function.
//!
//! LLVM does not know `asm!` as convergent, so it may copy a warp operation into two branches, or merge two of them.
//! Their `.sync` forms wait for the lanes in the mask by the kind of operation, not by its place in the program (PTX
//! ISA, since 6.0), so that either keeps its meaning. The block's barrier is LLVM's own intrinsic. rustc knows neither as
//! convergent: `cuda_builder` turns off the pass that duplicates calls, and checks the barriers in the PTX.

mod atomic;
mod hopper;
mod memory;
mod mma;
mod wgmma;

use core::{
    arch::{asm, nvptx},
    sync::atomic::Ordering,
};

pub(crate) use self::{
    atomic::{atomic, atomic_load, atomic_store, compare_and_swap, fence, shared_atomic, shared_compare_and_swap},
    hopper::{
        Descriptor, arrive_threads_named, decrease_registers, descriptor, descriptor_offset, fence_proxy_async,
        increase_registers, mbarrier_arrive, mbarrier_arrive_expect, mbarrier_expect, mbarrier_init,
        mbarrier_invalidate, mbarrier_try_wait, tma_commit_stores, tma_load_bytes, tma_load_tile, tma_store_tile,
        tma_wait_stores,
    },
    memory::{
        SharedAddress, commit_copies, load, load_readonly_narrow, prefetch, shared_copy_async, shared_declare,
        shared_dynamic, shared_load, shared_offset, shared_store, store, wait_copies,
    },
    mma::{m8n8k4_f64, m16n8k4_f64, m16n8k8_f64, m16n8k8_tf32, m16n8k16_f64},
    wgmma::{
        m64n128k8_tf32, m64n128k8_tf32_add, m64n128k16_bf16, m64n128k16_bf16_add, m64n128k16_f16, m64n128k16_f16_add,
    },
};
use crate::{
    atomic::{AtomicOperation, Scope},
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

/// A mark in the text, which `cuda_builder` replaces.
#[inline(always)]
pub(crate) fn launch_bounds<const MAX_THREADS: u32, const MIN_BLOCKS: u32>() {
    // SAFETY: a comment.
    unsafe {
        asm!("// cuda_std::launch_bounds {} {}", const MAX_THREADS, const MIN_BLOCKS, options(nostack, preserves_flags));
    }
}

#[inline(always)]
pub(crate) fn sync_threads() {
    // The intrinsic, not `asm!`: LLVM knows it as convergent, and so neither merges two barriers nor copies one into branches.
    // SAFETY: a barrier of the whole block; that all threads reach it is the kernel's promise.
    unsafe { nvptx::_syncthreads() }
}

#[inline(always)]
pub(crate) unsafe fn sync_threads_named(id: u32, count: u32) {
    // SAFETY: that whole warps come, as many as counted, is the caller's promise.
    // `barrier.sync`, not `bar.sync`: it needs no warp to be converged.
    unsafe { asm!("barrier.sync {}, {};", in(reg32) id, in(reg32) count, options(nostack)) }
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

#[inline(always)]
pub(crate) fn sqrt_f32(x: f32) -> f32 {
    let result;
    // SAFETY: arithmetic.
    unsafe { asm!("sqrt.rn.f32 {}, {};", out(reg32) result, in(reg32) x, options(pure, nomem, nostack)) };
    result
}

#[inline(always)]
pub(crate) fn sqrt_f64(x: f64) -> f64 {
    let result;
    // SAFETY: arithmetic.
    unsafe { asm!("sqrt.rn.f64 {}, {};", out(reg64) result, in(reg64) x, options(pure, nomem, nostack)) };
    result
}

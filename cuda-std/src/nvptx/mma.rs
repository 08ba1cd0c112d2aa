//! Products on the tensor cores: by one instruction where the architecture has it, otherwise by smaller products.
//!
//! `C` and `D` share registers: given others, ptxas moved all sums of a loop at its end, and spilled.

#[cfg(not(cuda_arch = "75"))]
use core::arch::asm;

#[cfg(not(cuda_arch = "75"))]
#[inline(always)]
pub(crate) unsafe fn m8n8k4_f64(a: [f64; 1], b: [f64; 1], c: [f64; 2]) -> [f64; 2] {
    let mut d = [0.0; 2];
    // SAFETY: all lanes come here, by the caller's promise.
    unsafe {
        asm!(
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{{0}, {1}}}, {{{2}}}, {{{3}}}, {{{0}, {1}}};",
            inout(reg64) c[0] => d[0], inout(reg64) c[1] => d[1], in(reg64) a[0], in(reg64) b[0],
            options(nomem, nostack)
        );
    }
    d
}

/// Turing has no tensor cores for `f64`.
#[cfg(cuda_arch = "75")]
#[inline(always)]
pub(crate) unsafe fn m8n8k4_f64([a]: [f64; 1], [b]: [f64; 1], mut c: [f64; 2]) -> [f64; 2] {
    use crate::warp::{WARP_SIZE, warp_shuffle_idx};
    let (lane, all) = (super::lane_id(), u32::MAX);
    let mut place = 0;
    while place < 4 {
        // SAFETY: all lanes come here, by the caller's promise.
        unsafe {
            let (of_row, _) = warp_shuffle_idx(all, a, lane / 4 * 4 + place, WARP_SIZE);
            let (of_left, _) = warp_shuffle_idx(all, b, lane % 4 * 8 + place, WARP_SIZE);
            let (of_right, _) = warp_shuffle_idx(all, b, lane % 4 * 8 + 4 + place, WARP_SIZE);
            c = [super::fma_f64(of_row, of_left, c[0]), super::fma_f64(of_row, of_right, c[1])];
        }
        place += 1;
    }
    c
}

#[cfg(not(any(cuda_arch = "75", cuda_arch = "80", cuda_arch = "86", cuda_arch = "89")))]
mod larger {
    use super::asm;

    #[inline(always)]
    pub(crate) unsafe fn m16n8k4_f64(a: [f64; 2], b: [f64; 1], c: [f64; 4]) -> [f64; 4] {
        let mut d = [0.0; 4];
        // SAFETY: all lanes come here, by the caller's promise.
        unsafe {
            asm!(
                "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, {{{0}, {1}, {2}, {3}}};",
                inout(reg64) c[0] => d[0], inout(reg64) c[1] => d[1], inout(reg64) c[2] => d[2], inout(reg64) c[3] => d[3],
                in(reg64) a[0], in(reg64) a[1], in(reg64) b[0],
                options(nomem, nostack)
            );
        }
        d
    }

    #[inline(always)]
    pub(crate) unsafe fn m16n8k8_f64(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
        let mut d = [0.0; 4];
        // SAFETY: all lanes come here, by the caller's promise.
        unsafe {
            asm!(
                "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
                inout(reg64) c[0] => d[0], inout(reg64) c[1] => d[1], inout(reg64) c[2] => d[2], inout(reg64) c[3] => d[3],
                in(reg64) a[0], in(reg64) a[1], in(reg64) a[2], in(reg64) a[3], in(reg64) b[0], in(reg64) b[1],
                options(nomem, nostack)
            );
        }
        d
    }

    #[inline(always)]
    pub(crate) unsafe fn m16n8k16_f64(a: [f64; 8], b: [f64; 4], c: [f64; 4]) -> [f64; 4] {
        let mut d = [0.0; 4];
        // SAFETY: all lanes come here, by the caller's promise.
        unsafe {
            asm!(
                "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}}}, {{{12}, {13}, {14}, {15}}}, {{{0}, {1}, {2}, {3}}};",
                inout(reg64) c[0] => d[0], inout(reg64) c[1] => d[1], inout(reg64) c[2] => d[2], inout(reg64) c[3] => d[3],
                in(reg64) a[0], in(reg64) a[1], in(reg64) a[2], in(reg64) a[3],
                in(reg64) a[4], in(reg64) a[5], in(reg64) a[6], in(reg64) a[7],
                in(reg64) b[0], in(reg64) b[1], in(reg64) b[2], in(reg64) b[3],
                options(nomem, nostack)
            );
        }
        d
    }
}

#[cfg(any(cuda_arch = "75", cuda_arch = "80", cuda_arch = "86", cuda_arch = "89"))]
mod larger {
    use super::m8n8k4_f64;

    #[inline(always)]
    pub(crate) unsafe fn m16n8k4_f64(a: [f64; 2], b: [f64; 1], c: [f64; 4]) -> [f64; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let [top_left, top_right] = m8n8k4_f64([a[0]], b, [c[0], c[1]]);
            let [bottom_left, bottom_right] = m8n8k4_f64([a[1]], b, [c[2], c[3]]);
            [top_left, top_right, bottom_left, bottom_right]
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn m16n8k8_f64(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
        // SAFETY: the caller's promise.
        unsafe { m16n8k4_f64([a[2], a[3]], [b[1]], m16n8k4_f64([a[0], a[1]], [b[0]], c)) }
    }

    #[inline(always)]
    pub(crate) unsafe fn m16n8k16_f64(a: [f64; 8], b: [f64; 4], c: [f64; 4]) -> [f64; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let c = m16n8k8_f64([a[0], a[1], a[2], a[3]], [b[0], b[1]], c);
            m16n8k8_f64([a[4], a[5], a[6], a[7]], [b[2], b[3]], c)
        }
    }
}
pub(crate) use larger::{m16n8k4_f64, m16n8k8_f64, m16n8k16_f64};

#[cfg(not(cuda_arch = "75"))]
#[inline(always)]
pub(crate) unsafe fn m16n8k8_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let mut d = [0.0; 4];
    // SAFETY: all lanes come here, by the caller's promise.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg32) c[0] => d[0], inout(reg32) c[1] => d[1], inout(reg32) c[2] => d[2], inout(reg32) c[3] => d[3],
            in(reg32) a[0].to_bits(), in(reg32) a[1].to_bits(), in(reg32) a[2].to_bits(), in(reg32) a[3].to_bits(),
            in(reg32) b[0].to_bits(), in(reg32) b[1].to_bits(),
            options(nomem, nostack)
        );
    }
    d
}

/// Turing has no tensor cores for TF32. Its sums here are rounded, not cut off.
#[cfg(cuda_arch = "75")]
#[inline(always)]
pub(crate) unsafe fn m16n8k8_tf32(a: [f32; 4], b: [f32; 2], mut c: [f32; 4]) -> [f32; 4] {
    use crate::warp::{WARP_SIZE, warp_shuffle_idx};
    let lane = super::lane_id();
    let tf32 = |number: f32| f32::from_bits(number.to_bits() & 0xffff_e000);
    // SAFETY: all lanes come here, by the caller's promise.
    let of_lane = |number, lane| unsafe { warp_shuffle_idx(u32::MAX, tf32(number), lane, WARP_SIZE).0 };
    let mut place = 0;
    while place < 8 {
        let (source, [top, bottom], b) = match place {
            0..4 => (place, [a[0], a[1]], b[0]),
            _ => (place - 4, [a[2], a[3]], b[1]),
        };
        let [top, bottom] = [of_lane(top, lane / 4 * 4 + source), of_lane(bottom, lane / 4 * 4 + source)];
        let [left, right] = [of_lane(b, lane % 4 * 8 + source), of_lane(b, lane % 4 * 8 + 4 + source)];
        c = [
            super::fma_f32(top, left, c[0]),
            super::fma_f32(top, right, c[1]),
            super::fma_f32(bottom, left, c[2]),
            super::fma_f32(bottom, right, c[3]),
        ];
        place += 1;
    }
    c
}

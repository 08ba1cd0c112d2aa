//! Products of small matrices on the tensor cores, by a whole warp.
//!
//! `D = A * B + C`, where each lane has a few elements of each matrix, its *fragment*. With `g = lane / 4` and `t = lane % 4`, and counting
//! the elements of a fragment from 0:
//!
//! | matrix | size | element | row | column |
//! |---|---|---|---|---|
//! | `A` | `m` x `k` | `a[i + m / 8 * j]` | `g + 8 * i` | `t + 4 * j` |
//! | `B` | `k` x 8 | `b[j]` | `t + 4 * j` | `g` |
//! | `C`, `D` | `m` x 8 | `c[2 * i + j]` | `g + 8 * i` | `2 * t + j` |
//!
//! # `f64`
//! An element of `D` is a chain of `k` fused multiply-adds in the order of the columns of `A`, each rounded to nearest, that starts with
//! the element of `C`: the tensor cores are as exact as [`mul_add`](crate::GpuFloat::mul_add), and give the same bits.
//!
//! From compute capability 9.0 on all shapes are instructions. On 8.x only [`m8n8k4_f64`] is one, and on Turing none: a larger shape takes
//! several of a smaller one there, or shuffles and multiply-adds.
//!
//! # TF32
//! [`m16n8k8_tf32`] is an instruction from compute capability 8.0 on. TF32 numbers are `f32` of which the low 13 bits are ignored: 11 significant bits. Products are
//! exact; sums are those of `f32`, but cut off, not rounded: what lies below the last place of the largest summand is lost, and the order is not specified. The emulator adds
//! exactly, and cuts off the sum: its last bits are not those of a GPU, but the error has the same sign and about the same size.
//!
//! # Safety
//! The same rule holds for every function here: all 32 lanes of the warp execute the same call together, and none has left the kernel.

use crate::backend;

macro_rules! shapes {
    ($($name:ident: $m:literal x $k:literal, $a:literal $b:literal $c:literal;)*) => {$(
        #[doc = concat!("`D` of an `A` of ", $m, " x ", $k, " and a `B` of ", $k, " x 8, by `mma.sync.aligned.m", $m, "n8k", $k, "`.")]
        ///
        /// # Safety
        /// The rule at the head of this [module](self).
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(a: [f64; $a], b: [f64; $b], c: [f64; $c]) -> [f64; $c] {
            // SAFETY: the caller keeps the module's rule.
            unsafe { backend::$name(a, b, c) }
        }
    )*};
}

shapes! {
    m8n8k4_f64: 8 x 4, 1 1 2;
    m16n8k4_f64: 16 x 4, 2 1 4;
    m16n8k8_f64: 16 x 8, 4 2 4;
    m16n8k16_f64: 16 x 16, 8 4 4;
}

/// `D` of an `A` of 16 x 8 and a `B` of 8 x 8, by `mma.sync.aligned.m16n8k8` of TF32 numbers with sums in `f32`.
///
/// # Safety
/// The rule at the head of this [module](self).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn m16n8k8_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    // SAFETY: the caller keeps the module's rule.
    unsafe { backend::m16n8k8_tf32(a, b, c) }
}

//! Products on the tensor cores by warpgroups: `D = A * B (+ D)` for an `A` of 64 rows and a `B` of 128 columns, both in shared memory (`wgmma`).
//!
//! A warpgroup is four warps of a block, the first of them number 0, 4, 8 and so on. Each thread has 64 elements of `D`. With `lane` and `warp` counted in the
//! warpgroup, `g = lane / 4` and `t = lane % 4`, element `i` is in row `16 * warp + g + 8 * (i / 2 % 2)` and column `8 * (i / 4) + 2 * t + i % 2`.
//!
//! A function here is a whole region: a fence, `N` products, one after the other into the same sums, and the wait for the last. So no other code ever has
//! registers that the tensor cores still use: only what is in shared memory is asynchronous. `N` is 1, 2, 4 or 12. The compiler sees one block of instructions, and neither
//! moves sums about within nor makes waits of its own.
//!
//! # Operands
//! Each product takes 32 bytes of each row of `A`, and of each column of `B`: 8 numbers of TF32, or 16 of 16 bits. Both matrices lie *K-major*: what is multiplied
//! with each other is consecutive, the rows of `A`, and the columns of `B`. A [`Descriptor`] says where.
//!
//! TF32 numbers are `f32` of which the low 13 bits are ignored. Products are exact, and sums have about the precision of `f32`, less a few bits: the tensor cores cut
//! off what lies below the largest summand, and the order of a sum is not specified. The emulator adds the products of one instruction exactly, and rounds the sum to
//! nearest: its last bits are not those of a GPU.
//!
//! For `sm_90a`. Products of TF32 in the swizzle of 128 bytes have run on GPUs, in `gemm_wgmma`; those of 16 bits and other swizzles have been assembled, and run in the emulator only.
//!
//! # Safety
//! The same rules hold for every product:
//! 1. all 128 threads of the warpgroup execute the same call together, with the same descriptors, and none has left the kernel;
//! 2. each of them knows the operands to be there: it has waited for their copy's phase, or, if threads stored them, these have called
//!    [`fence_proxy_async`](crate::tma::fence_proxy_async) before a barrier;
//! 3. nobody writes the operands before the threads have come out of the call, and told so by a barrier;
//! 4. descriptors lie in shared memory, with the swizzle by which the operands were written.

use crate::{backend, mem::DeviceValue, shared::Shared, tma::Swizzle};

/// Where an operand lies in shared memory, and how: its first 16 bytes, two distances, and the swizzle.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor(backend::Descriptor);

impl Descriptor {
    /// An operand that begins at `start`, a multiple of 16 bytes.
    ///
    /// It consists of *core matrices*, eight rows by 16 bytes. `stride_bytes` lie between core matrices of neighbouring rows, and without a swizzle `leading_bytes` between the two
    /// of the same rows, each of which is 128 consecutive bytes. With a swizzle rows are as long as it says, and `leading_bytes` is not used. Both are multiples of 16 below 2^18.
    #[inline(always)]
    #[must_use]
    pub fn new<T: DeviceValue>(start: Shared<T>, leading_bytes: u32, stride_bytes: u32, swizzle: Swizzle) -> Self {
        Self(backend::descriptor(start.address(), leading_bytes, stride_bytes, swizzle))
    }

    /// The first 32 bytes of each row of a tile as [`load_tile`](crate::tma::load_tile) brings it with this swizzle, not `None`: rows follow one another.
    #[inline(always)]
    #[must_use]
    pub fn of_tile<T: DeviceValue>(tile: Shared<T>, swizzle: Swizzle) -> Self {
        Self::new(tile, 16, swizzle.repeat_bytes(), swizzle)
    }

    /// The operand that begins `bytes` further on, a multiple of 16: with a swizzle, the step of 32 bytes to the next product of the same rows, or one to other rows
    /// by a multiple of [`Swizzle::repeat_bytes`].
    #[inline(always)]
    #[must_use]
    pub fn offset(self, bytes: u32) -> Self {
        Self(backend::descriptor_offset(self.0, bytes))
    }
}

macro_rules! products {
    ($($product:ident $product_add:ident: $k:literal, $type:literal;)*) => {$(
        #[doc = concat!("The sum of the `N` products of ", $k, " places, of ", $type, " numbers, by `wgmma.mma_async.m64n128k", $k, "`.")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $product<const N: usize>(products: [(Descriptor, Descriptor); N]) -> [f32; 64] {
            const { assert!(matches!(N, 1 | 2 | 4 | 12), "a region has 1, 2, 4 or 12 products") }
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::$product(of_backend(products)) }
        }

        #[doc = concat!("[`", stringify!($product), "`] added to `sums`.")]
        ///
        /// # Safety
        /// The rules at the head of this [module](self).
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $product_add<const N: usize>(
            sums: [f32; 64],
            products: [(Descriptor, Descriptor); N],
        ) -> [f32; 64] {
            const { assert!(matches!(N, 1 | 2 | 4 | 12), "a region has 1, 2, 4 or 12 products") }
            // SAFETY: the caller keeps the module's rules.
            unsafe { backend::$product_add(sums, of_backend(products)) }
        }
    )*};
}

products! {
    m64n128k8_tf32 m64n128k8_tf32_add: "8", "TF32";
    m64n128k16_bf16 m64n128k16_bf16_add: "16", "bf16";
    m64n128k16_f16 m64n128k16_f16_add: "16", "f16";
}

#[inline(always)]
fn of_backend<const N: usize>(
    products: [(Descriptor, Descriptor); N],
) -> [(backend::Descriptor, backend::Descriptor); N] {
    products.map(|(a, b)| (a.0, b.0))
}

/// Lets each thread of the warpgroup use up to `REGISTERS` registers, by `setmaxnreg.inc`: waits until other warps of the block have given up as many. A multiple of 8, 24 to 256.
///
/// The kernel needs [`launch_bounds`](crate::thread::launch_bounds), from which its threads have the registers that they begin with.
///
/// # Safety
/// All threads of the warpgroup execute the same call together, with no more registers before, and other warps give up what these take.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn increase_registers<const REGISTERS: u32>() {
    const { assert!(REGISTERS.is_multiple_of(8) && REGISTERS >= 24 && REGISTERS <= 256, "a multiple of 8, 24 to 256") }
    // SAFETY: the caller keeps the rules.
    unsafe { backend::increase_registers::<REGISTERS>() }
}

/// Gives up registers of each thread of the warpgroup but `REGISTERS`, by `setmaxnreg.dec`, for other warps of the block. A multiple of 8, 24 to 256.
///
/// # Safety
/// All threads of the warpgroup execute the same call together, with no fewer registers before. What they execute after needs no more: ptxas sees to it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn decrease_registers<const REGISTERS: u32>() {
    const { assert!(REGISTERS.is_multiple_of(8) && REGISTERS >= 24 && REGISTERS <= 256, "a multiple of 8, 24 to 256") }
    // SAFETY: the caller keeps the rules.
    unsafe { backend::decrease_registers::<REGISTERS>() }
}

//! The pipeline of a block, and the sums of its tile.

use cuda_std::{
    mbarrier::Mbarrier,
    shared::{Shared, dynamic_shared_mem},
    shared_array, thread,
    tma::{self, Swizzle},
    warp::{self, WARP_SIZE},
    wgmma::{self, Descriptor},
};

use super::{COLUMNS, IMAGE, LINES, MULTIPLYING, MultiplyArgs, PART, RING, ROWS, STEP, THREADS, output::write};
use crate::gemm_block::{part_of_sums, position};

/// The threads' sums: of two halves, as `wgmma` has them.
pub(super) type Sums = [[f32; 64]; 2];

/// Calls the macro with the numbers of a thread's sums of a half.
macro_rules! each_sum {
    ($macro:ident) => {
        $macro! {
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        }
    };
}

/// The images in shared memory, each with a barrier that says that it is there, and one that nobody needs it any more.
///
/// They are used in turn: `slot` has the present one, and `round` how often each has been used before, of which the lowest bit is the parity of its phases.
#[derive(Clone, Copy)]
struct Ring {
    images: Shared<f32>,
    barriers: Shared<u64>,
    slot: u32,
    round: u32,
}

impl Ring {
    #[inline(always)]
    fn image(self) -> Shared<f32> {
        self.images.offset(self.slot * IMAGE)
    }

    #[inline(always)]
    fn is_full(self) -> Mbarrier {
        Mbarrier::at(self.barriers, self.slot)
    }

    #[inline(always)]
    fn is_empty(self) -> Mbarrier {
        Mbarrier::at(self.barriers, RING + self.slot)
    }

    #[inline(always)]
    fn next(self) -> Self {
        let is_last = self.slot == RING - 1;
        let slot = if is_last { 0 } else { self.slot + 1 };
        Self { slot, round: self.round + is_last as u32, ..self }
    }

    /// Copies an image to the slot, when it is empty.
    ///
    /// # Safety
    /// One thread copies, in the order of the ring; the image is there.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy(self, from: *const f32) {
        // SAFETY: the caller's promise. In the first round the barrier says yes at once.
        unsafe {
            self.is_empty().wait((self.round + 1) % 2);
            self.is_full().arrive_and_expect(IMAGE * 4);
            tma::load(self.image(), from, IMAGE, self.is_full());
        }
    }

    /// Waits until the image is there.
    ///
    /// # Safety
    /// Slots are waited for in the order of the ring, and released.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn wait(self) {
        // SAFETY: the caller's promise.
        unsafe { self.is_full().wait(self.round % 2) }
    }

    /// Says that the warp does not need the image any more.
    ///
    /// # Safety
    /// All lanes of the warp come here, once.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn release(self) {
        // SAFETY: the caller's promise.
        unsafe {
            if warp::lane_id() == 0 {
                self.is_empty().arrive();
            }
        }
    }
}

/// A tile of `C` for each block.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn multiply(args: MultiplyArgs<f32>) {
    thread::launch_bounds::<THREADS, 1>();
    let ring =
        Ring { images: dynamic_shared_mem(), barriers: shared_array![u64; 2 * RING as usize], slot: 0, round: 0 };
    let (first_row, first_col) = position((ROWS, COLUMNS), &args.block);
    let (from, to) = part_of_sums(STEP, &args.block);
    let steps = Steps { first: from / STEP, count: (to - from).div_ceil(STEP), all: args.block.gemm.k.div_ceil(STEP) };
    // SAFETY: the barriers are made before all others use them; the caller keeps the rules.
    unsafe {
        if thread::thread_idx_x() == 0 {
            let mut slot = 0;
            while slot < RING {
                Mbarrier::at(ring.barriers, slot).init(1);
                Mbarrier::at(ring.barriers, RING + slot).init(MULTIPLYING / WARP_SIZE);
                slot += 1;
            }
            tma::fence_proxy_async();
        }
        thread::sync_threads();
        if thread::thread_idx_x() >= MULTIPLYING {
            wgmma::decrease_registers::<40>();
            if thread::thread_idx_x() == MULTIPLYING {
                copy_all(ring, &args, first_row / LINES, first_col / LINES, steps);
            }
            return;
        }
        wgmma::increase_registers::<232>();
        let sums = add_all(ring, steps.count);
        thread::sync_threads_named(1, MULTIPLYING);
        write(&sums, &args, first_row, first_col);
    }
}

/// Which steps are the block's, of how many.
#[derive(Clone, Copy)]
struct Steps {
    first: u32,
    count: u32,
    all: u32,
}

/// Copies the images of the block's steps, in the order in which they are multiplied: `rows` and `cols` are the first 128 of `A` and `B`, counted in so many.
///
/// # Safety
/// One thread comes here; the images are there.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn copy_all(mut ring: Ring, args: &MultiplyArgs<f32>, rows: u32, cols: u32, steps: Steps) {
    // A tile that ends with its first 128 rows takes them twice, and does not write the others.
    let second = if (rows + 1) * LINES < args.block.gemm.m { rows + 1 } else { rows };
    let first = |lines: u32| lines as usize * steps.all as usize + steps.first as usize;
    let of = |images: *const f32, lines: u32| images.wrapping_add(first(lines) * IMAGE as usize);
    let (a, b, a_second) = (of(args.images_of_a, rows), of(args.images_of_b, cols), of(args.images_of_a, second));
    let mut step = 0;
    while step < steps.count {
        let before = step as usize * IMAGE as usize;
        // SAFETY: the caller's promise.
        unsafe {
            ring.copy(a.wrapping_add(before));
            ring = ring.next();
            ring.copy(b.wrapping_add(before));
            ring = ring.next();
            ring.copy(a_second.wrapping_add(before));
            ring = ring.next();
        }
        step += 1;
    }
}

/// The sums of all steps.
///
/// # Safety
/// The two warpgroups that multiply come here, while one thread copies.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn add_all(ring: Ring, steps: u32) -> Sums {
    let mut sums = [[0.0; 64]; 2];
    let (mut a, mut step) = (ring, 0);
    while step < steps {
        let (b, a_second) = (a.next(), a.next().next());
        // SAFETY: images are multiplied when they are there, and released after.
        unsafe {
            a.wait();
            b.wait();
            add_half(&mut sums[0], a.image(), b.image());
            a.release();
            a_second.wait();
            add_half(&mut sums[1], a_second.image(), b.image());
            b.release();
            a_second.release();
        }
        a = a_second.next();
        step += 1;
    }
    sums
}

/// Adds the products of a step: of the warpgroup's 64 rows of an image of `A` with the image of `B`.
///
/// # Safety
/// All threads of the warpgroup come here, and know the images to be there.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn add_half(sums: &mut [f32; 64], a: Shared<f32>, b: Shared<f32>) {
    let a = a.offset(thread::thread_idx_x() / 128 * (PART / 2));
    let of = |tile: Shared<f32>| Descriptor::of_tile(tile, Swizzle::Bytes128);
    let (a, a_small, b, b_small) = (of(a), of(a.offset(PART)), of(b), of(b.offset(PART)));
    let step = |a: Descriptor, b: Descriptor, bytes: u32| (a.offset(bytes), b.offset(bytes));
    // SAFETY: the caller's promise. All lanes have seen the barriers when they meet.
    let of_step = unsafe {
        warp::sync_warp(u32::MAX);
        wgmma::m64n128k8_tf32([
            step(a_small, b, 0),
            step(a_small, b, 32),
            step(a_small, b, 64),
            step(a_small, b, 96),
            step(a, b_small, 0),
            step(a, b_small, 32),
            step(a, b_small, 64),
            step(a, b_small, 96),
            step(a, b, 0),
            step(a, b, 32),
            step(a, b, 64),
            step(a, b, 96),
        ])
    };
    macro_rules! add {
        ($($sum:literal)*) => { $(sums[$sum] += of_step[$sum];)* };
    }
    each_sum!(add);
}

//! Kernels with one bug each, on barriers, bulk copies and products by warpgroups, for one warpgroup. The line with the bug ends in `// BUG: <name>`.
//!
//! The map `a` is of 64 x 32 elements, `b` of 128 x 32, each in one box with a swizzle of 128 bytes.
//!
//! # Safety
//! None of them is sound: they are for the emulator, which stops them.

use cuda_std::{
    kernel,
    mbarrier::Mbarrier,
    mem,
    shared::{Shared, dynamic_shared_mem},
    shared_array, thread,
    tma::{self, Swizzle, TensorMap},
    wgmma::{self, Descriptor},
};

/// Words of the tiles of `a` and `b`.
const WORDS_OF_A: u32 = 64 * 32;
const WORDS_OF_B: u32 = 128 * 32;
/// Bytes of both.
const BYTES: u32 = 4 * (WORDS_OF_A + WORDS_OF_B);

/// Makes the barrier of this element, for one arrival, and shows it to all.
#[inline(always)]
unsafe fn new_barrier(barriers: Shared<u64>) -> Mbarrier {
    let barrier = Mbarrier::at(barriers, 0);
    // SAFETY: none, here and below.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            tma::fence_proxy_async();
        }
        thread::sync_threads();
    }
    barrier
}

/// Lets thread 0 start the copies of both tiles to the beginning of the dynamic shared memory.
#[inline(always)]
unsafe fn load_tiles([a, b]: [*const TensorMap; 2], barrier: Mbarrier, bytes: u32) {
    let tiles = dynamic_shared_mem::<f32>();
    if thread::thread_idx_x() == 0 {
        // SAFETY: none.
        unsafe {
            barrier.arrive_and_expect(bytes);
            tma::load_tile(tiles, a, 0, 0, barrier);
            tma::load_tile(tiles.offset(WORDS_OF_A), b, 0, 0, barrier);
        }
    }
}

/// The operands of the first product.
#[inline(always)]
fn operands() -> [(Descriptor, Descriptor); 1] {
    let tiles = dynamic_shared_mem::<f32>();
    [(Descriptor::of_tile(tiles, Swizzle::Bytes128), Descriptor::of_tile(tiles.offset(WORDS_OF_A), Swizzle::Bytes128))]
}

/// Keeps one sum of each thread, so that the product is not dropped.
#[inline(always)]
unsafe fn keep(y: *mut f32, sums: [f32; 64]) {
    // SAFETY: none.
    unsafe { mem::store(y.add(thread::thread_idx_x() as usize), sums[0]) }
}

/// Loads an element of a tile without waiting for the phase of its copy.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn load_before_phase(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        thread::sync_threads();
        let value = dynamic_shared_mem::<f32>().load(thread::thread_idx_x()); // BUG: load_before_phase
        mem::store(y.add(thread::thread_idx_x() as usize), value);
    }
}

/// Multiplies tiles without waiting for the phase of their copies.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn product_before_phase(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        thread::sync_threads();
        let sums = wgmma::m64n128k8_tf32(operands()); // BUG: product_before_phase
        keep(y, sums);
    }
}

/// One warp of the four waits for the phase.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn one_warp_waits(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        if thread::thread_idx_x() < 32 {
            full.wait(0);
        }
        let sums = wgmma::m64n128k8_tf32(operands()); // BUG: one_warp_waits
        keep(y, sums);
    }
}

/// Waits for the second phase by the parity of the first, which is over.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn wrong_parity(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        thread::sync_threads();
        load_tiles([a, b], full, BYTES);
        full.wait(1);
        thread::sync_threads();
        load_tiles([a, b], full, BYTES);
        full.wait(1);
        let sums = wgmma::m64n128k8_tf32(operands()); // BUG: wrong_parity
        keep(y, sums);
    }
}

/// Expects the bytes of one of two tiles: the phase may end before the other is there.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn short_expect(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, 4 * WORDS_OF_A);
        full.wait(0);
        let sums = wgmma::m64n128k8_tf32(operands()); // BUG: short_expect
        keep(y, sums);
    }
}

/// Expects more bytes than are copied.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn long_expect(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES + 16);
        full.wait(0); // BUG: long_expect
        keep(y, wgmma::m64n128k8_tf32(operands()));
    }
}

/// Copies over a tile that other threads may still have to load.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn early_reload(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    let tiles = dynamic_shared_mem::<f32>();
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        thread::sync_threads();
        let value = tiles.load(thread::thread_idx_x());
        if thread::thread_idx_x() == 0 {
            full.arrive_and_expect(4 * WORDS_OF_A);
            tma::load_tile(tiles, a, 0, 0, full); // BUG: early_reload
        }
        full.wait(1);
        mem::store(y.add(thread::thread_idx_x() as usize), value);
    }
}

/// Another warpgroup stores to a tile while products may read it.
///
/// # Safety
/// Not sound: see the head of this module. Blocks have 160 threads.
#[kernel]
pub unsafe fn store_during_product(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        if thread::thread_idx_x() < 128 {
            let sums = wgmma::m64n128k8_tf32(operands()); // BUG: store_during_product
            keep(y, sums);
        } else {
            dynamic_shared_mem::<f32>().store(thread::thread_idx_x() - 128, 0.0);
        }
    }
}

/// Multiplies what threads have stored, with a barrier but without a proxy fence.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn product_without_fence(y: *mut f32) {
    let tiles = dynamic_shared_mem::<f32>();
    let mut at = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        while at < WORDS_OF_A + WORDS_OF_B {
            tiles.store(at, 1.0);
            at += 128;
        }
        thread::sync_threads();
        let sums = wgmma::m64n128k8_tf32(operands()); // BUG: product_without_fence
        keep(y, sums);
    }
}

/// All threads but those of one warp have a proxy fence after what they store.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn fence_of_three_warps(y: *mut f32) {
    let tiles = dynamic_shared_mem::<f32>();
    let mut at = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        while at < WORDS_OF_A + WORDS_OF_B {
            tiles.store(at, 1.0);
            at += 128;
        }
        if thread::thread_idx_x() < 96 {
            tma::fence_proxy_async();
        }
        thread::sync_threads();
        let sums = wgmma::m64n128k8_tf32(operands()); // BUG: fence_of_three_warps
        keep(y, sums);
    }
}

/// Copies to global memory what threads have stored, without a proxy fence.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn store_without_fence(a: *const TensorMap) {
    let tile = dynamic_shared_mem::<f32>();
    let mut at = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        while at < WORDS_OF_A {
            tile.store(at, 1.0);
            at += 128;
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            tma::store_tile(a, 0, 0, tile); // BUG: store_without_fence
            tma::commit_stores();
            tma::wait_stores::<0>();
        }
    }
}

/// Lets a copy end with a barrier that the asynchronous proxy may not see yet.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn barrier_without_fence(a: *const TensorMap) {
    let barriers = shared_array![u64; 1];
    let full = Mbarrier::at(barriers, 0);
    // SAFETY: none.
    unsafe {
        if thread::thread_idx_x() == 0 {
            full.init(1);
            full.arrive_and_expect(4 * WORDS_OF_A);
            tma::load_tile(dynamic_shared_mem::<f32>(), a, 0, 0, full); // BUG: barrier_without_fence
            full.wait(0);
        }
    }
}

/// Arrives at a barrier that another thread makes, without waiting until it has.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn early_arrival() {
    let barriers = shared_array![u64; 1];
    let barrier = Mbarrier::at(barriers, 0);
    // SAFETY: none.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(128);
        }
        barrier.arrive(); // BUG: early_arrival
    }
}

/// Arrives once more than the phase has room for.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn too_many_arrivals() {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let barrier = new_barrier(barriers);
        if thread::thread_idx_x() == 0 {
            barrier.expect(16);
            barrier.arrive();
            barrier.arrive(); // BUG: too_many_arrivals
        }
    }
}

/// Arrives at a barrier that is none any more.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn invalidated_barrier() {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let barrier = new_barrier(barriers);
        if thread::thread_idx_x() == 0 {
            barrier.invalidate();
            barrier.arrive(); // BUG: invalidated_barrier
        }
    }
}

/// A descriptor whose last rows lie beyond the end of shared memory.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn descriptor_outside(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        let [(of_a, of_b)] = operands();
        let sums = wgmma::m64n128k8_tf32([(of_a, of_b.offset(1024))]); // BUG: descriptor_outside
        keep(y, sums);
    }
}

/// A descriptor that begins in the second row of a tile.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn unaligned_descriptor(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        let [(of_a, of_b)] = operands();
        let sums = wgmma::m64n128k8_tf32([(of_a.offset(128), of_b)]); // BUG: unaligned_descriptor
        keep(y, sums);
    }
}

/// Takes the fifth step of 32 bytes in rows of 128.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn step_beyond_row(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        let [(of_a, of_b)] = operands();
        let sums = wgmma::m64n128k8_tf32([(of_a.offset(112), of_b.offset(112))]); // BUG: step_beyond_row
        keep(y, sums);
    }
}

/// Copies a tile to where the permutation of its rows does not begin.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn unaligned_tile(a: *const TensorMap) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        if thread::thread_idx_x() == 0 {
            full.arrive_and_expect(4 * WORDS_OF_A);
            tma::load_tile(dynamic_shared_mem::<f32>().offset(32), a, 0, 0, full); // BUG: unaligned_tile
        }
        full.wait(0);
    }
}

/// Takes tiles of 128 bytes in a row, copied by a swizzle of as many, for such without a swizzle.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn wrong_swizzle(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    let tiles = dynamic_shared_mem::<f32>();
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        let descriptor = |tile| Descriptor::of_tile(tile, Swizzle::Bytes64);
        let sums = wgmma::m64n128k8_tf32([(descriptor(tiles), descriptor(tiles.offset(WORDS_OF_A)))]); // BUG: wrong_swizzle
        keep(y, sums);
    }
}

/// The warps of a warpgroup have two descriptors.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn two_descriptors(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        let step = 32 * (thread::thread_idx_x() / 96);
        let [(of_a, of_b)] = operands();
        let sums = wgmma::m64n128k8_tf32([(of_a.offset(step), of_b.offset(step))]); // BUG: two_descriptors
        keep(y, sums);
    }
}

/// Three of four warps come to a product.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn product_of_three_warps(a: *const TensorMap, b: *const TensorMap, y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        load_tiles([a, b], full, BYTES);
        full.wait(0);
        if thread::thread_idx_x() < 96 {
            let sums = wgmma::m64n128k8_tf32(operands()); // BUG: product_of_three_warps
            keep(y, sums);
        }
    }
}

/// Stores to a tile that a copy to global memory may still read.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn store_during_copy(a: *const TensorMap) {
    let tile = dynamic_shared_mem::<f32>();
    let mut at = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        while at < WORDS_OF_A {
            tile.store(at, 1.0);
            at += 128;
        }
        tma::fence_proxy_async();
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            tma::store_tile(a, 0, 0, tile);
            tma::commit_stores();
            tile.store(0, 0.0); // BUG: store_during_copy
            tma::wait_stores::<0>();
        }
    }
}

/// Leaves the kernel while a copy may still read shared memory.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn exit_during_copy(b: *const TensorMap) {
    let tile = dynamic_shared_mem::<f32>();
    let mut at = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        while at < WORDS_OF_B {
            tile.store(at, 1.0);
            at += 128;
        }
        tma::fence_proxy_async();
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            tma::store_tile(b, 0, 0, tile); // BUG: exit_during_copy
            tma::commit_stores();
        }
    }
}

/// Takes numbers for a tensor map.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn no_map(y: *mut f32) {
    let barriers = shared_array![u64; 1];
    // SAFETY: none.
    unsafe {
        let full = new_barrier(barriers);
        if thread::thread_idx_x() == 0 {
            full.arrive_and_expect(4 * WORDS_OF_A);
            tma::load_tile(dynamic_shared_mem::<f32>(), y.cast(), 0, 0, full); // BUG: no_map
        }
        full.wait(0);
    }
}

/// One warp arrives at a barrier for two warps, the other waits there for four.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn arrival_with_two_counts() {
    // SAFETY: none.
    unsafe {
        if thread::thread_idx_x() < 32 {
            thread::arrive_threads_named(1, 64);
        } else if thread::thread_idx_x() < 64 {
            thread::sync_threads_named(1, 128); // BUG: arrival_with_two_counts
        }
    }
}

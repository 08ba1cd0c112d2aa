//! Small correct kernels, each for a few operations. All work on one block of 64 threads unless they say otherwise.
//!
//! # Safety
//! Every kernel: the pointers are to global memory with room for what the kernel's documentation says.

use core::sync::atomic::Ordering;

use cuda_std::{
    GpuFloat, atomic, grid, kernel, mem, mma,
    shared::{Shared, commit_copies, dynamic_shared_mem, wait_copies},
    shared_array, thread,
    warp::{self, WarpReductionOp},
};

/// Words that [`warp_operations`] writes for each thread.
pub const WARP_RESULTS: u32 = 16;

/// Every warp operation with a full mask, and some with half of one. Writes [`WARP_RESULTS`] words for each thread.
///
/// # Safety
/// The rules at the head of this module: `out` has 64 times [`WARP_RESULTS`] elements.
#[kernel]
pub unsafe fn warp_operations(out: *mut u32) {
    let (all, i) = (u32::MAX, thread::thread_idx_x());
    let lane = warp::lane_id();
    let half = if lane < 16 { 0xffff } else { 0xffff_0000 };
    // SAFETY: all lanes come to each full-mask call, and the lanes of a half to each call with their half.
    unsafe {
        let (idx, idx_in) = warp::warp_shuffle_idx(all, i, lane + 3, 8);
        let (up, up_in) = warp::warp_shuffle_up(all, i, 3, 16);
        let (down, down_in) = warp::warp_shuffle_down(all, i, 5, 32);
        let (xor, xor_in) = warp::warp_shuffle_xor(all, i, 9, 8);
        let (wide, _) = warp::warp_shuffle_xor(all, f64::from(i) * 0.1, 1, 32);
        let (all_equal, is_equal) = warp::warp_match_all(all, i / 32);
        let results = [
            idx,
            u32::from(idx_in),
            up,
            u32::from(up_in),
            down,
            u32::from(down_in),
            xor,
            u32::from(xor_in),
            wide.to_bits() as u32 ^ (wide.to_bits() >> 32) as u32,
            warp::warp_vote_ballot(half, lane.is_multiple_of(3)),
            u32::from(warp::warp_vote_all(half, lane < 16)) << 1 | u32::from(warp::warp_vote_any(half, lane == 17)),
            warp::warp_match_any(all, u64::from(i % 5) << 40),
            all_equal ^ u32::from(is_equal),
            warp::warp_match_all(all, lane).0,
            warp::warp_reduce(all, i, WarpReductionOp::Add),
            warp::warp_reduce(half, i as i32 - 20, WarpReductionOp::Min) as u32,
        ];
        warp::sync_warp(all);
        let mut k = 0;
        while k < WARP_RESULTS {
            mem::store(out.add((i * WARP_RESULTS + k) as usize), results[k as usize]);
            k += 1;
        }
    }
}

/// Reverses 64 numbers through static shared memory, in each of several blocks: `out[j] = in[63 - j]`.
///
/// # Safety
/// The rules at the head of this module: 64 elements for each block.
#[kernel]
pub unsafe fn reverse_static(input: *const f32, out: *mut f32) {
    let (i, base) = (thread::thread_idx_x(), thread::block_idx_x() * thread::block_dim_x());
    let buffer = shared_array![f32; 64];
    // SAFETY: i < 64; the barrier is between the store and the load.
    unsafe {
        buffer.store(i, mem::load_readonly(input.add((base + i) as usize)));
        thread::sync_threads();
        mem::store(out.add((base + i) as usize), buffer.load(63 - i));
    }
}

/// The same through dynamic shared memory of 64 doubles after 64 words, by vector accesses of half the threads.
///
/// # Safety
/// The rules at the head of this module: 64 elements each; 768 bytes of dynamic shared memory.
#[kernel]
pub unsafe fn reverse_dynamic(input: *const f64, out: *mut f64) {
    let i = thread::thread_idx_x();
    let words = dynamic_shared_mem::<u32>();
    let buffer = words.offset(64).cast::<f64>();
    // SAFETY: the two arrays are apart; a barrier is between stores and loads; vector indices are even.
    unsafe {
        words.store(i, 63 - i);
        if i < 32 {
            buffer.store_v2(2 * i, mem::load_streaming_v2(input.add(2 * i as usize)));
        }
        thread::sync_threads();
        if i < 16 {
            let reversed = words.load_v4(4 * i);
            let pairs = [buffer.load_v2(reversed[3] & !1), buffer.load_v2(reversed[1] & !1)];
            mem::store_v4(out.add(4 * i as usize), [pairs[1][1], pairs[1][0], pairs[0][1], pairs[0][0]]);
        }
    }
}

/// Integer and float atomics of all threads on `integers` (10 words: see the source) and `floats` (one each).
///
/// # Safety
/// The rules at the head of this module: 10 elements and 1; any number of blocks.
#[kernel]
pub unsafe fn atomics(integers: *mut u32, small: *mut f32, large: *mut f64) {
    let i = thread::index_1d();
    let sum = shared_array![u32; 2];
    // SAFETY: all accesses are atomic, except the first of shared memory, which a barrier follows.
    unsafe {
        atomic::atomic_fetch_add_u32_device(integers, Ordering::Relaxed, i);
        atomic::atomic_fetch_min_u32_device(integers.add(1), Ordering::Relaxed, i + 7);
        atomic::atomic_fetch_max_i32_device(integers.add(2).cast(), Ordering::Relaxed, i as i32 - 1000);
        atomic::atomic_fetch_or_u32_device(integers.add(3), Ordering::Relaxed, 1 << (i % 32));
        atomic::atomic_fetch_and_u32_device(integers.add(4), Ordering::Relaxed, !(1 << (i % 7)));
        atomic::atomic_fetch_xor_u32_system(integers.add(5), Ordering::Relaxed, i);
        if i == 3 {
            atomic::atomic_exchange_u32_device(integers.add(6), Ordering::AcqRel, 77);
            atomic::atomic_store_u32_device(integers.add(7), Ordering::Release, 78);
        }
        atomic::atomic_compare_and_swap_u32_device(integers.add(8), Ordering::Relaxed, 5, 6);
        atomic::atomic_fetch_add_f32_device(small, Ordering::Relaxed, 0.5);
        atomic::atomic_fetch_add_f64_device(large, Ordering::Relaxed, 0.25);
        if thread::thread_idx_x() < 2 {
            sum.store(thread::thread_idx_x(), 0);
        }
        thread::sync_threads();
        sum.atomic_fetch_add(0, 2);
        sum.atomic_fetch_max(1, thread::thread_idx_x());
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let total = sum.load(0) + sum.load(1);
            atomic::atomic_fetch_add_u32_device(integers.add(9), Ordering::Relaxed, total);
        }
    }
}

/// `out[i] = fma(a[i], b[i], c[i])`, in `f32`.
///
/// # Safety
/// The rules at the head of this module: 64 elements each.
#[kernel]
pub unsafe fn fused(a: *const f32, b: *const f32, c: *const f32, out: *mut f32) {
    let i = thread::index_1d() as usize;
    // SAFETY: i is less than the arrays' length.
    unsafe {
        let (a, b, c) = (mem::load(a.add(i)), mem::load(b.add(i)), mem::load(c.add(i)));
        mem::store(out.add(i), GpuFloat::mul_add(a, b, c));
    }
}

/// Two of the four warps of 128 threads hand numbers to the other two, over named barriers: `out[i] = 3 * i`, i < 64.
///
/// # Safety
/// The rules at the head of this module: 64 elements; a block of 128 threads.
#[kernel]
pub unsafe fn hand_over(out: *mut u32) {
    let i = thread::thread_idx_x();
    let (pair, slot) = (i / 32 % 2, i % 32);
    let buffer = shared_array![u32; 64];
    // SAFETY: barrier 1 or 2 is between the store and the load; two warps come to each.
    unsafe {
        if i < 64 {
            buffer.store(i, 3 * i);
        }
        thread::sync_threads_named(1 + pair, 64);
        if i >= 64 {
            mem::store(out.add((32 * pair + slot) as usize), buffer.load(32 * pair + slot));
        }
    }
}

/// Every block writes its number, waits for the grid, and adds up the numbers of all blocks. Cooperative.
///
/// # Safety
/// The rules at the head of this module: two elements for each block; `state` is one word, zero.
#[kernel]
pub unsafe fn grid_sum(state: *mut u32, out: *mut u32) {
    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    // SAFETY: the grid barrier is between the stores and the loads.
    unsafe {
        if thread::thread_idx_x() == 0 {
            mem::store(out.add(block as usize), block + 1);
        }
        grid::sync(state);
        if thread::thread_idx_x() == 0 {
            let (mut sum, mut other) = (0, 0);
            while other < blocks {
                sum += mem::load(out.add(other as usize));
                other += 1;
            }
            mem::store(out.add((blocks + block) as usize), sum);
        }
        grid::sync(state);
    }
}

/// Blocks leave partial results; the last to finish adds them up: `sum[0] = ` the sum of 1 to the number of blocks.
///
/// # Safety
/// The rules at the head of this module: one word for each block, and one each, `ticket` zero.
#[kernel]
pub unsafe fn last_block(partial: *mut u32, ticket: *mut u32, sum: *mut u32) {
    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let is_last = shared_array![u32; 1];
    // SAFETY: the fences and the ticket order the stores of all blocks before the loads of the last.
    unsafe {
        if thread::thread_idx_x() == 0 {
            mem::store(partial.add(block as usize), block + 1);
            atomic::device_thread_fence(Ordering::AcqRel);
            let before = atomic::atomic_fetch_add_u32_device(ticket, Ordering::Relaxed, 1);
            atomic::device_thread_fence(Ordering::AcqRel);
            is_last.store(0, u32::from(before == blocks - 1));
        }
        thread::sync_threads();
        if is_last.load(0) == 1 && thread::thread_idx_x() == 1 {
            let (mut total, mut other) = (0, 0);
            while other < blocks {
                total += mem::load(partial.add(other as usize));
                other += 1;
            }
            mem::store(sum, total);
        }
    }
}

/// Thread 1 waits for a flag that thread 32 sets by an atomic, then reads what it wrote before: `out[0] = 42`.
///
/// # Safety
/// The rules at the head of this module: one word each, `flag` zero.
#[kernel]
pub unsafe fn wait_for_flag(flag: *mut u32, data: *mut u32, out: *mut u32) {
    // SAFETY: release and acquire on the flag order the store before the load.
    unsafe {
        if thread::thread_idx_x() == 32 {
            mem::store(data, 42);
            atomic::atomic_store_u32_block(flag, Ordering::Release, 1);
        }
        if thread::thread_idx_x() == 1 {
            while atomic::atomic_load_u32_block(flag, Ordering::Acquire) == 0 {}
            mem::store(out, mem::load(data));
        }
    }
}

/// Elements of the input of [`copy_pipeline`]: four tiles of 64, and half a tile.
pub const PIPELINE_INPUT: u32 = 288;

/// Reverses each of five tiles of 64 numbers, of which the last is half zeros. Tiles come through a ring of three,
/// copied while those before them are reversed: 1, 2 or 4 elements a copy, in turn.
///
/// # Safety
/// The rules at the head of this module: [`PIPELINE_INPUT`] elements, and 320.
#[kernel]
pub unsafe fn copy_pipeline(input: *const f32, out: *mut f32) {
    let i = thread::thread_idx_x();
    let ring = shared_array![f32; 192];
    // SAFETY: a tile is loaded after a wait for its group and a barrier; the tile that overwrites it starts after
    // another barrier.
    unsafe {
        start_tile(ring, input, 0);
        start_tile(ring, input, 1);
        let mut tile = 0;
        while tile < 5 {
            start_tile(ring, input, tile + 2);
            wait_copies::<2>();
            thread::sync_threads();
            mem::store(out.add((64 * tile + i) as usize), ring.load(64 * (tile % 3) + 63 - i));
            thread::sync_threads();
            tile += 1;
        }
    }
}

/// Starts to copy a tile to its place in the ring, as one group: an empty one if there is no such tile.
///
/// # Safety
/// As for [`copy_pipeline`]; nobody touches that place meanwhile.
#[inline(always)]
unsafe fn start_tile(ring: Shared<f32>, input: *const f32, tile: u32) {
    let width = 1 << (tile % 3);
    let at = width * thread::thread_idx_x();
    let (from, to) = (64 * tile + at, 64 * (tile % 3) + at);
    let exists = from < PIPELINE_INPUT;
    let input = input.wrapping_add(from as usize);
    if tile < 5 && at < 64 {
        // SAFETY: `at` is a multiple of the width, of which the input has a multiple too.
        unsafe {
            match width {
                1 => ring.copy_async(to, input, exists),
                2 => ring.copy_async_v2(to, input, exists),
                _ => ring.copy_async_v4(to, input, exists),
            }
        }
    }
    commit_copies();
}

/// Reverses 32 doubles that are copied one by one, and then 32 that are copied by pairs, the last four of them zeros.
///
/// # Safety
/// The rules at the head of this module: 60 elements, and 64.
#[kernel]
pub unsafe fn copy_doubles(input: *const f64, out: *mut f64) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f64; 64];
    // SAFETY: elements are loaded after a wait for their group and a barrier; pairs begin at even elements.
    unsafe {
        if i < 32 {
            buffer.copy_async(i, input.add(i as usize), true);
        }
        commit_copies();
        if i < 16 {
            let pair = 32 + 2 * i;
            buffer.copy_async_v2(pair, input.wrapping_add(pair as usize), pair < 60);
        }
        commit_copies();
        wait_copies::<1>();
        thread::sync_threads();
        if i < 32 {
            mem::store(out.add(i as usize), buffer.load(31 - i));
        }
        wait_copies::<0>();
        thread::sync_threads();
        if i >= 32 {
            mem::store(out.add(i as usize), buffer.load(95 - i));
        }
    }
}

/// Numbers that each thread of [`products`] reads, and those that it writes.
pub const FRAGMENTS: (u32, u32) = (16, 14);

/// Products on the tensor cores of every shape, by each of two warps, whose lanes bring eight elements of `A`, four of `B` and four of `C`.
///
/// # Safety
/// The rules at the head of this module: [`FRAGMENTS`] for each of 64 threads.
#[kernel]
pub unsafe fn products(input: *const f64, out: *mut f64) {
    let i = thread::thread_idx_x() as usize;
    let (read, written) = const { (FRAGMENTS.0 as usize, FRAGMENTS.1 as usize) };
    // SAFETY: each thread has its part; all lanes come to each product.
    unsafe {
        let load = |place: usize| mem::load_readonly(input.add(read * i + place));
        let a = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
        let b = [load(8), load(9), load(10), load(11)];
        let c = [load(12), load(13), load(14), load(15)];
        let [d0, d1] = mma::m8n8k4_f64([a[0]], [b[0]], [c[0], c[1]]);
        let [d2, d3, d4, d5] = mma::m16n8k4_f64([a[0], a[1]], [b[0]], c);
        let [d6, d7, d8, d9] = mma::m16n8k8_f64([a[0], a[1], a[2], a[3]], [b[0], b[1]], c);
        let [d10, d11, d12, d13] = mma::m16n8k16_f64(a, b, c);
        let out = out.add(written * i);
        mem::store_v2(out, [d0, d1]);
        mem::store_v4(out.add(2), [d2, d3, d4, d5]);
        mem::store_v4(out.add(6), [d6, d7, d8, d9]);
        mem::store_v4(out.add(10), [d10, d11, d12, d13]);
    }
}

/// Numbers that each thread of [`products_tf32`] reads, and those that it writes.
pub const FRAGMENTS_TF32: (u32, u32) = (10, 4);

/// A product of TF32 numbers by each of two warps, whose lanes bring four elements of `A`, two of `B` and four of `C`.
///
/// # Safety
/// The rules at the head of this module: [`FRAGMENTS_TF32`] for each of 64 threads.
#[kernel]
pub unsafe fn products_tf32(input: *const f32, out: *mut f32) {
    let i = thread::thread_idx_x() as usize;
    // SAFETY: each thread has its part; all lanes come to the product.
    unsafe {
        let load = |place: usize| mem::load_readonly(input.add(const { FRAGMENTS_TF32.0 as usize } * i + place));
        let a = [load(0), load(1), load(2), load(3)];
        let d = mma::m16n8k8_tf32(a, [load(4), load(5)], [load(6), load(7), load(8), load(9)]);
        mem::store_v4(out.add(const { FRAGMENTS_TF32.1 as usize } * i), d);
    }
}

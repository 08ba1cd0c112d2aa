//! Correct kernels for Hopper's barriers, bulk copies and products by warpgroups.
//!
//! `D = A * B`, `A` of 64 rows, `B` of 128 columns, both in slabs of 128, 64 or 32 bytes of each row of `A` and each column of `B`. Where the matrices are
//! smaller, copies bring zeros.
//!
//! # Safety
//! Every kernel: the pointers are to what the kernel's documentation says, and blocks have as many threads.

use cuda_std::{
    kernel,
    mbarrier::Mbarrier,
    mem,
    shared::{Shared, dynamic_shared_mem},
    shared_array, thread,
    tma::{self, Swizzle, TensorMap},
    warp,
    wgmma::{self, Descriptor},
};

/// Rows of `A` and `D`.
pub const ROWS: u32 = 64;
/// Columns of `B` and `D`.
pub const COLUMNS: u32 = 128;
/// Slabs of the kernels here.
pub const SLABS: u32 = 5;
/// Words that [`bulk_copies`] copies at a time.
pub const CHUNK: u32 = 128;

/// Bytes of the tiles of `A` and `B` in a slab of `width` bytes.
#[must_use]
pub const fn stage_bytes(width: u32) -> u32 {
    (ROWS + COLUMNS) * width
}

/// Bytes of dynamic shared memory for [`multiply_split`]: two stages, the small parts of one, and `D`.
pub const SPLIT_BYTES: u32 = 3 * stage_bytes(128) + ROWS * COLUMNS * 4;

/// Calls the macro with the numbers of a thread's sums.
macro_rules! each_sum {
    ($macro:ident) => {
        $macro! {
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        }
    };
}

/// Where the first of a thread's sums is in `D`, stored by rows.
#[inline(always)]
fn first_place(i: u32) -> u32 {
    let lane = i % 32;
    (16 * (i / 32) + lane / 4) * COLUMNS + 2 * (lane % 4)
}

/// How much further on the one of that number is.
const fn further(sum: u32) -> u32 {
    8 * (sum / 2 % 2) * COLUMNS + 8 * (sum / 4) + sum % 2
}

/// The product over all slabs, by a pipeline of two stages: thread 0 starts the copies of a slab while all multiply the one before. `add` adds the products of a slab
/// to the sums; its tiles have rows of `WIDTH` bytes.
#[inline(always)]
unsafe fn multiply<const WIDTH: u32, const N: usize>(
    [a, b]: [*const TensorMap; 2],
    out: *mut f32,
    columns_of_slab: u32,
    operands: impl Fn(Shared<u32>, Shared<u32>) -> [(Descriptor, Descriptor); N],
    add: impl Fn([f32; 64], [(Descriptor, Descriptor); N]) -> [f32; 64],
) {
    let i = thread::thread_idx_x();
    let tiles = dynamic_shared_mem::<u32>();
    let barriers = shared_array![u64; 4];
    let tile_of_a = |slab: u32| tiles.offset(slab % 2 * stage_bytes(WIDTH) / 4);
    let tile_of_b = |slab: u32| tile_of_a(slab).offset(ROWS * WIDTH / 4);
    let full = |slab: u32| Mbarrier::at(barriers, slab % 2);
    let empty = |slab: u32| Mbarrier::at(barriers, 2 + slab % 2);
    // SAFETY: the barriers are made before all others use them; tiles are read after their phase, and copied again after all warps have read them.
    unsafe {
        if i == 0 {
            full(0).init(1);
            full(1).init(1);
            empty(0).init(4);
            empty(1).init(4);
            tma::fence_proxy_async();
        }
        thread::sync_threads();
        let mut sums = [0.0; 64];
        let mut slab = 0;
        while slab <= SLABS {
            if i == 0 && slab < SLABS {
                if slab >= 2 {
                    empty(slab).wait((slab / 2 - 1) % 2);
                }
                full(slab).arrive_and_expect(stage_bytes(WIDTH));
                let x = (slab * columns_of_slab) as i32;
                tma::load_tile(tile_of_a(slab), a, x, 0, full(slab));
                tma::load_tile(tile_of_b(slab), b, x, 0, full(slab));
            }
            if slab > 0 {
                let present = slab - 1;
                full(present).wait(present / 2 % 2);
                warp::sync_warp(u32::MAX);
                sums = add(sums, operands(tile_of_a(present), tile_of_b(present)));
                if i.is_multiple_of(32) {
                    empty(present).arrive();
                }
            }
            slab += 1;
        }
        let to = out.add(first_place(i) as usize);
        macro_rules! store {
            ($($sum:literal)*) => { $(mem::store(to.add(further($sum) as usize), sums[$sum]);)* };
        }
        each_sum!(store);
    }
}

/// The operands of a slab in tiles of 128 bytes.
#[inline(always)]
fn steps_of_128(a: Shared<u32>, b: Shared<u32>) -> [(Descriptor, Descriptor); 4] {
    let (a, b) = (Descriptor::of_tile(a, Swizzle::Bytes128), Descriptor::of_tile(b, Swizzle::Bytes128));
    [(a, b), (a.offset(32), b.offset(32)), (a.offset(64), b.offset(64)), (a.offset(96), b.offset(96))]
}

/// In TF32, slabs of 32 columns: 128 threads.
///
/// # Safety
/// The rules at the head of this module: maps of `A` and of the transpose of `B` with boxes of all rows and 32 columns and a swizzle of 128 bytes; 64 x 128 elements.
#[kernel]
pub unsafe fn multiply_tf32(a: *const TensorMap, b: *const TensorMap, out: *mut f32) {
    // SAFETY: the caller keeps the rules; all threads come to each product.
    unsafe { multiply::<128, 4>([a, b], out, 32, steps_of_128, |sums, n| wgmma::m64n128k8_tf32_add(sums, n)) }
}

/// As [`multiply_tf32`], each slab summed by itself and added to the others in `f32`.
///
/// # Safety
/// As for [`multiply_tf32`].
#[kernel]
pub unsafe fn multiply_tf32_by_slabs(a: *const TensorMap, b: *const TensorMap, out: *mut f32) {
    #[inline(always)]
    unsafe fn add(mut sums: [f32; 64], products: [(Descriptor, Descriptor); 4]) -> [f32; 64] {
        // SAFETY: the caller's rules.
        let of_slab = unsafe { wgmma::m64n128k8_tf32(products) };
        macro_rules! add {
            ($($sum:literal)*) => { $(sums[$sum] += of_slab[$sum];)* };
        }
        each_sum!(add);
        sums
    }
    // SAFETY: the caller keeps the rules; all threads come to each product.
    unsafe { multiply::<128, 4>([a, b], out, 32, steps_of_128, |sums, n| add(sums, n)) }
}

/// As [`multiply_tf32`], with slabs of 16 columns, and swizzles of 64 bytes.
///
/// # Safety
/// As for [`multiply_tf32`], with boxes of 16 columns and a swizzle of 64 bytes.
#[kernel]
pub unsafe fn multiply_tf32_swizzle_64(a: *const TensorMap, b: *const TensorMap, out: *mut f32) {
    let operands = |a, b| {
        let (a, b) = (Descriptor::of_tile(a, Swizzle::Bytes64), Descriptor::of_tile(b, Swizzle::Bytes64));
        [(a, b), (a.offset(32), b.offset(32))]
    };
    // SAFETY: the caller keeps the rules; all threads come to each product.
    unsafe { multiply::<64, 2>([a, b], out, 16, operands, |sums, n| wgmma::m64n128k8_tf32_add(sums, n)) }
}

/// As [`multiply_tf32`], with slabs of 8 columns, and swizzles of 32 bytes.
///
/// # Safety
/// As for [`multiply_tf32`], with boxes of 8 columns and a swizzle of 32 bytes.
#[kernel]
pub unsafe fn multiply_tf32_swizzle_32(a: *const TensorMap, b: *const TensorMap, out: *mut f32) {
    let operands = |a, b| [(Descriptor::of_tile(a, Swizzle::Bytes32), Descriptor::of_tile(b, Swizzle::Bytes32))];
    // SAFETY: the caller keeps the rules; all threads come to each product.
    unsafe { multiply::<32, 1>([a, b], out, 8, operands, |sums, n| wgmma::m64n128k8_tf32_add(sums, n)) }
}

/// In bf16, slabs of 64 columns: 128 threads.
///
/// # Safety
/// As for [`multiply_tf32`], with boxes of 64 columns.
#[kernel]
pub unsafe fn multiply_bf16(a: *const TensorMap, b: *const TensorMap, out: *mut f32) {
    // SAFETY: the caller keeps the rules; all threads come to each product.
    unsafe { multiply::<128, 4>([a, b], out, 64, steps_of_128, |sums, n| wgmma::m64n128k16_bf16_add(sums, n)) }
}

/// In f16, slabs of 64 columns: 128 threads.
///
/// # Safety
/// As for [`multiply_tf32`], with boxes of 64 columns.
#[kernel]
pub unsafe fn multiply_f16(a: *const TensorMap, b: *const TensorMap, out: *mut f32) {
    // SAFETY: the caller keeps the rules; all threads come to each product.
    unsafe { multiply::<128, 4>([a, b], out, 64, steps_of_128, |sums, n| wgmma::m64n128k16_f16_add(sums, n)) }
}

/// One product of TF32 from tiles without a swizzle, stored by threads as core matrices: 128 threads.
///
/// # Safety
/// The rules at the head of this module: `a` has 64 x 8 elements, `b` 128 x 8, `out` 64 x 128.
#[kernel]
pub unsafe fn multiply_core_matrices(a: *const f32, b: *const f32, out: *mut f32) {
    let i = thread::thread_idx_x();
    let tiles = dynamic_shared_mem::<f32>();
    let (tile_of_a, tile_of_b) = (tiles, tiles.offset(ROWS * 8));
    // The two core matrices of the same rows follow one another.
    let place = |row: u32, piece: u32| (row / 8 * 2 + piece) * 32 + row % 8 * 4;
    // SAFETY: each thread stores a row of the tiles, fenced for the product after the barrier.
    unsafe {
        let mut piece = 0;
        while piece < 2 {
            if i < ROWS {
                tile_of_a.store_v4(place(i, piece), mem::load_v4(a.add((8 * i + 4 * piece) as usize)));
            }
            tile_of_b.store_v4(place(i, piece), mem::load_v4(b.add((8 * i + 4 * piece) as usize)));
            piece += 1;
        }
        tma::fence_proxy_async();
        thread::sync_threads();
        let descriptor = |tile| Descriptor::new(tile, 128, 256, Swizzle::None);
        let sums = wgmma::m64n128k8_tf32([(descriptor(tile_of_a), descriptor(tile_of_b))]);
        let to = out.add(first_place(i) as usize);
        macro_rules! store {
            ($($sum:literal)*) => { $(mem::store(to.add(further($sum) as usize), sums[$sum]);)* };
        }
        each_sum!(store);
    }
}

/// In three products of TF32: each operand is the sum of what the tensor cores take of it, and of a small rest. One warpgroup copies, the other makes the rests and multiplies, and
/// `D` leaves by a bulk copy: 256 threads, [`SPLIT_BYTES`] of shared memory.
///
/// # Safety
/// The rules at the head of this module: maps as for [`multiply_tf32`], and one of `D` with one box for all of it and no swizzle.
#[kernel]
pub unsafe fn multiply_split(a: *const TensorMap, b: *const TensorMap, d: *const TensorMap) {
    const WIDTH: u32 = 128;
    const WORDS: u32 = stage_bytes(WIDTH) / 4;
    thread::launch_bounds::<256, 1>();
    let i = thread::thread_idx_x() % 128;
    let tiles = dynamic_shared_mem::<f32>();
    let barriers = shared_array![u64; 4];
    let (small, results) = (tiles.offset(2 * WORDS), tiles.offset(3 * WORDS));
    let stage = |slab: u32| tiles.offset(slab % 2 * WORDS);
    let of_b = |tile: Shared<f32>| tile.offset(ROWS * WIDTH / 4);
    let full = |slab: u32| Mbarrier::at(barriers, slab % 2);
    let empty = |slab: u32| Mbarrier::at(barriers, 2 + slab % 2);
    // SAFETY: as for `multiply`; the rests are fenced, and one warpgroup's barrier is between them and the products.
    unsafe {
        if thread::thread_idx_x() == 0 {
            full(0).init(1);
            full(1).init(1);
            empty(0).init(1);
            empty(1).init(1);
            tma::fence_proxy_async();
        }
        thread::sync_threads();
        if thread::thread_idx_x() < 128 {
            wgmma::decrease_registers::<40>();
            if i == 0 {
                let mut slab = 0;
                while slab < SLABS {
                    // In the first phase it says yes at once.
                    empty(slab).wait((slab / 2 + 1) % 2);
                    full(slab).arrive_and_expect(stage_bytes(WIDTH));
                    tma::load_tile(stage(slab), a, (32 * slab) as i32, 0, full(slab));
                    tma::load_tile(of_b(stage(slab)), b, (32 * slab) as i32, 0, full(slab));
                    slab += 1;
                }
            }
            return;
        }
        wgmma::increase_registers::<232>();
        let mut sums = [0.0; 64];
        let mut slab = 0;
        while slab < SLABS {
            full(slab).wait(slab / 2 % 2);
            // In the permuted order of the tile, whatever it is.
            let mut at = 4 * i;
            while at < WORDS {
                let rest = stage(slab).load_v4(at).map(|x| x - f32::from_bits(x.to_bits() & !0x1fff));
                small.store_v4(at, rest);
                at += 4 * 128;
            }
            tma::fence_proxy_async();
            thread::sync_threads_named(1, 128);
            let big = [stage(slab), of_b(stage(slab))].map(|tile| Descriptor::of_tile(tile, Swizzle::Bytes128));
            let rest = [small, of_b(small)].map(|tile| Descriptor::of_tile(tile, Swizzle::Bytes128));
            let step = |a: Descriptor, b: Descriptor, bytes: u32| (a.offset(bytes), b.offset(bytes));
            let of_slab = wgmma::m64n128k8_tf32([
                step(rest[0], big[1], 0),
                step(rest[0], big[1], 32),
                step(rest[0], big[1], 64),
                step(rest[0], big[1], 96),
                step(big[0], rest[1], 0),
                step(big[0], rest[1], 32),
                step(big[0], rest[1], 64),
                step(big[0], rest[1], 96),
                step(big[0], big[1], 0),
                step(big[0], big[1], 32),
                step(big[0], big[1], 64),
                step(big[0], big[1], 96),
            ]);
            if i == 0 {
                empty(slab).arrive();
            }
            macro_rules! add {
                ($($sum:literal)*) => { $(sums[$sum] += of_slab[$sum];)* };
            }
            each_sum!(add);
            slab += 1;
        }
        let to = results.offset(first_place(i));
        macro_rules! store {
            ($($sum:literal)*) => { $(to.store(further($sum), sums[$sum]);)* };
        }
        each_sum!(store);
        tma::fence_proxy_async();
        thread::sync_threads_named(1, 128);
        if i == 0 {
            tma::store_tile(d, 0, 0, results);
            tma::commit_stores();
            tma::wait_reads_of_stores::<0>();
        }
    }
}

/// Copies a matrix by boxes of 16 columns and 8 rows, from a corner outside of it on, and each box to where it came from, but for what is outside: 32 threads.
///
/// # Safety
/// The rules at the head of this module: maps of two matrices of the same size, 2 x 3 boxes or less, with boxes of 16 columns of 2 bytes and 8 rows.
#[kernel]
pub unsafe fn copy_boxes(from: *const TensorMap, to: *const TensorMap) {
    let tile = dynamic_shared_mem::<u32>();
    let barriers = shared_array![u64; 1];
    let full = Mbarrier::at(barriers, 0);
    if thread::thread_idx_x() > 0 {
        return;
    }
    // SAFETY: one thread does all, and waits for each copy before it starts the next.
    unsafe {
        full.init(1);
        tma::fence_proxy_async();
        let mut number = 0;
        while number < 12 {
            let (x, y) = ((number % 3) as i32 * 16 - 3, (number / 3) as i32 * 8 - 5);
            full.arrive_and_expect(256);
            tma::load_tile(tile, from, x, y, full);
            full.wait(number % 2);
            tma::store_tile(to, x, y, tile);
            tma::commit_stores();
            // Boxes that begin at an odd number share words of memory, which the emulator takes for one.
            tma::wait_stores::<0>();
            number += 1;
        }
    }
}

/// Four copies of [`CHUNK`] words to one array, by a barrier that is made anew after two of them. Each is handed over to the other warp in reverse order, by
/// barriers at which one warp arrives and the other waits: 64 threads.
///
/// # Safety
/// The rules at the head of this module: `input` and `out` have 4 times [`CHUNK`] elements.
#[kernel]
pub unsafe fn bulk_copies(input: *const u32, out: *mut u32) {
    let i = thread::thread_idx_x();
    let (chunk, reversed) = (shared_array![u32; CHUNK as usize], shared_array![u32; CHUNK as usize]);
    let barriers = shared_array![u64; 1];
    let full = Mbarrier::at(barriers, 0);
    // SAFETY: the first warp alone uses the copies, the warps meet at two barriers for each chunk.
    unsafe {
        let mut number = 0;
        while number < 4 {
            if i < 32 {
                if i == 0 {
                    if number == 2 {
                        full.invalidate();
                    }
                    if number % 2 == 0 {
                        full.init(1);
                        tma::fence_proxy_async();
                    }
                    full.expect(CHUNK * 4);
                    tma::load(chunk, input.add((number * CHUNK) as usize), CHUNK, full);
                    full.arrive();
                }
                warp::sync_warp(u32::MAX);
                full.wait(number % 2);
                let values = chunk.load_v4(4 * i);
                if number > 0 {
                    thread::sync_threads_named(2, 64);
                }
                reversed.store_v4(4 * (31 - i), [values[3], values[2], values[1], values[0]]);
                thread::arrive_threads_named(1, 64);
                warp::sync_warp(u32::MAX);
            } else {
                thread::sync_threads_named(1, 64);
                mem::store_v4(out.add((number * CHUNK + 4 * (i - 32)) as usize), reversed.load_v4(4 * (i - 32)));
                if number < 3 {
                    thread::arrive_threads_named(2, 64);
                }
            }
            number += 1;
        }
    }
}

//! Emulated thread-steps a second on one core, all checks on, for four kinds of kernel.
#![expect(clippy::undocumented_unsafe_blocks, reason = "each calls a kernel, whose accesses the emulator checks")]

use std::{io::Write, sync::atomic::Ordering, time::Instant};

use cuda_std::{
    atomic,
    emulator::{GlobalBuffer, Launch},
    kernel, mem, shared_array, thread, warp,
};

const BLOCKS: u32 = 64;
const BLOCK_SIZE: u32 = 256;
const ROUNDS: u32 = 100;

/// Adds the lanes of each warp up, again and again.
///
/// # Safety
/// `out` holds an element for each thread.
#[kernel]
unsafe fn shuffles(out: *mut f32) {
    let mut sum = thread::thread_idx_x() as f32;
    for round in 0..ROUNDS {
        // SAFETY: all lanes come here.
        sum = 0.5 * (sum + unsafe { warp::warp_shuffle_xor(u32::MAX, sum, 1 << (round % 5), 32).0 });
    }
    // SAFETY: as said above.
    unsafe { mem::store(out.add(thread::index_1d() as usize), sum) }
}

/// Passes numbers round the block.
///
/// # Safety
/// `out` holds an element for each thread.
#[kernel]
unsafe fn barriers(out: *mut f32) {
    let i = thread::thread_idx_x();
    let ring = shared_array![f32; 256];
    let mut value = i as f32;
    // SAFETY: barriers are between stores and loads.
    unsafe {
        for _ in 0..ROUNDS / 4 {
            ring.store(i, value);
            thread::sync_threads();
            value = ring.load((i + 1) % 256);
            thread::sync_threads();
        }
        mem::store(out.add(thread::index_1d() as usize), value);
    }
}

/// Adds up a table, read from two buffers.
///
/// # Safety
/// `table` holds 4096 elements, `out` an element for each thread.
#[kernel]
unsafe fn loads(table: *const f32, streamed: *const f32, out: *mut f32) {
    let (i, mut sum) = (thread::index_1d(), 0.0);
    // SAFETY: indices are less than 4096.
    unsafe {
        for round in 0..ROUNDS / 2 {
            let index = (i * 17 + round * 101) as usize % 4096;
            sum += mem::load_readonly(table.add(index)) * mem::load_streaming(streamed.add(index));
        }
        mem::store(out.add(i as usize), sum);
    }
}

/// Adds to a table and reads it, by relaxed atomics.
///
/// # Safety
/// `table` holds 4096 elements.
#[kernel]
unsafe fn atomics(table: *mut u32) {
    let i = thread::index_1d();
    // SAFETY: indices are less than 4096.
    unsafe {
        for round in 0..ROUNDS / 4 {
            let index = (i * 17 + round * 101) as usize % 4096;
            let found = atomic::atomic_load_u32_device(table.add(index), Ordering::Relaxed);
            atomic::atomic_fetch_add_u32_device(table.add(index), Ordering::Relaxed, 1 | found);
        }
    }
}

fn measure(name: &str, launch: &Launch<'_>, kernel: impl Fn()) {
    let mut best = 0.0f64;
    let mut steps = 0;
    for _ in 0..7 {
        let start = Instant::now();
        let stats = launch.run(&kernel).unwrap_or_else(|finding| panic!("{finding}"));
        steps = stats.steps();
        best = best.max(steps as f64 / start.elapsed().as_secs_f64());
    }
    let mut out = std::io::stdout();
    writeln!(out, "{name:32} {steps:9} steps  {:7.1} million steps/s", best / 1e6).expect("stdout is open");
}

fn main() {
    let table: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let buffer = GlobalBuffer::from_slice(&table);
    let mut out = vec![0.0f32; (BLOCKS * BLOCK_SIZE) as usize];
    let mut launch = Launch::new(BLOCKS, BLOCK_SIZE);
    let (borrowed, out) = (launch.borrow("table", &table), launch.borrow_mut("out", &mut out));
    measure("shuffle-heavy", &launch, || unsafe { shuffles(out) });
    measure("barrier-heavy", &launch, || unsafe { barriers(out) });
    measure("load-heavy, owned buffers", &launch, || unsafe { loads(buffer.as_ptr(), buffer.as_ptr(), out) });
    measure("load-heavy, borrowed slices", &launch, || unsafe { loads(borrowed, borrowed, out) });
    let mut table = GlobalBuffer::zeroed(4096);
    let table = table.as_mut_ptr();
    measure("atomics, natural order", &Launch::new(BLOCKS, BLOCK_SIZE), || unsafe { atomics(table) });
    measure("atomics, another seed", &Launch::new(BLOCKS, BLOCK_SIZE).seed(1), || unsafe { atomics(table) });
}

//! Kernels with one bug each, for one warp or two. The line with the bug ends in `// BUG: <name>`.
//!
//! # Safety
//! None of them is sound: they are for the emulator, which stops them. The pointers are to 64 elements.

use cuda_std::{kernel, mem, mma, shared, shared_array, thread, warp};

/// Reads one element past the end.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn off_by_one(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x() as usize;
    // SAFETY: none.
    unsafe {
        let next = mem::load(x.add(i + 1)); // BUG: off_by_one
        mem::store(y.add(i), next);
    }
}

/// Loads four elements from an index that is not a multiple of four.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn unaligned_vector(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x() as usize;
    if i < 8 {
        // SAFETY: none.
        unsafe {
            let four = mem::load_v4(x.add(4 * i + 2)); // BUG: unaligned_vector
            mem::store(y.add(i), four[0] + four[1] + four[2] + four[3]);
        }
    }
}

/// Reads what another warp writes to shared memory, without waiting for it.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn missing_barrier(y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        buffer.store(i, i as f32);
        thread::sync_threads();
        let value = buffer.load(63 - i);
        buffer.store(i, value + 1.0); // BUG: missing_barrier
        thread::sync_threads();
        mem::store(y.add(i as usize), buffer.load(i));
    }
}

/// Reads shared memory that nobody has written.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn uninitialised_shared(y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        if i < 63 {
            buffer.store(i, 1.0);
        }
        thread::sync_threads();
        mem::store(y.add(i as usize), buffer.load(i)); // BUG: uninitialised_shared
    }
}

/// One half of the threads waits at one barrier, the other at another.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn divergent_barrier(y: *mut f32) {
    let i = thread::thread_idx_x();
    if i < 32 {
        thread::sync_threads();
    } else {
        thread::sync_threads(); // BUG: divergent_barrier
    }
    // SAFETY: each thread has an element of its own.
    unsafe { mem::store(y.add(i as usize), 0.0) }
}

/// One warp waits at a barrier, the other for a lane that waits there too.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn barrier_against_warp(y: *mut f32) {
    let i = thread::thread_idx_x();
    if i == 40 {
        thread::sync_threads(); // BUG: barrier_against_warp
    }
    // SAFETY: none.
    unsafe {
        warp::sync_warp(u32::MAX);
        mem::store(y.add(i as usize), 0.0);
    }
    thread::sync_threads();
}

/// Shuffles with a mask from which half of the sources are missing.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn wrong_mask(y: *mut f32) {
    let i = thread::thread_idx_x();
    if i < 16 {
        // SAFETY: none.
        unsafe {
            let (sum, _) = warp::warp_shuffle_down(0xffff, 1.0f32, 8, 32); // BUG: wrong_mask
            mem::store(y.add(i as usize), sum);
        }
    }
}

/// Calls a warp operation with a mask that lacks the caller.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn caller_not_in_mask() {
    // SAFETY: none.
    unsafe { warp::sync_warp(0xfffe) } // BUG: caller_not_in_mask
}

/// Two halves of a warp vote at two places with the mask of all.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn divergent_vote(y: *mut u32) {
    let i = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        let lanes = if i.is_multiple_of(2) {
            warp::warp_vote_ballot(u32::MAX, true)
        } else {
            warp::warp_vote_ballot(u32::MAX, false) // BUG: divergent_vote
        };
        mem::store(y.add(i as usize), lanes);
    }
}

/// A lane leaves before the others shuffle with the mask of all.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn exited_lane(y: *mut u32) {
    let i = thread::thread_idx_x();
    if i == 31 {
        return;
    }
    // SAFETY: none.
    unsafe {
        let (value, _) = warp::warp_shuffle_xor(u32::MAX, i, 1, 32); // BUG: exited_lane
        mem::store(y.add(i as usize), value);
    }
}

/// Writes through whatever pointer it gets: for one to memory that has been freed, or is for reading only.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn stale_pointer(y: *mut f32) {
    // SAFETY: none.
    unsafe { mem::store(y.add(thread::thread_idx_x() as usize), 1.0) } // BUG: stale_pointer
}

/// Every block writes the same element.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn cross_block_race(y: *mut u32) {
    if thread::thread_idx_x() == 5 {
        // SAFETY: none.
        unsafe { mem::store(y, thread::block_idx_x()) } // BUG: cross_block_race
    }
}

/// Loads by `ld.global.nc` what the block wrote before.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn readonly_load_of_written(y: *mut u32) {
    let i = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        mem::store(y.add(i as usize), i);
        thread::sync_threads();
        let other = mem::load_readonly(y.add(63 - i as usize)); // BUG: readonly_load_of_written
        thread::sync_threads();
        mem::store(y.add(i as usize), other);
    }
}

/// Reads plainly, without a barrier, what all threads add to by atomics.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn plain_read_of_atomic(total: *mut u32, y: *mut u32) {
    use core::sync::atomic::Ordering;
    // SAFETY: none.
    unsafe {
        cuda_std::atomic::atomic_fetch_add_u32_device(total, Ordering::Relaxed, 1);
        if thread::thread_idx_x() == 0 {
            mem::store(y, mem::load(total)); // BUG: plain_read_of_atomic
        }
    }
}

/// The last block to take a ticket reads what the others stored, with no fence between stores and tickets.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn missing_fence(partial: *mut u32, ticket: *mut u32, sum: *mut u32) {
    use core::sync::atomic::Ordering;
    if thread::thread_idx_x() > 0 {
        return;
    }
    // SAFETY: none.
    unsafe {
        mem::store(partial.add(thread::block_idx_x() as usize), 1);
        if cuda_std::atomic::atomic_fetch_add_u32_device(ticket, Ordering::Relaxed, 1) == 3 {
            let pair = [mem::load(partial), mem::load(partial.add(1))]; // BUG: missing_fence
            mem::store(sum, pair[0] + pair[1]);
        }
    }
}

/// Waits for a flag that nobody sets.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn endless_wait(flag: *mut u32) {
    use core::sync::atomic::Ordering;
    // SAFETY: the pointer is valid.
    unsafe {
        while cuda_std::atomic::atomic_load_u32_device(flag, Ordering::Relaxed) == 0 {} // BUG: endless_wait
    }
}

/// Panics, by an index out of the bounds of a local array.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn local_index(y: *mut u32) {
    let i = thread::thread_idx_x() as usize;
    let squares = [0, 1, 4, 9];
    let square = squares[i]; // BUG: local_index
    // SAFETY: the pointer is valid.
    unsafe { mem::store(y.add(i), square) }
}

/// Loads what a copy brings to shared memory, with a barrier but without a wait for the copy.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn missing_wait(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        buffer.copy_async(i, x.add(i as usize), true);
        shared::commit_copies();
        thread::sync_threads();
        let value = buffer.load(63 - i); // BUG: missing_wait
        mem::store(y.add(i as usize), value);
    }
}

/// Waits for the first of two groups of copies, and loads what the second brings.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn short_wait(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        if i < 32 {
            buffer.copy_async(i, x.add(i as usize), true);
        }
        shared::commit_copies();
        if i < 32 {
            buffer.copy_async(32 + i, x.add(32 + i as usize), true);
        }
        shared::commit_copies();
        shared::wait_copies::<1>();
        thread::sync_threads();
        if i < 32 {
            let first = buffer.load(31 - i);
            let second = buffer.load(63 - i); // BUG: short_wait
            mem::store(y.add(i as usize), first + second);
        }
    }
}

/// Loads what another thread's copy brings after that thread has waited for it, without a barrier between.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn wait_without_barrier(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        buffer.store(i, 0.0);
        thread::sync_threads();
        buffer.copy_async(i, x.add(i as usize), true);
        shared::commit_copies();
        shared::wait_copies::<0>();
        let value = buffer.load(63 - i); // BUG: wait_without_barrier
        mem::store(y.add(i as usize), value);
    }
}

/// Copies over elements that the other warp may still have to read.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn early_copy(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        buffer.store(i, i as f32);
        thread::sync_threads();
        if i < 32 {
            buffer.copy_async(i, x.add(i as usize), true); // BUG: early_copy
            shared::commit_copies();
            shared::wait_copies::<0>();
        } else {
            mem::store(y.add(i as usize), buffer.load(i - 32));
        }
    }
}

/// Copies one element past the end of global memory.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn copy_from_outside(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        buffer.copy_async(i, x.add(i as usize + 1), true); // BUG: copy_from_outside
        shared::commit_copies();
        shared::wait_copies::<0>();
        mem::store(y.add(i as usize), buffer.load(i));
    }
}

/// Copies to one element past the end of an array.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn copy_to_outside(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        buffer.copy_async(i + 1, x.add(i as usize), true); // BUG: copy_to_outside
        shared::commit_copies();
        shared::wait_copies::<0>();
        mem::store(y.add(i as usize), buffer.load(i + 1));
    }
}

/// Copies four elements to an index that is not a multiple of four.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn unaligned_copy(x: *const f32, y: *mut f32) {
    let i = thread::thread_idx_x();
    let buffer = shared_array![f32; 64];
    // SAFETY: none.
    unsafe {
        if i < 15 {
            buffer.copy_async_v4(4 * i + 2, x.add(4 * i as usize), true); // BUG: unaligned_copy
        }
        shared::commit_copies();
        shared::wait_copies::<0>();
        thread::sync_threads();
        mem::store(y.add(i as usize), buffer.load(i));
    }
}

/// Sends a number to another block by two relaxed atomics: nothing orders the number ahead of the flag.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn unordered_message(number: *mut u32, flag: *mut u32) {
    use core::sync::atomic::Ordering::Relaxed;
    use cuda_std::atomic::{atomic_load_u32_device, atomic_store_u32_device};
    if thread::thread_idx_x() > 0 {
        return;
    }
    // SAFETY: the pointers are valid, and only atomics use them.
    unsafe {
        if thread::block_idx_x() == 0 {
            atomic_store_u32_device(number, Relaxed, 42);
            atomic_store_u32_device(flag, Relaxed, 1);
        } else {
            while atomic_load_u32_device(flag, Relaxed) == 0 {}
            let received = atomic_load_u32_device(number, Relaxed);
            assert!(received == 42, "the flag has overtaken the number"); // BUG: unordered_message
        }
    }
}

/// The last block to take a ticket adds up what the others stored by relaxed atomics, with no fence before the tickets.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn unordered_ticket(parts: *mut u32, ticket: *mut u32, sum: *mut u32) {
    use core::sync::atomic::Ordering::Relaxed;
    use cuda_std::atomic::{
        atomic_fetch_add_u32_device, atomic_load_u32_device, atomic_store_u32_device, device_thread_fence,
    };
    if thread::thread_idx_x() > 0 {
        return;
    }
    // SAFETY: the pointers are valid, and only atomics use the first two.
    unsafe {
        atomic_store_u32_device(parts.add(thread::block_idx_x() as usize), Relaxed, 1);
        if atomic_fetch_add_u32_device(ticket, Relaxed, 1) == 3 {
            device_thread_fence(core::sync::atomic::Ordering::Acquire);
            let mut total = 0;
            for part in 0..4 {
                total += atomic_load_u32_device(parts.add(part), Relaxed);
            }
            assert!(total == 4, "the ticket has overtaken a part"); // BUG: unordered_ticket
            mem::store(sum, total);
        }
    }
}

/// Takes the array of a function that is called twice for one array. On a GPU each inlined copy of the function has its own.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn repeated_array(y: *mut f32) {
    fn buffer() -> shared::Shared<f32> {
        shared_array![f32; 64] // BUG: repeated_array
    }
    let i = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        buffer().store(i, i as f32);
        thread::sync_threads();
        mem::store(y.add(i as usize), buffer().load(63 - i));
    }
}

/// Half of a warp is at one product, the other half at another.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn divergent_product(y: *mut f64) {
    let i = thread::thread_idx_x();
    // SAFETY: none.
    unsafe {
        let sums = if i % 32 < 16 {
            mma::m8n8k4_f64([1.0], [2.0], [0.0; 2])
        } else {
            mma::m8n8k4_f64([1.0], [2.0], [1.0; 2]) // BUG: divergent_product
        };
        mem::store(y.add(i as usize), sums[0] + sums[1]);
    }
}

/// The last lane of a warp has left when the others come to a product.
///
/// # Safety
/// Not sound: see the head of this module.
#[kernel]
pub unsafe fn product_without_a_lane(y: *mut f64) {
    let i = thread::thread_idx_x();
    if i == 31 {
        return;
    }
    // SAFETY: none.
    unsafe {
        let sums = mma::m16n8k4_f64([1.0; 2], [2.0], [0.0; 4]); // BUG: product_without_a_lane
        mem::store(y.add(i as usize), sums[0]);
    }
}

//! Solves where many levels in succession have few rows, so that an exchange between multiprocessors for each would take most of the time.
//!
//! A tile holds several whole levels. Each group of lanes has loaded its row before, with the elements of `x` from other tiles: those of a tile's first level are the last
//! ones to come. Then the levels of the tile follow one another:
//!
//! ```text
//! turn 0: rows of the first level -> shared memory and x | barrier | turn 1: rows of the next level ..
//! ```

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::atomic_fetch_add_u32_device,
    mem, shared_array, thread,
    warp::{self, WARP_SIZE},
};

use super::{
    Args, NARROW_BLOCK_SIZE,
    parts::{Batch, Flagged, Row, Tile},
};
use crate::row_sum::sum_of_group;

/// Entries that a lane loads before its turn: more than where levels are wide, for fewer lanes a row make more rows a tile; with 8, registers do not suffice. Not measured yet.
const AHEAD: usize = 6;

/// # Safety
/// The rules of the family.
#[inline(always)]
pub(super) unsafe fn solve<T: Flagged, const LANES: u32>(args: Args<T>) {
    const { assert!(NARROW_BLOCK_SIZE.is_multiple_of(WARP_SIZE) && WARP_SIZE.is_multiple_of(LANES)) }
    thread::launch_bounds::<NARROW_BLOCK_SIZE, 1>();
    let ticket = shared_array![u32; 1];
    let solved = shared_array![T; NARROW_BLOCK_SIZE as usize];
    let (group, lane) = (thread::thread_idx_x() / LANES, thread::thread_idx_x() % LANES);
    // SAFETY: the counter gives each block a tile and a column of its own. A row's elements of `x` are waited for in tiles of blocks that have begun, or have been stored
    // in a turn before; only its first lane publishes its own. All lanes of a warp are there for a sum, and all threads at the barriers.
    unsafe {
        if thread::thread_idx_x() == 0 {
            ticket.store(0, atomic_fetch_add_u32_device(args.ticket, Relaxed, 1));
        }
        thread::sync_threads();
        let tile = Tile::of(&args, ticket.load(0));
        let place = tile.begin + group;
        let row = Row::of(&args, &tile, place, lane == 0);
        let (mut turn, mut turns) = (0, 0);
        if tile.begin < tile.end {
            let depth = mem::load_readonly(args.depths.add(tile.begin as usize));
            turns = mem::load_readonly(args.depths.add(tile.end as usize - 1)) - depth + 1;
            if row.exists {
                turn = mem::load_readonly(args.depths.add(place as usize)) - depth;
            }
        }
        if thread::thread_idx_x() == 0 {
            tile.wait(&args);
        }
        thread::sync_threads();
        let first = Batch::<_, AHEAD>::load::<true>(&args, &tile, &row, lane, LANES);
        let mut now = 0;
        while now < turns {
            let is_ours = row.exists && turn == now;
            if warp::warp_vote_any(u32::MAX, is_ours) {
                let mut sum = T::ZERO;
                if is_ours {
                    let inside = |slot| solved.load(slot);
                    sum = first.add_to(sum, inside);
                    let mut entry = lane + AHEAD as u32 * LANES;
                    while entry < row.length {
                        let batch = Batch::<_, AHEAD>::load::<true>(&args, &tile, &row, entry, LANES);
                        sum = batch.add_to(sum, inside);
                        entry += AHEAD as u32 * LANES;
                    }
                }
                sum_of_group!(sum, LANES);
                if is_ours && lane == 0 {
                    row.finish(&args, sum, |value| {
                        T::publish(row.x, value);
                        solved.store(group, value);
                    });
                }
            }
            thread::sync_threads();
            now += 1;
        }
    }
}

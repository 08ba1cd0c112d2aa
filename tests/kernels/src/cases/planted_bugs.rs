//! The kernels of [`planted_bugs`](crate::planted_bugs), each launched so that its bug shows.

use super::{Before, Case, case};

/// A row for each kernel.
#[must_use]
pub fn planted_bugs() -> Vec<Case> {
    vec![
        case!(planted_bugs::off_by_one(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::unaligned_vector(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::missing_barrier(y: zeros(64))),
        case!(planted_bugs::uninitialised_shared(y: zeros(64))),
        may_hang(case!(planted_bugs::divergent_barrier(y: zeros(64)))),
        may_hang(case!(planted_bugs::barrier_against_warp(y: zeros(64)))),
        may_hang(case!(planted_bugs::wrong_mask(y: zeros(64)))),
        may_hang(case!(planted_bugs::caller_not_in_mask())),
        may_hang(case!(planted_bugs::divergent_vote(y: zeros(64)))),
        may_hang(case!(planted_bugs::exited_lane(y: zeros(64)))),
        case!(planted_bugs::stale_pointer(y: (Before::Freed(64), None))),
        on_blocks(2, case!(planted_bugs::cross_block_race(y: zeros(64)))),
        case!(planted_bugs::readonly_load_of_written(y: zeros(64))),
        case!(planted_bugs::plain_read_of_atomic(total: zeros(1), y: zeros(1))),
        on_blocks(4, case!(planted_bugs::missing_fence(partial: zeros(4), ticket: zeros(1), sum: zeros(1)))),
        may_hang(case!(planted_bugs::endless_wait(flag: zeros(1)))),
        case!(planted_bugs::local_index(y: zeros(64))),
        case!(planted_bugs::missing_wait(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::short_wait(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::wait_without_barrier(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::early_copy(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::copy_from_outside(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::copy_to_outside(x: zeros(64), y: zeros(64))),
        case!(planted_bugs::unaligned_copy(x: zeros(64), y: zeros(64))),
        cooperative(on_blocks(2, case!(planted_bugs::unordered_message(number: zeros(1), flag: zeros(1))))),
        on_blocks(4, case!(planted_bugs::unordered_ticket(parts: zeros(4), ticket: zeros(1), sum: zeros(1)))),
        case!(planted_bugs::repeated_array(y: zeros(64))),
        may_hang(case!(planted_bugs::divergent_product(y: zeros(128)))),
        may_hang(case!(planted_bugs::product_without_a_lane(y: zeros(128)))),
    ]
}

fn zeros(words: usize) -> (Before, Option<Vec<u32>>) {
    (Before::Words(vec![0; words]), None)
}

fn on_blocks(grid: u32, case: Case) -> Case {
    Case { grid, ..case }
}

fn cooperative(case: Case) -> Case {
    Case { cooperative: true, ..case }
}

fn may_hang(case: Case) -> Case {
    Case { may_hang: true, ..case }
}

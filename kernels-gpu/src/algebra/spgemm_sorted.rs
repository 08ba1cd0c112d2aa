//! Sparse products: rows of `C` whose products groups of lanes sort in registers. What the kernels for two matrices and for three share.
//!
//! A row of at most 8, 32, 64, 128 and 256 products has 8, 8, 8, 16 and 32 lanes with 1, 4, 8, 8 and 8 products each. One launch does all of them, those
//! with the most products first: small matrices have too few rows of each class to fill a GPU.

use cuda_std::{mem, shared::Shared, thread};

use crate::{args::args, lanes::Group, spgemm_common::SHORT_CLASSES, unroll::unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// Products of a block, at most.
pub(crate) const SLOTS: usize = 1024;

/// How many tasks of each class.
pub type Counts = [u32; SHORT_CLASSES as usize];

args! {
    /// Rows of `C` whose products are sorted in registers.
    ///
    /// # Safety
    /// A kernel that has them asks that they are those that `place` of `spgemm_rows` has placed, by classes, so many of each short class as `counts` says.
    pub struct Tasks {
        /// How many tasks of each class.
        value counts: Counts,
        /// All tasks.
        read tasks: u32 [4 * counts.iter().map(|&count| count as usize).sum::<usize>()],
    }
}

/// Lanes of a row of each class.
const LANES: Counts = [8, 8, 8, 16, 32];

/// Blocks for so many tasks of each class.
#[must_use]
pub const fn grid_size(counts: Counts) -> u64 {
    let (mut blocks, mut number) = (0, 0);
    while number < LANES.len() {
        blocks += counts[number].div_ceil(BLOCK_SIZE / LANES[number]) as u64;
        number += 1;
    }
    blocks
}

/// The class of this block's rows, and the block's number among those of the class. The last class comes first.
#[inline(always)]
pub(crate) fn class_of_block(counts: Counts) -> (u32, u32) {
    let mut block = thread::block_idx_x();
    unroll!(K in [4, 3, 2, 1] {
        let blocks = counts[K as usize].div_ceil(BLOCK_SIZE / LANES[K as usize]);
        if block < blocks {
            return (K, block);
        }
        block -= blocks;
    });
    (0, block)
}

impl Tasks {
    /// The row of this group of lanes, if there is one: class, number of the block in the class, lanes.
    ///
    /// # Safety
    /// The rules of this type.
    #[inline(always)]
    pub(crate) unsafe fn row(&self, class: u32, block: u32, lanes: u32) -> Option<u32> {
        let task = block * (BLOCK_SIZE / lanes) + thread::thread_idx_x() / lanes;
        if task >= self.counts[class as usize] {
            return None;
        }
        let mut at = task as usize;
        unroll!(K in [0, 1, 2, 3] {
            if K < class {
                at += self.counts[K as usize] as usize;
            }
        });
        // SAFETY: there is such a task.
        Some(unsafe { mem::load_readonly(self.tasks.add(4 * at)) })
    }
}

/// Sorts the keys of a group: afterwards they ascend from item to item, and from lane to lane. Batcher's bitonic sort, in the form in which the first
/// step of each merge compares mirror images, so that every comparison puts the lesser key first.
///
/// # Safety
/// The group is whole.
#[inline(always)]
pub(crate) unsafe fn sort<const LANES: u32, const ITEMS: usize>(group: Group<LANES>, keys: &mut [u32; ITEMS]) {
    unroll!(SIZE in [2, 4, 8] {
        if SIZE as usize <= ITEMS {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if K & (SIZE / 2) == 0 && (K as usize) < ITEMS {
                    order(keys, K as usize, (K ^ (SIZE - 1)) as usize);
                }
            });
            merge_items::<ITEMS>(keys, SIZE / 4);
        }
    });
    let mut run = 2;
    while run <= LANES {
        let is_low = group.lane & (run / 2) == 0;
        let mine = *keys;
        // SAFETY: the group is whole.
        unsafe {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if (K as usize) < ITEMS {
                    let other = group.get_xor(mine[ITEMS - 1 - K as usize], run - 1);
                    keys[K as usize] = if is_low { mine[K as usize].min(other) } else { mine[K as usize].max(other) };
                }
            });
            let mut distance = run / 4;
            while distance > 0 {
                let is_low = group.lane & distance == 0;
                unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if (K as usize) < ITEMS {
                        let other = group.get_xor(keys[K as usize], distance);
                        let mine = keys[K as usize];
                        keys[K as usize] = if is_low { mine.min(other) } else { mine.max(other) };
                    }
                });
                distance /= 2;
            }
        }
        merge_items::<ITEMS>(keys, ITEMS as u32 / 2);
        run *= 2;
    }
}

/// The steps of a merge within a lane, from this distance on.
#[inline(always)]
fn merge_items<const ITEMS: usize>(keys: &mut [u32; ITEMS], from: u32) {
    unroll!(DISTANCE in [4, 2, 1] {
        if DISTANCE <= from {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if K & DISTANCE == 0 && (K as usize) < ITEMS {
                    order(keys, K as usize, (K + DISTANCE) as usize);
                }
            });
        }
    });
}

#[inline(always)]
fn order<const ITEMS: usize>(keys: &mut [u32; ITEMS], first: usize, second: usize) {
    (keys[first], keys[second]) = (keys[first].min(keys[second]), keys[first].max(keys[second]));
}

/// Which of this lane's sorted keys are the first ones with their column, of `total` keys, a bit an item.
///
/// # Safety
/// The group is whole.
#[inline(always)]
pub(crate) unsafe fn firsts<const LANES: u32, const ITEMS: usize>(
    group: Group<LANES>,
    keys: &[u32; ITEMS],
    shift: u32,
    total: u32,
) -> u32 {
    let mut firsts = 0;
    // SAFETY: the group is whole.
    let of_lane_before = unsafe { group.get(keys[ITEMS - 1], group.lane.wrapping_sub(1) % LANES) };
    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
        if (K as usize) < ITEMS {
            let before = if K == 0 { of_lane_before } else { keys[K as usize - 1] };
            let sorted = group.lane * ITEMS as u32 + K;
            if sorted < total && (sorted == 0 || keys[K as usize] >> shift != before >> shift) {
                firsts |= 1 << K;
            }
        }
    });
    firsts
}

/// How many different columns a row's products have: `places` are the entries of the last matrix that they come from, `total` of them.
///
/// # Safety
/// The group is whole, the shared memory is its own, and the columns of these entries exist in global memory.
#[inline(always)]
pub(crate) unsafe fn count_columns<const LANES: u32, const ITEMS: usize>(
    group: Group<LANES>,
    columns_of_entries: *const u32,
    places: Shared<u32>,
    total: u32,
) -> u32 {
    let mut columns = [u32::MAX; ITEMS];
    // SAFETY: the caller's promises.
    unsafe {
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            let place = K * LANES + group.lane;
            if (K as usize) < ITEMS && place < total {
                columns[K as usize] = mem::load_readonly(columns_of_entries.add(places.load(place) as usize));
            }
        });
        sort::<LANES, ITEMS>(group, &mut columns);
        let firsts = firsts::<LANES, ITEMS>(group, &columns, 0, total);
        group.reduce(firsts.count_ones(), |a, b| a + b)
    }
}

/// Stores the sorted keys of a row, and where those of each column begin; returns how many columns there are. `places` may have held what this row's lanes have
/// loaded before.
///
/// # Safety
/// The group is whole, and the shared memory is its own.
#[inline(always)]
pub(crate) unsafe fn lay_out<const LANES: u32, const ITEMS: usize>(
    group: Group<LANES>,
    keys: &[u32; ITEMS],
    firsts: u32,
    places: Shared<u32>,
    starts: Shared<u32>,
) -> u32 {
    // SAFETY: a barrier stands between a store and another lane's load.
    unsafe {
        let before = group.sum_before(firsts.count_ones());
        let length = group.get(before + firsts.count_ones(), LANES - 1);
        // What has been loaded of the places is no longer needed by any lane.
        group.sync();
        unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
            if (K as usize) < ITEMS {
                let sorted = group.lane * ITEMS as u32 + K;
                places.store(sorted, keys[K as usize]);
                if firsts >> K & 1 == 1 {
                    starts.store(before + (firsts & ((1 << K) - 1)).count_ones(), sorted);
                }
            }
        });
        group.sync();
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spgemm_common::SHORT_LIMITS;

    #[test]
    fn classes_have_lanes_for_their_limits() {
        let items = [1, 4, 8, 8, 8];
        for number in 0..SHORT_CLASSES as usize {
            assert_eq!(LANES[number] * items[number], SHORT_LIMITS[number]);
            assert!((BLOCK_SIZE / LANES[number] * SHORT_LIMITS[number]) as usize <= SLOTS);
        }
        assert_eq!(grid_size([33, 17, 16, 9, 4]), 3 + 2 + 1 + 2 + 1);
    }
}

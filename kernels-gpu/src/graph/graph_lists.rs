//! The neighbours of vertices, and groups of lanes that walk them: what the kernels on graphs share.

use cuda_std::mem;

use crate::{Scalar, args::args, lanes::butterfly, unroll::unroll};

/// Threads per block. No other number has been tried.
pub const BLOCK_SIZE: u32 = 128;

args! {
    /// Lists of neighbours: of the rows of a matrix, whose neighbours are columns, or of its columns, whose neighbours are rows.
    ///
    /// # Safety
    /// A kernel that has one asks that
    /// 1. it describes live global memory, each array as long as its field says;
    /// 2. `offsets` starts at 0, never falls, and ends at `entries`;
    /// 3. `numbers` is null or holds each number below `entries` once.
    pub struct Lists {
        /// Lists.
        value lists: u32,
        /// Entries of all lists.
        value entries: u32,
        /// Where each list begins, and where the last one ends.
        read offsets: u32 [lists as usize + 1],
        /// The neighbour that each entry leads to.
        read neighbours: u32 [entries as usize],
        /// The number of each entry, by which its values are found, or null where that is its place.
        read numbers: u32 [null or entries as usize],
    }
}

/// Entries of a piece of a long list. No other number has been tried.
pub const PIECE: u32 = 64;

args! {
    /// The pieces of long lists, those of more than [`PIECE`] entries, so that no group of lanes walks more.
    ///
    /// # Safety
    /// A kernel that has them asks that they are those of its [`Lists`], in live global memory: the pieces of all long lists, from the first list
    /// to the last, and of each from its first entry to its last.
    pub struct Pieces {
        /// Pieces.
        value count: u32,
        /// Long lists.
        value long_lists: u32,
        /// The list of each piece.
        read lists: u32 [count as usize],
        /// The first entry of each piece.
        read begins: u32 [count as usize],
        /// The first piece of each long list.
        read firsts: u32 [long_lists as usize],
    }
}

impl Pieces {
    /// What the groups of a number have, where pieces come first and then lists: the piece if it is one, the list, its first entry there, and how many. None of a long
    /// list, and beyond the last.
    ///
    /// # Safety
    /// The rules of this type and of [`Lists`].
    #[inline(always)]
    pub(crate) unsafe fn part(&self, of: &Lists, number: u64) -> Option<(Option<u32>, u32, u32, u32)> {
        let count = u64::from(self.count);
        if number >= count + u64::from(of.lists) {
            return None;
        }
        // SAFETY: the piece exists, or the list.
        unsafe {
            if number < count {
                let list = mem::load_readonly(self.lists.add(number as usize));
                let begin = mem::load_readonly(self.begins.add(number as usize));
                let (first, length) = of.entries_of(list);
                return Some((Some(number as u32), list, begin, (length - (begin - first)).min(PIECE)));
            }
            let list = (number - count) as u32;
            let (begin, length) = of.entries_of(list);
            (length <= PIECE).then_some((None, list, begin, length))
        }
    }

    /// The list that is this long list, its first piece, and the piece after its last.
    ///
    /// # Safety
    /// The rules of this type, and there is such a long list.
    #[inline(always)]
    pub(crate) unsafe fn of_long_list(&self, long_list: u32) -> (u32, u32, u32) {
        // SAFETY: a long list has a first piece.
        unsafe {
            let first = mem::load_readonly(self.firsts.add(long_list as usize));
            let end = match long_list + 1 < self.long_lists {
                true => mem::load_readonly(self.firsts.add(long_list as usize + 1)),
                false => self.count,
            };
            (mem::load_readonly(self.lists.add(first as usize)), first, end)
        }
    }
}

impl Lists {
    /// The first entry of a list, and how many it has.
    ///
    /// # Safety
    /// The rules of this type, and `list` is a list.
    #[inline(always)]
    pub(crate) unsafe fn entries_of(&self, list: u32) -> (u32, u32) {
        // SAFETY: a list has two offsets.
        unsafe {
            let begin = mem::load_readonly(self.offsets.add(list as usize));
            (begin, mem::load_readonly(self.offsets.add(list as usize + 1)) - begin)
        }
    }

    /// The neighbour and the number of an entry.
    ///
    /// # Safety
    /// The rules of this type, and `entry` is an entry.
    #[inline(always)]
    pub(crate) unsafe fn entry(&self, entry: usize) -> (u32, u32) {
        // SAFETY: the entry exists.
        unsafe {
            let neighbour = mem::load_readonly(self.neighbours.add(entry));
            let number = match self.numbers.is_null() {
                true => entry as u32,
                false => mem::load_readonly(self.numbers.add(entry)),
            };
            (neighbour, number)
        }
    }
}

/// Blocks for so many groups of `lanes` lanes.
#[must_use]
pub const fn grid_size(groups: u64, lanes: u32) -> u64 {
    groups.div_ceil((BLOCK_SIZE / lanes) as u64)
}

/// Threads for so many columns of so many long lists.
#[must_use]
pub const fn threads(long_lists: u32, columns: u32) -> u64 {
    long_lists as u64 * columns as u64
}

/// Which of things that have so many parts, at least one, a number is of, and which part.
#[inline(always)]
pub(crate) fn part_of(number: u64, parts: u32) -> (u64, u32) {
    // So that the compiler knows that it is not 0, and leaves out a panic.
    let parts = u64::from(parts.max(1));
    (number / parts, (number % parts) as u32)
}

/// The place of an element in rows that are `stride` elements apart.
#[inline(always)]
pub(crate) fn place(row: u32, stride: u64, column: u32) -> usize {
    (u64::from(row) * stride + u64::from(column)) as usize
}

/// `VECTOR` elements from `at` on.
///
/// # Safety
/// What [`mem::load_readonly`] and its relatives for vectors ask for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load<T: Scalar, const VECTOR: usize>(at: *const T) -> [T; VECTOR] {
    let mut elements = [T::ZERO; VECTOR];
    // SAFETY: the caller's promise.
    unsafe {
        match VECTOR {
            4 => elements.copy_from_slice(&mem::load_readonly_v4(at)),
            2 => elements.copy_from_slice(&mem::load_readonly_v2(at)),
            _ => elements[0] = mem::load_readonly(at),
        }
    }
    elements
}

/// Stores `VECTOR` elements.
///
/// # Safety
/// What [`mem::store`] and its relatives for vectors ask for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn store<T: Scalar, const VECTOR: usize>(to: *mut T, new: [T; VECTOR]) {
    // SAFETY: the caller's promise.
    unsafe {
        match VECTOR {
            4 => mem::store_v4(to, [new[0], new[1 % VECTOR], new[2 % VECTOR], new[3 % VECTOR]]),
            2 => mem::store_v2(to, [new[0], new[1 % VECTOR]]),
            _ => mem::store(to, new[0]),
        }
    }
}

/// What a function makes of each element.
#[inline(always)]
pub(crate) fn each<T: Scalar, const VECTOR: usize>(mut elements: [T; VECTOR], of: impl Fn(T) -> T) -> [T; VECTOR] {
    unroll!(V in [0, 1, 2, 3] {
        if (V as usize) < VECTOR {
            elements[V as usize % VECTOR] = of(elements[V as usize % VECTOR]);
        }
    });
    elements
}

/// `sums += factor * elements`.
#[inline(always)]
pub(crate) fn add_scaled<T: Scalar, const VECTOR: usize>(sums: &mut [T; VECTOR], factor: T, elements: [T; VECTOR]) {
    unroll!(V in [0, 1, 2, 3] {
        if (V as usize) < VECTOR {
            let v = V as usize % VECTOR;
            sums[v] = factor.mul_add(elements[v], sums[v]);
        }
    });
}

/// `sum`, to which the products of `VECTOR` elements are added one after the other.
#[inline(always)]
pub(crate) fn add_dot<T: Scalar, const VECTOR: usize>(x: [T; VECTOR], y: [T; VECTOR], mut sum: T) -> T {
    unroll!(V in [0, 1, 2, 3] {
        if (V as usize) < VECTOR {
            let v = V as usize % VECTOR;
            sum = x[v].mul_add(y[v], sum);
        }
    });
    sum
}

/// The largest value in a group of `LANES` lanes; a NaN is passed over.
///
/// # Safety
/// As for [`butterfly`].
#[inline(always)]
pub(crate) unsafe fn max_over_lanes<T: Scalar, const LANES: u32>(mask: u32, mut value: T) -> T {
    // SAFETY: the caller's promise.
    unsafe { butterfly::<LANES>(mask, |partner| value = larger(value, partner.value(value))) };
    value
}

/// The larger of two values, where a NaN is passed over.
#[inline(always)]
pub(crate) fn larger<T: Scalar>(a: T, b: T) -> T {
    #[expect(clippy::eq_op, reason = "NaN alone differs from itself")]
    if b > a || a != a { b } else { a }
}

/// Negative infinity.
#[inline(always)]
pub(crate) fn negative_infinity<T: Scalar>() -> T {
    -(T::ONE / T::ZERO)
}

/// What is subtracted from numbers whose largest is `max` before their exponentials are taken: 0 if all are negative infinity.
#[inline(always)]
pub(crate) fn shift<T: Scalar>(max: T) -> T {
    if max == negative_infinity() { T::ZERO } else { max }
}

//! Sparse matrix times sparse matrix, `C = A * B`: what its kernels share.
//!
//! A row of `C` is the sum of rows of `B`, one for each entry of the row of `A` (Gustavson, "Two Fast Algorithms for Sparse Matrices", 1978). The
//! work on a row is done by one or more tasks. What a task is depends on the row's class.

use cuda_std::mem;

use crate::{Scalar, args::args};

/// How many classes of short rows there are.
pub const SHORT_CLASSES: u32 = 5;
/// The most products of a row of each class of short rows: those that a group of lanes keeps in registers.
pub const SHORT_LIMITS: [u32; SHORT_CLASSES as usize] = [8, 32, 64, 128, 256];
/// The most products of a row of class [`HASHED`](class::HASHED), and the entries of a segment.
pub const HASHED_LIMIT: u32 = 384;
/// The most products of a row of class [`WIDE`](class::WIDE).
pub const WIDE_LIMIT: u64 = 1 << 18;

/// The most entries of a row of [`SMALL`](length_class::SMALL).
pub const SMALL_LIMIT: u32 = 32;
/// The most entries of a row of [`MIDDLE`](length_class::MIDDLE).
pub const MIDDLE_LIMIT: u32 = 96;

/// Words of 32 columns that a task of class [`WIDE`](class::WIDE) covers.
pub const WIDE_WORDS: u32 = 4096;
/// Words of 32 columns that a task of class [`HEAVY`](class::HEAVY) covers: fewer, so that more blocks share the row.
pub const HEAVY_WORDS: u32 = 128;

/// The classes of rows, by their products.
pub mod class {
    /// Without products: no task.
    pub const EMPTY: u32 = 0;
    /// From here on, the classes of short rows.
    pub const SHORT: u32 = 1;
    /// A warp and a hash table: rows whose columns are far apart.
    pub const HASHED: u32 = SHORT + super::SHORT_CLASSES;
    /// A block and a bitmap of many columns.
    pub const WIDE: u32 = HASHED + 1;
    /// Blocks with bitmaps of few columns each.
    pub const HEAVY: u32 = HASHED + 2;
}
/// How many classes there are.
pub const CLASSES: u32 = class::HEAVY + 1;

/// The classes of long rows by their entries, for the values.
pub mod length_class {
    /// No task.
    pub const EMPTY: u32 = 0;
    /// 8 lanes, a table of 64.
    pub const SMALL: u32 = 1;
    /// 16 lanes, a table of 128.
    pub const MIDDLE: u32 = 2;
    /// A warp for each segment of the row, a table of 512.
    pub const LARGE: u32 = 3;
}

/// The class of short rows for so many products, if there is one. A group of lanes sorts its columns together with the numbers of the products, in 32 bits.
#[inline(always)]
#[must_use]
pub const fn short_class(products: u64, cols: u32) -> Option<u32> {
    let mut number = 0;
    while number < SHORT_CLASSES {
        let limit = if number == 0 { 8 } else { 16 << number };
        if products <= limit as u64 {
            let fits = cols <= u32::MAX / limit + 1;
            return if fits { Some(class::SHORT + number) } else { None };
        }
        number += 1;
    }
    None
}

/// Where each of the counters stands.
pub mod counter {
    /// Before these, the tasks of each class. Words of room that all tasks together ask for.
    pub const ROOM: u32 = super::CLASSES;
    /// Products.
    pub const PRODUCTS: u32 = ROOM + 1;
    /// A number of entries that `C` has at least: for each row the longest of its rows of `B`.
    pub const LEAST_ENTRIES: u32 = ROOM + 2;
    /// Rows of more products than short rows have.
    pub const LONG_ROWS: u32 = ROOM + 3;
    /// From here on, while tasks are placed: how many of each class have been, and how much room has been given.
    pub const PLACED: u32 = ROOM + 4;
}
/// How many counters there are.
pub const COUNTERS: u32 = counter::PLACED + CLASSES + 1;

/// No column: matrices have at most `u32::MAX` columns.
pub(crate) const NO_COLUMN: u32 = u32::MAX;

args! {
    /// The patterns of `A` and `B`: a part of the arguments of every kernel that multiplies.
    ///
    /// # Safety
    /// A kernel that has one asks that both are valid CSR matrices in live global memory which nothing writes during the launch, that the
    /// columns of `A` are rows of `B`, and that the columns of each row of `B` ascend strictly.
    pub struct Patterns {
        /// Rows of `A`.
        value rows: u32,
        /// Rows of `B`.
        value rows_b: u32,
        /// Columns of `B`.
        value cols: u32,
        /// Entries of `A`.
        value entries_a: u32,
        /// Entries of `B`.
        value entries_b: u32,
        /// `rows + 1` offsets.
        read offsets_a: u32 [rows as usize + 1],
        /// `entries_a` columns.
        read columns_a: u32 [entries_a as usize],
        /// `rows_b + 1` offsets.
        read offsets_b: u32 [rows_b as usize + 1],
        /// `entries_b` columns.
        read columns_b: u32 [entries_b as usize],
    }
}

args! {
    /// Where the rows of `C` begin: one array, or none.
    ///
    /// # Safety
    /// A kernel that has one asks that the array that is not null has `rows + 1` offsets of a valid CSR matrix.
    pub struct Offsets {
        /// Offsets of 32 bits, or null.
        read narrow: u32,
        /// Offsets of 64 bits, or null.
        read wide: u64,
    }
}

impl Offsets {
    /// Whether there are any.
    #[inline(always)]
    pub(crate) fn exist(&self) -> bool {
        !(self.narrow.is_null() && self.wide.is_null())
    }

    /// Where row `row` begins; for the number of rows, where the last one ends.
    ///
    /// # Safety
    /// The rules of this type; there is such a row.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, row: u32) -> u64 {
        // SAFETY: the array that is not null has as many.
        unsafe {
            match self.wide.is_null() {
                true => u64::from(mem::load_readonly(self.narrow.add(row as usize))),
                false => mem::load_readonly(self.wide.add(row as usize)),
            }
        }
    }
}

impl Patterns {
    /// The first entry of a row of `A`, and the one after its last.
    ///
    /// # Safety
    /// The rules of this type; there is such a row.
    #[inline(always)]
    pub(crate) unsafe fn row_of_a(&self, row: u32) -> (u32, u32) {
        // SAFETY: a row has two offsets.
        unsafe {
            let offset = self.offsets_a.add(row as usize);
            (mem::load_readonly(offset), mem::load_readonly(offset.add(1)))
        }
    }

    /// The first entry of the row of `B` that an entry of `A` asks for, and the one after its last. Of no entry, from `end` on: 0 and 0.
    ///
    /// # Safety
    /// The rules of this type; entries before `end` exist.
    #[inline(always)]
    pub(crate) unsafe fn row_of_b(&self, entry: u64, end: u32) -> (u32, u32) {
        if entry >= u64::from(end) {
            return (0, 0);
        }
        // SAFETY: the entry exists, and its column is a row of B.
        unsafe {
            let row = mem::load_readonly(self.columns_a.add(entry as usize));
            let offset = self.offsets_b.add(row as usize);
            (mem::load_readonly(offset), mem::load_readonly(offset.add(1)))
        }
    }

    /// The first of the entries `low..high` of `B`, in one row, whose column is not before `column`; `high` if there is none.
    ///
    /// # Safety
    /// The rules of this type; the entries exist.
    #[inline(always)]
    pub(crate) unsafe fn search(&self, mut low: u32, mut high: u32, column: u32) -> u32 {
        while low < high {
            let middle = low + (high - low) / 2;
            // SAFETY: low <= middle < high.
            if unsafe { mem::load_readonly(self.columns_b.add(middle as usize)) } < column {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The first slot to look at for a column, in a table of `slots`, a power of two of at least 2: Knuth's multiplicative hashing.
#[inline(always)]
pub(crate) fn hash(column: u32, slots: u32) -> u32 {
    column.wrapping_mul(0x9E37_79B1) >> (slots.leading_zeros() + 1)
}

/// What stands for the sum and the product.
pub mod semiring {
    /// The sum of products.
    pub const PLUS_TIMES: u32 = 0;
    /// The least of sums.
    pub const MIN_PLUS: u32 = 1;
    /// The greatest of products.
    pub const MAX_TIMES: u32 = 2;
    /// 1 if any product is not 0, otherwise 0.
    pub const OR_AND: u32 = 3;
    /// 1 if there is any product, otherwise 0. Values are not read, and may be null.
    pub const ANY: u32 = 4;
}

/// What every sum begins with. The host adds up by the same functions.
#[inline(always)]
#[must_use]
pub fn zero<T: Scalar>(semiring: u32) -> T {
    match semiring {
        semiring::MIN_PLUS => T::narrow(f64::INFINITY),
        semiring::MAX_TIMES => T::narrow(f64::NEG_INFINITY),
        _ => T::ZERO,
    }
}

/// The product of two values.
#[inline(always)]
#[must_use]
pub fn product<T: Scalar>(semiring: u32, a: T, b: T) -> T {
    match semiring {
        semiring::PLUS_TIMES | semiring::MAX_TIMES => a * b,
        semiring::MIN_PLUS => a + b,
        semiring::OR_AND if a == T::ZERO || b == T::ZERO => T::ZERO,
        _ => T::ONE,
    }
}

/// The sum with a product. A NaN is neither less nor greater than any number: minimum and maximum leave it out.
#[inline(always)]
#[must_use]
pub fn add<T: Scalar>(semiring: u32, sum: T, product: T) -> T {
    let is_other = match semiring {
        semiring::PLUS_TIMES => return sum + product,
        semiring::MIN_PLUS => product < sum,
        semiring::MAX_TIMES => product > sum,
        _ => product != T::ZERO,
    };
    if is_other { product } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_classes_have_room() {
        for (number, &limit) in (0..).zip(&SHORT_LIMITS) {
            assert_eq!(short_class(limit.into(), 1000), Some(class::SHORT + number));
            assert_ne!(short_class(u64::from(limit) + 1, 1000), Some(class::SHORT + number));
        }
        assert_eq!(short_class(257, 1000), None);
        // The last column and the last product together are the largest number of 32 bits.
        assert_eq!((short_class(129, 1 << 24), short_class(129, (1 << 24) + 1)), (Some(class::SHORT + 4), None));
    }

    #[test]
    fn slots_are_within_the_table() {
        for slots in [4, 64, 512] {
            let used: Vec<_> = (0..10_000).map(|column| hash(column, slots)).collect();
            assert_eq!((used.iter().min(), used.iter().max()), (Some(&0), Some(&(slots - 1))));
        }
    }
}

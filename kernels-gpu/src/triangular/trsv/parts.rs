//! What solves are made of: a tile, a row, some of its entries, and elements that carry their own flag.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{
    atomic::{atomic_load_f32_device, atomic_load_f64_device, atomic_store_f32_device, atomic_store_f64_device},
    mem,
};

use super::{AFTER, Args, UNIT};
use crate::{Scalar, unroll::unroll};

/// An element that carries its own flag.
pub(super) trait Flagged: Scalar {
    /// The NaN of ones only. The NaNs of a GPU's operations have other bits.
    const MISSING: Self;

    fn is_missing(self) -> bool;

    /// # Safety
    /// Global memory that is accessed by atomics alone.
    unsafe fn look(at: *const Self) -> Self;

    /// # Safety
    /// As for [`look`](Self::look).
    unsafe fn publish(at: *mut Self, value: Self);
}

macro_rules! flagged {
    ($($T:ident $Bits:ident $load:ident $store:ident;)*) => {$(
        impl Flagged for $T {
            const MISSING: Self = $T::from_bits($Bits::MAX);

            #[inline(always)]
            fn is_missing(self) -> bool {
                self.to_bits() == $Bits::MAX
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn look(at: *const Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $load(at, Relaxed) }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn publish(at: *mut Self, value: Self) {
                // A NaN that came with the input.
                let value = if value.is_missing() { $T::NAN } else { value };
                // SAFETY: the caller's promise.
                unsafe { $store(at, Relaxed, value) }
            }
        }
    )*};
}
flagged! {
    f32 u32 atomic_load_f32_device atomic_store_f32_device;
    f64 u64 atomic_load_f64_device atomic_store_f64_device;
}

/// A tile and a right-hand side.
pub(super) struct Tile<T> {
    number: usize,
    /// The places of its rows.
    pub(super) begin: u32,
    pub(super) end: u32,
    b: *const T,
    x: *mut T,
}

impl<T: Flagged> Tile<T> {
    /// The one of a block.
    ///
    /// # Safety
    /// The rules of the family, for a number that the counter has given.
    #[inline(always)]
    pub(super) unsafe fn of(args: &Args<T>, number: u32) -> Self {
        let (number, column) = ((number / args.columns) as usize, u64::from(number % args.columns));
        // SAFETY: there are so many tiles and right-hand sides.
        unsafe {
            Self {
                number,
                begin: mem::load_readonly(args.tiles_of_rows.add(number)),
                end: mem::load_readonly(args.tiles_of_rows.add(number + 1)),
                b: args.b.wrapping_add((column * args.b_column) as usize),
                x: args.x.wrapping_add((column * args.x_column) as usize),
            }
        }
    }

    /// Waits until a row of the tile that is `reach` before this one is there. For one thread of the block.
    ///
    /// # Safety
    /// The rules of the family.
    #[inline(always)]
    pub(super) unsafe fn wait(&self, args: &Args<T>) {
        if self.number >= args.reach as usize && self.begin < self.end {
            // SAFETY: an earlier tile, which has rows like this one, and a block that has begun.
            unsafe {
                let first = mem::load_readonly(args.tiles_of_rows.add(self.number - args.reach as usize));
                let row = u64::from(mem::load_readonly(args.order.add(first as usize)));
                while T::look(self.x.add((row * args.x_row) as usize)).is_missing() {}
            }
        }
    }
}

/// A row and what its solution needs besides other elements.
pub(super) struct Row<T> {
    pub(super) exists: bool,
    /// Its entries without the diagonal.
    begin: u32,
    pub(super) length: u32,
    /// Its element of `x`.
    pub(super) x: *mut T,
    /// Its element of `b`, and the one on the diagonal.
    right: T,
    divisor: T,
}

impl<T: Flagged> Row<T> {
    /// The one in a place, if it is in the tile. Only who `finishes` needs the elements.
    ///
    /// # Safety
    /// The rules of the family.
    #[inline(always)]
    pub(super) unsafe fn of(args: &Args<T>, tile: &Tile<T>, place: u32, finishes: bool) -> Self {
        let exists = place < tile.end;
        let mut row = Self { exists, begin: 0, length: 0, x: tile.x, right: T::ZERO, divisor: T::ONE };
        if exists {
            // SAFETY: a row, and its entries.
            unsafe {
                let number = u64::from(mem::load_readonly(args.order.add(place as usize)));
                let span = mem::load_readonly(args.spans.add(place as usize));
                (row.begin, row.length) = ((span >> 32) as u32, span as u32);
                row.x = tile.x.add((number * args.x_row) as usize);
                if finishes {
                    row.right = mem::load_readonly(tile.b.add((number * args.b_row) as usize));
                    if args.diagonal != UNIT {
                        let at = if args.diagonal == AFTER { row.begin + row.length } else { row.begin - 1 };
                        row.divisor = mem::load_readonly(args.values.add(at as usize));
                    }
                }
            }
        }
        row
    }

    /// Hands over the solution.
    #[inline(always)]
    pub(super) fn finish(&self, args: &Args<T>, sum: T, finish: impl Fn(T)) {
        let rest = self.right - sum;
        // Not a choice of values, for which a GPU would divide in either case.
        match args.diagonal {
            UNIT => finish(rest),
            _ => finish(rest / self.divisor),
        }
    }
}

/// `AHEAD` entries of a row, up to 8, that a lane takes at a time.
pub(super) struct Batch<T, const AHEAD: usize> {
    values: [T; AHEAD],
    /// Elements of `x`.
    found: [T; AHEAD],
    /// Where they are in the same tile, or [`ELSEWHERE`], or [`NOWHERE`] for entries that there are not.
    slots: [u32; AHEAD],
}

/// A slot of what is not in the tile.
const ELSEWHERE: u32 = u32::MAX;
/// A slot of nothing.
const NOWHERE: u32 = u32::MAX - 1;

/// For each index of a batch.
macro_rules! each {
    ($K:ident => $body:block) => {
        unroll!($K in [0, 1, 2, 3, 4, 5, 6, 7] {
            if ($K as usize) < AHEAD $body
        })
    };
}

impl<T: Flagged, const AHEAD: usize> Batch<T, AHEAD> {
    /// The entries from `entry` on, every `stride`th, with their elements of `x` from other tiles, for which it waits.
    ///
    /// # Safety
    /// The rules of the family; if not `NARROW`, all elements are from other tiles.
    #[inline(always)]
    pub(super) unsafe fn load<const NARROW: bool>(
        args: &Args<T>,
        tile: &Tile<T>,
        row: &Row<T>,
        entry: u32,
        stride: u32,
    ) -> Self {
        const { assert!(AHEAD <= 8) }
        let mut batch = Self { values: [T::ZERO; AHEAD], found: [T::ZERO; AHEAD], slots: [NOWHERE; AHEAD] };
        let mut at = [tile.x.cast_const(); AHEAD];
        // SAFETY: entries of the row, and elements that earlier tiles publish.
        unsafe {
            each!(K => {
                let own = entry + K * stride;
                if own < row.length {
                    let own = (row.begin + own) as usize;
                    let other = mem::load_readonly(args.col_indices.add(own));
                    batch.values[K as usize] = mem::load_readonly(args.values.add(own));
                    at[K as usize] = tile.x.add((u64::from(other) * args.x_row) as usize);
                    batch.slots[K as usize] = ELSEWHERE;
                    if NARROW {
                        let place = mem::load_readonly(args.places.add(other as usize));
                        if place >= tile.begin {
                            batch.slots[K as usize] = place - tile.begin;
                        }
                    }
                }
            });
            each!(K => {
                if batch.slots[K as usize] == ELSEWHERE {
                    batch.found[K as usize] = T::look(at[K as usize]);
                }
            });
            while batch.misses() {
                each!(K => {
                    if batch.found[K as usize].is_missing() {
                        batch.found[K as usize] = T::look(at[K as usize]);
                    }
                });
            }
        }
        batch
    }

    /// Whether an element is not there yet.
    #[inline(always)]
    fn misses(&self) -> bool {
        let mut misses = false;
        each!(K => {
            misses |= self.found[K as usize].is_missing();
        });
        misses
    }

    /// Adds the products, in the order of the entries. `inside` gives an element of the same tile.
    #[inline(always)]
    pub(super) fn add_to(&self, mut sum: T, inside: impl Fn(u32) -> T) -> T {
        each!(K => {
            let slot = self.slots[K as usize];
            if slot != NOWHERE {
                let x = if slot == ELSEWHERE { self.found[K as usize] } else { inside(slot) };
                sum = self.values[K as usize].mul_add(x, sum);
            }
        });
        sum
    }
}

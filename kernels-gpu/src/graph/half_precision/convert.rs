//! Matrices from `f32` and to `f32`: a thread has a vector.

use cuda_std::mem;

use super::{
    BLOCK_SIZE, Half, VECTOR,
    format::{narrow_all, widen},
};
use crate::{
    args::args,
    graph_lists::part_of,
    grid::thread_index,
    vector::chunk::{are_aligned, load, store},
};

args! {
    /// The arguments of rounding, passed by value.
    pub struct FromF32Args {
        /// Rows.
        value rows: u64,
        /// Columns of `x`, at least 1 and less than 2^31.
        value cols: u32,
        /// From one row of `x` to the next.
        value x_stride: u64,
        /// `cols` elements for each row.
        read x: f32,
        /// The same, rounded, and zeros that fill up the rows.
        write y: u32 [4 * rows as usize * cols.div_ceil(VECTOR as u32) as usize],
    }
}

args! {
    /// The arguments of widening, passed by value.
    pub struct ToF32Args {
        /// Rows.
        value rows: u64,
        /// Columns of `y`, at least 1 and less than 2^31.
        value cols: u32,
        /// From one row of `y` to the next.
        value y_stride: u64,
        /// Rows of vectors.
        read x: u32 [4 * rows as usize * cols.div_ceil(VECTOR as u32) as usize],
        /// `cols` elements for each row.
        write y: f32,
    }
}

/// The row and the vector of this thread.
#[inline(always)]
fn part(cols: u32) -> (u64, u32) {
    part_of(thread_index::<BLOCK_SIZE>(), cols.div_ceil(VECTOR as u32))
}

/// The body of rounding.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn from_f32<H: Half>(args: FromF32Args) {
    let (row, vector) = part(args.cols);
    if row >= args.rows {
        return;
    }
    let (first, cols) = (u64::from(vector) * VECTOR as u64, u64::from(args.cols));
    // SAFETY: the row exists, and of it what is read.
    unsafe {
        let x = args.x.add((row * args.x_stride) as usize);
        let one = |column: u64| load::<f32, 1>(x, first + column, cols)[0];
        let elements = if are_aligned([x as usize]) {
            let ([a, b, c, d], [e, f, g, h]) = (load(x, first, cols), load(x, first + 4, cols));
            [a, b, c, d, e, f, g, h]
        } else {
            [one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7)]
        };
        mem::store_v4(args.y.add(place(row, args.cols, vector)), narrow_all::<H>(elements));
    }
}

/// The body of widening.
///
/// # Safety
/// The rules at the head of the family.
#[inline(always)]
pub(super) unsafe fn to_f32<H: Half>(args: ToF32Args) {
    let (row, vector) = part(args.cols);
    if row >= args.rows {
        return;
    }
    let (first, cols) = (u64::from(vector) * VECTOR as u64, u64::from(args.cols));
    // SAFETY: the row exists, and of it what is written, which no other thread has.
    unsafe {
        let [a, b, c, d] = mem::load_readonly_v4(args.x.add(place(row, args.cols, vector))).map(widen::<H>);
        let y = args.y.add((row * args.y_stride) as usize);
        if are_aligned([y as usize]) {
            store(y, first, cols, [a[0], a[1], b[0], b[1]]);
            store(y, first + 4, cols, [c[0], c[1], d[0], d[1]]);
        } else {
            let one = |column: u64, element: f32| store(y, first + column, cols, [element]);
            one(0, a[0]);
            one(1, a[1]);
            one(2, b[0]);
            one(3, b[1]);
            one(4, c[0]);
            one(5, c[1]);
            one(6, d[0]);
            one(7, d[1]);
        }
    }
}

/// The first word of a vector.
#[inline(always)]
fn place(row: u64, cols: u32, vector: u32) -> usize {
    4 * (row * u64::from(cols.div_ceil(VECTOR as u32)) + u64::from(vector)) as usize
}

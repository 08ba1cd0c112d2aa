//! Cross entropy of the softmax of each row, its gradient, and which rows have their largest element at the label.
//!
//! # The mathematics
//! For a row `z` with label `c`, where `p[j] = e^z[j] / (e^z[0] + e^z[1] + ...)`:
//! ```text
//! loss      -ln p[c]
//! gradient  scale * (p[j] - (j == c ? 1 : 0))
//! hit       1 if z[c] is the first of the largest elements, otherwise 0
//! ```
//! All are 0 for a row without a label, whose elements are not read. The largest element is subtracted before the exponential function, so nothing
//! overflows. Exponentials are summed in `f64`.
//!
//! # Rows and lanes
//! ```text
//! row i      lane  0 1 2 3 4 5 6 7  0 1 2 ...      8 lanes a row, 32 rows a block
//! ```
//! The lanes' results meet in three shuffles, in a fixed order.
//!
//! # Bytes moved
//! Rows with labels once if they stay in the L1 cache, the labels, and `rows * sizeof T` of results; for gradients `rows * classes * sizeof T`.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. The elements of the gradient are at different places.
//! 2. Nothing else accesses what is written during the launch, and nothing writes what is read.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{mem, thread};

use crate::{
    DType, Scalar,
    args::args,
    family::family,
    grid::group_index,
    lanes::{butterfly, sum_over_lanes},
    math::Math,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Lanes of a row: so many elements of `f32` are a sector of 32 bytes.
const LANES: u32 = 8;

/// The label of a row that has none.
pub const NO_LABEL: u32 = u32::MAX;

args! {
    /// A matrix with labels.
    pub struct Logits<T> {
        /// Rows, at least 1.
        value rows: u64,
        /// Elements of a row, at least 1 and less than [`NO_LABEL`].
        value classes: u32,
        /// From one row to the next, in elements.
        value row_distance: u64,
        /// From one element of a row to the next, in elements.
        value class_distance: u64,
        /// The elements.
        read z: T [(rows as usize - 1) * row_distance as usize + (classes as usize - 1) * class_distance as usize + 1],
        /// For each row less than `classes`, or [`NO_LABEL`].
        read labels: u32 [rows as usize],
    }
}

args! {
    /// The arguments of the entries for a number a row, passed by value.
    pub struct RowArgs<T> {
        /// A number for each row.
        write of_rows: T [logits.rows as usize],
        /// The matrix.
        part logits: Logits<T, A>,
    }
}

args! {
    /// The arguments of the entries for the gradient, passed by value.
    pub struct GradientArgs<T> {
        /// The factor of the gradient.
        value scale: f64,
        /// From one row of the gradient to the next, in elements.
        value row_distance: u64,
        /// From one element of a row to the next, in elements.
        value class_distance: u64,
        /// The gradient.
        write gradient: T [(logits.rows as usize - 1) * row_distance as usize + (logits.classes as usize - 1) * class_distance as usize + 1],
        /// The matrix.
        part logits: Logits<T, A>,
    }
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The loss of each row, with [`RowArgs`].
    Loss,
    /// The gradient, with [`GradientArgs`].
    Gradient,
    /// Whether each row is a hit, with [`RowArgs`].
    Hit,
}

family! {
    "cross_entropy", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// What is computed.
        of: Of,
        /// The type of the elements.
        dtype: DType,
    }

    cross_entropy_loss_f32(Of::Loss, DType::F32): RowArgs<f32> => loss::<f32>;
    cross_entropy_loss_f64(Of::Loss, DType::F64): RowArgs<f64> => loss::<f64>;
    cross_entropy_gradient_f32(Of::Gradient, DType::F32): GradientArgs<f32> => gradient::<f32>;
    cross_entropy_gradient_f64(Of::Gradient, DType::F64): GradientArgs<f64> => gradient::<f64>;
    cross_entropy_hit_f32(Of::Hit, DType::F32): RowArgs<f32> => hit::<f32>;
    cross_entropy_hit_f64(Of::Hit, DType::F64): RowArgs<f64> => hit::<f64>;
}

/// Blocks for so many rows.
#[must_use]
pub const fn grid_size(rows: u64) -> u64 {
    rows.div_ceil((BLOCK_SIZE / LANES) as u64)
}

/// The row of this lane's group. Lanes beyond the last row stay for the shuffles of their warp, like those of rows without a label.
struct Row<T: Scalar> {
    logits: Logits<T>,
    index: u64,
    lane: u32,
    label: u32,
}

impl<T: Math> Row<T> {
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn new(logits: Logits<T>) -> Self {
        let index = group_index::<BLOCK_SIZE>(LANES);
        let mut label = NO_LABEL;
        if index < logits.rows {
            // SAFETY: the row exists.
            label = unsafe { mem::load(logits.labels.add(index as usize)) };
        }
        Self { logits, index, lane: thread::thread_idx_x() % LANES, label }
    }

    #[inline(always)]
    fn has_label(&self) -> bool {
        self.label != NO_LABEL
    }

    /// An element of the row.
    ///
    /// # Safety
    /// The row exists, and `class` is one of its elements.
    #[inline(always)]
    unsafe fn load(&self, class: u32) -> T {
        let Logits { row_distance, class_distance, z, .. } = self.logits;
        // SAFETY: the caller's promise.
        unsafe { mem::load(z.add((self.index * row_distance + u64::from(class) * class_distance) as usize)) }
    }

    /// Calls `work` with this lane's elements and their numbers, if the row has a label.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn for_each(&self, mut work: impl FnMut(u32, T)) {
        let mut class = u64::from(self.lane);
        while self.has_label() && class < u64::from(self.logits.classes) {
            // SAFETY: the row exists, and class is less than its elements.
            work(class as u32, unsafe { self.load(class as u32) });
            class += u64::from(LANES);
        }
    }

    /// The largest element, and the sum of the exponentials of all less the largest.
    ///
    /// # Safety
    /// The rules at the head of this module; all lanes of the warp call it.
    #[inline(always)]
    unsafe fn softmax(&self) -> (T, f64) {
        let mut largest = T::narrow(f64::NEG_INFINITY);
        let mut sum = 0.0;
        // SAFETY: the caller's promise.
        unsafe {
            self.for_each(|_, z| largest = if z > largest { z } else { largest });
            butterfly::<LANES>(u32::MAX, |partner| {
                let other = partner.value(largest);
                largest = if other > largest { other } else { largest };
            });
            self.for_each(|_, z| sum += (z - largest).exp().widen());
            (largest, sum_over_lanes::<f64, LANES>(u32::MAX, sum))
        }
    }

    /// Stores a number for the row.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn store(&self, of_rows: *mut T, number: T) {
        if self.index < self.logits.rows && self.lane == 0 {
            // SAFETY: the row exists, and no other thread has its first lane.
            unsafe { mem::store(of_rows.add(self.index as usize), number) }
        }
    }
}

/// The body of the entries `_loss`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn loss<T: Math>(args: RowArgs<T>) {
    // SAFETY: whole warps are here; a label is the number of an element.
    unsafe {
        let row = Row::new(args.logits);
        let (largest, sum) = row.softmax();
        let mut loss = T::ZERO;
        if row.has_label() {
            loss = T::narrow(sum.ln() - (row.load(row.label).widen() - largest.widen()));
        }
        row.store(args.of_rows, loss);
    }
}

/// The body of the entries `_gradient`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn gradient<T: Math>(args: GradientArgs<T>) {
    let GradientArgs { logits, scale, row_distance, class_distance, gradient } = args;
    // SAFETY: whole warps are here. The row exists where it is written, and no other lane has this one's elements.
    unsafe {
        let row = Row::new(logits);
        let (largest, sum) = row.softmax();
        let mut class = u64::from(row.lane);
        while row.index < logits.rows && class < u64::from(logits.classes) {
            let mut derivative = 0.0;
            if row.has_label() {
                let p = (row.load(class as u32) - largest).exp().widen() / sum;
                derivative = scale * (if class == u64::from(row.label) { p - 1.0 } else { p });
            }
            mem::store(
                gradient.add((row.index * row_distance + class * class_distance) as usize),
                T::narrow(derivative),
            );
            class += u64::from(LANES);
        }
    }
}

/// The body of the entries `_hit`.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn hit<T: Math>(args: RowArgs<T>) {
    // SAFETY: whole warps are here.
    unsafe {
        let row = Row::new(args.logits);
        let mut best = (T::narrow(f64::NEG_INFINITY), u32::MAX);
        row.for_each(|class, z| best = better(best, (z, class)));
        butterfly::<LANES>(u32::MAX, |partner| best = better(best, (partner.value(best.0), partner.value(best.1))));
        row.store(args.of_rows, if row.has_label() && best.1 == row.label { T::ONE } else { T::ZERO });
    }
}

/// The larger of two elements with their numbers, the first of equal ones. A NaN is larger than any number.
#[inline(always)]
#[expect(clippy::eq_op, reason = "only a NaN is not itself")]
fn better<T: Scalar>(a: (T, u32), b: (T, u32)) -> (T, u32) {
    let (is_nan, other_is_nan) = (a.0 != a.0, b.0 != b.0);
    let is_tie = a.0 == b.0 || is_nan && other_is_nan;
    let other_is_better = if is_tie { b.1 < a.1 } else { !is_nan && (other_is_nan || b.0 > a.0) };
    if other_is_better { b } else { a }
}

//! The softmax of the entries of each row, and its gradient.
//!
//! # The mathematics
//! Forward, over the entries `k` of each row and for each head: `y[k] = exp(x[k] - m) / sum(exp(x[l] - m))`, where `m` is the largest `x[l]` of the row, so
//! that nothing overflows. Backward, from `y` and the gradient `dy`: `dx[k] = y[k] * (dy[k] - sum(y[l] * dy[l]))`.
//!
//! A row that holds a NaN, positive infinity, or nothing but negative infinity, becomes NaN.
//!
//! # Threads
//! A group of lanes has a row and a head, and walks the row's entries: three times forward, twice backward, from the second time on through the
//! caches. Lane `l` takes the entries `l`, `l + LANES` and so on, and the lanes' sums are added in a tree. Long rows are not divided.
//!
//! # Bytes moved
//! `2 * nnz * heads * sizeof T` forward, `3 * nnz * heads * sizeof T` backward.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says: `offsets` starts at 0 and never falls, and matrices have `heads`
//!    elements for each entry, in rows as far apart as the strides say.
//! 2. What is written overlaps no other array, and nothing else writes any of the arrays meanwhile.
//! 3. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks for `rows * heads` groups.

use cuda_std::{mem, thread, warp};

pub use crate::graph_lists::{BLOCK_SIZE, grid_size};
use crate::{
    DType, Scalar,
    args::args,
    family::family,
    graph_lists::{larger, max_over_lanes, negative_infinity, part_of, place, shift},
    grid::group_index,
    lanes::{group_mask, sum_over_lanes},
    math::Math,
};

args! {
    /// The arguments of the entries that go forward, passed by value.
    pub struct Args<T> {
        /// Rows.
        value rows: u32,
        /// Heads, at least 1.
        value heads: u32,
        /// From one row of `x` to the next.
        value x_stride: u64,
        /// From one row of `y` to the next.
        value y_stride: u64,
        /// The first entry of each row, and the end of the last.
        read offsets: u32 [rows as usize + 1],
        /// `heads` scores for each entry.
        read x: T,
        /// `heads` probabilities for each entry.
        write y: T,
    }
}

args! {
    /// The arguments of the entries that go backward, passed by value.
    pub struct BackwardArgs<T> {
        /// Rows.
        value rows: u32,
        /// Heads, at least 1.
        value heads: u32,
        /// From one row of `y` to the next.
        value y_stride: u64,
        /// From one row of `dy` to the next.
        value dy_stride: u64,
        /// From one row of `dx` to the next.
        value dx_stride: u64,
        /// The first entry of each row, and the end of the last.
        read offsets: u32 [rows as usize + 1],
        /// `heads` probabilities for each entry.
        read y: T,
        /// Their gradients.
        read dy: T,
        /// The gradients of the scores.
        write dx: T,
    }
}

family! {
    "edge_softmax", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Whether it computes the gradient.
        backward: bool,
        /// Lanes of a group.
        lanes: u32,
    }

    edge_softmax_f32_t8(DType::F32, false, 8): Args<f32> => softmax::<f32, 8>;
    edge_softmax_f32_t32(DType::F32, false, 32): Args<f32> => softmax::<f32, 32>;
    edge_softmax_f64_t8(DType::F64, false, 8): Args<f64> => softmax::<f64, 8>;
    edge_softmax_f64_t32(DType::F64, false, 32): Args<f64> => softmax::<f64, 32>;
    edge_softmax_backward_f32_t8(DType::F32, true, 8): BackwardArgs<f32> => backward::<f32, 8>;
    edge_softmax_backward_f32_t32(DType::F32, true, 32): BackwardArgs<f32> => backward::<f32, 32>;
    edge_softmax_backward_f64_t8(DType::F64, true, 8): BackwardArgs<f64> => backward::<f64, 8>;
    edge_softmax_backward_f64_t32(DType::F64, true, 32): BackwardArgs<f64> => backward::<f64, 32>;
}

/// What a group has: the entries of a row, for a head.
struct Share {
    begin: u32,
    length: u32,
    head: u32,
}

impl Share {
    /// Of this thread's group, if there is any.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn new<const LANES: u32>(rows: u32, heads: u32, offsets: *const u32) -> Option<Self> {
        let group = group_index::<BLOCK_SIZE>(LANES);
        let (row, head) = part_of(group, heads);
        if row >= u64::from(rows) {
            return None;
        }
        // SAFETY: the row exists.
        unsafe {
            let begin = mem::load_readonly(offsets.add(row as usize));
            Some(Self { begin, length: mem::load_readonly(offsets.add(row as usize + 1)) - begin, head })
        }
    }

    /// Calls `each` with the entries of this lane.
    #[inline(always)]
    fn for_entries<const LANES: u32>(&self, mut each: impl FnMut(u32)) {
        let mut done = warp::lane_id() % LANES;
        while done < self.length {
            each(self.begin + done);
            // Only a row of nearly 2^32 entries gets here beyond its end.
            done = done.saturating_add(LANES);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn softmax<T: Math, const LANES: u32>(args: Args<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 8>();
    let mask = group_mask::<LANES>();
    // SAFETY: the entries of the share exist, and the whole group is here.
    unsafe {
        let Some(share) = Share::new::<LANES>(args.rows, args.heads, args.offsets) else { return };
        let score = |entry: u32| mem::load_readonly(args.x.add(place(entry, args.x_stride, share.head)));
        let mut max = negative_infinity();
        share.for_entries::<LANES>(|entry| max = larger(max, score(entry)));
        let shift = shift(max_over_lanes::<T, LANES>(mask, max));
        let mut sum = T::ZERO;
        share.for_entries::<LANES>(|entry| sum += (score(entry) - shift).exp());
        let sum = sum_over_lanes::<T, LANES>(mask, sum);
        share.for_entries::<LANES>(|entry| {
            let y = args.y.add(place(entry, args.y_stride, share.head));
            mem::store(y, (score(entry) - shift).exp() / sum);
        });
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn backward<T: Scalar, const LANES: u32>(args: BackwardArgs<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 8>();
    // SAFETY: the entries of the share exist, and the whole group is here.
    unsafe {
        let Some(share) = Share::new::<LANES>(args.rows, args.heads, args.offsets) else { return };
        let y = |entry: u32| mem::load_readonly(args.y.add(place(entry, args.y_stride, share.head)));
        let dy = |entry: u32| mem::load_readonly(args.dy.add(place(entry, args.dy_stride, share.head)));
        let mut sum = T::ZERO;
        share.for_entries::<LANES>(|entry| sum = y(entry).mul_add(dy(entry), sum));
        let sum = sum_over_lanes::<T, LANES>(group_mask::<LANES>(), sum);
        share.for_entries::<LANES>(|entry| {
            let dx = args.dx.add(place(entry, args.dx_stride, share.head));
            mem::store(dx, y(entry) * (dy(entry) - sum));
        });
    }
}

//! Tentative prolongators of multigrid for nodes with several unknowns: a QR decomposition for each aggregate.
//!
//! # The mathematics
//! ```text
//! B_k    the rows of the vectors near the null space that belong to the nodes of aggregate k
//! B_k = Q_k R_k       Q_k with orthonormal columns, by the modified Gram-Schmidt method, each column twice; R_k an upper triangle
//! ```
//! The prolongator is `Q_k` in the rows of the aggregate, and `R_k` are the vectors on the coarse level (Vaněk, Mandel & Brezina, 1996). A column that is
//! linearly dependent on the previous ones, to within [`DEPENDENT`] of its norm, becomes 0 in `Q_k`, and so does its diagonal element of `R_k`.
//!
//! # When to use it
//! For matrices of elasticity and other systems of equations; with one constant vector a 1 in each row does as well.
//!
//! # Threads
//! A warp for each aggregate; a lane has every 32nd of its rows. Sums over rows add up what lanes have found in a tree: the same bits as on the CPU.
//!
//! # Bytes moved
//! For `k` vectors about `k²` times the rows of the aggregates, in `f64`, mostly from the caches.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. What is written overlaps nothing else, and nothing else accesses
//!    it during the launch.
//! 2. `member_offsets` starts at 0, never falls and ends at `placed`; `members` are nodes below `nodes`, each once. `places` starts at 0 and grows by 1 for
//!    each node among the members, in the order of nodes; it ends at `placed`.
//! 3. `nodes * unknowns * columns` is below 2^32.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has [`grid_size`] blocks.

use cuda_std::{float::GpuFloat, mem, thread};

use crate::{DType, Scalar, args::args, family::family, grid::group_index, lanes::sum_over_lanes};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 128;

/// Lanes of an aggregate.
pub const LANES: u32 = 32;

/// What is left of a column that depends on others, at most, in relation to it.
pub const DEPENDENT: f64 = 1e-8;

args! {
    /// The arguments of every entry.
    pub struct Args<T> {
        /// Aggregates.
        value aggregates: u32,
        /// Nodes.
        value nodes: u32,
        /// Nodes that are in an aggregate.
        value placed: u32,
        /// Unknowns of a node.
        value unknowns: u32,
        /// Vectors.
        value columns: u32,
        /// Where the nodes of each aggregate begin.
        read member_offsets: u32 [aggregates as usize + 1],
        /// The nodes of each aggregate.
        read members: u32 [placed as usize],
        /// How many nodes before each one are in an aggregate, and one more element.
        read places: u32 [nodes as usize + 1],
        /// The vectors, row by row.
        read space: f64 [nodes as usize * unknowns as usize * columns as usize],
        /// `Q`, in `f64`.
        write work: f64 [placed as usize * unknowns as usize * columns as usize],
        /// `Q` for the rows of nodes that are in an aggregate.
        write values: T [placed as usize * unknowns as usize * columns as usize],
        /// `R` of each aggregate, row by row.
        write coarse: f64 [aggregates as usize * columns as usize * columns as usize],
    }
}

family! {
    "amg_tentative", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the prolongator's elements.
        dtype: DType,
    }

    amg_tentative_f32(DType::F32): Args<f32> => factorise::<f32>;
    amg_tentative_f64(DType::F64): Args<f64> => factorise::<f64>;
}

/// Blocks for so many aggregates.
#[must_use]
pub const fn grid_size(aggregates: u32) -> u32 {
    aggregates.div_ceil(BLOCK_SIZE / LANES)
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn factorise<T: Scalar>(args: Args<T>) {
    let aggregate = group_index::<BLOCK_SIZE>(LANES);
    if aggregate >= u64::from(args.aggregates) {
        return;
    }
    let columns = args.columns;
    // SAFETY: aggregate < aggregates, and all lanes of the warp are here.
    unsafe {
        let rows = Rows::of(&args, aggregate as usize);
        let triangle = args.coarse.add(aggregate as usize * (columns * columns) as usize);
        // Only the first lane knows the triangle.
        let add = |row: u32, column: u32, value: f64, is_first: bool| {
            if rows.lane == 0 {
                let place = triangle.add((row * columns + column) as usize);
                mem::store(place, if is_first { value } else { mem::load(place) + value });
            }
        };
        let mut column = 0;
        while column < columns {
            rows.each(|old, new| {
                let value = mem::load_readonly(args.space.add(old + column as usize));
                mem::store(args.work.add(new + column as usize), value);
            });
            let before = GpuFloat::sqrt(rows.dot(column, column));
            let mut step = 0;
            while step < 2 * column {
                let earlier = if step < column { step } else { step - column };
                let share = rows.dot(earlier, column);
                rows.each(|_, new| {
                    let place = args.work.add(new + column as usize);
                    mem::store(place, mem::load(place) - share * mem::load(args.work.add(new + earlier as usize)));
                });
                add(earlier, column, share, step < column);
                step += 1;
            }
            let norm = GpuFloat::sqrt(rows.dot(column, column));
            let is_new = norm > DEPENDENT * before;
            add(column, column, if is_new { norm } else { 0.0 }, true);
            let mut later = column + 1;
            while later < columns {
                add(later, column, 0.0, true);
                later += 1;
            }
            rows.each(|_, new| {
                let place = args.work.add(new + column as usize);
                let value = if is_new { mem::load(place) / norm } else { 0.0 };
                mem::store(place, value);
                mem::store(args.values.add(new + column as usize), T::narrow(value));
            });
            column += 1;
        }
    }
}

/// The rows of an aggregate.
struct Rows {
    members: *const u32,
    places: *const u32,
    work: *mut f64,
    count: u32,
    unknowns: u32,
    columns: u32,
    lane: u32,
}

/// # Safety
/// For every method: the rules at the head of this module, and columns are below `columns`.
impl Rows {
    #[inline(always)]
    unsafe fn of<T: Scalar>(args: &Args<T>, aggregate: usize) -> Self {
        // SAFETY: aggregate < aggregates.
        let (begin, end) = unsafe {
            (
                mem::load_readonly(args.member_offsets.add(aggregate)),
                mem::load_readonly(args.member_offsets.add(aggregate + 1)),
            )
        };
        Self {
            // SAFETY: not beyond the end.
            members: unsafe { args.members.add(begin as usize) },
            places: args.places,
            work: args.work,
            count: (end - begin) * args.unknowns,
            unknowns: args.unknowns,
            columns: args.columns,
            lane: thread::thread_idx_x() % LANES,
        }
    }

    /// Calls a function for each row of this lane with its place among all vectors, and among those of nodes in aggregates.
    #[inline(always)]
    unsafe fn each(&self, mut call: impl FnMut(usize, usize)) {
        let mut row = self.lane;
        while row < self.count {
            let (member, unknown) = (row / self.unknowns, row % self.unknowns);
            // SAFETY: row < count, so there is such a member.
            let (node, place) = unsafe {
                let node = mem::load_readonly(self.members.add(member as usize));
                (node, mem::load_readonly(self.places.add(node as usize)))
            };
            let at = |node: u32| ((node * self.unknowns + unknown) * self.columns) as usize;
            call(at(node), at(place));
            // Without overflow near 2^32.
            row += LANES.min(self.count - row);
        }
    }

    /// The product of two columns, on every lane.
    #[inline(always)]
    unsafe fn dot(&self, a: u32, b: u32) -> f64 {
        let mut sum = 0.0;
        // SAFETY: the lane's own rows, and all 32 lanes are here.
        unsafe {
            self.each(|_, new| {
                sum += mem::load(self.work.add(new + a as usize)) * mem::load(self.work.add(new + b as usize));
            });
            sum_over_lanes::<f64, LANES>(u32::MAX, sum)
        }
    }
}

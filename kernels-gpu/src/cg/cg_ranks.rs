//! Conjugate gradients over several GPUs: what `cg_csr` and `cg_steps` compute, except that sums are those of one rank.
//!
//! # The mathematics
//! The iteration of `cg_steps`. Each rank has a block of rows. A sum over all rows is the sum over all ranks of their parts, which the host
//! gathers between two kernels, in the order of the stream:
//! ```text
//! product     q = A p, part of p . q                   for some rows; several launches may divide the rows
//! dot         part of p . q, after a product by another kernel
//!             all ranks exchange their parts
//! combine     alpha = rz / (p . q)
//! update      r = r - alpha q, z = M r, parts of r . z and r . r
//!             all ranks exchange their parts
//! combine     beta = (r . z) / rz, rz = r . z
//! direction   x = x + alpha p, p = z + beta p          the kernel of `cg_steps`
//! ```
//! `combine` adds the parts in the order of ranks, so all ranks get the same bits, and go on or end alike.
//!
//! GPUs that see each other's memory exchange parts, and the halo of `p`, themselves: `halo` sends and receives elements, and the last block of
//! `product`, `dot` or `update` exchanges the parts and does what `combine` does. See [`window`] and [`mod@halo`].
//!
//! # When to use it
//! Systems over several devices.
//!
//! # Bytes moved
//! Those of `cg_csr` and `cg_steps`; `combine` reads a few numbers of each rank. `halo` reads each element that is sent, and writes it as words of
//! twice its bytes, which the receiver reads to write the element.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says, vectors and the arrays of the matrix aligned to 16 bytes,
//!    except for `own_p` and `q` of `product`; a state; `partials` with room for [`PARTIALS`] elements. None overlaps another, but `own_p` is
//!    a part of `p`.
//! 2. `row_offsets` starts at 0, never falls and ends at `entries`; no row has more than 2^30 entries; every column index is below
//!    `columns`.
//! 3. `preconditioner` is one of [`preconditioner`]; `diagonal` is a vector where it says so, and so is `z`.
//! 4. Nothing else accesses what the launch writes meanwhile.
//! 5. A link describes the windows of ranks that all run the same launches in the same order; other accesses to a window than these launches' are
//!    ordered with them. Of two launches of a rank with a link, one has ended before the other begins. All blocks of `halo` run at the same time, one for
//!    each channel in use; its rows exist, and each rank receives what the other sends.
//! 6. Blocks have [`BLOCK_SIZE`] threads in one dimension. The grid has at most [`MAX_BLOCKS`] blocks, at least one; of `combine` and `sum`, one.

#[path = "cg_ranks/halo.rs"]
pub mod halo;
#[path = "cg_ranks/window.rs"]
pub mod window;

use cuda_std::{mem, thread, warp::WARP_SIZE};

use crate::{
    DType, Scalar,
    args::args,
    cg_elements::{ELEMENTS, Elements, each, for_elements, load, store},
    cg_rows::Rows,
    cg_state::{State, counter, preconditioner, scalar, status},
    family::family,
    sums::{MAX_BLOCKS, PARTIALS, Sum, over_grid},
};
use halo::HaloArgs;
use window::Link;

pub use crate::cg_elements::BLOCK_SIZE;

/// Parts of a sum, or of sums, of one rank.
pub const PARTS: usize = 3;

args! {
    /// The arguments of the product, passed by value: elements `T`.
    pub struct ProductArgs<T> {
        /// Rows of the block.
        value rows: u32,
        /// Columns: own ones and others.
        value columns: u32,
        /// Entries of the block.
        value entries: u32,
        /// `rows + 1` offsets.
        read row_offsets: u32 [rows as usize + 1],
        /// `entries` column indices.
        read col_indices: u32 [entries as usize],
        /// `entries` values.
        read values: T [entries as usize],
        /// The direction, by columns.
        read p: T [columns as usize],
        /// The direction, by rows.
        read own_p: T [rows as usize],
        /// The product.
        write q: T [rows as usize],
        /// How the method stands.
        part state: State<A>,
        /// Sums of blocks.
        write partials: f64 [PARTIALS],
        /// This launch's place among the parts.
        value place: u32,
        /// The parts of `p . q`.
        write parts: f64 [PARTS],
        /// The way to the other ranks, of the last launch of a product.
        part link: Link<A>,
    }
}

args! {
    /// The arguments of the kernels of vectors, passed by value: elements `T`.
    pub struct VectorArgs<T> {
        /// Own elements.
        value n: u32,
        /// See [`preconditioner`].
        value preconditioner: u32,
        /// Of `update`: whether `r` stays, and the dots alone are computed.
        value is_dots_alone: u32,
        /// Of `update`: whether no iteration has led to the residual.
        value begins: u32,
        /// The inverse of the diagonal.
        read diagonal: T [null or n as usize],
        /// The preconditioned residual, if it is stored.
        read z: T [null or n as usize],
        /// The direction, of `dot` alone.
        read p: T [null or n as usize],
        /// The product.
        read q: T [null or n as usize],
        /// The residual, of `update` alone.
        write r: T [null or n as usize],
        /// How the method stands.
        part state: State<A>,
        /// Sums of blocks.
        write partials: f64 [PARTIALS],
        /// The part of `p . q`, or of `r . z` and `r . r`.
        write parts: f64 [PARTS],
        /// The way to the other ranks, where the sums are those of the vectors as they are then.
        part link: Link<A>,
    }
}

args! {
    /// The arguments of `combine`, passed by value.
    pub struct CombineArgs {
        /// The number of ranks.
        value ranks: u32,
        /// Whether the sums are those of `update`; otherwise of the product.
        value is_update: u32,
        /// Of an update: whether no iteration has led to the residual.
        value begins: u32,
        /// The bytes of a vector's element.
        value element_bytes: u32,
        /// The parts of each rank.
        read parts: f64 [ranks as usize * PARTS],
        /// How the method stands.
        part state: State<A>,
    }
}

args! {
    /// The arguments of `sum`, passed by value.
    pub struct SumArgs {
        /// How many sums, one after the other, each of the same numbers.
        value times: u32,
        /// The way to the other ranks.
        part link: Link<A>,
        /// The numbers of this rank; then their sums over all ranks, or, if one does not answer, what they were.
        write numbers: f64 [2],
    }
}

/// A kernel of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `q = A p`, and the part of `p . q`, with so many lanes a row: a power of two up to 32.
    Product(u32),
    /// The part of `p . q`.
    Dot,
    /// The next residual, and the parts of its dots.
    Update,
    /// The sums of all ranks, and what follows from them. The type of elements does not count.
    Combine,
    /// The exchange of halos.
    Halo,
    /// Sums over all ranks. The type of elements does not count.
    Sum,
}

family! {
    "cg_ranks", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The kernel.
        step: Step,
        /// The type of the elements.
        dtype: DType,
    }

    cg_ranks_product_f32_t1(Step::Product(1), DType::F32): ProductArgs<f32> => product::<f32, 1>;
    cg_ranks_product_f32_t2(Step::Product(2), DType::F32): ProductArgs<f32> => product::<f32, 2>;
    cg_ranks_product_f32_t4(Step::Product(4), DType::F32): ProductArgs<f32> => product::<f32, 4>;
    cg_ranks_product_f32_t8(Step::Product(8), DType::F32): ProductArgs<f32> => product::<f32, 8>;
    cg_ranks_product_f32_t16(Step::Product(16), DType::F32): ProductArgs<f32> => product::<f32, 16>;
    cg_ranks_product_f32_t32(Step::Product(32), DType::F32): ProductArgs<f32> => product::<f32, 32>;
    cg_ranks_product_f64_t1(Step::Product(1), DType::F64): ProductArgs<f64> => product::<f64, 1>;
    cg_ranks_product_f64_t2(Step::Product(2), DType::F64): ProductArgs<f64> => product::<f64, 2>;
    cg_ranks_product_f64_t4(Step::Product(4), DType::F64): ProductArgs<f64> => product::<f64, 4>;
    cg_ranks_product_f64_t8(Step::Product(8), DType::F64): ProductArgs<f64> => product::<f64, 8>;
    cg_ranks_product_f64_t16(Step::Product(16), DType::F64): ProductArgs<f64> => product::<f64, 16>;
    cg_ranks_product_f64_t32(Step::Product(32), DType::F64): ProductArgs<f64> => product::<f64, 32>;
    cg_ranks_dot_f32(Step::Dot, DType::F32): VectorArgs<f32> => dot::<f32>;
    cg_ranks_dot_f64(Step::Dot, DType::F64): VectorArgs<f64> => dot::<f64>;
    cg_ranks_update_f32(Step::Update, DType::F32): VectorArgs<f32> => update::<f32>;
    cg_ranks_update_f64(Step::Update, DType::F64): VectorArgs<f64> => update::<f64>;
    cg_ranks_combine(Step::Combine, DType::F64): CombineArgs => combine;
    cg_ranks_halo_f32(Step::Halo, DType::F32): HaloArgs<f32> => halo::halo::<f32>;
    cg_ranks_halo_f64(Step::Halo, DType::F64): HaloArgs<f64> => halo::halo::<f64>;
    cg_ranks_sum(Step::Sum, DType::F64): SumArgs => sum;
}

/// Blocks of a product of so many rows at `lanes` lanes a row, on a GPU of so many multiprocessors.
#[must_use]
pub fn grid_of_product(rows: u32, lanes: u32, multiprocessors: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE / lanes).clamp(1, (8 * multiprocessors).min(MAX_BLOCKS))
}

/// Blocks for `n` elements on a GPU of so many multiprocessors.
#[must_use]
pub fn grid_of_vectors(n: u32, multiprocessors: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE * ELEMENTS).clamp(1, (8 * multiprocessors).min(MAX_BLOCKS))
}

/// The sums over the grid, for the thread that stores them.
///
/// # Safety
/// The rules at the head of this module; all threads call it.
#[inline(always)]
unsafe fn of_grid<const DOTS: usize>(
    sums: [Sum<false>; DOTS],
    state: &State,
    partials: *mut f64,
) -> Option<[Sum<false>; DOTS]> {
    // SAFETY: the caller's promise.
    unsafe {
        let arrivals = state.counters.add(counter::ARRIVALS);
        over_grid::<false, DOTS, { BLOCK_SIZE / WARP_SIZE }>(sums, partials, arrivals)
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn product<T: Scalar, const LANES: u32>(args: ProductArgs<T>) {
    let ProductArgs { rows, entries, row_offsets, col_indices, values, p, own_p, q, state, partials, .. } = args;
    // SAFETY: all threads see the same counter, and come to the sum over the grid, or none does.
    unsafe {
        if state.counter(counter::STATUS) != status::RUNNING {
            return state.stop();
        }
        let block = Rows { rows, entries, row_offsets, col_indices, values, x: p, p: own_p, q };
        let sum = block.multiply::<LANES, false>();
        if let Some([pq]) = of_grid([sum], &state, partials) {
            mem::store(args.parts.add(args.place as usize), pq.total());
            after_product(&args.link, args.parts, &state);
        }
    }
}

/// Exchanges this rank's part of `p . q`, if there is a way, and goes on from the sum.
///
/// # Safety
/// The rules at the head of this module; one thread calls it, after all others are done with the state.
#[inline(always)]
unsafe fn after_product(link: &Link, parts: *const f64, state: &State) {
    // SAFETY: the caller's promise.
    unsafe {
        if link.ranks > 0
            && let Some([pq]) = link.sum([of_rank(parts)])
        {
            state.after_product(pq);
        }
    }
}

/// A rank's part of `p . q`.
///
/// # Safety
/// There are so many parts.
#[inline(always)]
unsafe fn of_rank(parts: *const f64) -> f64 {
    // SAFETY: the caller's promise.
    let part = |place: usize| unsafe { mem::load(parts.add(place)) };
    part(0) + part(1) + part(2)
}

/// The sum of `p . q`.
struct Dot<'a, T: Scalar> {
    args: &'a VectorArgs<T>,
    sum: Sum<false>,
}

impl<T: Scalar> Elements for Dot<'_, T> {
    #[inline(always)]
    unsafe fn visit<const WIDTH: usize>(&mut self, i: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let (p, q) = (load::<T, WIDTH>(self.args.p.add(i)), load::<T, WIDTH>(self.args.q.add(i)));
            each::<WIDTH>(|k| self.sum.add_product(p[k].widen(), q[k].widen()));
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn dot<T: Scalar>(args: VectorArgs<T>) {
    // SAFETY: the rules are the same; all threads see the same counter.
    unsafe {
        if args.state.counter(counter::STATUS) != status::RUNNING {
            return args.state.stop();
        }
        let mut dot = Dot { args: &args, sum: Sum::ZERO };
        for_elements(args.n, &mut dot);
        let sum = dot.sum;
        if let Some([pq]) = of_grid([sum], &args.state, args.partials) {
            mem::store(args.parts, pq.total());
            after_product(&args.link, args.parts, &args.state);
        }
    }
}

/// `r = r - alpha q`, and the sums of `r . z` and `r . r`.
struct Update<'a, T: Scalar> {
    args: &'a VectorArgs<T>,
    alpha: T,
    sums: [Sum<false>; 2],
}

impl<T: Scalar> Elements for Update<'_, T> {
    #[inline(always)]
    unsafe fn visit<const WIDTH: usize>(&mut self, i: usize) {
        let args = self.args;
        // SAFETY: the caller's promise, and the vectors are there where they are needed.
        unsafe {
            let mut r = load::<T, WIDTH>(args.r.add(i));
            if args.is_dots_alone == 0 {
                let q = load::<T, WIDTH>(args.q.add(i));
                each::<WIDTH>(|k| r[k] = (-self.alpha).mul_add(q[k], r[k]));
                store(args.r.add(i), r);
                if args.preconditioner == preconditioner::STORED {
                    return;
                }
            }
            let mut z = r;
            match args.preconditioner {
                preconditioner::NONE => {}
                preconditioner::DIAGONAL => {
                    let diagonal = load::<T, WIDTH>(args.diagonal.add(i));
                    each::<WIDTH>(|k| z[k] = diagonal[k] * r[k]);
                }
                _ => z = load::<T, WIDTH>(args.z.add(i)),
            }
            each::<WIDTH>(|k| {
                self.sums[0].add_product(r[k].widen(), z[k].widen());
                self.sums[1].add_product(r[k].widen(), r[k].widen());
            });
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn update<T: Scalar>(args: VectorArgs<T>) {
    // SAFETY: the rules are the same; all threads see the same counter.
    unsafe {
        if args.state.counter(counter::STOPPED) != 0 {
            return;
        }
        let alpha = T::narrow(args.state.scalar(scalar::ALPHA));
        let mut update = Update { args: &args, alpha, sums: [Sum::ZERO; 2] };
        for_elements(args.n, &mut update);
        let sums = update.sums;
        if let Some([rz, rr]) = of_grid(sums, &args.state, args.partials) {
            let (rz, rr) = (rz.total(), rr.total());
            mem::store(args.parts, rz);
            mem::store(args.parts.add(1), rr);
            if args.link.ranks > 0
                && let Some([rz, rr]) = args.link.sum([rz, rr])
            {
                args.state.after_update(rz, rr, args.begins != 0, size_of::<T>());
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn combine(args: CombineArgs) {
    if thread::index_1d() != 0 {
        return;
    }
    let CombineArgs { ranks, is_update, begins, element_bytes, parts, state } = args;
    // SAFETY: this thread alone accesses the state; there are so many parts.
    unsafe {
        let part = |rank: u32, place: usize| mem::load(parts.add(rank as usize * PARTS + place));
        if is_update == 0 {
            if state.counter(counter::STATUS) != status::RUNNING {
                // The kernel of the direction has run since the end.
                return state.set_counter(counter::STOPPED, 1);
            }
            let mut pq = 0.0;
            let mut rank = 0;
            while rank < ranks {
                pq += of_rank(parts.add(rank as usize * PARTS));
                rank += 1;
            }
            state.after_product(pq);
        } else if state.counter(counter::STOPPED) == 0 {
            let (mut rz, mut rr) = (0.0, 0.0);
            let mut rank = 0;
            while rank < ranks {
                rz += part(rank, 0);
                rr += part(rank, 1);
                rank += 1;
            }
            state.after_update(rz, rr, begins != 0, element_bytes as usize);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn sum(args: SumArgs) {
    if thread::index_1d() != 0 {
        return;
    }
    // SAFETY: this thread alone; there are two numbers.
    unsafe {
        let own = [mem::load(args.numbers), mem::load(args.numbers.add(1))];
        let mut time = 0;
        while time < args.times {
            if let Some(sums) = args.link.sum(own) {
                mem::store(args.numbers, sums[0]);
                mem::store(args.numbers.add(1), sums[1]);
            }
            time += 1;
        }
    }
}

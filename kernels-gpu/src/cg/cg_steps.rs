//! The vector operations of the conjugate gradient method, each iteration's in as few launches as its dots allow.
//!
//! # The mathematics
//! Hestenes & Stiefel, "Methods of conjugate gradients for solving linear systems" (1952), with a preconditioner `z = M r`:
//! ```text
//! residual    r = b - q, with q = A x                                           once
//! begin       rz = r . z, rr = r . r                                            once
//! product     q = A p, alpha = rz / (p . q)         by cg_csr; or by any product, and then `alpha`
//! update      r = r - alpha q, z = M r, beta = (r . z) / rz, rr = r . r
//! direction   x = x + alpha p, p = z + beta p
//! ```
//! `alpha`, `beta` and `rz` stay on the device ([`State`]), where the block that is the last to add to a dot computes them.
//! `update` knows `z` where the preconditioner is diagonal or none; otherwise it leaves the dots to `begin`'s kernel,
//! launched again after `z` has been computed.
//!
//! # When to use it
//! Systems too large for `cg_persistent`, any product, any preconditioner.
//!
//! # Bytes moved
//! An iteration, in vectors: `update` 3 reads and 1 write and one read of the diagonal; `direction` 3 reads, 2 writes and the
//! diagonal. With 2 of the product it is 12 `n` elements, where separate kernels take 13 at the least.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory: vectors of `n` elements, aligned to 16 bytes; a state; `partials` with room for
//!    [`PARTIALS`] elements. None overlaps another.
//! 2. `preconditioner` is one of [`preconditioner`]; `diagonal` is a vector where it says so, and so is `z`.
//! 3. Nothing else accesses what the launch writes meanwhile.
//! 4. Blocks have [`BLOCK_SIZE`] threads in one dimension, and the grid has at most [`MAX_BLOCKS`] blocks, at least one.

use cuda_std::mem;

use crate::{
    DType, Scalar,
    args::args,
    cg_elements::{ELEMENTS, Elements, each, for_elements, load, store},
    cg_state::{State, counter, preconditioner, scalar, status},
    family::family,
    sums::{MAX_BLOCKS, PARTIALS, Sum, over_grid},
};

pub use crate::cg_elements::BLOCK_SIZE;

args! {
    /// The arguments of every entry, passed by value: elements `T`.
    pub struct Args<T> {
        /// The size of the system.
        value n: u32,
        /// See [`preconditioner`].
        value preconditioner: u32,
        /// Of `begin`'s kernel: whether no iteration has led to the residual.
        value begins: u32,
        /// The inverse of the diagonal.
        read diagonal: T [null or n as usize],
        /// The preconditioned residual, if it is stored.
        read z: T [null or n as usize],
        /// The right-hand side, of `residual` alone.
        read b: T [null or n as usize],
        /// The product.
        read q: T [null or n as usize],
        /// The solution.
        write x: T [null or n as usize],
        /// The residual.
        write r: T [n as usize],
        /// The direction.
        write p: T [n as usize],
        /// How the method stands.
        part state: State<A>,
        /// Sums of blocks; `residual` leaves `r . r` and `b . b` in the first two elements.
        write partials: f64 [PARTIALS],
    }
}

/// A kernel of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `r = b - q`.
    Residual,
    /// The dots of the residual.
    Begin,
    /// The step length, after a product of another kernel.
    Alpha,
    /// The next residual.
    Update,
    /// The next solution and the next direction.
    Direction,
}

family! {
    "cg_steps", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The kernel.
        step: Step,
        /// The type of the elements.
        dtype: DType,
        /// Whether its sums are compensated: of those that have sums, in `f64`.
        compensated: bool,
    }

    cg_steps_residual_f32(Step::Residual, DType::F32, false): Args<f32> => residual::<f32>;
    cg_steps_residual_f64(Step::Residual, DType::F64, false): Args<f64> => residual::<f64>;
    cg_steps_begin_f32(Step::Begin, DType::F32, false): Args<f32> => begin::<f32, false>;
    cg_steps_begin_f64(Step::Begin, DType::F64, false): Args<f64> => begin::<f64, false>;
    cg_steps_begin_f64_compensated(Step::Begin, DType::F64, true): Args<f64> => begin::<f64, true>;
    cg_steps_alpha_f32(Step::Alpha, DType::F32, false): Args<f32> => alpha::<f32, false>;
    cg_steps_alpha_f64(Step::Alpha, DType::F64, false): Args<f64> => alpha::<f64, false>;
    cg_steps_alpha_f64_compensated(Step::Alpha, DType::F64, true): Args<f64> => alpha::<f64, true>;
    cg_steps_update_f32(Step::Update, DType::F32, false): Args<f32> => update::<f32, false>;
    cg_steps_update_f64(Step::Update, DType::F64, false): Args<f64> => update::<f64, false>;
    cg_steps_update_f64_compensated(Step::Update, DType::F64, true): Args<f64> => update::<f64, true>;
    cg_steps_direction_f32(Step::Direction, DType::F32, false): Args<f32> => direction::<f32>;
    cg_steps_direction_f64(Step::Direction, DType::F64, false): Args<f64> => direction::<f64>;
}

/// Blocks for `n` elements on a GPU of so many multiprocessors.
#[must_use]
pub fn grid_size(n: u32, multiprocessors: u32) -> u32 {
    n.div_ceil(BLOCK_SIZE * ELEMENTS).clamp(1, (8 * multiprocessors).min(MAX_BLOCKS))
}

impl<T: Scalar> Args<T> {
    /// `z` for elements of `r`.
    ///
    /// # Safety
    /// The elements exist.
    #[inline(always)]
    unsafe fn preconditioned<const WIDTH: usize>(&self, i: usize, r: [T; WIDTH]) -> [T; WIDTH] {
        // SAFETY: the caller's promise, and the vectors are there where they are needed.
        unsafe {
            match self.preconditioner {
                preconditioner::NONE => r,
                preconditioner::DIAGONAL => {
                    let mut z = load::<T, WIDTH>(self.diagonal.add(i));
                    each::<WIDTH>(|k| z[k] = z[k] * r[k]);
                    z
                }
                _ => load::<T, WIDTH>(self.z.add(i)),
            }
        }
    }

    #[inline(always)]
    unsafe fn over_grid<const COMPENSATED: bool, const DOTS: usize>(
        &self,
        sums: [Sum<COMPENSATED>; DOTS],
    ) -> Option<[Sum<COMPENSATED>; DOTS]> {
        // SAFETY: the rules at the head of this module.
        unsafe {
            let arrivals = self.state.counters.add(counter::ARRIVALS);
            over_grid::<COMPENSATED, DOTS, { BLOCK_SIZE / 32 }>(sums, self.partials, arrivals)
        }
    }

    /// Whether the method has ended before this launch, with the kernel of `direction`.
    #[inline(always)]
    unsafe fn has_stopped(&self) -> bool {
        // SAFETY: the rules at the head of this module.
        unsafe { self.state.counter(counter::STOPPED) != 0 }
    }
}

/// `r = b - q`, and the sums of `r . r` and `b . b`.
struct Residual<'a, T: Scalar> {
    args: &'a Args<T>,
    sums: [Sum<true>; 2],
}

impl<T: Scalar> Elements for Residual<'_, T> {
    #[inline(always)]
    unsafe fn visit<const WIDTH: usize>(&mut self, i: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let (b, q) = (load::<T, WIDTH>(self.args.b.add(i)), load::<T, WIDTH>(self.args.q.add(i)));
            let mut r = b;
            each::<WIDTH>(|k| {
                r[k] = b[k] - q[k];
                self.sums[0].add_product(r[k].widen(), r[k].widen());
                self.sums[1].add_product(b[k].widen(), b[k].widen());
            });
            store(self.args.r.add(i), r);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn residual<T: Scalar>(args: Args<T>) {
    let mut residual = Residual { args: &args, sums: [Sum::ZERO; 2] };
    // SAFETY: the rules are the same. Who gets the sums has read all partial ones.
    unsafe {
        for_elements(args.n, &mut residual);
        let sums = residual.sums;
        if let Some([rr, bb]) = args.over_grid(sums) {
            mem::store(args.partials, rr.total());
            mem::store(args.partials.add(1), bb.total());
        }
    }
}

/// The sums of `r . z` and `r . r`.
struct Dots<'a, T: Scalar, const COMPENSATED: bool> {
    args: &'a Args<T>,
    sums: [Sum<COMPENSATED>; 2],
}

impl<T: Scalar, const COMPENSATED: bool> Dots<'_, T, COMPENSATED> {
    #[inline(always)]
    unsafe fn add<const WIDTH: usize>(&mut self, i: usize, r: [T; WIDTH]) {
        // SAFETY: the caller's promise.
        let z = unsafe { self.args.preconditioned(i, r) };
        each::<WIDTH>(|k| {
            self.sums[0].add_product(r[k].widen(), z[k].widen());
            self.sums[1].add_product(r[k].widen(), r[k].widen());
        });
    }

    #[inline(always)]
    unsafe fn finish(self, begins: bool) {
        let Self { args, sums } = self;
        // SAFETY: the rules at the head of this module.
        unsafe {
            if let Some([rz, rr]) = args.over_grid(sums) {
                args.state.after_update(rz.total(), rr.total(), begins, size_of::<T>());
            }
        }
    }
}

impl<T: Scalar, const COMPENSATED: bool> Elements for Dots<'_, T, COMPENSATED> {
    #[inline(always)]
    unsafe fn visit<const WIDTH: usize>(&mut self, i: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let r = load::<T, WIDTH>(self.args.r.add(i));
            self.add(i, r);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn begin<T: Scalar, const COMPENSATED: bool>(args: Args<T>) {
    // SAFETY: the rules are the same; all threads see the same counter.
    unsafe {
        if args.has_stopped() {
            return;
        }
        let mut dots = Dots::<T, COMPENSATED> { args: &args, sums: [Sum::ZERO; 2] };
        for_elements(args.n, &mut dots);
        dots.finish(args.begins != 0);
    }
}

/// The sum of `p . q`.
struct Product<'a, T: Scalar, const COMPENSATED: bool> {
    args: &'a Args<T>,
    sum: Sum<COMPENSATED>,
}

impl<T: Scalar, const COMPENSATED: bool> Elements for Product<'_, T, COMPENSATED> {
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
unsafe fn alpha<T: Scalar, const COMPENSATED: bool>(args: Args<T>) {
    // SAFETY: the rules are the same; all threads see the same counter.
    unsafe {
        if args.state.counter(counter::STATUS) != status::RUNNING {
            return args.state.stop();
        }
        let mut product = Product::<T, COMPENSATED> { args: &args, sum: Sum::ZERO };
        for_elements(args.n, &mut product);
        let sum = product.sum;
        if let Some([pq]) = args.over_grid([sum]) {
            args.state.after_product(pq.total());
        }
    }
}

/// `r = r - alpha q`, and the dots unless `z` comes later.
struct Update<'a, T: Scalar, const COMPENSATED: bool> {
    dots: Dots<'a, T, COMPENSATED>,
    alpha: T,
}

impl<T: Scalar, const COMPENSATED: bool> Elements for Update<'_, T, COMPENSATED> {
    #[inline(always)]
    unsafe fn visit<const WIDTH: usize>(&mut self, i: usize) {
        let args = self.dots.args;
        // SAFETY: the caller's promise.
        unsafe {
            let (mut r, q) = (load::<T, WIDTH>(args.r.add(i)), load::<T, WIDTH>(args.q.add(i)));
            each::<WIDTH>(|k| r[k] = (-self.alpha).mul_add(q[k], r[k]));
            store(args.r.add(i), r);
            if args.preconditioner != preconditioner::STORED {
                self.dots.add(i, r);
            }
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn update<T: Scalar, const COMPENSATED: bool>(args: Args<T>) {
    // SAFETY: the rules are the same; all threads see the same counter.
    unsafe {
        if args.has_stopped() {
            return;
        }
        let alpha = T::narrow(args.state.scalar(scalar::ALPHA));
        let mut update = Update::<T, COMPENSATED> { dots: Dots { args: &args, sums: [Sum::ZERO; 2] }, alpha };
        for_elements(args.n, &mut update);
        if args.preconditioner != preconditioner::STORED {
            update.dots.finish(false);
        }
    }
}

/// `x = x + alpha p`, `p = z + beta p`. Where both factors are 0, neither `x` nor the old `p` is read.
struct Direction<'a, T: Scalar> {
    args: &'a Args<T>,
    alpha: T,
    beta: T,
}

impl<T: Scalar> Elements for Direction<'_, T> {
    #[inline(always)]
    unsafe fn visit<const WIDTH: usize>(&mut self, i: usize) {
        let Self { args, alpha, beta } = *self;
        // SAFETY: the caller's promise.
        unsafe {
            let mut p = [T::ZERO; WIDTH];
            if alpha != T::ZERO || beta != T::ZERO {
                let mut x = load::<T, WIDTH>(args.x.add(i));
                p = load::<T, WIDTH>(args.p.add(i));
                each::<WIDTH>(|k| x[k] = alpha.mul_add(p[k], x[k]));
                store(args.x.add(i), x);
            }
            let mut z = args.preconditioned(i, load::<T, WIDTH>(args.r.add(i)));
            each::<WIDTH>(|k| z[k] = beta.mul_add(p[k], z[k]));
            store(args.p.add(i), z);
        }
    }
}

/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn direction<T: Scalar>(args: Args<T>) {
    // SAFETY: the rules are the same; all threads see the same counter.
    unsafe {
        if args.has_stopped() {
            return;
        }
        let of = |place| T::narrow(args.state.scalar(place));
        let mut direction = Direction { args: &args, alpha: of(scalar::ALPHA), beta: of(scalar::BETA) };
        for_elements(args.n, &mut direction);
    }
}

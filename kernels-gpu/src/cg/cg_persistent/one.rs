//! The method with one reduction in each iteration.

use cuda_std::{GpuFloat, mem, shared::Shared, shared_array, thread, warp::WARP_SIZE};

use super::{
    Args, BLOCK_SIZE, Reductions,
    exchange::{Exchange, leave_element, over_warp, wait_for_element},
    least_difference,
    share::{Room, Share, for_each},
    words_of_row,
};
use crate::{
    Scalar,
    cg_state::{self, counter, scalar, status},
};

/// The body of every entry with one reduction. `LANES` is a power of two up to 32.
///
/// An iteration counts once its norm is known, which is in the sum of the next one. Until then its step is pending: `x` is without it.
///
/// # Safety
/// The rules at the head of this family.
#[inline(always)]
pub(super) unsafe fn iterate<T: Scalar, const LANES: u32>(args: Args<T>) {
    thread::launch_bounds::<{ super::BLOCK_SIZE }, 1>();
    let state = args.state;
    // SAFETY: the rules of this family. All threads of the grid compute the same scalars, and so take the same way.
    unsafe {
        if state.counter(counter::STATUS) != status::RUNNING {
            return;
        }
        let mut iteration = state.counter(counter::ITERATION);
        let mut rz = state.scalar(scalar::RZ);
        // Of the pending step; 0 if there is none.
        let mut alpha = state.scalar(scalar::ALPHA);
        let exchange = Exchange::new(&args);
        let share = Share::load(&args, Reductions::One);
        let sizes = Sizes::of(&share);
        let vectors = Vectors::of(share.rows, share.halo);
        vectors.load(&args, &share, alpha == 0.0);
        exchange.leave::<1, true>([0.0], args.epoch, set(args.epoch));
        exchange.collect::<1, true>(args.epoch, set(args.epoch));
        vectors.put_dots(&exchange, vectors.dots());

        let mut status = status::RUNNING;
        let mut done = 0;
        while status == status::RUNNING && done < args.iterations {
            done += 1;
            let number = args.epoch + 2 * done;
            let dot = product::<T, LANES>(&args, &share, number);
            let [dot] = over_warp::<1, LANES>([dot]);
            exchange.put(2, dot);
            exchange.send::<3, false>(number, set(number));
            // While others arrive. What is loaded here takes no registers in the product.
            let (inverse_rz, old_pq) = (1.0 / rz, rz / alpha);
            let (target, limit) = (state.scalar(scalar::TARGET), state.counter(counter::LIMIT));
            sizes.vectors().fetch_halo(&args, &share, number);
            let [rz_new, rr, delta] = exchange.collect::<3, false>(number, set(number));
            let vectors = sizes.vectors();
            let (mut beta, mut pq) = (0.0, delta);
            if alpha != 0.0 {
                status = cg_state::verdict(rr, rz_new, target, iteration + 1, limit, size_of::<T>());
                if status == status::NOT_FINITE {
                    // The pending step has led to this.
                    alpha = 0.0;
                    break;
                }
                iteration += 1;
                if thread::index_1d() == 0 {
                    state.post_norm(iteration, rr);
                }
                if status != status::RUNNING {
                    break;
                }
                // The inverse of the least numbers overflows.
                beta = if inverse_rz.is_finite() { rz_new * inverse_rz } else { rz_new / rz };
                pq = delta - beta * beta * old_pq;
                if pq <= 0.0 || pq <= least_difference(size_of::<T>()) * delta {
                    // Most digits have cancelled.
                    exchange.leave::<1, false>([vectors.direction_dot(T::narrow(beta))], number + 1, 2);
                    [pq] = exchange.collect::<1, false>(number + 1, 2);
                }
            }
            let old_alpha = alpha;
            match cg_state::step_length(rz_new, pq) {
                // Such a step is never pending, so its iteration would never count.
                Ok(0.0) => {
                    status = status::UNDERFLOW;
                    break;
                }
                Ok(length) => alpha = length,
                Err(error) => {
                    status = error;
                    break;
                }
            }
            let dots = vectors.step(T::narrow(old_alpha), T::narrow(alpha), T::narrow(beta));
            vectors.put_dots(&exchange, dots);
            rz = rz_new;
            thread::sync_threads();
        }
        let vectors = sizes.vectors();
        if status != status::RUNNING && alpha != 0.0 {
            vectors.take_pending(T::narrow(alpha));
        }
        vectors.store(&args, share.first_row);
        if thread::index_1d() == 0 {
            state.set_scalar(scalar::RZ, rz);
            state.set_scalar(scalar::ALPHA, alpha);
            state.set_counter(counter::ITERATION, iteration);
            if status != status::RUNNING {
                state.end(status, iteration, true);
            }
        }
    }
}

/// `q = A z` for the rows of the block, also for the other blocks, and this thread's part of `z . q`.
///
/// # Safety
/// As for [`Share::product`], after a sum over the grid to which all have added something since they fetched the `q` of two iterations before.
#[inline(always)]
unsafe fn product<T: Scalar, const LANES: u32>(args: &Args<T>, share: &Share<T>, number: u32) -> f64 {
    let q = Vectors::of(share.rows, share.halo).q;
    // SAFETY: the caller's promise; one thread writes each row.
    unsafe {
        share.product::<LANES>(args, |row, sum| {
            q.store(row, sum);
            leave_element(words(args, (share.first_row + row) as usize, number), number, sum);
        })
    }
}

/// The numbers of rows and of halo rows in shared memory. Loaded anew where they are needed, the places of the vectors take no registers elsewhere.
struct Sizes(Shared<u32>);

impl Sizes {
    /// # Safety
    /// A barrier of the block is between this and [`vectors`](Self::vectors).
    #[inline(always)]
    unsafe fn of<T>(share: &Share<T>) -> Self {
        let sizes = shared_array![u32; 2];
        if thread::thread_idx_x() == 0 {
            // SAFETY: one thread writes both.
            unsafe {
                sizes.store(0, share.rows);
                sizes.store(1, share.halo);
            }
        }
        Self(sizes)
    }

    /// # Safety
    /// As for [`of`](Self::of).
    #[inline(always)]
    unsafe fn vectors<T: Scalar>(&self) -> Vectors<T> {
        // SAFETY: there are both.
        unsafe { Vectors::of(self.0.load(0), self.0.load(1)) }
    }
}

/// The block's part of the vectors. The gathered one is `z`.
struct Vectors<T> {
    rows: u32,
    x: Shared<T>,
    r: Shared<T>,
    /// `A z`.
    q: Shared<T>,
    diagonal: Shared<T>,
    p: Shared<T>,
    /// `A p`.
    s: Shared<T>,
    z: Shared<T>,
    halo: Halo<T>,
}

/// What the block has of the rows of its halo, to compute their `z` itself.
struct Halo<T> {
    rows: u32,
    r: Shared<T>,
    diagonal: Shared<T>,
    s: Shared<T>,
    q: Shared<T>,
    z: Shared<T>,
}

impl<T: Scalar> Vectors<T> {
    /// The places of the vectors of so many rows, and so many halo rows.
    #[inline(always)]
    fn of(rows: u32, halo: u32) -> Self {
        let room = Room::of(Reductions::One, rows, halo);
        Self {
            rows,
            x: room.of_rows(0),
            r: room.of_rows(1),
            q: room.of_rows(2),
            diagonal: room.of_rows(3),
            p: room.of_rows(4),
            s: room.of_rows(5),
            z: room.gathered(),
            halo: Halo {
                rows: halo,
                r: room.of_halo(0),
                diagonal: room.of_halo(1),
                s: room.of_halo(2),
                q: room.of_halo(3),
                z: room.gathered().offset(rows),
            },
        }
    }

    /// Fetches the vectors; if the method begins, there is no direction yet.
    ///
    /// # Safety
    /// The rules at the head of this family; all threads of the block call it.
    #[inline(always)]
    unsafe fn load(&self, args: &Args<T>, share: &Share<T>, begins: bool) {
        // SAFETY: rows and halo exist, and the shared memory has room for their vectors.
        unsafe {
            self.for_each_row(|row| {
                let at = (share.first_row + row) as usize;
                let (r, diagonal) = (mem::load(args.r.add(at)), Share::diagonal(args, at));
                let (mut p, mut s) = (T::ZERO, T::ZERO);
                if !begins {
                    (p, s) = (mem::load(args.p.add(at)), mem::load(args.s.add(at)));
                }
                self.x.store(row, mem::load(args.x.add(at)));
                self.r.store(row, r);
                self.diagonal.store(row, diagonal);
                self.p.store(row, p);
                self.s.store(row, s);
                self.z.store(row, diagonal * r);
            });
            let halo = &self.halo;
            for_each(halo.rows, |place| {
                let at = share.halo_row(args, place);
                let (r, diagonal) = (mem::load(args.r.add(at)), Share::diagonal(args, at));
                let s = if begins { T::ZERO } else { mem::load(args.s.add(at)) };
                halo.r.store(place, r);
                halo.diagonal.store(place, diagonal);
                halo.s.store(place, s);
                halo.z.store(place, diagonal * r);
            });
        }
    }

    /// Calls `work` for each row that is this thread's. The last threads come first, for the first have the halo.
    #[inline(always)]
    fn for_each_row(&self, mut work: impl FnMut(u32)) {
        let mut row = BLOCK_SIZE - 1 - thread::thread_idx_x();
        while row < self.rows {
            work(row);
            row += BLOCK_SIZE;
        }
    }

    /// This thread's part of `r . z` and `r . r`.
    ///
    /// # Safety
    /// The rules at the head of this family.
    #[inline(always)]
    unsafe fn dots(&self) -> [f64; 2] {
        let mut dots = [0.0; 2];
        // SAFETY: a thread has rows of its own.
        self.for_each_row(|row| unsafe { add_dots(&mut dots, self.r.load(row), self.z.load(row)) });
        dots
    }

    /// Puts `r . z` and `r . r` where the next sum finds them.
    ///
    /// # Safety
    /// As for [`Exchange::put`].
    #[inline(always)]
    unsafe fn put_dots(&self, exchange: &Exchange, dots: [f64; 2]) {
        let mut of_warp = [0.0; 2];
        let first_row = (BLOCK_SIZE - 1 - thread::thread_idx_x()) / WARP_SIZE * WARP_SIZE;
        // SAFETY: the caller's promise; whole warps have rows, or none of their threads has.
        unsafe {
            if first_row < self.rows {
                of_warp = over_warp::<2, 1>(dots);
            }
            exchange.put(0, of_warp[0]);
            exchange.put(1, of_warp[1]);
        }
    }

    /// Waits for `q` of the halo.
    ///
    /// # Safety
    /// The rules at the head of this family.
    #[inline(always)]
    unsafe fn fetch_halo(&self, args: &Args<T>, share: &Share<T>, number: u32) {
        // SAFETY: rows of the halo; a thread has places of its own.
        for_each(self.halo.rows, |place| unsafe {
            self.halo.q.store(place, wait_for_element(words(args, share.halo_row(args, place), number), number));
        });
    }

    /// This thread's part of `p . A p` for the next direction.
    ///
    /// # Safety
    /// The rules at the head of this family; after a barrier of the block that has made `q` visible.
    #[inline(always)]
    unsafe fn direction_dot(&self, beta: T) -> f64 {
        let mut dot = 0.0;
        // SAFETY: a thread has rows of its own.
        self.for_each_row(|row| unsafe {
            let (p, s) = self.direction(row, beta);
            dot = GpuFloat::mul_add(p.widen(), s.widen(), dot);
        });
        dot
    }

    /// `z + beta p`, and the matrix times it.
    ///
    /// # Safety
    /// As for [`direction_dot`](Self::direction_dot); there is such a row.
    #[inline(always)]
    unsafe fn direction(&self, row: u32, beta: T) -> (T, T) {
        // SAFETY: the caller's promise.
        unsafe {
            let (p, s) = (self.p.load(row), self.s.load(row));
            (beta.mul_add(p, self.z.load(row)), beta.mul_add(s, self.q.load(row)))
        }
    }

    /// The pending step, `x = x + old_alpha p`, and the next one: `p = z + beta p`, `s = q + beta s`, `r = r - alpha s`, `z = M r`. Returns this thread's part of
    /// `r . z` and `r . r`.
    ///
    /// # Safety
    /// The rules at the head of this family; a barrier of the block is between this and a product, before and after.
    #[inline(always)]
    unsafe fn step(&self, old_alpha: T, alpha: T, beta: T) -> [f64; 2] {
        let mut dots = [0.0; 2];
        // SAFETY: a thread has rows and places of its own.
        unsafe {
            self.for_each_row(|row| {
                self.x.store(row, old_alpha.mul_add(self.p.load(row), self.x.load(row)));
                let (p, s) = self.direction(row, beta);
                let r = (-alpha).mul_add(s, self.r.load(row));
                let z = self.diagonal.load(row) * r;
                self.p.store(row, p);
                self.s.store(row, s);
                self.r.store(row, r);
                self.z.store(row, z);
                add_dots(&mut dots, r, z);
            });
            let halo = &self.halo;
            for_each(self.halo.rows, |place| {
                let s = beta.mul_add(halo.s.load(place), halo.q.load(place));
                let r = (-alpha).mul_add(s, halo.r.load(place));
                halo.s.store(place, s);
                halo.r.store(place, r);
                halo.z.store(place, halo.diagonal.load(place) * r);
            });
        }
        dots
    }

    /// `x = x + alpha p`.
    ///
    /// # Safety
    /// The rules at the head of this family.
    #[inline(always)]
    unsafe fn take_pending(&self, alpha: T) {
        // SAFETY: a thread has rows of its own.
        self.for_each_row(|row| unsafe {
            self.x.store(row, alpha.mul_add(self.p.load(row), self.x.load(row)));
        });
    }

    /// Leaves the vectors for the next launch.
    ///
    /// # Safety
    /// The rules at the head of this family.
    #[inline(always)]
    unsafe fn store(&self, args: &Args<T>, first_row: u32) {
        // SAFETY: a thread has rows of its own.
        self.for_each_row(|row| unsafe {
            let at = (first_row + row) as usize;
            mem::store(args.x.add(at), self.x.load(row));
            mem::store(args.r.add(at), self.r.load(row));
            mem::store(args.p.add(at), self.p.load(row));
            mem::store(args.s.add(at), self.s.load(row));
        });
    }
}

#[inline(always)]
fn add_dots<T: Scalar>(dots: &mut [f64; 2], r: T, z: T) {
    dots[0] = GpuFloat::mul_add(r.widen(), z.widen(), dots[0]);
    dots[1] = GpuFloat::mul_add(r.widen(), r.widen(), dots[1]);
}

/// The words of a row: in turns one of two sets, because a block may leave the next ones while others still wait for these.
#[inline(always)]
fn words<T: Scalar>(args: &Args<T>, row: usize, number: u32) -> *mut u64 {
    args.words.wrapping_add((2 * row + set(number) as usize) * const { words_of_row(size_of::<T>()) })
}

/// The set of slots or words for a number: in turns one of two.
#[inline(always)]
fn set(number: u32) -> u32 {
    number / 2 % 2
}

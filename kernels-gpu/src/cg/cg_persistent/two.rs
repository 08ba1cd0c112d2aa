//! The method with two reductions in each iteration.

use cuda_std::{GpuFloat, mem, shared::Shared, thread};

use super::{
    Args, Reductions,
    exchange::{Exchange, leave_element, wait_for_element},
    share::{Room, Share, for_each},
    words_of_row,
};
use crate::{
    Scalar,
    cg_state::{self, counter, scalar, status},
};

/// The body of every entry with two reductions. `LANES` is a power of two up to 32.
///
/// # Safety
/// The rules at the head of this family.
#[inline(always)]
pub(super) unsafe fn iterate<T: Scalar, const LANES: u32>(args: Args<T>) {
    thread::launch_bounds::<{ super::BLOCK_SIZE }, 1>();
    let state = args.state;
    // SAFETY: the rules of this module. All threads of the grid compute the same scalars, and so take the same way.
    unsafe {
        if state.counter(counter::STATUS) != status::RUNNING {
            return;
        }
        let target = state.scalar(scalar::TARGET);
        let limit = state.counter(counter::LIMIT);
        let mut iteration = state.counter(counter::ITERATION);
        let mut rz = state.scalar(scalar::RZ);
        let exchange = Exchange::new(&args);
        let vectors = Vectors::load(&args);
        exchange.leave::<2, true>([0.0; 2], args.epoch, 1);
        exchange.collect::<2, true>(args.epoch, 1);

        let mut status = status::RUNNING;
        let mut done = 0;
        while status == status::RUNNING && done < args.iterations {
            done += 1;
            let epoch = args.epoch + done;
            exchange.leave::<1, false>([vectors.product::<LANES>(&args)], epoch, 0);
            let [pq] = exchange.collect::<1, false>(epoch, 0);
            let alpha = match cg_state::step_length(rz, pq) {
                Ok(alpha) => T::narrow(alpha),
                Err(error) => {
                    status = error;
                    break;
                }
            };
            exchange.leave::<2, false>(vectors.update(&args, alpha, epoch), epoch, 1);
            // While others arrive.
            let inverse_rz = 1.0 / rz;
            vectors.fetch_halo(&args, epoch);
            let [rz_new, rr] = exchange.collect::<2, false>(epoch, 1);
            status = cg_state::verdict(rr, rz_new, target, iteration + 1, limit, size_of::<T>());
            if status == status::NOT_FINITE {
                break;
            }
            iteration += 1;
            // The inverse of the least numbers overflows.
            let beta = if inverse_rz.is_finite() { rz_new * inverse_rz } else { rz_new / rz };
            vectors.step(alpha, T::narrow(beta));
            rz = rz_new;
            if thread::index_1d() == 0 {
                state.post_norm(iteration, rr);
            }
            thread::sync_threads();
        }
        vectors.store(&args);
        if thread::index_1d() == 0 {
            state.set_scalar(scalar::RZ, rz);
            state.set_counter(counter::ITERATION, iteration);
            if status != status::RUNNING {
                state.end(status, iteration, true);
            }
        }
    }
}

/// The block's rows of the matrix, and its part of the vectors.
struct Vectors<T> {
    share: Share<T>,
    x: Shared<T>,
    r: Shared<T>,
    q: Shared<T>,
    diagonal: Shared<T>,
    p: Shared<T>,
    p_of_halo: Shared<T>,
    z_of_halo: Shared<T>,
}

impl<T: Scalar> Vectors<T> {
    /// # Safety
    /// The rules at the head of this family; all threads of the block call it.
    #[inline(always)]
    unsafe fn load(args: &Args<T>) -> Self {
        // SAFETY: rows and halo exist, and the shared memory has room for their vectors.
        unsafe {
            let share = Share::load(args, Reductions::Two);
            let room = Room::of(Reductions::Two, share.rows, share.halo);
            let vectors = Self {
                x: room.of_rows(0),
                r: room.of_rows(1),
                q: room.of_rows(2),
                diagonal: room.of_rows(3),
                p: room.gathered(),
                p_of_halo: room.gathered().offset(share.rows),
                z_of_halo: room.of_halo(0),
                share,
            };
            for_each(vectors.share.rows, |row| {
                let at = (vectors.share.first_row + row) as usize;
                vectors.x.store(row, mem::load(args.x.add(at)));
                vectors.r.store(row, mem::load(args.r.add(at)));
                vectors.p.store(row, mem::load(args.p.add(at)));
                vectors.diagonal.store(row, Share::diagonal(args, at));
            });
            for_each(vectors.share.halo, |place| {
                let row = vectors.share.halo_row(args, place);
                vectors.p_of_halo.store(place, mem::load(args.p.add(row)));
            });
            vectors
        }
    }

    /// `q = A p` for the rows of the block, and this thread's part of `p . q`.
    ///
    /// # Safety
    /// As for [`Share::product`].
    #[inline(always)]
    unsafe fn product<const LANES: u32>(&self, args: &Args<T>) -> f64 {
        // SAFETY: the caller's promise; one thread writes each row.
        unsafe { self.share.product::<LANES>(args, |row, sum| self.q.store(row, sum)) }
    }

    /// The new residual and `z` of the block's rows, `z` also for the other blocks; and this thread's part of `r . z` and `r . r`.
    ///
    /// # Safety
    /// The rules at the head of this family; after a barrier of the block that has made `q` visible, and a sum over the grid after which
    /// nobody reads the `z` before.
    #[inline(always)]
    unsafe fn update(&self, args: &Args<T>, alpha: T, epoch: u32) -> [f64; 2] {
        let mut dots = [0.0; 2];
        // SAFETY: a thread has rows of its own.
        for_each(self.share.rows, |row| unsafe {
            let r = (-alpha).mul_add(self.q.load(row), self.r.load(row));
            let z = self.diagonal.load(row) * r;
            let words = args.words.add((self.share.first_row + row) as usize * const { words_of_row(size_of::<T>()) });
            leave_element(words, epoch, z);
            self.r.store(row, r);
            dots[0] = GpuFloat::mul_add(r.widen(), z.widen(), dots[0]);
            dots[1] = GpuFloat::mul_add(r.widen(), r.widen(), dots[1]);
        });
        dots
    }

    /// Waits for `z` of the halo.
    ///
    /// # Safety
    /// The rules at the head of this family.
    #[inline(always)]
    unsafe fn fetch_halo(&self, args: &Args<T>, epoch: u32) {
        // SAFETY: rows of the halo; a thread has places of its own.
        for_each(self.share.halo, |place| unsafe {
            let words = args.words.add(self.share.halo_row(args, place) * const { words_of_row(size_of::<T>()) });
            self.z_of_halo.store(place, wait_for_element(words, epoch));
        });
    }

    /// `x = x + alpha p` and `p = z + beta p`.
    ///
    /// # Safety
    /// The rules at the head of this family; a barrier of the block is between this and a product, before and after.
    #[inline(always)]
    unsafe fn step(&self, alpha: T, beta: T) {
        // SAFETY: a thread has rows and places of its own.
        unsafe {
            for_each(self.share.rows, |row| {
                let p = self.p.load(row);
                self.x.store(row, alpha.mul_add(p, self.x.load(row)));
                self.p.store(row, beta.mul_add(p, self.diagonal.load(row) * self.r.load(row)));
            });
            for_each(self.share.halo, |place| {
                self.p_of_halo.store(place, beta.mul_add(self.p_of_halo.load(place), self.z_of_halo.load(place)));
            });
        }
    }

    /// Leaves the vectors for the next launch.
    ///
    /// # Safety
    /// The rules at the head of this family.
    #[inline(always)]
    unsafe fn store(&self, args: &Args<T>) {
        // SAFETY: a thread has rows of its own.
        for_each(self.share.rows, |row| unsafe {
            let at = (self.share.first_row + row) as usize;
            mem::store(args.x.add(at), self.x.load(row));
            mem::store(args.r.add(at), self.r.load(row));
            mem::store(args.p.add(at), self.p.load(row));
        });
    }
}

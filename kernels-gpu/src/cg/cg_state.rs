//! What the kernels of the conjugate gradient method know of its course, and what the host reads of it.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::{atomic::atomic_store_u64_system, mem, thread};

/// Places in [`State::scalars`].
pub mod scalar {
    /// The length of the step along the direction.
    pub const ALPHA: usize = 0;
    /// The share of the old direction in the new one.
    pub const BETA: usize = 1;
    /// `r . z`, of the residual and the preconditioned residual.
    pub const RZ: usize = 2;
    /// `r . r` at or below which the method ends.
    pub const TARGET: usize = 3;
    /// How many there are.
    pub const COUNT: usize = 4;
}

/// Places in [`State::counters`].
pub mod counter {
    /// A [`status`](super::status).
    pub const STATUS: usize = 0;
    /// Whether kernels have nothing more to do.
    pub const STOPPED: usize = 1;
    /// Iterations done.
    pub const ITERATION: usize = 2;
    /// The most iterations.
    pub const LIMIT: usize = 3;
    /// Blocks that have arrived at a sum; 0 between launches.
    pub const ARRIVALS: usize = 4;
    /// How many there are.
    pub const COUNT: usize = 5;
}

/// How the method stands.
pub mod status {
    /// It goes on.
    pub const RUNNING: u32 = 0;
    /// `r . r` is at most the target.
    pub const CONVERGED: u32 = 1;
    /// The iterations have reached the limit.
    pub const AT_LIMIT: u32 = 2;
    /// `p . A p` is not positive.
    pub const INDEFINITE: u32 = 3;
    /// `r . z` is not positive.
    pub const INDEFINITE_PRECONDITIONER: u32 = 4;
    /// A number is infinite or NaN.
    pub const NOT_FINITE: u32 = 5;
    /// `r . z` is so small that the products of vectors underflow; with one reduction also where the step length does.
    pub const UNDERFLOW: u32 = 6;
}

/// Where `z` comes from.
pub mod preconditioner {
    /// It is `r`.
    pub const NONE: u32 = 0;
    /// `diagonal[i] * r[i]`.
    pub const DIAGONAL: u32 = 1;
    /// The vector `z`, which is computed between the kernels.
    pub const STORED: u32 = 2;
}

/// Places in [`State::mailbox`].
pub mod mail {
    /// The status in the upper half and the iterations done in the lower one, written once, when the method does not go on; an
    /// iteration whose numbers are not finite has not been done.
    pub const END: usize = 0;
    /// The first of the squared residual norms: bits of `r . r` after iteration `i` at `i % NORMS`.
    pub const FIRST_NORM: usize = 1;
    /// How many norms there is room for.
    pub const NORMS: usize = 1024;
    /// How many words there are.
    pub const COUNT: usize = FIRST_NORM + NORMS;
}

use crate::args::args;

args! {
    /// The arrays, which all kernels of a solution share.
    pub struct State {
        /// [`scalar::COUNT`] numbers.
        write scalars: f64 [scalar::COUNT],
        /// [`counter::COUNT`] numbers.
        write counters: u32 [counter::COUNT],
        /// [`mail::COUNT`] words that the host reads meanwhile.
        write mailbox: u64 [mail::COUNT],
    }
}

/// The length of the step, from `r . z` and `p . A p`.
///
/// # Errors
/// The status that the method ends with.
#[inline(always)]
pub fn step_length(rz: f64, pq: f64) -> Result<f64, u32> {
    let alpha = rz / pq;
    if !pq.is_finite() || !alpha.is_finite() && pq > 0.0 {
        Err(status::NOT_FINITE)
    } else if pq <= 0.0 {
        Err(status::INDEFINITE)
    } else {
        Ok(alpha)
    }
}

/// The status after an iteration with vectors of so many bytes an element.
#[inline(always)]
#[must_use]
pub fn verdict(rr: f64, rz: f64, target: f64, iteration: u32, limit: u32, element_bytes: usize) -> u32 {
    // From there on elements of vectors, the roots of such numbers, lose digits, or products of them do.
    let least = if element_bytes == 4 { 1e-64 } else { 1e-290 };
    if !rr.is_finite() || !rz.is_finite() {
        status::NOT_FINITE
    } else if rr <= target {
        status::CONVERGED
    } else if rz > -least && rz < least {
        status::UNDERFLOW
    } else if rz <= 0.0 {
        status::INDEFINITE_PRECONDITIONER
    } else if iteration >= limit {
        status::AT_LIMIT
    } else {
        status::RUNNING
    }
}

/// What the host gets as the end.
#[inline(always)]
#[must_use]
pub fn end_word(status: u32, iteration: u32) -> u64 {
    (status as u64) << 32 | iteration as u64
}

/// # Safety
/// For every function: the arrays of the state are live global memory, and no other thread accesses them until the launch ends, or
/// a barrier of the grid.
impl State {
    #[inline(always)]
    pub(crate) unsafe fn scalar(&self, place: usize) -> f64 {
        // SAFETY: there is such a scalar.
        unsafe { mem::load(self.scalars.add(place)) }
    }

    #[inline(always)]
    pub(crate) unsafe fn set_scalar(&self, place: usize, value: f64) {
        // SAFETY: there is such a scalar.
        unsafe { mem::store(self.scalars.add(place), value) }
    }

    #[inline(always)]
    pub(crate) unsafe fn counter(&self, place: usize) -> u32 {
        // SAFETY: there is such a counter.
        unsafe { mem::load(self.counters.add(place)) }
    }

    #[inline(always)]
    pub(crate) unsafe fn set_counter(&self, place: usize, value: u32) {
        // SAFETY: there is such a counter.
        unsafe { mem::store(self.counters.add(place), value) }
    }

    /// Tells the host the squared norm after an iteration.
    #[inline(always)]
    pub(crate) unsafe fn post_norm(&self, iteration: u32, rr: f64) {
        // SAFETY: the place is below the number of words.
        unsafe {
            let place = mail::FIRST_NORM + iteration as usize % mail::NORMS;
            atomic_store_u64_system(self.mailbox.add(place), Relaxed, rr.to_bits());
        }
    }

    /// Ends the method, and tells the host; `at_once`, or after the kernel of the direction.
    #[inline(always)]
    pub(crate) unsafe fn end(&self, status: u32, iteration: u32, at_once: bool) {
        // SAFETY: there are such places.
        unsafe {
            self.set_counter(counter::STATUS, status);
            if at_once {
                self.set_counter(counter::STOPPED, 1);
            }
            atomic_store_u64_system(self.mailbox.add(mail::END), Relaxed, end_word(status, iteration));
        }
    }

    /// Goes on, or not, with the step that `p . A p` leads to.
    #[inline(always)]
    pub(crate) unsafe fn after_product(&self, pq: f64) {
        // SAFETY: the caller's promise.
        unsafe {
            match step_length(self.scalar(scalar::RZ), pq) {
                Ok(alpha) => self.set_scalar(scalar::ALPHA, alpha),
                Err(status) => self.end(status, self.counter(counter::ITERATION), true),
            }
        }
    }

    /// Goes on, or not, from the new residual. `begins` where it is that of the start, which no iteration led to.
    #[inline(always)]
    pub(crate) unsafe fn after_update(&self, rz: f64, rr: f64, begins: bool, element_bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let iteration = self.counter(counter::ITERATION) + u32::from(!begins);
            let (target, limit) = (self.scalar(scalar::TARGET), self.counter(counter::LIMIT));
            let status = verdict(rr, rz, target, iteration, limit, element_bytes);
            if status == status::NOT_FINITE {
                return self.end(status, self.counter(counter::ITERATION), true);
            }
            let old = self.scalar(scalar::RZ);
            self.set_scalar(scalar::RZ, rz);
            if begins {
                self.set_scalar(scalar::ALPHA, 0.0);
                self.set_scalar(scalar::BETA, 0.0);
            } else {
                self.set_scalar(scalar::BETA, rz / old);
                self.set_counter(counter::ITERATION, iteration);
                self.post_norm(iteration, rr);
            }
            if status != status::RUNNING {
                self.end(status, iteration, false);
            }
        }
    }

    /// Has the kernels that follow do nothing. For one that finds the method ended before it.
    #[inline(always)]
    pub(crate) unsafe fn stop(&self) {
        if thread::index_1d() == 0 {
            // SAFETY: no other thread reads this counter in the same launch.
            unsafe { self.set_counter(counter::STOPPED, 1) }
        }
    }
}

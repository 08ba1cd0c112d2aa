//! Many iterations of the conjugate gradient method in one cooperative launch.
//!
//! # The mathematics
//! That of `cg_steps`, with no preconditioner or a diagonal one. Where a block needs the direction of another's rows, it forms
//! `p = z + beta * p_old` from the two that these have left in global memory, which saves a barrier: an iteration has two,
//! each together with a sum over the grid.
//! ```text
//! product     q = A (z + beta p_old) for the block's rows         -> barrier 1, p . q
//! update      p, r, z; z and p for the others, x meanwhile        -> barrier 2, r . z and r . r
//! ```
//!
//! # When to use it
//! Systems that the caches hold: there the launches of kernels are what takes time. Vectors and as much of the matrix as fits stay in
//! shared memory from iteration to iteration (Zhang et al., "PERKS: a locality-optimized execution model for iterative
//! memory-bound GPU applications", 2023).
//!
//! # Blocks, rows, shared memory
//! ```text
//! block b     rows block_rows[b]..block_rows[b + 1], of about as many entries as those of any other block
//! its memory  | x | r | z | p | q | diagonal | offsets of its rows | values | columns |    of its first entries, as many as fit
//! ```
//!
//! # Barriers with sums
//! Each block leaves its part of a sum in a slot of global memory, with the number of the barrier in the same 64-bit words, and
//! reads the slots of all until they bear that number. Nothing else is exchanged at barrier 1; at barrier 2 fences order `z` and `p`
//! before. Two sets of slots and two copies of `z` and `p` take turns, so that no block overwrites what another still reads.
//!
//! # Bytes moved
//! The matrix that does not fit, from the L2 cache, and `p` and `z` of the columns of the block, an iteration.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. None overlaps another, and nothing else accesses
//!    any of them during the launch, but for the host the mailbox.
//! 2. `row_offsets` starts at 0 and never falls, and the entries that it names exist; every column index is below `rows`.
//!    `block_rows` starts at 0, never falls and ends at `rows`.
//! 3. The launch is cooperative, of [`BLOCK_SIZE`] threads a block in one dimension, at most [`BLOCK_SIZE`] blocks, and
//!    `shared_bytes` of dynamic shared memory, at least [`vector_bytes`] of each block's rows.
//! 4. No slot holds a number from `epoch` to `epoch + iterations`.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use cuda_std::{
    GpuFloat,
    atomic::{atomic_load_u64_device, atomic_store_u64_device, device_thread_fence},
    mem,
    shared::{Shared, dynamic_shared_mem},
    shared_array, thread,
    warp::{self, WARP_SIZE},
};

use crate::{
    Scalar,
    cg_state::{self, State, counter, scalar, status},
    entries::entries,
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 768;
const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// Words of a slot: two dots of two halves.
const SLOT_WORDS: usize = 4;

/// Words of `slots` for so many blocks.
#[must_use]
pub const fn slot_words(blocks: u32) -> usize {
    2 * SLOT_WORDS * blocks as usize
}

/// Bytes of static shared memory, which `shared_bytes` leaves room for.
pub const STATIC_SHARED_BYTES: u32 = 2 * WARPS * 2 * 8;

/// Bytes of shared memory for the vectors and offsets of so many rows; what is left is for entries.
#[must_use]
pub const fn vector_bytes(rows: u32, element_bytes: u32) -> u32 {
    let places = rows.next_multiple_of(4);
    6 * places * element_bytes + (places + 4) * 4
}

/// The arguments of every entry, passed by value: elements `T`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Args<T> {
    /// Rows, and columns, of the matrix.
    pub rows: u32,
    /// Whether there is a `diagonal`.
    pub has_diagonal: u32,
    /// The most iterations of this launch.
    pub iterations: u32,
    /// The number of the launch's first barrier.
    pub epoch: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The first row of each block, and after the last `rows`.
    pub block_rows: *const u32,
    /// `rows + 1` offsets.
    pub row_offsets: *const u32,
    /// The column indices.
    pub col_indices: *const u32,
    /// The values.
    pub values: *const T,
    /// The inverse of the diagonal, `rows` elements.
    pub diagonal: *const T,
    /// The solution, `rows` elements, and so have the next two.
    pub x: *mut T,
    /// The residual.
    pub r: *mut T,
    /// The direction.
    pub p: *mut T,
    /// Two times `rows` pairs of `z` and `p`.
    pub pairs: *mut T,
    /// [`slot_words`] words.
    pub slots: *mut u64,
    /// How the method stands.
    pub state: State,
}

entries! {
    cg_persistent_f32_t1(Args<f32>): Some(crate::DType::F32), u32, 1 lanes, BLOCK_SIZE, "`f32`, a lane a row." => iterate::<f32, 1>;
    cg_persistent_f32_t2(Args<f32>): Some(crate::DType::F32), u32, 2 lanes, BLOCK_SIZE, "`f32`, 2 lanes a row." => iterate::<f32, 2>;
    cg_persistent_f32_t4(Args<f32>): Some(crate::DType::F32), u32, 4 lanes, BLOCK_SIZE, "`f32`, 4 lanes a row." => iterate::<f32, 4>;
    cg_persistent_f32_t8(Args<f32>): Some(crate::DType::F32), u32, 8 lanes, BLOCK_SIZE, "`f32`, 8 lanes a row." => iterate::<f32, 8>;
    cg_persistent_f32_t16(Args<f32>): Some(crate::DType::F32), u32, 16 lanes, BLOCK_SIZE, "`f32`, 16 lanes a row." => iterate::<f32, 16>;
    cg_persistent_f32_t32(Args<f32>): Some(crate::DType::F32), u32, 32 lanes, BLOCK_SIZE, "`f32`, 32 lanes a row." => iterate::<f32, 32>;
    cg_persistent_f64_t1(Args<f64>): Some(crate::DType::F64), u32, 1 lanes, BLOCK_SIZE, "`f64`, a lane a row." => iterate::<f64, 1>;
    cg_persistent_f64_t2(Args<f64>): Some(crate::DType::F64), u32, 2 lanes, BLOCK_SIZE, "`f64`, 2 lanes a row." => iterate::<f64, 2>;
    cg_persistent_f64_t4(Args<f64>): Some(crate::DType::F64), u32, 4 lanes, BLOCK_SIZE, "`f64`, 4 lanes a row." => iterate::<f64, 4>;
    cg_persistent_f64_t8(Args<f64>): Some(crate::DType::F64), u32, 8 lanes, BLOCK_SIZE, "`f64`, 8 lanes a row." => iterate::<f64, 8>;
    cg_persistent_f64_t16(Args<f64>): Some(crate::DType::F64), u32, 16 lanes, BLOCK_SIZE, "`f64`, 16 lanes a row." => iterate::<f64, 16>;
    cg_persistent_f64_t32(Args<f64>): Some(crate::DType::F64), u32, 32 lanes, BLOCK_SIZE, "`f64`, 32 lanes a row." => iterate::<f64, 32>;
}

/// The body of every entry. `LANES` is a power of two up to 32.
///
/// # Safety
/// The rules at the head of this module.
#[inline(always)]
unsafe fn iterate<T: Scalar, const LANES: u32>(args: Args<T>) {
    thread::launch_bounds::<BLOCK_SIZE, 1>();
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
        let share = Share::load(&args);
        exchange.all_sum::<2, true>([0.0; 2], args.epoch);

        let mut beta = T::ZERO;
        let mut status = status::RUNNING;
        let mut done = 0;
        while status == status::RUNNING && done < args.iterations {
            let pq = share.product::<LANES>(&args, done % 2, beta);
            done += 1;
            let [pq] = exchange.all_sum::<1, false>([pq], args.epoch + done);
            let alpha = match cg_state::step_length(rz, pq) {
                Ok(alpha) => T::narrow(alpha),
                Err(error) => {
                    status = error;
                    break;
                }
            };
            let dots = share.update(&args, done % 2, alpha, beta);
            let [rz_new, rr] = exchange.all_sum::<2, true>(dots, args.epoch + done);
            status = cg_state::verdict(rr, rz_new, target, iteration + 1, limit);
            if status == status::NOT_FINITE {
                break;
            }
            iteration += 1;
            share.step(alpha);
            beta = T::narrow(rz_new / rz);
            rz = rz_new;
            if thread::index_1d() == 0 {
                state.post_norm(iteration, rr);
            }
        }
        share.store(&args, beta);
        if thread::index_1d() == 0 {
            state.set_scalar(scalar::RZ, rz);
            state.set_counter(counter::ITERATION, iteration);
            if status != status::RUNNING {
                state.end(status, iteration, true);
            }
        }
    }
}

/// The rows of a block, in its shared memory.
struct Share<T> {
    first_row: u32,
    rows: u32,
    first_entry: u32,
    /// Entries that are in shared memory: the first ones.
    cached: u32,
    x: Shared<T>,
    r: Shared<T>,
    z: Shared<T>,
    p: Shared<T>,
    q: Shared<T>,
    diagonal: Shared<T>,
    /// Relative to the first entry.
    offsets: Shared<u32>,
    values: Shared<T>,
    columns: Shared<u32>,
}

impl<T: Scalar> Share<T> {
    /// Fetches the rows, and leaves `z` and `p` for the other blocks, such that `z + 0 * p` is the direction.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads of the block call it.
    #[inline(always)]
    unsafe fn load(args: &Args<T>) -> Self {
        // SAFETY: rows and entries of the block exist, and the shared memory has room for them by the third rule.
        unsafe {
            let block = thread::block_idx_x() as usize;
            let first_row = mem::load_readonly(args.block_rows.add(block));
            let rows = mem::load_readonly(args.block_rows.add(block + 1)) - first_row;
            let first_entry = mem::load_readonly(args.row_offsets.add(first_row as usize));
            let entries = mem::load_readonly(args.row_offsets.add((first_row + rows) as usize)) - first_entry;
            let places = rows.next_multiple_of(4);
            let vectors = dynamic_shared_mem::<T>();
            let offsets = vectors.offset(6 * places).cast::<u32>();
            let values = offsets.offset(places + 4).cast::<T>();
            let room = (args.shared_bytes - vector_bytes(rows, size_of::<T>() as u32)) / (size_of::<T>() as u32 + 4);
            // The columns after the values stay aligned.
            let cached = if entries < room { entries } else { room & !3 };
            let share = Self {
                first_row,
                rows,
                first_entry,
                cached,
                x: vectors,
                r: vectors.offset(places),
                z: vectors.offset(2 * places),
                p: vectors.offset(3 * places),
                q: vectors.offset(4 * places),
                diagonal: vectors.offset(5 * places),
                offsets,
                values,
                columns: values.offset(cached).cast::<u32>(),
            };
            let mut row = thread::thread_idx_x();
            while row <= rows {
                let offset = mem::load_readonly(args.row_offsets.add((first_row + row) as usize));
                share.offsets.store(row, offset - first_entry);
                row += BLOCK_SIZE;
            }
            share.for_rows(|row, at| {
                let p = mem::load(args.p.add(at));
                share.x.store(row, mem::load(args.x.add(at)));
                share.r.store(row, mem::load(args.r.add(at)));
                share.z.store(row, p);
                share.p.store(row, T::ZERO);
                let diagonal = if args.has_diagonal != 0 { mem::load_readonly(args.diagonal.add(at)) } else { T::ONE };
                share.diagonal.store(row, diagonal);
                mem::store_v2(args.pairs.add(2 * at), [p, T::ZERO]);
            });
            let mut entry = thread::thread_idx_x();
            while entry < cached {
                let at = first_entry as usize + entry as usize;
                share.values.store(entry, mem::load_streaming(args.values.add(at)));
                share.columns.store(entry, mem::load_streaming(args.col_indices.add(at)));
                entry += BLOCK_SIZE;
            }
            share
        }
    }

    /// Calls `work` for each row of this thread with its number in the block, and in the matrix.
    #[inline(always)]
    fn for_rows(&self, mut work: impl FnMut(u32, usize)) {
        let mut row = thread::thread_idx_x();
        while row < self.rows {
            work(row, (self.first_row + row) as usize);
            row += BLOCK_SIZE;
        }
    }

    /// `q = A (z + beta p)` for the rows of the block, and this thread's part of `(z + beta p) . q`.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads of the block call it, after a barrier that has made the pairs of all
    /// blocks, in the copy of that number, visible.
    #[inline(always)]
    unsafe fn product<const LANES: u32>(&self, args: &Args<T>, copy: u32, beta: T) -> f64 {
        let lane = thread::thread_idx_x() % LANES;
        let pairs = args.pairs.wrapping_add(2 * copy as usize * args.rows as usize);
        let mut dot = 0.0;
        let mut first = 0;
        while first < self.rows {
            let row = first + thread::thread_idx_x() / LANES;
            let ours = row < self.rows;
            // SAFETY: rows of the block and their entries; columns are rows too; all lanes of a warp come to the shuffles.
            unsafe {
                let mut sum = T::ZERO;
                if ours {
                    let (begin, end) = (self.offsets.load(row), self.offsets.load(row + 1));
                    sum = self.row_sum::<LANES>(args, pairs, begin + lane, end, beta);
                }
                let mut distance = LANES / 2;
                while distance > 0 {
                    sum += warp::warp_shuffle_down(u32::MAX, sum, distance, LANES).0;
                    distance /= 2;
                }
                if ours && lane == 0 {
                    self.q.store(row, sum);
                    let p = beta.mul_add(self.p.load(row), self.z.load(row));
                    dot = GpuFloat::mul_add(p.widen(), sum.widen(), dot);
                }
            }
            first += BLOCK_SIZE / LANES;
        }
        dot
    }

    /// The sum over every `LANES`th entry of the block from `entry` to `end`.
    ///
    /// # Safety
    /// As for [`product`](Self::product), and the entries are the block's.
    #[inline(always)]
    unsafe fn row_sum<const LANES: u32>(&self, args: &Args<T>, pairs: *const T, mut entry: u32, end: u32, beta: T) -> T {
        let mut sum = T::ZERO;
        while entry < end {
            let mut columns = [0; 4];
            let mut values = [T::ZERO; 4];
            // SAFETY: the caller's promise.
            unsafe {
                unroll!(K in [0, 1, 2, 3] {
                    let at = entry + K * LANES;
                    if at < end {
                        if at < self.cached {
                            columns[K as usize] = self.columns.load(at);
                            values[K as usize] = self.values.load(at);
                        } else {
                            let at = self.first_entry as usize + at as usize;
                            columns[K as usize] = mem::load_readonly(args.col_indices.add(at));
                            values[K as usize] = mem::load_readonly(args.values.add(at));
                        }
                    }
                });
                unroll!(K in [0, 1, 2, 3] {
                    if entry + K * LANES < end {
                        let [z, p] = mem::load_v2(pairs.add(2 * columns[K as usize] as usize));
                        sum = values[K as usize].mul_add(beta.mul_add(p, z), sum);
                    }
                });
            }
            entry += 4 * LANES;
        }
        sum
    }

    /// The new direction, residual and `z` of the block's rows, also for the other blocks; and this thread's part of `r . z` and
    /// `r . r`.
    ///
    /// # Safety
    /// The rules at the head of this module; after a barrier of the block that has made `q` visible, and of the grid after which nobody
    /// reads the copy of that number.
    #[inline(always)]
    unsafe fn update(&self, args: &Args<T>, copy: u32, alpha: T, beta: T) -> [f64; 2] {
        let pairs = args.pairs.wrapping_add(2 * copy as usize * args.rows as usize);
        let mut dots = [0.0; 2];
        // SAFETY: a thread has rows of its own.
        self.for_rows(|row, at| unsafe {
            let p = beta.mul_add(self.p.load(row), self.z.load(row));
            let r = (-alpha).mul_add(self.q.load(row), self.r.load(row));
            let z = self.diagonal.load(row) * r;
            mem::store_v2(pairs.add(2 * at), [z, p]);
            self.p.store(row, p);
            self.r.store(row, r);
            self.z.store(row, z);
            dots[0] = GpuFloat::mul_add(r.widen(), z.widen(), dots[0]);
            dots[1] = GpuFloat::mul_add(r.widen(), r.widen(), dots[1]);
        });
        dots
    }

    /// `x = x + alpha p` for the rows of this thread.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn step(&self, alpha: T) {
        // SAFETY: a thread has rows of its own.
        self.for_rows(|row, _| unsafe { self.x.store(row, alpha.mul_add(self.p.load(row), self.x.load(row))) });
    }

    /// Leaves the vectors for the next launch.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn store(&self, args: &Args<T>, beta: T) {
        // SAFETY: a thread has rows of its own.
        self.for_rows(|row, at| unsafe {
            mem::store(args.x.add(at), self.x.load(row));
            mem::store(args.r.add(at), self.r.load(row));
            mem::store(args.p.add(at), beta.mul_add(self.p.load(row), self.z.load(row)));
        });
    }
}

/// What barriers need: room for the sums of warps, before and after the exchange.
struct Exchange {
    slots: *mut u64,
    before: Shared<f64>,
    after: Shared<f64>,
}

impl Exchange {
    #[inline(always)]
    fn new<T>(args: &Args<T>) -> Self {
        Self {
            slots: args.slots,
            before: shared_array![f64; 2 * WARPS as usize],
            after: shared_array![f64; 2 * WARPS as usize],
        }
    }

    /// Waits until all blocks are here, and returns the sums over the grid of what each thread has, the same in every thread. If
    /// `PUBLISH`, what a block has written to global memory is visible to all after it. One dot has another set of slots than two.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads call it, in turns with one dot and with two, each time with a new number.
    #[inline(always)]
    unsafe fn all_sum<const DOTS: usize, const PUBLISH: bool>(&self, dots: [f64; DOTS], epoch: u32) -> [f64; DOTS] {
        let (lane, warp) = (thread::thread_idx_x() % WARP_SIZE, thread::thread_idx_x() / WARP_SIZE);
        let blocks = thread::grid_dim_x();
        let set = (DOTS - 1) * SLOT_WORDS * blocks as usize;
        let slot = |block: u32| self.slots.wrapping_add(set + SLOT_WORDS * block as usize);
        // SAFETY: whole warps come to the shuffles, all threads to the barriers; places are below what there is room for. Sums of warps
        // are read before the next barrier of the block, after which alone they are overwritten.
        unsafe {
            let dots = over_warp(dots);
            if lane == 0 {
                unroll!(D in [0, 1] {
                    if (D as usize) < DOTS {
                        self.before.store(D * WARPS + warp, dots[D as usize % DOTS]);
                    }
                });
            }
            thread::sync_threads();
            if warp == 0 {
                let mut of_block = [0.0; DOTS];
                unroll!(D in [0, 1] {
                    if (D as usize) < DOTS {
                        of_block[D as usize % DOTS] = if lane < WARPS { self.before.load(D * WARPS + lane) } else { 0.0 };
                    }
                });
                let of_block = over_warp(of_block);
                if lane == 0 {
                    if PUBLISH {
                        device_thread_fence(Release);
                    }
                    unroll!(D in [0, 1] {
                        if (D as usize) < DOTS {
                            let bits = of_block[D as usize % DOTS].to_bits();
                            let own = slot(thread::block_idx_x()).wrapping_add(2 * D as usize);
                            atomic_store_u64_device(own, Relaxed, word(epoch, bits as u32));
                            atomic_store_u64_device(own.wrapping_add(1), Relaxed, word(epoch, (bits >> 32) as u32));
                        }
                    });
                }
            }
            let mut of_grid = [0.0; DOTS];
            if thread::thread_idx_x() < blocks {
                let theirs = slot(thread::thread_idx_x());
                unroll!(D in [0, 1] {
                    if (D as usize) < DOTS {
                        of_grid[D as usize % DOTS] = wait(theirs.wrapping_add(2 * D as usize), epoch);
                    }
                });
                if PUBLISH {
                    device_thread_fence(Acquire);
                }
            }
            let of_grid = over_warp(of_grid);
            if lane == 0 {
                unroll!(D in [0, 1] {
                    if (D as usize) < DOTS {
                        self.after.store(D * WARPS + warp, of_grid[D as usize % DOTS]);
                    }
                });
            }
            thread::sync_threads();
            let mut sums = [0.0; DOTS];
            let mut warp = 0;
            while warp < blocks.div_ceil(WARP_SIZE) {
                unroll!(D in [0, 1] {
                    if (D as usize) < DOTS {
                        sums[D as usize % DOTS] += self.after.load(D * WARPS + warp);
                    }
                });
                warp += 1;
            }
            sums
        }
    }
}

#[inline(always)]
fn word(epoch: u32, half: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(half)
}

/// The number in two words, once both bear that number of the barrier.
///
/// # Safety
/// The words are live global memory, which atomics alone access.
#[inline(always)]
unsafe fn wait(words: *const u64, epoch: u32) -> f64 {
    loop {
        // SAFETY: the caller's promise.
        let (low, high) =
            unsafe { (atomic_load_u64_device(words, Relaxed), atomic_load_u64_device(words.wrapping_add(1), Relaxed)) };
        if (low >> 32) as u32 == epoch && (high >> 32) as u32 == epoch {
            return f64::from_bits(high << 32 | low & 0xffff_ffff);
        }
    }
}

/// The sums over a warp, in every lane.
///
/// # Safety
/// All 32 lanes call it.
#[inline(always)]
unsafe fn over_warp<const DOTS: usize>(mut dots: [f64; DOTS]) -> [f64; DOTS] {
    unroll!(DISTANCE in [16, 8, 4, 2, 1] {
        unroll!(D in [0, 1] {
            if (D as usize) < DOTS {
                // SAFETY: all 32 lanes are here.
                dots[D as usize % DOTS] +=
                    unsafe { warp::warp_shuffle_xor(u32::MAX, dots[D as usize % DOTS], DISTANCE, WARP_SIZE).0 };
            }
        });
    });
    dots
}

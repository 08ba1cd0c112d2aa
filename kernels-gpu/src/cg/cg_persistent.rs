//! Many iterations of the conjugate gradient method in one cooperative launch.
//!
//! # The mathematics
//! That of `cg_steps`, with no preconditioner or a diagonal one. A block has some rows of the matrix, and keeps for itself the direction
//! in all their columns: its own rows, and those of other blocks, its halo. It gets the halo's `z` each iteration, and forms
//! `p = z + beta * p` of it as the rows' own blocks do, to the bit.
//! ```text
//! product     q = A p for the block's rows                                      -> sum over the grid: p . q
//! update      r = r - alpha q, z = M r, leaves z for the other blocks           -> sums over the grid: r . z and r . r
//! step        fetches z of the halo meanwhile; x = x + alpha p, p = z + beta p
//! ```
//!
//! # When to use it
//! Systems that the caches hold: there the launches of kernels are what takes time. Vectors and as much of the matrix as fits stay in
//! shared memory from iteration to iteration (Zhang et al., "PERKS: a locality-optimized execution model for iterative
//! memory-bound GPU applications", 2023).
//!
//! # Blocks, rows, shared memory
//! ```text
//! block b     consecutive rows, with about as many entries as those of any other block; columns are places in its own p, in 16 bits
//! its memory  | x | r | q | diagonal | p of rows, p of halo | z of halo | offsets of rows | values | columns |   of its first entries
//! ```
//!
//! # Exchange without fences
//! What goes from block to block, sums and elements of `z`, goes in 64-bit words, half of each a number that says of which iteration it is: who
//! needs it reads the word until it bears that number (the LL protocol of NVIDIA's NCCL). So data need no other word to be
//! ordered with, and no fence. A word is written anew only after a sum to which its readers have added something that they computed from it.
//! One barrier with fences, at the beginning, orders what launches do before and after.
//!
//! # Bytes moved
//! An iteration: the halo's `z` and the entries that do not fit, from the L2 cache; a few words for each block.
//!
//! # Safety
//! Every entry:
//! 1. `args` describes live global memory, each array as long as its field says. None overlaps another, and nothing else accesses
//!    any of them during the launch, but for the host the mailbox.
//! 2. `shares` describes each row once, and the rows, entries, halo rows and column words that it names exist; `row_offsets` starts at 0
//!    and never falls. A block's columns are below the number of its rows and its halo's rows together.
//! 3. The launch is cooperative, of [`BLOCK_SIZE`] threads a block in one dimension, at most [`MAX_BLOCKS`] blocks, and
//!    `shared_bytes` of dynamic shared memory, at least [`vector_bytes`] of each block's rows and halo.
//! 4. No word of `slots` and `words` holds a number from `epoch` to `epoch + iterations`.

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
    DType, Scalar,
    args::args,
    cg_state::{self, State, counter, scalar, status},
    family::family,
    row_sum::sum_of_group,
    unroll::unroll,
};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 768;
const WARPS: u32 = BLOCK_SIZE / WARP_SIZE;

/// The most blocks of a grid.
pub const MAX_BLOCKS: u32 = 256;
/// The most warps that wait for slots, a lane for each.
const MAX_WARPS: u32 = MAX_BLOCKS / WARP_SIZE;

/// Words of a slot: two dots of two halves.
const SLOT_WORDS: usize = 4;

/// Words of `slots` for so many blocks.
#[must_use]
pub const fn slot_words(blocks: u32) -> usize {
    2 * SLOT_WORDS * blocks as usize
}

/// Bytes of static shared memory, which `shared_bytes` leaves room for.
pub const STATIC_SHARED_BYTES: u32 = (WARPS + MAX_WARPS) * 2 * 8;

/// The most rows and halo rows of a block: as many as 16 bits tell apart.
pub const MAX_PLACES: u32 = 1 << 16;

/// Bytes of shared memory for the vectors and offsets of so many rows, and so many halo rows; what is left is for entries.
#[must_use]
pub const fn vector_bytes(rows: u32, halo: u32, element_bytes: u32) -> u32 {
    let rows = rows.next_multiple_of(4);
    let halo = halo.next_multiple_of(4);
    (5 * rows + 2 * halo) * element_bytes + (rows + 4) * 4
}

/// Bytes of shared memory for two entries.
#[must_use]
pub const fn bytes_of_two_entries(element_bytes: u32) -> u32 {
    2 * element_bytes + 4
}

/// Numbers that describe a block's share, in this order: its first row, how many rows, its first entry, how many entries, its first
/// halo row and how many, its first word of columns, and 0.
pub const SHARE_NUMBERS: usize = 8;

/// Words for the `z` of a row.
#[must_use]
pub const fn words_of_row(element_bytes: usize) -> usize {
    element_bytes / 4
}

args! {
    /// The arguments of every entry, passed by value: elements `T`.
    pub struct Args<T> {
        /// Whether there is a `diagonal`.
        value has_diagonal: u32,
        /// The most iterations of this launch.
        value iterations: u32,
        /// The number of the launch's first exchange.
        value epoch: u32,
        /// Bytes of dynamic shared memory.
        value shared_bytes: u32,
        /// [`SHARE_NUMBERS`] for each block.
        read shares: u32,
        /// An offset more than the matrix has rows.
        read row_offsets: u32,
        /// Columns of entries as places in the block's own direction: its rows, then its halo. Two in a word, the first in the lower half; each
        /// block's from a word of its own on.
        read columns: u32,
        /// The values.
        read values: T,
        /// The rows of the blocks' halos.
        read halo: u32,
        /// The inverse of the diagonal, an element for each row, and so have the next three.
        read diagonal: T,
        /// The solution.
        write x: T,
        /// The residual.
        write r: T,
        /// The direction.
        write p: T,
        /// [`words_of_row`] for each row.
        write words: u64,
        /// [`slot_words`] words.
        write slots: u64,
        /// How the method stands.
        part state: State<A>,
    }
}

family! {
    "cg_persistent", blocks of BLOCK_SIZE;
    /// Which entry.
    pub struct Key {
        /// The type of the elements.
        dtype: DType,
        /// Lanes of a row: a power of two up to 32.
        lanes: u32,
    }

    cg_persistent_f32_t1(DType::F32, 1): Args<f32> => iterate::<f32, 1>;
    cg_persistent_f32_t2(DType::F32, 2): Args<f32> => iterate::<f32, 2>;
    cg_persistent_f32_t4(DType::F32, 4): Args<f32> => iterate::<f32, 4>;
    cg_persistent_f32_t8(DType::F32, 8): Args<f32> => iterate::<f32, 8>;
    cg_persistent_f32_t16(DType::F32, 16): Args<f32> => iterate::<f32, 16>;
    cg_persistent_f32_t32(DType::F32, 32): Args<f32> => iterate::<f32, 32>;
    cg_persistent_f64_t1(DType::F64, 1): Args<f64> => iterate::<f64, 1>;
    cg_persistent_f64_t2(DType::F64, 2): Args<f64> => iterate::<f64, 2>;
    cg_persistent_f64_t4(DType::F64, 4): Args<f64> => iterate::<f64, 4>;
    cg_persistent_f64_t8(DType::F64, 8): Args<f64> => iterate::<f64, 8>;
    cg_persistent_f64_t16(DType::F64, 16): Args<f64> => iterate::<f64, 16>;
    cg_persistent_f64_t32(DType::F64, 32): Args<f64> => iterate::<f64, 32>;
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
        exchange.leave::<2, true>([0.0; 2], args.epoch);
        exchange.collect::<2, true>(args.epoch);

        let mut status = status::RUNNING;
        let mut done = 0;
        while status == status::RUNNING && done < args.iterations {
            done += 1;
            let epoch = args.epoch + done;
            exchange.leave::<1, false>([share.product::<LANES>(&args)], epoch);
            let [pq] = exchange.collect::<1, false>(epoch);
            let alpha = match cg_state::step_length(rz, pq) {
                Ok(alpha) => T::narrow(alpha),
                Err(error) => {
                    status = error;
                    break;
                }
            };
            exchange.leave::<2, false>(share.update(&args, alpha, epoch), epoch);
            // While others arrive.
            let inverse_rz = 1.0 / rz;
            share.fetch_halo(&args, epoch);
            let [rz_new, rr] = exchange.collect::<2, false>(epoch);
            status = cg_state::verdict(rr, rz_new, target, iteration + 1, limit, size_of::<T>());
            if status == status::NOT_FINITE {
                break;
            }
            iteration += 1;
            // The inverse of the least numbers overflows.
            let beta = if inverse_rz.is_finite() { rz_new * inverse_rz } else { rz_new / rz };
            share.step(alpha, T::narrow(beta));
            rz = rz_new;
            if thread::index_1d() == 0 {
                state.post_norm(iteration, rr);
            }
            thread::sync_threads();
        }
        share.store(&args);
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
    first_halo: u32,
    halo: u32,
    first_word: u32,
    /// Entries that are in shared memory: the first ones.
    cached: u32,
    /// Whether these are all.
    is_cached: bool,
    x: Shared<T>,
    r: Shared<T>,
    q: Shared<T>,
    diagonal: Shared<T>,
    p: Shared<T>,
    p_of_halo: Shared<T>,
    z_of_halo: Shared<T>,
    /// Relative to the first entry.
    offsets: Shared<u32>,
    values: Shared<T>,
    columns: Shared<u32>,
}

impl<T: Scalar> Share<T> {
    /// Fetches the share.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads of the block call it.
    #[inline(always)]
    unsafe fn load(args: &Args<T>) -> Self {
        // SAFETY: what the share names exists, and the shared memory has room for it by the third rule.
        unsafe {
            let share = args.shares.add(SHARE_NUMBERS * thread::block_idx_x() as usize);
            let [first_row, rows, first_entry, entries] = mem::load_readonly_v4(share);
            let [first_halo, halo, first_word, _] = mem::load_readonly_v4(share.add(4));
            let (rows_4, halo_4) = (rows.next_multiple_of(4), halo.next_multiple_of(4));
            let element_bytes = size_of::<T>() as u32;
            let room = args.shared_bytes - vector_bytes(rows, halo, element_bytes);
            let room = room / bytes_of_two_entries(element_bytes) * 2;
            let cached = if entries.next_multiple_of(2) <= room { entries } else { room };
            let vectors = dynamic_shared_mem::<T>();
            let p = vectors.offset(4 * rows_4);
            let z_of_halo = p.offset(rows_4 + halo_4);
            let offsets = z_of_halo.offset(halo_4).cast::<u32>();
            let values = offsets.offset(rows_4 + 4).cast::<T>();
            let share = Self {
                first_row,
                rows,
                first_entry,
                first_halo,
                halo,
                first_word,
                cached,
                is_cached: cached == entries,
                x: vectors,
                r: vectors.offset(rows_4),
                q: vectors.offset(2 * rows_4),
                diagonal: vectors.offset(3 * rows_4),
                p,
                p_of_halo: p.offset(rows),
                z_of_halo,
                offsets,
                values,
                columns: values.offset(cached.next_multiple_of(2)).cast::<u32>(),
            };
            for_each(rows + 1, |row| {
                let offset = mem::load_readonly(args.row_offsets.add((first_row + row) as usize));
                share.offsets.store(row, offset - first_entry);
            });
            for_each(rows, |row| {
                let at = (first_row + row) as usize;
                share.x.store(row, mem::load(args.x.add(at)));
                share.r.store(row, mem::load(args.r.add(at)));
                share.p.store(row, mem::load(args.p.add(at)));
                let diagonal = if args.has_diagonal != 0 { mem::load_readonly(args.diagonal.add(at)) } else { T::ONE };
                share.diagonal.store(row, diagonal);
            });
            for_each(halo, |place| {
                let row = mem::load_readonly(args.halo.add((first_halo + place) as usize));
                share.p_of_halo.store(place, mem::load(args.p.add(row as usize)));
            });
            for_each(cached, |entry| {
                let at = first_entry as usize + entry as usize;
                share.values.store(entry, mem::load_streaming(args.values.add(at)));
            });
            for_each(cached.div_ceil(2), |word| {
                let at = first_word as usize + word as usize;
                share.columns.store(word, mem::load_streaming(args.columns.add(at)));
            });
            share
        }
    }

    /// `q = A p` for the rows of the block, and this thread's part of `p . q`.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads of the block call it, after a barrier of the block that has made `p` visible.
    #[inline(always)]
    unsafe fn product<const LANES: u32>(&self, args: &Args<T>) -> f64 {
        let lane = thread::thread_idx_x() % LANES;
        let mut dot = 0.0;
        let mut first = 0;
        while first < self.rows {
            let row = first + thread::thread_idx_x() / LANES;
            let ours = row < self.rows;
            // SAFETY: rows of the block and their entries; all lanes of a warp come to the shuffles.
            unsafe {
                let mut sum = T::ZERO;
                if ours {
                    let (begin, end) = (self.offsets.load(row), self.offsets.load(row + 1));
                    sum = if self.is_cached {
                        self.row_sum::<LANES, true>(args, begin + lane, end)
                    } else {
                        self.row_sum::<LANES, false>(args, begin + lane, end)
                    };
                }
                sum_of_group!(sum, LANES);
                if ours && lane == 0 {
                    self.q.store(row, sum);
                    dot = GpuFloat::mul_add(self.p.load(row).widen(), sum.widen(), dot);
                }
            }
            first += BLOCK_SIZE / LANES;
        }
        dot
    }

    /// The sum over every `LANES`th entry of the block from `entry` to `end`, all of them `CACHED`, or perhaps not.
    ///
    /// # Safety
    /// As for [`product`](Self::product), and the entries are the block's.
    #[inline(always)]
    unsafe fn row_sum<const LANES: u32, const CACHED: bool>(&self, args: &Args<T>, mut entry: u32, end: u32) -> T {
        let mut sum = T::ZERO;
        while entry < end {
            let mut words = [0; 4];
            let mut values = [T::ZERO; 4];
            // SAFETY: the caller's promise; columns are places in `p` by the second rule.
            unsafe {
                unroll!(K in [0, 1, 2, 3] {
                    let at = entry + K * LANES;
                    if at < end {
                        if CACHED || at < self.cached {
                            words[K as usize] = self.columns.load(at / 2);
                            values[K as usize] = self.values.load(at);
                        } else {
                            let (word, at) = (self.first_word + at / 2, self.first_entry as usize + at as usize);
                            words[K as usize] = mem::load_readonly(args.columns.add(word as usize));
                            values[K as usize] = mem::load_readonly(args.values.add(at));
                        }
                    }
                });
                unroll!(K in [0, 1, 2, 3] {
                    let at = entry + K * LANES;
                    if at < end {
                        let column = words[K as usize] >> (16 * (at % 2)) & 0xffff;
                        sum = values[K as usize].mul_add(self.p.load(column), sum);
                    }
                });
            }
            entry += 4 * LANES;
        }
        sum
    }

    /// The new residual and `z` of the block's rows, `z` also for the other blocks; and this thread's part of `r . z` and `r . r`.
    ///
    /// # Safety
    /// The rules at the head of this module; after a barrier of the block that has made `q` visible, and a sum over the grid after which
    /// nobody reads the `z` before.
    #[inline(always)]
    unsafe fn update(&self, args: &Args<T>, alpha: T, epoch: u32) -> [f64; 2] {
        let mut dots = [0.0; 2];
        // SAFETY: a thread has rows of its own.
        for_each(self.rows, |row| unsafe {
            let r = (-alpha).mul_add(self.q.load(row), self.r.load(row));
            let z = self.diagonal.load(row) * r;
            let words = args.words.add((self.first_row + row) as usize * const { words_of_row(size_of::<T>()) });
            if size_of::<T>() == 4 {
                atomic_store_u64_device(words, Relaxed, word(epoch, (z.widen() as f32).to_bits()));
            } else {
                leave(words, epoch, z.widen());
            }
            self.r.store(row, r);
            dots[0] = GpuFloat::mul_add(r.widen(), z.widen(), dots[0]);
            dots[1] = GpuFloat::mul_add(r.widen(), r.widen(), dots[1]);
        });
        dots
    }

    /// Waits for `z` of the halo.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn fetch_halo(&self, args: &Args<T>, epoch: u32) {
        // SAFETY: rows of the halo; a thread has places of its own.
        for_each(self.halo, |place| unsafe {
            let row = mem::load_readonly(args.halo.add((self.first_halo + place) as usize));
            let words = args.words.add(row as usize * const { words_of_row(size_of::<T>()) });
            let z = if size_of::<T>() == 4 { f64::from(wait_f32(words, epoch)) } else { wait_f64(words, epoch) };
            self.z_of_halo.store(place, T::narrow(z));
        });
    }

    /// `x = x + alpha p` and `p = z + beta p`.
    ///
    /// # Safety
    /// The rules at the head of this module; a barrier of the block is between this and a product, before and after.
    #[inline(always)]
    unsafe fn step(&self, alpha: T, beta: T) {
        // SAFETY: a thread has rows and places of its own.
        unsafe {
            for_each(self.rows, |row| {
                let p = self.p.load(row);
                self.x.store(row, alpha.mul_add(p, self.x.load(row)));
                self.p.store(row, beta.mul_add(p, self.diagonal.load(row) * self.r.load(row)));
            });
            for_each(self.halo, |place| {
                self.p_of_halo.store(place, beta.mul_add(self.p_of_halo.load(place), self.z_of_halo.load(place)));
            });
        }
    }

    /// Leaves the vectors for the next launch.
    ///
    /// # Safety
    /// The rules at the head of this module.
    #[inline(always)]
    unsafe fn store(&self, args: &Args<T>) {
        // SAFETY: a thread has rows of its own.
        for_each(self.rows, |row| unsafe {
            let at = (self.first_row + row) as usize;
            mem::store(args.x.add(at), self.x.load(row));
            mem::store(args.r.add(at), self.r.load(row));
            mem::store(args.p.add(at), self.p.load(row));
        });
    }
}

/// Calls `work` for each of `count` numbers that is this thread's.
#[inline(always)]
fn for_each(count: u32, mut work: impl FnMut(u32)) {
    let mut number = thread::thread_idx_x();
    while number < count {
        work(number);
        number += BLOCK_SIZE;
    }
}

/// What sums over the grid need: slots, and room for the sums of warps.
struct Exchange {
    slots: *mut u64,
    before: Shared<f64>,
    after: Shared<f64>,
}

impl Exchange {
    #[inline(always)]
    fn new<T: Scalar>(args: &Args<T>) -> Self {
        Self {
            slots: args.slots,
            before: shared_array![f64; 2 * WARPS as usize],
            after: shared_array![f64; 2 * MAX_WARPS as usize],
        }
    }

    /// The slot of a block. One dot has other slots than two.
    #[inline(always)]
    fn slot<const DOTS: usize>(&self, block: u32) -> *mut u64 {
        self.slots.wrapping_add(((DOTS - 1) * thread::grid_dim_x() as usize + block as usize) * SLOT_WORDS)
    }

    /// Leaves the block's sums of what each thread has. If `FENCED`, what the block has read and written comes before what others do after
    /// they have collected.
    ///
    /// # Safety
    /// The rules at the head of this module; all threads of the grid call it, then [`collect`](Self::collect) with the same number, in turns
    /// with one dot and with two, each time with a new number.
    #[inline(always)]
    unsafe fn leave<const DOTS: usize, const FENCED: bool>(&self, dots: [f64; DOTS], epoch: u32) {
        let (lane, warp) = (thread::thread_idx_x() % WARP_SIZE, thread::thread_idx_x() / WARP_SIZE);
        // SAFETY: whole warps come to the shuffles, all threads to the barrier; places are below what there is room for. Sums of warps are
        // read before the barrier in `collect`, after which alone they are overwritten.
        unsafe {
            let dots = over_warp(dots);
            if lane == 0 {
                each::<DOTS>(|dot| self.before.store(dot as u32 * WARPS + warp, dots[dot]));
            }
            thread::sync_threads();
            if warp == 0 {
                let mut of_block = [0.0; DOTS];
                if lane < WARPS {
                    each::<DOTS>(|dot| of_block[dot] = self.before.load(dot as u32 * WARPS + lane));
                }
                let of_block = over_warp(of_block);
                if lane == 0 {
                    if FENCED {
                        device_thread_fence(Release);
                    }
                    let slot = self.slot::<DOTS>(thread::block_idx_x());
                    each::<DOTS>(|dot| leave(slot.wrapping_add(2 * dot), epoch, of_block[dot]));
                }
            }
        }
    }

    /// Waits for the sums of all blocks, and returns their sums, the same in every thread. A barrier of the block.
    ///
    /// # Safety
    /// As for [`leave`](Self::leave).
    #[inline(always)]
    unsafe fn collect<const DOTS: usize, const FENCED: bool>(&self, epoch: u32) -> [f64; DOTS] {
        // The last warps, for the first have the halo to wait for.
        let place = BLOCK_SIZE - 1 - thread::thread_idx_x();
        let (lane, warp) = (place % WARP_SIZE, place / WARP_SIZE);
        let warps = thread::grid_dim_x().div_ceil(WARP_SIZE);
        // SAFETY: as in `leave`. The sums are read before the barrier there, after which alone they are overwritten.
        unsafe {
            if warp < warps {
                let mut of_grid = [0.0; DOTS];
                if place < thread::grid_dim_x() {
                    let slot = self.slot::<DOTS>(place);
                    each::<DOTS>(|dot| of_grid[dot] = wait_f64(slot.wrapping_add(2 * dot), epoch));
                    if FENCED {
                        device_thread_fence(Acquire);
                    }
                }
                let of_grid = over_warp(of_grid);
                if lane == 0 {
                    each::<DOTS>(|dot| self.after.store(dot as u32 * MAX_WARPS + warp, of_grid[dot]));
                }
            }
            thread::sync_threads();
            let mut sums = [0.0; DOTS];
            unroll!(W in [0, 1, 2, 3, 4, 5, 6, 7] {
                if W < warps {
                    each::<DOTS>(|dot| sums[dot] += self.after.load(dot as u32 * MAX_WARPS + W));
                }
            });
            sums
        }
    }
}

#[inline(always)]
fn word(epoch: u32, half: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(half)
}

/// Leaves a number in two words.
///
/// # Safety
/// The words are live global memory, which atomics alone access, and so for the next two.
#[inline(always)]
unsafe fn leave(words: *mut u64, epoch: u32, number: f64) {
    let bits = number.to_bits();
    // SAFETY: the caller's promise.
    unsafe {
        atomic_store_u64_device(words, Relaxed, word(epoch, bits as u32));
        atomic_store_u64_device(words.wrapping_add(1), Relaxed, word(epoch, (bits >> 32) as u32));
    }
}

/// The number in two words, once both are of that exchange.
#[inline(always)]
unsafe fn wait_f64(words: *const u64, epoch: u32) -> f64 {
    loop {
        // SAFETY: the caller's promise.
        let (low, high) =
            unsafe { (atomic_load_u64_device(words, Relaxed), atomic_load_u64_device(words.wrapping_add(1), Relaxed)) };
        if (low >> 32) as u32 == epoch && (high >> 32) as u32 == epoch {
            return f64::from_bits(high << 32 | low & 0xffff_ffff);
        }
    }
}

/// The number in a word, once it is of that exchange.
#[inline(always)]
unsafe fn wait_f32(word: *const u64, epoch: u32) -> f32 {
    loop {
        // SAFETY: the caller's promise.
        let word = unsafe { atomic_load_u64_device(word, Relaxed) };
        if (word >> 32) as u32 == epoch {
            return f32::from_bits(word as u32);
        }
    }
}

/// `work` for each of one or two dots.
#[inline(always)]
fn each<const DOTS: usize>(mut work: impl FnMut(usize)) {
    unroll!(D in [0, 1] {
        if (D as usize) < DOTS {
            work(D as usize % DOTS);
        }
    });
}

/// The sums over a warp, in every lane.
///
/// # Safety
/// All 32 lanes call it.
#[inline(always)]
unsafe fn over_warp<const DOTS: usize>(mut dots: [f64; DOTS]) -> [f64; DOTS] {
    unroll!(DISTANCE in [16, 8, 4, 2, 1] {
        // SAFETY: all 32 lanes are here.
        each::<DOTS>(|dot| dots[dot] += unsafe { warp::warp_shuffle_xor(u32::MAX, dots[dot], DISTANCE, WARP_SIZE).0 });
    });
    dots
}

//! What rungs share: where a block is, how elements come from `A` and `B` and go to `C`, and the tile of 128 x 128
//! elements, 8 x 8 a thread, that all rungs from `thread_tile_2d` on have.

use core::cmp::min;

use cuda_std::{GpuFloat, mem, shared::Shared, thread, warp::WARP_SIZE};

use kernels_gpu::{gemm_args::GemmArgs, unroll};

/// The first row and the first column of the block's tile of `C`.
#[inline(always)]
pub(super) fn block_place(args: &GemmArgs<f32>, tile: (u32, u32)) -> (u32, u32) {
    let blocks_across = args.n.div_ceil(tile.1);
    (thread::block_idx_x() / blocks_across * tile.0, thread::block_idx_x() % blocks_across * tile.1)
}

/// Whether vectors of 4 elements, from a column that is a multiple of 4 on, can be accessed as one.
#[inline(always)]
fn is_aligned(first: *const f32, leading_dimension: u32) -> bool {
    (first as usize).is_multiple_of(16) && leading_dimension.is_multiple_of(4)
}

/// `A` or `B`, with zeros wherever there is no element.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    first: *const f32,
    rows: u32,
    cols: u32,
    leading_dimension: u32,
    aligned: bool,
}

/// # Safety
/// Of all methods: the matrix is live global memory that nothing writes during the launch.
impl Operand {
    #[inline(always)]
    pub(super) fn a(args: &GemmArgs<f32>) -> Self {
        let aligned = is_aligned(args.a, args.lda);
        Self { first: args.a, rows: args.m, cols: args.k, leading_dimension: args.lda, aligned }
    }

    #[inline(always)]
    pub(super) fn b(args: &GemmArgs<f32>) -> Self {
        let aligned = is_aligned(args.b, args.ldb);
        Self { first: args.b, rows: args.k, cols: args.n, leading_dimension: args.ldb, aligned }
    }

    #[inline(always)]
    fn at(self, row: u32, col: u32) -> *const f32 {
        self.first.wrapping_add(row as usize * self.leading_dimension as usize + col as usize)
    }

    #[inline(always)]
    fn has(self, row: u32, col: u32) -> bool {
        row < self.rows && col < self.cols
    }

    #[inline(always)]
    unsafe fn element(self, row: u32, col: u32) -> f32 {
        // SAFETY: it exists.
        if self.has(row, col) { unsafe { mem::load_readonly(self.at(row, col)) } } else { 0.0 }
    }

    /// Copies a tile to shared memory, row by row: the `THREADS` of the block take turns, 4 at most.
    ///
    /// # Safety
    /// No other thread touches this shared memory until a barrier.
    #[inline(always)]
    pub(super) unsafe fn stage<const ROWS: u32, const COLS: u32, const THREADS: u32>(
        self,
        row: u32,
        col: u32,
        to: Shared<f32>,
    ) {
        const { assert!(ROWS * COLS <= 4 * THREADS && (ROWS * COLS).is_multiple_of(THREADS)) }
        unroll!(TURN in [0, 1, 2, 3] {
            if TURN * THREADS < ROWS * COLS {
                let at = TURN * THREADS + thread::thread_idx_x();
                // SAFETY: the place is within the tile, and this thread's alone.
                unsafe { to.store(at, self.element(row + at / COLS, col + at % COLS)) }
            }
        });
    }

    /// Starts to copy an element to shared memory.
    ///
    /// # Safety
    /// What [`Shared::copy_async`] asks for of the place there.
    #[inline(always)]
    pub(super) unsafe fn copy_element(self, row: u32, col: u32, to: Shared<f32>, index: u32) {
        // SAFETY: the caller's promise; it exists, or is not looked at.
        unsafe { to.copy_async(index, self.at(row, col), self.has(row, col)) }
    }

    /// Starts to copy 4 elements of a row, from a column on that is a multiple of 4: as one where that is possible.
    ///
    /// # Safety
    /// What [`Shared::copy_async_v4`] asks for of the place there.
    #[inline(always)]
    pub(super) unsafe fn copy_vector(self, row: u32, col: u32, to: Shared<f32>, index: u32) {
        let first = self.at(row, col);
        // SAFETY: the caller's promise; what does not exist is not looked at.
        unsafe {
            if self.has(row, col + 3) && self.aligned {
                to.copy_async_v4(index, first, true);
                return;
            }
            unroll!(I in [0, 1, 2, 3] {
                to.copy_async(index + I, first.wrapping_add(I as usize), self.has(row, col + I));
            });
        }
    }
}

/// `C[row][col] = alpha * sum + beta * C[row][col]`, if there is such an element.
///
/// # Safety
/// `C` is live global memory, and no other thread has the element.
#[inline(always)]
pub(super) unsafe fn write_element(args: &GemmArgs<f32>, row: u32, col: u32, sum: f32) {
    if row >= args.m || col >= args.n {
        return;
    }
    // SAFETY: the element exists.
    unsafe {
        let c = args.c.add(row as usize * args.ldc as usize + col as usize);
        let product = args.alpha * sum;
        mem::store(c, if args.beta == 0.0 { product } else { GpuFloat::mul_add(args.beta, mem::load(c), product) });
    }
}

/// [`write_element`] for 4 elements of a row, from a column on that is a multiple of 4: by one store where that is
/// possible.
///
/// # Safety
/// As there, for all of them.
#[inline(always)]
unsafe fn write_vector(args: &GemmArgs<f32>, row: u32, col: u32, sums: [f32; 4]) {
    // SAFETY: the elements exist, or are written one by one.
    unsafe {
        if !is_aligned(args.c, args.ldc) || row >= args.m || col + 3 >= args.n {
            unroll!(I in [0, 1, 2, 3] { write_element(args, row, col + I, sums[I as usize]) });
            return;
        }
        let c = args.c.add(row as usize * args.ldc as usize + col as usize);
        let mut result = sums;
        unroll!(I in [0, 1, 2, 3] { result[I as usize] = args.alpha * sums[I as usize] });
        if args.beta != 0.0 {
            let old = mem::load_v4(c);
            unroll!(I in [0, 1, 2, 3] {
                result[I as usize] = GpuFloat::mul_add(args.beta, old[I as usize], result[I as usize]);
            });
        }
        mem::store_v4(c, result);
    }
}

/// The sums of a thread that has 8 x 8 elements of `C`.
pub(super) type Sums = [[f32; 8]; 8];

/// Adds the products of 8 elements of a column of `A` and 8 of a row of `B`: each with each.
#[inline(always)]
pub(super) fn add_outer_product(sums: &mut Sums, a: [f32; 8], b: [f32; 8]) {
    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
        unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7] {
            let sum = &mut sums[R as usize][C as usize];
            *sum = GpuFloat::mul_add(a[R as usize], b[C as usize], *sum);
        });
    });
}

/// Rows and columns of `C` that a block has, from the rung `thread_tile_2d` on.
pub(super) const TILE: (u32, u32) = (128, 128);

/// Threads per block: 8 x 8 elements a thread.
pub(super) const BLOCK_SIZE: u32 = TILE.0 * TILE.1 / 64;

/// Columns of `A` and rows of `B` that are staged at a time.
pub(super) const STEP: u32 = 8;

// Each thread brings 4 elements of `A` and of `B`.
const _: () = assert!(TILE.0 * STEP == 4 * BLOCK_SIZE && TILE.1 * STEP == 4 * BLOCK_SIZE);

/// From one staged column of `A` to the next: 4 elements more than it has, so that columns lie in different banks.
pub(super) const A_COLUMN: u32 = TILE.0 + 4;

/// Elements of the staged columns of `A`.
pub(super) const A_ELEMENTS: u32 = STEP * A_COLUMN;

/// Elements of the staged rows of `B`.
pub(super) const B_ELEMENTS: u32 = STEP * TILE.1;

/// The vectors of 4 elements of `A` and of `B` that a thread brings to shared memory, one of each a step.
///
/// ```text
/// A: 128 rows, 8 columns     thread t: row t / 2, columns from 4 * (t % 2)
/// B: 8 rows, 128 columns     thread t: row t / 32, columns from 4 * (t % 32)
/// ```
///
/// It holds little, for its registers are needed during the multiplications too.
pub(super) struct Loader {
    a: *const f32,
    b: *const f32,
    a_has_row: bool,
    /// How many elements of a vector of `B` exist.
    b_width: i32,
}

impl Loader {
    /// For the block's rows of `A` and columns of `B`.
    #[inline(always)]
    pub(super) fn new(args: &GemmArgs<f32>, (row, col): (u32, u32)) -> Self {
        let t = thread::thread_idx_x();
        let (row, col) = (row + t / 2, col + 4 * (t % WARP_SIZE));
        Self {
            a: Operand::a(args).at(row, 4 * (t % 2)),
            b: Operand::b(args).at(t / WARP_SIZE, col),
            a_has_row: row < args.m,
            b_width: min(args.n.saturating_sub(col), 4) as i32,
        }
    }

    /// The vectors of the first step, then those of the next one at each call. `step` is the first column of `A` in it,
    /// and the first row of `B`. Beyond the last step they are zeros.
    ///
    /// # Safety
    /// The rules of the [ladder](super).
    #[inline(always)]
    pub(super) unsafe fn next(&mut self, args: &GemmArgs<f32>, step: u32) -> Staged {
        let t = thread::thread_idx_x();
        let a_width = if self.a_has_row { args.k as i32 - (step + 4 * (t % 2)) as i32 } else { 0 };
        let b_width = if step + t / WARP_SIZE < args.k { self.b_width } else { 0 };
        // SAFETY: so many elements exist.
        let staged = unsafe {
            Staged {
                a: load_existing(self.a, a_width, is_aligned(args.a, args.lda)),
                b: load_existing(self.b, b_width, is_aligned(args.b, args.ldb)),
            }
        };
        self.a = self.a.wrapping_add(STEP as usize);
        self.b = self.b.wrapping_add(STEP as usize * args.ldb as usize);
        staged
    }
}

/// The first `width` of 4 elements, none if that is negative, and zeros: by one load if all are wanted and aligned.
///
/// # Safety
/// They are live global memory that nothing writes during the launch.
#[inline(always)]
unsafe fn load_existing(first: *const f32, width: i32, aligned: bool) -> [f32; 4] {
    let mut elements = [0.0; 4];
    // SAFETY: the caller's promise.
    unsafe {
        if aligned && width >= 4 {
            return mem::load_readonly_v4(first);
        }
        unroll!(I in [0, 1, 2, 3] {
            if (I as i32) < width {
                elements[I as usize] = mem::load_readonly(first.wrapping_add(I as usize));
            }
        });
    }
    elements
}

/// What a thread brings to shared memory in a step.
pub(super) struct Staged {
    a: [f32; 4],
    b: [f32; 4],
}

impl Staged {
    /// To shared memory: `A` column by column, `B` row by row.
    ///
    /// # Safety
    /// Both are as long as a step's elements, and no other thread but with this function touches them until a barrier.
    #[inline(always)]
    pub(super) unsafe fn store(self, columns_of_a: Shared<f32>, rows_of_b: Shared<f32>) {
        let t = thread::thread_idx_x();
        // SAFETY: places of the step's elements, no two threads the same.
        unsafe {
            unroll!(I in [0, 1, 2, 3] { columns_of_a.store((4 * (t % 2) + I) * A_COLUMN + t / 2, self.a[I as usize]) });
            rows_of_b.store_v4(4 * t, self.b);
        }
    }
}

/// Which elements of the block's tile a thread has: quarters of 4 x 4.
///
/// ```text
///         col          col + cols_apart
/// row     4 x 4 ...... 4 x 4
///           :            :
/// row +   4 x 4 ...... 4 x 4
/// rows_apart
/// ```
#[derive(Clone, Copy)]
pub(super) struct Quarters {
    pub(super) row: u32,
    pub(super) col: u32,
    pub(super) rows_apart: u32,
    pub(super) cols_apart: u32,
}

impl Quarters {
    /// Adds the products of what is staged, column of `A` by column: loads of 4 elements from shared memory.
    ///
    /// # Safety
    /// It is staged, as [`Staged::store`] does, with a barrier since.
    #[inline(always)]
    pub(super) unsafe fn add_products(self, sums: &mut Sums, columns_of_a: Shared<f32>, rows_of_b: Shared<f32>) {
        let (a, b) = (columns_of_a.offset(self.row), rows_of_b.offset(self.col));
        unroll!(P in [0, 1, 2, 3, 4, 5, 6, 7] {
            // SAFETY: rows and columns of the block's tile, multiples of 4.
            unsafe {
                let upper = a.load_v4(P * A_COLUMN);
                let lower = a.load_v4(P * A_COLUMN + self.rows_apart);
                let left = b.load_v4(P * TILE.1);
                let right = b.load_v4(P * TILE.1 + self.cols_apart);
                add_outer_product(sums, join(upper, lower), join(left, right));
            }
        });
    }

    /// Writes the thread's elements of `C`.
    ///
    /// # Safety
    /// The rules of the [ladder](super), and no other thread has these elements.
    #[inline(always)]
    pub(super) unsafe fn write(self, args: &GemmArgs<f32>, block: (u32, u32), sums: &Sums) {
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            let row = block.0 + self.row + R / 4 * self.rows_apart + R % 4;
            let [c0, c1, c2, c3, c4, c5, c6, c7] = sums[R as usize];
            // SAFETY: the caller's promise.
            unsafe {
                write_vector(args, row, block.1 + self.col, [c0, c1, c2, c3]);
                write_vector(args, row, block.1 + self.col + self.cols_apart, [c4, c5, c6, c7]);
            }
        });
    }
}

#[inline(always)]
fn join([a0, a1, a2, a3]: [f32; 4], [a4, a5, a6, a7]: [f32; 4]) -> [f32; 8] {
    [a0, a1, a2, a3, a4, a5, a6, a7]
}

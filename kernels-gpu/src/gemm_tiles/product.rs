//! What a thread computes.

use cuda_std::{mem, shared::Shared};

use crate::{Scalar, gemm_args::GemmArgs, unroll::unroll};

/// The thread's elements of `C`, in registers: groups of 16 bytes, those of rows 8 groups apart, those of columns 4.
pub(super) struct ThreadTile<T, const ROWS: usize, const COLS: usize> {
    sums: [[T; COLS]; ROWS],
    /// The first of its rows and columns, from the block's first ones on.
    row: u32,
    col: u32,
}

/// Threads of a warp, down and across.
const LANES: (u32, u32) = (8, 4);

impl<T: Scalar, const ROWS: usize, const COLS: usize> ThreadTile<T, ROWS, COLS> {
    const VECTOR: u32 = 16 / size_of::<T>() as u32;

    #[inline(always)]
    pub(super) fn new(row: u32, col: u32) -> Self {
        Self { sums: [[T::ZERO; COLS]; ROWS], row, col }
    }

    /// What the thread multiplies at one place in the sums: a row of each staged operand.
    ///
    /// # Safety
    /// The row is there, and no copy or store is under way to it.
    #[inline(always)]
    pub(super) unsafe fn load(&self, a: Shared<T>, b: Shared<T>) -> ([T; ROWS], [T; COLS]) {
        // SAFETY: the caller's promise; rows are multiples of 16 bytes, and so is the first of a group.
        unsafe {
            (
                load_groups(a.offset(self.row), LANES.0 * Self::VECTOR),
                load_groups(b.offset(self.col), LANES.1 * Self::VECTOR),
            )
        }
    }

    /// Adds the products of one place in the sums.
    #[inline(always)]
    pub(super) fn add(&mut self, (a, b): ([T; ROWS], [T; COLS])) {
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            if (R as usize) < ROWS {
                unroll!(C in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if (C as usize) < COLS {
                        let sum = &mut self.sums[R as usize % ROWS][C as usize % COLS];
                        *sum = a[R as usize % ROWS].mul_add(b[C as usize % COLS], *sum);
                    }
                });
            }
        });
    }

    /// `C = alpha * sums + beta * C`, where there are such rows and columns.
    ///
    /// # Safety
    /// The rules of the family; no other thread has these elements.
    #[inline(always)]
    pub(super) unsafe fn write(&self, args: &GemmArgs<T>, first_row: u32, first_col: u32) {
        let by_vectors = (args.c.addr() as u32).is_multiple_of(16) && (args.ldc | args.n).is_multiple_of(Self::VECTOR);
        let col = first_col + self.col;
        unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
            if (R as usize) < ROWS {
                let row = first_row + self.row + R / Self::VECTOR * LANES.0 * Self::VECTOR + R % Self::VECTOR;
                if row < args.m {
                    let row_of_c = args.c.wrapping_add(row as usize * args.ldc as usize + col as usize);
                    unroll!(G in [0, 1, 2, 3] {
                        if (G * Self::VECTOR) < COLS as u32 {
                            let apart = G * LANES.1 * Self::VECTOR;
                            let group = |v: usize| self.sums[R as usize % ROWS][((G * Self::VECTOR) as usize + v) % COLS];
                            // SAFETY: the row exists, and so do the columns that are written.
                            unsafe { write_group(args, row_of_c.wrapping_add(apart as usize), args.n - first_col, self.col + apart, by_vectors, group) };
                        }
                    });
                }
            }
        });
    }
}

/// Groups of 16 bytes, `apart` elements from one to the next.
///
/// # Safety
/// What the loads ask for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load_groups<T: Scalar, const COUNT: usize>(from: Shared<T>, apart: u32) -> [T; COUNT] {
    let mut values = [T::ZERO; COUNT];
    let vector = const { 16 / size_of::<T>() };
    unroll!(G in [0, 1, 2, 3] {
        if (G as usize * vector) < COUNT {
            // SAFETY: the caller's promise.
            unsafe {
                if vector == 4 {
                    let group = from.load_v4(G * apart);
                    unroll!(V in [0, 1, 2, 3] { values[(G as usize * 4 + V as usize) % COUNT] = group[V as usize] });
                } else {
                    let group = from.load_v2(G * apart);
                    unroll!(V in [0, 1] { values[(G as usize * 2 + V as usize) % COUNT] = group[V as usize] });
                }
            }
        }
    });
    values
}

/// Writes a group of sums to `at`, as far as there are columns: `col` of `cols`.
///
/// # Safety
/// The columns from `at` on that exist are nobody else's.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn write_group<T: Scalar>(
    args: &GemmArgs<T>,
    at: *mut T,
    cols: u32,
    col: u32,
    by_vectors: bool,
    sum: impl Fn(usize) -> T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if by_vectors {
            if col < cols {
                if size_of::<T>() == 4 {
                    let mut old = [T::ZERO; 4];
                    if args.beta != T::ZERO {
                        old = mem::load_v4(at);
                    }
                    let value = |v: usize| result(args, sum(v), old[v]);
                    mem::store_v4(at, [value(0), value(1), value(2), value(3)]);
                } else {
                    let mut old = [T::ZERO; 2];
                    if args.beta != T::ZERO {
                        old = mem::load_v2(at);
                    }
                    let value = |v: usize| result(args, sum(v), old[v]);
                    mem::store_v2(at, [value(0), value(1)]);
                }
            }
        } else {
            unroll!(V in [0, 1, 2, 3] {
                if (V as usize) < 16 / size_of::<T>() && col + V < cols {
                    let at = at.wrapping_add(V as usize);
                    let old = if args.beta == T::ZERO { T::ZERO } else { mem::load(at) };
                    mem::store(at, result(args, sum(V as usize), old));
                }
            });
        }
    }
}

/// `alpha * sum + beta * old`; the old value does not count if `beta` is 0.
#[inline(always)]
fn result<T: Scalar>(args: &GemmArgs<T>, sum: T, old: T) -> T {
    let product = args.alpha * sum;
    if args.beta == T::ZERO { product } else { args.beta.mul_add(old, product) }
}

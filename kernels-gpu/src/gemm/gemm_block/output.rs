//! The output of a block.

use cuda_std::mem;

use super::{ThreadSums, vector};
use crate::{Scalar, epilogue::combine, gemm_args::GemmArgs, unroll::unroll};

/// `C = alpha * sums + beta * C`, where there are such rows and columns.
///
/// # Safety
/// `C` is there; no other thread has these elements.
#[inline(always)]
pub(crate) unsafe fn write<T: Scalar, S: ThreadSums<T>>(sums: &S, args: &GemmArgs<T>, first_row: u32, first_col: u32) {
    let vector = const { vector::<T>() };
    let by_vectors = (args.c.addr() as u32).is_multiple_of(16) && (args.ldc | args.n).is_multiple_of(vector);
    let (row_in_tile, col_in_tile) = sums.first();
    let (row, col) = (first_row + row_in_tile, first_col + col_in_tile);
    unroll!(R in [0, 1, 2, 3, 4, 5, 6, 7] {
        let row = row + S::rows_to(R);
        if R < S::SIZE.0 && row < args.m {
            let row_of_c = row as usize * args.ldc as usize;
            let row_of_c = args.c.wrapping_add(row_of_c + col as usize);
            unroll!(G in [0, 1, 2, 3] {
                if G < S::SIZE.1 {
                    let apart = S::cols_to(G);
                    let sum = |v: usize| sums.sum(R, (G * vector) as usize + v);
                    let (at, cols) = (row_of_c.wrapping_add(apart as usize), args.n - first_col);
                    // SAFETY: the row exists, and so do the columns that are written.
                    unsafe { write_group(args, at, cols, col_in_tile + apart, by_vectors, sum) };
                }
            });
        }
    });
}

/// Writes a group of sums to `at`, as far as there are columns: `col` of `cols`.
///
/// # Safety
/// The columns from `at` on that exist are nobody else's.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn write_group<T: Scalar>(
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
                    let value = |v: usize| combine(args.alpha, sum(v), args.beta, old[v]);
                    mem::store_v4(at, [value(0), value(1), value(2), value(3)]);
                } else {
                    let mut old = [T::ZERO; 2];
                    if args.beta != T::ZERO {
                        old = mem::load_v2(at);
                    }
                    let value = |v: usize| combine(args.alpha, sum(v), args.beta, old[v]);
                    mem::store_v2(at, [value(0), value(1)]);
                }
            }
        } else {
            unroll!(V in [0, 1, 2, 3] {
                if (V as usize) < 16 / size_of::<T>() && col + V < cols {
                    let at = at.wrapping_add(V as usize);
                    let old = if args.beta == T::ZERO { T::ZERO } else { mem::load(at) };
                    mem::store(at, combine(args.alpha, sum(V as usize), args.beta, old));
                }
            });
        }
    }
}

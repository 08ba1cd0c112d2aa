//! Rows in a warp's registers times a small matrix in shared memory.

// With `is_multiple_of` the compiler computes addresses otherwise: these are the kernels that were measured.
#![allow(clippy::manual_is_multiple_of)]

use cuda_std::{mem, mma, shared::Shared, thread, warp};

use super::rows::{BLOCK_SIZE, Elements, column, piece, place_of_lane};
use crate::{Scalar, unroll::unroll};

/// A type with products of [`Elements`] and small matrices.
pub(super) trait Product: Scalar {
    /// The place in shared memory of element `i`, `j` of a small matrix.
    fn place(i: u32, j: u32, width: u32) -> u32;

    /// `sums += rows * small`, for `4 * C` columns.
    ///
    /// # Safety
    /// The matrix has been loaded, and a barrier has followed. All lanes of the warp call it.
    unsafe fn multiply<const R: usize, const C: u32>(
        sums: &mut Elements<Self, R>,
        rows: &Elements<Self, R>,
        small: Shared<Self>,
    );
}

/// The four lanes of a row tell each other their elements in turn.
impl Product for f32 {
    #[inline(always)]
    fn place(i: u32, j: u32, width: u32) -> u32 {
        i * width + j
    }

    #[inline(always)]
    unsafe fn multiply<const R: usize, const C: u32>(
        sums: &mut Elements<f32, R>,
        rows: &Elements<f32, R>,
        small: Shared<f32>,
    ) {
        let mut of = 0;
        while of < lanes_of_a_row() {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if K < C {
                    // SAFETY: the caller's promise.
                    unsafe { add_row::<f32, R, C>(sums, rows, small, of, K) };
                }
            });
            of += 1;
        }
    }
}

/// On the tensor cores: what a lane has of its rows is its part of the first factor, and of the sums. Element `2 k + j` of a row is element `lane % 4 + 4 j` of step `k`, and columns
/// `2 h` and `2 h + 1` are those of eight columns from `8 h` on. Without tensor cores, the same multiply-adds in the same order.
impl Product for f64 {
    #[inline(always)]
    fn place(i: u32, j: u32, width: u32) -> u32 {
        if cfg!(cuda_arch = "75") {
            return i * width + j;
        }
        let (k, t, of_pair) = (i / 8, i % 8 / 2, i % 2);
        let (h, g) = (j / 8, j % 8);
        ((k * (width / 8) + h) * 32 + 4 * g + t) * 2 + of_pair
    }

    #[inline(always)]
    unsafe fn multiply<const R: usize, const C: u32>(
        sums: &mut Elements<f64, R>,
        rows: &Elements<f64, R>,
        small: Shared<f64>,
    ) {
        const { assert!(R == 2) }
        if cfg!(cuda_arch = "75") {
            unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
                if K < C {
                    let mut of = 0;
                    while of < lanes_of_a_row() {
                        // SAFETY: the caller's promise.
                        unsafe { add_row::<f64, R, C>(sums, rows, small, of, K) };
                        of += 1;
                    }
                }
            });
            return;
        }
        let lane = thread::thread_idx_x() % warp::WARP_SIZE;
        unroll!(K in [0, 1, 2, 3] {
            if 2 * K < C {
                let k = 2 * K as usize;
                let a = [rows[0][k], rows[1][k], rows[0][k + 1], rows[1][k + 1]];
                unroll!(H in [0, 1, 2, 3] {
                    if 2 * H < C {
                        let h = 2 * H as usize;
                        let c = [sums[0][h], sums[0][h + 1], sums[1][h], sums[1][h + 1]];
                        // SAFETY: a place in the matrix; all lanes are here.
                        let c = unsafe {
                            let b = small.load_v2(((K * (C / 2) + H) * 32 + lane) * 2);
                            mma::m16n8k8_f64(a, b, c)
                        };
                        [sums[0][h], sums[0][h + 1], sums[1][h], sums[1][h + 1]] = c;
                    }
                });
            }
        });
    }
}

/// `sums += element * row` for the element of each row that lane `of` of its four has in place `k`, and the row of the small matrix, which lies by rows.
///
/// # Safety
/// As [`Product::multiply`]; `of` is less than 4 and `k` than `C`.
#[inline(always)]
unsafe fn add_row<T: Scalar, const R: usize, const C: u32>(
    sums: &mut Elements<T, R>,
    rows: &Elements<T, R>,
    small: Shared<T>,
    of: u32,
    k: u32,
) {
    let (_, t) = place_of_lane();
    let piece = const { piece::<T>(C) };
    let row = small.offset(column(4, of, k, piece) * (4 * C));
    let mut factors = [T::ZERO; 8];
    // SAFETY: places in the matrix; all lanes are here.
    unsafe {
        unroll!(J in [0, 2, 4, 6] {
            if J < C && J % piece == 0 {
                let (at, j) = (column(4, t, J, piece), J as usize);
                if piece == 4 {
                    [factors[j], factors[j + 1], factors[(j + 2) % 8], factors[(j + 3) % 8]] = row.load_v4(at);
                } else {
                    [factors[j], factors[j + 1]] = row.load_v2(at);
                }
            }
        });
        unroll!(U in [0, 1, 2, 3] {
            if U < R as u32 {
                let element = warp::warp_shuffle_idx(u32::MAX, rows[U as usize][k as usize], of, 4).0;
                unroll!(J in [0, 1, 2, 3, 4, 5, 6, 7] {
                    if J < C {
                        let sum = &mut sums[U as usize][J as usize];
                        *sum = element.mul_add(factors[J as usize], *sum);
                    }
                });
            }
        });
    }
}

/// Four, which the compiler does not know: unrolled, loops up to it take too many registers.
#[inline(always)]
fn lanes_of_a_row() -> u32 {
    thread::block_dim_x() / const { BLOCK_SIZE / 4 }
}

/// Copies small matrices of `4 * C` columns, one after the other, to shared memory. A barrier has to follow.
///
/// # Safety
/// `from` is live global memory of so many matrices, which nothing writes; `to` has room for them. All threads of the block call it.
#[inline(always)]
pub(super) unsafe fn load_small<T: Product, const C: u32>(from: *const T, to: Shared<T>, matrices: u32) {
    let width = const { 4 * C };
    let mut at = thread::thread_idx_x();
    while at < matrices * width * width {
        let (row, col) = (at / width, at % width);
        let place = row / width * width * width + T::place(row % width, col, width);
        // SAFETY: the place is in both.
        unsafe { to.store(place, mem::load_readonly(from.wrapping_add(at as usize))) };
        at += BLOCK_SIZE;
    }
}

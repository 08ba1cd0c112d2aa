//! Gram matrices of rows.

// Of the numbers of `unroll!` some are 0.
#![allow(clippy::absurd_extreme_comparisons)]

use cuda_std::{
    GpuFloat, mem, mma,
    shared::Shared,
    thread,
    warp::{self, WARP_SIZE},
};

use super::rows::{BLOCK_SIZE, Elements, MAX_COLUMNS, WARPS, column, load_row, piece, place_of_lane, warp_index};
use crate::{Scalar, unroll::unroll};

/// The elements of a row, times a scale, in `f64`.
#[inline(always)]
fn scaled<T: Scalar>(elements: [T; 8], scale: T) -> [f64; 8] {
    let mut scaled = [0.0; 8];
    unroll!(K in [0, 1, 2, 3, 4, 5, 6, 7] {
        scaled[K as usize] = scale.widen() * elements[K as usize].widen();
    });
    scaled
}

/// Elements of a row in shared memory through which a warp exchanges eight rows.
#[inline(always)]
const fn stride(width: u32) -> u32 {
    width + 4
}

/// Room for eight rows of any width in shared memory.
pub(super) const EXCHANGE: u32 = 8 * stride(MAX_COLUMNS);

/// A warp's sums of a Gram matrix of `8 * G` columns; of a symmetric one only those that do not follow from others. In a fragment of the tensor cores, column `i` of
/// group `p` is [`column`]`(8, i, p, piece)`.
#[derive(Clone, Copy)]
pub(super) struct Gram<const G: u32, const SYMMETRIC: bool> {
    /// Of groups `2 p` and `2 p + 1` with group `q`.
    sums: [[[f64; 4]; 4]; 2],
}

impl<const G: u32, const SYMMETRIC: bool> Gram<G, SYMMETRIC> {
    const WIDTH: u32 = 8 * G;

    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { sums: [[[0.0; 4]; 4]; 2] }
    }

    /// Whether there are sums of groups `p` and `q`.
    #[inline(always)]
    const fn has(p: u32, q: u32) -> bool {
        p < G && q < G && !(SYMMETRIC && q / 2 < p / 2)
    }

    /// Adds `y^T * z` for eight rows, of which this lane has rows `lane % 4` and `lane % 4 + 4`, and column `lane / 4` of each group.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    unsafe fn add(&mut self, y: [[f64; 8]; 2], z: [[f64; 8]; 2]) {
        if cfg!(cuda_arch = "75") {
            // SAFETY: the caller's promise.
            return unsafe { self.add_by_exchanges(y, z) };
        }
        unroll!(P in [0, 1] {
            if 2 * P < G {
                let p = 2 * P as usize;
                let y = [y[0][p], y[0][p + 1], y[1][p], y[1][p + 1]];
                unroll!(Q in [0, 1, 2, 3] {
                    if Self::has(2 * P, Q) {
                        let sums = &mut self.sums[P as usize][Q as usize];
                        // SAFETY: all lanes are here.
                        *sums = unsafe { mma::m16n8k8_f64(y, [z[0][Q as usize], z[1][Q as usize]], *sums) };
                    }
                });
            }
        });
    }

    /// [`add`](Self::add) without tensor cores: the same multiply-adds in the same order.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    unsafe fn add_by_exchanges(&mut self, y: [[f64; 8]; 2], z: [[f64; 8]; 2]) {
        let (g, t) = place_of_lane();
        // Eight, which the compiler does not know, so that it does not unroll the loop.
        let (mut row, rows) = (0, thread::block_dim_x() / const { BLOCK_SIZE / 8 });
        while row < rows {
            let of_row =
                |elements: &[[f64; 8]; 2], group: usize| if row < 4 { elements[0][group] } else { elements[1][group] };
            let of = row % 4;
            // SAFETY: all lanes are here.
            let from = |element, lane| unsafe { warp::warp_shuffle_idx(u32::MAX, element, lane, WARP_SIZE).0 };
            unroll!(Q in [0, 1, 2, 3] {
                if Q < G {
                    let z = of_row(&z, Q as usize);
                    let z = [from(z, 8 * t + of), from(z, 8 * t + 4 + of)];
                    unroll!(P in [0, 1, 2, 3] {
                        if Self::has(P, Q) {
                            let y = from(of_row(&y, P as usize), 4 * g + of);
                            let sums = &mut self.sums[P as usize / 2][Q as usize];
                            unroll!(J in [0, 1] {
                                let sum = &mut sums[2 * (P as usize % 2) + J as usize];
                                *sum = GpuFloat::mul_add(y, z[J as usize], *sum);
                            });
                        }
                    });
                }
            });
            row += 1;
        }
    }

    /// Adds `y^T * z` for `y` and `z` of global memory and 16 rows from `first` on, multiplied by their scales.
    ///
    /// # Safety
    /// As [`load`] and [`scales`]; all lanes of the warp call it.
    #[inline(always)]
    pub(super) unsafe fn add_rows<T: Scalar>(&mut self, y: *const T, z: *const T, scale: *const T, first: u32) {
        let (g, t) = place_of_lane();
        let (mut of_y, mut of_z, mut roots) = ([[T::ZERO; 8]; 4], [[T::ZERO; 8]; 4], [T::ZERO; 4]);
        unroll!(J in [0, 1, 2, 3] {
            let row = (first + t + 4 * J) as usize;
            let at = row * Self::WIDTH as usize;
            // SAFETY: the caller's promise.
            unsafe {
                of_y[J as usize] = load_row::<T, G>(y.wrapping_add(at), 8, g);
                of_z[J as usize] = load_row::<T, G>(z.wrapping_add(at), 8, g);
                roots[J as usize] = mem::load_readonly(scale.wrapping_add(row));
            }
        });
        unroll!(J in [0, 2] {
            let (j, next) = (J as usize, J as usize + 1);
            let y = [scaled(of_y[j], roots[j]), scaled(of_y[next], roots[next])];
            let z = [scaled(of_z[j], roots[j]), scaled(of_z[next], roots[next])];
            // SAFETY: all lanes are here.
            unsafe { self.add(y, z) };
        });
    }

    /// Adds `y^T * y` for the rows that the lanes have as [`Elements`], multiplied by their scales.
    ///
    /// # Safety
    /// All lanes of the warp call it; nothing else accesses `exchange`, which has room for [`EXCHANGE`] elements.
    #[inline(always)]
    pub(super) unsafe fn add_elements<T: Scalar, const R: usize, const C: u32>(
        &mut self,
        y: &Elements<T, R>,
        scales: [T; R],
        exchange: Shared<f64>,
    ) {
        let (g, t) = place_of_lane();
        let (piece, width) = (const { piece::<T>(C) }, Self::WIDTH);
        unroll!(U in [0, 1, 2, 3] {
            if U < R as u32 {
                let scaled = scaled(y[U as usize], scales[U as usize]);
                // SAFETY: places in the exchange; what other lanes load is stored before one barrier, and overwritten after the other.
                unsafe {
                    unroll!(K in [0, 2, 4, 6] {
                        if K < C {
                            let at = g * stride(width) + column(4, t, K, piece);
                            exchange.store_v2(at, [scaled[K as usize], scaled[K as usize + 1]]);
                        }
                    });
                    warp::sync_warp(u32::MAX);
                    let row = exchange.offset(t * stride(width));
                    let y = [Self::load_exchanged(row, g), Self::load_exchanged(row.offset(4 * stride(width)), g)];
                    self.add(y, y);
                    warp::sync_warp(u32::MAX);
                }
            }
        });
    }

    /// The elements of a row in shared memory that this lane has in a fragment.
    ///
    /// # Safety
    /// The row has been stored.
    #[inline(always)]
    unsafe fn load_exchanged(row: Shared<f64>, g: u32) -> [f64; 8] {
        let mut elements = [0.0; 8];
        // SAFETY: the caller's promise.
        unsafe {
            if G == 1 {
                elements[0] = row.load(g);
            } else {
                [elements[0], elements[1]] = row.load_v2(2 * g);
            }
            if G == 4 {
                [elements[2], elements[3]] = row.load_v2(16 + 2 * g);
            }
        }
        elements
    }

    /// Stores the sums of the block.
    ///
    /// # Safety
    /// `partials` is live global memory of a square for each block; `shared` has room for a square, which nothing else accesses any more. All threads
    /// of the block call it. `piece` is that of the columns of all groups.
    #[inline(always)]
    pub(super) unsafe fn finish(self, piece: u32, shared: Shared<f64>, partials: *mut f64) {
        let (g, t) = place_of_lane();
        let square = Self::WIDTH * Self::WIDTH;
        // SAFETY: places in the square. One warp after the other adds its sums, with a barrier between them.
        unsafe {
            let mut turn = 0;
            while turn < WARPS {
                if turn == warp_index() {
                    unroll!(P in [0, 1, 2, 3] {
                        unroll!(Q in [0, 1, 2, 3] {
                            if Self::has(P, Q) {
                                let sums = self.sums[P as usize / 2][Q as usize];
                                unroll!(J in [0, 1] {
                                    let (i, j) = (column(8, g, P, piece), column(8, 2 * t + J, Q, piece));
                                    let sum = sums[2 * (P as usize % 2) + J as usize];
                                    let at = i * Self::WIDTH + j;
                                    let sum = if turn == 0 { sum } else { shared.load(at) + sum };
                                    shared.store(at, sum);
                                    if SYMMETRIC && P / 2 < Q / 2 {
                                        shared.store(j * Self::WIDTH + i, sum);
                                    }
                                });
                            }
                        });
                    });
                }
                thread::sync_threads();
                turn += 1;
            }
            let partials = partials.wrapping_add(thread::block_idx_x() as usize * square as usize);
            let mut at = thread::thread_idx_x();
            while at < square {
                mem::store(partials.wrapping_add(at as usize), shared.load(at));
                at += BLOCK_SIZE;
            }
        }
    }
}

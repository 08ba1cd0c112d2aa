//! The columns of a row-major dense matrix that a lane has.

use cuda_std::{mem, thread};

use crate::{Scalar, unroll::unroll};

/// Of each row, `COARSENING` vectors of `VECTOR` consecutive elements, `LANES * VECTOR` apart, for a group of `LANES` lanes
/// that has a tile of columns between them.
///
/// Lanes whose columns lie beyond the last load those of another lane, and store nothing: no load in an inner loop needs a
/// condition.
#[derive(Clone, Copy, Debug)]
pub struct Columns<const VECTOR: usize, const LANES: u32, const COARSENING: usize> {
    first: [u32; COARSENING],
    exists: [bool; COARSENING],
}

impl<const VECTOR: usize, const LANES: u32, const COARSENING: usize> Columns<VECTOR, LANES, COARSENING> {
    /// The columns of this thread in a tile of a matrix of `cols` columns, a multiple of `VECTOR` and not 0.
    #[inline(always)]
    pub fn new(tile: u32, cols: u32) -> Self {
        let vector = VECTOR as u32;
        let mut columns = Self { first: [0; COARSENING], exists: [false; COARSENING] };
        unroll!(C in [0, 1, 2, 3] {
            if (C as usize) < COARSENING {
                let lane = thread::thread_idx_x() % LANES;
                let vector_index = (tile * COARSENING as u32 + C) * LANES + lane;
                let last = cols / vector - 1;
                columns.exists[C as usize % COARSENING] = vector_index <= last;
                columns.first[C as usize % COARSENING] = vector * if vector_index <= last { vector_index } else { last };
            }
        });
        columns
    }

    /// Calls `work` with every vector and element of it.
    #[inline(always)]
    pub fn for_each(&self, mut work: impl FnMut(usize, usize)) {
        unroll!(C in [0, 1, 2, 3] {
            if (C as usize) < COARSENING {
                unroll!(V in [0, 1, 2, 3] {
                    if (V as usize) < VECTOR {
                        work(C as usize, V as usize);
                    }
                });
            }
        });
    }

    /// Has the L2 cache fetch the lane's elements of a row.
    ///
    /// # Safety
    /// What [`mem::prefetch`] asks for, of all columns of the row.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn prefetch<T: mem::DeviceValue>(&self, row: *const T) {
        unroll!(C in [0, 1, 2, 3] {
            if (C as usize) < COARSENING {
                // SAFETY: the caller's promise.
                unsafe { mem::prefetch(row.add(self.first[C as usize % COARSENING] as usize)) }
            }
        });
    }

    /// The lane's elements of a row. Of a row that is written too, not `READONLY`, only columns that exist are loaded, for
    /// others have another lane.
    ///
    /// # Safety
    /// What [`mem::load`] asks for, or if `READONLY` [`mem::load_readonly`], of all columns of the row.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load<T: mem::DeviceValue, const READONLY: bool>(&self, row: *const T) -> [[T; VECTOR]; COARSENING] {
        let mut elements = [[T::default(); VECTOR]; COARSENING];
        unroll!(C in [0, 1, 2, 3] {
            if (C as usize) < COARSENING && (READONLY || self.exists[C as usize % COARSENING]) {
                let element = &mut elements[C as usize % COARSENING];
                // SAFETY: the caller's promise.
                unsafe {
                    let at = row.add(self.first[C as usize % COARSENING] as usize);
                    match (VECTOR, READONLY) {
                        (4, true) => element.copy_from_slice(&mem::load_readonly_v4(at)),
                        (4, false) => element.copy_from_slice(&mem::load_v4(at)),
                        (2, true) => element.copy_from_slice(&mem::load_readonly_v2(at)),
                        (2, false) => element.copy_from_slice(&mem::load_v2(at)),
                        (_, true) => element[0] = mem::load_readonly(at),
                        (_, false) => element[0] = mem::load(at),
                    }
                }
            }
        });
        elements
    }

    /// `row = alpha * sums + beta * row` for the lane's columns; the old row is not read if `beta` is 0.
    ///
    /// # Safety
    /// What [`mem::load`] and [`mem::store`] ask for, of all columns of the row.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn write<T: Scalar>(&self, row: *mut T, alpha: T, mut sums: [[T; VECTOR]; COARSENING], beta: T) {
        self.for_each(|c, v| sums[c][v] = alpha * sums[c][v]);
        // SAFETY: the caller's promise.
        unsafe {
            if beta != T::ZERO {
                let old = self.load::<T, false>(row);
                self.for_each(|c, v| sums[c][v] = beta.mul_add(old[c][v], sums[c][v]));
            }
            self.store_streaming(row, sums);
        }
    }
}

macro_rules! stores {
    ($($(#[$doc:meta])* $name:ident: $v1:ident $v2:ident $v4:ident;)*) => {
        impl<const VECTOR: usize, const LANES: u32, const COARSENING: usize> Columns<VECTOR, LANES, COARSENING> {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// What the store asks for, of all columns of the row.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn $name<T: mem::DeviceValue>(&self, row: *mut T, elements: [[T; VECTOR]; COARSENING]) {
                unroll!(C in [0, 1, 2, 3] {
                    if (C as usize) < COARSENING && self.exists[C as usize % COARSENING] {
                        let e = elements[C as usize % COARSENING];
                        // SAFETY: the caller's promise; the columns exist.
                        unsafe {
                            let at = row.add(self.first[C as usize % COARSENING] as usize);
                            match VECTOR {
                                4 => mem::$v4(at, [e[0], e[1 % VECTOR], e[2 % VECTOR], e[3 % VECTOR]]),
                                2 => mem::$v2(at, [e[0], e[1 % VECTOR]]),
                                _ => mem::$v1(at, e[0]),
                            }
                        }
                    }
                });
            }
        )*}
    };
}
stores! {
    /// Stores the lane's elements of a row, if they exist.
    store: store store_v2 store_v4;
    /// As `store`, for what is not read again soon.
    store_streaming: store_streaming store_streaming_v2 store_streaming_v4;
}

//! How the kernels of the conjugate gradient method go through vectors: four elements of a thread at a time.

use cuda_std::{mem, thread};

use crate::{Scalar, unroll::unroll};

/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;

/// Elements of a thread at a time.
pub(crate) const ELEMENTS: u32 = 4;

/// What a kernel does with elements.
pub(crate) trait Elements {
    /// With the `WIDTH` elements from number `i` on, 1 or 4.
    ///
    /// # Safety
    /// The elements exist, and no other thread has them.
    unsafe fn visit<const WIDTH: usize>(&mut self, i: usize);
}

/// Visits the elements of this thread: four at a time, and one of those that are left at the end.
///
/// # Safety
/// The vectors that are visited have `n` elements.
#[inline(always)]
pub(crate) unsafe fn for_elements(n: u32, elements: &mut impl Elements) {
    let quads = n / ELEMENTS;
    let threads = thread::grid_dim_x() * BLOCK_SIZE;
    let first = thread::index_1d();
    let mut quad = first;
    // SAFETY: each thread has quads of its own, below n / 4, and the first ones an element each of the rest.
    unsafe {
        while quad < quads {
            elements.visit::<4>(quad as usize * ELEMENTS as usize);
            quad += threads;
        }
        if first < n % ELEMENTS {
            elements.visit::<1>((quads * ELEMENTS + first) as usize);
        }
    }
}

#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn load<T: Scalar, const WIDTH: usize>(from: *const T) -> [T; WIDTH] {
    let mut elements = [T::ZERO; WIDTH];
    // SAFETY: the caller's promise.
    unsafe {
        if WIDTH == 4 {
            elements.copy_from_slice(&mem::load_v4(from));
        } else {
            elements[0] = mem::load(from);
        }
    }
    elements
}

#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn store<T: Scalar, const WIDTH: usize>(to: *mut T, elements: [T; WIDTH]) {
    // SAFETY: the caller's promise.
    unsafe {
        if WIDTH == 4 {
            mem::store_v4(to, [elements[0], elements[1 % WIDTH], elements[2 % WIDTH], elements[3 % WIDTH]]);
        } else {
            mem::store(to, elements[0]);
        }
    }
}

/// `work` for each of `WIDTH` elements.
#[inline(always)]
pub(crate) fn each<const WIDTH: usize>(mut work: impl FnMut(usize)) {
    unroll!(K in [0, 1, 2, 3] {
        if (K as usize) < WIDTH {
            work(K as usize % WIDTH);
        }
    });
}

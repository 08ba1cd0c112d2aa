//! Products of small matrices by a warp.

use super::thread::Thread;

/// A lane's elements of the matrices of a product, as many of each as the shape has, as [`mma`](crate::mma) lays them out.
#[derive(Clone, Copy, Default)]
pub(super) struct Fragments {
    a: [f64; 8],
    b: [f64; 4],
    pub(super) c: [f64; 4],
}

impl Fragments {
    pub(super) fn new(a: &[f64], b: &[f64], c: &[f64]) -> Self {
        let mut fragments = Self::default();
        fragments.a[..a.len()].copy_from_slice(a);
        fragments.b[..b.len()].copy_from_slice(b);
        fragments.c[..c.len()].copy_from_slice(c);
        fragments
    }
}

/// `C = A * B + C` for an `A` of `m` x `k` and a `B` of `k` x 8, in the fragments of the 32 lanes.
pub(super) fn multiply(warp: &[Thread], m: usize, k: usize) {
    let mut fragments: [Fragments; 32] = core::array::from_fn(|lane| warp[lane].fragments.get());
    for row in 0..m {
        for col in 0..8 {
            let (lane, place) = (row % 8 * 4 + col / 2, row / 8 * 2 + col % 2);
            let product = |sum: f64, p: usize| {
                let a = fragments[row % 8 * 4 + p % 4].a[row / 8 + m / 8 * (p / 4)];
                a.mul_add(fragments[col * 4 + p % 4].b[p / 4], sum)
            };
            fragments[lane].c[place] = (0..k).fold(fragments[lane].c[place], product);
        }
    }
    warp.iter().zip(fragments).for_each(|(thread, fragments)| thread.fragments.set(fragments));
}

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
    each_element(warp, m, k, |sum, pairs| pairs.iter().fold(sum, |sum, &(a, b)| a.mul_add(b, sum)));
}

/// The same for 16 x 8 by 8 x 8, with sums in `f32`: those of exact products, cut off.
pub(super) fn multiply_tf32(warp: &[Thread]) {
    each_element(warp, 16, 8, |sum, pairs| f64::from(cut_off(pairs.iter().fold(sum, |sum, (a, b)| sum + a * b))));
}

/// Replaces each element of `C` by what `sum` makes of it, and of the elements of `A` and `B` that are multiplied with each other.
fn each_element(warp: &[Thread], m: usize, k: usize, sum: impl Fn(f64, &[(f64, f64)]) -> f64) {
    let mut fragments: [Fragments; 32] = core::array::from_fn(|lane| warp[lane].fragments.get());
    for row in 0..m {
        for col in 0..8 {
            let (lane, place) = (row % 8 * 4 + col / 2, row / 8 * 2 + col % 2);
            let mut pairs = [(0.0, 0.0); 16];
            for (p, pair) in pairs[..k].iter_mut().enumerate() {
                let a = fragments[row % 8 * 4 + p % 4].a[row / 8 + m / 8 * (p / 4)];
                *pair = (a, fragments[col * 4 + p % 4].b[p / 4]);
            }
            fragments[lane].c[place] = sum(fragments[lane].c[place], &pairs[..k]);
        }
    }
    warp.iter().zip(fragments).for_each(|(thread, fragments)| thread.fragments.set(fragments));
}

/// A TF32 number: without the low 13 bits.
pub(super) fn of_tf32(number: f32) -> f64 {
    f64::from(f32::from_bits(number.to_bits() & 0xffff_e000))
}

/// The number of `f32` next to `exact` towards zero, or infinity where the nearest one is.
fn cut_off(exact: f64) -> f32 {
    let nearest = exact as f32;
    if nearest.is_finite() && f64::from(nearest).abs() > exact.abs() {
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    }
}

//! The steps on the CPU, on all cores with the feature `rayon`: see the kernel family `block_cg`.
//!
//! Gram matrices are computed for blocks of rows and added pairwise: the same input gives the same bits for any number of threads.

use crate::{Scalar, parallel::join};

/// Rows below which a block of work is not split any more.
const ROWS: usize = 512;

/// The most columns.
const MAX_COLUMNS: usize = kernels_gpu::block_cg::MAX_COLUMNS as usize;

/// `Y^T W Z`, by rows.
pub(super) fn gram<T: Scalar>(width: usize, y: &[T], z: &[T], scale: &[T]) -> Vec<f64> {
    if scale.len() > ROWS {
        let half = scale.len() / 2;
        let ((y, y_after), (z, z_after)) = (y.split_at(half * width), z.split_at(half * width));
        let (scale, scale_after) = scale.split_at(half);
        return sum(join(|| gram(width, y, z, scale), || gram(width, y_after, z_after, scale_after)));
    }
    let mut sums = vec![0.0; width * width];
    for ((y, z), &root) in y.chunks(width).zip(z.chunks(width)).zip(scale) {
        add_row(&mut sums, &weighted(y, root)[..width], &weighted(z, root)[..width]);
    }
    sums
}

/// `Q = Q + V N`; returns `Q^T W Q`.
pub(super) fn residual<T: Scalar>(width: usize, q: &mut [T], v: &[T], factor: &[T], scale: &[T]) -> Vec<f64> {
    if scale.len() > ROWS {
        let half = scale.len() / 2;
        let ((q, q_after), (v, v_after)) = (q.split_at_mut(half * width), v.split_at(half * width));
        let (scale, scale_after) = scale.split_at(half);
        let both =
            join(|| residual(width, q, v, factor, scale), || residual(width, q_after, v_after, factor, scale_after));
        return sum(both);
    }
    let mut sums = vec![0.0; width * width];
    for ((q, v), &root) in q.chunks_mut(width).zip(v.chunks(width)).zip(scale) {
        add_product(q, v, factor);
        let q = weighted(q, root);
        add_row(&mut sums, &q[..width], &q[..width]);
    }
    sums
}

/// `Q = Q R`, `S = W Q + S Z`, `X = X + S D`, for the factors one after the other.
pub(super) fn direction<T: Scalar>(width: usize, [q, s, x]: [&mut [T]; 3], factors: &[T], scale: &[T]) {
    if scale.len() > ROWS {
        let half = scale.len() / 2;
        let ([q, s, x], after): ([_; 3], [_; 3]) = {
            let [(q, q_after), (s, s_after), (x, x_after)] = [q, s, x].map(|m| m.split_at_mut(half * width));
            ([q, s, x], [q_after, s_after, x_after])
        };
        let (scale, scale_after) = scale.split_at(half);
        join(|| direction(width, [q, s, x], factors, scale), || direction(width, after, factors, scale_after));
        return;
    }
    let (to_q, others) = factors.split_at(width * width);
    let (to_s, to_x) = others.split_at(width * width);
    let rows = q.chunks_mut(width).zip(s.chunks_mut(width)).zip(x.chunks_mut(width)).zip(scale);
    for (((q, s), x), &root) in rows {
        add_product(x, s, to_x);
        let mut new = [T::default(); MAX_COLUMNS];
        add_product(&mut new[..width], q, to_q);
        q.copy_from_slice(&new[..width]);
        new.iter_mut().for_each(|element| *element = root * (root * *element));
        add_product(&mut new[..width], s, to_s);
        s.copy_from_slice(&new[..width]);
    }
}

fn weighted<T: Scalar>(row: &[T], root: T) -> [f64; MAX_COLUMNS] {
    let mut weighted = [0.0; MAX_COLUMNS];
    row.iter().zip(&mut weighted).for_each(|(element, weighted)| *weighted = root.to_f64() * element.to_f64());
    weighted
}

/// Adds the products of each element of `y` with each of `z`.
fn add_row(sums: &mut [f64], y: &[f64], z: &[f64]) {
    for (sums, &y) in sums.chunks_mut(z.len()).zip(y) {
        sums.iter_mut().zip(z).for_each(|(sum, &z)| *sum += y * z);
    }
}

/// `sums += row * matrix`.
fn add_product<T: Scalar>(sums: &mut [T], row: &[T], matrix: &[T]) {
    for (&factor, of_matrix) in row.iter().zip(matrix.chunks(sums.len())) {
        sums.iter_mut().zip(of_matrix).for_each(|(sum, &element)| *sum += factor * element);
    }
}

fn sum((mut a, b): (Vec<f64>, Vec<f64>)) -> Vec<f64> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

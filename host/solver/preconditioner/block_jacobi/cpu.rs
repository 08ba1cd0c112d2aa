//! The same on the CPU, slice by slice, on all cores with the feature `rayon`. Inverses have the bits of the kernels.

use std::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use kernels_gpu::block_jacobi::{SLICE, place};

use crate::{
    CsrMatrix, DeviceVec, Scalar,
    parallel::{for_blocks, join},
    scalar::precision,
};

/// Rows of a slice.
const ROWS: usize = SLICE as usize;

/// `z = M r`.
pub(super) fn apply<T: Scalar>(spans: &[u32], slices: &[u32], inverses: &DeviceVec<T>, r: &[T], z: &mut [T]) {
    let inverses = inverses.as_slice().on_cpu();
    for_blocks(0..z.len(), z, &|rows: Range<usize>, z: &mut [T]| {
        for (row, z) in rows.zip(z) {
            let (first, size) = block_of(spans, row);
            let elements = inverses[place(slices[row / ROWS], row as u32, 0)..].iter().step_by(ROWS);
            let products = elements.zip(&r[first..first + size]).map(|(&element, &r)| element * r);
            *z = products.fold(T::default(), |sum, product| sum + product);
        }
    });
}

/// Writes the inverses of the blocks, and returns the first row with a bad pivot.
pub(super) fn invert<T: Scalar>(
    matrix: &CsrMatrix<T>,
    spans: &[u32],
    slices: &[u32],
    inverses: &mut [T],
) -> Option<u32> {
    let bad_row = AtomicU32::new(u32::MAX);
    invert_slices(0..slices.len() - 1, slices, inverses, &|slice, elements| {
        let end = spans.len().min((slice + 1) * ROWS);
        let mut row = slice * ROWS;
        while row < end {
            let (first, size) = block_of(spans, row);
            // A block of two slices is inverted for each.
            match inverse(matrix, first, size) {
                Ok(inverse) => {
                    for row in row..end.min(first + size) {
                        let own = &inverse[(row - first) * size..][..size];
                        own.iter().enumerate().for_each(|(j, &value)| elements[place(0, row as u32, j as u32)] = value);
                    }
                }
                Err(place) => _ = bad_row.fetch_min((first + place) as u32, Relaxed),
            }
            row = first + size;
        }
    });
    Some(bad_row.into_inner()).filter(|&row| row != u32::MAX)
}

/// Calls `work` with each slice and its elements.
fn invert_slices<T: Scalar>(
    numbers: Range<usize>,
    slices: &[u32],
    elements: &mut [T],
    work: &(impl Fn(usize, &mut [T]) + Sync),
) {
    if numbers.len() <= 1 {
        return numbers.for_each(|slice| work(slice, &mut *elements));
    }
    let middle = numbers.start + numbers.len() / 2;
    let (below, above) = elements.split_at_mut((slices[middle] - slices[numbers.start]) as usize * ROWS);
    join(
        || invert_slices(numbers.start..middle, slices, below, work),
        || invert_slices(middle..numbers.end, slices, above, work),
    );
}

/// The first row of a row's block, and its size.
fn block_of(spans: &[u32], row: usize) -> (usize, usize) {
    (row - (spans[row] >> 16) as usize, (spans[row] & 0xffff) as usize)
}

/// The inverse of a block by rows, or the place of the first bad pivot.
fn inverse<T: Scalar>(matrix: &CsrMatrix<T>, first: usize, size: usize) -> Result<Vec<T>, usize> {
    let (zero, one) = (T::default(), T::from_f64(1.0));
    let magnitude = |value: T| if value < zero { -value } else { value };
    let mut a = vec![zero; size * size];
    for i in 0..size {
        let (columns, values) = matrix.row(first + i);
        for (&column, &value) in columns.iter().zip(values) {
            if (first..first + size).contains(&(column as usize)) {
                a[i * size + column as usize - first] = value;
            }
        }
    }
    let is_symmetric = (0..size).all(|i| (0..size).all(|j| a[i * size + j] == a[j * size + i]));
    let rounding = T::from_f64(precision::<T>()) * T::from_f64(size as f64);
    let least: Vec<T> = (0..size)
        .map(|j| rounding * (0..size).map(|i| magnitude(a[i * size + j])).fold(zero, |a, b| if b > a { b } else { a }))
        .collect();
    let mut order: Vec<usize> = (0..size).collect();
    for k in 0..size {
        let (mut row, mut largest) = (k, -one);
        for i in k..size {
            let value = magnitude(a[i * size + k]);
            if value > largest {
                (row, largest) = (i, value);
            }
        }
        (0..size).for_each(|j| a.swap(k * size + j, row * size + j));
        order.swap(k, row);
        let inverse = one / a[k * size + k];
        let is_large = largest > least[k];
        if !(is_large && inverse.to_f64().is_finite()) {
            return Err(k);
        }
        (0..size).for_each(|j| a[k * size + j] = if j == k { inverse } else { a[k * size + j] * inverse });
        for i in (0..size).filter(|&i| i != k) {
            let factor = a[i * size + k];
            a[i * size + k] = zero;
            (0..size).for_each(|j| a[i * size + j] = (-factor).mul_add(a[k * size + j], a[i * size + j]));
        }
    }
    // Columns change places as rows have: that of the row that came to `j` goes where the row was.
    let mut columns = vec![0; size];
    order.iter().enumerate().for_each(|(j, &was)| columns[was] = j);
    let of = |i: usize, j: usize| a[i * size + columns[j]];
    let half = T::from_f64(0.5);
    let element = |i: usize, j: usize| if is_symmetric { half * (of(i, j) + of(j, i)) } else { of(i, j) };
    let inverse: Vec<T> = (0..size * size).map(|at| element(at / size, at % size)).collect();
    match inverse.iter().position(|value| !value.to_f64().is_finite()) {
        None => Ok(inverse),
        Some(at) => Err(at / size),
    }
}

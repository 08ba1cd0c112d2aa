//! Vector operations on the CPU, on all cores with the feature `rayon`.

use std::ops::Range;

use kernels_gpu::philox::philox;

use super::{CastFrom, DeviceIndices, DeviceScalar, Factor, Map, Random, Reduction, Zip};
use crate::{
    DeviceSlice, DeviceSliceMut, Element, Scalar,
    parallel::{BLOCK, for_blocks, merged},
};

pub(super) fn fill<T: Scalar>(y: DeviceSliceMut<'_, T>, value: Factor<'_, T>) {
    let value = value.on_cpu();
    each(y, |_, y| y.fill(value))
}

pub(super) fn axpby<T: Scalar>(
    y: DeviceSliceMut<'_, T>,
    alpha: Factor<'_, T>,
    x: Option<DeviceSlice<'_, T>>,
    beta: Factor<'_, T>,
) {
    let (zero, one) = (T::default(), T::from_f64(1.0));
    let (alpha, beta) = (alpha.on_cpu(), beta.on_cpu());
    match x.map(DeviceSlice::on_cpu).filter(|_| alpha != zero) {
        None if beta == zero => each(y, |_, y| y.fill(zero)),
        None => each(y, |_, y| y.iter_mut().for_each(|y| *y = beta * *y)),
        Some(x) if beta == zero => each(y, |range, y| combine(y, &x[range], |_, x| alpha * x)),
        Some(x) if beta == one => each(y, |range, y| combine(y, &x[range], |y, x| alpha * x + y)),
        Some(x) => each(y, |range, y| combine(y, &x[range], |y, x| alpha * x + beta * y)),
    }
}

pub(super) fn map<T: Scalar>(y: DeviceSliceMut<'_, T>, map: &Map<T>, x: Option<DeviceSlice<'_, T>>) {
    let function = function(map);
    match x.map(DeviceSlice::on_cpu) {
        Some(x) => each(y, |range, y| combine(y, &x[range], |_, x| function(x))),
        None => each(y, |_, y| y.iter_mut().for_each(|y| *y = function(*y))),
    }
}

pub(super) fn zip<T: Scalar>(y: DeviceSliceMut<'_, T>, zip: Zip, a: Option<DeviceSlice<'_, T>>, b: DeviceSlice<'_, T>) {
    let (function, b) = (function_of_two::<T>(zip), b.on_cpu());
    let Some(a) = a.map(DeviceSlice::on_cpu) else {
        return each(y, |range, y| combine(y, &b[range], function));
    };
    each(y, |range, y| {
        let operands = a[range.clone()].iter().zip(&b[range]);
        y.iter_mut().zip(operands).for_each(|(y, (&a, &b))| *y = function(a, b));
    });
}

pub(super) fn random<T: Scalar>(y: DeviceSliceMut<'_, T>, random: Random<T>) {
    let Random { seed, normal, shift, factor } = random;
    let of_block = 16 / size_of::<T>();
    each(y, |range, y| {
        let mut block = (u64::MAX, [T::default(); 4]);
        for (i, y) in range.zip(y) {
            let number = (i / of_block) as u64;
            if block.0 != number {
                block = (number, T::random(philox([number, 0], seed), normal));
            }
            *y = cuda_std::GpuFloat::mul_add(factor, block.1[i % of_block], shift);
        }
    })
}

pub(super) fn assign<T: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, T>) {
    let x = x.on_cpu();
    each(y, |range, y| y.copy_from_slice(&x[range]))
}

pub(super) fn gather<T: Element>(y: DeviceSliceMut<'_, T>, indices: &DeviceIndices, x: DeviceSlice<'_, T>) {
    let (indices, x) = (indices.vector().as_slice().on_cpu(), x.on_cpu());
    each(y, |range, y| y.iter_mut().zip(&indices[range]).for_each(|(y, &index)| *y = x[index as usize]))
}

pub(super) fn scatter<T: Element>(y: DeviceSliceMut<'_, T>, indices: &DeviceIndices, x: DeviceSlice<'_, T>) {
    let y = y.on_cpu_mut();
    indices.vector().as_slice().on_cpu().iter().zip(x.on_cpu()).for_each(|(&index, &x)| y[index as usize] = x);
}

pub(super) fn cast<T: CastFrom<U>, U: Element>(y: DeviceSliceMut<'_, T>, x: DeviceSlice<'_, U>) {
    let x = x.on_cpu();
    each(y, |range, y| y.iter_mut().zip(&x[range]).for_each(|(y, &x)| *y = T::cast(x)))
}

pub(super) fn dot<T: Scalar>(x: DeviceSlice<'_, T>, y: DeviceSlice<'_, T>, result: &mut DeviceScalar<T>) {
    set(result, T::from_f64(dot_of(x, y)));
}

pub(super) fn dot_of<T: Scalar>(x: DeviceSlice<'_, T>, y: DeviceSlice<'_, T>) -> f64 {
    let (x, y) = (x.on_cpu(), y.on_cpu());
    let of_block = |range: Range<usize>| {
        x[range.clone()].iter().zip(&y[range]).fold(0.0, |sum, (x, y)| sum + x.to_f64() * y.to_f64())
    };
    merged(BLOCK, 0..x.len(), &of_block, &|a, b| a + b)
}

/// Computes `w = (w + h[0] * vectors[0] + h[1] * vectors[1] + ...) * factor` in `f64`, rounded once.
pub(super) fn combine_vectors<T: Scalar>(w: &mut [T], vectors: &[&[T]], h: &[f64], factor: f64) {
    for_blocks(0..w.len(), w, &|range: Range<usize>, w: &mut [T]| {
        for (first, w) in range.step_by(STRIP).zip(w.chunks_mut(STRIP)) {
            let mut sums = [0.0; STRIP];
            sums.iter_mut().zip(&*w).for_each(|(sum, w)| *sum = w.to_f64());
            for (vector, length) in vectors.iter().zip(h) {
                let vector = &vector[first..first + w.len()];
                sums.iter_mut().zip(vector).for_each(|(sum, v)| *sum += length * v.to_f64());
            }
            w.iter_mut().zip(sums).for_each(|(w, sum)| *w = T::from_f64(sum * factor));
        }
    });
}

/// Elements whose sums a core keeps in its fastest cache.
const STRIP: usize = 256;

pub(super) fn reduce<T: Scalar>(x: DeviceSlice<'_, T>, reduction: Reduction, result: &mut DeviceScalar<T>) {
    let x = x.on_cpu();
    let value = match reduction {
        Reduction::Sum => sum(x, |x| x),
        Reduction::Norm1 => sum(x, f64::abs),
        Reduction::Norm2 => norm2(x),
        Reduction::NormInf => largest_magnitude(x),
    };
    set(result, T::from_f64(value));
}

pub(super) fn extremum<T: Scalar>(
    x: DeviceSlice<'_, T>,
    is_max: bool,
    value: &mut DeviceScalar<T>,
    index: &mut DeviceScalar<u64>,
) {
    let x = x.on_cpu();
    // Keeps the earlier element unless the later one is more extreme.
    let better = |earlier: usize, later: usize| {
        let (a, b) = (x[earlier].to_f64(), x[later].to_f64());
        let is_better = !a.is_nan() && (b.is_nan() || if is_max { b > a } else { b < a });
        if is_better { later } else { earlier }
    };
    let of_block = |range: Range<usize>| range.reduce(better).expect("blocks have elements");
    let found = merged(BLOCK, 0..x.len(), &of_block, &better);
    set(value, x[found]);
    set(index, found as u64);
}

fn sum<T: Scalar>(x: &[T], of: impl Fn(f64) -> f64 + Sync) -> f64 {
    let of_block = |range: Range<usize>| x[range].iter().fold(0.0, |sum, x| sum + of(x.to_f64()));
    merged(BLOCK, 0..x.len(), &of_block, &|a, b| a + b)
}

pub(super) fn norm2<T: Scalar>(x: &[T]) -> f64 {
    let squares = sum(x, |x| x * x);
    // If squares overflow or lose digits to underflow, scale the elements.
    if squares.is_nan() || (1e-280..f64::INFINITY).contains(&squares) {
        return squares.sqrt();
    }
    let largest = largest_magnitude(x);
    if largest == 0.0 || largest == f64::INFINITY {
        return largest;
    }
    sum(x, |x| (x / largest) * (x / largest)).sqrt() * largest
}

fn largest_magnitude<T: Scalar>(x: &[T]) -> f64 {
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    let of_block = |range: Range<usize>| x[range].iter().map(|x| x.to_f64().abs()).fold(0.0, larger);
    merged(BLOCK, 0..x.len(), &of_block, &larger)
}

fn function<T: Scalar>(map: &Map<T>) -> impl Fn(T) -> T + Sync + use<T> {
    let map = *map;
    let (zero, through) = (T::default(), |x: T, f: fn(f64) -> f64| T::from_f64(f(x.to_f64())));
    move |x| match map {
        Map::Abs => through(x, f64::abs),
        Map::Sqrt => through(x, f64::sqrt),
        Map::Recip => T::from_f64(1.0) / x,
        Map::Exp => through(x, f64::exp),
        Map::Ln => through(x, f64::ln),
        Map::Tanh => through(x, f64::tanh),
        Map::Sigmoid => through(x, |x| 1.0 / (1.0 + (-x).exp())),
        Map::Relu => {
            if x < zero {
                zero
            } else {
                x
            }
        }
        Map::LeakyRelu(slope) => {
            if x <= zero {
                slope * x
            } else {
                x
            }
        }
        Map::Add(number) => x + number,
        Map::Mul(number) => x * number,
        Map::Clamp(least, most) => {
            if x < least {
                least
            } else if x > most {
                most
            } else {
                x
            }
        }
    }
}

fn function_of_two<T: Scalar>(zip: Zip) -> fn(T, T) -> T {
    match zip {
        Zip::Add => |x, y| x + y,
        Zip::Sub => |x, y| x - y,
        Zip::Mul => |x, y| x * y,
        Zip::Div => |x, y| x / y,
        Zip::Min => |x, y| if x < y || x.to_f64().is_nan() { x } else { y },
        Zip::Max => |x, y| if x > y || x.to_f64().is_nan() { x } else { y },
    }
}

/// Computes `y[i] = function(y[i], x[i])`.
fn combine<T: Copy>(y: &mut [T], x: &[T], function: impl Fn(T, T) -> T) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = function(*y, x));
}

/// Calls `work` with blocks of elements and their ranges.
fn each<T: Element>(y: DeviceSliceMut<'_, T>, work: impl Fn(Range<usize>, &mut [T]) + Sync) {
    let y = y.on_cpu_mut();
    for_blocks(0..y.len(), y, &work);
}

fn set<T: Element>(scalar: &mut DeviceScalar<T>, value: T) {
    scalar.vector_mut().as_slice_mut().on_cpu_mut()[0] = value;
}

//! What operations on vectors give, in f64.

use std::ops::Range;

use measure::{
    Errors,
    reference::{bound, read, spread},
};
use rayon::prelude::*;
use warpsparse::{Device, DeviceVec, Result, Scalar};

use super::{
    Operation,
    operation::{ALPHA, BETA, SCALE, VALUE, fill_normal, fill_uniform},
};

/// Elements of `y`, all of them or those of stretches from everywhere, and numbers.
pub(crate) struct VectorReference {
    n: usize,
    places: Vec<Range<usize>>,
    /// The elements there, and for each of them what it may be off.
    elements: Vec<(f64, f64)>,
    numbers: Vec<Number>,
}

/// What a vector is reduced to.
#[derive(Clone, Copy, Default)]
struct Number {
    value: f64,
    /// What is rounded to the type of the elements on the way, whatever it is added up in.
    rounded: f64,
    /// Of all terms of a sum together.
    magnitude: f64,
}

/// Elements of a stretch.
const STRETCH: usize = 1 << 14;
/// The most stretches.
const STRETCHES: usize = 64;

impl VectorReference {
    /// Of the operation on these `x` and `y`.
    pub(super) fn new<T: Scalar>(operation: Operation, x: &[T], y: &[T]) -> Result<Self> {
        let n = x.len();
        let stretch = |number: usize| number * STRETCH..((number + 1) * STRETCH).min(n);
        let mut places: Vec<_> = spread(n.div_ceil(STRETCH), STRETCHES).into_iter().map(stretch).collect();
        let elements: Option<Vec<_>> = match operation {
            Operation::FillUniform => Some(of_cpu(n, &places, fill_uniform::<T>)?),
            Operation::FillNormal => Some(of_cpu(n, &places, fill_normal::<T>)?),
            _ => places
                .iter()
                .cloned()
                .flatten()
                .map(|i| element::<T>(operation, x[i].to_f64(), y[i].to_f64()))
                .collect(),
        };
        // What writes no `y` has no element there.
        if elements.is_none() {
            places.clear();
        }
        let numbers = numbers(operation, x, y);
        Ok(Self { n, places, elements: elements.unwrap_or_default(), numbers })
    }

    /// Where in `y` the known elements lie.
    pub(crate) fn places(&self) -> impl Iterator<Item = Range<usize>> {
        self.places.iter().cloned()
    }

    /// How many numbers are given.
    pub(crate) fn numbers(&self) -> usize {
        self.numbers.len()
    }

    /// The errors of the elements of `y` at the known places, one after the other, and of numbers, which were added up in type `A`.
    pub(crate) fn errors<T: Scalar, A: Scalar>(&self, elements: &[T], numbers: &[f64]) -> Errors {
        let found = (elements.len(), numbers.len());
        assert_eq!(found, (self.elements.len(), self.numbers.len()), "one for each that is known");
        let number = |it: &Number| (it.value, bound::<T>(1, it.rounded) + bound::<A>(self.n, it.magnitude));
        let expected: Vec<_> = self.elements.iter().copied().chain(self.numbers.iter().map(number)).collect();
        Errors::of(elements.iter().map(|it| it.to_f64()).chain(numbers.iter().copied()), &expected)
    }
}

/// Random numbers are the same bits on every device.
fn of_cpu<T: Scalar>(
    n: usize,
    places: &[Range<usize>],
    fill: impl Fn(&mut DeviceVec<T>) -> Result<()>,
) -> Result<Vec<(f64, f64)>> {
    let mut y = Device::cpu().zeros(n)?;
    fill(&mut y)?;
    Ok(read(&y, places.iter().cloned())?.into_iter().map(|element| (element.to_f64(), 0.0)).collect())
}

/// An element of the new `y`, and what it may be off; none of what writes no `y`.
fn element<T: Scalar>(operation: Operation, x: f64, y: f64) -> Option<(f64, f64)> {
    let rounded = |value: f64, magnitude: f64| Some((value, bound::<T>(1, magnitude)));
    let sum = |ax: f64, by: f64| rounded(ax + by, ax.abs() + by.abs());
    match operation {
        Operation::Axpy | Operation::AxpyDot => sum(ALPHA * x, y),
        Operation::Axpby | Operation::AxpbyNorm => sum(ALPHA * x, BETA * y),
        Operation::Scale => Some((SCALE * y, 0.0)),
        Operation::Assign => Some((x, 0.0)),
        Operation::ZipMul => rounded(x * y, (x * y).abs()),
        Operation::MapRelu => Some((x.max(0.0), 0.0)),
        // 4 units in the last place.
        Operation::MapExp => rounded(x.exp(), x.exp()),
        Operation::Fill => Some((VALUE, 0.0)),
        Operation::Dot | Operation::Sum | Operation::Norm2 | Operation::Max => None,
        Operation::FillUniform | Operation::FillNormal => unreachable!("random numbers are no function of x and y"),
    }
}

fn numbers<T: Scalar>(operation: Operation, x: &[T], y: &[T]) -> Vec<Number> {
    let of_sum = |(value, magnitude): (f64, f64)| Number { value, rounded: f64::abs(value), magnitude };
    match operation {
        Operation::Dot => vec![of_sum(sum(x, y, |x, y| x * y))],
        Operation::Sum => vec![of_sum(sum(x, y, |x, _| x))],
        Operation::Norm2 => {
            let value = sum(x, y, |x, _| x * x).0.sqrt();
            vec![Number { value, rounded: value, magnitude: value }]
        }
        Operation::Max => {
            let value = x.par_iter().map(|x| x.to_f64()).reduce(|| f64::NEG_INFINITY, f64::max);
            let index = x.par_iter().position_first(|x| x.to_f64() == value).expect("it is one of them");
            [value, index as f64].map(|value| Number { value, ..Number::default() }).to_vec()
        }
        // Every element of the new `y` is rounded.
        Operation::AxpyDot => {
            let (value, magnitude) = sum(x, y, |x, y| (ALPHA * x + y) * y);
            vec![Number { value, rounded: magnitude, magnitude }]
        }
        Operation::AxpbyNorm => {
            let value = sum(x, y, |x, y| (ALPHA * x + BETA * y).powi(2)).0.sqrt();
            let magnitude = sum(x, y, |x, y| ((ALPHA * x).abs() + (BETA * y).abs()).powi(2)).0.sqrt();
            vec![Number { value, rounded: magnitude, magnitude }]
        }
        _ => Vec::new(),
    }
}

/// The sum of the terms, and that of their magnitudes.
fn sum<T: Scalar>(x: &[T], y: &[T], term: impl Fn(f64, f64) -> f64 + Sync) -> (f64, f64) {
    let add = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
    let of_piece = |(x, y): (&[T], &[T])| {
        let terms = x.iter().zip(y).map(|(x, y)| term(x.to_f64(), y.to_f64()));
        terms.map(|term| (term, term.abs())).fold((0.0, 0.0), add)
    };
    x.par_chunks(STRETCH).zip(y.par_chunks(STRETCH)).map(of_piece).reduce(|| (0.0, 0.0), add)
}

#[cfg(test)]
mod tests {
    use super::{super::Vectors, *};

    /// The problem's reference for `n` elements, and what it takes for right.
    fn known(operation: Operation, n: usize) -> (VectorReference, Vec<f32>, Vec<f64>) {
        let reference = Vectors::<f32>::random(n).unwrap().problem(operation).unwrap().reference;
        let elements = reference.elements.iter().map(|(element, _)| *element as f32).collect();
        let numbers = reference.numbers.iter().map(|number| number.value).collect();
        (reference, elements, numbers)
    }

    #[test]
    fn long_vectors_are_known_at_both_ends() {
        let (reference, elements, _) = known(Operation::FillUniform, 3_000_001);
        assert_eq!((elements.len(), reference.places.len()), (63 * STRETCH + 3_000_001 % STRETCH, STRETCHES));
        assert_eq!((reference.places[0].start, reference.places[63].end), (0, 3_000_001));
        assert!(known(Operation::Max, 100).1.is_empty());
    }

    #[test]
    fn wrong_elements_are_noticed() {
        let (reference, mut elements, numbers) = known(Operation::Axpby, 100);
        let mut over_bound = |error: f32| {
            elements[99] += error;
            reference.errors::<f32, f64>(&elements, &numbers).over_bound
        };
        assert!(over_bound(0.0) < 1.0 && over_bound(1e-5) > 1.0 && over_bound(f32::NAN).is_nan());
    }

    #[test]
    fn sums_without_one_block_are_noticed() {
        for operation in [Operation::Dot, Operation::Norm2] {
            let (reference, _, numbers) = known(operation, 1 << 20);
            let over_bound = |part: f64| reference.errors::<f32, f32>(&[], &[part * numbers[0]]).over_bound;
            assert!(over_bound(1.0) == 0.0 && over_bound(0.999) > 1.0, "{operation:?}");
            let rounded_once = |part: f64| reference.errors::<f32, f64>(&[], &[part * numbers[0]]).over_bound;
            assert!(rounded_once(1.0 + 1e-8) < 1.0 && rounded_once(1.0 - 1e-6) > 1.0, "{operation:?}");
        }
    }

    #[test]
    fn the_largest_is_the_first_of_several() {
        let x = [0.5f32, 0.75, 0.75, -1.0];
        let reference = VectorReference::new(Operation::Max, &x, &x).unwrap();
        let is_right = |numbers: &[f64]| reference.errors::<f32, f64>(&[], numbers).over_bound == 0.0;
        assert!(is_right(&[0.75, 1.0]) && !is_right(&[0.75, 2.0]));
    }
}

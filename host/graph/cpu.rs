//! Operations on graphs on the CPU, on all cores with the feature `rayon`.

use std::ops::Range;

use super::{Lists, sddmm::Sddmm, spmm::Sums};
use crate::{
    DenseMut, DenseRef, Element, Scalar,
    dense::{Rows, RowsMut},
    parallel::join,
    spmv::output,
};

/// The work, in elements of edges and lists, below which lists are not shared among threads. Not measured yet.
const GRAIN: usize = 1 << 13;

/// Columns whose sums are accumulated together.
const BLOCK: usize = 32;

/// What is written for lists, which threads share.
pub(super) trait Share: Send + Sized {
    /// What belongs to the first `lists` lists, which have so many edges, and what belongs to the others.
    fn split_at(self, lists: usize, edges: usize) -> (Self, Self);
}

/// A matrix with a row for each list.
pub(super) struct OfLists<'a, T>(pub(super) RowsMut<'a, T>);

/// A matrix with a row for each edge of the lists.
pub(super) struct OfEdges<'a, T>(pub(super) RowsMut<'a, T>);

impl<T: Element> Share for OfLists<'_, T> {
    fn split_at(self, lists: usize, _: usize) -> (Self, Self) {
        let (first, others) = self.0.split_at(lists);
        (Self(first), Self(others))
    }
}

impl<T: Element> Share for OfEdges<'_, T> {
    fn split_at(self, _: usize, edges: usize) -> (Self, Self) {
        let (first, others) = self.0.split_at(edges);
        (Self(first), Self(others))
    }
}

impl<A: Share, B: Share> Share for (A, B) {
    fn split_at(self, lists: usize, edges: usize) -> (Self, Self) {
        let ((a, others_a), (b, others_b)) = (self.0.split_at(lists, edges), self.1.split_at(lists, edges));
        ((a, b), (others_a, others_b))
    }
}

/// The lists in host memory.
#[derive(Clone, Copy)]
pub(super) struct HostLists<'a> {
    offsets: &'a [u32],
    neighbours: &'a [u32],
    numbers: Option<&'a [u32]>,
}

impl<'a> HostLists<'a> {
    pub(super) fn new(lists: &'a Lists) -> Self {
        Self {
            offsets: lists.offsets.buffer().on_cpu(),
            neighbours: lists.neighbours.buffer().on_cpu(),
            numbers: lists.numbers.as_ref().map(|numbers| numbers.buffer().on_cpu()),
        }
    }

    fn range(&self, list: usize) -> Range<usize> {
        self.offsets[list] as usize..self.offsets[list + 1] as usize
    }

    /// The neighbour and the number of each edge of a list.
    pub(super) fn edges(&self, list: usize) -> impl Iterator<Item = (usize, usize)> + Clone + use<'a> {
        let Self { neighbours, numbers, .. } = *self;
        self.range(list)
            .map(move |place| (neighbours[place] as usize, numbers.map_or(place, |numbers| numbers[place] as usize)))
    }

    /// Calls `work(lists, out)` for ranges of lists, in parallel, where an edge has the work of `cost`.
    pub(super) fn for_ranges<O: Share>(self, cost: usize, out: O, work: &(impl Fn(Range<usize>, O) + Sync)) {
        self.for_ranges_of(0..self.offsets.len() - 1, cost, out, work);
    }

    fn for_ranges_of<O: Share>(
        self,
        lists: Range<usize>,
        cost: usize,
        out: O,
        work: &(impl Fn(Range<usize>, O) + Sync),
    ) {
        let edges = |lists: &Range<usize>| (self.offsets[lists.end] - self.offsets[lists.start]) as usize;
        if lists.len() < 2 || (edges(&lists) + lists.len()).saturating_mul(cost) <= GRAIN {
            return work(lists, out);
        }
        let middle = lists.start + lists.len() / 2;
        let (first, others) = (lists.start..middle, middle..lists.end);
        let (out, other_out) = out.split_at(first.len(), edges(&first));
        join(|| self.for_ranges_of(first, cost, out, work), || self.for_ranges_of(others, cost, other_out, work));
    }
}

/// `e^x`.
pub(super) fn exp<T: Scalar>(x: T) -> T {
    T::from_f64(x.to_f64().exp())
}

/// The larger of two scores; a NaN is passed over.
pub(super) fn larger<T: Scalar>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// What is subtracted from scores whose largest is `max`: 0 if all are negative infinity.
pub(super) fn shift<T: Scalar>(max: T) -> T {
    if max == T::from_f64(f64::NEG_INFINITY) { T::ZERO } else { max }
}

pub(super) fn dot<T: Scalar>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).fold(T::ZERO, |sum, (&x, &y)| sum + x * y)
}

pub(super) fn sddmm<T: Scalar>(rows: &Lists, product: Sddmm<'_, T>) {
    let Sddmm { alpha, weights, x, y, marks, beta, values } = product;
    let (heads, width) = (values.ncols(), x.ncols() / values.ncols());
    let (rows, weights, marks) = (HostLists::new(rows), weights.map(Rows::new), marks.map(Rows::new));
    let (x, y) = (Rows::new(x), Rows::new(y));
    rows.for_ranges(heads * width.max(1), OfEdges(RowsMut::new(values)), &|range, OfEdges(mut values)| {
        let first = rows.offsets[range.start] as usize;
        for row in range {
            for (column, number) in rows.edges(row) {
                for head in 0..heads {
                    let (x, y) = (x.part(row, head * width, width), y.part(column, head * width, width));
                    let mut sum = match marks {
                        None => dot(x, y),
                        Some(marks) => marks.part(row, 0, width).iter().zip(x.iter().zip(y)).fold(
                            T::ZERO,
                            |sum, (&mark, (&x, &y))| if mark as usize == number { sum + x * y } else { sum },
                        ),
                    };
                    if let Some(weights) = weights {
                        sum = weights.at(number, head) * sum;
                    }
                    let value = values.at(number - first, head);
                    *value = output(alpha, sum, beta, *value);
                }
            }
        }
    });
}

pub(super) fn sums<T: Scalar>(lists: &Lists, sums: Sums<'_, T>) {
    let Sums { alpha, values, b, marks, beta, c } = sums;
    let (cols, heads) = (c.ncols(), values.map_or(1, |values| values.ncols()));
    let (lists, values, marks) = (HostLists::new(lists), values.map(Rows::new), marks.map(Rows::new));
    let (b, width) = (Rows::new(b), cols / heads);
    lists.for_ranges(cols, OfLists(RowsMut::new(c)), &|range, OfLists(mut c)| {
        for (list, head) in range.clone().flat_map(|list| (0..heads).map(move |head| (list, head))) {
            let c = c.part(list - range.start, head * width, width);
            for (block, c) in c.chunks_mut(BLOCK).enumerate() {
                let first = head * width + block * BLOCK;
                let mut sums = [T::ZERO; BLOCK];
                for (neighbour, number) in lists.edges(list) {
                    let value = values.map_or(T::ONE, |values| values.at(number, head));
                    let b = b.part(neighbour, first, c.len());
                    for (column, (sum, &b)) in sums.iter_mut().zip(b).enumerate() {
                        if marks.is_none_or(|marks| marks.at(neighbour, first + column) as usize == number) {
                            *sum += value * b;
                        }
                    }
                }
                for (c, sum) in c.iter_mut().zip(sums) {
                    *c = output(alpha, sum, beta, *c);
                }
            }
        }
    });
}

pub(super) fn softmax<T: Scalar>(rows: &Lists, x: DenseRef<'_, T>, y: DenseMut<'_, T>) {
    let (rows, heads, x) = (HostLists::new(rows), x.ncols(), Rows::new(x));
    rows.for_ranges(heads, OfEdges(RowsMut::new(y)), &|range, OfEdges(mut y)| {
        let first = rows.offsets[range.start] as usize;
        for row in range {
            for head in 0..heads {
                let edges = rows.range(row);
                let max = edges.clone().map(|k| x.at(k, head)).fold(T::from_f64(f64::NEG_INFINITY), larger);
                let shift = shift(max);
                // In `f64`: many edges may have small shares.
                let mut sum = 0.0;
                for k in edges.clone() {
                    let power = exp(x.at(k, head) - shift);
                    *y.at(k - first, head) = power;
                    sum += power.to_f64();
                }
                for k in edges {
                    let y = y.at(k - first, head);
                    *y = T::from_f64(y.to_f64() / sum);
                }
            }
        }
    });
}

pub(super) fn softmax_backward<T: Scalar>(
    rows: &Lists,
    y: DenseRef<'_, T>,
    d_y: DenseRef<'_, T>,
    d_x: DenseMut<'_, T>,
) {
    let (rows, heads) = (HostLists::new(rows), y.ncols());
    let (y, d_y) = (Rows::new(y), Rows::new(d_y));
    rows.for_ranges(heads, OfEdges(RowsMut::new(d_x)), &|range, OfEdges(mut d_x)| {
        let first = rows.offsets[range.start] as usize;
        for row in range {
            for head in 0..heads {
                let edges = rows.range(row);
                let sum: f64 = edges.clone().map(|k| y.at(k, head).to_f64() * d_y.at(k, head).to_f64()).sum();
                for k in edges {
                    *d_x.at(k - first, head) = T::from_f64(y.at(k, head).to_f64() * (d_y.at(k, head).to_f64() - sum));
                }
            }
        }
    });
}

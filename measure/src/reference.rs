//! What a product is, in f64, and how far off one is.

use std::{iter, ops::Range};

use rayon::prelude::*;
use warpsparse::{CsrMatrix, DeviceVec, Reduce, Result, Scalar, Weights};

/// Rows of the product of a matrix with a dense one, row-major without gaps.
#[derive(Debug)]
pub struct Reference {
    cols: usize,
    /// The rows that are known, in order.
    rows: Vec<Range<usize>>,
    /// Their elements, and for each of them what it may be off: for an extremum 0, for a sum its [`bound`].
    elements: Vec<(f64, f64)>,
}

/// How far a product is off its reference.
#[derive(Clone, Copy, Debug)]
pub struct Errors {
    /// In the 2-norm; 0 where both are zero everywhere.
    pub relative: f64,
    /// The largest error of an element over its bound.
    pub over_bound: f64,
    /// The median error of an element over its bound.
    pub median_over_bound: f64,
}

/// What becomes of the products of a row's entries with rows of `B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// What is taken of them.
    pub reduce: Reduce,
    /// What rows of `B` are multiplied by.
    pub weights: Weights,
}

impl Reduction {
    /// The product of the matrices.
    pub const PRODUCT: Self = Self { reduce: Reduce::Sum, weights: Weights::Values };

    fn weight<T: Scalar>(self, value: T) -> T {
        match self.weights {
            Weights::Values => value,
            Weights::Ones => T::from_f64(1.0),
        }
    }
}

impl Reference {
    /// Of the matrix times `b`, which has `cols` columns: all rows, or as many as take about so many products of elements,
    /// the longest row and rows from everywhere among them.
    pub fn new<T: Scalar>(matrix: &CsrMatrix<T>, b: &[T], cols: usize, products: usize) -> Self {
        Self::of_reduction(Reduction::PRODUCT, matrix, b, cols, products)
    }

    /// As [`new`](Self::new), of any reduction.
    pub fn of_reduction<T: Scalar>(
        reduction: Reduction,
        matrix: &CsrMatrix<T>,
        b: &[T],
        cols: usize,
        products: usize,
    ) -> Self {
        let rows = sample(matrix, products / cols.max(1));
        let row = |i: usize| match reduction.reduce {
            Reduce::Sum => sums(reduction, matrix, b, cols, i),
            Reduce::Mean => {
                let entries = matrix.row_range(i).len().max(1) as f64;
                let mean = |(sum, bound)| (sum / entries, bound / entries);
                sums(reduction, matrix, b, cols, i).into_iter().map(mean).collect()
            }
            Reduce::Max => extrema(reduction, matrix, b, cols, i, |product, most| product > most),
            Reduce::Min => extrema(reduction, matrix, b, cols, i, |product, least| product < least),
        };
        let elements = rows.par_iter().flat_map(|rows| rows.clone().into_par_iter().flat_map_iter(row)).collect();
        Self { cols, rows, elements }
    }

    /// How many rows are known.
    pub fn known_rows(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }

    /// Where in a product the known elements lie.
    pub fn places(&self) -> impl Iterator<Item = Range<usize>> {
        self.rows.iter().map(|rows| rows.start * self.cols..rows.end * self.cols)
    }

    /// What a product has at the known places, one after the other.
    pub fn pick<T: Scalar>(&self, product: &[T]) -> Vec<T> {
        self.places().flat_map(|place| &product[place]).copied().collect()
    }

    /// The errors of what a product has at the known places, one after the other.
    pub fn errors<T: Scalar>(&self, found: &[T]) -> Errors {
        assert_eq!(found.len(), self.elements.len(), "an element for each that is known");
        Errors::of(found.iter().copied(), &self.elements)
    }
}

impl Errors {
    /// Of the elements found, where each is expected with what it may be off.
    pub fn of<T: Scalar>(found: impl Iterator<Item = T>, expected: &[(f64, f64)]) -> Self {
        let (mut difference, mut norm, mut over_bound, mut ratios) =
            (0.0, 0.0, 0.0, Vec::with_capacity(expected.len()));
        for (found, &(expected, bound)) in found.zip(expected) {
            let error = (found.to_f64() - expected).abs();
            difference += error * error;
            norm += expected * expected;
            let ratio = if error == 0.0 { 0.0 } else { error / bound };
            // `f64::max` would drop a NaN.
            over_bound = if ratio > over_bound || ratio.is_nan() { ratio } else { over_bound };
            ratios.push(ratio);
        }
        let middle = ratios.len() / 2;
        let median = |ratios: &mut [f64]| *ratios.select_nth_unstable_by(middle, f64::total_cmp).1;
        let median_over_bound = if ratios.is_empty() { 0.0 } else { median(&mut ratios) };
        Self {
            relative: if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() },
            over_bound,
            median_over_bound,
        }
    }
}

/// What a vector has at these places, one after the other.
pub fn read<T: Scalar>(vector: &DeviceVec<T>, places: impl Iterator<Item = Range<usize>>) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    for place in places {
        let start = elements.len();
        elements.resize(start + place.len(), T::default());
        vector.copy_range_to(place.start, &mut elements[start..])?;
    }
    Ok(elements)
}

/// What a sum of so many rounded products may be off, if their magnitudes add up to `magnitude`, whatever the order of the additions:
/// the magnitude rounded once for each product (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1), in the
/// reference as well, and three times for factors; but of more products than 16, `n`, only `4 sqrt(n)` times. Roundings of random numbers
/// go either way, and exceed that with a probability of less than 1e-13 (Higham & Mary, "A New Approach to Probabilistic
/// Rounding Error Analysis", 2019). With a bound that grows with `n`, no one would notice that pieces of a long sum are missing.
pub fn bound<T: Scalar>(products: usize, magnitude: f64) -> f64 {
    let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let products = products as f64;
    (products.min(4.0 * products.sqrt()) + 3.0) * epsilon * magnitude
}

/// The sums of row `i`, and what they may be off.
fn sums<T: Scalar>(reduction: Reduction, matrix: &CsrMatrix<T>, b: &[T], cols: usize, i: usize) -> Vec<(f64, f64)> {
    let row = matrix.row_range(i);
    let mut sums = vec![(0.0, 0.0); cols];
    for k in row.clone() {
        let weight = reduction.weight(matrix.values()[k]).to_f64();
        let first = matrix.col_indices()[k] as usize * cols;
        for ((sum, magnitude), element) in sums.iter_mut().zip(&b[first..first + cols]) {
            let product = weight * element.to_f64();
            *sum += product;
            *magnitude += product.abs();
        }
    }
    sums.into_iter().map(|(sum, magnitude)| (sum, bound::<T>(row.len(), magnitude))).collect()
}

/// The largest or smallest products of row `i`, rounded as on the device: there is nothing that they can be off.
fn extrema<T: Scalar>(
    reduction: Reduction,
    matrix: &CsrMatrix<T>,
    b: &[T],
    cols: usize,
    i: usize,
    is_better: fn(T, T) -> bool,
) -> Vec<(f64, f64)> {
    let row = matrix.row_range(i);
    let first = row.start;
    let mut best = vec![T::default(); cols];
    for k in row {
        let (weight, start) = (reduction.weight(matrix.values()[k]), matrix.col_indices()[k] as usize * cols);
        for (best, &element) in best.iter_mut().zip(&b[start..start + cols]) {
            let product = weight * element;
            if k == first || is_better(product, *best) {
                *best = product;
            }
        }
    }
    best.into_iter().map(|best| (best.to_f64(), 0.0)).collect()
}

/// All rows if they and their entries are no more than `most`, otherwise the longest row, and stretches evenly over the
/// matrix that make about as many.
fn sample<T: Scalar>(matrix: &CsrMatrix<T>, most: usize) -> Vec<Range<usize>> {
    const STRETCHES: usize = 64;
    let (nrows, offsets) = (matrix.nrows(), matrix.row_offsets());
    let before = |row: usize| offsets[row] as usize + row;
    if before(nrows) <= most {
        return iter::once(0..nrows).collect();
    }
    let stretch = |number: usize| {
        let (start, next) = (number * nrows / STRETCHES, (number + 1) * nrows / STRETCHES);
        let end = (start + 1..=next).take_while(|&end| before(end) - before(start) <= most / STRETCHES).last();
        start..end.unwrap_or(next.min(start + 1))
    };
    let mut rows: Vec<_> = (0..STRETCHES).map(stretch).filter(|rows| !rows.is_empty()).collect();
    let longest = (0..nrows).max_by_key(|&row| matrix.row_range(row).len()).expect("more rows than none");
    let place = rows.partition_point(|rows| rows.end <= longest);
    if rows.get(place).is_none_or(|rows| !rows.contains(&longest)) {
        rows.insert(place, longest..longest + 1);
    }
    rows
}

/// All numbers below `count` if they are no more than `most`, otherwise so many evenly spaced, the first and the last among
/// them; two at least.
pub fn spread(count: usize, most: usize) -> Vec<usize> {
    let most = most.max(2);
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|number| number * (count - 1) / (most - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 rows: an entry in each, but 500 in row 777.
    fn matrix() -> CsrMatrix<f32> {
        let long = 777;
        let offsets = (0..=1000u32).map(|row| if row > long { row + 499 } else { row }).collect();
        let columns = (0..1499u32).map(|k| if (long..long + 500).contains(&k) { k - long } else { k % 7 }).collect();
        let values = (0..1499u16).map(|k| f32::from(k % 13) - 5.0).collect();
        CsrMatrix::try_from_csr_data(1000, 500, offsets, columns, values).unwrap()
    }

    #[test]
    fn samples_have_the_longest_row_and_rows_from_everywhere() {
        let matrix = matrix();
        assert_eq!(sample(&matrix, 2499).into_iter().flatten().collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
        assert_eq!(sample(&matrix, 2499).len(), 1);
        let rows = sample(&matrix, 2498);
        assert!(rows.windows(2).all(|pair| pair[0].end <= pair[1].start), "{rows:?}");
        assert!(rows.iter().any(|rows| rows.contains(&777)) && rows[0].start == 0 && rows.last().unwrap().end > 980);
        // A row for each stretch at least, the longest not among them.
        assert_eq!(sample(&matrix, 0).len(), 65);
        let work: usize =
            sample(&matrix, 640).iter().flat_map(Clone::clone).map(|i| matrix.row_range(i).len() + 1).sum();
        assert!((320..=640 + 501).contains(&work), "{work}");
    }

    #[test]
    fn samples_know_what_the_whole_knows() {
        let (matrix, cols) = (matrix(), 3);
        let b: Vec<f32> = (0..1500u16).map(|k| f32::from(k % 11) / 8.0).collect();
        let (whole, part) = (Reference::new(&matrix, &b, cols, usize::MAX), Reference::new(&matrix, &b, cols, 900));
        assert_eq!(whole.known_rows(), 1000);
        assert_eq!(part.elements.len(), 3 * part.known_rows());
        let picked: Vec<_> = part.places().flat_map(|place| &whole.elements[place]).copied().collect();
        assert_eq!(part.elements, picked);
    }

    #[test]
    fn reductions_are_those_of_plain_numbers() {
        // 2 0 -3      1 -1
        // 0 0  0  of  5  5
        //             4 -2
        let matrix = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 2, 2], vec![0, 2], vec![2.0f64, -3.0]).unwrap();
        let b = [1.0, -1.0, 5.0, 5.0, 4.0, -2.0];
        let cases = [
            (Reduce::Sum, [-10.0, 4.0], [5.0, -3.0]),
            (Reduce::Mean, [-5.0, 2.0], [2.5, -1.5]),
            (Reduce::Max, [2.0, 6.0], [4.0, -1.0]),
            (Reduce::Min, [-12.0, -2.0], [1.0, -2.0]),
        ];
        for (reduce, by_values, by_ones) in cases {
            for (weights, expected) in [(Weights::Values, by_values), (Weights::Ones, by_ones)] {
                let reference = Reference::of_reduction(Reduction { reduce, weights }, &matrix, &b, 2, usize::MAX);
                let [x, y] = expected;
                assert_eq!(reference.errors(&[x, y, 0.0, 0.0]).over_bound, 0.0, "{reduce:?} of {weights:?}");
                let nearly = reference.errors(&[x, y * (1.0 + f64::EPSILON), 0.0, 0.0]).over_bound;
                let is_sum = matches!(reduce, Reduce::Sum | Reduce::Mean);
                assert!(
                    if is_sum { nearly < 1.0 } else { nearly.is_infinite() },
                    "{reduce:?} of {weights:?}: {nearly}"
                );
            }
        }
    }

    #[test]
    fn a_missing_piece_of_a_huge_row_is_noticed() {
        let unit = |k: u32| (f64::from(k.wrapping_mul(2_654_435_761)) / f64::from(1u32 << 31) - 1.0) as f32;
        let (values, x): (Vec<_>, Vec<_>) = (0..70_001).map(|k| (unit(k), unit(k ^ 0x5555_5555))).unzip();
        let row = CsrMatrix::try_from_csr_data(1, 70_001, vec![0u32, 70_001], (0..70_001).collect(), values).unwrap();
        let reference = Reference::new(&row, &x, 1, usize::MAX);
        let over_bound = |is_there: fn(usize) -> bool| {
            let products = row.values().iter().zip(&x).map(|(value, x)| value * x);
            let sum: f32 = products.enumerate().filter(|&(k, _)| is_there(k)).map(|(_, product)| product).sum();
            reference.errors(&[sum]).over_bound
        };
        assert!(over_bound(|_| true) < 0.1);
        assert!(over_bound(|k| k % 32 != 7) > 1.0, "without what one lane of a warp has");
        assert!(over_bound(|k| k < 69_000) > 1.0, "without the last thousand");
    }

    #[test]
    fn errors_are_relative_and_over_the_bound() {
        let one = CsrMatrix::try_from_csr_data(2, 1, vec![0u32, 1, 2], vec![0, 0], vec![3.0f64, 4.0]).unwrap();
        let reference = Reference::new(&one, &[1.0], 1, usize::MAX);
        let exact = reference.errors(&[3.0, 4.0]);
        assert_eq!((exact.relative, exact.over_bound), (0.0, 0.0));
        let off = reference.errors(&[3.0, 4.5]);
        assert!((off.relative - 0.1).abs() < 1e-15);
        assert!((off.over_bound - 0.5 / (4.0 * f64::EPSILON * 4.0)).abs() < 1.0);
        assert!(reference.errors(&[f64::NAN, 4.0]).over_bound.is_nan());
    }
}

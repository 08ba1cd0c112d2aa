//! Attention and its gradients against a reference in f64, which stores what belongs to edges.

use kernels_gpu::philox::philox;
use warpsparse::{Adjacency, Attention, AttentionGradients, AttentionInputs, CsrMatrix, Device, Scalar};

use crate::{
    common::{
        assert_within,
        matrices::from_rows,
        sums::{Sum, epsilon},
    },
    ends, exponential_bound, graphs, narrowed, numbers, pair, shapes, softmax_of, unread,
};

/// Attention and its gradients in f64, and what each element may be off in `T`.
struct AttentionReference {
    out: Vec<(f64, f64)>,
    log_sums: Vec<(f64, f64)>,
    d_row_scores: Vec<(f64, f64)>,
    d_col_scores: Vec<(f64, f64)>,
    d_features: Vec<(f64, f64)>,
}

/// Inputs of attention in f64, and the gradient of what goes out.
pub(crate) struct Numbers {
    pub(crate) row_scores: Vec<f64>,
    pub(crate) col_scores: Vec<f64>,
    pub(crate) features: Vec<f64>,
    pub(crate) d_out: Vec<f64>,
}

impl Numbers {
    pub(crate) fn new<T: Scalar>(matrix: &CsrMatrix<T>, heads: usize, width: usize) -> Self {
        let (rows, cols) = (matrix.nrows(), matrix.ncols());
        // Sums of scores are odd multiples of 1/32: none is near 0, where the leaky ReLU has no derivative.
        let score = |x: f64, odd: f64| ((x * 64.0).floor() * 2.0 + odd) / 32.0;
        Self {
            row_scores: numbers(11, rows * heads).into_iter().map(|x| score(x, 1.0)).collect(),
            col_scores: numbers(12, cols * heads).into_iter().map(|x| score(x, 0.0)).collect(),
            features: pair::<T>(13, cols * heads * width).1,
            d_out: pair::<T>(14, rows * heads * width).1,
        }
    }

    fn reference<T: Scalar>(
        &self,
        matrix: &CsrMatrix<T>,
        (heads, width): (usize, usize),
        (slope, rate, seed): (f64, f64, u64),
    ) -> AttentionReference {
        let (cols, ends) = (heads * width, ends(matrix));
        let each = |k: usize, h: usize| {
            let (i, j) = ends[k];
            let sum = self.row_scores[i * heads + h] + self.col_scores[j * heads + h];
            if sum > 0.0 { (sum, 1.0) } else { (slope * sum, slope) }
        };
        let scores: Vec<f64> = (0..ends.len() * heads).map(|at| each(at / heads, at % heads).0).collect();
        let probabilities = softmax_of(matrix, heads, &scores);
        // The rule in words: the first of the random words of block `k * heads + h` is less than `rate * 2^32`.
        let factor = |at: usize| match f64::from(philox([at as u64, 0], seed)[0]) < (rate * 2f64.powi(32)).floor() {
            true => 0.0,
            false => 1.0 / (1.0 - rate),
        };
        let mut out = vec![Sum::default(); matrix.nrows() * cols];
        for (k, &(i, j)) in ends.iter().enumerate() {
            for c in 0..cols {
                let at = k * heads + c / width;
                out[i * cols + c].add(factor(at) * probabilities[at] * self.features[j * cols + c]);
            }
        }
        let mut d_row_scores = vec![Sum::default(); matrix.nrows() * heads];
        let mut d_col_scores = vec![Sum::default(); matrix.ncols() * heads];
        let mut d_features = vec![Sum::default(); matrix.ncols() * cols];
        for (k, &(i, j)) in ends.iter().enumerate() {
            for h in 0..heads {
                let at = k * heads + h;
                let weight = each(k, h).1 * probabilities[at];
                let mut both = vec![];
                for c in h * width..(h + 1) * width {
                    both.push(-weight * self.d_out[i * cols + c] * out[i * cols + c].bounded::<f64>(0.0).0);
                    both.push(weight * factor(at) * self.d_out[i * cols + c] * self.features[j * cols + c]);
                    d_features[j * cols + c].add(factor(at) * probabilities[at] * self.d_out[i * cols + c]);
                }
                for term in both {
                    d_row_scores[i * heads + h].add(term);
                    d_col_scores[j * heads + h].add(term);
                }
            }
        }
        let scale = scores.iter().fold(0.0, |most: f64, score| most.max(score.abs()));
        let exponential = exponential_bound(matrix, scale) / epsilon::<T>();
        let bounded = |sums: Vec<Sum>| -> Vec<(f64, f64)> {
            // Of each sum also its magnitude times what the probabilities may be off.
            let bound = |sum: Sum| {
                let (value, rounding) = sum.bounded::<T>(0.0);
                (value, rounding * (2.0 + exponential) + f64::from(f32::MIN_POSITIVE))
            };
            sums.into_iter().map(bound).collect()
        };
        let log_sums = (0..matrix.nrows() * heads).map(|at| {
            let edges = matrix.row_range(at / heads).map(|k| scores[k * heads + at % heads]);
            let max = edges.clone().fold(f64::NEG_INFINITY, f64::max);
            let log_sum = max + edges.map(|score| (score - max).exp()).sum::<f64>().ln();
            (log_sum, exponential_bound(matrix, scale))
        });
        AttentionReference {
            out: bounded(out),
            log_sums: log_sums.collect(),
            d_row_scores: bounded(d_row_scores),
            d_col_scores: bounded(d_col_scores),
            d_features: bounded(d_features),
        }
    }
}

/// What attention and its gradients give on a device: in the order of [`AttentionReference`].
pub(crate) fn attention_on<T: Scalar>(
    device: &Device,
    graph: &Adjacency,
    numbers: &Numbers,
    (heads, width): (usize, usize),
    options: &Attention,
) -> [Vec<T>; 5] {
    let (rows, cols) = (graph.nrows(), graph.ncols());
    let upload = |values: &[f64], nrows, ncols| device.upload_dense((nrows, ncols), &narrowed::<T>(values)).unwrap();
    let row_scores = upload(&numbers.row_scores, rows, heads);
    let col_scores = upload(&numbers.col_scores, cols, heads);
    let features = upload(&numbers.features, cols, heads * width);
    let d_out = upload(&numbers.d_out, rows, heads * width);
    let inputs =
        AttentionInputs { row_scores: row_scores.view(), col_scores: col_scores.view(), features: features.view() };
    let (mut out, mut log_sums) = (unread(device, rows, heads * width), unread(device, rows, heads));
    graph.attention(options, inputs, &mut out, &mut log_sums).unwrap();
    let (mut d_row_scores, mut d_col_scores) = (unread(device, rows, heads), unread(device, cols, heads));
    let mut d_features = unread(device, cols, heads * width);
    let gradients = AttentionGradients {
        row_scores: d_row_scores.view_mut(),
        col_scores: d_col_scores.view_mut(),
        features: d_features.view_mut(),
    };
    graph.attention_backward(options, inputs, &out, &log_sums, &d_out, gradients).unwrap();
    [&out, &log_sums, &d_row_scores, &d_col_scores, &d_features].map(|matrix| matrix.to_vec().unwrap())
}

pub(crate) fn attention<T: Scalar>(device: &Device) {
    for (name, matrix) in graphs::<T>(device) {
        let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
        for shape in shapes(&matrix).iter().copied() {
            let numbers = Numbers::new(&matrix, shape.0, shape.1);
            for (slope, rate, seed) in [(0.2, 0.0, 0), (0.01, 0.5, 42)] {
                let options = Attention::default().slope(slope).dropout(rate, seed);
                let found = attention_on::<T>(device, &graph, &numbers, shape, &options);
                // The slope that the device has.
                let reference = numbers.reference(&matrix, shape, (T::from_f64(slope).to_f64(), rate, seed));
                let AttentionReference { out, log_sums, d_row_scores, d_col_scores, d_features } = reference;
                let names = ["out", "log_sums", "d_row_scores", "d_col_scores", "d_features"];
                let expected = [out, log_sums, d_row_scores, d_col_scores, d_features];
                for ((what, found), expected) in names.iter().zip(&found).zip(&expected) {
                    let case = format!("{name}, {shape:?}, dropout {rate}: {what}");
                    // An empty row has the logarithm of 0.
                    let finite = |k: &usize| expected[*k].0 != f64::NEG_INFINITY;
                    let (finite, empty): (Vec<usize>, Vec<usize>) = (0..found.len()).partition(finite);
                    assert!(empty.iter().all(|&k| found[k].to_f64() == f64::NEG_INFINITY), "{case}");
                    let found: Vec<_> = finite.iter().map(|&k| found[k]).collect();
                    let expected: Vec<_> = finite.iter().map(|&k| expected[k]).collect();
                    assert_within(&case, &found, &expected);
                }
            }
        }
    }
}

/// A rate of weights is dropped, others for another seed, and the same whatever the type.
pub(crate) fn dropout_is_a_function_of_the_edge(device: &Device) {
    // Each row has one edge, whose probability is 1: what goes out is the factor of each head.
    let (edges, heads) = (500, 4);
    let matrix = from_rows::<f64>(1, vec![vec![(0, 1.0)]; edges]);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let numbers = Numbers {
        row_scores: vec![0.5; edges * heads],
        col_scores: vec![0.0; heads],
        features: vec![1.0; heads],
        d_out: vec![0.0; edges * heads],
    };
    let options = Attention::default().dropout(0.25, 7);
    let [out, ..] = attention_on::<f64>(device, &graph, &numbers, (heads, 1), &options);
    let dropped = out.iter().filter(|&&out| out == 0.0).count();
    assert!((400..600).contains(&dropped), "{dropped} of 2000");
    assert!(out.iter().all(|&out| out == 0.0 || (out - 4.0 / 3.0).abs() < 1e-12));
    let [single, ..] = attention_on::<f32>(device, &graph, &numbers, (heads, 1), &options);
    assert!(out.iter().zip(&single).all(|(&double, &single)| (double == 0.0) == (single == 0.0)));
    let [others, ..] = attention_on::<f64>(device, &graph, &numbers, (heads, 1), &options.dropout(0.25, 8));
    assert!(out.iter().zip(&others).filter(|(one, other)| one != other).count() > 500);
}

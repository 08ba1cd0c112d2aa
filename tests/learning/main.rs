//! Products, softmax and attention over the edges of graphs: against references in f64, and their gradients against finite differences.

mod attention;
#[path = "../common/mod.rs"]
mod common;
mod gradients;

use std::process::ExitCode;

use attention::{Numbers, attention, attention_on, dropout_is_a_function_of_the_edge};
use common::{
    Random, assert_within,
    dense::Dense,
    matrices::{self, from_rows},
    on_every_device, other,
    sums::{Sum, epsilon},
};
use gradients::finite_differences;
use warpsparse::{
    Adjacency, Attention, AttentionInputs, CooMatrix, CsrMatrix, DenseLayout, Device, DeviceDense, Error, ErrorKind,
    Reduce, Scalar, Weights,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    let mut add = |name: &str, body: fn(&Device)| trials.extend(on_every_device(name, body));
    add("sddmm_f32", sddmm::<f32>);
    add("sddmm_f64", sddmm::<f64>);
    add("sums_f32", sums::<f32>);
    add("sums_f64", sums::<f64>);
    add("softmax_f32", softmax::<f32>);
    add("softmax_f64", softmax::<f64>);
    add("many_small_shares", many_small_shares);
    add("extreme_scores_f32", extreme_scores::<f32>);
    add("extreme_scores_f64", extreme_scores::<f64>);
    add("attention_f32", attention::<f32>);
    add("attention_f64", attention::<f64>);
    add("every_layout_f32", every_layout::<f32>);
    add("every_layout_f64", every_layout::<f64>);
    add("extremum_gradients_f32", extremum_gradients::<f32>);
    add("extremum_gradients_f64", extremum_gradients::<f64>);
    add("dropout_is_a_function_of_the_edge", dropout_is_a_function_of_the_edge);
    add("finite_differences", finite_differences);
    add("same_input_same_bits", same_input_same_bits);
    add("edges_are_those_of_the_matrix", edges_are_those_of_the_matrix);
    add("what_does_not_fit_is_an_error", what_does_not_fit);
    common::run(trials)
}

/// Heads and columns of a head, for every kind of vectors and tiles.
const SHAPES: [(usize, usize); 8] = [(1, 1), (1, 5), (2, 8), (3, 4), (8, 8), (1, 33), (1, 70), (2, 132)];

/// Graphs with their names: small ones in the emulator, which is slow, and one with a long row.
fn graphs<T: Scalar>(device: &Device) -> Vec<(&'static str, CsrMatrix<T>)> {
    let mut all = matrices::all::<T>();
    match device.to_string() == "emulated" {
        true => all.retain(|(_, matrix)| matrix.nnz() <= 1000),
        // One of those with a huge row stands for the others.
        false => all.retain(|(name, _)| !["a huge last row", "one row only, huge"].contains(name)),
    }
    let long = (0..1003).map(|k| (k * 7 % 50, 1.0 + k as f64)).collect();
    all.push(("a long row", from_rows(50, vec![vec![], vec![(3, 1.0)], long, vec![], vec![(49, 2.0); 5]])));
    let lists = (0..150).map(|i| [vec![(2, 1.0)], vec![(0, -1.0); usize::from(i % 3 == 0)]].concat()).collect();
    all.push(("a long column", from_rows(4, lists)));
    all.push(("uneven rows", matrices::uneven()));
    all
}

fn numbers(seed: u64, len: usize) -> Vec<f64> {
    Random(seed).vector(len)
}

fn narrowed<T: Scalar>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| T::from_f64(value)).collect()
}

/// Numbers of the type, and the same in `f64`.
fn pair<T: Scalar>(seed: u64, len: usize) -> (Vec<T>, Vec<f64>) {
    let values: Vec<T> = narrowed(&numbers(seed, len));
    let wide = values.iter().map(|value| value.to_f64()).collect();
    (values, wide)
}

/// A matrix of nothing but NaN, which nothing may read.
fn unread<T: Scalar>(device: &Device, nrows: usize, ncols: usize) -> DeviceDense<T> {
    device.upload_dense((nrows, ncols), &vec![T::from_f64(f64::NAN); nrows * ncols]).unwrap()
}

fn ends<T: Scalar>(matrix: &CsrMatrix<T>) -> Vec<(usize, usize)> {
    matrix.triplets().map(|(row, column, _)| (row, column)).collect()
}

fn sddmm<T: Scalar>(device: &Device) {
    for (name, matrix) in graphs::<T>(device) {
        let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
        for (heads, width) in shapes(&matrix).iter().copied() {
            let cols = heads * width;
            let (x, x64) = pair::<T>(1, matrix.nrows() * cols);
            let (y, y64) = pair::<T>(2, matrix.ncols() * cols);
            let (weights, weights64) = pair::<T>(3, matrix.nnz() * heads);
            let (old, old64) = pair::<T>(4, matrix.nnz() * heads);
            let (dx, dy) = (dense_of(device, &x, cols), dense_of(device, &y, cols));
            let weights = device.upload_dense((matrix.nnz(), heads), &weights).unwrap();
            for (alpha, beta, weighted) in [(1.0, 0.0, false), (-2.5, 0.75, true)] {
                let mut values = match beta == 0.0 {
                    true => unread(device, matrix.nnz(), heads),
                    false => device.upload_dense((matrix.nnz(), heads), &old).unwrap(),
                };
                let (a, b) = (T::from_f64(alpha), T::from_f64(beta));
                match weighted {
                    true => graph.sddmm_weighted(a, &weights, &dx, &dy, b, &mut values).unwrap(),
                    false => graph.sddmm(a, &dx, &dy, b, &mut values).unwrap(),
                }
                let mut reference = vec![];
                for (k, (i, j)) in ends(&matrix).into_iter().enumerate() {
                    for h in 0..heads {
                        let factor = if weighted { alpha * weights64[k * heads + h] } else { alpha };
                        let term = |c| factor * x64[i * cols + h * width + c] * y64[j * cols + h * width + c];
                        let old = if beta == 0.0 { 0.0 } else { beta * old64[k * heads + h] };
                        reference.push((0..width).map(term).collect::<Sum>().bounded::<T>(old));
                    }
                }
                let case = format!("{name}, {heads} heads of {width}, alpha {alpha}");
                assert_within(&case, &values.to_vec().unwrap(), &reference);
            }
        }
    }
}

/// All shapes for small matrices, and for others one of each number of lanes and columns of a lane.
fn shapes<T: Scalar>(matrix: &CsrMatrix<T>) -> &'static [(usize, usize)] {
    if matrix.nnz() <= 200 { &SHAPES } else { &[(2, 8), (1, 12), (1, 33), (1, 36)] }
}

/// A dense matrix of `cols` columns, also without rows.
fn dense_of<T: Scalar>(device: &Device, values: &[T], cols: usize) -> DeviceDense<T> {
    device.upload_dense((values.len() / cols, cols), values).unwrap()
}

fn sums<T: Scalar>(device: &Device) {
    for (name, matrix) in graphs::<T>(device) {
        let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
        for (heads, width) in shapes(&matrix).iter().copied() {
            let cols = heads * width;
            let (values, values64) = pair::<T>(1, matrix.nnz() * heads);
            let values = device.upload_dense((matrix.nnz(), heads), &values).unwrap();
            for (transposed, alpha, beta) in
                [(false, 1.0, 0.0), (true, 1.0, 0.0), (false, -2.5, 0.75), (true, 2.0, 1.0)]
            {
                let (from, to) =
                    if transposed { (matrix.nrows(), matrix.ncols()) } else { (matrix.ncols(), matrix.nrows()) };
                let (b, b64) = pair::<T>(2, from * cols);
                let (old, old64) = pair::<T>(3, to * cols);
                let b = dense_of(device, &b, cols);
                let mut c = if beta == 0.0 { unread(device, to, cols) } else { dense_of(device, &old, cols) };
                let (of_alpha, of_beta) = (T::from_f64(alpha), T::from_f64(beta));
                match transposed {
                    true => graph.spmm_transposed(of_alpha, &values, &b, of_beta, &mut c).unwrap(),
                    false => graph.spmm(of_alpha, &values, &b, of_beta, &mut c).unwrap(),
                }
                let mut sums = vec![Sum::default(); to * cols];
                for (k, (i, j)) in ends(&matrix).into_iter().enumerate() {
                    let (of, at) = if transposed { (i, j) } else { (j, i) };
                    for c in 0..cols {
                        sums[at * cols + c].add(alpha * values64[k * heads + c / width] * b64[of * cols + c]);
                    }
                }
                let old = |at: usize| if beta == 0.0 { 0.0 } else { beta * old64[at] };
                let reference: Vec<_> =
                    sums.into_iter().enumerate().map(|(at, sum)| sum.bounded::<T>(old(at))).collect();
                let case = format!("{name}, {heads} heads of {width}, transposed {transposed}, alpha {alpha}");
                assert_within(&case, &c.to_vec().unwrap(), &reference);
            }
        }
    }
}

/// The softmax over each row of a column of `scores`, `heads` of them, in f64.
fn softmax_of<T: Scalar>(matrix: &CsrMatrix<T>, heads: usize, scores: &[f64]) -> Vec<f64> {
    let mut probabilities = vec![0.0; scores.len()];
    for row in 0..matrix.nrows() {
        for h in 0..heads {
            let edges = matrix.row_range(row).map(|k| k * heads + h);
            let max = edges.clone().map(|k| scores[k]).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = edges.clone().map(|k| (scores[k] - max).exp()).sum();
            edges.for_each(|k| probabilities[k] = (scores[k] - max).exp() / sum);
        }
    }
    probabilities
}

/// What exponentials of scores up to `scale` may be off, and sums of as many as the longest row has, in units of the precision.
fn exponential_bound<T: Scalar>(matrix: &CsrMatrix<T>, scale: f64) -> f64 {
    let longest = (0..matrix.nrows()).map(|row| matrix.row_range(row).len()).max().unwrap_or(0) as f64;
    epsilon::<T>() * (8.0 + 4.0 * scale + longest.min(4.0 * longest.sqrt()))
}

fn softmax<T: Scalar>(device: &Device) {
    for (name, matrix) in graphs::<T>(device) {
        let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
        for heads in [1, 3] {
            // So large that their exponentials alone would overflow.
            let scale = 200.0;
            let scores: Vec<T> =
                narrowed(&numbers(5, matrix.nnz() * heads).iter().map(|x| x * scale).collect::<Vec<_>>());
            let scores64: Vec<_> = scores.iter().map(|score| score.to_f64()).collect();
            let x = device.upload_dense((matrix.nnz(), heads), &scores).unwrap();
            let mut y = unread(device, matrix.nnz(), heads);
            graph.edge_softmax(&x, &mut y).unwrap();
            let probabilities = softmax_of(&matrix, heads, &scores64);
            let bound = exponential_bound(&matrix, scale);
            let reference: Vec<_> =
                probabilities.iter().map(|&p| (p, bound * p + f64::MIN_POSITIVE.max(1e-37))).collect();
            assert_within(&format!("{name}, {heads} heads"), &y.to_vec().unwrap(), &reference);

            let (y, y64) = pair::<T>(6, matrix.nnz() * heads);
            let (d_y, d_y64) = pair::<T>(7, matrix.nnz() * heads);
            let y = device.upload_dense((matrix.nnz(), heads), &y).unwrap();
            let d_y = device.upload_dense((matrix.nnz(), heads), &d_y).unwrap();
            let mut d_x = unread(device, matrix.nnz(), heads);
            graph.edge_softmax_backward(&y, &d_y, &mut d_x).unwrap();
            let mut reference = vec![(0.0, 0.0); matrix.nnz() * heads];
            for row in 0..matrix.nrows() {
                for h in 0..heads {
                    let edges = matrix.row_range(row).map(|k| k * heads + h);
                    let (sum, bound) = edges.clone().map(|k| y64[k] * d_y64[k]).collect::<Sum>().bounded::<T>(0.0);
                    edges.for_each(|k| {
                        let rounding = 4.0 * epsilon::<T>() * (d_y64[k].abs() + sum.abs());
                        reference[k] = (y64[k] * (d_y64[k] - sum), y64[k].abs() * (bound + rounding));
                    });
                }
            }
            assert_within(&format!("{name}, {heads} heads, backward"), &d_x.to_vec().unwrap(), &reference);
        }
    }
}

/// Each is lost if it is added to a sum of 1 in `f32`, but not all together.
fn many_small_shares(device: &Device) {
    let edges = 1 << 18;
    let matrix = from_rows::<f32>(edges, vec![(0..edges).map(|j| (j, 1.0)).collect()]);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let scores: Vec<f32> = (0..edges).map(|k| if k == 0 { 0.0 } else { -17.0 }).collect();
    let (mut y, mut d_x) = (unread(device, edges, 1), unread(device, edges, 1));
    graph.edge_softmax(&dense_of(device, &scores, 1), &mut y).unwrap();
    let sum: f64 = y.to_vec().unwrap().into_iter().map(f64::from).sum();
    graph.edge_softmax_backward(&y, &dense_of(device, &vec![1.5; edges], 1), &mut d_x).unwrap();
    // The softmax of a constant slope has none. The lanes of a GPU have shares of the sum.
    let most = if device.to_string() == "cpu" { 1e-6 } else { 1e-3 };
    let slope = d_x.to_vec().unwrap()[0];
    assert!((sum - 1.0).abs() < most && f64::from(slope).abs() < most, "{sum} {slope}");
}

/// Infinite scores and NaN, in rows of one chunk of lanes, of several, and of several pieces.
fn extreme_scores<T: Scalar>(device: &Device) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let mut rows = [
        vec![-inf, 1.0, -inf, 1.0],
        vec![-inf, -inf],
        vec![inf, 0.0],
        vec![nan, 0.0],
        vec![0.0, 1e30, -1e30],
        vec![-inf; 100],
        vec![0.0; 200],
    ];
    // The first chunks and the first piece have nothing but negative infinity.
    rows[5].push(-3.0);
    rows[6][70] = nan;
    let widest = rows.iter().map(Vec::len).max().unwrap();
    let lists = rows.iter().map(|row| (0..row.len()).map(|j| (j, 1.0)).collect()).collect();
    let matrix = from_rows::<T>(widest, lists);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let scores: Vec<T> = narrowed(&rows.concat());
    let x = dense_of(device, &scores, 1);
    let mut y = unread(device, matrix.nnz(), 1);
    graph.edge_softmax(&x, &mut y).unwrap();
    let found: Vec<_> = y.to_vec().unwrap().iter().map(|y| y.to_f64()).collect();
    let row = |i: usize| &found[matrix.row_range(i)];
    assert_eq!(row(0), [0.0, 0.5, 0.0, 0.5]);
    assert!([1, 2, 3, 6].iter().all(|&i| row(i).iter().all(|y| y.is_nan())), "{found:?}");
    assert_eq!(row(4), [0.0, 1.0, 0.0]);
    assert_eq!((row(5)[..100].iter().sum::<f64>(), row(5)[100]), (0.0, 1.0));

    // The same scores by rows that have 0 themselves, a column for each edge: attention with features 1 gives 1 or NaN.
    let lists = rows.iter().scan(0, |next, row| {
        *next += row.len();
        Some((*next - row.len()..*next).map(|j| (j, 1.0)).collect())
    });
    let matrix = from_rows::<T>(matrix.nnz(), lists.collect());
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let row_scores = device.zeros_dense::<T>((7, 1)).unwrap();
    let features = device.upload_dense((matrix.nnz(), 1), &vec![T::from_f64(1.0); matrix.nnz()]).unwrap();
    let inputs = AttentionInputs { row_scores: row_scores.view(), col_scores: x.view(), features: features.view() };
    let (mut out, mut log_sums) = (unread(device, 7, 1), unread(device, 7, 1));
    graph.attention(&Attention::default(), inputs, &mut out, &mut log_sums).unwrap();
    let found: Vec<_> = out.to_vec().unwrap().iter().map(|y| y.to_f64()).collect();
    assert!(found[0] == 1.0 && found[4] == 1.0 && found[5] == 1.0, "{found:?}");
    assert!([1, 2, 3, 6].iter().all(|&i| found[i].is_nan()), "{found:?}");
    assert_within("log_sums", &log_sums.to_vec().unwrap()[5..6], &[(-0.6, 2.0 * epsilon::<T>())]);
}

/// A matrix with its gaps, without that after the last row.
fn upload_laid<T: Scalar>(device: &Device, dense: &Dense<T>) -> DeviceDense<T> {
    let layout = dense.layout();
    device.upload_dense(layout, &dense.elements[..layout.elements().unwrap()]).unwrap()
}

/// Matrices with gaps, in the middle of a vector, and column-major, give the same bits as those without; gaps stay.
fn every_layout<T: Scalar>(device: &Device) {
    let matrix = matrices::uneven::<T>();
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let (heads, width) = (2, 8);
    let cols = heads * width;
    let [x, y, values] = [(1, graph.nrows(), cols), (2, graph.ncols(), cols), (3, graph.nnz(), heads)]
        .map(|(seed, nrows, ncols)| (Random(seed).vector::<T>(nrows * ncols), nrows, ncols));
    // The same elements in another layout.
    let laid = |(values, nrows, ncols): &(Vec<T>, usize, usize), gap, offset| {
        let mut elements = values.iter().map(|value| value.to_f64());
        let dense = Dense::<T>::new(*nrows, *ncols, gap, offset, || elements.next().unwrap());
        upload_laid(device, &dense)
    };
    let all = |gap: usize, offset: usize| -> Vec<Vec<T>> {
        let [x, y, values] = [&x, &y, &values].map(|matrix| laid(matrix, gap, offset));
        let mut results = vec![];
        let mut write = |nrows: usize, ncols: usize, run: &dyn Fn(&mut DeviceDense<T>)| {
            let dense = Dense::<T>::new(nrows, ncols, gap, offset, || f64::NAN);
            let mut target = upload_laid(device, &dense);
            run(&mut target);
            results.push(dense.elements_of("a result", &target.elements().to_vec().unwrap()));
            // The same, column-major.
            let mut target = device.zeros_dense(DenseLayout::column_major(nrows, ncols)).unwrap();
            run(&mut target);
            results.push(target.to_vec().unwrap());
        };
        let (one, zero) = (T::from_f64(1.0), T::from_f64(0.0));
        write(graph.nnz(), heads, &|target| graph.sddmm(one, &x, &y, zero, target).unwrap());
        write(graph.nnz(), heads, &|target| graph.sddmm_weighted(one, &values, &x, &y, zero, target).unwrap());
        write(graph.nrows(), cols, &|target| graph.spmm(one, &values, &y, zero, target).unwrap());
        write(graph.ncols(), cols, &|target| graph.spmm_transposed(one, &values, &x, zero, target).unwrap());
        write(graph.nnz(), heads, &|target| graph.edge_softmax(&values, target).unwrap());
        write(graph.nnz(), heads, &|target| graph.edge_softmax_backward(&values, &values, target).unwrap());
        let (row_scores, col_scores) = (x.columns(..heads).unwrap(), y.columns(1..1 + heads).unwrap());
        let inputs = AttentionInputs { row_scores, col_scores, features: y.view() };
        write(graph.nrows(), cols, &|target| {
            let mut log_sums = unread(device, graph.nrows(), heads);
            graph.attention(&Attention::default(), inputs, target, &mut log_sums).unwrap();
        });
        results
    };
    let expected = all(0, 0);
    for (gap, offset) in [(4, 8), (1, 0), (0, 3), (3, 1)] {
        for (operation, (found, expected)) in all(gap, offset).iter().zip(&expected).enumerate() {
            // Vectors of other lengths add up in another order.
            let expected: Vec<_> = expected.iter().map(|value| (value.to_f64(), 40.0 * epsilon::<T>())).collect();
            assert_within(&format!("gap {gap}, offset {offset}, result {operation}"), found, &expected);
        }
    }
    // Column-major inputs.
    let transposed = |(values, nrows, ncols): &(Vec<T>, usize, usize)| {
        let mut matrix = device.zeros_dense(DenseLayout::column_major(*nrows, *ncols)).unwrap();
        matrix.assign(&device.upload_dense((*nrows, *ncols), values).unwrap()).unwrap();
        matrix
    };
    let [x, y, values] = [&x, &y, &values].map(transposed);
    let (one, zero) = (T::from_f64(1.0), T::from_f64(0.0));
    let mut found = device.zeros_dense((graph.nnz(), heads)).unwrap();
    graph.sddmm_weighted(one, &values, &x, &y, zero, &mut found).unwrap();
    assert_eq!(found.to_vec().unwrap(), expected[2]);
    let mut found = device.zeros_dense((graph.ncols(), cols)).unwrap();
    graph.spmm_transposed(one, &values, &x, zero, &mut found).unwrap();
    assert_eq!(found.to_vec().unwrap(), expected[6]);
}

/// The gradient of a maximum goes to the edges that it names.
fn extremum_gradients<T: Scalar>(device: &Device) {
    for (name, matrix) in graphs::<T>(device) {
        for cols in [1, 7, 40] {
            let uploaded = device.upload(&matrix).unwrap();
            let graph = uploaded.adjacency().unwrap();
            let (b, b64) = pair::<T>(2, matrix.ncols() * cols);
            let (d_c, d_c64) = pair::<T>(3, matrix.nrows() * cols);
            let (b, d_c) = (dense_of(device, &b, cols), dense_of(device, &d_c, cols));
            let values = device.upload_dense((matrix.nnz(), 1), matrix.values()).unwrap();
            for (reduce, weights) in [(Reduce::Max, Weights::Values), (Reduce::Min, Weights::Ones)] {
                let mut c = device.zeros_dense((matrix.nrows(), cols)).unwrap();
                let mut entries = device.zeros_dense((matrix.nrows(), cols)).unwrap();
                uploaded.spmm_reduce(reduce, weights, &b, &mut c, Some(entries.view_mut())).unwrap();
                let (mut d_values, mut d_b) = (unread(device, matrix.nnz(), 1), unread(device, matrix.ncols(), cols));
                let weighted = weights == Weights::Values;
                let values = weighted.then(|| values.view());
                let results = (Some(d_values.view_mut()), Some(d_b.view_mut()));
                graph.extremum_backward(values, &entries, &b, &d_c, results.0, results.1).unwrap();

                let mut of_values = vec![Sum::default(); matrix.nnz()];
                let mut of_b = vec![Sum::default(); matrix.ncols() * cols];
                for (at, k) in entries.to_vec().unwrap().into_iter().enumerate().filter(|&(_, k)| k != Reduce::NO_ENTRY)
                {
                    let (k, column) = (k as usize, matrix.col_indices()[k as usize] as usize);
                    let value = if weighted { matrix.values()[k].to_f64() } else { 1.0 };
                    of_values[k].add(d_c64[at] * b64[column * cols + at % cols]);
                    of_b[column * cols + at % cols].add(value * d_c64[at]);
                }
                let case = format!("{name}, {cols} columns, {reduce:?}");
                let bounded =
                    |sums: Vec<Sum>| -> Vec<_> { sums.into_iter().map(|sum| sum.bounded::<T>(0.0)).collect() };
                assert_within(&format!("{case}: d_values"), &d_values.to_vec().unwrap(), &bounded(of_values));
                assert_within(&format!("{case}: d_b"), &d_b.to_vec().unwrap(), &bounded(of_b));
            }
        }
    }
}

/// Whatever the order of threads, and in every run.
fn same_input_same_bits(device: &Device) {
    let matrix = matrices::uneven::<f32>();
    for width in [8, 9, 12, 36] {
        let (numbers, cols) = (Numbers::new(&matrix, 2, width), 2 * width);
        let options = Attention::default().dropout(0.3, 5);
        let on = |device: &Device| {
            let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
            let mut results = attention_on::<f32>(device, &graph, &numbers, (2, width), &options).to_vec();
            let x = device.upload_dense((45, cols), &narrowed::<f32>(&numbers.d_out)).unwrap();
            let y = device.upload_dense((60, cols), &narrowed::<f32>(&numbers.features)).unwrap();
            let (mut values, mut softmax) = (unread(device, graph.nnz(), 2), unread(device, graph.nnz(), 2));
            graph.sddmm(1.0, &x, &y, 0.0, &mut values).unwrap();
            graph.edge_softmax(&values, &mut softmax).unwrap();
            let mut sums = unread(device, 60, cols);
            graph.spmm_transposed(1.0, &softmax, &x, 0.0, &mut sums).unwrap();
            results.extend([&values, &softmax, &sums].map(|matrix| matrix.to_vec().unwrap()));
            results.concat().iter().map(|value| value.to_bits()).collect::<Vec<_>>()
        };
        let again = if device.to_string() == "cpu" { Device::cpu() } else { Device::emulated(99) };
        assert_eq!(on(device), on(&again), "heads of {width}");
    }
}

/// In every format, edges are numbered as the entries of the CSR matrix.
fn edges_are_those_of_the_matrix(device: &Device) {
    let matrix = matrices::uneven::<f64>().canonical();
    let x = device.upload_dense((45, 1), &(0..45).map(f64::from).collect::<Vec<_>>()).unwrap();
    let y = device.upload_dense((60, 1), &[1.0; 60]).unwrap();
    let rows: Vec<_> = ends(&matrix).iter().map(|&(row, _)| row as f64).collect();
    let numbered = |graph: Adjacency| {
        assert_eq!((graph.nrows(), graph.ncols(), graph.nnz()), (45, 60, matrix.nnz()));
        assert_eq!(graph.device().to_string(), device.to_string());
        let mut found = device.zeros_dense((graph.nnz(), 1)).unwrap();
        graph.sddmm(1.0, &x, &y, 0.0, &mut found).unwrap();
        assert_eq!(found.to_vec().unwrap(), rows);
    };
    numbered(device.upload(&matrix).unwrap().adjacency().unwrap());
    numbered(device.upload(&CooMatrix::from(&matrix)).unwrap().adjacency().unwrap());
    // The values of the matrix, times 1, are its product.
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let values = device.upload_dense((graph.nnz(), 1), matrix.values()).unwrap();
    let (mut found, mut expected) = (device.zeros_dense((45, 1)).unwrap(), device.zeros(45).unwrap());
    graph.spmm(1.0, &values, &y, 0.0, &mut found).unwrap();
    device.upload(&matrix).unwrap().spmv(1.0, y.elements(), 0.0, &mut expected).unwrap();
    let expected: Vec<_> = expected.to_vec().unwrap().into_iter().map(|value| (value, 1e-11)).collect();
    assert_within("a product", &found.to_vec().unwrap(), &expected);
}

fn what_does_not_fit(device: &Device) {
    let matrix = from_rows::<f64>(3, vec![vec![(0, 1.0), (2, 1.0)], vec![(1, 1.0)]]);
    let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
    let zeros = |nrows: usize, ncols: usize| device.zeros_dense::<f64>((nrows, ncols)).unwrap();
    let lengths = |result: Result<(), Error>, expected: usize, found: usize| match result {
        Err(Error::LengthMismatch { expected: e, found: f, .. }) => assert_eq!((e, f), (expected, found)),
        other => panic!("{other:?}"),
    };
    let kind = |result: Result<(), Error>| result.unwrap_err().kind();
    lengths(graph.sddmm(1.0, &zeros(3, 4), &zeros(3, 4), 0.0, &mut zeros(3, 1)), 2, 3);
    lengths(graph.sddmm(1.0, &zeros(2, 4), &zeros(2, 4), 0.0, &mut zeros(3, 1)), 3, 2);
    lengths(graph.sddmm(1.0, &zeros(2, 4), &zeros(3, 5), 0.0, &mut zeros(3, 1)), 4, 5);
    lengths(graph.sddmm(1.0, &zeros(2, 4), &zeros(3, 4), 0.0, &mut zeros(4, 1)), 3, 4);
    lengths(graph.sddmm_weighted(1.0, &zeros(3, 2), &zeros(2, 4), &zeros(3, 4), 0.0, &mut zeros(3, 1)), 1, 2);
    for heads in [0, 3] {
        let result = graph.sddmm(1.0, &zeros(2, 4), &zeros(3, 4), 0.0, &mut zeros(3, heads));
        assert_eq!(kind(result), ErrorKind::InvalidInput);
    }
    lengths(graph.spmm(1.0, &zeros(3, 1), &zeros(2, 4), 0.0, &mut zeros(2, 4)), 3, 2);
    lengths(graph.spmm(1.0, &zeros(3, 1), &zeros(3, 4), 0.0, &mut zeros(2, 5)), 4, 5);
    lengths(graph.spmm_transposed(1.0, &zeros(3, 1), &zeros(3, 4), 0.0, &mut zeros(3, 4)), 2, 3);
    let mut wide = zeros(3, 2);
    let d_values = Some(wide.view_mut());
    lengths(graph.spmm_backward(&zeros(3, 1), &zeros(3, 4), &zeros(2, 4), d_values, None), 1, 2);
    lengths(graph.edge_softmax(&zeros(2, 1), &mut zeros(3, 1)), 3, 2);
    lengths(graph.edge_softmax(&zeros(3, 1), &mut zeros(3, 2)), 1, 2);
    lengths(graph.edge_softmax_backward(&zeros(3, 2), &zeros(3, 1), &mut zeros(3, 2)), 2, 1);
    // Neither gradient is written if one of them is of the wrong size.
    let marks = device.zeros_dense::<u32>((2, 4)).unwrap();
    let (b, d_c, mut wrong) = (zeros(3, 4), zeros(2, 4), zeros(3, 3));
    let mut kept = device.upload_dense((3, 1), &[1.0; 3]).unwrap();
    let (d_values, d_b) = (Some(kept.view_mut()), Some(wrong.view_mut()));
    lengths(graph.spmm_backward(&zeros(3, 1), &b, &d_c, d_values, d_b), 4, 3);
    let (d_values, d_b) = (Some(kept.view_mut()), Some(wrong.view_mut()));
    lengths(graph.extremum_backward(None, &marks, &b, &d_c, d_values, d_b), 4, 3);
    let (d_values, d_b) = (Some(kept.view_mut()), Some(wrong.view_mut()));
    lengths(graph.mean_backward(None, &b, &d_c, d_values, d_b), 4, 3);
    assert_eq!(kept.to_vec().unwrap(), [1.0; 3]);
    let mut kept = device.upload_dense((2, 4), &[1.0; 8]).unwrap();
    let (d_x, d_y) = (Some(kept.view_mut()), Some(wrong.view_mut()));
    lengths(graph.sddmm_backward(&d_c, &b, &zeros(3, 1), d_x, d_y), 4, 3);
    assert_eq!(kept.to_vec().unwrap(), [1.0; 8]);
    let entries = device.zeros_dense::<u32>((2, 3)).unwrap();
    lengths(graph.extremum_backward(None, &entries, &zeros(3, 4), &zeros(2, 4), None, None), 4, 3);
    lengths(graph.mean_backward(None, &zeros(3, 4), &zeros(2, 3), None, None), 4, 3);
    lengths(graph.mean_backward(Some(zeros(2, 1).view()), &zeros(3, 4), &zeros(2, 4), None, None), 3, 2);

    let (rows, cols, features) = (zeros(2, 2), zeros(3, 2), zeros(3, 4));
    let inputs = AttentionInputs { row_scores: rows.view(), col_scores: cols.view(), features: features.view() };
    let run = |options: &Attention, inputs: AttentionInputs<'_, f64>, cols: usize, heads: usize| {
        graph.attention(options, inputs, &mut zeros(2, cols), &mut zeros(2, heads))
    };
    let options = Attention::default();
    run(&options, inputs, 4, 2).unwrap();
    lengths(run(&options, inputs, 6, 2), 4, 6);
    lengths(run(&options, inputs, 4, 1), 2, 1);
    lengths(run(&options, AttentionInputs { col_scores: rows.view(), ..inputs }, 4, 2), 3, 2);
    for rate in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(kind(run(&options.dropout(rate, 0), inputs, 4, 2)), ErrorKind::InvalidInput);
    }
    for slope in [f64::NAN, f64::INFINITY] {
        assert_eq!(kind(run(&options.slope(slope), inputs, 4, 2)), ErrorKind::InvalidInput);
    }
    for (cols, features) in [(0, zeros(3, 0)), (5, zeros(3, 5))] {
        let inputs = AttentionInputs { features: features.view(), ..inputs };
        assert_eq!(kind(run(&options, inputs, cols, 2)), ErrorKind::InvalidInput);
    }
    let elsewhere = other(device).zeros_dense::<f64>((3, 1)).unwrap();
    let result = graph.edge_softmax(&elsewhere, &mut zeros(3, 1));
    assert!(matches!(result, Err(Error::DeviceMismatch { .. })), "{result:?}");
    // Nothing to do.
    graph.sddmm(1.0, &zeros(2, 0), &zeros(3, 0), 0.0, &mut zeros(3, 1)).unwrap();
    let gaps = |rows| device.zeros_dense::<f64>(DenseLayout::row_major(rows, 0).leading_dimension(8)).unwrap();
    graph.sddmm(1.0, &gaps(2), &gaps(3), 0.0, &mut zeros(3, 1)).unwrap();
    graph.spmm(1.0, &zeros(3, 1), &zeros(3, 0), 0.0, &mut zeros(2, 0)).unwrap();
    graph.edge_softmax(&zeros(3, 0), &mut zeros(3, 0)).unwrap();
}

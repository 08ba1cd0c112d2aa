//! Gradients against finite differences in f64.

use proptest::{collection::vec, prelude::*};
use warpsparse::{Adjacency, Attention, AttentionInputs, CsrMatrix, Device, DeviceDense, Reduce, Weights};

use crate::{
    attention::{Numbers, attention_on},
    common::{Random, matrices::from_rows, properties},
    numbers, unread,
};

/// Graphs of a few vertices: duplicates, self-loops, empty rows, and sometimes one huge row.
fn small_graphs() -> impl Strategy<Value = CsrMatrix<f64>> {
    (1..6usize, 1..6usize).prop_flat_map(|(nrows, ncols)| {
        let edges = vec((0..nrows, 0..ncols), 0..14);
        (edges, any::<bool>(), prop_oneof![3 => Just(None), 1 => (0..nrows, 33..70usize).prop_map(Some)]).prop_map(
            move |(edges, self_loops, huge)| {
                let mut rows = vec![vec![]; nrows];
                let loops = (0..nrows.min(ncols)).filter(|_| self_loops).map(|i| (i, i));
                let huge = huge.into_iter().flat_map(|(row, length)| (0..length).map(move |k| (row, k % ncols)));
                for (k, (i, j)) in edges.into_iter().chain(loops).chain(huge).enumerate() {
                    rows[i].push((j, Random(k as u64).next_unit() + 2.0));
                }
                from_rows(ncols, rows)
            },
        )
    })
}

/// Every gradient is within 1e-6 of the central difference of the loss: the product of what comes out with fixed random numbers.
pub(crate) fn finite_differences(device: &Device) {
    let (name, cases) = match device.to_string() == "cpu" {
        true => ("gradients_cpu", 40),
        false => ("gradients_emulated", 10),
    };
    let shapes = prop_oneof![Just((1, 1)), Just((1, 3)), Just((2, 2)), Just((3, 1)), Just((1, 4))];
    properties::check(name, cases, (small_graphs(), shapes, any::<u64>()), |(matrix, shape, seed)| {
        let graph = device.upload(&matrix).unwrap().adjacency().unwrap();
        gradients_of_products(device, &graph, shape, seed);
        gradients_of_the_softmax(device, &graph, shape.0, seed);
        gradients_of_attention(device, &graph, &matrix, shape, seed);
        gradients_of_the_maximum(device, &matrix, seed);
        gradients_of_the_mean(device, &matrix, seed);
        Ok(())
    });
}

/// A dense matrix: rows, columns, elements.
type Input = (usize, usize, Vec<f64>);

fn input(seed: u64, nrows: usize, ncols: usize) -> Input {
    (nrows, ncols, numbers(seed, nrows * ncols))
}

/// Compares the gradient of a loss with its central differences, for every element of every input.
fn compare(
    device: &Device,
    what: &str,
    inputs: &[Input],
    gradients: &[DeviceDense<f64>],
    loss: &dyn Fn(&[DeviceDense<f64>]) -> Vec<f64>,
    weights: &[f64],
) {
    const STEP: f64 = 3e-5;
    let at = |input: usize, element: usize, step: f64| -> f64 {
        let mut moved = inputs.to_vec();
        moved[input].2[element] += step;
        loss(&uploaded(device, &moved)).iter().zip(weights).map(|(out, weight)| out * weight).sum()
    };
    // The emulator is slow.
    let every = if device.to_string() == "cpu" { 1 } else { 7 };
    for (input, gradient) in gradients.iter().enumerate() {
        let gradient = gradient.to_vec().unwrap();
        let scale = gradient.iter().fold(0.01, |most: f64, value| most.max(value.abs()));
        for element in (0..gradient.len()).step_by(every) {
            let difference = (at(input, element, STEP) - at(input, element, -STEP)) / (2.0 * STEP);
            let off = (difference - gradient[element]).abs();
            let found = gradient[element];
            assert!(off <= 1e-6 * scale, "{what}: input {input}, element {element}: {found}, but {difference}");
        }
    }
}

fn uploaded(device: &Device, inputs: &[Input]) -> Vec<DeviceDense<f64>> {
    inputs.iter().map(|(nrows, ncols, values)| device.upload_dense((*nrows, *ncols), values).unwrap()).collect()
}

fn gradients_of_products(device: &Device, graph: &Adjacency, (heads, width): (usize, usize), seed: u64) {
    let cols = heads * width;
    let inputs = vec![input(seed, graph.nnz(), heads), input(seed ^ 1, graph.ncols(), cols)];
    let given = uploaded(device, &inputs);
    let d_c = input(seed ^ 2, graph.nrows(), cols);
    let d_c_on_device = device.upload_dense((d_c.0, d_c.1), &d_c.2).unwrap();
    let (mut d_values, mut d_b) = (unread(device, graph.nnz(), heads), unread(device, graph.ncols(), cols));
    let results = (Some(d_values.view_mut()), Some(d_b.view_mut()));
    graph.spmm_backward(&given[0], &given[1], &d_c_on_device, results.0, results.1).unwrap();
    let product = |inputs: &[DeviceDense<f64>]| {
        let mut c = unread(device, graph.nrows(), cols);
        graph.spmm(1.0, &inputs[0], &inputs[1], 0.0, &mut c).unwrap();
        c.to_vec().unwrap()
    };
    compare(device, "spmm", &inputs, &[d_values, d_b], &product, &d_c.2);

    let inputs = vec![
        input(seed, graph.nrows(), cols),
        input(seed ^ 1, graph.ncols(), cols),
        input(seed ^ 3, graph.nnz(), heads),
    ];
    let given = uploaded(device, &inputs);
    let d_values = input(seed ^ 4, graph.nnz(), heads);
    let (mut d_x, mut d_y) = (unread(device, graph.nrows(), cols), unread(device, graph.ncols(), cols));
    let on_device = device.upload_dense((d_values.0, d_values.1), &d_values.2).unwrap();
    let mut d_weights = unread(device, graph.nnz(), heads);
    graph.sddmm_weighted(1.0, &on_device, &given[0], &given[1], 0.0, &mut d_weights).unwrap();
    let weighted: Vec<_> = d_values.2.iter().zip(&inputs[2].2).map(|(value, weight)| value * weight).collect();
    let weighted = device.upload_dense((graph.nnz(), heads), &weighted).unwrap();
    let results = (Some(d_x.view_mut()), Some(d_y.view_mut()));
    graph.sddmm_backward(&given[0], &given[1], &weighted, results.0, results.1).unwrap();
    let sampled = |inputs: &[DeviceDense<f64>]| {
        let mut values = unread(device, graph.nnz(), heads);
        graph.sddmm_weighted(1.0, &inputs[2], &inputs[0], &inputs[1], 0.0, &mut values).unwrap();
        values.to_vec().unwrap()
    };
    compare(device, "sddmm", &inputs, &[d_x, d_y, d_weights], &sampled, &d_values.2);
}

fn gradients_of_the_softmax(device: &Device, graph: &Adjacency, heads: usize, seed: u64) {
    let inputs = vec![input(seed, graph.nnz(), heads)];
    let given = uploaded(device, &inputs);
    let d_y = input(seed ^ 1, graph.nnz(), heads);
    let softmax = |inputs: &[DeviceDense<f64>]| {
        let mut y = unread(device, graph.nnz(), heads);
        graph.edge_softmax(&inputs[0], &mut y).unwrap();
        y
    };
    let y = softmax(&given);
    let mut d_x = unread(device, graph.nnz(), heads);
    let on_device = device.upload_dense((d_y.0, d_y.1), &d_y.2).unwrap();
    graph.edge_softmax_backward(&y, &on_device, &mut d_x).unwrap();
    compare(device, "softmax", &inputs, &[d_x], &|inputs| softmax(inputs).to_vec().unwrap(), &d_y.2);
}

fn gradients_of_attention(
    device: &Device,
    graph: &Adjacency,
    matrix: &CsrMatrix<f64>,
    (heads, width): (usize, usize),
    seed: u64,
) {
    let numbers = Numbers::new(matrix, heads, width);
    let inputs = vec![
        (graph.nrows(), heads, numbers.row_scores.clone()),
        (graph.ncols(), heads, numbers.col_scores.clone()),
        (graph.ncols(), heads * width, numbers.features.clone()),
    ];
    for rate in [0.0, 0.4] {
        let options = Attention::default().dropout(rate, seed);
        let [_, _, rows, cols, features] = attention_on::<f64>(device, graph, &numbers, (heads, width), &options);
        let gradients = uploaded(
            device,
            &[(graph.nrows(), heads, rows), (graph.ncols(), heads, cols), (graph.ncols(), heads * width, features)],
        );
        let attention = |inputs: &[DeviceDense<f64>]| {
            let (mut out, mut log_sums) =
                (unread(device, graph.nrows(), heads * width), unread(device, graph.nrows(), heads));
            let inputs = AttentionInputs {
                row_scores: inputs[0].view(),
                col_scores: inputs[1].view(),
                features: inputs[2].view(),
            };
            graph.attention(&options, inputs, &mut out, &mut log_sums).unwrap();
            out.to_vec().unwrap()
        };
        compare(device, &format!("attention, dropout {rate}"), &inputs, &gradients, &attention, &numbers.d_out);
    }
}

/// Unless two candidates for a maximum differ by little more than the step.
fn gradients_of_the_maximum(device: &Device, matrix: &CsrMatrix<f64>, seed: u64) {
    let cols = 3;
    let graph = device.upload(matrix).unwrap().adjacency().unwrap();
    let inputs = vec![(matrix.nnz(), 1, matrix.values().to_vec()), input(seed, matrix.ncols(), cols)];
    for (row, column) in (0..matrix.nrows()).flat_map(|row| (0..cols).map(move |column| (row, column))) {
        let (neighbours, values) = matrix.row(row);
        let product = |(&neighbour, value): (&u32, &f64)| value * inputs[1].2[neighbour as usize * cols + column];
        let mut products: Vec<f64> = neighbours.iter().zip(values).map(product).collect();
        products.sort_by(f64::total_cmp);
        if products.windows(2).next_back().is_some_and(|largest| largest[1] - largest[0] < 1e-3) {
            return;
        }
    }
    let given = uploaded(device, &inputs);
    let d_c = input(seed ^ 1, matrix.nrows(), cols);
    let maximum = |inputs: &[DeviceDense<f64>]| {
        let mut weighted = device.upload(matrix).unwrap();
        weighted.update_values(inputs[0].elements()).unwrap();
        let mut c = unread(device, matrix.nrows(), cols);
        let mut entries = device.zeros_dense((matrix.nrows(), cols)).unwrap();
        weighted.spmm_reduce(Reduce::Max, Weights::Values, &inputs[1], &mut c, Some(entries.view_mut())).unwrap();
        (c.to_vec().unwrap(), entries)
    };
    let (_, entries) = maximum(&given);
    let d_c_on_device = device.upload_dense((d_c.0, d_c.1), &d_c.2).unwrap();
    let (mut d_values, mut d_b) = (unread(device, matrix.nnz(), 1), unread(device, matrix.ncols(), cols));
    let (results, values) = ((Some(d_values.view_mut()), Some(d_b.view_mut())), Some(given[0].view()));
    graph.extremum_backward(values, &entries, &given[1], &d_c_on_device, results.0, results.1).unwrap();
    compare(device, "maximum", &inputs, &[d_values, d_b], &|inputs| maximum(inputs).0, &d_c.2);
}

fn gradients_of_the_mean(device: &Device, matrix: &CsrMatrix<f64>, seed: u64) {
    let cols = 3;
    let graph = device.upload(matrix).unwrap().adjacency().unwrap();
    let inputs = [(matrix.nnz(), 1, matrix.values().to_vec()), input(seed, matrix.ncols(), cols)];
    let given = uploaded(device, &inputs);
    let d_c = input(seed ^ 1, matrix.nrows(), cols);
    let d_c_on_device = device.upload_dense((d_c.0, d_c.1), &d_c.2).unwrap();
    for (weights, values) in [(Weights::Values, Some(given[0].view())), (Weights::Ones, None)] {
        let (mut d_values, mut d_b) = (unread(device, matrix.nnz(), 1), unread(device, matrix.ncols(), cols));
        let results = (values.map(|_| d_values.view_mut()), Some(d_b.view_mut()));
        graph.mean_backward(values, &given[1], &d_c_on_device, results.0, results.1).unwrap();
        let mean = |inputs: &[DeviceDense<f64>]| {
            let mut weighted = device.upload(matrix).unwrap();
            if weights == Weights::Values {
                weighted.update_values(inputs[0].elements()).unwrap();
            }
            let mut c = unread(device, matrix.nrows(), cols);
            weighted.spmm_reduce(Reduce::Mean, weights, inputs.last().unwrap(), &mut c, None).unwrap();
            c.to_vec().unwrap()
        };
        match weights {
            Weights::Values => compare(device, "mean", &inputs, &[d_values, d_b], &mean, &d_c.2),
            Weights::Ones => compare(device, "plain mean", &inputs[1..], &[d_b], &mean, &d_c.2),
        }
    }
}

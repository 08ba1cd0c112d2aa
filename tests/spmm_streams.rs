//! Products with dense matrices on several streams and threads, and in graphs.

mod common;

use std::process::ExitCode;

use common::{
    dense::{Dense, old, product},
    matrices::{self, uneven},
    on_every_device, on_gpu,
};
use warpsparse::{Device, DeviceVec, Error, Reduce, SpmmOptions, Weights};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("queues_are_ordered", queues_are_ordered));
    trials.extend(on_every_device("captured_products_are_repeated", captured_products_are_repeated));
    trials.push(on_gpu("graphs_of_several_queues_are_errors", graphs_of_several_queues_are_errors));
    trials.push(on_gpu("graphs_give_the_bits_of_the_product", graphs_give_the_bits_of_the_product));
    trials.push(on_gpu("graphs_and_products_take_turns", graphs_and_products_take_turns));
    trials.push(on_gpu("reductions_take_turns", reductions_take_turns));
    common::run(trials)
}

/// A product on one stream uses what other streams have just written, and the other way round.
fn queues_are_ordered(device: &Device) {
    let (n, ncols) = (20_000, 8);
    let shift = |by: usize| matrices::from_rows::<f64>(n, (0..n).map(|i| vec![((i + by) % n, 1.0)]).collect());
    let queues = [device.clone(), device.new_stream().unwrap(), device.new_stream().unwrap()];
    let matrices = queues.each_ref().map(|queue| queue.upload(&shift(1)).unwrap());
    let elements: Vec<f64> = (0..n * ncols).map(|at| at as f64).collect();
    let mut dense = queues.each_ref().map(|queue| queue.upload_vec(&elements).unwrap());
    let steps = if device.to_string() == "emulated" { 6 } else { 60 };
    for step in 0..steps {
        let (from, to) = (step % 3, (step + 1) % 3);
        let [b, c] = dense.get_disjoint_mut([from, to]).unwrap();
        let (b, c) = (b.matrix((n, ncols)).unwrap(), c.matrix_mut((n, ncols)).unwrap());
        matrices[(step + 2) % 3].spmm(1.0, b, 0.0, c).unwrap();
    }
    let expected: Vec<f64> = (0..n * ncols).map(|at| ((at + steps * ncols) % (n * ncols)) as f64).collect();
    assert!(dense[steps % 3].to_vec().unwrap() == expected);
}

/// Two products a launch, of which the second one needs the first, with rows in pieces. The sums are of integers: exact.
fn captured_products_are_repeated(device: &Device) {
    let queue = device.new_stream().unwrap();
    let rows = (0..50).map(|i| (0..if i == 7 { 100 } else { 2 }).map(|k| ((i + k) % 50, 1.0)).collect()).collect();
    let matrix = queue.upload(&matrices::from_rows::<f64>(50, rows)).unwrap();
    let b = queue.upload_vec(&[1.0; 50 * 4]).unwrap();
    let [mut c, mut d] = [(); 2].map(|()| queue.zeros(50 * 4).unwrap());
    let at = (50, 4);
    // Prepares what a capture cannot hold.
    matrix.spmm(1.0, b.matrix(at).unwrap(), 0.0, c.matrix_mut(at).unwrap()).unwrap();
    let two_products = || {
        matrix.spmm(1.0, b.matrix(at)?, 1.0, c.matrix_mut(at)?)?;
        matrix.spmm(1.0, c.matrix(at)?, 2.0, d.matrix_mut(at)?)
    };
    // SAFETY: the closure borrows what it touches, and nobody else knows the stream.
    let mut graph = unsafe { queue.capture(two_products) }.unwrap();
    graph.launch(3).unwrap();
    drop(graph);
    let length = |row: usize| if row == 7 { 100.0 } else { 2.0 };
    // Of row `i` the product with C, whose row `k` is that many times its length.
    let of_c = |row: usize, times: f64| (0..length(row) as usize).map(|k| times * length((row + k) % 50)).sum::<f64>();
    let c = c.to_vec().unwrap();
    let d = d.to_vec().unwrap();
    for row in 0..50 {
        assert_eq!(c[4 * row..][..4], [4.0 * length(row); 4], "row {row}");
        let expected = of_c(row, 4.0) + 2.0 * (of_c(row, 3.0) + 2.0 * of_c(row, 2.0));
        assert_eq!(d[4 * row..][..4], [expected; 4], "row {row}");
    }
}

fn graphs_of_several_queues_are_errors(gpu: &Device) {
    let other = gpu.new_stream().unwrap();
    let matrix = gpu.upload(&uneven::<f32>()).unwrap();
    let (b, b_other) = (gpu.zeros(60 * 8).unwrap(), other.zeros(60 * 8).unwrap());
    let (mut c, mut c_other) = (gpu.zeros(45 * 8).unwrap(), other.zeros(45 * 8).unwrap());
    for (b, c) in [(&b_other, &mut c), (&b, &mut c_other)] {
        let error = gpu.record(|| matrix.spmm(1.0, b.matrix((60, 8))?, 0.0, c.matrix_mut((45, 8))?)).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(text) if text.contains("another queue")), "{error}");
    }
}

fn graphs_give_the_bits_of_the_product(gpu: &Device) {
    for (name, matrix) in matrices::all::<f32>() {
        let uploaded = gpu.upload(&matrix).unwrap();
        for ncols in [3, 8, 64] {
            let (b_at, c_at) = ((matrix.ncols(), ncols), (matrix.nrows(), ncols));
            let b = gpu.upload_vec(&Dense::random(8, matrix.ncols(), ncols, 0, 0).elements).unwrap();
            let start = Dense::random(9, matrix.nrows(), ncols, 0, 0).elements;
            let bits = |c: DeviceVec<f32>| c.to_vec().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let mut direct = gpu.upload_vec(&start).unwrap();
            for _ in 0..4 {
                uploaded.spmm(1.25, b.matrix(b_at).unwrap(), -0.3, direct.matrix_mut(c_at).unwrap()).unwrap();
            }
            let mut repeated = gpu.upload_vec(&start).unwrap();
            let product = || uploaded.spmm(1.25, b.matrix(b_at)?, -0.3, repeated.matrix_mut(c_at)?);
            gpu.record(product).unwrap().launch(4).unwrap();
            assert!(bits(repeated) == bits(direct), "{name}, {ncols} columns");
        }
    }
}

/// Rows in pieces meet in memory of the matrix: a product that another one interrupts would add up the other's pieces.
fn graphs_and_products_take_turns(gpu: &Device) {
    let uploaded = gpu.upload(&uneven::<f64>()).unwrap();
    let plan = &uploaded.spmm_plan(12, &SpmmOptions::default().split_threshold(4)).unwrap();
    let (b_at, c_at) = ((60, 12), (45, 12));
    let dense = [1, 2].map(|seed| Dense::<f64>::random(seed, 60, 12, 0, 0));
    let expected = dense.each_ref().map(|b| product(plan, 1.0, b, 0.0, &old(45, 12, 0, 0, 0.0)));
    assert!(expected[0] != expected[1]);
    let [b, other] = dense.each_ref().map(|b| gpu.upload_vec(&b.elements).unwrap());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..300 {
                let mut c = gpu.zeros(45 * 12).unwrap();
                let product = || plan.multiply(1.0, b.matrix(b_at)?, 0.0, c.matrix_mut(c_at)?);
                gpu.record(product).unwrap().launch(3).unwrap();
                assert!(c.to_vec().unwrap() == expected[0]);
            }
        });
        // On a stream of its own, which only the memory of the matrix ties to the other.
        let queue = gpu.new_stream().unwrap();
        for _ in 0..1000 {
            let mut c = queue.zeros(45 * 12).unwrap();
            plan.multiply(1.0, other.matrix(b_at).unwrap(), 0.0, c.matrix_mut(c_at).unwrap()).unwrap();
            assert!(c.to_vec().unwrap() == expected[1]);
        }
    });
}

/// As above, of the kernels of reductions.
fn reductions_take_turns(gpu: &Device) {
    let matrix = matrices::all::<f64>().into_iter().find(|(name, _)| *name == "arrow").unwrap().1;
    let uploaded = gpu.upload(&matrix).unwrap();
    let (b_at, c_at) = ((matrix.ncols(), 8), (matrix.nrows(), 8));
    let reduced = |queue: &Device, b: &DeviceVec<f64>| {
        let mut c = queue.zeros(matrix.nrows() * 8).unwrap();
        let of = c.matrix_mut(c_at).unwrap();
        uploaded.spmm_reduce(Reduce::Mean, Weights::Values, b.matrix(b_at).unwrap(), of, None).unwrap();
        c.to_vec().unwrap()
    };
    let dense = [1, 2].map(|seed| Dense::<f64>::random(seed, matrix.ncols(), 8, 0, 0));
    let dense = dense.each_ref().map(|b| gpu.upload_vec(&b.elements).unwrap());
    let expected = dense.each_ref().map(|b| reduced(gpu, b));
    assert!(expected[0] != expected[1]);
    std::thread::scope(|threads| {
        for (b, expected) in dense.iter().zip(&expected) {
            let queue = gpu.new_stream().unwrap();
            threads.spawn(move || {
                for _ in 0..1000 {
                    assert!(reduced(&queue, b) == *expected);
                }
            });
        }
    });
}

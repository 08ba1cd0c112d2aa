//! Graphs of many operations: they do what the operations do, keep what they touch, and refuse what a GPU cannot record.

mod common;

use std::{cell::RefCell, panic, process::ExitCode, rc::Rc};

use common::{Random, matrices, on_every_device};
use warpsparse::{Device, DeviceVec, Error, Result};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! everywhere {
        ($($name:ident),* $(,)?) => { $(trials.extend(on_every_device(stringify!($name), $name));)* };
    }
    everywhere!(
        iterations_are_recorded_whole,
        vectors_trade_places,
        structs_trade_places,
        zeros_are_zeros_at_every_launch,
        graphs_keep_what_they_touch,
        what_a_graph_cannot_hold_is_an_error,
        values_made_in_a_graph_stay_there,
        a_failed_recording_leaves_nothing_behind,
        graphs_prepare_products_themselves,
        factors_are_read_at_every_launch,
    );
    common::run(trials)
}

/// Conjugate gradients as textbooks have them, a graph an iteration, against the same in f64 on the host.
fn iterations_are_recorded_whole(device: &Device) {
    let matrix = matrices::stencil(9);
    let a = device.upload(&matrix).unwrap();
    let b = Random(1).vector::<f64>(81);
    let (mut x, mut r, mut p) =
        (device.zeros::<f64>(81).unwrap(), device.upload_vec(&b).unwrap(), device.upload_vec(&b).unwrap());
    let (mut q, mut rr) = (device.zeros(81).unwrap(), device.scalar(b.iter().map(|b| b * b).sum::<f64>()).unwrap());
    let iteration = || -> Result<()> {
        a.spmv(1.0, &p, 0.0, &mut q)?;
        let pq = p.dot(&q)?;
        x.axpy(&rr / &pq, &p)?;
        r.axpy(-(&rr / &pq), &q)?;
        let next = r.dot(&r)?;
        p.axpby(1.0, &r, &next / &rr)?;
        rr.set(&next)
    };
    device.record(iteration).unwrap().launch(12).unwrap();

    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let (mut expected, mut r, mut p) = (vec![0.0; 81], b.clone(), b.clone());
    for _ in 0..12 {
        let q = (&matrix * p.as_slice()).unwrap();
        let (rr, alpha) = (dot(&r, &r), dot(&r, &r) / dot(&p, &q));
        for i in 0..81 {
            expected[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        let beta = dot(&r, &r) / rr;
        (0..81).for_each(|i| p[i] = r[i] + beta * p[i]);
    }
    for (found, expected) in x.to_vec().unwrap().iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
    }
}

/// Fibonacci's numbers: `(x, y)` becomes `(y, x + y)`, where the vectors trade places.
fn vectors_trade_places(device: &Device) {
    for launches in [vec![0], vec![1], vec![2], vec![5], vec![1, 1, 3], vec![2, 0, 5, 3]] {
        let (mut x, mut y) = (device.upload_vec(&[1.0f64; 300]).unwrap(), device.upload_vec(&[0.0f64; 300]).unwrap());
        // `y` has the number before `x`, and gets the one after it.
        let mut graph = device.record_swapping(&mut x, &mut y, |x, y| y.axpy(1.0, &*x)).unwrap();
        launches.iter().for_each(|&times| graph.launch(times).unwrap());
        drop(graph);
        let (mut current, mut before) = (1.0, 0.0);
        for _ in 0..launches.iter().sum::<usize>() {
            (current, before) = (current + before, current);
        }
        assert_eq!(x.to_vec().unwrap(), [current; 300], "{launches:?}");
        assert_eq!(y.to_vec().unwrap(), [before; 300], "{launches:?}");
    }
}

/// Heun's method for `x' = -x`, with a state of two vectors.
fn structs_trade_places(device: &Device) {
    struct State {
        x: DeviceVec<f64>,
        slope: DeviceVec<f64>,
    }
    let state = |x: f64| State { x: device.upload_vec(&[x; 7]).unwrap(), slope: device.zeros(7).unwrap() };
    let (mut now, mut next) = (state(1.0), state(0.0));
    let step = |now: &mut State, next: &mut State| {
        now.slope.axpby(-1.0, &now.x, 0.0)?;
        next.x.assign(&now.x)?;
        next.x.axpy(0.1, &now.slope)?; // the predictor
        now.slope.axpy(-1.0, &next.x)?;
        next.x.assign(&now.x)?;
        next.x.axpy(0.05, &now.slope)
    };
    device.record_swapping(&mut now, &mut next, step).unwrap().launch(9).unwrap();
    let expected = 0.905f64.powi(9);
    assert!(now.x.to_vec().unwrap().iter().all(|x| (x - expected).abs() < 1e-14));
}

/// Vectors made in a graph have the same memory at every launch, and are cleared there.
fn zeros_are_zeros_at_every_launch(device: &Device) {
    let x = device.upload_vec(&[1.0f32; 1000]).unwrap();
    let mut sum = device.zeros::<f32>(1000).unwrap();
    let operations = || {
        let mut counter = device.zeros::<f32>(1000)?;
        counter.axpy(3.0, &x)?;
        drop(device.zeros::<f32>(10)?);
        sum.axpy(1.0, &counter)
    };
    device.record(operations).unwrap().launch(5).unwrap();
    assert_eq!(sum.to_vec().unwrap(), [15.0; 1000]);
}

/// Safe code can drop what a graph uses. On a GPU the graph keeps it; where the operations are called anew, they see what is left.
fn graphs_keep_what_they_touch(device: &Device) {
    let x = Rc::new(RefCell::new(Some(device.upload_vec(&[2.0f64; 4096]).unwrap())));
    let mut sum = device.zeros::<f64>(4096).unwrap();
    let operations = || match &*x.borrow() {
        Some(x) => sum.axpy(1.0, x),
        None => Ok(()),
    };
    let mut graph = device.record(operations).unwrap();
    graph.launch(1).unwrap();
    x.take();
    // It would be where x was.
    let others = (0..8).map(|_| device.upload_vec(&[-100.0f64; 4096]).unwrap()).collect::<Vec<_>>();
    graph.launch(1).unwrap();
    drop(graph);
    let expected = if device.is_cuda() { 4.0 } else { 2.0 };
    assert_eq!(sum.to_vec().unwrap(), [expected; 4096]);
    assert!(others.iter().all(|other| other.to_vec().unwrap() == [-100.0; 4096]));
}

/// The error of a graph of these operations, when it is recorded or launched.
fn refusal(device: &Device, operations: impl FnMut() -> Result<()>) -> String {
    match device.record(operations).and_then(|mut graph| graph.launch(1)).unwrap_err() {
        Error::InvalidOption(problem) => problem,
        error => panic!("{error}"),
    }
}

fn what_a_graph_cannot_hold_is_an_error(device: &Device) {
    let (x, mut y) = (device.upload_vec(&[1.0f64; 30]).unwrap(), device.zeros::<f64>(30).unwrap());
    let scalar = x.sum().unwrap();
    let mut other = device.record(|| Ok(())).unwrap();
    let refused = [
        refusal(device, || x.to_vec().map(drop)),
        refusal(device, || scalar.get().map(drop)),
        refusal(device, || x.slice(1..2)?.to_vec().map(drop)),
        refusal(device, || y.copy_from(&[0.0; 30])),
        refusal(device, || device.upload_vec(&[1.0]).map(drop)),
        refusal(device, || device.scalar(1.0).map(drop)),
        refusal(device, || device.upload(&matrices::stencil(3)).map(drop)),
        refusal(device, || device.synchronize()),
        refusal(device, || device.time_each(1, |_| Ok(())).map(drop)),
        refusal(device, || other.launch(1)),
        refusal(device, || device.record(|| Ok(())).map(drop)),
    ];
    for problem in &refused {
        assert!(problem.contains("cannot be recorded"), "{problem}");
    }
    if device.is_cuda() {
        let queue = device.new_stream().unwrap();
        let (x_there, mut y_there) = (queue.zeros::<f64>(30).unwrap(), queue.zeros::<f64>(30).unwrap());
        for problem in [
            refusal(device, || y.axpy(1.0, &x_there)),
            refusal(device, || y_there.axpy(1.0, &x)),
            refusal(device, || y_there.axpy(1.0, &x_there)),
            refusal(device, || queue.zeros::<f64>(3).map(drop)),
        ] {
            assert!(problem.contains("another queue"), "{problem}");
        }
    }
    y.axpy(2.0, &x).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 30]);
}

/// On a GPU, where the graph would go on with the memory of the first call.
fn values_made_in_a_graph_stay_there(device: &Device) {
    let x = device.upload_vec(&[2.0f64; 30]).unwrap();
    let mut sum = x.sum().unwrap();
    let escapes = device.record(|| {
        sum = x.sum()?;
        Ok(())
    });
    assert_eq!(escapes.is_err(), device.is_cuda());
    drop(escapes);
    let (mut now, mut next) = (device.upload_vec(&[1.0f64; 30]).unwrap(), device.zeros::<f64>(30).unwrap());
    let step = |now: &mut DeviceVec<f64>, next: &mut DeviceVec<f64>| {
        *next = device.zeros(30)?;
        next.axpy(2.0, &*now)
    };
    let launched = device.record_swapping(&mut now, &mut next, step).and_then(|mut graph| graph.launch(3));
    match launched {
        Err(error) => assert!(device.is_cuda() && error.to_string().contains("outlives it"), "{error}"),
        Ok(()) => assert!(!device.is_cuda() && now.to_vec().unwrap() == [8.0; 30]),
    }
}

/// Also where only the second of two recordings fails: the states are where they were.
fn a_failed_recording_leaves_nothing_behind(device: &Device) {
    let (x, mut y) = (device.upload_vec(&[1.0f32; 30]).unwrap(), device.zeros::<f32>(30).unwrap());
    let stop = || Err(Error::InvalidOption("stop".into()));
    assert_eq!(refusal(device, stop), "stop");
    let mut calls = 0;
    let (mut now, mut next) = (device.upload_vec(&[1.0f32]).unwrap(), device.upload_vec(&[2.0f32]).unwrap());
    let second_fails = |_: &mut DeviceVec<f32>, _: &mut DeviceVec<f32>| {
        calls += 1;
        if calls == 2 { Err(Error::InvalidOption("stop".into())) } else { Ok(()) }
    };
    let recorded = device.record_swapping(&mut now, &mut next, second_fails).map(drop);
    assert_eq!(recorded.is_err(), device.is_cuda());
    assert_eq!((now.to_vec().unwrap(), next.to_vec().unwrap()), (vec![1.0], vec![2.0]));
    let stopped = panic::catch_unwind(panic::AssertUnwindSafe(|| refusal(device, || panic!("stop"))));
    assert_eq!(stopped.unwrap_err().downcast_ref(), Some(&"stop"));
    device.record(|| y.axpy(1.0, &x)).unwrap().launch(3).unwrap();
    assert_eq!(y.to_vec().unwrap(), [3.0; 30]);
}

/// The first product with so many columns is in a graph.
fn graphs_prepare_products_themselves(device: &Device) {
    let matrix =
        matrices::from_rows::<f64>(50, (0..50).map(|i| vec![(i, 2.0); if i == 7 { 400 } else { 1 }]).collect());
    let a = device.upload(&matrix).unwrap();
    let b = device.upload_vec(&[1.0; 50 * 8]).unwrap();
    let mut c = device.zeros(50 * 8).unwrap();
    device.record(|| a.spmm(1.0, b.matrix((50, 8))?, 1.0, c.matrix_mut((50, 8))?)).unwrap().launch(3).unwrap();
    let expected = (0..50 * 8).map(|at| if at / 8 == 7 { 2400.0 } else { 6.0 }).collect::<Vec<_>>();
    assert_eq!(c.to_vec().unwrap(), expected);
}

/// Products with factors in device memory, which each launch reads anew, and halves.
fn factors_are_read_at_every_launch(device: &Device) {
    // 1 2
    // 0 3
    let matrix = matrices::from_rows::<f64>(2, vec![vec![(0, 1.0), (1, 2.0)], vec![(1, 3.0)]]);
    let a = device.upload(&matrix).unwrap();
    let b = device.upload_dense((2, 2), &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let (mut alpha, mut next) = (device.scalar(8.0).unwrap(), device.scalar(0.0).unwrap());
    let beta = device.scalar(1.0).unwrap();
    let mut y = device.upload_vec(&[1.0, -1.0]).unwrap();
    let (mut sparse, mut dense) = (device.zeros_dense((2, 2)).unwrap(), device.zeros_dense((2, 2)).unwrap());
    let x = device.upload_vec(&[1.0, 1.0]).unwrap();
    let iteration = || -> Result<()> {
        a.spmv(&alpha, &x, &beta, &mut y)?;
        a.spmm(&alpha, &b, &beta, &mut sparse)?;
        b.gemm(&alpha, &b, &beta, &mut dense)?;
        next.set(0.5 * &alpha)?;
        alpha.set(&next)
    };
    device.record(iteration).unwrap().launch(3).unwrap();
    // 8 + 4 + 2 products.
    assert_eq!(y.to_vec().unwrap(), [43.0, 41.0]);
    assert_eq!(sparse.to_vec().unwrap(), [98.0, 140.0, 126.0, 168.0]);
    assert_eq!(dense.to_vec().unwrap(), [98.0, 140.0, 210.0, 308.0]);
    assert_eq!(alpha.get().unwrap(), 1.0);
}

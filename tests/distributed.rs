//! One system over several ranks: products, reductions and conjugate gradients against references in f64; and ranks that fail, which
//! fail every rank.

mod common;

use std::{
    ops::ControlFlow,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use common::{
    Random, assert_exact, assert_within,
    dense::{self, Dense},
    integers,
    matrices::{self, from_rows, stencil},
    on_cpu_and_gpu, on_device, on_every_device, properties,
    sums::{epsilon, reference_spmv},
};
use proptest::{prelude::*, test_runner::TestCaseError};
use warpsparse::{
    Amg, AmgSmoother, Cg, CsrMatrix, DType, Device, DeviceSlice, DeviceSliceMut, Error, ErrorKind, FormatChoice,
    Kernel, NearNullSpace, Preconditioner, Reduction, Result, Scalar, SpmvOptions, StopReason, Tolerance,
    distributed::{
        self, Communicator, DistributedAmg, DistributedAmgOptions, DistributedCg, DistributedDense, DistributedMatrix,
        DistributedVec, Partition, Rendezvous, TransportChoice,
    },
    io::generate,
    strategies,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! both {
        ($on:ident: $($name:ident),*) => {$(
            trials.extend($on(concat!(stringify!($name), "_f32"), $name::<f32>));
            trials.extend($on(concat!(stringify!($name), "_f64"), $name::<f64>));
        )*};
    }
    both!(on_every_device: products_are_exact, products_are_accurate, dense_products, reductions, systems, long_halos);
    trials.extend(on_every_device("transports_with_the_same_bits", transports));
    trials.extend(on_every_device("trouble_between_two_exchanges", |device| trouble(device, 3, |_| Ok(()))));
    trials.extend(on_every_device("a_failure_while_kernels_are_loaded", |device| trouble(device, 2, load)));
    trials.extend(on_every_device("one_vector_for_several_matrices", several_matrices));
    trials.extend(on_every_device("rows_that_wait_for_no_halo", interior_rows));
    trials.extend(on_every_device("blocks_of_rows_that_each_rank_makes", blocks_of_rows));
    trials.extend(on_every_device("vectors_of_blocks", vectors));
    trials.extend(on_every_device("same_input_same_bits", same_bits));
    trials.extend(on_every_device("degenerate_systems", degenerate_systems));
    trials.extend(on_every_device("matrices_that_it_is_not_for", matrices_that_it_is_not_for));
    trials.extend(on_every_device("preconditioners_of_ones_own", ones_own));
    trials.extend(on_every_device("blocks_in_other_formats", other_formats));
    trials.extend(on_every_device("callbacks", callbacks));
    both!(on_every_device: multigrid, levels_of_multigrid);
    trials.extend(on_every_device("multigrid_of_little", multigrid_of_little));
    trials.extend(on_every_device("multigrid_with_heavy_rows", multigrid_with_heavy_rows));
    trials.extend(on_cpu_and_gpu("what_multigrid_refuses", what_multigrid_refuses));
    trials.extend(on_cpu_and_gpu("what_does_not_fit_is_an_error", what_does_not_fit));
    for (name, body) in [
        ("partitions", partitions as fn(&Device)),
        ("collective_operations", collective_operations),
        ("a_rank_that_fails", a_rank_that_fails),
        ("a_rank_that_panics", a_rank_that_panics),
        ("a_rank_that_ends", a_rank_that_ends),
        ("a_rank_that_is_late", a_rank_that_is_late),
        ("unequal_arguments", unequal_arguments),
        ("a_rank_that_is_out_of_step", out_of_step),
        ("files", files),
        ("processes", processes),
        ("processes_that_fail", processes_that_fail),
    ] {
        trials.push(on_device(format!("{name}::cpu"), body, Device::cpu));
    }
    trials.push(on_device("properties::cpu".into(), random_cases, Device::cpu));
    trials.push(on_device("properties::emulated".into(), random_cases, || Device::emulated(3)));
    common::run(trials)
}

const RANKS: [usize; 5] = [1, 2, 3, 4, 7];

/// The one program at a time that runs on several GPUs: those of two would wait for each other in NCCL.
static TURN: Mutex<()> = Mutex::new(());

/// So many ranks on a device; on GPUs from the first on, if there are several.
fn devices(device: &Device, ranks: usize) -> Vec<Device> {
    let of_rank = |rank: usize| match device.is_cuda() {
        true => Device::cuda(rank % Device::cuda_count().unwrap()).unwrap(),
        false => device.clone(),
    };
    (0..ranks).map(of_rank).collect()
}

/// Runs a program on so many ranks.
fn run<R: Send>(device: &Device, ranks: usize, program: impl Fn(&Communicator) -> Result<R> + Sync) -> Result<Vec<R>> {
    let _turn = device.is_cuda().then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    distributed::run(&devices(device, ranks), program)
}

/// What all ranks return.
#[track_caller]
fn on_ranks<R: Send + PartialEq + std::fmt::Debug>(
    device: &Device,
    ranks: usize,
    program: impl Fn(&Communicator) -> Result<R> + Sync,
) -> R {
    let mut results = run(device, ranks, program).unwrap();
    assert_eq!(results.len(), ranks);
    let first = results.swap_remove(0);
    assert!(results.iter().all(|result| *result == first), "ranks differ: {first:?}, {results:?}");
    first
}

fn spmv<T: Scalar>(device: &Device, ranks: usize, a: &CsrMatrix<T>, alpha: T, x: &[T], beta: T, y: &[T]) -> Vec<T> {
    on_ranks(device, ranks, |communicator| {
        let a = DistributedMatrix::from_whole(communicator, a)?;
        assert_eq!((a.nrows(), a.ncols()), (y.len(), x.len()));
        let mut x_of_ranks = DistributedVec::from_whole(communicator, a.columns(), x)?;
        let mut y = DistributedVec::from_whole(communicator, a.rows(), y)?;
        a.spmv(alpha, &mut x_of_ranks, beta, &mut y)?;
        // The product leaves x as it is.
        assert_eq!(x_of_ranks.gather()?, x);
        y.gather()
    })
}

/// Numbers of ranks for a test on a device; the emulator is slow.
fn counts(device: &Device) -> &'static [usize] {
    if device.to_string() == "emulated" { &RANKS[1..3] } else { &RANKS }
}

fn products_are_exact<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let a = integers::matrix(&matrix);
        let (x, y) = (integers::vector::<T>(7, a.ncols()), integers::vector::<T>(8, a.nrows()));
        let [one, minus_one] = [1.0, -1.0].map(T::from_f64);
        let expected = reference_spmv(&a, one, &x, minus_one, &y);
        for &ranks in counts(device) {
            let found = spmv(device, ranks, &a, one, &x, minus_one, &y);
            assert_exact(&format!("{name}, {ranks} ranks"), &found, &expected);
        }
    }
}

fn products_are_accurate<T: Scalar>(device: &Device) {
    for a in [matrices::uneven::<T>(), stencil(13).cast()] {
        let mut random = Random(5);
        let (x, y) = (random.vector::<T>(a.ncols()), random.vector::<T>(a.nrows()));
        for (alpha, beta) in [(1.0, 0.0), (-2.5, 0.75), (0.0, 1.0)].map(|(a, b)| (T::from_f64(a), T::from_f64(b))) {
            let expected = reference_spmv(&a, alpha, &x, beta, &y);
            for ranks in RANKS {
                let found = spmv(device, ranks, &a, alpha, &x, beta, &y);
                assert_within(&format!("{ranks} ranks, {alpha}, {beta}"), &found, &expected);
            }
        }
        // With beta = 0 the old y is not read.
        let expected = reference_spmv(&a, T::from_f64(1.0), &x, T::default(), &y);
        let nan = vec![T::from_f64(f64::NAN); y.len()];
        assert_within("NaN", &spmv(device, 3, &a, T::from_f64(1.0), &x, T::default(), &nan), &expected);
    }
}

fn dense_products<T: Scalar>(device: &Device) {
    let cases = [matrices::uneven::<T>(), stencil(9).cast(), from_rows(5, vec![vec![(4, 1.0)]; 3])];
    for (case, a) in cases.iter().enumerate() {
        let a = integers::matrix(a);
        for width in [0, 1, 3, 16] {
            let (b, c) = (Dense::<T>::integers(1, a.ncols(), width, 0, 0), Dense::integers(2, a.nrows(), width, 0, 0));
            let expected = dense::reference(&a, 1.0, &b, -1.0, &c);
            for ranks in RANKS {
                let found = on_ranks(device, ranks, |communicator| {
                    let options = SpmvOptions::default().format(FormatChoice::Csr);
                    let a = DistributedMatrix::from_whole_with(communicator, &a, &options)?;
                    let mut b_of_ranks = DistributedDense::from_whole(communicator, a.columns(), width, &b.elements)?;
                    let mut c = DistributedDense::from_whole(communicator, a.rows(), width, &c.elements)?;
                    a.spmm(T::from_f64(1.0), &mut b_of_ranks, T::from_f64(-1.0), &mut c)?;
                    assert_eq!((c.nrows(), c.ncols()), (a.nrows(), width));
                    assert_eq!(b_of_ranks.gather()?, b.elements);
                    assert_eq!(c.local().nrows(), a.rows().rows(communicator.rank()).len());
                    c.gather()
                });
                assert_exact(&format!("case {case}, {width} columns, {ranks} ranks"), &found, &expected);
            }
        }
    }
}

fn reductions<T: Scalar>(device: &Device) {
    for len in [0, 1, 5, 1000] {
        let mut random = Random(len as u64);
        let (x, y) = (random.vector::<T>(len), random.vector::<T>(len));
        let f64s = |v: &[T]| v.iter().map(|v| v.to_f64()).collect::<Vec<_>>();
        let (wide_x, wide_y) = (f64s(&x), f64s(&y));
        let dot: f64 = wide_x.iter().zip(&wide_y).map(|(x, y)| x * y).sum();
        let (sum, norm1): (f64, f64) = (wide_x.iter().sum(), wide_x.iter().map(|x| x.abs()).sum());
        let norm2 = wide_x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let norm_inf = wide_x.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        let expected = [dot, sum, norm1, norm2, norm_inf];
        for ranks in RANKS {
            let found = on_ranks(device, ranks, |communicator| {
                let partition = Partition::even(communicator, len);
                let x = DistributedVec::from_whole(communicator, &partition, &x)?;
                let y = DistributedVec::from_whole(communicator, &partition, &y)?;
                let found =
                    [x.dot(&y)?, x.sum()?, x.reduce(Reduction::Norm1)?, x.norm2()?, x.reduce(Reduction::NormInf)?];
                found.iter().map(|scalar| scalar.get()).collect::<Result<Vec<_>>>()
            });
            // Each rank's result is rounded to T, and the sum of them once more; the sums of f64 differ in their order.
            let bound = 4.0 * epsilon::<T>() * norm1.max(1.0);
            for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
                let found = found.to_f64();
                assert!((found - expected).abs() <= bound, "{len}, {ranks} ranks, {place}: {found}, not {expected}");
            }
        }
    }
}

/// A matrix with halos of everything, one with short halos, and one without any, with the same vectors.
fn several_matrices(device: &Device) {
    let n = 30;
    let full = from_rows(n, vec![(0..n).map(|j| (j, 1.0 + j as f64)).collect(); n]);
    let ring = from_rows(n, (0..n).map(|i| vec![(i, 2.0), ((i + 1) % n, 3.0)]).collect());
    let diagonal = from_rows(n, (0..n).map(|i| vec![(i, 5.0)]).collect());
    let x = integers::vector::<f64>(1, n);
    let all = [&ring, &full, &diagonal, &ring];
    let expected = all.map(|a| reference_spmv(a, 1.0, &x, 0.0, &vec![0.0; n]));
    for ranks in RANKS {
        let found = on_ranks(device, ranks, |communicator| {
            // One partition for all: that of a matrix with equal rows.
            let mut x = DistributedVec::from_whole(communicator, &Partition::even(communicator, n), &x)?;
            let product = |a: &CsrMatrix<f64>| {
                let rows = x.partition().clone();
                let block = a.slice_rows(rows.rows(communicator.rank()))?;
                let a = DistributedMatrix::from_rows(communicator, &block, &rows)?;
                let mut y = DistributedVec::zeros(communicator, a.rows())?;
                a.spmv(1.0, &mut x, 0.0, &mut y)?;
                x.scale(1.0)?;
                y.gather()
            };
            all.into_iter().map(product).collect::<Result<Vec<_>>>()
        });
        for (found, expected) in found.iter().zip(&expected) {
            assert_exact(&format!("{ranks} ranks"), found, expected);
        }
    }
}

/// The halo changes between products, while most rows do not wait for it.
fn interior_rows(device: &Device) {
    // A GPU divides blocks with many entries alone.
    let side = if device.is_cuda() { 520 } else { 20 };
    let (a, all) = (stencil(side), side * side);
    for ranks in [1, 2, 4] {
        let described = run(device, ranks, |communicator| {
            let a = DistributedMatrix::from_whole(communicator, &a)?;
            Ok(a.describe())
        });
        for (rank, described) in described.unwrap().iter().enumerate() {
            let (rows, start) = (all / ranks, format!("rank {rank} of {ranks}: rows "));
            assert!(described.starts_with(&start), "{described}");
            let waits_not: usize = described.split(", ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            let halos = usize::from(rank > 0) + usize::from(rank + 1 < ranks);
            // The rows beside other ranks, a side for each; ranks may have some rows more or less, since rows at the edge of the grid have
            // fewer entries, and rows begin at multiples of 4.
            assert!(waits_not.abs_diff(rows - side * halos) <= 12 + side / 10, "{described}");
            assert!(
                described.contains(&format!("a halo of {} elements comes from {halos} ranks", side * halos)),
                "{described}"
            );
        }
        // The power method, with integers.
        let found = on_ranks(device, ranks, |communicator| {
            let a = DistributedMatrix::from_whole(communicator, &a)?;
            let mut x = DistributedVec::from_whole(communicator, a.columns(), &integers::vector(3, all))?;
            let mut y = DistributedVec::zeros(communicator, a.rows())?;
            for _ in 0..5 {
                a.spmv(1.0, &mut x, 0.0, &mut y)?;
                x.assign(&y)?;
            }
            x.gather()
        });
        let mut expected = integers::vector::<f64>(3, all);
        for _ in 0..5 {
            let product = reference_spmv(&a, 1.0, &expected, 0.0, &vec![0.0; all]);
            expected = product.iter().map(|&(value, _)| value).collect();
        }
        assert_eq!(found, expected);
    }
}

/// Halos that take several rounds of an exchange, one after the other, in both directions, or in one, where a rank that sends could run ahead.
fn long_halos<T: Scalar>(device: &Device) {
    let rows = if device.is_cuda() { 300_000 } else { 4_000 };
    let n = 2 * rows;
    for (width, is_one_way) in [(1, false), (3, false), (1, true)] {
        // Of an element of the other rank; the second rank sends fewer.
        let other = |i: usize| match i < rows {
            true if is_one_way => (i + 1) % rows,
            true => rows + i / 3,
            false => (7 * i) % rows,
        };
        let a = from_rows::<T>(n, (0..n).map(|i| vec![(i, 2.0), (other(i), 3.0)]).collect());
        let b = Dense::<T>::integers(1, n, width, 0, 0);
        let found = on_ranks(device, 2, |communicator| {
            communicator.set_time_limit(Duration::from_secs(5));
            let options = SpmvOptions::default().format(FormatChoice::Csr);
            let partition = Partition::even(communicator, n);
            let block = a.slice_rows(partition.rows(communicator.rank()))?;
            let a = DistributedMatrix::from_rows_with(communicator, &block, &partition, &options)?;
            let mut b = DistributedDense::from_whole(communicator, &partition, width, &b.elements)?;
            let mut c = DistributedDense::zeros(communicator, &partition, width)?;
            let one = T::from_f64(1.0);
            // Each product is that of the one before.
            a.spmm(one, &mut b, T::default(), &mut c)?;
            a.spmm(one, &mut c, T::default(), &mut b)?;
            a.spmm(one, &mut b, T::default(), &mut c)?;
            c.gather()
        });
        let mut expected: Vec<f64> = b.elements.iter().map(|b| b.to_f64()).collect();
        for _ in 0..3 {
            let of = |i: usize, k: usize| 2.0 * expected[i * width + k] + 3.0 * expected[other(i) * width + k];
            expected = (0..n * width).map(|place| of(place / width, place % width)).collect();
        }
        let first = (0..found.len()).find(|&place| found[place].to_f64() != expected[place]);
        assert_eq!(first, None, "{width} columns");
    }
}

/// The same bits by all transports that there are; those that there are not say why.
fn transports(device: &Device) {
    let a = varied::<f64>(11);
    let (_, b) = system(&a);
    let solve = |ranks: usize, choice: TransportChoice| {
        let _turn = device.is_cuda().then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
        distributed::run_with(&devices(device, ranks), choice, |communicator| {
            let a = DistributedMatrix::from_whole(communicator, &a)?;
            let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
            let mut x = DistributedVec::zeros(communicator, a.rows())?;
            let info = DistributedCg::new(&a).preconditioner(a.jacobi()?).solve(&b, &mut x)?;
            let latency = communicator.measure_sum(10_000 / if device.is_cuda() { 1 } else { 1000 })?;
            Ok((info.iterations, info.history, x.gather()?, communicator.describe(), latency))
        })
    };
    for ranks in [1, 2, 3] {
        let by_host = solve(ranks, TransportChoice::Host).unwrap();
        for choice in [TransportChoice::Auto, TransportChoice::Peers, TransportChoice::Nccl] {
            let found = match solve(ranks, choice) {
                Ok(found) => found,
                Err(error) => {
                    eprintln!("{device}, {ranks} ranks, {choice:?}: {error}");
                    assert!(choice != TransportChoice::Auto && ranks > 1, "{error}");
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                    let is_possible = device.to_string() == "emulated" && choice == TransportChoice::Peers;
                    assert!(!is_possible && error.to_string().contains("rank"), "{error}");
                    continue;
                }
            };
            for (rank, (found, by_host)) in found.iter().zip(&by_host).enumerate() {
                eprintln!("{}: a sum takes {:?}", found.3, found.4);
                let case = format!("{ranks} ranks, {choice:?}, rank {rank}");
                assert_eq!((found.0, &found.1, &found.2), (by_host.0, &by_host.1, &by_host.2), "{case}");
                let is_by_peers = found.3.ends_with("; data is exchanged by peer memory");
                assert_eq!(is_by_peers, found.4.is_some(), "{case}");
                assert!(is_by_peers || choice != TransportChoice::Peers || ranks == 1, "{case}");
                assert!(
                    is_by_peers || device.to_string() != "emulated" || choice == TransportChoice::Nccl || ranks == 1
                );
                assert_eq!(by_host.4, None);
            }
        }
    }
}

type Strike = dyn Fn(&dyn Fn() -> bool) -> Result<()> + Sync;

/// What goes wrong on one rank between two exchanges, while the others' kernels may wait for it already.
struct Trouble<'t> {
    applied: std::cell::Cell<usize>,
    strikes: &'t dyn Fn(usize) -> Result<()>,
}

impl Preconditioner<f64> for Trouble<'_> {
    fn apply(&self, r: DeviceSlice<'_, f64>, mut z: DeviceSliceMut<'_, f64>) -> Result<()> {
        self.applied.set(self.applied.get() + 1);
        (self.strikes)(self.applied.get())?;
        z.assign(r)
    }
}

/// Loads a kernel: a text at a new address is a new one.
fn load(device: &Device) -> Result<()> {
    if !device.is_cuda() {
        return device.upload_vec(&[1.0])?.scale(2.0);
    }
    let ptx =
        ".version 6.3\n.target sm_75\n.address_size 64\n.visible .global .b32 a[9];\n.visible .entry idle() { ret; }"
            .to_owned();
    let kernel = Kernel::new("idle", |()| (), 1).with_ptx(ptx.leak());
    // SAFETY: it does nothing.
    unsafe { device.launch(&kernel, 1)?.run(()) }
}

/// A rank that fails, panics or is late while others' kernels wait for it: an error that names it on each, and usable devices.
fn trouble(device: &Device, first: usize, others: fn(&Device) -> Result<()>) {
    let a = varied::<f64>(12);
    let (_, b) = system(&a);
    let (long, short) = (Duration::from_secs(30), Duration::from_secs(1));
    let strikes: [(&str, Duration, &Strike); 3] = [
        ("rank 1: not supported: out of order", long, &|_| Err(Error::Unsupported("out of order".into()))),
        ("rank 1: panicked: oh", long, &|_| std::panic::resume_unwind(Box::new("oh"))),
        ("rank 1: has not answered within 1s", short, &|others_are_done| {
            let start = Instant::now();
            while !others_are_done() && start.elapsed() < Duration::from_secs(12) {
                thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        }),
    ];
    let ranks = if device.is_cuda() { 2 } else { 3 };
    for (expected, limit, strikes) in strikes.into_iter().take(first) {
        let solve = |communicator: &Communicator, limit: Duration, strikes: &dyn Fn(usize) -> Result<()>| {
            let a = DistributedMatrix::from_whole(communicator, &a)?;
            let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
            let mut x = DistributedVec::zeros(communicator, a.rows())?;
            let m = Trouble { applied: 0.into(), strikes };
            communicator.barrier()?;
            communicator.set_time_limit(limit);
            let mut cg = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(&m);
            cg.solve(&b, &mut x).map(|_| ())
        };
        let errors = Mutex::new(Vec::new());
        let error = run(device, ranks, |communicator| {
            // Not before: on GPUs the ranks wait for those of other tests.
            let start = Instant::now();
            let solved = solve(communicator, limit, &|applied| match (communicator.rank(), applied) {
                (1, 3) => strikes(&|| errors.lock().unwrap().len() == ranks - 1),
                _ => others(communicator.device()),
            });
            let waited = start.elapsed();
            if communicator.rank() != 1 {
                errors.lock().unwrap().push((solved.as_ref().unwrap_err().to_string(), waited));
            }
            solved
        });
        assert!(error.unwrap_err().to_string().starts_with(expected));
        for (error, waited) in errors.into_inner().unwrap() {
            assert!(error.starts_with(expected), "{error}, not {expected}");
            assert!(waited < Duration::from_secs(11), "{expected}: after {waited:?}");
        }
        // The devices are usable.
        assert_eq!(run(device, ranks, |communicator| solve(communicator, long, &|_| Ok(()))).unwrap().len(), ranks);
    }
}

/// Partitions with empty ranks, other ones of rows than of columns, and 64-bit offsets.
fn blocks_of_rows(device: &Device) {
    let a = integers::matrix(&matrices::uneven::<f64>());
    let x = integers::vector::<f64>(1, a.ncols());
    let (nnz, expected) = (a.nnz(), reference_spmv(&a, 1.0, &x, 0.0, &vec![0.0; a.nrows()]));
    for (rows, columns) in
        [([0, 45, 0], [60, 0, 0]), ([45, 0, 0], [0, 0, 60]), ([20, 0, 25], [0, 60, 0]), ([1, 1, 43], [30, 29, 1])]
    {
        let found = on_ranks(device, 3, |communicator| {
            let rank = communicator.rank();
            let rows = Partition::from_local(communicator, rows[rank])?;
            let columns = Partition::from_local(communicator, columns[rank])?;
            let block = a.slice_rows(rows.rows(rank))?;
            let a = DistributedMatrix::from_rows(communicator, &CsrMatrix::<f64, u64>::from(&block), &columns)?;
            assert_eq!((a.rows(), a.columns(), a.nnz()), (&rows, &columns, nnz));
            assert!(a.jacobi().is_err());
            let mut x = DistributedVec::from_local(communicator, &columns, &x[columns.rows(rank)])?;
            let mut y = DistributedVec::zeros(communicator, &rows)?;
            a.spmv(1.0, &mut x, 0.0, &mut y)?;
            assert_eq!(y.local().to_vec()?, y.gather()?[rows.rows(rank)]);
            y.gather()
        });
        assert_exact(&format!("{rows:?}, {columns:?}"), &found, &expected);
    }
}

fn vectors(device: &Device) {
    let x: Vec<f64> = (0..10).map(f64::from).collect();
    for ranks in RANKS {
        let found = on_ranks(device, ranks, |communicator| {
            let partition = Partition::even(communicator, 10);
            let mut x = DistributedVec::from_whole(communicator, &partition, &x)?;
            let mut y = DistributedVec::zeros(communicator, &partition)?;
            assert_eq!((y.len(), y.is_empty(), y.partition()), (10, false, &partition));
            y.fill(3.0)?;
            y.axpy(2.0, &x)?; // 3 + 2 x
            x.axpby(1.0, &y, -2.0)?; // 3
            y.scale(0.5)?; // 1.5 + x
            x.local_mut().axpy(10.0, y.local())?; // 18 + 10 x
            y.assign(&x)?;
            y.gather()
        });
        assert_eq!(found, (0..10).map(|i| 18.0 + 10.0 * f64::from(i)).collect::<Vec<_>>());
    }
}

/// A system with a known solution.
fn system<T: Scalar>(a: &CsrMatrix<T>) -> (Vec<f64>, Vec<T>) {
    let solution: Vec<f64> = Random(3).vector(a.nrows());
    let b = reference_spmv(&a.cast::<f64>(), 1.0, &solution, 0.0, &vec![0.0; a.nrows()]);
    (solution, b.into_iter().map(|(b, _)| T::from_f64(b)).collect())
}

/// The stencil, with a diagonal that varies.
fn varied<T: Scalar>(side: usize) -> CsrMatrix<T> {
    let rows = stencil(side);
    let entries = |i: usize| {
        let (columns, values) = rows.row(i);
        let more =
            |(&j, &value): (&u32, &f64)| (j as usize, if j as usize == i { value + (i % 7) as f64 } else { value });
        columns.iter().zip(values).map(more).collect()
    };
    from_rows(rows.ncols(), (0..rows.nrows()).map(entries).collect())
}

/// Solutions, iterations and histories like those of one device.
fn systems<T: Scalar>(device: &Device) {
    let (a, tolerance) = (varied::<T>(12), if T::DTYPE == DType::F32 { 1e-5 } else { 1e-11 });
    let (solution, b) = system(&a);
    let on_device = device.upload(&a).unwrap();
    for jacobi in [false, true] {
        let mut alone = Cg::new(&on_device).tolerance(Tolerance::relative(tolerance));
        if jacobi {
            alone = alone.preconditioner(warpsparse::Jacobi::new(&on_device).unwrap());
        }
        let mut x = device.zeros(b.len()).unwrap();
        let expected = alone.solve(&device.upload_vec(&b).unwrap(), &mut x).unwrap();
        for ranks in RANKS {
            let (info, x) = on_ranks(device, ranks, |communicator| {
                let a = DistributedMatrix::from_whole(communicator, &a)?;
                let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
                let mut x = DistributedVec::zeros(communicator, a.rows())?;
                let mut cg = DistributedCg::new(&a).tolerance(Tolerance::relative(tolerance));
                if jacobi {
                    cg = cg.preconditioner(a.jacobi()?);
                }
                let info = cg.solve(&b, &mut x)?;
                Ok((info, x.gather()?))
            });
            let case = format!("{ranks} ranks, Jacobi {jacobi}: {info:?}, {expected:?}");
            assert_eq!(info.reason, StopReason::Converged, "{case}");
            assert!(info.iterations.abs_diff(expected.iterations) <= 1, "{case}");
            assert_eq!(info.history.len(), info.iterations + 1, "{case}");
            for (found, expected) in info.history.iter().zip(&expected.history).take(8) {
                assert!((found - expected).abs() <= 1e3 * epsilon::<T>() * expected, "{case}");
            }
            assert!(info.relative_residual <= 1.01 * tolerance, "{case}");
            for (found, expected) in x.iter().zip(&solution) {
                assert!((found.to_f64() - expected).abs() <= 40.0 * tolerance, "{case}: {found}, not {expected}");
            }
        }
    }
}

/// The same bits in every run, and on the CPU of one rank those of one device.
fn same_bits(device: &Device) {
    let a = varied::<f64>(11);
    let (_, b) = system(&a);
    for ranks in RANKS {
        let solve = || {
            on_ranks(device, ranks, |communicator| {
                let a = DistributedMatrix::from_whole(communicator, &a)?;
                // Ranks that are late now and then.
                thread::sleep(Duration::from_micros(300 * (communicator.rank() as u64 % 3)));
                let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
                let mut x = DistributedVec::zeros(communicator, a.rows())?;
                let info = DistributedCg::new(&a).preconditioner(a.jacobi()?).solve(&b, &mut x)?;
                Ok((info, x.gather()?, b.dot(&x)?.get()?))
            })
        };
        assert_eq!(solve(), solve(), "{ranks} ranks");
    }
}

fn degenerate_systems(device: &Device) {
    // No unknowns; fewer than ranks; b = 0; a first guess that is the solution.
    for n in [0, 1, 2, 5] {
        let a = from_rows(n, (0..n).map(|i| vec![(i, 2.0 + i as f64)]).collect());
        let (solution, b) = system::<f64>(&a);
        for ranks in RANKS {
            let solve = |b: &[f64], guess: &[f64]| {
                on_ranks(device, ranks, |communicator| {
                    let a = DistributedMatrix::from_whole(communicator, &a)?;
                    let b = DistributedVec::from_whole(communicator, a.rows(), b)?;
                    let mut x = DistributedVec::from_whole(communicator, a.rows(), guess)?;
                    let cg = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-14));
                    let info = cg.preconditioner(a.jacobi()?).solve(&b, &mut x)?;
                    Ok((info.iterations, info.reason, x.gather()?))
                })
            };
            let (iterations, reason, x) = solve(&b, &vec![0.0; n]);
            assert!(iterations <= 1 && reason == StopReason::Converged, "{n}, {ranks} ranks: {iterations}, {reason:?}");
            for (x, expected) in x.iter().zip(&solution) {
                assert!((x - expected).abs() <= 1e-14, "{n}, {ranks} ranks");
            }
            assert_eq!(solve(&vec![0.0; n], &solution), (0, StopReason::Converged, vec![0.0; n]));
        }
    }
}

fn matrices_that_it_is_not_for(device: &Device) {
    let n = 12;
    let indefinite = from_rows(n, (0..n).map(|i| vec![(i, if i == 7 { -1.0 } else { 1.0 })]).collect());
    let mut nan = stencil(4).values().to_vec();
    nan[20] = f64::NAN;
    let stencil = stencil(4);
    let nan = CsrMatrix::try_from_csr_data(16, 16, stencil.row_offsets().to_vec(), stencil.col_indices().to_vec(), nan)
        .unwrap();
    let of_rank_0 = from_rows::<f64>(4, vec![vec![(0, 0.0)], vec![(1, 1.0)], vec![(2, 1.0)], vec![(3, 1.0)]]);
    for ranks in [1, 3] {
        let solve = |a: &CsrMatrix<f64>, jacobi: bool| {
            run(device, ranks, |communicator| {
                let a = DistributedMatrix::from_whole(communicator, a)?;
                let mut b = DistributedVec::zeros(communicator, a.rows())?;
                b.fill(1.0)?;
                // A step that is 1 leads nowhere, so begin beside it.
                let mut x = DistributedVec::from_whole(communicator, a.rows(), &Random(1).vector::<f64>(a.nrows()))?;
                let mut cg = DistributedCg::new(&a);
                if jacobi {
                    cg = cg.preconditioner(a.jacobi()?);
                }
                // On every rank the same, not the error of another one.
                let error = cg.solve(&b, &mut x).unwrap_err();
                assert!(matches!(error, Error::Breakdown { .. }), "{error}");
                Err::<(), _>(error)
            })
            .unwrap_err()
        };
        let error = solve(&indefinite, false);
        assert!(matches!(error, Error::Rank { rank: 0, kind: ErrorKind::Breakdown, .. }), "{error:?}");
        assert!(
            error.to_string().starts_with("rank 0: iteration ")
                && error.to_string().ends_with("p . A p is not positive: the matrix is not positive definite"),
            "{error}"
        );
        assert!(solve(&nan, false).to_string().contains("not finite"));
    }
    // Jacobi's: on the one rank, with the number of the row among all.
    for (rank, row) in [(0, 0), (2, 3)] {
        let mut values = of_rank_0.values().to_vec();
        values.swap(0, row);
        let a = CsrMatrix::try_from_csr_data(4, 4, vec![0u32, 1, 2, 3, 4], vec![0, 1, 2, 3], values).unwrap();
        let error = run(device, 3, |communicator| {
            let a = DistributedMatrix::from_whole(communicator, &a)?;
            a.jacobi()?;
            communicator.barrier()
        });
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&format!("rank {rank}: ")) && error.contains(&format!("row {row}: ")), "{error}");
    }
}

/// Multiplies by 2, so that a solver which leaves it out takes other steps.
struct Twice;

impl Preconditioner<f64> for Twice {
    fn apply(&self, r: DeviceSlice<'_, f64>, mut z: DeviceSliceMut<'_, f64>) -> Result<()> {
        z.assign(r)?;
        z.scale(2.0)
    }
}

/// Fails on one rank.
struct Fails(bool);

impl Preconditioner<f64> for Fails {
    fn apply(&self, r: DeviceSlice<'_, f64>, mut z: DeviceSliceMut<'_, f64>) -> Result<()> {
        if self.0 { Err(Error::Unsupported("out of order".into())) } else { z.assign(r) }
    }
}

fn ones_own(device: &Device) {
    let a = varied::<f64>(6);
    let (solution, b) = system(&a);
    let solve = |communicator: &Communicator, preconditioner: &dyn Fn() -> Box<dyn Preconditioner<f64>>| {
        let a = DistributedMatrix::from_whole(communicator, &a)?;
        let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
        let mut x = DistributedVec::zeros(communicator, a.rows())?;
        let preconditioner = preconditioner();
        let mut cg = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(&*preconditioner);
        cg.solve(&b, &mut x)?;
        x.gather()
    };
    let x = on_ranks(device, 3, |communicator| solve(communicator, &|| Box::new(Twice)));
    assert!(x.iter().zip(&solution).all(|(x, expected)| (x - expected).abs() < 1e-10));
    let error = run(device, 3, |communicator| {
        let error = solve(communicator, &|| Box::new(Fails(communicator.rank() == 1))).unwrap_err();
        let names_rank_1 = matches!(error, Error::Rank { rank: 1, .. });
        assert_ne!(names_rank_1, communicator.rank() == 1, "{error}");
        Err::<(), _>(error)
    });
    assert_eq!(error.unwrap_err().to_string(), "rank 1: not supported: out of order");
}

/// Blocks whose product is fused with its dot, and others.
fn other_formats(device: &Device) {
    let a = varied::<f64>(9);
    let (solution, b) = system(&a);
    for format in [FormatChoice::Csr, FormatChoice::Dia, FormatChoice::Ell] {
        let (iterations, x) = on_ranks(device, 3, |communicator| {
            let a = DistributedMatrix::from_whole_with(communicator, &a, &SpmvOptions::default().format(format))?;
            let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
            let mut x = DistributedVec::from_whole(communicator, a.rows(), &Random(9).vector::<f64>(81))?;
            let mut cg = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(a.jacobi()?);
            Ok((cg.solve(&b, &mut x)?.iterations, x.gather()?))
        });
        assert!(x.iter().zip(&solution).all(|(x, expected)| (x - expected).abs() < 1e-10), "{format:?}");
        assert!((20..40).contains(&iterations), "{format:?}: {iterations} iterations");
    }
}

fn callbacks(device: &Device) {
    let a = varied::<f64>(16);
    let (_, b) = system(&a);
    let solve = |communicator: &Communicator, last: usize| {
        let a = DistributedMatrix::from_whole(communicator, &a)?;
        let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
        let mut x = DistributedVec::zeros(communicator, a.rows())?;
        let mut seen = vec![];
        let mut cg = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-13)).callback(|progress| {
            seen.push(progress.residual_norm);
            if progress.iteration == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let info = cg.solve(&b, &mut x)?;
        drop(cg);
        Ok((info, seen))
    };
    let (info, seen) = on_ranks(device, 3, |communicator| solve(communicator, 4));
    // The iterations that are queued have run: on devices that exchange data without the host two batches of 16.
    let at_a_time = if info.iterations == 4 { 1 } else { 16 };
    assert!(at_a_time == 1 || device.to_string() != "cpu");
    assert_eq!((info.iterations, info.reason), (if at_a_time == 1 { 4 } else { 32 }, StopReason::Stopped));
    assert_eq!((&info.history[1..=4], info.history.len()), (&seen[..], info.iterations + 1));
    // Ranks that do not agree.
    let error = run(device, 3, |communicator| solve(communicator, 4 + at_a_time * (communicator.rank() % 2)));
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Rank { rank: 1, kind: ErrorKind::InvalidInput, .. }), "{error}");
    // The limit of iterations.
    let info = on_ranks(device, 2, |communicator| {
        let a = DistributedMatrix::from_whole(communicator, &a)?;
        let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
        let mut x = DistributedVec::zeros(communicator, a.rows())?;
        DistributedCg::new(&a).max_iterations(3).solve(&b, &mut x)
    });
    assert_eq!((info.iterations, info.reason), (3, StopReason::MaxIterations));
}

/// Grids of 5 and 7 points, and their smallest eigenvalues.
fn grids<T: Scalar>(sides: [usize; 2]) -> [(CsrMatrix<T>, f64); 2] {
    let smallest = |dimensions: f64, side: usize| {
        4.0 * dimensions * (0.5 * std::f64::consts::PI / (side as f64 + 1.0)).sin().powi(2)
    };
    let [side, depth] = sides;
    [
        (generate::poisson2d(side).unwrap(), smallest(2.0, side)),
        (generate::poisson3d(depth).unwrap(), smallest(3.0, depth)),
    ]
}

/// Multigrid over ranks: about as many iterations as on one device, and the solution.
fn multigrid<T: Scalar>(device: &Device) {
    let is_emulated = device.to_string() == "emulated";
    let tolerance = if T::DTYPE == DType::F32 { 1e-5 } else { 1e-10 };
    for (case, (a, smallest)) in grids::<T>(if is_emulated { [9, 4] } else { [40, 13] }).into_iter().enumerate() {
        let (solution, b) = system(&a);
        let norm = b.iter().map(|b| b.to_f64().powi(2)).sum::<f64>().sqrt();
        // As few rows are solved directly as are gathered below.
        let few = a.nrows() / 30;
        let alone = Amg::options().coarse_rows(few).build(&device.upload(&a).unwrap()).unwrap();
        let mut x = device.zeros(b.len()).unwrap();
        let alone = alone.solve(&device.upload_vec(&b).unwrap(), &mut x, Tolerance::relative(tolerance)).unwrap();
        for smoother in [AmgSmoother::Jacobi, AmgSmoother::Chebyshev(3)] {
            let counts = match smoother {
                AmgSmoother::Jacobi => counts(device),
                _ if is_emulated => &[],
                _ => &[3],
            };
            for &ranks in counts {
                let solve = || {
                    on_ranks(device, ranks, |communicator| {
                        let a = DistributedMatrix::from_whole(communicator, &a)?;
                        let options = Amg::options().smoother(smoother);
                        let amg = DistributedAmg::options().amg(options).gathered_rows(few).build(&a)?;
                        let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
                        let mut x = DistributedVec::zeros(communicator, a.rows())?;
                        let cg = DistributedCg::new(&a).tolerance(Tolerance::relative(tolerance));
                        let info = cg.preconditioner(&amg).solve(&b, &mut x)?;
                        let described = amg.describe();
                        let sizes: Vec<_> = described.levels.iter().map(|level| level.rows).collect();
                        Ok((info, x.gather()?, sizes, described.notes[0].clone()))
                    })
                };
                let (info, x, sizes, note) = solve();
                let case = format!(
                    "case {case}, {ranks} ranks, {smoother:?}: {info:?}, alone {}, {sizes:?}",
                    alone.iterations
                );
                assert_eq!(info.reason, StopReason::Converged, "{case}");
                assert!(info.iterations <= alone.iterations + 3, "{case}");
                assert!(info.relative_residual <= 1.01 * tolerance, "{case}");
                let bound = (1.1 * tolerance + 4.0 * epsilon::<T>()) * norm / smallest;
                let error = x.iter().zip(&solution).map(|(x, expected)| (x.to_f64() - expected).powi(2)).sum::<f64>();
                assert!(error.sqrt() <= bound, "{case}: off by {}, bound {bound}", error.sqrt());
                assert_eq!(sizes[0], a.nrows(), "{case}");
                match ranks {
                    1 => assert_eq!(note, "Each of 1 ranks has all levels whole."),
                    _ => {
                        // The one that is gathered is the last.
                        let divided = sizes.len() - 1;
                        assert!(note.starts_with(&format!("{divided} levels are divided among")), "{case}: {note}");
                        // Each rank has one of its rows at least.
                        assert!(divided >= 2 && sizes[divided] <= few.max(ranks) && sizes[divided - 1] > few, "{case}");
                    }
                }
                if smoother == AmgSmoother::Jacobi && ranks < 4 {
                    let again = solve();
                    assert_eq!((&again.0, &again.1), (&info, &x), "{case}");
                }
            }
        }
    }
}

/// The columns of a matrix: its products with unit vectors.
fn columns<T: Scalar>(a: &DistributedMatrix<T>) -> Result<Vec<Vec<f64>>> {
    let of = |column: usize| {
        let mut unit = vec![T::default(); a.ncols()];
        unit[column] = T::from_f64(1.0);
        let mut unit = DistributedVec::from_whole(a.communicator(), a.columns(), &unit)?;
        let mut product = DistributedVec::zeros(a.communicator(), a.rows())?;
        a.spmv(T::from_f64(1.0), &mut unit, T::default(), &mut product)?;
        Ok(product.gather()?.iter().map(|element| element.to_f64()).collect())
    };
    (0..a.ncols()).map(of).collect()
}

/// Coarse matrices are `Pᵀ A P`, prolongators reproduce constants, and a cycle is symmetric.
fn levels_of_multigrid<T: Scalar>(device: &Device) {
    let is_emulated = device.to_string() == "emulated";
    let a = generate::poisson2d::<T>(if is_emulated { 7 } else { 14 }).unwrap();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for &ranks in counts(device).iter().filter(|&&ranks| ranks > 1) {
        on_ranks(device, ranks, |communicator| {
            let finest = DistributedMatrix::from_whole(communicator, &a)?;
            let amg = DistributedAmg::options().gathered_rows(if is_emulated { 3 } else { 12 }).build(&finest)?;
            let whole =
                amg.gathered().matrix(0).expect("a level that is gathered").download()?.into_csr()?.to_dense()?;
            let mut level = 0;
            while let (Some(fine), Some(p)) = (amg.matrix(level), amg.prolongator(level)) {
                let (a, p) = (columns(fine)?, columns(p)?);
                let n = p.len();
                let coarse: Vec<Vec<f64>> = match amg.matrix(level + 1) {
                    Some(coarse) => columns(coarse)?,
                    None => (0..n).map(|j| (0..n).map(|i| whole[i * n + j].to_f64()).collect()).collect(),
                };
                for j in 0..n {
                    // A is symmetric: its columns are its rows.
                    let ap: Vec<f64> = a.iter().map(|row| dot(row, &p[j])).collect();
                    for i in 0..n {
                        let (found, expected) = (coarse[j][i], dot(&p[i], &ap));
                        let bound = 200.0 * epsilon::<T>();
                        assert!((found - expected).abs() <= bound, "level {level}, {i}, {j}: {found}, not {expected}");
                    }
                }
                for (row, of_row) in a.iter().enumerate() {
                    let sum: f64 = p.iter().map(|column| column[row]).sum();
                    if of_row.iter().sum::<f64>().abs() < 1e-6 {
                        assert!((sum - 1.0).abs() < 20.0 * epsilon::<T>(), "level {level}, row {row}: {sum}");
                    }
                }
                level += 1;
            }
            assert!(level >= 2, "{}", amg.describe());
            let mut random = Random(1);
            let (u, v) = (random.vector::<T>(a.nrows()), random.vector::<T>(a.nrows()));
            let cycle = |r: &[T]| {
                let r = DistributedVec::from_whole(communicator, finest.rows(), r)?;
                let mut z = DistributedVec::zeros(communicator, finest.rows())?;
                communicator.barrier()?;
                amg.apply(r.local(), z.local_mut())?;
                Ok::<Vec<f64>, Error>(z.gather()?.iter().map(|z| z.to_f64()).collect())
            };
            let [wide_u, wide_v] = [&u, &v].map(|x| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
            let (mu, mv) = (cycle(&u)?, cycle(&v)?);
            let (umv, vmu, umu) = (dot(&wide_u, &mv), dot(&wide_v, &mu), dot(&wide_u, &mu));
            assert!(umu > 0.0 && (umv - vmu).abs() <= 200.0 * epsilon::<T>() * umu, "{umv}, {vmu}, {umu}");
            Ok(())
        });
    }
}

/// Fewer rows than ranks, ranks without rows, nothing connected, heavy rows, and zeros.
fn multigrid_of_little(device: &Device) {
    let path = |n: usize| {
        let row = |i: usize| {
            let before = (i > 0).then(|| (i - 1, -1.0));
            before.into_iter().chain([(i, 2.0)]).chain((i + 1 < n).then_some((i + 1, -1.0))).collect()
        };
        from_rows::<f64>(n, (0..n).map(row).collect())
    };
    let diagonal = |n: usize| from_rows::<f64>(n, (0..n).map(|i| vec![(i, 2.0 + i as f64)]).collect());
    let n = 40;
    let star = |i: usize| match i {
        0 => (0..n).map(|j| (j, if j == 0 { n as f64 } else { -1.0 })).collect(),
        _ => vec![(0, -1.0), (i, 1.5)],
    };
    let star = from_rows::<f64>(n, (0..n).map(star).collect());
    // Columns that descend, and two entries for each element of the diagonal.
    let untidy = |i: usize| {
        let after = (i < 49).then(|| (i + 1, -1.0));
        after.into_iter().chain([(i, 1.5), (i, 0.5)]).chain((i > 0).then(|| (i - 1, -1.0))).collect()
    };
    let untidy = from_rows::<f64>(50, (0..50).map(untidy).collect());
    let cases = [path(0), path(1), path(2), path(5), path(60), diagonal(5), diagonal(20), star, untidy];
    for (case, a) in cases.iter().enumerate() {
        let (solution, b) = system(a);
        for &ranks in counts(device) {
            for seed in 0..2 {
                let cuts = cuts(seed, a.nrows(), ranks);
                let (iterations, x) = on_ranks(device, ranks, |communicator| {
                    let rank = communicator.rank();
                    let rows = Partition::from_local(communicator, cuts[rank + 1] - cuts[rank])?;
                    let a = DistributedMatrix::from_rows(communicator, &a.slice_rows(rows.rows(rank))?, &rows)?;
                    let amg = DistributedAmg::options().gathered_rows(3).build(&a)?;
                    let b = DistributedVec::from_whole(communicator, &rows, &b)?;
                    let mut x = DistributedVec::zeros(communicator, &rows)?;
                    let cg = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-12));
                    Ok((cg.preconditioner(&amg).solve(&b, &mut x)?.iterations, x.gather()?))
                });
                let case = format!("case {case}, {ranks} ranks, seed {seed}: {iterations} iterations");
                assert!(iterations <= 45, "{case}");
                for (x, expected) in x.iter().zip(&solution) {
                    assert!((x - expected).abs() <= 1e-8, "{case}");
                }
            }
        }
    }
}

/// Where a smoothed prolongator would fill up the next matrix, it is not smoothed.
fn multigrid_with_heavy_rows(device: &Device) {
    let n = if device.to_string() == "emulated" { 40 } else { 150 };
    let mut random = Random(2);
    // Each vertex is connected with a few others, the more often the lower their numbers.
    let mut weights = vec![vec![0.0; n]; n];
    for edge in 0..6 * (n - 1) {
        let i = 1 + edge / 6;
        let limit = 1 + random.next_below(i);
        let j = random.next_below(limit);
        (weights[i][j], weights[j][i]) = (1.0, 1.0);
    }
    let row = |i: usize| {
        let degree: f64 = weights[i].iter().sum();
        let value = |j: usize| if i == j { degree + 0.01 } else { -weights[i][j] };
        (0..n).map(|j| (j, value(j))).filter(|(_, value)| *value != 0.0).collect()
    };
    let a = from_rows::<f64>(n, (0..n).map(row).collect());
    let (solution, b) = system(&a);
    // With more ranks, too few of the connections are within one.
    for ranks in [2, 3] {
        let (iterations, x, notes) = on_ranks(device, ranks, |communicator| {
            let a = DistributedMatrix::from_whole(communicator, &a)?;
            let amg = DistributedAmg::options().gathered_rows(n / 2).build(&a)?;
            let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
            let mut x = DistributedVec::zeros(communicator, a.rows())?;
            let mut cg = DistributedCg::new(&a).tolerance(Tolerance::relative(1e-12)).preconditioner(&amg);
            // Of which each row has a single entry.
            assert_eq!(amg.prolongator(0).map(DistributedMatrix::nnz), Some(n));
            Ok((cg.solve(&b, &mut x)?.iterations, x.gather()?, amg.describe().notes))
        });
        assert!(notes[1].contains("would fill up: those of level 0"), "{ranks} ranks: {notes:?}");
        assert!(iterations < 60, "{ranks} ranks: {iterations} iterations");
        for (x, expected) in x.iter().zip(&solution) {
            assert!((x - expected).abs() <= 1e-6, "{ranks} ranks: {x}, not {expected}");
        }
    }
}

fn what_multigrid_refuses(device: &Device) {
    let setup = |a: &CsrMatrix<f64>, options: &(dyn Fn(&Communicator) -> DistributedAmgOptions<f64> + Sync)| {
        let error = run(device, 2, |communicator| {
            let a = DistributedMatrix::from_whole(communicator, a)?;
            options(communicator).gathered_rows(10).build(&a).map(|_| ())
        });
        error.unwrap_err().to_string()
    };
    let default = |_: &Communicator| DistributedAmg::options();
    let grid = stencil(6);
    let entries = |value: &dyn Fn(usize, usize, f64) -> f64| {
        let row = |i: usize| {
            let (columns, values) = grid.row(i);
            columns.iter().zip(values).map(|(&j, &old)| (j as usize, value(i, j as usize, old))).collect()
        };
        from_rows::<f64>(36, (0..36).map(row).collect())
    };
    let error = setup(&entries(&|i, j, old| if i == 31 && j == 30 { 3.0 } else { old }), &default);
    assert!(error.starts_with("rank 0: ") && error.contains("the matrix is not symmetric"), "{error}");
    let error = setup(&entries(&|i, j, old| if i == 30 && j == 30 { -old } else { old }), &default);
    let expected = "multigrid, level 0, of the rows from 18 on and their halo, row 12 of ";
    assert!(
        error.starts_with("rank 1: ") && error.contains(expected) && error.contains("not positive definite"),
        "{error}"
    );
    let error = setup(&grid, &|_| DistributedAmg::options().amg(Amg::options().theta(2.0)));
    assert!(error.contains("theta = 2: it is 0 to 1"), "{error}");
    let space = NearNullSpace::constants(18, 2).unwrap();
    let error = setup(&grid, &|_| DistributedAmg::options().amg(Amg::options().near_null_space(space.clone())));
    assert!(error.contains("a near-null space is for multigrid on one device"), "{error}");
    let odd = |c: &Communicator| DistributedAmg::options().amg(Amg::options().coarse_rows(5 + c.rank()));
    assert!(setup(&grid, &odd).contains("coarse_rows: 6"), "{}", setup(&grid, &odd));
    let error = run(device, 2, |communicator| {
        let rows = Partition::even(communicator, 36);
        let columns = Partition::from_local(communicator, if communicator.rank() == 0 { 36 } else { 0 })?;
        let a =
            DistributedMatrix::from_rows(communicator, &grid.slice_rows(rows.rows(communicator.rank()))?, &columns)?;
        DistributedAmg::new(&a).map(|_| ())
    });
    assert!(error.unwrap_err().to_string().contains("a row of A is divided at"));
}

fn what_does_not_fit(device: &Device) {
    let kinds = |program: &(dyn Fn(&Communicator) -> Result<()> + Sync)| {
        let error = run(device, 2, |communicator| program(communicator)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        error.to_string()
    };
    let (square, wide) = (stencil(4), from_rows(7, vec![vec![(6, 1.0)]; 4]));
    assert_eq!(distributed::run(&[], |_| Ok(())).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut other = None;
    distributed::run(&[Device::cpu()], |communicator| Ok(Partition::even(communicator, 4)))
        .unwrap()
        .into_iter()
        .for_each(|p| other = Some(p));
    let other = &other.unwrap();
    assert_eq!(
        kinds(&|c| DistributedVec::<f64>::zeros(c, other).map(|_| ())),
        "rank 0: invalid option: a partition into 1 blocks for 2 ranks"
    );
    kinds(&|c| DistributedMatrix::from_rows(c, &wide, other).map(|_| ()));
    kinds(&|c| DistributedMatrix::from_rows(c, &wide, &Partition::even(c, 8)).map(|_| ()));
    kinds(&|c| DistributedVec::from_whole(c, &Partition::even(c, 4), &[1.0; 5]).map(|_| ()));
    kinds(&|c| DistributedVec::from_local(c, &Partition::even(c, 4), &[1.0; 4]).map(|_| ()));
    kinds(&|c| DistributedDense::from_whole(c, &Partition::even(c, 4), 3, &[1.0; 4]).map(|_| ()));
    kinds(&|c| {
        DistributedDense::<f64>::zeros(c, &Partition::even(c, 4), usize::MAX / 2)
            .map(|_| ())
            .or(c.broadcast(2, &[]).map(|_| ()))
    });
    let divided = "is divided at [0, 4, 4], where the operation needs [0, 2, 4]";
    let uneven = |c: &Communicator| Partition::from_local(c, if c.rank() == 0 { 4 } else { 0 });
    let found = kinds(&|c| {
        let mut x = DistributedVec::<f64>::zeros(c, &Partition::even(c, 4))?;
        x.axpy(1.0, &DistributedVec::zeros(c, &uneven(c)?)?)
    });
    assert_eq!(found, format!("rank 0: invalid option: x {divided}"));
    kinds(&|c| {
        let x = DistributedVec::<f64>::zeros(c, &Partition::even(c, 4))?;
        x.dot(&DistributedVec::zeros(c, &uneven(c)?)?).map(|_| ())
    });
    for (x_len, y_len) in [(4, 4), (7, 7)] {
        kinds(&|c| {
            let a = DistributedMatrix::from_whole(c, &wide)?;
            let mut x = DistributedVec::zeros(c, &Partition::even(c, x_len))?;
            a.spmv(1.0, &mut x, 0.0, &mut DistributedVec::zeros(c, &Partition::even(c, y_len))?)
        });
    }
    kinds(&|c| {
        let a = DistributedMatrix::from_whole(c, &wide)?;
        let mut b = DistributedDense::zeros(c, a.columns(), 3)?;
        a.spmm(1.0, &mut b, 0.0, &mut DistributedDense::zeros(c, a.rows(), 2)?)
    });
    // Systems that are not square, and not divided alike; tolerances.
    let found = kinds(&|c| {
        let a = DistributedMatrix::from_whole(c, &wide)?;
        let b = DistributedVec::zeros(c, a.rows())?;
        DistributedCg::new(&a).solve(&b, &mut DistributedVec::zeros(c, a.columns())?).map(|_| ())
    });
    assert!(found.starts_with("rank 0: invalid option: a row of A is divided at"), "{found}");
    kinds(&|c| {
        let rows = Partition::even(c, 16);
        let a = DistributedMatrix::from_rows(c, &square.slice_rows(rows.rows(c.rank()))?, &rows)?;
        let (b, mut x) = (DistributedVec::zeros(c, &rows)?, DistributedVec::zeros(c, &rows)?);
        DistributedCg::new(&a).tolerance(Tolerance::relative(-1.0)).solve(&b, &mut x).map(|_| ())
    });
    // Data of other ranks.
    kinds(&|c| {
        let other = Partition::even(c, 4);
        let x = DistributedVec::<f64>::zeros(c, &other)?;
        distributed::run(&devices(c.device(), 2), |inner| {
            let inner_x = DistributedVec::<f64>::zeros(inner, &Partition::even(inner, 4))?;
            inner_x.gather().map(|_| ())
        })?;
        x.dot(&DistributedVec::zeros(c, &Partition::from_local(c, 1)?)?).map(|_| ())
    });
}

fn partitions(device: &Device) {
    let starts = |ranks: usize, partition: &(dyn Fn(&Communicator) -> Partition + Sync)| {
        on_ranks(device, ranks, |communicator| {
            let partition = partition(communicator);
            assert_eq!(partition.ranks(), communicator.size());
            Ok((0..partition.ranks()).map(|rank| partition.rows(rank)).collect::<Vec<_>>())
        })
    };
    assert_eq!(starts(3, &|c| Partition::even(c, 8)), [0..3, 3..6, 6..8]);
    assert_eq!(starts(4, &|c| Partition::even(c, 2)), [0..1, 1..2, 2..2, 2..2]);
    assert_eq!(starts(2, &|c| Partition::even(c, 0)), [0..0, 0..0]);
    assert_eq!(starts(3, &|c| Partition::from_local(c, 2 * c.rank()).unwrap()), [0..0, 0..2, 2..6]);
    // Entries plus rows: 9 + 1, and nine rows of 1 + 1.
    let heavy = from_rows(9, (0..10).map(|i| (0..if i == 0 { 9 } else { 1 }).map(|j| (j, 1.0)).collect()).collect());
    assert_eq!(starts(2, &|c| Partition::balanced::<f64, u32>(c, &heavy)), [0..3, 3..10]);
    assert_eq!(starts(4, &|c| Partition::balanced::<f64, u32>(c, &heavy)), [0..1, 1..3, 3..7, 7..10]);
    let empty = from_rows::<f64>(9, vec![]);
    assert_eq!(starts(2, &|c| Partition::balanced(c, &empty)), [0..0, 0..0]);
    let rows = from_rows::<f64>(9, vec![vec![]; 4]);
    assert_eq!(starts(2, &|c| Partition::balanced(c, &rows)), [0..2, 2..4]);
}

fn collective_operations(device: &Device) {
    for ranks in RANKS {
        let devices = devices(device, ranks);
        let reached = AtomicUsize::new(0);
        let found = distributed::run(&devices, |communicator| {
            let rank = communicator.rank();
            assert_eq!((communicator.size(), communicator.device().to_string()), (ranks, device.to_string()));
            reached.fetch_add(1, Ordering::SeqCst);
            communicator.barrier()?;
            assert_eq!(reached.load(Ordering::SeqCst), ranks, "a barrier lets a rank through early");
            let gathered = communicator.all_gather(&vec![rank as u8; rank])?;
            assert_eq!(gathered, (0..ranks).map(|rank| vec![rank as u8; rank]).collect::<Vec<_>>());
            assert_eq!(communicator.broadcast(ranks - 1, &[rank as u8])?, [ranks as u8 - 1]);
            assert!(communicator.describe().starts_with(&format!("rank {rank} of {ranks}, on ")));
            assert_eq!(communicator.sum(&[])?, []);
            Ok((rank, communicator.sum(&[1.0, rank as f64, 1e300])?))
        });
        let sum = (ranks * (ranks - 1) / 2) as f64;
        let mut huge = 0.0;
        (0..ranks).for_each(|_| huge += 1e300);
        let expected: Vec<_> = (0..ranks).map(|rank| (rank, vec![ranks as f64, sum, huge])).collect();
        assert_eq!(found.unwrap(), expected);
    }
    // In the order of ranks: 2^53 + 1 - 2^53 + 1.
    let numbers = [9_007_199_254_740_992.0, 1.0, -9_007_199_254_740_992.0, 1.0];
    assert_eq!(on_ranks(device, 4, |c| c.sum(&[numbers[c.rank()]])), [1.0]);
}

/// Runs a program on 3 ranks, one of which makes the others fail. Returns the error of each rank, and that of the run.
fn failing(program: impl Fn(&Communicator) -> Result<()> + Sync) -> (Vec<String>, Error) {
    let errors = std::sync::Mutex::new(vec![String::new(); 3]);
    let start = Instant::now();
    let devices = devices(&Device::cpu(), 3);
    let error = distributed::run(&devices, |communicator| {
        let result = program(communicator);
        if let Err(error) = &result {
            errors.lock().unwrap()[communicator.rank()] = error.to_string();
        }
        result
    });
    assert!(start.elapsed() < Duration::from_secs(20), "ranks hang");
    // The same devices are usable afterwards.
    assert_eq!(distributed::run(&devices, |communicator| communicator.sum(&[1.0])).unwrap(), vec![vec![3.0]; 3]);
    (errors.into_inner().unwrap(), error.unwrap_err())
}

fn a_rank_that_fails(_: &Device) {
    let (errors, error) = failing(|communicator| {
        communicator.barrier()?;
        if communicator.rank() == 1 {
            return Err(Error::Unsupported("this".into()));
        }
        let first = communicator.sum(&[1.0]).map(|_| ()).unwrap_err();
        // And so do all later operations.
        assert_eq!(communicator.barrier().unwrap_err().to_string(), first.to_string());
        Err(first)
    });
    assert_eq!(errors, ["rank 1: not supported: this", "not supported: this", "rank 1: not supported: this"]);
    assert_eq!((error.to_string().as_str(), error.kind()), ("rank 1: not supported: this", ErrorKind::Unsupported));
}

fn a_rank_that_panics(_: &Device) {
    let (errors, error) = failing(|communicator| {
        if communicator.rank() == 2 {
            // Without the message on stderr.
            std::panic::resume_unwind(Box::new("oh".to_owned()));
        }
        communicator.barrier()
    });
    assert_eq!(errors, ["rank 2: panicked: oh", "rank 2: panicked: oh", ""]);
    assert_eq!((error.to_string().as_str(), error.kind()), ("rank 2: panicked: oh", ErrorKind::Rank));
}

fn a_rank_that_ends(_: &Device) {
    let (errors, error) =
        failing(|communicator| if communicator.rank() == 0 { Ok(()) } else { communicator.barrier() });
    let expected = "rank 0: has ended, while others wait for it";
    assert_eq!(errors, ["", expected, expected]);
    assert_eq!((error.to_string().as_str(), error.kind()), (expected, ErrorKind::Rank));
}

fn a_rank_that_is_late(_: &Device) {
    let limit = Duration::from_millis(100);
    let (errors, error) = failing(|communicator| {
        assert_eq!(communicator.time_limit(), Duration::from_secs(30));
        communicator.set_time_limit(limit);
        if communicator.rank() == 1 {
            thread::sleep(5 * limit);
        }
        // It ends long before the limit that ranks have by default.
        communicator.barrier()
    });
    let expected = "rank 1: has not answered within 100ms";
    assert_eq!(errors, [expected; 3]);
    assert_eq!((error.to_string().as_str(), error.kind()), (expected, ErrorKind::Rank));
}

fn unequal_arguments(_: &Device) {
    let a = stencil(4);
    let odd = |communicator: &Communicator| communicator.rank() == 2;
    type Program<'p> = Box<dyn Fn(&Communicator) -> Result<()> + Sync + 'p>;
    let programs: [(&str, Program<'_>); 7] = [
        ("a sum of 2 numbers", Box::new(|c| c.sum(&vec![1.0; if odd(c) { 2 } else { 1 }]).map(|_| ()))),
        ("a barrier", Box::new(|c| if odd(c) { c.barrier() } else { c.sum(&[1.0]).map(|_| ()) })),
        ("a broadcast from rank 1", Box::new(|c| c.broadcast(usize::from(odd(c)), &[]).map(|_| ()))),
        (
            "a distribution of a 16 x 16 matrix",
            Box::new(|c| {
                let smaller = a.slice_rows(0..9)?;
                DistributedMatrix::from_whole(c, if odd(c) { &a } else { &smaller }).map(|_| ())
            }),
        ),
        (
            "a reduction Sum of 5 x 1 elements of 64 bits",
            Box::new(|c| {
                let partition = Partition::even(c, if odd(c) { 5 } else { 4 });
                DistributedVec::<f64>::zeros(c, &partition)?.sum().map(|_| ())
            }),
        ),
        (
            "matrix of 64 entries with 2 columns",
            Box::new(|c| {
                let a = DistributedMatrix::from_whole_with(c, &a, &SpmvOptions::default().format(FormatChoice::Csr))?;
                let width = if odd(c) { 2 } else { 3 };
                let mut b = DistributedDense::zeros(c, a.rows(), width)?;
                a.spmm(1.0, &mut b, 0.0, &mut DistributedDense::zeros(c, a.rows(), width)?)
            }),
        ),
        (
            "max_iterations: Some(7)",
            Box::new(|c| {
                let a = DistributedMatrix::from_whole(c, &a)?;
                let b = DistributedVec::from_whole(c, a.rows(), &[1.0; 16])?;
                let mut cg = DistributedCg::new(&a);
                if odd(c) {
                    cg = cg.max_iterations(7);
                }
                cg.solve(&b, &mut DistributedVec::zeros(c, a.rows())?).map(|_| ())
            }),
        ),
    ];
    for (expected, program) in programs {
        let (errors, error) = failing(program);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        for text in errors.iter().chain([&error.to_string()]) {
            assert!(text.starts_with("rank 2: its operation number ") && text.contains(expected), "{text}");
        }
    }
}

/// A rank that ignores an error, and calls the next operation, which looks like the one that others are in.
fn out_of_step(_: &Device) {
    let (errors, _) = failing(|communicator| {
        let partition = Partition::even(communicator, 6);
        let x = DistributedVec::<f64>::zeros(communicator, &partition)?;
        if communicator.rank() == 1 {
            let y = DistributedVec::zeros(communicator, &Partition::even(communicator, 5))?;
            x.dot(&y).unwrap_err();
        } else {
            x.dot(&x)?;
        }
        x.dot(&x).map(|_| ())
    });
    for error in errors {
        let (of_rank_1, of_rank_0) = error.split_once(", but rank 0 calls ").expect("a comparison of two ranks");
        assert!(of_rank_1.starts_with("rank 1: its operation number "), "{error}");
        assert!([of_rank_1, of_rank_0].iter().all(|text| text.contains("a dot product of 6 x 1 elements")), "{error}");
    }
}

fn files(device: &Device) {
    let file = std::env::temp_dir().join(format!("warpsparse-distributed-{}.mtx", std::process::id()));
    let a = integers::matrix(&stencil(5));
    a.write_matrix_market(&file).unwrap();
    let x = integers::vector::<f64>(1, 25);
    let found = on_ranks(device, 3, |communicator| {
        let a = DistributedMatrix::read_matrix_market(communicator, &file)?;
        let mut x = DistributedVec::from_whole(communicator, a.columns(), &x)?;
        let mut y = DistributedVec::zeros(communicator, a.rows())?;
        a.spmv(1.0, &mut x, 0.0, &mut y)?;
        y.gather()
    });
    std::fs::remove_file(&file).unwrap();
    assert_exact("from a file", &found, &reference_spmv(&a, 1.0, &x, 0.0, &[0.0; 25]));
    // On one rank it is gone.
    let error = run(device, 2, |communicator| {
        if communicator.rank() == 1 {
            DistributedMatrix::<f64>::read_matrix_market(communicator, &file)?;
        }
        communicator.barrier()
    });
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Rank { rank: 1, kind: ErrorKind::Io, .. }), "{error}");
}

/// Ranks that know each other by sockets alone, as processes do.
fn by_sockets<R: Send>(ranks: usize, program: impl Fn(&Communicator) -> Result<R> + Sync) -> Vec<Result<R>> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let join = |rank: usize| {
        let meeting = Rendezvous { rank, size: ranks, local_rank: rank, address: format!("127.0.0.1:{port}") };
        // Those with high numbers come first.
        thread::sleep(Duration::from_millis(20 * (ranks - rank) as u64));
        distributed::join(&meeting, &Device::cpu(), |communicator| program(communicator))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || join(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn processes(device: &Device) {
    let a = varied::<f64>(8);
    let (_, b) = system(&a);
    for ranks in RANKS {
        let program = |communicator: &Communicator| {
            assert_eq!(communicator.size(), ranks);
            let a = DistributedMatrix::from_whole(communicator, &a)?;
            let b = DistributedVec::from_whole(communicator, a.rows(), &b)?;
            let mut x = DistributedVec::zeros(communicator, a.rows())?;
            let info = DistributedCg::new(&a).preconditioner(a.jacobi()?).solve(&b, &mut x)?;
            // More than sockets keep on the way.
            let megabytes = communicator.all_gather(&vec![communicator.rank() as u8; 3 << 20])?;
            assert!(megabytes.iter().enumerate().all(|(rank, bytes)| *bytes == vec![rank as u8; 3 << 20]));
            Ok((info, x.gather()?))
        };
        // The same bits as threads.
        let expected = on_ranks(device, ranks, program);
        for found in by_sockets(ranks, program) {
            assert_eq!(found.unwrap(), expected, "{ranks} ranks");
        }
    }
}

fn processes_that_fail(_: &Device) {
    type Program<'p> = Box<dyn Fn(&Communicator) -> Result<()> + Sync + 'p>;
    let programs: [(&str, ErrorKind, Program<'_>); 5] = [
        (
            "not supported: this",
            ErrorKind::Unsupported,
            Box::new(|c| if c.rank() == 1 { Err(Error::Unsupported("this".into())) } else { c.barrier() }),
        ),
        (
            "panicked: oh",
            ErrorKind::Rank,
            Box::new(|c| if c.rank() == 1 { std::panic::resume_unwind(Box::new("oh")) } else { c.barrier() }),
        ),
        (
            "has ended, while others wait for it",
            ErrorKind::Rank,
            Box::new(|c| if c.rank() == 1 { Ok(()) } else { c.barrier() }),
        ),
        (
            "has not answered within 100ms",
            ErrorKind::Rank,
            Box::new(|c| {
                c.set_time_limit(Duration::from_millis(100));
                if c.rank() == 1 {
                    thread::sleep(Duration::from_millis(600));
                }
                c.barrier()
            }),
        ),
        (
            "its operation number 1 is a barrier",
            ErrorKind::InvalidInput,
            Box::new(|c| if c.rank() == 1 { c.barrier() } else { c.sum(&[1.0]).map(|_| ()) }),
        ),
    ];
    for (problem, kind, program) in programs {
        for (rank, result) in by_sockets(3, program).into_iter().enumerate() {
            let Err(error) = result else {
                assert!(rank == 1 && problem.starts_with("has ended"), "rank {rank}: {problem}");
                continue;
            };
            let text = error.to_string().replace("number 2", "number 1");
            assert!(text.starts_with(&format!("rank 1: {problem}")), "{text}, not {problem}");
            assert_eq!(error.kind(), kind, "{text}");
        }
    }
    let nobody = Rendezvous { rank: 2, size: 2, local_rank: 0, address: "127.0.0.1:1".into() };
    let error = distributed::join(&nobody, &Device::cpu(), |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Random matrices, blocks of columns of any size, and from 1 to 7 ranks: exact products.
fn random_cases(device: &Device) {
    let cases = if device.to_string() == "cpu" { 300 } else { 24 };
    let strategy = (strategies::csr_matrix::<f64>(), 1usize..=7, any::<bool>(), any::<u64>());
    properties::check("distributed", cases, strategy, |(matrix, ranks, whole, seed)| {
        let a = integers::matrix(&matrix);
        let (x, y) = (integers::vector::<f64>(seed, a.ncols()), integers::vector::<f64>(seed + 1, a.nrows()));
        let (rows, columns) = (cuts(seed, a.nrows(), ranks), cuts(seed ^ 1, a.ncols(), ranks));
        let found = run(device, ranks, |communicator| {
            let rank = communicator.rank();
            let partition = |cuts: &[usize]| Partition::from_local(communicator, cuts[rank + 1] - cuts[rank]);
            let a = match whole {
                true => DistributedMatrix::from_whole(communicator, &a)?,
                false => {
                    let block = a.slice_rows(rows[rank]..rows[rank + 1])?;
                    DistributedMatrix::from_rows(communicator, &block, &partition(&columns)?)?
                }
            };
            let mut x = DistributedVec::from_whole(communicator, a.columns(), &x)?;
            let mut y = DistributedVec::from_whole(communicator, a.rows(), &y)?;
            a.spmv(1.0, &mut x, -1.0, &mut y)?;
            Ok((y.gather()?, x.dot(&x)?.get()?))
        });
        let found = found.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let expected: Vec<f64> = reference_spmv(&a, 1.0, &x, -1.0, &y).iter().map(|&(value, _)| value).collect();
        let dot = x.iter().map(|x| x * x).sum::<f64>();
        for (rank, found) in found.iter().enumerate() {
            prop_assert!(found.0 == expected && found.1 == dot, "rank {} of {}", rank, ranks);
        }
        Ok(())
    });
}

/// Where blocks of random lengths begin, many of them empty, and where the last ends.
fn cuts(seed: u64, len: usize, ranks: usize) -> Vec<usize> {
    let mut random = Random(seed);
    let mut cuts: Vec<_> = (1..ranks).map(|_| random.next_below(len + 1)).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts
}

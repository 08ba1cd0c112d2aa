//! Algebraic multigrid: every step of the setup against a plain reference in `f64`, the cycle as an operator, convergence, and difficult systems.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use common::{Random, on_cpu_and_gpu, on_every_device, other};
use warpsparse::{
    Amg, AmgCycle, AmgSmoother, Cg, CgMethod, CooMatrix, CsrMatrix, Device, DeviceMatrix, DeviceVec, Error, Format,
    Jacobi, NearNullSpace, Preconditioner, Scalar, SolverMethod, SolverPreconditioner, StopReason, Tolerance,
    io::generate,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("setup_f64", setup_is_that_of_the_reference::<f64>));
    trials.extend(on_every_device("setup_f32", setup_is_that_of_the_reference::<f32>));
    trials.extend(on_every_device("hierarchy_has_the_bits_of_the_cpu", hierarchy_has_the_bits_of_the_cpu));
    trials.extend(on_every_device("cycle_f64", cycle_is_symmetric_and_positive::<f64>));
    trials.extend(on_every_device("cycle_f32", cycle_is_symmetric_and_positive::<f32>));
    trials.extend(on_every_device("products_by_diagonals_f64", products_by_diagonals::<f64>));
    trials.extend(on_every_device("products_by_diagonals_f32", products_by_diagonals::<f32>));
    trials.extend(on_every_device("matrices_that_diagonals_do_not_hold", matrices_that_diagonals_do_not_hold));
    trials.extend(on_every_device("cycles_are_those_of_the_reference", cycles_are_those_of_the_reference));
    trials.extend(on_every_device("rows_of_different_lengths", rows_of_different_lengths));
    trials.extend(on_every_device("graphs_with_heavy_rows", graphs_with_heavy_rows));
    trials.extend(on_every_device("solves_f64", solves::<f64>));
    trials.extend(on_every_device("solves_f32", solves::<f32>));
    trials.extend(on_every_device("a_solver_with_all_methods", a_solver_with_all_methods));
    trials.extend(on_every_device("a_hierarchy_in_single_precision", a_hierarchy_in_single_precision));
    trials.extend(on_every_device("mixed_precision", mixed_precision));
    trials.extend(on_every_device("rigid_body_modes", rigid_body_modes));
    trials.extend(on_every_device("nodes_with_several_unknowns", nodes_with_several_unknowns));
    trials.extend(on_every_device("dependent_vectors_f32", dependent_vectors::<f32>));
    trials.extend(on_every_device("dependent_vectors_f64", dependent_vectors::<f64>));
    trials.extend(on_every_device("nodes_of_all_magnitudes_f32", nodes_of_all_magnitudes::<f32>));
    trials.extend(on_every_device("nodes_of_all_magnitudes_f64", nodes_of_all_magnitudes::<f64>));
    trials.extend(on_every_device("a_body_that_nothing_holds", a_body_that_nothing_holds));
    trials.extend(on_cpu_and_gpu("elasticity", elasticity));
    trials.extend(on_every_device("degenerate_systems", degenerate_systems));
    trials.extend(on_every_device("singular_systems", singular_systems));
    trials.extend(on_every_device("what_does_not_suit_is_refused", what_does_not_suit_is_refused));
    trials.extend(on_every_device("new_values", new_values));
    trials.extend(on_every_device("formats", formats));
    trials.extend(on_every_device("recorded", recorded));
    trials.extend(on_cpu_and_gpu("iterations_hardly_grow", iterations_hardly_grow));
    trials.extend(on_cpu_and_gpu("anisotropy_and_jumps", anisotropy_and_jumps));
    common::run(trials)
}

/// The matrix of weights between points: each edge once, and what is added to the diagonal.
fn laplacian<T: Scalar>(
    n: usize,
    edges: impl IntoIterator<Item = (usize, usize, f64)>,
    extra: impl Fn(usize) -> f64,
) -> CsrMatrix<T> {
    let mut rows = vec![BTreeMap::new(); n];
    for (i, row) in rows.iter_mut().enumerate() {
        *row.entry(i).or_insert(0.0) += extra(i);
    }
    for (i, j, weight) in edges {
        for (i, j) in [(i, j), (j, i)] {
            *rows[i].entry(j).or_insert(0.0) -= weight;
            *rows[i].entry(i).or_insert(0.0) += weight;
        }
    }
    of_rows(n, &rows)
}

fn of_rows<T: Scalar>(n: usize, rows: &[BTreeMap<usize, f64>]) -> CsrMatrix<T> {
    let mut offsets = vec![0u32];
    rows.iter().for_each(|row| offsets.push(offsets.last().unwrap() + row.len() as u32));
    let columns = rows.iter().flat_map(|row| row.keys().map(|&column| column as u32)).collect();
    let values = rows.iter().flat_map(|row| row.values().map(|&value| T::from_f64(value))).collect();
    CsrMatrix::try_from_csr_data(n, n, offsets, columns, values).unwrap()
}

/// Edges of a grid of `n` x `n` points; `weight` of an edge along x and along y.
fn grid(n: usize, [along_x, along_y]: [f64; 2]) -> Vec<(usize, usize, f64)> {
    let at = |x: usize, y: usize| x + n * y;
    let points = (0..n).flat_map(|y| (0..n).map(move |x| (x, y)));
    let along_x = points.clone().filter(|&(x, _)| x + 1 < n).map(|(x, y)| (at(x, y), at(x + 1, y), along_x));
    let along_y = points.filter(|&(_, y)| y + 1 < n).map(|(x, y)| (at(x, y), at(x, y + 1), along_y));
    along_x.chain(along_y).collect()
}

/// What a point of a grid of `n` x `n` misses of 4 neighbours.
fn dirichlet(n: usize) -> impl Fn(usize) -> f64 {
    move |i| [i % n, i / n].iter().map(|&at| f64::from(u8::from(at == 0)) + f64::from(u8::from(at + 1 == n))).sum()
}

fn poisson<T: Scalar>(n: usize) -> CsrMatrix<T> {
    laplacian(n * n, grid(n, [1.0, 1.0]), dirichlet(n))
}

/// All eight neighbours.
fn nine_point<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let points = (0..n - 1).flat_map(|y| (0..n - 1).map(move |x| x + n * y));
    let across = points.flat_map(|i| [(i, i + 1 + n, 0.25), (i + 1, i + n, 0.5)]);
    laplacian(n * n, grid(n, [1.0, 2.0]).into_iter().chain(across).collect::<Vec<_>>(), dirichlet(n))
}

/// A cube of `n` x `n` x `n` points, each with all that are next to it.
fn twenty_seven_point<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let place = |i: usize| [i % n, i / n % n, i / (n * n)];
    let is_next = |i: usize, j: usize| (0..3).all(|axis| place(i)[axis].abs_diff(place(j)[axis]) <= 1);
    let pairs = (0..n * n * n).flat_map(|i| (0..i).map(move |j| (i, j)));
    laplacian(n * n * n, pairs.filter(|&(i, j)| is_next(i, j)).map(|(i, j)| (i, j, 1.0)).collect::<Vec<_>>(), |_| 0.1)
}

/// A random graph of a ring and chords, with weights of many sizes, two points that nothing is connected to, and a small shift.
fn random_graph<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let mut random = Random(n as u64);
    let mut edges: Vec<_> = (0..n - 3).map(|i| (i, i + 1, 1.0)).collect();
    for _ in 0..2 * n {
        let (i, j) = (random.next_below(n - 2), random.next_below(n - 2));
        if i != j {
            edges.push((i, j, 2f64.powf(8.0 * random.next_unit())));
        }
    }
    laplacian(n, edges, |i| 0.01 + i as f64 / n as f64)
}

/// A row of zeros, and 1-D Laplacians around it.
fn with_a_row_of_zeros<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let edges = (0..n - 1).filter(|&i| i != n / 2 && i + 1 != n / 2).map(|i| (i, i + 1, 1.0));
    laplacian(n, edges, |i| if i == n / 2 { 0.0 } else { 0.1 })
}

/// Two levels in plain Rust.
struct Reference {
    n: usize,
    /// The strong neighbours of each row.
    strong: Vec<Vec<usize>>,
    aggregates: Vec<Option<usize>>,
    count: usize,
    p: Vec<f64>,
}

/// The matrix, dense.
fn dense<T: Scalar>(a: &CsrMatrix<T>) -> Vec<f64> {
    let mut values = vec![0.0; a.nrows() * a.ncols()];
    a.triplets().for_each(|(i, j, value)| values[i * a.ncols() + j] += value.to_f64());
    values
}

fn rounded<T: Scalar>(value: f64) -> f64 {
    T::from_f64(value).to_f64()
}

impl Reference {
    fn new<T: Scalar>(a: &CsrMatrix<T>, theta: f64, rho: f64) -> Self {
        let (n, values) = (a.nrows(), dense(a));
        let at = |i: usize, j: usize| values[i * n + j];
        let scaled = |i: usize, j: usize| {
            let divisor = at(i, i).sqrt() * at(j, j).sqrt();
            if divisor > 0.0 { at(i, j).abs() / divisor } else { 0.0 }
        };
        let scales: Vec<f64> = (0..n)
            .map(|i| (0..n).filter(|&j| j != i).map(|j| scaled(i, j)).fold(0.0, f64::max))
            .enumerate()
            .map(|(i, greatest)| rounded::<T>(at(i, i).sqrt() * (8.0 * greatest).min(1.0).sqrt()))
            .collect();
        let mut strong: Vec<Vec<usize>> = (0..n)
            .map(|i| (0..n).filter(|&j| j != i && at(i, j).abs() > theta * (scales[i] * scales[j])).collect())
            .collect();
        for (i, strong) in strong.iter_mut().enumerate() {
            let others = || (0..n).filter(move |&j| j != i);
            let sum: f64 = others().map(|j| at(i, j).abs()).sum();
            if strong.is_empty() && sum > 0.5 * at(i, i) {
                let largest = others().map(|j| at(i, j).abs()).fold(0.0, f64::max);
                strong.extend(others().find(|&j| at(i, j).abs() == largest));
            }
        }
        let omega = 4.0 / (3.0 * f64::min(rho, 2.0));
        let (aggregates, count) = aggregates(&strong, &values);
        let (mut p, mut is_entry) = (vec![0.0; n * count], vec![false; n * count]);
        for i in (0..n).filter(|&i| at(i, i) > 0.0) {
            let sum: f64 = strong[i].iter().map(|&j| at(i, j).abs()).sum();
            let weak: f64 = (0..n).filter(|j| *j != i && !strong[i].contains(j)).map(|j| at(i, j)).sum();
            let filtered = if at(i, i) + weak > 0.0 { at(i, i) + weak } else { at(i, i) };
            let divisor = filtered.max(sum);
            let smoothing = strong[i].iter().map(|&j| (j, -omega * at(i, j) / divisor));
            for (j, value) in smoothing.chain([(i, 1.0 - omega * filtered / divisor)]) {
                if let Some(aggregate) = aggregates[j] {
                    p[i * count + aggregate] += value;
                    is_entry[i * count + aggregate] = true;
                }
            }
        }
        // Where the next matrix would fill up, the prolongator is not smoothed.
        let of_row = |i: usize| (0..count).filter(|k| is_entry[i * count + k]).collect::<Vec<_>>();
        let mut coarse = BTreeSet::new();
        for (i, j, _) in a.triplets() {
            coarse.extend(of_row(i).into_iter().flat_map(|k| of_row(j).into_iter().map(move |l| (k, l))));
        }
        if coarse.len() as f64 > 0.7 * a.nnz() as f64 {
            p.fill(0.0);
            for (i, aggregate) in aggregates.iter().enumerate() {
                aggregate.iter().for_each(|aggregate| p[i * count + aggregate] = 1.0);
            }
        }
        Self { n, strong, aggregates, count, p }
    }

    /// `Pᵀ A P`.
    fn coarse<T: Scalar>(&self, a: &CsrMatrix<T>) -> Vec<f64> {
        let Self { n, count, p, .. } = self;
        let mut product = vec![0.0; count * count];
        for (i, j, value) in a.triplets() {
            for k in (0..*count).filter(|k| p[i * count + k] != 0.0) {
                for l in 0..*count {
                    product[k * count + l] += p[i * count + k] * value.to_f64() * p[j * count + l];
                }
            }
        }
        assert_eq!(a.nrows(), *n);
        product
    }

    /// Every vertex with a strong neighbour is in one aggregate, and no others are; aggregates are connected, and none is empty.
    fn check(&self) {
        let mut sizes = vec![0; self.count];
        for (vertex, aggregate) in self.aggregates.iter().enumerate() {
            assert_eq!(aggregate.is_some(), !self.strong[vertex].is_empty(), "{vertex}");
            aggregate.iter().for_each(|&aggregate| sizes[aggregate] += 1);
        }
        assert!(sizes.iter().all(|&size| size > 0));
    }
}

/// A number that no other vertex has.
fn hash(vertex: usize, round: u32) -> u32 {
    let mask = (1u32 << 31) - 1;
    let mut hash = (vertex as u32 ^ round.wrapping_mul(0x9e37_79b9)) & mask;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b) & mask;
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35) & mask;
    hash ^ hash >> 16
}

/// Roots are those of the greatest number within two edges, again and again; then their neighbours, and the same among what is left.
fn aggregates(strong: &[Vec<usize>], values: &[f64]) -> (Vec<Option<usize>>, usize) {
    let n = strong.len();
    let (mut aggregates, mut count) = (vec![None; n], 0);
    for pass in 0..2 {
        let is_free: Vec<bool> = aggregates.iter().map(Option::is_none).collect();
        let near = |v: usize| strong[v].iter().copied().filter(|&u| is_free[u]).chain([v]);
        let least = |v: usize| match (pass, strong[v].len()) {
            (0, _) | (_, 0..=2) => 1,
            (_, degree @ 3..=5) => degree.div_ceil(2),
            (_, degree @ 6..=8) => degree,
            (_, degree) => (3 * degree).div_ceil(4),
        };
        let may = |v: usize| is_free[v] && strong[v].iter().filter(|&&u| is_free[u]).count() >= least(v);
        let mut undecided: Vec<usize> = (0..n).filter(|&v| may(v)).collect();
        let mut roots = vec![false; n];
        let mut round = 0;
        while !undecided.is_empty() {
            let within_two = |v: usize| near(v).flat_map(near).collect::<Vec<_>>();
            let of = |v: usize| undecided.contains(&v).then(|| hash(v, round));
            let found: Vec<(bool, bool)> = undecided
                .iter()
                .map(|&v| {
                    let around = within_two(v);
                    (
                        around.iter().any(|&u| roots[u]),
                        around.iter().all(|&u| of(u).is_none_or(|other| other <= hash(v, round))),
                    )
                })
                .collect();
            let mut next = Vec::new();
            for (&v, (is_out, is_greatest)) in undecided.iter().zip(found) {
                if !is_out && is_greatest {
                    roots[v] = true;
                } else if !is_out {
                    next.push(v);
                }
            }
            (undecided, round) = (next, round + 1);
        }
        for v in (0..n).filter(|&v| roots[v]) {
            for u in near(v).flat_map(near) {
                // Entries that are strong only because no other is may lead one way.
                let is_mutual = near(u).flat_map(near).any(|w| w == v);
                assert!(u == v || !roots[u] || !is_mutual, "roots {u} and {v} are within two edges");
            }
        }
        let numbers: Vec<Option<usize>> = (0..n)
            .map(|v| {
                roots[v].then(|| {
                    count += 1;
                    count - 1
                })
            })
            .collect();
        for v in (0..n).filter(|&v| is_free[v]) {
            aggregates[v] = numbers[v].or_else(|| strong[v].iter().filter_map(|&u| numbers[u]).min());
        }
    }
    let joined = aggregates.clone();
    for v in (0..n).filter(|&v| joined[v].is_none()) {
        let mut sums = BTreeMap::new();
        for &u in &strong[v] {
            if let Some(aggregate) = joined[u] {
                *sums.entry(aggregate).or_insert(0.0) += values[v * n + u].abs();
            }
        }
        let greatest = sums.values().copied().fold(0.0, f64::max);
        // Equal up to rounding: the first.
        aggregates[v] = sums.iter().find(|(_, sum)| **sum >= greatest * (1.0 - 1e-6)).map(|(&aggregate, _)| aggregate);
    }
    (aggregates, count)
}

fn host<T: Scalar>(a: &DeviceMatrix<T>) -> CsrMatrix<T> {
    a.download().unwrap().into_csr().unwrap()
}

fn precision<T: Scalar>() -> f64 {
    if size_of::<T>() == 4 { f32::EPSILON.into() } else { f64::EPSILON }
}

fn close<T: Scalar>(found: &CsrMatrix<T>, expected: &[f64], what: &str) {
    let scale = expected.iter().fold(0.0, |scale: f64, value| scale.max(value.abs()));
    let found = dense(found);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 200.0 * precision::<T>() * scale,
            "{what}, place {place}: {found} for {expected}"
        );
    }
}

fn setup_is_that_of_the_reference<T: Scalar>(device: &Device) {
    let aniso = laplacian(14 * 14, grid(14, [1.0, 0.01]), |_| 0.001);
    let star = laplacian(60, (1..60).map(|i| (0, i, 1.0)), |_| 0.5);
    let strongly_diagonal =
        laplacian(40, (0..39).map(|i| (i, i + 1, if i < 20 { 1.0 } else { 1e-3 })), |i| if i < 20 { 0.1 } else { 1.0 });
    let complete = laplacian(30, (0..30).flat_map(|i| (i + 1..30).map(move |j| (i, j, 1.0))), |_| 1.0);
    let cases: [(&str, CsrMatrix<T>); 8] = [
        ("5-point", poisson(13)),
        ("27-point", twenty_seven_point(6)),
        ("anisotropic", aniso),
        ("random", random_graph(150)),
        ("star", star),
        ("weak", strongly_diagonal),
        ("complete", complete),
        ("zeros", with_a_row_of_zeros(33)),
    ];
    for (name, a) in &cases {
        let amg = Amg::options().coarse_rows(1).build(&device.upload(a).unwrap()).unwrap();
        let info = amg.describe();
        let rho = info.levels[0].rho;
        let reference = Reference::new(a, 0.08, rho);
        reference.check();
        let p = host(amg.prolongator(0).unwrap_or_else(|| panic!("{name}: one level")));
        assert_eq!((p.nrows(), p.ncols()), (a.nrows(), reference.count), "{name}");
        close(&p, &reference.p, name);
        let coarse = host(amg.matrix(1).unwrap());
        close(&coarse, &reference.coarse(a), name);
        assert_eq!((info.levels[1].rows, info.levels[1].entries), (reference.count, coarse.nnz()), "{name}");
        let strong: usize = reference.strong.iter().map(Vec::len).sum();
        let rows = (0..a.nrows()).filter(|&i| dense(a)[i * a.nrows() + i] != 0.0).count();
        assert!((info.levels[0].strong - (strong + rows) as f64 / a.nnz() as f64).abs() < 1e-12, "{name}");
        // All eigenvalues of D^-1 A are below: Rayleigh quotients of random vectors and of high frequencies are.
        let (values, n) = (dense(a), a.nrows());
        let mut random = Random(5);
        for trial in 0..50 {
            let x: Vec<f64> =
                (0..n).map(|i| if trial == 0 { [1.0, -1.0][(i + i / 13) % 2] } else { random.next_unit() }).collect();
            let energy: f64 = (0..n * n).map(|k| x[k / n] * values[k] * x[k % n]).sum();
            let norm: f64 = (0..n).map(|i| values[i * n + i] * x[i] * x[i]).sum();
            assert!(energy <= rho * norm, "{name}: {energy} / {norm} > {rho}");
        }
    }
}

fn hierarchy_has_the_bits_of_the_cpu(device: &Device) {
    let cube = {
        let n = 8;
        let at = move |x: usize, y: usize, z: usize| x + n * (y + n * z);
        let points = (0..n).flat_map(move |z| (0..n).flat_map(move |y| (0..n).map(move |x| (x, y, z))));
        let edges = points.flat_map(move |(x, y, z)| {
            let next = [(x + 1, y, z), (x, y + 1, z), (x, y, z + 1)]
                .into_iter()
                .filter(move |(x, y, z)| (*x).max(*y).max(*z) < n);
            next.map(move |(a, b, c)| (at(x, y, z), at(a, b, c), 1.0 + 0.3 * (x * y + z) as f64)).collect::<Vec<_>>()
        });
        laplacian::<f64>(n * n * n, edges.collect::<Vec<_>>(), |_| 0.05)
    };
    for a in [cube, poisson(20), random_graph(400)] {
        let of = |device: &Device| {
            let amg = Amg::options().coarse_rows(8).build(&device.upload(&a).unwrap()).unwrap();
            let levels = (0..).map_while(|level| amg.prolongator(level).zip(amg.matrix(level + 1)));
            let levels: Vec<_> = levels.map(|(p, a)| (host(p), host(a))).collect();
            (levels, amg.describe().levels)
        };
        let (levels, about) = of(device);
        assert!(levels.len() >= 2);
        // Twice the same, and that of the CPU.
        assert!(of(device) == (levels.clone(), about.clone()));
        let (expected, expected_about) = of(&Device::cpu());
        assert_eq!(about, expected_about);
        for (level, (found, expected)) in levels.iter().zip(&expected).enumerate() {
            assert!(found == expected, "level {level}");
        }
    }
}

/// `M`, dense.
fn operator<T: Scalar>(amg: &Amg<T>, n: usize, device: &Device) -> Vec<f64> {
    let mut m = vec![0.0; n * n];
    for j in 0..n {
        let mut unit = vec![T::default(); n];
        unit[j] = T::from_f64(1.0);
        // The old result does not matter.
        let (unit, mut z) =
            (device.upload_vec(&unit).unwrap(), device.upload_vec(&vec![T::from_f64(f64::NAN); n]).unwrap());
        amg.apply((&unit).into(), (&mut z).into()).unwrap();
        z.to_vec().unwrap().iter().enumerate().for_each(|(i, value)| m[i * n + j] = value.to_f64());
    }
    m
}

/// Pivots of Cholesky's method: all positive for a positive definite matrix.
fn least_pivot(matrix: &[f64], n: usize) -> f64 {
    let mut a = matrix.to_vec();
    let mut least = f64::INFINITY;
    for k in 0..n {
        least = least.min(a[k * n + k] / matrix[k * n + k]);
        for i in k + 1..n {
            let factor = a[i * n + k] / a[k * n + k];
            (k..n).for_each(|j| a[i * n + j] -= factor * a[k * n + j]);
        }
    }
    least
}

fn cycle_is_symmetric_and_positive<T: Scalar>(device: &Device) {
    let thirds = laplacian(81, grid(9, [1.0 / 3.0, 0.7]), |i| 0.1 * dirichlet(9)(i));
    for (a, diagonals) in [(poisson::<T>(9), 3), (nine_point(9), 5), (thirds, 3), (random_graph(80), 0)] {
        let n = a.nrows();
        for (smoother, cycle) in [
            (AmgSmoother::Jacobi, AmgCycle::Auto),
            (AmgSmoother::Jacobi, AmgCycle::W),
            (AmgSmoother::Chebyshev(1), AmgCycle::V),
            (AmgSmoother::Chebyshev(2), AmgCycle::W),
            (AmgSmoother::Chebyshev(3), AmgCycle::V),
            (AmgSmoother::Chebyshev(4), AmgCycle::W),
        ] {
            let options = Amg::options().smoother(smoother).cycle(cycle).coarse_rows(4);
            let amg = options.clone().build(&device.upload(&a).unwrap()).unwrap();
            assert!(amg.describe().levels.len() >= 3);
            assert_eq!(sweeps_over(&amg).0, on_gpus(device, diagonals));
            let m = operator(&amg, n, device);
            let scale = m.iter().fold(0.0, |scale: f64, value| scale.max(value.abs()));
            let on_cpu = operator(&options.build(&Device::cpu().upload(&a).unwrap()).unwrap(), n, &Device::cpu());
            for (place, (found, expected)) in m.iter().zip(&on_cpu).enumerate() {
                let difference = (found - expected).abs();
                assert!(difference <= 100.0 * precision::<T>() * scale, "{smoother:?}: {difference} at {place}");
            }
            for i in 0..n {
                for j in 0..i {
                    let difference = (m[i * n + j] - m[j * n + i]).abs();
                    assert!(difference <= 100.0 * precision::<T>() * scale, "{smoother:?}: {difference} at {i}, {j}");
                }
            }
            assert!(least_pivot(&m, n) > 0.0, "{smoother:?}");
            // The iteration x + M (b - A x) converges: the norm of I - M A on random vectors falls.
            let values = dense(&a);
            let mut x: Vec<f64> = Random(3).vector(n);
            let energy = |x: &[f64]| (0..n * n).map(|k| x[k / n] * values[k] * x[k % n]).sum::<f64>();
            let before = energy(&x);
            for _ in 0..30 {
                let ax: Vec<f64> = (0..n).map(|i| (0..n).map(|j| values[i * n + j] * x[j]).sum()).collect();
                x = (0..n).map(|i| x[i] - (0..n).map(|j| m[i * n + j] * ax[j]).sum::<f64>()).collect();
            }
            let rate = (energy(&x) / before).powf(1.0 / 60.0);
            assert!(rate < 0.85, "{smoother:?}: {rate}");
        }
    }
}

/// The diagonals that sweeps over the finest level go over, 0 for none, and whether they are stored in `f64`.
fn sweeps_over<T: Scalar>(amg: &Amg<T>) -> (usize, bool) {
    let notes = amg.describe().notes;
    let words = notes.iter().find_map(|note| note.strip_prefix("Sweeps over the finest level go over "));
    words.map_or((0, false), |words| (words.split(' ').next().unwrap().parse().unwrap(), words.ends_with(" f64.")))
}

/// The CPU sweeps over all entries.
fn on_gpus(device: &Device, diagonals: usize) -> usize {
    if device.to_string() == "cpu" { 0 } else { diagonals }
}

/// Edges to the vertices so far behind.
fn neighbours(n: usize, offsets: &[usize], weight: f64) -> Vec<(usize, usize, f64)> {
    let edges = |i| {
        offsets.iter().filter(move |&offset| i + offset < n).map(move |offset| (i, i + offset, weight + i as f64 % 7.0))
    };
    (0..n).flat_map(edges).collect()
}

/// Of the conjugate gradients that a hierarchy comes with: the same iterates as by the matrix.
fn products_by_diagonals<T: Scalar>(device: &Device) {
    let tridiagonal = laplacian(333, (0..332).map(|i| (i, i + 1, 1.1 + i as f64)), |_| 0.5);
    let pair = laplacian(2, [(0, 1, 1.0)], |_| 0.5);
    let thirds = laplacian(400, grid(20, [1.0 / 3.0, 0.7]), |i| 0.1 * dirichlet(20)(i));
    // Far enough apart for threads that take several rows: a wide grid, a box, and chains side by side.
    let wide = laplacian(2600, neighbours(2600, &[1, 520], 1.0), |_| 0.5);
    let box_of_thirds = laplacian(2760, neighbours(2760, &[1, 23, 552], 1.0 / 3.0), |_| 0.1);
    let chains = laplacian(2000, neighbours(2000, &[600], 0.75), |_| 0.25);
    let cases = [
        (tridiagonal, 2),
        (pair, 0),
        (poisson::<T>(20), 3),
        (nine_point(17), 5),
        (thirds.clone(), 3),
        (random_graph(150), 0),
        (wide, 3),
        (box_of_thirds.clone(), 4),
        (chains, 2),
    ];
    for (a, diagonals) in cases {
        let n = a.nrows();
        let there = device.upload(&a).unwrap();
        let amg = Amg::options().coarse_rows(10).build(&there).unwrap();
        let is_long = size_of::<T>() == 8 && (a == thirds || a == box_of_thirds || n == 333);
        assert_eq!(sweeps_over(&amg), (on_gpus(device, diagonals), is_long && on_gpus(device, diagonals) > 0));
        let b = device.upload_vec(&Random(8).vector::<T>(n)).unwrap();
        let solution = |cg: Cg<'_, T>| {
            let mut x = device.zeros(n).unwrap();
            let info = cg.tolerance(Tolerance::relative(0.0)).max_iterations(3).solve(&b, &mut x).unwrap();
            (info.history, x.to_vec().unwrap())
        };
        let (history, x) = solution(amg.cg());
        // A solver with all methods has the same bits.
        let solver = amg.solver().tolerance(Tolerance::relative(0.0)).max_iterations(3);
        let mut same = device.zeros(n).unwrap();
        let info = solver.method(SolverMethod::Cg).solve(&b, &mut same).unwrap();
        assert!((info.history, same.to_vec().unwrap()) == (history.clone(), x.clone()), "{n} rows");
        let (expected_history, expected) = solution(Cg::new(&there).preconditioner(&amg));
        let scale = expected.iter().map(|x| x.to_f64().abs()).fold(0.0, f64::max);
        for (found, expected) in x.iter().zip(&expected) {
            assert!((found.to_f64() - expected.to_f64()).abs() <= 100.0 * precision::<T>() * scale, "{n} rows");
        }
        for (found, expected) in history.iter().zip(&expected_history) {
            assert!((found - expected).abs() <= 100.0 * precision::<T>() * expected_history[0], "{n} rows");
        }
    }
}

/// Entries that are not those of the transpose, or on other diagonals than those of the rows that are looked at.
fn matrices_that_diagonals_do_not_hold(device: &Device) {
    let n = 9000;
    let chain = || (0..n - 1).map(|i| (i, i + 1, 1.0));
    let build = |a: &CsrMatrix<f64>| {
        Amg::options().assume_symmetric().coarse_rows(400).build(&device.upload(a).unwrap()).unwrap()
    };
    let good = laplacian::<f64>(n, chain(), |_| 0.1);
    let mut amg = build(&good);
    assert_eq!(sweeps_over(&amg).0, on_gpus(device, 2));
    let hidden = laplacian::<f64>(n, chain().chain([(3000, 3017, 1.0)]).collect::<Vec<_>>(), |_| 0.1);
    assert_eq!(sweeps_over(&build(&hidden)).0, 0);
    solve(&device.upload(&hidden).unwrap(), &build(&hidden), 16);
    let changed = |at: (usize, usize), factor: f64| {
        let values = good.triplets().map(|(i, j, value)| if (i, j) == at { value * factor } else { value }).collect();
        let (offsets, columns, _) = good.clone().into_csr_data();
        CsrMatrix::try_from_csr_data(n, n, offsets, columns, values).unwrap()
    };
    for at in [(1, 0), (4000, 4001), (n - 1, n - 2)] {
        let a = changed(at, 1.0 + f64::EPSILON);
        assert_eq!(sweeps_over(&build(&a)).0, 0, "{at:?}");
        // For new values too.
        amg.update_values(&device.upload(&a).unwrap()).unwrap();
        assert_eq!(sweeps_over(&amg).0, 0, "{at:?}");
    }
    solve(&device.upload(&changed((4000, 4001), 1.0 + f64::EPSILON)).unwrap(), &amg, 16);
    // Without the entry above or below.
    for gone in [(4000, 4001), (4001, 4000)] {
        let mut rows = vec![BTreeMap::new(); n];
        good.triplets().filter(|&(i, j, _)| (i, j) != gone).for_each(|(i, j, value)| {
            rows[i].insert(j, value);
        });
        assert_eq!(sweeps_over(&build(&of_rows(n, &rows))).0, 0, "{gone:?}");
    }
    amg.update_values(&device.upload(&good).unwrap()).unwrap();
    assert_eq!(sweeps_over(&amg).0, on_gpus(device, 2));
}

/// One cycle of a level for a right-hand side, from a guess, in plain loops: `visits` of the next level each time.
fn reference_cycle(amg: &Amg<f64>, level: usize, visits: usize, b: &[f64], mut x: Vec<f64>) -> Vec<f64> {
    let (n, a) = (b.len(), dense(&host(amg.matrix(level).unwrap())));
    let residual =
        |x: &[f64]| (0..n).map(|i| b[i] - (0..n).map(|j| a[i * n + j] * x[j]).sum::<f64>()).collect::<Vec<_>>();
    let Some(p) = amg.prolongator(level) else { return solved(a, b.to_vec()) };
    let (rho, p) = (amg.describe().levels[level].rho, host(p));
    // Damped by 1.6 over the largest eigenvalue.
    let smooth = |x: &mut [f64]| {
        let r = residual(x);
        (0..n).for_each(|i| x[i] += 1.6 / rho * r[i] / a[i * n + i]);
    };
    smooth(&mut x);
    let r = residual(&x);
    let mut coarse = vec![0.0; p.ncols()];
    p.triplets().for_each(|(i, k, value)| coarse[k] += value * r[i]);
    let mut correction = vec![0.0; p.ncols()];
    for _ in 0..visits {
        correction = reference_cycle(amg, level + 1, visits, &coarse, correction);
    }
    p.triplets().for_each(|(i, k, value)| x[i] += value * correction[k]);
    smooth(&mut x);
    x
}

/// By elimination, without pivots.
fn solved(mut a: Vec<f64>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        for i in (0..n).filter(|&i| i != k) {
            let factor = a[i * n + k] / a[k * n + k];
            (k..n).for_each(|j| a[i * n + j] -= factor * a[k * n + j]);
            b[i] -= factor * b[k];
        }
    }
    (0..n).map(|i| b[i] / a[i * n + i]).collect()
}

fn cycles_are_those_of_the_reference(device: &Device) {
    let a = device.upload(&poisson::<f64>(20)).unwrap();
    let b = Random(6).vector::<f64>(400);
    let solutions = [(AmgCycle::Auto, 1), (AmgCycle::V, 1), (AmgCycle::W, 2)].map(|(cycle, visits)| {
        let amg = Amg::options().cycle(cycle).coarse_rows(4).build(&a).unwrap();
        let info = amg.describe();
        assert!(info.levels.len() == 4, "{info}");
        assert_eq!(info.notes.iter().any(|note| note.starts_with("W-cycle from level 1 on")), visits == 2, "{info}");
        let mut x = device.zeros(400).unwrap();
        amg.apply((&device.upload_vec(&b).unwrap()).into(), (&mut x).into()).unwrap();
        let (found, expected) = (x.to_vec().unwrap(), reference_cycle(&amg, 0, visits, &b, vec![0.0; 400]));
        let scale = expected.iter().fold(0.0, |scale: f64, x| scale.max(x.abs()));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 1e-12 * scale, "{cycle:?}, {i}: {found} for {expected}");
        }
        found
    });
    assert!(solutions[0] == solutions[1] && solutions[1] != solutions[2]);
}

/// One row is connected to all: sweeps are products and operations on vectors.
fn rows_of_different_lengths(device: &Device) {
    let n = 1400;
    let edges = (0..n - 1).map(|i| (i, i + 1, 1.0)).chain((1..n).map(|i| (0, i, 0.01)));
    let a = laplacian::<f64>(n, edges.collect::<Vec<_>>(), |_| 0.001);
    let a = device.upload(&a).unwrap();
    for smoother in [AmgSmoother::Jacobi, AmgSmoother::Chebyshev(3)] {
        let amg = Amg::options().smoother(smoother).build(&a).unwrap();
        solve(&a, &amg, 30);
    }
}

/// Hubs with hundreds of neighbours: with smoothed prolongators the next matrix would be nearly full.
fn graphs_with_heavy_rows(device: &Device) {
    let n = 1500;
    let mut random = Random(7);
    let mut edges = Vec::new();
    for i in 1..n {
        // The square prefers vertices with small numbers.
        let unit = 0.5 * (random.next_unit() + 1.0);
        edges.push((i, ((unit * unit * i as f64) as usize).min(i - 1), 1.0));
        edges.push((i, ((unit * unit * unit * unit * i as f64) as usize).min(i - 1), 1.0));
    }
    let a = device.upload(&laplacian::<f64>(n, edges, |_| 1e-3)).unwrap();
    let amg = Amg::options().coarse_rows(20).build(&a).unwrap();
    let info = amg.describe();
    assert!(info.notes.iter().any(|note| note.starts_with("Prolongators that are not smoothed")), "{info}");
    assert!(info.operator_complexity < 2.0, "{info}");
    // One entry in each row, and 1.
    assert!(host(amg.prolongator(0).unwrap()).values().iter().all(|&value| value == 1.0));
    solve(&a, &amg, 35);
}

/// Solves for a random right-hand side, and checks the residual itself.
fn solve<T: Scalar>(a: &DeviceMatrix<T>, amg: &Amg<T>, most: usize) -> usize {
    let (device, n) = (a.device(), a.nrows());
    let b = Random(9).vector::<T>(n);
    let tolerance = if size_of::<T>() == 4 { 1e-4 } else { 1e-8 };
    let (b_there, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(n).unwrap());
    let info = amg.solve(&b_there, &mut x, Tolerance::relative(tolerance)).unwrap();
    assert_eq!(info.reason, StopReason::Converged, "{info:?}");
    assert!(info.iterations <= most, "{} iterations of {most}: {}", info.iterations, amg.describe());
    let residual = residual(&host(a), &b, &x);
    assert!(residual < 2.0 * tolerance, "{residual}");
    info.iterations
}

/// Relative to `b`.
fn residual<T: Scalar>(a: &CsrMatrix<T>, b: &[T], x: &DeviceVec<T>) -> f64 {
    let x = x.to_vec().unwrap();
    let mut r: Vec<f64> = b.iter().map(|b| b.to_f64()).collect();
    let norm = |r: &[f64]| r.iter().map(|r| r * r).sum::<f64>().sqrt();
    let norm_of_b = norm(&r);
    a.triplets().for_each(|(i, j, value)| r[i] -= value.to_f64() * x[j].to_f64());
    norm(&r) / norm_of_b
}

fn solves<T: Scalar>(device: &Device) {
    let a = device.upload(&poisson::<T>(24)).unwrap();
    for (smoother, most) in
        [(AmgSmoother::Jacobi, 16), (AmgSmoother::Chebyshev(2), 16), (AmgSmoother::Chebyshev(3), 12)]
    {
        let amg = Amg::options().smoother(smoother).coarse_rows(20).build(&a).unwrap();
        assert_eq!(amg.describe().levels.len(), 3);
        solve(&a, &amg, most);
    }
    // In every form of the method, with the same bits where that computes the same.
    let amg = Amg::options().coarse_rows(20).build(&a).unwrap();
    let b = device.upload_vec(&Random(2).vector::<T>(576)).unwrap();
    let solution = |method| {
        let mut x = device.zeros(576).unwrap();
        let mut cg = Cg::new(&a).preconditioner(&amg).method(method).tolerance(Tolerance::relative(1e-4));
        let info = cg.solve(&b, &mut x).unwrap();
        assert!(info.reason == StopReason::Converged && info.iterations <= 9, "{method:?}: {info:?}");
        x.to_vec().unwrap()
    };
    let expected = solution(CgMethod::Auto);
    assert_eq!(solution(CgMethod::Launches), expected);
    let plain = solution(CgMethod::Plain);
    let difference = plain.iter().zip(&expected).map(|(a, b)| (a.to_f64() - b.to_f64()).abs()).fold(0.0, f64::max);
    assert!(difference < 1e-3 * expected.iter().map(|x| x.to_f64().abs()).fold(0.0, f64::max));
}

/// Without the method named, conjugate gradients come first, whether the hierarchy multiplies by diagonals or not; then others.
fn a_solver_with_all_methods(device: &Device) {
    for a in [poisson::<f64>(20), random_graph(400)] {
        let a = device.upload(&a).unwrap();
        let amg = Amg::options().coarse_rows(20).build(&a).unwrap();
        let b = device.upload_vec(&Random(2).vector::<f64>(400)).unwrap();
        let mut x = device.zeros(400).unwrap();
        let mut solver = amg.solver().tolerance(Tolerance::relative(1e-8));
        let info = solver.solve(&b, &mut x).unwrap();
        assert!(info.reason == StopReason::Converged && info.iterations <= 28, "{info:?}");
        let [attempt] = solver.attempts() else { panic!("{:?}", solver.attempts()) };
        assert_eq!((attempt.method, attempt.preconditioner), (SolverMethod::Cg, SolverPreconditioner::Given));
        assert_eq!(attempt.reason, "the matrix is symmetric");
        let mut solver = amg.solver().tolerance(Tolerance::relative(1e-8)).max_iterations(2);
        solver.solve(&b, &mut device.zeros(400).unwrap()).unwrap();
        let methods: Vec<_> = solver.attempts().iter().map(|attempt| attempt.method).collect();
        assert!(
            matches!(methods[..], [SolverMethod::Cg, SolverMethod::Minres, SolverMethod::Gmres { .. }]),
            "{methods:?}"
        );
    }
}

/// A hierarchy in `f32` for systems in `f64`.
fn a_hierarchy_in_single_precision(device: &Device) {
    let a = device.upload(&poisson::<f64>(24)).unwrap();
    let single = a.cast::<f32>().unwrap();
    assert_eq!(host(&single), poisson::<f32>(24));
    let amg = Amg::options().coarse_rows(20).build(&single).unwrap();
    let double = Amg::options().coarse_rows(20).build(&a).unwrap();
    let b = Random(2).vector::<f64>(576);
    let b_there = device.upload_vec(&b).unwrap();
    for method in [CgMethod::Auto, CgMethod::Launches, CgMethod::Plain] {
        let iterations = |preconditioner: &dyn Preconditioner<f64>| {
            let mut x = device.zeros(576).unwrap();
            let mut cg =
                Cg::new(&a).preconditioner(preconditioner).method(method).tolerance(Tolerance::relative(1e-11));
            let info = cg.solve(&b_there, &mut x).unwrap();
            assert_eq!(info.reason, StopReason::Converged);
            assert!(residual(&host(&a), &b, &x) < 1.1e-11);
            info.iterations
        };
        assert!(iterations(&amg) <= iterations(&double) + 1, "{method:?}");
    }
    // The same as rounding, cycling, and casting back.
    let r: Vec<f32> = Random(3).vector(576);
    let (r32, mut z32) = (device.upload_vec(&r).unwrap(), device.zeros::<f32>(576).unwrap());
    amg.apply((&r32).into(), (&mut z32).into()).unwrap();
    let r64 = device.upload_vec(&r.iter().map(|&r| f64::from(r)).collect::<Vec<_>>()).unwrap();
    let mut z64 = device.zeros::<f64>(576).unwrap();
    amg.apply((&r64).into(), (&mut z64).into()).unwrap();
    assert_eq!(z64.to_vec().unwrap(), z32.to_vec().unwrap().iter().map(|&z| f64::from(z)).collect::<Vec<_>>());
}

/// The system in `f64` and the hierarchy in `f32`, of a matrix that `f32` holds, and of one that it does not; for new values too.
fn mixed_precision(device: &Device) {
    let exact = laplacian::<f64>(2600, neighbours(2600, &[1, 520], 1.0), |_| 0.5);
    let rounded = laplacian::<f64>(400, grid(20, [1.0 / 3.0, 0.7]), |i| 0.1 * dirichlet(20)(i));
    for matrix in [exact, rounded, random_graph(150)] {
        let (a, n) = (device.upload(&matrix).unwrap(), matrix.nrows());
        let mut amg = Amg::options().coarse_rows(20).build_mixed(&a).unwrap();
        let mut single = Amg::options().coarse_rows(20).build(&a.cast::<f32>().unwrap()).unwrap();
        assert!(amg.describe().bytes > amg.hierarchy().describe().bytes);
        let b = Random(4).vector::<f64>(n);
        let b_there = device.upload_vec(&b).unwrap();
        for factor in [1.0, 1.7] {
            let scaled: Vec<_> = matrix.values().iter().map(|value| factor * value).collect();
            let (offsets, columns, _) = matrix.clone().into_csr_data();
            let matrix = CsrMatrix::try_from_csr_data(n, n, offsets, columns, scaled).unwrap();
            let a = device.upload(&matrix).unwrap();
            if factor != 1.0 {
                amg.update_values(&a).unwrap();
                single.update_values(&a.cast().unwrap()).unwrap();
            }
            let solution = |cg: Cg<'_, f64>| {
                let mut x = device.zeros(n).unwrap();
                let info = cg.tolerance(Tolerance::relative(1e-12)).solve(&b_there, &mut x).unwrap();
                assert_eq!(info.reason, StopReason::Converged);
                assert!(residual(&matrix, &b, &x) < 1.1e-12, "{n} rows");
                info.iterations
            };
            let expected = solution(Cg::new(&a).preconditioner(&single));
            assert!(solution(amg.cg()).abs_diff(expected) <= 1, "{n} rows");
            let mut x = device.zeros(n).unwrap();
            let info = amg.solve(&b_there, &mut x, Tolerance::relative(1e-12)).unwrap();
            assert!(info.iterations.abs_diff(expected) <= 1 && residual(&matrix, &b, &x) < 1.1e-12, "{n} rows");
            let info = amg.solver().tolerance(Tolerance::relative(1e-12)).solve(&b_there, &mut x).unwrap();
            assert_eq!(info.iterations, 0, "{n} rows");
        }
    }
    // New values that do not suit leave everything as it was.
    let matrix = poisson::<f64>(24);
    let mut amg = Amg::options().coarse_rows(20).build_mixed(&device.upload(&matrix).unwrap()).unwrap();
    let negative = matrix.values().iter().map(|value| -value).collect();
    let (offsets, columns, _) = matrix.clone().into_csr_data();
    let negative = CsrMatrix::try_from_csr_data(576, 576, offsets, columns, negative).unwrap();
    assert!(matches!(amg.update_values(&device.upload(&negative).unwrap()), Err(Error::Breakdown { .. })));
    let smaller = device.upload(&poisson::<f64>(23)).unwrap();
    assert!(matches!(amg.update_values(&smaller), Err(Error::InvalidOption(_))));
    assert!(matches!(amg.update_values(&other(device).upload(&matrix).unwrap()), Err(Error::DeviceMismatch { .. })));
    let (b, mut x) = (Random(5).vector::<f64>(576), device.zeros(576).unwrap());
    amg.solve(&device.upload_vec(&b).unwrap(), &mut x, Tolerance::relative(1e-11)).unwrap();
    assert!(residual(&matrix, &b, &x) < 1.1e-11);
    // What `f32` cannot hold.
    let huge = device.upload(&laplacian::<f64>(3, [(0, 1, 1e39), (1, 2, 1e39)], |_| 1e38)).unwrap();
    assert!(matches!(Amg::options().build_mixed(&huge), Err(Error::Breakdown { .. })));
    let wide = CsrMatrix::<f64>::try_from_csr_data(1, 2, vec![0u32, 0], vec![], vec![]).unwrap();
    assert!(Amg::options().build_mixed(&device.upload(&wide).unwrap()).is_err());
}

/// The nodes of a cube, `x` first.
fn nodes_of_cube(n: usize) -> Vec<[f64; 3]> {
    (0..n * n * n).map(|node| [node % n, node / n % n, node / (n * n)].map(|at| at as f64)).collect()
}

/// Translations, and rotations around the origin.
fn rigid_motions(nodes: &[[f64; 3]]) -> [Vec<f64>; 6] {
    let of = |motion: fn([f64; 3]) -> [f64; 3]| nodes.iter().flat_map(|&node| motion(node)).collect();
    [
        of(|_| [1.0, 0.0, 0.0]),
        of(|_| [0.0, 1.0, 0.0]),
        of(|_| [0.0, 0.0, 1.0]),
        of(|[x, y, _]| [-y, x, 0.0]),
        of(|[_, y, z]| [0.0, -z, y]),
        of(|[x, _, z]| [z, 0.0, -x]),
    ]
}

/// Two levels of elasticity against plain algebra, and the bits of the CPU.
fn rigid_body_modes(device: &Device) {
    let nodes = nodes_of_cube(5);
    let a = generate::elasticity3d::<f64>(5).unwrap();
    let (n, values) = (a.nrows(), dense(&a));
    let space = NearNullSpace::rigid_body_modes(&nodes).unwrap();
    let of = |device: &Device| {
        let options = Amg::options().near_null_space(space.clone()).coarse_rows(20);
        options.build(&device.upload(&a).unwrap()).unwrap()
    };
    let amg = of(device);
    let info = amg.describe();
    assert!(info.notes.iter().any(|note| note.starts_with("Nodes of 3 unknowns, and 6 vectors")), "{info}");
    assert!(!info.notes.iter().any(|note| note.contains("singular")), "{info}");
    let p = host(amg.prolongator(0).unwrap());
    assert!(p.ncols() < n / 2 && p.ncols() % 6 == 0, "{info}");
    for node in 0..nodes.len() {
        let [one, two, three] = [0, 1, 2].map(|unknown| p.row(3 * node + unknown).0);
        assert!(one == two && two == three && !one.is_empty(), "node {node}");
        assert!(one.chunks(6).all(|columns| columns[0] % 6 == 0 && columns[5] == columns[0] + 5), "node {node}");
    }
    // What one step of Jacobi's makes of a motion is in the range.
    let (omega, k) = (4.0 / (3.0 * info.levels[0].rho), p.ncols());
    let p_values = dense(&p);
    let gram: Vec<f64> =
        (0..k * k).map(|at| (0..n).map(|i| p_values[i * k + at / k] * p_values[i * k + at % k]).sum()).collect();
    for motion in rigid_motions(&nodes) {
        let forces = |i: usize| (0..n).map(|j| values[i * n + j] * motion[j]).sum::<f64>();
        let smoothed: Vec<f64> = (0..n).map(|i| motion[i] - omega * forces(i) / values[i * n + i]).collect();
        let projected = (0..k).map(|c| (0..n).map(|i| p_values[i * k + c] * smoothed[i]).sum()).collect();
        let c = solved(gram.clone(), projected);
        for i in 0..n {
            let found: f64 = (0..k).map(|column| p_values[i * k + column] * c[column]).sum();
            assert!((found - smoothed[i]).abs() < 1e-11, "{i}: {found} for {}", smoothed[i]);
        }
    }
    // Between vectors without smoothing the columns are orthonormal: here they have the norm of one that a step has changed a little.
    assert!((0..k).all(|c| (0.3..1.0).contains(&gram[c * k + c])));
    let product: Vec<f64> =
        (0..n * k).map(|at| (0..n).map(|j| values[at / k * n + j] * p_values[j * k + at % k]).sum()).collect();
    let coarse: Vec<f64> =
        (0..k * k).map(|at| (0..n).map(|i| p_values[i * k + at / k] * product[i * k + at % k]).sum()).collect();
    close(&host(amg.matrix(1).unwrap()), &coarse, "coarse");
    let cpu = of(&Device::cpu());
    assert!(host(cpu.prolongator(0).unwrap()) == p && host(cpu.matrix(1).unwrap()) == host(amg.matrix(1).unwrap()));
    assert_eq!(cpu.describe(), info);
}

/// Two equations of diffusion, with and without a weak coupling, some unknowns fixed; sizes that do not fit are refused.
fn nodes_with_several_unknowns(device: &Device) {
    let (n, grid) = (18, poisson::<f64>(18));
    let mut rows = vec![BTreeMap::new(); 2 * n * n];
    for (i, j, value) in grid.triplets() {
        rows[2 * i].insert(2 * j, value);
        rows[2 * i + 1].insert(2 * j + 1, 100.0 * value);
    }
    for i in 0..n * n {
        *rows[2 * i].entry(2 * i + 1).or_insert(0.0) -= 0.3;
        *rows[2 * i + 1].entry(2 * i).or_insert(0.0) -= 0.3;
    }
    // A node that nothing is connected to.
    for j in [2 * 40, 2 * 40 + 1] {
        for row in &mut rows {
            row.remove(&j);
        }
        rows[j] = BTreeMap::from([(j, 2.0)]);
    }
    let a = device.upload(&of_rows::<f64>(2 * n * n, &rows)).unwrap();
    let space = NearNullSpace::constants(n * n, 2).unwrap();
    let mut amg = Amg::options().near_null_space(space).coarse_rows(20).build(&a).unwrap();
    assert!(amg.describe().operator_complexity < 1.8, "{}", amg.describe());
    let most = solve(&a, &amg, 20);
    let p = host(amg.prolongator(0).unwrap());
    assert!(p.row(80).0.is_empty() && p.row(81).0.is_empty() && !p.row(82).0.is_empty());
    let mut larger = a.convert(Format::Csr).unwrap();
    let values: Vec<f64> = host(&a).values().iter().map(|value| 2.0 * value).collect();
    larger.update_values(&device.upload_vec(&values).unwrap()).unwrap();
    amg.update_values(&larger).unwrap();
    solve(&larger, &amg, most);
    // Vectors for another matrix.
    let build = |space| Amg::options().near_null_space(space).build(&a).map(|_| ());
    let error = build(NearNullSpace::constants(n * n - 1, 2).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    for (unknowns, columns, values) in
        [(0, 1, vec![]), (7, 1, vec![]), (1, 0, vec![]), (1, 7, vec![]), (2, 3, vec![0.0; 9]), (1, 1, vec![f64::NAN])]
    {
        let error = NearNullSpace::new(unknowns, columns, values).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    for unknowns in [0, 7, 1_000_000, usize::MAX] {
        let error = NearNullSpace::constants(4, unknowns).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{unknowns}: {error}");
    }
    assert!(matches!(NearNullSpace::constants(usize::MAX, 3).unwrap_err(), Error::OutOfMemory { .. }));
    assert!(NearNullSpace::rigid_body_modes(&[[0.0, f64::INFINITY]]).is_err());
    // No nodes, one, and vectors of zeros.
    for (n, values) in [(0, vec![]), (1, vec![1.0]), (2, vec![1.0, 0.0]), (300, vec![0.0; 300])] {
        let a = laplacian::<f64>(n, (1..n).map(|i| (i - 1, i, 1.0)), |_| 0.5);
        let a = device.upload(&a).unwrap();
        let amg = Amg::options().near_null_space(NearNullSpace::new(1, 1, values).unwrap()).build(&a).unwrap();
        if n > 0 {
            solve(&a, &amg, 300);
        }
    }
}

/// A multiple of the first vector is 0 in each aggregate, and no rounding that has been made large; a vector after it counts.
fn dependent_vectors<T: Scalar>(device: &Device) {
    let a = device.upload(&poisson::<T>(20)).unwrap();
    let mut random = Random(5);
    let rows = (0..400).flat_map(|_| {
        let (first, third) = (1.0 + 0.3 * random.next_unit(), random.next_unit());
        [first, 0.7 * first, third]
    });
    let space = NearNullSpace::new(1, 3, rows.collect::<Vec<_>>()).unwrap();
    let amg = Amg::options().near_null_space(space).coarse_rows(100).build(&a).unwrap();
    let p = host(amg.prolongator(0).unwrap());
    let of_column = |place: usize| {
        let entries = p.triplets().filter(move |(_, column, _)| column % 3 == place);
        entries.map(|(_, _, value)| value.to_f64().abs()).fold(0.0, f64::max)
    };
    assert!(of_column(0) > 0.1 && of_column(1) == 0.0 && of_column(2) > 0.1, "{:?}", [0, 1, 2].map(of_column));
}

/// A power of two that all is multiplied by changes nothing.
fn nodes_of_all_magnitudes<T: Scalar>(device: &Device) {
    let matrix = poisson::<T>(20);
    let mut a = device.upload(&matrix).unwrap();
    let space = NearNullSpace::constants(200, 2).unwrap();
    let exponent = if size_of::<T>() == 4 { 90 } else { 700 };
    let [expected, large, small] = [0, exponent, -exponent].map(|exponent| {
        let scaled = |&value: &T| T::from_f64(value.to_f64() * 2f64.powi(exponent));
        let values: Vec<_> = matrix.values().iter().map(scaled).collect();
        a.update_values(&device.upload_vec(&values).unwrap()).unwrap();
        let amg = Amg::options().near_null_space(space.clone()).coarse_rows(20).build(&a).unwrap();
        (host(amg.prolongator(0).unwrap()), solve(&a, &amg, 30))
    });
    assert!(large == expected && small == expected);
}

/// Springs between near nodes of a cube: the null space is that of the rigid motions.
fn a_body_that_nothing_holds(device: &Device) {
    let nodes = nodes_of_cube(6);
    let mut rows = vec![BTreeMap::new(); 3 * nodes.len()];
    for (i, a) in nodes.iter().enumerate() {
        for (j, b) in nodes.iter().enumerate() {
            let along = [0, 1, 2].map(|axis| b[axis] - a[axis]);
            let square: f64 = along.iter().map(|d| d * d).sum();
            if i == j || square > 3.5 {
                continue;
            }
            for k in 0..9 {
                let stiffness = along[k / 3] * along[k % 3] / square;
                *rows[3 * i + k / 3].entry(3 * i + k % 3).or_insert(0.0) += stiffness;
                *rows[3 * i + k / 3].entry(3 * j + k % 3).or_insert(0.0) -= stiffness;
            }
        }
    }
    let a = of_rows::<f64>(3 * nodes.len(), &rows);
    let there = device.upload(&a).unwrap();
    let space = NearNullSpace::rigid_body_modes(&nodes).unwrap();
    let amg = Amg::options().near_null_space(space).coarse_rows(30).build(&there).unwrap();
    let info = amg.describe();
    assert!(info.levels.len() > 1 && info.notes.iter().any(|note| note.contains("singular")), "{info}");
    // Forces that the body is at rest with: those of a displacement.
    let u = Random(3).vector::<f64>(a.nrows());
    let mut b = vec![0.0; a.nrows()];
    a.triplets().for_each(|(i, j, value)| b[i] += value * u[j]);
    let (b_there, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(b.len()).unwrap());
    let solution = amg.solve(&b_there, &mut x, Tolerance::relative(1e-8)).unwrap();
    assert!(solution.iterations <= 20, "{solution:?}");
    assert!(residual(&a, &b, &x) < 1e-7);
}

fn elasticity(device: &Device) {
    let iterations = |n: usize, most: usize| {
        let a = device.upload(&generate::elasticity3d::<f64>(n).unwrap()).unwrap();
        let space = NearNullSpace::rigid_body_modes(&nodes_of_cube(n)).unwrap();
        let amg = Amg::options().near_null_space(space).build(&a).unwrap();
        let info = amg.describe();
        assert!(info.operator_complexity < 1.5, "{info}");
        solve(&a, &amg, most)
    };
    let (small, large) = (iterations(8, 30), iterations(12, 30));
    assert!(large as f64 <= 1.4 * small as f64, "{small}, {large}");
}

fn degenerate_systems(device: &Device) {
    let upload = |a: &CsrMatrix<f64>| device.upload(a).unwrap();
    // No rows.
    let empty = upload(&CsrMatrix::try_from_csr_data(0, 0, vec![0u32], vec![], vec![]).unwrap());
    let amg = Amg::new(&empty).unwrap();
    amg.apply((&device.zeros(0).unwrap()).into(), (&mut device.zeros(0).unwrap()).into()).unwrap();
    assert_eq!(amg.describe().levels.len(), 1);
    // One row.
    let one = upload(&laplacian(1, [], |_| 4.0));
    let amg = Amg::new(&one).unwrap();
    let mut x = device.zeros(1).unwrap();
    let info = amg.solve(&device.upload_vec(&[2.0]).unwrap(), &mut x, Tolerance::relative(1e-12)).unwrap();
    assert!(info.iterations <= 1 && (x.to_vec().unwrap()[0] - 0.5).abs() < 1e-15);
    // Already coarse: solved directly.
    let small = upload(&poisson(7));
    let amg = Amg::new(&small).unwrap();
    assert!(amg.describe().to_string().contains("it is solved directly"), "{}", amg.describe());
    solve(&small, &amg, 1);
    // Nothing is connected.
    let diagonal = upload(&laplacian(400, [], |i| 1.0 + i as f64));
    let amg = Amg::new(&diagonal).unwrap();
    assert!(amg.describe().notes[0].contains("no strong connections"), "{}", amg.describe());
    solve(&diagonal, &amg, 2);
    // Four parts, of which two are points.
    let parts = upload(&laplacian(
        402,
        grid(20, [1.0, 1.0]).into_iter().filter(|(i, j, _)| (i / 20 < 9) == (j / 20 < 9)).collect::<Vec<_>>(),
        |_| 0.02,
    ));
    let amg = Amg::options().coarse_rows(10).build(&parts).unwrap();
    solve(&parts, &amg, 16);
    // Explicit zeros and duplicates.
    let mut coo = CooMatrix::new(300, 300).unwrap();
    for i in 0..300 {
        coo.push(i, i, 1.05).unwrap();
        coo.push(i, i, 1.0).unwrap();
        for j in [i.checked_sub(1), Some(i + 1).filter(|&j| j < 300)].into_iter().flatten() {
            coo.push(i, j, -1.0).unwrap();
        }
        coo.push(i, (i + 150) % 300, 0.0).unwrap();
    }
    let a = device.upload(&coo).unwrap();
    let amg = Amg::options().coarse_rows(10).build(&a).unwrap();
    solve(&a, &amg, 14);
}

fn singular_systems(device: &Device) {
    // Neumann: the constant vectors are the null space.
    for coarse_rows in [5, 500] {
        let a = device.upload(&laplacian::<f64>(400, grid(20, [1.0, 1.0]), |_| 0.0)).unwrap();
        let amg = Amg::options().coarse_rows(coarse_rows).build(&a).unwrap();
        assert!(amg.describe().to_string().contains("the matrix is singular"), "{}", amg.describe());
        let mut b = Random(1).vector::<f64>(400);
        let mean = b.iter().sum::<f64>() / 400.0;
        b.iter_mut().for_each(|b| *b -= mean);
        let mut x = device.zeros(400).unwrap();
        let info = amg.solve(&device.upload_vec(&b).unwrap(), &mut x, Tolerance::relative(1e-8)).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        assert!(info.iterations <= 16 && residual(&host(&a), &b, &x) < 2e-8, "{info:?}");
        // Without a solution no convergence is claimed.
        let b = device.upload_vec(&[1.0; 400]).unwrap();
        let mut x = device.zeros(400).unwrap();
        let info =
            Cg::new(&a).preconditioner(&amg).tolerance(Tolerance::relative(1e-8)).max_iterations(50).solve(&b, &mut x);
        assert!(info.is_err() || info.is_ok_and(|info| info.reason != StopReason::Converged));
    }
    // A row of zeros.
    let a = device.upload(&with_a_row_of_zeros::<f64>(301)).unwrap();
    let amg = Amg::options().coarse_rows(10).build(&a).unwrap();
    assert!(amg.describe().to_string().contains("Rows of zeros: 1."), "{}", amg.describe());
    let mut b = Random(1).vector::<f64>(301);
    b[150] = 0.0;
    let mut x = device.zeros(301).unwrap();
    let info = amg.solve(&device.upload_vec(&b).unwrap(), &mut x, Tolerance::relative(1e-8)).unwrap();
    assert!(info.reason == StopReason::Converged && info.iterations <= 14, "{info:?}");
    assert!(residual(&host(&a), &b, &x) < 2e-8);
    assert_eq!(x.to_vec().unwrap()[150], 0.0);
}

fn what_does_not_suit_is_refused(device: &Device) {
    let n = 400;
    let problem = |change: &dyn Fn(usize, usize, f64) -> f64| {
        let good = poisson::<f64>(20);
        let values = good.triplets().map(|(i, j, value)| change(i, j, value)).collect();
        let (offsets, columns, _) = good.into_csr_data();
        let a = device.upload(&CsrMatrix::try_from_csr_data(n, n, offsets, columns, values).unwrap()).unwrap();
        match Amg::new(&a) {
            Err(Error::Breakdown { problem, .. }) => problem,
            other => panic!("{other:?}"),
        }
    };
    let found = problem(&|i, j, value| if (i, j) == (7, 7) { -4.0 } else { value });
    assert!(
        found.contains("row 7 of 400: the element on the diagonal is -4: the matrix is not positive definite"),
        "{found}"
    );
    let found = problem(&|i, j, value| if (i, j) == (9, 9) { 0.0 } else { value });
    assert!(found.contains("row 9 of 400: the element on the diagonal is 0, though the row has others"), "{found}");
    let found = problem(&|i, j, value| if (i, j) == (30, 31) { f64::NAN } else { value });
    assert!(found.contains("row 30 of 400: a number is not finite"), "{found}");
    let found = problem(&|i, j, value| if i < j { 2.0 * value } else { value });
    assert!(found.contains("not symmetric"), "{found}");
    // Indefinite, with a positive diagonal.
    let found = problem(&|i, j, value| if i == j { 0.5 } else { value });
    assert!(found.starts_with("multigrid, level 1, row ") && found.contains("not positive definite"), "{found}");

    let a = device.upload(&poisson::<f64>(3)).unwrap();
    let refused = |options: warpsparse::AmgOptions<f64>| matches!(options.build(&a), Err(Error::InvalidOption(_)));
    for theta in [-0.1, 1.5, f64::NAN] {
        assert!(refused(Amg::options().theta(theta)));
    }
    for degree in [0, 9] {
        assert!(refused(Amg::options().smoother(AmgSmoother::Chebyshev(degree))));
    }
    for rows in [0, 2001] {
        assert!(refused(Amg::options().coarse_rows(rows)));
    }
    let wide = CsrMatrix::<f64>::try_from_csr_data(1, 2, vec![0u32, 1], vec![0], vec![1.0]).unwrap();
    assert!(matches!(Amg::new(&device.upload(&wide).unwrap()), Err(Error::LengthMismatch { .. })));
    let amg = Amg::new(&a).unwrap();
    let (short, mut z) = (device.zeros(8).unwrap(), device.zeros(9).unwrap());
    assert!(matches!(amg.apply((&short).into(), (&mut z).into()), Err(Error::LengthMismatch { .. })));
    let mut elsewhere = other(device).zeros(9).unwrap();
    let r = device.zeros(9).unwrap();
    assert!(matches!(amg.apply((&r).into(), (&mut elsewhere).into()), Err(Error::DeviceMismatch { .. })));
}

fn new_values(device: &Device) {
    let a = poisson::<f64>(20);
    let mut there = device.upload(&a).unwrap();
    let mut amg = Amg::options().coarse_rows(10).build(&there).unwrap();
    let values: Vec<f64> = a.values().iter().map(|value| 3.0 * value).collect();
    there.update_values(&device.upload_vec(&values).unwrap()).unwrap();
    amg.update_values(&there).unwrap();
    // The method does not depend on the scale, so everything but the matrices is as before.
    let fresh = Amg::options().coarse_rows(10).build(&there).unwrap();
    for level in 1..fresh.describe().levels.len() {
        let (found, expected) = (host(amg.matrix(level).unwrap()), host(fresh.matrix(level).unwrap()));
        close(&found, &dense(&expected), "updated");
    }
    assert_eq!(amg.describe().levels, fresh.describe().levels);
    // The patterns of products are kept: on the finest level a task of 16 bytes and an offset for each row.
    let kept = amg.describe().bytes - fresh.describe().bytes;
    assert_eq!(kept > 20 * 400, on_gpus(device, 1) == 1, "{kept} bytes");
    solve(&there, &amg, 16);
    // Other values: still a good preconditioner.
    let changed = laplacian::<f64>(400, grid(20, [1.0, 0.6]), dirichlet(20));
    there.update_values(&device.upload_vec(changed.values()).unwrap()).unwrap();
    amg.update_values(&there).unwrap();
    assert_eq!(host(amg.matrix(0).unwrap()), changed);
    for level in 0..amg.describe().levels.len() - 1 {
        let (a, p) = (amg.matrix(level).unwrap(), amg.prolongator(level).unwrap());
        let expected = a.triple_product(&p.transpose().unwrap(), p).unwrap();
        assert_eq!(host(amg.matrix(level + 1).unwrap()), host(&expected), "level {level}");
    }
    solve(&there, &amg, 18);
    // Another matrix, or one that does not suit: the hierarchy stays.
    let smaller = device.upload(&poisson::<f64>(19)).unwrap();
    assert!(matches!(amg.update_values(&smaller), Err(Error::InvalidOption(_))));
    let sparser = device.upload(&laplacian::<f64>(400, [], |_| 1.0)).unwrap();
    assert!(matches!(amg.update_values(&sparser), Err(Error::InvalidOption(_))));
    // As many entries, but others.
    let mut turned = grid(20, [1.0, 1.0]);
    turned[7] = (0, 399, 1.0);
    let turned = device.upload(&laplacian::<f64>(400, turned, |_| 0.1)).unwrap();
    assert_eq!(turned.nnz(), there.nnz());
    assert!(matches!(amg.update_values(&turned), Err(Error::InvalidOption(_))));
    let negative = device.upload(&laplacian::<f64>(400, grid(20, [-1.0, -1.0]), dirichlet(20))).unwrap();
    assert!(matches!(amg.update_values(&negative), Err(Error::Breakdown { .. })));
    solve(&there, &amg, 18);
    assert!(matches!(amg.update_values(&other(device).upload(&changed).unwrap()), Err(Error::DeviceMismatch { .. })));
}

fn formats(device: &Device) {
    let csr = poisson::<f64>(18);
    let expected = Amg::options().coarse_rows(10).build(&device.upload(&csr).unwrap()).unwrap();
    for format in [Format::Csc, Format::Coo, Format::Dia, Format::Ell, Format::Hyb] {
        let a = device.upload(&csr).unwrap().convert(format).unwrap();
        let amg = Amg::options().coarse_rows(10).build(&a).unwrap();
        for level in 0..expected.describe().levels.len() {
            assert!(host(amg.matrix(level).unwrap()) == host(expected.matrix(level).unwrap()), "{format:?}");
        }
        solve(&a, &amg, 16);
    }
    let wide = device.upload(&CsrMatrix::<f64, u64>::from(&csr)).unwrap();
    solve(&wide, &Amg::new(&wide).unwrap(), 16);
}

fn recorded(device: &Device) {
    let a = device.upload(&poisson::<f64>(20)).unwrap();
    for (smoother, cycle) in [(AmgSmoother::Jacobi, AmgCycle::W), (AmgSmoother::Chebyshev(2), AmgCycle::V)] {
        let amg = Amg::options().smoother(smoother).cycle(cycle).coarse_rows(10).build(&a).unwrap();
        assert!(amg.can_be_recorded() && amg.is_expensive());
        let (r, mut z) = (device.upload_vec(&Random(4).vector::<f64>(400)).unwrap(), device.zeros(400).unwrap());
        let mut graph = device.record(|| amg.apply((&r).into(), (&mut z).into())).unwrap();
        graph.launch(3).unwrap();
        drop(graph);
        let mut direct = device.zeros(400).unwrap();
        amg.apply((&r).into(), (&mut direct).into()).unwrap();
        assert_eq!(z.to_vec().unwrap(), direct.to_vec().unwrap());
        let refused = device.record(|| Amg::new(&a).map(|_| ())).and_then(|mut graph| graph.launch(1));
        assert!(matches!(refused, Err(Error::InvalidOption(_))));
    }
}

fn iterations_hardly_grow(device: &Device) {
    let iterations = |a: &CsrMatrix<f64>, most: usize, complexity: f64| {
        let a = device.upload(a).unwrap();
        let amg = Amg::new(&a).unwrap();
        let info = amg.describe();
        assert!(info.operator_complexity <= complexity, "{info}");
        assert!(info.bytes as f64 <= 3.0 * 12.0 * a.nnz() as f64, "{info}");
        solve(&a, &amg, most)
    };
    // Measured: 14 and 17 on the CPU.
    let (small, large) = (iterations(&poisson(64), 16, 1.6), iterations(&poisson(256), 20, 1.6));
    assert!(large as f64 <= 1.4 * small as f64, "{small}, {large}");
    let cube = |n: usize| {
        let at = move |x: usize, y: usize, z: usize| x + n * (y + n * z);
        let mut edges = Vec::new();
        for (x, y, z) in (0..n).flat_map(|z| (0..n).flat_map(move |y| (0..n).map(move |x| (x, y, z)))) {
            let next = [(x + 1, y, z), (x, y + 1, z), (x, y, z + 1)];
            edges.extend(
                next.iter().filter(|(x, y, z)| *x.max(y).max(z) < n).map(|&(a, b, c)| (at(x, y, z), at(a, b, c), 1.0)),
            );
        }
        let ends = move |at: usize| f64::from(u8::from(at == 0)) + f64::from(u8::from(at + 1 == n));
        laplacian::<f64>(n * n * n, edges, move |i| ends(i % n) + ends(i / n % n) + ends(i / n / n))
    };
    // Measured: 15 and 15 on the CPU.
    let (small, large) = (iterations(&cube(24), 17, 1.6), iterations(&cube(48), 18, 1.6));
    assert!(large as f64 <= 1.4 * small as f64, "{small}, {large}");
    // Far fewer than with Jacobi's preconditioner.
    let a = device.upload(&poisson::<f64>(256)).unwrap();
    let (b, mut x) = (device.upload_vec(&[1.0; 65536]).unwrap(), device.zeros(65536).unwrap());
    let mut cg = Cg::new(&a).preconditioner(Jacobi::new(&a).unwrap()).tolerance(Tolerance::relative(1e-8));
    assert!(cg.solve(&b, &mut x).unwrap().iterations > 400);
}

fn anisotropy_and_jumps(device: &Device) {
    // Measured on the CPU, on 128 x 128 points: 21 and 20.
    for ratio in [0.01, 0.001] {
        let a = laplacian::<f64>(128 * 128, grid(128, [1.0, ratio]), |i| {
            let ends = |at: usize| f64::from(u8::from(at == 0)) + f64::from(u8::from(at == 127));
            ends(i % 128) + ratio * ends(i / 128)
        });
        let a = device.upload(&a).unwrap();
        let amg = Amg::new(&a).unwrap();
        assert!(amg.describe().operator_complexity < 2.0);
        solve(&a, &amg, 28);
    }
    // A checkerboard of conductivities, harmonic means between.
    for contrast in [1e4, 1e6] {
        let at = |i: usize| if (i % 96 / 16 + i / 96 / 16).is_multiple_of(2) { 1.0 } else { contrast };
        let edges = grid(96, [1.0, 1.0]).into_iter().map(|(i, j, _)| (i, j, 2.0 * at(i) * at(j) / (at(i) + at(j))));
        let ends = dirichlet(96);
        let a = laplacian::<f64>(96 * 96, edges.collect::<Vec<_>>(), move |i| at(i) * ends(i));
        let a = device.upload(&a).unwrap();
        let amg = Amg::new(&a).unwrap();
        assert!(amg.describe().operator_complexity < 2.0);
        solve(&a, &amg, 40);
    }
}

//! Approximate inverses: the equations that define the factor, its applications, and what it does for conjugate gradients.

use libtest_mimic::Trial;
use warpsparse::{
    Cg, CooMatrix, CsrMatrix, Device, Error, Fsai, Jacobi, Preconditioner, Scalar, StopReason, Tolerance,
};

use crate::common::{
    Random,
    matrices::{from_rows, stencil},
    on_every_device, other,
};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_every_device("fsai_factors_f32", factors::<f32>));
    trials.extend(on_every_device("fsai_factors_f64", factors::<f64>));
    trials.extend(on_every_device("fsai_of_long_rows", long_rows));
    trials.extend(on_every_device("fsai_in_conjugate_gradients", in_cg));
    trials.extend(on_every_device("fsai_of_degenerate_matrices", degenerate));
    trials.extend(on_every_device("what_has_no_approximate_inverse", refused));
    trials
}

/// Symmetric and diagonally dominant, with entries at random places and of either sign.
fn random<T: Scalar>(n: usize, per_row: usize) -> CsrMatrix<T> {
    let (mut dense, mut random) = (vec![vec![0.0; n]; n], Random(17));
    for i in (0..n).flat_map(|i| vec![i; per_row]) {
        let (j, value) = (random.next_below(n), random.next_unit() - 0.5);
        (dense[i][j], dense[j][i]) = (value, value);
    }
    for (i, row) in dense.iter_mut().enumerate() {
        row[i] = 0.0;
        row[i] = 0.3 + row.iter().map(|value| value.abs()).sum::<f64>();
    }
    let entries = |row: &Vec<f64>| row.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
    from_rows(n, dense.iter().map(entries).collect())
}

fn dense<T: Scalar>(matrix: &CsrMatrix<T>) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![0.0; matrix.ncols()]; matrix.nrows()];
    matrix.triplets().for_each(|(i, j, value)| rows[i][j] += value.to_f64());
    rows
}

fn multiply(x: &[Vec<f64>], y: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let of = |row: &Vec<f64>, j: usize| row.iter().zip(y).map(|(x, y)| x * y[j]).sum();
    x.iter().map(|row| (0..y.len()).map(|j| of(row, j)).collect()).collect()
}

/// The pattern of a power of a matrix.
fn pattern(matrix: &[Vec<f64>], power: u32) -> Vec<Vec<f64>> {
    let ones: Vec<Vec<f64>> =
        matrix.iter().map(|row| row.iter().map(|value| f64::from(*value != 0.0)).collect()).collect();
    (1..power).fold(ones.clone(), |product, _| multiply(&product, &ones))
}

/// `(G A)[i, j]` is 0 where `G[i, j]` is stored, and `1 / G[i, i]` on the diagonal: these equations have one solution.
fn factors<T: Scalar>(device: &Device) {
    let bound = if size_of::<T>() == 4 { 1e-6 } else { 1e-13 };
    for (matrix, power) in [(stencil(9).cast::<T>(), 1), (stencil(9).cast(), 3), (random(70, 3), 1), (random(40, 2), 2)]
    {
        let n = matrix.nrows();
        let a = device.upload(&matrix).unwrap();
        let fsai = if power == 1 { Fsai::new(&a).unwrap() } else { Fsai::with_power(&a, power).unwrap() };
        let g = fsai.factor().download().unwrap().into_csr().unwrap();
        let (doubles, pattern) = (dense(&matrix), pattern(&dense(&matrix), power));
        let expected: Vec<_> = (0..n).map(|i| (0..=i).filter(|&j| pattern[i][j] != 0.0).collect::<Vec<_>>()).collect();
        let found: Vec<Vec<usize>> =
            g.rows().map(|(columns, _)| columns.iter().map(|&j| j as usize).collect()).collect();
        assert_eq!(expected, found, "power {power}");
        let (of_g, product) = (dense(&g), multiply(&dense(&g), &doubles));
        for (i, j) in expected.iter().enumerate().flat_map(|(i, columns)| columns.iter().map(move |&j| (i, j))) {
            let wanted = if i == j { 1.0 / of_g[i][i] } else { 0.0 };
            assert!((product[i][j] - wanted).abs() <= bound * doubles[i][i].sqrt(), "{i}, {j}: {}", product[i][j]);
        }
        // Applications.
        let r: Vec<T> = Random(3).vector(n);
        let doubles: Vec<f64> = r.iter().map(|r| r.to_f64()).collect();
        let middle: Vec<f64> = of_g.iter().map(|row| row.iter().zip(&doubles).map(|(g, r)| g * r).sum()).collect();
        let (r, mut z) = (device.upload_vec(&r).unwrap(), device.filled(n, T::from_f64(f64::NAN)).unwrap());
        fsai.apply((&r).into(), (&mut z).into()).unwrap();
        for (j, z) in z.to_vec().unwrap().iter().enumerate() {
            let expected: f64 = (0..n).map(|i| of_g[i][j] * middle[i]).sum();
            assert!((z.to_f64() - expected).abs() <= bound, "row {j}: {} {expected}", z.to_f64());
        }
    }
    // In COO, out of order and with duplicates: the same bits.
    let matrix = random::<T>(30, 3);
    let mut coo = CooMatrix::new(30, 30).unwrap();
    let half = T::from_f64(0.5);
    for (row, column, value) in matrix.triplets().collect::<Vec<_>>().into_iter().rev() {
        coo.push(row, column, half * value).unwrap();
        coo.push(row, column, half * value).unwrap();
    }
    let of = |fsai: Fsai<T>| fsai.factor().download().unwrap().into_csr().unwrap().values().to_vec();
    let (a, coo) = (device.upload(&matrix).unwrap(), device.upload(&coo).unwrap());
    assert_eq!(of(Fsai::new(&coo).unwrap()), of(Fsai::new(&a).unwrap()));
}

/// A row of 64 entries is kept whole; of a longer one the largest entries are, and the diagonal.
fn long_rows(device: &Device) {
    for n in [64, 65, 100] {
        let weight = |j: usize| 0.001 * (1 + (j * 37) % n) as f64;
        let row = |i: usize| match i == n - 1 {
            true => (0..n).map(|j| (j, if j == i { 10.0 } else { weight(j) })).collect(),
            false => vec![(i, 2.0), (n - 1, weight(i))],
        };
        let a = device.upload(&from_rows::<f64>(n, (0..n).map(row).collect())).unwrap();
        let g = Fsai::new(&a).unwrap().factor().download().unwrap().into_csr().unwrap();
        let mut largest: Vec<usize> = (0..n - 1).collect();
        largest.sort_by(|&i, &j| weight(j).total_cmp(&weight(i)));
        largest.truncate(63);
        largest.push(n - 1);
        largest.sort_unstable();
        assert_eq!(g.row(n - 1).0.iter().map(|&j| j as usize).collect::<Vec<_>>(), largest, "{n}");
        // `A` of the kept columns is an arrow: `g` is `-weight / 2` times that of the diagonal, which is 1 over the root of what elimination leaves there.
        let left = 10.0 - largest[..63].iter().map(|&j| weight(j) * weight(j) / 2.0).sum::<f64>();
        for (&j, &value) in g.row(n - 1).0.iter().zip(g.row(n - 1).1) {
            let j = j as usize;
            let expected = if j == n - 1 { 1.0 } else { -weight(j) / 2.0 } / left.sqrt();
            assert!((value - expected).abs() < 1e-15, "{n}, {j}: {value} {expected}");
        }
    }
}

/// Fewer iterations with every power, and true solutions.
fn in_cg(device: &Device) {
    let matrix = stencil(20);
    let a = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(3).vector(400);
    let iterations = |with: &dyn Preconditioner<f64>| {
        let (right, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(400).unwrap());
        let info = Cg::new(&a).preconditioner(with).tolerance(Tolerance::relative(1e-9)).solve(&right, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        let (x, mut r) = (x.to_vec().unwrap(), b.clone());
        matrix.triplets().for_each(|(i, j, value)| r[i] -= value * x[j]);
        assert!(r.iter().map(|r| r * r).sum::<f64>().sqrt() <= 2e-9 * b.iter().map(|b| b * b).sum::<f64>().sqrt());
        info.iterations
    };
    let mut before = iterations(&Jacobi::new(&a).unwrap());
    for (power, most) in [(1, 0.7), (2, 0.8), (3, 0.9)] {
        let found = iterations(&Fsai::with_power(&a, power).unwrap());
        assert!(found as f64 <= most * before as f64, "power {power}: {found} iterations, before {before}");
        before = found;
    }
}

fn degenerate(device: &Device) {
    for n in 0..3 {
        let row = |i: usize| vec![(i, 4.0 * (i + 1) as f64)];
        let a = device.upload(&from_rows::<f64>(n, (0..n).map(row).collect())).unwrap();
        let (r, mut z) = (device.upload_vec(&[8.0, 24.0][..n]).unwrap(), device.zeros(n).unwrap());
        Fsai::with_power(&a, 4).unwrap().apply((&r).into(), (&mut z).into()).unwrap();
        let z = z.to_vec().unwrap();
        assert!(z.iter().zip([2.0, 3.0]).all(|(z, expected)| (z - expected).abs() < 1e-14), "{z:?}");
    }
}

fn refused(device: &Device) {
    let of = |rows: Vec<Vec<(usize, f64)>>| device.upload(&from_rows::<f64>(rows.len(), rows)).unwrap();
    let good = of(vec![vec![(0, 2.0), (1, -1.0)], vec![(0, -1.0), (1, 2.0)]]);
    for power in [0, 5] {
        let error = Fsai::with_power(&good, power).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(problem) if problem.contains("1 to 4")), "{error}");
    }
    // Negative, missing, not a number, and indefinite or singular though the diagonal is positive.
    for row in
        [vec![(1, -1.0)], vec![(0, 1.0)], vec![(1, f64::NAN)], vec![(0, 3.0), (1, 2.0)], vec![(0, 2.0), (1, 2.0)]]
    {
        let error = Fsai::new(&of(vec![vec![(0, 2.0)], row, vec![(2, -5.0)]])).unwrap_err();
        assert!(matches!(error, Error::Breakdown { .. }) && error.to_string().contains("row 1 of 3"), "{error}");
    }
    let error = Fsai::new(&device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0)]; 2])).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let fsai = Fsai::new(&good).unwrap();
    let vector = |n: usize| device.zeros::<f64>(n).unwrap();
    let error = fsai.apply((&vector(3)).into(), (&mut vector(2)).into()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let error = fsai.apply((&vector(2)).into(), (&mut vector(1)).into()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let foreign = other(device).zeros::<f64>(2).unwrap();
    assert!(matches!(fsai.apply((&foreign).into(), (&mut vector(2)).into()), Err(Error::DeviceMismatch { .. })));
}

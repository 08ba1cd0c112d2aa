//! Chebyshev's polynomial: its values against the iteration in `f64`, its interval, and what it does for conjugate gradients.

use libtest_mimic::Trial;
use warpsparse::{
    Cg, Chebyshev, CsrMatrix, Device, DeviceMatrix, Error, Preconditioner, Scalar, StopReason, Tolerance,
};

use crate::common::{
    Random,
    matrices::{from_rows, stencil},
    on_every_device, other,
};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_every_device("chebyshev_values_f32", values::<f32>));
    trials.extend(on_every_device("chebyshev_values_f64", values::<f64>));
    trials.extend(on_every_device("chebyshev_eigenvalues", eigenvalues));
    trials.extend(on_every_device("chebyshev_is_symmetric_and_positive", symmetry));
    trials.extend(on_every_device("chebyshev_in_conjugate_gradients", in_cg));
    trials.extend(on_every_device("chebyshev_of_degenerate_matrices", degenerate));
    trials.extend(on_every_device("what_has_no_chebyshev_polynomial", refused));
    trials
}

/// Symmetric, diagonally dominant, with rows of very different lengths, one of zeros among them.
fn uneven<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let mut dense = vec![vec![0.0; n]; n];
    let mut random = Random(11);
    for (i, reach) in (0..n).map(|i| (i, if i == 5 { n } else { 3 })) {
        for _ in 0..reach {
            let j = random.next_below(n);
            if i != j && i != 20 && j != 20 {
                let value = -random.next_unit().abs();
                (dense[i][j], dense[j][i]) = (value, value);
            }
        }
    }
    for (i, row) in dense.iter_mut().enumerate() {
        row[i] = if i == 20 { 0.0 } else { 0.1 - row.iter().sum::<f64>() };
    }
    let entries = |row: &Vec<f64>| row.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
    from_rows(n, dense.iter().map(entries).collect())
}

/// `degree` steps from 0 for `A x = b` (Saad, algorithm 12.1), with the diagonal as preconditioner.
fn reference<T: Scalar>(matrix: &CsrMatrix<T>, b: &[f64], degree: u32, (low, high): (f64, f64)) -> Vec<f64> {
    let n = matrix.nrows();
    let (theta, delta) = (0.5 * (high + low), 0.5 * (high - low));
    let sigma = theta / delta;
    let scaled = |r: &[f64]| -> Vec<f64> {
        let inverse = |i: usize| matrix.diagonal()[i].to_f64();
        (0..n).map(|i| if inverse(i) == 0.0 { 0.0 } else { r[i] / inverse(i) }).collect()
    };
    let (mut x, mut r, mut rho) = (vec![0.0; n], b.to_vec(), 1.0 / sigma);
    let mut d: Vec<f64> = scaled(&r).iter().map(|z| z / theta).collect();
    for _ in 1..degree {
        x.iter_mut().zip(&d).for_each(|(x, d)| *x += d);
        matrix.triplets().for_each(|(i, j, value)| r[i] -= value.to_f64() * d[j]);
        let next = 1.0 / (2.0 * sigma - rho);
        let z = scaled(&r);
        d.iter_mut().zip(&z).for_each(|(d, z)| *d = next * rho * *d + 2.0 * next / delta * z);
        rho = next;
    }
    x.iter().zip(&d).map(|(x, d)| x + d).collect()
}

fn apply<T: Scalar>(chebyshev: &Chebyshev<T>, r: &[T], device: &Device) -> Vec<T> {
    let (r, mut z) = (device.upload_vec(r).unwrap(), device.filled(r.len(), T::from_f64(f64::NAN)).unwrap());
    chebyshev.apply((&r).into(), (&mut z).into()).unwrap();
    let first = z.to_vec().unwrap();
    // Nothing is left of the first application.
    chebyshev.apply((&r).into(), (&mut z).into()).unwrap();
    assert_eq!(first, z.to_vec().unwrap());
    first
}

fn values<T: Scalar>(device: &Device) {
    let bound = if size_of::<T>() == 4 { 3e-6 } else { 5e-15 };
    // Of equal diagonals, of rows of other lengths, and with few rows.
    for matrix in [stencil(18).cast::<T>(), uneven(120), uneven(30)] {
        let n = matrix.nrows();
        let r: Vec<T> = Random(4).vector(n);
        let doubles: Vec<f64> = r.iter().map(|r| r.to_f64()).collect();
        let a = device.upload(&matrix).unwrap();
        for degree in [1, 2, 3, 4, 5, 9] {
            let chebyshev = Chebyshev::new(&a, degree).unwrap();
            assert_eq!(chebyshev.degree(), degree);
            let given = Chebyshev::with_eigenvalues(&a, degree, (0.25, 1.75)).unwrap();
            assert_eq!(given.eigenvalues(), (0.25, 1.75));
            for chebyshev in [chebyshev, given] {
                let expected = reference(&matrix, &doubles, degree, chebyshev.eigenvalues());
                let scale = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
                for (i, (z, expected)) in apply(&chebyshev, &r, device).iter().zip(&expected).enumerate() {
                    let error = (z.to_f64() - expected).abs();
                    assert!(error <= bound * scale, "degree {degree} of {n} rows, row {i}: {error:e} of {scale:e}");
                }
            }
        }
    }
}

/// Of `-1 2 -1` over 2: `1 - cos(k pi / (n + 1))`.
fn eigenvalues(device: &Device) {
    let n = 20;
    let row = |i: usize| {
        let near = [(i.wrapping_sub(1), -1.0), (i, 2.0), (i + 1, -1.0)];
        near.into_iter().filter(|&(j, _)| j < n).collect()
    };
    let a = device.upload(&from_rows::<f64>(n, (0..n).map(row).collect())).unwrap();
    let of = |k: usize| 1.0 - (k as f64 * std::f64::consts::PI / (n + 1) as f64).cos();
    let (smallest, largest) = Chebyshev::new(&a, 64).unwrap().eigenvalues();
    assert!((of(n)..=2.0).contains(&largest), "{largest}");
    // Twelve steps of Lanczos's method do not find the smallest; it is never found too small.
    assert!((of(1) - 1e-12..6.0 * of(1)).contains(&smallest), "{smallest} {}", of(1));
    // A low degree does not resolve it, and the interval shrinks with the degree.
    let lows = [1, 2, 4].map(|degree| Chebyshev::new(&a, degree).unwrap().eigenvalues().0);
    assert!(lows[0] == 0.5 * largest && lows[0] > 2.0 * lows[1] && lows[1] > 2.0 * lows[2], "{lows:?}");
}

/// `M` is symmetric, and has a Cholesky factor, also where one eigenvalue is far from the others.
fn symmetry(device: &Device) {
    let n = 24;
    let arrow = |i: usize| match i {
        0 => (0..n).map(|j| (j, if j == 0 { 1.0 } else { -0.04 })).collect(),
        _ => vec![(0, -0.04), (i, 1.0)],
    };
    for matrix in [from_rows::<f64>(n, (0..n).map(arrow).collect()), stencil(5)] {
        let (a, n) = (device.upload(&matrix).unwrap(), matrix.nrows());
        for degree in [1, 2, 4, 8, 16] {
            let chebyshev = Chebyshev::new(&a, degree).unwrap();
            let unit = |i: usize| (0..n).map(|j| f64::from(u8::from(i == j))).collect::<Vec<_>>();
            let mut m: Vec<_> = (0..n).map(|i| apply(&chebyshev, &unit(i), device)).collect();
            for (i, row) in m.iter().enumerate() {
                assert!((0..i).all(|j| (row[j] - m[j][i]).abs() < 1e-13), "degree {degree}, row {i}");
            }
            for k in 0..n {
                assert!(m[k][k] > 1e-3, "degree {degree}, pivot {k}: {}", m[k][k]);
                let (done, rest) = m.split_at_mut(k + 1);
                for row in rest {
                    let factor = row[k] / done[k][k];
                    row.iter_mut().zip(&done[k]).for_each(|(x, y)| *x -= factor * y);
                }
            }
        }
    }
    let a = device.upload(&uneven::<f64>(90)).unwrap();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for degree in [1, 2, 5, 16] {
        let chebyshev = Chebyshev::new(&a, degree).unwrap();
        let (u, v): (Vec<f64>, Vec<f64>) = (Random(1).vector(90), Random(2).vector(90));
        let (mu, mv) = (apply(&chebyshev, &u, device), apply(&chebyshev, &v, device));
        assert!((dot(&u, &mv) - dot(&v, &mu)).abs() <= 1e-13 * dot(&u, &mu), "{degree}");
        assert!(dot(&u, &mu) > 0.0 && dot(&v, &mv) > 0.0);
    }
}

/// Iterations fall with the degree.
fn in_cg(device: &Device) {
    let matrix = stencil(24);
    let a = device.upload(&matrix).unwrap();
    let b: Vec<f64> = Random(3).vector(576);
    let iterations = |preconditioner: Option<Chebyshev<f64>>| {
        let (right, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(576).unwrap());
        let cg = Cg::new(&a).tolerance(Tolerance::relative(1e-8));
        let mut cg = match preconditioner {
            Some(own) => cg.preconditioner(own),
            None => cg,
        };
        let info = cg.solve(&right, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        let (x, mut r) = (x.to_vec().unwrap(), b.clone());
        matrix.triplets().for_each(|(i, j, value)| r[i] -= value * x[j]);
        assert!(r.iter().map(|r| r * r).sum::<f64>().sqrt() <= 2e-8 * b.iter().map(|b| b * b).sum::<f64>().sqrt());
        info.iterations
    };
    let plain = iterations(None);
    for (degree, times) in [(2, 1.5), (4, 3.0), (8, 5.0)] {
        let found = iterations(Some(Chebyshev::new(&a, degree).unwrap()));
        assert!(found as f64 * times <= plain as f64, "degree {degree}: {found} iterations, without {plain}");
    }
}

fn degenerate(device: &Device) {
    let of = |rows: Vec<Vec<(usize, f64)>>| device.upload(&from_rows::<f64>(rows.len(), rows)).unwrap();
    for degree in [1, 2, 7] {
        let nothing = Chebyshev::new(&of(vec![]), degree).unwrap();
        assert_eq!(apply(&nothing, &[], device), []);
        // A polynomial of a multiple of the identity is one too.
        let chebyshev = Chebyshev::new(&of(vec![vec![(0, 4.0)]]), degree).unwrap();
        let z = apply(&chebyshev, &[2.0], device)[0];
        assert!((z - 0.5).abs() <= 0.5 / 3.0 + 1e-12, "{z}");
        let zeros = Chebyshev::new(&of(vec![vec![], vec![]]), degree).unwrap();
        assert_eq!(apply(&zeros, &[1.0, 2.0], device), [0.0, 0.0]);
    }
}

fn refused(device: &Device) {
    let of = |rows: Vec<Vec<(usize, f64)>>| device.upload(&from_rows::<f64>(rows.len(), rows)).unwrap();
    let good = of(vec![vec![(0, 2.0), (1, -1.0)], vec![(0, -1.0), (1, 2.0)]]);
    for degree in [0, 65] {
        let error = Chebyshev::new(&good, degree).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(problem) if problem.contains("1 to 64")), "{error}");
    }
    for interval in [(0.0, 1.0), (-1.0, 1.0), (1.0, 1.0), (2.0, 1.0), (0.1, f64::INFINITY), (f64::NAN, 1.0)] {
        let error = Chebyshev::with_eigenvalues(&good, 3, interval).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    let refuses = |a: &DeviceMatrix<f64>| Chebyshev::new(a, 3).unwrap_err();
    for row in [vec![(1, -2.0)], vec![(0, 1.0)], vec![(1, f64::NAN)]] {
        let error = refuses(&of(vec![vec![(0, 2.0)], row]));
        assert!(matches!(error, Error::Breakdown { .. }) && error.to_string().contains("row 1"), "{error}");
    }
    let error = refuses(&device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0)]; 2])).unwrap());
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let chebyshev = Chebyshev::new(&good, 3).unwrap();
    let vector = |n: usize| device.zeros::<f64>(n).unwrap();
    let error = chebyshev.apply((&vector(3)).into(), (&mut vector(2)).into()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "r", .. }), "{error}");
    let error = chebyshev.apply((&vector(2)).into(), (&mut vector(1)).into()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "z", .. }), "{error}");
    let foreign = other(device).zeros::<f64>(2).unwrap();
    let error = chebyshev.apply((&foreign).into(), (&mut vector(2)).into()).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");
}

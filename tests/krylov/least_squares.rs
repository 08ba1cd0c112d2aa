//! The least squares problem of GMRES on a device, against normal equations in `f64`.

use warpsparse::{
    DType, Device, DeviceVec, Kernel, Scalar,
    kernels_gpu::gmres::{Key, RotateArgs, SolveArgs, Step, outcome, row},
};

use crate::common::{
    Random,
    direct::{norm, solved},
    sums::epsilon,
};

/// The most columns: more than two for each lane.
const RESTART: usize = 70;

/// What an iteration finds: `s` and `t` of its vector, and the divisor and the norm of the next.
struct Numbers {
    s: Vec<f64>,
    t: Vec<f64>,
    divisor: f64,
    norm: f64,
}

/// Those of basis vectors that are nearly orthonormal, and of a matrix with about 1 on and below its diagonal, so that all elements of a solution count.
fn numbers(random: &mut Random, columns: usize) -> Vec<Numbers> {
    let mut small = |size: f64| size * (random.next_unit() - 0.5);
    let of_column = |j: usize| {
        let (mut s, mut t): (Vec<f64>, Vec<f64>) = (0..=j).map(|_| (small(0.02), small(0.05))).unzip();
        s[j] = 1.0 + small(0.2);
        t[j] += 1.0;
        Numbers { s, t, divisor: 1.0 + small(0.02), norm: 1.0 + small(0.2) }
    };
    (0..columns).map(of_column).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `H` and `R` by columns with so many of them, and the right-hand side along the first basis vector.
fn problem(numbers: &[Numbers], columns: usize) -> (Vec<Vec<f64>>, Vec<Vec<f64>>, f64) {
    let rows = columns + 1;
    let padded = |mut column: Vec<f64>| {
        column.resize(rows, 0.0);
        column
    };
    let (mut h, mut r): (Vec<Vec<f64>>, Vec<Vec<f64>>) = Default::default();
    for (j, Numbers { s, t, divisor, norm }) in numbers[..columns].iter().enumerate() {
        let alpha = (s[j] - dot(&s[..j], &s[..j])).sqrt();
        r.push(padded([&s[..j], &[alpha]].concat()));
        let diagonal = (t[j] - dot(&s[..j], &t[..j])) / alpha;
        h.push(padded([&t[..j], &[diagonal, divisor * norm]].concat()));
        if j > 0 {
            h[j - 1][j] = 0.0;
            let (before, r) = (numbers[j - 1].divisor, r[j].clone());
            h[j - 1].iter_mut().zip(r).for_each(|(h, r)| *h += before * r);
        }
    }
    (h, r, numbers[0].s[0].sqrt())
}

/// The `y` of the least `|right e_1 - H y|`, and that norm.
fn solution(h: &[Vec<f64>], right: f64) -> (Vec<f64>, f64) {
    let equation = |a: &Vec<f64>| h.iter().map(|b| dot(a, b)).chain([right * a[0]]).collect();
    let y = solved(h.iter().map(equation).collect());
    let mut rest = vec![0.0; h[0].len()];
    rest[0] = right;
    for (h, y) in h.iter().zip(&y) {
        rest.iter_mut().zip(h).for_each(|(rest, h)| *rest -= h * y);
    }
    (y, norm(&rest))
}

/// What the kernels work on.
struct Problem {
    device: Device,
    numbers: DeviceVec<f64>,
    vectors: DeviceVec<f64>,
    rotated: DeviceVec<f64>,
    rotations: DeviceVec<f64>,
    right: DeviceVec<f64>,
    newest: DeviceVec<f64>,
    results: DeviceVec<f64>,
}

impl Problem {
    fn new(device: &Device, numbers: &[Numbers], first_norm: f64) -> Self {
        let mut rows = vec![f64::NAN; RESTART * row(RESTART)];
        for (Numbers { s, t, divisor, norm }, row) in numbers.iter().zip(rows.chunks_mut(row(RESTART))) {
            let numbers = [s, t, &[*divisor, *norm][..]].concat();
            row[..numbers.len()].copy_from_slice(&numbers);
        }
        let empty = |len: usize| device.upload_vec(&vec![f64::NAN; len]).unwrap();
        let mut right = empty(RESTART + 1);
        right.slice_mut(..1).unwrap().fill(first_norm).unwrap();
        Self {
            device: device.clone(),
            numbers: device.upload_vec(&rows).unwrap(),
            vectors: empty(RESTART * RESTART),
            rotated: empty(RESTART * RESTART),
            rotations: empty(2 * RESTART),
            right,
            newest: empty(RESTART + 1),
            results: empty(2 * RESTART),
        }
    }

    fn rotate(&mut self, first: usize, count: usize) {
        let entry = Key { step: Step::Rotate, dtype: DType::F64 }.entry();
        let kernel = Kernel::<RotateArgs>::embedded(entry).unwrap();
        let mut launch = self.device.launch(&kernel, 1).unwrap();
        let args = RotateArgs {
            restart: RESTART as u32,
            first: first as u32,
            count: count as u32,
            precision: f64::EPSILON,
            numbers: launch.read("numbers", &self.numbers).unwrap(),
            vectors: launch.write("vectors", &mut self.vectors).unwrap(),
            rotated: launch.write("rotated", &mut self.rotated).unwrap(),
            rotations: launch.write("rotations", &mut self.rotations).unwrap(),
            right: launch.write("right", &mut self.right).unwrap(),
            newest: launch.write("newest", &mut self.newest).unwrap(),
            results: launch.write("results", &mut self.results).unwrap(),
        };
        // SAFETY: there is room for `RESTART` columns.
        unsafe { launch.run(args) }.unwrap();
    }

    /// `y`, or `R y`.
    fn solve<T: Scalar>(&self, columns: usize, along_basis: bool) -> Vec<f64> {
        let entry = Key { step: Step::Solve, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<SolveArgs<T>>::embedded(entry).unwrap();
        let mut y = self.device.upload_vec(&vec![f64::NAN; columns]).unwrap();
        let mut lengths = self.device.upload_vec(&vec![T::from_f64(f64::NAN); columns]).unwrap();
        let mut launch = self.device.launch(&kernel, 1).unwrap();
        let args = SolveArgs {
            restart: RESTART as u32,
            columns: columns as u32,
            along_basis: along_basis.into(),
            vectors: launch.read("vectors", &self.vectors).unwrap(),
            rotated: launch.read("rotated", &self.rotated).unwrap(),
            rotations: launch.read("rotations", &self.rotations).unwrap(),
            right: launch.read("right", &self.right).unwrap(),
            y: launch.write("y", &mut y).unwrap(),
            lengths: launch.write("lengths", &mut lengths).unwrap(),
        };
        // SAFETY: there are so many columns.
        unsafe { launch.run(args) }.unwrap();
        lengths.to_vec().unwrap().into_iter().map(T::to_f64).collect()
    }

    /// The norms and outcomes.
    fn results(&self) -> Vec<(f64, f64)> {
        self.results.to_vec().unwrap().chunks(2).map(|pair| (pair[0], pair[1])).collect()
    }
}

/// Columns in pieces of several sizes, and the solution after each piece.
pub(crate) fn solutions<T: Scalar>(device: &Device) {
    let first_norm = 3.0;
    let numbers = numbers(&mut Random(1), RESTART);
    let mut on_device = Problem::new(device, &numbers, first_norm);
    let mut known = 0;
    for columns in [1, 2, 4, 12, 31, 32, 33, 34, 64, 65, 70] {
        on_device.rotate(known, columns - known);
        let results = on_device.results();
        for (added, &(found, outcome)) in results[..columns].iter().enumerate().skip(known) {
            let (h, _, alpha) = problem(&numbers, added + 1);
            let (_, rest) = solution(&h, first_norm * alpha);
            assert!((found - rest).abs() <= 1e-12 * first_norm, "column {added}: {found} for {rest}");
            assert_eq!(outcome, outcome::FOUND, "column {added}");
        }
        let (h, r, alpha) = problem(&numbers, columns);
        let (y, _) = solution(&h, first_norm * alpha);
        let mut along_basis = vec![0.0; columns];
        for (r, y) in r.iter().zip(&y) {
            along_basis.iter_mut().zip(r).for_each(|(sum, r)| *sum += r * y);
        }
        for (along, expected) in [(false, y), (true, along_basis)] {
            let found = on_device.solve::<T>(columns, along);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let bound = 1e-11 * first_norm + epsilon::<T>() * expected.abs();
                assert!((found - expected).abs() <= bound, "{i} of {columns}: {found} for {expected}");
            }
        }
        known = columns;
    }
}

/// Columns that end a cycle; none follows.
pub(crate) fn ends(device: &Device) {
    for bad in [0, 1, 5, 33] {
        let ends = |outcome: f64, spoil: &dyn Fn(&mut Numbers)| {
            let mut numbers = numbers(&mut Random(2), RESTART);
            spoil(&mut numbers[bad]);
            let mut problem = Problem::new(device, &numbers, 1.0);
            problem.rotate(0, bad + 2);
            let results = problem.results();
            assert_eq!(results[bad].1, outcome, "column {bad}");
            assert!(results[..bad].iter().all(|&(_, outcome)| outcome == outcome::FOUND));
            let follows = outcome == outcome::INVARIANT;
            assert_eq!(results[bad + 1].1.is_nan(), !follows, "column after {bad}");
        };
        ends(outcome::INVARIANT, &|numbers| numbers.norm = 1e-17);
        ends(outcome::DEPENDENT, &|numbers| {
            let before = numbers.s.len() - 1;
            numbers.s[before] = dot(&numbers.s[..before], &numbers.s[..before]) * (1.0 - 1e-12);
        });
        ends(outcome::NOT_FINITE, &|numbers| numbers.t[0] = f64::NAN);
        ends(outcome::NOT_FINITE, &|numbers| *numbers.s.last_mut().unwrap() = f64::INFINITY);
        ends(outcome::NOT_FINITE, &|numbers| numbers.norm = f64::INFINITY);
    }
}

//! The kernels alone, against sums in `f64`.

use warpsparse::{
    Device, Kernel, Scalar,
    kernels_gpu::block_cg::{
        DirectionArgs, FactorArgs, GramArgs, InvertArgs, Key, Operation, ResidualArgs, SumArgs, grid_size, padded,
        progress, sum_grid_size, width,
    },
};

use crate::common::{Random, assert_within, sums::Sum};

/// The true rows and columns, and the tall matrices, which are zero beyond.
struct Case<T> {
    n: usize,
    k: usize,
    rows: u32,
    width: u32,
    blocks: u32,
    scale: Vec<T>,
    tall: [Vec<T>; 3],
    small: [Vec<T>; 3],
}

pub(crate) fn all<T: Scalar>(device: &Device) {
    let sizes = [(1, 1), (33, 5), (256, 8), (300, 9), (130, 16), (1, 32), (63, 31), (128, 32), (321, 32)];
    for (n, k) in sizes {
        let mut case = Case::<T>::random(n, k);
        // The second time a block has several tiles.
        for blocks in [grid_size(case.rows), 1] {
            case.blocks = blocks;
            gram(device, &case);
            residual(device, &case);
            direction(device, &case);
        }
    }
    sum_of_many_blocks(device);
    for size in [1, 7, 16, 31, 32] {
        inverse::<T>(device, size);
        factors::<T>(device, size);
    }
    ends_of_factor::<T>(device);
}

/// Of a matrix with one column that depends on others, if there is room, between factors of very different sizes.
fn inverse<T: Scalar>(device: &Device, size: usize) {
    let (width, scale) = (width(size as u32) as usize, |i: usize| 10f64.powi((i % 7) as i32 - 3));
    let kept = if size > 4 { size - 1 } else { size };
    let element = |i: usize, j: usize| {
        let last = i.max(j);
        let (i, j) = (i.min(kept - 1), j.min(kept - 1));
        let of_i_and_j = if i == j { 4.0 } else { 1.0 / (1 + i + j) as f64 };
        if last < size { of_i_and_j } else { 0.0 }
    };
    let gram: Vec<f64> =
        (0..width * width).map(|at| element(at / width, at % width) * scale(at / width) * scale(at % width)).collect();
    let kernel = Kernel::<InvertArgs<T>>::embedded(Key { operation: Operation::Invert(T::DTYPE) }.entry()).unwrap();
    let run = |gram: &[f64]| {
        let gram = device.upload_vec(gram).unwrap();
        let mut factor = device.upload_vec(&vec![T::from_f64(7.0); width * width]).unwrap();
        let mut inverse = device.upload_vec(&vec![7.0; width * width]).unwrap();
        let state = device.upload_vec(&[progress::ENDED, size as u32, 0]).unwrap();
        let mut launch = device.launch(&kernel, 1).unwrap();
        let args = InvertArgs {
            width: width as u32,
            state: launch.read("state", &state).unwrap(),
            gram: launch.read("gram", &gram).unwrap(),
            factor: launch.write("factor", &mut factor).unwrap(),
            inverse: launch.write("inverse", &mut inverse).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        (factor.to_vec().unwrap(), inverse.to_vec().unwrap())
    };
    let (factor, inverse) = run(&gram);
    for i in 0..width {
        for j in 0..width {
            let exact = if i == j && i < kept { -1.0 } else { 0.0 };
            let product: f64 = (0..width)
                .map(|k| inverse[i * width + k] * scale(i) * scale(k) * gram[k * width + j] / (scale(k) * scale(j)))
                .sum();
            // The column that is left out has no inverse.
            assert!(j >= kept || (product - exact).abs() <= 1e-13, "{size}: {i}, {j}: {product}");
            assert!(i < kept && j < kept || inverse[i * width + j] == 0.0, "{size}: {i}, {j}");
        }
    }
    assert!(factor.iter().zip(&inverse).all(|(factor, inverse)| *factor == T::from_f64(*inverse)));
    // A last element that makes the matrix indefinite.
    let mut indefinite = gram;
    indefinite[(size - 1) * (width + 1)] *= -1.0;
    assert!(run(&indefinite).1.iter().all(|element| element.is_nan()), "{size}");
}

/// The arguments of `factor`, and what becomes of them.
#[derive(Clone)]
struct Small<T> {
    width: usize,
    gram: Vec<f64>,
    inverse: Vec<f64>,
    limits: Vec<f64>,
    factors: Vec<T>,
    c: Vec<f64>,
    state: Vec<u32>,
    log: Vec<f64>,
}

impl<T: Scalar> Small<T> {
    /// `G = Y^T Y` for so many columns `Y` with 40 rows, of sizes from 1e-3 to 1e3, and columns that are sums of others.
    fn random(size: usize, dependent: usize) -> Self {
        let (width, mut random) = (width(size as u32) as usize, Random(size as u64));
        let mut y: Vec<Vec<f64>> = (0..size).map(|_| random.vector::<f64>(40)).collect();
        for col in size - dependent..size {
            y[col] = (0..40).map(|row| y[0][row] - y[col / 2][row]).collect();
        }
        let scale = |i: usize| 10f64.powi((i % 7) as i32 - 3);
        let dot = |i: usize, j: usize| y[i].iter().zip(&y[j]).map(|(a, b)| a * b).sum::<f64>() * scale(i) * scale(j);
        let square = |element: &mut dyn FnMut(usize, usize) -> f64| -> Vec<f64> {
            let of_all = (0..width * width).map(|at| (at / width, at % width));
            of_all.map(|(i, j)| if i < size && j < size { element(i, j) } else { 0.0 }).collect()
        };
        Self {
            width,
            gram: square(&mut |i, j| dot(i, j)),
            inverse: square(&mut |_, _| random.next_unit()),
            limits: (0..width).map(|j| if j < size && j % 3 != 1 { 0.0 } else { -1.0 }).collect(),
            factors: vec![T::from_f64(7.0); 3 * width * width],
            c: square(&mut |_, _| random.next_unit()),
            state: vec![progress::RUNS, size as u32, 5],
            log: vec![f64::NAN; width + 2],
        }
    }

    fn run(mut self, device: &Device) -> Self {
        let kernel = Kernel::<FactorArgs<T>>::embedded(Key { operation: Operation::Factor(T::DTYPE) }.entry()).unwrap();
        let upload = |values: &[f64]| device.upload_vec(values).unwrap();
        let (gram, inverse, limits) = (upload(&self.gram), upload(&self.inverse), upload(&self.limits));
        let (mut c, mut log) = (upload(&self.c), upload(&self.log));
        let mut factors = device.upload_vec(&self.factors).unwrap();
        let mut state = device.upload_vec(&self.state).unwrap();
        let mut launch = device.launch(&kernel, 1).unwrap();
        let args = FactorArgs {
            width: self.width as u32,
            gram: launch.read("gram", &gram).unwrap(),
            inverse: launch.read("inverse", &inverse).unwrap(),
            limits: launch.read("limits", &limits).unwrap(),
            factors: launch.write("factors", &mut factors).unwrap(),
            c: launch.write("c", &mut c).unwrap(),
            state: launch.write("state", &mut state).unwrap(),
            log: launch.write("log", &mut log).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        self.factors = factors.to_vec().unwrap();
        (self.c, self.state, self.log) = (c.to_vec().unwrap(), state.to_vec().unwrap(), log.to_vec().unwrap());
        self
    }

    fn factor(&self, which: usize, i: usize, j: usize) -> f64 {
        self.factors[(which * self.width + i) * self.width + j].to_f64()
    }
}

/// Of independent columns, and of some that depend on others.
fn factors<T: Scalar>(device: &Device, size: usize) {
    let dependent = if size > 10 { 3 } else { 0 };
    let before = Small::<T>::random(size, dependent);
    let after = before.clone().run(device);
    let (width, rank) = (before.width, size - dependent);
    assert_eq!(after.state, [progress::RUNS, rank as u32, 1], "{size}");
    let at = |i: usize, j: usize| i * width + j;
    // The factors are rounded to T.
    let eps = if T::from_f64(1.0 + 1e-10) == T::from_f64(1.0) { 2e-4 } else { 1e-10 };
    let norm = |j: usize| before.gram[at(j, j)].sqrt();
    for i in 0..width {
        for j in 0..width {
            let name = format!("{size}: {i}, {j}");
            // R^T G R = I.
            let mut product = 0.0;
            for k in 0..size {
                for l in 0..size {
                    product += after.factor(0, k, i) * before.gram[at(k, l)] * after.factor(0, l, j);
                }
            }
            let exact = if i == j && i < rank { 1.0 } else { 0.0 };
            assert!((product - exact).abs() <= eps, "R, {name}: {product}");
            // Z^T Z = G.
            let product: f64 = (0..width).map(|k| after.factor(1, i, k) * after.factor(1, j, k)).sum();
            assert!((product - before.gram[at(i, j)]).abs() <= eps * norm(i) * norm(j), "Z, {name}: {product}");
            let exact: f64 = match before.limits[j] >= 0.0 {
                true => -(0..size).map(|k| before.inverse[at(i, k)] * before.c[at(k, j)]).sum::<f64>(),
                false => 0.0,
            };
            assert!((after.factor(2, i, j) - exact).abs() <= eps, "D, {name}");
            let terms = (0..size).map(|k| after.factor(1, k, i) * before.c[at(k, j)]);
            let bound = eps * (0..size).map(norm).sum::<f64>();
            assert!((after.c[at(i, j)] - terms.sum::<f64>()).abs() <= bound, "C, {name}");
        }
        let length = (0..width).map(|k| after.c[at(k, i)].powi(2)).sum::<f64>().sqrt();
        assert!((after.log[i] - length).abs() <= 1e-14 * length, "{size}: the norm of column {i}");
    }
    assert_eq!(after.log[width..], [f64::from(progress::RUNS), rank as f64]);
}

/// Where the iterations do not go on like that.
fn ends_of_factor<T: Scalar>(device: &Device) {
    let before = Small::<T>::random(9, 0);
    let unlimited = before.clone().run(device);
    // The limit of one column is its norm.
    let mut limits = before.limits.clone();
    limits[6] = unlimited.log[6];
    let ended = Small { limits, ..before.clone() }.run(device);
    assert_eq!((ended.state, ended.log[16]), (vec![progress::ENDED, 9, 1], f64::from(progress::ENDED)));
    assert_eq!((ended.c, ended.factors), (unlimited.c, unlimited.factors));

    let unchanged = |found: Small<T>, end: u32, log: f64| {
        assert_eq!((&found.state, found.log[16], found.log[17]), (&vec![end, 9, 0], log, 9.0));
        assert!(found.c == before.c && found.factors == before.factors, "{end}");
    };
    for end in [progress::ENDED, progress::TWICE, progress::NO_INVERSE] {
        unchanged(Small { state: vec![end, 9, 1], ..before.clone() }.run(device), end, -1.0);
    }
    let with = |change: &dyn Fn(&mut Small<T>)| {
        let mut changed = before.clone();
        change(&mut changed);
        changed.run(device)
    };
    let found = with(&|small| small.gram[8 * 17] = f64::INFINITY);
    unchanged(found, progress::NOT_FINITE, f64::from(progress::NOT_FINITE));
    let found = with(&|small| small.inverse[5] = f64::NAN);
    unchanged(found, progress::NO_INVERSE, f64::from(progress::NO_INVERSE));
    // Two columns at an angle of 1e-3.
    let near = |small: &mut Small<T>| {
        let (a, b) = (small.gram[0].sqrt(), small.gram[17].sqrt());
        for k in 0..9 {
            small.gram[16 + k] = small.gram[k] * b / a;
            small.gram[16 * k + 1] = small.gram[16 * k] * b / a;
        }
        small.gram[17] = b * b * (1.0 + 1e-6);
    };
    unchanged(with(&near), progress::TWICE, f64::from(progress::TWICE));
}

fn sum_of_many_blocks(device: &Device) {
    let case = Case::<f64> { blocks: 70, ..Case::random(1, 9) };
    let square = (case.width * case.width) as usize;
    let partials = Random(5).vector::<f64>(70 * square);
    let sums: Vec<_> = (0..square)
        .map(|at| partials.iter().skip(at).step_by(square).copied().collect::<Sum>().bounded::<f64>(0.0))
        .collect();
    assert_within("the sum of 70 blocks", &sum(device, &case, &device.upload_vec(&partials).unwrap()), &sums);
}

impl<T: Scalar> Case<T> {
    fn random(n: usize, k: usize) -> Self {
        let (width, mut random) = (width(k as u32), Random((100 * n + k) as u64));
        let filled = |random: &mut Random, rows: usize, all_rows: usize| {
            let element = |at: usize, value: f64| {
                let exists = at / (width as usize) < rows && at % (width as usize) < k;
                T::from_f64(if exists { value } else { 0.0 })
            };
            (0..all_rows * width as usize).map(|at| element(at, random.next_unit())).collect::<Vec<T>>()
        };
        let tall = [0; 3].map(|_| filled(&mut random, n, padded(n)));
        let small = [0; 3].map(|_| filled(&mut random, k, width as usize));
        let mut scale = vec![T::default(); padded(n)];
        scale[..n].iter_mut().for_each(|scale| *scale = T::from_f64(1.5 + random.next_unit()));
        Self { n, k, rows: padded(n) as u32, width, blocks: 1, scale, tall, small }
    }

    fn name(&self, what: &str) -> String {
        format!("{what}, {} rows, {} columns", self.n, self.k)
    }

    fn of_tall(&self, which: usize, row: usize, col: usize) -> f64 {
        self.tall[which][row * self.width as usize + col].to_f64()
    }

    fn of_small(&self, which: usize, row: usize, col: usize) -> f64 {
        self.small[which][row * self.width as usize + col].to_f64()
    }

    fn weight(&self, row: usize) -> f64 {
        self.scale[row].to_f64().powi(2)
    }

    /// The terms of an element of a tall matrix times a small one.
    fn product(&self, (tall, small): (usize, usize), row: usize, col: usize) -> impl Iterator<Item = f64> {
        (0..self.k).map(move |i| self.of_tall(tall, row, i) * self.of_small(small, i, col))
    }

    /// The sums of all elements of a tall matrix, of these terms.
    fn sums(&self, terms: impl Fn(usize, usize) -> Vec<f64>) -> Vec<(f64, f64)> {
        let width = self.width as usize;
        (0..self.rows as usize * width)
            .map(|at| terms(at / width, at % width).into_iter().collect::<Sum>().bounded::<T>(0.0))
            .collect()
    }

    fn partials(&self) -> usize {
        (grid_size(self.rows) * self.width * self.width) as usize
    }

    /// `y^T W z` for functions of row and column, and what sums in `f64` may be off.
    fn gram(&self, y: impl Fn(usize, usize) -> f64, z: impl Fn(usize, usize) -> f64) -> Vec<(f64, f64)> {
        let width = self.width as usize;
        (0..width * width)
            .map(|at| {
                let terms = (0..self.n).map(|row| self.weight(row) * y(row, at / width) * z(row, at % width));
                // The product of the roots is rounded too.
                let (sum, bound) = terms.collect::<Sum>().bounded::<f64>(0.0);
                (sum, 4.0 * bound)
            })
            .collect()
    }
}

/// Adds up what blocks have stored.
fn sum<T: Scalar>(device: &Device, case: &Case<T>, partials: &warpsparse::DeviceVec<f64>) -> Vec<f64> {
    let kernel = Kernel::<SumArgs>::embedded(Key { operation: Operation::Sum }.entry()).unwrap();
    let mut gram = device.upload_vec(&vec![f64::NAN; (case.width * case.width) as usize]).unwrap();
    let mut launch = device.launch(&kernel, sum_grid_size(case.width)).unwrap();
    let args = SumArgs {
        width: case.width,
        blocks: case.blocks,
        partials: launch.read("partials", partials).unwrap(),
        gram: launch.write("gram", &mut gram).unwrap(),
    };
    // SAFETY: the vectors are as long as the kernel needs.
    unsafe { launch.run(args) }.unwrap();
    gram.to_vec().unwrap()
}

fn gram<T: Scalar>(device: &Device, case: &Case<T>) {
    let kernel = Kernel::<GramArgs<T>>::embedded(Key { operation: Operation::Gram(T::DTYPE) }.entry()).unwrap();
    let [y, z] = [0, 1].map(|which| device.upload_vec(&case.tall[which]).unwrap());
    let scale = device.upload_vec(&case.scale).unwrap();
    let mut partials = device.upload_vec(&vec![f64::NAN; case.partials()]).unwrap();
    let mut launch = device.launch(&kernel, case.blocks).unwrap();
    let args = GramArgs {
        rows: case.rows,
        width: case.width,
        y: launch.read("y", &y).unwrap(),
        z: launch.read("z", &z).unwrap(),
        scale: launch.read("scale", &scale).unwrap(),
        partials: launch.write("partials", &mut partials).unwrap(),
    };
    // SAFETY: the vectors are as long as the kernel needs.
    unsafe { launch.run(args) }.unwrap();
    let expected = case.gram(|row, col| case.of_tall(0, row, col), |row, col| case.of_tall(1, row, col));
    assert_within(&case.name("gram"), &sum(device, case, &partials), &expected);
}

fn residual<T: Scalar>(device: &Device, case: &Case<T>) {
    let entry = Key { operation: Operation::Residual(T::DTYPE) }.entry();
    let kernel = Kernel::<ResidualArgs<T>>::embedded(entry).unwrap();
    let [mut q, v] = [0, 1].map(|which| device.upload_vec(&case.tall[which]).unwrap());
    let (factor, scale) = (device.upload_vec(&case.small[0]).unwrap(), device.upload_vec(&case.scale).unwrap());
    let mut partials = device.upload_vec(&vec![f64::NAN; case.partials()]).unwrap();
    let mut run = |progress: u32| {
        let state = device.upload_vec(&[progress, 0, 0]).unwrap();
        let mut launch = device.launch(&kernel, case.blocks).unwrap();
        let args = ResidualArgs {
            rows: case.rows,
            width: case.width,
            v: launch.read("v", &v).unwrap(),
            factor: launch.read("factor", &factor).unwrap(),
            scale: launch.read("scale", &scale).unwrap(),
            state: launch.read("state", &state).unwrap(),
            q: launch.write("q", &mut q).unwrap(),
            partials: launch.write("partials", &mut partials).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        q.to_vec().unwrap()
    };
    assert!(run(progress::TWICE) == case.tall[0]);
    let found = run(progress::RUNS);
    let terms = |row, col| {
        let mut terms: Vec<f64> = case.product((1, 0), row, col).collect();
        terms.push(case.of_tall(0, row, col));
        terms
    };
    assert_within(&case.name("residual"), &found, &case.sums(terms));
    // The Gram matrix is that of the rounded result.
    let q = |row: usize, col: usize| found[row * case.width as usize + col].to_f64();
    assert_within(&case.name("residual's gram"), &sum(device, case, &partials), &case.gram(q, q));
}

fn direction<T: Scalar>(device: &Device, case: &Case<T>) {
    let entry = Key { operation: Operation::Direction(T::DTYPE) }.entry();
    let kernel = Kernel::<DirectionArgs<T>>::embedded(entry).unwrap();
    let [mut q, mut s, mut x] = [0, 1, 2].map(|which| device.upload_vec(&case.tall[which]).unwrap());
    let factors = device.upload_vec(&case.small.concat()).unwrap();
    let scale = device.upload_vec(&case.scale).unwrap();
    let mut run = |moves: u32| {
        let state = device.upload_vec(&[progress::ENDED, 0, moves]).unwrap();
        let mut launch = device.launch(&kernel, case.blocks).unwrap();
        let args = DirectionArgs {
            rows: case.rows,
            width: case.width,
            factors: launch.read("factors", &factors).unwrap(),
            scale: launch.read("scale", &scale).unwrap(),
            state: launch.read("state", &state).unwrap(),
            q: launch.write("q", &mut q).unwrap(),
            s: launch.write("s", &mut s).unwrap(),
            x: launch.write("x", &mut x).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        [q.to_vec().unwrap(), s.to_vec().unwrap(), x.to_vec().unwrap()]
    };
    assert!(run(0) == case.tall);
    let [q, s, x] = run(1);
    assert_within(&case.name("q"), &q, &case.sums(|row, col| case.product((0, 0), row, col).collect()));
    let of_s = |row, col| {
        let weight = if row < case.n { case.weight(row) } else { 0.0 };
        let of_q = case.product((0, 0), row, col).map(|term| weight * term);
        of_q.chain(case.product((1, 1), row, col)).collect()
    };
    assert_within(&case.name("s"), &s, &case.sums(of_s));
    let of_x = |row, col| {
        let mut terms: Vec<f64> = case.product((1, 2), row, col).collect();
        terms.push(case.of_tall(2, row, col));
        terms
    };
    assert_within(&case.name("x"), &x, &case.sums(of_x));
}

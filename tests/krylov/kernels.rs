//! The kernels alone, against sums in `f64`.

use std::ptr;

use warpsparse::{
    Device, Kernel, Scalar,
    kernels_gpu::{
        bicgstab::{self, DirectionArgs, DotsArgs, Step, UpdateArgs},
        factor::Factor,
        vector_basis::{self, CombineArgs, combine_grid_size, dots_grid_size, groups},
    },
};

use crate::common::{
    Random, assert_within,
    sums::{Sum, epsilon},
};

/// A sum in `f64` that is rounded once.
fn rounded_once<T: Scalar>(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    let (sum, bound) = terms.collect::<Sum>().bounded::<f64>(0.0);
    (sum, bound + epsilon::<T>() * sum.abs())
}

fn norm_of<T: Scalar>(x: &[T]) -> (f64, f64) {
    let (square, bound) = x.iter().map(|x| x.to_f64() * x.to_f64()).collect::<Sum>().bounded::<f64>(0.0);
    let norm = square.sqrt();
    (norm, if norm == 0.0 { 0.0 } else { 0.5 * bound / norm + 2.0 * epsilon::<T>() * norm })
}

/// Vectors in a row, with numbers between them that belong to none.
struct Basis<T> {
    n: usize,
    count: usize,
    stride: usize,
    v: Vec<T>,
}

/// What the next two vectors are computed from, and the numbers that come of it.
struct Numbers<T> {
    sums: Vec<f64>,
    scale: T,
}

impl<T: Scalar> Basis<T> {
    fn vector(&self, i: usize) -> &[T] {
        &self.v[i * self.stride..][..self.n]
    }

    /// `V^T w` for the last vector `w`, and `V^T u`; with fewer blocks, that take several chunks, if `strips` says how many.
    fn dots(&self, device: &Device, strips: Option<u32>, u: &[T]) -> Vec<f64> {
        let entry = vector_basis::Key { step: vector_basis::Step::Dots, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<vector_basis::DotsArgs<T>>::embedded(entry).unwrap();
        let (n, count) = (self.n as u64, self.count as u32);
        let most = dots_grid_size::<T>(n, count) as u32;
        let v = device.upload_vec(&self.v[..(self.count - 1) * self.stride + self.n]).unwrap();
        let u = device.upload_vec(u).unwrap();
        let mut sums = device.upload_vec(&vec![f64::NAN; 2 * self.count]).unwrap();
        let mut partials = device.upload_vec(&vec![f64::NAN; 16 * most as usize]).unwrap();
        let mut arrivals = device.zeros(groups(count) as usize).unwrap();
        let mut launch = device.launch(&kernel, strips.map_or(most, |strips| strips * groups(count))).unwrap();
        let args = vector_basis::DotsArgs {
            n,
            count,
            stride: self.stride as u64,
            v: launch.read("v", &v).unwrap(),
            u: launch.read("u", &u).unwrap(),
            sums: launch.write("sums", &mut sums).unwrap(),
            partials: launch.write("partials", &mut partials).unwrap(),
            arrivals: launch.write("arrivals", &mut arrivals).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        assert!(arrivals.to_vec().unwrap().iter().all(|&arrivals| arrivals == 0));
        sums.to_vec().unwrap()
    }

    /// Makes the last vector orthonormal, and appends the next one. `sums` gets two numbers more.
    fn extend(&mut self, device: &Device, blocks: Option<u32>, u: &[T], numbers: &mut Numbers<T>) {
        let entry = vector_basis::Key { step: vector_basis::Step::Extend, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<vector_basis::ExtendArgs<T>>::embedded(entry).unwrap();
        let n = self.n as u64;
        self.v.resize(self.count * self.stride + self.n, T::from_f64(f64::NAN));
        let (mut v, u) = (device.upload_vec(&self.v).unwrap(), device.upload_vec(u).unwrap());
        numbers.sums.extend([f64::NAN; 2]);
        let mut sums = device.upload_vec(&numbers.sums).unwrap();
        let mut scale = device.upload_vec(&[numbers.scale]).unwrap();
        let mut workspace = Sums::new(device);
        let mut launch = device.launch(&kernel, blocks.unwrap_or(combine_grid_size::<T>(n) as u32)).unwrap();
        let args = vector_basis::ExtendArgs {
            n,
            count: self.count as u32,
            stride: self.stride as u64,
            v: launch.write("v", &mut v).unwrap(),
            u: launch.read("u", &u).unwrap(),
            sums: launch.write("sums", &mut sums).unwrap(),
            scale: launch.write("scale", &mut scale).unwrap(),
            workspace: vector_basis::Workspace {
                partials: launch.write("partials", &mut workspace.partials).unwrap(),
                arrivals: launch.write("arrivals", &mut workspace.arrivals).unwrap(),
            },
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        (self.v, self.count) = (v.to_vec().unwrap(), self.count + 1);
        *numbers = Numbers { sums: sums.to_vec().unwrap(), scale: scale.to_vec().unwrap()[0] };
    }

    /// `w + V h`.
    fn combine(&self, device: &Device, blocks: Option<u32>, h: &[T], w: &[T]) -> Vec<T> {
        let entry = vector_basis::Key { step: vector_basis::Step::Combine, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<CombineArgs<T>>::embedded(entry).unwrap();
        let n = self.n as u64;
        let (v, h, mut w) = [&self.v, h, w].map(|x| device.upload_vec(x).unwrap()).into();
        let mut launch = device.launch(&kernel, blocks.unwrap_or(combine_grid_size::<T>(n) as u32)).unwrap();
        let args = CombineArgs {
            n,
            count: self.count as u32,
            stride: self.stride as u64,
            v: launch.read("v", &v).unwrap(),
            h: launch.read("h", &h).unwrap(),
            w: launch.write("w", &mut w).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        w.to_vec().unwrap()
    }
}

/// Where blocks leave their sums.
struct Sums {
    partials: warpsparse::DeviceVec<f64>,
    arrivals: warpsparse::DeviceVec<u32>,
}

impl Sums {
    fn new(device: &Device) -> Self {
        let partials = device.upload_vec(&vec![f64::NAN; vector_basis::PARTIALS]).unwrap();
        Self { partials, arrivals: device.zeros(vector_basis::ARRIVALS).unwrap() }
    }
}

/// Dot products with all vectors, the next vectors, and linear combinations.
pub(crate) fn products<T: Scalar>(device: &Device) {
    let aligned = |n: usize| n.next_multiple_of(4);
    let sizes = [(0, 1), (1, 1), (2, 3), (3, 8), (257, 9), (1030, 16), (1500, 21), (2600, 2)];
    for (n, count, stride) in sizes.into_iter().flat_map(|(n, count)| [(n, count, aligned(n)), (n, count, n + 1)]) {
        let mut random = Random((31 * n + count) as u64);
        let mut v = random.vector::<T>(count * stride);
        v.truncate((count - 1) * stride + n);
        let basis = Basis { n, count, stride, v };
        let (u, h) = (random.vector::<T>(n), random.vector::<T>(count));
        for fewer in [None, Some(1), Some(2)].into_iter().filter(|fewer| fewer.is_none() || n > 2048) {
            let case = format!("{count} vectors of {n}, {stride} apart, {fewer:?}");
            let dots = basis.dots(device, fewer, &u);
            let dot = |i, other: &[T]| {
                let terms = basis.vector(i).iter().zip(other).map(|(v, w)| v.to_f64() * w.to_f64());
                terms.collect::<Sum>().bounded::<f64>(0.0)
            };
            let of_all = |other: &[T]| (0..count).map(|i| dot(i, other)).collect::<Vec<_>>();
            assert_within(&case, &dots, &[of_all(basis.vector(count - 1)), of_all(&u)].concat());

            let new = basis.combine(device, fewer, &h, &u);
            let terms = |at: usize| {
                let terms = (0..count).map(|i| h[i].to_f64() * basis.vector(i)[at].to_f64());
                rounded_once::<T>(terms.chain([u[at].to_f64()]).collect::<Vec<_>>().into_iter())
            };
            assert_within(&case, &new, &(0..n).map(terms).collect::<Vec<_>>());
            for scale in [0.0, 0.125, 64.0] {
                next_vectors(&case, device, fewer, &basis, &u, T::from_f64(scale));
            }
        }
    }
}

/// The next two vectors after some that are not orthogonal, for sums that are not theirs.
fn next_vectors<T: Scalar>(case: &str, device: &Device, blocks: Option<u32>, basis: &Basis<T>, u: &[T], scale: T) {
    let Basis { n, count, stride, ref v } = *basis;
    let before = count - 1;
    let random = Random(count as u64).vector::<f64>(2 * count);
    let (mut s, t) = (random[..count].to_vec(), &random[count..]);
    let product = |x: &[f64]| -> f64 { s[..before].iter().zip(x).map(|(s, x)| s * x).sum() };
    let (alpha, st) = (1.5f64, product(t));
    let last = product(&s) + alpha * alpha;
    s[before] = last;
    let mut extended = Basis { n, count, stride, v: v.clone() };
    let mut numbers = Numbers { sums: [&s, t].concat(), scale };
    extended.extend(device, blocks, u, &mut numbers);

    // What rounding the numbers above may change besides.
    let slack =
        |(sum, bound): (f64, f64), by: f64| (sum / by, bound / by + 16.0 * f64::EPSILON * (1.0 + sum.abs()) / by);
    let at = |i: usize, at: usize| extended.vector(i)[at].to_f64();
    let of_w = |place: usize| {
        let terms = (0..before).map(|i| -s[i] * at(i, place)).chain([basis.vector(before)[place].to_f64()]);
        slack(rounded_once::<T>(terms.collect::<Vec<_>>().into_iter()), alpha)
    };
    assert_within(case, extended.vector(before), &(0..n).map(of_w).collect::<Vec<_>>());
    let (c, divisor) = ((t[before] - st) / alpha, if scale == T::default() { 1.0 } else { scale.to_f64() });
    let of_u = |place: usize| {
        let terms = (0..before).map(|i| -t[i] * at(i, place)).chain([u[place].to_f64(), -c * at(before, place)]);
        slack(rounded_once::<T>(terms.collect::<Vec<_>>().into_iter()), divisor)
    };
    assert_within(case, extended.vector(count), &(0..n).map(of_u).collect::<Vec<_>>());
    // The vectors before stay as they are.
    assert!((0..before).all(|i| extended.vector(i) == basis.vector(i)), "{case}");
    let norm = norm_of(extended.vector(count));
    assert_within(case, &numbers.sums[2 * count..], &[(divisor, 0.0), norm]);
    let (norm, norm_of_w) = (numbers.sums[2 * count + 1], numbers.sums[before].sqrt());
    assert_eq!(numbers.scale, T::from_f64(divisor * norm / norm_of_w), "{case}");
}

/// Classical Gram-Schmidt, twice, of vectors that are almost linearly dependent: the powers of numbers between 0 and 1.
pub(crate) fn orthogonality<T: Scalar>(device: &Device) {
    let (n, most) = (150, 12);
    let power = |i: usize| -> Vec<T> { (0..n).map(|at| T::from_f64((at as f64 / n as f64).powi(i as i32))).collect() };
    let mut basis = Basis { n, count: 1, stride: n + 2, v: power(0) };
    let (mut once, mut scale) = (0.0f64, T::from_f64(1.0));
    for i in 1..=most {
        let u = power(i);
        let mut numbers = Numbers { sums: basis.dots(device, None, &u), scale };
        let largest = numbers.sums[..i - 1].iter().fold(0.0f64, |largest, s| largest.max(s.abs()));
        once = once.max(largest / numbers.sums[i - 1].sqrt());
        basis.extend(device, None, &u, &mut numbers);
        scale = numbers.scale;
    }
    for i in 0..most {
        for j in 0..=i {
            let dot: f64 = basis.vector(i).iter().zip(basis.vector(j)).map(|(a, b)| a.to_f64() * b.to_f64()).sum();
            let exact = if i == j { 1.0 } else { 0.0 };
            assert!((dot - exact).abs() <= 32.0 * epsilon::<T>(), "{i}, {j}: {dot:e}");
        }
    }
    // One pass does not suffice.
    assert!(once > 1e3 * epsilon::<T>(), "{once:e}");
}

/// The steps of BiCGSTAB.
pub(crate) fn steps<T: Scalar>(device: &Device) {
    for n in [0, 1, 2, 3, 257, 1030, 2600] {
        for blocks in [None, Some(1)].into_iter().filter(|blocks| blocks.is_none() || n > 2048) {
            let blocks = blocks.unwrap_or(bicgstab::grid_size::<T>(n as u64) as u32);
            let mut random = Random(n as u64);
            let mut case = Case { n, vectors: [0; 6].map(|_| random.vector::<T>(n)), blocks };
            case.dots(device);
            case.update(device, false);
            case.update(device, true);
            case.direction(device);
            // A NaN at the end does not hide among elements beyond it.
            if let Some(last) = case.vectors[2].last_mut() {
                *last = T::from_f64(f64::NAN);
                let log = case.updated(device, false).log;
                assert!(log[1].to_f64().is_nan() && log[2].to_f64().is_nan(), "{n}");
            }
        }
    }
}

struct Case<T> {
    n: usize,
    vectors: [Vec<T>; 6],
    blocks: u32,
}

/// What an update leaves.
struct Updated<T> {
    y: Vec<T>,
    r: Vec<T>,
    log: Vec<T>,
    rho: T,
}

/// The factors: 0.75 / 1.5 and -0.5.
const ALPHA: f64 = 0.5;
const OMEGA: f64 = -0.5;

impl<T: Scalar> Case<T> {
    fn products(&self, x: usize, y: usize) -> (f64, f64) {
        rounded_once::<T>(self.vectors[x].iter().zip(&self.vectors[y]).map(|(x, y)| x.to_f64() * y.to_f64()))
    }

    fn dots(&self, device: &Device) {
        let entry = bicgstab::Key { step: Step::Dots, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<DotsArgs<T>>::embedded(entry).unwrap();
        let [s, t] = [0, 1].map(|which| device.upload_vec(&self.vectors[which]).unwrap());
        let [mut ts, mut tt] = [0; 2].map(|_| device.upload_vec(&[T::from_f64(7.0)]).unwrap());
        let mut sums = Sums::new(device);
        let mut launch = device.launch(&kernel, self.blocks).unwrap();
        let args = DotsArgs {
            n: self.n as u64,
            s: launch.read("s", &s).unwrap(),
            t: launch.read("t", &t).unwrap(),
            ts: launch.write("ts", &mut ts).unwrap(),
            tt: launch.write("tt", &mut tt).unwrap(),
            workspace: bicgstab::Workspace {
                partials: launch.write("partials", &mut sums.partials).unwrap(),
                arrivals: launch.write("arrivals", &mut sums.arrivals).unwrap(),
            },
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        let found = [ts.to_vec().unwrap()[0], tt.to_vec().unwrap()[0]];
        assert_within(&format!("dots of {}", self.n), &found, &[self.products(0, 1), self.products(1, 1)]);
    }

    /// Vectors are `M p`, `M s`, `t`, the shadow residual, `y` and `s`.
    fn updated(&self, device: &Device, with_m: bool) -> Updated<T> {
        let entry = bicgstab::Key { step: Step::Update, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<UpdateArgs<T>>::embedded(entry).unwrap();
        let [mp, ms, t, shadow, mut y, mut r] =
            [0, 1, 2, 3, 4, 5].map(|which| device.upload_vec(&self.vectors[which]).unwrap());
        let scalar = |value: f64| device.upload_vec(&[T::from_f64(value)]).unwrap();
        let (numerator, denominator, half, mut rho) = (scalar(0.75), scalar(1.5), scalar(0.125), scalar(7.0));
        let mut log = device.upload_vec(&[T::from_f64(7.0); 3]).unwrap();
        let mut sums = Sums::new(device);
        let mut launch = device.launch(&kernel, self.blocks).unwrap();
        let args = UpdateArgs {
            n: self.n as u64,
            alpha: Factor {
                value: T::from_f64(1.0),
                numerator: launch.read("numerator", &numerator).unwrap(),
                denominator: launch.read("denominator", &denominator).unwrap(),
            },
            omega: Factor::of(T::from_f64(OMEGA)),
            mp: launch.read("mp", &mp).unwrap(),
            ms: if with_m { launch.read("ms", &ms).unwrap() } else { ptr::null() },
            t: launch.read("t", &t).unwrap(),
            shadow: launch.read("shadow", &shadow).unwrap(),
            y: launch.write("y", &mut y).unwrap(),
            r: launch.write("r", &mut r).unwrap(),
            rho: launch.write("rho", &mut rho).unwrap(),
            half: launch.read("half", &half).unwrap(),
            log: launch.write("log", &mut log).unwrap(),
            workspace: bicgstab::Workspace {
                partials: launch.write("partials", &mut sums.partials).unwrap(),
                arrivals: launch.write("arrivals", &mut sums.arrivals).unwrap(),
            },
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        let [y, r, log] = [y, r, log].map(|x| x.to_vec().unwrap());
        Updated { y, r, log, rho: rho.to_vec().unwrap()[0] }
    }

    fn update(&self, device: &Device, with_m: bool) {
        let Updated { y, r, log, rho } = self.updated(device, with_m);
        let case = format!("update of {}, with M: {with_m}", self.n);
        let at = |which: usize, i: usize| self.vectors[which][i].to_f64();
        let of_y = |i: usize| {
            let ms = at(if with_m { 1 } else { 5 }, i);
            [at(4, i), ALPHA * at(0, i), OMEGA * ms].into_iter().collect::<Sum>().bounded::<T>(0.0)
        };
        let of_r = |i: usize| [at(5, i), -OMEGA * at(2, i)].into_iter().collect::<Sum>().bounded::<T>(0.0);
        assert_within(&case, &y, &(0..self.n).map(of_y).collect::<Vec<_>>());
        assert_within(&case, &r, &(0..self.n).map(of_r).collect::<Vec<_>>());
        // The sums are those of the rounded result.
        let dot = rounded_once::<T>(r.iter().zip(&self.vectors[3]).map(|(r, s)| r.to_f64() * s.to_f64()));
        assert_within(&case, &log, &[(0.125, 0.0), norm_of(&r), dot]);
        assert_eq!(rho.to_f64(), log[2].to_f64(), "{case}");
    }

    /// Vectors are `r`, `v` and `p`.
    fn direction(&self, device: &Device) {
        let entry = bicgstab::Key { step: Step::Direction, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<DirectionArgs<T>>::embedded(entry).unwrap();
        let [r, v, mut p] = [0, 1, 2].map(|which| device.upload_vec(&self.vectors[which]).unwrap());
        let scalar = |value: f64| device.upload_vec(&[T::from_f64(value)]).unwrap();
        let (newest, rv, mut rho) = (scalar(0.75), scalar(1.5), scalar(7.0));
        let mut launch = device.launch(&kernel, self.blocks).unwrap();
        let newest = launch.read("newest", &newest).unwrap();
        let args = DirectionArgs {
            n: self.n as u64,
            by_rv: Factor { value: T::from_f64(1.0), numerator: newest, denominator: launch.read("rv", &rv).unwrap() },
            by_ts: Factor::of(T::from_f64(3.0)),
            omega: Factor::of(T::from_f64(OMEGA)),
            r: launch.read("r", &r).unwrap(),
            v: launch.read("v", &v).unwrap(),
            p: launch.write("p", &mut p).unwrap(),
            newest,
            rho: launch.write("rho", &mut rho).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        let at = |which: usize, i: usize| self.vectors[which][i].to_f64();
        let of_p = |i: usize| {
            let terms = [at(0, i), 1.5 * at(2, i), -1.5 * OMEGA * at(1, i)];
            terms.into_iter().collect::<Sum>().bounded::<T>(0.0)
        };
        assert_within("direction", &p.to_vec().unwrap(), &(0..self.n).map(of_p).collect::<Vec<_>>());
        assert_eq!(rho.to_vec().unwrap()[0].to_f64(), 0.75);
    }
}

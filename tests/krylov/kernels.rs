//! The kernels alone, against sums in `f64`.

use std::ptr;

use warpsparse::{
    Device, Kernel, Scalar,
    kernels_gpu::{
        bicgstab::{self, DirectionArgs, DotsArgs, Step, UpdateArgs},
        factor::Factor,
        vector_basis::{self, CombineArgs, Product, combine_grid_size, dots_grid_size, groups},
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

impl<T: Scalar> Basis<T> {
    fn vector(&self, i: usize) -> &[T] {
        &self.v[i * self.stride..][..self.n]
    }

    /// `h = V^T w`, and `total + h`; with fewer blocks, that take several chunks, if `strips` says how many.
    fn dots(&self, device: &Device, strips: Option<u32>, w: &[T], total: Option<&[T]>) -> (Vec<T>, Option<Vec<T>>) {
        let entry = vector_basis::Key { product: Product::Dots, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<vector_basis::DotsArgs<T>>::embedded(entry).unwrap();
        let (n, count) = (self.n as u64, self.count as u32);
        let most = dots_grid_size::<T>(n, count) as u32;
        let (v, w) = (device.upload_vec(&self.v).unwrap(), device.upload_vec(w).unwrap());
        let mut h = device.upload_vec(&vec![T::from_f64(f64::NAN); self.count]).unwrap();
        let mut total = total.map(|total| device.upload_vec(total).unwrap());
        let mut partials = device.upload_vec(&vec![f64::NAN; 8 * most as usize]).unwrap();
        let mut arrivals = device.zeros(groups(count) as usize).unwrap();
        let mut launch = device.launch(&kernel, strips.map_or(most, |strips| strips * groups(count))).unwrap();
        let args = vector_basis::DotsArgs {
            n,
            count,
            stride: self.stride as u64,
            v: launch.read("v", &v).unwrap(),
            w: launch.read("w", &w).unwrap(),
            h: launch.write("h", &mut h).unwrap(),
            total: total.as_mut().map_or(ptr::null_mut(), |total| launch.write("total", total).unwrap()),
            partials: launch.write("partials", &mut partials).unwrap(),
            arrivals: launch.write("arrivals", &mut arrivals).unwrap(),
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        assert!(arrivals.to_vec().unwrap().iter().all(|&arrivals| arrivals == 0));
        (h.to_vec().unwrap(), total.map(|total| total.to_vec().unwrap()))
    }

    /// `w + alpha V h`, and its norm.
    fn combine(&self, device: &Device, blocks: Option<u32>, alpha: T, h: &[T], w: &[T]) -> (Vec<T>, T) {
        let entry = vector_basis::Key { product: Product::Combine, dtype: T::DTYPE }.entry();
        let kernel = Kernel::<CombineArgs<T>>::embedded(entry).unwrap();
        let n = self.n as u64;
        let (v, h, mut w) = [&self.v, h, w].map(|x| device.upload_vec(x).unwrap()).into();
        let [mut norm, mut log] = [0; 2].map(|_| device.upload_vec(&[T::from_f64(f64::NAN)]).unwrap());
        let mut sums = Sums::new(device);
        let mut launch = device.launch(&kernel, blocks.unwrap_or(combine_grid_size::<T>(n) as u32)).unwrap();
        let args = CombineArgs {
            n,
            count: self.count as u32,
            stride: self.stride as u64,
            v: launch.read("v", &v).unwrap(),
            h: launch.read("h", &h).unwrap(),
            alpha,
            w: launch.write("w", &mut w).unwrap(),
            norm: launch.write("norm", &mut norm).unwrap(),
            log: launch.write("log", &mut log).unwrap(),
            workspace: vector_basis::Workspace {
                partials: launch.write("partials", &mut sums.partials).unwrap(),
                arrivals: launch.write("arrivals", &mut sums.arrivals).unwrap(),
            },
        };
        // SAFETY: the vectors are as long as the kernel needs.
        unsafe { launch.run(args) }.unwrap();
        assert_eq!(norm.to_vec().unwrap(), log.to_vec().unwrap());
        (w.to_vec().unwrap(), norm.to_vec().unwrap()[0])
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

/// Dot products with all vectors, and linear combinations of them.
pub(crate) fn products<T: Scalar>(device: &Device) {
    let aligned = |n: usize| n.next_multiple_of(4);
    let sizes = [(0, 1), (1, 1), (2, 3), (3, 8), (257, 9), (1030, 16), (1500, 21), (2600, 2)];
    for (n, count, stride) in sizes.into_iter().flat_map(|(n, count)| [(n, count, aligned(n)), (n, count, n + 1)]) {
        let mut random = Random((31 * n + count) as u64);
        let mut v = random.vector::<T>(count * stride);
        v.truncate((count - 1) * stride + n);
        let basis = Basis { n, count, stride, v };
        let (w, h, alpha) = (random.vector::<T>(n), random.vector::<T>(count), T::from_f64(-1.5));
        for fewer in [None, Some(1), Some(2)].into_iter().filter(|fewer| fewer.is_none() || n > 2048) {
            let case = format!("{count} vectors of {n}, {stride} apart, {fewer:?}");
            let (dots, total) = basis.dots(device, fewer, &w, Some(&h));
            let dot = |i| basis.vector(i).iter().zip(&w).map(|(v, w)| v.to_f64() * w.to_f64());
            assert_within(&case, &dots, &(0..count).map(|i| rounded_once::<T>(dot(i))).collect::<Vec<_>>());
            let total_of = |i: usize| {
                let total = h[i].to_f64() + dots[i].to_f64();
                (total, epsilon::<T>() * total.abs())
            };
            assert_within(&case, &total.unwrap(), &(0..count).map(total_of).collect::<Vec<_>>());
            assert_eq!(basis.dots(device, fewer, &w, None).0, dots, "{case}");

            let (new, norm) = basis.combine(device, fewer, alpha, &h, &w);
            let terms = |at: usize| {
                let terms = (0..count).map(|i| alpha.to_f64() * h[i].to_f64() * basis.vector(i)[at].to_f64());
                rounded_once::<T>(terms.chain([w[at].to_f64()]).collect::<Vec<_>>().into_iter())
            };
            assert_within(&case, &new, &(0..n).map(terms).collect::<Vec<_>>());
            assert_within(&case, &[norm], &[norm_of(&new)]);
        }
    }
}

/// Classical Gram-Schmidt, twice, of vectors that are almost linearly dependent: the powers of numbers between 0 and 1.
pub(crate) fn orthogonality<T: Scalar>(device: &Device) {
    let (n, most) = (150, 12);
    let power = |i: usize, at: usize| T::from_f64((at as f64 / n as f64).powi(i as i32));
    let stride = n + 2;
    let mut basis = Basis { n, count: 0, stride, v: vec![T::default(); most * stride] };
    let (mut once, minus) = (0.0f64, T::from_f64(-1.0));
    for i in 0..most {
        let mut w: Vec<T> = (0..n).map(|at| power(i, at)).collect();
        let mut norm = norm_of(&w).0;
        if i > 0 {
            basis.count = i;
            for pass in 0..2 {
                let h = basis.dots(device, None, &w, None).0;
                let largest = h.iter().fold(0.0f64, |largest, h| largest.max(h.to_f64().abs()));
                once = if pass == 1 { once.max(largest / norm) } else { once };
                let (new, new_norm) = basis.combine(device, None, minus, &h, &w);
                (w, norm) = (new, new_norm.to_f64());
            }
        }
        let unit = w.iter().map(|w| T::from_f64(w.to_f64() / norm));
        basis.v.splice(i * stride..i * stride + n, unit);
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

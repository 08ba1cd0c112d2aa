//! Operations on vectors, on every device, against plain code in `f64`.

mod common;

use std::{f64::consts::TAU, process::ExitCode};

use common::{
    Random, assert_exact, assert_within, matrices, on_cpu_and_gpu, on_emulator_and_gpu, on_every_device, on_gpu,
    sums::{Sum, epsilon},
};
use warpsparse::{Device, DeviceScalar, DeviceVec, Error, ErrorKind, Factor, Map, Reduction, Result, Scalar, Zip};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! both {
        ($($name:ident),*) => {$(
            trials.extend(on_every_device(concat!(stringify!($name), "_f32"), $name::<f32>));
            trials.extend(on_every_device(concat!(stringify!($name), "_f64"), $name::<f64>));
        )*};
    }
    both!(sums_of_two_vectors, every_map, every_zip, ends_of_the_range, reductions, extrema, factors, fused, gathered);
    trials.extend(on_every_device("random_numbers_f32", random_numbers::<f32>));
    trials.extend(on_every_device("random_numbers_f64", random_numbers::<f64>));
    trials.extend(on_cpu_and_gpu("random_numbers_are_distributed_as_told", distributions));
    trials.extend(on_every_device("norms_do_not_overflow", norms_do_not_overflow));
    trials.extend(on_every_device("vectors_and_results_of_several_queues", several_queues));
    trials.extend(on_every_device("filled_and_cloned", filled_and_cloned));
    trials.extend(on_every_device("casts", casts));
    trials.extend(on_every_device("what_is_not_read_may_be_nan", what_is_not_read));
    trials.extend(on_every_device("zeros_have_signs", zeros_have_signs));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.extend(on_every_device("conjugate_gradients_without_the_host", conjugate_gradients));
    trials.extend(on_every_device("iterations_in_a_graph", iterations_in_a_graph));
    trials.extend(on_emulator_and_gpu("same_input_same_bits", same_input_same_bits));
    trials.extend(on_cpu_and_gpu("long_vectors_f32", long_vectors::<f32>));
    trials.extend(on_cpu_and_gpu("long_vectors_f64", long_vectors::<f64>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits::<f64>));
    common::run(trials)
}

/// A clone keeps its elements when the vector changes, and the other way round.
fn filled_and_cloned(device: &Device) {
    for n in LENGTHS {
        let mut x = device.filled(n, -1.5f64).unwrap();
        assert_eq!(x.to_vec().unwrap(), vec![-1.5; n]);
        let mut copy = x.try_clone().unwrap();
        x.scale(2.0).unwrap();
        assert_eq!(copy.to_vec().unwrap(), vec![-1.5; n]);
        copy.as_slice_mut().fill(7.0).unwrap();
        assert_eq!(copy.as_slice().to_vec().unwrap(), vec![7.0; n]);
        assert_eq!(x.to_vec().unwrap(), vec![-3.0; n]);
    }
    let indices = device.upload_vec(&[3u32, 1, 2]).unwrap();
    assert_eq!(indices.try_clone().unwrap().to_vec().unwrap(), [3, 1, 2]);
}

/// Around the sizes of chunks, blocks and strides.
const LENGTHS: [usize; 12] = [0, 1, 2, 3, 5, 255, 1024, 1025, 2047, 4096, 4099, 9001];

/// Where slices begin: at multiples of 16 bytes, and not.
const FIRSTS: [usize; 3] = [0, 4, 3];

fn t<T: Scalar>(value: f64) -> T {
    T::from_f64(value)
}

/// A vector with a slice of `values` from `first` on, and 77 before and after it.
fn framed<T: Scalar>(device: &Device, first: usize, values: &[T]) -> DeviceVec<T> {
    let mut framed = vec![t(77.0); first];
    framed.extend_from_slice(values);
    framed.extend([t::<T>(77.0); 5]);
    device.upload_vec(&framed).unwrap()
}

/// The slice, after a look at what is around it.
fn unframed<T: Scalar>(case: &str, vector: &DeviceVec<T>, first: usize, len: usize) -> Vec<T> {
    let all = vector.to_vec().unwrap();
    let is_frame = |x: &T| x.to_f64() == 77.0;
    assert!(
        all[..first].iter().chain(&all[first + len..]).all(is_frame),
        "{case}: an element outside the slice has changed"
    );
    all[first..first + len].to_vec()
}

/// Has `operate` write a slice of every length and beginning, given `y` and `x`, and compares it with `expected(y, x)` for each element
/// and what it may be off.
fn check_each<T: Scalar>(
    case: &str,
    device: &Device,
    operate: impl Fn(&mut DeviceVec<T>, &DeviceVec<T>, std::ops::Range<usize>) -> Result<()>,
    expected: impl Fn(f64, f64) -> (f64, f64),
) {
    let mut random = Random(1);
    for len in LENGTHS {
        for first in FIRSTS {
            let case = format!("{case}, {len} elements from {first}");
            let (old, of_x) = (random.vector::<T>(len), random.vector::<T>(len));
            let (mut y, x) = (framed(device, first, &old), framed(device, first, &of_x));
            operate(&mut y, &x, first..first + len).unwrap();
            let pairs = old.iter().zip(&of_x);
            let expected: Vec<_> = pairs.map(|(y, x)| expected(y.to_f64(), x.to_f64())).collect();
            assert_within(&case, &unframed(&case, &y, first, len), &expected);
        }
    }
}

fn sums_of_two_vectors<T: Scalar>(device: &Device) {
    for (alpha, beta) in [(1.0, 1.0), (0.5, -3.0), (1.0, 0.3), (0.0, 2.0), (-1.5, 0.0), (0.0, 0.0), (0.7, 1.0)] {
        let (of_x, of_y) = (t::<T>(alpha), t::<T>(beta));
        let expected = |y: f64, x: f64| {
            let (ax, by) = (of_x.to_f64() * x, of_y.to_f64() * y);
            (ax + by, 1.5 * epsilon::<T>() * (ax.abs() + by.abs()))
        };
        let operate = |y: &mut DeviceVec<T>, x: &DeviceVec<T>, range: std::ops::Range<usize>| {
            y.slice_mut(range.clone())?.axpby(of_x, x.slice(range)?, of_y)
        };
        check_each(&format!("axpby {alpha} {beta}"), device, operate, expected);
    }
    let half = t::<T>(0.5);
    check_each(
        "axpy",
        device,
        |y, x, range| y.slice_mut(range.clone())?.axpy(half, x.slice(range)?),
        |y, x| (y + 0.5 * x, epsilon::<T>() * (y + 0.5 * x).abs()),
    );
    check_each("scale", device, |y, _, range| y.slice_mut(range)?.scale(half), |y, _| (0.5 * y, 0.0));
    check_each("fill", device, |y, _, range| y.slice_mut(range)?.fill(half), |_, _| (0.5, 0.0));
    check_each::<T>(
        "assign",
        device,
        |y, x, range| y.slice_mut(range.clone())?.assign(x.slice(range)?),
        |_, x| (x, 0.0),
    );
}

fn every_map<T: Scalar>(device: &Device) {
    /// A function, its value in `f64`, and how many units in the last place it may be off.
    type Case<T> = (Map<T>, fn(f64) -> f64, f64);
    let functions: [Case<T>; 12] = [
        (Map::Abs, f64::abs, 0.0),
        (Map::Sqrt, f64::sqrt, 0.5),
        (Map::Recip, |x| 1.0 / x, 0.5),
        (Map::Exp, f64::exp, 2.0),
        (Map::Ln, f64::ln, 2.0),
        (Map::Tanh, f64::tanh, 4.0),
        (Map::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 4.0),
        (Map::Relu, |x| if x < 0.0 { 0.0 } else { x }, 0.0),
        (Map::LeakyRelu(t(0.25)), |x| if x < 0.0 { 0.25 * x } else { x }, 0.5),
        (Map::Add(t(0.125)), |x| x + 0.125, 0.5),
        (Map::Mul(t(3.0)), |x| x * 3.0, 0.5),
        (Map::Clamp(t(-0.25), t(0.5)), |x| x.clamp(-0.25, 0.5), 0.0),
    ];
    for (map, function, ulps) in functions {
        let case = format!("{map:?}");
        let expected = |x: f64| {
            let value = function(x);
            // Of a negative number's root and logarithm there is none; the reference is rounded itself.
            (value, (ulps + 0.5) * epsilon::<T>() * value.abs())
        };
        // Arguments that the function has a value for.
        let positive = matches!(map, Map::Sqrt | Map::Ln);
        let argument = |x: f64| if positive { (x * x).sqrt() } else { x };
        let prepared = |x: &DeviceVec<T>| {
            let values: Vec<T> = x.to_vec().unwrap().iter().map(|x| t(argument(x.to_f64()))).collect();
            x.device().upload_vec(&values).unwrap()
        };
        check_each(
            &case,
            device,
            |y, x, range| y.slice_mut(range.clone())?.map_from(map, prepared(x).slice(range)?),
            |_, x| expected(argument(x)),
        );
        let in_place = |y: &mut DeviceVec<T>, x: &DeviceVec<T>, range: std::ops::Range<usize>| {
            y.slice_mut(range.clone())?.assign(prepared(x).slice(range.clone())?)?;
            y.slice_mut(range)?.map(map)
        };
        check_each(&format!("{case} in place"), device, in_place, |_, x| expected(argument(x)));
    }
}

fn every_zip<T: Scalar>(device: &Device) {
    type Case = (Zip, fn(f64, f64) -> f64);
    let functions: [Case; 6] = [
        (Zip::Add, |y, x| y + x),
        (Zip::Sub, |y, x| y - x),
        (Zip::Mul, |y, x| y * x),
        (Zip::Div, |y, x| y / x),
        (Zip::Min, f64::min),
        (Zip::Max, f64::max),
    ];
    for (zip, function) in functions {
        let case = format!("{zip:?}");
        let expected = |y, x| (function(y, x), epsilon::<T>() * function(y, x).abs());
        let in_place = |y: &mut DeviceVec<T>, x: &DeviceVec<T>, range: std::ops::Range<usize>| {
            y.slice_mut(range.clone())?.zip(zip, x.slice(range)?)
        };
        check_each(&case, device, in_place, expected);
        let from_two = |y: &mut DeviceVec<T>, x: &DeviceVec<T>, range: std::ops::Range<usize>| {
            let old = y.device().upload_vec(&y.to_vec()?)?;
            y.slice_mut(range.clone())?.zip_from(zip, old.slice(range.clone())?, x.slice(range)?)
        };
        check_each(&format!("{case} of two"), device, from_two, expected);
    }
}

/// Infinities, NaN, zeros of both signs, and where exponentials overflow and underflow.
fn ends_of_the_range<T: Scalar>(device: &Device) {
    let (infinity, nan) = (f64::INFINITY, f64::NAN);
    let x = [infinity, -infinity, nan, 0.0, -0.0, 1e4, -1e4];
    let on = device.upload_vec(&x.map(t::<T>)).unwrap();
    let mapped = |map: Map<T>| {
        let mut y = device.zeros::<T>(x.len()).unwrap();
        y.map_from(map, &on).unwrap();
        y.to_vec().unwrap().iter().map(|y| y.to_f64()).collect::<Vec<_>>()
    };
    let check = |map: Map<T>, expected: [f64; 7]| {
        let found = mapped(map);
        let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
        assert!(found.iter().zip(&expected).all(same), "{map:?}: {found:?}, expected {expected:?}");
    };
    check(Map::Exp, [infinity, 0.0, nan, 1.0, 1.0, infinity, 0.0]);
    check(Map::Tanh, [1.0, -1.0, nan, 0.0, 0.0, 1.0, -1.0]);
    check(Map::Sigmoid, [1.0, 0.0, nan, 0.5, 0.5, 1.0, 0.0]);
    check(Map::Relu, [infinity, 0.0, nan, 0.0, 0.0, 1e4, 0.0]);
    check(Map::LeakyRelu(t(0.5)), [infinity, -infinity, nan, 0.0, 0.0, 1e4, -5e3]);
    check(Map::Clamp(t(-1.0), t(1.0)), [1.0, -1.0, nan, 0.0, 0.0, 1.0, -1.0]);
    check(Map::Recip, [0.0, 0.0, nan, infinity, -infinity, t::<T>(1e-4).to_f64(), t::<T>(-1e-4).to_f64()]);
    let roots = mapped(Map::Sqrt);
    assert!(roots[0] == infinity && roots[1].is_nan() && roots[2].is_nan() && roots[3] == 0.0 && roots[6].is_nan());
    let logarithms = mapped(Map::Ln);
    assert!(logarithms[0] == infinity && logarithms[1].is_nan());
    assert!(
        logarithms[2].is_nan() && logarithms[3] == -infinity && logarithms[4] == -infinity && logarithms[6].is_nan()
    );
    assert!(mapped(Map::Abs)[..2] == [infinity; 2] && mapped(Map::Abs)[4].is_sign_positive());
    for (zip, number) in [(Zip::Min, 1.0), (Zip::Max, 1.0)] {
        let mut y = device.upload_vec(&[t::<T>(nan), t(1.0), t(1.0)]).unwrap();
        y.zip(zip, &device.upload_vec(&[t::<T>(1.0), t(nan), t(1.0)]).unwrap()).unwrap();
        let found = y.to_vec().unwrap();
        assert!(found[0].to_f64().is_nan() && found[1].to_f64().is_nan() && found[2].to_f64() == number, "{zip:?}");
    }
}

/// A sum that a device adds up in `f64` and rounds to `T`, and what it may be off.
fn in_double<T: Scalar>(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut sum, mut last) = (Sum::default(), 0.0);
    terms.for_each(|term| {
        sum.add(term);
        last += term;
    });
    let (value, bound) = sum.bounded::<f64>(0.0);
    (value, bound + epsilon::<T>() * f64::abs(last))
}

fn reductions<T: Scalar>(device: &Device) {
    let mut random = Random(2);
    for len in LENGTHS {
        for first in FIRSTS {
            let case = format!("{len} elements from {first}");
            let (of_x, of_y) = (random.vector::<T>(len), random.vector::<T>(len));
            let (x, y) = (framed(device, first, &of_x), framed(device, first, &of_y));
            let (x, y) = (x.slice(first..first + len).unwrap(), y.slice(first..first + len).unwrap());
            let values = || of_x.iter().map(|x| x.to_f64());
            let products = || values().zip(&of_y).map(|(x, y)| x * y.to_f64());
            let check = |name: &str, found: DeviceScalar<T>, expected: (f64, f64)| {
                assert_within(&format!("{name} of {case}"), &[found.get().unwrap()], &[expected]);
            };
            check("dot", x.dot(y).unwrap(), in_double::<T>(products()));
            check("sum", x.sum().unwrap(), in_double::<T>(values()));
            check("norm1", x.norm1().unwrap(), in_double::<T>(values().map(f64::abs)));
            let norm = values().map(|x| x * x).sum::<f64>().sqrt();
            check("norm2", x.norm2().unwrap(), (norm, epsilon::<T>() * norm + 1e-14 * norm));
            check("norm_inf", x.norm_inf().unwrap(), (values().map(f64::abs).fold(0.0, f64::max), 0.0));
            // Integers have exact sums: none may be lost, and none of the frame counted.
            let integers: Vec<T> = (0..len).map(|i| t(((i * 7) % 19) as f64 - 9.0)).collect();
            let on = framed(device, first, &integers);
            let on = on.slice(first..first + len).unwrap();
            let sum = |of: fn(f64) -> f64| (integers.iter().map(|x| of(x.to_f64())).sum::<f64>(), 0.0);
            assert_exact(&case, &[on.sum().unwrap().get().unwrap()], &[sum(|x| x)]);
            assert_exact(&case, &[on.norm1().unwrap().get().unwrap()], &[sum(f64::abs)]);
            assert_exact(&case, &[on.dot(on).unwrap().get().unwrap()], &[sum(|x| x * x)]);
        }
    }
}

/// Each argument on another stream than the one that the operation runs on.
fn several_queues(device: &Device) {
    let queues = [(); 4].map(|()| device.new_stream().unwrap());
    let values = Random(12).vector::<f64>(100_000);
    for round in 0..20 {
        let on = |i: usize| &queues[(i + round) % 4];
        let (x, mut y) = (on(0).upload_vec(&values).unwrap(), on(1).upload_vec(&values).unwrap());
        let (half, four) = (on(2).scalar(0.5).unwrap(), on(3).scalar(4.0).unwrap());
        let (mut result, mut index) = (on(2).scalar(0.0).unwrap(), on(3).scalar(0u64).unwrap());
        y.axpy_dot(&half / &four, &x, &x, &mut result).unwrap();
        let squares = in_double::<f64>(values.iter().map(|x| x * x * 1.125));
        assert_within("dot", &[result.get().unwrap()], &[squares]);
        y.reduce_into(Reduction::Norm1, &mut result).unwrap();
        y.scale(&result).unwrap();
        let sum = values.iter().map(|x| x.abs() * 1.125).sum::<f64>();
        x.max_into(&mut result, &mut index).unwrap();
        let largest = values.iter().copied().fold(f64::MIN, f64::max);
        assert_eq!(result.get().unwrap(), largest);
        assert_eq!(values[index.get().unwrap() as usize], largest);
        x.min_into(&mut result, &mut index).unwrap();
        let smallest = values.iter().copied().fold(f64::MAX, f64::min);
        assert_eq!(result.get().unwrap(), smallest);
        assert_eq!(values[index.get().unwrap() as usize], smallest);
        let found = y.to_vec().unwrap();
        let close = |(y, x): (&f64, &f64)| (y - x * 1.125 * sum).abs() <= 1e-10 * (x * sum).abs();
        assert!(found.iter().zip(&values).all(close), "round {round}");
    }
}

fn extrema<T: Scalar>(device: &Device) {
    let of = |values: &[T]| {
        let x = device.upload_vec(values).unwrap();
        let ((max, at_max), (min, at_min)) = (x.max().unwrap(), x.min().unwrap());
        let max = (max.get().unwrap().to_f64(), at_max.get().unwrap());
        (max, (min.get().unwrap().to_f64(), at_min.get().unwrap()), x.norm_inf().unwrap().get().unwrap().to_f64())
    };
    let mut random = Random(3);
    for len in LENGTHS.into_iter().skip(1) {
        let mut values = random.vector::<T>(len);
        // The largest and the smallest twice: the first counts.
        let (first, second) = (random.next_below(len), random.next_below(len));
        (values[first], values[second]) = (t(2.0), t(2.0));
        assert_eq!(of(&values).0, (2.0, first.min(second) as u64), "of {len}");
        (values[first], values[second]) = (t(-2.0), t(-2.0));
        let (_, min, norm) = of(&values);
        assert_eq!((min, norm), ((-2.0, first.min(second) as u64), 2.0), "of {len}");
        values.fill(t(-5.0));
        assert_eq!(of(&values), ((-5.0, 0), (-5.0, 0), 5.0), "{len} equal elements");
        values.fill(t(f64::NEG_INFINITY));
        assert_eq!(of(&values).0, (f64::NEG_INFINITY, 0), "{len} infinities");
        (values[first], values[second]) = (t(f64::NAN), t(f64::NAN));
        let ((max, at_max), (min, at_min), norm) = of(&values);
        assert!(max.is_nan() && min.is_nan() && norm.is_nan());
        assert_eq!((at_max, at_min), (first.min(second) as u64, first.min(second) as u64), "NaN of {len}");
    }
}

fn norms_do_not_overflow(device: &Device) {
    let norm = |values: &[f64]| device.upload_vec(values).unwrap().norm2().unwrap().get().unwrap();
    let close =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-14, "{found:e}, expected {expected:e}");
    close(norm(&[3e300, 4e300]), 5e300);
    close(norm(&[3e-300, -4e-300]), 5e-300);
    close(norm(&[3e-200, 4e-200, 0.0, 1e-320]), 5e-200);
    close(norm(&[1e200, 1e-200, 1.0]), 1e200);
    close(norm(&[3.0, 4.0, 1e-250]), 5.0);
    close(norm(&[3e-160, 4e-160]), 5e-160);
    close(norm(&[3e-154, 4e-154, 1e-155]), (25.0f64 + 0.01).sqrt() * 1e-154);
    close(norm(&[3e146, 4e146, 5e145]), (25.0f64 + 0.25).sqrt() * 1e146);
    close(norm(&vec![1e306; 10_000]), 1e308);
    assert_eq!(norm(&[0.0; 100]), 0.0);
    assert_eq!(norm(&[1.0, f64::NEG_INFINITY]), f64::INFINITY);
    assert!(norm(&[1e300, f64::NAN]).is_nan() && norm(&[f64::NAN, 1e-300]).is_nan());
    let single = |values: &[f32]| device.upload_vec(values).unwrap().norm2().unwrap().get().unwrap();
    assert_eq!((single(&[3e30, 4e30]), single(&[3e-40, 4e-40])), (5e30, 5e-40));
}

fn factors<T: Scalar>(device: &Device) {
    let scalar = |value: f64| device.scalar(t::<T>(value)).unwrap();
    let (s, u) = (scalar(3.0), scalar(8.0));
    let found = |factor: Factor<'_, T>| {
        let mut y = device.upload_vec(&[t::<T>(1.0), t(2.0)]).unwrap();
        let x = device.upload_vec(&[t::<T>(16.0), t(32.0)]).unwrap();
        y.axpy(factor, &x).unwrap();
        y.to_vec().unwrap().iter().map(|y| y.to_f64()).collect::<Vec<_>>()
    };
    assert_eq!(found(&s / &u), [7.0, 14.0]);
    assert_eq!(found(-(&s / &u)), [-5.0, -10.0]);
    assert_eq!(found(-&s), [-47.0, -94.0]);
    assert_eq!(found(Factor::of(t(0.25))), [5.0, 10.0]);
    assert_eq!(found(u.recip()), [3.0, 6.0]);
    assert_eq!(found(-u.recip()), [-1.0, -2.0]);
    let mut y = device.upload_vec(&[t::<T>(1.0)]).unwrap();
    let x = device.upload_vec(&[t::<T>(10.0)]).unwrap();
    y.axpby(&s, &x, &u).unwrap();
    assert_eq!(y.to_vec().unwrap()[0].to_f64(), 38.0);
    y.fill(&u / &s).unwrap();
    assert!((y.to_vec().unwrap()[0].to_f64() - 8.0 / 3.0).abs() < 3.0 * epsilon::<T>());
    let mut v = scalar(0.0);
    v.set(-&u).unwrap();
    assert_eq!(v.get().unwrap().to_f64(), -8.0);
    y.fill(&s / &scalar(0.0)).unwrap();
    assert_eq!(y.to_vec().unwrap()[0].to_f64(), f64::INFINITY);
    // Numbers of the host times and over those of the device.
    let (s, x) = (device.scalar(4.0f32).unwrap(), device.upload_vec(&[1.0f32]).unwrap());
    let mut y = device.zeros::<f32>(1).unwrap();
    y.axpby(2.0 * &s, &x, 0.0).unwrap();
    y.axpy(3.0 * (&s / &device.scalar(2.0f32).unwrap()), &x).unwrap();
    y.axpy(2.0 / &s, &x).unwrap();
    assert_eq!(y.to_vec().unwrap(), [14.5]);
}

fn fused<T: Scalar>(device: &Device) {
    let mut random = Random(4);
    for len in LENGTHS {
        for first in FIRSTS {
            let case = format!("{len} elements from {first}");
            let range = first..first + len;
            let [old, of_x, of_z] = [(); 3].map(|()| random.vector::<T>(len));
            let (x, z) = (framed(device, first, &of_x), framed(device, first, &of_z));
            let (alpha, beta) = (t::<T>(0.75), t::<T>(-0.5));
            let mut result = device.scalar(t::<T>(9.0)).unwrap();

            let (mut y, mut apart) = (framed(device, first, &old), framed(device, first, &old));
            let (x, z) = (x.slice(range.clone()).unwrap(), z.slice(range.clone()).unwrap());
            y.slice_mut(range.clone()).unwrap().axpy_dot(alpha, x, z, &mut result).unwrap();
            apart.slice_mut(range.clone()).unwrap().axpy(alpha, x).unwrap();
            let new = unframed(&case, &y, first, len);
            assert_eq!(new, unframed(&case, &apart, first, len), "{case}");
            let products = new.iter().zip(&of_z).map(|(y, z)| y.to_f64() * z.to_f64());
            assert_within(&case, &[result.get().unwrap()], &[in_double::<T>(products)]);

            let (mut y, mut apart) = (framed(device, first, &old), framed(device, first, &old));
            y.slice_mut(range.clone()).unwrap().axpby_norm(alpha, x, beta, &mut result).unwrap();
            apart.slice_mut(range.clone()).unwrap().axpby(alpha, x, beta).unwrap();
            let new = unframed(&case, &y, first, len);
            assert_eq!(new, unframed(&case, &apart, first, len), "{case}");
            let norm = new.iter().map(|y| y.to_f64() * y.to_f64()).sum::<f64>().sqrt();
            assert_within(&case, &[result.get().unwrap()], &[(norm, epsilon::<T>() * norm + 1e-14 * norm)]);
        }
    }
    let mut y = device.upload_vec(&[t::<T>(0.0); 2]).unwrap();
    let x = device.upload_vec(&[t::<T>(3.0), t(4.0)]).unwrap();
    let mut norm = device.scalar(t::<T>(0.0)).unwrap();
    y.axpby_norm(t::<T>(1.0), &x, t::<T>(0.0), &mut norm).unwrap();
    assert_eq!(norm.get().unwrap().to_f64(), 5.0);
}

fn gathered<T: Scalar>(device: &Device) {
    let mut random = Random(5);
    for len in LENGTHS {
        let mut order: Vec<u32> = (0..len as u32).collect();
        (1..len).for_each(|i| order.swap(i, random.next_below(i + 1)));
        let (of_x, indices) = (random.vector::<T>(len), device.upload_indices(&order, len).unwrap());
        assert!(indices.are_distinct());
        let x = framed(device, 3, &of_x);
        let (mut y, mut back) = (framed(device, 1, &of_x), device.zeros::<T>(len).unwrap());
        y.slice_mut(1..1 + len).unwrap().gather(&indices, x.slice(3..3 + len).unwrap()).unwrap();
        let expected: Vec<T> = order.iter().map(|&i| of_x[i as usize]).collect();
        assert_eq!(unframed("gather", &y, 1, len), expected);
        back.scatter(&indices, y.slice(1..1 + len).unwrap()).unwrap();
        assert_eq!(back.to_vec().unwrap(), of_x);
    }
    // Some elements several times, others not at all.
    let x = device.upload_vec(&[5u32, 6, 7]).unwrap();
    let mut y = device.zeros::<u32>(4).unwrap();
    y.gather(&device.upload_indices(&[2, 0, 2, 0], 3).unwrap(), &x).unwrap();
    assert_eq!(y.to_vec().unwrap(), [7, 5, 7, 5]);
    y.scatter(&device.upload_indices(&[3, 1], 4).unwrap(), x.slice(..2).unwrap()).unwrap();
    assert_eq!(y.to_vec().unwrap(), [7, 6, 7, 5]);
    let mut copy = device.zeros::<u32>(5).unwrap();
    copy.slice_mut(1..4).unwrap().assign(&x).unwrap();
    assert_eq!(copy.to_vec().unwrap(), [0, 5, 6, 7, 0]);
    let x = device.upload_vec(&[u64::MAX, 1]).unwrap();
    let mut y = device.zeros::<u64>(1).unwrap();
    y.gather(&device.upload_indices(&[0], 2).unwrap(), &x).unwrap();
    assert_eq!(y.to_vec().unwrap(), [u64::MAX]);
}

fn casts(device: &Device) {
    let values = [0.1, -3.0, 1e300, f64::NAN, f64::NEG_INFINITY, 1e-50];
    let wide = device.upload_vec(&values).unwrap();
    let mut narrow = device.zeros::<f32>(values.len()).unwrap();
    narrow.cast_from(&wide).unwrap();
    let found = narrow.to_vec().unwrap();
    assert!(found[3].is_nan());
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&found[..3]), bits(&[0.1, -3.0, f32::INFINITY]));
    assert_eq!(bits(&found[4..]), bits(&[f32::NEG_INFINITY, 0.0]));
    let mut back = device.zeros::<f64>(values.len()).unwrap();
    back.cast_from(&narrow).unwrap();
    assert_eq!(back.to_vec().unwrap()[0].to_bits(), f64::from(0.1f32).to_bits());
    let counts = device.upload_vec(&[0u32, 7, 16_777_217, u32::MAX]).unwrap();
    let (mut single, mut double) = (device.zeros::<f32>(4).unwrap(), device.zeros::<f64>(4).unwrap());
    single.cast_from(&counts).unwrap();
    double.cast_from(&counts).unwrap();
    assert_eq!(single.to_vec().unwrap(), [0.0, 7.0, 16_777_216.0, 4_294_967_296.0]);
    assert_eq!(double.to_vec().unwrap(), [0.0, 7.0, 16_777_217.0, 4_294_967_295.0]);
}

/// The bits are those of the CPU, and the first numbers those of the published generator.
fn random_numbers<T: Scalar>(device: &Device) {
    let made = |device: &Device, len: usize, first: usize, normal: bool| {
        let mut y = framed(device, first, &vec![t::<T>(0.0); len]);
        let mut slice = y.slice_mut(first..first + len).unwrap();
        let seed = 0x0123_4567_89ab_cdef;
        match normal {
            true => slice.fill_normal(seed, t(1.0), t(2.0)).unwrap(),
            false => slice.fill_uniform(seed, t(-1.0), t(3.0)).unwrap(),
        }
        unframed("random", &y, first, len).iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>()
    };
    for normal in [false, true] {
        let expected = made(&Device::cpu(), 9001, 0, normal);
        for len in LENGTHS {
            for first in FIRSTS {
                assert!(made(device, len, first, normal) == expected[..len], "{len} from {first}, normal: {normal}");
            }
        }
    }
    // Normal numbers are those that the uniform ones of the same seed lead to, by the functions of `std`.
    let (mut uniform, mut normal) = (device.zeros::<T>(9000).unwrap(), device.zeros::<T>(9000).unwrap());
    uniform.fill_uniform(3, t(0.0), t(1.0)).unwrap();
    normal.fill_normal(3, t(0.0), t(1.0)).unwrap();
    let of_pair = |pair: &[T]| {
        let (radius, angle) = ((-2.0 * (1.0 - pair[0].to_f64()).ln()).sqrt(), TAU * pair[1].to_f64());
        // The reference rounds its angle, which is up to 2 pi.
        let bound = (3.0 * epsilon::<T>() + 4.0 * f64::EPSILON) * radius.max(1.0);
        [(radius * angle.cos(), bound), (radius * angle.sin(), bound)]
    };
    let expected: Vec<_> = uniform.to_vec().unwrap().chunks(2).flat_map(of_pair).collect();
    assert_within("normal numbers", &normal.to_vec().unwrap(), &expected);

    let mut y = device.zeros::<T>(4).unwrap();
    y.fill_uniform(0, t(0.0), t(1.0)).unwrap();
    let (words, found) = ([0x6627_e8d5u64, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8], y.to_vec().unwrap());
    if size_of::<T>() == 4 {
        let expected = words.map(|word| (word >> 8) as f64 / f64::from(1 << 24));
        assert_exact("Philox", &found, &expected.map(|x| (x, 0.0)));
    } else {
        let expected = |low, high: u64| (((high << 32 | low) >> 11) as f64 / (1u64 << 53) as f64, 0.0);
        assert_exact("Philox", &found[..2], &[expected(words[0], words[1]), expected(words[2], words[3])]);
    }
}

/// Moments, and how many numbers are in parts of equal probability: within 5 standard deviations of each.
fn distributions(device: &Device) {
    const COUNT: usize = 1 << 20;
    let n = COUNT as f64;
    let mut y = device.zeros::<f32>(COUNT).unwrap();
    for (low, high) in [(1.0, 0.0), (f32::NAN, 1.0), (f32::MIN, f32::MAX), (0.0, f32::INFINITY)] {
        let error = y.fill_uniform(7, low, high).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{low}, {high}: {error}");
    }
    y.fill_uniform(7, 0.0, 1.0).unwrap();
    let values = y.to_vec().unwrap();
    assert!(values.iter().all(|x| (0.0..=1.0).contains(x)));
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    assert!((mean - 0.5).abs() < 5.0 / (12.0 * n).sqrt(), "mean {mean}");
    for part in 0..16 {
        let found = values.iter().filter(|&&x| (x * 16.0) as usize == part).count() as f64;
        assert!((found - n / 16.0).abs() < 5.0 * (n / 16.0).sqrt(), "{found} in part {part}");
    }
    y.fill_normal(8, 0.0, 1.0).unwrap();
    let values: Vec<f64> = y.to_vec().unwrap().iter().map(|&x| f64::from(x)).collect();
    let moment = |power: i32| values.iter().map(|x| x.powi(power)).sum::<f64>() / n;
    // Variances of the first four powers are 1, 2, 15 and 96.
    for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0f64)] {
        let found = moment(power);
        assert!((found - expected).abs() < 5.0 * (variance / n).sqrt(), "moment {power}: {found}");
    }
    let pairs = values.chunks(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (n / 2.0);
    assert!(pairs.abs() < 5.0 / (n / 2.0).sqrt(), "neighbours correlate by {pairs}");
}

fn what_is_not_read(device: &Device) {
    let nan = device.upload_vec(&[f64::NAN; 5]).unwrap();
    let mut y = device.upload_vec(&[2.0; 5]).unwrap();
    y.axpby(0.0, &nan, 3.0).unwrap();
    assert_eq!(y.to_vec().unwrap(), [6.0; 5]);
    y.fill(f64::NAN).unwrap();
    y.scale(0.0).unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0; 5]);
    y.fill(f64::NAN).unwrap();
    let (one, zero) = (device.upload_vec(&[1.0; 5]).unwrap(), device.scalar(0.0).unwrap());
    y.axpby(2.0, &one, &zero).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 5]);
}

/// Where a term is not read, or is 0, the sign of a zero is that of the formula.
fn zeros_have_signs(device: &Device) {
    let zeros = [-0.0f32, 0.0, -0.0, 0.0, -0.0];
    let x = device.upload_vec(&zeros).unwrap();
    let after = |operate: &dyn Fn(&mut DeviceVec<f32>) -> Result<()>| {
        let mut y = device.upload_vec(&zeros).unwrap();
        operate(&mut y).unwrap();
        y.to_vec().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let same = zeros.map(f32::to_bits);
    assert_eq!(after(&|y| y.scale(2.0)), same);
    assert_eq!(after(&|y| y.scale(1.0)), same);
    assert_eq!(after(&|y| y.axpy(0.0, &x)), same);
    assert_eq!(after(&|y| y.axpy(-0.0, &x)), same);
    assert_eq!(after(&|y| y.axpby(3.0, &x, 0.0)), same);
    assert_eq!(after(&|y| y.axpby(0.5, &x, 2.0)), same);
    assert_eq!(after(&|y| y.scale(0.0)), [0; 5]);
    assert_eq!(after(&|y| y.scale(-1.0)), zeros.map(|zero| (-zero).to_bits()));
    assert_eq!(after(&|y| y.map(Map::Tanh)), same);
    assert_eq!(after(&|y| y.map(Map::Abs)), [0; 5]);
    assert_eq!(x.norm_inf().unwrap().get().unwrap().to_bits(), 0);
}

fn what_does_not_fit(device: &Device) {
    let (x, mut y) = (device.zeros::<f32>(4).unwrap(), device.zeros::<f32>(5).unwrap());
    let mut s = device.scalar(0.0f32).unwrap();
    let kind = |result: Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(y.axpy(1.0, &x)), ErrorKind::InvalidInput);
    for result in [
        y.axpby(1.0, &x, 1.0),
        y.assign(&x),
        y.zip(Zip::Add, &x),
        y.map_from(Map::Abs, &x),
        y.dot_into(&x, &mut s),
        y.axpy_dot(1.0, &x, &x, &mut s),
        y.gather(&device.upload_indices(&[0], 1).unwrap(), &x),
    ] {
        assert!(matches!(result, Err(Error::LengthMismatch { .. })), "{result:?}");
    }
    for result in [x.slice(2..6).map(drop), x.slice(5..).map(drop), y.slice_mut(..=5).map(drop)] {
        assert!(matches!(result, Err(Error::InvalidOption(_))), "{result:?}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
    let reversed = x.slice(3..2).map(drop);
    assert!(reversed.is_err() && x.slice(usize::MAX..).is_err() && x.slice(..=usize::MAX).is_err());
    assert_eq!(x.slice(4..).unwrap().len(), 0);
    let empty = device.zeros::<f32>(0).unwrap();
    assert!(empty.max().is_err() && empty.min().is_err());
    for reduction in [Reduction::Sum, Reduction::Norm1, Reduction::Norm2, Reduction::NormInf] {
        assert_eq!(empty.reduce(reduction).unwrap().get().unwrap().to_bits(), 0, "{reduction:?} of nothing");
    }
    assert_eq!(empty.dot(&empty).unwrap().get().unwrap().to_bits(), 0);

    let error = device.upload_indices(&[0, 3, 1], 3).unwrap_err().to_string();
    assert_eq!(error, "invalid option: index 3 at position 1 is not less than 3");
    let twice = device.upload_indices(&[1, 0, 1], 5).unwrap();
    assert!(!twice.are_distinct());
    let mut target = device.zeros::<f32>(5).unwrap();
    assert!(target.scatter(&twice, x.slice(..3).unwrap()).unwrap_err().to_string().contains("repeated index"));
    let high = device.upload_indices(&[0, 1, 2, 3], 9).unwrap();
    assert!(matches!(target.scatter(&high, &x), Err(Error::LengthMismatch { expected: 9, found: 5, .. })));
    let mut four = device.zeros::<f32>(4).unwrap();
    assert!(matches!(four.gather(&high, &x), Err(Error::LengthMismatch { expected: 9, found: 4, .. })));

    let elsewhere = match device.to_string().as_str() {
        "cpu" => Device::emulated(0),
        _ => Device::cpu(),
    };
    let (foreign, scalar) = (elsewhere.zeros::<f32>(5).unwrap(), elsewhere.scalar(1.0f32).unwrap());
    let mut foreign_result = elsewhere.scalar(1.0f32).unwrap();
    for result in [
        y.axpy(1.0, &foreign),
        y.scale(&scalar),
        y.fill(&scalar / &s),
        y.fill(&s / &scalar),
        y.dot(&foreign).map(drop),
        y.reduce_into(Reduction::Sum, &mut foreign_result),
        y.zip_from(Zip::Add, &foreign, &foreign),
        y.gather(&elsewhere.upload_indices(&[0, 0, 0, 0, 0], 1).unwrap(), &x),
    ] {
        assert!(matches!(result, Err(Error::DeviceMismatch { .. })), "{result:?}");
    }
}

/// As a textbook has it, with no number on the host before the end.
fn conjugate_gradients(device: &Device) {
    let (a, n) = (device.upload(&matrices::stencil(12)).unwrap(), 144);
    let b = device.upload_vec(&Random(6).vector::<f64>(n)).unwrap();
    let mut x = device.zeros::<f64>(n).unwrap();
    let [mut r, mut p, mut q] = [(); 3].map(|()| device.zeros::<f64>(n).unwrap());
    r.assign(&b).unwrap();
    p.assign(&b).unwrap();
    let mut rr = r.dot(&r).unwrap();
    for _ in 0..60 {
        a.spmv(1.0, &p, 0.0, &mut q).unwrap();
        let pq = p.dot(&q).unwrap();
        x.axpy(&rr / &pq, &p).unwrap();
        r.axpy(-(&rr / &pq), &q).unwrap();
        let new = r.dot(&r).unwrap();
        p.axpby(1.0, &r, &new / &rr).unwrap();
        rr = new;
    }
    assert!(rr.get().unwrap().sqrt() < 1e-9, "residual {:e}", rr.get().unwrap().sqrt());
    let mut residual = device.upload_vec(&Random(6).vector::<f64>(n)).unwrap();
    a.spmv(-1.0, &x, 1.0, &mut residual).unwrap();
    let residual = residual.norm2().unwrap().get().unwrap();
    assert!(residual < 1e-9, "true residual {residual:e}");
}

/// Power iteration: each replay multiplies and scales to a norm of 1, on the device alone.
fn iterations_in_a_graph(device: &Device) {
    let a = device.upload(&matrices::stencil(8)).unwrap();
    let mut x = device.upload_vec(&Random(9).vector::<f64>(64)).unwrap();
    let (mut y, mut norm) = (device.zeros::<f64>(64).unwrap(), device.scalar(0.0).unwrap());
    let step = || {
        a.spmv(1.0, &x, 0.0, &mut y)?;
        y.reduce_into(Reduction::Norm2, &mut norm)?;
        x.axpby(1.0 / &norm, &y, 0.0)
    };
    device.record(step).unwrap().launch(400).unwrap();
    // 4 - 4 cos(8 pi / 9), the largest eigenvalue of the stencil on 8 x 8 points.
    let expected = 4.0 - 4.0 * (8.0 * std::f64::consts::PI / 9.0).cos();
    let found = norm.get().unwrap();
    assert!((found - expected).abs() < 1e-9, "eigenvalue {found}, expected {expected}");
}

/// All results of random vectors of `n` elements, as bits.
fn bits<T: Scalar>(device: &Device, n: usize) -> Vec<u64> {
    let mut random = Random(11);
    let (x, y) = (device.upload_vec(&random.vector::<T>(n)).unwrap(), random.vector::<T>(n));
    let mut found = Vec::new();
    let mut keep = |values: Vec<T>| found.extend(values.iter().map(|value| value.to_f64().to_bits()));
    let on = device.upload_vec(&y).unwrap();
    for scalar in [x.dot(&on), x.sum(), x.norm1(), x.norm2(), x.norm_inf(), x.max().map(|max| max.0)] {
        keep(vec![scalar.unwrap().get().unwrap()]);
    }
    let (s, u) = (x.dot(&on).unwrap(), x.norm2().unwrap());
    let mut z = device.upload_vec(&y).unwrap();
    let mut result = device.scalar(t::<T>(0.0)).unwrap();
    z.axpy_dot(&s / &u, &x, &on, &mut result).unwrap();
    z.axpby_norm(t::<T>(0.3), &x, &u / &s, &mut result).unwrap();
    keep(vec![result.get().unwrap()]);
    keep(z.to_vec().unwrap());
    for map in [Map::Exp, Map::Tanh, Map::Sigmoid, Map::Abs, Map::Ln, Map::Sqrt, Map::Recip, Map::LeakyRelu(t(0.1))] {
        z.map(map).unwrap();
        keep(z.to_vec().unwrap().into_iter().map(|z| if z.to_f64().is_nan() { t(-1.0) } else { z }).collect());
    }
    found
}

fn same_input_same_bits(device: &Device) {
    let runs = if device.is_cuda() { 100 } else { 3 };
    let expected = bits::<f32>(device, 5000);
    for _ in 0..runs {
        assert!(bits::<f32>(device, 5000) == expected);
    }
    if !device.is_cuda() {
        assert!(bits::<f32>(&Device::emulated(77), 5000) == expected, "threads in another order");
    }
}

fn emulated_bits<T: Scalar>(device: &Device) {
    for n in [1, 1000, 20_003] {
        assert!(bits::<T>(device, n) == bits::<T>(&Device::emulated(3), n), "{n} elements");
    }
}

/// More elements than a grid of reductions takes in one stride.
fn long_vectors<T: Scalar>(device: &Device) {
    const N: usize = 7_000_001;
    let values: Vec<T> = (0..N).map(|i| t(((i * 31) % 101) as f64 - 50.0)).collect();
    let x = device.upload_vec(&values).unwrap();
    let sum = |of: fn(f64) -> f64| values.iter().map(|x| of(x.to_f64())).sum::<f64>();
    let get = |scalar: Result<DeviceScalar<T>>| scalar.unwrap().get().unwrap().to_f64();
    let rounded = |value: f64| t::<T>(value).to_f64();
    assert_eq!(get(x.sum()), rounded(sum(|x| x)));
    assert_eq!(get(x.norm1()), rounded(sum(f64::abs)));
    assert_eq!(get(x.dot(&x)), rounded(sum(|x| x * x)));
    assert_eq!(get(x.slice(1..).unwrap().sum()), rounded(sum(|x| x) + 50.0));
    let mut y = device.zeros::<T>(N).unwrap();
    y.axpby(t::<T>(2.0), &x, t::<T>(0.0)).unwrap();
    y.slice_mut(N - 1..).unwrap().fill(t::<T>(1e6)).unwrap();
    let (max, index) = y.max().unwrap();
    assert_eq!((max.get().unwrap().to_f64(), index.get().unwrap()), (1e6, N as u64 - 1));
    let found = y.to_vec().unwrap();
    assert!(found[..N - 1].iter().zip(&values).all(|(y, x)| y.to_f64() == 2.0 * x.to_f64()));
}

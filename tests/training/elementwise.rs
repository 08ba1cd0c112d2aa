//! Dropout, derivatives of elementwise functions, Adam, and the first weights.

use warpsparse::{
    Device, Map, Scalar,
    learning::{self, Adam, Dropout, StepCounter},
};

use crate::{
    common::{Random, assert_within, sums::epsilon},
    t,
};

/// Around the sizes of chunks and blocks.
const LENGTHS: [usize; 11] = [0, 1, 2, 3, 4, 5, 255, 256, 257, 1025, 9001];

/// Philox4x32-10 by its definition.
fn philox(mut counter: [u32; 4], seed: u64) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let product = |multiplier: u64, word: u32| {
            let product = multiplier * u64::from(word);
            ((product >> 32) as u32, product as u32)
        };
        let ((high0, low0), (high1, low1)) = (product(0xD251_1F53, counter[0]), product(0xCD9E_8D57, counter[2]));
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// In place and not, on slices that are aligned and that are not: exactly the elements that the generator says.
pub(crate) fn dropout<T: Scalar>(device: &Device) {
    let mut step = StepCounter::new(device).unwrap();
    for (number, probability) in (1u32..).zip([0.0, 0.5, 0.9]) {
        assert_eq!(step.get().unwrap(), u64::from(number));
        let seed = 0x1234_5678_9abc_def0 + u64::from(number);
        let dropout = Dropout::new(probability, seed).unwrap();
        for (n, first) in LENGTHS.into_iter().flat_map(|n| [(n, 0), (n, 1), (n, 4)]) {
            let values = Random(n as u64).vector::<T>(n + first + 3);
            let expected = |(i, &x): (usize, &T)| {
                if i < first || i >= first + n {
                    return x;
                }
                let i = (i - first) as u32;
                let bits = philox([i / 4, 0, number, 0], seed)[i as usize % 4];
                let is_dropped = f64::from(bits) < probability * 4_294_967_296.0;
                if is_dropped { T::default() } else { x * t(1.0 / (1.0 - probability)) }
            };
            let expected: Vec<T> = values.iter().enumerate().map(expected).collect();
            let x = device.upload_vec(&values).unwrap();
            let mut y = device.upload_vec(&values).unwrap();
            dropout.apply(&step, y.slice_mut(first..first + n).unwrap()).unwrap();
            assert!(y.to_vec().unwrap() == expected, "{n} elements from {first} on, in place, p = {probability}");
            let mut y = device.upload_vec(&values).unwrap();
            y.slice_mut(first..first + n).unwrap().fill(t::<T>(f64::NAN)).unwrap();
            let part = x.slice(first..first + n).unwrap();
            dropout.apply_from(&step, part, y.slice_mut(first..first + n).unwrap()).unwrap();
            assert!(y.to_vec().unwrap() == expected, "{n} elements from {first} on, p = {probability}");
        }
        step.advance().unwrap();
    }
    // What is dropped need not be finite.
    let mut y = device.filled(1000, t::<T>(f64::INFINITY)).unwrap();
    Dropout::new(0.5, 1).unwrap().apply(&step, &mut y).unwrap();
    assert!(y.to_vec().unwrap().iter().all(|y| y.to_f64() == 0.0 || y.to_f64() == f64::INFINITY));
}

/// Masks of steps and of seeds agree no more often than by chance, and those of both types are the same.
pub(crate) fn masks_are_independent(device: &Device) {
    let n = 8192;
    let mask = |dropout: Dropout, step: &StepCounter| -> Vec<bool> {
        let mut x = device.filled(n, 1.0f32).unwrap();
        let mut wide = device.filled(n, 1.0f64).unwrap();
        dropout.apply(step, &mut x).unwrap();
        dropout.apply(step, &mut wide).unwrap();
        let kept: Vec<bool> = x.to_vec().unwrap().iter().map(|&x| x != 0.0).collect();
        assert!(wide.to_vec().unwrap().iter().map(|&x| x != 0.0).eq(kept.iter().copied()));
        kept
    };
    let [one, two] = [1, 2].map(|seed| Dropout::new(0.5, seed).unwrap());
    let mut step = StepCounter::new(device).unwrap();
    let first = mask(one, &step);
    assert!(first == mask(one, &step), "the same step again");
    let others = [mask(two, &step), {
        step.advance().unwrap();
        mask(one, &step)
    }];
    // Six standard deviations.
    let is_half = |count: usize| (count as f64 - n as f64 / 2.0).abs() < 6.0 * (n as f64 / 4.0).sqrt();
    assert!(is_half(first.iter().filter(|&&kept| kept).count()));
    for other in others {
        assert!(is_half(first.iter().zip(&other).filter(|(a, b)| a == b).count()));
    }
}

/// A function, and its values in `f64`.
type Function<T> = (Map<T>, fn(f64) -> f64);

fn functions<T: Scalar>() -> [Function<T>; 12] {
    [
        (Map::Abs, f64::abs),
        (Map::Sqrt, f64::sqrt),
        (Map::Recip, f64::recip),
        (Map::Exp, f64::exp),
        (Map::Ln, f64::ln),
        (Map::Tanh, f64::tanh),
        (Map::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (Map::Relu, |x| x.max(0.0)),
        (Map::LeakyRelu(t(0.25)), |x| if x > 0.0 { x } else { 0.25 * x }),
        (Map::Add(t(3.0)), |x| x + 3.0),
        (Map::Mul(t(-1.5)), |x| -1.5 * x),
        (Map::Clamp(t(-0.5), t(0.75)), |x| x.clamp(-0.5, 0.75)),
    ]
}

/// Against central differences of the fourth order in `f64`.
pub(crate) fn derivatives<T: Scalar>(device: &Device) {
    for ((map, function), n) in functions::<T>().into_iter().flat_map(|f| LENGTHS.map(|n| (f, n))) {
        let positive = matches!(map, Map::Sqrt | Map::Ln | Map::Recip);
        // Away from kinks, and from poles.
        let of = |x: &T| {
            let x = x.to_f64();
            let x = if positive { 0.1 + 3.0 * x.abs() } else { 4.0 * x };
            let kinks = [0.0, -0.5, 0.75];
            t(if kinks.iter().any(|kink| (x - kink).abs() < 0.01) { x + 0.03 } else { x })
        };
        let x: Vec<T> = Random(n as u64).vector::<T>(n).iter().map(of).collect();
        let before = Random(n as u64 + 1).vector::<T>(n);
        let mut gradient = device.upload_vec(&before).unwrap();
        learning::map_backward(map, &device.upload_vec(&x).unwrap(), &mut gradient).unwrap();
        let expected = x.iter().zip(&before).map(|(x, g)| {
            let (x, h) = (x.to_f64(), 1e-3);
            let difference = |h: f64| (function(x + h) - function(x - h)) / (2.0 * h);
            let slope = (4.0 * difference(h) - difference(2.0 * h)) / 3.0;
            (slope * g.to_f64(), 1e-6 * (slope * g.to_f64()).abs() + 1e-10)
        });
        assert_within(&format!("{map:?} of {n}"), &gradient.to_vec().unwrap(), &expected.collect::<Vec<_>>());
    }
    // Kinks, ends of the range, and what is not finite.
    let at = |map: Map<T>, x: f64, g: f64| {
        let mut gradient = device.upload_vec(&[t::<T>(g)]).unwrap();
        learning::map_backward(map, &device.upload_vec(&[t::<T>(x)]).unwrap(), &mut gradient).unwrap();
        gradient.to_vec().unwrap()[0].to_f64()
    };
    let infinity = f64::INFINITY;
    assert_eq!((at(Map::Abs, 0.0, 2.0), at(Map::Relu, 0.0, infinity), at(Map::Relu, -0.0, 2.0)), (0.0, 0.0, 0.0));
    assert_eq!((at(Map::LeakyRelu(t(0.5)), 0.0, 2.0), at(Map::Relu, infinity, 2.0)), (1.0, 2.0));
    let clamp = Map::Clamp(t(-1.0), t(1.0));
    assert_eq!([-1.5, -1.0, 1.0, 1.5].map(|x| at(clamp, x, 2.0)), [0.0, 2.0, 2.0, 0.0]);
    for x in [-infinity, infinity] {
        assert_eq!((at(Map::Tanh, x, infinity), at(Map::Sigmoid, x, 1.0)), (0.0, 0.0));
    }
    assert_eq!((at(Map::Sqrt, 0.0, 1.0), at(Map::Exp, -infinity, 1.0)), (infinity, 0.0));
    // Where 1 - tanh^2 has lost all digits.
    let tail = at(Map::Tanh, 12.0, 1.0);
    assert!((tail / (4.0 * (-24.0f64).exp()) - 1.0).abs() < 1e-5, "{tail:e}");
    for map in [Map::Abs, Map::Tanh, Map::Sigmoid, Map::Exp] {
        assert!(at(map, f64::NAN, 1.0).is_nan(), "{map:?}");
    }
}

/// Some steps against the method in `f64`, with the same bits on the CPU as here.
pub(crate) fn adam<T: Scalar>(device: &Device) {
    for (n, decay) in LENGTHS.into_iter().zip([0.0, 0.3].into_iter().cycle()) {
        let start = Random(n as u64).vector::<T>(n);
        let gradients: Vec<Vec<T>> = (0..4).map(|k| Random(100 * k + n as u64).vector(n)).collect();
        let run = |device: &Device| {
            let mut adam = Adam::new(device, n, 0.02).unwrap().betas(0.8, 0.99).unwrap();
            adam = adam.epsilon(1e-3).unwrap().weight_decay(decay).unwrap();
            let (mut step, mut weights) = (StepCounter::new(device).unwrap(), device.upload_vec(&start).unwrap());
            for gradient in &gradients {
                adam.update(&step, &device.upload_vec(gradient).unwrap(), &mut weights).unwrap();
                step.advance().unwrap();
            }
            weights.to_vec().unwrap()
        };
        let expected = (0..n).map(|i| {
            let (mut m, mut v, mut w) = (0.0, 0.0, start[i].to_f64());
            for (step, gradient) in (1..).zip(&gradients) {
                let g = gradient[i].to_f64() + decay * w;
                m = 0.8 * m + (1.0 - 0.8) * g;
                v = 0.99 * v + (1.0 - 0.99) * g * g;
                let (m, v) = (m / (1.0 - 0.8f64.powi(step)), v / (1.0 - 0.99f64.powi(step)));
                w -= 0.02 * m / (v.sqrt() + 1e-3);
            }
            // A step changes a weight by 0.02 or less; four steps round it, and numbers of which it is made.
            (w, 16.0 * epsilon::<T>())
        });
        let found = run(device);
        assert_within(&format!("{n} weights"), &found, &expected.collect::<Vec<_>>());
        assert!(found == run(&Device::cpu()), "{n} weights: the CPU's bits");
    }
    // The correction of a late step is none.
    let (mut late, mut weights) = (StepCounter::new(device).unwrap(), device.filled(1, t::<T>(1.0)).unwrap());
    (0..9).for_each(|_| late.advance().unwrap());
    let mut adam = Adam::<T>::new(device, 1, 0.5).unwrap().betas(0.0, 0.0).unwrap().epsilon(0.0).unwrap();
    adam.update(&late, &device.filled(1, t(-3.0)).unwrap(), &mut weights).unwrap();
    assert_eq!(weights.to_vec().unwrap(), [t::<T>(1.5)]);
}

/// Within the bound, up to it, around 0, with the same bits as on the CPU.
pub(crate) fn glorot<T: Scalar>(device: &Device) {
    let weights = learning::glorot_uniform::<T>(device, 5, (90, 60)).unwrap();
    assert_eq!((weights.nrows(), weights.ncols()), (90, 60));
    let (weights, bound) = (weights.to_vec().unwrap(), (6.0f64 / 150.0).sqrt());
    let largest = weights.iter().map(|w| w.to_f64().abs()).fold(0.0, f64::max);
    assert!(largest <= bound * (1.0 + epsilon::<T>()) && largest > 0.99 * bound, "{largest} of {bound}");
    let mean = weights.iter().map(|w| w.to_f64()).sum::<f64>() / 5400.0;
    assert!(mean.abs() < 6.0 * bound / (3.0f64 * 5400.0).sqrt(), "a mean of {mean}");
    assert!(weights == learning::glorot_uniform::<T>(&Device::cpu(), 5, (90, 60)).unwrap().to_vec().unwrap());
    assert!(weights != learning::glorot_uniform::<T>(device, 6, (90, 60)).unwrap().to_vec().unwrap());
    assert!(learning::glorot_uniform::<T>(device, 5, (0, 0)).unwrap().to_vec().unwrap().is_empty());
}

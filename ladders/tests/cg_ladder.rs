//! The kernels of `cg_ladder`, launched by the public interface with arguments of the test's own, against f64.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::{
    Random, assert_within, integers, on_device, on_emulator_and_gpu, on_gpu,
    sums::{Sum, epsilon},
};
use ladders::{
    CgSteps,
    kernels::cg_ladder::{AlphaArgs, BetaArgs, DotArgs, JacobiArgs, dot_grid_size, jacobi_grid_size},
};
use warpsparse::{Device, DeviceVec, Scalar};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_emulator_and_gpu("scalars_f32", scalars::<f32>));
    trials.extend(on_emulator_and_gpu("scalars_f64", scalars::<f64>));
    trials.extend(on_emulator_and_gpu("jacobi_f32", jacobi::<f32>));
    trials.extend(on_emulator_and_gpu("jacobi_f64", jacobi::<f64>));
    trials.extend(on_emulator_and_gpu("dot_f32", dot::<f32>));
    trials.extend(on_emulator_and_gpu("dot_f64", dot::<f64>));
    trials.extend(on_emulator_and_gpu("dot_of_what_is_no_number", dot_of_what_is_no_number));
    trials.push(on_device("dot_in_any_order_of_threads::emulated".into(), dot_in_any_order, || Device::emulated(0)));
    trials.push(on_gpu("dot_of_many_elements", dot_of_many_elements));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    common::run(trials)
}

fn scalars<T: Scalar>(device: &Device) {
    let number = |value| device.upload_vec(&[T::from_f64(value)]).unwrap();
    let (rz, pq, mut alpha, mut minus_alpha) = (number(3.0), number(-4.0), number(f64::NAN), number(f64::NAN));
    let step = CgSteps::<T>::new(device).unwrap().alpha;
    let mut launch = device.launch(&step, 1).unwrap();
    let args = AlphaArgs {
        rz: launch.read("rz", &rz).unwrap(),
        pq: launch.read("pq", &pq).unwrap(),
        alpha: launch.write("alpha", &mut alpha).unwrap(),
        minus_alpha: launch.write("minus_alpha", &mut minus_alpha).unwrap(),
    };
    // SAFETY: a number each, all different, and one block.
    unsafe { launch.run(args) }.unwrap();
    assert_eq!([value(&alpha), value(&minus_alpha)], [-0.75, 0.75]);

    let (mut rz_old, mut beta) = (number(2.0), number(f64::NAN));
    let step = CgSteps::<T>::new(device).unwrap().beta;
    for expected in [1.5, 1.0] {
        let mut launch = device.launch(&step, 1).unwrap();
        let args = BetaArgs {
            rz: launch.read("rz", &rz).unwrap(),
            rz_old: launch.write("rz_old", &mut rz_old).unwrap(),
            beta: launch.write("beta", &mut beta).unwrap(),
        };
        // SAFETY: a number each, all different, and one block.
        unsafe { launch.run(args) }.unwrap();
        assert_eq!([value(&beta), value(&rz_old)], [expected, 3.0]);
    }
}

fn value<T: Scalar>(scalar: &DeviceVec<T>) -> f64 {
    scalar.to_vec().unwrap()[0].to_f64()
}

fn jacobi<T: Scalar>(device: &Device) {
    for n in [1, 31, 256, 257, 1000] {
        let [inverse_diagonal, r] = [1, 2].map(|seed| Random(seed).vector::<T>(n));
        let mut z = device.upload_vec(&vec![T::from_f64(f64::NAN); n]).unwrap();
        let (on_diagonal, on_r) = (device.upload_vec(&inverse_diagonal).unwrap(), device.upload_vec(&r).unwrap());
        let step = CgSteps::<T>::new(device).unwrap().jacobi;
        let mut launch = device.launch(&step, jacobi_grid_size(n as u32)).unwrap();
        let args = JacobiArgs {
            n: n as u32,
            inverse_diagonal: launch.read("inverse_diagonal", &on_diagonal).unwrap(),
            r: launch.read("r", &on_r).unwrap(),
            z: launch.write("z", &mut z).unwrap(),
        };
        // SAFETY: n elements each, and the grid for n.
        unsafe { launch.run(args) }.unwrap();
        let expected: Vec<T> = inverse_diagonal.iter().zip(&r).map(|(&d, &r)| d * r).collect();
        assert_eq!(z.to_vec().unwrap(), expected, "{n} elements");
    }
}

/// The work space of dot products, used by one after the other.
struct Dot {
    device: Device,
    partials: DeviceVec<f64>,
    arrivals: DeviceVec<u32>,
}

impl Dot {
    fn new(device: &Device, n: usize) -> Self {
        let blocks = dot_grid_size(n as u32) as usize;
        let partials = device.upload_vec(&vec![f64::NAN; blocks]).unwrap();
        Self { device: device.clone(), partials, arrivals: device.zeros(1).unwrap() }
    }

    /// The product of two vectors, or of one with itself.
    fn of<T: Scalar>(&mut self, a: &DeviceVec<T>, b: Option<&DeviceVec<T>>) -> T {
        let n = a.len() as u32;
        let mut result = self.device.upload_vec(&[T::from_f64(f64::NAN)]).unwrap();
        let step = CgSteps::<T>::new(&self.device).unwrap().dot;
        let mut launch = self.device.launch(&step, dot_grid_size(n)).unwrap();
        let first = launch.read("a", a).unwrap();
        let args = DotArgs {
            n,
            a: first,
            b: b.map_or(first, |b| launch.read("b", b).unwrap()),
            partials: launch.write("partials", &mut self.partials).unwrap(),
            arrivals: launch.write("arrivals", &mut self.arrivals).unwrap(),
            result: launch.write("result", &mut result).unwrap(),
        };
        // SAFETY: n elements each, a partial for each block, a counter that every launch leaves at 0, and the grid for n.
        unsafe { launch.run(args) }.unwrap();
        assert_eq!(self.arrivals.to_vec().unwrap(), [0], "{n} elements: the counter");
        result.to_vec().unwrap()[0]
    }
}

/// The product, and what the kernel's may be off: a sum in f64, and one rounding to `T`.
fn reference<T: Scalar>(a: &[T], b: &[T]) -> (f64, f64) {
    let sum: Sum = a.iter().zip(b).map(|(&a, &b)| a.to_f64() * b.to_f64()).collect();
    let (value, bound) = sum.bounded::<f64>(0.0);
    (value, bound + epsilon::<T>() * value.abs())
}

fn check<T: Scalar>(device: &Device, lengths: &[usize]) {
    for &n in lengths {
        let [a, b] = [1, 2].map(|seed| Random(seed).vector::<T>(n));
        let [on_a, on_b] = [&a, &b].map(|vector| device.upload_vec(vector).unwrap());
        let mut dot = Dot::new(device, n);
        let first = dot.of(&on_a, Some(&on_b));
        assert_within(&format!("{n} elements"), &[first], &[reference(&a, &b)]);
        assert_eq!(dot.of(&on_a, Some(&on_b)), first, "{n} elements, again");
        assert_within(&format!("{n} elements, squared"), &[dot.of(&on_a, None)], &[reference(&a, &a)]);
        // Not one element is lost, or taken twice.
        let [a, b] = [3, 4].map(|seed| integers::vector::<T>(seed, n));
        let [on_a, on_b] = [&a, &b].map(|vector| device.upload_vec(vector).unwrap());
        let exact: f64 = a.iter().zip(&b).map(|(a, b)| a.to_f64() * b.to_f64()).sum();
        assert_eq!(dot.of(&on_a, Some(&on_b)), T::from_f64(exact), "{n} integers");
    }
}

/// About the ends of warps, blocks and steps; with more blocks than the last one has lanes.
fn dot<T: Scalar>(device: &Device) {
    check::<T>(device, &[0, 1, 31, 32, 33, 255, 257, 1000, 1024, 1025, 40_000]);
}

/// Beyond a step of the largest grid.
fn dot_of_many_elements(device: &Device) {
    check::<f32>(device, &[1 << 20, (1 << 20) + 1, 5_000_003]);
    check::<f64>(device, &[1 << 20, (1 << 20) + 1, 5_000_003]);
}

fn dot_of_what_is_no_number(device: &Device) {
    let n = 3000;
    for place in [0, 1023, 1024, n - 1] {
        for (element, other) in [(f32::NAN, 1.0), (f32::INFINITY, 0.0)] {
            let (mut a, mut b) = (vec![1.0; n], vec![1.0; n]);
            (a[place], b[place]) = (element, other);
            let [a, b] = [a, b].map(|vector| device.upload_vec(&vector).unwrap());
            let mut dot = Dot::new(device, n);
            assert!(dot.of(&a, Some(&b)).is_nan(), "{element} at {place}");
            // Nothing of it stays.
            assert_eq!(dot.of(&b, None), (n - 1) as f32 + other * other);
        }
    }
}

/// Whichever block comes last, the bits are the same.
fn dot_in_any_order(_: &Device) {
    let a = Random(7).vector::<f64>(20_000);
    let products = [0, 1, 2, 3].map(|seed| {
        let device = Device::emulated(seed);
        Dot::new(&device, a.len()).of(&device.upload_vec(&a).unwrap(), None)
    });
    assert!(products.iter().all(|product| product.to_bits() == products[0].to_bits()), "{products:?}");
}

/// Of the dot product, the one kernel of the family that adds up.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let emulated = Device::emulated(5);
    for n in [33, 1025, 40_000] {
        let [a, b] = [1, 2].map(|seed| Random(seed).vector::<T>(n));
        let dot = |device: &Device| {
            let [a, b] = [&a, &b].map(|vector| device.upload_vec(vector).unwrap());
            Dot::new(device, n).of(&a, Some(&b)).to_f64().to_bits()
        };
        assert_eq!(dot(gpu), dot(&emulated), "{n} elements");
    }
}

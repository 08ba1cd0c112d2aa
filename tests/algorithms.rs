//! Prefix sums, sorts and their relatives, on every device, against plain code.

mod common;

use std::{fmt::Debug, process::ExitCode};

use common::{Random, on_cpu_and_gpu, on_every_device};
use warpsparse::{Device, Element, Error};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! each_type {
        ($($name:ident: $($type:ident)*;)*) => {$($(
            trials.extend(on_every_device(concat!(stringify!($name), "_", stringify!($type)), $name::<$type>));
        )*)*};
    }
    each_type! {
        scans: u32 u64 f32 f64;
    }
    trials.extend(on_every_device("scans_of_whole_groups_of_tiles", scans_of_groups));
    trials.extend(on_every_device("scans_of_slices", scans_of_slices));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.extend(on_cpu_and_gpu("long_scans", long_scans));
    common::run(trials)
}

/// What the tests make of numbers, exactly: floating-point numbers are small integers, whose sums are exact.
trait Number: Element + PartialEq + PartialOrd + Debug {
    /// The type's number for 64 random bits.
    fn of(bits: u64) -> Self;
    fn add(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Number for $type {
            fn of(bits: u64) -> Self {
                // The upper ones are the random ones.
                (bits >> (64 - $type::BITS)) as $type
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
integers!(u32 u64);

macro_rules! floats {
    ($($type:ident)*) => {$(
        impl Number for $type {
            fn of(bits: u64) -> Self {
                (bits >> 62) as $type
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
floats!(f32 f64);

fn random_numbers<T: Number>(seed: u64, len: usize) -> Vec<T> {
    let mut random = Random(seed);
    (0..len)
        .map(|_| {
            random.next_unit();
            T::of(random.0)
        })
        .collect()
}

fn sums<T: Number>(x: &[T], exclusive: bool) -> Vec<T> {
    let mut through = T::default();
    x.iter()
        .map(|&x| {
            let before = through;
            through = before.add(x);
            if exclusive { before } else { through }
        })
        .collect()
}

/// Around tiles of 2048 and 4096 elements, and their chunks and warps.
const LENGTHS: [usize; 14] = [0, 1, 2, 3, 5, 33, 511, 2047, 2048, 2049, 4095, 4096, 4097, 20_003];

fn scans<T: Number>(device: &Device) {
    for n in LENGTHS {
        let values = random_numbers::<T>(n as u64, n);
        let x = device.upload_vec(&values).unwrap();
        assert_eq!(x.inclusive_scan().unwrap().to_vec().unwrap(), sums(&values, false), "{n} elements");
        assert_eq!(x.exclusive_scan().unwrap().to_vec().unwrap(), sums(&values, true), "{n} elements, exclusive");
        let mut y = device.upload_vec(&random_numbers::<T>(7, n)).unwrap();
        y.inclusive_scan_from(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), sums(&values, false), "{n} elements");
        y.exclusive_scan_from(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), sums(&values, true), "{n} elements, exclusive");
        assert_eq!(x.to_vec().unwrap(), values);
    }
}

/// More than 32 tiles, so that the sums of groups count, and more than 1024, so that the prefixes do.
fn scans_of_groups(device: &Device) {
    let values = random_numbers::<u64>(1, 2048 * (1024 + 67) + 5);
    let x = device.upload_vec(&values).unwrap();
    assert!(x.inclusive_scan().unwrap().to_vec().unwrap() == sums(&values, false));
    let values = random_numbers::<u32>(2, 4096 * 33 + 1);
    let x = device.upload_vec(&values).unwrap();
    assert!(x.exclusive_scan().unwrap().to_vec().unwrap() == sums(&values, true));
}

/// Slices that do not begin at multiples of 16 bytes.
fn scans_of_slices(device: &Device) {
    let values = random_numbers::<u32>(3, 9000);
    let x = device.upload_vec(&values).unwrap();
    for first in [1, 2, 3, 4] {
        let mut y = device.zeros::<u32>(9000 - first).unwrap();
        y.inclusive_scan_from(x.slice(first..).unwrap()).unwrap();
        assert_eq!(y.to_vec().unwrap(), sums(&values[first..], false));
    }
}

fn what_does_not_fit(device: &Device) {
    let (x, mut y) = (device.zeros::<u32>(3).unwrap(), device.zeros::<u32>(4).unwrap());
    let error = y.inclusive_scan_from(&x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "x", expected: 4, found: 3 }), "{error}");
    let elsewhere = common::other(device).zeros::<u32>(4).unwrap();
    let error = y.exclusive_scan_from(&elsewhere).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "x", .. }), "{error}");
}

/// More than 1024 tiles, so that the prefixes count.
fn long_scans(device: &Device) {
    let values = random_numbers::<u32>(4, (1 << 23) + 4099);
    let x = device.upload_vec(&values).unwrap();
    assert!(x.inclusive_scan().unwrap().to_vec().unwrap() == sums(&values, false));
    let values = random_numbers::<f64>(5, (1 << 22) + 77);
    let x = device.upload_vec(&values).unwrap();
    let first = x.exclusive_scan().unwrap().to_vec().unwrap();
    assert!(first == sums(&values, true));
    // Rounded sums have the same bits each time.
    let values: Vec<f32> = Random(6).vector(1 << 23);
    let x = device.upload_vec(&values).unwrap();
    let bits = || x.inclusive_scan().unwrap().to_vec().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let first = bits();
    assert!((0..3).all(|_| bits() == first));
    let mut exact = 0.0;
    for (i, (x, bits)) in values.iter().zip(first).enumerate() {
        exact += f64::from(*x);
        assert!((f64::from(f32::from_bits(bits)) - exact).abs() < 0.01, "sum {i}");
    }
}

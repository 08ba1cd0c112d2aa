//! Prefix sums, sorts and their relatives, on every device, against plain code.

mod common;

use std::{fmt::Debug, process::ExitCode};

use common::{Random, on_cpu_and_gpu, on_every_device, properties};
use proptest::prelude::*;
use warpsparse::{Device, Element, Error, SortKey};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! each_type {
        ($($name:ident: $($type:ident)*;)*) => {$($(
            trials.extend(on_every_device(concat!(stringify!($name), "_", stringify!($type)), $name::<$type>));
        )*)*};
    }
    each_type! {
        scans: u32 u64 f32 f64;
        sorts: u32 u64;
        sorted_pairs: u32 u64;
        selections: u32 u64 f32 f64;
        runs: u32 u64;
        sums_of_runs: u32 u64 f32 f64;
    }
    trials.extend(on_cpu_and_gpu("long_sorts", long_sorts));
    trials.extend(on_cpu_and_gpu("sorts_of_several_threads", sorts_of_several_threads));
    trials.extend(on_every_device("sorts_of_segments", segments));
    trials.extend(on_every_device("histograms", histograms));
    trials.extend(on_cpu_and_gpu("long_runs", long_runs));
    trials.push(on_emulator("runs_of_any_keys", any_runs));
    trials.push(on_emulator("sorts_of_any_pairs", any_pairs));
    trials.push(on_emulator("scans_of_any_numbers", any_scans));
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

/// More than 32 tiles, so that the sums of groups count, and more than 2048, so that the second prefix follows from the first.
fn scans_of_groups(device: &Device) {
    let values = random_numbers::<u64>(1, 2048 * (2048 + 35) + 5);
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

/// Keys of every kind: random, equal, sorted, reversed, of few values, and the least and greatest.
fn key_sets<K: Number>(seed: u64, n: usize) -> Vec<Vec<K>> {
    let random = random_numbers::<K>(seed, n);
    let mut sorted = random.clone();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let reversed = sorted.iter().rev().copied().collect();
    let bits = |i: usize| (seed + i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let few = (0..n).map(|i| K::of((bits(i) >> 62) << 40)).collect();
    let ends = (0..n).map(|i| if bits(i) >> 63 == 0 { K::of(0) } else { K::of(u64::MAX) }).collect();
    vec![random, vec![K::of(seed << 50); n], sorted, reversed, few, ends]
}

/// Around tiles of 4096, 5632 and 8192 keys, and several of them.
const SORTED_LENGTHS: [usize; 10] = [0, 1, 2, 33, 4095, 4096, 4097, 8192, 8193, 13_000];

fn sorts<K: Number + SortKey>(device: &Device) {
    for n in SORTED_LENGTHS {
        for (kind, keys) in key_sets::<K>(n as u64, n).into_iter().enumerate() {
            let mut x = device.upload_vec(&keys).unwrap();
            x.sort().unwrap();
            let mut expected = keys;
            expected.sort();
            assert!(x.to_vec().unwrap() == expected, "{n} keys of kind {kind}");
        }
    }
}

fn sorted_pairs<K: Number + SortKey>(device: &Device) {
    for n in [0, 1, 33, 4095, 4096, 5632, 5633, 13_000] {
        for (kind, keys) in key_sets::<K>(n as u64, n).into_iter().enumerate() {
            // Values of each type tell the places: so stability shows.
            pairs::<K, u32>(device, kind, &keys, |place| place as u32);
            pairs::<K, f64>(device, kind, &keys, |place| place as f64 - 0.5);
        }
    }
    let keys = random_numbers::<K>(1, 5000);
    pairs::<K, u64>(device, 0, &keys, |place| (place as u64) << 40);
    pairs::<K, f32>(device, 0, &keys, |place| place as f32);
}

fn pairs<K: Number + SortKey, V: Number>(device: &Device, kind: usize, keys: &[K], value: fn(usize) -> V) {
    let mut expected: Vec<_> = keys.iter().enumerate().map(|(place, &key)| (key, value(place))).collect();
    let values: Vec<_> = expected.iter().map(|pair| pair.1).collect();
    expected.sort_by_key(|&(key, _)| key);
    let (mut x, mut y) = (device.upload_vec(keys).unwrap(), device.upload_vec(&values).unwrap());
    x.sort_pairs(&mut y).unwrap();
    let found: Vec<_> = x.to_vec().unwrap().into_iter().zip(y.to_vec().unwrap()).collect();
    assert!(found == expected, "{} pairs of kind {kind}", keys.len());
}

fn long_sorts(device: &Device) {
    for n in [1 << 20, (1 << 22) + 4099] {
        let keys = random_numbers::<u32>(n as u64, n);
        pairs::<u32, u32>(device, 0, &keys, |place| place as u32);
        let few: Vec<_> = keys.iter().map(|key| key % 5).collect();
        pairs::<u32, f64>(device, 1, &few, |place| place as f64);
        let keys = random_numbers::<u64>(n as u64, n);
        pairs::<u64, u32>(device, 2, &keys, |place| place as u32);
        let mut x = device.upload_vec(&keys).unwrap();
        x.sort().unwrap();
        let mut expected = keys;
        expected.sort_unstable();
        assert!(x.to_vec().unwrap() == expected);
    }
}

/// Lengths around what a group of lanes sorts, and longer; keys with and without equals.
fn segments(device: &Device) {
    let cases: [&[usize]; 8] =
        [&[], &[0], &[1], &[0, 0, 3], &[7; 50], &[64, 65, 63, 1, 0, 2], &[511, 512, 0, 5], &[513, 3, 0, 2000]];
    for (case, lengths) in cases.into_iter().enumerate() {
        let ends = lengths.iter().scan(0, |end, &length| {
            *end += length as u32;
            Some(*end)
        });
        let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let all = random_numbers::<u32>(case as u64, lengths.iter().sum());
        for keys in [all.clone(), all.iter().map(|key| key % 3).collect()] {
            let mut expected: Vec<(u32, f64)> = keys.iter().copied().zip((0..).map(f64::from)).collect();
            for bounds in offsets.windows(2) {
                expected[bounds[0] as usize..bounds[1] as usize].sort_by_key(|&(key, _)| key);
            }
            let (expected_keys, expected): (Vec<u32>, Vec<f64>) = expected.into_iter().unzip();
            let starts = device.upload_vec(&offsets).unwrap();
            let mut alone = device.upload_vec(&keys).unwrap();
            alone.sort_segments(&starts).unwrap();
            assert_eq!(alone.to_vec().unwrap(), expected_keys, "case {case}");
            let mut values = device.upload_vec(&(0..keys.len()).map(|i| i as f64).collect::<Vec<_>>()).unwrap();
            let mut with = device.upload_vec(&keys).unwrap();
            with.sort_segments_with(&starts, &mut values).unwrap();
            assert_eq!((with.to_vec().unwrap(), values.to_vec().unwrap()), (expected_keys, expected), "case {case}");
        }
    }
    let keys = [5u32, 4, 3, 2, 1];
    for offsets in [&[1u32, 5][..], &[0, 3, 2, 5], &[0, 4], &[0, 6], &[0, 6, 5], &[0], &[]] {
        let mut x = device.upload_vec(&keys).unwrap();
        let error = x.sort_segments(&device.upload_vec(offsets).unwrap()).unwrap_err();
        assert!(matches!(&error, Error::InvalidOption(text) if text.contains("5 elements")), "{offsets:?}: {error}");
        assert_eq!(x.to_vec().unwrap(), keys, "{offsets:?}");
    }
    let (mut x, mut short) = (device.upload_vec(&keys).unwrap(), device.zeros::<f32>(4).unwrap());
    let error = x.sort_segments_with(&device.upload_vec(&[0u32, 5]).unwrap(), &mut short).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
}

/// The sorts of several threads on one stream do not share what they count.
fn sorts_of_several_threads(device: &Device) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..8 {
                    let keys = random_numbers::<u32>(thread * 100 + round, 100_000 + 7777 * thread as usize);
                    pairs::<u32, u32>(device, round as usize, &keys, |place| place as u32);
                    let x = device.upload_vec(&keys).unwrap();
                    assert!(x.inclusive_scan().unwrap().to_vec().unwrap() == sums(&keys, false));
                }
            });
        }
    });
}

fn on_emulator(name: &str, body: fn(&Device)) -> libtest_mimic::Trial {
    common::on_device(format!("{name}::emulated"), body, || Device::emulated(2))
}

fn any_pairs(device: &Device) {
    let keys = proptest::collection::vec((any::<u64>(), 0u32..64), 0..6000);
    properties::check("sorts_of_any_pairs", 12, keys, |keys| {
        let wide: Vec<u64> = keys.iter().map(|&(key, shift)| key >> shift).collect();
        let narrow: Vec<u32> = wide.iter().map(|&key| key as u32).collect();
        pairs::<u64, u32>(device, 0, &wide, |place| place as u32);
        pairs::<u32, u64>(device, 0, &narrow, |place| place as u64);
        Ok(())
    });
}

fn any_scans(device: &Device) {
    let cases = (proptest::collection::vec(any::<u64>(), 0..10_000), 0usize..5);
    properties::check("scans_of_any_numbers", 20, cases, |(x, first)| {
        let vector = device.upload_vec(&x).unwrap();
        prop_assert!(vector.inclusive_scan().unwrap().to_vec().unwrap() == sums(&x, false));
        let first = first.min(x.len());
        let mut y = device.zeros::<u64>(x.len() - first).unwrap();
        y.exclusive_scan_from(vector.slice(first..).unwrap()).unwrap();
        prop_assert!(y.to_vec().unwrap() == sums(&x[first..], true));
        Ok(())
    });
}

fn any_runs(device: &Device) {
    let runs = proptest::collection::vec((0u32..3, 1usize..400), 0..60);
    properties::check("runs_of_any_keys", 20, runs, |runs| {
        let keys: Vec<u32> = runs.iter().flat_map(|&(key, len)| vec![key; len]).collect();
        check_runs(device, &keys);
        let flags: Vec<u32> = keys.iter().map(|key| key / 2 * 7).collect();
        check_selection(device, &random_numbers::<u64>(3, flags.len()), &flags);
        Ok(())
    });
}

fn selections<T: Number>(device: &Device) {
    for n in LENGTHS {
        let (x, random) = (random_numbers::<T>(1, n), random_numbers::<u32>(2, n));
        check_selection(device, &x, &random.iter().map(|bits| bits >> 31).collect::<Vec<_>>());
        check_selection(device, &x, &random.iter().map(|bits| u32::from(bits % 50 == 0)).collect::<Vec<_>>());
        check_selection(device, &x, &vec![0; n]);
        check_selection(device, &x, &vec![u32::MAX; n]);
    }
}

fn check_selection<T: Number>(device: &Device, values: &[T], flags: &[u32]) {
    let (x, of) = (device.upload_vec(values).unwrap(), device.upload_vec(flags).unwrap());
    let places: Vec<_> = (0..flags.len()).filter(|&i| flags[i] != 0).collect();
    let expected: Vec<_> = places.iter().map(|&i| values[i]).collect();
    assert!(x.select(&of).unwrap().to_vec().unwrap() == expected, "{} elements", values.len());
    let found = of.flagged_indices().unwrap();
    assert_eq!(found.len(), places.len());
    assert!(found.to_vec().unwrap().into_iter().eq(places.iter().map(|&i| i as u32)), "{} flags", flags.len());
    // What has been shortened is a vector like any other.
    assert!(found.inclusive_scan().unwrap().len() == places.len());
}

fn runs<K: Number + SortKey>(device: &Device) {
    for n in LENGTHS {
        let random = random_numbers::<K>(n as u64, n);
        check_runs(device, &random);
        check_runs(device, &vec![K::of(u64::MAX); n]);
        let few: Vec<_> =
            random.iter().map(|key| if *key < K::of(1 << 63) { K::of(0) } else { K::of(u64::MAX) }).collect();
        check_runs(device, &few);
    }
}

fn check_runs<K: Number + SortKey>(device: &Device, keys: &[K]) {
    let x = device.upload_vec(keys).unwrap();
    let runs: Vec<_> = keys.chunk_by(|a, b| a == b).collect();
    let heads: Vec<_> = runs.iter().map(|run| run[0]).collect();
    let lengths: Vec<_> = runs.iter().map(|run| run.len() as u32).collect();
    assert!(x.unique().unwrap().to_vec().unwrap() == heads, "{} keys", keys.len());
    let found = x.run_lengths().unwrap();
    assert!(found.0.to_vec().unwrap() == heads && found.1.to_vec().unwrap() == lengths, "{} keys", keys.len());
}

/// Runs of about 3 and of about 100 elements, which 4 and 32 lanes add.
fn sums_of_runs<V: Number>(device: &Device) {
    for n in LENGTHS {
        for length in [3, 100] {
            let keys: Vec<u32> = (0..n).map(|i| ((i + i / 7) / length) as u32).collect();
            check_sums(device, &keys, &random_numbers::<V>(5, n));
        }
    }
}

fn check_sums<V: Number>(device: &Device, keys: &[u32], values: &[V]) {
    let mut expected: Vec<(u32, V)> = Vec::new();
    for (&key, &value) in keys.iter().zip(values) {
        match expected.last_mut() {
            Some((last, sum)) if *last == key => *sum = sum.add(value),
            _ => expected.push((key, value)),
        }
    }
    let (x, y) = (device.upload_vec(keys).unwrap(), device.upload_vec(values).unwrap());
    let (heads, sums) = x.reduce_by_key(&y).unwrap();
    let found: Vec<_> = heads.to_vec().unwrap().into_iter().zip(sums.to_vec().unwrap()).collect();
    assert!(found == expected, "{} values", values.len());
}

fn long_runs(device: &Device) {
    let n = (1 << 22) + 77;
    let keys: Vec<u32> = (0..n).map(|i| (i / 5 + i / 31) as u32).collect();
    check_runs(device, &keys);
    check_sums(device, &keys, &random_numbers::<f64>(6, n));
    check_selection(device, &random_numbers::<u32>(7, n), &keys.iter().map(|key| key & 1).collect::<Vec<_>>());
}

/// Few bins, as many as fit in shared memory, and one more.
fn histograms(device: &Device) {
    for bins in [0, 1, 100, 8192, 8193, 50_000] {
        for n in [0, 1, 511, 30_000] {
            let keys: Vec<u32> = random_numbers::<u32>(n as u64, n).iter().map(|key| key % 10_000).collect();
            let mut expected = vec![0; bins];
            keys.iter().filter(|key| (**key as usize) < bins).for_each(|&key| expected[key as usize] += 1);
            let counts = device.upload_vec(&keys).unwrap().histogram(bins).unwrap();
            assert!(counts.to_vec().unwrap() == expected, "{n} keys in {bins} bins");
        }
    }
}

fn what_does_not_fit(device: &Device) {
    let (x, mut y) = (device.zeros::<u32>(3).unwrap(), device.zeros::<u32>(4).unwrap());
    let error = y.inclusive_scan_from(&x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "x", expected: 4, found: 3 }), "{error}");
    let elsewhere = common::other(device).zeros::<u32>(4).unwrap();
    let error = y.exclusive_scan_from(&elsewhere).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "x", .. }), "{error}");
    let error = y.select(&x).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "flags", expected: 4, found: 3 }), "{error}");
    let error = x.reduce_by_key(&y).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "values", expected: 3, found: 4 }), "{error}");
    let error = y.sort_pairs(&mut device.zeros::<f64>(3).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "values", expected: 4, found: 3 }), "{error}");
    let error = y.sort_pairs(&mut common::other(device).zeros::<f64>(4).unwrap()).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "values", .. }), "{error}");
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

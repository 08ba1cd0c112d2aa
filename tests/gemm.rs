//! Dense products on every device, against a reference in f64.

mod common;

use std::process::ExitCode;

use common::{
    Random, assert_exact, assert_within, on_cpu_and_gpu, on_emulator_and_gpu, on_every_device, on_gpu, other, sums::Sum,
};
use kernels_gpu::{DType, gemm_dmma, gemm_tf32, gemm_tiles, gemm_wgmma};
use warpsparse::{
    DenseLayout, DenseMut, Device, DeviceVec, Error, GemmOptions, Order, Result, Scalar, gemm, gemm_autotune,
    gemm_choice, gemm_with,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("every_layout_f32", every_layout::<f32>));
    trials.extend(on_every_device("every_layout_f64", every_layout::<f64>));
    trials.extend(on_emulator_and_gpu("every_tile_f32", every_tile::<f32>));
    trials.extend(on_emulator_and_gpu("every_tile_f64", every_tile::<f64>));
    trials.extend(on_cpu_and_gpu("many_blocks_f32", many_blocks::<f32>));
    trials.extend(on_cpu_and_gpu("many_blocks_f64", many_blocks::<f64>));
    trials.extend(on_every_device("degenerate_sizes_f32", degenerate_sizes::<f32>));
    trials.extend(on_every_device("degenerate_sizes_f64", degenerate_sizes::<f64>));
    trials.extend(on_every_device("factors", factors));
    trials.extend(on_every_device("factors_in_device_memory_f32", factors_in_device_memory::<f32>));
    trials.extend(on_every_device("factors_in_device_memory_f64", factors_in_device_memory::<f64>));
    trials.extend(on_every_device("products_of_transposes", products_of_transposes));
    trials.extend(on_every_device("graphs_repeat_products", graphs_repeat_products));
    trials.extend(on_every_device("graphs_hold_split_sums", graphs_hold_split_sums));
    trials.extend(on_every_device("threads_share_a_queue", threads_share_a_queue));
    trials.extend(on_every_device("autotuned_options_are_forced_ones", autotuned_options));
    trials.extend(on_every_device("infinities_and_nans_f32", infinities_and_nans::<f32>));
    trials.extend(on_every_device("infinities_and_nans_f64", infinities_and_nans::<f64>));
    trials.extend(on_every_device("largest_numbers", largest_numbers));
    trials.extend(on_every_device("smallest_numbers", smallest_numbers));
    trials.extend(on_emulator_and_gpu("long_sums_on_the_tensor_cores", long_sums));
    trials.extend(on_every_device("same_input_same_bits_f32", same_input_same_bits::<f32>));
    trials.extend(on_every_device("same_input_same_bits_f64", same_input_same_bits::<f64>));
    trials.extend(on_every_device("what_does_not_fit_is_an_error", what_does_not_fit));
    trials.push(on_gpu("large_products_f32", large_products::<f32>));
    trials.push(on_gpu("large_products_f64", large_products::<f64>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f32", emulated_bits_are_the_gpus::<f32>));
    trials.push(on_gpu("emulated_bits_are_the_gpus_f64", emulated_bits_are_the_gpus::<f64>));
    common::run(trials)
}

const BOTH: [Order; 2] = [Order::RowMajor, Order::ColumnMajor];

/// What stands where no element is.
const GAP: f64 = -77.0;

/// A matrix for a test: its elements, gaps included, and where they lie.
struct Dense<T> {
    layout: DenseLayout,
    elements: Vec<T>,
    /// From one row to the next, and from one column to the next.
    distances: (usize, usize),
    offset: usize,
    size: (usize, usize),
}

impl<T: Scalar> Dense<T> {
    fn new(
        (nrows, ncols): (usize, usize),
        order: Order,
        gap: usize,
        offset: usize,
        mut element: impl FnMut() -> f64,
    ) -> Self {
        let (layout, leading_dimension, distances) = match order {
            Order::RowMajor => (DenseLayout::row_major(nrows, ncols), ncols + gap, (ncols + gap, 1)),
            Order::ColumnMajor => (DenseLayout::column_major(nrows, ncols), nrows + gap, (1, nrows + gap)),
        };
        let lines = if order == Order::RowMajor { nrows } else { ncols };
        let mut elements = vec![T::from_f64(GAP); offset + lines * leading_dimension];
        for i in 0..nrows {
            for j in 0..ncols {
                elements[offset + i * distances.0 + j * distances.1] = T::from_f64(element());
            }
        }
        let layout = layout.leading_dimension(leading_dimension).offset(offset);
        Self { layout, elements, distances, offset, size: (nrows, ncols) }
    }

    fn random(seed: u64, size: (usize, usize), order: Order, gap: usize, offset: usize) -> Self {
        let mut random = Random(seed);
        Self::new(size, order, gap, offset, || random.next_unit())
    }

    /// Small integers, from 1 to 16, whose sums of products are exact.
    fn integers(seed: u64, size: (usize, usize), order: Order) -> Self {
        let mut random = Random(seed);
        Self::new(size, order, 0, 0, || 1.0 + random.next_below(16) as f64)
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.elements[self.offset + i * self.distances.0 + j * self.distances.1].to_f64()
    }
}

/// The product by the device, of which every element is compared with that in f64, and every gap.
fn check<T: Scalar>(
    case: &str,
    device: &Device,
    options: &GemmOptions,
    factors: (f64, f64),
    matrices: (&Dense<T>, &Dense<T>, &Dense<T>),
) {
    let (found, expected) = elements(case, device, options, factors, matrices);
    assert_within(case, &found, &expected);
}

/// As [`check`], of integers: the product must be exact.
fn check_exact<T: Scalar>(
    case: &str,
    device: &Device,
    options: &GemmOptions,
    factors: (f64, f64),
    matrices: (&Dense<T>, &Dense<T>, &Dense<T>),
) {
    let (found, expected) = elements(case, device, options, factors, matrices);
    assert_exact(case, &found, &expected);
}

/// The elements of the product by the device, row by row, and what they should be; fails unless nobody has written between them.
fn elements<T: Scalar>(
    case: &str,
    device: &Device,
    options: &GemmOptions,
    (alpha, beta): (f64, f64),
    (a, b, c): (&Dense<T>, &Dense<T>, &Dense<T>),
) -> (Vec<T>, Vec<(f64, f64)>) {
    let found = product(device, options, (alpha, beta), (a, b, c));
    let ((m, k), n) = (a.size, b.size.1);
    let (mut elements, mut expected) = (vec![], vec![]);
    let mut is_element = vec![false; found.len()];
    for i in 0..m {
        for j in 0..n {
            let sum: Sum = (0..k).map(|p| alpha * a.at(i, p) * b.at(p, j)).collect();
            expected.push(sum.bounded::<T>(if beta == 0.0 { 0.0 } else { beta * c.at(i, j) }));
            let at = c.offset + i * c.distances.0 + j * c.distances.1;
            elements.push(found[at]);
            is_element[at] = true;
        }
    }
    for (at, value) in found.iter().enumerate().filter(|(at, _)| !is_element[*at]) {
        assert_eq!(value.to_f64(), GAP, "{case}: the gap at {at}");
    }
    (elements, expected)
}

fn product<T: Scalar>(
    device: &Device,
    options: &GemmOptions,
    (alpha, beta): (f64, f64),
    (a, b, c): (&Dense<T>, &Dense<T>, &Dense<T>),
) -> Vec<T> {
    let [x, y, mut z] = [a, b, c].map(|matrix| device.upload_vec(&matrix.elements).unwrap());
    let (a, b, c) = (x.matrix(a.layout).unwrap(), y.matrix(b.layout).unwrap(), z.matrix_mut(c.layout).unwrap());
    gemm_with(options, T::from_f64(alpha), a, b, T::from_f64(beta), c).unwrap();
    z.to_vec().unwrap()
}

/// C, not numbers where it must not be read.
fn old<T: Scalar>(size: (usize, usize), order: Order, gap: usize, offset: usize, beta: f64) -> Dense<T> {
    let mut random = Random(9);
    Dense::new(size, order, gap, offset, || if beta == 0.0 { f64::NAN } else { random.next_unit() })
}

/// Whether the device has kernels on the tensor cores for the type.
fn has_tensor_cores<T: Scalar>(device: &Device) -> bool {
    device.info().unwrap().cuda.is_none_or(|cuda| match T::DTYPE {
        DType::F32 => cuda.compute_capability >= (8, 0),
        DType::F64 => matches!(cuda.compute_capability, (8, 0) | (9, 0)),
    })
}

/// Whether the device, if it is a GPU, has products by warpgroups for the type.
fn has_warpgroups<T: Scalar>(device: &Device) -> bool {
    T::DTYPE == DType::F32 && device.info().unwrap().cuda.is_none_or(|cuda| cuda.compute_capability == (9, 0))
}

/// The tile of the kernel that multiplies by warpgroups.
const OF_WARPGROUPS: (u32, u32) = (gemm_wgmma::ROWS, gemm_wgmma::COLUMNS);

/// The default, and if there are such kernels, those on the tensor cores, which the default would not take for small products.
fn units<T: Scalar>(device: &Device) -> Vec<GemmOptions> {
    let mut units = vec![GemmOptions::default()];
    if has_tensor_cores::<T>(device) {
        units.push(GemmOptions::default().tensor_cores(true));
    }
    if has_warpgroups::<T>(device) {
        units.push(GemmOptions::default().tensor_cores(true).tile(OF_WARPGROUPS.0, OF_WARPGROUPS.1));
    }
    units
}

/// Rows and columns of each matrix, aligned and not, with gaps and without.
fn every_layout<T: Scalar>(device: &Device) {
    for options in units::<T>(device) {
        for (m, n, k) in [(5, 7, 3), (33, 36, 20), (40, 32, 16)] {
            for (a_order, b_order, c_order) in orders() {
                for (gap, offset) in [(0, 0), (4, 8), (1, 3)] {
                    let a = Dense::<T>::random(1, (m, k), a_order, gap, offset);
                    let b = Dense::random(2, (k, n), b_order, gap, offset);
                    let c = old((m, n), c_order, gap, offset, 0.5);
                    let case = format!(
                        "{m} x {n} x {k}, {a_order:?} {b_order:?} {c_order:?}, gap {gap}, offset {offset}, {options:?}"
                    );
                    check(&case, device, &options, (1.5, 0.5), (&a, &b, &c));
                }
            }
        }
    }
}

/// All orders of three matrices.
fn orders() -> impl Iterator<Item = (Order, Order, Order)> {
    let of_two = BOTH.into_iter().flat_map(|a| BOTH.map(|b| (a, b)));
    of_two.flat_map(|(a, b)| BOTH.map(|c| (a, b, c)))
}

/// Options for each tile that the device has a kernel for, with its rows and columns.
fn tiles<T: Scalar>(device: &Device) -> Vec<(GemmOptions, (usize, usize))> {
    let on_tensor_cores = |dtype| T::DTYPE == dtype && has_tensor_cores::<T>(device);
    let dmma = gemm_dmma::KEYS
        .iter()
        .filter(|_| on_tensor_cores(DType::F64))
        .map(|key| (key.tile.rows(), key.tile.cols(), true));
    let tf32 = gemm_tf32::KEYS
        .iter()
        .filter(|_| on_tensor_cores(DType::F32))
        .map(|key| (key.tile.rows(), key.tile.cols(), true));
    let wgmma = has_warpgroups::<T>(device).then_some((OF_WARPGROUPS.0, OF_WARPGROUPS.1, true));
    let of_type = gemm_tiles::KEYS.iter().filter(|key| key.dtype == T::DTYPE);
    let mut tiles: Vec<_> =
        dmma.chain(tf32).chain(wgmma).chain(of_type.map(|key| (key.tile.rows(), key.tile.cols(), false))).collect();
    tiles.dedup(); // the entries of a tile stand together
    let options = |(rows, cols, tensor_cores)| {
        let options = GemmOptions::default().tile(rows, cols).tensor_cores(tensor_cores);
        (options, (rows as usize, cols as usize))
    };
    tiles.into_iter().map(options).collect()
}

/// Every kernel, by name, with sizes around those of its tile, and of the steps in which it goes through the sums; and with sums split
/// among blocks, some of which have nothing to add up. Of integers, so that not one product is lost, or taken twice.
fn every_tile<T: Scalar>(device: &Device) {
    let mut kernels = std::collections::BTreeSet::new();
    for (options, (rows, cols)) in tiles::<T>(device) {
        // The emulator is slow.
        let sizes = match device.is_cuda() {
            true => vec![
                (rows - 1, cols + 1, 7, 1),
                (rows, cols, 8, 1),
                (2 * rows + 1, cols - 1, 33, 1),
                (rows + 1, 2 * cols + 4, 64, 2),
                (9 * rows, cols, 40, 3),
                (rows - 1, 2 * cols + 1, 300, 7),
            ],
            // The last one in more groups of tiles than one.
            false if rows == 32 => {
                vec![(rows + 1, cols - 1, 9, 1), (2 * rows, cols + 1, 70, 2), (10 * rows, 2 * cols + 1, 2, 1)]
            }
            // More steps than shared memory holds, copied by elements and by 16 bytes.
            false if (rows, cols) == (64, 64) => {
                vec![(rows - 1, cols - 1, 9, 1), (rows - 1, cols + 1, 87, 1), (rows, cols, 200, 2)]
            }
            // Three steps, so that the last of three splits has one.
            false if (rows as u32, cols as u32) == OF_WARPGROUPS => {
                vec![(rows + 1, cols - 1, 9, 1), (rows, cols, 70, 3)]
            }
            false => vec![(rows + 1, cols - 1, 9, 1), (rows, cols, 40, 3)],
        };
        for (m, n, k, split_k) in sizes {
            let options = options.clone().split_k(split_k);
            for a_order in BOTH {
                for b_order in BOTH {
                    let a = Dense::<T>::integers(3, (m, k), a_order);
                    let b = Dense::integers(4, (k, n), b_order);
                    let c = old((m, n), Order::RowMajor, 0, 0, 0.0);
                    let case = format!("{m} x {n} x {k}, {options:?}, {a_order:?} {b_order:?}");
                    check_exact(&case, device, &options, (1.0, 0.0), (&a, &b, &c));
                    kernels.insert(chosen(device, &options, (&a, &b, &c)));
                }
            }
        }
    }
    let of_type = gemm_tiles::KEYS.iter().filter(|key| key.dtype == T::DTYPE);
    let mut expected: std::collections::BTreeSet<_> = of_type.map(|key| key.entry().name.to_owned()).collect();
    if has_tensor_cores::<T>(device) {
        let on_tensor_cores: Vec<_> = match T::DTYPE {
            DType::F32 => gemm_tf32::KEYS.iter().map(|key| key.entry()).collect(),
            DType::F64 => gemm_dmma::KEYS.iter().map(|key| key.entry()).collect(),
        };
        expected.extend(on_tensor_cores.iter().map(|entry| entry.name.to_owned()));
    }
    if has_warpgroups::<T>(device) {
        expected.insert("gemm_wgmma_f32_256x128".to_owned());
    }
    assert_eq!(kernels, expected);
}

fn chosen<T: Scalar>(device: &Device, options: &GemmOptions, (a, b, c): (&Dense<T>, &Dense<T>, &Dense<T>)) -> String {
    let [x, y, mut z] = [a, b, c].map(|matrix| device.upload_vec(&matrix.elements).unwrap());
    let (a, b, c) = (x.matrix(a.layout).unwrap(), y.matrix(b.layout).unwrap(), z.matrix_mut(c.layout).unwrap());
    gemm_choice(options, a, b, &c).unwrap().kernel
}

/// So large that threads of the CPU have several blocks each, and the last ones are not full.
fn many_blocks<T: Scalar>(device: &Device) {
    let options = GemmOptions::default();
    for (m, n, k) in [(300, 520, 3), (1030, 70, 2), (5, 700, 4)] {
        for a_order in BOTH {
            for b_order in BOTH {
                for c_order in BOTH {
                    let a = Dense::<T>::random(1, (m, k), a_order, 1, 2);
                    let b = Dense::random(2, (k, n), b_order, 3, 0);
                    let c = old((m, n), c_order, 2, 5, 0.5);
                    let case = format!("{m} x {n} x {k}, {a_order:?} {b_order:?} {c_order:?}");
                    check(&case, device, &options, (1.5, 0.5), (&a, &b, &c));
                }
            }
        }
    }
}

fn degenerate_sizes<T: Scalar>(device: &Device) {
    for options in units::<T>(device) {
        for (m, n, k) in [(0, 5, 3), (5, 0, 3), (5, 4, 0), (0, 0, 0), (1, 1, 1), (1, 70, 1), (70, 1, 2), (1, 1, 100)] {
            for order in BOTH {
                for (alpha, beta) in [(2.0, 0.0), (2.0, -1.5), (0.0, 2.0)] {
                    let a = Dense::<T>::random(5, (m, k), order, 0, 0);
                    let b = Dense::random(6, (k, n), order, 0, 0);
                    let c = old((m, n), order, 2, 1, beta);
                    let case = format!("{m} x {n} x {k}, {order:?}, alpha {alpha}, beta {beta}, {options:?}");
                    check(&case, device, &options, (alpha, beta), (&a, &b, &c));
                }
            }
        }
    }
}

/// What is infinite or not a number stays in its row or column, also where the tile has rows, columns and places beyond the last.
fn infinities_and_nans<T: Scalar>(device: &Device) {
    let size = (35, 34, 9);
    for options in units::<T>(device) {
        for (order, split_k) in [(Order::RowMajor, 1), (Order::ColumnMajor, 2)] {
            let [mut a, mut b] =
                [(size.0, size.2), (size.2, size.1)].map(|size| Dense::<T>::new(size, order, 0, 0, || 1.0));
            let (in_a, in_b) =
                (|i, p| i * a.distances.0 + p * a.distances.1, |p, j| p * b.distances.0 + j * b.distances.1);
            let (nan, infinite, of_b) = (in_a(34, 8), in_a(5, 0), in_b(8, 33));
            (a.elements[nan], a.elements[infinite]) = (T::from_f64(f64::NAN), T::from_f64(f64::INFINITY));
            b.elements[of_b] = T::from_f64(f64::NEG_INFINITY);
            let c = old((size.0, size.1), Order::RowMajor, 0, 0, 0.0);
            let found = product(device, &options.clone().split_k(split_k), (1.0, 0.0), (&a, &b, &c));
            for (at, &found) in found.iter().enumerate() {
                let found = found.to_f64();
                let expected = match (at / size.1, at % size.1) {
                    (34, _) | (5, 33) => f64::NAN,
                    (5, _) => f64::INFINITY,
                    (_, 33) => f64::NEG_INFINITY,
                    _ => 9.0,
                };
                assert!(
                    found == expected || found.is_nan() && expected.is_nan(),
                    "{at}: {found} instead of {expected}, {options:?}"
                );
            }
        }
    }
}

/// Products of two numbers at the ends of the range, and beyond: each is what a multiplication says.
fn largest_numbers(device: &Device) {
    let largest = f32::MAX;
    let of_a = [
        largest,
        -largest,
        f32::from_bits(largest.to_bits() - 0x1000),
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        2e38,
        1.0,
    ];
    let of_b = [1.0, -0.5, 5001.3, -1e30, 1e-42, 0.0, 1.2345678, f32::INFINITY, f32::from_bits(0x7f80_0001)];
    let [mut rows, mut cols] = [of_a.iter(), of_b.iter()];
    let a = Dense::<f32>::new((of_a.len(), 1), Order::RowMajor, 0, 0, || f64::from(*rows.next().unwrap()));
    let b = Dense::<f32>::new((1, of_b.len()), Order::RowMajor, 0, 0, || f64::from(*cols.next().unwrap()));
    let c = old((of_a.len(), of_b.len()), Order::RowMajor, 0, 0, 0.0);
    for options in units::<f32>(device) {
        let found = product(device, &options, (1.0, 0.0), (&a, &b, &c));
        for (at, found) in found.into_iter().enumerate() {
            let (a, b) = (of_a[at / of_b.len()], of_b[at % of_b.len()]);
            let expected = a * b;
            let is_near = (found - expected).abs() <= 4.0 * f32::EPSILON * expected.abs();
            let is_right = if expected.is_finite() { is_near } else { found == expected };
            assert!(is_right || found.is_nan() && expected.is_nan(), "{a} * {b}: {found}, {options:?}");
        }
    }
}

/// Factors so small that TF32 numbers lose places of them, as the options say; the others make up for it.
fn smallest_numbers(device: &Device) {
    let size = (20, 17, 30);
    for options in units::<f32>(device) {
        for exponent in [60, 100, 112, 124, 130] {
            let (small, large) = (2f64.powi(-exponent), 2f64.powi(exponent - 8));
            let (mut of_a, mut of_b) = (Random(21), Random(22));
            let a = Dense::<f32>::new((size.0, size.2), Order::RowMajor, 0, 0, || small * of_a.next_unit());
            let b = Dense::<f32>::new((size.2, size.1), Order::RowMajor, 0, 0, || large * of_b.next_unit());
            let c = old((size.0, size.1), Order::RowMajor, 0, 0, 0.0);
            let (found, mut expected) = elements("", device, &options, (1.0, 0.0), (&a, &b, &c));
            let lost = |col| (0..size.2).map(|p| 2f64.powi(-136) * b.at(p, col).abs()).sum::<f64>();
            expected.iter_mut().enumerate().for_each(|(at, (_, bound))| *bound += lost(at % size.1));
            assert_within(&format!("2^-{exponent}, {options:?}"), &found, &expected);
        }
    }
}

/// Sums on the tensor cores of numbers of one sign, where what is cut off adds up; of numbers of all magnitudes; and of those that cancel. They must be as good as
/// sums in `f32` of an eighth of the terms: the bound does not allow for a cut of each 8 places.
fn long_sums(device: &Device) {
    if !has_tensor_cores::<f32>(device) {
        return;
    }
    let options = GemmOptions::default().tensor_cores(true).split_k(1);
    let (m, n) = (17, 19);
    for k in if device.is_cuda() { vec![1000, 4096, 65536] } else { vec![1000] } {
        for (kind, of_a, of_b) in [
            ("positive", (|u, _| u + 1.0) as fn(f64, usize) -> f64, (|u, _| u + 1.0) as fn(f64, usize) -> f64),
            ("of all magnitudes", |u, i| u * 10f64.powi((i % 7) as i32 - 3), |u, i| u * 10f64.powi((i % 5) as i32 - 2)),
            ("cancelling", |u, _| 1.0 + 1e-4 * u, |u, i| if i % 2 == 0 { 1.0 + 1e-4 * u } else { -1.0 }),
        ] {
            let (mut random, mut at) = (Random(31), 0);
            let mut next = |of: fn(f64, usize) -> f64| {
                at += 1;
                of(random.next_unit(), at - 1)
            };
            let a = Dense::<f32>::new((m, k), Order::RowMajor, 0, 0, || next(of_a));
            at = 0;
            let mut next = |of: fn(f64, usize) -> f64| {
                at += 1;
                of(random.next_unit(), at - 1)
            };
            let b = Dense::<f32>::new((k, n), Order::ColumnMajor, 0, 0, || next(of_b));
            let c = old((m, n), Order::RowMajor, 0, 0, 0.0);
            let found = product(device, &options, (1.0, 0.0), (&a, &b, &c));
            for (at, found) in found.into_iter().enumerate() {
                let (row, col) = (at / n, at % n);
                let terms = (0..k).map(|p| a.at(row, p) * b.at(p, col));
                let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
                let error = (f64::from(found) - sum).abs() / (magnitude * f64::from(f32::EPSILON));
                let bound = 2.0 + (k as f64 / 8.0).sqrt() / 2.0;
                assert!(error <= bound, "{k} {kind}, row {row}, column {col}: {error} of {bound} roundings");
            }
        }
    }
}

fn factors(device: &Device) {
    let a = Dense::<f32>::random(7, (37, 19), Order::RowMajor, 0, 0);
    let b = Dense::random(8, (19, 44), Order::RowMajor, 0, 0);
    let units = units::<f32>(device);
    for (alpha, beta) in [(1.0, 0.0), (1.0, 1.0), (-2.5, 0.75), (0.0, 2.0), (0.0, 0.0)] {
        let c = old((37, 44), Order::RowMajor, 0, 0, beta);
        for options in &units {
            check(&format!("alpha {alpha}, beta {beta}, {options:?}"), device, options, (alpha, beta), (&a, &b, &c));
        }
    }
    // As in BLAS, nothing is multiplied by an alpha of 0, nor is an empty sum.
    let nan = Dense::<f32>::new((37, 19), Order::RowMajor, 0, 0, || f64::NAN);
    let empty = (Dense::random(1, (37, 0), Order::RowMajor, 0, 0), Dense::random(1, (0, 44), Order::RowMajor, 0, 0));
    let c = old((37, 44), Order::RowMajor, 0, 0, 2.0);
    for (alpha, a, b) in [(0.0, &nan, &b), (f64::INFINITY, &empty.0, &empty.1)] {
        for options in &units {
            let found = product(device, options, (alpha, 2.0), (a, b, &c));
            assert!(
                found.iter().zip(&c.elements).all(|(found, old)| *found == 2.0 * old),
                "alpha {alpha}, {options:?}"
            );
        }
    }
    // What the factors multiply is what there is: infinity times 0 is not a number.
    let infinite = Dense::<f32>::new((1, 2), Order::RowMajor, 0, 0, || f64::INFINITY);
    let zero = Dense::new((2, 1), Order::RowMajor, 0, 0, || 0.0);
    let c = old((1, 1), Order::RowMajor, 0, 0, 1.0);
    for options in &units {
        assert!(product(device, options, (1.0, 1.0), (&infinite, &zero, &c))[0].is_nan(), "{options:?}");
    }
}

/// The same bits as with host scalars. An alpha of 0 hides what it multiplies; with a beta of 0, C is not read.
fn factors_in_device_memory<T: Scalar>(device: &Device) {
    let number = T::from_f64;
    let [three, eight, zero] = [3.0, 8.0, 0.0].map(|value| device.scalar(number(value)).unwrap());
    let upload = |seed, size| {
        let matrix = Dense::<T>::random(seed, size, Order::RowMajor, 0, 0);
        device.upload_dense(size, &matrix.elements).unwrap()
    };
    let (a, b, c) = (upload(7, (37, 19)), upload(8, (19, 44)), old::<T>((37, 44), Order::RowMajor, 0, 0, 1.0));
    let product = |split_k: u32, old: &[T], multiply: &dyn Fn(&GemmOptions, DenseMut<'_, T>) -> Result<()>| {
        let mut c = device.upload_dense((37, 44), old).unwrap();
        multiply(&GemmOptions::default().split_k(split_k), c.view_mut()).unwrap();
        c.to_vec().unwrap()
    };
    let nans = vec![number(f64::NAN); 37 * 44];
    for split_k in [1, 3] {
        let expected = product(split_k, &c.elements, &|with, c| gemm_with(with, number(3.0), &a, &b, number(8.0), c));
        assert_eq!(product(split_k, &c.elements, &|with, c| gemm_with(with, &three, &a, &b, &eight, c)), expected);
        let expected =
            product(split_k, &c.elements, &|with, c| gemm_with(with, number(0.375), &a, &b, number(-3.0), c));
        let found = product(split_k, &c.elements, &|with, c| gemm_with(with, &three / &eight, &a, &b, -&three, c));
        assert_eq!(found, expected);
        // Rounded in the same places.
        let (tenth, one) = (device.scalar(number(0.1)).unwrap(), device.scalar(number(1.0)).unwrap());
        let expected = product(split_k, &c.elements, &|with, c| gemm_with(with, number(0.1), &a, &b, number(1.0), c));
        assert_eq!(product(split_k, &c.elements, &|with, c| gemm_with(with, &tenth, &a, &b, &one, c)), expected);
        let expected = product(split_k, &c.elements, &|with, c| gemm_with(with, number(3.0), &a, &b, number(0.0), c));
        assert_eq!(product(split_k, &nans, &|with, c| gemm_with(with, &three, &a, &b, &zero, c)), expected);
        let infinite = device.upload_dense((37, 19), &[number(f64::INFINITY); 37 * 19]).unwrap();
        let found = product(split_k, &c.elements, &|with, c| gemm_with(with, &zero, &infinite, &b, &three, c));
        assert!(found.iter().zip(&c.elements).all(|(&found, &old)| found == number(3.0) * old));
    }
    let elsewhere = other(device).scalar(number(1.0)).unwrap();
    let mut c = device.zeros_dense((37, 44)).unwrap();
    let error = a.gemm(number(1.0), &b, &elsewhere, &mut c).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "beta", .. }), "{error}");
}

/// `B^T * A^T` is the transpose of `A * B`, and no element moves.
fn products_of_transposes(device: &Device) {
    let (of_a, of_b) = (DenseLayout::row_major(2, 3).leading_dimension(4).offset(1), DenseLayout::column_major(3, 2));
    assert_eq!((of_a.elements(), of_a.transpose().elements(), of_b.elements()), (Some(8), Some(8), Some(6)));
    assert_eq!(DenseLayout::row_major(0, 5).offset(7).elements(), Some(7));
    assert_eq!(DenseLayout::row_major(usize::MAX, 2).elements(), None);
    // 1 2 3 of 1 4 is 14  4
    // 4 5 6    2 0    32 16
    //          3 0
    let a = device.upload_vec(&[GAP, 1.0, 2.0, 3.0, GAP, 4.0, 5.0, 6.0]).unwrap();
    let b = device.upload_vec(&[1.0, 2.0, 3.0, 4.0, 0.0, 0.0]).unwrap();
    let (a, b) = (a.matrix(of_a).unwrap(), b.matrix(of_b).unwrap());
    let transpose = a.transpose();
    assert_eq!((transpose.nrows(), transpose.ncols(), transpose.order()), (3, 2, Order::ColumnMajor));
    assert_eq!((transpose.leading_dimension(), transpose.offset()), (4, 1));
    assert_eq!(transpose.device().to_string(), device.to_string());
    let mut c = device.zeros(4).unwrap();
    gemm(1.0, a, b, 0.0, c.matrix_mut((2, 2)).unwrap()).unwrap();
    assert_eq!(c.to_vec().unwrap(), [14.0, 4.0, 32.0, 16.0]);
    let mut of_transposes = device.zeros(4).unwrap();
    let result = of_transposes.matrix_mut((2, 2)).unwrap().transpose();
    assert_eq!(result.order(), Order::ColumnMajor);
    gemm(1.0, b.transpose(), transpose, 0.0, result).unwrap();
    assert_eq!(of_transposes.to_vec().unwrap(), c.to_vec().unwrap());
}

/// The sums are of integers, so they are exact.
fn graphs_repeat_products(device: &Device) {
    let a = device.upload_vec(&[2.0f32; 20 * 30]).unwrap();
    let b = device.upload_vec(&[3.0; 30 * 10]).unwrap();
    let mut c = device.upload_vec(&[100.0; 20 * 10]).unwrap();
    let product = || gemm(1.0, a.matrix((20, 30))?, b.matrix((30, 10))?, 1.0, c.matrix_mut((20, 10))?);
    let mut graph = device.record(product).unwrap();
    graph.launch(3).unwrap();
    graph.launch(1).unwrap();
    drop(graph);
    assert_eq!(c.to_vec().unwrap(), [100.0 + 4.0 * 180.0; 200]);
    // Splits share memory, which each product leaves as it has found it.
    let options = GemmOptions::default().tile(32, 32).split_k(2);
    let (a, b) = (device.upload_vec(&[2.0f32; 20 * 70]).unwrap(), device.upload_vec(&[3.0; 70 * 10]).unwrap());
    let product = || gemm_with(&options, 1.0, a.matrix((20, 70))?, b.matrix((70, 10))?, 1.0, c.matrix_mut((20, 10))?);
    let mut graph = device.record(product).unwrap();
    graph.launch(3).unwrap();
    drop(graph);
    assert_eq!(c.to_vec().unwrap(), [820.0 + 3.0 * 420.0; 200]);
}

/// `C += A B` with A of twos and B of threes, each sum split among 2, 3 or 4 blocks: every element grows by `6 k`, exactly.
fn add_product(queue: &Device, size: usize, split_k: u32, c: &mut DeviceVec<f32>) {
    let options = GemmOptions::default().tile(32, 32).split_k(split_k);
    let [a, b] = [2.0, 3.0].map(|value| queue.upload_vec(&vec![value; size * size]).unwrap());
    let square = (size, size);
    gemm_with(&options, 1.0, a.matrix(square).unwrap(), b.matrix(square).unwrap(), 1.0, c.matrix_mut(square).unwrap())
        .unwrap();
}

/// A stream's first products of this kind are in graphs, so that memory for them is allocated there. The first graph keeps what
/// it has, though a later product needs more, and products between its launches use other memory.
fn graphs_hold_split_sums(device: &Device) {
    let queue = &device.new_stream().unwrap();
    let record = |size: usize, split_k: u32, c: &mut DeviceVec<f32>, other: &mut dyn FnMut()| {
        let options = GemmOptions::default().tile(32, 32).split_k(split_k);
        let [a, b] = [2.0, 3.0].map(|value| queue.upload_vec(&vec![value; size * size]).unwrap());
        let square = (size, size);
        let product = || gemm_with(&options, 1.0, a.matrix(square)?, b.matrix(square)?, 1.0, c.matrix_mut(square)?);
        let mut graph = queue.record(product).unwrap();
        for _ in 0..3 {
            graph.launch(2).unwrap();
            other();
        }
    };
    let mut c = [40, 70, 140].map(|size| queue.zeros::<f32>(size * size).unwrap());
    let [small, medium, large] = &mut c;
    record(40, 2, small, &mut || {
        record(70, 4, medium, &mut || {
            if device.to_string() != "emulated" {
                add_product(queue, 140, 3, large)
            }
        });
    });
    let expected = [6.0 * 240.0, 18.0 * 420.0, if device.to_string() == "emulated" { 0.0 } else { 9.0 * 840.0 }];
    for (c, expected) in c.iter().zip(expected) {
        assert!(c.to_vec().unwrap().iter().all(|&c| c == expected), "{expected}");
    }
}

fn threads_share_a_queue(device: &Device) {
    let queue = &device.new_stream().unwrap();
    let rounds = if device.is_cuda() { 50 } else { 1 };
    std::thread::scope(|scope| {
        for split_k in [2, 3, 4] {
            scope.spawn(move || {
                // From thread to thread and round to round more memory is needed.
                for size in [33, 40 + 10 * split_k as usize] {
                    let mut c = queue.zeros(size * size).unwrap();
                    for _ in 0..rounds {
                        add_product(queue, size, split_k, &mut c);
                    }
                    let expected = (rounds * 6 * size) as f32;
                    assert!(c.to_vec().unwrap().iter().all(|&c| c == expected), "{size}, {split_k} split_k");
                }
            });
        }
    });
}

fn autotuned_options(device: &Device) {
    let a = Dense::<f32>::random(1, (40, 300), Order::RowMajor, 1, 2);
    let b = Dense::random(2, (300, 36), Order::ColumnMajor, 0, 1);
    let c = old((40, 36), Order::ColumnMajor, 3, 0, 0.5);
    let [x, y, mut z] = [&a, &b, &c].map(|matrix| device.upload_vec(&matrix.elements).unwrap());
    let out = z.matrix_mut(c.layout).unwrap();
    let options = gemm_autotune(x.matrix(a.layout).unwrap(), y.matrix(b.layout).unwrap(), &out).unwrap();
    assert_eq!(options.tile.is_some(), device.to_string() != "cpu");
    assert_eq!(options.split_k.is_some(), device.to_string() != "cpu");
    check(&format!("{options:?}"), device, &options, (1.5, 0.5), (&a, &b, &c));
}

fn same_input_same_bits<T: Scalar>(device: &Device) {
    let a = Dense::<T>::random(1, (70, 50), Order::RowMajor, 0, 0);
    let b = Dense::random(2, (50, 66), Order::ColumnMajor, 0, 0);
    let c = old((70, 66), Order::RowMajor, 0, 0, 0.5);
    for options in units::<T>(device) {
        for split_k in [1, 2] {
            let bits = || {
                let found = product(device, &options.clone().split_k(split_k), (1.25, 0.5), (&a, &b, &c));
                found.into_iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>()
            };
            let first = bits();
            for _ in 1..if device.is_cuda() { 100 } else { 2 } {
                assert!(bits() == first);
            }
        }
    }
}

fn what_does_not_fit(device: &Device) {
    let vector = device.zeros::<f32>(100).unwrap();
    let mut out = device.zeros::<f32>(100).unwrap();
    let mut error = |a: (usize, usize), b: (usize, usize), c: (usize, usize)| {
        let (a, b) = (vector.matrix(a).unwrap(), vector.matrix(b).unwrap());
        gemm(1.0, a, b, 0.0, out.matrix_mut(c).unwrap()).unwrap_err().to_string()
    };
    assert_eq!(error((3, 4), (5, 2), (3, 2)), "the column of B has 5 elements where the operation needs 4");
    assert_eq!(error((3, 4), (4, 2), (4, 2)), "the column of C has 4 elements where the operation needs 3");
    assert_eq!(error((3, 4), (4, 2), (3, 3)), "the row of C has 3 elements where the operation needs 2");
    let other = Device::emulated(3);
    if device.to_string() != "emulated" {
        let elsewhere = other.zeros::<f32>(12).unwrap();
        let (a, b) = (elsewhere.matrix((3, 4)).unwrap(), vector.matrix((4, 2)).unwrap());
        let error = gemm(1.0, a, b, 0.0, out.matrix_mut((3, 2)).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("A "), "{error}");
    }
    // Options that no kernel has are errors on every device, and where there is nothing to compute.
    let wrong = [
        (
            GemmOptions::default().tile(100, 3),
            "invalid option: a tile of 100 x 3: there are 128 x 256, 128 x 128, 128 x 64, 64 x 64, 32 x 32",
        ),
        (
            GemmOptions::default().tile(64, 64).tensor_cores(true),
            "invalid option: a tile of 64 x 64: there are 256 x 128, 128 x 128",
        ),
        (GemmOptions::default().split_k(0), "invalid option: sums split among other than 1 to 64 blocks"),
        (GemmOptions::default().split_k(65), "invalid option: sums split among other than 1 to 64 blocks"),
    ];
    for (options, expected) in wrong {
        for rows in [3, 0] {
            let (a, b) = (vector.matrix((rows, 4)).unwrap(), vector.matrix((4, 2)).unwrap());
            let c = out.matrix_mut((rows, 2)).unwrap();
            assert_eq!(gemm_choice(&options, a, b, &c).unwrap_err().to_string(), expected);
            assert_eq!(gemm_with(&options, 1.0, a, b, 0.0, c).unwrap_err().to_string(), expected);
        }
    }
    if device.to_string() != "cpu" {
        let far = DenseLayout::row_major(1, 4).leading_dimension(1 << 31);
        let (a, b) = (vector.matrix(far).unwrap(), vector.matrix((4, 2)).unwrap());
        let error = gemm(1.0, a, b, 0.0, out.matrix_mut((1, 2)).unwrap()).unwrap_err().to_string();
        assert_eq!(error, "not supported: a leading dimension of 2147483648: 2^31 and more");
    }
}

/// Against products on the CPU in f64, of which elements from everywhere are compared.
fn large_products<T: Scalar>(gpu: &Device) {
    let (m, n, k) = (1111, 1300, 2049);
    for (a_order, b_order) in [(BOTH[0], BOTH[0]), (BOTH[0], BOTH[1]), (BOTH[1], BOTH[0]), (BOTH[1], BOTH[1])] {
        let a = Dense::<T>::random(1, (m, k), a_order, 0, 0);
        let b = Dense::random(2, (k, n), b_order, 0, 0);
        let c = old((m, n), Order::RowMajor, 0, 0, 0.0);
        for options in units::<T>(gpu) {
            let found = product(gpu, &options, (1.0, 0.0), (&a, &b, &c));
            for at in (0..m * n).step_by(997) {
                let (i, j) = (at / n, at % n);
                let sum: Sum = (0..k).map(|p| a.at(i, p) * b.at(p, j)).collect();
                let case = format!("{a_order:?} {b_order:?}, row {i}, column {j}, {options:?}");
                assert_within(&case, &[found[at]], &[sum.bounded::<T>(0.0)]);
            }
        }
    }
}

/// By every kernel, except those in `f32` on the tensor cores, whose order of additions nobody specifies.
fn emulated_bits_are_the_gpus<T: Scalar>(gpu: &Device) {
    let emulated = Device::emulated(1);
    for a_order in BOTH {
        for b_order in BOTH {
            let a = Dense::<T>::random(1, (70, 50), a_order, 0, 0);
            let b = Dense::random(2, (50, 66), b_order, 1, 0);
            let c = old((70, 66), Order::RowMajor, 0, 0, 0.5);
            let is_specified = |options: &GemmOptions| T::DTYPE == DType::F64 || options.tensor_cores == Some(false);
            let tiles = tiles::<T>(gpu).into_iter().filter(|(options, _)| is_specified(options));
            for ((options, _), split_k) in tiles.zip([2, 3, 3, 1, 2, 1]) {
                let options = options.split_k(split_k);
                let bits = |on| {
                    let product = product(on, &options, (1.25, 0.5), (&a, &b, &c));
                    product.into_iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>()
                };
                assert!(bits(&emulated) == bits(gpu), "{options:?}, {a_order:?} {b_order:?}");
            }
        }
    }
}

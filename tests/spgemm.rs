//! Products of sparse matrices: patterns, values, plans, masks, semirings, errors.

mod common;

use std::{collections::BTreeMap, process::ExitCode};

use common::{
    Random, integers,
    matrices::{self, from_rows, stencil},
    on_cpu_and_gpu, on_device, on_every_device, other, properties,
    sums::Sum,
};
use proptest::{prop_assert_eq, strategy::Strategy};
use warpsparse::{
    CscMatrix, CsrMatrix, Device, DeviceMatrix, Error, FormatChoice, HostMatrix, Scalar, Semiring, SpgemmOptions,
    SpgemmPlan, SpmvOptions,
    kernels_gpu::spgemm_common::{HASHED_LIMIT, MIDDLE_LIMIT, SHORT_LIMITS, SMALL_LIMIT, WIDE_LIMIT, WIDE_WORDS},
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("squares_f32", squares::<f32>));
    trials.extend(on_every_device("squares_f64", squares::<f64>));
    trials.extend(on_every_device("rectangular", rectangular));
    trials.extend(on_every_device("row_sizes_around_every_limit", row_sizes_around_every_limit));
    trials.extend(on_every_device("columns_far_apart", columns_far_apart));
    trials.extend(on_every_device("a_row_of_very_many_products", a_row_of_very_many_products));
    trials.extend(on_every_device("huge_row_times_huge_column", huge_row_times_huge_column));
    trials.extend(on_every_device("zeros_stay", zeros_stay));
    trials.extend(on_every_device("the_bits_are_those_of_the_cpu", the_bits_are_those_of_the_cpu));
    trials.extend(on_every_device("plans", plans));
    trials.extend(on_every_device("plans_of_other_matrices", plans_of_other_matrices));
    trials.extend(on_every_device("results_multiply", results_multiply));
    trials.extend(on_every_device("products_of_three", products_of_three));
    trials.extend(on_every_device("products_of_three_by_sizes_f32", products_of_three_by_sizes::<f32>));
    trials.extend(on_every_device("products_of_three_by_sizes_f64", products_of_three_by_sizes::<f64>));
    trials.extend(on_every_device("coarse_grids", coarse_grids));
    trials.extend(on_every_device("masks", masks));
    trials.extend(on_every_device("semirings", semirings));
    trials.extend(on_every_device("bad_arguments_are_errors", bad_arguments_are_errors));
    trials.extend(on_cpu_and_gpu("what_does_not_fit_is_an_error", what_does_not_fit_is_an_error));
    trials.push(on_device("any_matrices::emulated".into(), any_matrices, || Device::emulated(3)));
    trials.push(on_device("any_matrices::cpu".into(), any_matrices, Device::cpu));
    common::run(trials)
}

/// Every entry of the product, and what it may be off.
fn reference<T: Scalar>(a: &CsrMatrix<T>, b: &CsrMatrix<T>) -> BTreeMap<(usize, usize), Sum> {
    let mut sums = BTreeMap::<_, Sum>::new();
    for (i, k, factor) in a.triplets() {
        for (&j, &value) in b.row(k).0.iter().zip(b.row(k).1) {
            sums.entry((i, j as usize)).or_default().add(factor.to_f64() * value.to_f64());
        }
    }
    sums
}

fn downloaded<T: Scalar>(c: &DeviceMatrix<T>) -> CsrMatrix<T> {
    match c.download().unwrap() {
        HostMatrix::Csr(c) => c,
        other => panic!("a product is in CSR: {other:?}"),
    }
}

fn check<T: Scalar>(case: &str, c: &DeviceMatrix<T>, reference: &BTreeMap<(usize, usize), Sum>, is_exact: bool) {
    let c = downloaded(c);
    assert!(c.is_canonical(), "{case}");
    let pattern: Vec<_> = c.triplets().map(|(i, j, _)| (i, j)).collect();
    assert!(pattern.iter().eq(reference.keys()), "{case}: the pattern of {} entries", pattern.len());
    for ((i, j, found), sum) in c.triplets().zip(reference.values()) {
        let (expected, bound) = sum.bounded::<T>(0.0);
        let bound = if is_exact { 0.0 } else { bound };
        let found = found.to_f64();
        assert!(
            (found - expected).abs() <= bound,
            "{case}: C[{i}, {j}] = {found}, expected {expected} within {bound:e}"
        );
    }
}

/// Whether the reference, and the emulator, can do it in a moment.
fn is_small<T: Scalar>(device: &Device, a: &CsrMatrix<T>, b: &CsrMatrix<T>) -> bool {
    let products: usize = a.col_indices().iter().map(|&k| b.row_range(k as usize).len()).sum();
    products <= if device.to_string() == "emulated" { 300_000 } else { 1_500_000 }
}

/// Real numbers within bounds, and integers exactly.
fn check_product<T: Scalar>(case: &str, device: &Device, a: &CsrMatrix<T>, b: &CsrMatrix<T>) {
    for (a, b, is_exact) in [(a.clone(), b.clone(), false), (integers::matrix(a), integers::matrix(b), true)] {
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let c = on_a.multiply(&on_b).unwrap();
        assert_eq!((c.nrows(), c.ncols()), (a.nrows(), b.ncols()), "{case}");
        check(case, &c, &reference(&a, &b), is_exact);
    }
}

fn squares<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        let (canonical, transposed) = (matrix.canonical(), matrix.transpose().unwrap().canonical());
        let cases = [("squared", &matrix, &canonical), ("times its transpose", &matrix, &transposed)];
        for (how, a, b) in cases.into_iter().chain([("its transpose first", &transposed, &canonical)]) {
            if a.ncols() == b.nrows() && is_small(device, a, b) {
                check_product(&format!("{name}, {how}"), device, a, b);
            }
        }
    }
}

fn random_rows<T: Scalar>(seed: u64, ncols: usize, lengths: impl IntoIterator<Item = usize>) -> CsrMatrix<T> {
    let mut random = Random(seed);
    let mut row = |length| (0..length).map(|_| (random.next_below(ncols), random.next_unit())).collect();
    let rows = lengths.into_iter().map(&mut row).collect();
    from_rows::<T>(ncols, rows).canonical()
}

fn rectangular(device: &Device) {
    let a = random_rows::<f32>(1, 40, (0..300).map(|i| i % 7));
    let b = random_rows::<f32>(2, 2000, (0..40).map(|i| 3 * i));
    check_product("wide", device, &a, &b);
    check_product("empty B", device, &a, &from_rows(9, vec![vec![]; 40]));
    check_product("empty A", device, &from_rows(40, vec![vec![]; 9]), &b);
    check_product("no columns", device, &from_rows::<f32>(0, vec![vec![]; 3]), &from_rows(5, vec![]));
}

/// Rows of as many products, and of as many distinct ones, as each class has at most, and one fewer and one more.
fn row_sizes_around_every_limit(device: &Device) {
    let lengths = [SMALL_LIMIT, MIDDLE_LIMIT, HASHED_LIMIT, 2 * HASHED_LIMIT];
    let limits: Vec<usize> = lengths.iter().chain(&SHORT_LIMITS).map(|&limit| limit as usize).collect();
    let sizes: Vec<usize> = limits.iter().flat_map(|&limit| [limit - 1, limit, limit + 1]).chain([1, 2, 3]).collect();
    let (most, entries) = (2 * HASHED_LIMIT as usize + 1, 8);
    // Row k of B has 8 columns; a row of A takes as many rows as it needs, the last a piece of 1 to 8 columns.
    for spread in [1, 41_003] {
        let rows = most.div_ceil(entries);
        let column = |j: usize| j * spread;
        let full = (0..rows).map(|k| (0..entries).map(|j| (column(k * entries + j), 1.0 + j as f64)).collect());
        let part = (1..entries).map(|length| (0..length).map(|j| (column(most + j), 2.0 + j as f64)).collect());
        let b = from_rows::<f64>(column(most + entries) + 1, full.chain(part).collect::<Vec<_>>());
        let row = |&size: &usize| {
            let mut row: Vec<_> = (0..size / entries).map(|k| (k, 1.5)).collect();
            row.extend((size % entries > 0).then(|| (rows + size % entries - 1, 3.0)));
            row
        };
        let distinct = from_rows(rows + entries - 1, sizes.iter().map(row).collect());
        check_product(&format!("distinct columns, {spread} apart"), device, &distinct, &b);
        // The same row of B again and again: few columns.
        let again = |&size: &usize| (0..size / entries).map(|k| (k % 3, 0.5)).collect();
        let again = from_rows(rows + entries - 1, sizes.iter().map(again).collect());
        check_product(&format!("few columns, {spread} apart"), device, &again, &b);
    }
}

/// Long rows over several bitmaps.
fn columns_far_apart(device: &Device) {
    let ncols = 3 * 32 * WIDE_WORDS as usize + 17;
    let b = random_rows::<f32>(3, ncols, (0..60).map(|k| [0, 1, 40, 200][k % 4]));
    let a = random_rows::<f32>(4, 60, [60, 0, 20, 30, 1, 55]);
    check_product("several parts", device, &a, &b);
    // At the borders of parts and words.
    let part = 32 * WIDE_WORDS as usize;
    let borders = [0, 31, 32, part - 1, part, part + 31, 2 * part - 1, 2 * part, 3 * part + 16];
    let of_borders = |k: usize| borders.iter().map(move |&j| (j, 1.0 + k as f64)).chain([(100 + 7 * k, 1.0)]);
    let row = |k| CsrMatrix::canonical(&from_rows::<f32>(ncols, vec![of_borders(k).collect()]));
    let rows = (0..50).map(|k| row(k).triplets().map(|(_, j, value)| (j, f64::from(value))).collect());
    let b = from_rows::<f32>(ncols, rows.collect());
    check_product("borders", device, &from_rows(50, vec![(0..50).map(|k| (k, 1.0)).collect(), vec![(3, 2.0)]]), &b);
}

fn a_row_of_very_many_products(device: &Device) {
    let (rows, length) = (WIDE_LIMIT as usize / 500 + 1, 500);
    let b = from_rows::<f32>(9000, (0..rows).map(|k| (0..length).map(|j| (17 * j + k % 16, 1.0)).collect()).collect());
    let a = from_rows(rows, vec![vec![(1, 1.0)], (0..rows).map(|k| (k, 2.0)).collect(), vec![]]);
    check_product("heavy", device, &a, &b);
}

fn huge_row_times_huge_column(device: &Device) {
    let n = 70_001;
    let row = from_rows::<f64>(n, vec![(0..n).map(|j| (j, 1.0 + (j % 3) as f64)).collect()]);
    let column = from_rows::<f64>(1, (0..n).map(|i| vec![(0, 1.0 + (i % 5) as f64)]).collect());
    check_product("one number", device, &row, &column);
    let column = from_rows::<f64>(1, (0..5).map(|i| vec![(0, 1.0 + i as f64)]).collect());
    check_product("outer", device, &column, &row);
}

/// What is 0, or comes out as 0, is an entry as any other.
fn zeros_stay(device: &Device) {
    let a = from_rows::<f32>(3, vec![vec![(0, 1.0), (1, -1.0)], vec![(2, 0.0)], vec![]]);
    let b = from_rows::<f32>(4, vec![vec![(1, 2.0), (3, 1.0)], vec![(1, 2.0)], vec![(0, 5.0)]]);
    let c = downloaded(&device.upload(&a).unwrap().multiply(&device.upload(&b).unwrap()).unwrap());
    let expected = [(0, 1, 0.0), (0, 3, 1.0), (1, 0, 0.0)];
    assert_eq!(c.triplets().collect::<Vec<_>>(), expected);
}

fn bits<T: Scalar>(c: &CsrMatrix<T>) -> (Vec<u32>, Vec<u32>, Vec<u64>) {
    let values = c.values().iter().map(|value| value.to_f64().to_bits()).collect();
    (c.row_offsets().to_vec(), c.col_indices().to_vec(), values)
}

fn the_bits_are_those_of_the_cpu(device: &Device) {
    for (name, a) in matrices::all::<f32>() {
        let b = a.transpose().unwrap().canonical();
        if !is_small(device, &a, &b) {
            continue;
        }
        let product = |device: &Device| {
            bits(&downloaded(&device.upload(&a).unwrap().multiply(&device.upload(&b).unwrap()).unwrap()))
        };
        let expected = product(&Device::cpu());
        let repeats = match device.to_string() {
            name if name == "emulated" => 1,
            _ if device.is_cuda() => 100,
            _ => 10,
        };
        for _ in 0..repeats {
            assert_eq!(product(device), expected, "{name}");
        }
    }
}

fn plans(device: &Device) {
    for (name, matrix) in matrices::all::<f64>() {
        let (a, b) = (integers::matrix(&matrix), integers::matrix(&matrix.transpose().unwrap().canonical()));
        if !is_small(device, &a, &b) {
            continue;
        }
        let (mut on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let plan = SpgemmPlan::new(&on_a, &on_b).unwrap();
        let mut c = plan.multiply(&on_a, &on_b).unwrap();
        assert_eq!(plan.nnz(), c.nnz(), "{name}");
        check(name, &c, &reference(&a, &b), true);
        let first = plan.multiply(&on_a, &on_b).unwrap();
        let values: Vec<f64> = a.values().iter().enumerate().map(|(k, value)| value * (k % 3) as f64).collect();
        on_a.update_values(&device.upload_vec(&values).unwrap()).unwrap();
        plan.compute(&on_a, &on_b, &mut c).unwrap();
        let (offsets, columns) = (a.row_offsets().to_vec(), a.col_indices().to_vec());
        let new = CsrMatrix::try_from_csr_data(a.nrows(), a.ncols(), offsets, columns, values).unwrap();
        check(&format!("{name}, new values"), &c, &reference(&new, &b), true);
        check(&format!("{name}, an earlier product"), &first, &reference(&a, &b), true);
    }
}

fn plans_of_other_matrices(device: &Device) {
    let a = stencil(9).cast::<f32>();
    let tripled: Vec<_> = a.values().iter().map(|value| 3.0 * value).collect();
    let (offsets, columns) = (a.row_offsets().to_vec(), a.col_indices().to_vec());
    let with = |offsets: &[u32], columns: &[u32], values: Vec<f32>| {
        CsrMatrix::try_from_csr_data(81, 81, offsets.to_vec(), columns.to_vec(), values).unwrap()
    };
    let same = with(&offsets, &columns, tripled);
    let [on_a, on_same] = [&a, &same].map(|matrix| device.upload(matrix).unwrap());
    let plan = SpgemmPlan::new(&on_a, &on_a).unwrap();
    check("the same pattern", &plan.multiply(&on_same, &on_a).unwrap(), &reference(&same, &a), false);
    // The first column of a row, or the last, moves to a place beside it that is free.
    let mut others = Vec::new();
    for row in 0..81 {
        let [begin, end] = [row, row + 1].map(|row| offsets[row] as usize);
        let mut moved = columns.clone();
        match moved[begin] {
            0 => moved[end - 1] += 1,
            _ => moved[begin] -= 1,
        }
        others.push(with(&offsets, &moved, a.values().to_vec()));
    }
    for other in others {
        let on_other = device.upload(&other).unwrap();
        for result in [plan.multiply(&on_other, &on_a), plan.multiply(&on_a, &on_other)] {
            assert!(matches!(result, Err(Error::InvalidOption(_))), "{result:?}");
        }
    }
    // Only an offset differs: the second entry is in the first row, or in its own.
    let identity = |offsets: &[u32]| {
        let matrix = CsrMatrix::try_from_csr_data(5, 5, offsets.to_vec(), vec![0, 1, 2, 3, 4], vec![1f32; 5]).unwrap();
        device.upload(&matrix).unwrap()
    };
    let (own, other) = (identity(&[0, 1, 2, 3, 4, 5]), identity(&[0, 2, 2, 3, 4, 5]));
    let of_own = SpgemmPlan::new(&own, &own).unwrap();
    assert!(matches!(of_own.multiply(&other, &own), Err(Error::InvalidOption(_))));
    // Only the last of the column indices differs, the one after the last whole chunk of them.
    let last = CsrMatrix::try_from_csr_data(5, 5, vec![0u32, 1, 2, 3, 4, 5], vec![0, 1, 2, 3, 3], vec![1f32; 5]);
    let last = device.upload(&last.unwrap()).unwrap();
    assert!(matches!(of_own.multiply(&last, &own), Err(Error::InvalidOption(_))));
    let mut foreign = SpgemmPlan::new(&on_a, &on_a).unwrap().multiply(&on_a, &on_a).unwrap();
    let result = plan.compute(&on_a, &on_a, &mut foreign);
    assert!(result.unwrap_err().to_string().contains("not a product of this plan"));
    let small = device.upload(&stencil(3).cast::<f32>()).unwrap();
    assert!(matches!(plan.multiply(&small, &small), Err(Error::LengthMismatch { .. })));
}

fn results_multiply(device: &Device) {
    let a = integers::matrix(&stencil(12).cast::<f64>());
    let on_a = device.upload(&a).unwrap();
    let square = on_a.multiply(&on_a).unwrap();
    let cube = square.multiply(&on_a).unwrap();
    check("cube", &cube, &reference(&downloaded(&square), &a), true);
    let (x, mut y) = (device.upload_vec(&[1.0; 144]).unwrap(), device.zeros(144).unwrap());
    cube.spmv(1.0, &x, 0.0, &mut y).unwrap();
    let sums: Vec<f64> = downloaded(&cube).rows().map(|(_, values)| values.iter().sum()).collect();
    assert_eq!(y.to_vec().unwrap(), sums);
}

/// `R A P` and `A^T B` of small integers, exactly.
fn products_of_three(device: &Device) {
    let a = integers::matrix(&random_rows::<f64>(11, 60, (0..60).map(|i| i % 6)));
    let p = integers::matrix(&random_rows::<f64>(12, 11, (0..60).map(|i| i % 3)));
    let r = p.transpose().unwrap().canonical();
    let [on_a, on_p, on_r] = [&a, &p, &r].map(|matrix| device.upload(matrix).unwrap());
    let through = |left: &[(usize, usize, f64)], right: &[(usize, usize, f64)]| {
        let mut sums = BTreeMap::<(usize, usize), f64>::new();
        for &(i, k, x) in left {
            for &(_, j, y) in right.iter().filter(|&&(row, _, _)| row == k) {
                *sums.entry((i, j)).or_default() += x * y;
            }
        }
        sums.into_iter().map(|((i, j), sum)| (i, j, sum)).collect::<Vec<_>>()
    };
    let [a, p, r] = [&a, &p, &r].map(|matrix| matrix.triplets().collect::<Vec<_>>());
    let found = |c: &DeviceMatrix<f64>| downloaded(c).triplets().collect::<Vec<_>>();
    assert_eq!(found(&on_a.triple_product(&on_r, &on_p).unwrap()), through(&r, &through(&a, &p)));
    assert_eq!(found(&on_p.transpose_multiply(&on_p).unwrap()), through(&r, &p));
    assert!(matches!(on_a.triple_product(&on_p, &on_r), Err(Error::LengthMismatch { .. })));
}

/// `R A P`, its bits those of `R (A P)`.
fn check_triple<T: Scalar>(case: &str, device: &Device, [r, a, p]: [&CsrMatrix<T>; 3]) {
    let [on_r, on_a, on_p] = [r, a, p].map(|matrix| device.upload(matrix).unwrap());
    let c = downloaded(&on_a.triple_product(&on_r, &on_p).unwrap());
    let [r, a, p] = [r, a, p].map(|matrix| Device::cpu().upload(matrix).unwrap());
    let expected = downloaded(&r.multiply(&a.multiply(&p).unwrap()).unwrap());
    assert!(c.is_canonical(), "{case}");
    assert_eq!(bits(&c), bits(&expected), "{case}");
}

/// Rows of as many products as each class has at most, and one fewer and one more; rows that ask for very many entries of `A`.
fn products_of_three_by_sizes<T: Scalar>(device: &Device) {
    let most = SHORT_LIMITS[SHORT_LIMITS.len() - 1] as usize;
    let sizes = SHORT_LIMITS.iter().flat_map(|&limit| [limit as usize - 1, limit as usize, limit as usize + 1]);
    let sizes: Vec<usize> = sizes.chain([1, 2, 3, 0, 5, 130]).collect();
    let mut random = Random(21);
    for (columns, spread) in [(90, 1), (700, 1), (300, 41_003)] {
        // Rows of P: with 0, 1, 2 and 3 entries. Row k of A asks for rows of P with as many as k says, some of none.
        let mut entries = |row: &[usize]| row.iter().map(|&j| (j, random.next_unit())).collect::<Vec<_>>();
        let row_of_p = |k: usize| (0..k % 4).map(|j| (k * 7 + j * 31) % columns * spread).collect::<Vec<_>>();
        let p = from_rows::<T>(columns * spread, (0..400).map(|k| entries(&row_of_p(k))).collect()).canonical();
        // Rows 0 to 29 of A have 1 to 7 entries of a kind with 3; the others have one of each kind.
        let row_of_a = |k: usize| match k {
            0..30 => (0..=k % 7).map(|i| (4 * (i * 13 + k) + 3) % 400).collect::<Vec<_>>(),
            _ => vec![4 * k % 400, (4 * k + 1) % 400, (4 * k + 6) % 400, (k * 4 + 11) % 400],
        };
        let a = from_rows::<T>(400, (0..200).map(|k| entries(&row_of_a(k))).collect());
        // Row 200 has one product alone.
        let with_ones = |matrix: &CsrMatrix<T>, extra: Vec<(usize, f64)>, ncols: usize| {
            let row = |k: usize| {
                let (columns, values) = matrix.row(k);
                columns.iter().zip(values).map(|(&j, value)| (j as usize, value.to_f64())).collect()
            };
            from_rows::<T>(ncols, (0..matrix.nrows()).map(row).chain([extra]).collect())
        };
        let a = with_ones(&a, vec![(1, 0.75)], 400);
        let products = |k: usize| a.row(k).0.iter().map(|&k| p.row(k as usize).0.len()).sum::<usize>();
        assert_eq!(products(200), 1, "what fills a row up");
        for is_all_short in [true, false] {
            let row_of_r = |&size: &usize| {
                let (mut left, mut row, mut k) = (size, Vec::new(), size);
                while left > 0 {
                    let of_row = products(k % 200);
                    let next = if of_row > 0 && of_row <= left { k % 200 } else { 200 };
                    // Duplicates are entries of their own.
                    row.push((next, 1.0 + left as f64 / 7.0));
                    left -= products(next);
                    k += 1;
                }
                row
            };
            let sizes: Vec<_> = sizes.iter().filter(|&&size| !is_all_short || size <= most).collect();
            let r = from_rows::<T>(201, sizes.iter().map(|size| row_of_r(size)).collect());
            check_triple(&format!("{columns} columns, {spread} apart, short {is_all_short}"), device, [&r, &a, &p]);
        }
    }
    // One entry of R that asks for 5000 of A, with 3 products in all, and others that ask for none.
    let p = from_rows::<T>(4, (0..5000).map(|k| if k % 2000 == 7 { vec![(k % 3, 1.5)] } else { vec![] }).collect());
    let a = from_rows::<T>(5000, vec![(0..5000).map(|k| (k, 1.0 + k as f64)).collect(), vec![], vec![(7, 3.0)]]);
    for rows in
        [vec![vec![(0, 2.0)], vec![]], vec![vec![(1, 2.0)], vec![(2, 1.0), (1, 1.0), (2, 0.5)]], vec![vec![]; 3]]
    {
        check_triple("few products of many entries", device, [&from_rows(3, rows), &a, &p]);
    }
}

/// Grids whose points are put together in boxes, and smoothed prolongations, of which rows have more products.
fn coarse_grids(device: &Device) {
    // Boxes of 4, 9 and 49 points, and of 64, which have too many products.
    for (side, edge) in [(9, 2), (9, 3), (14, 7), (16, 8)] {
        let (a, coarse) = (stencil(side), side.div_ceil(edge));
        let box_of = |k: usize| k % side / edge + coarse * (k / side / edge);
        let p = from_rows::<f64>(coarse.pow(2), (0..side.pow(2)).map(|k| vec![(box_of(k), 1.0 + k as f64)]).collect());
        let r = p.transpose().unwrap().canonical();
        check_triple(&format!("{side} points in boxes of {edge}"), device, [&r, &a, &p]);
        let upload = |matrix: &CsrMatrix<f64>| Device::cpu().upload(matrix).unwrap();
        let smoothed = downloaded(&upload(&a).multiply(&upload(&p)).unwrap());
        let r = smoothed.transpose().unwrap().canonical();
        check_triple(&format!("{side} points in smoothed boxes of {edge}"), device, [&r, &a, &smoothed]);
    }
}

fn masks(device: &Device) {
    for (name, a) in matrices::all::<f32>() {
        let (a, b) = (integers::matrix(&a), integers::matrix(&a.transpose().unwrap().canonical()));
        if !is_small(device, &a, &b) {
            continue;
        }
        let [on_a, on_b] = [&a, &b].map(|matrix| device.upload(matrix).unwrap());
        let full = reference(&a, &b);
        for per_row in [1, 30, 500] {
            let mask = random_rows::<f32>(7, a.nrows(), (0..a.nrows()).map(|i| if i % 5 == 4 { 0 } else { per_row }));
            let on_mask = device.upload(&mask).unwrap();
            let c = on_a.multiply_with(&on_b, &SpgemmOptions::default().mask(&on_mask)).unwrap();
            let kept: BTreeMap<_, _> =
                mask.triplets().filter_map(|(i, j, _)| Some(((i, j), *full.get(&(i, j))?))).collect();
            check(&format!("{name}, mask of {per_row}"), &c, &kept, true);
        }
    }
}

fn semirings(device: &Device) {
    let a = matrices::uneven::<f64>();
    let b = random_rows::<f64>(8, 300, (0..60).map(|k| k % 37));
    let [on_a, on_b] = [&a, &b].map(|matrix| device.upload(matrix).unwrap());
    let truth = |value: f64| f64::from(u8::from(value != 0.0));
    type Operation<'f> = (&'f dyn Fn(f64, f64) -> f64, &'f dyn Fn(f64, f64) -> f64, f64);
    let cases: [(Semiring, Operation<'_>); 3] = [
        (Semiring::MinPlus, (&f64::min, &|a, b| a + b, f64::INFINITY)),
        (Semiring::MaxTimes, (&f64::max, &|a, b| a * b, f64::NEG_INFINITY)),
        (Semiring::OrAnd, (&f64::max, &|a, b| truth(a) * truth(b), 0.0)),
    ];
    for (semiring, (add, times, zero)) in cases {
        let mut expected = BTreeMap::new();
        for (i, k, factor) in a.triplets() {
            for (&j, &value) in b.row(k).0.iter().zip(b.row(k).1) {
                let sum = expected.entry((i, j as usize)).or_insert(zero);
                *sum = add(*sum, times(factor, value));
            }
        }
        let c = on_a.multiply_with(&on_b, &SpgemmOptions::default().semiring(semiring)).unwrap();
        let found: BTreeMap<_, _> = downloaded(&c).triplets().map(|(i, j, value)| ((i, j), value)).collect();
        assert_eq!(found, expected, "{semiring:?}");
    }
}

fn bad_arguments_are_errors(device: &Device) {
    let matrix = from_rows::<f64>(3, vec![vec![(0, 1.0)], vec![(2, 1.0), (1, 2.0)], vec![(1, 1.0), (1, 1.0)]]);
    let sorted = device.upload(&matrix.canonical()).unwrap();
    let unsorted = device.upload(&matrix).unwrap();
    check("an A with duplicates", &unsorted.multiply(&sorted).unwrap(), &reference(&matrix, &matrix.canonical()), true);
    let text = |result: warpsparse::Result<DeviceMatrix<f64>>| result.unwrap_err().to_string();
    assert!(text(sorted.multiply(&unsorted)).contains("B has rows whose columns do not ascend"));
    let options = SpgemmOptions::default().mask(&unsorted);
    assert!(text(sorted.multiply_with(&sorted, &options)).contains("the mask has rows"));
    let coo = device.upload_with(&matrix, &SpmvOptions::default().format(FormatChoice::Coo)).unwrap();
    let csc = device.upload(&CscMatrix::try_from(&matrix).unwrap()).unwrap();
    for result in [coo.multiply(&sorted), sorted.multiply(&csc)] {
        assert!(matches!(result, Err(Error::Unsupported(_))), "{result:?}");
    }
    let long = device.upload(&from_rows::<f64>(3, vec![vec![]; 4])).unwrap();
    assert!(matches!(sorted.multiply(&long), Err(Error::LengthMismatch { .. })));
    let elsewhere = other(device).upload(&matrix.canonical()).unwrap();
    assert!(matches!(sorted.multiply(&elsewhere), Err(Error::DeviceMismatch { .. })));
    let options = SpgemmOptions::default().mask(&long);
    assert!(matches!(sorted.multiply_with(&sorted, &options), Err(Error::LengthMismatch { .. })));
}

/// A column times a row: 2^44 entries.
fn what_does_not_fit_is_an_error(device: &Device) {
    let n = 1 << 22;
    let column = CsrMatrix::try_from_csr_data(n, 1, (0..=n as u32).collect(), vec![0; n], vec![1.0f32; n]).unwrap();
    let row = CsrMatrix::try_from_csr_data(1, n, vec![0, n as u32], (0..n as u32).collect(), vec![1.0f32; n]).unwrap();
    let result = device.upload(&column).unwrap().multiply(&device.upload(&row).unwrap());
    let text = result.unwrap_err().to_string();
    assert!(text.contains("17592186044416 entries or more: 140737488355328 bytes"), "{text}");
}

fn any_matrices(device: &Device) {
    let cases = (0u64..1 << 40, 0usize..40, 1usize..40, 1usize..600, 0usize..60).prop_map(|case| case);
    properties::check("spgemm", 60, cases, |(seed, rows, inner, cols, longest)| {
        let mut random = Random(seed);
        let lengths: Vec<usize> = (0..rows + inner).map(|_| random.next_below(longest + 1)).collect();
        let a = integers::matrix(&random_rows::<f32>(seed, inner, lengths[..rows].iter().copied()));
        let b = integers::matrix(&random_rows::<f32>(!seed, cols, lengths[rows..].iter().copied()));
        let [on_a, on_b] = [&a, &b].map(|matrix| device.upload(matrix).unwrap());
        let plan = SpgemmPlan::new(&on_a, &on_b).unwrap();
        let mut c = plan.multiply(&on_a, &on_b).unwrap();
        check("random", &c, &reference(&a, &b), true);
        plan.compute(&on_a, &on_b, &mut c).unwrap();
        check("random, again", &c, &reference(&a, &b), true);
        prop_assert_eq!(c.nnz(), plan.nnz());
        Ok(())
    });
}

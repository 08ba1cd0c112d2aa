//! Orders of rows computed on devices: the same as on the host, and permutations by them.

mod common;

use std::process::ExitCode;

use common::{
    Random,
    matrices::{self, bits, from_rows, stencil},
    on_device, on_every_device, other, properties,
};
use proptest::prop_assert_eq;
use warpsparse::{
    CooMatrix, CsrMatrix, Device, DeviceIndices, DeviceMatrix, ErrorKind, HostMatrix, SpmvOptions, strategies,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("orders_of_all_matrices", orders_of_all_matrices));
    trials.extend(on_every_device("orders_of_graphs", orders_of_graphs));
    trials.extend(on_every_device("levels_for_one_block_and_for_all", levels_for_one_block_and_for_all));
    trials.extend(on_every_device("bandwidths_of_meshes", bandwidths_of_meshes));
    trials.extend(on_every_device("communities", communities));
    trials.extend(on_every_device("other_formats", other_formats));
    trials.extend(on_every_device("rectangular_matrices_have_no_bandwidth", rectangular_matrices_have_no_bandwidth));
    trials.extend(on_every_device("permutations", permutations));
    trials.extend(on_every_device("bad_permutations", bad_permutations));
    for (name, seed) in [("0", 0), ("2", 2), ("3", 3)] {
        let device: fn() -> Device = match seed {
            0 => || Device::emulated(0),
            2 => || Device::emulated(2),
            _ => || Device::emulated(3),
        };
        trials.push(on_device(format!("orders_of_graphs::seed_{name}"), orders_of_graphs, device));
    }
    trials.push(on_device("any_matrices::emulated".into(), any_matrices, || Device::emulated(4)));
    common::run(trials)
}

/// The matrix with these entries; duplicates are summed.
fn pattern(size: usize, places: &[(usize, usize)]) -> CsrMatrix<f32> {
    let (rows, columns) = places.iter().map(|&(i, j)| (i as u32, j as u32)).unzip();
    let values = (0..places.len()).map(|k| k as f32 - 3.0).collect();
    CsrMatrix::try_from(&CooMatrix::try_from_triplets(size, size, rows, columns, values).unwrap()).unwrap()
}

fn shuffled(count: usize) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    let mut random = Random(7);
    for k in (1..count).rev() {
        numbers.swap(k, random.next_below(k + 1));
    }
    numbers
}

fn shuffle(matrix: &CsrMatrix<f64>) -> CsrMatrix<f64> {
    let order = shuffled(matrix.nrows());
    matrix.permute(&order, &order).unwrap()
}

/// The device computes the orders of the host, which are permutations.
fn check<T: warpsparse::Scalar>(case: &str, device: &Device, matrix: &CsrMatrix<T>) {
    let there = device.upload(matrix).unwrap();
    let expected = matrix.cluster_rows();
    assert_order(case, &there.cluster_rows().unwrap(), &expected);
    if matrix.nrows() == matrix.ncols() {
        assert_order(case, &there.reverse_cuthill_mckee().unwrap(), &matrix.reverse_cuthill_mckee().unwrap());
    }
}

fn assert_order(case: &str, order: &DeviceIndices, expected: &[u32]) {
    assert_eq!((order.bound(), order.are_distinct()), (expected.len(), true), "{case}");
    assert_eq!(order.to_vec().unwrap(), expected, "{case}");
    let mut sorted = expected.to_vec();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..expected.len() as u32), "{case}");
}

fn orders_of_all_matrices(device: &Device) {
    for (name, matrix) in matrices::all::<f32>() {
        // More would take the emulator too long.
        if matrix.nnz() < 2500 || !device.to_string().starts_with("emulated") {
            check(name, device, &matrix);
        }
    }
    check("f64", device, &matrices::uneven::<f64>());
}

fn orders_of_graphs(device: &Device) {
    check("no rows", device, &pattern(0, &[]));
    check("one row", device, &pattern(1, &[]));
    check("no entries", device, &pattern(70, &[]));
    check("a diagonal", device, &pattern(40, &(0..40).map(|i| (i, i)).collect::<Vec<_>>()));
    check("a path, duplicates, one direction", device, &pattern(5, &[(4, 1), (1, 4), (1, 4), (1, 3), (3, 0), (3, 3)]));
    check("an entry on the diagonal is no neighbour", device, &pattern(2, &[(0, 0), (0, 1), (1, 0)]));
    check("a triangle with a tail", device, &pattern(5, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]));
    // A full row, whose entries all threads share, without the column; the others are joined in pairs.
    let arrow = (0..2000).map(|j| (700, j)).chain((0..2000).step_by(2).map(|i| (i, i + 1)));
    check("an arrow", device, &pattern(2000, &arrow.collect::<Vec<_>>()));
    // Components of 1 to 40 rows: paths, of which each third is a ring with chords.
    let mut places = Vec::new();
    let mut first = 0;
    for size in 1..=40 {
        places.extend((1..size).map(|k| (first + k - 1, first + k)));
        if size % 3 == 0 {
            places.extend((0..size - 2).map(|k| (first + k + 2, first + k)));
        }
        first += size;
    }
    let rows = shuffled(first);
    let places: Vec<_> = places.iter().map(|&(i, j)| (rows[i] as usize, rows[j] as usize)).collect();
    check("many components", device, &pattern(first, &places));
}

/// Random graphs of few levels, of which one has most of the rows; and with a narrow one after.
fn levels_for_one_block_and_for_all(device: &Device) {
    let check = |case: &str, device: &Device, matrix: &CsrMatrix<f32>| {
        let order = device.upload(matrix).unwrap().reverse_cuthill_mckee().unwrap();
        assert_order(case, &order, &matrix.reverse_cuthill_mckee().unwrap());
    };
    let mut random = Random(5);
    let mut edges = |first: usize, size: usize, count: usize| -> Vec<_> {
        (0..count).map(|_| (first + random.next_below(size), first + random.next_below(size))).collect()
    };
    let wide = edges(0, 3000, 12_000);
    check("wide levels", device, &pattern(3000, &wide));
    let long = (3000..3300).map(|i| (i, i + 1)).chain((3000..3298).map(|i| (i + 3, i)));
    let both: Vec<_> = wide.iter().copied().chain(long).chain([(17, 3000)]).collect();
    check("wide levels, then narrow ones", device, &pattern(3301, &both));
    let dense = edges(0, 150, 20_000);
    check("long rows", device, &pattern(150, &dense));
}

fn bandwidths_of_meshes(device: &Device) {
    for side in [7, 20] {
        let shuffled = shuffle(&stencil(side));
        let there = device.upload(&shuffled).unwrap();
        let order = there.reverse_cuthill_mckee().unwrap();
        let banded = there.permute_by(Some(&order), Some(&order)).unwrap();
        let structure = *banded.structure().as_ref().unwrap();
        // No order of the 5-point grid has a smaller bandwidth.
        assert_eq!((structure.lower_bandwidth, structure.upper_bandwidth), (side, side));
        check("a mesh", device, &shuffled);
    }
}

fn other_formats(device: &Device) {
    let matrix = shuffle(&stencil(6));
    let expected = matrix.reverse_cuthill_mckee().unwrap();
    let clustered = matrix.cluster_rows();
    let found = |matrix: DeviceMatrix<f64>| {
        assert_order("another format", &matrix.cluster_rows().unwrap(), &clustered);
        matrix.reverse_cuthill_mckee().unwrap().to_vec().unwrap()
    };
    let coo = CooMatrix::from(&matrix);
    assert_eq!(found(device.upload(&coo).unwrap()), expected);
    let wide = CsrMatrix::<f64, u64>::from(&matrix);
    assert_eq!(found(device.upload(&wide).unwrap()), expected);
    let ell = SpmvOptions::default().format(warpsparse::FormatChoice::Ell);
    assert_eq!(found(device.upload_with(&matrix, &ell).unwrap()), expected);
}

fn rectangular_matrices_have_no_bandwidth(device: &Device) {
    let matrix = from_rows::<f32>(3, vec![vec![(0, 1.0)], vec![(2, 1.0)]]);
    let error = device.upload(&matrix).unwrap().reverse_cuthill_mckee().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().ends_with("orders square matrices, and this one is 2 x 3"), "{error}");
}

fn permutations(device: &Device) {
    let matrix = matrices::uneven::<f32>();
    let (rows, columns) = (shuffled(matrix.nrows()), shuffled(matrix.ncols()));
    let all = |count: usize| (0..count as u32).collect::<Vec<u32>>();
    let there = device.upload(&matrix).unwrap();
    let of = |rows: &[u32]| device.upload_indices(rows, rows.len()).unwrap();
    let inverse = of(&rows).inverse().unwrap();
    assert_eq!((inverse.bound(), inverse.are_distinct()), (rows.len(), true));
    assert!(inverse.to_vec().unwrap().iter().enumerate().all(|(row, &place)| rows[place as usize] as usize == row));
    assert!(of(&[]).inverse().unwrap().is_empty());
    let same = |found: DeviceMatrix<f32>, rows: &[u32], columns: &[u32]| {
        let HostMatrix::Csr(found) = found.download().unwrap() else { panic!("a permuted matrix is in CSR") };
        assert_eq!(bits(&found), bits(&matrix.permute(rows, columns).unwrap()));
    };
    same(there.permute_by(Some(&of(&rows)), Some(&of(&columns))).unwrap(), &rows, &columns);
    same(there.permute_by(Some(&of(&rows)), None).unwrap(), &rows, &all(columns.len()));
    same(there.permute_by(None, Some(&of(&columns))).unwrap(), &all(rows.len()), &columns);
    same(there.permute_by(None, None).unwrap(), &all(rows.len()), &all(columns.len()));
}

fn bad_permutations(device: &Device) {
    let there = device.upload(&pattern(3, &[(0, 1), (2, 2)])).unwrap();
    let of = |indices: &[u32], bound| device.upload_indices(indices, bound).unwrap();
    let refused = |found: warpsparse::Result<DeviceMatrix<f32>>, problem: &str| {
        let error = found.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    };
    refused(there.permute_by(Some(&of(&[0, 1], 2)), None), "rows has 2 elements where the operation needs 3");
    refused(there.permute_by(None, Some(&of(&[0, 1, 2, 3], 4))), "columns has 4 elements where the operation needs 3");
    refused(there.permute_by(Some(&of(&[0, 1, 1], 3)), None), "rows of 3: the indices are not distinct");
    refused(there.permute_by(None, Some(&of(&[0, 1, 3], 4))), "columns of 3: the indices may be too large");
    let elsewhere = other(device).upload_indices(&[0, 1, 2], 3).unwrap();
    refused(there.permute_by(Some(&elsewhere), None), "rows");
    assert!(of(&[0, 0], 2).inverse().is_err());
    assert!(of(&[0, 1], 3).inverse().is_err());
}

/// Rows of random blocks of columns, in random order, one dense row and some empty ones: clustered, the rows of a block stand together.
fn communities(device: &Device) {
    let mut random = Random(11);
    let mut row = |i: usize| match i {
        7 => (0..200).map(|j| (j, 1.0)).collect(),
        _ if i % 17 == 3 => Vec::new(),
        _ => (0..9).map(|_| (random.next_below(40) * 5 + i % 5, 1.0)).collect(),
    };
    let matrix: CsrMatrix<f32> = from_rows(300, (0..400).map(&mut row).collect());
    check("communities", device, &matrix);
    let order = device.upload(&matrix).unwrap().cluster_rows().unwrap().to_vec().unwrap();
    let filled: Vec<u32> = order.iter().copied().filter(|&row| row != 7 && row % 17 != 3).collect();
    let blocks: Vec<u32> = filled.iter().map(|row| row % 5).collect();
    assert_eq!(blocks.chunk_by(u32::eq).count(), 5, "{order:?}");
    assert!(order[order.len() - 400 / 17..].iter().all(|row| row % 17 == 3), "{order:?}");
    // The same with other columns between, which have no entries: few, and many.
    for (step, ncols) in [(7, 2100), (1000, 4_000_000)] {
        let columns = matrix.col_indices().iter().map(|column| step * column).collect();
        let (offsets, values) = (matrix.row_offsets().to_vec(), matrix.values().to_vec());
        let spread = CsrMatrix::try_from_csr_data(400, ncols, offsets, columns, values).unwrap();
        assert_order("spread", &device.upload(&spread).unwrap().cluster_rows().unwrap(), &order);
    }
}

fn any_matrices(device: &Device) {
    properties::check("orders_on_device", 8, strategies::csr_matrix::<f32>(), |matrix| {
        let order = device.upload(&matrix).unwrap().cluster_rows().unwrap();
        prop_assert_eq!(order.to_vec().unwrap(), matrix.cluster_rows());
        let size = matrix.nrows().max(matrix.ncols());
        let square = pattern(size, &matrix.triplets().map(|(i, j, _)| (i, j)).collect::<Vec<_>>());
        let order = device.upload(&square).unwrap().reverse_cuthill_mckee().unwrap();
        prop_assert_eq!(order.to_vec().unwrap(), square.reverse_cuthill_mckee().unwrap());
        Ok(())
    });
}

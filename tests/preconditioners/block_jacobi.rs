//! Block-Jacobi: its inverses against Gaussian elimination in `f64`, the blocks that it finds, and what it does for conjugate gradients.

use libtest_mimic::Trial;
use warpsparse::{
    BlockJacobi, Cg, CooMatrix, CsrMatrix, Device, Error, Jacobi, Preconditioner, Scalar, StopReason, Tolerance,
};

use crate::common::{
    Random, assert_within,
    direct::{norm, solved},
    matrices::from_rows,
    on_every_device, other,
    sums::{Sum, epsilon},
};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_every_device("block_jacobi_inverses_f32", inverses::<f32>));
    trials.extend(on_every_device("block_jacobi_inverses_f64", inverses::<f64>));
    trials.extend(on_every_device("block_jacobi_of_symmetric_blocks", symmetric));
    trials.extend(on_every_device("block_jacobi_with_equal_pivots", ties));
    trials.extend(on_every_device("block_jacobi_of_patterns", patterns));
    trials.extend(on_every_device("block_jacobi_in_conjugate_gradients", in_cg));
    trials.extend(on_every_device("block_jacobi_of_degenerate_matrices", degenerate));
    trials.extend(on_every_device("block_jacobi_of_new_values", new_values));
    trials.extend(on_every_device("blocks_that_have_no_inverse", refused));
    trials
}

/// Near the diagonal, with zeros on it: no block has an inverse without interchanges.
fn banded<T: Scalar>(seed: u64, n: usize) -> CsrMatrix<T> {
    let mut random = Random(seed);
    let row = |i: usize| {
        let near = i.saturating_sub(34)..(i + 34).min(n);
        near.filter_map(|j| match (i + 2 * j) % 3 {
            // Alone in its column and its row, it would leave nothing.
            _ if i == j && n > 1 && i + 1 < n => None,
            _ if i == j || i.abs_diff(j) == 1 => Some((j, 2.0 + random.next_unit())),
            0 => None,
            _ => Some((j, random.next_unit())),
        })
        .collect()
    };
    from_rows(n, (0..n).map(row).collect())
}

/// The inverse of each block by columns, from products with vectors of zeros and ones.
fn columns<T: Scalar>(blocks: &BlockJacobi<T>, device: &Device) -> Vec<Vec<T>> {
    let offsets = blocks.block_offsets();
    let n = offsets[offsets.len() - 1] as usize;
    let largest = offsets.windows(2).map(|block| block[1] - block[0]).max().unwrap_or(0);
    let product = |column: u32| {
        let mut r = vec![T::default(); n];
        for block in offsets.windows(2).filter(|block| column < block[1] - block[0]) {
            r[(block[0] + column) as usize] = T::from_f64(1.0);
        }
        let (r, mut z) = (device.upload_vec(&r).unwrap(), device.upload_vec(&vec![T::from_f64(f64::NAN); n]).unwrap());
        blocks.apply((&r).into(), (&mut z).into()).unwrap();
        z.to_vec().unwrap()
    };
    (0..largest).map(product).collect()
}

/// A block in `f64`, by rows.
fn block_of<T: Scalar>(matrix: &CsrMatrix<T>, first: usize, end: usize) -> Vec<Vec<f64>> {
    let mut block = vec![vec![0.0; end - first]; end - first];
    let inside = |&(i, j, _): &(usize, usize, T)| (first..end).contains(&i) && (first..end).contains(&j);
    matrix.triplets().filter(inside).for_each(|(i, j, value)| block[i - first][j - first] += value.to_f64());
    block
}

fn inverse_of(block: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let size = block.len();
    let column = |j: usize| {
        let extended = |(i, row): (usize, &Vec<f64>)| [&row[..], &[f64::from(u8::from(i == j))]].concat();
        solved(block.iter().enumerate().map(extended).collect())
    };
    let columns: Vec<_> = (0..size).map(column).collect();
    (0..size).map(|i| columns.iter().map(|column| column[i]).collect()).collect()
}

fn absolute_product(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let element = |row: &[f64], j: usize| row.iter().zip(b).map(|(a, b)| (a * b[j]).abs()).sum();
    a.iter().map(|row| (0..row.len()).map(|j| element(row, j)).collect()).collect()
}

fn inverses<T: Scalar>(device: &Device) {
    for (n, size) in [(70, 1), (65, 2), (40, 3), (33, 4), (66, 5), (40, 8), (75, 13), (64, 16), (90, 17), (70, 32)] {
        let matrix = match size {
            1 => from_rows(n, (0..n).map(|i| vec![(i, 0.5 + i as f64), ((i + 1) % n, 3.0)]).collect()),
            _ => banded::<T>(n as u64, n),
        };
        let case = format!("{n} rows in blocks of {size}");
        let a = device.upload(&matrix).unwrap();
        let blocks = BlockJacobi::new(&a, size).unwrap_or_else(|error| panic!("{case}: {error}"));
        let offsets = blocks.block_offsets();
        assert!(offsets[0] == 0 && offsets[1] == size && offsets[offsets.len() - 1] as usize == n, "{case}");
        let found = columns(&blocks, device);
        for block in offsets.windows(2).map(|block| block[0] as usize..block[1] as usize) {
            let own = block_of(&matrix, block.start, block.end);
            let inverse = inverse_of(&own);
            // What relative errors of the elements of the block make of the inverse, at most, in each step of the elimination.
            let condition = absolute_product(&absolute_product(&inverse, &own), &inverse);
            let bound =
                2.0 * f64::from(size) * epsilon::<T>() * condition.iter().flatten().copied().fold(0.0, f64::max);
            for (i, j) in (0..own.len()).flat_map(|i| (0..own.len()).map(move |j| (i, j))) {
                let (found, expected) = (found[j][block.start + i].to_f64(), inverse[i][j]);
                assert!((found - expected).abs() <= bound, "{case}, {block:?}, {i}, {j}: {found} for {expected}");
            }
        }
        // The same bits on the CPU, and of a matrix in COO, out of order and with duplicates.
        let on_cpu = BlockJacobi::new(&Device::cpu().upload(&matrix).unwrap(), size).unwrap();
        assert_eq!(columns(&on_cpu, &Device::cpu()), found, "{case}");
        let mut coo = CooMatrix::new(n, n).unwrap();
        let mut entries: Vec<_> = matrix.triplets().collect();
        entries.reverse();
        for (i, j, value) in entries.into_iter().flat_map(|entry| [entry; 2]) {
            coo.push(i, j, T::from_f64(0.5) * value).unwrap();
        }
        let of_coo = BlockJacobi::new(&device.upload(&coo).unwrap(), size).unwrap();
        assert_eq!(columns(&of_coo, device), found, "{case}");

        let r: Vec<T> = Random(5).vector(n);
        let mut reference = vec![Sum::default(); n];
        for block in offsets.windows(2) {
            for (i, j) in (block[0]..block[1]).flat_map(|i| (block[0]..block[1]).map(move |j| (i as usize, j as usize)))
            {
                reference[i].add(found[j - block[0] as usize][i].to_f64() * r[j].to_f64());
            }
        }
        let reference: Vec<_> = reference.into_iter().map(|sum| sum.bounded::<T>(0.0)).collect();
        let (r, mut z) = (device.upload_vec(&r).unwrap(), device.zeros(n).unwrap());
        blocks.apply((&r).into(), (&mut z).into()).unwrap();
        assert_within(&case, &z.to_vec().unwrap(), &reference);
    }
}

/// A grid of nodes, each with three unknowns that depend strongly on one another.
fn coupled(side: usize) -> CsrMatrix<f64> {
    let nodes = side * side;
    let of_node = [[40.0, 39.0, 0.5], [39.0, 40.0, -0.5], [0.5, -0.5, 4.0]];
    let row = |i: usize| {
        let (node, own) = (i / 3, i % 3);
        let (row, col) = (node / side, node % side);
        let mut neighbours = vec![];
        if row > 0 {
            neighbours.push(node - side)
        }
        if col > 0 {
            neighbours.push(node - 1)
        }
        neighbours.push(node);
        if col + 1 < side {
            neighbours.push(node + 1)
        }
        if row + 1 < side {
            neighbours.push(node + side)
        }
        let value = |other: usize, j: usize| match () {
            () if other != node => {
                if own == j {
                    -0.1
                } else {
                    0.0
                }
            }
            () => of_node[own][j],
        };
        neighbours.into_iter().flat_map(|other| (0..3).map(move |j| (3 * other + j, value(other, j)))).collect()
    };
    from_rows(3 * nodes, (0..3 * nodes).map(row).collect())
}

fn symmetric(device: &Device) {
    let a = coupled(5);
    let blocks = BlockJacobi::new(&device.upload(&a).unwrap(), 15).unwrap();
    let inverse = columns(&blocks, device);
    let single = BlockJacobi::new(&device.upload(&a.cast::<f32>()).unwrap(), 15).unwrap();
    let in_single = columns(&single, device);
    for first in (0..75).step_by(15) {
        for (i, j) in (0..15).flat_map(|i| (0..15).map(move |j| (i, j))) {
            assert_eq!(inverse[i][first + j], inverse[j][first + i]);
            assert_eq!(in_single[i][first + j], in_single[j][first + i]);
        }
        let x: Vec<f64> = Random(first as u64).vector(15);
        let row = |i: usize| (0..15).map(|j| inverse[j][first + i] * x[j]).sum::<f64>();
        assert!((0..15).map(|i| x[i] * row(i)).sum::<f64>() > 0.0);
    }
    // The mean of an inverse and its transpose is taken of symmetric blocks alone.
    let unsymmetric = from_rows::<f64>(2, vec![vec![(0, 1.0), (1, 2.0)], vec![(1, 4.0)]]);
    let blocks = BlockJacobi::new(&device.upload(&unsymmetric).unwrap(), 2).unwrap();
    assert_eq!(columns(&blocks, device), [[1.0, 0.0], [-0.5, 0.25]]);
}

/// All candidates for a pivot are equal: the first is taken. Every number is exact.
fn ties(device: &Device) {
    for size in [2, 4, 8, 16, 32] {
        let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let hadamard =
            from_rows::<f64>(size, (0..size).map(|i| (0..size).map(|j| (j, sign(i, j))).collect()).collect());
        let blocks = BlockJacobi::new(&device.upload(&hadamard).unwrap(), size as u32).unwrap();
        for (j, column) in columns(&blocks, device).iter().enumerate() {
            assert!(
                column.iter().enumerate().all(|(i, &found)| found == sign(i, j) / size as f64),
                "{size}: {column:?}"
            );
        }
    }
}

fn patterns(device: &Device) {
    // Three rows alike, one without entries off the diagonal, two alike, two of the same length that differ in the last column.
    let of = |columns: &[usize]| columns.iter().map(|&j| (j, 1.0)).collect::<Vec<_>>();
    let mut rows = vec![of(&[0, 1, 2, 6]); 3];
    rows.extend([of(&[3]), of(&[4, 5]), of(&[4, 5]), of(&[0, 1, 6]), of(&[0, 1, 7])]);
    for (i, row) in rows.iter_mut().enumerate() {
        row.iter_mut().filter(|(j, _)| *j == i).for_each(|(_, value)| *value = 5.0 + i as f64);
    }
    let a = device.upload(&from_rows::<f64>(8, rows)).unwrap();
    let offsets = |most: u32| BlockJacobi::from_pattern(&a, most).unwrap().block_offsets().to_vec();
    assert_eq!(offsets(1), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(offsets(2), [0, 2, 4, 6, 8]);
    assert_eq!(offsets(3), [0, 3, 6, 8]);
    assert_eq!(offsets(4), [0, 4, 8]);
    assert_eq!(offsets(5), [0, 4, 8]);
    assert_eq!(offsets(7), [0, 7, 8]);
    assert_eq!(offsets(32), [0, 8]);
    // The unknowns of a node, and as many nodes as fit.
    let a = device.upload(&coupled(7)).unwrap();
    let offsets = |most: u32| BlockJacobi::from_pattern(&a, most).unwrap().block_offsets().to_vec();
    assert!(offsets(4).iter().enumerate().all(|(block, &first)| first as usize == 3 * block));
    assert!(offsets(8).iter().take(25).enumerate().all(|(block, &first)| first as usize == 6 * block));
    // Blocks of several sizes in a slice of 32 rows.
    let mut random = Random(9);
    let row = |i: usize| {
        let first = i - i % [1, 3, 5, 1][i / 25];
        (first.saturating_sub(2)..(first + 8).min(100)).map(|j| (j, random.next_unit())).collect()
    };
    let matrix = from_rows::<f64>(100, (0..100).map(row).collect());
    let a = device.upload(&matrix).unwrap();
    let blocks = BlockJacobi::from_pattern(&a, 6).unwrap();
    let sizes: Vec<_> = blocks.block_offsets().windows(2).map(|block| block[1] - block[0]).collect();
    assert!([2, 5, 6].iter().all(|size| sizes.contains(size)), "{sizes:?}");
    let r: Vec<f64> = Random(2).vector(100);
    let (on_device, mut z) = (device.upload_vec(&r).unwrap(), device.zeros(100).unwrap());
    blocks.apply((&on_device).into(), (&mut z).into()).unwrap();
    let z = z.to_vec().unwrap();
    for block in blocks.block_offsets().windows(2).map(|block| block[0] as usize..block[1] as usize) {
        let own = block_of(&matrix, block.start, block.end);
        let inverse = inverse_of(&own);
        let condition = absolute_product(&absolute_product(&inverse, &own), &inverse);
        for i in 0..own.len() {
            let expected: f64 = inverse[i].iter().zip(&r[block.clone()]).map(|(m, r)| m * r).sum();
            let bound = 32.0 * f64::EPSILON * condition[i].iter().sum::<f64>();
            assert!((z[block.start + i] - expected).abs() <= bound, "{block:?}, {i}");
        }
    }
}

fn in_cg(device: &Device) {
    let matrix = coupled(9);
    let a = device.upload(&matrix).unwrap();
    let n = matrix.nrows();
    let b: Vec<f64> = Random(4).vector(n);
    let iterations = |preconditioner: &dyn Preconditioner<f64>| {
        let (on_device, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(n).unwrap());
        let mut cg = Cg::new(&a).preconditioner(preconditioner).tolerance(Tolerance::relative(1e-10));
        let info = cg.solve(&on_device, &mut x).unwrap();
        assert_eq!(info.reason, StopReason::Converged);
        let (mut residual, x) = (b.clone(), x.to_vec().unwrap());
        matrix.triplets().for_each(|(i, j, value)| residual[i] -= value * x[j]);
        assert!(norm(&residual) <= 1.1e-10 * norm(&b));
        info.iterations
    };
    let jacobi = iterations(&Jacobi::new(&a).unwrap());
    let by_nodes = iterations(&BlockJacobi::from_pattern(&a, 3).unwrap());
    let larger = iterations(&BlockJacobi::from_pattern(&a, 27).unwrap());
    assert!(3 * by_nodes <= 2 * jacobi && larger < by_nodes, "{jacobi}, {by_nodes}, {larger}");
    assert!(iterations(&BlockJacobi::new(&a, 1).unwrap()).abs_diff(jacobi) <= 1);
}

fn degenerate(device: &Device) {
    for n in 0..3 {
        let rows = |i: usize| if i == 0 { vec![(0, 2.0)] } else { vec![(0, 3.0), (1, 4.0)] };
        let a = device.upload(&from_rows::<f64>(n, (0..n).map(rows).collect())).unwrap();
        let (b, mut x) = (device.upload_vec(&[8.0, 20.0][..n]).unwrap(), device.zeros(n).unwrap());
        for size in [2, 3, 32] {
            for blocks in [BlockJacobi::new(&a, size).unwrap(), BlockJacobi::from_pattern(&a, size).unwrap()] {
                assert_eq!(blocks.block_offsets(), if n == 0 { vec![0] } else { vec![0, n as u32] });
                blocks.apply((&b).into(), (&mut x).into()).unwrap();
                assert_eq!(x.to_vec().unwrap(), [4.0, 2.0][..n]);
            }
        }
    }
}

fn new_values(device: &Device) {
    let (matrix, doubled) = (banded::<f64>(1, 50), banded::<f64>(2, 50));
    let mut blocks = BlockJacobi::new(&device.upload(&matrix).unwrap(), 7).unwrap();
    let expected = columns(&BlockJacobi::new(&device.upload(&doubled).unwrap(), 7).unwrap(), device);
    blocks.update_values(&device.upload(&doubled).unwrap()).unwrap();
    assert_eq!(columns(&blocks, device), expected);
    // A failure leaves the inverses.
    let zeros = from_rows::<f64>(50, vec![vec![]; 50]);
    let error = blocks.update_values(&device.upload(&zeros).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Breakdown { iteration: 0, .. }), "{error}");
    assert_eq!(columns(&blocks, device), expected);
    let error = blocks.update_values(&device.upload(&banded::<f64>(1, 49)).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the diagonal of A", .. }), "{error}");
    let error = blocks.update_values(&other(device).upload(&matrix).unwrap()).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");
}

fn refused(device: &Device) {
    let of = |rows: Vec<Vec<(usize, f64)>>| device.upload(&from_rows::<f64>(rows.len(), rows)).unwrap();
    let with = |[a, b, c, d]: [f64; 4]| {
        // In the second block.
        of(vec![vec![(0, 1.0)], vec![(1, 1.0)], vec![(2, a), (3, b)], vec![(2, c), (3, d)], vec![(4, 1.0)]])
    };
    for (block, row) in [
        ([1.0, 2.0, 2.0, 4.0], 3),
        ([0.0, 2.0, 0.0, 4.0], 2),
        // Within rounding errors.
        ([1.0, 1.0, 1.0, 1.0 + f64::EPSILON], 3),
        ([1.0, 0.0, 0.0, f64::NAN], 3),
        ([1.0, 0.0, f64::INFINITY, 1.0], 2),
        // The inverse overflows.
        ([1.0, 0.0, 0.0, 1e-310], 3),
    ] {
        let error = BlockJacobi::new(&with(block), 2).unwrap_err();
        assert!(matches!(error, Error::Breakdown { iteration: 0, .. }), "{error}");
        let place = format!("block-Jacobi, block 1 (rows 2 to 3), row {row}: the pivot is zero");
        assert!(error.to_string().contains(&place), "{block:?}: {error}");
    }
    // Small, or nearly parallel, is not singular.
    for block in [[1e-200, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0 + 1e-12], [0.0, 1.0, 1e-100, 0.0]] {
        BlockJacobi::new(&with(block), 2).unwrap();
    }
    // The first of several, among more blocks than a warp has.
    let rows = (0..300).map(|i| if i == 170 || i == 231 || i == 299 { vec![] } else { vec![(i, 1.0)] });
    let error = BlockJacobi::new(&of(rows.collect()), 2).unwrap_err();
    assert!(error.to_string().contains("block 85 (rows 170 to 171), row 170"), "{error}");
    for size in [0, 33] {
        let error = BlockJacobi::new(&with([1.0, 0.0, 0.0, 1.0]), size).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
        let error = BlockJacobi::from_pattern(&with([1.0, 0.0, 0.0, 1.0]), size).unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    }
    let wide = device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0)]; 2])).unwrap();
    assert!(matches!(BlockJacobi::new(&wide, 2), Err(Error::LengthMismatch { what: "the row of A", .. })));
    let blocks = BlockJacobi::new(&with([1.0, 0.0, 0.0, 1.0]), 2).unwrap();
    let vector = |n: usize| device.zeros::<f64>(n).unwrap();
    let error = blocks.apply((&vector(4)).into(), (&mut vector(5)).into()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "r", expected: 5, found: 4 }), "{error}");
    let error = blocks.apply((&vector(5)).into(), (&mut vector(6)).into()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "z", expected: 5, found: 6 }), "{error}");
    let foreign = other(device).zeros::<f64>(5).unwrap();
    assert!(matches!(blocks.apply((&foreign).into(), (&mut vector(5)).into()), Err(Error::DeviceMismatch { .. })));
}

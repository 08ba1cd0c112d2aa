//! The generators: shapes, values, the same matrix each time, and clear errors.
#![cfg(feature = "io")]

use warpsparse::{
    CsrMatrix, Error, Result, Scalar,
    io::{
        Generator, MatrixSource,
        generate::{self, DEFAULT_SEED},
    },
};

fn load<T: Scalar>(text: &str) -> CsrMatrix<T> {
    let source: MatrixSource = text.parse().expect("the text is well-formed");
    source.load().expect("the matrix fits")
}

fn dense<T: Scalar>(matrix: &CsrMatrix<T>) -> Vec<Vec<f64>> {
    let mut dense = vec![vec![0.0; matrix.ncols()]; matrix.nrows()];
    for (row, column, value) in matrix.triplets() {
        dense[row][column] += value.to_f64();
    }
    dense
}

fn row_lengths<T: Scalar>(matrix: &CsrMatrix<T>) -> impl Iterator<Item = usize> {
    (0..matrix.nrows()).map(|row| matrix.row_range(row).len())
}

/// Asserts that each row's columns rise: sorted, and none twice.
fn assert_sorted<T: Scalar>(matrix: &CsrMatrix<T>) {
    for row in 0..matrix.nrows() {
        let columns = &matrix.col_indices()[matrix.row_range(row)];
        assert!(columns.is_sorted_by(|a, b| a < b), "row {row}: {columns:?}");
    }
}

/// Asserts that the matrix holds `diagonal`, -1 between neighbours (with `corners`: diagonal ones too), and nothing else.
fn assert_stencil(matrix: &CsrMatrix<f64>, n: usize, dimensions: u32, diagonal: f64, corners: bool) {
    let points = n.pow(dimensions);
    assert_eq!((matrix.nrows(), matrix.ncols()), (points, points));
    assert_sorted(matrix);
    let coordinates = |point: usize| [point % n, point / n % n, point / n / n];
    for (row, values) in dense(matrix).iter().enumerate() {
        for (column, &value) in values.iter().enumerate() {
            let pairs = coordinates(row).into_iter().zip(coordinates(column));
            let distances: Vec<usize> = pairs.map(|(a, b)| a.abs_diff(b)).collect();
            let near = distances.iter().all(|&distance| distance <= 1);
            let expected = match distances.iter().sum::<usize>() {
                0 => diagonal,
                1 => -1.0,
                _ if corners && near => -1.0,
                _ => 0.0,
            };
            assert_eq!(value, expected, "row {row}, column {column}");
        }
    }
}

#[test]
fn stencils_are_what_their_formulas_say() {
    for n in 0..6 {
        assert_stencil(&generate::poisson2d(n).unwrap(), n, 2, 4.0, false);
        assert_stencil(&generate::poisson3d(n).unwrap(), n, 3, 6.0, false);
        assert_stencil(&generate::stencil27(n).unwrap(), n, 3, 26.0, true);
    }
}

#[test]
fn stencils_have_the_numbers_of_entries_that_they_promise() {
    for n in [1, 2, 3, 30, 70] {
        let count = |matrix: Result<CsrMatrix<f32>>| matrix.unwrap().nnz();
        assert_eq!(count(generate::poisson2d(n)), 5 * n * n - 4 * n);
        assert_eq!(count(generate::poisson3d(n)), 7 * n * n * n - 6 * n * n);
        assert_eq!(count(generate::stencil27(n)), (3 * n - 2).pow(3));
    }
    for name in ["poisson2d", "poisson3d", "stencil27"] {
        let empty: CsrMatrix<f32> = load(&format!("gen:{name}:0"));
        assert_eq!((empty.nrows(), empty.ncols(), empty.nnz()), (0, 0, 0));
    }
}

#[test]
fn uniform_rows_have_distinct_columns_and_positive_values() {
    for (rows, per_row, columns) in [(5000, 16, 5000), (100, 472, 600), (100, 100, 401), (50, 7, 7), (3, 0, 9)] {
        let a: CsrMatrix<f32> = generate::uniform(rows, columns, per_row, 7).unwrap();
        assert_eq!((a.nrows(), a.ncols(), a.nnz()), (rows, columns, rows * per_row));
        assert!(row_lengths(&a).all(|length| length == per_row));
        assert_sorted(&a);
        assert!(a.values().iter().all(|&value| 0.0 < value && value <= 1.0));
    }
}

/// Of 400 000 entries over 10 equal strips of columns, each strip's share has a standard deviation of 190.
#[test]
fn uniform_columns_are_uniform() {
    for per_row in [40, 400] {
        let a: CsrMatrix<f64> = generate::uniform(400_000 / per_row, 1000, per_row, 1).unwrap();
        let mut strips = [0i64; 10];
        for &column in a.col_indices() {
            strips[column as usize / 100] += 1;
        }
        assert!(strips.iter().all(|strip| (strip - 40_000).abs() < 1000), "{strips:?}");
        let mean = a.values().iter().sum::<f64>() / 400_000.0;
        assert!((mean - 0.5).abs() < 0.003, "{mean}");
    }
}

#[test]
fn rmat_has_the_skew_of_its_parameters() {
    let (scale, edge_factor) = (14, 8);
    let a: CsrMatrix<f64> = generate::rmat(scale, edge_factor, DEFAULT_SEED).unwrap();
    let rows = 1 << scale;
    assert_eq!((a.nrows(), a.ncols()), (rows, rows));
    assert_sorted(&a);
    // Few of the 131 072 edges come twice; the first row draws 0.76^14 of them.
    assert!((118_000..131_072).contains(&a.nnz()), "{}", a.nnz());
    let longest = row_lengths(&a).max().unwrap();
    assert_eq!(longest, a.row_range(0).len());
    assert!((1500..2810).contains(&longest), "{longest}");
    assert!(a.values().iter().all(|&value| 0.0 < value && value <= 1.0));
    // With one level, edges fall into the four quadrants by their probabilities.
    let quadrants: CsrMatrix<f64> = generate::rmat(1, 1000, DEFAULT_SEED).unwrap();
    assert_eq!(quadrants.nnz(), 4);
}

#[test]
fn small_rmat() {
    let single: CsrMatrix<f32> = generate::rmat(0, 5, 1).unwrap();
    assert_eq!((single.nrows(), single.nnz()), (1, 1));
    let empty: CsrMatrix<f32> = generate::rmat(3, 0, 1).unwrap();
    assert_eq!((empty.nrows(), empty.nnz()), (8, 0));
}

fn assert_symmetric_and_dominant<T: Scalar>(matrix: &CsrMatrix<T>) {
    for (i, row) in dense(matrix).iter().enumerate() {
        let others: f64 = row.iter().map(|value| value.abs()).sum::<f64>() - row[i];
        assert!(row[i] > 1.009 * others && others > 0.0, "row {i}: {} and {others}", row[i]);
    }
    let mut transposed: Vec<_> = matrix.triplets().map(|(i, j, value)| (j, i, value)).collect();
    transposed.sort_by_key(|&(i, j, _)| (i, j));
    assert!(matrix.triplets().eq(transposed));
}

#[test]
fn fem3_is_symmetric_dominant_banded_and_in_dense_blocks() {
    let a: CsrMatrix<f64> = generate::fem3(300, DEFAULT_SEED).unwrap();
    assert_eq!((a.nrows(), a.ncols()), (900, 900));
    assert_sorted(&a);
    assert_symmetric_and_dominant(&a);
    assert_symmetric_and_dominant(&generate::fem3::<f32>(300, 5).unwrap());
    assert!(a.triplets().all(|(i, j, _)| i.abs_diff(j) <= 158));
    for node in 0..300 {
        let columns = |row: usize| &a.col_indices()[a.row_range(row)];
        assert_eq!(columns(3 * node), columns(3 * node + 1));
        assert_eq!(columns(3 * node), columns(3 * node + 2));
        assert!(columns(3 * node).chunks(3).all(|c| c[0] % 3 == 0 && c[1] == c[0] + 1 && c[2] == c[0] + 2));
    }
    for nodes in 0..3 {
        let a: CsrMatrix<f64> = generate::fem3(nodes, DEFAULT_SEED).unwrap();
        assert_eq!(a.nrows(), 3 * nodes);
        assert!(a.nnz() >= 9 * nodes);
        assert_symmetric_and_dominant(&a);
    }
    let a: CsrMatrix<f32> = generate::fem3(20_000, DEFAULT_SEED).unwrap();
    let per_node = a.nnz() as f64 / 20_000.0;
    assert!((per_node - 126.0).abs() < 1.0, "{per_node}");
}

fn assert_communities<T: Scalar>(matrix: &CsrMatrix<T>, nrows: usize, nnz: usize) {
    assert_eq!((matrix.nrows(), matrix.ncols(), matrix.nnz()), (nrows, nrows, nnz));
    assert_sorted(matrix);
    assert!(matrix.values().iter().all(|value| 0.0 < value.to_f64() && value.to_f64() <= 1.0));
}

/// Lengths of rows or columns: how long the longest is, and which share of all entries the longest hundredth holds.
fn skew(mut lengths: Vec<usize>) -> (usize, f64) {
    lengths.sort_unstable();
    let sum = |lengths: &[usize]| lengths.iter().sum::<usize>() as f64;
    let longest = &lengths[lengths.len() - lengths.len() / 100..];
    (longest[longest.len() - 1], sum(longest) / sum(&lengths))
}

#[test]
fn communities_have_exact_sizes_and_skewed_rows_and_columns() {
    for (nrows, nnz) in [(20_000, 60_000), (100_000, 1_000_000), (30_000, 3_000_000)] {
        let a: CsrMatrix<f32> = generate::communities(nrows, nnz, DEFAULT_SEED).unwrap();
        assert_communities(&a, nrows, nnz);
        let (mean, cap) = (nnz / nrows, 2.0 * (nnz as f64).sqrt());
        // Were the law not capped, the hundredth would hold the fourth root of 0.01, 32%; with equal lengths, 1%.
        let (longest, share) = skew(row_lengths(&a).collect());
        assert!(longest as f64 <= cap + 2.0 && longest >= 20 * mean, "{nrows}: {longest}");
        assert!((0.12..0.25).contains(&share), "{nrows}: {share}");
        let mut column_lengths = vec![0; nrows];
        a.col_indices().iter().for_each(|&column| column_lengths[column as usize] += 1);
        let (longest, share) = skew(column_lengths);
        assert!(longest >= 15 * mean, "{nrows}: {longest}");
        assert!((0.09..0.25).contains(&share), "{nrows}: {share}");
    }
}

/// Entries of a random order are a third of the matrix from the diagonal on the mean, and lie evenly in rows and columns.
#[test]
fn communities_do_not_show_in_the_numbering() {
    let nrows = 50_000;
    let a: CsrMatrix<f32> = generate::communities(nrows, 1_000_000, DEFAULT_SEED).unwrap();
    let far: f64 = a.triplets().map(|(row, column, _)| row.abs_diff(column) as f64).sum();
    let far = far / a.nnz() as f64 / nrows as f64;
    assert!((far - 1.0 / 3.0).abs() < 0.005, "{far}");
    assert!(a.structure().locality() < 0.1, "{}", a.structure());
    for (strip, rows) in (0..nrows).collect::<Vec<_>>().chunks(nrows / 10).enumerate() {
        let entries: usize = rows.iter().map(|&row| a.row_range(row).len()).sum();
        assert!(entries.abs_diff(100_000) < 10_000, "strip {strip}: {entries}");
    }
}

#[test]
fn communities_of_few_entries_and_of_many() {
    for (nrows, nnz) in [(0, 0), (1, 0), (1, 1), (1000, 0), (1000, 1), (1000, 3), (100_000, 700), (400, 80_000)] {
        assert_communities(&generate::communities::<f64>(nrows, nnz, 5).unwrap(), nrows, nnz);
    }
    for (nrows, nnz) in [(2, 4), (50, 2500), (400, 159_999), (400, 80_001)] {
        let a: CsrMatrix<f32> = generate::communities(nrows, nnz, 5).unwrap();
        assert_communities(&a, nrows, nnz);
        let mean = nnz / nrows;
        assert!(row_lengths(&a).all(|length| (mean..=mean + 1).contains(&length)));
    }
}

#[test]
fn stand_ins_are_as_large_as_the_graphs() {
    for (name, nrows, nnz) in [("arxiv", 169_343, 1_166_243), ("DDI", 4_267, 2_135_822), ("Am", 881_680, 5_668_682)] {
        assert_communities(&load::<f32>(&format!("gen:standin:{name}")), nrows, nnz);
    }
    let per_row: Vec<usize> = generate::STAND_INS.iter().map(|graph| graph.nnz / graph.nrows).collect();
    assert_eq!(per_row, [6, 9, 10, 500, 596, 73, 491, 50, 5, 168, 19, 6, 6]);
    for graph in generate::STAND_INS {
        let source: MatrixSource = format!("gen:standin:{}", graph.name).parse().unwrap();
        assert_eq!(source, MatrixSource::Generator(Generator::StandIn { graph: *graph, seed: DEFAULT_SEED }));
    }
}

/// An FNV-1a hash of all that a matrix holds.
fn fingerprint(matrix: &CsrMatrix<f64>) -> u64 {
    let offsets = matrix.row_offsets().iter().map(|&offset| u64::from(offset));
    let columns = matrix.col_indices().iter().map(|&column| u64::from(column));
    let values = matrix.values().iter().map(|value| value.to_bits());
    let all = offsets.chain(columns).chain(values);
    all.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}

/// The energy of displacements, for which there are formulas, and what the body at rest feels of them.
#[test]
fn elasticity_of_a_cube() {
    assert_eq!(generate::elasticity3d::<f64>(0).unwrap().nrows(), 0);
    for n in [2, 4] {
        let a = generate::elasticity3d::<f64>(n).unwrap();
        assert!(a.is_canonical() && a.nrows() == 3 * n * n * n && a.nnz() == 9 * (3 * n - 2).pow(3));
        let mut values = std::collections::HashMap::new();
        a.triplets().for_each(|(i, j, value)| assert!(values.insert((i, j), value).is_none()));
        assert!(values.iter().all(|(&(i, j), value)| values[&(j, i)] == *value));
        // The nodes at z = -1 do not move: a displacement that is 0 there has the energy of a field on the whole body.
        let energy = |field: &dyn Fn([f64; 3]) -> [f64; 3]| {
            let at = |row: usize| {
                let node = row / 3;
                field([node % n, node / n % n, node / (n * n)].map(|at| at as f64))[row % 3]
            };
            a.triplets().map(|(i, j, value)| at(i) * value * at(j)).sum::<f64>()
        };
        let (lambda, mu) = (0.3 / (1.3 * 0.4), 0.5 / 1.3);
        let volume = ((n - 1) * (n - 1) * n) as f64;
        for (field, density) in [
            // Stretched, and sheared, by z + 1.
            (&(|[_, _, z]: [f64; 3]| [0.0, 0.0, z + 1.0]) as &dyn Fn([f64; 3]) -> [f64; 3], lambda + 2.0 * mu),
            (&|[_, _, z]| [z + 1.0, 0.0, 0.0], mu),
            (&|[_, _, z]| [0.0, z + 1.0, 0.0], mu),
            (&|[_, _, z]| [0.0, 2.0 * (z + 1.0), z + 1.0], lambda + 6.0 * mu),
        ] {
            let found = energy(field);
            assert!((found - density * volume).abs() < 1e-12 * found, "{found} for {}", density * volume);
        }
        // Rigid displacements and rotations cause forces only on the nodes of the first layer.
        let first_layer = 3 * n * n;
        for field in [
            &(|_: [f64; 3]| [1.0, -2.0, 0.5]) as &dyn Fn([f64; 3]) -> [f64; 3],
            &|[x, y, _]| [-y, x, 0.0],
            &|[x, _, z]| [z, 0.0, -x],
            &|[_, y, z]| [0.0, -z, y],
        ] {
            let mut forces = vec![0.0; a.nrows()];
            for (i, j, value) in a.triplets() {
                let node = j / 3;
                forces[i] += value * field([node % n, node / n % n, node / (n * n)].map(|at| at as f64))[j % 3];
            }
            assert!(forces[first_layer..].iter().all(|force| force.abs() < 1e-13));
            assert!(forces[..first_layer].iter().any(|force| force.abs() > 0.01));
        }
    }
}

/// Edges in one direction, in both, twice, and loops.
#[test]
fn laplacians_of_graphs() {
    let entries = [(0, 1, 5.0), (1, 0, 2.0), (3, 1, 1.0), (3, 1, 1.0), (2, 2, 4.0), (4, 3, 0.0)];
    let (mut offsets, mut columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
    for row in 0..6 {
        for &(_, j, value) in entries.iter().filter(|(i, ..)| *i == row) {
            columns.push(j);
            values.push(value);
        }
        offsets.push(columns.len() as u32);
    }
    let graph = CsrMatrix::<f64>::try_from_csr_data(6, 6, offsets, columns, values).unwrap();
    let a = generate::graph_laplacian(&graph).unwrap();
    assert!(a.is_canonical());
    let found: Vec<_> = a.triplets().collect();
    let expected = [
        (0, 0, 1.001),
        (0, 1, -1.0),
        (1, 0, -1.0),
        (1, 1, 2.001),
        (1, 3, -1.0),
        (2, 2, 0.001),
        (3, 1, -1.0),
        (3, 3, 2.001),
        (3, 4, -1.0),
        (4, 3, -1.0),
        (4, 4, 1.001),
        (5, 5, 0.001),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        generate::graph_laplacian(&CsrMatrix::<f32>::try_from_csr_data(0, 0, vec![0u32], vec![], vec![]).unwrap())
            .unwrap()
            .nrows(),
        0
    );
    let error =
        generate::graph_laplacian(&CsrMatrix::<f32>::try_from_csr_data(2, 3, vec![0u32; 3], vec![], vec![]).unwrap())
            .unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    // From a file.
    let file = "tests/data/dwt_992.mtx.xz";
    let [read, laplacian] = [file, &format!("gen:graphlap:{file}")].map(load::<f64>);
    assert_eq!(laplacian, generate::graph_laplacian(&read).unwrap());
}

/// Sums of fluxes between neighbours, and over the boundary.
#[test]
fn diffusion_with_coefficients() {
    assert_eq!(generate::aniso2d::<f64>(7, 1.0).unwrap(), generate::poisson2d(7).unwrap());
    assert_eq!(generate::jump3d::<f64>(5, 1.0).unwrap(), generate::poisson3d(5).unwrap());
    for n in 0..3 {
        assert_eq!(generate::aniso2d::<f32>(n, 0.5).unwrap().nrows(), n * n);
        assert_eq!(generate::jump3d::<f32>(n, 0.5).unwrap().nrows(), n * n * n);
    }
    let a = generate::aniso2d::<f64>(4, 0.25).unwrap();
    assert!(a.is_canonical());
    for (i, j, value) in a.triplets() {
        let expected = match i.abs_diff(j) {
            0 => 2.5,
            1 => -1.0,
            4 => -0.25,
            _ => panic!("{i}, {j}"),
        };
        assert_eq!(value, expected);
    }
    let (n, contrast) = (17, 1000.0);
    let a = generate::jump3d::<f64>(n, contrast).unwrap();
    assert!(a.is_canonical() && a.nnz() == 7 * n * n * n - 6 * n * n);
    let conductivity = |i: usize| {
        let boxes = [i % n, i / n % n, i / n / n].map(|at| at / 2).iter().sum::<usize>();
        if boxes % 2 == 0 { 1.0 } else { contrast }
    };
    let mut sums = vec![0.0; n * n * n];
    for (i, j, value) in a.triplets() {
        sums[i] += value;
        if i != j {
            let (one, other) = (conductivity(i), conductivity(j));
            assert!((value + 2.0 * one * other / (one + other)).abs() < 1e-12 * contrast);
        }
    }
    for (i, sum) in sums.into_iter().enumerate() {
        let ends = [i % n, i / n % n, i / n / n].iter().filter(|&&at| at == 0 || at == n - 1).count();
        assert!((sum - ends as f64 * conductivity(i)).abs() < 1e-9 * contrast, "{i}");
    }
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(generate::aniso2d::<f64>(3, wrong), Err(Error::InvalidOption(_))));
        assert!(matches!(generate::jump3d::<f64>(3, wrong), Err(Error::InvalidOption(_))));
    }
    // What the type does not hold is refused; what it holds is computed without overflow or underflow.
    for wrong in [1e39, 1e-50] {
        assert!(matches!(generate::aniso2d::<f32>(3, wrong), Err(Error::InvalidOption(_))));
        assert!(matches!(generate::jump3d::<f32>(3, wrong), Err(Error::InvalidOption(_))));
    }
    for contrast in [1e-300, 1e300] {
        let a = generate::jump3d::<f64>(16, contrast).unwrap();
        assert!(a.triplets().all(|(i, j, value)| value.is_finite() && (value > 0.0) == (i == j) && value != 0.0));
        assert_eq!(a, a.transpose().unwrap());
    }
}

/// The seed decides the matrix, on every machine and with every number of threads.
#[test]
fn generators_are_deterministic() {
    for (text, expected) in [
        ("gen:rmat:13:8", 0x8bfd_a144_cf88_b6be),
        ("gen:uniform:9000:12", 0xfd14_4d93_9eba_45e4),
        ("gen:uniform:90:70:100", 0xc379_c5bc_607a_7da2),
        ("gen:fem3:3000", 0xf2fc_6d62_e05d_82c7),
        ("gen:communities:9000:120000", 0x1861_6777_e022_711f),
        ("gen:communities:90:5000", 0x7a32_9759_93df_3672),
        ("gen:stencil27:25", 0x8683_6479_df37_ff52),
    ] {
        let matrix: CsrMatrix<f64> = load(text);
        assert_eq!(fingerprint(&matrix), expected, "{text}");
        assert_eq!(load::<f64>(text), matrix);
        assert_eq!(matrix.cast::<f32>().col_indices(), load::<f32>(text).col_indices());
    }
    for text in ["gen:rmat:10:8", "gen:uniform:100:12", "gen:fem3:100", "gen:communities:100:900"] {
        assert_eq!(load::<f64>(&format!("{text}:seed={DEFAULT_SEED}")), load(text));
        assert_ne!(load::<f64>(&format!("{text}:seed=1")), load(text));
    }
}

#[test]
fn convection_is_upwind() {
    for (text, points, neighbours) in
        [("gen:convdiff2d:4:2.5", 16, &[1, 4][..]), ("gen:convdiff3d:4:2.5", 64, &[1, 4, 16])]
    {
        let matrix = load::<f64>(text);
        assert_eq!((matrix.nrows(), matrix.ncols()), (points, points));
        let pairs: usize = neighbours.len() * 2 * points / 4 * 3;
        assert_eq!(matrix.nnz(), points + pairs);
        for (row, column, value) in matrix.triplets() {
            let expected = match row.abs_diff(column) {
                0 => neighbours.len() as f64 * (2.0 + 2.5),
                stride if neighbours.contains(&stride) => {
                    if column < row {
                        -3.5
                    } else {
                        -1.0
                    }
                }
                _ => panic!("{row}, {column}"),
            };
            assert_eq!(value, expected, "{row}, {column}");
        }
    }
    assert_eq!(load::<f64>("gen:convdiff2d:0:1").nrows(), 0);
    let one = load::<f64>("gen:convdiff2d:1:3");
    assert_eq!(one.values(), [10.0]);
    let error = generate::convdiff2d::<f32>(3, 1e38).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
}

#[test]
fn helmholtz_is_a_shifted_laplacian() {
    let (matrix, laplacian) = (load::<f64>("gen:helmholtz2d:9:8"), load::<f64>("gen:poisson2d:9"));
    assert_eq!((matrix.row_offsets(), matrix.col_indices()), (laplacian.row_offsets(), laplacian.col_indices()));
    for ((row, column, value), (_, _, old)) in matrix.triplets().zip(laplacian.triplets()) {
        let expected = if row == column { old - 0.64 } else { old };
        assert!((value - expected).abs() < 1e-15);
    }
    let error = generate::helmholtz2d::<f64>(3, 1e200).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
}

#[test]
fn stokes_is_a_saddle_point() {
    for (n, rows) in [(0, 0), (1, 0), (2, 7), (5, 64)] {
        let matrix = load::<f64>(&format!("gen:stokes2d:{n}"));
        assert_eq!((matrix.nrows(), matrix.ncols()), (rows, rows), "{n}");
        assert!(matrix.is_canonical());
        assert_eq!(matrix.transpose().unwrap(), matrix, "symmetric");
    }
    let n = 5;
    let matrix = load::<f64>("gen:stokes2d:5");
    let (faces, cells, dense) = (n * (n - 1), 2 * n * (n - 1), dense(&matrix));
    // A face at the lower wall, an interior face, and a face whose flow points towards a wall.
    assert_eq!([0, 6, 4].map(|face| dense[face][face]), [5.0, 4.0, 4.0]);
    assert_eq!([0, 1, 5].map(|face| dense[faces + face][faces + face]), [5.0, 4.0, 5.0]);
    for (face, row) in dense.iter().enumerate().take(faces) {
        let (i, j) = (face % (n - 1), face / (n - 1));
        let [behind, ahead] = [j * n + i, j * n + i + 1].map(|cell| cells + cell);
        assert_eq!((row[behind], row.get(ahead)), (-1.0, (ahead < 64).then_some(&1.0)));
    }
    // The divergence of each cell: what leaves ahead, less what comes from behind, negated. A stream function has none.
    let stream = |i: usize, j: usize| {
        let at = |k: usize| (k * (n - k)) as f64 * (1.0 + 0.3 * k as f64);
        at(i) * at(j)
    };
    let mut velocity = vec![0.0; 64];
    for j in 0..n {
        for i in 0..n - 1 {
            velocity[j * (n - 1) + i] = stream(i + 1, j + 1) - stream(i + 1, j);
            velocity[faces + i * n + j] = -(stream(j + 1, i + 1) - stream(j, i + 1));
        }
    }
    let mut product = vec![0.0; 64];
    matrix.triplets().for_each(|(row, column, value)| product[row] += value * velocity[column]);
    assert!(product[cells..].iter().all(|divergence| divergence.abs() < 1e-11), "{product:?}");
}

#[test]
fn matrices_that_are_too_large_are_refused() {
    let limit = "and 32-bit indices reach 4294967295";
    for (text, problem) in [
        ("gen:poisson2d:65536", format!("1 x 65536 x 65536 grid points, {limit}")),
        ("gen:poisson3d:1626", format!("1626 x 1626 x 1626 grid points, {limit}")),
        ("gen:stencil27:5000000000", format!("5000000000 x 5000000000 x 5000000000 grid points, {limit}")),
        ("gen:poisson2d:40000", format!("7999840000 entries, {limit}")),
        ("gen:poisson3d:1000", format!("6994000000 entries, {limit}")),
        ("gen:aniso2d:65536:1", format!("1 x 65536 x 65536 grid points, {limit}")),
        ("gen:convdiff2d:65536:1", format!("1 x 65536 x 65536 grid points, {limit}")),
        ("gen:convdiff3d:900:1", format!("7 x 729000000 entries, {limit}")),
        ("gen:helmholtz2d:65536:1", format!("1 x 65536 x 65536 grid points, {limit}")),
        ("gen:stokes2d:65536", format!("65536 x 65536 cells, {limit}")),
        ("gen:stokes2d:20000", format!("15 x 400000000 entries, {limit}")),
        ("gen:jump3d:900:10", format!("7 x 729000000 entries, {limit}")),
        ("gen:elasticity3d:1", "elasticity on 1 x 1 x 1 nodes: there is no element".to_owned()),
        ("gen:elasticity3d:2000", format!("3 x 2000 x 2000 x 2000 unknowns, {limit}")),
        ("gen:elasticity3d:300", format!("9 x 898 x 898 x 898 entries, {limit}")),
        ("gen:stencil27:600", format!("1798 x 1798 x 1798 entries, {limit}")),
        ("gen:rmat:32:1", format!("2^32 rows, {limit}")),
        ("gen:rmat:4000000000:1", format!("2^4000000000 rows, {limit}")),
        ("gen:rmat:28:16", format!("268435456 x 16 edges, {limit}")),
        ("gen:uniform:5000000000:0", format!("5000000000 rows, {limit}")),
        ("gen:uniform:1:1:5000000000", format!("5000000000 columns, {limit}")),
        ("gen:uniform:4000000000:2", format!("4000000000 x 2 entries, {limit}")),
        ("gen:uniform:10:11", "11 distinct columns a row, but there are only 10 columns".to_owned()),
        ("gen:communities:5000000000:0", format!("5000000000 rows, {limit}")),
        ("gen:communities:100000:5000000000", format!("5000000000 entries, {limit}")),
        ("gen:communities:0:1", "1 entries, but a matrix of 0 rows and columns has only 0 places".to_owned()),
        ("gen:communities:10:101", "101 entries, but a matrix of 10 rows and columns has only 100 places".to_owned()),
        ("gen:fem3:1431655766", format!("126 x 1431655766 entries, {limit}")),
    ] {
        let error = text.parse::<MatrixSource>().unwrap().load::<f32>().unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error:?}");
        assert_eq!(error.to_string(), format!("invalid option: {problem}"), "{text}");
    }
}

#[test]
fn broken_texts_are_refused_by_the_part() {
    for (text, problem) in [
        (
            "gen:",
            "there is no generator ``: there are poisson2d, poisson3d, stencil27, aniso2d, jump3d, convdiff2d, convdiff3d, helmholtz2d, stokes2d, elasticity3d, graphlap, rmat, uniform, fem3, communities and standin",
        ),
        (
            "gen:poisson",
            "there is no generator `poisson`: there are poisson2d, poisson3d, stencil27, aniso2d, jump3d, convdiff2d, convdiff3d, helmholtz2d, stokes2d, elasticity3d, graphlap, rmat, uniform, fem3, communities and standin",
        ),
        ("gen:poisson2d", "N is missing"),
        ("gen:elasticity3d", "N is missing"),
        ("gen:elasticity3d:3:3", "`3` is one part too many"),
        ("gen:graphlap:", "FILE is missing"),
        ("gen:aniso2d:5", "EPS is missing"),
        ("gen:aniso2d:5:0", "EPS is a positive number, not `0`"),
        ("gen:jump3d:5:-1e3", "CONTRAST is a positive number, not `-1e3`"),
        ("gen:jump3d:5:inf", "CONTRAST is a positive number, not `inf`"),
        ("gen:convdiff2d:5:0", "PECLET is a positive number, not `0`"),
        ("gen:convdiff3d:5", "PECLET is missing"),
        ("gen:helmholtz2d:5:k", "K is a positive number, not `k`"),
        ("gen:stokes2d:5:1", "`1` is one part too many"),
        ("gen:jump3d:5:1e3:1", "`1` is one part too many"),
        ("gen:poisson2d:", "N is a whole number, not ``"),
        ("gen:poisson2d:-3", "N is a whole number, not `-3`"),
        ("gen:poisson2d:+3", "N is a whole number, not `+3`"),
        ("gen:poisson3d:1e3", "N is a whole number, not `1e3`"),
        ("gen:stencil27:99999999999999999999", "N is a whole number, not `99999999999999999999`"),
        ("gen:poisson2d:4:5", "`5` is one part too many"),
        ("gen:poisson2d:4:seed=1", "`seed=1` is one part too many"),
        ("gen:rmat:4", "EDGE_FACTOR is missing"),
        ("gen:rmat:seed=1", "SCALE is missing"),
        ("gen:rmat:4:4:4", "`4` is one part too many"),
        ("gen:rmat:4:4:seed=x", "seed is a whole number, not `x`"),
        ("gen:uniform:4", "PER_ROW is missing"),
        ("gen:uniform:4:4:x", "COLUMNS is a whole number, not `x`"),
        ("gen:communities:4", "NNZ is missing"),
        ("gen:communities:4:5:6", "`6` is one part too many"),
        ("gen:standin", "NAME is missing"),
        ("gen:standin:seed=1", "NAME is missing"),
        ("gen:standin:arxiv:7", "`7` is one part too many"),
        (
            "gen:standin:Cora",
            "there is no stand-in for `Cora`, but for arxiv, collab, citation, ddi, protein, ppa, reddit, products, \
             youtube, amazon, yelp, wikig2, am",
        ),
        ("gen:fem3:4:seed=1:seed=2", "`seed=2` is one part too many"),
    ] {
        let error = text.parse::<MatrixSource>().unwrap_err();
        assert!(matches!(error, Error::InvalidOption(_)), "{error:?}");
        assert_eq!(error.to_string(), format!("invalid option: `{text}`: {problem}"));
    }
    let error = "poisson2d:3".parse::<Generator>().unwrap_err().to_string();
    assert_eq!(error, "invalid option: `poisson2d:3`: a generator begins with `gen:`");
}

#[test]
fn texts_and_sources_correspond() {
    let uniform = |ncols, seed| {
        let (nrows, per_row) = (8, 3);
        MatrixSource::Generator(Generator::Uniform { nrows, ncols, per_row, seed })
    };
    for (text, source) in [
        ("gen:poisson2d:2048", MatrixSource::Generator(Generator::Poisson2d { n: 2048 })),
        ("gen:poisson3d:1", MatrixSource::Generator(Generator::Poisson3d { n: 1 })),
        ("gen:stencil27:0", MatrixSource::Generator(Generator::Stencil27 { n: 0 })),
        ("gen:aniso2d:12:0.001", MatrixSource::Generator(Generator::Aniso2d { n: 12, eps: 0.001 })),
        ("gen:jump3d:40:10000", MatrixSource::Generator(Generator::Jump3d { n: 40, contrast: 1e4 })),
        ("gen:convdiff2d:7:10", MatrixSource::Generator(Generator::Convdiff2d { n: 7, peclet: 10.0 })),
        ("gen:convdiff3d:7:0.1", MatrixSource::Generator(Generator::Convdiff3d { n: 7, peclet: 0.1 })),
        ("gen:helmholtz2d:7:12.5", MatrixSource::Generator(Generator::Helmholtz2d { n: 7, k: 12.5 })),
        ("gen:stokes2d:7", MatrixSource::Generator(Generator::Stokes2d { n: 7 })),
        ("gen:elasticity3d:40", MatrixSource::Generator(Generator::Elasticity3d { n: 40 })),
        ("gen:graphlap:a:b/c.mtx", MatrixSource::Laplacian("a:b/c.mtx".into())),
        ("gen:fem3:9:seed=0", MatrixSource::Generator(Generator::Fem3 { nodes: 9, seed: 0 })),
        ("gen:communities:9:20:seed=3", MatrixSource::Generator(Generator::Communities { nrows: 9, nnz: 20, seed: 3 })),
        (
            "gen:standin:arxiv:seed=3",
            MatrixSource::Generator(Generator::StandIn { graph: generate::STAND_INS[0], seed: 3 }),
        ),
        ("gen:uniform:8:3", uniform(8, DEFAULT_SEED)),
        ("gen:uniform:8:3:5:seed=18446744073709551615", uniform(5, u64::MAX)),
        ("gen:uniform:8:3:seed=5", uniform(8, 5)),
        ("some/gen:rmat.mtx", MatrixSource::File("some/gen:rmat.mtx".into())),
    ] {
        assert_eq!(text.parse::<MatrixSource>().unwrap(), source);
        assert_eq!(source.to_string(), text);
    }
    let spelled_out = format!("gen:rmat:5:2:seed={DEFAULT_SEED}").parse::<MatrixSource>().unwrap();
    assert_eq!(spelled_out.to_string(), "gen:rmat:5:2");
    let capitals = "gen:standin:WikiG2".parse::<MatrixSource>().unwrap();
    assert_eq!(capitals.to_string(), "gen:standin:wikig2");
}

#[test]
fn a_file_is_a_source_too() {
    let folder = std::env::var_os("WARPSPARSE_TEST_DATA").map(std::path::PathBuf::from);
    let folder = folder.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data").into());
    let source = MatrixSource::File(folder.join("dwt_992.mtx.xz"));
    let mut last = (0, 0);
    let matrix: CsrMatrix<f32> = source.load_with_progress(|read, total| last = (read, total)).unwrap();
    assert_eq!((matrix.nrows(), matrix.nnz()), (992, 16_744));
    assert_eq!(last, (6_224, 6_224));
}

#[test]
fn generators_are_called_by_their_values_too() {
    let (text, generator) =
        ("gen:uniform:30:4:20:seed=7", Generator::Uniform { nrows: 30, ncols: 20, per_row: 4, seed: 7 });
    assert_eq!(generator.generate::<f32>().unwrap(), load(text));
    let error = Generator::Poisson2d { n: usize::MAX }.generate::<f32>().unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
}

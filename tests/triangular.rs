//! Triangular solves against a substitution in `f64`: both triangles, their transposes, several right-hand sides, and what cannot be solved.

mod common;

use std::process::ExitCode;

use common::{Random, matrices::from_rows, on_every_device, other};
use warpsparse::{
    CscMatrix, CsrMatrix, DenseLayout, Device, DeviceMatrix, Diagonal, Error, Scalar, Triangle, TriangularSolver,
};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    trials.extend(on_every_device("triangles_f32", triangles::<f32>));
    trials.extend(on_every_device("triangles_f64", triangles::<f64>));
    trials.extend(on_every_device("degenerate", degenerate));
    trials.extend(on_every_device("levels", levels));
    trials.extend(on_every_device("several_right_hand_sides", several));
    trials.extend(on_every_device("formats_and_duplicates", formats));
    trials.extend(on_every_device("nan_goes_where_it_belongs", not_a_number));
    trials.extend(on_every_device("recorded", recorded));
    trials.extend(on_every_device("what_cannot_be_solved", refused));
    common::run(trials)
}

const TRIANGLES: [Triangle; 2] = [Triangle::Lower, Triangle::Upper];
const DIAGONALS: [Diagonal; 2] = [Diagonal::Stored, Diagonal::Unit];

/// About `per_row` entries in each row and triangle, at random places, and a diagonal that dominates.
fn random<T: Scalar>(seed: u64, n: usize, per_row: usize) -> CsrMatrix<T> {
    let mut random = Random(seed);
    let row = |i: usize| {
        let mut columns: Vec<usize> = (0..2 * per_row).map(|_| random.next_below(n)).filter(|&j| j != i).collect();
        columns.push(i);
        columns.sort_unstable();
        columns.dedup();
        let weight = 1.0 / (1.0 + per_row as f64);
        let value = |j: usize, random: &mut Random| {
            if i == j { 1.5 + 0.5 * random.next_unit() } else { weight * random.next_unit() }
        };
        columns.into_iter().map(|j| (j, value(j, &mut random))).collect()
    };
    from_rows(n, (0..n).map(row).collect())
}

/// Three levels of 200 rows in either triangle, each with up to so many entries in the level before and in the one behind: too wide for tiles of several levels.
fn layers<T: Scalar>(seed: u64, per_row: usize) -> CsrMatrix<T> {
    const WIDTH: usize = 200;
    let mut random = Random(seed);
    let row = |i: usize| {
        let layer = i / WIDTH;
        let mut entries = vec![(i, 1.5 + 0.5 * random.next_unit())];
        for other in [layer.checked_sub(1), (layer < 2).then_some(layer + 1)].into_iter().flatten() {
            // One row is much longer than the others.
            let drawn = if i % WIDTH == 7 { 2 * WIDTH } else { per_row };
            let mut columns: Vec<usize> = (0..drawn).map(|_| WIDTH * other + random.next_below(WIDTH)).collect();
            columns.sort_unstable();
            columns.dedup();
            entries.extend(columns.into_iter().map(|j| (j, random.next_unit() / (1.0 + drawn as f64))));
        }
        entries.sort_unstable_by_key(|entry| entry.0);
        entries
    };
    from_rows(3 * WIDTH, (0..3 * WIDTH).map(row).collect())
}

/// 40 levels of 30 rows in either triangle, each with all of the two levels before and behind: so many wide tiles that the last ones wait for others to come near.
fn deep<T: Scalar>() -> CsrMatrix<T> {
    const WIDTH: usize = 30;
    let n = 40 * WIDTH;
    let mut random = Random(8);
    let row = |i: usize| {
        let layer = i / WIDTH;
        let columns = WIDTH * layer.saturating_sub(2)..n.min(WIDTH * (layer + 3));
        let entries = columns.filter(|&j| j == i || j / WIDTH != layer);
        let value = |j, u: f64| if j == i { 1.5 + 0.5 * u } else { u / 121.0 };
        entries.map(|j| (j, value(j, random.next_unit()))).collect()
    };
    from_rows(n, (0..n).map(row).collect())
}

/// -1 2 -1: as many levels as rows.
fn chain<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let row = |i: usize| {
        let below = (i > 0).then(|| (i - 1, -1.0));
        let above = (i + 1 < n).then_some((i + 1, -1.0));
        [below, Some((i, 2.0)), above].into_iter().flatten().collect()
    };
    from_rows(n, (0..n).map(row).collect())
}

/// The last row and the last column are full.
fn arrow<T: Scalar>(n: usize) -> CsrMatrix<T> {
    let row = |i: usize| match i + 1 == n {
        true => (0..n).map(|j| (j, if i == j { 3.0 } else { 1.0 / (j as f64 + 2.0) })).collect(),
        false => vec![(i, 2.0 + (i % 3) as f64), (n - 1, 0.5)],
    };
    from_rows(n, (0..n).map(row).collect())
}

/// Whether an entry belongs to a triangle.
fn is_in(triangle: Triangle, (row, column): (usize, usize)) -> bool {
    match triangle {
        Triangle::Lower => column <= row,
        Triangle::Upper => column >= row,
    }
}

/// `b - T x` is no larger in any element than rounding explains, for the triangle or its transpose.
fn check<T: Scalar>(
    what: &str,
    matrix: &CsrMatrix<T>,
    (triangle, diagonal, transposed): (Triangle, Diagonal, bool),
    b: &[T],
    x: &[T],
) {
    let n = matrix.nrows();
    let mut rests: Vec<f64> = b.iter().map(|b| b.to_f64()).collect();
    let mut sizes: Vec<f64> = rests.iter().map(|b| b.abs()).collect();
    let mut terms = vec![2.0; n];
    let mut take = |row: usize, column: usize, value: f64| {
        let product = value * x[column].to_f64();
        rests[row] -= product;
        sizes[row] += product.abs();
        terms[row] += 1.0;
    };
    for (row, column, value) in matrix.triplets().filter(|&(row, column, _)| is_in(triangle, (row, column))) {
        if row != column || diagonal == Diagonal::Stored {
            let (row, column) = if transposed { (column, row) } else { (row, column) };
            take(row, column, value.to_f64());
        }
    }
    if diagonal == Diagonal::Unit {
        (0..n).for_each(|row| take(row, row, 1.0));
    }
    let precision = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    for row in 0..n {
        let bound = terms[row] * precision * sizes[row];
        assert!(rests[row].abs() <= bound, "{what}, row {row}: {} exceeds {bound}", rests[row].abs());
    }
}

fn triangles<T: Scalar>(device: &Device) {
    let cases = [
        // Narrow levels, for each number of lanes.
        ("few entries", random::<T>(1, 700, 3)),
        ("some entries", random(5, 400, 6)),
        ("more entries", random(6, 300, 13)),
        ("many entries", random(7, 250, 25)),
        ("very many entries", random(2, 300, 40)),
        ("long rows", random(3, 260, 200)),
        ("a chain", chain(600)),
        ("an arrow", arrow(301)),
        // Wide ones.
        ("layers, few entries", layers(1, 3)),
        ("layers, some entries", layers(2, 9)),
        ("layers, more entries", layers(3, 20)),
        ("layers, many entries", layers(4, 40)),
        ("layers, very many entries", layers(5, 120)),
        ("many levels", deep()),
        ("a diagonal", from_rows(555, (0..555).map(|i| vec![(i, 0.5 + i as f64)]).collect())),
    ];
    for (name, matrix) in cases {
        let n = matrix.nrows();
        let (a, b) = (device.upload(&matrix).unwrap(), Random(9).vector::<T>(n));
        let on_device = device.upload_vec(&b).unwrap();
        // The emulator takes seconds for each.
        let is_long = device.to_string() == "emulated" && (matrix.nnz() > 20_000 || name == "a chain");
        for triangle in TRIANGLES {
            for diagonal in DIAGONALS {
                if is_long && (triangle == Triangle::Lower) != (diagonal == Diagonal::Stored) {
                    continue;
                }
                let what = format!("{name}, {triangle:?}, {diagonal:?}");
                let mut x = device.upload_vec(&vec![T::from_f64(f64::NAN); n]).unwrap();
                let solver = TriangularSolver::new(&a, triangle, diagonal).unwrap();
                solver.solve(&on_device, &mut x).unwrap();
                let first = x.to_vec().unwrap();
                check(&what, &matrix, (triangle, diagonal, false), &b, &first);
                // Again, and without a plan: the same bits.
                solver.solve(&on_device, &mut x).unwrap();
                assert_eq!(x.to_vec().unwrap(), first, "{what}");
                a.solve_triangular(triangle, diagonal, &on_device, &mut x).unwrap();
                assert_eq!(x.to_vec().unwrap(), first, "{what}");

                let solver = TriangularSolver::transposed(&a, triangle, diagonal).unwrap();
                solver.solve(&on_device, &mut x).unwrap();
                check(&what, &matrix, (triangle, diagonal, true), &b, &x.to_vec().unwrap());
            }
        }
    }
}

fn degenerate(device: &Device) {
    for n in 0..3 {
        let rows = |i: usize| if i == 0 { vec![(0, 2.0)] } else { vec![(0, 3.0), (1, 4.0)] };
        let a = device.upload(&from_rows::<f64>(n, (0..n).map(rows).collect())).unwrap();
        let b = device.upload_vec(&[8.0, 20.0][..n]).unwrap();
        let mut x = device.zeros(n).unwrap();
        for (triangle, diagonal, expected) in [
            (Triangle::Lower, Diagonal::Stored, [4.0, 2.0]),
            (Triangle::Lower, Diagonal::Unit, [8.0, -4.0]),
            (Triangle::Upper, Diagonal::Stored, [4.0, 5.0]),
            (Triangle::Upper, Diagonal::Unit, [8.0, 20.0]),
        ] {
            a.solve_triangular(triangle, diagonal, &b, &mut x).unwrap();
            assert_eq!(x.to_vec().unwrap(), expected[..n], "{n}, {triangle:?}, {diagonal:?}");
        }
    }
    // No entries at all, and ones on the diagonal.
    let a = device.upload(&from_rows::<f64>(5, vec![vec![]; 5])).unwrap();
    let (b, mut x) = (device.upload_vec(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap(), device.zeros(5).unwrap());
    a.solve_triangular(Triangle::Upper, Diagonal::Unit, &b, &mut x).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0]);
}

fn levels(device: &Device) {
    let of = |matrix: &CsrMatrix<f64>, triangle| {
        let a = device.upload(matrix).unwrap();
        TriangularSolver::new(&a, triangle, Diagonal::Unit).unwrap().levels()
    };
    for triangle in TRIANGLES {
        assert_eq!(of(&from_rows(0, vec![]), triangle), 0);
        assert_eq!(of(&chain(40), triangle), 40);
        assert_eq!(of(&common::matrices::stencil(7), triangle), 13);
        assert_eq!(of(&from_rows(3, (0..3).map(|i| vec![(i, 1.0)]).collect()), triangle), 1);
        assert_eq!(of(&arrow(9), triangle), 2);
    }
}

/// Columns in every layout, with gaps that stay as they are; the bits of one column alone.
fn several(device: &Device) {
    let (n, columns) = (130, 5);
    let matrix = random::<f64>(4, n, 5);
    let a = device.upload(&matrix).unwrap();
    let solver = TriangularSolver::new(&a, Triangle::Lower, Diagonal::Stored).unwrap();
    // Each with the distances of rows and columns, and the first element.
    let layouts = [
        (DenseLayout::row_major(n, columns), columns, 1, 0),
        (DenseLayout::row_major(n, columns).leading_dimension(columns + 3).offset(2), columns + 3, 1, 2),
        (DenseLayout::column_major(n, columns), 1, n, 0),
        (DenseLayout::column_major(n, columns).leading_dimension(n + 1).offset(1), 1, n + 1, 1),
    ];
    let mut alone = vec![];
    for column in 0..columns {
        let (b, mut x) =
            (device.upload_vec(&Random(column as u64).vector::<f64>(n)).unwrap(), device.zeros(n).unwrap());
        solver.solve(&b, &mut x).unwrap();
        alone.push(x.to_vec().unwrap());
    }
    for (b_layout, b_row, b_column, b_first) in layouts {
        let mut b = vec![f64::NAN; b_layout.elements().unwrap()];
        for column in 0..columns {
            let values = Random(column as u64).vector::<f64>(n);
            (0..n).for_each(|row| b[b_first + row * b_row + column * b_column] = values[row]);
        }
        let b = device.upload_dense(b_layout, &b).unwrap();
        for (x_layout, x_row, x_column, x_first) in layouts {
            let elements = x_layout.elements().unwrap();
            let mut x = device.upload_dense(x_layout, &vec![-77.0; elements]).unwrap();
            solver.solve_dense(&b, &mut x).unwrap();
            let mut found = x.into_vec().to_vec().unwrap();
            for (column, alone) in alone.iter().enumerate() {
                for (row, expected) in alone.iter().enumerate() {
                    let at = x_first + row * x_row + column * x_column;
                    assert_eq!(found[at], *expected, "{row}, {column}");
                    found[at] = -77.0;
                }
            }
            assert!(found.iter().all(|gap| *gap == -77.0));
        }
    }
    let (b, mut x) = (device.zeros_dense((n, 0)).unwrap(), device.zeros_dense((n, 0)).unwrap());
    solver.solve_dense(&b, &mut x).unwrap();
}

/// Columns in any order, duplicates, the entries of the other triangle, and other formats.
fn formats(device: &Device) {
    let untidy = from_rows::<f64>(
        3,
        vec![
            vec![(2, f64::NAN), (0, 1.0), (0, 1.0)],
            vec![(1, 4.0), (0, 2.0), (2, f64::INFINITY)],
            vec![(2, 1.0), (1, 1.0), (0, 3.0), (2, 1.0), (1, 2.0)],
        ],
    );
    let expected = [1.0, 2.0, 0.5];
    let b = device.upload_vec(&[2.0, 10.0, 10.0]).unwrap();
    let solve = |a: &DeviceMatrix<f64>| {
        let mut x = device.zeros(3).unwrap();
        a.solve_triangular(Triangle::Lower, Diagonal::Stored, &b, &mut x).unwrap();
        x.to_vec().unwrap()
    };
    assert_eq!(solve(&device.upload(&untidy).unwrap()), expected);
    assert_eq!(solve(&device.upload(&CscMatrix::try_from(&untidy).unwrap()).unwrap()), expected);
    assert_eq!(solve(&device.upload(&CsrMatrix::<f64, u64>::from(&untidy)).unwrap()), expected);
}

/// A NaN of any bits, and those of a flag that has not been set, in the right-hand side.
fn not_a_number(device: &Device) {
    // More rows than a tile has.
    let n = 600;
    let a = device.upload(&chain::<f64>(n)).unwrap();
    for bits in [f64::NAN.to_bits(), u64::MAX, u64::MAX >> 1] {
        let mut b = vec![1.0; n];
        b[25] = f64::from_bits(bits);
        let (b, mut x) = (device.upload_vec(&b).unwrap(), device.zeros(n).unwrap());
        a.solve_triangular(Triangle::Lower, Diagonal::Stored, &b, &mut x).unwrap();
        let x = x.to_vec().unwrap();
        assert!(x[..25].iter().all(|x| x.is_finite()) && x[25..].iter().all(|x| x.is_nan()), "{x:?}");
    }
}

fn recorded(device: &Device) {
    let (n, matrix) = (90, random::<f32>(5, 90, 4));
    let a = device.upload(&matrix).unwrap();
    let solver = TriangularSolver::new(&a, Triangle::Upper, Diagonal::Stored).unwrap();
    let (mut b, mut x) = (device.upload_vec(&Random(1).vector::<f32>(n)).unwrap(), device.zeros(n).unwrap());
    let mut expected = device.zeros(n).unwrap();
    solver.solve(&b, &mut expected).unwrap();
    let expected = expected.to_vec().unwrap();
    let mut graph = device.record(|| solver.solve(&b, &mut x)).unwrap();
    graph.launch(3).unwrap();
    drop(graph);
    assert_eq!(x.to_vec().unwrap(), expected);
    // The analysis waits, which a graph cannot.
    let analysis = device.record(|| a.solve_triangular(Triangle::Upper, Diagonal::Stored, &x, &mut b));
    let error = analysis.and_then(|mut graph| graph.launch(1)).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
}

fn refused(device: &Device) {
    let diagonal = |elements: &[Option<f64>]| {
        let rows =
            elements.iter().enumerate().map(|(i, element)| element.map(|value| (i, value)).into_iter().collect());
        device.upload(&from_rows::<f64>(elements.len(), rows.collect())).unwrap()
    };
    for bad in [None, Some(0.0), Some(-0.0), Some(f64::NAN), Some(f64::INFINITY)] {
        let a = diagonal(&[Some(1.0), Some(2.0), bad, None]);
        for triangle in TRIANGLES {
            let error = TriangularSolver::new(&a, triangle, Diagonal::Stored).unwrap_err();
            assert!(matches!(error, Error::Breakdown { iteration: 0, .. }) && error.to_string().contains("row 2"));
            TriangularSolver::new(&a, triangle, Diagonal::Unit).unwrap();
        }
    }
    let oblong = device.upload(&from_rows::<f64>(3, vec![vec![(0, 1.0)]; 2])).unwrap();
    let error = TriangularSolver::new(&oblong, Triangle::Lower, Diagonal::Unit).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "the row of A", expected: 2, found: 3 }), "{error}");

    let a = diagonal(&[Some(1.0), Some(2.0)]);
    let solver = TriangularSolver::new(&a, Triangle::Lower, Diagonal::Stored).unwrap();
    let (two, mut out) = (device.zeros(2).unwrap(), device.zeros(2).unwrap());
    let error = solver.solve(&device.zeros(3).unwrap(), &mut out).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "b", expected: 2, found: 3 }), "{error}");
    let error = solver.solve(&two, &mut device.zeros(1).unwrap()).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { what: "x", expected: 2, found: 1 }), "{error}");
    let elsewhere = other(device);
    let error = solver.solve(&elsewhere.zeros(2).unwrap(), &mut out).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "b", .. }), "{error}");
    let error = solver.solve(&elsewhere.zeros(2).unwrap(), &mut elsewhere.zeros(2).unwrap()).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { what: "the triangle", .. }), "{error}");
    let dense = |rows, columns| device.zeros_dense::<f64>((rows, columns)).unwrap();
    for (b, mut x) in [(dense(2, 3), dense(2, 2)), (dense(3, 2), dense(2, 2)), (dense(2, 2), dense(1, 2))] {
        let error = solver.solve_dense(&b, &mut x).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    }
}

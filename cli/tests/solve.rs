//! `warpsparse solve` as a user runs it.

use std::{fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;
use warpsparse::{CooMatrix, CsrMatrix, io::MatrixSource};

fn warpsparse(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().args(arguments).output().unwrap()
}

#[track_caller]
fn stdout(arguments: &[&str]) -> String {
    let output = warpsparse(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn data(name: &str) -> String {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data"));
    root.join(name).to_str().unwrap().to_owned()
}

/// A path that nothing has yet.
fn scratch(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

/// Solves on the CPU.
#[track_caller]
fn solve(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[&["solve", "--device", "cpu", "--json"], arguments].concat())).unwrap()
}

/// The status and what is on stderr.
fn failure(arguments: &[&str]) -> (i32, String) {
    let output = warpsparse(&[&["solve"], arguments].concat());
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn matrix(source: &str) -> CsrMatrix<f64> {
    source.parse::<MatrixSource>().unwrap().load().unwrap()
}

/// The one column of a file.
fn vector(path: &str) -> Vec<f64> {
    let column = CooMatrix::<f64>::read_matrix_market(path).unwrap();
    assert_eq!(column.ncols(), 1);
    let mut elements = vec![0.0; column.nrows()];
    column.triplets().for_each(|(row, _, value)| elements[row] += value);
    elements
}

fn product(matrix: &CsrMatrix<f64>, x: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; matrix.nrows()];
    matrix.triplets().for_each(|(row, column, value)| y[row] += value * x[column]);
    y
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn relative_residual(matrix: &CsrMatrix<f64>, b: &[f64], x: &[f64]) -> f64 {
    let ax = product(matrix, x);
    norm(&b.iter().zip(ax).map(|(b, ax)| b - ax).collect::<Vec<_>>()) / norm(b)
}

fn history(report: &Value) -> Vec<f64> {
    report["history"].as_array().unwrap().iter().map(|norm| norm.as_f64().unwrap()).collect()
}

/// The table of a CSV file.
fn table(path: &str) -> Vec<(usize, f64)> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.strip_prefix("iteration,residual_norm\n").unwrap();
    let row = |line: &str| {
        let (iteration, norm) = line.split_once(',').unwrap();
        (iteration.parse().unwrap(), norm.parse().unwrap())
    };
    rows.lines().map(row).collect()
}

/// A symmetric matrix that is positive definite in its first rows only.
fn indefinite() -> String {
    let path = scratch("indefinite.mtx");
    let header = "%%MatrixMarket matrix coordinate real symmetric";
    fs::write(&path, format!("{header}\n4 4 6\n1 1 4\n2 2 3\n3 3 2\n4 4 0.01\n2 1 1\n4 3 2\n")).unwrap();
    path
}

#[test]
fn a_stiffness_matrix_is_solved() {
    let text = stdout(&["solve", &data("bcsstk16.mtx.xz"), "--device", "cpu"]);
    let parts = [
        "bcsstk16.mtx.xz",
        "4884 x 4884, 290378 entries",
        "b          ones; all f64",
        "device     cpu",
        " thread",
        "method     conjugate gradients with Jacobi's preconditioner, because the matrix is symmetric: Converged after ",
        "kernel     cpu_cg",
        "Jacobi's preconditioner",
        "result     converged after ",
        "relative to b, asked for 1e-6",
        "the second of two solutions",
        "µs an iteration",
    ];
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn json_has_the_course_of_the_solution() {
    let report = solve(&["gen:poisson2d:20"]);
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.solve".into(), &2.into()));
    let fields = [
        ("rhs", "ones"),
        ("device", "cpu"),
        ("dtype", "f64"),
        ("preconditioner", "jacobi"),
        ("preconditioner_reason", "400 rows, and multigrid pays off from 200000 on"),
        ("method", "auto"),
        ("launch", "auto"),
        ("kernel", "cpu_cg"),
        ("ended", "converged"),
    ];
    for (key, value) in fields {
        assert_eq!(report[key], value, "{key}");
    }
    let tried = &report["tried"];
    assert_eq!((tried.as_array().unwrap().len(), &tried[0]["method"]), (1, &"conjugate gradients".into()));
    assert_eq!(tried[0]["reason"], "the matrix is symmetric");
    assert_eq!((&report["matrix"]["rows"], &report["matrix"]["source"]), (&400.into(), &"gen:poisson2d:20".into()));
    assert!(report["converged"] == true && report["max_iterations"] == 4000);
    assert!(number(&report, "threads") >= 1.0 && report["reason"].is_string());

    let (history, iterations) = (history(&report), number(&report, "iterations"));
    assert_eq!(history.len() as f64, iterations + 1.0);
    assert_eq!(history[0], 20.0, "the norm of 400 ones");
    let residual = number(&report, "relative_residual");
    assert!(residual <= 1.01e-6 && (number(&report, "residual_norm") / 20.0 / residual - 1.0).abs() < 1e-12);
    let each = number(&report, "seconds") / iterations;
    assert!((number(&report, "seconds_per_iteration") / each - 1.0).abs() < 1e-12);

    // Multigrid: far fewer iterations, and its setup is reported.
    assert!(report["setup"].is_null());
    let multigrid = solve(&["gen:poisson2d:60", "--precond", "amg", "--tol", "1e-8"]);
    assert!(multigrid["preconditioner"] == "amg" && multigrid["preconditioner_reason"] == "as the options specify");
    assert!(number(&multigrid, "iterations") <= 16.0 && number(&multigrid, "relative_residual") < 1.1e-8);
    let setup = &multigrid["setup"];
    assert!(setup["levels"].as_array().unwrap().len() >= 3 && setup["levels"][0]["rows"] == 3600);
    assert!((1.1..1.6).contains(&number(setup, "operator_complexity")) && number(setup, "seconds") > 0.0);
    assert_eq!((&setup["dtype"], &multigrid["tried"][0]["method"]), (&"f64".into(), &"conjugate gradients".into()));
    assert_eq!(multigrid["tried"][0]["preconditioner"], "multigrid");
    // In single precision, for a solution that this precision does not have.
    let mixed = solve(&["gen:poisson2d:60", "--precond", "amg", "--tol", "1e-12", "--precond-dtype", "f32"]);
    assert!(mixed["dtype"] == "f64" && mixed["setup"]["dtype"] == "f32" && mixed["converged"] == true, "{mixed}");
    assert!(number(&mixed, "iterations") <= 24.0 && number(&mixed, "relative_residual") < 1.1e-12, "{mixed}");
    assert!(2.0 * number(&mixed["setup"], "bytes") < 1.6 * number(setup, "bytes"), "{mixed}");

    let single = solve(&["gen:poisson2d:20", "--dtype", "f32", "--tol", "1e-4", "--precond", "none"]);
    assert!(single["dtype"] == "f32" && single["preconditioner"] == "none" && single["converged"] == true);
    // Without equations there is nothing to do.
    let empty = solve(&["gen:poisson2d:0"]);
    assert!(empty["converged"] == true && empty["iterations"] == 0 && empty["seconds_per_iteration"].is_null());
}

#[test]
fn the_solution_is_one_and_can_be_read_back() {
    let source = "gen:poisson2d:20";
    let a = matrix(source);
    let (x, xz, again) = (scratch("x.mtx"), scratch("x.mtx.gz"), scratch("again.mtx"));
    for out in [&x, &xz] {
        solve(&[source, "--x-out", out, "--tol", "1e-9"]);
    }
    assert!(fs::read_to_string(&x).unwrap().starts_with("%%MatrixMarket matrix array real general\n400 1\n"));
    assert_eq!(fs::read(&xz).unwrap()[..2], [0x1f, 0x8b], "gzip");
    let solution = vector(&x);
    assert!(relative_residual(&a, &[1.0; 400], &solution) <= 1.1e-9);
    assert_eq!(vector(&xz), solution, "the same bits");

    // The solution as the next right-hand side.
    let report = solve(&[source, "--rhs", &xz, "--x-out", &again, "--tol", "1e-9"]);
    assert_eq!(report["rhs"], *xz);
    assert!((history(&report)[0] / norm(&solution) - 1.0).abs() < 1e-12);
    assert!(relative_residual(&a, &solution, &vector(&again)) <= 1.1e-9);

    // In f32, with the digits that it takes.
    solve(&[source, "--x-out", &x, "--dtype", "f32", "--tol", "1e-3"]);
    let text = fs::read_to_string(&x).unwrap();
    let numbers: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(numbers.len(), 400);
    numbers.iter().for_each(|number| assert_eq!(format!("{:?}", number.parse::<f32>().unwrap()), *number));
}

#[test]
fn right_hand_sides_come_from_sparse_files_too() {
    let (b, x) = (scratch("sparse_b.mtx"), scratch("sparse_x.mtx"));
    // The second element twice: duplicates are summed.
    fs::write(&b, "%%MatrixMarket matrix coordinate real general\n9 1 3\n2 1 1.5\n9 1 -4\n2 1 0.5\n").unwrap();
    let report = solve(&["gen:poisson2d:3", "--rhs", &b, "--x-out", &x, "--tol", "1e-10"]);
    assert_eq!(history(&report)[0], 20f64.sqrt());
    let expected = [0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -4.0];
    assert!(relative_residual(&matrix("gen:poisson2d:3"), &expected, &vector(&x)) <= 1.1e-10);

    let zeros = scratch("zeros.mtx");
    fs::write(&zeros, "%%MatrixMarket matrix coordinate real general\n9 1 0\n").unwrap();
    let report = solve(&["gen:poisson2d:3", "--rhs", &zeros, "--history", &scratch("zeros.svg")]);
    assert!(report["iterations"] == 0 && report["relative_residual"] == 0.0);
}

#[test]
fn random_right_hand_sides_are_the_same_each_time() {
    let paths = [scratch("random_0.mtx"), scratch("random_1.mtx")];
    let reports = paths.each_ref().map(|path| solve(&["gen:poisson2d:20", "--rhs", "random", "--x-out", path]));
    assert_eq!(reports[0]["history"], reports[1]["history"]);
    assert_eq!(reports[0]["rhs"], "random");
    let texts = paths.map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(texts[0], texts[1]);
    assert_ne!(reports[0]["history"], solve(&["gen:poisson2d:20"])["history"]);
}

#[test]
fn histories_are_tables_and_pictures() {
    let (csv, svg) = (scratch("history.csv"), scratch("history.svg"));
    let report = solve(&["gen:poisson2d:20", "--history", &csv]);
    let (table, history) = (table(&csv), history(&report));
    assert_eq!(table.len(), history.len());
    for (place, (row, norm)) in table.iter().zip(history).enumerate() {
        // Reading JSON rounds.
        assert!(row.0 == place && (row.1 / norm - 1.0).abs() < 1e-14, "{place}: {row:?} and {norm}");
    }

    let text = stdout(&["solve", "gen:poisson2d:20", "--device", "cpu", "--history", &svg]);
    assert!(text.contains("converged after"), "{text}");
    let picture = fs::read_to_string(&svg).unwrap();
    let parts =
        ["<svg xmlns", "gen:poisson2d:20", "<path class=\"line\" d=\"M", "stroke-dasharray", "target 1e-6", ">-6<"];
    for part in parts.into_iter().chain(["prefers-color-scheme:dark", ">iteration<", "</svg>"]) {
        assert!(picture.contains(part), "no `{part}` in:\n{picture}");
    }
    let path = picture.split("d=\"M").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(path.matches('L').count(), table.len() - 1);
}

#[test]
fn what_does_not_converge_is_told_with_all_that_is_known() {
    let (x, csv) = (scratch("limited.mtx"), scratch("limited.csv"));
    let arguments = ["gen:poisson2d:20", "--device", "cpu", "--max-iters", "5", "--x-out", &x, "--history", &csv];
    let output = warpsparse(&[&["solve"], &arguments[..]].concat());
    let (text, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(text.contains("not converged after 5 iterations"), "{text}");
    assert!(error.contains("error: not converged: the iterations reached their limit, 5; "), "{error}");
    assert_eq!((table(&csv).len(), vector(&x).len()), (6, 400));

    let output = warpsparse(&[&["solve", "--json"], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["converged"] == false && report["ended"] == "max_iterations" && report["iterations"] == 5);

    let (status, error) = failure(&["gen:poisson2d:20", "--device", "cpu", "--dtype", "f32", "--tol", "1e-12"]);
    assert!(status == 3 && error.contains("f32 is not precise enough"), "{status}: {error}");
}

#[test]
fn a_breakdown_leaves_what_there_is() {
    let (x, csv, svg) = (scratch("broken.mtx"), scratch("broken.csv"), scratch("broken.svg"));
    let broken = indefinite();
    let (status, error) = failure(&[&broken, "--device", "cpu", "--method", "cg", "--x-out", &x, "--history", &csv]);
    assert_eq!(status, 1, "{error}");
    let message = error.lines().last().unwrap();
    assert!(message.starts_with("error: iteration ") && message.contains("not positive definite"), "{error}");
    let iteration: usize = message["error: iteration ".len()..].split(':').next().unwrap().parse().unwrap();
    let table = table(&csv);
    assert_eq!((table.len(), table[0]), (iteration, (0, 2.0)), "the norms before the iteration that failed");
    assert_eq!(vector(&x).len(), 4);
    assert_eq!(failure(&[&broken, "--device", "cpu", "--method", "cg", "--history", &svg]).0, 1);
    assert!(fs::read_to_string(&svg).unwrap().ends_with("</svg>"));
}

#[test]
fn what_does_not_fit_is_a_failure_that_names_the_file() {
    let oblong = "gen:uniform:9:2:8";
    let (status, error) = failure(&[oblong, "--device", "cpu", "--method", "cg"]);
    assert!(status == 1 && error.contains("gen:uniform:9:2:8: 9 x 8, and"), "{status}: {error}");

    let b = scratch("short.mtx");
    for (content, size) in
        [("3 1\n1\n2\n3\n", "3 x 1"), ("1 4\n1\n2\n3\n4\n", "1 x 4"), ("4 2\n1\n1\n1\n1\n1\n1\n1\n1\n", "4 x 2")]
    {
        fs::write(&b, format!("%%MatrixMarket matrix array real general\n{content}")).unwrap();
        let (status, error) = failure(&["gen:poisson2d:2", "--device", "cpu", "--rhs", &b]);
        let expected = format!("short.mtx: {size}, and the right-hand side is 4 x 1");
        assert!(status == 1 && error.contains(&expected), "{status}: {error}");
    }
    fs::write(&b, "%%MatrixMarket matrix array real general\n4 1\n1\nnothing\n").unwrap();
    let (status, error) = failure(&["gen:poisson2d:2", "--device", "cpu", "--rhs", &b]);
    assert!(status == 1 && error.contains("short.mtx:4: "), "{status}: {error}");
    let (status, error) = failure(&["gen:poisson2d:2", "--device", "cpu", "--rhs", "no/such/b.mtx"]);
    assert!(status == 1 && error.contains("no/such/b.mtx"), "{status}: {error}");
    let (status, error) = failure(&["gen:poisson2d:2", "--device", "cpu", "--x-out", "no/such/x.mtx"]);
    assert!(status == 1 && error.contains("no/such/x.mtx: there is no folder no/such"), "{status}: {error}");

    let hollow = scratch("hollow.mtx");
    fs::write(&hollow, "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 1\n2 1 0.5\n").unwrap();
    let (status, error) = failure(&[&hollow, "--device", "cpu", "--precond", "jacobi"]);
    assert!(status == 1 && error.contains("Jacobi's preconditioner, row 1: "), "{status}: {error}");
}

#[test]
fn multigrid_of_meshes_graphs_and_jumps() {
    let laplacian = |name: &str| format!("gen:graphlap:{}", data(name));
    // At most so many iterations, and times the entries of the matrix. Measured: 13, 11, 23, 22 and 21.
    for (matrix, most, complexity) in [
        (laplacian("4elt.mtx.xz"), 16.0, 1.5),
        (laplacian("copter2.mtx.xz"), 16.0, 1.5),
        (laplacian("pubmed.mtx.xz"), 30.0, 2.0),
        ("gen:jump3d:20:1e6".into(), 30.0, 2.0),
        ("gen:aniso2d:100:0.001".into(), 30.0, 2.0),
    ] {
        let report = solve(&[&matrix, "--precond", "amg", "--tol", "1e-8"]);
        assert!(report["converged"] == true && number(&report, "relative_residual") < 1.1e-8, "{report}");
        assert!(number(&report, "iterations") <= most, "{matrix}: {}", report["iterations"]);
        assert!(number(&report["setup"], "operator_complexity") <= complexity, "{matrix}: {}", report["setup"]);
    }
    // What it does not suit: an error with the reason.
    for (matrix, reason) in [
        ("gen:convdiff2d:30:1000", "the matrix is not symmetric"),
        ("gen:helmholtz2d:40:20", "the matrix is not positive definite"),
        ("gen:stokes2d:12", "the matrix is not positive definite"),
    ] {
        let (status, error) = failure(&[matrix, "--device", "cpu", "--precond", "amg"]);
        assert!(status == 1 && error.contains(reason), "{matrix}: {status}: {error}");
    }
}

#[test]
fn multigrid_for_nodes_with_several_unknowns() {
    let body = "gen:elasticity3d:8";
    let with = |more: &[&str]| {
        let report = solve(&[&[body, "--tol", "1e-8"], more].concat());
        assert!(report["converged"] == true && report["preconditioner"] == "amg", "{report}");
        let notes = report["setup"]["notes"].as_array().unwrap();
        let nodes = notes.iter().find_map(|note| note.as_str().unwrap().strip_prefix("Nodes of "));
        (number(&report, "iterations"), nodes.unwrap_or("").split(" near").next().unwrap().to_owned())
    };
    // The generator's motions of a rigid body, the same from a file, constants, and the one constant vector.
    let motions = with(&["--precond", "amg"]);
    assert!(motions.0 <= 26.0 && motions.1 == "3 unknowns, and 6 vectors", "{motions:?}");
    let file = scratch("motions.mtx");
    let nodes = (0..512).map(|node| [node % 8, node / 8 % 8, node / 64].map(|at| f64::from(at) - 3.5));
    let rows: Vec<[f64; 6]> = nodes
        .flat_map(|[x, y, z]| [[1.0, 0.0, 0.0, -y, 0.0, z], [0.0, 1.0, 0.0, x, -z, 0.0], [0.0, 0.0, 1.0, 0.0, y, -x]])
        .collect();
    let write = |columns: usize| {
        let elements = (0..columns).flat_map(|column| rows.iter().map(move |row| format!("{:?}\n", row[column % 6])));
        let text: String = elements.collect();
        fs::write(&file, format!("%%MatrixMarket matrix array real general\n1536 {columns}\n{text}")).unwrap();
    };
    write(6);
    // Given vectors are used without being asked twice.
    assert_eq!(with(&["--near-null", &file, "--unknowns", "3"]), motions);
    let constants = with(&["--unknowns", "3"]);
    assert!(constants.0 > 1.3 * motions.0 && constants.1 == "3 unknowns, and 3 vectors", "{constants:?}");
    assert_eq!(with(&["--unknowns", "1"]).1, "1 unknowns, and 1 vectors");

    let refused = |matrix: &str, more: &[&str], expected: &str| {
        let (status, error) = failure(&[&[matrix, "--device", "cpu"], more].concat());
        assert!(status == 1 && error.contains(expected), "{more:?}: {status}: {error}");
    };
    refused("gen:poisson2d:9", &["--near-null", &file], "1536 x 6, and vectors near the null space are 81 x 1 to 6");
    refused("gen:poisson2d:9", &["--unknowns", "2"], "--unknowns 2: the matrix has 81 rows, which is no multiple");
    for [option, value] in [["--unknowns", "3"], ["--near-null", &file], ["--precond-dtype", "f32"]] {
        refused(body, &["--precond", "jacobi", option, value], "are for multigrid: --precond auto or amg");
    }
    refused(body, &["--dtype", "f32", "--precond-dtype", "f64"], "with --dtype f32 multigrid is in f32 too");
    refused(body, &["--near-null", "no/such/file.mtx"], "no/such/file.mtx");
    write(7);
    refused(body, &["--near-null", &file], "1536 x 7, and vectors near the null space are 1536 x 1 to 6");
    fs::write(&file, "%%MatrixMarket matrix coordinate real general\n1536 1 1\n7 1 inf\n").unwrap();
    refused(body, &["--near-null", &file], "inf in row 6");
}

#[test]
fn singular_systems_are_solved_or_refused_with_the_reason() {
    // A path of 500 points that nothing holds.
    let (neumann, b) = (scratch("neumann.mtx"), scratch("neumann_b.mtx"));
    let entries = (1..=500).map(|i| {
        let diagonal = if i == 1 || i == 500 { 1 } else { 2 };
        format!("{i} {i} {diagonal}\n{}", if i > 1 { format!("{i} {} -1\n", i - 1) } else { String::new() })
    });
    let header = "%%MatrixMarket matrix coordinate real symmetric";
    fs::write(&neumann, format!("{header}\n500 500 999\n{}", entries.collect::<String>())).unwrap();
    fs::write(&b, "%%MatrixMarket matrix coordinate real general\n500 1 2\n1 1 1\n500 1 -1\n").unwrap();
    for precond in ["amg", "auto"] {
        let report = solve(&[&neumann, "--rhs", &b, "--precond", precond, "--tol", "1e-8"]);
        assert!(report["converged"] == true && number(&report, "relative_residual") < 1.1e-8, "{report}");
        if precond == "amg" {
            let notes = report["setup"]["notes"].to_string();
            assert!(notes.contains("the matrix is singular, to rounding") && number(&report, "iterations") <= 20.0);
        }
        let (status, error) = failure(&[&neumann, "--device", "cpu", "--precond", precond, "--dtype", "f32"]);
        assert!(status == 3 && error.contains("adds up to 0, as in a problem with Neumann's boundary"), "{error}");
        assert!(error.contains("b adds up to 500: no x has a relative residual below 1.00e0"), "{error}");
    }
    // The same with one point held.
    let text = fs::read_to_string(&neumann).unwrap().replacen("1 1 1\n", "1 1 1.001\n", 1);
    fs::write(&neumann, text).unwrap();
    assert!(solve(&[&neumann, "--precond", "amg"])["converged"] == true);
    // A row of zeros.
    fs::write(&neumann, format!("{header}\n3 3 3\n1 1 2\n2 2 0\n3 3 4\n")).unwrap();
    let (status, error) = failure(&[&neumann, "--device", "cpu"]);
    let expected = "row 1 of the matrix is zero, and b is 1 there: no x has a relative residual below 5.77e-1";
    assert!(status == 3 && error.contains(expected), "{status}: {error}");
    let report = solve(&[&neumann, "--rhs", "sums", "--precond", "amg"]);
    assert!(report["converged"] == true && report["setup"]["notes"].to_string().contains("Rows of zeros: 1."));
}

#[test]
fn wrong_usage_and_missing_devices_have_their_own_status() {
    let grid = "gen:poisson2d:4";
    let cases: [(&[&str], &str); 18] = [
        (&[], "MATRIX"),
        (&[grid, "--dimensions", "0"], "a whole number from 1 to 64"),
        (&[grid, "--damping", "-1"], "a damping is a number from 0 on"),
        (&[grid, "--unknowns", "0"], "1..=6"),
        (&[grid, "--precond-dtype", "f16"], "f32, f64"),
        (&[grid, "--near-null", "motions.mtx", "--devices", "cpu:2"], "cannot be used with"),
        (&[grid, "--history", "h.png"], "ends in .csv or .svg"),
        (&[grid, "--x-out", "x.txt"], "ends in .mtx or .mtx.gz"),
        (&[grid, "--tol", "-1"], "a tolerance is a number from 0 on"),
        (&[grid, "--tol", "nan"], "a tolerance is a number from 0 on"),
        (&[grid, "--precond", "spai"], "auto, none, jacobi, block-jacobi, ilu, chebyshev, fsai, amg"),
        (&[grid, "--method", "fast"], "auto, cg, minres, bicgstab, bicgstabl, idr, gmres, fgmres, lsmr"),
        (&[grid, "--launch", "fast"], "auto, launches, graph, persistent, single-reduction"),
        (&[grid, "--restart", "0"], "at least 1"),
        (&[grid, "--precond", "chebyshev", "--degree", "65"], "1..=64"),
        (&[grid, "--precond", "block-jacobi", "--block-size", "33"], "1..=32"),
        (&[grid, "--precond", "ilu", "--sweeps", "0"], "1..=64"),
        (&[grid, "--device", "tpu"], "`tpu`"),
    ];
    for (arguments, expected) in cases {
        let (status, error) = failure(arguments);
        assert!(status == 2 && error.contains(expected), "{arguments:?}: {status}: {error}");
    }
    let (status, error) = failure(&[grid, "--device", "cuda:77"]);
    assert!(status == 4 && error.contains("CUDA device 77"), "{status}: {error}");
}

#[test]
fn the_emulated_device_solves_by_every_launch() {
    for launch in ["auto", "launches", "graph", "persistent", "single-reduction"] {
        let arguments = ["solve", "gen:poisson2d:4", "--device", "emulated", "--launch", launch, "--json"];
        let report: Value = serde_json::from_str(&stdout(&arguments)).unwrap();
        assert!(report["converged"] == true && report["threads"].is_null() && report["launch"] == launch, "{report}");
        assert!(report["kernel"].as_str().unwrap().starts_with("cg_"), "{report}");
    }
}

/// The methods that a report says were tried.
fn tried(report: &Value) -> Vec<&str> {
    report["tried"].as_array().unwrap().iter().map(|tried| tried["method"].as_str().unwrap()).collect()
}

#[test]
fn every_method_solves_what_it_is_for() {
    let cases = [
        ("gen:poisson2d:9", "cg", "conjugate gradients"),
        ("gen:helmholtz2d:9:8", "minres", "MINRES"),
        ("gen:convdiff2d:9:3", "bicgstab", "BiCGSTAB"),
        ("gen:convdiff2d:9:3", "bicgstabl", "BiCGSTAB(2)"),
        ("gen:convdiff2d:9:3", "idr", "IDR(4)"),
        ("gen:poisson2d:5", "lsmr", "LSMR"),
        ("gen:convdiff3d:5:3", "gmres", "GMRES(7)"),
        ("gen:convdiff2d:9:3", "fgmres", "flexible GMRES(7)"),
    ];
    for (source, method, name) in cases {
        let x = scratch(&format!("by-{method}.mtx"));
        let report = solve(&[source, "--method", method, "--restart", "7", "--tol", "1e-9", "--x-out", &x]);
        assert!(report["converged"] == true && report["method"] == method, "{report}");
        assert_eq!((tried(&report), &report["tried"][0]["reason"]), (vec![name], &"as the options specify".into()));
        let a = matrix(source);
        assert!(relative_residual(&a, &vec![1.0; a.nrows()], &vector(&x)) <= 1.1e-9, "{method}");
        assert_eq!(history(&report).len() as f64, number(&report, "iterations") + 1.0);
    }
}

#[test]
fn systems_that_are_not_positive_definite_are_solved() {
    // A file that is not symmetric.
    let path = scratch("not_symmetric.mtx");
    fs::write(&path, "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 1 2\n2 2 3\n3 3 4\n1 2 1\n3 1 -1\n")
        .unwrap();
    let x = scratch("not_symmetric_x.mtx");
    let report = solve(&[&path, "--tol", "1e-10", "--x-out", &x]);
    assert_eq!((tried(&report), &report["preconditioner"]), (vec!["BiCGSTAB"], &"ilu".into()));
    assert_eq!(report["tried"][0]["reason"], "the matrix is not symmetric");
    let expected = [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0];
    assert!(vector(&x).iter().zip(expected).all(|(x, expected)| (x - expected).abs() < 1e-9));

    let report =
        solve(&["gen:convdiff2d:20:1000", "--precond", "ilu", "--method", "gmres", "--rhs", "sums", "--x-out", &x]);
    assert!(report["preconditioner"] == "ilu" && number(&report, "iterations") <= 30.0, "{report}");
    assert!(vector(&x).iter().all(|x| (x - 1.0).abs() < 1e-4));

    let plain = solve(&["gen:poisson2d:40", "--precond", "none", "--rhs", "random"]);
    let report =
        solve(&["gen:poisson2d:40", "--precond", "chebyshev", "--degree", "6", "--rhs", "random", "--x-out", &x]);
    assert!(report["preconditioner"] == "chebyshev", "{report}");
    assert!(report["preconditioner_reason"].as_str().unwrap().contains("degree 6, for eigenvalues from "), "{report}");
    assert!(3.0 * number(&report, "iterations") < number(&plain, "iterations"), "{report}");

    let report = solve(&["gen:poisson2d:40", "--precond", "fsai", "--power", "2", "--rhs", "random"]);
    assert!(report["preconditioner"] == "fsai", "{report}");
    assert!(report["preconditioner_reason"].as_str().unwrap().contains("the pattern of A^2, "), "{report}");
    assert!(1.5 * number(&report, "iterations") < number(&plain, "iterations"), "{report}");

    let report = solve(&["gen:fem3:100", "--precond", "block-jacobi", "--rhs", "random"]);
    assert!(report["preconditioner"] == "block-jacobi", "{report}");
    let reason = report["preconditioner_reason"].as_str().unwrap();
    assert!(reason.contains("blocks of up to 8 rows from the pattern"), "{report}");
    let report = solve(&["gen:poisson2d:40", "--precond", "block-jacobi", "--block-size", "20", "--rhs", "random"]);
    assert!(report["preconditioner_reason"].as_str().unwrap().contains("80 blocks of 20 rows"), "{report}");
    assert!(number(&report, "iterations") < number(&plain, "iterations"), "{report}");

    for method in ["cg", "bicgstab"] {
        let ilu = ["gen:poisson2d:40", "--precond", "ilu", "--rhs", "random", "--method", method];
        let [exact, swept] = [solve(&ilu), solve(&[&ilu[..], &["--sweeps", "4"]].concat())];
        assert!(swept["preconditioner_reason"].as_str().unwrap().contains("by 4 sweeps"), "{swept}");
        assert!(number(&swept, "iterations") <= 1.5 * number(&exact, "iterations"), "{swept}");
    }

    // Conjugate gradients fail first, and the report and the history are those of the method after them.
    let csv = scratch("indefinite.csv");
    let report = solve(&[&indefinite(), "--history", &csv]);
    assert_eq!(tried(&report), ["conjugate gradients", "MINRES"]);
    let first = &report["tried"][0];
    assert!(first["outcome"].as_str().unwrap().contains("not positive definite"), "{report}");
    assert_eq!(report["tried"][1]["reason"], "conjugate gradients broke down");
    assert_eq!(table(&csv).len() as f64, number(&report, "iterations") + 1.0);

    // Zeros on the diagonal rule out Jacobi's preconditioner.
    let report = solve(&["gen:stokes2d:8", "--tol", "1e-8", "--method", "minres"]);
    assert!(report["preconditioner"] == "none" && report["converged"] == true, "{report}");
    assert!(report["preconditioner_reason"].as_str().unwrap().contains("row 112"), "{report}");

    let (status, text) = failure(&["gen:poisson2d:4", "--devices", "cpu:2", "--method", "gmres"]);
    assert!(status == 1 && text.contains("--method auto or cg"), "{status}: {text}");
}

#[test]
fn rectangular_systems_are_least_squares() {
    // The line c + d t through (0, 1), (1, 2), (2, 4): 5/6 + 3/2 t.
    let (path, b, x) = (scratch("line.mtx"), scratch("line_b.mtx"), scratch("line_x.mtx"));
    fs::write(&path, "%%MatrixMarket matrix coordinate real general\n3 2 5\n1 1 1\n2 1 1\n3 1 1\n2 2 1\n3 2 2\n")
        .unwrap();
    fs::write(&b, "%%MatrixMarket matrix array real general\n3 1\n1\n2\n4\n").unwrap();
    for method in ["auto", "lsmr"] {
        let report = solve(&[&path, "--rhs", &b, "--method", method, "--tol", "1e-10", "--x-out", &x]);
        assert_eq!((tried(&report), &report["preconditioner"]), (vec!["LSMR"], &"columns".into()));
        assert!(report["ended"] == "least_squares" && report["converged"] == true, "{report}");
        assert!((number(&report, "residual_norm") - (1.0 / 6f64).sqrt()).abs() < 1e-10, "{report}");
        assert!(vector(&x).iter().zip([5.0 / 6.0, 1.5]).all(|(x, expected)| (x - expected).abs() < 1e-8));
    }
    // (A'A + I) x = A'b.
    solve(&[&path, "--rhs", &b, "--precond", "none", "--damping", "1", "--tol", "1e-10", "--x-out", &x]);
    assert!(vector(&x).iter().zip([4.0 / 5.0, 19.0 / 15.0]).all(|(x, expected)| (x - expected).abs() < 1e-8));
    let text = stdout(&["solve", &path, "--rhs", &b, "--device", "cpu"]);
    assert!(text.contains("result     least squares, ") && text.contains("columns scaled to norm 1"), "{text}");

    let (status, text) = failure(&[&path, "--method", "gmres", "--device", "cpu"]);
    assert!(status == 1 && text.contains("3 x 2, and of the methods only lsmr"), "{status}: {text}");
    let (status, text) = failure(&[&path, "--precond", "ilu", "--device", "cpu"]);
    assert!(text.contains("a preconditioner of LSMR other than jacobi and none"), "{status}: {text}");
    let (status, text) = failure(&["gen:poisson2d:4", "--damping", "1", "--device", "cpu"]);
    assert!(text.contains("a damping for a method other than LSMR"), "{status}: {text}");
}

#[test]
fn several_devices_solve_one_system() {
    let source = "gen:poisson2d:20";
    let alone = solve(&[source, "--rhs", "random", "--tol", "1e-10"]);
    for devices in ["cpu:1", "cpu:3", "emulated:2"] {
        let file = scratch(&format!("several-{}.mtx", devices.replace(':', "-")));
        let arguments =
            ["solve", source, "--rhs", "random", "--tol", "1e-10", "--devices", devices, "--json", "--x-out", &file];
        let report: Value = serde_json::from_str(&stdout(&arguments)).unwrap();
        assert_eq!(report["ended"], "converged");
        assert!((number(&report, "iterations") - number(&alone, "iterations")).abs() <= 1.0, "{report}");
        assert!(number(&report, "relative_residual") <= 1.01e-10, "{report}");
        let ranks = devices.split_once(':').unwrap().1;
        assert!(report["kernel"].as_str().unwrap().starts_with(&format!("rank 0 of {ranks}: rows 0 to ")), "{report}");
        // The residual of what was written, against the right-hand side of a system that one device solves.
        let b = scratch("several-b.mtx");
        stdout(&["solve", source, "--device", "cpu", "--rhs", "random", "--tol", "1e-10", "--x-out", &b]);
        let (x, expected) = (vector(&file), vector(&b));
        assert!(x.iter().zip(&expected).all(|(x, expected)| (x - expected).abs() < 1e-7), "{devices}");
    }
    let multigrid = ["solve", "gen:poisson2d:30", "--tol", "1e-9", "--devices", "cpu:2", "--precond", "amg"];
    let report: Value = serde_json::from_str(&stdout(&[&multigrid[..], &["--json"]].concat())).unwrap();
    assert!(report["converged"] == true && report["preconditioner"] == "amg", "{report}");
    assert!(number(&report, "iterations") < 20.0 && report["setup"]["levels"][0]["rows"] == 900, "{report}");
    assert!(report["setup"]["notes"][0] == "Each of 2 ranks has all levels whole.", "{report}");
    let (status, text) = failure(&[source, "--devices", "cpu:2", "--precond", "ilu"]);
    assert!(status == 1 && text.contains("there are amg, jacobi and none"), "{status}: {text}");
    let (status, text) = failure(&[source, "--devices", "cpu:0"]);
    assert!(status == 2 && text.contains("no devices `cpu:0`"), "{status}: {text}");
    let (status, text) = failure(&[&indefinite(), "--devices", "cpu:2"]);
    assert!(status == 1 && text.contains("rank 0: iteration "), "{status}: {text}");
}

#[test]
fn several_processes_solve_one_system() {
    let arguments = ["gen:poisson2d:20", "--tol", "1e-10", "--json"];
    let of = |first: &[&str], last: &[&str]| -> Value {
        serde_json::from_str(&stdout(&[first, &arguments, last].concat())).unwrap()
    };
    let mut processes = of(&["launch", "-n", "3", "--", "solve"], &["--devices", "ranks:cpu"]);
    let mut threads = of(&["solve"], &["--devices", "cpu:3"]);
    // The same bits.
    for key in ["seconds", "seconds_per_iteration", "device", "threads", "reason"] {
        for report in [&mut processes, &mut threads] {
            report.as_object_mut().unwrap().remove(key).unwrap();
        }
    }
    assert_eq!(processes, threads);
    // A rank fails, and so do all; and what is no rank.
    let output = warpsparse(&["launch", "-n", "2", "--", "solve", &indefinite(), "--devices", "ranks:cpu"]);
    let text = String::from_utf8(output.stderr).unwrap();
    // The one that has ended first is named.
    let is_told =
        [0, 1].iter().any(|rank| text.contains(&format!("2 of 2 processes failed; rank {rank}: exit status: 1")));
    assert!(output.status.code() == Some(1) && is_told, "{text}");
    let (status, text) = failure(&["gen:poisson2d:4", "--devices", "ranks:cpu"]);
    assert!(status == 2 && text.contains("no launcher"), "{status}: {text}");
}

//! `warpsparse reorder` as a user runs it.

use std::{collections::HashSet, fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;
use warpsparse::{CsrMatrix, io::MatrixSource};

fn reorder(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().arg("reorder").args(arguments).output().unwrap()
}

/// Runs the command and returns what it printed.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    let output = reorder(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that the command fails so, with this text among what it says, and prints no result.
#[track_caller]
fn refused(arguments: &[&str], status: i32, text: &str) {
    let output = reorder(arguments);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(status) && problem.contains(text), "{:?}: {problem}", output.status);
    assert!(output.stdout.is_empty());
}

/// A path for a file that a test writes; no such file is there.
fn scratch(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

fn data(name: &str) -> String {
    format!("{}/../tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn load(source: &str) -> CsrMatrix<f64> {
    source.parse::<MatrixSource>().unwrap().load().unwrap()
}

fn read_order(path: &str) -> Vec<u32> {
    fs::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// The mean number of different columns in so many rows.
fn group_columns(matrix: &CsrMatrix<f64>, size: usize) -> f64 {
    let rows: Vec<&[u32]> = matrix.rows().map(|(columns, _)| columns).collect();
    let groups: Vec<usize> =
        rows.chunks(size).map(|rows| rows.iter().copied().flatten().collect::<HashSet<_>>().len()).collect();
    groups.iter().sum::<usize>() as f64 / groups.len() as f64
}

/// Asserts that the figures of a report are those of the matrix.
#[track_caller]
fn assert_figures(figures: &Value, matrix: &CsrMatrix<f64>) {
    let distances: Vec<usize> = matrix.triplets().map(|(i, j, _)| i.abs_diff(j)).collect();
    assert_eq!(figures["bandwidth"], *distances.iter().max().unwrap());
    let mean = distances.iter().sum::<usize>() as f64 / distances.len() as f64;
    let expected = [mean, group_columns(matrix, 64), group_columns(matrix, 4096)];
    for (key, expected) in ["mean_distance", "columns_of_64_rows", "columns_of_4096_rows"].iter().zip(expected) {
        let found = figures[key].as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < 1e-12, "{key}: {found} is not {expected}");
    }
}

#[test]
fn rows_and_columns_are_permuted() {
    let (out, order) = (scratch("rcm.mtx.gz"), scratch("rcm.txt"));
    let matrix = data("dwt_992.mtx.xz");
    let text = done(&[&matrix, &out, "--method", "rcm", "--order-out", &order, "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.reorder".into(), &1.into()));
    assert_eq!((&report["source"], &report["out"]), (&matrix.as_str().into(), &out.as_str().into()));
    assert_eq!((&report["method"], &report["rows_only"]), (&"rcm".into(), &false.into()));
    assert_eq!(["rows", "columns", "entries"].map(|key| report[key].as_u64().unwrap()), [992, 992, 16744]);
    assert!(report["seconds"].as_f64().unwrap() > 0.0);

    let (matrix, order) = (load(&matrix), read_order(&order));
    assert_eq!(order, matrix.reverse_cuthill_mckee().unwrap());
    let permuted = load(&out);
    assert_eq!(permuted, matrix.permute(&order, &order).unwrap().canonical());
    assert_figures(&report["before"], &matrix);
    assert_figures(&report["after"], &permuted);
    assert!(report["after"]["bandwidth"].as_u64() < report["before"]["bandwidth"].as_u64());
}

#[test]
fn rows_are_permuted_alone() {
    for (matrix, arguments) in [(data("cora.mtx.gz"), &["--rows"][..]), ("gen:uniform:500:4:90".into(), &[])] {
        let (out, order) = (scratch("rows.mtx"), scratch("rows.txt"));
        let arguments = [&[&matrix, &out, "--order-out", &order, "--json"], arguments].concat();
        let report: Value = serde_json::from_str(&done(&arguments)).unwrap();
        assert_eq!((&report["method"], &report["rows_only"]), (&"cluster".into(), &true.into()));
        let (matrix, order) = (load(&matrix), read_order(&order));
        assert_eq!(order, matrix.cluster_rows());
        assert_ne!(order, (0..matrix.nrows() as u32).collect::<Vec<_>>());
        let columns: Vec<u32> = (0..matrix.ncols() as u32).collect();
        let permuted = load(&out);
        assert_eq!(permuted, matrix.permute(&order, &columns).unwrap());
        assert_figures(&report["before"], &matrix);
        assert_figures(&report["after"], &permuted);
    }
}

#[test]
fn the_report_is_a_table() {
    let text = done(&["gen:poisson2d:9", &scratch("table.mtx"), "--dtype", "f32", "--method", "rcm"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "matrix     gen:poisson2d:9: 81 x 81, 369 entries");
    assert!(lines[1].starts_with("order      reverse Cuthill-McKee, rows and columns, found in "), "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[4]), ["before", "after"]);
    assert_eq!(words(lines[5]), ["bandwidth", "9", "9"]);
    // Of 369 entries, 144 lie beside the diagonal and 144 nine from it.
    assert_eq!(words(lines[6])[..5], ["mean", "distance", "from", "the", "diagonal"]);
    assert_eq!(words(lines[6])[5], "3.9");
    // The first 64 rows have the columns 0 to 72, the others 55 to 80.
    assert_eq!(words(lines[7])[..6], ["different", "columns", "of", "64", "rows", "49.5"]);
    assert_eq!(words(lines[8])[3..], ["4096", "rows", "81.0", "81.0"]);

    let empty = done(&["gen:poisson2d:0", &scratch("nothing.mtx")]);
    assert!(empty.contains("gen:poisson2d:0: 0 x 0, 0 entries") && !empty.contains("NaN"), "{empty}");
}

#[test]
fn pictures_are_drawn_before_and_after() {
    let (before, after) = (scratch("before.svg"), scratch("after.png"));
    done(&["gen:rmat:8:4", &scratch("drawn.mtx"), "--spy", &before, &after]);
    assert!(fs::read_to_string(before).unwrap().contains(">gen:rmat:8:4</text>"));
    assert!(fs::read(after).unwrap().starts_with(b"\x89PNG"));
    let after = scratch("after.svg");
    done(&["gen:rmat:8:4", &scratch("drawn.mtx"), "--spy", &scratch("before.svg"), &after]);
    assert!(fs::read_to_string(after).unwrap().contains(">gen:rmat:8:4, reordered</text>"));
}

#[test]
fn what_cannot_be_done_is_said() {
    let out = scratch("refused.mtx");
    let not_square = "reverse Cuthill-McKee orders square matrices, and this one is 20 x 5";
    refused(&["gen:uniform:20:3:5", &out, "--method", "rcm"], 2, not_square);
    refused(&["no/such/file.mtx", &out], 1, "no/such/file.mtx: ");
    refused(&["gen:poisson2d:3", "a.txt"], 2, "the file's name ends in .mtx or .mtx.gz");
    refused(&["gen:poisson2d:3", &out, "--method", "metis"], 2, "--method");
    refused(&["gen:poisson2d:3", &out, "--spy", "a.jpg", "b.png"], 2, "the picture's name ends in .png or .svg");
    refused(&["gen:poisson2d:3", &out, "--spy", "a.png"], 2, "--spy");
    let twice = "refused.mtx is named for two outputs";
    refused(&["gen:poisson2d:3", &out, "--order-out", &out, "--force"], 2, twice);
    let present = scratch("present.txt");
    fs::write(&present, "before").unwrap();
    let there = "present.txt: the file is there already; --force overwrites it";
    refused(&["gen:poisson2d:3", &out, "--order-out", &present], 1, there);
    assert!(!PathBuf::from(&out).exists());
    assert_eq!(fs::read_to_string(&present).unwrap(), "before");
    done(&["gen:poisson2d:3", &out, "--order-out", &present, "--force"]);
    refused(&["gen:poisson2d:3", &out], 1, "refused.mtx: the file is there already; --force overwrites it");
    assert_eq!(read_order(&present).len(), 9);
    refused(&["gen:poisson2d:3", &scratch("b.mtx"), "--order-out", "no/such/a.txt"], 1, "error: no/such/a.txt: ");
}

//! `warpsparse-bench spgemm` as a user runs it.

mod common;

use common::{bench, number, rows, run};

#[test]
fn squares_are_measured() {
    let (text, report) = bench(&["spgemm", "gen:poisson2d:9"], &["--device", "cpu", "--dtype", "f32"], "spgemm.json");
    let result = &report["results"][0];
    // A 13-point stencil, cut off at the sides: 5 + 4 places along the axes, 4 on the diagonals.
    let entries = 81 + 4 * 9 * 8 + 4 * 9 * 7 + 4 * 8 * 8;
    assert_eq!((number(result, "entries"), number(result, "c_entries")), (5.0 * 81.0 - 36.0, f64::from(entries)));
    assert!(result["peak_bytes"].is_null());
    assert_eq!(rows(&text, "poisson2d:9")[0][1..4], ["f32", "369", &entries.to_string()]);
}

#[test]
fn galerkin_products_are_measured() {
    let arguments = ["--galerkin", "--device", "cpu", "--dtype", "f64"];
    let (text, report) = bench(&["spgemm", "gen:poisson3d:7"], &arguments, "galerkin.json");
    let result = &report["results"][0];
    // Boxes along a side of 7: 2, 3, 2. So 27 points, coupled along the axes.
    assert_eq!(number(result, "c_entries"), f64::from(27 + 3 * 2 * 2 * 9));
    assert_eq!(result["name"], "R A P, poisson3d:7");
    assert_eq!(rows(&text, "R A P, poisson3d:7").len(), 1);
}

#[test]
fn only_cubes_have_boxes() {
    let refused = run(&["spgemm", "gen:poisson2d:5", "--galerkin", "--device", "cpu"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("25 rows are no cube"));
}

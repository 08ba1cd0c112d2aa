//! `warpsparse-bench vector` as a user runs it.

mod common;

use common::{bench, close, median, number, rows, run, stdout, us};
use serde_json::Value;

/// The operations, and how many vectors' elements each moves.
const OPERATIONS: [(&str, usize); 16] = [
    ("axpy", 3),
    ("axpby", 3),
    ("scale", 2),
    ("assign", 2),
    ("zip-mul", 3),
    ("map-relu", 2),
    ("map-exp", 2),
    ("fill", 1),
    ("dot", 2),
    ("sum", 1),
    ("norm2", 1),
    ("max", 1),
    ("axpy-dot", 4),
    ("axpby-norm", 3),
    ("fill-uniform", 1),
    ("fill-normal", 1),
];

#[track_caller]
fn check_figures(report: &Value, lengths: &[usize]) {
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.vector".into(), &1.into()));
    assert_eq!((&report["skipped"], &report["method"]["baselines"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    let mut results = report["results"].as_array().unwrap().iter();
    let copy = number(&report["machine"], "copy_gb_per_s");
    for &n in lengths {
        for (dtype, element) in [("f32", 4), ("f64", 8)] {
            for (name, vectors) in OPERATIONS {
                let result = results.next().unwrap();
                let case = (&result["name"], &result["dtype"], &result["n"], &result["baselines"]);
                assert_eq!(case, (&name.into(), &dtype.into(), &n.into(), &Value::Array(vec![])));
                let chosen = &result["chosen"];
                let bytes = vectors * n * element;
                assert_eq!((&chosen["bytes"], &chosen["clock"]), (&bytes.into(), &"wall".into()));
                let gb_per_s = bytes as f64 / median(chosen) / 1e3;
                close(number(chosen, "gb_per_s"), gb_per_s);
                close(number(chosen, "percent_of_copy"), 100.0 * gb_per_s / copy);
                assert!((0.0..=1.0).contains(&number(chosen, "error_over_bound")), "{result}");
            }
        }
    }
    assert!(results.next().is_none());
}

#[test]
fn operations_are_measured_and_right() {
    // The longest is checked in part: 64 stretches of 16384 elements.
    let (text, report) = bench(&["vector"], &["-n", "1000,1", "-n", "1100000", "--device", "cpu"], "vector.json");
    check_figures(&report, &[1000, 1, 1_100_000]);
    for (place, (name, _)) in OPERATIONS.iter().enumerate() {
        // The table for f32, then that for f64, each with all lengths.
        let lines = rows(&text, name);
        assert_eq!(lines.iter().map(|cells| cells[1]).collect::<Vec<_>>(), ["1000", "1", "1100000"].repeat(2));
        assert_eq!(lines[0][2], us(median(&report["results"][place]["chosen"])));
    }
}

#[test]
fn the_emulator_has_the_same_results() {
    let (_, report) = bench(&["vector"], &["-n", "300", "--device", "emulated"], "vector_emulated.json");
    check_figures(&report, &[300]);
}

#[test]
fn reports_are_compared_and_drawn() {
    let arguments = ["-n", "2000", "--operation", "dot,axpy", "--dtype", "f64", "--device", "cpu"];
    let (_, report) = bench(&["vector"], &arguments, "vector_compared.json");
    let names: Vec<_> = report["results"].as_array().unwrap().iter().map(|result| &result["name"]).collect();
    assert_eq!(names, ["dot", "axpy"]);
    let path =
        |name: &str| std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned();
    let (json, page) = (path("vector_compared.json"), path("vector.html"));
    let lines = stdout(&["compare", &json, &json]);
    let of_vectors: Vec<_> = rows(&lines, "Vectors").into_iter().map(|cells| (cells[1], cells[5])).collect();
    assert_eq!(of_vectors, [("dot, n = 2000 f64", "1.000"), ("axpy, n = 2000 f64", "1.000")]);
    stdout(&["page", &json, "--html", &page]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Operations on vectors") && page.contains("axpy, n = 2000"), "{page}");
}

#[test]
fn what_is_left_out_has_a_reason() {
    let arguments = ["-n", "8,9", "--operation", "fill", "--device", "cpu", "--against", "cublas,sprs"];
    let (text, report) = bench(&["vector"], &arguments, "vector_skipped.json");
    assert!(text.contains("skipped cuBLAS: cuBLAS runs on GPUs"), "{text}");
    assert!(text.contains("skipped sprs: sprs does not compute this product"), "{text}");
    assert_eq!(report["results"].as_array().unwrap().len(), 4);
    let late = stdout(&["vector", "-n", "8", "--device", "cpu", "--budget", "1e-9"]);
    assert!(late.contains("skipped n = 8 f32: its turn came after 0 s"), "{late}");
}

#[test]
fn wrong_usage_is_told() {
    for (arguments, reason) in [
        (["-n", "0"], "1..=2147483647"),
        (["-n", "2147483648"], "1..=2147483647"),
        (["--operation", "saxpy"], "axpby-norm"),
        (["--limit", "0"], "seconds over 0"),
    ] {
        let output = run(&[&["vector"], &arguments[..]].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && message.contains(reason), "{arguments:?}: {message}");
    }
}

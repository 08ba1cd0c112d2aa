//! `warpsparse spmv` and `spmm` over several devices, as a user runs them.

mod common;

use common::{close, median, number, stdout, warpsparse};
use serde_json::Value;

#[track_caller]
fn report(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[arguments, &["--json", "--repeat", "3"]].concat())).unwrap()
}

fn is_of_ranks(report: &Value, ranks: usize) -> bool {
    let text = |key: &str| report[key].as_str().unwrap().to_owned();
    text("kernel").starts_with(&format!("rank 0 of {ranks}: rows 0 to "))
        && ["data is exchanged through host memory: ", "data is exchanged by peer memory"]
            .iter()
            .any(|way| text("reason").contains(way))
        && report["clock"] == "wall"
}

#[test]
fn vectors_are_multiplied_and_checked() {
    for (devices, ranks) in [("cpu:1", 1), ("cpu:3", 3), ("emulated:2", 2)] {
        // A matrix whose blocks have halos of nearly everything.
        let report = report(&["spmv", "gen:rmat:7:5", "--dtype", "f64", "--devices", devices]);
        let product = &report["products"][0];
        assert!(is_of_ranks(product, ranks), "{report}");
        let is_by_peers = product["reason"].as_str().unwrap().contains("peer memory");
        assert_eq!(is_by_peers, devices == "emulated:2", "{report}");
        assert!(number(product, "relative_error") < 1e-14 && number(product, "error_over_bound") <= 1.0, "{report}");
        // Entries of 8 + 4 bytes, 129 offsets, two vectors of 128.
        let bytes = number(&report["matrix"], "entries") * 12.0 + 129.0 * 4.0 + 2.0 * 128.0 * 8.0;
        assert_eq!(number(product, "bytes"), bytes);
        close(number(product, "gb_per_s"), bytes / median(product) / 1e3);
        close(
            number(product, "percent_of_copy"),
            100.0 * number(product, "gb_per_s") / number(&report, "copy_gb_per_s"),
        );
    }
    let lanes = report(&["spmv", "gen:poisson2d:9", "--devices", "emulated:2", "--lanes", "all"]);
    let kernels: Vec<_> =
        lanes["products"].as_array().unwrap().iter().map(|it| it["kernel"].as_str().unwrap()).collect();
    assert!(kernels.len() == 6 && kernels[2].contains("_t4") && kernels[5].contains("_t32"), "{kernels:?}");
    let text = stdout(&["spmv", "gen:poisson2d:9", "--devices", "cpu:3", "--repeat", "2"]);
    assert!(text.contains("device     3 threads on cpu, cpu, cpu; the first: cpu"), "{text}");
}

#[test]
fn dense_matrices_are_multiplied_and_checked() {
    for (matrix, n) in [("gen:stencil27:6", "5"), ("gen:rmat:7:5", "1"), ("gen:poisson2d:1", "4")] {
        let report = report(&["spmm", matrix, "-n", n, "--dtype", "f64", "--devices", "cpu:3"]);
        assert!(is_of_ranks(&report, 3), "{report}");
        assert!(number(&report, "relative_error") < 1e-14 && number(&report, "error_over_bound") <= 1.0, "{report}");
        let terms = number(&report["matrix"], "entries") * n.parse::<f64>().unwrap();
        close(number(&report, "gflop_per_s"), 2.0 * terms / median(&report) / 1e3);
        assert_eq!((&report["checked_rows"], &report["repeats"]), (&report["matrix"]["rows"], &3.into()));
    }
}

#[test]
fn processes_report_once() {
    let launch = ["launch", "-n", "3", "--"];
    let product = report(&[&launch[..], &["spmv", "gen:poisson2d:20", "--devices", "ranks:cpu"]].concat());
    assert!(is_of_ranks(&product["products"][0], 3), "{product}");
    assert!(product["device"].as_str().unwrap().starts_with("3 processes; the first: cpu"), "{product}");
    let product = report(&[&launch[..], &["spmm", "gen:poisson2d:20", "-n", "3", "--devices", "ranks:cpu"]].concat());
    assert!(is_of_ranks(&product, 3) && number(&product, "error_over_bound") <= 1.0, "{product}");
}

#[test]
fn wrong_usage_is_told() {
    let refusal = |arguments: &[&str]| {
        let output = warpsparse(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let (spmv, spmm) = (["spmv", "gen:poisson2d:9", "--devices"], ["spmm", "gen:poisson2d:9", "-n", "4", "--devices"]);
    assert!(refusal(&[&spmv[..], &["cpu:0"]].concat()).contains("no devices `cpu:0`"));
    assert!(refusal(&[&spmv[..], &["cpu:2", "--device", "cpu"]].concat()).contains("--device <DEVICE>"));
    assert!(refusal(&[&spmm[..], &["ranks:cpu"]].concat()).contains("no launcher"));
    for option in [&["--reduce", "max"][..], &["--tile", "1x1"], &["--split-threshold", "9"], &["--autotune"]] {
        assert!(refusal(&[&spmm[..], &["cpu:2"], option].concat()).contains(option[0]));
    }
}

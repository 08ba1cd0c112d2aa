//! `warpsparse spmm` as a user runs it.

mod common;

use common::{close, median, number, stdout, warpsparse};
use serde_json::Value;

#[track_caller]
fn spmm(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[&["spmm", "--json"], arguments].concat())).unwrap()
}

const CORA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/cora.mtx.gz");

#[test]
fn reports_on_a_file() {
    let text = stdout(&["spmm", CORA, "-n", "6", "--device", "cpu", "--repeat", "3"]);
    let parts = ["2708 x 2708, ", "dense      2708 x 6, row-major", "kernel     cpu_spmm_csr", "median of 3", "GB/s"];
    for part in [&parts[..], &["GFLOP/s", "relative to the product in f64\n"]].concat() {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn json_has_the_figures() {
    let report = spmm(&["gen:stencil27:10", "-n", "3", "--device", "cpu", "--dtype", "f64", "--repeat", "4"]);
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.spmm".into(), &2.into()));
    assert_eq!((&report["n"], &report["repeats"], &report["checked_rows"]), (&3.into(), &4.into(), &1000.into()));
    // 21952 entries of 8 + 4 bytes, 1001 offsets of 4, two matrices of 1000 x 3 elements of 8.
    assert_eq!(report["bytes"], 21952 * 12 + 1001 * 4 + 2 * 1000 * 3 * 8);
    close(number(&report, "gb_per_s"), number(&report, "bytes") / median(&report) / 1e3);
    close(number(&report, "gflop_per_s"), 2.0 * 21952.0 * 3.0 / median(&report) / 1e3);
    assert!(number(&report, "relative_error") < 1e-14 && number(&report, "error_over_bound") <= 1.0);
}

#[test]
fn kernels_can_be_forced_and_autotuned() {
    let emulated = ["gen:rmat:8:8", "--device", "emulated", "--repeat", "1", "-n"];
    let kernel = |arguments: &[&str]| {
        let report = spmm(&[&emulated, arguments].concat());
        assert!(number(&report, "relative_error") < 1e-6, "{report}");
        let text = |key: &str| report[key].as_str().unwrap().to_owned();
        (text("kernel"), text("reason"))
    };
    let (forced, reason) = kernel(&["16", "--tile", "8x1", "--split-threshold", "20"]);
    assert_eq!(forced, "spmm_csr_f32_v4_t8_c1");
    assert!(reason.contains("rows of more than 20 entries, up to 91"), "{reason}");
    let (forced, _) = kernel(&["6", "--tile", "4x1", "--dtype", "f64"]);
    assert_eq!(forced, "spmm_csr_f64_v2_t4_c1");
    // One column is a dense matrix too, not a vector.
    assert_eq!(kernel(&["1"]).0, "spmm_csr_f32_v1_t1_c1");
    let (_, reason) = kernel(&["4", "--autotune", "--tile", "1x1"]);
    assert!(reason.starts_with("the fastest of ") && reason.contains("4 columns: 1 lane per row"), "{reason}");
}

#[test]
fn reductions_are_measured_and_checked() {
    for (device, kernel, odd) in [("cpu", "cpu_spmm_csr", true), ("emulated", "spmm_csr_reduce", false)] {
        for (reduce, unweighted) in [("sum", odd), ("mean", !odd), ("max", odd), ("min", !odd)] {
            let mut arguments = vec!["gen:rmat:7:5", "-n", "6", "--device", device, "--repeat", "2"];
            arguments.extend(["--reduce", reduce]);
            arguments.extend(unweighted.then_some("--unweighted"));
            let report = spmm(&arguments);
            assert_eq!((&report["reduce"], &report["unweighted"]), (&reduce.into(), &unweighted.into()));
            assert_eq!((&report["kernel"], &report["checked_rows"]), (&kernel.into(), &128.into()));
            // Columns, and values where they count, 129 offsets, and two matrices of 128 x 6.
            let (entries, ones) = (number(&report["matrix"], "entries"), f64::from(u8::from(unweighted)));
            let bytes = entries * (8.0 - 4.0 * ones) + 129.0 * 4.0 + 2.0 * 128.0 * 6.0 * 4.0;
            assert_eq!(number(&report, "bytes"), bytes);
            close(number(&report, "gflop_per_s"), (2.0 - ones) * entries * 6.0 / median(&report) / 1e3);
            let error = number(&report, "relative_error");
            let is_extremum = ["max", "min"].contains(&reduce);
            assert!(error < 1e-6 && (error == 0.0) == is_extremum, "{reduce} on {device}: {error}");
            assert!(number(&report, "error_over_bound") <= 1.0);
        }
    }
    let text =
        stdout(&["spmm", CORA, "-n", "3", "--device", "cpu", "--repeat", "1", "--reduce", "max", "--unweighted"]);
    assert!(text.contains("reduction  max of rows of it, without weights\n"), "{text}");
    assert!(text.contains("error      0.0e0 relative to the reduction by plain code\n"), "{text}");
    let empty = spmm(&["gen:uniform:10:0", "-n", "5", "--device", "cpu", "--repeat", "1", "--reduce", "min"]);
    assert_eq!(number(&empty, "relative_error"), 0.0);
}

#[test]
fn large_products_are_checked_in_part() {
    let arguments = ["gen:uniform:1000:500", "-n", "150", "--device", "cpu", "--repeat", "1"];
    let report = spmm(&arguments);
    // 1000 rows of 500 entries and 150 columns are beyond what is checked, by an eighth.
    assert!((700.0..950.0).contains(&number(&report, "checked_rows")), "{report}");
    assert!(number(&report, "relative_error") < 1e-6 && number(&report, "error_over_bound") > 0.0, "{report}");
    let known = format!("in {} of its rows, the longest among them", report["checked_rows"]);
    assert!(stdout(&[&["spmm"], &arguments[..]].concat()).contains(&known));
}

#[test]
fn matrices_without_entries_are_multiplied() {
    for device in ["cpu", "emulated"] {
        for (matrix, n) in [("gen:poisson2d:0", "4"), ("gen:poisson2d:1", "1"), ("gen:uniform:10:0", "5")] {
            let report = spmm(&[matrix, "-n", n, "--device", device, "--repeat", "2"]);
            let error = number(&report, "relative_error");
            assert!(error < 1e-6 && (error == 0.0 || matrix.ends_with('1')), "{matrix} on {device}");
        }
    }
}

#[test]
fn wrong_usage_is_told() {
    let refusal = |arguments: &[&str]| {
        let output = warpsparse(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["spmm", "gen:poisson2d:9"]).contains("-n <N>"));
    assert!(refusal(&["spmm", "gen:poisson2d:9", "-n", "0"]).contains("1..=65536"));
    assert!(refusal(&["spmm", "gen:poisson2d:9", "-n", "4", "--tile", "8"]).contains("lanes x vectors"));
    assert!(refusal(&["spmm", "gen:poisson2d:9", "-n", "4", "--unweighted"]).contains("--reduce"));
    assert!(refusal(&["spmm", "gen:poisson2d:9", "-n", "4", "--reduce", "max", "--autotune"]).contains("--autotune"));
    let emulated = ["spmm", "gen:poisson2d:9", "-n", "4", "--device", "emulated"];
    assert!(refusal(&[&emulated[..], &["--tile", "3x1"]].concat()).contains("there are 1 x 1"));
    assert!(refusal(&[&emulated[..], &["--split-threshold", "0"]].concat()).contains("1 to 2^30"));
}

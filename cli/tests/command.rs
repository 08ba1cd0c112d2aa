//! The command as a user runs it.

use std::{path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;

fn warpsparse(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().args(arguments).output().unwrap()
}

fn data(name: &str) -> String {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data"));
    root.join(name).to_str().unwrap().to_owned()
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&warpsparse(arguments))).unwrap()
}

#[test]
fn spmv_reports_on_a_file() {
    let text = stdout(&warpsparse(&["spmv", &data("bcsstk16.mtx.xz"), "--device", "cpu", "--repeat", "3"]));
    for part in ["4884 x 4884, 290378 entries", "mean 59.45", "kernel     cpu_csr", "median of 3", "GB/s", "error"] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn spmv_json_has_the_figures() {
    let report = json(&["spmv", "gen:stencil27:10", "--device", "cpu", "--dtype", "f64", "--repeat", "4", "--json"]);
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.spmv".into(), &3.into()));
    let matrix = &report["matrix"];
    let counts = ["rows", "columns", "entries", "min_row", "max_row"].map(|key| matrix[key].as_u64().unwrap());
    assert_eq!(counts, [1000, 1000, 21952, 8, 27]);
    assert_eq!(matrix["mean_row"], 21.952);
    // 21952 entries of 8 + 4 bytes, 1001 offsets of 4, two vectors of 1000 elements of 8.
    let product = &report["products"][0];
    assert_eq!(product["bytes"], 21952 * 12 + 1001 * 4 + 2 * 1000 * 8);
    assert!(product["relative_error"].as_f64().unwrap() < 1e-14);
    let times = ["min", "median", "max"].map(|key| product["time_us"][key].as_f64().unwrap());
    assert!(0.0 < times[0] && times[0] <= times[1] && times[1] <= times[2], "{times:?}");
    let gb_per_s = product["bytes"].as_f64().unwrap() / times[1] / 1e3;
    assert!((product["gb_per_s"].as_f64().unwrap() / gb_per_s - 1.0).abs() < 1e-9);
}

#[test]
fn all_lanes_make_a_table() {
    let text = stdout(&warpsparse(&["spmv", "gen:poisson2d:20", "--lanes", "all", "--repeat", "2"]));
    assert!(text.contains("% copy"), "{text}");
    assert_eq!(
        json(&["spmv", "gen:poisson2d:20", "--lanes", "all", "--json"])["products"].as_array().unwrap().len(),
        6
    );
}

#[test]
fn matrices_without_entries_are_multiplied() {
    for matrix in ["gen:poisson2d:0", "gen:poisson2d:1", "gen:uniform:10:0"] {
        let report = json(&["spmv", matrix, "--device", "cpu", "--json"]);
        assert_eq!(report["products"][0]["relative_error"], 0.0, "{matrix}");
    }
}

/// 400 rows, 1920 entries on 5 diagonals, at most 5 a row; in f64.
#[test]
fn spmv_counts_the_bytes_of_the_format() {
    let vectors = 2 * 400 * 8;
    let in_csr = 1920 * 12 + 401 * 4 + vectors;
    let in_coo = 1920 * 16 + vectors;
    let in_dia = 5 * (8 + 400 * 8) + vectors;
    // Of 10 blocks along a line of 20 points: themselves, 9 neighbours on either side, and those of the lines beside.
    let in_bsr = (20 * (10 + 18) + 2 * 19 * 10) * (4 + 4 * 8) + 201 * 4 + vectors;
    let cases = [
        ("csr", "cpu", "cpu_csr", in_csr),
        ("coo", "cpu", "cpu_coo", in_coo),
        ("dia", "cpu", "cpu_dia", in_dia),
        ("ell", "cpu", "cpu_ell", 5 * 400 * 12 + vectors),
        ("hyb", "cpu", "cpu_ell + cpu_coo", in_coo), // so few rows are all COO
        ("bsr", "cpu", "cpu_bsr", in_bsr),
        ("bsr", "emulated", "spmv_bsr_f64_b2", in_bsr),
        ("dia", "emulated", "spmv_dia_f64_r2", in_dia),
        ("auto", "emulated", "spmv_dia_f64_r2", in_dia),
    ];
    for (format, device, kernel, bytes) in cases {
        let arguments = ["spmv", "gen:poisson2d:20", "--device", device, "--format", format];
        let report = json(&[&arguments, ["--dtype", "f64", "--repeat", "3", "--json"].as_slice()].concat());
        let product = &report["products"][0];
        assert_eq!((&product["kernel"], &product["bytes"]), (&kernel.into(), &bytes.into()), "{format} on {device}");
        assert!(product["relative_error"].as_f64().unwrap() < 1e-14);
        let gb_per_s = f64::from(bytes) / product["time_us"]["median"].as_f64().unwrap() / 1e3;
        assert!((product["gb_per_s"].as_f64().unwrap() / gb_per_s - 1.0).abs() < 1e-9, "{format} on {device}");
    }
    let text = stdout(&warpsparse(&["spmv", "gen:poisson2d:20", "--device", "cpu", "--format", "dia"]));
    assert!(text.contains("kernel     cpu_dia") && text.contains("GB/s for 0.0 MB"), "{text}");
}

#[test]
fn info_names_the_choice_and_its_reason() {
    let text = stdout(&warpsparse(&["info"]));
    let report = json(&["info", "--json"]);
    let auto = report["auto_reason"].as_str().unwrap();
    assert!(text.contains(&format!("auto    {auto}")), "{text}");
    assert_eq!(report["devices"].as_array().unwrap().last().unwrap()["name"], "cpu");
    if report["auto"] == "cpu" {
        assert!(auto.contains("no GPU: "), "{auto}");
    }
}

#[test]
fn exit_status_tells_the_kind_of_failure() {
    let failure = |arguments: &[&str]| {
        let output = warpsparse(arguments);
        assert!(output.stdout.is_empty());
        (output.status.code().unwrap(), stderr(&output))
    };
    let (status, text) = failure(&["spmv", "no/such/file.mtx"]);
    assert!(status == 1 && text.contains("no/such/file.mtx"), "{status}: {text}");
    let (status, text) = failure(&["spmv", "gen:rmat:x:1"]);
    assert!(status == 2 && text.contains("SCALE"), "{status}: {text}");
    let (status, text) = failure(&["spmv", &data("cora.mtx.gz"), "--device", "cpu", "--format", "dia"]);
    assert!(status == 1 && text.starts_with("error: DIA would take at least "), "{status}: {text}");
    let (status, text) = failure(&["spmv", "gen:poisson2d:9", "--format", "csc"]);
    assert!(status == 2 && text.contains("auto, csr, coo, dia, ell, hyb"), "{status}: {text}");
    let (status, text) = failure(&["spmv", "gen:poisson2d:9", "--lanes", "3"]);
    assert!(status == 2 && text.contains("1, 2, 4, 8, 16 or 32"), "{status}: {text}");
    let (status, text) = failure(&["spmv", "gen:poisson2d:9", "--device", "tpu"]);
    assert!(status == 2 && text.contains("`tpu`"), "{status}: {text}");
    let (status, text) = failure(&["spmv", "gen:poisson2d:9", "--device", "cuda:77"]);
    assert!(status == 4 && text.contains("CUDA device 77"), "{status}: {text}");
    assert_eq!(failure(&["spmv"]).0, 2);
    assert_eq!(failure(&["spmv", "gen:poisson2d:9", "--repeat", "0"]).0, 2);
}

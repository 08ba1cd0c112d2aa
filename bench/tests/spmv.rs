//! `warpsparse-bench spmv`, `page` and `compare` as a user runs them.

mod common;

use std::{fs, path::PathBuf, process::Output};

use common::run;
use serde_json::Value;

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

/// A path for a file that a test writes.
fn scratch(name: &str) -> String {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned()
}

fn read_json(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn spmv_writes_a_report_and_a_page() {
    let (report, page) = (scratch("report.json"), scratch("report.html"));
    let matrix = ["gen:poisson2d:30", &data("cora.mtx.gz")].map(str::to_owned);
    let output = run(&[
        "spmv", &matrix[0], &matrix[1], "--device", "cpu", "--dtype", "f64", "--repeat", "30", "--json", &report,
        "--html", &page,
    ]);
    let text = stdout(&output);
    for part in ["poisson2d:30", "cora", "nalgebra-sparse", "sprs", "geometric mean of 2", "on one set of buffers"] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let report = read_json(&report);
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.spmv".into(), &2.into()));
    assert_eq!((&report["machine"]["device"], &report["method"]["repeats"]), (&"cpu".into(), &30.into()));
    assert!(report["machine"]["copy_gb_per_s"].as_f64().unwrap() > 0.0);
    assert_eq!(report["date"].as_str().unwrap().len(), "2026-01-01T00:00:00Z".len());
    assert_eq!(report["skipped"], Value::Array(Vec::new()));
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.iter().map(|result| &result["name"]).collect::<Vec<_>>(), ["poisson2d:30", "cora"]);
    for result in results {
        assert_eq!((&result["dtype"], &result["chosen"]["kernel"]), (&"f64".into(), &"cpu_csr".into()));
        assert!(result["analysis"]["products"].as_f64().unwrap() >= 0.0);
        let median = |of: &Value| of["time_us"]["median"].as_f64().unwrap();
        let baselines = result["baselines"].as_array().unwrap();
        assert_eq!(baselines.iter().map(|baseline| &baseline["name"]).collect::<Vec<_>>(), ["nalgebra-sparse", "sprs"]);
        for baseline in baselines {
            assert!(baseline["error_over_bound"].as_f64().unwrap() <= 1.0, "{baseline}");
            let ratio = median(baseline) / median(&result["chosen"]);
            assert!((baseline["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9);
        }
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("poisson2d:30") && page.contains("<svg"));
}

#[test]
fn spmv_tells_what_it_skips() {
    let output = run(&["spmv", "gen:poisson2d:30", "--device", "cpu", "--dtype", "f32", "--against", "cusparse,sprs"]);
    assert!(stdout(&output).contains("skipped cuSPARSE: cuSPARSE runs on GPUs"), "{}", stdout(&output));
    assert!(stderr(&output).contains("skipped cuSPARSE"), "{}", stderr(&output));
    // A matrix without entries, which has no bandwidth to speak of.
    let empty = run(&["spmv", "gen:poisson2d:0", "--device", "cpu"]);
    assert_eq!(empty.status.code(), Some(0), "{}", stderr(&empty));
}

#[test]
fn compare_finds_what_got_slower() {
    let (old, new) = (scratch("old.json"), scratch("new.json"));
    let arguments = ["spmv", "gen:stencil27:9", "--device", "cpu", "--against", "sprs", "--json", &old];
    stdout(&run(&arguments));
    assert!(stdout(&run(&["compare", &old, &old])).contains("1.000"));

    let mut report = read_json(&old);
    for (_, time) in report["results"][1]["chosen"]["time_us"].as_object_mut().unwrap() {
        *time = (10.0 * time.as_f64().unwrap()).into();
    }
    // Beyond any spread that a busy machine may have made.
    report["results"][1]["chosen"]["time_us"]["q1"] = 1e9.into();
    fs::write(&new, report.to_string()).unwrap();
    let slower = run(&["compare", &old, &new]);
    assert_eq!(slower.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&slower.stdout).contains("slower"));
    assert_eq!(stderr(&slower), "error: 1 of 2 figures got slower: SpMV stencil27:9 f64, automatic choice\n");

    let refusal = |text: &str| {
        fs::write(&new, text).unwrap();
        let output = run(&["compare", &old, &new]);
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    assert!(refusal("{").contains("new.json: no JSON"));
    assert!(refusal("{}").contains("new.json: no report of `warpsparse-bench`"));
    report["version"] = 1.into();
    assert!(refusal(&report.to_string()).contains("a report of version 1, where this reads 2: its times lie"));
    report["version"] = 2.into();
    report["results"][0]["chosen"] = "none".into();
    assert!(refusal(&report.to_string()).contains("new.json: invalid type"));
}

#[test]
fn exit_status_tells_the_kind_of_failure() {
    let failure = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.stdout.is_empty());
        (output.status.code().unwrap(), stderr(&output))
    };
    let (status, text) = failure(&["spmv", "no/such/file.mtx", "--device", "cpu"]);
    assert!(status == 1 && text.contains("no/such/file.mtx: there is no such file"), "{status}: {text}");
    let (status, text) = failure(&["spmv", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert!(status == 1 && text.contains("Cargo.toml:1: "), "{status}: {text}");
    let (status, text) = failure(&["compare", "no/such.json", "no/such.json"]);
    assert!(status == 1 && text.contains("no/such.json: "), "{status}: {text}");
    let (status, text) = failure(&["trsv", "gen:poisson2d:9", "--device", "cpu", "--html", "no/such/page.html"]);
    assert!(status == 1 && text.contains("--html: this benchmark has no page"), "{status}: {text}");
    assert_eq!(failure(&["spmv", "gen:poisson2d:9", "--repeat", "29"]).0, 2);
    let (status, text) = failure(&["spmv", "gen:poisson2d:9", "--device", "cuda:77"]);
    assert!(status == 4 && text.contains("CUDA device 77"), "{status}: {text}");
}

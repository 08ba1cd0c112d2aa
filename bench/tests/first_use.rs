//! `warpsparse-bench first-use`.

use assert_cmd::Command;
use serde_json::Value;

fn first_use(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("warpsparse-bench").unwrap().args(["first-use"]).args(arguments).assert()
}

#[test]
fn first_uses_are_timed_in_programs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("first.json");
    let done = first_use(&[
        "--device=cpu",
        "--repeat=2",
        "--operation=spmv,spmv-dia,spmm-max,gemm,cg-persistent",
        "--json",
        json.to_str().unwrap(),
    ])
    .success();
    let table = String::from_utf8(done.get_output().stdout.clone()).unwrap();
    assert!(table.contains("| spmv-dia ") && table.contains("spmv_dia"), "{table}");

    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["schema"], "warpsparse.bench.first-use");
    let results = report["results"].as_array().unwrap();
    let names: Vec<_> = results.iter().map(|result| result["operation"].as_str().unwrap()).collect();
    assert_eq!(names, ["spmv", "spmv-dia", "spmm-max", "gemm", "cg-persistent"]);
    for result in results {
        for start in ["cold", "warm"] {
            let least = |of: &str| result[start][of]["min"].as_f64().unwrap();
            // The whole is its parts, and what it takes to start a program.
            let parts = least("driver_us") + least("device_us") + least("operation_us");
            assert!(least("operation_us") > 0.0 && least("time_us") > parts, "{result}");
        }
        assert!(result["ptx"].is_null());
    }
}

#[test]
fn a_first_use_on_a_missing_device_is_an_error() {
    let failed = first_use(&["--device=cuda:99", "--operation=spmv"]).failure();
    let message = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    assert!(message.contains("cuda:99") || message.contains("CUDA device 99"), "{message}");
    first_use(&["--device=cpu", "--operation=nothing"]).code(2);
}

//! `warpsparse-bench cg` as a user runs it.

mod common;

use common::{bench, close, median, number, rows, run};
use serde_json::Value;

const VENDOR: [&str; 4] = ["sample style", "scalars on the device", "captured in a graph", "own dots"];
const OURS: [&str; 5] = ["fused, end in pinned memory", "fused, graph", "persistent", "one reduction", "automatic"];

fn rung<'a>(result: &'a Value, name: &str) -> &'a Value {
    result["rungs"].as_array().unwrap().iter().find(|rung| rung["rung"] == name).unwrap()
}

#[track_caller]
fn check_figures(rung: &Value, text: &str) {
    assert!(median(rung) >= 0.0 && number(rung, "solution_ms") > 0.0, "{rung}");
    assert!(number(rung, "iterations") >= 20.0 && number(rung, "repeats") >= 5.0, "{rung}");
    // No library to compare with.
    assert_eq!(rung["ratio"], Value::Null);
    let iterations = number(rung, "iterations").to_string();
    let lines = rows(text, rung["rung"].as_str().unwrap());
    assert!(lines.iter().any(|cells| cells[5] == iterations && cells[8] == rung["kernel"].as_str().unwrap()), "{text}");
    assert!((0.0..1.0).contains(&number(rung, "relative_residual")) && rung["clock"] == "wall", "{rung}");
}

#[test]
fn the_cpu_is_measured_and_the_rest_has_a_reason() {
    let (text, report) = bench(&["cg"], &["gen:poisson2d:16", "--device", "cpu"], "cg.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.cg".into(), &2.into()));
    assert_eq!((&report["skipped"], &report["method"]["baselines"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    let [f32, f64] = &report["results"].as_array().unwrap()[..] else { panic!("{report}") };
    for (result, dtype, tolerance) in [(f32, "f32", 1e-4), (f64, "f64", 1e-6)] {
        assert_eq!((&result["name"], &result["dtype"]), (&"poisson2d:16".into(), &dtype.into()));
        // 16 x 16 points, each with itself and its neighbours.
        assert_eq!(["rows", "entries"].map(|key| number(&result["matrix"], key)), [256.0, 1216.0]);
        let cpu = rung(result, "CPU");
        assert_eq!(cpu["kernel"], "cpu_cg");
        check_figures(cpu, &text);
        for name in VENDOR {
            let reason = rung(result, name)["skipped"].as_str().unwrap();
            assert!(reason.contains("runs on GPUs, and the products run on cpu"), "{reason}");
        }
        assert!(OURS.iter().all(|name| rung(result, name)["skipped"] == "it runs on GPUs"), "{result}");
        let solution = &result["to_tolerance"];
        close(number(solution, "tolerance"), tolerance);
        assert!(number(solution, "iterations") > 10.0 && number(solution, "iterations") < 256.0, "{solution}");
        assert!(number(solution, "relative_residual") <= 1.01 * tolerance, "{solution}");
        let expected = [&Value::Null, &Value::Null, &Value::Bool(false)];
        assert_eq!(["ended", "baseline_residual_norm", "differs"].map(|key| &solution[key]), expected);
    }
    assert!(
        text.contains(
            "- fused, end in pinned memory; fused, graph; persistent; one reduction; automatic: it runs on GPUs\n"
        ),
        "{text}"
    );
    assert_eq!(rows(&text, "sample style")[0][1..], ["–"; 8]);
}

#[test]
fn our_kernels_are_measured() {
    let arguments = ["gen:poisson2d:8", "--device", "emulated", "--dtype", "f64"];
    let (text, report) = bench(&["cg"], &arguments, "cg_emulated.json");
    let result = &report["results"][0];
    for name in OURS {
        check_figures(rung(result, name), &text);
    }
    // All of them iterate as often, by whole graphs, and come to one residual.
    let of_all = |key: &str| OURS.map(|name| number(rung(result, name), key));
    let (iterations, residuals) = (of_all("iterations"), of_all("relative_residual"));
    assert!(iterations.iter().all(|&count| count == iterations[0] && count % 8.0 == 0.0), "{iterations:?}");
    assert!(residuals.iter().all(|residual| (residual / residuals[0] - 1.0).abs() < 0.1), "{residuals:?}");
    let kernel = |name| rung(result, name)["kernel"].as_str().unwrap();
    assert!(
        kernel("fused, end in pinned memory").starts_with("cg_csr_f64_")
            && kernel("persistent").starts_with("cg_persistent_f64_")
            && kernel("one reduction").starts_with("cg_persistent_one_f64_")
    );
    assert_eq!(kernel("automatic"), result["to_tolerance"]["kernel"]);
}

#[test]
fn what_is_not_positive_definite_is_skipped() {
    // Random elements, and no symmetry.
    let arguments = ["gen:uniform:100:100", "--device", "cpu", "--dtype", "f64"];
    let (text, report) = bench(&["cg"], &arguments, "cg_skipped.json");
    assert_eq!(report["results"], Value::Array(vec![]));
    let reason = report["skipped"][0]["reason"].as_str().unwrap();
    assert_eq!(report["skipped"][0]["what"], "uniform:100:100 f64");
    assert!(reason.contains("the matrix is not positive definite") && text.contains(reason), "{reason}");
}

#[test]
fn matrices_that_are_not_there_fail() {
    let failure = |arguments: &[&str]| {
        let output = run(&[&["cg", "--device", "cpu"], arguments].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = failure(&["no/such/file.mtx"]);
    assert!(status == 1 && text.contains("no/such/file.mtx: there is no such file"), "{status}: {text}");
    let (status, text) = failure(&["gen:nothing:3"]);
    assert!(status == 2 && text.contains("nothing"), "{status}: {text}");
}

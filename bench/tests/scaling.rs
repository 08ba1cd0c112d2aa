//! `warpsparse-bench scaling` as a user runs it.

mod common;

use common::{bench, close, median, number, rows, run, us};
use serde_json::Value;

const SHORT: [&str; 8] = ["--repeat", "2", "--iterations", "10", "-n", "3", "--weak", "6"];

/// The results of one scaling, of which each number of devices has all operations.
fn of<'a>(report: &'a Value, scaling: &str) -> Vec<&'a Value> {
    report["results"].as_array().unwrap().iter().filter(|it| it["scaling"] == scaling).collect()
}

#[test]
fn products_and_iterations_are_measured_and_right() {
    let arguments = [&SHORT[..], &["--devices", "cpu:3"]].concat();
    let (text, report) = bench(&["scaling", "gen:poisson2d:12"], &arguments, "scaling.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.scaling".into(), &1.into()));
    assert_eq!(report["skipped"].as_array().unwrap().len(), 0, "{report}");
    let (strong, weak) = (of(&report, "strong"), of(&report, "weak"));
    let cases = [1, 2, 3].map(|devices| ["spmv", "spmm", "cg"].map(|operation| (devices, operation))).concat();
    for results in [&strong, &weak] {
        let found = results.iter().map(|it| (it["devices"].as_u64().unwrap(), it["operation"].as_str().unwrap()));
        assert_eq!(found.collect::<Vec<_>>(), cases);
    }
    for (place, result) in strong.iter().enumerate() {
        assert_eq!((&result["rows"], &result["entries"]), (&144.into(), &672.into()));
        close(number(result, "speedup"), median(strong[place % 3]) / median(result));
        close(number(result, "efficiency"), number(result, "speedup") / number(result, "devices"));
        let model = number(strong[place % 3], "model_us") / number(result, "model_us");
        close(number(result, "model_efficiency"), model / number(result, "devices"));
    }
    for (place, result) in weak.iter().enumerate() {
        assert_eq!(number(result, "rows"), 216.0 * number(result, "devices"));
        close(number(result, "efficiency"), median(weak[place % 3]) / median(result));
    }
    // 144 rows with 672 entries on one device; on the middle one of three slabs of 6 x 6 x 6 points, two planes of others.
    let csr = |rows: f64, entries: f64| 12.0 * entries + 4.0 * (rows + 1.0);
    assert_eq!(number(strong[0], "bytes"), csr(144.0, 672.0) + 2.0 * 8.0 * 144.0);
    assert_eq!(number(strong[1], "bytes"), csr(144.0, 672.0) + 3.0 * 2.0 * 8.0 * 144.0);
    assert_eq!(number(strong[2], "bytes"), csr(144.0, 672.0) + 12.0 * 8.0 * 144.0);
    assert_eq!(number(strong[0], "halo_bytes"), 0.0);
    let entries = 7.0 * 216.0 - 4.0 * 36.0;
    assert_eq!(number(weak[6], "bytes"), csr(216.0, entries) + 8.0 * (2.0 * 216.0 + 72.0));
    assert_eq!([6, 7, 8].map(|place| number(weak[place], "halo_bytes")), [576.0, 3.0 * 576.0, 576.0]);
    assert_eq!(weak[6]["entries"], 3 * 7 * 216 - 4 * 3 * 36 - 2 * 36);
    let row = &rows(&text, "poisson2d:12")[2];
    assert_eq!(row[1..6], ["f64", "cg", "1", "144", &us(median(strong[2]))]);
    assert_eq!(row[9..11], ["1.00", "1.00"]);
}

#[test]
fn matrices_that_are_not_solved_are_multiplied() {
    let arguments = [&SHORT[..], &["--devices", "emulated:2", "--dtype", "f32"]].concat();
    let (text, report) = bench(&["scaling", "gen:uniform:40:3"], &arguments, "scaling_uniform.json");
    let operations: Vec<_> = of(&report, "strong").iter().map(|it| it["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["spmv", "spmm", "spmv", "spmm"]);
    assert!(text.contains("skipped cg, uniform:40:3 f32 on 2 devices: "), "{text}");
}

#[test]
fn wrong_usage_is_told() {
    let refusal = |arguments: &[&str], status: i32| {
        let output = run(&[&["scaling"], arguments].concat());
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["--devices", "cpu:2", "--device", "cpu"], 2).contains("--device <DEVICE>"));
    assert!(refusal(&["--devices", "cpu:0"], 2).contains("no devices `cpu:0`"));
    assert!(refusal(&["--devices", "cpu:2", "--weak", "0"], 2).contains("1..=600"));
    assert!(refusal(&["--devices", "cpu:2", "no.mtx"], 1).contains("no.mtx: there is no such file"));
}

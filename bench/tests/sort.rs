//! `warpsparse-bench sort` as a user runs it.

mod common;

use common::{bench, median, number, rows, run, us};

const OPERATIONS: [(&str, &str); 10] = [
    ("exclusive_scan", "u32"),
    ("exclusive_scan", "u64"),
    ("exclusive_scan", "f32"),
    ("exclusive_scan", "f64"),
    ("sort", "u32"),
    ("sort", "u64"),
    ("sort_pairs", "u32_u32"),
    ("sort_pairs", "u32_u64"),
    ("sort_pairs", "u64_u32"),
    ("sort_pairs", "u64_u64"),
];

#[test]
fn operations_are_measured_and_right() {
    let cub = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cub.csv");
    std::fs::write(&cub, "operation,type,n,microseconds\nsort,u64,3000,12.50\nsort,u64,1,99\n").unwrap();
    let arguments = ["-n", "3000,1", "--device", "cpu", "--cub", cub.to_str().unwrap()];
    let (text, report) = bench(&["sort"], &arguments, "sort.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.sort".into(), &1.into()));
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 2 * OPERATIONS.len());
    for (n, results) in [3000, 1].into_iter().zip(results.chunks(OPERATIONS.len())) {
        for ((operation, types), result) in OPERATIONS.into_iter().zip(results) {
            let case = (&result["operation"], &result["types"], &result["n"]);
            assert_eq!(case, (&operation.into(), &types.into(), &n.into()));
            assert_eq!(number(result, "gelements_per_s"), f64::from(n) / median(result) / 1e3);
        }
    }
    assert_eq!((&results[5]["cub_us"], &results[15]["cub_us"]), (&12.5.into(), &99.0.into()));
    assert!(results[4]["cub_us"].is_null());
    let sorts = rows(&text, "sort");
    assert_eq!(sorts[1][1..4], ["u64", "3000", &us(median(&results[5]))]);
    assert_eq!((sorts[1][6], sorts[0][6]), ("12.5", "–"));
    assert!(text.contains("(geometric mean of 2)"), "{text}");
}

#[test]
fn what_is_left_out_has_a_reason() {
    let (text, report) = bench(&["sort"], &["-n", "8", "--device", "cpu", "--budget", "1e-9"], "sort_skipped.json");
    assert_eq!(report["results"].as_array().unwrap().len(), 0);
    assert!(text.contains("skipped n = 8: its turn came after 0 s"), "{text}");
}

#[test]
fn wrong_usage_is_told() {
    assert_eq!(run(&["sort", "-n", "0"]).status.code(), Some(2));
    let missing = run(&["sort", "-n", "8", "--device", "cpu", "--cub", "not there"]);
    let message = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.code() == Some(1) && message.contains("not there: "), "{message}");
}

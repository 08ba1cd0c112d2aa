//! `warpsparse-bench learning` as a user runs it.

mod common;

use common::{bench, close, median, number, rows, us};
use serde_json::Value;

const SMALL: [&str; 6] = ["learning", "-k", "3,8", "--vertices", "60", "--cora"];
const COMMUNITIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/communities");

#[test]
fn every_part_is_measured() {
    let command = [&SMALL[..], &[COMMUNITIES, "gen:poisson2d:9"]].concat();
    let (text, report) = bench(&command, &["--device", "cpu"], "learning.json");
    assert_eq!((&report["schema"], &report["skipped"]), (&"warpsparse.bench.learning".into(), &Value::Array(vec![])));
    let results = report["results"].as_array().unwrap();
    let names: Vec<_> = results.iter().filter_map(|result| result["operation"].as_str()).collect();
    let of_edges = ["edge softmax", "edge softmax, backward"];
    let of_layers = ["GATConv", "its attention", "its attention, backward", "GATConv, backward"];
    let sums =
        [64, 128, 256].map(|cols| ["f32", "bf16", "f16"].map(|of| format!("SpMM, {cols} columns, {of}"))).concat();
    let sums: Vec<_> = sums.iter().map(String::as_str).collect();
    let networks = ["GCN, 3 x 256", "GAT, 8 x 32"];
    assert_eq!(names, [&["GCN, 16 hidden", "GAT, 8 x 8"][..], &of_edges, &of_layers, &sums, &networks].concat());
    for result in &results[..19] {
        let most = match result["operation"].as_str().unwrap().rsplit(", ").next() {
            Some("bf16") => 4e-3,
            Some("f16") => 5e-4,
            _ => 2e-5,
        };
        match result["error"].as_f64() {
            Some(error) => assert!(error > 0.0 && error < most && result["losses"].is_null(), "{result}"),
            None => assert!(result["losses"][1].as_f64() < result["losses"][0].as_f64(), "{result}"),
        }
        assert!(result["peak_bytes"].is_null());
    }
    let found = rows(&text, "GATConv")[0].clone();
    assert_eq!(found[1..4], ["power law:60", &results[4]["entries"].to_string(), &us(median(&results[4]))]);

    for (result, k) in results[19..].iter().zip([3.0, 8.0]) {
        // 81 points with 5 neighbours, but for those at the sides.
        assert_eq!((number(result, "k"), number(result, "entries")), (k, 369.0));
        assert!(number(result, "relative_error") > 0.0 && result["cusparse"].is_null());
        let bytes = 4.0 * (82.0 + 369.0) + 4.0 * (369.0 + 2.0 * 81.0 * k);
        close(number(result, "gb_per_s"), bytes / median(result) / 1e3);
    }
    assert_eq!(rows(&text, "poisson2d:9")[1][1..3], ["8", &us(median(&results[20]))]);
}

#[test]
fn what_is_not_there_is_skipped() {
    let command = [&SMALL[..], &["nowhere", "gen:poisson2d:3"]].concat();
    let (text, report) = bench(&command, &["--device", "cpu"], "learning_skipped.json");
    assert!(text.contains("skipped Cora: nowhere"), "{text}");
    assert_eq!(report["results"].as_array().unwrap().len(), 19);
}

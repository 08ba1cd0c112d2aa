//! `warpsparse-bench graphs` as a user runs it.

mod common;

use common::{bench, close, median, number, rows, run, us};
use serde_json::Value;

const SMALL: [&str; 5] = ["graphs", "--scale", "0.0005", "--repeat", "2"];

fn result<'a>(report: &'a Value, name: &str, n: u32) -> &'a Value {
    let is_it = |result: &&Value| result["name"] == name && result["n"] == n;
    report["results"].as_array().unwrap().iter().find(is_it).unwrap()
}

fn rung<'a>(result: &'a Value, name: &str) -> &'a Value {
    result["rungs"].as_array().unwrap().iter().find(|rung| rung["rung"] == name).unwrap()
}

#[test]
fn every_rung_is_measured() {
    let arguments = ["--graph", "arxiv,Collab", "-n", "4,40", "--device", "emulated"];
    let (text, report) = bench(&SMALL, &arguments, "ladder.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.graphs".into(), &2.into()));
    assert_eq!((&report["skipped"], report["results"].as_array().unwrap().len()), (&Value::Array(vec![]), 4));
    let ladder = [
        ("row per thread", "spmm_ladder_row_per_thread_f32"),
        ("element per thread", "spmm_ladder_element_per_thread_f32"),
        ("entry per thread, atomic", "spmm_atomic_entry_per_thread_f32"),
        ("entry per warp, atomic", "spmm_atomic_entry_per_warp_f32"),
        ("entry per warp by columns, atomic", "spmm_atomic_entry_per_warp_f32"),
        ("GE-SpMM: CRC", "spmm_ladder_row_caching_f32_c1"),
        ("GE-SpMM: CRC and CWM, 2 tiles", "spmm_ladder_row_caching_f32_c2"),
        ("GE-SpMM: CRC and CWM, 4 tiles", "spmm_ladder_row_caching_f32_c4"),
        ("automatic choice", "spmm_csr_f32_v4_"),
        ("rows clustered", "spmm_csr_f32_v4_"),
        ("rows and columns clustered", "spmm_csr_f32_v4_"),
    ];
    let collab = result(&report, "collab", 40);
    let names: Vec<_> = collab["rungs"].as_array().unwrap().iter().map(|rung| &rung["rung"]).collect();
    assert_eq!(names, ladder.map(|(name, _)| name));
    // 0.0005 of 235 868 rows and 2 358 104 entries, rounded up.
    let matrix = &collab["matrix"];
    assert_eq!((number(matrix, "rows"), number(matrix, "entries")), (118.0, 1180.0));
    assert_eq!(matrix["source"], "gen:communities:118:1180");
    for (name, kernel) in ladder {
        let of_n = |n| ["arxiv", "collab"].map(|graph| rung(result(&report, graph, n), name));
        for rung in [of_n(4), of_n(40)].concat() {
            assert!(number(rung, "relative_error") > 0.0 && number(rung, "error_over_bound") <= 1.0, "{rung}");
            assert_eq!(rung["ratio"], Value::Null);
        }
        let found = of_n(40)[1];
        assert!(found["kernel"].as_str().unwrap().starts_with(kernel), "{found}");
        close(number(found, "gflop_per_s"), 2.0 * 1180.0 * 40.0 / median(found) / 1e3);
        // Times, speeds and ratios for 4 columns, then those for 40.
        let lines = rows(&text, name);
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[3][2], us(median(found)));
        let over_first = |graph| {
            let of = |name| median(rung(result(&report, graph, 40), name));
            of(ladder[0].0) / of(name)
        };
        let mean = (over_first("arxiv") * over_first("collab")).sqrt();
        assert_eq!(lines[5][3..], ["–", &short(mean)]);
    }
    assert!(text.contains("The graphs are stand-ins for published ones"), "{text}");
}

fn short(figure: f64) -> String {
    let digits = if figure < 9.995 { 2 } else { usize::from(figure < 99.95) };
    format!("{figure:.digits$}")
}

#[test]
fn the_cpu_has_fewer_rungs_and_other_libraries() {
    let arguments = ["--graph", "ddi", "-n", "3", "--device", "cpu", "--scale", "0.02", "--against", "sprs"];
    let (text, report) = bench(&["graphs", "--repeat", "5"], &arguments, "cpu.json");
    let ddi = result(&report, "ddi", 3);
    // 500 entries a row: of 86 rows half of all places, 43 a row.
    assert_eq!((number(&ddi["matrix"], "rows"), number(&ddi["matrix"], "entries")), (86.0, 3698.0));
    let names: Vec<_> = ddi["rungs"].as_array().unwrap().iter().map(|rung| &rung["rung"]).collect();
    assert_eq!(names, ["automatic choice", "rows and columns clustered"]);
    let sprs = &ddi["baselines"][0];
    assert_eq!(sprs["name"], "sprs");
    for name in names {
        let rung = rung(ddi, name.as_str().unwrap());
        close(number(rung, "ratio"), median(sprs) / median(rung));
        assert_eq!(rung["repeats"], 5);
    }
    assert_eq!(rows(&text, "sprs")[0][1], us(median(sprs)));
    assert_eq!(rows(&text, "its algorithm")[0][1], "csr_mulacc_dense_rowmaj");

    let reordering = &ddi["reordering"];
    let chosen_us = median(rung(ddi, "automatic choice"));
    let (cluster_us, permute_us) = (1e3 * number(reordering, "cluster_ms"), 1e3 * number(reordering, "permute_ms"));
    close(number(reordering, "cluster_products"), cluster_us / chosen_us);
    close(number(reordering, "permute_products"), permute_us / chosen_us);
    let gain = chosen_us - median(rung(ddi, "rows and columns clustered"));
    let after = (gain > 0.0).then(|| ((cluster_us + permute_us) / gain).ceil());
    assert_eq!(reordering["all_pay_after"].as_f64(), after);
    // The line of the graph's size, and that of its order.
    let line = &rows(&text, "ddi")[1];
    assert_eq!((line[1], line[4]), ("3", "–"));
    assert_eq!(line[7], after.map_or("never".into(), |products| products.to_string()));
}

#[test]
fn long_products_are_timed_once() {
    let arguments = ["--graph", "am", "-n", "32", "--device", "cpu", "--limit", "1e-9", "--against", "sprs"];
    let (text, report) = bench(&SMALL, &arguments, "once.json");
    let am = result(&report, "am", 32);
    assert!(text.contains("more than 0.000000001 s, fewer are timed"), "{text}");
    let chosen = rung(am, "automatic choice");
    assert_eq!(chosen["repeats"], 1);
    assert_eq!(rows(&text, "automatic choice")[0][1], us(median(chosen)) + "¹");
}

#[test]
fn the_smallest_scale_leaves_a_graph() {
    let (_, report) = bench(&["graphs"], &["--device", "emulated", "-n", "1", "--scale", "1e-9"], "smallest.json");
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 13);
    assert!(results.iter().all(|result| number(&result["matrix"], "entries") == 1.0));
}

#[test]
fn wrong_usage_is_told() {
    let refusal = |arguments: &[&str]| {
        let output = run(&[&["graphs"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["--graph", "arxiv,karate"]).contains("the graphs are arxiv, collab, citation"));
    assert!(refusal(&["--scale", "0"]).contains("over 0 and at most 1"));
    assert!(refusal(&["--scale", "nan"]).contains("over 0 and at most 1"));
    assert!(refusal(&["--limit", "0"]).contains("seconds over 0"));
    assert!(refusal(&["-n", "0"]).contains("1..=65536"));
    assert!(refusal(&["--repeat", "1"]).contains("2.."));
}

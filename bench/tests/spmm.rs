//! `warpsparse-bench spmm` as a user runs it.

mod common;

use common::{close, median, number, rows, run, us};
use serde_json::Value;

#[track_caller]
fn bench(arguments: &[&str], name: &str) -> (String, Value) {
    common::bench(&["spmm", "--repeat", "30"], arguments, name)
}

const CORA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/cora.mtx.gz");

#[test]
fn bench_measures_every_width_beside_others() {
    let (text, report) =
        bench(&["gen:poisson2d:30", CORA, "-n", "3,8", "--dtype", "f32", "--device", "cpu"], "spmm.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.spmm".into(), &2.into()));
    assert_eq!(report["skipped"], Value::Array(Vec::new()));
    let results = report["results"].as_array().unwrap();
    let cases: Vec<_> = results.iter().map(|result| (result["name"].as_str().unwrap(), number(result, "n"))).collect();
    assert_eq!(cases, [("poisson2d:30", 3.0), ("poisson2d:30", 8.0), ("cora", 3.0), ("cora", 8.0)]);
    let mut ratios = Vec::new();
    for result in results {
        let chosen = &result["chosen"];
        assert_eq!((&result["dtype"], &chosen["kernel"]), (&"f32".into(), &"cpu_spmm_csr".into()));
        assert_eq!(result["autotuned"], Value::Null);
        assert!((3.0..=30.0).contains(&number(chosen, "repeats")), "{chosen}");
        let operations = 2.0 * number(&result["matrix"], "entries") * number(result, "n");
        close(number(chosen, "gflop_per_s"), operations / median(chosen) / 1e3);
        let baselines = result["baselines"].as_array().unwrap();
        assert_eq!(baselines.iter().map(|baseline| &baseline["name"]).collect::<Vec<_>>(), ["nalgebra-sparse", "sprs"]);
        for baseline in baselines {
            assert!(number(baseline, "error_over_bound") <= 1.0, "{baseline}");
            close(number(baseline, "ratio"), median(baseline) / median(chosen));
            // On the CPU there is one clock.
            assert_eq!((&baseline["clock"], &baseline["call_us"]), (&"wall".into(), &Value::Null));
            close(number(baseline, "call_ratio"), number(baseline, "ratio"));
        }
        ratios.push(number(&baselines[1], "ratio"));
    }

    assert_eq!(rows(&text, "cora").iter().map(|cells| cells[1]).collect::<Vec<_>>(), ["3", "8"]);
    assert_eq!(rows(&text, "cora")[1][3], us(median(&results[3]["chosen"])));
    // The tables of the ratios: the second one is that of sprs.
    let mean = |ratios: &[f64]| format!("{:.2}", ratios.iter().product::<f64>().powf(1.0 / ratios.len() as f64));
    assert_eq!(rows(&text, "3")[1][1], mean(&[ratios[0], ratios[2]]));
    assert_eq!(rows(&text, "8")[1][1], mean(&[ratios[1], ratios[3]]));
    let all = &rows(&text, "all")[1];
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let slower = ratios.iter().filter(|&&ratio| ratio < 1.0).count();
    let (mean, lowest, slower) = (mean(&ratios), format!("{lowest:.2}"), format!("{slower} of 4"));
    assert_eq!([all[1], all[2], all[4]], [mean, lowest, slower]);
}

#[test]
fn bench_sets_the_autotuned_kernel_beside() {
    let arguments = ["gen:rmat:5:4", "-n", "4", "--dtype", "f64", "--device", "emulated", "--autotune"];
    let (text, report) = bench(&arguments, "autotuned.json");
    let result = &report["results"][0];
    let [chosen, autotuned] = ["chosen", "autotuned"].map(|kernel| &result[kernel]);
    assert!(autotuned["reason"].as_str().unwrap().starts_with("the fastest of "), "{autotuned}");
    let ratio = format!("{:.2}", median(chosen) / median(autotuned));
    let cells = &rows(&text, "rmat:5:4")[0];
    assert_eq!((cells[10], cells[12]), (autotuned["kernel"].as_str().unwrap(), ratio.as_str()));
}

/// 27 nodes with 3 unknowns each, 343 pairs of neighbours. The stencil has none.
#[test]
fn bench_sets_bsr_beside() {
    let arguments =
        ["gen:elasticity3d:3", "gen:poisson2d:9", "-n", "4", "--dtype", "f64", "--device", "emulated", "--bsr"];
    let (text, report) = bench(&arguments, "bsr.json");
    let bsr = &report["results"][0]["bsr"];
    assert_eq!(bsr["bytes"], 343 * (4 + 9 * 8) + 28 * 4 + 2 * 81 * 4 * 8);
    close(number(bsr, "gb_per_s"), number(bsr, "bytes") / median(bsr) / 1e3);
    let ratio = format!("{:.2}", median(&report["results"][0]["chosen"]) / median(bsr));
    let cells = &rows(&text, "elasticity3d:3")[0];
    assert_eq!((cells[10], cells[12]), (bsr["kernel"].as_str().unwrap(), ratio.as_str()));
    assert_eq!(report["results"][1]["bsr"], Value::Null);
    assert_eq!(rows(&text, "poisson2d:9")[0][10], "–");
}

#[test]
fn bench_tells_what_it_skips() {
    let arguments = ["gen:uniform:10:0", "gen:poisson2d:0", "-n", "2", "--device", "cpu", "--against", "cusparse,sprs"];
    let (text, report) = bench(&arguments, "skipped.json");
    assert!(text.contains("skipped cuSPARSE: cuSPARSE runs on GPUs"), "{text}");
    assert_eq!(report["results"].as_array().unwrap().len(), 4);
}

#[test]
fn wrong_usage_is_told() {
    let output = run(&["spmm", "gen:poisson2d:9", "-n", "4,0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("1..=65536"));
}

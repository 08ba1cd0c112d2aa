//! `warpsparse spmm` and `warpsparse bench spmm` as a user runs them.

use std::{fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;

fn warpsparse(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().args(arguments).output().unwrap()
}

#[track_caller]
fn stdout(arguments: &[&str]) -> String {
    let output = warpsparse(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn spmm(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[&["spmm", "--json"], arguments].concat())).unwrap()
}

/// What `bench spmm` prints, and its JSON.
#[track_caller]
fn bench(arguments: &[&str], name: &str) -> (String, Value) {
    let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned();
    let text = stdout(&[&["bench", "spmm", "--repeat", "30", "--json", &json], arguments].concat());
    (text, serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap())
}

const CORA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/cora.mtx.gz");

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn median(product: &Value) -> f64 {
    number(&product["time_us"], "median")
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}");
}

/// The cells of the lines that begin with this one.
fn rows<'a>(text: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    text.lines().filter(|line| line.starts_with('|')).map(cells).filter(|cells| cells[0] == first).collect()
}

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
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.spmm".into(), &1.into()));
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
    let (forced, reason) = kernel(&["16", "--tile", "8x1", "--long-row", "20"]);
    assert_eq!(forced, "spmm_csr_f32_v4_t8_c1");
    assert!(reason.contains("rows of more than 20 entries, up to 91"), "{reason}");
    let (forced, _) = kernel(&["6", "--tile", "4x1", "--dtype", "f64"]);
    assert_eq!(forced, "spmm_csr_f64_v2_t4_c1");
    // One column is a dense matrix too, not a vector.
    assert_eq!(kernel(&["1"]).0, "spmm_csr_f32_v1_t1_c1");
    let (_, reason) = kernel(&["4", "--autotune", "--tile", "1x1"]);
    assert!(reason.starts_with("the fastest of ") && reason.contains("4 columns: 1 lanes a row"), "{reason}");
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
fn bench_measures_every_width_beside_others() {
    let (text, report) = bench(&["gen:poisson2d:30", CORA, "-n", "3,8", "--device", "cpu"], "spmm.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.spmm".into(), &1.into()));
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
        let rivals = result["rivals"].as_array().unwrap();
        assert_eq!(rivals.iter().map(|rival| &rival["name"]).collect::<Vec<_>>(), ["nalgebra-sparse", "sprs"]);
        for rival in rivals {
            assert!(number(rival, "error_over_bound") <= 1.0, "{rival}");
            close(number(rival, "ratio"), median(rival) / median(chosen));
        }
        ratios.push(number(&rivals[1], "ratio"));
    }

    assert_eq!(rows(&text, "cora").iter().map(|cells| cells[1]).collect::<Vec<_>>(), ["3", "8"]);
    assert_eq!(rows(&text, "cora")[1][3], format!("{:.1}", median(&results[3]["chosen"])));
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
    assert_eq!((cells[9], cells[11]), (autotuned["kernel"].as_str().unwrap(), ratio.as_str()));
}

#[test]
fn bench_tells_what_it_skips() {
    let arguments = ["gen:uniform:10:0", "gen:poisson2d:0", "-n", "2", "--device", "cpu", "--against", "cusparse,sprs"];
    let (text, report) = bench(&arguments, "skipped.json");
    assert!(text.contains("skipped cuSPARSE: cuSPARSE runs on GPUs"), "{text}");
    assert_eq!(report["results"].as_array().unwrap().len(), 2);
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
    assert!(refusal(&["bench", "spmm", "gen:poisson2d:9", "-n", "4,0"]).contains("1..=65536"));
    assert!(refusal(&["spmm", "gen:poisson2d:9", "-n", "4", "--tile", "8"]).contains("lanes x vectors"));
    let emulated = ["spmm", "gen:poisson2d:9", "-n", "4", "--device", "emulated"];
    assert!(refusal(&[&emulated[..], &["--tile", "3x1"]].concat()).contains("there are 1 x 1"));
    assert!(refusal(&[&emulated[..], &["--long-row", "0"]].concat()).contains("1 to 2^30"));
}

//! `warpsparse-bench formats` as a user runs it.

use std::{fmt::Write, fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;

/// A path for a file that a test writes.
fn scratch(name: &str) -> String {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned()
}

fn bench(matrices: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("warpsparse-bench").unwrap();
    command.args(["formats", "--repeat", "30"]).args(matrices).args(arguments).output().unwrap()
}

/// What the command prints, and its JSON.
#[track_caller]
fn report(matrices: &[&str], arguments: &[&str], name: &str) -> (String, Value) {
    let json = scratch(name);
    let formats = if arguments.contains(&"--format") { &[][..] } else { &["--format", "coo,dia,ell,hyb,auto"] };
    let output = bench(matrices, &[arguments, formats, &["--json", &json]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    (String::from_utf8(output.stdout).unwrap(), report)
}

const FORMATS: [&str; 6] = ["csr", "coo", "dia", "ell", "hyb", "auto"];

/// The measurement in each of the formats, none of which has refused the matrix.
fn measured(result: &Value) -> Vec<&Value> {
    let formats = result["formats"].as_array().unwrap();
    assert_eq!(formats.iter().map(|format| &format["format"]).collect::<Vec<_>>(), FORMATS);
    formats.iter().map(|format| &format["measured"]).collect()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// The cells of the rows of the `table`-th table that begin with this name.
fn cells(text: &str, table: usize, name: &str) -> Vec<String> {
    let start = format!("| {name} ");
    let line = text.lines().filter(|line| line.starts_with(&start)).nth(table).unwrap_or_else(|| panic!("{text}"));
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

/// 400 rows, 5 * 400 - 4 * 20 entries on 5 diagonals, at most 5 a row; in f64.
#[test]
fn figures_are_those_of_the_format() {
    let arguments = ["--device", "cpu", "--dtype", "f64", "--against", "sprs"];
    let (text, report) = report(&["gen:poisson2d:20"], &arguments, "stencil.json");
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.formats".into(), &2.into()));
    assert_eq!((&report["machine"]["device"], &report["method"]["repeats"]), (&"cpu".into(), &30.into()));
    assert_eq!(report["skipped"], Value::Array(Vec::new()));
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    let result = &results[0];
    assert_eq!((&result["name"], &result["dtype"]), (&"poisson2d:20".into(), &"f64".into()));
    assert_eq!(result["matrix"]["entries"], 1920);

    let measured = measured(result);
    let vectors = 2 * 400 * 8;
    let in_csr = 1920 * 12 + 401 * 4 + vectors;
    let in_coo = 1920 * 16 + vectors;
    let bytes = [in_csr, in_coo, 5 * (8 + 400 * 8) + vectors, 5 * 400 * 12 + vectors, in_coo, in_csr];
    assert_eq!(measured.iter().map(|format| &format["bytes"]).collect::<Vec<_>>(), bytes);
    // Of so few rows, HYB puts nothing into ELL. On the CPU the automatic format is CSR.
    let kernels = ["cpu_csr", "cpu_coo", "cpu_dia", "cpu_ell", "cpu_ell + cpu_coo", "cpu_csr"];
    assert_eq!(measured.iter().map(|format| &format["kernel"]).collect::<Vec<_>>(), kernels);
    assert_eq!(result["hyb"], serde_json::json!({ "width": 0, "entries_in_ell": 0, "entries_in_coo": 1920 }));

    let baseline = &result["baselines"][0];
    assert_eq!((result["baselines"].as_array().unwrap().len(), &baseline["name"]), (1, &"sprs".into()));
    let us = |of: &Value| number(&of["time_us"], "median");
    let copy = number(&report["machine"], "copy_gb_per_s");
    for (format, bytes) in measured.iter().zip(bytes) {
        close(number(format, "gflop_per_s"), 2.0 * 1920.0 / us(format) / 1e3);
        close(number(format, "gb_per_s"), f64::from(bytes) / us(format) / 1e3);
        close(number(format, "percent_of_copy"), 100.0 * number(format, "gb_per_s") / copy);
        close(number(&format["ratios"][0], "ratio"), us(baseline) / us(format));
        assert!((0.0..1e-14).contains(&number(format, "relative_error")) && number(format, "error_over_bound") <= 1.0);
    }
    for (format, name) in measured.iter().zip(FORMATS) {
        let conversion = &format["conversion"];
        if ["csr", "auto"].contains(&name) {
            assert_eq!(*conversion, Value::Null, "{name}");
            continue;
        }
        assert!(number(conversion, "host_ms") > 0.0, "{name}");
        let saved_us = us(measured[0]) - us(format);
        if saved_us > 0.0 {
            let products = 1e3 * number(conversion, "upload_ms") / saved_us;
            assert_eq!(number(conversion, "products"), products.ceil(), "{name}");
        } else {
            assert_eq!(conversion["products"], Value::Null, "{name}");
        }
    }

    let speeds = cells(&text, 0, "poisson2d:20");
    assert_eq!((speeds.len(), speeds[7].as_str()), (9, "cpu_csr"));
    for (cell, format) in speeds[1..].iter().zip(&measured) {
        let speed = number(format, "gflop_per_s");
        let rounding = (0.006 * speed).max(0.006);
        assert!((cell.parse::<f64>().unwrap() - speed).abs() < rounding, "{text}");
    }
    assert!(cells(&text, 1, "poisson2d:20")[3].ends_with("%)"), "{text}");
    assert_eq!(cells(&text, 2, "poisson2d:20").len(), 9);
    assert_eq!(cells(&text, 3, "poisson2d:20")[1..4], ["0.03", "0.04", "0.02"]);
    assert_eq!(cells(&text, 4, "poisson2d:20").len(), 7);
    assert_eq!(cells(&text, 5, "poisson2d:20")[9..], ["0", "0%"]);
}

/// Row 0 is full, the others have an entry on the diagonal, the last another one in column 0.
fn arrow() -> String {
    let (rows, columns) = (1000, 1500);
    let mut text = format!("%%MatrixMarket matrix coordinate pattern general\n{rows} {columns} {}\n", columns + rows);
    (1..=columns).for_each(|column| writeln!(text, "1 {column}").unwrap());
    (2..=rows).for_each(|row| writeln!(text, "{row} {row}").unwrap());
    writeln!(text, "{rows} 1").unwrap();
    let path = scratch("arrow.mtx");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_format_that_refuses_shows_its_padding() {
    let (text, report) = report(&[&arrow()], &["--device", "cpu", "--dtype", "f32", "--against", "sprs"], "arrow.json");
    let formats = report["results"][0]["formats"].as_array().unwrap();
    // 1000 rows of 1500 + 1 diagonals, or of 1500 slots, for 2500 entries.
    for (at, slots_per_entry, name) in [(2, 600.4, "DIA"), (3, 600.0, "ELL")] {
        assert_eq!(formats[at]["measured"], Value::Null);
        let refused = &formats[at]["refused"];
        close(number(refused, "slots_per_entry"), slots_per_entry);
        let reason = refused["reason"].as_str().unwrap();
        assert!(reason.starts_with(name) && reason.contains("for 2500 entries"), "{reason}");
    }
    for at in [0, 1, 4, 5] {
        assert_eq!(formats[at]["refused"], Value::Null);
        assert!(number(&formats[at]["measured"], "gflop_per_s") > 0.0);
    }
    for table in 0..5 {
        assert_eq!(cells(&text, table, "arrow")[3..5], ["600 slots", "600 slots"]);
    }
    let conversions = cells(&text, 5, "arrow");
    assert_eq!(conversions[3..7], ["–"; 4]);
}

/// 10 000 rows, most of 5 entries, are enough for an ELL part, which takes them all.
#[test]
fn hyb_divides_large_matrices() {
    let arguments = ["--device", "cpu", "--dtype", "f32", "--against", "sprs"];
    let (text, report) = report(&["gen:poisson2d:100"], &arguments, "hyb.json");
    let result = &report["results"][0];
    assert_eq!(result["hyb"], serde_json::json!({ "width": 5, "entries_in_ell": 49_600, "entries_in_coo": 0 }));
    assert_eq!(measured(result)[4]["bytes"], 5 * 10_000 * 8 + 2 * 10_000 * 4);
    assert_eq!(cells(&text, 5, "poisson2d:100")[9..], ["5", "100%"]);
}

/// As on a GPU, but for the clock.
#[test]
fn the_automatic_format_finds_diagonals() {
    let (text, report) = report(&["gen:poisson2d:20"], &["--device", "emulated", "--dtype", "f32"], "auto.json");
    let measured = measured(&report["results"][0]);
    let [dia, auto] = [measured[2], measured[5]];
    assert_eq!((&dia["kernel"], &auto["kernel"]), (&"spmv_dia_f32_r2".into(), &"spmv_dia_f32_r2".into()));
    assert_eq!((&dia["bytes"], &auto["bytes"]), (&11_240.into(), &11_240.into()));
    assert!(auto["reason"].as_str().unwrap().starts_with("5 diagonals"), "{auto}");
    assert_eq!(cells(&text, 0, "poisson2d:20")[7], "spmv_dia_f32_r2");
    // Of the emulator there is nothing to compare with.
    assert_eq!(report["results"][0]["baselines"], Value::Array(Vec::new()));
}

/// 27 nodes with 3 unknowns each, 343 pairs of neighbours: columns at most 80 apart, full blocks of 3 x 3.
#[test]
fn fewer_bytes_than_in_csr_are_measured() {
    let arguments = ["--device", "emulated", "--dtype", "f64", "--format", "narrow,packed,bsr", "--products-only"];
    let (text, report) = report(&["gen:elasticity3d:3"], &arguments, "fewer.json");
    let formats = report["results"][0]["formats"].as_array().unwrap().clone();
    let [csr, narrow, packed, bsr] = formats.try_into().unwrap();
    assert_eq!((&csr["format"], &bsr["format"]), (&"csr".into(), &"bsr".into()));
    assert_eq!(bsr["measured"]["kernel"], "spmv_bsr_f64_b3");
    assert_eq!(bsr["measured"]["bytes"], 343 * (4 + 9 * 8) + 28 * 4 + 2 * 81 * 8);
    let in_csr = number(&csr["measured"], "bytes");
    for (format, start) in [(&narrow, "spmv_csr_packed_f64_c16_t"), (&packed, "spmv_csr_packed_f64_c16_coded_t")] {
        let measured = &format["measured"];
        assert!(measured["kernel"].as_str().unwrap().starts_with(start), "{measured}");
        assert!(number(measured, "bytes") < in_csr - 2.0 * 3087.0, "{measured}");
        assert_eq!((&measured["bits_of_csr"], &measured["conversion"]), (&true.into(), &Value::Null));
    }
    assert_eq!([&csr, &bsr].map(|format| &format["measured"]["bits_of_csr"]), [&Value::Null; 2]);
    assert_eq!(report["results"][0]["hyb"], Value::Null);
    assert!(!text.contains("Conversions on the host"), "{text}");
}

#[test]
fn a_matrix_without_blocks_refuses_bsr() {
    let arguments = ["--device", "cpu", "--dtype", "f64", "--format", "bsr,narrow", "--against", "sprs"];
    let (text, report) = report(&["gen:poisson2d:150"], &arguments, "blocks.json");
    let formats = &report["results"][0]["formats"];
    let refused = &formats[2]["refused"];
    assert!(refused["reason"].as_str().unwrap().starts_with("BSR"), "{refused}");
    assert!(number(refused, "slots_per_entry") > 1.25, "{refused}");
    assert!(cells(&text, 0, "poisson2d:150")[3].ends_with(" slots"), "{text}");
    // On the CPU nothing is packed.
    assert_eq!(formats[1]["measured"]["conversion"]["host_ms"], Value::Null);
    assert_eq!(cells(&text, 5, "poisson2d:150")[1], "–");
}

#[test]
fn matrices_without_entries_are_measured() {
    let arguments = ["--device", "cpu", "--dtype", "f64", "--against", "sprs"];
    let (text, report) = report(&["gen:poisson2d:0", "gen:uniform:10:0"], &arguments, "empty.json");
    for result in report["results"].as_array().unwrap() {
        for format in measured(result) {
            assert_eq!((number(format, "gflop_per_s"), number(format, "relative_error")), (0.0, 0.0), "{format}");
        }
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_told() {
    let failure = |matrices: &[&str], arguments: &[&str]| {
        let output = bench(matrices, arguments);
        assert!(output.stdout.is_empty());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = failure(&["no/such/file.mtx"], &["--device", "cpu"]);
    assert!(status == 1 && text.contains("no/such/file.mtx: there is no such file"), "{status}: {text}");
    let (status, text) = failure(&["gen:poisson2d:9"], &["--device", "cuda:77"]);
    assert!(status == 4 && text.contains("CUDA device 77"), "{status}: {text}");
    let (status, text) = failure(&["gen:poisson2d:9"], &["--against", "cusparse-coo"]);
    assert!(status == 2 && text.contains("cusparse-coo"), "{status}: {text}");

    let output = bench(&["gen:poisson2d:9"], &["--device", "cpu", "--dtype", "f32", "--against", "cusparse"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("skipped cuSPARSE: cuSPARSE runs on GPUs"));
}

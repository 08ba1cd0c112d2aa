//! `warpsparse-bench all`, `page` and `compare` as a user runs them.

mod common;

use std::{fs, path::PathBuf};

use common::{bench, close, median, number, run, stdout};
use serde_json::{Value, json};

fn scratch(name: &str) -> String {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned()
}

fn read(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Every tag that is opened is closed in its turn, and nothing comes from elsewhere.
#[track_caller]
fn check_page(page: &str) {
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let tag = tag.split_once('>').expect("every < begins a tag").0;
        let name = tag.split([' ', '\n']).next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if name == "meta" || name == "!DOCTYPE" => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} not closed");
    for load in ["http://", "https://", "<script", "<link", "<img", "@import", "url("] {
        assert!(!page.contains(load), "{load}");
    }
    assert!(!page.contains("NaN"));
}

const SECTIONS: [(&str, &str); 8] = [
    ("first-use --repeat 1 --operation copy,spmv", "A program's first result"),
    ("spmv gen:poisson2d:20 gen:rmat:8:4 --repeat 30", "Sparse matrix × vector"),
    ("spmm gen:rmat:8:4 -n 4,8 --repeat 30", "Sparse matrix × dense matrix"),
    ("graphs --graph ddi --scale 0.01 -n 8 --repeat 3", "Ladder of kernels on graphs"),
    ("gemm 64 33x20x17 --repeat 30", "Dense matrix × dense matrix"),
    ("cg gen:poisson2d:16 --dtype f64", "Conjugate gradients"),
    ("formats gen:poisson2d:20 --dtype f32 --repeat 30", "Formats of sparse matrices"),
    ("spmv gen:poisson2d:21 --against cusparse --dtype f64 --repeat 30", "Sparse matrix × vector"),
];

fn all(name: &str, device: &str, sections: &[&str]) -> (String, Value, String) {
    let (json, html) = (scratch(&format!("{name}.json")), scratch(&format!("{name}.html")));
    let sections = sections.iter().flat_map(|line| ["--section", line]);
    let arguments = ["all", "--device", device, "--html", &html, "--json", &json];
    let text = stdout(&arguments.into_iter().chain(sections).collect::<Vec<_>>());
    (text, read(&json), fs::read_to_string(html).unwrap())
}

#[test]
fn all_is_one_report_and_one_page() {
    let (text, report, page) = all("bench_all", "cpu", &SECTIONS.map(|(line, _)| line));
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.all".into(), &2.into()));
    assert_eq!(report["machine"]["device"], "cpu");
    assert_eq!(report["gpu"]["skipped"], "not a CUDA device");
    let commit = report["commit"].as_str().unwrap();
    assert!(commit == "unknown" || commit[..40].chars().all(|digit| digit.is_ascii_hexdigit()), "{commit}");
    let sections = report["sections"].as_array().unwrap();
    assert_eq!(sections.len(), SECTIONS.len());
    for (section, (line, title)) in sections.iter().zip(SECTIONS) {
        let benchmark = line.split(' ').next().unwrap();
        assert_eq!(section["report"]["schema"], format!("warpsparse.bench.{benchmark}"));
        assert!(!section["report"]["results"].as_array().unwrap().is_empty(), "{section}");
        assert!(section["command"].as_str().unwrap().starts_with(&format!("warpsparse-bench {line} --device cpu")));
        assert_eq!((&section["failed"], &section["load"]), (&Value::Null, &Value::Null));
        assert!(page.contains(&format!("<h2>{title}")), "no {title}");
    }
    let times: f64 = sections.iter().map(|section| number(section, "seconds")).sum();
    assert!(times > 0.0 && number(&report, "seconds") >= times && number(&report, "budget_s") == 540.0);
    check_page(&page);
    // Geometric means of what the reports have, and the case that is lowest.
    let results = sections[1]["report"]["results"].as_array().unwrap();
    let ratio = |result: &Value| {
        let baseline =
            result["baselines"].as_array().unwrap().iter().find(|baseline| baseline["name"] == "sprs").unwrap();
        close(number(baseline, "ratio"), median(baseline) / median(&result["chosen"]));
        number(baseline, "ratio")
    };
    let ratios: Vec<f64> = results.iter().filter(|result| result["dtype"] == "f32").map(ratio).collect();
    assert_eq!(ratios.len(), 2);
    let mean = format!("{:.2}", (ratios[0] * ratios[1]).sqrt());
    let rows = common::rows(&text, "SpMV f32");
    let sprs = rows.iter().find(|cells| cells[1] == "sprs").unwrap();
    assert_eq!((sprs[2], sprs[3].split(' ').nth(2)), (mean.as_str(), Some("2")), "{text}");
    // What is skipped says why, on the page too.
    assert!(page.contains("cuSPARSE runs on GPUs, and the products run on cpu"));
    // The page can be had from the report.
    let again = scratch("bench_all_again.html");
    stdout(&["page", &scratch("bench_all.json"), "--html", &again]);
    assert!(fs::read_to_string(again).unwrap() == page, "another page");
}

#[test]
fn ladders_are_drawn_of_our_kernels() {
    let lines = ["graphs --graph ddi --scale 0.002 -n 4 --repeat 2", "gemm 20 --ladder --repeat 30"];
    let (_, report, page) = all("bench_all_ladders", "emulated", &lines);
    check_page(&page);
    for (section, key) in [(0, "rungs"), (1, "kernels")] {
        let rungs = report["sections"][section]["report"]["results"][0][key].as_array().unwrap();
        assert!(rungs.len() > 5);
        for rung in rungs {
            let name = rung.get("rung").unwrap_or(&rung["name"]).as_str().unwrap();
            assert!(page.contains(&format!(">{name}</div>")), "no {name}");
        }
    }
}

#[test]
fn what_takes_too_long_is_left_out_and_told() {
    let (json, html) = (scratch("bench_all_late.json"), scratch("bench_all_late.html"));
    let arguments = ["all", "--device", "cpu", "--quick", "--budget", "0.000001", "--json", &json];
    let text = stdout(&[&arguments[..], &["--html", &html]].concat());
    let report = read(&json);
    let sections = report["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 7);
    for section in sections {
        assert_eq!(section["report"]["results"], json!([]), "{section}");
        let skipped = section["report"]["skipped"].as_array().unwrap();
        assert!(skipped.iter().any(|it| it["reason"] == "its turn came after 0 s"), "{section}");
    }
    assert!(text.contains("There is no other library to compare with."));
    check_page(&fs::read_to_string(html).unwrap());
}

#[test]
fn sections_that_fail_leave_the_others() {
    let json = scratch("bench_all_failed.json");
    let missing = "spmv no/such/file.mtx";
    let arguments = ["all", "--device", "cpu", "--json", &json, "--section", missing];
    let output = run(&[&arguments[..], &["--section", "gemm 8 --repeat 30"]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("no/such/file.mtx: there is no such file"), "{error}");
    let report = read(&json);
    assert!(report["sections"][0]["failed"].as_str().unwrap().starts_with(missing));
    assert_eq!(report["sections"][1]["report"]["results"].as_array().unwrap().len(), 2);
}

#[test]
fn nothing_is_measured_for_a_wrong_command_line() {
    let refusal = |arguments: &[&str]| {
        let output = run(&[&["all"], arguments].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = refusal(&["--device", "cpu", "--section", "gemm 8", "--section", "gemm x"]);
    assert!(status == Some(1) && text.contains("a shape is MxNxK") && !text.contains("1 of 2"), "{text}");
    let (_, text) = refusal(&["--device", "emulated"]);
    assert!(text.contains("times say nothing about a GPU"), "{text}");
    assert_eq!(refusal(&["--device", "cpu", "--budget", "0"]).0, Some(2));
    let (status, text) = refusal(&["--device", "cpu", "--section", "gemm 8", "--html", "/nonexistent/page.html"]);
    assert!(status == Some(1) && text.contains("/nonexistent/page.html") && !text.contains("took"), "{text}");
    let (status, text) = refusal(&["--device", "cpu", "--section", "gemm 8 --json report.json"]);
    assert!(status == Some(1) && text.contains("--json and --html are for the whole run"), "{text}");
}

#[test]
fn a_ladder_has_a_page_and_comparisons_of_its_own() {
    let html = scratch("graphs_alone.html");
    let arguments = ["--graph", "ddi", "--scale", "0.002", "-n", "4", "--repeat", "2", "--device", "emulated"];
    let (_, report) = bench(&["graphs", "--html", &html], &arguments, "graphs_alone.json");
    check_page(&fs::read_to_string(html).unwrap());
    let mut slower = report.clone();
    slow_down(&mut slower["results"][0]["rungs"][3]);
    let name = slower["results"][0]["rungs"][3]["rung"].as_str().unwrap().to_owned();
    let paths = ["graphs_alone.json", "graphs_slower.json"].map(scratch);
    fs::write(&paths[1], slower.to_string()).unwrap();
    let output = run(&["compare", &paths[0], &paths[1]]);
    let error = String::from_utf8(output.stderr).unwrap();
    let told = format!("error: 1 of 11 figures got slower: SpMM on graphs ddi, n = 4 f32, {name}\n");
    assert_eq!((output.status.code(), error), (Some(1), told));
}

/// Makes all times of a product one that none has, so that the quartiles lie apart too.
fn slow_down(product: &mut Value) {
    for (_, time) in product["time_us"].as_object_mut().unwrap() {
        *time = 1e6.into();
    }
}

#[test]
fn comparisons_name_what_got_slower_of_any_benchmark() {
    let lines = [
        "spmm gen:rmat:7:4 -n 4 --dtype f32 --repeat 30",
        "gemm 16 --dtype f32 --repeat 30",
        "cg gen:poisson2d:16 --dtype f64",
    ];
    let (_, old, _) = all("bench_all_old", "cpu", &lines);
    let (old_path, new_path) = (scratch("bench_all_old.json"), scratch("bench_all_new.json"));
    let equal = stdout(&["compare", &old_path, &old_path]);
    for of in ["rmat:7:4, n = 4 f32", "16 f32", "poisson2d:16 f64"] {
        assert!(equal.contains(&format!("| {of} ")), "no {of} in {equal}");
    }
    assert!(equal.matches("1.000").count() == 3 && !equal.contains("slower"), "{equal}");

    let compare = |new: &Value| {
        fs::write(&new_path, new.to_string()).unwrap();
        let output = run(&["compare", &old_path, &new_path]);
        let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().unwrap(), out, error)
    };
    let mut new = old.clone();
    slow_down(&mut new["sections"][0]["report"]["results"][0]["chosen"]);
    let rungs = new["sections"][2]["report"]["results"][0]["rungs"].as_array_mut().unwrap();
    slow_down(rungs.iter_mut().find(|rung| rung["rung"] == "CPU").unwrap());
    let (status, text, error) = compare(&new);
    let told = "2 of 3 figures got slower: SpMM rmat:7:4, n = 4 f32, automatic choice; CG poisson2d:16 f64, CPU";
    assert_eq!((status, error), (1, format!("error: {told}\n")));
    assert_eq!(text.matches("| slower |").count(), 2, "{text}");

    // Figures of one report alone are told, and no failure.
    let mut new = old.clone();
    new["sections"].as_array_mut().unwrap().remove(1);
    let (status, text, _) = compare(&new);
    let missing = text.lines().find(|line| line.contains("only in the old report")).unwrap();
    assert!(status == 0 && missing.starts_with("| GEMM"), "{text}");

    // What cannot be compared is refused.
    let mut other = old.clone();
    other["machine"]["model"] = "another".into();
    assert!(compare(&other).2.contains("the devices differ"));
    let mut other = old.clone();
    other["sections"][0]["report"]["method"]["cache"] = "cold".into();
    assert!(
        compare(&other).2.contains("the caches differ: \"as it comes\" in the old report, \"cold\" in the new one")
    );
    assert!(compare(&old["sections"][0]["report"]).2.contains("the benchmarks differ"));
    let mut newer = old.clone();
    newer["version"] = 3.into();
    assert!(compare(&newer).2.contains("a report of version 3, where this reads 2\n"));
    // The first version's clock was another.
    let mut older = old.clone();
    older["version"] = 1.into();
    let told = "a report of version 1, where this reads 2: its times lie between events around single calls";
    assert!(compare(&older).2.contains(told));
    let mut older = old.clone();
    older["sections"][1]["report"]["version"] = 1.into();
    assert!(compare(&older).2.contains("warpsparse.bench.gemm: a report of version 1"));
    // Ours of conjugate gradients have always been wall times.
    let mut older = old.clone();
    older["sections"][2]["report"]["version"] = 1.into();
    assert!(compare(&older).2.contains("warpsparse.bench.cg: a report of version 1, where this reads 2\n"));
    let mut other = old.clone();
    other["sections"][0]["report"]["method"]["clock"] = "graph".into();
    assert!(compare(&other).2.contains("the clocks differ: \"wall\" in the old report, \"graph\" in the new one"));
    assert!(compare(&json!({})).2.contains("no report of `warpsparse-bench`"));
    let nothing = json!({ "sections": [] });
    let mut empty = old.clone();
    empty["sections"] = nothing["sections"].clone();
    assert!(compare(&empty).2.contains("no figure in common"));
}

#[test]
fn clocks_are_compared() {
    let side = |us: f64| {
        let time = json!({ "median": us, "min": us, "q1": us, "q3": us, "max": us });
        json!({ "time_us": time, "clock": "graph", "call_us": null, "ncu_us": null })
    };
    let report = |ours: f64, cublas: f64| {
        let mut report = clock_report();
        let result = json!({ "name": "256", "ours": side(ours), "way": "cublasSgemm", "cublas": side(cublas) });
        report["results"] = json!([result]);
        report
    };
    let paths = ["clock_old.json", "clock_new.json"].map(scratch);
    let compare = |new: &Value| {
        fs::write(&paths[0], report(8.0, 6.0).to_string()).unwrap();
        fs::write(&paths[1], new.to_string()).unwrap();
        let output = run(&["compare", &paths[0], &paths[1]]);
        let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().unwrap(), out, error)
    };
    let cells = |text: &str| {
        let rows = common::rows(text, "Clock");
        rows.iter().map(|cells| cells[2..7].join(" ")).collect::<Vec<_>>()
    };
    let (status, text, error) = compare(&report(10.0, 6.0));
    assert_eq!((status, error.as_str()), (1, "error: 1 of 1 figures got slower: Clock 256 f32, ours\n"));
    assert_eq!(cells(&text), ["ours 8.00 10.0 1.250 slower", "cuBLAS 6.00 6.00 1.000 "]);
    // What cuBLAS takes is told, and not ours to answer for.
    let (status, text, _) = compare(&report(8.0, 7.0));
    assert_eq!(
        (status, cells(&text)),
        (0, vec!["ours 8.00 8.00 1.000 ".into(), "cuBLAS 6.00 7.00 1.167 slower".into()])
    );
    let mut newer = report(8.0, 6.0);
    newer["version"] = 2.into();
    assert!(compare(&newer).2.contains("a report of version 2, where this reads 1\n"));
    assert!(compare(&clock_report()).2.contains("no figure in common"));
}

/// A report of `warpsparse-bench clock` without results.
fn clock_report() -> Value {
    json!({
        "schema": "warpsparse.bench.clock",
        "version": 1,
        "warpsparse": "0.1.0",
        "date": "2026-01-01T00:00:00Z",
        "machine": { "device": "cuda:0", "model": "A GPU", "parallel_units": 132, "memory_bytes": null, "l2_bytes": null,
            "compute_capability": "9.0", "driver_cuda": "13.0", "copy_gb_per_s": 4000.0, "peak_f32_tflop_per_s": null,
            "peak_f64_tflop_per_s": null },
        "method": { "clock": "graph", "repeats": 30, "cache": "cold", "baselines": ["cuBLAS 13.1.0"], "text": "Medians." },
        "results": [],
        "skipped": [],
    })
}

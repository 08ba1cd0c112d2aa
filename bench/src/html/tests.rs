//! Reports made up, as pages.

use serde_json::{Value, json};

use super::{headline, page};
use crate::reading::Document;

fn times(median: f64) -> Value {
    json!({ "median": median, "min": 0.9 * median, "q1": 0.98 * median, "q3": 1.02 * median, "max": 1.5 * median })
}

fn product(name: &str, median: f64) -> Value {
    // 8000 bytes, whatever the time.
    json!({ "name": name, "kernel": format!("spmv_{name}"), "reason": "few rows & short ones", "bytes": 8000,
        "rotation": 3, "time_us": times(median), "gb_per_s": 8.0 / median, "percent_of_copy": 75.0,
        "relative_error": 1e-7, "error_over_bound": 0.1 })
}

fn matrix(entries: usize) -> Value {
    json!({ "source": "gen:x", "rows": 100, "columns": 100, "entries": entries, "min_row": 1, "mean_row": 5.0, "max_row": 9 })
}

/// Of `warpsparse-bench spmv`: the other library takes `ratio` times as long as the chosen kernel.
fn result(name: &str, dtype: &str, ratio: f64) -> Value {
    let mut baseline = product("cuSPARSE", 4.0 * ratio);
    baseline["variant"] = "CSR_ALG1".into();
    baseline.as_object_mut().unwrap().remove("kernel");
    json!({ "name": name, "matrix": matrix(4000), "dtype": dtype, "bytes": 8000, "rotation": 3,
        "chosen": product("chosen", 4.0), "forced": [product("vector t2", 3.0)], "baselines": [baseline] })
}

fn report(benchmark: &str, results: Vec<Value>) -> Value {
    json!({
        "schema": format!("warpsparse.bench.{benchmark}"),
        "version": 2,
        "warpsparse": "0.1.0",
        "date": "2026-01-01T00:00:00Z",
        "machine": { "device": "cuda:0", "model": "A <GPU>", "parallel_units": 132, "memory_bytes": 80u64 << 30,
            "l2_bytes": 50 << 20, "compute_capability": "9.0", "driver_cuda": "13.0", "copy_gb_per_s": 4000.0,
            "peak_f32_tflop_per_s": 60.0 },
        "method": { "repeats": 50, "cache": "cold", "baselines": ["cuSPARSE 12.5"], "text": "Medians of 50." },
        "results": results,
        "skipped": [{ "what": "pubmed", "reason": "data/pubmed.mtx.xz is not there" }],
    })
}

/// Every tag that is opened is closed in its turn.
fn assert_balanced(page: &str) {
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
}

#[test]
fn the_page_shows_the_figures_and_escapes_names() {
    let names = ["a<b>", "x & \"y\"", "rmat:20:16"];
    let results = names.iter().zip([0.5, 2.0, 8.0]).map(|(name, ratio)| result(name, "f32", ratio));
    let mut results: Vec<_> = results.collect();
    results.push(result("other", "f64", 1.25));
    let page = page(&report("spmv", results)).unwrap();
    assert_balanced(&page);
    for part in ["a&lt;b&gt;", "x &amp; &quot;y&quot;", "rmat:20:16", "A &lt;GPU&gt;", "cuSPARSE 12.5"] {
        assert!(page.contains(part), "no {part}");
    }
    // The geometric mean of 1/2, 2 and 8, and that of 1.25 alone.
    assert!(page.contains(">2.00×<") && page.contains(">1.25×<"));
    assert!(page.contains("slower on <b class=\"bad\">1</b> of 3, lowest 0.50× on a&lt;b&gt;"));
    assert!(page.contains("Where we are slower: 1 of 4"));
    assert!(page.contains("data/pubmed.mtx.xz is not there"));
    // Three cases by three kernels in f32, one in f64; both beneath a copy and only f32 beneath a peak.
    assert!(page.contains("9 measurements") && page.contains("3 measurements"));
    assert_eq!([page.matches("class=\"limit\"").count(), page.matches("60.0 TFLOP/s</text>").count()], [3, 1]);
    assert!(!page.contains("NaN") && !page.contains("inf"));
    assert!(!page.contains("http") && !page.contains("<script"), "the page takes nothing from elsewhere");
}

#[test]
fn what_is_far_behind_is_at_the_end_of_the_axis() {
    let results = [0.01, 1.5, 200.0].map(|ratio| result(&format!("by {ratio}"), "f32", ratio)).to_vec();
    let page = page(&report("spmv", results)).unwrap();
    let dots = |class: &str, place: &str| {
        page.matches(&format!("<span class=\"dot {class}\" style=\"left:{place}%\"")).count()
    };
    assert_eq!(
        [dots("bad beyond", "0.00"), dots("good beyond", "100.00"), page.matches(" beyond\"").count()],
        [1, 1, 2]
    );
    // 1.5 is between 1/8 and 8.
    assert_eq!(dots("good", &format!("{:.2}", 100.0 * (1.5f64 * 8.0).ln() / 64f64.ln())), 1);
    assert!(page.contains("0.010× on by 0.01") && page.contains("<li>cuSPARSE 12.5</li>"));
}

/// The rungs of a ladder, where `bars` are those of a page, in percent of what is fastest.
fn widths(page: &str) -> Vec<String> {
    let styles = page.split("style=\"left:").skip(1).map(|rest| rest.split_once('"').unwrap().0);
    styles.filter(|style| style.contains("width")).map(str::to_owned).collect()
}

#[test]
fn a_ladder_has_steps() {
    let kernel = |name: &str, median| {
        let mut kernel = product(name, median);
        kernel["tflop_per_s"] = (2.0 / median).into();
        kernel
    };
    let rungs = vec![kernel("naive", 8.0), kernel("tiles", 2.0), kernel("padded", 4.0), kernel("last", 1.0)];
    let result = json!({ "name": "100", "m": 100, "n": 100, "k": 100, "dtype": "f32", "kernels": rungs,
        "baselines": [product("cuBLAS", 1.25)] });
    let page = page(&report("gemm", vec![result])).unwrap();
    assert_balanced(&page);
    // From nothing to 1/8, to 1/2, back to 1/4, to all.
    let steps =
        [(0.0, 0.0), (0.0, 12.5), (0.0, 12.5), (12.5, 37.5), (0.0, 25.0), (25.0, 25.0), (0.0, 25.0), (25.0, 75.0)];
    let step = |(from, width)| format!("{from:.2}%;width:{width:.2}%");
    assert_eq!(widths(&page), steps.map(step));
    // Beside cuBLAS, which is at 80 %.
    assert!(page.contains(">1.25×<") && page.contains("class=\"roof\" style=\"left:80.00%\""));
}

#[test]
fn iterations_are_beside_the_libraries_in_a_graph() {
    let rung = |name: &str, kernel: &str, median| {
        let time_us = times(median);
        json!({ "rung": name, "kernel": kernel, "time_us": time_us, "iterations": 100, "repeats": 5 })
    };
    let rungs = json!([
        rung("sample style", "cuSPARSE CSR_ALG1", 100.0),
        rung("captured in a graph", "cuSPARSE CSR_ALG1", 30.0),
        { "rung": "persistent", "skipped": "too large" },
        rung("automatic", "cg_csr_f64", 10.0),
        rung("CPU", "cpu_cg", 1000.0),
    ]);
    let result = json!({ "name": "poisson2d:10", "matrix": matrix(460), "dtype": "f64", "rungs": rungs });
    let report = report("cg", vec![result]);
    let page = page(&report).unwrap();
    assert_balanced(&page);
    assert!(page.contains(">3.00×<") && page.contains("title=\"too large\""), "{page}");
    // 460 entries of 12 bytes, 101 offsets of 4, 12 vectors of 100 elements of 8, in 10 µs.
    assert!(page.contains(&format!("{:.2} GB/s, ", (460.0 * 12.0 + 404.0 + 9600.0) / 1e4)));
    let text = headline(&Document::read(&report).unwrap()).unwrap();
    assert!(text.contains("| CG f64    | cuSPARSE and cuBLAS in a graph |    3.00 |"), "{text}");
}

#[test]
fn host_call_times_stand_beside_device_times() {
    let with_calls = |mut way: Value, us: f64| {
        way["clock"] = "graph".into();
        way["call_us"] = times(us);
        way
    };
    let mut result = result("small", "f32", 0.5);
    result["chosen"] = with_calls(result["chosen"].clone(), 5.0);
    let mut compiled = product("oxicuda-sparse", 900.0);
    compiled["clock"] = "calls".into();
    result["baselines"] = json!([with_calls(result["baselines"][0].clone(), 15.0), compiled]);
    let report = report("spmv", vec![result]);
    let page = page(&report).unwrap();
    assert_balanced(&page);
    assert!(page.contains("Where we are slower: 1 of 2") && page.contains("; of host call times 3.00×"), "{page}");
    assert!(page.contains("2.00 µs (device time, in a CUDA graph)") && page.contains("host call time 15.0 µs"));
    // What has no device time is compared by host call times: 900 over 5.
    assert!(page.contains("against oxicuda-sparse, host call time") && page.contains(">180×<"), "{page}");
    let losses = page.find("Where we are slower").unwrap();
    assert!(losses < page.find("<h3>Speedups").unwrap());
    let text = headline(&Document::read(&report).unwrap()).unwrap();
    let told = "Slower in 1 of 2 cases:\n\n- 0.500 SpMV f32 small against cuSPARSE\n";
    assert!(text.find(told).unwrap() < text.find("| operation").unwrap(), "{text}");
    assert!(text.lines().any(|line| line.starts_with("| SpMV f32") && line.ends_with(" 3.00 |")), "{text}");
}

#[test]
fn the_clock_is_told_beside_the_profiler() {
    let side = |us: f64, ncu_us: Option<f64>| json!({ "time_us": times(us), "clock": "graph", "call_us": times(9.0), "ncu_us": ncu_us });
    let result = |name: &str, ncu: Option<f64>| json!({ "name": name, "ours": side(8.0, ncu), "way": "cublasSgemm", "cublas": side(6.0, ncu.map(|us| 0.8 * us)) });
    let mut report = report("clock", vec![result("256", Some(7.0)), result("512", None)]);
    report["version"] = 1.into();
    report["method"]["clock"] = "graph".into();
    let page = page(&report).unwrap();
    assert_balanced(&page);
    // 6/8 beside 0.8.
    for cell in ["8.00", "7.00", "6.00", "5.60", "0.750", "0.800", "-6.2%"] {
        assert!(page.contains(&format!("<td class=\"\">{cell}</td>")), "no {cell} in {page}");
    }
    // What is text is so in header and rows.
    for text in
        ["<th class=\"text\">cuBLAS by</th>", "<td class=\"text\">256</td>", "<td class=\"text\">cublasSgemm</td>"]
    {
        assert!(page.contains(text), "no {text} in {page}");
    }
    assert!(!page.contains("&lt;shape") && !page.contains("&lt;cuBLAS"));
    assert!(page.contains(">–</td>"));
    report["results"] = json!([]);
    let page = super::page(&report).unwrap();
    assert_balanced(&page);
    assert!(page.contains("Nothing was measured.") && !page.contains("<table"));
    // What cannot be read is not left out.
    report["results"] = json!([{ "name": "256" }]);
    assert!(super::page(&report).unwrap_err().starts_with("warpsparse.bench.clock: missing field"));
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let mut empty = result("empty", "f32", 1.0);
    empty["matrix"]["entries"] = 0.into();
    empty["baselines"] = json!([]);
    for results in [vec![], vec![empty]] {
        let page = page(&report("spmv", results)).unwrap();
        assert_balanced(&page);
        assert!(page.contains("There is no other library to compare with."));
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}

#[test]
fn what_is_no_report_has_no_page() {
    assert_eq!(page(&json!({})).unwrap_err(), "no report of `warpsparse-bench`");
    let mut newer = report("spmv", vec![]);
    newer["version"] = 3.into();
    assert_eq!(page(&newer).unwrap_err(), "a report of version 3, where this reads 2");
}

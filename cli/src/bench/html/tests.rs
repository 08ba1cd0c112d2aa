//! A report made up, as a page.

use super::page;
use crate::{
    bench::{
        report::{Machine, Method, RivalReport, Skipped, Variant},
        spmv::report::{Analysis, Forced, MatrixResult, Report, SCHEMA, VERSION},
    },
    measure::{DTypeName, Figures, MatrixReport, ProductReport},
    statistics::Spread,
};

fn product(kernel: &str, median: f64) -> ProductReport {
    let time_us = Spread { median, min: 0.9 * median, q1: 0.98 * median, q3: 1.02 * median, max: 1.5 * median };
    let figures =
        Figures { time_us, gb_per_s: 3000.0, percent_of_copy: 75.0, relative_error: 1e-7, error_over_bound: 0.1 };
    ProductReport { kernel: kernel.into(), reason: "few rows & short ones".into(), bytes: 1000, rotation: 3, figures }
}

fn result(name: &str, dtype: DTypeName, entries: usize, ratio: f64) -> MatrixResult {
    let (rows, median) = (entries / 5 + 1, entries as f64 / 4e5 + 3.0);
    let (min_row, mean_row, max_row) = (1, 5.0, 9);
    let matrix = MatrixReport { source: name.into(), rows, columns: rows, entries, min_row, mean_row, max_row };
    let forced =
        vec![Forced { name: "csr_vector, 2 lanes".into(), product: product("spmv_csr_vector_t2", 0.9 * median) }];
    MatrixResult {
        name: name.into(),
        matrix,
        dtype,
        bytes: 8 * entries + 12 * rows,
        rotation: 3,
        analysis: Analysis { time_us: 2.0 * median, products: 2.0 },
        chosen: product("spmv_csr_vector_t1", median),
        forced,
        rivals: vec![RivalReport {
            name: "cuSPARSE",
            variant: "CSR_ALG1".into(),
            figures: product("", ratio * median).figures,
            ratio,
            variants: vec![Variant { variant: "CSR_ALG1".into(), median_us: ratio * median }],
        }],
    }
}

fn report(results: Vec<MatrixResult>) -> Report {
    Report {
        schema: SCHEMA,
        version: VERSION,
        warpsparse: "0.1.0",
        date: "2026-01-01T00:00:00Z".into(),
        machine: Machine {
            device: "cuda:0".into(),
            model: "A <GPU>".into(),
            parallel_units: 132,
            memory_bytes: Some(80 << 30),
            l2_bytes: Some(50 << 20),
            compute_capability: Some("9.0".into()),
            driver_cuda: Some("13.0".into()),
            copy_gb_per_s: 4000.0,
        },
        method: Method {
            repeats: 50,
            cache: "cold",
            rivals: vec!["cuSPARSE 12.5".into()],
            text: "Medians of 50.".into(),
        },
        results,
        skipped: vec![Skipped { what: "pubmed".into(), reason: "data/pubmed.mtx.gz is not there".into() }],
    }
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
    let results = names.iter().zip([0.5, 2.0, 8.0]).map(|(name, ratio)| result(name, DTypeName::F32, 4000, ratio));
    let mut results: Vec<_> = results.collect();
    results.push(result("other", DTypeName::F64, 500_000, 1.25));
    let page = page(&report(results));
    assert_balanced(&page);
    for part in ["a&lt;b&gt;", "x &amp; &quot;y&quot;", "rmat:20:16", "A &lt;GPU&gt;", "few rows &amp; short ones"] {
        assert!(page.contains(part), "no {part}");
    }
    // The geometric mean of 1/2, 2 and 8, and that of 1.25 alone.
    assert!(page.contains("2.00×") && page.contains("1.25×"));
    assert!(page.contains("matrices, slower on 1"));
    assert!(page.contains("data/pubmed.mtx.gz is not there"));
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(!page.contains("NaN") && !page.contains("inf"));
    assert!(!page.contains("http") && !page.contains("<script"), "the page takes nothing from elsewhere");
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let mut empty = result("empty", DTypeName::F32, 0, 1.0);
    empty.rivals.clear();
    for page in [page(&report(Vec::new())), page(&report(vec![empty]))] {
        assert_balanced(&page);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}

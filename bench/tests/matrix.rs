//! `warpsparse-bench matrix` as a user runs it.

mod common;

use common::{bench, close, median, number, rows, us};

const OPERATIONS: [&str; 16] = [
    "transpose",
    "csr_from_triplets",
    "CSR to COO",
    "COO to CSR",
    "CSR to CSC",
    "CSC to CSR",
    "CSR to DIA",
    "DIA to CSR",
    "CSR to ELL",
    "ELL to CSR",
    "CSR to HYB",
    "HYB to CSR",
    "update_values",
    "scale_rows",
    "scale_cols",
    "diagonal",
];

#[test]
fn operations_are_measured_and_right() {
    for device in ["cpu", "emulated"] {
        let (text, report) = bench(
            &["matrix", "gen:poisson2d:12"],
            &["--device", device, "--dtype", "f64"],
            &format!("matrix_{device}.json"),
        );
        assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.bench.matrix".into(), &1.into()));
        let results = report["results"].as_array().unwrap();
        let operations: Vec<_> = results.iter().map(|result| result["operation"].as_str().unwrap()).collect();
        assert_eq!(operations, OPERATIONS);
        let of = |operation| &results[operations.iter().position(|it| *it == operation).unwrap()];
        // 144 rows, 5 * 144 - 4 * 12 entries.
        let (rows_of_matrix, entries) = (144.0, 672.0);
        let csr = 12.0 * entries + 4.0 * (rows_of_matrix + 1.0);
        for (operation, bytes) in [
            ("transpose", 2.0 * csr),
            ("csr_from_triplets", csr + 16.0 * entries),
            ("CSR to COO", csr + 16.0 * entries),
            ("update_values", 16.0 * entries),
            ("scale_cols", 20.0 * entries + 8.0 * rows_of_matrix),
        ] {
            close(number(of(operation), "bytes"), bytes);
        }
        for result in results {
            assert_eq!((&result["is_right"], &result["entries"]), (&true.into(), &672.into()), "{result}");
            close(number(result, "gb_per_s"), number(result, "bytes") / median(result) / 1e3);
        }
        let row = &rows(&text, "poisson2d:12")[0];
        assert_eq!(row[1..5], ["f64", "672", "transpose", &us(median(&results[0]))]);
        assert_eq!(row[6], "wall");
    }
}

#[test]
fn formats_that_would_be_padding_are_left_out() {
    let (_, report) = bench(&["matrix", "gen:rmat:8:4"], &["--device", "cpu", "--dtype", "f32"], "matrix_rmat.json");
    let skipped = report["skipped"].as_array().unwrap();
    assert!(skipped.iter().any(|it| it["what"].as_str().unwrap().starts_with("CSR to DIA, rmat:8:4")), "{skipped:?}");
}

//! `warpsparse multiply` as a user runs it.

use std::{fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;
use warpsparse::CsrMatrix;

fn multiply(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().arg("multiply").args(arguments).output().unwrap()
}

#[test]
fn writes_the_product() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("multiply_product.mtx.gz");
    let _ = fs::remove_file(&path);
    let out = path.to_str().unwrap();
    for device in ["cpu", "emulated"] {
        let output = multiply(&["gen:poisson2d:10", "--out", out, "--device", device, "--force", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let c = CsrMatrix::<f64>::read_matrix_market(&path).unwrap();
        assert_eq!((report["rows"].as_u64(), report["entries"].as_u64()), (Some(100), Some(c.nnz() as u64)));
        // The square of the 5-point stencil: 20 on the diagonal where there are four neighbours, and all rows that far inside sum to 0.
        let (columns, values) = c.row(55);
        assert_eq!(values[columns.iter().position(|&j| j == 55).unwrap()], 20.0);
        assert_eq!((columns.len(), values.iter().sum::<f64>()), (13, 0.0));
    }
    let again = multiply(&["gen:poisson2d:10", "--out", out]);
    assert!(again.status.code() == Some(1) && String::from_utf8_lossy(&again.stderr).contains("--force"));
}

#[test]
fn sizes_that_do_not_fit_are_an_error() {
    let output = multiply(&["gen:poisson2d:10", "gen:poisson2d:9", "--device", "cpu"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("where the operation needs 100"));
}

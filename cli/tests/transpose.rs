//! `warpsparse transpose` as a user runs it.

use std::{fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;
use warpsparse::{CsrMatrix, io::MatrixSource};

fn transpose(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().arg("transpose").args(arguments).output().unwrap()
}

#[test]
fn writes_the_transpose() {
    let source = "gen:uniform:40:5:70:seed=3";
    let a = source.parse::<MatrixSource>().unwrap().load::<f64>().unwrap();
    let mut expected: Vec<_> = a.triplets().map(|(i, j, value)| (j, i, value)).collect();
    expected.sort_unstable_by_key(|&(i, j, _)| (i, j));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("transpose.mtx.gz");
    let _ = fs::remove_file(&path);
    let out = path.to_str().unwrap();
    for device in ["cpu", "emulated"] {
        let output = transpose(&[source, "--out", out, "--device", device, "--force", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sizes = ["rows", "columns", "entries"].map(|name| report[name].as_u64());
        assert_eq!(sizes, [Some(70), Some(40), Some(a.nnz() as u64)]);
        let transpose = CsrMatrix::<f64>::read_matrix_market(&path).unwrap();
        assert_eq!((transpose.nrows(), transpose.ncols()), (70, 40));
        assert_eq!(transpose.triplets().collect::<Vec<_>>(), expected);
    }
    let again = transpose(&[source, "--out", out]);
    assert!(again.status.code() == Some(1) && String::from_utf8_lossy(&again.stderr).contains("--force"));
    let text = transpose(&[source, "--device", "cpu", "--dtype", "f32"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("70 x 40, 200 entries"));
}

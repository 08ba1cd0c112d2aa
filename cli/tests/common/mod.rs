//! The command as a user runs it, and what it prints, taken apart.

use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

pub(crate) fn warpsparse(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().args(arguments).output().unwrap()
}

#[track_caller]
pub(crate) fn stdout(arguments: &[&str]) -> String {
    let output = warpsparse(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

pub(crate) fn median(product: &Value) -> f64 {
    number(&product["time_us"], "median")
}

#[track_caller]
pub(crate) fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}");
}

//! The benchmarks as a user runs them, and what they print, taken apart.

#![allow(dead_code)] // every file of tests uses a part

use std::{fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;

pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse-bench").unwrap().args(arguments).output().unwrap()
}

#[track_caller]
pub(crate) fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a benchmark prints, and its JSON.
#[track_caller]
pub(crate) fn bench(command: &[&str], arguments: &[&str], name: &str) -> (String, Value) {
    let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned();
    let text = stdout(&[command, &["--json", &json], arguments].concat());
    (text, serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap())
}

pub(crate) fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

pub(crate) fn median(product: &Value) -> f64 {
    number(&product["time_us"], "median")
}

/// As tables have times in microseconds.
pub(crate) fn us(time: f64) -> String {
    if time < 9.995 { format!("{time:.2}") } else { format!("{time:.1}") }
}

#[track_caller]
pub(crate) fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}");
}

/// The cells of the lines that begin with this one.
pub(crate) fn rows<'a>(text: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    text.lines().filter(|line| line.starts_with('|')).map(cells).filter(|cells| cells[0] == first).collect()
}

//! `warpsparse-bench faults` as a user runs it.

mod common;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use common::run;

/// The exit status, and what is printed on stdout and stderr.
fn faults(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[&["faults", "--seed", "1", "--max-rows", "2000"], arguments].concat());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), stdout, stderr)
}

#[test]
fn ranks_are_killed_and_missed() {
    let (status, stdout, stderr) = faults(&["--devices", "cpu:3", "--runs", "6"]);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    assert!(stdout.starts_with("seed 1: 6 runs in ") && stdout.contains(" on cpu, cpu, cpu: 5 solved, "), "{stdout}");
    assert!(stdout.contains("; 1 with a rank killed, ") && stdout.ends_with("; 0 failed\n"), "{stdout}");
    assert!(stderr.contains("without nccl: process 0: ") && stderr.contains("without peers: "), "{stderr}");
    assert!(stderr.contains("run 3: 2 ranks by host, 27 rows of f64, rank 0 killed "), "{stderr}");
    // The same run again.
    let (status, _, again) = faults(&["--devices", "cpu:3", "--first", "3", "--runs", "1", "--transport", "host"]);
    let start =
        |text: &str| text.lines().find_map(|line| Some(line.strip_prefix("run 3: ")?.split_once(':')?.0.to_owned()));
    assert!(status == Some(0) && start(&again) == start(&stderr), "{again}");
}

/// A process that solves until it is killed, which would take it a minute to notice by itself. Its parent holds its stdin open until it dies.
#[test]
fn processes_end_with_their_parent() {
    let mut process = Command::new(assert_cmd::cargo::cargo_bin("warpsparse-bench"))
        .args(["faults", "--child", "until-killed", "--devices", "cpu:2", "--seed", "1", "--max-rows", "2000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "met");
    thread::sleep(Duration::from_millis(200));
    assert!(process.try_wait().unwrap().is_none());
    drop(process.stdin.take());
    let start = Instant::now();
    assert!(!process.wait().unwrap().success());
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn runs_that_fail_are_told() {
    let (status, stdout, stderr) =
        faults(&["--devices", "cpu:3", "--transport", "peers", "--first", "3", "--runs", "1"]);
    assert_eq!(status, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains(": 0 solved, ") && stdout.ends_with("; 1 failed\n"), "{stdout}");
    assert!(stderr.contains("FAILED: process ") && stderr.contains("no peer memory"), "{stderr}");
    assert!(
        stderr.contains(
            "error: 1 runs failed; `--seed 1 --first N --runs 1` and the same devices, transport and rows repeat run N"
        ),
        "{stderr}"
    );
}

#[test]
fn wrong_usage_is_told() {
    for (arguments, expected) in [
        (["--devices", "ranks:cpu"], "no launcher"),
        (["--minutes", "-1"], "unexpected argument"),
        (["--max-rows", "0"], "1..=100000000"),
    ] {
        let output = run(&[&["faults"][..], &arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{told}");
    }
}

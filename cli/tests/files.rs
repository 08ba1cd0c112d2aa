//! The command that writes files, as a user runs it.

use std::{fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;
use warpsparse::{CsrMatrix, Scalar, io::MatrixSource};

fn warpsparse(arguments: &[&str]) -> Output {
    Command::cargo_bin("warpsparse").unwrap().args(arguments).output().unwrap()
}

/// Runs the command and returns what it printed.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    let output = warpsparse(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that the command fails so, with this text among what it says, and prints no result.
#[track_caller]
fn refused(arguments: &[&str], status: i32, text: &str) {
    let output = warpsparse(arguments);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(status) && problem.contains(text), "{:?}: {problem}", output.status);
    assert!(output.stdout.is_empty());
}

/// A path for a file that a test writes; no such file is there.
fn scratch(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

fn load<T: Scalar>(source: &str) -> CsrMatrix<T> {
    source.parse::<MatrixSource>().unwrap().load().unwrap()
}

#[test]
fn convert_writes_what_it_reads() {
    let (plain, gzipped) = (scratch("uniform.mtx"), scratch("uniform.mtx.gz"));
    assert_eq!(done(&["convert", "gen:uniform:200:7:300", &plain]), "");
    let original = load::<f64>("gen:uniform:200:7:300");
    assert_eq!((original.nrows(), original.ncols(), original.nnz()), (200, 300, 1400));
    assert_eq!(load::<f64>(&plain), original);

    let report: Value = serde_json::from_str(&done(&["convert", &plain, &gzipped, "--json"])).unwrap();
    assert_eq!((&report["schema"], &report["version"]), (&"warpsparse.convert".into(), &1.into()));
    assert_eq!((&report["source"], &report["out"]), (&plain.as_str().into(), &gzipped.as_str().into()));
    assert_eq!(["rows", "columns", "entries"].map(|key| report[key].as_u64().unwrap()), [200, 300, 1400]);
    assert_eq!((&report["dtype"], report["bytes"].as_u64()), (&"f64".into(), Some(size(&gzipped))));
    assert!(size(&gzipped) < size(&plain));
    assert_eq!(load::<f64>(&gzipped), original);

    let single = scratch("uniform32.mtx");
    done(&["convert", &plain, &single, "--dtype", "f32"]);
    assert_eq!(load::<f32>(&single), load::<f32>(&plain));
    assert!(size(&single) < size(&plain), "of an f32, fewer digits");

    let empty = scratch("empty.mtx");
    done(&["convert", "gen:poisson2d:0", &empty]);
    assert_eq!(fs::read_to_string(&empty).unwrap(), "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
}

fn size(path: &str) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn convert_overwrites_by_force_alone() {
    let path = scratch("present.mtx");
    fs::write(&path, "before").unwrap();
    refused(&["convert", "gen:poisson2d:3", &path], 1, "present.mtx: the file is there already; --force overwrites it");
    // What fails leaves the file alone.
    refused(&["convert", "no/such/file.mtx", &path, "--force"], 1, "no/such/file.mtx: ");
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    done(&["convert", "gen:poisson2d:3", &path, "--force"]);
    assert_eq!(load::<f64>(&path), load::<f64>("gen:poisson2d:3"));
    // Even from itself.
    done(&["convert", &path, &path, "--force"]);
    assert_eq!(load::<f64>(&path), load::<f64>("gen:poisson2d:3"));
}

#[test]
fn convert_refuses_other_endings_and_folders_that_are_not_there() {
    for name in ["a.txt", "a.gz", "a.mtx.bz2", "mtx", "a.MTX"] {
        refused(&["convert", "gen:poisson2d:3", name], 2, "the file's name ends in .mtx or .mtx.gz");
    }
    refused(&["convert", "gen:poisson2d:3"], 2, "<OUT>");
    refused(&["convert", "gen:poisson2d:3", "no/such/a.mtx"], 1, "error: no/such/a.mtx: ");
}

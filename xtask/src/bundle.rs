//! `cargo xtask bundle`: what a machine with a GPU but without Rust needs to test and measure this tree.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;

/// The test targets of the library that run on devices.
const DEVICE_TESTS: &[&str] = &["device", "spmv"];

/// Collect the device tests, the command, the PTX and a script that runs them, in one folder to copy to another machine
/// of the same processor architecture.
#[derive(Args)]
pub(crate) struct Options {
    /// The folder, made anew.
    #[arg(long, default_value = "bundle")]
    out: PathBuf,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let out = root.join(&options.out);
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("removing {}", out.display()))?;
    }
    fs::create_dir_all(out.join("tests"))?;

    let mut cargo_arguments = vec!["test", "--no-run", "--package", "warpsparse"];
    cargo_arguments.extend(DEVICE_TESTS.iter().flat_map(|test| ["--test", test]));
    for (name, executable) in executables(root, &cargo_arguments)? {
        fs::copy(&executable, out.join("tests").join(name))?;
    }
    for (name, executable) in executables(root, &["build", "--package", "warpsparse-cli", "--bin", "warpsparse"])? {
        fs::copy(&executable, out.join(name))?;
    }
    copy_files(&root.join("ptx"), &out.join("ptx"))?;
    copy_files(&root.join("tests/data"), &out.join("data"))?;
    fs::copy(root.join("xtask/src/bundle/run.sh"), out.join("run.sh"))?;
    println!("{}: copy it to the other machine and run run.sh there", out.display());
    Ok(())
}

/// A line of `cargo --message-format=json`, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds with cargo, optimised and without symbols; the names of the targets that came out and their files.
fn executables(root: &Path, arguments: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(arguments)
        .args(["--release", "--message-format=json-render-diagnostics"])
        .args(["--config", "profile.release.strip=true"])
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    let messages = String::from_utf8(output.stdout)?;
    let messages = messages
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Message>, _>>()?;
    let built = messages
        .into_iter()
        .filter_map(|message| Some((message.target?.name, message.executable?)));
    Ok(built.collect())
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

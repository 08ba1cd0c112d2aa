//! Tells the command which commit it was built from, and its tests whether a GPU is required. Never fails: a package has no repository, nor need there be a git.

use std::{fs, process::Command};

/// What follows a commit that is not all that was built from.
const CHANGED: &str = ", changed since";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=WARPSPARSE_COMMIT={}", commit());
    println!("cargo:rerun-if-env-changed=WARPSPARSE_REQUIRE_GPU");
    println!("cargo:rustc-check-cfg=cfg(gpu_required)");
    if std::env::var("WARPSPARSE_REQUIRE_GPU").is_ok_and(|value| value == "1") {
        println!("cargo:rustc-cfg=gpu_required");
    }
}

fn commit() -> String {
    packaged().or_else(checked_out).unwrap_or_else(|| "unknown".into())
}

/// What `cargo package` wrote down.
fn packaged() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let hash: String = text.split_once("\"sha1\"")?.1.chars().filter(|digit| digit.is_ascii_alphanumeric()).collect();
    // A hash, and not what comes after it.
    let mark = if text.contains("\"dirty\": true") { CHANGED } else { "" };
    (hash.len() >= 40).then(|| hash[..40].to_owned() + mark)
}

fn checked_out() -> Option<String> {
    // A package in somebody else's repository is not of that repository's commit.
    if !fs::exists("../kernels-gpu/Cargo.toml").ok()? {
        return None;
    }
    let repository = fs::canonicalize(git(&["rev-parse", "--show-toplevel"])?).ok()?;
    if repository != fs::canonicalize("..").ok()? {
        return None;
    }
    let hash = git(&["rev-parse", "HEAD"])?;
    // Built again after a commit, and after a file was added; not after every change of one, so that the mark below may
    // be missing from a build that began clean.
    for name in ["HEAD", "index", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| fs::exists(path).unwrap_or(false)) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rerun-if-changed=src");
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty());
    Some(if is_changed { hash + CHANGED } else { hash })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

//! `cargo xtask bundle`: what a machine with a GPU but without Rust needs to test and measure this tree.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use cuda_builder::{CudaBuilder, KernelToolchain};
use serde::Deserialize;

use crate::kept::ARCHS;

/// The packages and targets that run on devices.
const BUILT: &[&str] = &[
    "--package=warpsparse",
    "--test=algorithms",
    "--test=amg",
    "--test=block_cg",
    "--test=bsr",
    "--test=cg",
    "--test=cg_misuse",
    "--test=convert",
    "--test=cudarc",
    "--test=dense",
    "--test=device",
    "--test=distributed",
    "--test=elementwise",
    "--test=formats_on_device",
    "--test=gemm",
    "--test=graph",
    "--test=half",
    "--test=krylov",
    "--test=learning",
    "--test=least_squares",
    "--test=matrix_values",
    "--test=orders_on_device",
    "--test=own_kernel",
    "--test=preconditioners",
    "--test=solver",
    "--test=spgemm",
    "--test=spmv",
    "--test=spmm",
    "--test=spmm_streams",
    "--test=spmm_reduce",
    "--test=spmv_formats",
    "--test=spmv_packed",
    "--test=spmv_properties",
    "--test=structure",
    "--test=training",
    "--test=triangular",
    "--test=vector",
    "--example=heat",
    "--example=pagerank",
    "--example=gcn",
    "--example=multigrid",
    "--example=train_gat",
    "--example=train_gcn",
    "--example=triangles",
    "--example=interop",
    "--package=warpsparse-bench",
    "--bin=warpsparse-bench",
    "--package=warpsparse-cli",
    "--bin=warpsparse",
    "--package=warpsparse-ladders",
    "--test=cg_ladder",
    "--test=sgemm_ladder",
    "--test=spmm_ladder",
    "--package=warpsparse-test-kernels",
    "--test=gpu",
    "--example=planted",
];

/// Unit tests, and their names here: the benchmarks', those of the libraries that they compare with among them, the library's, and the clock's.
const UNIT_TESTS: &[(&str, &[&str])] = &[
    ("bench", &["--package=warpsparse-bench", "--bin=warpsparse-bench"]),
    ("library", &["--package=warpsparse", "--lib"]),
    ("measure", &["--package=warpsparse-measure", "--lib"]),
];

/// Where tests of devices are. Other packages have tests of the same names.
const TESTS: &[&str] = &["tests", "ladders/tests"];

/// Has tests that need a GPU run, and not be ignored: some decide when they are built.
const GPU_REQUIRED: &[(&str, &str)] = &[("WARPSPARSE_REQUIRE_GPU", "1")];

/// The example that is a package of its own.
const OWN_KERNEL: &[&str] = &["--manifest-path=examples/own-kernel/Cargo.toml", "--bin=own-kernel"];

/// Collect the device tests, the examples, the command, the benchmarks, the PTX of the test kernels and a script that runs them, in
/// one folder to copy to another machine of the same processor architecture.
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
    for folder in ["tests", "examples"] {
        fs::create_dir_all(out.join(folder))?;
    }

    for (target, executable) in
        executables(root, BUILD, BUILT, GPU_REQUIRED)?.into_iter().chain(linked_with_libcuda(root)?)
    {
        let folder = match target.kind.first().map(String::as_str) {
            Some("test") if !TESTS.iter().any(|tests| target.src_path.starts_with(root.join(tests))) => continue,
            Some("test") => "tests",
            Some("example") if target.name != "planted" => "examples",
            _ => ".",
        };
        fs::copy(&executable, out.join(folder).join(target.name))?;
    }
    for (target, executable) in executables(root, BUILD, OWN_KERNEL, &[])? {
        fs::copy(&executable, out.join("examples").join(target.name))?;
    }
    for (name, built) in UNIT_TESTS {
        for (_, executable) in executables(root, BUILD_TESTS, built, GPU_REQUIRED)? {
            fs::copy(&executable, out.join("tests").join(name))?;
        }
    }
    let toolchain = KernelToolchain::find()?;
    for &arch in ARCHS {
        let ptx = out.join(format!("ptx/test_kernels.{arch}.ptx"));
        let builder = CudaBuilder::new(root.join("tests/kernels")).arch(arch).allow_faults(true).copy_to(ptx);
        builder.build_with(&toolchain)?;
    }
    for data in ["", "communities"] {
        copy_files(&root.join("tests/data").join(data), &out.join("data").join(data))?;
    }
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
    kind: Vec<String>,
    src_path: PathBuf,
}

/// The tests of the features `cust` and `faer`. They run with the other machine's libcuda, and are linked here with a stand-in.
fn linked_with_libcuda(root: &Path) -> Result<Vec<(Target, PathBuf)>> {
    let stub = root.join("target/cuda-stub");
    let made = Command::new(root.join(".ci/cuda-stub")).arg(&stub).status().context("running .ci/cuda-stub")?;
    if !made.success() {
        bail!(".ci/cuda-stub failed");
    }
    let stub = stub.to_str().context("a path that is no text")?;
    executables(
        root,
        BUILD,
        &["--package=warpsparse", "--features=cust,faer", "--test=cust", "--test=interop_faer"],
        &[("CUDA_LIBRARY_PATH", stub)],
    )
}

/// What cargo is asked for: targets, or their unit tests.
const BUILD: &[&str] = &["build"];
const BUILD_TESTS: &[&str] = &["test", "--no-run"];

/// Builds with cargo, optimised and without symbols; the targets that came out and their files.
fn executables(root: &Path, how: &[&str], built: &[&str], env: &[(&str, &str)]) -> Result<Vec<(Target, PathBuf)>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(how)
        .args(built)
        .envs(env.iter().copied())
        .args(["--release", "--message-format=json-render-diagnostics"])
        .args(["--config", "profile.release.strip=true"])
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    if !output.status.success() {
        bail!("cargo {} {} failed", how.join(" "), built.join(" "));
    }
    let messages = String::from_utf8(output.stdout)?;
    let messages = messages.lines().map(serde_json::from_str).collect::<Result<Vec<Message>, _>>()?;
    let built = messages.into_iter().filter_map(|message| Some((message.target?, message.executable?)));
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

//! Finds a rustc that can build for the GPU: one with its library sources.

use std::{
    env::{self, consts::EXE_SUFFIX},
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::CudaBuilderError;

/// The oldest usable rustc, 1.`MIN_MINOR`: edition 2024 needs it.
const MIN_MINOR: u32 = 85;

/// A rustc with its library sources, and a cargo to drive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelToolchain {
    /// The compiler itself, not a proxy.
    pub rustc: PathBuf,
    /// The cargo that drives it.
    pub cargo: PathBuf,
    /// The output of `rustc --version`.
    pub version: String,
}

/// A place that was searched for a toolchain, and what was wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The place, in words: the variable or the path.
    pub place: String,
    /// What was wrong.
    pub problem: String,
    /// The name of the toolchain, if it is one of rustup.
    pub rustup_toolchain: Option<String>,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// Where to look, in order.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Each candidate's name for messages, and its rustc.
    candidates: Vec<(String, PathBuf)>,
    /// The cargo to use instead of the one next to the rustc.
    cargo: Option<PathBuf>,
    /// The cargo to use if there is none next to the rustc.
    fallback_cargo: Vec<PathBuf>,
}

impl KernelToolchain {
    /// Finds the first usable of: `CUDA_BUILDER_RUSTC`; the active toolchain (which for a build script is the one that
    /// compiled it); the system's.
    ///
    /// # Errors
    /// `NoToolchain`, with every place searched.
    pub fn find() -> Result<Self, CudaBuilderError> {
        Search::of_this_process().run()
    }
}

impl Search {
    fn of_this_process() -> Self {
        let var = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(rustc) = var("CUDA_BUILDER_RUSTC") {
            // Requested explicitly: use no other.
            return Self {
                candidates: vec![(format!("CUDA_BUILDER_RUSTC={}", rustc.display()), rustc)],
                cargo: var("CUDA_BUILDER_CARGO"),
                fallback_cargo: vec!["/usr/bin/cargo".into(), "cargo".into()],
            };
        }
        let in_force = var("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut candidates = vec![
            ("CUDA_BUILDER_RUSTC".to_owned(), PathBuf::new()),
            (format!("the toolchain in force, {}", in_force.display()), in_force),
        ];
        if cfg!(unix) {
            candidates.extend(["/usr/bin/rustc", "/usr/local/bin/rustc"].map(|path| (path.to_owned(), path.into())));
        }
        Self { candidates, cargo: var("CUDA_BUILDER_CARGO"), fallback_cargo: vec!["cargo".into()] }
    }

    fn run(&self) -> Result<KernelToolchain, CudaBuilderError> {
        let mut tried = Vec::new();
        for (place, rustc) in &self.candidates {
            match self.check(rustc) {
                Ok(toolchain) => return Ok(toolchain),
                Err((problem, sysroot)) => tried.push(Rejected {
                    place: place.clone(),
                    problem,
                    rustup_toolchain: sysroot.as_deref().and_then(rustup_toolchain),
                }),
            }
        }
        Err(CudaBuilderError::NoToolchain(tried))
    }

    /// Returns the toolchain of this rustc, or the problem and the sysroot.
    fn check(&self, rustc: &Path) -> Result<KernelToolchain, (String, Option<PathBuf>)> {
        if rustc.as_os_str().is_empty() {
            return Err(("not set".to_owned(), None));
        }
        // A build script runs with RUSTUP_TOOLCHAIN set, so a rustup proxy answers for the toolchain in force here.
        let sysroot = PathBuf::from(output(rustc, &["--print", "sysroot"]).map_err(|problem| (problem, None))?);
        let version = output(rustc, &["--version"]).map_err(|problem| (problem, Some(sysroot.clone())))?;
        let bad = |problem: String| (format!("{version}, {problem}"), Some(sysroot.clone()));
        if minor_version(&version).is_none_or(|minor| minor < MIN_MINOR) {
            return Err(bad(format!("is older than 1.{MIN_MINOR}")));
        }
        let sources = sysroot.join("lib/rustlib/src/rust/library");
        if !sources.join("core").is_dir() {
            return Err(bad(format!("has no library sources in {}", sources.display())));
        }
        let own = |program: &str| sysroot.join("bin").join(format!("{program}{EXE_SUFFIX}"));
        let beside = rustc.with_file_name(format!("cargo{EXE_SUFFIX}"));
        let cargos = match &self.cargo {
            Some(cargo) => vec![cargo.clone()],
            None => [own("cargo"), beside].into_iter().chain(self.fallback_cargo.iter().cloned()).collect(),
        };
        let works = |cargo: &PathBuf| output(cargo, &["--version"]).is_ok();
        let Some(cargo) = cargos.iter().find(|cargo| works(cargo)).cloned() else {
            let names: Vec<_> = cargos.iter().map(|cargo| cargo.display().to_string()).collect();
            return Err(bad(format!("has no cargo that runs (tried {})", names.join(", "))));
        };
        let rustc = Some(own("rustc")).filter(|own| own.is_file()).unwrap_or_else(|| rustc.to_owned());
        Ok(KernelToolchain { rustc, cargo, version })
    }
}

/// What a program prints on one line, or why it does not.
fn output(program: &Path, args: &[&str]) -> Result<String, String> {
    let run = Command::new(program).args(args).output();
    let run = run.map_err(|error| format!("does not run: {error}"))?;
    if !run.status.success() {
        let stderr = String::from_utf8_lossy(&run.stderr);
        let detail = stderr.lines().next().unwrap_or_default();
        return Err(format!("`{} {}` failed ({}): {detail}", program.display(), args.join(" "), run.status));
    }
    Ok(String::from_utf8_lossy(&run.stdout).trim().to_owned())
}

/// 96 of `rustc 1.96.0 (ac68faa20 2026-05-25)`.
fn minor_version(version: &str) -> Option<u32> {
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}

fn rustup_toolchain(sysroot: &Path) -> Option<String> {
    let in_rustup = sysroot.parent()?.file_name()? == "toolchains";
    in_rustup.then(|| sysroot.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A directory of fake toolchains: shell scripts that answer as rustc and cargo do.
    struct Fakes(TempDir);

    impl Fakes {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        /// A child process writes the script. If this process did, a child that another test starts meanwhile would inherit the
        /// open file, and the script could not run until that child has executed its program ("text file busy").
        fn script(&self, path: &str, body: &str) -> PathBuf {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let write = r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod 755 "$0""#;
            let written = Command::new("sh").args(["-c", write]).arg(&path).arg(body).status().unwrap();
            assert!(written.success(), "{}", path.display());
            path
        }

        /// A rustc in `<name>/bin`, its sysroot `<name>`, with a cargo.
        fn toolchain(&self, name: &str, version: &str, sources: bool) -> PathBuf {
            let sysroot = self.0.path().join(name);
            if sources {
                fs::create_dir_all(sysroot.join("lib/rustlib/src/rust/library/core")).unwrap();
            }
            self.script(&format!("{name}/bin/cargo"), "echo cargo 1.90.0");
            let answers = format!(
                "if [ \"$1\" = --version ]; then echo 'rustc {version} (0 2026-01-01)'; else echo '{}'; fi",
                sysroot.display()
            );
            self.script(&format!("{name}/bin/rustc"), &answers)
        }
    }

    fn search(candidates: &[&Path]) -> Search {
        let name = |path: &&Path| (path.display().to_string(), path.to_path_buf());
        Search { candidates: candidates.iter().map(name).collect(), ..Search::default() }
    }

    #[test]
    fn the_first_usable_candidate_wins() {
        let fakes = Fakes::new();
        let without = fakes.toolchain("without", "1.95.0", false);
        let good = fakes.toolchain("good", "1.96.0", true);
        let later = fakes.toolchain("later", "1.97.0", true);
        let found = search(&[&without, &good, &later]).run().unwrap();
        assert_eq!(found.rustc, good);
        assert_eq!(found.cargo, good.with_file_name("cargo"));
        assert_eq!(found.version, "rustc 1.96.0 (0 2026-01-01)");
    }

    #[test]
    fn a_proxy_is_resolved_to_the_toolchain_behind_it() {
        let fakes = Fakes::new();
        let real = fakes.toolchain("real", "1.96.0", true);
        let proxy = fakes.script("proxies/rustc", &format!("exec '{}' \"$@\"", real.display()));
        assert_eq!(search(&[&proxy]).run().unwrap().rustc, real);
    }

    #[test]
    fn the_error_names_every_place_and_every_remedy() {
        let fakes = Fakes::new();
        let missing = fakes.0.path().join("nowhere/rustc");
        let old = fakes.toolchain("old", "1.84.1", true);
        let broken = fakes.script("broken/rustc", "echo 'toolchain is not installed' >&2; exit 1");
        let without = fakes.toolchain("toolchains/1.95.0-x86_64", "1.95.0", false);
        let message = search(&[&missing, &old, &broken, &without]).run().unwrap_err().to_string();
        for expected in [
            "nowhere/rustc: does not run",
            "rustc 1.84.1 (0 2026-01-01), is older than 1.85",
            "toolchain is not installed",
            "1.95.0-x86_64/lib/rustlib/src/rust/library",
            "rustup component add rust-src --toolchain 1.95.0-x86_64\n",
            "apt-get install -y --no-install-recommends rustc-web rust-web-src cargo-web",
            "set CUDA_BUILDER_RUSTC",
        ] {
            assert!(message.contains(expected), "no {expected:?} in:\n{message}");
        }
    }

    #[test]
    fn an_explicit_cargo_is_used_and_a_broken_one_reported() {
        let fakes = Fakes::new();
        let rustc = fakes.toolchain("good", "1.96.0", true);
        let cargo = fakes.script("elsewhere/cargo", "echo cargo 1.96.0");
        let with = |cargo: &Path| Search { cargo: Some(cargo.to_owned()), ..search(&[&rustc]) };
        assert_eq!(with(&cargo).run().unwrap().cargo, cargo);
        let message = with(&fakes.0.path().join("none")).run().unwrap_err().to_string();
        assert!(message.contains("has no cargo that runs"), "{message}");
    }
}

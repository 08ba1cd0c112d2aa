//! `cargo xtask mutants`: whether the tests notice mistakes that are planted in the kernels.

mod list;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::list::{MUTANTS, Mutant};

/// Plant mistakes in the kernels, one at a time, in a copy of the tracked files below target/, and run the emulated tests that should
/// fail, which without a mistake must pass. Prints a table of the mistakes and the tests that caught them; fails if one was not caught.
#[derive(Args)]
pub(crate) struct Options {
    /// Only mistakes in files whose paths contain this.
    #[arg(long)]
    only: Option<String>,
}

/// A mistake that makes a kernel run for longer counts as noticed: the emulator stops only what waits.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// How many tests a row of the table names.
const NAMED: usize = 3;

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let copy = Copy::of(root)?;
    let chosen = |mutant: &&Mutant| options.only.as_ref().is_none_or(|part| mutant.file.contains(part.as_str()));
    println!("| file | mistake | caught by |\n|---|---|---|");
    let mut survivors = 0;
    let row = |mutant: &Mutant, caught: Vec<String>| {
        survivors += usize::from(caught.is_empty());
        let named = match caught.len() {
            0 => "nothing".to_owned(),
            1..=NAMED => caught.join(", "),
            all => format!("{} and {} more", caught[..NAMED].join(", "), all - NAMED),
        };
        println!("| `{}` | {} | {named} |", mutant.file, mutant.mistake);
    };
    try_all(MUTANTS.iter().filter(chosen), |test, mutant| copy.failing_tests(test, mutant), row)?;
    if survivors > 0 {
        bail!("{survivors} mistakes were not caught");
    }
    Ok(())
}

/// Tells of each mistake which tests fail with it. Programs of tests run without a mistake first: what fails anyway notices none.
fn try_all<'a>(
    mutants: impl Iterator<Item = &'a Mutant>,
    failing_tests: impl Fn(&str, Option<&Mutant>) -> Result<Vec<String>>,
    mut tell: impl FnMut(&Mutant, Vec<String>),
) -> Result<()> {
    let mut known_to_pass = HashSet::new();
    for mutant in mutants {
        if known_to_pass.insert(mutant.test) {
            let failing = failing_tests(mutant.test, None).with_context(|| format!("{}, no mistake", mutant.test))?;
            if !failing.is_empty() {
                bail!("tests of {} fail without a mistake: {}", mutant.test, failing.join(", "));
            }
        }
        let caught = failing_tests(mutant.test, Some(mutant));
        tell(mutant, caught.with_context(|| format!("{}: {}", mutant.file, mutant.mistake))?);
    }
    Ok(())
}

/// The tracked files of the repository, in a folder of their own, which is kept for its build.
struct Copy {
    folder: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn of(root: &Path) -> Result<Self> {
        let (folder, target) = (root.join("target/mutants/tree"), root.join("target/mutants/target"));
        let tracked = output(Command::new("git").args(["ls-files", "-z"]).current_dir(root))?;
        for name in String::from_utf8(tracked.stdout)?.split_terminator('\0') {
            let (from, to) = (root.join(name), folder.join(name));
            // What has not changed is left alone, and so need not be built again.
            let Ok(contents) = fs::read(&from) else { continue };
            if fs::read(&to).is_ok_and(|old| old == contents) {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            fs::write(&to, contents).with_context(|| format!("writing {}", to.display()))?;
        }
        Ok(Self { folder, target })
    }

    /// The tests of a program that fail with the mistake, if there is one.
    fn failing_tests(&self, test: &str, mutant: Option<&Mutant>) -> Result<Vec<String>> {
        let Some(mutant) = mutant else { return self.run(test) };
        let path = self.folder.join(mutant.path());
        let original = fs::read_to_string(&path)?;
        if original.matches(mutant.right).count() != 1 {
            bail!("`{}` should be there once", mutant.right);
        }
        fs::write(&path, original.replace(mutant.right, mutant.wrong))?;
        let failing = self.run(test);
        fs::write(&path, original)?;
        failing
    }

    /// Builds and runs a program of tests, and returns those that fail.
    fn run(&self, test: &str) -> Result<Vec<String>> {
        let program = self.build(test)?;
        let report = self.target.join("report");
        let mut tests = Command::new(program)
            .arg("emulated")
            .current_dir(&self.folder)
            .stdout(fs::File::create(&report)?)
            .stderr(Stdio::null())
            .spawn()
            .context("running the tests")?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = tests.try_wait()? {
                break status;
            }
            if started.elapsed() > TIME_LIMIT {
                tests.kill()?;
                tests.wait()?;
                return Ok(vec!["the time limit".to_owned()]);
            }
            thread::sleep(Duration::from_millis(100));
        };
        let failed = failed(&fs::read_to_string(&report)?);
        if failed.is_empty() && !status.success() {
            return Ok(vec![format!("the tests' end: {status}")]);
        }
        Ok(failed)
    }

    /// Builds a program of tests. Without the feature `cuda` kernels are Rust functions and nothing else: nobody asks for PTX.
    fn build(&self, test: &str) -> Result<PathBuf> {
        let built = output(
            Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
                .current_dir(&self.folder)
                .env("CARGO_TARGET_DIR", &self.target)
                .args(["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"])
                .args(["--package=warpsparse", "--package=warpsparse-ladders", "--no-default-features"])
                .args(["--features=warpsparse/io,warpsparse/rayon", "--test", test]),
        )?;
        let messages = String::from_utf8(built.stdout)?;
        let program = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(PathBuf::from(message.get("executable")?.as_str()?))
        };
        messages.lines().find_map(program).context("cargo names no program")
    }
}

/// The names of the tests that a report calls failed.
fn failed(report: &str) -> Vec<String> {
    let mut names: Vec<_> = report
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.split_once(" ... FAILED"))
        .map(|(name, _)| name.trim().trim_end_matches("::emulated").to_owned())
        .collect();
    names.sort();
    names
}

/// What a command prints, if it succeeds.
fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn every_mistake_is_one_in_the_kernels() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for mutant in MUTANTS {
            let Mutant { file, mistake, right, wrong, test } = mutant;
            let source = fs::read_to_string(root.join(mutant.path())).unwrap();
            assert_eq!(source.matches(right).count(), 1, "{file}: {mistake}: `{right}`");
            let is_in = |folder: &str| {
                [format!("{test}.rs"), format!("{test}/main.rs")]
                    .iter()
                    .any(|name| root.join(folder).join(name).exists())
            };
            assert!(right != wrong && ["tests", "ladders/tests"].into_iter().any(is_in), "{file}: {mistake}");
        }
    }

    #[test]
    fn tests_that_fail_without_a_mistake_are_no_witnesses() {
        let runs = RefCell::new(Vec::new());
        let try_with = |broken: &str| {
            runs.take();
            let failing_tests = |test: &str, mutant: Option<&Mutant>| {
                runs.borrow_mut().push((test.to_owned(), mutant.is_some()));
                Ok(if mutant.is_some() || test == broken { vec!["products".to_owned()] } else { vec![] })
            };
            let mut told = 0;
            let result = try_all(MUTANTS.iter(), failing_tests, |_, _| told += 1);
            (result.map_err(|error| error.to_string()), told)
        };
        assert_eq!(try_with("none"), (Ok(()), MUTANTS.len()));
        let controls = runs.take().into_iter().filter(|(_, with_mistake)| !with_mistake).map(|(test, _)| test);
        let programs: HashSet<_> = MUTANTS.iter().map(|mutant| mutant.test.to_owned()).collect();
        assert_eq!((controls.clone().count(), controls.collect::<HashSet<_>>()), (programs.len(), programs));
        let first = MUTANTS[0].test;
        let message = format!("tests of {first} fail without a mistake: products");
        assert_eq!(try_with(first), (Err(message), 0));
        assert_eq!(runs.take(), [(first.to_owned(), false)]);
    }

    #[test]
    fn failed_tests_are_read_off_a_report() {
        let report = "test every_kernel_f32::emulated   ... FAILED\ntest more::emulated ... ok\n\nfailures:\n    every";
        assert_eq!(failed(report), ["every_kernel_f32"]);
    }
}

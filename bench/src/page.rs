//! `warpsparse-bench page`.

use std::path::PathBuf;

use clap::Args;
use measure::Outcome;

use super::{html, reading::read, session::write};

#[derive(Args)]
pub(crate) struct Options {
    /// The report, from `--json` of any benchmark.
    report: PathBuf,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let (value, _) = read(&options.report)?;
    let page = html::page(&value).map_err(|problem| format!("{}: {problem}", options.report.display()))?;
    Ok(write(&options.html, &page)?)
}

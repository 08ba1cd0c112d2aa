//! Files of residual norms.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use super::plot;

/// The residual norms before the first iteration and after each.
pub(super) struct History<'a> {
    pub(super) title: String,
    pub(super) norms: &'a [f64],
    /// What the tolerance is relative to.
    pub(super) b_norm: f64,
    pub(super) tolerance: f64,
}

/// The format of a history file.
#[derive(Clone)]
pub(super) struct HistoryOut {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy)]
enum Format {
    Csv,
    Svg,
}

pub(super) fn parse_out(text: &str) -> Result<HistoryOut, String> {
    let format = match text {
        _ if text.ends_with(".csv") => Format::Csv,
        _ if text.ends_with(".svg") => Format::Svg,
        _ => return Err("the history's name ends in .csv or .svg".into()),
    };
    Ok(HistoryOut { path: text.into(), format })
}

impl HistoryOut {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, history: &History<'_>) -> io::Result<()> {
        let text = match self.format {
            Format::Csv => table(history.norms),
            Format::Svg => plot::text(history),
        };
        fs::write(&self.path, text)
    }
}

fn table(norms: &[f64]) -> String {
    let mut text = String::from("iteration,residual_norm\n");
    for (iteration, norm) in norms.iter().enumerate() {
        writeln!(text, "{iteration},{norm:?}").expect("a string takes it");
    }
    text
}

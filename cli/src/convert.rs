//! `warpsparse convert`: converts a matrix to a Matrix Market file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use measure::{DTypeName, Outcome, emit};
use serde::Serialize;
use warpsparse::{Result, Scalar, io::MatrixSource};

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator: see `warpsparse spmv --help`.
    matrix: MatrixSource,
    /// The file to write: .mtx, or .mtx.gz to compress it. Rows are sorted by column, duplicates are summed.
    #[arg(value_parser = parse_out)]
    out: PathBuf,
    /// The element type: values are rounded to it, and written with the digits that it needs.
    #[arg(long, value_enum, default_value = "f64")]
    dtype: DTypeName,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn parse_out(text: &str) -> std::result::Result<PathBuf, String> {
    if text.ends_with(".mtx") || text.ends_with(".mtx.gz") {
        Ok(text.into())
    } else {
        Err("the file's name ends in .mtx or .mtx.gz".into())
    }
}

/// The report; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    source: String,
    out: String,
    dtype: DTypeName,
    rows: usize,
    columns: usize,
    entries: usize,
    /// The size of the file.
    bytes: u64,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let Options { matrix, out, .. } = options;
    if !options.force {
        check_absent(out)?;
    }
    let [rows, columns, entries] = match options.dtype {
        DTypeName::F32 => convert::<f32>(matrix, out)?,
        DTypeName::F64 => convert::<f64>(matrix, out)?,
    };
    let bytes = fs::metadata(out).map_err(|error| format!("{}: {error}", out.display()))?.len();
    eprintln!("{}: {bytes} bytes", out.display());
    if !options.json {
        return Ok(());
    }
    let report = Report {
        schema: "warpsparse.convert",
        version: 1,
        source: matrix.to_string(),
        out: out.display().to_string(),
        dtype: options.dtype,
        rows,
        columns,
        entries,
        bytes,
    };
    emit(&serde_json::to_string_pretty(&report)?)
}

/// Fails if the file exists.
pub(crate) fn check_absent(path: &Path) -> std::result::Result<(), String> {
    // Also a link that leads nowhere: it would be replaced.
    match path.symlink_metadata() {
        Ok(_) => Err(format!("{}: the file is there already; --force overwrites it", path.display())),
        Err(_) => Ok(()),
    }
}

/// Returns the numbers of rows, columns and entries.
fn convert<T: Scalar>(source: &MatrixSource, out: &Path) -> Result<[usize; 3]> {
    let matrix = measure::load::<T>(source)?;
    let [rows, columns, entries] = [matrix.nrows(), matrix.ncols(), matrix.nnz()];
    eprintln!("{source}: {rows} x {columns}, {entries} entries");
    matrix.write_matrix_market(out)?;
    Ok([rows, columns, entries])
}

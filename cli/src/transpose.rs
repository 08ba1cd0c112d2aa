//! `warpsparse transpose`: the transpose of a sparse matrix.

use std::{fmt, path::PathBuf, time::Instant};

use clap::Args;
use measure::{DTypeName, Outcome, emit};
use serde::Serialize;
use warpsparse::{Device, Result, Scalar, io::MatrixSource};

use crate::convert;

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz) or a generator: see `warpsparse spmv --help`.
    matrix: MatrixSource,
    /// The file to write: .mtx, or .mtx.gz to compress it.
    #[arg(long, value_parser = convert::parse_out)]
    out: Option<PathBuf>,
    /// The device: auto, cpu, cuda, cuda:N, or emulated (the GPU's kernels on the CPU, slow but checked).
    #[arg(long, default_value = "auto")]
    device: String,
    /// The element type.
    #[arg(long, value_enum, default_value = "f64")]
    dtype: DTypeName,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The report; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    matrix: String,
    device: String,
    dtype: DTypeName,
    /// Of the transpose.
    rows: usize,
    columns: usize,
    entries: usize,
    /// The time of the first transpose, which includes that of loading the kernels.
    seconds: f64,
}

pub(crate) fn run(options: &Options) -> Outcome {
    if let (Some(out), false) = (&options.out, options.force) {
        convert::check_absent(out)?;
    }
    let device = Device::from_name(&options.device)?;
    let report = match options.dtype {
        DTypeName::F32 => transpose::<f32>(options, &device)?,
        DTypeName::F64 => transpose::<f64>(options, &device)?,
    };
    emit(&if options.json { serde_json::to_string_pretty(&report)? } else { report.to_string() })
}

fn transpose<T: Scalar>(options: &Options, device: &Device) -> Result<Report> {
    let matrix = device.upload(&measure::load::<T>(&options.matrix)?)?;
    let start = Instant::now();
    let transpose = matrix.transpose()?;
    device.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(out) = &options.out {
        transpose.download()?.into_csr()?.write_matrix_market(out)?;
        eprintln!("{}", out.display());
    }
    Ok(Report {
        schema: "warpsparse.transpose",
        version: 1,
        matrix: options.matrix.to_string(),
        device: device.describe(),
        dtype: options.dtype,
        rows: transpose.nrows(),
        columns: transpose.ncols(),
        entries: transpose.nnz(),
        seconds,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { matrix, device, rows, columns, entries, seconds, .. } = self;
        writeln!(f, "transpose of {matrix}, on {device}")?;
        write!(f, "{rows} x {columns}, {entries} entries, in {:.3} ms", 1e3 * seconds)
    }
}

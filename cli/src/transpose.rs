//! `warpsparse transpose`: the transpose of a sparse matrix.

use std::{fmt, time::Instant};

use clap::Args;
use measure::{DTypeName, Outcome};
use serde::Serialize;
use warpsparse::{Device, Result, Scalar, io::MatrixSource};

use crate::output::Output;

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator: see `warpsparse spmv --help`.
    matrix: MatrixSource,
    #[command(flatten)]
    output: Output,
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
    let device = options.output.open_device()?;
    let report = match options.output.dtype {
        DTypeName::F32 => transpose::<f32>(options, &device)?,
        DTypeName::F64 => transpose::<f64>(options, &device)?,
    };
    options.output.report(&report)
}

fn transpose<T: Scalar>(options: &Options, device: &Device) -> Result<Report> {
    let matrix = device.upload(&measure::load::<T>(&options.matrix)?)?;
    let start = Instant::now();
    let transpose = matrix.transpose()?;
    device.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    options.output.write(&transpose)?;
    Ok(Report {
        schema: "warpsparse.transpose",
        version: 1,
        matrix: options.matrix.to_string(),
        device: device.describe(),
        dtype: options.output.dtype,
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

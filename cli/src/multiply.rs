//! `warpsparse multiply`: the product of two sparse matrices.

use std::{fmt, time::Instant};

use clap::Args;
use measure::{DTypeName, Outcome};
use serde::Serialize;
use warpsparse::{Device, Result, Scalar, io::MatrixSource};

use crate::output::Output;

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator: see `warpsparse spmv --help`.
    a: MatrixSource,
    /// The second matrix [default: the first].
    b: Option<MatrixSource>,
    #[command(flatten)]
    output: Output,
}

/// The report; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    a: String,
    b: String,
    device: String,
    dtype: DTypeName,
    rows: usize,
    columns: usize,
    entries: usize,
    /// How many products of two entries are added up.
    products: u64,
    /// The time of the first product, which includes that of loading the kernels.
    seconds: f64,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let device = options.output.open_device()?;
    let report = match options.output.dtype {
        DTypeName::F32 => multiply::<f32>(options, &device)?,
        DTypeName::F64 => multiply::<f64>(options, &device)?,
    };
    options.output.report(&report)
}

fn multiply<T: Scalar>(options: &Options, device: &Device) -> Result<Report> {
    let a = measure::load::<T>(&options.a)?;
    let b = options.b.as_ref().map_or_else(|| Ok(a.clone()), measure::load::<T>)?.canonical();
    let lengths = b.row_offsets();
    let of_row = |&k: &u32| lengths.get(k as usize + 1).map_or(0, |end| u64::from(end - lengths[k as usize]));
    let products = a.col_indices().iter().map(of_row).sum();
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let start = Instant::now();
    let c = on_a.multiply(&on_b)?;
    device.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    options.output.write(&c)?;
    Ok(Report {
        schema: "warpsparse.multiply",
        version: 1,
        a: options.a.to_string(),
        b: options.b.as_ref().unwrap_or(&options.a).to_string(),
        device: device.describe(),
        dtype: options.output.dtype,
        rows: c.nrows(),
        columns: c.ncols(),
        entries: c.nnz(),
        products,
        seconds,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { a, b, device, rows, columns, entries, products, seconds, .. } = self;
        writeln!(f, "{a} times {b}, on {device}")?;
        write!(f, "{rows} x {columns}, {entries} entries of {products} products, in {:.3} ms", 1e3 * seconds)
    }
}

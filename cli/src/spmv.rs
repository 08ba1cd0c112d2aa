//! `warpsparse spmv`: one sparse matrix times one vector, measured and checked.

use std::fmt;

use clap::{Args, ValueEnum};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;
use warpsparse::{
    CsrMatrix, Device, DeviceMatrix, DeviceVec, Lanes, Result, Scalar, SpmvOptions, Structure, io::MatrixSource,
};

use crate::{Outcome, emit, source, statistics::Spread};

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz) or a generator: gen:poisson2d:N, gen:poisson3d:N, gen:stencil27:N,
    /// gen:rmat:SCALE:EDGE_FACTOR, gen:uniform:ROWS:PER_ROW, gen:fem3:NODES.
    matrix: MatrixSource,
    /// auto, cpu, cuda, cuda:N, or emulated: the GPU's kernels on the CPU, slowly and under checks.
    #[arg(long, default_value = "auto")]
    device: String,
    /// The element type.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DTypeName,
    /// GPU threads that share a row: auto, 1, 2, 4, 8, 16, 32, or all for a table of all of them.
    #[arg(long, default_value = "auto", value_parser = parse_lanes)]
    lanes: LaneChoice,
    /// How many products to time.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum DTypeName {
    F32,
    F64,
}

#[derive(Clone, Copy)]
enum LaneChoice {
    One(Lanes),
    All,
}

fn parse_lanes(text: &str) -> std::result::Result<LaneChoice, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(LaneChoice::One(Lanes::Auto)),
        ("all", _) => Ok(LaneChoice::All),
        (_, Ok(lanes @ (1 | 2 | 4 | 8 | 16 | 32))) => Ok(LaneChoice::One(Lanes::Fixed(lanes))),
        _ => Err("lanes are auto, all, 1, 2, 4, 8, 16 or 32".into()),
    }
}

/// Everything that the command finds out; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    matrix: MatrixReport,
    device: String,
    dtype: DTypeName,
    /// Bytes that one product must move at least.
    bytes: usize,
    /// Bytes a second of a large copy on the device, read and written bytes counted.
    copy_gb_per_s: f64,
    repeats: u32,
    /// Copies of matrix and vectors that the products go round, so that none finds its data in the L2 cache.
    rotation: usize,
    products: Vec<ProductReport>,
}

#[derive(Serialize)]
struct MatrixReport {
    source: String,
    rows: usize,
    columns: usize,
    entries: usize,
    min_row: usize,
    mean_row: f64,
    max_row: usize,
}

#[derive(Serialize)]
struct ProductReport {
    kernel: String,
    reason: String,
    time_us: Spread,
    gb_per_s: f64,
    percent_of_copy: f64,
    /// `|y - reference| / |reference|` in the 2-norm, the reference taken in f64.
    relative_error: f64,
    /// The largest error of an element of `y` over what rounding can explain there: at most 1 in a correct product.
    error_over_bound: f64,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let device = Device::from_name(&options.device)?;
    let report = match options.dtype {
        DTypeName::F32 => measure::<f32>(options, &device)?,
        DTypeName::F64 => measure::<f64>(options, &device)?,
    };
    emit(&if options.json { serde_json::to_string_pretty(&report)? } else { report.to_string() })?;
    // Not `> 1.0`: a NaN is wrong too.
    let wrong = report.products.iter().find(|product| !matches!(product.error_over_bound, 0.0..=1.0));
    wrong.map_or(Ok(()), |product| {
        Err(format!("{} is off by {:.1e} times what rounding explains", product.kernel, product.error_over_bound)
            .into())
    })
}

fn measure<T: Scalar>(options: &Options, device: &Device) -> Result<Report> {
    let matrix = source::load::<T>(&options.matrix)?;
    let mut random = Pcg64::seed_from_u64(1);
    let x: Vec<T> = (0..matrix.ncols()).map(|_| T::from_f64(random.random_range(-1.0..1.0))).collect();
    let reference = reference_product(&matrix, &x);

    let copy_bandwidth = device.measure_copy_bandwidth()?;
    let choices = match options.lanes {
        LaneChoice::One(lanes) => vec![lanes],
        LaneChoice::All => [1, 2, 4, 8, 16, 32].map(Lanes::Fixed).to_vec(),
    };
    let (mut products, mut bytes, mut rotation) = (Vec::new(), 0, 0);
    for lanes in choices {
        let mut sets = Sets::new(device, &matrix, &x, &SpmvOptions::default().lanes(lanes))?;
        bytes = sets.first().spmv_bytes();
        rotation = sets.0.len();
        let (relative_error, error_over_bound) = errors(&sets.product()?, &reference);
        let time_us = Spread::of(&sets.time(device, options.repeat as usize)?);
        let bytes_per_second = bytes as f64 / (time_us.median * 1e-6);
        let choice = sets.first().describe();
        products.push(ProductReport {
            kernel: choice.kernel,
            reason: choice.reason,
            time_us,
            gb_per_s: bytes_per_second / 1e9,
            percent_of_copy: 100.0 * bytes_per_second / copy_bandwidth,
            relative_error,
            error_over_bound,
        });
    }

    let structure = matrix.structure();
    let Structure { nrows: rows, ncols: columns, nnz: entries, min_row, max_row, .. } = structure;
    let source = options.matrix.to_string();
    Ok(Report {
        schema: "warpsparse.spmv",
        version: 1,
        matrix: MatrixReport { source, rows, columns, entries, min_row, mean_row: structure.mean_row(), max_row },
        device: device.describe(),
        dtype: options.dtype,
        bytes,
        copy_gb_per_s: copy_bandwidth / 1e9,
        repeats: options.repeat,
        rotation,
        products,
    })
}

/// Copies of the matrix and its vectors on the device: as many as defeat the L2 cache when products go round them.
struct Sets<T>(Vec<(DeviceMatrix<T>, DeviceVec<T>, DeviceVec<T>)>);

impl<T: Scalar> Sets<T> {
    /// Between two uses of a set lie this many times the size of the L2 cache.
    const CACHE_MULTIPLE: usize = 4;
    const MOST: usize = 256;

    fn new(device: &Device, matrix: &CsrMatrix<T>, x: &[T], options: &SpmvOptions) -> Result<Self> {
        let set = || {
            let not_a_number = vec![T::from_f64(f64::NAN); matrix.nrows()];
            Ok((device.upload_with(matrix, options)?, device.upload_vec(x)?, device.upload_vec(&not_a_number)?))
        };
        let first = set()?;
        let l2_bytes = device.info()?.l2_bytes.unwrap_or(0) as usize;
        let count = (Self::CACHE_MULTIPLE * l2_bytes).div_ceil(first.0.spmv_bytes()).clamp(1, Self::MOST);
        let mut sets = vec![first];
        for _ in 1..count {
            sets.push(set()?);
        }
        Ok(Self(sets))
    }

    fn first(&self) -> &DeviceMatrix<T> {
        &self.0[0].0
    }

    fn multiply(&mut self, set: usize) -> Result<()> {
        let count = self.0.len();
        let (matrix, x, y) = &mut self.0[set % count];
        matrix.spmv(T::from_f64(1.0), x, T::from_f64(0.0), y)
    }

    /// The result of one product.
    fn product(&mut self) -> Result<Vec<T>> {
        self.multiply(0)?;
        self.0[0].2.to_vec()
    }

    /// How long each of `repeats` products takes, after a warm-up that touches every set.
    fn time(&mut self, device: &Device, repeats: usize) -> Result<Vec<std::time::Duration>> {
        let warm_up = self.0.len().max(10);
        let times = device.time_each(warm_up + repeats, |set| self.multiply(set))?;
        Ok(times[warm_up..].to_vec())
    }
}

/// The product in f64, and for each row twice the bound of what a sum of rounded products in `T` can be off (Higham,
/// "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1): twice, for the reference is rounded too.
fn reference_product<T: Scalar>(matrix: &CsrMatrix<T>, x: &[T]) -> Vec<(f64, f64)> {
    let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let row = |i: usize| {
        let row = matrix.row_range(i);
        let terms = row.len() as f64 + 3.0;
        let products = row.map(|k| matrix.values()[k].to_f64() * x[matrix.col_indices()[k] as usize].to_f64());
        let (sum, magnitude) = products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()));
        (sum, 2.0 * terms * epsilon * magnitude)
    };
    (0..matrix.nrows()).map(row).collect()
}

/// The relative error in the 2-norm, 0 where both are zero everywhere, and the largest error over its bound.
fn errors<T: Scalar>(found: &[T], reference: &[(f64, f64)]) -> (f64, f64) {
    let (mut difference, mut norm, mut over_bound) = (0.0, 0.0, 0.0);
    for (found, &(expected, bound)) in found.iter().zip(reference) {
        let error = (found.to_f64() - expected).abs();
        difference += error * error;
        norm += expected * expected;
        let ratio = if error == 0.0 { 0.0 } else { error / bound };
        // `f64::max` would drop a NaN.
        over_bound = if ratio > over_bound || ratio.is_nan() { ratio } else { over_bound };
    }
    (if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }, over_bound)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MatrixReport { source, rows, columns, entries, min_row, mean_row, max_row } = &self.matrix;
        writeln!(f, "matrix     {source}")?;
        writeln!(f, "           {rows} x {columns}, {entries} entries")?;
        writeln!(f, "           row lengths {min_row} to {max_row}, mean {mean_row:.2}")?;
        writeln!(f, "device     {}", self.device)?;
        writeln!(f, "           copies {:.0} GB/s", self.copy_gb_per_s)?;
        match self.products.as_slice() {
            [product] => self.write_one(f, product),
            _ => self.write_table(f),
        }
    }
}

impl Report {
    fn write_one(&self, f: &mut fmt::Formatter<'_>, product: &ProductReport) -> fmt::Result {
        let ProductReport { kernel, reason, time_us, gb_per_s, percent_of_copy, relative_error, .. } = product;
        let Spread { median, min, max } = time_us;
        let megabytes = self.bytes as f64 / 1e6;
        writeln!(f, "kernel     {kernel}")?;
        writeln!(f, "           {reason}")?;
        writeln!(f, "time       {median:.1} µs, median of {} ({min:.1} to {max:.1})", self.repeats)?;
        writeln!(f, "           {}", rotation_text(self.rotation))?;
        writeln!(f, "bandwidth  {gb_per_s:.1} GB/s for {megabytes:.1} MB, {percent_of_copy:.1}% of a copy")?;
        writeln!(f, "error      {relative_error:.1e} relative to the product in f64")
    }

    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "times      medians of {}, {}", self.repeats, rotation_text(self.rotation))?;
        writeln!(f, "{:26} {:>9} {:>8} {:>7} {:>9}", "kernel", "µs", "GB/s", "% copy", "error")?;
        for product in &self.products {
            let ProductReport { kernel, time_us, gb_per_s, percent_of_copy, relative_error, .. } = product;
            let median = time_us.median;
            writeln!(f, "{kernel:26} {median:>9.1} {gb_per_s:>8.0} {percent_of_copy:>7.1} {relative_error:>9.1e}")?;
        }
        Ok(())
    }
}

fn rotation_text(rotation: usize) -> String {
    match rotation {
        1 => "on one set of buffers".into(),
        _ => format!("on {rotation} sets of buffers in turn, more than the L2 cache holds"),
    }
}

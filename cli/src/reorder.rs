//! `warpsparse reorder`: permutes the rows and columns of a matrix.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::{Args, ValueEnum};
use measure::{DTypeName, Outcome, emit};
use serde::Serialize;
use warpsparse::{CsrMatrix, Error, Result, Scalar, io::MatrixSource};

use crate::{convert, spy};

#[derive(Args)]
pub(crate) struct Options {
    /// A Matrix Market file (.mtx, .mtx.gz, .mtx.xz) or a generator: see `warpsparse spmv --help`.
    matrix: MatrixSource,
    /// The file to write: .mtx, or .mtx.gz to compress it. Duplicates are summed.
    #[arg(value_parser = convert::parse_out)]
    out: PathBuf,
    /// The reordering method.
    #[arg(long, value_enum, default_value = "cluster")]
    method: Method,
    /// Permute only the rows, as for a matrix that is not square.
    #[arg(long)]
    rows: bool,
    /// Write the order as text: for each new row, its number in the old order, starting at 0.
    #[arg(long, value_name = "FILE")]
    order_out: Option<PathBuf>,
    /// Draw the matrix before and after, as two .png or .svg files.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], value_parser = spy::parse_out)]
    spy: Option<Vec<spy::Out>>,
    /// The element type: values are rounded to it, and written with the digits that it needs.
    #[arg(long, value_enum, default_value = "f64")]
    dtype: DTypeName,
    /// Overwrite OUT and the order's file if they exist.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Method {
    /// Reverse Cuthill-McKee: a small bandwidth, for square matrices.
    Rcm,
    /// Clustering: rows that share columns close together, for products with dense matrices.
    Cluster,
}

/// The maximum size of the pictures in either direction, in pixels.
const PICTURE_SIZE: u16 = 800;

/// The report; its JSON form is stable within a version.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    source: String,
    out: String,
    method: Method,
    /// Whether only the rows were permuted.
    rows_only: bool,
    /// The time to compute the order.
    seconds: f64,
    rows: usize,
    columns: usize,
    entries: usize,
    before: Figures,
    after: Figures,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let pictures = options.spy.iter().flatten().map(|picture| picture.path());
    let files: Vec<&Path> = [Some(&options.out), options.order_out.as_ref()]
        .into_iter()
        .flatten()
        .map(|path| &**path)
        .chain(pictures)
        .collect();
    if let Some((_, twice)) = (1..files.len()).map(|i| (i, files[i])).find(|&(i, path)| files[..i].contains(&path)) {
        let problem = format!("{} is named for two outputs", twice.display());
        return Err(Error::InvalidOption(problem).into());
    }
    if !options.force {
        [Some(&options.out), options.order_out.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|path| convert::check_absent(path))?;
    }
    let report = match options.dtype {
        DTypeName::F32 => reorder::<f32>(options)?,
        DTypeName::F64 => reorder::<f64>(options)?,
    };
    emit(&if options.json { serde_json::to_string_pretty(&report)? } else { report.to_string() })
}

fn reorder<T: Scalar>(options: &Options) -> std::result::Result<Report, Box<dyn std::error::Error>> {
    let Options { matrix: source, out, method, .. } = options;
    let matrix = measure::load::<T>(source)?;
    let [rows, columns, entries] = [matrix.nrows(), matrix.ncols(), matrix.nnz()];
    eprintln!("{source}: {rows} x {columns}, {entries} entries");
    let start = Instant::now();
    let order = match method {
        Method::Rcm => matrix.reverse_cuthill_mckee()?,
        Method::Cluster => matrix.cluster_rows(),
    };
    let seconds = start.elapsed().as_secs_f64();

    let rows_only = options.rows || rows != columns;
    let reordered = permute(&matrix, &order, rows_only)?;
    reordered.write_matrix_market(out)?;
    if let Some(path) = &options.order_out {
        write_order(path, &order)?;
    }
    if let Some([before, after]) = options.spy.as_deref() {
        spy::write_picture(&matrix, &source.to_string(), PICTURE_SIZE, before)?;
        spy::write_picture(&reordered, &format!("{source}, reordered"), PICTURE_SIZE, after)?;
    }
    Ok(Report {
        schema: "warpsparse.reorder",
        version: 1,
        source: source.to_string(),
        out: out.display().to_string(),
        method: *method,
        rows_only,
        seconds,
        rows,
        columns,
        entries,
        before: Figures::of(&matrix),
        after: Figures::of(&reordered),
    })
}

fn permute<T: Scalar>(matrix: &CsrMatrix<T>, order: &[u32], rows_only: bool) -> Result<CsrMatrix<T>> {
    let permuted = if rows_only {
        let columns: Vec<u32> = (0..matrix.ncols() as u32).collect();
        matrix.permute(order, &columns)
    } else {
        matrix.permute(order, order)
    };
    Ok(permuted?.canonical())
}

fn write_order(path: &Path, order: &[u32]) -> std::result::Result<(), String> {
    let lines: String = order.iter().map(|old| format!("{old}\n")).collect();
    fs::write(path, lines).map_err(|error| format!("{}: {error}", path.display()))
}

/// The locality of a matrix.
#[derive(Serialize)]
struct Figures {
    /// The maximum distance of an entry from the diagonal, in rows or columns.
    bandwidth: usize,
    /// The mean distance of entries from the diagonal; 0 without entries.
    mean_distance: f64,
    /// The mean number of distinct columns in 64 successive rows; 0 without rows. A product reads this many rows of the
    /// dense matrix from memory.
    columns_of_64_rows: f64,
    /// The same for 4096 rows.
    columns_of_4096_rows: f64,
}

impl Figures {
    fn of<T: Scalar>(matrix: &CsrMatrix<T>) -> Self {
        let structure = matrix.structure();
        let distance = matrix.triplets().fold(0.0, |sum, (row, column, _)| sum + row.abs_diff(column) as f64);
        Self {
            bandwidth: structure.lower_bandwidth.max(structure.upper_bandwidth),
            mean_distance: distance / structure.nnz.max(1) as f64,
            columns_of_64_rows: group_columns(matrix, 64),
            columns_of_4096_rows: group_columns(matrix, 4096),
        }
    }
}

/// The mean number of distinct columns in groups of `size` successive rows.
fn group_columns<T: Scalar>(matrix: &CsrMatrix<T>, size: usize) -> f64 {
    let groups = matrix.nrows().div_ceil(size);
    // The last group that had each column, counted from 1.
    let mut last_group = vec![0; matrix.ncols()];
    let mut count = 0usize;
    for (row, (columns, _)) in matrix.rows().enumerate() {
        for &column in columns {
            let last = &mut last_group[column as usize];
            count += usize::from(*last != row / size + 1);
            *last = row / size + 1;
        }
    }
    count as f64 / groups.max(1) as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, out, seconds, rows, columns, entries, before, after, .. } = self;
        let method = match self.method {
            Method::Rcm => "reverse Cuthill-McKee",
            Method::Cluster => "clustering",
        };
        let what = if self.rows_only { "rows alone" } else { "rows and columns" };
        writeln!(f, "matrix     {source}: {rows} x {columns}, {entries} entries")?;
        writeln!(f, "order      {method}, {what}, found in {seconds:.3} s")?;
        writeln!(f, "written    {out}")?;
        writeln!(f)?;
        writeln!(f, "{:36} {:>12} {:>12}", "", "before", "after")?;
        let mut line = |name, [before, after]: [f64; 2], digits: usize| {
            writeln!(f, "{name:36} {before:>12.digits$} {after:>12.digits$}")
        };
        line("bandwidth", [before, after].map(|figures| figures.bandwidth as f64), 0)?;
        line("mean distance from the diagonal", [before, after].map(|figures| figures.mean_distance), 1)?;
        line("different columns of 64 rows", [before, after].map(|figures| figures.columns_of_64_rows), 1)?;
        line("different columns of 4096 rows", [before, after].map(|figures| figures.columns_of_4096_rows), 1)
    }
}

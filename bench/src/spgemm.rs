//! `warpsparse-bench spgemm`: a sparse matrix times itself, and the Galerkin product of a coarse grid.

use clap::Args;
use measure::{Clock, DTypeName, Spread, geometric_mean};
use serde::Serialize;
use warpsparse::{CsrMatrix, DeviceMatrix, Error, Result, Scalar, SpgemmPlan, io::MatrixSource};

use super::{
    baselines::{Baseline, Number, spgemm_runs},
    matrix::wall_times,
    pool::peak_bytes,
    report::{Finished, Method, Report},
    session::{Benchmark, Session, Settings},
    suite::{self, Suite},
    table::{self, none},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Measure R A P instead, for a matrix of a grid of n x n x n points in natural order. P adds up boxes of 8 to 27 points, and R is its
    /// transpose [default matrix: gen:poisson3d:160]
    #[arg(long)]
    galerkin: bool,
    #[command(flatten)]
    pub(super) settings: Settings,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.spgemm",
    version: 1,
    baselines: &[Baseline::Cusparse],
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "C = A A, or C = R A P, all of it sparse in CSR",
    figures: "A product includes the pattern of C, its allocation, and its values, and waits for sizes in between, so it cannot be \
        captured in a graph. Times are wall times on the host, from the call until the device is idle, for both libraries; medians after a \
        warm-up. `plan` is a product with new values on the same patterns. Of cuSPARSE's algorithms the fastest counts; ratios are its time \
        over ours: above 1 cuSPARSE is slower. Its workspace is the memory that it requests besides C. Our peak is the most memory that a first \
        product has at once beyond its operands, C included. cuSPARSE and our plans compute R A P as R (A P); cuSPARSE uses its fastest algorithm for each of the two products. \
        Results are compared entry by entry.",
};

/// One product with elements of one type.
#[derive(Serialize)]
struct Product {
    name: String,
    dtype: DTypeName,
    /// Entries of A.
    entries: usize,
    /// Entries of C.
    c_entries: usize,
    c_bytes: usize,
    /// That a product has at most at once, C included.
    peak_bytes: Option<u64>,
    product_us: Spread,
    plan_us: Spread,
    /// One a cuSPARSE algorithm that computes it, fastest first.
    cusparse: Vec<CusparseRun>,
    /// Why there are none.
    refusal: Option<String>,
}

#[derive(Serialize)]
struct CusparseRun {
    algorithm: String,
    /// Median.
    time_us: f64,
    workspace_bytes: usize,
    /// The largest difference of an entry from ours, relative to the larger of the two; infinite if patterns differ.
    difference: f64,
}

pub(super) fn measure(options: &Options) -> measure::Outcome<Finished> {
    let suite = if options.galerkin { Suite::Grid } else { Suite::Squares };
    let mut report = options.settings.run(&BENCHMARK, suite, |session, source, dtype| match dtype {
        DTypeName::F32 => options.product::<f32>(session, source, dtype),
        DTypeName::F64 => options.product::<f64>(session, source, dtype),
    })?;
    let repeats = report.method.repeats;
    report.method = Method {
        clock: Clock::Wall,
        cache: "as it comes".into(),
        text: format!("{}. {} There are {repeats} repeats.", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

impl Options {
    fn product<T: Number>(
        &self,
        session: &Session<'_>,
        source: &MatrixSource,
        dtype: DTypeName,
    ) -> Result<[Product; 1]> {
        let matrix = session.load(|| source.load::<T>())?.canonical();
        let name = suite::name(source);
        Ok([match self.galerkin {
            false => square(session, name, dtype, &matrix)?,
            true => galerkin(session, format!("R A P, {name}"), dtype, &matrix)?,
        }])
    }
}

fn square<T: Number>(session: &Session<'_>, name: String, dtype: DTypeName, matrix: &CsrMatrix<T>) -> Result<Product> {
    let a = session.device.upload(matrix)?;
    let product = || a.multiply(&a);
    let (_, peak) = peak_bytes(session.device, product)?;
    let product_us = wall_times(session, || product().map(drop))?;
    let plan = SpgemmPlan::new(&a, &a)?;
    let mut c = plan.multiply(&a, &a)?;
    let plan_us = wall_times(session, || plan.compute(&a, &a, &mut c))?;
    let ours = c.download()?.into_csr()?;
    drop((plan, c, a));
    let (cusparse, refusal) = cusparse_runs(session, &[(matrix, matrix)], &ours);
    Ok(Product::new(name, dtype, (matrix, &ours), peak, [product_us, plan_us], cusparse, refusal))
}

fn galerkin<T: Number>(
    session: &Session<'_>,
    name: String,
    dtype: DTypeName,
    matrix: &CsrMatrix<T>,
) -> Result<Product> {
    let upload = |matrix: &CsrMatrix<T>| session.device.upload(matrix);
    let prolongation = boxes(matrix)?;
    let restriction = prolongation.transpose()?.canonical();
    let (a, r, p) = (upload(matrix)?, upload(&restriction)?, upload(&prolongation)?);
    let product = || a.triple_product(&r, &p);
    let (_, peak) = peak_bytes(session.device, product)?;
    let product_us = wall_times(session, || product().map(drop))?;
    let first = SpgemmPlan::new(&a, &p)?;
    let mut ap = first.multiply(&a, &p)?;
    let second = SpgemmPlan::new(&r, &ap)?;
    let mut c = second.multiply(&r, &ap)?;
    let both = |ap: &mut DeviceMatrix<T>, c: &mut DeviceMatrix<T>| {
        first.compute(&a, &p, ap)?;
        second.compute(&r, ap, c)
    };
    let plan_us = wall_times(session, || both(&mut ap, &mut c))?;
    let ours = product()?.download()?.into_csr()?;
    let (by_plan, ap) = (c.download()?.into_csr()?, ap.download()?.into_csr()?);
    drop((first, second, c, a, r, p));
    if by_plan != ours {
        return Err(Error::Unsupported("R A P with a plan has other bits than without".into()));
    }
    let (cusparse, refusal) = cusparse_runs(session, &[(matrix, &prolongation), (&restriction, &ap)], &ours);
    Ok(Product::new(name, dtype, (matrix, &ours), peak, [product_us, plan_us], cusparse, refusal))
}

/// The sums over boxes of a cubic grid: their sides are 2 and 3 points in turn, so they have 8, 12, 18 or 27 points.
fn boxes<T: Number>(matrix: &CsrMatrix<T>) -> Result<CsrMatrix<T>> {
    let n = matrix.nrows();
    let side = (n as f64).cbrt().round() as usize;
    if side.pow(3) != n || matrix.ncols() != n {
        return Err(Error::InvalidOption(format!(
            "--galerkin: {n} rows are no cube of a number, as those of poisson3d are"
        )));
    }
    // 0 0 1 1 1 2 2 3 3 3 ...
    let along = |i: usize| 2 * (i / 5) + usize::from(i % 5 > 1);
    let coarse = along(side - 1) + 1;
    let of_point = |i: usize| (along(i / (side * side)) * coarse + along(i / side % side)) * coarse + along(i % side);
    let offsets = (0..=n as u32).collect();
    let columns = (0..n).map(|i| of_point(i) as u32).collect();
    CsrMatrix::try_from_csr_data(n, coarse.pow(3), offsets, columns, vec![<T as Scalar>::from_f64(1.0); n])
}

/// The product of the last pair by cuSPARSE, after that of the one before: every algorithm for one product, the fastest of each for two.
fn cusparse_runs<T: Number>(
    session: &Session<'_>,
    products: &[(&CsrMatrix<T>, &CsrMatrix<T>)],
    ours: &CsrMatrix<T>,
) -> (Vec<CusparseRun>, Option<String>) {
    let mut fastest_first: Vec<CusparseRun> = Vec::new();
    if session.baselines.is_empty() {
        return (fastest_first, None);
    }
    for &operands in products {
        let before = fastest_first.into_iter().next();
        let runs = match spgemm_runs(session.device, operands, session.repeats()) {
            Ok(runs) => runs,
            Err(problem) => return (vec![], Some(problem)),
        };
        fastest_first = runs
            .into_iter()
            .map(|run| CusparseRun {
                algorithm: before.as_ref().map_or_else(String::new, |it| format!("{}, ", it.algorithm)) + run.algorithm,
                time_us: before.as_ref().map_or(0.0, |it| it.time_us) + Spread::of(&run.times).median,
                workspace_bytes: before.as_ref().map_or(0, |it| it.workspace_bytes).max(run.workspace),
                difference: difference(ours, &run.product.canonical()),
            })
            .collect();
        fastest_first.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
    }
    (fastest_first, None)
}

impl Product {
    fn new<T: Number>(
        name: String,
        dtype: DTypeName,
        (a, c): (&CsrMatrix<T>, &CsrMatrix<T>),
        peak_bytes: Option<u64>,
        [product_us, plan_us]: [Spread; 2],
        cusparse: Vec<CusparseRun>,
        refusal: Option<String>,
    ) -> Self {
        let c_bytes = c.nnz() * (4 + size_of::<T>()) + 4 * (c.nrows() + 1);
        Self {
            name,
            dtype,
            entries: a.nnz(),
            c_entries: c.nnz(),
            c_bytes,
            peak_bytes,
            product_us,
            plan_us,
            cusparse,
            refusal,
        }
    }

    /// cuSPARSE's time over this.
    fn ratio(&self, ours: &Spread) -> Option<f64> {
        Some(self.cusparse.first()?.time_us / ours.median)
    }
}

/// Relative to the larger of two entries, the largest of the differences.
fn difference<T: Number>(a: &CsrMatrix<T>, b: &CsrMatrix<T>) -> f64 {
    if (a.row_offsets(), a.col_indices()) != (b.row_offsets(), b.col_indices()) {
        return f64::INFINITY;
    }
    let pairs = a.values().iter().zip(b.values()).map(|(a, b)| (a.to_f64(), b.to_f64()));
    pairs.filter(|(a, b)| a != b).map(|(a, b)| (a - b).abs() / a.abs().max(b.abs())).fold(0.0, f64::max)
}

/// Fails where the pattern of C is another than cuSPARSE's.
fn check(report: &Report<Product>) -> std::result::Result<(), String> {
    for product in &report.results {
        if let Some(run) = product.cusparse.iter().find(|run| run.difference.is_infinite()) {
            return Err(format!(
                "{} {}: another pattern than by cuSPARSE's {}",
                product.name, product.dtype, run.algorithm
            ));
        }
    }
    Ok(())
}

fn markdown(report: &Report<Product>) -> String {
    let megabytes = |bytes: usize| format!("{:.1}", bytes as f64 / 1e6);
    let two_digits = |ratio: f64| format!("{ratio:.2}");
    let row = |product: &Product| {
        let best = product.cusparse.first();
        vec![
            product.name.clone(),
            product.dtype.to_string(),
            product.entries.to_string(),
            product.c_entries.to_string(),
            format!("{:.0}", product.product_us.median),
            format!("{:.0}", product.plan_us.median),
            best.map_or_else(none, |best| best.algorithm.clone()),
            best.map_or_else(none, |best| format!("{:.0}", best.time_us)),
            product.ratio(&product.product_us).map_or_else(none, two_digits),
            product.ratio(&product.plan_us).map_or_else(none, two_digits),
            megabytes(product.c_bytes),
            product.peak_bytes.map_or_else(none, |bytes| two_digits(bytes as f64 / product.c_bytes as f64)),
            best.map_or_else(none, |best| megabytes(best.workspace_bytes)),
        ]
    };
    let header = [
        "<A",
        "<type",
        "entries",
        "entries of C",
        "µs",
        "plan, µs",
        "<cuSPARSE",
        "µs",
        "ratio",
        "ratio, plan",
        "C, MB",
        "our peak / C",
        "its workspace, MB",
    ];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    let means = [DTypeName::F32, DTypeName::F64].into_iter().filter_map(|dtype| {
        let of = |time: fn(&Product) -> &Spread| -> Vec<f64> {
            let results = report.results.iter().filter(|product| product.dtype == dtype);
            results.filter_map(|product| product.ratio(time(product))).collect()
        };
        let (products, plans) = (of(|product| &product.product_us), of(|product| &product.plan_us));
        let least = products.iter().copied().fold(f64::INFINITY, f64::min);
        let (mean, plan) = (geometric_mean(&products)?, geometric_mean(&plans)?);
        let count = products.len();
        Some(format!("\nSpeedup over cuSPARSE, {dtype}, geometric mean of {count}: {mean:.2}, at least {least:.2}; with a plan {plan:.2}.\n"))
    });
    let table = table::markdown(&header, &rows);
    format!("{}\n\n{}\n\n{table}{}", report.machine.model, report.method.text, means.collect::<String>())
}

//! `warpsparse-bench orders`: what orders of rows cost, in products.

use std::time::Instant;

use clap::Args;
use measure::{Clock, DTypeName, Spread, shuffle};
use serde::Serialize;
use warpsparse::{CsrMatrix, DenseLayout, Device, DeviceIndices, DeviceMatrix, Result, Scalar, io::MatrixSource};

use super::{
    report::{Finished, Method, Report},
    session::{Benchmark, Session, Settings},
    suite::{self, Suite},
    table::{self, none},
};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
}

/// Columns of the dense matrix.
const COLUMNS: usize = 32;

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.orders",
    version: 1,
    baselines: &[],
    dtypes: &[DTypeName::F32],
    product: "Reverse Cuthill-McKee, the clustering of rows, and permutations by them, on the device",
    figures: "Rows and columns are shuffled before, by one random order. An order waits for sizes in between, so times of orders and \
        permutations are wall times on the host, from the call until the device is idle, on a device that the matrix is on; medians after a \
        warm-up. Products are y = A x and C = A B with 32 columns, row-major, of the shuffled matrix; their times are device times, one product \
        after another, as caches are then.",
};

/// One matrix with elements of one type.
#[derive(Serialize)]
struct Orders {
    name: String,
    dtype: DTypeName,
    rows: usize,
    entries: usize,
    spmv_us: Spread,
    spmm_us: Spread,
    /// Of square matrices.
    rcm: Option<Order>,
    clustering: Order,
}

#[derive(Serialize)]
struct Order {
    time_us: Spread,
    /// Of rows and columns for reverse Cuthill-McKee, of rows alone for the clustering.
    permute_us: Spread,
    spmv_products: f64,
    spmm_products: f64,
    /// The largest distance of an entry from the diagonal, shuffled and in this order.
    bandwidth: [usize; 2],
    /// The products in this order.
    ordered_spmv_us: Spread,
    ordered_spmm_us: Spread,
}

pub(super) fn measure(options: &Options) -> measure::Outcome<Finished> {
    let mut report = options.settings.run(&BENCHMARK, Suite::Default, |session, source, dtype| match dtype {
        DTypeName::F32 => orders::<f32>(session, source, dtype),
        DTypeName::F64 => orders::<f64>(session, source, dtype),
    })?;
    let repeats = report.method.repeats;
    report.method = Method {
        clock: Clock::Wall,
        cache: "as it comes".into(),
        text: format!("{}. {} There are {repeats} repeats.", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    let text = markdown(&report);
    Ok(Finished::new(&report, text, Ok(()))?)
}

fn orders<T: Scalar>(session: &mut Session<'_>, source: &MatrixSource, dtype: DTypeName) -> Result<[Orders; 1]> {
    let (device, repeats) = (session.device, session.repeats());
    let matrix = session.load(|| shuffled(&source.load::<T>()?))?;
    let a = device.upload(&matrix)?;
    let (spmv_us, spmm_us) = products(&a, repeats)?;
    let order = |find: &dyn Fn() -> Result<DeviceIndices>, columns: bool| {
        let time_us = wall_times(device, repeats, || find().map(drop))?;
        let order = find()?;
        let permute = || a.permute_by(Some(&order), columns.then_some(&order));
        let permute_us = wall_times(device, repeats, || permute().map(drop))?;
        let ordered = permute()?;
        let (ordered_spmv_us, ordered_spmm_us) = products(&ordered, repeats)?;
        Ok::<_, warpsparse::Error>(Order {
            spmv_products: time_us.median / spmv_us.median,
            spmm_products: time_us.median / spmm_us.median,
            time_us,
            permute_us,
            bandwidth: [bandwidth(&a), bandwidth(&ordered)],
            ordered_spmv_us,
            ordered_spmm_us,
        })
    };
    let is_square = matrix.nrows() == matrix.ncols();
    let rcm = is_square.then(|| order(&|| a.reverse_cuthill_mckee(), true)).transpose()?;
    let clustering = order(&|| a.cluster_rows(), false)?;
    let (name, rows, entries) = (suite::name(source), matrix.nrows(), matrix.nnz());
    Ok([Orders { name, dtype, rows, entries, spmv_us, spmm_us, rcm, clustering }])
}

/// The matrix with rows, and columns if it is square, in a random order, the same in each run.
fn shuffled<T: Scalar>(matrix: &CsrMatrix<T>) -> Result<CsrMatrix<T>> {
    let order = |count: usize| {
        let mut numbers: Vec<u32> = (0..count as u32).collect();
        shuffle(&mut numbers);
        numbers
    };
    Ok(matrix.permute(&order(matrix.nrows()), &order(matrix.ncols()))?.canonical())
}

/// The largest distance of an entry from the diagonal; 0 if the matrix has not been analysed.
fn bandwidth<T: Scalar>(matrix: &DeviceMatrix<T>) -> usize {
    matrix.structure().map_or(0, |structure| structure.lower_bandwidth.max(structure.upper_bandwidth))
}

/// Device times of products with a vector and a dense matrix.
fn products<T: Scalar>(a: &DeviceMatrix<T>, repeats: usize) -> Result<(Spread, Spread)> {
    let (device, one, zero) = (a.device(), T::from_f64(1.0), T::from_f64(0.0));
    let (mut x, mut y) = (device.zeros::<T>(a.ncols())?, device.zeros::<T>(a.nrows())?);
    x.fill_uniform(1, zero, one)?;
    a.spmv(one, &x, zero, &mut y)?;
    let spmv = device.time_each(repeats, |_| a.spmv(one, &x, zero, &mut y))?;
    let b = device.zeros_dense::<T>(DenseLayout::row_major(a.ncols(), COLUMNS))?;
    let mut c = device.zeros_dense::<T>(DenseLayout::row_major(a.nrows(), COLUMNS))?;
    a.spmm(one, &b, zero, &mut c)?;
    let spmm = device.time_each(repeats, |_| a.spmm(one, &b, zero, &mut c))?;
    Ok((Spread::of(&spmv), Spread::of(&spmm)))
}

fn wall_times(device: &Device, repeats: usize, mut operation: impl FnMut() -> Result<()>) -> Result<Spread> {
    operation()?;
    let time = |_| {
        device.synchronize()?;
        let begin = Instant::now();
        operation()?;
        device.synchronize()?;
        Ok(begin.elapsed())
    };
    let times = (0..repeats).map(time).collect::<Result<Vec<_>>>()?;
    Ok(Spread::of(&times))
}

fn markdown(report: &Report<Orders>) -> String {
    let us = |spread: &Spread| format!("{:.1}", spread.median);
    let of_order = |order: Option<&Order>| -> [String; 6] {
        let Some(order) = order else { return [none(), none(), none(), none(), none(), none()] };
        [
            us(&order.time_us),
            format!("{:.0}", order.spmv_products),
            format!("{:.0}", order.spmm_products),
            us(&order.permute_us),
            us(&order.ordered_spmv_us),
            us(&order.ordered_spmm_us),
        ]
    };
    let header = |order| {
        let columns = ["µs", "in y = A x", "in C = A B", "permuting, µs", "y = A x then, µs", "C = A B then, µs"];
        let first = ["<matrix", "<type", "entries", "y = A x, µs", "C = A B, µs"];
        first.into_iter().chain([order]).chain(columns).collect::<Vec<_>>()
    };
    let table = |bandwidths: bool, of: &dyn Fn(&Orders) -> Option<&Order>| {
        let rows = report.results.iter().map(|result| {
            let order = of(result);
            let products = [us(&result.spmv_us), us(&result.spmm_us)];
            let first = [result.name.clone(), result.dtype.to_string(), result.entries.to_string()];
            let bandwidth =
                order.map_or_else(none, |order| format!("{} to {}", order.bandwidth[0], order.bandwidth[1]));
            first.into_iter().chain(products).chain([bandwidth]).chain(of_order(order)).collect::<Vec<_>>()
        });
        let name = if bandwidths { "bandwidth" } else { "bandwidth, rows alone" };
        table::markdown(&header(name), &rows.collect::<Vec<_>>())
    };
    format!(
        "{}\n\n{}\n\nReverse Cuthill-McKee:\n\n{}\n\nClustering of rows:\n\n{}",
        report.machine.model,
        report.method.text,
        table(true, &|result| result.rcm.as_ref()),
        table(false, &|result| Some(&result.clustering)),
    )
}

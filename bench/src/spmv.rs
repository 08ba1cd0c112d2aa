//! `warpsparse-bench spmv`.

mod report;

use clap::Args;
use measure::{DTypeName, MatrixReport, Outcome, Problem};
use warpsparse::{CsrKernel, Device, Lanes, Result, Scalar, SpmvOptions, io::MatrixSource};

use self::report::{Analysis, Forced, MatrixResult};
use super::{
    baselines::{Baseline, Number},
    report::Finished,
    session::{Benchmark, Session, Settings, least_time},
    suite::{self, Suite},
};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.spmv",
    version: 2,
    baselines: Baseline::SPARSE,
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "y = 1 A x + 0 y",
    figures: "GB/s count the bytes that must move at least: values, column indices and row offsets once, x and y once. \
        Errors are relative to the product in f64, in the 2-norm. Ratios are another library's time over that of the \
        automatically chosen kernel: above 1 that library is slower. Of a library that multiplies by several algorithms, figures are the \
        fastest one's; those of cuSPARSE are preprocessed, on the matrix in CSR and in COO, which has the same arrays with the rows \
        written out.",
};

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let report = options.settings.run(&BENCHMARK, Suite::Default, |session, source, dtype| match dtype {
        DTypeName::F32 => measure_matrix::<f32>(session, source, dtype),
        DTypeName::F64 => measure_matrix::<f64>(session, source, dtype),
    })?;
    Ok(Finished::new(&report, report.to_string(), report.check())?)
}

fn measure_matrix<T: Number>(
    session: &mut Session<'_>,
    source: &MatrixSource,
    dtype: DTypeName,
) -> Result<[MatrixResult; 1]> {
    let name = suite::name(source);
    let problem = session.load(|| Problem::<T>::load(source))?;
    let measurement = session.measurement(&problem)?;

    let chosen = measurement.product(&SpmvOptions::default())?;
    let mut forced: Vec<Forced> = Vec::new();
    for (name, options) in candidates(session.device) {
        forced.push(Forced { name, product: measurement.product(&options)? });
    }
    let chosen_us = chosen.figures.us();
    let analysis_us = analysis_us(session.device, &problem)?;
    let baselines = session.baselines.clone();
    let baselines = session.measure_baselines(
        &baselines,
        |baseline| baseline.runs(&measurement),
        &chosen.figures.timing,
        &format!("{name} {dtype}"),
    );
    Ok([MatrixResult {
        matrix: MatrixReport::new(source, &problem.matrix.structure()),
        name,
        dtype,
        bytes: chosen.bytes,
        rotation: chosen.rotation,
        analysis: Analysis { time_us: analysis_us, products: analysis_us / chosen_us },
        chosen,
        forced,
        baselines,
    }])
}

/// Every kernel that can be forced, whatever the matrix. On the CPU there is but one, which is chosen anyway.
fn candidates(device: &Device) -> Vec<(String, SpmvOptions)> {
    let named = |options: SpmvOptions| {
        let Lanes::Fixed(lanes) = options.lanes else { unreachable!("a candidate has fixed lanes") };
        (format!("{} t{lanes}", if options.kernel == CsrKernel::Vector { "vector" } else { "adaptive" }), options)
    };
    if device.to_string() == "cpu" { Vec::new() } else { SpmvOptions::candidates().into_iter().map(named).collect() }
}

/// What an upload takes beyond the copy of the arrays, which from pageable memory varies. On the CPU nothing is copied.
fn analysis_us<T: Scalar>(device: &Device, problem: &Problem<T>) -> Result<f64> {
    /// Uploads and copies each.
    const REPEATS: usize = 5;
    let matrix = &problem.matrix;
    let upload = least_time(device, REPEATS, || device.upload(matrix).map(drop))?;
    let upload_us = upload.as_secs_f64() * 1e6;
    if !device.is_cuda() {
        return Ok(upload_us);
    }
    let copy = least_time(device, REPEATS, || {
        let offsets = device.upload_vec(matrix.row_offsets())?;
        let columns = device.upload_vec(matrix.col_indices())?;
        let values = device.upload_vec(matrix.values())?;
        drop((offsets, columns, values));
        Ok(())
    })?;
    Ok((upload_us - copy.as_secs_f64() * 1e6).max(0.0))
}

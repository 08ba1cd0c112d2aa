//! `warpsparse-bench trsv`: triangular solves with incomplete factors, and their analysis.

use clap::Args;
use measure::{Clock, DTypeName, Measurement, Spread, Timing, geometric_mean, random_elements};
use serde::Serialize;
use warpsparse::{
    CsrMatrix, DeviceMatrix, Diagonal, Ilu, Result, Scalar, Triangle, TriangularSolver, io::MatrixSource,
};

use super::{
    baselines::{Baseline, Number, spsv_run},
    matrix::wall_times,
    report::{Finished, Method, Report, Skipped},
    session::{Benchmark, Session, Settings},
    suite::{self, Suite},
    table::{self, none, us},
};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.trsv",
    version: 1,
    baselines: &[Baseline::Cusparse],
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "L x = b and U x = b, with the incomplete factors of a matrix without fill (Ilu::symmetric): L with ones on its diagonal, U with \
        the elements stored there, both in one matrix in CSR",
    figures: "Solves: device times on a GPU, of solves in a CUDA graph, on one set of buffers; what cannot be captured is timed between events on a \
        queue that is held back, and says so. Analyses: wall times on the host, from the call until the device is idle, without cuSPARSE's question for \
        the size of its workspace and the allocation of that, and with all of ours. Medians after a warm-up. Ratios are cuSPARSE's time over ours: above 1 \
        cuSPARSE is slower. An error is the largest of a row's residual, over what rounding explains: the row's entries, times the precision, times the \
        sum of their products' magnitudes and that of b.",
};

/// One triangle with elements of one type.
#[derive(Serialize)]
struct Solved {
    name: String,
    dtype: DTypeName,
    triangle: &'static str,
    rows: usize,
    /// Of the triangle, with its diagonal.
    entries: usize,
    levels: usize,
    solve: Timing,
    analysis_us: Spread,
    /// Of the solution.
    error: f64,
    cusparse: Option<CusparseSolve>,
}

/// cuSPARSE's solves.
#[derive(Serialize)]
struct CusparseSolve {
    solve: Timing,
    analysis_us: Spread,
    workspace_bytes: usize,
    error: f64,
}

/// The error up to which a solution is right: other orders of additions have other errors.
const LARGEST_ERROR: f64 = 2.0;

const FACTORS: [(&str, Triangle, Diagonal); 2] =
    [("L", Triangle::Lower, Diagonal::Unit), ("U", Triangle::Upper, Diagonal::Stored)];

pub(super) fn measure(options: &Options) -> measure::Outcome<Finished> {
    let mut report = options.settings.run(&BENCHMARK, Suite::Triangles, |session, source, dtype| match dtype {
        DTypeName::F32 => factors::<f32>(session, source, dtype),
        DTypeName::F64 => factors::<f64>(session, source, dtype),
    })?;
    let repeats = report.method.repeats;
    report.method = Method {
        cache: "as it comes".into(),
        text: format!("{}. {} There are {repeats} repeats at most.", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    Ok(Finished::new(&report, markdown(&report), check(&report))?)
}

/// Both factors of a matrix.
fn factors<T: Number>(session: &mut Session<'_>, source: &MatrixSource, dtype: DTypeName) -> Result<Vec<Solved>> {
    let matrix = session.load(|| source.load::<T>())?.canonical();
    let factors = Ilu::symmetric(&session.device.upload(&matrix)?)?.factors()?;
    let on_device = session.device.upload(&factors)?;
    let mut results = Vec::new();
    for factor in FACTORS {
        let (solved, refusal) = solved(session, (suite::name(source), dtype), &factors, &on_device, factor)?;
        if let Some(reason) = refusal {
            session.skip(format!("cuSPARSE, {} of {} {dtype}", factor.0, solved.name), reason);
        }
        results.push(solved);
    }
    Ok(results)
}

/// One factor, and why there are no figures of cuSPARSE.
fn solved<T: Number>(
    session: &Session<'_>,
    (name, dtype): (String, DTypeName),
    factors: &CsrMatrix<T>,
    on_device: &DeviceMatrix<T>,
    (factor, triangle, diagonal): (&'static str, Triangle, Diagonal),
) -> Result<(Solved, Option<String>)> {
    let (device, rows) = (session.device, factors.nrows());
    let right: Vec<T> = random_elements(rows, 0)?;
    let (b, mut x) = (device.upload_vec(&right)?, device.zeros(rows)?);
    let analysis_us = wall_times(session, || TriangularSolver::new(on_device, triangle, diagonal).map(drop))?;
    let solver = TriangularSolver::new(on_device, triangle, diagonal)?;
    let measurement = session.measurement_from(3, &())?;
    let solve = measurement.times(device, 1, |_| solver.solve(&b, &mut x))?.timing();
    let of_triangle = |&(row, column, _): &(usize, usize, T)| is_in(triangle, diagonal, row, column);
    let stored = factors.triplets().filter(of_triangle).count();
    let error = error(factors, (triangle, diagonal), &right, &x.to_vec()?);
    let (cusparse, refusal) = match session.baselines.is_empty() {
        true => (None, None),
        false => match cusparse_solve(session, &measurement, factors, (triangle, diagonal), &right) {
            Ok(solve) => (Some(solve), None),
            Err(reason) => (None, Some(reason)),
        },
    };
    let entries = stored + if diagonal == Diagonal::Unit { rows } else { 0 };
    let levels = solver.levels();
    Ok((Solved { name, dtype, triangle: factor, rows, entries, levels, solve, analysis_us, error, cusparse }, refusal))
}

fn cusparse_solve<T: Number>(
    session: &Session<'_>,
    measurement: &Measurement<'_, ()>,
    factors: &CsrMatrix<T>,
    factor: (Triangle, Diagonal),
    b: &[T],
) -> std::result::Result<CusparseSolve, String> {
    let run = spsv_run(measurement, factors, factor, b, session.repeats())?;
    Ok(CusparseSolve {
        solve: run.solves.timing(),
        analysis_us: Spread::of(&run.analyses),
        workspace_bytes: run.workspace,
        error: error(factors, factor, b, &run.x),
    })
}

/// Whether an entry is one of the triangle that is stored.
fn is_in(triangle: Triangle, diagonal: Diagonal, row: usize, column: usize) -> bool {
    match triangle {
        _ if row == column => diagonal == Diagonal::Stored,
        Triangle::Lower => column < row,
        Triangle::Upper => column > row,
    }
}

/// The largest of a row's residual in `f64`, over what rounding explains; NaN if an element is.
fn error<T: Scalar>(factors: &CsrMatrix<T>, (triangle, diagonal): (Triangle, Diagonal), b: &[T], x: &[T]) -> f64 {
    let precision = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let of_row = |row: usize| {
        let (begin, end) = (factors.row_offsets()[row] as usize, factors.row_offsets()[row + 1] as usize);
        let entries = factors.col_indices()[begin..end].iter().zip(&factors.values()[begin..end]);
        let mut products: Vec<f64> = entries
            .filter(|&(&column, _)| is_in(triangle, diagonal, row, column as usize))
            .map(|(&column, value)| value.to_f64() * x[column as usize].to_f64())
            .collect();
        if diagonal == Diagonal::Unit {
            products.push(x[row].to_f64());
        }
        let b = b[row].to_f64();
        let residual = (b - products.iter().sum::<f64>()).abs();
        let size = b.abs() + products.iter().map(|product| product.abs()).sum::<f64>();
        match residual {
            0.0 => 0.0,
            _ => residual / ((products.len() + 1) as f64 * precision * size),
        }
    };
    // Not a number is the largest of all.
    let larger = |largest: f64, error: f64| if largest.is_nan() || error <= largest { largest } else { error };
    (0..b.len()).map(of_row).fold(0.0, larger)
}

/// Fails if a solution is wrong.
fn check(report: &Report<Solved>) -> std::result::Result<(), String> {
    for solved in &report.results {
        let errors =
            [("ours", Some(solved.error)), ("cuSPARSE's", solved.cusparse.as_ref().map(|cusparse| cusparse.error))];
        for (whose, error) in errors {
            if let Some(error) = error.filter(|&error| error > LARGEST_ERROR || error.is_nan()) {
                let Solved { name, dtype, triangle, .. } = solved;
                return Err(format!("{triangle} of {name} {dtype}, {whose}: {error:.1e} times what rounding explains"));
            }
        }
    }
    Ok(())
}

fn markdown(report: &Report<Solved>) -> String {
    let row = |solved: &Solved| {
        let cusparse = solved.cusparse.as_ref();
        let ratio = |of: fn(&Solved, &CusparseSolve) -> f64| {
            cusparse.map_or_else(none, |cusparse| format!("{:.2}", of(solved, cusparse)))
        };
        let time = |timing: &Timing| match timing.clock {
            Clock::Held => format!("{} (no graph)", us(timing.time_us.median)),
            _ => us(timing.time_us.median),
        };
        vec![
            solved.name.clone(),
            solved.dtype.to_string(),
            solved.triangle.to_owned(),
            solved.rows.to_string(),
            solved.entries.to_string(),
            solved.levels.to_string(),
            time(&solved.solve),
            format!("{:.2}", solved.solve.time_us.median / solved.levels.max(1) as f64),
            cusparse.map_or_else(none, |cusparse| time(&cusparse.solve)),
            ratio(solve_ratio),
            us(solved.analysis_us.median),
            cusparse.map_or_else(none, |cusparse| us(cusparse.analysis_us.median)),
            ratio(analysis_ratio),
        ]
    };
    let header = [
        "<A",
        "<type",
        "<factor",
        "rows",
        "entries",
        "levels",
        "solve, µs",
        "µs a level",
        "cuSPARSE, µs",
        "ratio",
        "analysis, µs",
        "cuSPARSE, µs",
        "ratio",
    ];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    let means = [DTypeName::F32, DTypeName::F64].into_iter().filter_map(|dtype| {
        let of = |ratio: fn(&Solved, &CusparseSolve) -> f64| -> Vec<f64> {
            let results = report.results.iter().filter(|solved| solved.dtype == dtype);
            results.filter_map(|solved| Some(ratio(solved, solved.cusparse.as_ref()?))).collect()
        };
        let (solves, analyses) = (of(solve_ratio), of(analysis_ratio));
        let least = solves.iter().copied().fold(f64::INFINITY, f64::min);
        let (solve, analysis, count) = (geometric_mean(&solves)?, geometric_mean(&analyses)?, solves.len());
        Some(format!(
            "\nSpeedup over cuSPARSE, {dtype}, geometric mean of {count}: {solve:.2}, at least {least:.2}; of the analysis {analysis:.2}.\n"
        ))
    });
    let skipped = report.skipped.iter().map(|Skipped { what, reason }| format!("\nskipped {what}: {reason}\n"));
    let table = table::markdown(&header, &rows);
    format!(
        "{}\n\n{}\n\n{table}{}{}",
        report.machine.model,
        report.method.text,
        means.collect::<String>(),
        skipped.collect::<String>()
    )
}

fn solve_ratio(solved: &Solved, cusparse: &CusparseSolve) -> f64 {
    cusparse.solve.over(&solved.solve)
}

fn analysis_ratio(solved: &Solved, cusparse: &CusparseSolve) -> f64 {
    cusparse.analysis_us.median / solved.analysis_us.median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_seen() {
        // 2 7
        // 1 4
        let matrix =
            CsrMatrix::try_from_csr_data(2, 2, vec![0u32, 2, 4], vec![0, 1, 0, 1], vec![2.0f64, 7.0, 1.0, 4.0]);
        let (matrix, lower) = (matrix.unwrap(), (Triangle::Lower, Diagonal::Stored));
        assert_eq!(error(&matrix, lower, &[6.0, 11.0], &[3.0, 2.0]), 0.0);
        assert!(error(&matrix, lower, &[6.0, 11.0], &[3.0, 2.0 + 1e-9]) > 1e3);
        assert!(error(&matrix, lower, &[6.0, 11.0], &[f64::NAN, 2.0]).is_nan());
        assert_eq!(error(&matrix, (Triangle::Upper, Diagonal::Unit), &[20.0, 2.0], &[6.0, 2.0]), 0.0);
    }
}

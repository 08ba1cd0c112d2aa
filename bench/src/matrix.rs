//! `warpsparse-bench matrix`: operations on a matrix between products.

use std::time::{Duration, Instant};

use clap::Args;
use measure::{Clock, DTypeName, Outcome, Spread, random_elements, shuffle};
use serde::Serialize;
use warpsparse::{CsrMatrix, Device, DeviceMatrix, Error, Format, Result, Scalar, io::MatrixSource};

use super::{
    report::{Finished, Method, Report, Skipped},
    session::{Benchmark, Session, Settings},
    suite::{self, Suite},
    table::{self, us},
};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.matrix",
    version: 1,
    baselines: &[],
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "Operations on a matrix in CSR: new values, scaling by rows and columns, the diagonal, the transpose, the matrix of its shuffled \
        triplets, and conversions to and from the other formats",
    figures: "The first four only queue work: their times are device times, between events on a stream that is held back until the calls are queued. \
        The others wait for the size of their result: their times are wall times on the host, from the call until the device is idle, allocation \
        included. On other devices than GPUs all are wall times. Medians after a warm-up. GB/s count the bytes that must be read and written, each \
        once: the arrays of the operands and of the result, padding included. Each result is compared with that of the same operation on the host.",
};

/// One operation on one matrix with elements of one type.
#[derive(Serialize)]
struct Timed {
    name: String,
    dtype: DTypeName,
    entries: usize,
    operation: &'static str,
    /// Whether the time is the device's, rather than the host's.
    device_time: bool,
    time_us: Spread,
    /// That must be read and written.
    bytes: usize,
    gb_per_s: f64,
    percent_of_copy: f64,
    is_right: bool,
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let mut report = options.settings.run(&BENCHMARK, Suite::Large, |session, source, dtype| match dtype {
        DTypeName::F32 => Matrix::<f32>::load(session, source, dtype)?.measure(session),
        DTypeName::F64 => Matrix::<f64>::load(session, source, dtype)?.measure(session),
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

struct Matrix<T: Scalar> {
    name: String,
    dtype: DTypeName,
    on_host: CsrMatrix<T>,
    on_device: DeviceMatrix<T>,
}

impl<T: Scalar> Matrix<T> {
    fn load(session: &Session<'_>, source: &MatrixSource, dtype: DTypeName) -> Result<Self> {
        let on_host = session.load(|| source.load::<T>())?.canonical();
        let on_device = session.device.upload(&on_host)?;
        Ok(Self { name: suite::name(source), dtype, on_host, on_device })
    }

    fn measure(mut self, session: &mut Session<'_>) -> Result<Vec<Timed>> {
        let mut results = vec![self.transposed(session)?, self.of_triplets(session)?];
        for (format, there, back) in CONVERSIONS {
            match self.converted(session, format, (there, back)) {
                Ok(timed) => results.extend(timed),
                Err(error @ (Error::PaddingExceeded { .. } | Error::Unsupported(_))) => {
                    session.skip(format!("{there}, {} {}", self.name, self.dtype), error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        // Last, for they change the values.
        results.extend(self.values(session)?);
        Ok(results)
    }

    /// New values, scaling, the diagonal.
    fn values(&mut self, session: &Session<'_>) -> Result<[Timed; 4]> {
        let device = session.device;
        let (rows, columns, entries) = (self.on_host.nrows(), self.on_host.ncols(), self.on_host.nnz());
        let (s, offsets) = (size_of::<T>(), 4 * (rows + 1));
        let values: Vec<T> = random_elements(entries, 0)?;
        // Factors of -1 and 1 keep the values in range, however often they are applied.
        let signs = |count, stream| -> Result<Vec<T>> {
            let random: Vec<T> = random_elements(count, stream)?;
            Ok(random.into_iter().map(|x| T::from_f64(1f64.copysign(x.to_f64()))).collect())
        };
        let (by_row, by_column) = (signs(rows, 1)?, signs(columns, 2)?);
        let (new, row_factors, column_factors) =
            (device.upload_vec(&values)?, device.upload_vec(&by_row)?, device.upload_vec(&by_column)?);
        let a = &mut self.on_device;
        // Each is called once more than it is timed: twice the same factors cancel.
        let queued = session.repeats() | 1;
        let updates = device_times(device, queued, || a.update_values(&new))?;
        let updated = a.download()?.into_csr()?.values() == values;
        a.update_values(&new)?;
        let row_times = device_times(device, queued, || a.scale_rows(&row_factors))?;
        let unscaled = a.download()?.into_csr()?.values() == values;
        a.scale_rows(&row_factors)?;
        let column_times = device_times(device, queued, || a.scale_cols(&column_factors))?;
        a.scale_cols(&column_factors)?;
        let expected = |(row, column, _): (usize, usize, T), value: T| {
            T::from_f64(value.to_f64() * by_row[row].to_f64() * by_column[column].to_f64())
        };
        let scaled = a.download()?.into_csr()?;
        let scaled = self
            .on_host
            .triplets()
            .zip(&values)
            .zip(scaled.values())
            .all(|((at, &old), &new)| expected(at, old) == new);
        let diagonal_times = device_times(device, queued, || a.diagonal().map(drop))?;
        let mut diagonal = vec![T::default(); rows.min(columns)];
        self.on_host.triplets().zip(&values).filter(|((row, column, _), _)| row == column).for_each(
            |((row, column, value), &new)| {
                diagonal[row] = expected((row, column, value), new);
            },
        );
        let diagonal_is_right = self.on_device.diagonal()?.to_vec()? == diagonal;
        let timed = |operation, time_us, bytes, is_right| {
            self.timed(session, operation, (session.device.is_cuda(), time_us), bytes, is_right)
        };
        Ok([
            timed("update_values", updates, 2 * entries * s, updated),
            timed("scale_rows", row_times, 2 * entries * s + offsets + rows * s, unscaled && scaled),
            timed("scale_cols", column_times, entries * (2 * s + 4) + columns * s, scaled),
            timed("diagonal", diagonal_times, 4 * entries + offsets + 2 * diagonal.len() * s, diagonal_is_right),
        ])
    }

    fn transposed(&self, session: &Session<'_>) -> Result<Timed> {
        let times = wall_times(session, || self.on_device.transpose().map(drop))?;
        let found = self.on_device.transpose()?.download()?.into_csr()?;
        let bytes = csr_bytes(&self.on_host) + csr_bytes(&found);
        Ok(self.timed(session, "transpose", (false, times), bytes, found == self.on_host.transpose()?))
    }

    fn of_triplets(&self, session: &Session<'_>) -> Result<Timed> {
        let (device, matrix) = (session.device, &self.on_host);
        let mut triplets: Vec<(u32, u32, T)> =
            matrix.triplets().map(|(row, column, value)| (row as u32, column as u32, value)).collect();
        shuffle(&mut triplets);
        let rows = device.upload_vec(&triplets.iter().map(|triplet| triplet.0).collect::<Vec<_>>())?;
        let columns = device.upload_vec(&triplets.iter().map(|triplet| triplet.1).collect::<Vec<_>>())?;
        let values = device.upload_vec(&triplets.iter().map(|triplet| triplet.2).collect::<Vec<_>>())?;
        let of_triplets = || device.csr_from_triplets(matrix.nrows(), matrix.ncols(), &rows, &columns, &values);
        let times = wall_times(session, || of_triplets().map(drop))?;
        let is_right = of_triplets()?.download()?.into_csr()? == *matrix;
        let bytes = matrix.nnz() * (8 + size_of::<T>()) + csr_bytes(matrix);
        Ok(self.timed(session, "csr_from_triplets", (false, times), bytes, is_right))
    }

    fn converted(
        &self,
        session: &Session<'_>,
        format: Format,
        (there, back): (&'static str, &'static str),
    ) -> Result<[Timed; 2]> {
        let converted = self.on_device.convert(format)?;
        let there_times = wall_times(session, || self.on_device.convert(format).map(drop))?;
        let back_times = wall_times(session, || converted.convert(Format::Csr).map(drop))?;
        let found = converted.convert(Format::Csr)?.download()?.into_csr()?;
        // Zeros are no entries in DIA.
        let entries = |matrix: &CsrMatrix<T>| -> Vec<_> {
            matrix.triplets().filter(|triplet| format != Format::Dia || triplet.2 != T::default()).collect()
        };
        let on_host = converted.download()?.into_csr()?;
        let is_right = [found, on_host].iter().all(|matrix| entries(matrix) == entries(&self.on_host));
        let vectors = (self.on_host.nrows() + self.on_host.ncols()) * size_of::<T>();
        let bytes = csr_bytes(&self.on_host) + converted.spmv_bytes() - vectors;
        let timed = |operation, times| self.timed(session, operation, (false, times), bytes, is_right);
        Ok([timed(there, there_times), timed(back, back_times)])
    }

    fn timed(
        &self,
        session: &Session<'_>,
        operation: &'static str,
        (device_time, time_us): (bool, Spread),
        bytes: usize,
        is_right: bool,
    ) -> Timed {
        let gb_per_s = bytes as f64 / time_us.median / 1e3;
        Timed {
            name: self.name.clone(),
            dtype: self.dtype,
            entries: self.on_host.nnz(),
            operation,
            device_time,
            time_us,
            bytes,
            gb_per_s,
            percent_of_copy: 100.0 * gb_per_s * 1e9 / session.copy_bandwidth,
            is_right,
        }
    }
}

const CONVERSIONS: [(Format, &str, &str); 5] = [
    (Format::Coo, "CSR to COO", "COO to CSR"),
    (Format::Csc, "CSR to CSC", "CSC to CSR"),
    (Format::Dia, "CSR to DIA", "DIA to CSR"),
    (Format::Ell, "CSR to ELL", "ELL to CSR"),
    (Format::Hyb, "CSR to HYB", "HYB to CSR"),
];

fn csr_bytes<T: Scalar>(matrix: &CsrMatrix<T>) -> usize {
    matrix.nnz() * (4 + size_of::<T>()) + 4 * (matrix.nrows() + 1)
}

/// After a warm-up.
fn device_times(device: &Device, repeats: usize, mut operation: impl FnMut() -> Result<()>) -> Result<Spread> {
    operation()?;
    Ok(Spread::of(&device.time_each(repeats, |_| operation())?))
}

/// From each call until the device is idle, after a warm-up.
pub(crate) fn wall_times(session: &Session<'_>, mut operation: impl FnMut() -> Result<()>) -> Result<Spread> {
    operation()?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..session.repeats() {
        session.device.synchronize()?;
        let begin = Instant::now();
        operation()?;
        session.device.synchronize()?;
        times.push(begin.elapsed());
    }
    Ok(Spread::of(&times))
}

/// Fails if a result was wrong.
fn check(report: &Report<Timed>) -> std::result::Result<(), String> {
    match report.results.iter().find(|timed| !timed.is_right) {
        Some(Timed { operation, name, dtype, .. }) => {
            Err(format!("{operation} of {name} {dtype}: the result is wrong"))
        }
        None => Ok(()),
    }
}

fn markdown(report: &Report<Timed>) -> String {
    let row = |timed: &Timed| {
        vec![
            timed.name.clone(),
            timed.dtype.to_string(),
            timed.entries.to_string(),
            timed.operation.to_owned(),
            us(timed.time_us.median),
            format!("{:.1}", timed.time_us.percent()),
            if timed.device_time { "device" } else { "wall" }.to_owned(),
            format!("{:.0}", timed.gb_per_s),
            format!("{:.1}", timed.percent_of_copy),
        ]
    };
    let header = ["<matrix", "<type", "entries", "<operation", "µs", "±%", "<clock", "GB/s", "% copy"];
    let rows: Vec<_> = report.results.iter().map(row).collect();
    let skipped = report.skipped.iter().map(|Skipped { what, reason }| format!("\nskipped {what}: {reason}\n"));
    let table = table::markdown(&header, &rows);
    format!("{}\n\n{}\n\n{table}{}", report.machine.model, report.method.text, skipped.collect::<String>())
}

//! `warpsparse bench cg`: conjugate gradients with Jacobi's preconditioner, on a ladder from how programs call NVIDIA's
//! libraries to one launch for many iterations.

mod report;
mod rungs;
mod solver;
mod to_tolerance;
mod vendor;

use clap::Args;
use warpsparse::{CsrMatrix, Device, DeviceMatrix, Error, Result, Scalar, io::MatrixSource};

pub(super) use self::rungs::{AUTOMATIC, CAPTURED, CPU};
use self::{
    report::{CgResult, Outcome, RungReport},
    rungs::{PAIRS, RUNGS, Rung},
    solver::Solver,
    to_tolerance::ToTolerance,
};
use super::{
    report::{Finished, Method},
    rivals::{
        Rival,
        vendor_cg::{Number, VendorCg},
    },
    session::{Basics, Benchmark, Conditions, Session},
    suite,
};
use crate::{
    measure::{DTypeName, MatrixReport, random_elements},
    source,
};

#[derive(Args)]
pub(crate) struct Options {
    /// Matrix Market files (.mtx, .mtx.gz) and generators of symmetric positive definite matrices [default:
    /// gen:fem3:10000 gen:poisson2d:256 gen:poisson2d:2048]
    matrices: Vec<MatrixSource>,
    /// The element type; can be repeated [default: both]
    #[arg(long, value_enum)]
    dtype: Vec<DTypeName>,
    #[command(flatten)]
    pub(super) basics: Basics,
}

/// Two that stay in the caches, with long rows and with short ones, and one that does not.
const SUITE: [&str; 3] = ["gen:fem3:10000", "gen:poisson2d:256", "gen:poisson2d:2048"];

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.cg",
    version: 1,
    rivals: &[Rival::Cublas, Rival::Cusparse],
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "A x = b by conjugate gradients with Jacobi's preconditioner, b random and x = 0 at the start",
    figures: "Of our kernels, and the CPU, the time of an iteration is the difference of the times of two solutions, one of \
        about six times the iterations of the other, over the difference of the iterations; the time of a solution is the \
        longer one's wall time with all that belongs to it but what the first solution prepares for all. Of the libraries it \
        is the time of the iterations alone, by the device's clock unless the host waits for each dot. Iterations are so many \
        as take about 0.1 s, but no more than the system takes to a relative residual of 1e-10 (f32: 1e-4), and 25 at least. \
        Medians are of 5 to 50 such pairs, or solutions; ± is half the distance of the quartiles. Ratios are the time of an iteration of the libraries captured in a \
        graph over that of the row: below 1 the row is slower. The bound is the time that a copy takes for the bytes that an \
        iteration moves at least: the matrix and 13 vectors; it is told for systems larger than four times the L2 cache.",
};

pub(super) fn measure(options: &Options) -> crate::Outcome<Finished> {
    let sources = options.sources()?;
    let conditions = Conditions {
        against: None,
        dtype: options.dtype.clone(),
        basics: options.basics.clone(),
        repeat: *PAIRS.start() as u32,
        hot: true, // one set of buffers, as iterations have
    };
    let mut report = conditions.run(&BENCHMARK, &sources, |session, source, dtype| match dtype {
        DTypeName::F32 => measure_system::<f32>(session, source, dtype),
        DTypeName::F64 => measure_system::<f64>(session, source, dtype),
    })?;
    // Products have other words for their method.
    report.method = Method {
        cache: "as it comes".into(),
        text: format!("{}. {}", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    Ok(Finished::new(&report, report.to_string(), Ok(()))?)
}

impl Options {
    fn sources(&self) -> std::result::Result<Vec<MatrixSource>, Box<dyn std::error::Error>> {
        if self.matrices.is_empty() {
            return Ok(SUITE.iter().map(|text| text.parse()).collect::<Result<_>>()?);
        }
        match self.matrices.iter().find_map(suite::missing) {
            Some(missing) => Err(format!("{}: there is no such file", missing.display()).into()),
            None => Ok(self.matrices.clone()),
        }
    }
}

/// None if the method fails on the matrix, as where it is not positive definite.
fn measure_system<T: Number>(
    session: &mut Session<'_>,
    source: &MatrixSource,
    dtype: DTypeName,
) -> Result<Option<CgResult>> {
    let name = suite::name(source);
    let matrix = session.load(|| source::load::<T>(source))?;
    let b = random_elements::<T>(matrix.nrows(), 0)?;
    let system = System { matrix: &matrix, on_device: &session.device.upload(&matrix)?, b: &b, dtype };
    match system.measure(session) {
        Ok((rungs, to_tolerance)) => {
            let matrix = MatrixReport::new(source, &matrix.structure());
            Ok(Some(CgResult { name, matrix, dtype, rungs, to_tolerance }.with_ratios()))
        }
        Err(error @ (Error::Breakdown { .. } | Error::Unsupported(_))) => {
            session.skip(format!("{name} {dtype}"), error.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What is solved.
struct System<'a, T: Scalar> {
    matrix: &'a CsrMatrix<T>,
    on_device: &'a DeviceMatrix<T>,
    b: &'a [T],
    dtype: DTypeName,
}

impl<T: Number> System<'_, T> {
    fn measure(&self, session: &Session<'_>) -> Result<(Vec<RungReport>, ToTolerance)> {
        let device = session.device;
        let bound_us = self.bound_us(session)?;
        let (most, mut to_tolerance) = {
            let mut automatic = Solver::new(self.on_device, self.b, warpsparse::CgMethod::Auto)?;
            (automatic.iterations_to(probe(self.dtype))?, ToTolerance::measure(&mut automatic, self.dtype)?)
        };

        // The libraries' vectors are gone before ours are measured.
        let mut vendor = VendorCg::new(self.matrix, self.b, device);
        to_tolerance.compare(&mut vendor);
        let mut rungs = Vec::new();
        for (name, rung) in RUNGS {
            let outcome = match rung {
                Rung::Vendor(way) => vendor::measure(&mut vendor, way, most),
                Rung::Ours(_) if device.to_string() == "cpu" => Outcome::skipped("it runs on GPUs"),
                Rung::Ours(method) => {
                    vendor = Err(String::new());
                    solver::outcome(Solver::new(self.on_device, self.b, method), most)?
                }
                Rung::Cpu => {
                    let matrix = Device::cpu().upload(self.matrix)?;
                    solver::outcome(Solver::new(&matrix, self.b, warpsparse::CgMethod::Auto), most)?
                }
            };
            let is_bound = rung != Rung::Cpu || device.to_string() == "cpu";
            rungs.push(RungReport { rung: name, outcome: outcome.with_bound(bound_us.filter(|_| is_bound)) });
        }
        Ok((rungs, to_tolerance))
    }

    /// The time that a copy takes for what an iteration moves at least, if the system is larger than the L2 cache holds.
    fn bound_us(&self, session: &Session<'_>) -> Result<Option<f64>> {
        /// Vectors that an iteration reads or writes.
        const VECTORS: usize = 13;
        /// Vectors that there are: x, r, p, A p and the diagonal.
        const STORED: usize = 5;
        let n = self.matrix.nrows();
        let matrix = self.matrix.nnz() * (4 + size_of::<T>()) + 4 * (n + 1);
        let of_vectors = |count: usize| count * n * size_of::<T>();
        let Some(l2_bytes) = session.device.info()?.l2_bytes else { return Ok(None) };
        let is_large = (matrix + of_vectors(STORED)) as u64 > 4 * l2_bytes;
        Ok(is_large.then(|| (matrix + of_vectors(VECTORS)) as f64 / session.copy_bandwidth * 1e6))
    }
}

/// The relative residual down to which iterations are timed.
fn probe(dtype: DTypeName) -> f64 {
    match dtype {
        DTypeName::F32 => 1e-4,
        DTypeName::F64 => 1e-10,
    }
}

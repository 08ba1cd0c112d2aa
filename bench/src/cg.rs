//! `warpsparse-bench cg`: conjugate gradients with Jacobi's preconditioner, on a ladder from how programs call NVIDIA's
//! libraries to one launch for many iterations.

mod report;
mod residual;
mod rungs;
mod solver;
mod to_tolerance;
mod vendor;

use clap::Args;
use measure::{Clock, DTypeName, MatrixReport, random_elements};
use warpsparse::{CsrMatrix, Device, DeviceMatrix, Error, Result, Scalar, io::MatrixSource};

pub(super) use self::rungs::{AUTOMATIC, CAPTURED, CPU};
use self::{
    report::{CgResult, Outcome, RungReport},
    rungs::{PAIRS, RUNGS, Rung},
    solver::Solver,
    to_tolerance::ToTolerance,
    vendor::Expected,
};
use super::{
    baselines::{
        Baseline,
        vendor_cg::{Number, VendorCg},
    },
    report::{Finished, Method},
    session::{Basics, Benchmark, Conditions, Session},
    suite,
};

#[derive(Args)]
pub(crate) struct Options {
    /// Matrix Market files (.mtx, .mtx.gz, .mtx.xz) and generators of symmetric positive definite matrices [default:
    /// gen:fem3:10000 gen:poisson2d:256 gen:poisson2d:2048]
    matrices: Vec<MatrixSource>,
    /// The element type; can be repeated [default: both]
    #[arg(long, value_enum)]
    dtype: Vec<DTypeName>,
    #[command(flatten)]
    pub(super) basics: Basics,
}

/// Vectors that an iteration reads or writes at least, as `BENCHMARK` counts them.
pub(crate) const VECTORS: usize = 12;

/// Two that stay in the caches, with long rows and with short ones, and one that does not.
const SUITE: [&str; 3] = ["gen:fem3:10000", "gen:poisson2d:256", "gen:poisson2d:2048"];

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.cg",
    version: 2,
    baselines: &[Baseline::Cublas, Baseline::Cusparse],
    dtypes: &[DTypeName::F32, DTypeName::F64],
    product: "A x = b by conjugate gradients with Jacobi's preconditioner, b random and x = 0 at the start",
    figures: "All times are wall times, of our kernels and of the libraries alike: an iteration is the difference of the times of \
        two solutions, one of about six times the iterations of the other, over the difference of the iterations, so that the start and \
        the end of a solution are not in it; the time of a solution is the longer one's, with both. All ways on the device take as many iterations: so many as \
        the automatic one does in about 0.1 s, but hardly more than the system takes to a relative residual of 1e-10 (f32: 1e-4), and 32 at \
        least; the CPU beside a GPU takes fewer. Graphs hold 8 iterations, the libraries' and ours; of the libraries the host reads the residual every 24 \
        iterations, where the method ends. The libraries multiply by cuSPARSE's fastest algorithm, in CSR or COO. Medians are of 5 to 50 such pairs; ± is half the distance \
        of the quartiles. Residuals are |b - A x| / |b| in f64 of the x found. An answer on the device is wrong if its residual is off that of the automatic way after as \
        many iterations by more than a factor of 1.5 (f32: 3); one of ours is wrong too, on the CPU as well, if its residual is off the one that the iteration carries along by more than \
        that factor and rounding together, which is taken as ε | |A| |x| + |b| | / |b| times the root of the iterations. \
        Ratios are the time of an iteration of the libraries captured in a graph over that of the row: below 1 the row is slower. The \
        bound is the time that a copy takes for the bytes that an iteration moves at least: the matrix and 12 vectors (q = A p reads p and writes q; \
        the residual's update reads r, q and the diagonal and writes r; the direction's reads x, p, r and the diagonal and writes x and p). It is told for systems larger than four times \
        the L2 cache.",
};

pub(super) fn measure(options: &Options) -> measure::Outcome<Finished> {
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
        clock: Clock::Wall,
        cache: "as it comes".into(),
        text: format!("{}. {}", BENCHMARK.product, BENCHMARK.figures),
        ..report.method
    };
    Ok(Finished::new(&report, report.to_string(), report.check())?)
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
    let matrix = session.load(|| measure::load::<T>(source))?;
    let b = random_elements::<T>(matrix.nrows(), 0)?;
    let system = System { matrix: &matrix, on_device: &session.device.upload(&matrix)?, b: &b, dtype };
    match system.measure(session) {
        Ok(Solutions { rungs, to_tolerance, wrong }) => {
            let matrix = MatrixReport::new(source, &matrix.structure());
            Ok(Some(CgResult { name, matrix, dtype, rungs, to_tolerance, wrong }.with_ratios()))
        }
        Err(error @ (Error::Breakdown { .. } | Error::Unsupported(_))) => {
            session.skip(format!("{name} {dtype}"), error.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What comes of a system.
struct Solutions {
    rungs: Vec<RungReport>,
    to_tolerance: ToTolerance,
    wrong: Vec<String>,
}

/// What is solved.
struct System<'a, T: Scalar> {
    matrix: &'a CsrMatrix<T>,
    on_device: &'a DeviceMatrix<T>,
    b: &'a [T],
    dtype: DTypeName,
}

impl<T: Number> System<'_, T> {
    fn measure(&self, session: &Session<'_>) -> Result<Solutions> {
        let device = session.device;
        let bound_us = self.bound_us(session)?;
        let (most, expected, mut to_tolerance) = {
            let mut automatic = Solver::new(self, self.on_device, warpsparse::CgMethod::Auto)?;
            let most = automatic.iterations_to(probe(self.dtype))?;
            let pair = automatic.pair(most);
            let (info, _) = automatic.exactly(pair.long)?;
            let relative_residual = automatic.residual(&info)?.of_x;
            let expected = Expected { matrix: self.matrix, b: self.b, pair, relative_residual };
            (most, expected, ToTolerance::measure(&mut automatic, self.dtype)?)
        };

        // The libraries' vectors are gone before ours are measured.
        let mut vendor = VendorCg::new(self.matrix, self.b, device);
        to_tolerance.compare(&mut vendor);
        let (mut rungs, mut wrong) = (Vec::new(), Vec::new());
        wrong.extend(to_tolerance.wrong.as_ref().map(|problem| format!("to the tolerance: {problem}")));
        for (name, rung) in RUNGS {
            let outcome = match rung {
                Rung::Vendor(way) => vendor::measure(&mut vendor, way, &expected),
                Rung::Ours(_) if device.to_string() == "cpu" => Outcome::skipped("it runs on GPUs"),
                Rung::Ours(method) => {
                    vendor = Err(String::new());
                    solver::outcome(Solver::new(self, self.on_device, method), |_| expected.pair)?
                }
                Rung::Cpu => {
                    let matrix = Device::cpu().upload(self.matrix)?;
                    solver::outcome(Solver::new(self, &matrix, warpsparse::CgMethod::Auto), |cpu| cpu.pair(most))?
                }
            };
            if let Outcome::Measured(measured) = &outcome {
                // With a GPU in the comparison, the CPU runs fewer iterations, so its residual is another.
                let comparable = matches!(rung, Rung::Ours(_));
                let differs = || measured.check::<T>(expected.relative_residual).err();
                let problem = measured.wrong.clone().or_else(|| comparable.then(differs).flatten());
                wrong.extend(problem.map(|problem| format!("{name}: {problem}")));
            }
            let is_bound = rung != Rung::Cpu || device.to_string() == "cpu";
            rungs.push(RungReport { rung: name, outcome: outcome.with_bound(bound_us.filter(|_| is_bound)) });
        }
        Ok(Solutions { rungs, to_tolerance, wrong })
    }

    /// The time that a copy takes for what an iteration moves at least, if the system is larger than the L2 cache holds.
    fn bound_us(&self, session: &Session<'_>) -> Result<Option<f64>> {
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

//! `warpsparse-bench graphs`.

mod ladder;
mod reordering;
mod report;

use std::time::Duration;

use clap::Args;
use ladders::{SpmmLadder, SpmmRung};
use measure::{DTypeName, DenseProblem, DenseProblems, DenseReport, MAX_COLUMNS, MatrixReport, Measurement, Outcome};
use warpsparse::{
    DeviceMatrix, DeviceVec, Error, Result, SpmmOptions,
    io::{
        Generator, MatrixSource,
        generate::{DEFAULT_SEED, STAND_INS, StandIn},
    },
};

pub(super) use self::ladder::CHOSEN;
use self::{
    ladder::{ALL_CLUSTERED, LADDER, ROWS_CLUSTERED, Rung},
    reordering::Reordered,
    report::{GraphResult, RungReport},
};
use super::{
    baselines::Baseline,
    report::Finished,
    session::{Basics, Benchmark, Conditions, Session, parse_limit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// The graphs whose stand-ins are measured [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = parse_graph)]
    graph: Vec<StandIn>,
    /// Columns of the dense matrices.
    #[arg(short, value_delimiter = ',', default_value = "32,256",
        value_parser = clap::value_parser!(u32).range(1..=MAX_COLUMNS))]
    n: Vec<u32>,
    /// Take graphs of this part of the rows and entries, over 0 and up to 1.
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    scale: f64,
    /// How many samples to time: replays of a CUDA graph on a GPU, single products elsewhere.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..))]
    repeat: u32,
    /// Time fewer products of a kernel if together they would take longer than this, and just one if a single product does.
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = parse_limit)]
    limit: Duration,
    /// Libraries to compare with [default: cusparse on a GPU, the others on the CPU]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIBRARIES")]
    against: Option<Vec<Baseline>>,
    #[command(flatten)]
    pub(super) basics: Basics,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.graphs",
    version: 2,
    baselines: Baseline::SPARSE,
    dtypes: &[DTypeName::F32],
    product: "C = 1 A B + 0 C, with n columns in B and C, which are row-major",
    figures: "GFLOP/s count two operations for each entry and column of B. CRC is coalesced row caching, CWM \
        coarse-grained warp merging. Clustered rows are taken in the order of `CsrMatrix::cluster_rows`; with clustered \
        columns, B and C are in that order too. Results are checked by rows from everywhere, the longest one among them. \
        Ratios are the fastest other library's time over that of the kernel: above 1 that library is slower. Of a library \
        that multiplies by several algorithms, figures are the fastest one's, which is named; those of cuSPARSE are \
        preprocessed, on the matrix in CSR and in COO, and in each format only those are measured in full that come within 1.5 times the \
        fastest one's time in a trial (the least of 3 products on one set of buffers).\n\n\
        The graphs are stand-ins for published ones: their sizes are as published, or the part of them asked for; their \
        structure is made up, and figures are not those of the graphs that lend their names.",
};

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let graphs = if options.graph.is_empty() { STAND_INS } else { &options.graph };
    let sources: Vec<_> = graphs.iter().map(|&graph| options.source(graph)).collect();
    let conditions = Conditions {
        against: options.against.clone(),
        dtype: Vec::new(),
        basics: options.basics.clone(),
        repeat: options.repeat,
        hot: false,
    };
    let limit = options.limit.as_secs_f64();
    let fewer = "fewer are timed; a product that takes that long by itself is timed once.";
    let figures = format!("If so many would take more than {limit} s, {fewer} {}", BENCHMARK.figures);
    let benchmark = Benchmark { figures: &figures, ..BENCHMARK };
    let report =
        conditions.run(&benchmark, &sources, |session, source, dtype| options.measure(session, source, dtype))?;
    Ok(Finished::new(&report, report.to_string(), report.check())?)
}

impl Options {
    /// A graph in its size here: no denser than half of all places, as scaling may make it.
    fn source(&self, mut graph: StandIn) -> MatrixSource {
        let scaled = |size: usize| (size as f64 * self.scale).ceil() as usize;
        graph.nrows = scaled(graph.nrows);
        graph.nnz = scaled(graph.nnz).min((graph.nrows * graph.nrows).div_ceil(2));
        MatrixSource::Generator(Generator::StandIn { graph, seed: DEFAULT_SEED })
    }

    fn measure(&self, session: &mut Session<'_>, source: &MatrixSource, dtype: DTypeName) -> Result<Vec<GraphResult>> {
        let &MatrixSource::Generator(Generator::StandIn { graph, seed }) = source else {
            unreachable!("all graphs are stand-ins")
        };
        let widest = self.n.iter().max().map_or(0, |&n| n as usize);
        let problems = session.load(|| DenseProblems::<f32>::load(source, widest))?;
        // What makes this graph again, scaled or not.
        let communities = Generator::Communities { nrows: graph.nrows, nnz: graph.nnz, seed };
        let matrix = MatrixReport::new(&MatrixSource::Generator(communities), &problems.matrix.structure());
        let reordered = Reordered::of(&problems.matrix)?;
        let (mut on_device, mut results) = ([vec![], vec![]], vec![]);
        for &n in &self.n {
            let label = format!("{}, n = {n}", graph.name);
            let problem = problems.with_cols(n as usize)?;
            let clustered = problems.with_matrix(&reordered.matrix, n as usize)?;
            let problems = [&problem, &clustered];
            let rungs = self.measure_ladder(session, problems, &reordered.order, &mut on_device, &label)?;
            let rung = |name: &str| rungs.iter().find(|rung| rung.rung == name);
            let us = |name: &str| rung(name).map(RungReport::us);
            let Some(chosen) = rung(CHOSEN) else { continue };
            let reordering = reordered.report(chosen.us(), us(ROWS_CLUSTERED), us(ALL_CLUSTERED));
            let timing = chosen.product.product.figures.timing;
            let measurement = session.measurement_from(1, &problem)?.limit(self.limit);
            let baselines = session.baselines.clone();
            let baselines =
                session.measure_baselines(&baselines, |baseline| baseline.dense_runs(&measurement), &timing, &label);
            let (name, matrix) = (graph.name, matrix.clone());
            results.push(GraphResult { name, matrix, dtype, n, rungs, reordering, baselines }.with_ratios());
        }
        Ok(results)
    }

    /// The kernels that the device has room for, on the graph as it is and clustered.
    fn measure_ladder(
        &self,
        session: &mut Session<'_>,
        problems: [&DenseProblem<'_, f32>; 2],
        order: &[u32],
        on_device: &mut [Vec<DeviceMatrix<f32>>; 2],
        label: &str,
    ) -> Result<Vec<RungReport>> {
        let [as_it_is, clustered] = problems.map(|problem| session.measurement_from(1, problem));
        let (as_it_is, clustered) = (as_it_is?.limit(self.limit), clustered?.limit(self.limit));
        let [matrices, clustered_matrices] = on_device;
        let is_cpu = session.device.to_string() == "cpu";
        let (mut dense, mut rungs) = (Vec::new(), Vec::new());
        for (name, rung) in LADDER.into_iter().filter(|(_, rung)| !is_cpu || rung.is_of_cpu()) {
            let measured = match rung {
                Rung::Published(rung) => published(&as_it_is, rung, &mut dense),
                Rung::Chosen => as_it_is.product(matrices, &mut dense, &SpmmOptions::default()),
                Rung::RowsClustered => {
                    as_it_is.product(matrices, &mut dense, &SpmmOptions::default().row_order(order.to_vec()))
                }
                Rung::AllClustered => clustered.product(clustered_matrices, &mut dense, &SpmmOptions::default()),
            };
            match measured {
                Ok(product) => rungs.push(RungReport { rung: name, product, ratio: None }),
                Err(error @ (Error::OutOfMemory { .. } | Error::Unsupported(_))) => {
                    session.skip(format!("{name} on {label}"), error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(rungs)
    }
}

/// A published kernel, on copies of the matrix of its own.
fn published(
    measurement: &Measurement<'_, DenseProblem<'_, f32>>,
    rung: SpmmRung,
    dense: &mut Vec<DeviceVec<f32>>,
) -> Result<DenseReport> {
    let mut matrices = Vec::new();
    measurement.fill(&mut matrices, || SpmmLadder::new(measurement.device, measurement.problem.matrix, rung))?;
    let kernel = (matrices[0].name().to_owned(), "a rung of the ladder".to_owned());
    measurement.product_by(kernel, &matrices, dense, |matrix, b, c| matrix.spmm(1.0, b, 0.0, c))
}

fn parse_graph(text: &str) -> std::result::Result<StandIn, String> {
    let graph = STAND_INS.iter().find(|graph| graph.name.eq_ignore_ascii_case(text));
    graph.copied().ok_or_else(|| {
        let names: Vec<_> = STAND_INS.iter().map(|graph| graph.name).collect();
        format!("the graphs are {}", names.join(", "))
    })
}

fn parse_scale(text: &str) -> std::result::Result<f64, String> {
    let scale = text.parse().ok().filter(|&scale| scale > 0.0 && scale <= 1.0);
    scale.ok_or_else(|| "a scale is over 0 and at most 1".into())
}

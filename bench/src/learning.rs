//! `warpsparse-bench learning`.

mod examples;
mod gat;
mod half;
mod operations;
mod power_law;
mod report;
mod sddmm;

use std::path::PathBuf;

use clap::Args;
use measure::{DTypeName, MAX_COLUMNS, Outcome};
use warpsparse::{Error, Result, io::MatrixSource};

pub(crate) use self::sddmm::SddmmProblem;
use self::{
    examples::data,
    operations::{networks, operations},
    power_law::power_law,
    report::{Measured, check},
};
use super::{
    baselines::Baseline,
    report::Finished,
    session::{Benchmark, Case, Session, Settings},
    suite::Suite,
};

/// The fewest samples of what takes long.
const LEAST: usize = 5;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) settings: Settings,
    /// The numbers of columns of the dense matrices in SDDMM.
    #[arg(short, value_delimiter = ',', default_value = "32,64,128",
        value_parser = clap::value_parser!(u32).range(1..=MAX_COLUMNS))]
    k: Vec<u32>,
    /// The vertices of the power-law graph.
    #[arg(long, default_value_t = 169_343)]
    vertices: usize,
    /// The folder with the Planetoid files of Cora.
    #[arg(long, value_name = "DIR", default_value = "tests/data/planetoid")]
    cora: PathBuf,
}

pub(super) const BENCHMARK: Benchmark<'_> = Benchmark {
    schema: "warpsparse.bench.learning",
    version: 1,
    baselines: &[Baseline::Cusparse],
    dtypes: &[DTypeName::F32],
    product: "SDDMM: values[e] = dot(X[i], Y[j]) for each entry e in row i and column j, with k columns in X and Y. Then operations on the edges of a \
        power-law graph (R-MAT, made symmetric, with loops), in 8 heads of 32 features, sums over neighbours in f32 and in 16 bits, and steps of training: forward, backward, new weights",
    figures: "Where so many samples would take more than 0.15 s, fewer are timed, but at least 5. GB/s count the bytes that SDDMM must move at least; \
        ratios are cuSPARSE's time, by the fastest layout of its dense matrices, over ours. GATConv has a projection from 128 columns, scores and attention; its backward \
        pass gives the gradients of all weights. Operations and steps are on one set of buffers. Their errors are relative to the CPU's results in f64, in the 2-norm, \
        those of sums in 16 bits from features in 16 bits; \
        MB are the most that a network has at once, its graph and features included.",
};

/// In the order of what takes longest.
enum Part {
    Cora(PathBuf),
    PowerLaw(usize),
    Sddmm(MatrixSource),
}

impl Case for Part {
    fn name(&self) -> String {
        match self {
            Self::Sddmm(source) => Case::name(source),
            Self::Cora(_) => "Cora".into(),
            Self::PowerLaw(vertices) => format!("power law:{vertices}"),
        }
    }

    fn problem(&self) -> Option<String> {
        match self {
            Self::Sddmm(source) => source.problem(),
            Self::Cora(folder) => data::read(folder).err().map(|error| error.to_string()),
            Self::PowerLaw(vertices) => (*vertices == 0).then(|| "no vertices".into()),
        }
    }
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let sources = options.settings.sources(Suite::Dense)?.into_iter().map(Part::Sddmm);
    let parts: Vec<_> =
        [Part::Cora(options.cora.clone()), Part::PowerLaw(options.vertices)].into_iter().chain(sources).collect();
    let conditions = &options.settings.conditions;
    let report = conditions.run(&BENCHMARK, &parts, |session, part, _| options.part(session, part))?;
    Ok(Finished::new(&report, report.to_string(), check(&report))?)
}

impl Options {
    fn part(&self, session: &mut Session<'_>, part: &Part) -> Result<Vec<Measured>> {
        let failed = |error: Box<dyn std::error::Error>| Error::InvalidOption(error.to_string());
        let measured = match part {
            Part::Sddmm(source) => {
                return Ok(sddmm::products::<f32>(session, source, &self.k)?
                    .into_iter()
                    .map(Measured::Sddmm)
                    .collect());
            }
            Part::Cora(folder) => {
                let data = data::read(folder).map_err(failed)?;
                networks::<f32>(session, &data, "Cora", ("GCN, 16 hidden", &[16]), ("GAT, 8 x 8", (8, 8)))?
            }
            Part::PowerLaw(vertices) => {
                let (name, data) = (part.name(), power_law(*vertices).map_err(failed)?);
                let mut measured = operations::<f32>(session, &data, &name)?;
                measured.extend(half::sums(session, &data, &name)?);
                let (gcn, gat) = (("GCN, 3 x 256", &[256, 256][..]), ("GAT, 8 x 32", (8, 32)));
                measured.extend(networks::<f32>(session, &data, &name, gcn, gat)?);
                measured
            }
        };
        Ok(measured.into_iter().map(Measured::Operation).collect())
    }
}

//! `warpsparse bench clock`: the device times of this command beside those of NVIDIA's profiler, for one and the same products.

mod ncu;
mod report;

use std::path::PathBuf;

use clap::Args;
use cudarc::driver::{profiler_start, profiler_stop};
use warpsparse::{Device, GemmOptions, gemm};

use self::report::Side;
pub(super) use self::report::{ClockResult, HEADER};
use super::{
    report::{Finished, Method, Report, Skipped},
    rivals::{CublasCalls, Rival, Run},
    session::{Basics, machine, now},
};
use crate::{
    Outcome,
    measure::{Cache, Clock, GemmProblem, Measurement, Shape},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Shapes MxNxK, or one size for all three [default: 256 512 1024]
    shapes: Vec<Shape>,
    /// NVIDIA's profiler, Nsight Compute [default: ncu, from the PATH or /usr/local/cuda/bin]
    #[arg(long, value_name = "FILE")]
    ncu: Option<PathBuf>,
    #[command(flatten)]
    pub(super) basics: Basics,
    /// Be the program that is profiled: compute the products, cuBLAS's in these ways, and print nothing.
    #[arg(long, hide = true, value_name = "WAY")]
    child: Vec<String>,
}

pub(crate) const SCHEMA: &str = "warpsparse.bench.clock";
pub(crate) const VERSION: u64 = 1;

/// Replays that are timed, and products that are profiled, of each kind.
const REPEATS: usize = 30;
const PROFILED: usize = 30;

impl Options {
    /// Whether this is the program that was started to be profiled.
    pub(super) fn is_child(&self) -> bool {
        !self.child.is_empty()
    }

    fn shapes(&self) -> Vec<Shape> {
        if self.shapes.is_empty() { [256, 512, 1024].map(Shape::square).to_vec() } else { self.shapes.clone() }
    }
}

pub(super) fn measure(options: &Options) -> Outcome<Finished> {
    let date = now();
    let device = Device::from_name(&options.basics.device)?;
    if !device.is_cuda() {
        return Err(format!("device times are those of a GPU, and this is {device}").into());
    }
    let rival = Rival::Cublas.describe(&device)?;
    let copy_bandwidth = device.measure_copy_bandwidth()?;
    let mut results = Vec::new();
    for shape in options.shapes() {
        let problem = GemmProblem::<f32>::random(shape, false, false)?;
        let measurement = Measurement::new(&device, &problem, Cache::Cold, REPEATS..=REPEATS, copy_bandwidth)?;
        let ours = measurement.product(&measurement.upload()?, &GemmOptions::default())?.product;
        ours.check()?;
        let theirs = fastest(Rival::Cublas.gemm_runs(&measurement)?).ok_or("cuBLAS did not run")?;
        results.push(ClockResult {
            name: shape.to_string(),
            ours: Side { timing: ours.figures.timing, ncu_us: None },
            way: theirs.variant,
            cublas: Side { timing: theirs.figures.timing, ncu_us: None },
        });
    }
    let skipped = match ncu::durations(options.ncu.as_deref(), &device, &results) {
        Ok(durations) => {
            for (result, durations) in results.iter_mut().zip(durations) {
                result.ours.ncu_us = Some(durations.ours);
                result.cublas.ncu_us = Some(durations.theirs);
            }
            Vec::new()
        }
        Err(reason) => vec![Skipped { what: "ncu".into(), reason }],
    };
    let report = Report {
        schema: SCHEMA,
        version: VERSION,
        warpsparse: env!("CARGO_PKG_VERSION").into(),
        date,
        machine: machine(&device, copy_bandwidth)?,
        method: Method {
            clock: Clock::Graph,
            repeats: REPEATS,
            cache: "cold".into(),
            rivals: vec![rival],
            text: report::method(),
        },
        results,
        skipped,
    };
    Ok(Finished::new(&report, report.markdown(), Ok(()))?)
}

fn fastest(runs: Vec<Run>) -> Option<Run> {
    let us = |run: &Run| run.figures.timing.time_us.median;
    runs.into_iter().min_by(|a, b| us(a).total_cmp(&us(b)))
}

/// Computes products of each shape, ours and then cuBLAS's, for a profiler to see: on as many sets of matrices as the clock takes.
pub(super) fn child(options: &Options) -> Outcome {
    let device = Device::from_name(&options.basics.device)?;
    for (shape, way) in options.shapes().into_iter().zip(&options.child) {
        let problem = GemmProblem::<f32>::random(shape, false, false)?;
        let measurement = Measurement::new(&device, &problem, Cache::Cold, REPEATS..=REPEATS, 1.0)?;
        let sets = measurement.rotation(problem.bytes).max(PROFILED);
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
        let upload = || {
            let [a, b] = [&problem.a, &problem.b].map(|operand| device.upload_vec(&operand.elements));
            Ok::<_, warpsparse::Error>((a?, b?, device.zeros::<f32>(m * n)?))
        };
        let mut copies = (0..sets).map(|_| upload()).collect::<Result<Vec<_>, _>>()?;
        let mut ours = |set: usize| {
            let (a, b, c) = &mut copies[set];
            gemm(1.0, a.matrix((m, k))?, b.matrix((k, n))?, 0.0, c.matrix_mut((m, n))?)
        };
        let mut theirs = CublasCalls::new(&device, &problem, way, sets)?;
        // Once round: the first use of a kernel loads it, and the caches then hold other sets than those profiled.
        (0..sets).try_for_each(&mut ours)?;
        device.synchronize()?;
        profiler_start()?;
        (0..PROFILED).try_for_each(&mut ours)?;
        device.synchronize()?;
        profiler_stop()?;
        (0..sets).try_for_each(|set| theirs.call(set))?;
        theirs.wait()?;
        profiler_start()?;
        (0..PROFILED).try_for_each(|set| theirs.call(set))?;
        theirs.wait()?;
        profiler_stop()?;
    }
    Ok(())
}

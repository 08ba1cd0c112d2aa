//! `warpsparse-bench clock`: compares this program's device times with those of NVIDIA's profiler for the same products.

mod ncu;
mod report;

use std::{path::PathBuf, time::Instant};

use clap::Args;
use cudarc::driver::{profiler_start, profiler_stop};
use measure::{Cache, Clock, GemmProblem, Measurement, Outcome, Shape};
use warpsparse::{Device, GemmOptions, gemm};

pub(super) use self::report::{ClockResult, HEADER, Side};
use super::{
    baselines::{Baseline, CublasCalls, Run},
    report::{Finished, Method, Report, Skipped},
    session::{Basics, machine, now, right},
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
    let (start, date) = (Instant::now(), now());
    let device = Device::from_name(&options.basics.device)?;
    if !device.is_cuda() {
        return Err(format!("device times are those of a GPU, and this is {device}").into());
    }
    let copy_bandwidth = device.measure_copy_bandwidth()?;
    let (mut baselines, mut shapes, mut results, mut skipped) = (Vec::new(), options.shapes(), Vec::new(), Vec::new());
    match Baseline::Cublas.describe(&device) {
        Ok(description) => baselines.push(description),
        Err(reason) => {
            shapes.clear();
            skipped.push(Skipped { what: Baseline::Cublas.name().into(), reason });
        }
    }
    for shape in shapes {
        if let Some(reason) = options.basics.too_late(start) {
            skipped.push(Skipped { what: shape.to_string(), reason });
            continue;
        }
        results.extend(side_by_side(&device, shape, copy_bandwidth, &mut skipped)?);
    }
    if !results.is_empty() {
        let profiled = match options.basics.too_late(start) {
            Some(reason) => Err(reason),
            None => ncu::durations(options.ncu.as_deref(), &device, &results),
        };
        match profiled {
            Ok(durations) => {
                for (result, durations) in results.iter_mut().zip(durations) {
                    result.ours.ncu_us = Some(durations.ours);
                    result.cublas.ncu_us = Some(durations.theirs);
                }
            }
            Err(reason) => skipped.push(Skipped { what: "ncu".into(), reason }),
        }
    }
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
            baselines,
            text: report::method(),
        },
        results,
        skipped,
    };
    Ok(Finished::new(&report, report.markdown(), Ok(()))?)
}

/// Our product and the fastest of cuBLAS's; none if cuBLAS has none that is right. What is missing is `skipped`.
fn side_by_side(
    device: &Device,
    shape: Shape,
    copy_bandwidth: f64,
    skipped: &mut Vec<Skipped>,
) -> Outcome<Option<ClockResult>> {
    let problem = GemmProblem::<f32>::random(shape, false, false)?;
    let measurement = Measurement::new(device, &problem, Cache::Cold, REPEATS..=REPEATS, copy_bandwidth)?;
    let ours = measurement.product(&measurement.upload()?, &GemmOptions::default())?.product;
    ours.check()?;
    let (name, mut left_out) = (shape.to_string(), Vec::new());
    let runs = Baseline::Cublas.gemm_runs(&measurement, &mut left_out);
    skipped.extend(left_out.into_iter().map(|it| Skipped { what: format!("{} on {name}", it.what), ..it }));
    match runs.and_then(|runs| fastest(runs, &name, skipped)) {
        Ok(theirs) => Ok(Some(ClockResult {
            name,
            ours: Side { timing: ours.figures.timing, ncu_us: None },
            way: theirs.variant,
            cublas: Side { timing: theirs.figures.timing, ncu_us: None },
        })),
        Err(reason) => {
            skipped.push(Skipped { what: format!("{} on {name}", Baseline::Cublas.name()), reason });
            Ok(None)
        }
    }
}

/// The fastest of those whose product is right.
fn fastest(runs: Vec<Run>, name: &str, skipped: &mut Vec<Skipped>) -> Result<Run, String> {
    let runs = right(Baseline::Cublas, runs, name, skipped)?;
    let us = |run: &Run| run.figures.us();
    runs.into_iter()
        .min_by(|a, b| us(a).total_cmp(&us(b)))
        .ok_or_else(|| "it has no way to compute this product".into())
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

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Figures, Spread, Timing};

    #[test]
    fn what_is_wrong_is_not_the_fastest() {
        let run = |variant: &str, us: f64, error_over_bound: f64| {
            let time_us = Spread { median: us, min: us, q1: us, q3: us, max: us };
            let timing = Timing { time_us, clock: Clock::Graph, call_us: None };
            let figures = Figures {
                timing,
                gb_per_s: 1.0,
                percent_of_copy: 1.0,
                relative_error: 0.0,
                error_over_bound,
                median_error_over_bound: 0.0,
            };
            Run { variant: variant.into(), format: None, figures }
        };
        let mut skipped = Vec::new();
        let runs =
            vec![run("itself", 3.0, 0.1), run("nan", 1.0, f64::NAN), run("off", 1.0, 2.0), run("next", 2.0, 1.0)];
        assert_eq!(fastest(runs, "256", &mut skipped).unwrap().variant, "next");
        let told: Vec<&str> = skipped.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(told, ["cuBLAS nan on 256", "cuBLAS off on 256"]);
        let problem = fastest(vec![run("off", 1.0, 2.0)], "256", &mut skipped).err().unwrap();
        assert!(problem.contains("off by 2.0e0 times what rounding explains"), "{problem}");
        assert!(fastest(Vec::new(), "256", &mut skipped).is_err());
    }
}

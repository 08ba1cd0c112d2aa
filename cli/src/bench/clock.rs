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
    rivals::{CublasCalls, Rival},
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
    /// Be the program that is profiled: compute the products, and print nothing.
    #[arg(long, hide = true)]
    child: bool,
}

pub(crate) const SCHEMA: &str = "warpsparse.bench.clock";
pub(crate) const VERSION: u64 = 1;

/// Replays that are timed, and products that are profiled, of each kind.
const REPEATS: usize = 30;
const PROFILED: usize = 10;

impl Options {
    /// Whether this is the program that was started to be profiled.
    pub(super) fn is_child(&self) -> bool {
        self.child
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
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    let shapes = options.shapes();
    let profiled = ncu::durations(options.ncu.as_deref(), &device, &shapes);
    let profiled = profiled.unwrap_or_else(|reason| {
        skipped.push(Skipped { what: "ncu".into(), reason });
        Vec::new()
    });
    for (place, &shape) in shapes.iter().enumerate() {
        let problem = GemmProblem::<f32>::random(shape, false, false)?;
        let measurement = Measurement::new(&device, &problem, Cache::Cold, REPEATS..=REPEATS, copy_bandwidth)?;
        let ours = measurement.product(&measurement.upload()?, &GemmOptions::default())?.product;
        ours.check()?;
        let theirs = Rival::Cublas.gemm_runs(&measurement)?;
        let theirs = theirs.first().ok_or("cuBLAS did not run")?;
        let ncu_us = profiled.get(place);
        let side = |timing, ncu_us: Option<f64>| Side { timing, ncu_us };
        results.push(ClockResult {
            name: shape.to_string(),
            ours: side(ours.figures.timing, ncu_us.map(|us| us.ours)),
            cublas: side(theirs.figures.timing, ncu_us.map(|us| us.theirs)),
        });
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
            rivals: vec![rival],
            text: report::method(),
        },
        results,
        skipped,
    };
    Ok(Finished::new(&report, report.markdown(), Ok(()))?)
}

/// Computes products of each shape, ours and then cuBLAS's, for a profiler to see.
pub(super) fn child(options: &Options) -> Outcome {
    let device = Device::from_name(&options.basics.device)?;
    for shape in options.shapes() {
        let problem = GemmProblem::<f32>::random(shape, false, false)?;
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
        let [a, b] = [&problem.a, &problem.b].map(|operand| device.upload_vec(&operand.elements));
        let (a, b, mut c) = (a?, b?, device.zeros(m * n)?);
        let mut ours = || gemm(1.0, a.matrix((m, k))?, b.matrix((k, n))?, 0.0, c.matrix_mut((m, n))?);
        let mut theirs = CublasCalls::new(&device, &problem)?;
        // The first use of a kernel loads it.
        ours()?;
        theirs.call()?;
        theirs.wait()?;
        device.synchronize()?;
        profiler_start()?;
        (0..PROFILED).try_for_each(|_| ours())?;
        device.synchronize()?;
        (0..PROFILED).try_for_each(|_| theirs.call())?;
        theirs.wait()?;
        profiler_stop()?;
    }
    Ok(())
}

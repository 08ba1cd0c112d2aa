//! Reports as the benchmarks write them, each in a form of its own.

use measure::{Clock, DTypeName, MatrixReport, Spread, Timing};
use serde::Deserialize;

use super::{By, Case, Kind, Reading, Timed, Way};
use crate::{
    cg, graphs,
    report::{Machine, Method, Skipped},
};

/// What all reports have.
#[derive(Deserialize)]
pub(super) struct RawReport {
    machine: Machine,
    method: Method,
    results: Vec<RawCase>,
    skipped: Vec<Skipped>,
}

/// What a result of one benchmark or another has.
#[derive(Deserialize)]
struct RawCase {
    #[serde(alias = "operation")]
    name: String,
    #[serde(default = "f32")]
    dtype: DTypeName,
    matrix: Option<MatrixReport>,
    m: Option<f64>,
    n: Option<u32>,
    k: Option<f64>,
    chosen: Option<RawWay>,
    autotuned: Option<RawWay>,
    #[serde(default)]
    forced: Vec<RawWay>,
    #[serde(default)]
    rungs: Vec<RawWay>,
    #[serde(default)]
    kernels: Vec<RawWay>,
    #[serde(default)]
    formats: Vec<RawWay>,
    #[serde(default)]
    baselines: Vec<RawWay>,
    cold: Option<RawWay>,
    warm: Option<RawWay>,
    held: Option<RawWay>,
    ptx: Option<RawWay>,
}

/// Of what names no other.
fn f32() -> DTypeName {
    DTypeName::F32
}

#[derive(Deserialize)]
struct RawWay {
    #[serde(alias = "rung", alias = "format", default)]
    name: String,
    #[serde(alias = "variant", default)]
    kernel: String,
    time_us: Option<Spread>,
    #[serde(default)]
    clock: Clock,
    call_us: Option<Spread>,
    operation_us: Option<Spread>,
    gb_per_s: Option<f64>,
    relative_error: Option<f64>,
    skipped: Option<String>,
    measured: Option<Box<RawWay>>,
    refused: Option<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    reason: String,
}

impl RawReport {
    pub(super) fn into_reading(self, kind: Kind) -> Reading {
        let cases = self.results.into_iter().map(|case| case.into_case(kind)).collect();
        Reading { kind, machine: self.machine, method: self.method, cases, skipped: self.skipped }
    }
}

impl RawCase {
    fn into_case(self, kind: Kind) -> Case {
        let (rows, entries) = self.matrix.as_ref().map_or((0.0, 0.0), |it| (it.rows as f64, it.entries as f64));
        let columns = self.n.map_or(1.0, f64::from);
        let element = if self.dtype == DTypeName::F32 { 4.0 } else { 8.0 };
        let (flops, iteration_bytes) = match kind {
            Kind::Gemm => (2.0 * self.m.unwrap_or(0.0) * columns * self.k.unwrap_or(0.0), None),
            // With 13 operations on elements of vectors.
            Kind::Cg => {
                let vectors = cg::VECTORS as f64 * rows * element;
                let bytes = entries * (4.0 + element) + 4.0 * (rows + 1.0) + vectors;
                (2.0 * entries + 13.0 * rows, Some(bytes))
            }
            _ => (2.0 * entries * columns, None),
        };
        let is_last = |place: usize| place + 1 == self.kernels.len();
        let kernel_by =
            self.kernels.iter().enumerate().map(|(place, _)| if is_last(place) { By::Chosen } else { By::Ours });
        let kernel_by: Vec<By> = kernel_by.collect();
        let automatic_is_there = self.rungs.iter().any(|rung| rung.name == cg::AUTOMATIC && rung.time_us.is_some());
        let rung_by = |rung: &RawWay| match rung.name.as_str() {
            graphs::CHOSEN | cg::AUTOMATIC => By::Chosen,
            cg::CPU if !automatic_is_there => By::Chosen,
            _ if rung.kernel.starts_with("cuSPARSE") => By::Baseline,
            _ => By::Ours,
        };
        let format_by = |format: &RawWay| if format.name == "auto" { By::Chosen } else { By::Ours };

        let mut ways: Vec<(RawWay, By)> = Vec::new();
        ways.extend(self.chosen.map(|way| (RawWay { name: graphs::CHOSEN.into(), ..way }, By::Chosen)));
        ways.extend(self.autotuned.map(|way| (RawWay { name: "autotuned".into(), ..way }, By::Ours)));
        ways.extend(self.forced.into_iter().map(|way| (way, By::Forced)));
        ways.extend(self.rungs.into_iter().map(|way| {
            let by = rung_by(&way);
            (way, by)
        }));
        ways.extend(self.kernels.into_iter().zip(kernel_by));
        ways.extend(self.formats.into_iter().map(|way| {
            let by = format_by(&way);
            (way, by)
        }));
        let starts =
            [("cold", self.cold), ("warm", self.warm), ("warm, GPU in use", self.held), ("cold, from PTX", self.ptx)];
        for (name, start) in starts {
            ways.extend(start.map(|start| (RawWay { name: name.into(), ..start }, By::Ours)));
        }
        ways.extend(self.baselines.into_iter().map(|way| (way, By::Baseline)));
        Case {
            name: self.name,
            dtype: self.dtype,
            columns: self.n.filter(|_| kind != Kind::Gemm),
            matrix: self.matrix,
            flops,
            ways: ways.into_iter().map(|(way, by)| way.into_way(by, iteration_bytes)).collect(),
        }
    }
}

impl RawWay {
    fn into_way(self, by: By, bytes: Option<f64>) -> Way {
        let Self { name, kernel, time_us, clock, call_us, operation_us, gb_per_s, relative_error, .. } = self;
        let Self { skipped, measured, refused, .. } = self;
        if let Some(measured) = measured {
            return RawWay { name, ..*measured }.into_way(by, bytes);
        }
        let reason = || skipped.or(refused.map(|refused| refused.reason)).unwrap_or_else(|| "not measured".into());
        let is_time = |us: &Spread| us.median.is_finite() && us.median > 0.0;
        let timed = time_us.filter(is_time).ok_or_else(reason).map(|us| Timed {
            timing: Timing { time_us: us, clock, call_us },
            // What a bandwidth is told of moved so many.
            bytes: bytes.or(gb_per_s.map(|gb_per_s| 1e3 * gb_per_s * us.median)).unwrap_or(0.0),
            operation_us: operation_us.map(|us| us.median),
            error: relative_error,
        });
        Way { name, by, kernel, timed }
    }
}

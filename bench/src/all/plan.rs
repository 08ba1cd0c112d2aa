//! What is measured, and how the time is divided.

use std::time::Duration;

use warpsparse::Device;

/// A benchmark to measure.
pub(super) struct Planned {
    /// As on the command line, after `warpsparse-bench`.
    pub(super) line: String,
    /// Its part of the time that is left, next to those of what comes after it.
    pub(super) weight: f64,
}

/// On every device, and before all else.
const FIRST_USE: &str = "first-use --repeat 3";
const FIRST_USE_QUICK: &str = "first-use --repeat 3 --operation copy,spmv";

/// Every kernel on every matrix, on a GPU. What can use the time that others leave comes last.
const FULL: &[(f64, &str)] = &[
    (15.0, "clock"),
    (70.0, "gemm --limit 0.4"),
    (20.0, "gemm 1024 2048 4096 --ladder --limit 0.5"),
    (50.0, "cg"),
    (50.0, "graphs --graph ddi,arxiv,collab,am,youtube -n 32,256 --limit 0.2"),
    (35.0, "formats gen:poisson2d:2048 gen:stencil27:100 gen:fem3:200000 gen:rmat:17:8 --dtype f32"),
    (120.0, "spmv"),
    (125.0, "spmm --dtype f32"),
    (90.0, "spmm --dtype f64 -n 32,128"),
];

/// The same benchmarks on some of the same, so that the two can be compared.
const QUICK: &[(f64, &str)] = &[
    (8.0, "clock"),
    (5.0, "gemm 256 1024 4096 8192x8192x64 4095x4097x1023 --limit 0.3"),
    (5.0, "gemm 2048 --ladder --limit 0.2"),
    (12.0, "cg gen:poisson2d:256 gen:fem3:10000"),
    (10.0, "graphs --graph ddi,arxiv -n 32,256 --limit 0.1"),
    (5.0, "formats gen:fem3:200000 --dtype f32"),
    (14.0, "spmm gen:rmat:17:8 gen:uniform:4267:472 gen:fem3:200000 -n 32,128"),
    (20.0, "spmv gen:rmat:17:8 gen:fem3:200000 gen:poisson2d:2048"),
];

/// As large as a CPU gets through, one thread of which the other libraries take.
const CPU: &[(f64, &str)] = &[
    (40.0, "gemm 256 512 1024 1000 333x777x555 --limit 0.5"),
    (60.0, "cg gen:fem3:10000 gen:poisson2d:256"),
    (60.0, "graphs --graph ddi,arxiv,collab --scale 0.1 -n 32 --limit 0.5"),
    (60.0, "formats gen:poisson2d:512 gen:fem3:20000 gen:rmat:15:8 --dtype f32"),
    (90.0, "spmm gen:rmat:15:8 gen:uniform:4267:100 gen:poisson2d:256 gen:fem3:10000 -n 16,64"),
    (100.0, "spmv gen:rmat:17:8 gen:uniform:4267:472 gen:poisson2d:1024 gen:fem3:20000 gen:stencil27:50"),
];

const CPU_QUICK: &[(f64, &str)] = &[
    (8.0, "gemm 256 512 333x777x555 --limit 0.1"),
    (12.0, "cg gen:poisson2d:128"),
    (10.0, "graphs --graph ddi,arxiv --scale 0.05 -n 32 --limit 0.1"),
    (10.0, "formats gen:poisson2d:256 gen:rmat:13:8 --dtype f32"),
    (15.0, "spmm gen:rmat:13:8 gen:poisson2d:128 -n 16,64"),
    (20.0, "spmv gen:rmat:15:8 gen:poisson2d:512 gen:fem3:10000"),
];

/// What is measured before the device is known. Its weight is next to 1 for all else.
pub(super) fn first(quick: bool) -> Planned {
    Planned::new(0.15, if quick { FIRST_USE_QUICK } else { FIRST_USE })
}

/// What is measured unless something else is asked for.
pub(super) fn usual(device: &Device, quick: bool) -> Vec<Planned> {
    let plan = match (device.is_cuda(), quick) {
        (true, false) => FULL,
        (true, true) => QUICK,
        (false, false) => CPU,
        (false, true) => CPU_QUICK,
    };
    plan.iter().map(|&(weight, line)| Planned::new(weight, line)).collect()
}

impl Planned {
    pub(super) fn new(weight: f64, line: &str) -> Self {
        Self { line: line.into(), weight }
    }

    /// Whether no program may have the GPU open, not even this one.
    pub(super) fn is_alone(&self) -> bool {
        self.line.split_whitespace().next() == Some("first-use")
    }

    /// The command line with the device, and with the seconds that it may take.
    pub(super) fn arguments(&self, device: &str, budget: Duration) -> Vec<String> {
        // Shorter or longer than anything takes, and yet a time.
        let seconds = match budget.as_secs_f64() {
            ..0.001 => "1e-9".to_owned(),
            seconds => format!("{:.3}", seconds.min(1e9)),
        };
        let added = ["--device", device, "--budget", &seconds];
        self.line.split_whitespace().chain(added).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_usual_is_a_command_line() {
        for plan in [FULL, QUICK, CPU, CPU_QUICK, &[(1.0, FIRST_USE), (1.0, FIRST_USE_QUICK)]] {
            for &(weight, line) in plan {
                let arguments = Planned::new(weight, line).arguments("cpu", Duration::from_secs(5));
                super::super::parse(&arguments).map(drop).unwrap();
            }
        }
    }
}

//! What `warpsparse-bench clock` finds out, and its table, in Markdown.

use measure::Timing;
use serde::{Deserialize, Serialize};

use crate::{
    report::{Report, Skipped},
    table::{self, none, us},
};

/// Dense products of one shape.
#[derive(Serialize, Deserialize)]
pub(crate) struct ClockResult {
    pub(crate) name: String,
    pub(crate) ours: Side,
    /// The fastest of cuBLAS's ways.
    pub(crate) way: String,
    pub(crate) cublas: Side,
}

/// Products of one library by both clocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Side {
    #[serde(flatten)]
    pub(crate) timing: Timing,
    /// The durations of a product's kernels, by ncu.
    pub(crate) ncu_us: Option<f64>,
}

impl ClockResult {
    /// cuBLAS's time over ours.
    fn ratio(&self) -> f64 {
        self.cublas.timing.over(&self.ours.timing)
    }

    /// The same by ncu.
    fn ncu_ratio(&self) -> Option<f64> {
        Some(self.cublas.ncu_us? / self.ours.ncu_us?)
    }

    /// What is told of it, under the titles of [`HEADER`].
    pub(crate) fn cells(&self) -> Vec<String> {
        let time = |time: Option<f64>| time.map_or_else(none, us);
        let off = self.ncu_ratio().map(|by_ncu| 100.0 * (self.ratio() / by_ncu - 1.0));
        vec![
            self.name.clone(),
            us(self.ours.timing.time_us.median),
            time(self.ours.ncu_us),
            self.way.clone(),
            us(self.cublas.timing.time_us.median),
            time(self.cublas.ncu_us),
            format!("{:.3}", self.ratio()),
            self.ncu_ratio().map_or_else(none, |ratio| format!("{ratio:.3}")),
            off.map_or_else(none, |percent| format!("{percent:+.1}%")),
        ]
    }
}

pub(crate) const HEADER: [&str; 9] =
    ["<shape", "ours, µs", "by ncu", "<cuBLAS by", "µs", "by ncu", "ratio", "by ncu", "off"];

/// How it is measured, in words.
pub(super) fn method() -> String {
    "C = A B in f32, the L2 cache cold. Times are device times as in all benchmarks: products captured in a CUDA graph, with what lies \
     between two of them; medians of 30 replays. By ncu it is the duration of a product's kernels alone (gpu__time_duration.sum, \
     --clock-control none, --cache-control none), the mean of 30, on as many sets of matrices in turn. cuBLAS is that of the \
     fastest of its ways whose product is right, found as by `warpsparse-bench gemm`. Ratios are cuBLAS's time over ours, and the last column is how far the first is off the second."
        .into()
}

impl Report<ClockResult> {
    pub(super) fn markdown(&self) -> String {
        let rows: Vec<_> = self.results.iter().map(ClockResult::cells).collect();
        let skipped = self.skipped.iter().map(|Skipped { what, reason }| format!("\nskipped {what}: {reason}\n"));
        let table = table::markdown(&HEADER, &rows);
        format!("{}\n\n{}\n\n{table}{}", self.machine.model, self.method.text, skipped.collect::<String>())
    }
}

//! What `bench first-use` finds out, and its table, in Markdown.

use std::time::Duration;

use serde::Serialize;

use super::{Done, Operation};
use crate::{
    bench::{
        report::Report,
        table::{self, none},
    },
    statistics::Spread,
};

/// Programs that do one operation.
#[derive(Serialize)]
pub(crate) struct FirstUse {
    pub(crate) operation: Operation,
    /// The kernel families that it loads on a GPU.
    pub(crate) modules: &'static [&'static str],
    pub(crate) cold: Start,
    pub(crate) warm: Start,
    /// With kernels compiled from PTX, as on a GPU for which there is no machine code.
    pub(crate) ptx: Option<Start>,
}

/// From a program's start to its first result; all in microseconds.
#[derive(Serialize)]
pub(crate) struct Start {
    pub(crate) time_us: Spread,
    /// Of it, until the device was ready: the driver's start, its context, a first allocation.
    pub(crate) device_us: Spread,
    /// Of it, the operation: kernels loaded, the matrix copied and analysed, the result read.
    pub(crate) operation_us: Spread,
}

impl Start {
    pub(super) fn of(times: &[(Duration, Done)]) -> Self {
        let spread = |time: fn(&(Duration, Done)) -> Duration| Spread::of(&times.iter().map(time).collect::<Vec<_>>());
        Self {
            time_us: spread(|(whole, _)| *whole),
            device_us: spread(|(_, done)| Duration::from_secs_f64(done.device_us / 1e6)),
            operation_us: spread(|(_, done)| Duration::from_secs_f64(done.operation_us / 1e6)),
        }
    }
}

/// How it is measured, in words.
pub(super) fn method(repeats: usize) -> String {
    format!(
        "Medians of {repeats} programs, each started for one operation of a matrix with 1000 rows, from the moment before \
        the start to the result in host memory. Cold: the driver's cache of compiled kernels is empty. Warm: it holds \
        what an earlier program compiled. From PTX: an empty cache, and the driver is told to use no machine code. \
        `device` is what passes until a first copy to the device is done, in which nothing of this library runs on it."
    )
}

impl Report<FirstUse> {
    pub(super) fn markdown(&self) -> String {
        let ms = |spread: &Spread| format!("{:.0}", spread.median / 1e3);
        let row = |result: &FirstUse| {
            vec![
                result.operation.to_string(),
                ms(&result.cold.time_us),
                ms(&result.warm.time_us),
                result.ptx.as_ref().map_or_else(none, |ptx| ms(&ptx.time_us)),
                ms(&result.cold.device_us),
                format!("{:.1}", result.cold.operation_us.median / 1e3),
                result.modules.join(", "),
            ]
        };
        let header =
            ["<first operation", "cold, ms", "warm, ms", "from PTX, ms", "device, ms", "operation, ms", "<modules"];
        let rows: Vec<_> = self.results.iter().map(row).collect();
        format!("{}\n\n{}\n\n{}", self.machine.model, self.method.text, table::markdown(&header, &rows))
    }
}

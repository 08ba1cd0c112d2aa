//! What `warpsparse-bench first-use` finds out, and its table, in Markdown.

use std::time::Duration;

use measure::Spread;
use serde::Serialize;

use super::{Done, Operation};
use crate::{
    report::Report,
    table::{self, none},
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
    /// Warm, while another program has the GPU open.
    pub(crate) held: Option<Start>,
}

/// From a program's start to its first result; all in microseconds.
#[derive(Serialize)]
pub(crate) struct Start {
    pub(crate) time_us: Spread,
    /// Of it, the driver's start.
    pub(crate) driver_us: Spread,
    /// Of it, the device's context, and a first allocation.
    pub(crate) device_us: Spread,
    /// Of it, the operation: kernels loaded, the matrix copied and analysed, the result read.
    pub(crate) operation_us: Spread,
}

impl Start {
    pub(super) fn of(times: &[(Duration, Done)]) -> Self {
        let spread = |time: fn(&(Duration, Done)) -> Duration| Spread::of(&times.iter().map(time).collect::<Vec<_>>());
        Self {
            time_us: spread(|(whole, _)| *whole),
            driver_us: spread(|(_, done)| Duration::from_secs_f64(done.driver_us / 1e6)),
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
        what an earlier program compiled. From PTX: an empty cache, and no machine code is used (WARPSPARSE_PTX=1). In \
        use: warm, while another program has the GPU open; for the others none has. Of the time when cold, `driver` is \
        what its start takes, `device` its context and a first copy, in which nothing of this library runs on the GPU."
    )
}

impl Report<FirstUse> {
    pub(super) fn markdown(&self) -> String {
        let ms = |spread: &Spread| format!("{:.0}", spread.median / 1e3);
        let maybe = |start: &Option<Start>| start.as_ref().map_or_else(none, |start| ms(&start.time_us));
        let row = |result: &FirstUse| {
            vec![
                result.operation.to_string(),
                ms(&result.cold.time_us),
                ms(&result.warm.time_us),
                maybe(&result.held),
                maybe(&result.ptx),
                ms(&result.cold.driver_us),
                ms(&result.cold.device_us),
                format!("{:.1}", result.cold.operation_us.median / 1e3),
                result.modules.join(", "),
            ]
        };
        let times = ["cold, ms", "warm, ms", "in use, ms", "from PTX, ms", "driver, ms", "device, ms", "operation, ms"];
        let header: Vec<_> = ["<first operation"].into_iter().chain(times).chain(["<modules"]).collect();
        let rows: Vec<_> = self.results.iter().map(row).collect();
        format!("{}\n\n{}\n\n{}", self.machine.model, self.method.text, table::markdown(&header, &rows))
    }
}

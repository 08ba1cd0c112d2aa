//! How long operations of warpsparse take, and whether their results are right: what its command and its benchmarks share.

mod clock;
mod collective;
mod gemm;
mod peak;
mod program;
mod random;
mod ranks;
pub mod reference;
mod source;
mod spmm;
mod spmv;
mod statistics;
pub mod stream;

use std::{fmt, ops::RangeInclusive, time::Duration};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use warpsparse::{BlockSize, Device, FormatChoice, Result, Structure, io::MatrixSource};

use self::clock::Repeats;
pub use self::{
    clock::{Clock, Times, Timing},
    collective::Collective,
    gemm::{GemmProblem, GemmReference, GemmReport, Numbers, Operand, Operands, Shape},
    peak::peak,
    program::{Outcome, emit, exit_status},
    random::{random_elements, shuffle},
    ranks::{Ranks, TransportName},
    reference::{Errors, Reduction},
    source::load,
    spmm::{DenseProblem, DenseProblems, DenseReport, MAX_COLUMNS},
    spmv::Problem,
    statistics::{Spread, geometric_mean},
};

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DTypeName {
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl fmt::Display for DTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// The format of a matrix on a device: see [`FormatChoice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say all; the help of programs lists them")]
pub enum FormatName {
    Auto,
    Csr,
    Coo,
    Dia,
    Ell,
    Hyb,
    Narrow,
    Packed,
    Bsr,
}

impl From<FormatName> for FormatChoice {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Auto => Self::Auto,
            FormatName::Csr => Self::Csr,
            FormatName::Coo => Self::Coo,
            FormatName::Dia => Self::Dia,
            FormatName::Ell => Self::Ell,
            FormatName::Hyb => Self::Hyb,
            FormatName::Narrow => Self::Narrow,
            FormatName::Packed => Self::Packed,
            FormatName::Bsr => Self::Bsr(BlockSize::Auto),
        }
    }
}

/// Whether a product finds its data in the L2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// It does not.
    Cold,
    /// It does, where the cache holds them.
    Hot,
}

/// How products of one problem are measured.
#[derive(Debug)]
pub struct Measurement<'a, P> {
    /// Where.
    pub device: &'a Device,
    /// What is measured.
    pub problem: &'a P,
    repeats: Repeats,
    /// Bytes that pass between two uses of the same data.
    distance: usize,
    copy_bandwidth: f64,
}

impl<'a, P> Measurement<'a, P> {
    /// With a cold cache, between two uses of a copy lie this many times the size of the L2 cache.
    const CACHE_MULTIPLE: usize = 4;
    const MAX_COPIES: usize = 4096;

    /// `copy_bandwidth` in bytes a second; `samples` from 1, fewer than the most if those take long.
    pub fn new(
        device: &'a Device,
        problem: &'a P,
        cache: Cache,
        samples: RangeInclusive<usize>,
        copy_bandwidth: f64,
    ) -> Result<Self> {
        let l2_bytes = device.info()?.l2_bytes.unwrap_or(0) as usize;
        let distance = match cache {
            Cache::Cold => Self::CACHE_MULTIPLE * l2_bytes,
            Cache::Hot => 0,
        };
        let repeats = Repeats { samples, limit: clock::LIMIT };
        Ok(Self { device, problem, repeats, distance, copy_bandwidth })
    }

    /// Sets what the samples may take together, unless they are the fewest.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.repeats.limit = limit;
        self
    }

    /// Copies of matrix and vectors that products of so many bytes go round: with a cold cache as many as the L2 cache
    /// cannot hold.
    pub fn rotation(&self, bytes: usize) -> usize {
        self.distance.div_ceil(bytes.max(1)).clamp(1, Self::MAX_COPIES)
    }

    /// The times of calls that go round so many copies; `call` queues one on `queue`, on the copy that it is told.
    pub fn times(&self, queue: &Device, copies: usize, mut call: impl FnMut(usize) -> Result<()>) -> Result<Times> {
        self.repeats.times(queue, copies, &mut call)
    }

    /// Host call times alone, for calls that the device's clock cannot time; `wait` waits until all are done.
    pub fn host_times(
        &self,
        copies: usize,
        wait: impl Fn() -> Result<()>,
        mut call: impl FnMut(usize) -> Result<()>,
    ) -> Result<Times> {
        self.repeats.host_times(copies, &wait, &mut call)
    }

    /// The figures of a product that took `times`, and must move so many `bytes` at least.
    pub fn figures(&self, times: &Times, bytes: usize, errors: &Errors) -> Figures {
        Figures::new(times, bytes, errors, self.copy_bandwidth)
    }
}

/// A product, measured.
#[derive(Clone, Debug, Serialize)]
pub struct ProductReport {
    /// What computed it.
    pub kernel: String,
    /// Why that did.
    pub reason: String,
    /// Bytes that one product must move at least, in the format that it runs in.
    pub bytes: usize,
    /// Copies of matrix and vectors that the products go round, so that none finds its data in the L2 cache.
    pub rotation: usize,
    /// Time, bandwidth and errors.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The figures of a product.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// How long it takes.
    #[serde(flatten)]
    pub timing: Timing,
    /// Of the bytes that it must move at least.
    pub gb_per_s: f64,
    /// The same, of a copy's.
    pub percent_of_copy: f64,
    /// `|y - reference| / |reference|` in the 2-norm, the reference taken in f64.
    pub relative_error: f64,
    /// The largest error of an element of `y` over what rounding can explain there: at most 1 in a correct product.
    pub error_over_bound: f64,
    /// The median error of an element of `y`, of the same.
    pub median_error_over_bound: f64,
}

impl Figures {
    /// Of a product that took `times`, and must move so many `bytes` at least, where copies have this bandwidth in bytes a second.
    pub fn new(times: &Times, bytes: usize, errors: &Errors, copy_bandwidth: f64) -> Self {
        let timing = times.timing();
        let bytes_per_second = bytes as f64 / (timing.time_us.median * 1e-6);
        Self {
            timing,
            gb_per_s: bytes_per_second / 1e9,
            percent_of_copy: 100.0 * bytes_per_second / copy_bandwidth,
            relative_error: errors.relative,
            error_over_bound: errors.over_bound,
            median_error_over_bound: errors.median_over_bound,
        }
    }

    /// The median of the times that the clock tells.
    pub fn us(&self) -> f64 {
        self.timing.time_us.median
    }
}

impl ProductReport {
    /// The buffers that the products went round, in words.
    pub fn buffers(&self) -> String {
        match self.rotation {
            1 => "on one set of buffers".into(),
            rotation => format!("on {rotation} sets of buffers in turn, more than the L2 cache holds"),
        }
    }

    /// Fails if the result is wrong: off by more than rounding explains.
    pub fn check(&self) -> std::result::Result<(), String> {
        // Not `> 1.0`: a NaN is wrong too.
        match self.figures.error_over_bound {
            0.0..=1.0 => Ok(()),
            off => Err(format!("{} is off by {off:.1e} times what rounding explains", self.kernel)),
        }
    }
}

/// What a report tells of a matrix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MatrixReport {
    /// As the command line names it.
    pub source: String,
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// Its entries.
    pub entries: usize,
    /// Entries of the shortest row.
    pub min_row: usize,
    /// Entries of a row on average.
    pub mean_row: f64,
    /// Entries of the longest row.
    pub max_row: usize,
}

impl MatrixReport {
    /// Of the matrix of this source and structure.
    #[must_use]
    pub fn new(source: &MatrixSource, structure: &Structure) -> Self {
        let &Structure { nrows: rows, ncols: columns, nnz: entries, min_row, max_row, .. } = structure;
        Self { source: source.to_string(), rows, columns, entries, min_row, mean_row: structure.mean_row(), max_row }
    }
}

impl fmt::Display for MatrixReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, rows, columns, entries, min_row, mean_row, max_row } = self;
        writeln!(f, "matrix     {source}")?;
        writeln!(f, "           {rows} x {columns}, {entries} entries")?;
        writeln!(f, "           row lengths {min_row} to {max_row}, mean {mean_row:.2}")
    }
}

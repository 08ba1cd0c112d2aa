//! Measuring products: what `spmv`, `spmm`, `sgemm` and `bench` share.

mod gemm;
mod kernel;
mod peak;
mod random;
mod reference;
mod spmm;
mod spmv;

use std::{fmt, ops::RangeInclusive, time::Duration};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use warpsparse::{Device, FormatChoice, Result, Structure, io::MatrixSource};

use self::reference::Errors;
pub(crate) use self::{
    gemm::{GemmProblem, GemmReport, Shape, kernel_name, kernels, parse_kernel},
    kernel::KernelName,
    peak::peak,
    random::random_elements,
    reference::Reduction,
    spmm::{DenseProblem, DenseProblems, DenseReport},
    spmv::Problem,
};
use crate::statistics::Spread;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DTypeName {
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormatName {
    Auto,
    Csr,
    Coo,
    Dia,
    Ell,
    Hyb,
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
        }
    }
}

/// Whether a product finds its data in the L2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Cold,
    Hot,
}

/// How products of one problem are measured.
pub(crate) struct Measurement<'a, P> {
    pub(crate) device: &'a Device,
    pub(crate) problem: &'a P,
    /// How many products are timed: fewer than the most if those take long.
    repeats: RangeInclusive<usize>,
    /// What the products timed may take together, unless they are the fewest.
    limit: Duration,
    /// Bytes that pass between two uses of the same data.
    distance: usize,
    copy_bandwidth: f64,
}

impl<'a, P> Measurement<'a, P> {
    /// With a cold cache, between two uses of a copy lie this many times the size of the L2 cache.
    const CACHE_MULTIPLE: usize = 4;
    const MOST_COPIES: usize = 4096;
    /// The limit unless another is set; that of warm-ups always.
    const LIMIT: Duration = Duration::from_millis(150);

    /// `copy_bandwidth` in bytes a second, `repeats` from 1.
    pub(crate) fn new(
        device: &'a Device,
        problem: &'a P,
        cache: Cache,
        repeats: RangeInclusive<usize>,
        copy_bandwidth: f64,
    ) -> Result<Self> {
        let l2_bytes = device.info()?.l2_bytes.unwrap_or(0) as usize;
        let distance = match cache {
            Cache::Cold => Self::CACHE_MULTIPLE * l2_bytes,
            Cache::Hot => 0,
        };
        Ok(Self { device, problem, repeats, limit: Self::LIMIT, distance, copy_bandwidth })
    }

    /// Sets what the products timed may take together, unless they are the fewest.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Copies of matrix and vectors that products of so many bytes go round: with a cold cache as many as the L2 cache
    /// cannot hold.
    pub(crate) fn rotation(&self, bytes: usize) -> usize {
        self.distance.div_ceil(bytes.max(1)).clamp(1, Self::MOST_COPIES)
    }

    /// The times of products that go round so many copies. `time_each` queues as many as it is asked for and gives the time
    /// of each; of those that it times in vain, some tell how long a product takes, and some touch every copy and wake the
    /// device.
    pub(crate) fn times<E>(
        &self,
        rotation: usize,
        mut time_each: impl FnMut(usize) -> std::result::Result<Vec<Duration>, E>,
    ) -> std::result::Result<Vec<Duration>, E> {
        let (least, most) = (*self.repeats.start(), *self.repeats.end());
        let (mut repeats, mut warm_up) = (most, most.min(10));
        if least < most {
            let first = time_each(1)?;
            if least == 1 && first[0] >= self.limit {
                return Ok(first);
            }
            // The first one may have waited for its kernel to be loaded.
            let probe = time_each(1)?[0].max(Duration::from_nanos(1));
            let within = |limit: Duration| usize::try_from(limit.as_nanos() / probe.as_nanos()).unwrap_or(usize::MAX);
            repeats = within(self.limit).clamp(least, most);
            warm_up = within(Self::LIMIT).min(repeats).min(10);
        }
        let warm_up = warm_up.max(rotation);
        Ok(time_each(warm_up + repeats)?.split_off(warm_up))
    }

    /// The figures of a product that took `times`, and must move so many `bytes` at least.
    pub(crate) fn figures(&self, times: &[Duration], bytes: usize, errors: &Errors) -> Figures {
        let time_us = Spread::of(times);
        let bytes_per_second = bytes as f64 / (time_us.median * 1e-6);
        Figures {
            time_us,
            gb_per_s: bytes_per_second / 1e9,
            percent_of_copy: 100.0 * bytes_per_second / self.copy_bandwidth,
            relative_error: errors.relative,
            error_over_bound: errors.over_bound,
        }
    }
}

#[derive(Clone, Serialize)]
pub(crate) struct ProductReport {
    pub(crate) kernel: String,
    pub(crate) reason: String,
    /// Bytes that one product must move at least, in the format that it runs in.
    pub(crate) bytes: usize,
    /// Copies of matrix and vectors that the products go round, so that none finds its data in the L2 cache.
    pub(crate) rotation: usize,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

#[derive(Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) time_us: Spread,
    pub(crate) gb_per_s: f64,
    pub(crate) percent_of_copy: f64,
    /// `|y - reference| / |reference|` in the 2-norm, the reference taken in f64.
    pub(crate) relative_error: f64,
    /// The largest error of an element of `y` over what rounding can explain there: at most 1 in a correct product.
    pub(crate) error_over_bound: f64,
}

impl ProductReport {
    /// The buffers that the products went round, in words.
    pub(crate) fn buffers(&self) -> String {
        match self.rotation {
            1 => "on one set of buffers".into(),
            rotation => format!("on {rotation} sets of buffers in turn, more than the L2 cache holds"),
        }
    }

    /// Fails if the result is wrong: off by more than rounding explains.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        // Not `> 1.0`: a NaN is wrong too.
        match self.figures.error_over_bound {
            0.0..=1.0 => Ok(()),
            off => Err(format!("{} is off by {off:.1e} times what rounding explains", self.kernel)),
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct MatrixReport {
    pub(crate) source: String,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) entries: usize,
    pub(crate) min_row: usize,
    pub(crate) mean_row: f64,
    pub(crate) max_row: usize,
}

impl MatrixReport {
    pub(crate) fn new(source: &MatrixSource, structure: &Structure) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a product that takes so long is run, in all and timed.
    fn runs(repeats: RangeInclusive<usize>, rotation: usize, micros: u64) -> (usize, usize) {
        runs_within(Measurement::<()>::LIMIT, repeats, rotation, micros)
    }

    fn runs_within(limit: Duration, repeats: RangeInclusive<usize>, rotation: usize, micros: u64) -> (usize, usize) {
        let device = Device::cpu();
        let measurement = Measurement::new(&device, &(), Cache::Cold, repeats, 1e9).unwrap().limit(limit);
        let mut runs = 0;
        let time_each = |count| {
            runs += count;
            Ok::<_, ()>(vec![Duration::from_micros(micros); count])
        };
        let times = measurement.times(rotation, time_each).unwrap();
        (runs, times.len())
    }

    #[test]
    fn long_products_are_timed_less_often() {
        assert_eq!(runs(15..=50, 1, 1), (2 + 10 + 50, 50));
        assert_eq!(runs(15..=50, 1, 5_000), (2 + 10 + 30, 30));
        assert_eq!(runs(15..=50, 1, 20_000), (2 + 7 + 15, 15));
        assert_eq!(runs(3..=50, 1, 1_000_000), (2 + 1 + 3, 3));
        assert_eq!(runs(50..=50, 1, 1_000_000), (10 + 50, 50));
        // Every copy is touched, and a clock that shows nothing does no harm.
        assert_eq!(runs(15..=50, 70, 0), (2 + 70 + 50, 50));
    }

    #[test]
    fn products_as_long_as_the_limit_are_timed_once() {
        let within = |rotation, micros| runs_within(Duration::from_secs(2), 1..=15, rotation, micros);
        assert_eq!(within(1, 1), (2 + 10 + 15, 15));
        assert_eq!(within(1, 400_000), (2 + 1 + 5, 5));
        assert_eq!(within(1, 1_999_999), (2 + 1 + 1, 1));
        assert_eq!(within(7, 2_000_000), (1, 1));
    }
}

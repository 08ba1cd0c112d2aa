//! Other libraries compared with ours: their results are checked, and the fastest algorithm is found.

use measure::Timing;

use super::Session;
use crate::{
    baselines::{Baseline, Run},
    report::{BaselineReport, FormatReport, Skipped, Variant},
};

impl Session<'_> {
    /// Those of the baselines that can multiply the matrix, by the fastest of their ways among `runs`; `ratio`s are over
    /// `ours`. What is left out is told as being on `matrix`.
    pub(crate) fn measure_baselines(
        &mut self,
        baselines: &[Baseline],
        mut runs: impl FnMut(Baseline) -> std::result::Result<Vec<Run>, String>,
        ours: &Timing,
        matrix: &str,
    ) -> Vec<BaselineReport> {
        let mut reports = Vec::new();
        for &baseline in baselines {
            let mut wrong = Vec::new();
            let report =
                runs(baseline).and_then(|runs| fastest(baseline, right(baseline, runs, matrix, &mut wrong)?, ours));
            wrong.into_iter().for_each(|Skipped { what, reason }| self.skip(what, reason));
            match report {
                Ok(report) => reports.push(report),
                Err(reason) => self.skip(format!("{} on {matrix}", baseline.name()), reason),
            }
        }
        reports
    }
}

/// Those of a library's runs whose results are right; it fails if there were others only. What is wrong is `left_out`.
pub(crate) fn right(
    baseline: Baseline,
    runs: Vec<Run>,
    matrix: &str,
    left_out: &mut Vec<Skipped>,
) -> std::result::Result<Vec<Run>, String> {
    // A NaN is wrong too.
    let is_right = |run: &Run| (0.0..=1.0).contains(&run.figures.error_over_bound);
    let (right, wrong): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(is_right);
    let reason = |run: &Run| {
        format!("its result is wrong, off by {:.1e} times what rounding explains", run.figures.error_over_bound)
    };
    if let (true, Some(run)) = (right.is_empty(), wrong.first()) {
        return Err(reason(run));
    }
    let what = |run: &Run| format!("{} {} on {matrix}", baseline.name(), run.variant);
    left_out.extend(wrong.iter().map(|run| Skipped { what: what(run), reason: reason(run) }));
    Ok(right)
}

/// The fastest of a library's ways to compute the product, and the fastest in each format.
fn fastest(baseline: Baseline, runs: Vec<Run>, ours: &Timing) -> std::result::Result<BaselineReport, String> {
    let median = |run: &Run| run.figures.timing.time_us.median;
    let least = |a: &&Run, b: &&Run| median(a).total_cmp(&median(b));
    let variant = |run: &Run| Variant { variant: run.variant.clone(), median_us: median(run) };
    let variants = runs.iter().map(variant).collect();
    let mut formats: Vec<&'static str> = runs.iter().filter_map(|run| run.format).collect();
    formats.dedup();
    let of_format = |format| {
        let fastest = runs.iter().filter(|run| run.format == Some(format)).min_by(least)?;
        let (variant, timing) = (fastest.variant.clone(), fastest.figures.timing);
        Some(FormatReport { format, variant, median_us: timing.time_us.median, ratio: timing.over(ours) })
    };
    let formats = formats.into_iter().filter_map(of_format).collect();
    let Run { variant, figures, .. } = runs.iter().min_by(least).ok_or("it has no way to compute this product")?;
    let (variant, figures) = (variant.clone(), figures.clone());
    let (ratio, call_ratio) = (figures.timing.over(ours), figures.timing.calls_over(ours));
    Ok(BaselineReport { name: baseline.name(), variant, figures, ratio, call_ratio, formats, variants })
}

//! The residual norms that a solver reports, and a progress bar of them.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use warpsparse::Progress;

/// The course of a solve, as its callback sees it.
pub(super) struct Course {
    /// The residual norm before the first iteration, and after each reported one.
    pub(super) norms: Vec<f64>,
    first: f64,
    least: f64,
    bar: ProgressBar,
    drawn: Instant,
}

/// Positions of the bar.
const LENGTH: u64 = 1000;

impl Course {
    /// `first` is the first residual norm.
    pub(super) fn new(first: f64) -> Self {
        Self { norms: Vec::new(), first, least: first, bar: ProgressBar::hidden(), drawn: Instant::now() }
    }

    /// Starts again, with a bar on stderr if that is a terminal.
    pub(super) fn begin(&mut self, doing: &'static str) {
        let style = ProgressStyle::with_template("{prefix} {bar:20} {msg}").expect("a valid template");
        // An error on the way leaves no bar behind.
        self.bar = ProgressBar::new(LENGTH).with_style(style).with_prefix(doing).with_finish(ProgressFinish::AndClear);
        self.norms.clear();
        self.norms.push(self.first);
        self.least = self.first;
    }

    pub(super) fn hear(&mut self, progress: Progress) -> ControlFlow<()> {
        /// More often, the bar would slow down what it shows.
        const PAUSE: Duration = Duration::from_millis(50);
        let Progress { iteration, residual_norm, target, .. } = progress;
        if iteration == 1 {
            // Perhaps another method, from the start again.
            self.norms.truncate(1);
            self.least = self.first;
        }
        self.norms.push(residual_norm);
        self.least = self.least.min(residual_norm);
        if self.drawn.elapsed() >= PAUSE {
            self.drawn = Instant::now();
            // The residual goes up and down; the bar shows the least so far.
            self.bar.set_position((LENGTH as f64 * fraction(self.first, self.least, target)) as u64);
            self.bar.set_message(format!("iteration {iteration}, residual {residual_norm:.2e}, target {target:.2e}"));
        }
        ControlFlow::Continue(())
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The progress from `first` to `target` on a logarithmic scale.
fn fraction(first: f64, now: f64, target: f64) -> f64 {
    // With a target of 0, the way would have no end.
    let target = target.max(f64::EPSILON * first);
    let fraction = (first / now).ln() / (first / target).ln();
    if fraction.is_nan() { 1.0 } else { fraction.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::fraction;

    #[test]
    fn the_bar_is_logarithmic() {
        assert!((fraction(1.0, 1e-3, 1e-6) - 0.5).abs() < 1e-12);
        assert_eq!([fraction(2.0, 2.0, 1e-6), fraction(2.0, 5.0, 1e-6), fraction(2.0, 1e-9, 1e-6)], [0.0, 0.0, 1.0]);
        assert_eq!([fraction(1.0, 0.0, 0.0), fraction(0.0, 0.0, 0.0)], [1.0, 1.0]);
        assert!((fraction(1.0, 1e-3, 0.0) - 0.19).abs() < 0.01);
    }
}

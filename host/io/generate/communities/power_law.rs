//! How entries are spread over the vertices of a community.

/// A power law of exponent 7/3 with a cap, over the vertices in falling order: at the fraction `t` of them, a vertex has
/// `max(t, t0)^(-3/4)` entries, but for a factor.
///
/// The exponent is one of those between 2 and 3 that graphs in practice have, and a special one: square roots and products
/// are all that it takes, which every machine rounds alike. Functions that do not would make other matrices elsewhere.
///
/// With the fourth root `y` of `t0`, the first `t` of the vertices have `F(t) / F(1)` of the entries, where
///
/// ```text
/// F(t) = t / y³             for t <= y⁴
/// F(t) = 4 t^(1/4) - 3 y    beyond
/// ```
pub(super) struct PowerLaw {
    /// The fourth root of the fraction of vertices that are at the cap.
    y: f64,
}

impl PowerLaw {
    /// The law under which vertices have up to `cap` times as many entries as on the mean: at 1, all have the same.
    ///
    /// At the cap `F` rises by `1 / y³`, and by `F(1)` on the mean: `y³ (4 - 3 y)`, which rises from 0 to 1 with `y`, is
    /// to be the reciprocal of the cap.
    pub(super) fn up_to(cap: f64) -> Self {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let y: f64 = (low + high) / 2.0;
            if cap * (y * y * y * (4.0 - 3.0 * y)) < 1.0 {
                low = y;
            } else {
                high = y;
            }
        }
        Self { y: high }
    }

    /// The share of all entries that the first `t` of the vertices have.
    pub(super) fn share(&self, t: f64) -> f64 {
        let y = self.y;
        let root = t.sqrt().sqrt();
        // The minimum: however the quotient is rounded, shares never fall.
        let entries = if root <= y { (t / (y * y * y)).min(y) } else { 4.0 * root - 3.0 * y };
        entries / (4.0 - 3.0 * y)
    }

    /// The fraction of vertices, first ones first, that have this share of all entries.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let y = self.y;
        let entries = share * (4.0 - 3.0 * y);
        if entries <= y {
            return entries * (y * y * y);
        }
        let root = (entries + 3.0 * y) / 4.0;
        (root * root) * (root * root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against sums of `max(t, t0)^(-3/4)`, with `t0` where a vertex has `cap` times the mean.
    #[test]
    fn shares_are_sums_of_the_law() {
        const STEPS: usize = 1_000_000;
        for cap in [1.0, 1.5, 7.0, 40.0] {
            let law = PowerLaw::up_to(cap);
            let t0 = law.y.powi(4);
            let entries = |step: usize| ((step as f64 + 0.5) / STEPS as f64).max(t0).powf(-0.75);
            let all: f64 = (0..STEPS).map(entries).sum();
            assert!((entries(0) - cap * all / STEPS as f64).abs() < 1e-4 * entries(0), "cap {cap}");
            let mut first = 0.0;
            for step in 0..STEPS {
                if step % 9973 == 0 {
                    let t = step as f64 / STEPS as f64;
                    assert!(
                        (law.share(t) - first / all).abs() < 1e-5,
                        "cap {cap}: the first {t} have {}",
                        law.share(t)
                    );
                    assert!((law.quantile(law.share(t)) - t).abs() < 1e-12, "cap {cap}: {t}");
                }
                first += entries(step);
            }
            assert_eq!((law.share(0.0), law.share(1.0)), (0.0, 1.0));
        }
    }

    /// Rows are differences of shares: one that fell would leave a row with less than nothing.
    #[test]
    fn shares_never_fall() {
        for cap in [1.0, 2.0, 300.0, 1e9, f64::INFINITY] {
            let law = PowerLaw::up_to(cap);
            let shares: Vec<f64> = (0..=100_000).map(|step| law.share(f64::from(step) / 100_000.0)).collect();
            assert!(shares.is_sorted() && shares[0] == 0.0 && shares[100_000] <= 1.0, "cap {cap}");
        }
    }
}

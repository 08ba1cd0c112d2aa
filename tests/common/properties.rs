//! Properties over random cases: other ones in each run, and those that have failed before.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, FileFailurePersistence, RngSeed, TestCaseResult, TestRunner},
};

/// Checks a property on so many random cases, or as many as `PROPTEST_CASES` says.
///
/// Each run begins with the cases that have failed before, which proptest keeps in `tests/regressions/NAME.txt`. The seed of the others
/// is new in each run, unless `PROPTEST_RNG_SEED` gives one; a failure prints it.
pub(crate) fn check<S: Strategy>(name: &str, cases: u32, strategy: S, property: impl Fn(S::Value) -> TestCaseResult) {
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(name),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    let regressions = format!("tests/regressions/{name}.txt").leak();
    config.failure_persistence = Some(Box::new(FileFailurePersistence::Direct(regressions)));
    let result = TestRunner::new(config).run(&strategy.prop_map(Case), |Case(case)| property(case));
    result.unwrap_or_else(|failure| panic!("{name}: {failure}\nThe same cases again: PROPTEST_RNG_SEED={seed}"));
}

/// A case, of which only the beginning is printed: a matrix can have very many entries.
struct Case<T>(T);

impl<T: fmt::Debug> fmt::Debug for Case<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 1000;
        let text = format!("{:?}", self.0);
        let end = text.char_indices().nth(MAX).map(|(end, _)| end);
        write!(f, "{}", end.map_or(text.clone(), |end| format!("{}...", &text[..end])))
    }
}

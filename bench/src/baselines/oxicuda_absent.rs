//! What stands for oxicuda-sparse in a command built without it.

use measure::{DenseProblem, Measurement, Problem};
use warpsparse::Device;

use super::Run;

const REASON: &str = "this command was built without its feature `oxicuda`";

pub(crate) trait Number {}
impl<T> Number for T {}

pub(super) fn describe(_: &Device) -> Result<String, String> {
    Err(REASON.into())
}

pub(super) fn runs<T>(_: &Measurement<'_, Problem<T>>) -> Result<Vec<Run>, String> {
    Err(REASON.into())
}

pub(super) fn dense_runs<T>(_: &Measurement<'_, DenseProblem<'_, T>>) -> Result<Vec<Run>, String> {
    Err(REASON.into())
}

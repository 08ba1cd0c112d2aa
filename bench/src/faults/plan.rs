//! What a run does: the same for the same seed and number.

use std::{fmt, time::Duration};

use clap::ValueEnum;
use measure::{DTypeName, TransportName};
use warpsparse::{CsrMatrix, Result, Scalar};

use crate::sort::random_bits;

/// One run.
pub(super) struct Plan {
    pub(super) number: usize,
    pub(super) ranks: usize,
    pub(super) transport: TransportName,
    pub(super) kill: Option<Kill>,
    pub(super) recipe: Recipe,
}

/// Which rank is killed, and when.
pub(super) struct Kill {
    pub(super) rank: usize,
    /// Whether the time counts from the start of the processes; otherwise from when the ranks have met.
    pub(super) is_early: bool,
    pub(super) after: Duration,
}

/// A symmetric positive definite system: rows are connected over some distances.
pub(super) struct Recipe {
    pub(super) dtype: DTypeName,
    pub(super) rows: usize,
    distances: Vec<usize>,
    /// What the diagonal has in excess of the other entries.
    shift: f64,
}

impl Plan {
    pub(super) fn new(seed: u64, number: usize, transports: &[TransportName], devices: usize, max_rows: u32) -> Self {
        let recipe = Recipe::new(seed, number, max_rows);
        let mut random = Random::new(seed, number, 1);
        let ranks = 1 + random.below(devices);
        let transport = transports[random.below(transports.len())];
        let is_killed = random.below(2) == 0 && ranks > 1;
        // Those who miss a rank at the meeting wait for half a minute.
        let is_early = random.below(16) == 0;
        let after = Duration::from_secs_f64(random.power(1e-3, 1.0));
        let kill = is_killed.then(|| Kill { rank: random.below(ranks), is_early, after });
        Self { number, ranks, transport, kill, recipe }
    }
}

impl Recipe {
    pub(super) fn new(seed: u64, number: usize, max_rows: u32) -> Self {
        let mut random = Random::new(seed, number, 0);
        let dtype = if random.below(2) == 0 { DTypeName::F32 } else { DTypeName::F64 };
        let rows = random.power(1.0, f64::from(max_rows) + 1.0) as usize;
        // Halos of a few elements, or of everything.
        let reach = if random.below(2) == 0 { rows } else { rows.min(64) };
        let count = 1 + random.below(4);
        let mut distances: Vec<usize> = (0..count).map(|_| random.power(1.0, reach as f64 + 1.0) as usize).collect();
        distances.sort_unstable();
        distances.dedup();
        Self { dtype, rows, distances, shift: random.power(0.01, 1.0) }
    }

    pub(super) fn matrix<T: Scalar>(&self) -> Result<CsrMatrix<T>> {
        let Self { rows, ref distances, shift, .. } = *self;
        let (mut offsets, mut columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
        for row in 0..rows {
            let mut entry = |column: usize, value: f64| {
                columns.push(column as u32);
                values.push(T::from_f64(value));
            };
            let weight = |distance: usize| 1.0 / (1 + distance % 3) as f64;
            for &distance in distances.iter().rev().filter(|&&distance| distance <= row) {
                entry(row - distance, -weight(distance));
            }
            let all: f64 = distances.iter().map(|&distance| 2.0 * weight(distance)).sum();
            entry(row, all + shift * (1 + row % 7) as f64);
            for &distance in distances.iter().filter(|&&distance| row + distance < rows) {
                entry(row + distance, -weight(distance));
            }
            offsets.push(columns.len() as u32);
        }
        CsrMatrix::try_from_csr_data(rows, rows, offsets, columns, values)
    }
}

/// A stream of random numbers.
struct Random(usize);

impl Random {
    fn new(seed: u64, number: usize, stream: usize) -> Self {
        let mixed = random_bits(seed as usize) ^ random_bits(number.wrapping_mul(2).wrapping_add(stream));
        Self(random_bits(mixed as usize) as usize)
    }

    /// From 0 on, below 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (random_bits(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.fraction() * limit as f64) as usize).min(limit - 1)
    }

    /// From `least` to `most`, each order of magnitude as often.
    fn power(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.fraction())
    }
}

/// As the option has it.
pub(super) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, transport, kill, recipe, .. } = self;
        let plural = if *ranks == 1 { "" } else { "s" };
        write!(f, "{ranks} rank{plural} by {}, {} rows of {}", name(transport), recipe.rows, recipe.dtype)?;
        let Some(Kill { rank, is_early, after }) = kill else { return Ok(()) };
        let since = if *is_early { "the start" } else { "the meeting" };
        write!(f, ", rank {rank} killed {:.0} ms after {since}", 1e3 * after.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_all_kinds_and_their_matrices_symmetric() {
        let plans: Vec<_> =
            (0..200).map(|number| Plan::new(5, number, &[TransportName::Host, TransportName::Nccl], 4, 3000)).collect();
        let killed = plans.iter().filter_map(|plan| plan.kill.as_ref());
        assert!(killed.clone().all(|kill| kill.rank < 4) && plans.iter().all(|plan| (1..=4).contains(&plan.ranks)));
        assert!(
            (50..110).contains(&killed.clone().count()) && (1..16).contains(&killed.filter(|it| it.is_early).count())
        );
        assert!(plans.iter().all(|plan| plan.kill.as_ref().is_none_or(|kill| kill.rank < plan.ranks)));
        assert!(
            plans.iter().any(|plan| plan.recipe.rows < plan.ranks) && plans.iter().any(|plan| plan.recipe.rows > 1000)
        );
        for plan in plans.iter().filter(|plan| plan.recipe.rows < 300) {
            let a = plan.recipe.matrix::<f64>().unwrap();
            assert_eq!(a, a.transpose().unwrap());
        }
        let again = Plan::new(5, 7, &[TransportName::Host, TransportName::Nccl], 4, 3000);
        assert_eq!(again.to_string(), plans[7].to_string());
    }
}

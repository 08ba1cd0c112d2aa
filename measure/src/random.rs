//! Random elements for dense matrices.

use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_pcg::Pcg64;
use rayon::prelude::*;
use warpsparse::{Device, Error, Result, Scalar};

/// Random numbers from -1 to 1: others for another stream.
pub fn random_elements<T: Scalar>(count: usize, stream: u64) -> Result<Vec<T>> {
    /// Each piece of the elements has a seed of its own, so that threads share the work.
    const PIECE: usize = 1 << 16;
    let mut elements = zeros(count)?;
    elements.par_chunks_mut(PIECE).enumerate().for_each(|(piece, elements)| {
        let mut random = Pcg64::seed_from_u64(piece as u64 | stream << 32);
        elements.fill_with(|| T::from_f64(random.random_range(-1.0..1.0)));
    });
    Ok(elements)
}

/// Brings elements into a random order, which is the same in every run.
pub fn shuffle<T>(elements: &mut [T]) {
    elements.shuffle(&mut Pcg64::seed_from_u64(0));
}

/// As many may be more than the host has room for.
fn zeros<T: Scalar>(count: usize) -> Result<Vec<T>> {
    let requested = count.saturating_mul(size_of::<T>()) as u64;
    let out_of_memory = |_| Error::OutOfMemory { device: Device::cpu().to_string(), requested, available: None };
    Vec::<T>::new().try_reserve_exact(count).map_err(out_of_memory)?;
    // Zeros that the system gives, so that the threads that fill them are the first to touch them.
    Ok(vec![T::default(); count])
}

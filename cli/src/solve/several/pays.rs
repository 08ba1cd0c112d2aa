//! Whether several GPUs solve a system faster than one.

use measure::{Ranks, TransportName};
use warpsparse::{CsrMatrix, Device, Result, Scalar};

/// An iteration on one GPU, where it has hardly anything to move: measured on an H100.
const ALONE_US: f64 = 8.0;

/// The same on two H100 by peer memory, and in another way: what is left of measured iterations when the bytes are taken off. Most of it is sums over the ranks.
const BY_PEERS_US: f64 = 40.0;
const BY_OTHERS_US: f64 = 65.0;

/// The expected time of an iteration of conjugate gradients with Jacobi's preconditioner: the model of docs/many_gpus.md without the halo, which is small
/// where an order of rows makes it so.
struct Iteration {
    /// That it moves at least.
    bytes: f64,
    /// Of one GPU, in bytes a second.
    bandwidth: f64,
}

impl Iteration {
    /// With a matrix of so many rows and entries.
    fn of<T: Scalar>(rows: usize, entries: usize, bandwidth: f64) -> Self {
        let bytes = entries * (4 + size_of::<T>()) + rows * (4 + 12 * size_of::<T>());
        Self { bytes: bytes as f64, bandwidth }
    }

    fn us(&self, devices: usize, transport: TransportName) -> f64 {
        let latency = match (devices, transport) {
            (1, _) => ALONE_US,
            (_, TransportName::Peers) => BY_PEERS_US,
            _ => BY_OTHERS_US,
        };
        latency + 1e6 * self.bytes / (devices as f64 * self.bandwidth)
    }

    /// Why one of so many GPUs is enough, if so.
    fn one_is_enough(&self, devices: usize, transport: TransportName) -> Option<String> {
        let [alone, together] = [1, devices].map(|devices| self.us(devices, transport));
        (devices > 1 && alone <= together).then(|| {
            format!(
                "one of {devices} GPUs, since an iteration of about {alone:.0} µs is expected to take {together:.0} µs on all of them; \
                 name their numbers to use them all"
            )
        })
    }
}

/// The one GPU to use, and why, where `all` names several that would be slower.
pub(super) fn one_of<'r, T: Scalar>(
    ranks: &'r Ranks,
    names: &str,
    matrix: &CsrMatrix<T>,
) -> Result<Option<(&'r Device, String)>> {
    let Ranks::Threads(devices, transport) = ranks else { return Ok(None) };
    if names != "all" || devices.len() == 1 {
        return Ok(None);
    }
    let iteration = Iteration::of::<T>(matrix.nrows(), matrix.nnz(), devices[0].measure_copy_bandwidth()?);
    Ok(iteration.one_is_enough(devices.len(), *transport).map(|why| (&devices[0], why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_systems_stay_on_one_gpu() {
        // The 7-point stencil.
        let of = |side: usize| Iteration::of::<f64>(side.pow(3), 7 * side.pow(3) - 6 * side.pow(2), 2.5e12);
        // 12 bytes an entry, and 100 a row.
        assert_eq!(of(10).bytes, 12.0 * (7.0 * 1000.0 - 6.0 * 100.0) + 100.0 * 1000.0);
        for transport in [TransportName::Auto, TransportName::Nccl, TransportName::Host, TransportName::Peers] {
            let why = of(32).one_is_enough(2, transport).unwrap();
            assert!(why.starts_with("one of 2 GPUs, since an iteration of about 10 µs"), "{why}");
            assert!(of(32).one_is_enough(8, transport).is_some());
            // Two took 138 and 111 µs, and one 163.
            assert_eq!(of(128).one_is_enough(2, transport), None);
            assert_eq!(of(32).one_is_enough(1, transport), None);
        }
        // Between them the transport counts.
        assert!(of(96).one_is_enough(2, TransportName::Nccl).is_some());
        assert!(of(96).one_is_enough(2, TransportName::Peers).is_none());
    }
}

//! Ranks as processes, of one machine or several.

use std::env;

use super::{Communicator, TransportChoice, communicator::TIME_LIMIT, peers::Peers, run::one_rank, wires::Wires};
use crate::{Device, Error, Result};

/// Where the processes of a distributed computation meet, and which of them this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    /// The number of this rank, from 0 on.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// The number of this rank among those of its machine, from 0 on: usually that of its GPU.
    pub local_rank: usize,
    /// Where rank 0 listens, as `host:port`. The other ranks connect there, then with one another at ports that the systems choose. Anybody
    /// who can reach these ports can disturb the computation, so they belong in a network of one's own.
    pub address: String,
}

/// The port of rank 0 if no launcher names another, as of `torchrun`.
const PORT: &str = "29500";

impl Rendezvous {
    /// Reads what a launcher says in the environment:
    ///
    /// | launcher | rank | ranks | rank on the machine |
    /// |---|---|---|---|
    /// | `torchrun`, `warpsparse launch` | `RANK` | `WORLD_SIZE` | `LOCAL_RANK` |
    /// | `mpirun` of Open MPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` | `OMPI_COMM_WORLD_LOCAL_RANK` |
    /// | `srun` of Slurm | `SLURM_PROCID` | `SLURM_NTASKS` | `SLURM_LOCALID` |
    ///
    /// The address of rank 0 is `MASTER_ADDR`, by default this machine, and `MASTER_PORT`, by default 29500; `torchrun` sets both. Where
    /// `TORCHELASTIC_USE_AGENT_STORE` is `True`, torchrun itself listens at that port, and rank 0 at the next one. On
    /// several machines set `MASTER_ADDR` to the name of that of rank 0. `None` if there is no launcher.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if a variable is missing, no number, or out of range.
    pub fn from_env() -> Result<Option<Self>> {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        const LAUNCHERS: [[&str; 3]; 3] = [
            ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
            ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
            ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
        ];
        let Some(names) = LAUNCHERS.into_iter().find(|[rank, size, _]| variable(rank).or(variable(size)).is_some())
        else {
            return Ok(None);
        };
        let number = |name: &str| {
            let text =
                variable(name).ok_or_else(|| Error::InvalidOption(format!("{name} is not in the environment")))?;
            text.parse::<usize>().map_err(|_| Error::InvalidOption(format!("{name} is `{text}`, which is no number")))
        };
        let [rank, size, local_rank] = [number(names[0])?, number(names[1])?, number(names[2])?];
        if rank >= size {
            return Err(Error::InvalidOption(format!("{} is {rank}, and {} is {size}", names[0], names[1])));
        }
        let host = variable("MASTER_ADDR").unwrap_or_else(|| "127.0.0.1".into());
        let port = variable("MASTER_PORT").unwrap_or_else(|| PORT.into());
        let mut port: u16 =
            port.parse().map_err(|_| Error::InvalidOption(format!("MASTER_PORT is `{port}`, which is no port")))?;
        if variable("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") {
            let problem =
                || Error::InvalidOption(format!("torchrun listens at the port {port}, and there is none after it"));
            port = port.checked_add(1).ok_or_else(problem)?;
        }
        Ok(Some(Self { rank, size, local_rank, address: format!("{host}:{port}") }))
    }
}

/// Runs a program as one rank of several processes, each of which calls this function, as [`run`](super::run) does for threads. The device is
/// usually `Device::cuda(meeting.local_rank)`.
///
/// ```no_run
/// use warpsparse::{Device, distributed::{self, Rendezvous}};
///
/// // Started by: torchrun, mpirun, srun or `warpsparse launch`.
/// let meeting = Rendezvous::from_env()?.expect("a launcher");
/// let device = Device::cuda(meeting.local_rank)?;
/// let sum = distributed::join(&meeting, &device, |communicator| communicator.sum(&[1.0]))?;
/// assert_eq!(sum, [meeting.size as f64]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidOption`] for a rank that is not below the number of ranks. [`Error::Rank`] if a rank does not come within 30 seconds, fails,
/// panics, or its process ends; see [`run`](super::run).
pub fn join<R>(meeting: &Rendezvous, device: &Device, program: impl Fn(&Communicator) -> Result<R>) -> Result<R> {
    join_with(meeting, device, TransportChoice::Auto, program)
}

/// Runs a program like [`join`], with data that goes from device to device as `choice` says, the same on every rank.
///
/// # Errors
/// As [`join`]; [`Error::Unsupported`], as that of a rank, if the ranks cannot exchange data so.
pub fn join_with<R>(
    meeting: &Rendezvous,
    device: &Device,
    choice: TransportChoice,
    program: impl Fn(&Communicator) -> Result<R>,
) -> Result<R> {
    let Rendezvous { rank, size, .. } = *meeting;
    if rank >= size {
        return Err(Error::InvalidOption(format!("rank {rank} of {size}")));
    }
    let wires = Wires::connect(meeting, TIME_LIMIT)?;
    one_rank(&Communicator::new(rank, device.clone(), Peers::Processes(wires)), choice, &program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<Rendezvous>> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Rendezvous::from_variables(find)
    }

    #[test]
    fn launchers_say_who_is_who() {
        assert_eq!(of(&[("MASTER_ADDR", "a")]).unwrap(), None);
        let expected = |address: &str| Rendezvous { rank: 5, size: 8, local_rank: 1, address: address.into() };
        let torchrun =
            [("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "node1"), ("MASTER_PORT", "123")];
        assert_eq!(of(&torchrun).unwrap(), Some(expected("node1:123")));
        let with_agent = [&torchrun[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(of(&with_agent).unwrap(), Some(expected("node1:124")));
        let mpirun =
            [("OMPI_COMM_WORLD_RANK", "5"), ("OMPI_COMM_WORLD_SIZE", "8"), ("OMPI_COMM_WORLD_LOCAL_RANK", "1")];
        assert_eq!(of(&mpirun).unwrap(), Some(expected("127.0.0.1:29500")));
        let srun = [("SLURM_PROCID", "5"), ("SLURM_NTASKS", "8"), ("SLURM_LOCALID", "1"), ("MASTER_ADDR", "n")];
        assert_eq!(of(&srun).unwrap(), Some(expected("n:29500")));
        for (bad, word) in [
            (&[("RANK", "0"), ("WORLD_SIZE", "2")][..], "LOCAL_RANK is not in"),
            (&[("RANK", "2"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")], "RANK is 2, and WORLD_SIZE is 2"),
            (&[("RANK", "-1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")], "RANK is `-1`"),
            (&[("WORLD_SIZE", "2")], "RANK is not in"),
            (&[("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("MASTER_PORT", "x")], "MASTER_PORT is `x`"),
            (
                &[
                    ("RANK", "0"),
                    ("WORLD_SIZE", "2"),
                    ("LOCAL_RANK", "0"),
                    ("MASTER_PORT", "65535"),
                    ("TORCHELASTIC_USE_AGENT_STORE", "True"),
                ],
                "none after it",
            ),
        ] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

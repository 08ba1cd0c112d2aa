//! How data goes from device to device.

use std::fmt;

use super::Communicator;
use crate::Result;
#[cfg(feature = "cuda")]
use {
    super::nccl::{self, Nccl},
    crate::Device,
    std::str::from_utf8,
};

/// The way of data from device to device.
#[derive(Debug)]
pub(super) enum Transport {
    /// Through host memory and the inboxes; and why no other.
    Host { reason: String },
    /// From GPU to GPU, in the order of their streams.
    #[cfg(feature = "cuda")]
    Nccl(Nccl),
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { reason } => write!(f, "data is exchanged through host memory: {reason}"),
            #[cfg(feature = "cuda")]
            Self::Nccl(nccl) => write!(f, "data is exchanged by NCCL {}", nccl.version()),
        }
    }
}

#[cfg(not(feature = "cuda"))]
impl Transport {
    pub(super) fn agree(_: &Communicator) -> Result<Self> {
        Ok(Self::Host { reason: "warpsparse was built without the feature `cuda`".into() })
    }
}

#[cfg(feature = "cuda")]
impl Transport {
    /// Chooses NCCL if every rank has it, and a GPU of its own.
    pub(super) fn agree(communicator: &Communicator) -> Result<Self> {
        let offers =
            communicator.call("an offer of a transport").all_gather(offer(communicator.device()).as_bytes())?;
        let offers: Vec<_> = offers.iter().map(|offer| String::from_utf8_lossy(offer)).collect();
        if let Some(reason) = why_not(&offers) {
            return Ok(Self::Host { reason });
        }
        let own_id = if communicator.rank() == 0 { nccl::new_id() } else { Ok([0; 128]) };
        let message = match &own_id {
            Ok(id) => &id[..],
            Err(problem) => problem.as_bytes(),
        };
        let from_0 = &communicator.call("an identity for NCCL").all_gather(message)?[0];
        // A message of another length is rank 0's problem.
        let Ok(id) = <nccl::Id>::try_from(&**from_0) else {
            return Ok(Self::Host { reason: String::from_utf8_lossy(from_0).into_owned() });
        };
        let connected = Nccl::connect(communicator.device(), id, communicator.rank(), communicator.size());
        let problem = connected.as_ref().err().map_or("", String::as_str);
        let problems = communicator.call("a connection by NCCL").all_gather(problem.as_bytes())?;
        let of_rank = |(rank, problem): (usize, &str)| format!("rank {rank}: {problem}");
        let mut problems = problems.iter().map(|problem| from_utf8(problem).unwrap_or("NCCL")).enumerate();
        match (connected, problems.find(|(_, problem)| !problem.is_empty())) {
            (Ok(nccl), None) => Ok(Self::Nccl(nccl)),
            (_, Some(problem)) => Ok(Self::Host { reason: of_rank(problem) }),
            (Err(problem), None) => Ok(Self::Host { reason: problem }),
        }
    }
}

/// The version of NCCL and the identity of the GPU, separated by a space; otherwise why a rank has none, after a `-`.
#[cfg(feature = "cuda")]
fn offer(device: &Device) -> String {
    match (device.uuid(), nccl::version()) {
        (None, _) => format!("-{device} is no GPU"),
        (_, Err(problem)) => format!("-{problem}"),
        (Some(uuid), Ok(version)) => format!("{version} {uuid:032x}"),
    }
}

/// Why the ranks do not use NCCL, if they do not.
#[cfg(feature = "cuda")]
fn why_not(offers: &[impl AsRef<str>]) -> Option<String> {
    let mut gpus: Vec<&str> = Vec::new();
    for (rank, offer) in offers.iter().map(AsRef::as_ref).enumerate() {
        if let Some(problem) = offer.strip_prefix('-') {
            return Some(format!("rank {rank}: {problem}"));
        }
        let (version, gpu) = offer.split_once(' ').unwrap_or((offer, ""));
        let of_0 = offers[0].as_ref();
        if !of_0.starts_with(&format!("{version} ")) {
            return Some(format!(
                "rank {rank} has NCCL {version}, and rank 0 has {}",
                of_0.split(' ').next().unwrap_or(of_0)
            ));
        }
        if let Some(other) = gpus.iter().position(|other| *other == gpu) {
            return Some(format!("ranks {other} and {rank} share a GPU"));
        }
        gpus.push(gpu);
    }
    (offers.len() == 1).then(|| "there is one rank".into())
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;

    #[test]
    fn nccl_needs_the_same_version_and_a_gpu_for_each_rank() {
        assert_eq!(why_not(&["2.28.9 aa", "2.28.9 bb"]), None);
        assert_eq!(why_not(&["2.28.9 aa", "2.28.9 aa"]).unwrap(), "ranks 0 and 1 share a GPU");
        assert_eq!(why_not(&["2.28.9 aa", "2.28.10 bb"]).unwrap(), "rank 1 has NCCL 2.28.10, and rank 0 has 2.28.9");
        assert_eq!(why_not(&["2.28.9 aa", "-cpu is no GPU"]).unwrap(), "rank 1: cpu is no GPU");
        assert_eq!(why_not(&["2.28.9 aa"]).unwrap(), "there is one rank");
    }
}

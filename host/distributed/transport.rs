//! How data goes from device to device.

#[cfg(feature = "cuda")]
use std::time::Instant;
use std::{fmt, fs, str::from_utf8};

#[cfg(feature = "cuda")]
use super::nccl::{self, Nccl};
use super::{Communicator, windows::Windows};
use crate::{Error, Result};

/// How data goes from device to device: see [`Communicator::describe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportChoice {
    /// The first that all ranks can use: NCCL, host memory; between emulated GPUs peer memory.
    #[default]
    Auto,
    /// GPUs of one machine that see each other's memory write it themselves. So do emulated GPUs of one process.
    Peers,
    /// NCCL, between GPUs of one machine or several.
    Nccl,
    /// Copies through host memory, between any devices.
    Host,
}

/// The way of data from device to device.
#[derive(Debug)]
pub(super) enum Transport {
    /// Through host memory and the inboxes; and why no other.
    Host { reason: String },
    /// By memory that the devices write to each other, in the order of their streams.
    Windows(Windows),
    /// From GPU to GPU by NCCL, in the order of their streams.
    #[cfg(feature = "cuda")]
    Nccl(Nccl),
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { reason } => write!(f, "data is exchanged through host memory: {reason}"),
            Self::Windows(_) => write!(f, "data is exchanged by peer memory"),
            #[cfg(feature = "cuda")]
            Self::Nccl(nccl) => write!(f, "data is exchanged by NCCL {}", nccl.version()),
        }
    }
}

impl Transport {
    /// Chooses the first transport that every rank has, of those that the program wants. Collective.
    pub(super) fn agree(communicator: &Communicator, choice: TransportChoice) -> Result<Self> {
        let call = communicator.call(format!("an offer of transports, of which the program wants {choice:?}"));
        let offers = call.all_gather(Offer::of(communicator).to_text().as_bytes())?;
        let offers: Vec<Offer> = offers.iter().map(|text| Offer::from_text(&String::from_utf8_lossy(text))).collect();
        if offers.len() == 1 {
            return Ok(Self::Host { reason: "there is one rank".into() });
        }
        let mut reasons: Vec<String> = Vec::new();
        // Between GPUs on request only: for large systems it is slower than NCCL.
        let is_emulated = offers.iter().all(|offer| offer.kind == "emulated GPU");
        if choice == TransportChoice::Peers || choice == TransportChoice::Auto && is_emulated {
            let connected = match why_no_windows(&offers) {
                None => Windows::connect(communicator)?,
                Some(reason) => Err(reason),
            };
            match connected {
                Ok(windows) => return Ok(Self::Windows(windows)),
                Err(reason) => reasons.push(format!("no peer memory, as {reason}")),
            }
        }
        if matches!(choice, TransportChoice::Auto | TransportChoice::Nccl) {
            let connected = match why_no_nccl(&offers) {
                None => connect_nccl(communicator)?,
                Some(reason) => Err(reason),
            };
            match connected {
                #[cfg(feature = "cuda")]
                Ok(nccl) => return Ok(Self::Nccl(nccl)),
                #[cfg(not(feature = "cuda"))]
                Ok(never) => match never {},
                Err(reason) => reasons.push(format!("no NCCL, as {reason}")),
            }
        }
        let reason = reasons.join("; ");
        match choice {
            TransportChoice::Host => Ok(Self::Host { reason: "the program wants it".into() }),
            TransportChoice::Auto => Ok(Self::Host { reason }),
            TransportChoice::Peers | TransportChoice::Nccl => Err(Error::Unsupported(reason)),
        }
    }
}

/// Gathers the problems of all ranks with one step of a connection. Returns what this rank has got, or the first problem, with the rank.
/// Collective.
pub(super) fn agree<T>(
    communicator: &Communicator,
    step: &str,
    result: std::result::Result<T, String>,
) -> Result<std::result::Result<T, String>> {
    let problem = result.as_ref().err().map_or("", String::as_str);
    let problems = communicator.call(step).all_gather(problem.as_bytes())?;
    let mut problems = problems.iter().map(|problem| from_utf8(problem).unwrap_or("of no text")).enumerate();
    match (result, problems.find(|(_, problem)| !problem.is_empty())) {
        (_, Some((rank, problem))) => Ok(Err(format!("rank {rank}: {problem}"))),
        (result, None) => Ok(result),
    }
}

#[cfg(feature = "cuda")]
fn connect_nccl(communicator: &Communicator) -> Result<std::result::Result<Nccl, String>> {
    let own_id = if communicator.rank() == 0 { nccl::new_id().map(Vec::from) } else { Ok(Vec::new()) };
    let own_id = match agree(communicator, "an identity for NCCL", own_id)? {
        Ok(id) => id,
        Err(problem) => return Ok(Err(problem)),
    };
    let from_0 = &communicator.call("the identity for NCCL").all_gather(&own_id)?[0];
    let id = <nccl::Id>::try_from(&**from_0).map_err(|_| "rank 0 sends no identity for NCCL".to_owned());
    let (start, limit) = (Instant::now(), communicator.time_limit());
    let gives_up = || match communicator.inbox().failure() {
        Some(failure) => Some(failure.into_error().to_string()),
        None => (start.elapsed() > limit).then(|| format!("the ranks have not connected within {limit:?}")),
    };
    let place = (communicator.rank(), communicator.size());
    let inbox = communicator.inbox().clone();
    let connected = id.and_then(|id| Nccl::connect(communicator.device(), id, place, gives_up, inbox));
    // A rank for which it has failed at once waits for those that have waited in vain.
    communicator.set_time_limit(limit.saturating_mul(2));
    let agreed = agree(communicator, "a connection by NCCL", connected);
    communicator.set_time_limit(limit);
    agreed
}

#[cfg(not(feature = "cuda"))]
fn connect_nccl(_: &Communicator) -> Result<std::result::Result<std::convert::Infallible, String>> {
    Ok(Err(NOT_BUILT.into()))
}

#[cfg(not(feature = "cuda"))]
const NOT_BUILT: &str = "warpsparse was built without the feature `cuda`";

/// What a rank has to exchange data by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Offer {
    /// Its device, as users name it.
    device: String,
    kind: String,
    /// The GPU's identity.
    gpu: String,
    /// The machine's, since it has started.
    machine: String,
    /// The version of NCCL; or, after a `-`, why there is none.
    nccl: String,
}

impl Offer {
    fn of(communicator: &Communicator) -> Self {
        let device = communicator.device();
        let kind = if device.is_cpu() {
            "CPU"
        } else if device.is_cuda() {
            "GPU"
        } else {
            "emulated GPU"
        };
        #[cfg(feature = "cuda")]
        let (gpu, nccl) = (device.uuid().map_or_else(String::new, |uuid| format!("{uuid:032x}")), nccl::version());
        #[cfg(not(feature = "cuda"))]
        let (gpu, nccl) = (String::new(), Err::<String, _>(NOT_BUILT));
        Self {
            device: device.to_string(),
            kind: kind.into(),
            gpu,
            machine: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into(),
            nccl: nccl.unwrap_or_else(|problem| format!("-{problem}")),
        }
    }

    fn to_text(&self) -> String {
        let Self { device, kind, gpu, machine, nccl } = self;
        [device, kind, gpu, machine, nccl].map(|part| part.replace('\n', " ")).join("\n")
    }

    fn from_text(text: &str) -> Self {
        let mut parts = text.split('\n').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        Self { device: next(), kind: next(), gpu: next(), machine: next(), nccl: next() }
    }
}

/// Why the ranks do not write each other's memory, as far as the offers tell.
fn why_no_windows(offers: &[Offer]) -> Option<String> {
    let of_0 = &offers[0];
    let odd = |rank: usize, offer: &Offer| {
        if offer.kind == "CPU" {
            Some(format!("rank {rank}: {} is no GPU", offer.device))
        } else if offer.kind != of_0.kind {
            Some(format!("rank {rank} has: {}; rank 0: {}", offer.kind, of_0.kind))
        } else if offer.machine != of_0.machine {
            Some(format!("rank {rank} is on another machine than rank 0"))
        } else {
            None
        }
    };
    let odd = offers.iter().enumerate().find_map(|(rank, offer)| odd(rank, offer));
    odd.or_else(|| shared_gpu(offers).filter(|_| of_0.kind == "GPU"))
}

/// Why the ranks do not use NCCL, if they do not.
fn why_no_nccl(offers: &[Offer]) -> Option<String> {
    let of_0 = &offers[0];
    let odd = |rank: usize, offer: &Offer| {
        if offer.kind != "GPU" {
            Some(format!("rank {rank}: {} is no GPU", offer.device))
        } else if let Some(problem) = offer.nccl.strip_prefix('-') {
            Some(format!("rank {rank}: {problem}"))
        } else if offer.nccl != of_0.nccl {
            Some(format!("rank {rank} has NCCL {}, and rank 0 has {}", offer.nccl, of_0.nccl))
        } else {
            None
        }
    };
    offers.iter().enumerate().find_map(|(rank, offer)| odd(rank, offer)).or_else(|| shared_gpu(offers))
}

/// The first two ranks with the same GPU.
fn shared_gpu(offers: &[Offer]) -> Option<String> {
    let shared = |(rank, offer): (usize, &Offer)| {
        let other = offers[..rank].iter().position(|other| other.gpu == offer.gpu)?;
        Some(format!("ranks {other} and {rank} share a GPU"))
    };
    offers.iter().enumerate().find_map(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(kind: &str, gpu: &str, machine: &str, nccl: &str) -> Offer {
        let [device, kind, gpu, machine, nccl] = [kind, kind, gpu, machine, nccl].map(str::to_owned);
        Offer { device, kind, gpu, machine, nccl }
    }

    #[test]
    fn nccl_needs_the_same_version_and_a_gpu_for_each_rank() {
        let first = offer("GPU", "aa", "m", "2.28.9");
        let why = |second: Offer| why_no_nccl(&[first.clone(), second]);
        assert_eq!(why(offer("GPU", "bb", "n", "2.28.9")), None);
        assert_eq!(why(offer("GPU", "aa", "m", "2.28.9")).unwrap(), "ranks 0 and 1 share a GPU");
        assert_eq!(why(offer("GPU", "bb", "m", "2.28.10")).unwrap(), "rank 1 has NCCL 2.28.10, and rank 0 has 2.28.9");
        assert_eq!(why(offer("GPU", "bb", "m", "-no NCCL")).unwrap(), "rank 1: no NCCL");
        assert_eq!(why(offer("CPU", "", "m", "2.28.9")).unwrap(), "rank 1: CPU is no GPU");
    }

    #[test]
    fn peer_memory_needs_one_machine_and_a_gpu_for_each_rank() {
        let first = offer("GPU", "aa", "m", "-");
        let why = |second: Offer| why_no_windows(&[first.clone(), second]);
        assert_eq!(why(offer("GPU", "bb", "m", "-")), None);
        assert_eq!(why(offer("GPU", "aa", "m", "-")).unwrap(), "ranks 0 and 1 share a GPU");
        assert_eq!(why(offer("GPU", "bb", "n", "-")).unwrap(), "rank 1 is on another machine than rank 0");
        assert_eq!(why(offer("CPU", "", "m", "-")).unwrap(), "rank 1: CPU is no GPU");
        assert_eq!(why(offer("emulated GPU", "", "m", "-")).unwrap(), "rank 1 has: emulated GPU; rank 0: GPU");
        let emulated = offer("emulated GPU", "", "m", "-");
        assert_eq!(why_no_windows(&[emulated.clone(), emulated]), None);
    }

    #[test]
    fn offers_keep_their_parts() {
        let offer = offer("GPU", "aa", "", "-no NCCL:\nnot found");
        let read = Offer::from_text(&offer.to_text());
        assert_eq!(read, Offer { nccl: "-no NCCL: not found".into(), ..offer });
    }
}

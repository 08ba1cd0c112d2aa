//! The devices of one computation, as the option `--devices` names them.

use clap::ValueEnum;
use warpsparse::{
    Device, Error, Result,
    distributed::{self, Communicator, Rendezvous, TransportChoice},
};

/// How data goes from device to device, as the option `--transport` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TransportName {
    /// The first that all can use: nccl, host; peers between emulated GPUs.
    #[default]
    Auto,
    /// GPUs of one machine write each other's memory.
    Peers,
    /// NCCL.
    Nccl,
    /// Through host memory.
    Host,
}

impl From<TransportName> for TransportChoice {
    fn from(name: TransportName) -> Self {
        match name {
            TransportName::Auto => Self::Auto,
            TransportName::Peers => Self::Peers,
            TransportName::Nccl => Self::Nccl,
            TransportName::Host => Self::Host,
        }
    }
}

/// The ranks of a computation.
#[derive(Debug)]
pub enum Ranks {
    /// Threads of this process, one for each device.
    Threads(Vec<Device>, TransportName),
    /// This process is one rank.
    Process(Rendezvous, Device, TransportName),
}

impl Ranks {
    /// Reads `all`, numbers of GPUs such as `0,1,2`, `cpu:N`, `emulated:N`, `ranks` or `ranks:DEVICE`.
    pub fn from_name(name: &str, transport: TransportName) -> Result<Self> {
        let unknown = || {
            let names = "`all`, numbers of GPUs such as `0,1,2`, `cpu:N`, `emulated:N`, `ranks` or `ranks:cpu`";
            Error::InvalidOption(format!("no devices `{name}`: they are {names}"))
        };
        if name == "all" {
            let count = Device::cuda_count()?;
            return Ok(Self::Threads((0..count.max(1)).map(Device::cuda).collect::<Result<_>>()?, transport));
        }
        if let Some(device) = name.strip_prefix("ranks") {
            let none = "no launcher: `ranks` is for `warpsparse launch`, torchrun, mpirun and srun";
            let meeting = Rendezvous::from_env()?.ok_or_else(|| Error::InvalidOption(none.into()))?;
            let device = match device.strip_prefix(':') {
                Some(device) => Device::from_name(device)?,
                None if device.is_empty() => Device::cuda(meeting.local_rank)?,
                None => return Err(unknown()),
            };
            return Ok(Self::Process(meeting, device, transport));
        }
        if let Some((kind @ ("cpu" | "emulated"), count)) = name.split_once(':') {
            let count: usize = count.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or_else(unknown)?;
            return Ok(Self::Threads(vec![Device::from_name(kind)?; count], transport));
        }
        let numbers = name.split(',').map(|number| number.parse().map_err(|_| unknown()));
        Ok(Self::Threads(numbers.map(|number| Device::cuda(number?)).collect::<Result<_>>()?, transport))
    }

    /// Runs a program on every rank. Returns the result of rank 0; in another process nothing.
    pub fn run<R: Send>(&self, program: impl Fn(&Communicator) -> Result<R> + Sync) -> Result<Option<R>> {
        match self {
            Self::Threads(devices, transport) => {
                Ok(distributed::run_with(devices, (*transport).into(), program)?.into_iter().next())
            }
            Self::Process(meeting, device, transport) => {
                let result = distributed::join_with(meeting, device, (*transport).into(), program)?;
                Ok((meeting.rank == 0).then_some(result))
            }
        }
    }

    /// The device of rank 0, or of this process.
    pub fn first(&self) -> &Device {
        match self {
            Self::Threads(devices, _) => &devices[0],
            Self::Process(_, device, _) => device,
        }
    }

    /// Describes the devices in a line.
    pub fn describe(&self) -> String {
        match self {
            Self::Threads(devices, _) => {
                let names: Vec<_> = devices.iter().map(Device::to_string).collect();
                format!("{} threads on {}; the first: {}", devices.len(), names.join(", "), devices[0].describe())
            }
            Self::Process(meeting, device, _) => {
                format!("{} processes; the first: {}", meeting.size, device.describe())
            }
        }
    }
}

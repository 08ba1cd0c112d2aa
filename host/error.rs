//! The error type of the crate.

use std::{io, path::PathBuf};

/// The result of every function that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and where. [`kind`](Error::kind) groups errors by how a caller can respond.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arguments of a matrix constructor are not a valid matrix; the text names the first violation.
    #[error("invalid {format} matrix: {problem}")]
    InvalidMatrix {
        /// The format: "CSR", "COO", "DIA".
        format: &'static str,
        /// The first violation: which array, which position, which value.
        problem: String,
    },

    /// A padded format would store many more slots than the matrix has entries.
    #[error("{format} would take at least {slots} slots for {entries} entries, and the limit is {limit}")]
    PaddingExceeded {
        /// The format: "BSR", "DIA", "ELL" or "HYB".
        format: &'static str,
        /// The number of slots; for DIA the first number beyond the limit, where counting stops.
        slots: usize,
        /// The number of entries.
        entries: usize,
        /// The maximum number of slots.
        limit: usize,
    },

    /// A length does not match the operation.
    #[error("{what} has {found} elements where the operation needs {expected}")]
    LengthMismatch {
        /// The argument.
        what: &'static str,
        /// The expected length.
        expected: usize,
        /// The actual length.
        found: usize,
    },

    /// An argument is on another device than the operation.
    #[error("{what} is on {found}, but the operation runs on {expected}: move it there first")]
    DeviceMismatch {
        /// The argument.
        what: &'static str,
        /// The device of the operation.
        expected: String,
        /// The device of the argument.
        found: String,
    },

    /// An option has an invalid value.
    #[error("invalid option: {0}")]
    InvalidOption(String),

    /// A file violates its format.
    #[error("{}:{line}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line number, starting at 1.
        line: u64,
        /// What is wrong there.
        problem: String,
    },

    /// The file is valid, but of a kind that this crate does not read.
    #[error("not supported: {}: {problem}", path.display())]
    UnsupportedFile {
        /// The file.
        path: PathBuf,
        /// What about it is not supported.
        problem: String,
    },

    /// The arguments are valid, but no kernel computes this.
    #[error("not supported: {0}")]
    Unsupported(String),

    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The device does not exist, or cannot be used.
    #[error("no {wanted}: {reason}")]
    NoDevice {
        /// The requested device.
        wanted: String,
        /// Why it is unavailable.
        reason: String,
    },

    /// The driver is too old for this crate's kernels.
    #[error("the NVIDIA driver is too old: it supports CUDA {}.{}, and {needs}", .driver.0, .driver.1)]
    DriverTooOld {
        /// The CUDA version that the driver supports, major and minor.
        driver: (u32, u32),
        /// What requires a newer one.
        needs: String,
    },

    /// There is not enough free memory.
    #[error("out of memory on {device}: {requested} bytes asked for{}", free_of_total(.available))]
    OutOfMemory {
        /// The device.
        device: String,
        /// The number of bytes requested.
        requested: u64,
        /// The free and total bytes, if the device reports them.
        available: Option<(u64, u64)>,
    },

    /// An iterative method broke down: the matrix does not satisfy its requirements, or numbers overflow.
    #[error("iteration {iteration}: {problem}")]
    Breakdown {
        /// The iteration that failed, starting at 1; 0 before the first.
        iteration: usize,
        /// What was found.
        problem: String,
    },

    /// A rank of a distributed computation has failed, and with it the operation of every rank.
    #[error("rank {rank}: {problem}")]
    Rank {
        /// The rank whose fault it is.
        rank: usize,
        /// What happened there.
        problem: String,
        /// The kind of that rank's error; [`ErrorKind::Rank`] if it has panicked, ended or not answered in time.
        kind: ErrorKind,
    },

    /// A kernel broke a rule on the emulated device.
    #[error("{0}")]
    KernelCheck(Box<cuda_std::emulator::Finding>),

    /// Any other failure of the CUDA driver.
    #[error("CUDA driver, {call}: {message}")]
    Driver {
        /// The operation that failed.
        call: String,
        /// The driver's name and description of the error.
        message: String,
    },
}

/// The kinds of [`Error`], by how a caller can respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Data, lengths, options or devices do not match: a mistake in the call.
    InvalidInput,
    /// A valid call that this crate, or this device, does not support.
    Unsupported,
    /// A file that is invalid or of an unsupported kind.
    InvalidFile,
    /// The operating system refused a file.
    Io,
    /// No usable device.
    NoDevice,
    /// Not enough memory, on the device or the host.
    OutOfMemory,
    /// An iterative method broke down.
    Breakdown,
    /// A rank of a distributed computation has panicked, ended or not answered in time.
    Rank,
    /// A kernel broke a rule on the emulated device.
    KernelCheck,
    /// The driver failed.
    Driver,
}

impl ErrorKind {
    /// All, by their numbers in messages between processes.
    const ALL: [Self; 10] = [
        Self::InvalidInput,
        Self::Unsupported,
        Self::InvalidFile,
        Self::Io,
        Self::NoDevice,
        Self::OutOfMemory,
        Self::Breakdown,
        Self::Rank,
        Self::KernelCheck,
        Self::Driver,
    ];

    /// The number of the kind in messages between processes.
    pub(crate) fn number(self) -> u8 {
        Self::ALL.iter().position(|kind| *kind == self).map_or(u8::MAX, |place| place as u8)
    }

    /// The kind of a number; of an unknown one, that of a rank's failure.
    pub(crate) fn of_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Rank)
    }
}

impl Error {
    /// Says in what a breakdown happened; other errors stay.
    pub(crate) fn within(self, what: &str) -> Self {
        match self {
            Self::Breakdown { iteration, problem } => {
                Self::Breakdown { iteration, problem: format!("{what}, {problem}") }
            }
            other => other,
        }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::InvalidMatrix { .. }
            | Error::PaddingExceeded { .. }
            | Error::LengthMismatch { .. }
            | Error::DeviceMismatch { .. }
            | Error::InvalidOption(_) => ErrorKind::InvalidInput,
            Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::Parse { .. } | Error::UnsupportedFile { .. } => ErrorKind::InvalidFile,
            Error::Io { .. } => ErrorKind::Io,
            Error::NoDevice { .. } | Error::DriverTooOld { .. } => ErrorKind::NoDevice,
            Error::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Error::Breakdown { .. } => ErrorKind::Breakdown,
            Error::Rank { kind, .. } => *kind,
            Error::KernelCheck(_) => ErrorKind::KernelCheck,
            Error::Driver { .. } => ErrorKind::Driver,
        }
    }
}

fn free_of_total(available: &Option<(u64, u64)>) -> String {
    available.map_or_else(String::new, |(free, total)| format!(", {free} of {total} bytes free"))
}

//! The one error type of the crate.

use std::{io, path::PathBuf};

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong and where. [`kind`](Error::kind) sorts errors by what a caller can do about them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data handed to a matrix constructor is no such matrix; the text names the first violation.
    #[error("invalid {format} matrix: {problem}")]
    InvalidMatrix {
        /// The format: "CSR", "COO", "DIA".
        format: &'static str,
        /// The first violation: which array, which position, which value.
        problem: String,
    },

    /// A format that pads would store many more slots than the matrix has entries.
    #[error("{format} would take at least {slots} slots for {entries} entries, and the limit is {limit}")]
    PaddingExceeded {
        /// The format: "DIA", "ELL" or "HYB".
        format: &'static str,
        /// The slots of the format; of DIA the first number beyond the limit, where the count of diagonals ends.
        slots: usize,
        /// The entries of the matrix.
        entries: usize,
        /// The most slots that are accepted.
        limit: usize,
    },

    /// A vector's length does not fit the matrix.
    #[error("{what} has {found} elements where the operation needs {expected}")]
    LengthMismatch {
        /// Which argument.
        what: &'static str,
        /// The length that the operation needs.
        expected: usize,
        /// The length it got.
        found: usize,
    },

    /// An argument lives on another device than the one that the operation runs on.
    #[error("{what} is on {found}, but the operation runs on {expected}: move it there first")]
    DeviceMismatch {
        /// Which argument.
        what: &'static str,
        /// Where the operation runs.
        expected: String,
        /// Where the argument is.
        found: String,
    },

    /// An option has a value that it cannot have.
    #[error("invalid option: {0}")]
    InvalidOption(String),

    /// A file breaks its format.
    #[error("{}:{line}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
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

    /// There is no such device, or it cannot be used.
    #[error("no {wanted}: {reason}")]
    NoDevice {
        /// The device that was asked for.
        wanted: String,
        /// Why it cannot be had.
        reason: String,
    },

    /// The driver is too old for these kernels.
    #[error("the NVIDIA driver is too old: it supports CUDA {}.{}, and {needs}", .driver.0, .driver.1)]
    DriverTooOld {
        /// The CUDA version that the driver supports, major and minor.
        driver: (u32, u32),
        /// What needs a newer one.
        needs: String,
    },

    /// There is not enough free memory.
    #[error("out of memory on {device}: {requested} bytes asked for{}", free_of_total(.available))]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        requested: u64,
        /// Bytes free at the time and bytes in all, where the device tells.
        available: Option<(u64, u64)>,
    },

    /// An iterative method cannot go on: the matrix is not of the kind that it is for, or numbers overflow.
    #[error("iteration {iteration}: {problem}")]
    Breakdown {
        /// The iteration that failed, counted from 1; 0 before the first.
        iteration: usize,
        /// What was found.
        problem: String,
    },

    /// A kernel on the emulated device did what a kernel must not do.
    #[error("{0}")]
    KernelCheck(Box<cuda_std::emulator::Finding>),

    /// Any other failure of the CUDA driver.
    #[error("CUDA driver, {call}: {message}")]
    Driver {
        /// What was being done.
        call: String,
        /// The driver's name and text for the error.
        message: String,
    },
}

/// The kinds of [`Error`], by what a caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Data, lengths, options or devices that do not fit together: a mistake in the call.
    InvalidInput,
    /// A valid call for something that this crate, or this device, does not compute.
    Unsupported,
    /// A file that is broken or of an unsupported kind.
    InvalidFile,
    /// The operating system refused a file.
    Io,
    /// No usable device.
    NoDevice,
    /// Not enough memory, on the device or the host.
    OutOfMemory,
    /// An iterative method cannot go on.
    Breakdown,
    /// A kernel broke a rule on the emulated device.
    KernelCheck,
    /// The driver failed.
    Driver,
}

impl Error {
    /// What kind of error this is.
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
            Error::KernelCheck(_) => ErrorKind::KernelCheck,
            Error::Driver { .. } => ErrorKind::Driver,
        }
    }
}

fn free_of_total(available: &Option<(u64, u64)>) -> String {
    available.map_or_else(String::new, |(free, total)| format!(", {free} of {total} bytes free"))
}

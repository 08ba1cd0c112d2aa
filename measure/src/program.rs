//! What the programs share: results on stdout, narration on stderr, and the exit status.

use std::{
    error::Error,
    io::{self, Write},
};

use warpsparse::ErrorKind;

/// What a command returns: any error, to be shown on stderr.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The exit status of a failure: 2 for wrong usage, 4 where there is no such device, otherwise 1.
#[must_use]
pub fn exit_status(failure: &(dyn Error + 'static)) -> u8 {
    match failure.downcast_ref::<warpsparse::Error>() {
        Some(warpsparse::Error::InvalidOption(_)) => 2,
        Some(error) if error.kind() == ErrorKind::NoDevice => 4,
        _ => 1,
    }
}

/// Writes a command's result to stdout. A reader that has gone away, as in `warpsparse … | head`, is no failure.
///
/// # Errors
/// If it cannot be written.
pub fn emit(result: &str) -> Outcome {
    match writeln!(io::stdout(), "{}", result.trim_end()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

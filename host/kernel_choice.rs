//! The kernel of an operation, in words.

use std::fmt;

/// Which kernel a [`DeviceMatrix`](crate::DeviceMatrix) uses, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelChoice {
    /// The kernel's name; on a GPU the entry point in the PTX.
    pub kernel: String,
    /// What decided.
    pub reason: String,
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.reason)
    }
}

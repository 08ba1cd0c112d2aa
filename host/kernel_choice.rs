//! Descriptions of chosen kernels.

use std::fmt;

/// The kernel that a [`DeviceMatrix`](crate::DeviceMatrix) uses, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelChoice {
    /// The kernel's name; on a GPU, its entry point in the PTX.
    pub kernel: String,
    /// Why it was chosen.
    pub reason: String,
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.reason)
    }
}

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

/// Returns a number of lanes per row in words.
pub(crate) fn lanes_per_row(lanes: u32) -> String {
    format!("{lanes} lane{} per row", if lanes == 1 { "" } else { "s" })
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.reason)
    }
}

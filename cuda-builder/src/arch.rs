//! GPU architectures.

use std::{fmt, str::FromStr};

use crate::CudaBuilderError;

/// The architecture that PTX is generated for. The PTX runs on it and on every newer one, except that of [`Sm90a`](Self::Sm90a).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// Turing: T4, RTX 20.
    Sm75,
    /// Ampere: A100, A30.
    Sm80,
    /// Ampere: A10, A40, RTX 30.
    Sm86,
    /// Ada: L4, L40, RTX 40.
    Sm89,
    /// Hopper: H100, H200.
    Sm90,
    /// Hopper, with the instructions that no other architecture has, such as `wgmma` and `setmaxnreg`. The PTX runs on compute capability 9.0 only.
    Sm90a,
    /// Blackwell: B100, B200.
    Sm100,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: &[Self] = &[Self::Sm75, Self::Sm80, Self::Sm86, Self::Sm89, Self::Sm90, Self::Sm90a, Self::Sm100];

    /// Returns the name that rustc, PTX and ptxas use: `sm_80`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sm75 => "sm_75",
            Self::Sm80 => "sm_80",
            Self::Sm86 => "sm_86",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm90a => "sm_90a",
            Self::Sm100 => "sm_100",
        }
    }

    /// Returns ten times the major compute capability plus the minor one: 80 for `sm_80`, and 90 for `sm_90a` as for `sm_90`.
    #[must_use]
    pub const fn compute_capability(self) -> u32 {
        match self {
            Self::Sm75 => 75,
            Self::Sm80 => 80,
            Self::Sm86 => 86,
            Self::Sm89 => 89,
            Self::Sm90 | Self::Sm90a => 90,
            Self::Sm100 => 100,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Arch {
    type Err = CudaBuilderError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|arch| arch.as_str() == name);
        known.copied().ok_or_else(|| CudaBuilderError::UnknownArch(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &arch in Arch::ALL {
            assert_eq!(arch.to_string().parse::<Arch>().unwrap(), arch);
            assert_eq!(arch.as_str().trim_end_matches('a'), format!("sm_{}", arch.compute_capability()));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let message = "sm_61".parse::<Arch>().unwrap_err().to_string();
        assert!(message.contains("sm_61") && message.contains("sm_75, sm_80"), "{message}");
    }
}

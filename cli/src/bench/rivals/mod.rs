//! Other libraries: the same product, the same buffers in rotation, the same clock.

mod cpu;
mod cusparse;

use clap::ValueEnum;
use serde::Serialize;
use warpsparse::{Device, Scalar};

use crate::measure::{DenseProblem, Figures, Measurement, Problem};

/// A library to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rival {
    Cusparse,
    /// For `bench formats`, where it comes with the other.
    #[value(skip)]
    CusparseCoo,
    NalgebraSparse,
    Sprs,
}

/// One way to have a library compute the product.
pub(crate) struct Run {
    pub(crate) variant: String,
    pub(crate) figures: Figures,
}

/// An element type that every rival handles.
pub(crate) trait Number: Scalar + cusparse::Number + cpu::Number {}
impl<T: Scalar + cusparse::Number + cpu::Number> Number for T {}

impl Rival {
    /// The libraries that a device is compared with unless others are named. Times of the emulator mean nothing.
    pub(crate) fn defaults(device: &Device) -> Vec<Self> {
        match device.to_string().as_str() {
            "cpu" => vec![Self::NalgebraSparse, Self::Sprs],
            "emulated" => Vec::new(),
            _ => vec![Self::Cusparse],
        }
    }

    /// The library in each of the formats that it multiplies in.
    pub(crate) fn in_every_format(self) -> Vec<Self> {
        if self == Self::Cusparse { vec![self, Self::CusparseCoo] } else { vec![self] }
    }

    /// The library as it calls itself, and the format unless that is CSR.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cusparse => "cuSPARSE",
            Self::CusparseCoo => "cuSPARSE COO",
            Self::NalgebraSparse => "nalgebra-sparse",
            Self::Sprs => "sprs",
        }
    }

    /// What is told of the library beside its times, or the reason why it is not compared with this device.
    pub(crate) fn describe(self, device: &Device) -> Result<String, String> {
        match (self, device.is_cuda()) {
            (Self::Cusparse | Self::CusparseCoo, true) => cusparse::describe(device),
            (Self::Cusparse | Self::CusparseCoo, false) => {
                Err(format!("cuSPARSE runs on GPUs, and the products run on {device}"))
            }
            (Self::NalgebraSparse | Self::Sprs, true) => {
                Err(format!("{} runs on the CPU, and the products run on {device}", self.name()))
            }
            (Self::NalgebraSparse | Self::Sprs, false) => Ok(format!("{}, on one core", self.name())),
        }
    }

    /// The library's ways to multiply by a vector, measured.
    pub(crate) fn runs<T: Number>(self, measurement: &Measurement<'_, Problem<T>>) -> Result<Vec<Run>, String> {
        match self {
            Self::Cusparse => cusparse::runs(measurement, cusparse::Format::Csr),
            Self::CusparseCoo => cusparse::runs(measurement, cusparse::Format::Coo),
            Self::NalgebraSparse => cpu::nalgebra_sparse(measurement).map(|run| vec![run]),
            Self::Sprs => cpu::sprs(measurement).map(|run| vec![run]),
        }
    }

    /// The library's ways to multiply by a dense matrix, measured.
    pub(crate) fn dense_runs<T: Number>(
        self,
        measurement: &Measurement<'_, DenseProblem<'_, T>>,
    ) -> Result<Vec<Run>, String> {
        match self {
            Self::Cusparse => cusparse::dense_runs(measurement),
            Self::CusparseCoo => Err("not measured with dense matrices".into()),
            Self::NalgebraSparse => cpu::nalgebra_sparse_dense(measurement).map(|run| vec![run]),
            Self::Sprs => cpu::sprs_dense(measurement).map(|run| vec![run]),
        }
    }
}

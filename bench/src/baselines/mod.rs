//! Other libraries: the same product, the same buffers in rotation, the same clock.

mod cpu;
mod cublas;
mod cusparse;
#[cfg_attr(not(feature = "oxicuda"), path = "oxicuda_absent.rs")]
mod oxicuda;
pub(crate) mod vendor_cg;

use clap::ValueEnum;
use measure::{DenseProblem, Figures, GemmProblem, Measurement, Problem};
use serde::Serialize;
use warpsparse::{Device, Scalar};

pub(crate) use self::{
    cublas::Calls as CublasCalls,
    cusparse::{sddmm_runs, spgemm_runs, spsv_run},
};
use super::report::Skipped;
use crate::vector::{Operation, VectorProblem};

/// A library to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Baseline {
    Cublas,
    Cusparse,
    /// In one of its formats: for `warpsparse-bench formats`, where both come in place of the one above.
    #[value(skip)]
    CusparseCsr,
    #[value(skip)]
    CusparseCoo,
    NalgebraSparse,
    OxicudaSparse,
    Sprs,
}

/// One way to have a library compute the product.
pub(crate) struct Run {
    pub(crate) variant: String,
    /// That of the matrix, of a library that multiplies in several.
    pub(crate) format: Option<&'static str>,
    pub(crate) figures: Figures,
}

/// An element type that every baseline handles.
pub(crate) trait Number: Scalar + cublas::Number + cusparse::Number + cpu::Number + oxicuda::Number {}
impl<T: Scalar + cublas::Number + cusparse::Number + cpu::Number + oxicuda::Number> Number for T {}

impl Baseline {
    /// Those that multiply sparse matrices.
    pub(crate) const SPARSE: &[Self] = &[Self::Cusparse, Self::OxicudaSparse, Self::NalgebraSparse, Self::Sprs];
    /// Those that multiply dense matrices.
    pub(crate) const DENSE: &[Self] = &[Self::Cublas];
    /// Those that have operations on vectors.
    pub(crate) const VECTOR: &[Self] = &[Self::Cublas];

    /// Whether a device is compared with it unless others are named. The emulator's times say nothing about a GPU.
    pub(crate) fn is_default(self, device: &Device) -> bool {
        device.to_string() != "emulated" && self.is_of_gpus() == device.is_cuda()
    }

    fn is_of_gpus(self) -> bool {
        !matches!(self, Self::NalgebraSparse | Self::Sprs)
    }

    /// The library in each of the formats that it multiplies in.
    pub(crate) fn in_every_format(self) -> Vec<Self> {
        if self == Self::Cusparse { vec![Self::CusparseCsr, Self::CusparseCoo] } else { vec![self] }
    }

    /// The library as it calls itself, and the format if it is one of several.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cublas => "cuBLAS",
            Self::Cusparse => "cuSPARSE",
            Self::CusparseCsr => "cuSPARSE CSR",
            Self::CusparseCoo => "cuSPARSE COO",
            Self::NalgebraSparse => "nalgebra-sparse",
            Self::OxicudaSparse => "oxicuda-sparse",
            Self::Sprs => "sprs",
        }
    }

    /// A note on the library in addition to its times, or the reason why it is not compared with this device.
    pub(crate) fn describe(self, device: &Device) -> Result<String, String> {
        match (self.is_of_gpus(), device.is_cuda()) {
            (true, false) => Err(format!("{} runs on GPUs, and the products run on {device}", self.name())),
            (false, true) => Err(format!("{} runs on the CPU, and the products run on {device}", self.name())),
            (false, false) => Ok(format!("{}, on one core", self.name())),
            (true, true) if self == Self::Cublas => cublas::describe(device),
            (true, true) if self == Self::OxicudaSparse => oxicuda::describe(device),
            (true, true) => cusparse::describe(device),
        }
    }

    /// The library's ways to multiply by a vector, measured.
    pub(crate) fn runs<T: Number>(self, measurement: &Measurement<'_, Problem<T>>) -> Result<Vec<Run>, String> {
        match self {
            Self::Cusparse => cusparse::runs(measurement, &cusparse::Format::ALL),
            Self::CusparseCsr => cusparse::runs(measurement, &[cusparse::Format::Csr]),
            Self::CusparseCoo => cusparse::runs(measurement, &[cusparse::Format::Coo]),
            Self::Cublas => Err("it multiplies dense matrices only".into()),
            Self::OxicudaSparse => oxicuda::runs(measurement),
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
            Self::CusparseCsr | Self::CusparseCoo => Err("not measured with dense matrices".into()),
            Self::Cublas => Err("it multiplies dense matrices only".into()),
            Self::OxicudaSparse => oxicuda::dense_runs(measurement),
            Self::NalgebraSparse => cpu::nalgebra_sparse_dense(measurement).map(|run| vec![run]),
            Self::Sprs => cpu::sprs_dense(measurement).map(|run| vec![run]),
        }
    }

    /// The library's ways to multiply two dense matrices, measured; those that fail, but for the one called as a rule, are
    /// `left_out`.
    pub(crate) fn gemm_runs<T: Number>(
        self,
        measurement: &Measurement<'_, GemmProblem<T>>,
        left_out: &mut Vec<Skipped>,
    ) -> Result<Vec<Run>, String> {
        match self {
            Self::Cublas => cublas::runs(measurement, left_out),
            _ => Err("it multiplies no two dense matrices".into()),
        }
    }

    /// Whether the library has a function for an operation on vectors.
    pub(crate) fn has(self, operation: Operation) -> bool {
        self == Self::Cublas && cublas::operation::has(operation)
    }

    /// An operation on vectors by the library's function for it, measured.
    pub(crate) fn vector_runs<T: Number>(
        self,
        measurement: &Measurement<'_, VectorProblem<'_, T>>,
    ) -> Result<Vec<Run>, String> {
        match self {
            Self::Cublas => cublas::operation::run(measurement).map(|run| vec![run]),
            _ => Err("it has no operations on vectors".into()),
        }
    }
}

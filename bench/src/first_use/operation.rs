//! What a started program computes: small, so that its time is that of starting.

use std::fmt;

use clap::ValueEnum;
use serde::{Serialize, Serializer};
use warpsparse::{
    Cg, CgMethod, CooMatrix, CsrKernel, CsrMatrix, Device, DeviceVec, DiaMatrix, EllMatrix, Jacobi, Reduce, Result,
    SpmvOptions, Upload, Weights, gemm,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// A copy to the device and back, and no kernel: what the driver takes.
    Copy,
    Spmv,
    SpmvAdaptive,
    SpmvCoo,
    SpmvDia,
    SpmvEll,
    Spmm,
    SpmmMax,
    Gemm,
    CgLaunches,
    CgPersistent,
}

/// Rows and columns.
const SIZE: usize = 1000;
/// Columns of dense operands.
const COLS: usize = 64;

impl Operation {
    pub(crate) const ALL: &[Self] = &[
        Self::Copy,
        Self::Spmv,
        Self::SpmvAdaptive,
        Self::SpmvCoo,
        Self::SpmvDia,
        Self::SpmvEll,
        Self::Spmm,
        Self::SpmmMax,
        Self::Gemm,
        Self::CgLaunches,
        Self::CgPersistent,
    ];

    /// The kernel families that it loads.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Copy => &[],
            Self::Spmv => &["csr_structure", "spmv_csr_vector"],
            Self::SpmvAdaptive => &["csr_structure", "spmv_csr_adaptive"],
            Self::SpmvCoo => &["spmv_coo"],
            Self::SpmvDia => &["spmv_dia"],
            Self::SpmvEll => &["spmv_ell"],
            Self::Spmm => &["csr_structure", "spmv_csr_vector", "spmm_csr"],
            Self::SpmmMax => &["csr_structure", "spmv_csr_vector", "spmm_csr_reduce"],
            Self::Gemm => &["gemm_tiles"],
            Self::CgLaunches => &["csr_structure", "spmv_csr_vector", "matrix_diagonal", "cg_csr", "cg_steps"],
            Self::CgPersistent => &["csr_structure", "spmv_csr_vector", "matrix_diagonal", "cg_steps", "cg_persistent"],
        }
    }

    /// Computes something of a matrix with 2 on its diagonal and nothing else, and fails if it is wrong.
    pub(crate) fn run(self, device: &Device) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let offsets = (0..=SIZE as u32).collect();
        let csr = CsrMatrix::try_from_csr_data(SIZE, SIZE, offsets, (0..SIZE as u32).collect(), vec![2.0_f32; SIZE])?;
        let (result, expected) = match self {
            Self::Copy => (device.upload_vec(&vec![1.0_f32; SIZE])?, 1.0),
            Self::Spmv => (spmv(device, &csr, &SpmvOptions::default())?, 2.0),
            Self::SpmvAdaptive => (spmv(device, &csr, &SpmvOptions::default().kernel(CsrKernel::Adaptive))?, 2.0),
            Self::SpmvCoo => (spmv(device, &CooMatrix::from(&csr), &SpmvOptions::default())?, 2.0),
            Self::SpmvDia => (spmv(device, &DiaMatrix::try_from(&csr)?, &SpmvOptions::default())?, 2.0),
            Self::SpmvEll => (spmv(device, &EllMatrix::try_from(&csr)?, &SpmvOptions::default())?, 2.0),
            Self::Spmm | Self::SpmmMax => {
                let (a, b) = (device.upload(&csr)?, device.upload_vec(&vec![1.0; SIZE * COLS])?);
                let mut c = device.zeros(SIZE * COLS)?;
                let (b, into) = (b.matrix((SIZE, COLS))?, c.matrix_mut((SIZE, COLS))?);
                match self {
                    Self::SpmmMax => a.spmm_reduce(Reduce::Max, Weights::Values, b, into, None)?,
                    _ => a.spmm(1.0, b, 0.0, into)?,
                }
                (c, 2.0)
            }
            Self::Gemm => {
                let ones = device.upload_vec(&vec![1.0; SIZE * SIZE])?;
                let mut c = device.zeros(SIZE * SIZE)?;
                let square = (SIZE, SIZE);
                gemm(1.0, ones.matrix(square)?, ones.matrix(square)?, 0.0, c.matrix_mut(square)?)?;
                (c, SIZE as f32)
            }
            Self::CgLaunches => (cg(device, &csr, CgMethod::Launches)?, 0.5),
            Self::CgPersistent => (cg(device, &csr, CgMethod::Persistent)?, 0.5),
        };
        match result.to_vec()?.iter().find(|&&value| value != expected) {
            Some(wrong) => Err(format!("{self}: {wrong} in place of {expected}").into()),
            None => Ok(()),
        }
    }
}

fn spmv(device: &Device, matrix: &impl Upload<Scalar = f32>, options: &SpmvOptions) -> Result<DeviceVec<f32>> {
    let a = device.upload_with(matrix, options)?;
    let (x, mut y) = (device.upload_vec(&[1.0; SIZE])?, device.zeros(SIZE)?);
    a.spmv(1.0, &x, 0.0, &mut y)?;
    Ok(y)
}

fn cg(device: &Device, matrix: &CsrMatrix<f32>, method: CgMethod) -> Result<DeviceVec<f32>> {
    let a = device.upload(matrix)?;
    let (b, mut x) = (device.upload_vec(&[1.0; SIZE])?, device.zeros(SIZE)?);
    Cg::new(&a).preconditioner(Jacobi::new(&a)?).method(method).solve(&b, &mut x)?;
    Ok(x)
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no operation is hidden");
        f.write_str(value.get_name())
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

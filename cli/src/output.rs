//! What commands that compute a sparse matrix share: the device, the element type, the file to write, and the form of the report.

use std::{fmt, path::PathBuf};

use clap::Args;
use measure::{DTypeName, Outcome, emit};
use serde::Serialize;
use warpsparse::{Device, DeviceMatrix, Result, Scalar};

use crate::convert;

// No documentation here: it would take the place of the command's.
#[derive(Args)]
pub(crate) struct Output {
    /// The file to write: .mtx, or .mtx.gz to compress it.
    #[arg(long, value_parser = convert::parse_out)]
    out: Option<PathBuf>,
    /// The device: auto, cpu, cuda, cuda:N, or emulated (the GPU's kernels on the CPU, slow but checked).
    #[arg(long, default_value = "auto")]
    device: String,
    /// The element type.
    #[arg(long, value_enum, default_value = "f64")]
    pub(crate) dtype: DTypeName,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Opens the device, unless the file exists and must not be overwritten.
    pub(crate) fn open_device(&self) -> Outcome<Device> {
        if let (Some(out), false) = (&self.out, self.force) {
            convert::check_absent(out)?;
        }
        Ok(Device::from_name(&self.device)?)
    }

    /// Writes the matrix if a file was named.
    pub(crate) fn write<T: Scalar>(&self, matrix: &DeviceMatrix<T>) -> Result<()> {
        let Some(out) = &self.out else { return Ok(()) };
        matrix.download()?.into_csr()?.write_matrix_market(out)?;
        eprintln!("{}", out.display());
        Ok(())
    }

    /// Prints the report, as text or as JSON.
    pub(crate) fn report(&self, report: &(impl Serialize + fmt::Display)) -> Outcome {
        emit(&if self.json { serde_json::to_string_pretty(report)? } else { report.to_string() })
    }
}

//! Systems with a matrix of `f32` and a solution in `f64`.

use kernels_gpu::{
    cg_mixed::{Args, Key, Step, grid_size},
    cg_state::counter,
};

use super::{breakdown, cpu::replace_residual, fast::System, workspace::Workspace};
use crate::{
    DeviceMatrix, DeviceVec, Error, Result,
    device::{Writable, launch},
    solver::course::LEAST_NORM,
    stored::{Csr, CsrArrays},
};

/// The fraction of a residual at which it is replaced. With a larger one it is replaced more often than necessary, with
/// a smaller one the iterations degrade: bcsstk16 to 1e-8 with Jacobi takes 213 in `f64`, 218 with 0.1, 219 with 0.01,
/// 236 with 0.001 (by a model in NumPy, 2026-11-22).
const REPLACED_AT: f64 = 0.1;

/// The system, and its solution without the updates since the residual was last replaced.
pub(super) struct Mixed<'a> {
    csr: Csr<'a, f32>,
    b: &'a DeviceVec<f64>,
    x: &'a mut DeviceVec<f64>,
}

impl<'a> Mixed<'a> {
    pub(super) fn new(
        matrix: Option<&'a DeviceMatrix<f32>>,
        b: &'a DeviceVec<f64>,
        x: &'a mut DeviceVec<f64>,
    ) -> Result<Self> {
        let unsupported =
            || Error::Unsupported("two precisions with anything but a CSR matrix with 32-bit offsets".into());
        Ok(Self { csr: matrix.and_then(DeviceMatrix::csr).ok_or_else(unsupported)?, b, x })
    }

    /// Queues both kernels.
    fn launch(&mut self, csr: &CsrArrays<f32, u32>, workspace: &mut Workspace<f32>) -> Result<()> {
        let Workspace { device, x: dx, r, state, .. } = workspace;
        let blocks = grid_size(csr.nrows, device.multiprocessors());
        for step in [Step::Add, Step::Residual] {
            let (entry, values) = (Key { step }.entry(), csr.values.read());
            let args = Args {
                rows: csr.nrows,
                row_offsets: csr.row_offsets.readable(device),
                col_indices: csr.col_indices.readable(device),
                values: values.readable(),
                b: self.b.readable(),
                x: self.x.writable(),
                dx: if step == Step::Add { dx.writable() } else { Writable::default() },
                r: r.writable(),
                partials: state.partials.writable(device),
                arrivals: state.counters.writable(device).skip(counter::ARRIVALS),
            };
            // SAFETY: a valid square matrix and vectors of its size, none a part of another, borrowed mutably where they are written;
            // nothing else is queued that touches them.
            unsafe { launch(device, entry, blocks, args) }?;
        }
        Ok(())
    }
}

impl System<f32> for Mixed<'_> {
    fn residual(&mut self, workspace: &mut Workspace<f32>) -> Result<(f64, f64)> {
        match self.csr {
            Csr::Host(matrix) => {
                replace_residual(workspace, matrix, self.b.as_slice().on_cpu(), self.x.as_slice_mut().on_cpu_mut());
            }
            Csr::Device(csr) => self.launch(csr, workspace)?,
        }
        let norms = workspace.residual_norms()?;
        if norms.1 < LEAST_NORM && self.b.to_vec()?.iter().any(|&b| b != 0.0) {
            return Err(breakdown(0, "b . b underflows: scale the system"));
        }
        Ok(norms)
    }

    fn set_zero(&mut self, _: &mut Workspace<f32>) -> Result<()> {
        self.x.fill(0.0)
    }

    fn replaced_at(&self) -> Option<f64> {
        Some(REPLACED_AT)
    }
}

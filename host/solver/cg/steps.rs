//! Iterations by separate kernels, recorded as a CUDA graph if possible.

use std::{fmt, rc::Rc, sync::Arc};

use kernels_gpu::cg_csr::{Args, Key, grid_size};

use super::workspace::{Step, Workspace, Z};
use crate::{
    DType, DeviceMatrix, KernelChoice, Lanes, LinearOperator, Preconditioner, Result, Scalar,
    device::{Backend, Recording, anew, launch},
    spmv::{Product, Spmv},
    stored::{Csr, CsrArrays},
};

/// Iterations per graph: enough for the host to stay ahead. With an expensive preconditioner 1, since those after the last are in vain.
const RECORDED: usize = 8;

/// Iterations queued at a time without recording.
const QUEUED: usize = 2;

/// The kernels of an iteration.
pub(super) struct Steps<'a, T: Scalar> {
    multiply: Multiply<'a, T>,
    preconditioner: Option<Rc<dyn Preconditioner<T> + 'a>>,
    recording: Option<Recording>,
    /// Whether iterations are to be recorded.
    is_recorded: bool,
}

/// How the direction is multiplied by the matrix.
pub(super) enum Multiply<'a, T: Scalar> {
    /// Fused with the dot product.
    Fused { csr: &'a Arc<CsrArrays<T, u32>>, key: Key },
    /// By the matrix's own product.
    Matrix(&'a dyn Spmv<T>),
    /// By the user's operator.
    Operator(&'a dyn LinearOperator<T>),
}

/// The dot product is fused with the product if no row is longer than this, so that its lanes take only a few steps.
const MAX_ROW: usize = 1024;

impl<'a, T: Scalar> Multiply<'a, T> {
    pub(super) fn by_matrix(matrix: &'a DeviceMatrix<T>, lanes: Lanes, compensated: bool) -> Result<Self> {
        let product = matrix.product()?;
        Ok(match (matrix.csr(), lanes_of(matrix, lanes)) {
            (Some(Csr::Device(csr)), Some(lanes)) => {
                let compensated = compensated && T::DTYPE == DType::F64;
                Self::Fused { csr, key: Key { dtype: T::DTYPE, lanes, compensated } }
            }
            _ => Self::Matrix(product),
        })
    }
}

impl<'a, T: Scalar> Steps<'a, T> {
    pub(super) fn new(
        multiply: Multiply<'a, T>,
        preconditioner: Option<Rc<dyn Preconditioner<T> + 'a>>,
        is_recorded: bool,
    ) -> Self {
        Self { multiply, preconditioner, recording: None, is_recorded }
    }

    pub(super) fn describe(&self) -> KernelChoice {
        let (kernel, product) = match &self.multiply {
            Multiply::Fused { key, .. } => (key.entry().name, "the product and its dot in one kernel"),
            Multiply::Matrix(_) => ("cg_steps", "the matrix's product, then the dot"),
            Multiply::Operator(_) => ("cg_steps", "the operator's product, then the dot"),
        };
        let recorded =
            if self.recording.is_some() { format!("; {} a graph", plural(self.recorded())) } else { String::new() };
        KernelChoice {
            kernel: kernel.into(),
            reason: format!("{product}; vectors and their dots in two more{recorded}"),
        }
    }

    /// Records the iterations on a GPU, if they are to be recorded.
    pub(super) fn record(&mut self, workspace: &mut Workspace<T>) -> Result<()> {
        if !self.is_recorded || workspace.x.is_empty() {
            return Ok(());
        }
        let queue = workspace.device.clone();
        self.recording = queue.recorded(|| (0..self.recorded()).try_for_each(|_| self.iterate(workspace)))?;
        Ok(())
    }

    /// Returns how many iterations [`advance`](Self::advance) queues.
    pub(super) fn at_a_time(&self) -> usize {
        match self.recording {
            Some(_) => self.recorded(),
            None if self.is_expensive() => 1,
            None => QUEUED,
        }
    }

    /// Iterations per graph.
    fn recorded(&self) -> usize {
        if self.is_expensive() { 1 } else { RECORDED }
    }

    pub(super) fn is_expensive(&self) -> bool {
        self.preconditioner.as_ref().is_some_and(|own| own.is_expensive())
    }

    /// Queues some iterations, and returns how many.
    pub(super) fn advance(&mut self, workspace: &mut Workspace<T>) -> Result<usize> {
        if let Some(recording) = &self.recording {
            recording.launch()?;
            return Ok(self.recorded());
        }
        let queued = match workspace.device.backend() {
            Backend::Cpu { .. } | Backend::Emulated { .. } => 1,
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => self.at_a_time(),
        };
        match self.is_recorded {
            // Without graphs, operations that a graph would reject are rejected too.
            true => anew(|| (0..queued).try_for_each(|_| self.iterate(workspace)))?,
            false => (0..queued).try_for_each(|_| self.iterate(workspace))?,
        }
        Ok(queued)
    }

    /// Computes `z`, `r . z` and the first direction from the residual, or keeps the direction.
    pub(super) fn begin(&self, workspace: &mut Workspace<T>, goes_on: bool) -> Result<()> {
        self.precondition(workspace)?;
        workspace.step(Step::Begin { begins: true })?;
        if goes_on { Ok(()) } else { workspace.step(Step::Direction) }
    }

    fn iterate(&self, workspace: &mut Workspace<T>) -> Result<()> {
        self.multiply(workspace)?;
        workspace.step(Step::Update)?;
        if self.preconditioner.is_some() {
            self.precondition(workspace)?;
            workspace.step(Step::Begin { begins: false })?;
        }
        workspace.step(Step::Direction)
    }

    fn precondition(&self, workspace: &mut Workspace<T>) -> Result<()> {
        match (&self.preconditioner, &mut workspace.z) {
            (Some(preconditioner), Z::Stored(z)) => preconditioner.apply((&workspace.r).into(), z.into()),
            _ => Ok(()),
        }
    }

    fn multiply(&self, workspace: &mut Workspace<T>) -> Result<()> {
        match self.multiply {
            Multiply::Fused { csr, key } => return launch_product(csr, key, workspace),
            Multiply::Matrix(product) => {
                let Workspace { p, q, .. } = workspace;
                product.spmv(Product { alpha: T::from_f64(1.0), x: (&*p).into(), beta: T::default(), y: q.into() })?;
            }
            Multiply::Operator(operator) => {
                let Workspace { p, q, .. } = workspace;
                operator.apply((&*p).into(), q.into())?;
            }
        }
        workspace.step(Step::Alpha)
    }
}

fn plural(iterations: usize) -> String {
    format!("{iterations} iteration{}", if iterations == 1 { "" } else { "s" })
}

/// Computes `q = A p` with the dot product and the step length.
fn launch_product<T: Scalar>(csr: &CsrArrays<T, u32>, key: Key, workspace: &mut Workspace<T>) -> Result<()> {
    let Workspace { device, p, q, state, .. } = workspace;
    let blocks = grid_size(csr.nrows, key.lanes, device.multiprocessors());
    let (state, partials) = state.writable(device);
    let values = csr.values.read();
    let args = Args {
        rows: csr.nrows,
        entries: csr.nnz,
        row_offsets: csr.row_offsets.readable(device),
        col_indices: csr.col_indices.readable(device),
        values: values.readable(),
        p: p.readable(),
        q: q.writable(),
        state,
        partials,
    };
    // SAFETY: a valid square matrix, aligned as allocations are, vectors of its size, none a part of another, borrowed mutably
    // where they are written; the entry is for `T`. No row has more than `MAX_ROW` entries.
    unsafe { launch(device, key.entry(), blocks, args) }
}

/// Returns the lanes per row, if the fused product suits the rows.
pub(crate) fn lanes_of<T: Scalar>(matrix: &DeviceMatrix<T>, lanes: Lanes) -> Option<u32> {
    let structure = matrix.structure().filter(|structure| structure.max_row <= MAX_ROW)?;
    Some(match lanes {
        Lanes::Fixed(lanes) => lanes,
        Lanes::Auto => lanes_for(structure.mean_row()),
    })
}

/// A lane for every eight entries, and at least two.
///
/// On an H200 (driver 580, 2026-11-22), us an iteration with 1 and 2 lanes, 5-point stencil, 2048^2: f32 122 and 114, f64 248 and 190. With 2, 4,
/// 8 and 16 lanes, f32, FEM band of 32 entries a row: 30 000 rows 14.5, 12.0, 14.7 and 14.8, 90 000 rows 22.2, 18.9, 19.9 and 22.8.
fn lanes_for(mean_row: f64) -> u32 {
    ((mean_row / 8.0) as u32).next_power_of_two().clamp(2, 32)
}

impl<T: Scalar> fmt::Debug for Steps<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steps({})", self.describe())
    }
}

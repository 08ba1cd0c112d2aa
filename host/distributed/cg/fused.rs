//! Conjugate gradients in the fused kernels of the family `cg_ranks`. The numbers of an iteration stay on the devices.

use std::{collections::VecDeque, mem};

use kernels_gpu::{
    cg_ranks::{CombineArgs, Key, PARTS, ProductArgs, Step, VectorArgs, grid_of_product, grid_of_vectors},
    cg_state::preconditioner,
    cg_steps,
};

use super::residual;
use crate::{
    DType, DeviceVec, Lanes, Preconditioner, Result, Scalar,
    device::{Device, Mark, Readable, Recording, Writable, launch},
    distributed::{Communicator, DistributedMatrix, DistributedVec, matrix::Part, windows::no_link},
    solver::{Method, Phase, Round, StateArrays, ended_in, ending, lanes_of},
    stored::Csr,
};

/// Iterations of a graph, unless the preconditioner is expensive: then one, as those after the last are in vain.
const AT_A_TIME: usize = 16;

/// The most graphs of a batch.
const MAX_GRAPHS: usize = 8;

/// Batches that are queued when the host waits for the first of them: so the device goes on meanwhile.
const BATCHES: usize = 2;

pub(super) struct Fused<'s, T: Scalar> {
    matrix: &'s DistributedMatrix<T>,
    m: Option<&'s dyn Preconditioner<T>>,
    b: &'s DistributedVec<T>,
    x: &'s mut DistributedVec<T>,
    vectors: Vectors<T>,
    product: Product,
    sums: Sums,
    /// Some iterations, as a graph.
    recording: Option<Recording>,
    /// The batches that are queued, the oldest first. All ranks queue the same ones.
    batches: VecDeque<Batch>,
    /// Whether a batch has been queued since the host last looked.
    has_advanced: bool,
}

/// Iterations between two looks of the host.
struct Batch {
    /// The number of its last iteration.
    to: usize,
    /// After it.
    mark: Mark,
}

struct Vectors<T> {
    /// The residual.
    r: DistributedVec<T>,
    /// The direction.
    p: DistributedVec<T>,
    /// `A p`.
    q: DistributedVec<T>,
    /// `M r`, if the preconditioner is no diagonal.
    z: Option<DistributedVec<T>>,
}

/// How the direction is multiplied by the matrix.
enum Product {
    /// Fused with the dot product, by so many lanes a row of each part.
    Fused([u32; PARTS]),
    /// By the products of the parts, then the dot product.
    OfMatrix,
}

/// Sums and what follows from them.
struct Sums {
    state: StateArrays,
    /// This rank's parts of `p . q`, of each part of its matrix.
    of_product: DeviceVec<f64>,
    /// This rank's parts of `r . z` and `r . r`.
    of_update: DeviceVec<f64>,
    /// The parts of all ranks.
    all: DeviceVec<f64>,
}

impl<'s, T: Scalar> Fused<'s, T> {
    pub(super) fn new(
        matrix: &'s DistributedMatrix<T>,
        m: Option<&'s dyn Preconditioner<T>>,
        b: &'s DistributedVec<T>,
        x: &'s mut DistributedVec<T>,
    ) -> Result<Self> {
        let (communicator, device) = (matrix.communicator(), matrix.communicator().device());
        let vector = || DistributedVec::zeros(communicator, matrix.rows());
        let has_z = m.is_some_and(|m| m.as_diagonal().is_none());
        let mut p = vector()?;
        p.blocks_mut().reserve(matrix.halo().rows())?;
        let vectors = Vectors { r: vector()?, p, q: vector()?, z: has_z.then(vector).transpose()? };
        let sums = Sums {
            state: StateArrays::new(device)?,
            of_product: device.zeros(PARTS)?,
            of_update: device.zeros(PARTS)?,
            all: device.zeros(PARTS * communicator.size())?,
        };
        let product = Product::of(matrix.parts());
        let (recording, batches, has_advanced) = (None, VecDeque::new(), false);
        Ok(Self { matrix, m, b, x, vectors, product, sums, recording, batches, has_advanced })
    }

    fn communicator(&self) -> &'s Communicator {
        self.matrix.communicator()
    }

    /// Queues or records an iteration.
    fn iterate(&mut self) -> Result<()> {
        self.multiply()?;
        self.combine(Combine::Product)?;
        self.update(Update::OfResidual)?;
        if self.vectors.z.is_some() {
            self.precondition()?;
            self.update(Update::DotsAlone { begins: false })?;
        }
        self.combine(Combine::Update { begins: false })?;
        self.direction()
    }

    /// Computes `q = A p` and this rank's parts of `p . q`.
    fn multiply(&mut self) -> Result<()> {
        let Self { matrix, vectors: Vectors { p, q, .. }, sums, product, .. } = self;
        let communicator = matrix.communicator();
        let call =
            (!communicator.exchanges_in_streams()).then(|| communicator.call("the direction in conjugate gradients"));
        let windows = communicator.windows();
        let mut parts_left = matrix.parts().len();
        matrix.multiply(call, p.blocks_mut(), q.blocks_mut(), |part, p, q| {
            let own_p = p.own().slice(part.rows.clone())?;
            let (mut q, p) = (q.own_mut(), p.storage().slice(..part.matrix.ncols())?);
            let q = q.slice_mut(part.rows.clone())?;
            let (Product::Fused(lanes), Some(Csr::Device(csr))) = (&*product, part.matrix.csr()) else {
                return part.matrix.spmv(T::from_f64(1.0), p, T::default(), q);
            };
            let lanes = lanes[part.place];
            parts_left -= 1;
            let windows = windows.filter(|_| parts_left == 0);
            let mut numbers = windows.map(|windows| windows.numbers().borrow_mut());
            let (device, q) = q.into_writable();
            let (state, partials) = sums.state.writable(device);
            let values = csr.values.read();
            let args = ProductArgs {
                rows: csr.nrows,
                columns: csr.ncols,
                entries: csr.nnz,
                row_offsets: csr.row_offsets.readable(device),
                col_indices: csr.col_indices.readable(device),
                values: values.readable(),
                p: p.readable(),
                own_p: own_p.readable(),
                q,
                state,
                partials,
                place: part.place as u32,
                parts: sums.of_product.writable(),
                link: match (windows, &mut numbers) {
                    (Some(windows), Some(numbers)) => windows.link(numbers, communicator.time_limit()),
                    _ => no_link(),
                },
            };
            let entry = Key { step: Step::Product(lanes), dtype: T::DTYPE }.entry();
            // SAFETY: a valid matrix, aligned as allocations are; vectors of its size, none a part of another, borrowed mutably where they are
            // written; the entry is for `T`. No row is longer than fused products allow.
            unsafe { launch(device, entry, grid_of_product(csr.nrows, lanes, device.multiprocessors()), args) }
        })?;
        // Without rows there is no product to exchange the sum.
        if matches!(self.product, Product::OfMatrix) || self.matrix.parts().is_empty() {
            self.launch_vectors(None)?;
        }
        Ok(())
    }

    fn precondition(&mut self) -> Result<()> {
        let Vectors { r, z, .. } = &mut self.vectors;
        match (self.m, z) {
            (Some(m), Some(z)) => m.apply(r.local(), z.local_mut()),
            _ => Ok(()),
        }
    }

    /// Computes the next residual, if that is asked for, and this rank's parts of its dots.
    fn update(&mut self, update: Update) -> Result<()> {
        self.launch_vectors(Some(update))
    }

    /// Launches an update, or the dot product of `p` and `q`.
    fn launch_vectors(&mut self, update: Option<Update>) -> Result<()> {
        let n = self.own_rows();
        let (kind, diagonal) = self.preconditioner();
        let communicator = self.communicator();
        let Vectors { r, p, q, z } = &mut self.vectors;
        let is_update = update.is_some();
        let step = if is_update { Step::Update } else { Step::Dot };
        // A preconditioner that is applied between comes before the dots.
        let is_before_dots = z.is_some() && update == Some(Update::OfResidual);
        let windows = communicator.windows().filter(|_| !is_before_dots);
        let mut numbers = windows.map(|windows| windows.numbers().borrow_mut());
        let parts = if is_update { &mut self.sums.of_update } else { &mut self.sums.of_product };
        let device = self.matrix.communicator().device();
        let (state, partials) = self.sums.state.writable(device);
        let args = VectorArgs {
            n,
            preconditioner: kind,
            is_dots_alone: u32::from(matches!(update, Some(Update::DotsAlone { .. }))),
            begins: u32::from(update == Some(Update::DotsAlone { begins: true })),
            diagonal: if is_update { diagonal } else { Readable::default() },
            z: z.as_ref().filter(|_| is_update).map(|z| z.local().readable()).unwrap_or_default(),
            p: if is_update { Readable::default() } else { p.local().readable() },
            q: q.local().readable(),
            r: if is_update { r.local_mut().into_writable().1 } else { Writable::default() },
            state,
            partials,
            parts: parts.writable(),
            link: match (windows, &mut numbers) {
                (Some(windows), Some(numbers)) => windows.link(numbers, communicator.time_limit()),
                _ => no_link(),
            },
        };
        let (entry, blocks) = (Key { step, dtype: T::DTYPE }.entry(), grid_of_vectors(n, device.multiprocessors()));
        // SAFETY: vectors of `n` elements, which begin their memory, none a part of another, borrowed mutably where they are written; the
        // entry is for `T`, and has from the arguments what it reads.
        unsafe { launch(device, entry, blocks, args) }
    }

    /// Computes the next solution and the next direction.
    fn direction(&mut self) -> Result<()> {
        let n = self.own_rows();
        let (kind, diagonal) = self.preconditioner();
        let Vectors { r, p, z, .. } = &mut self.vectors;
        let device = self.matrix.communicator().device();
        let (state, partials) = self.sums.state.writable(device);
        let args = cg_steps::Args {
            n,
            preconditioner: kind,
            begins: 0,
            diagonal,
            z: z.as_ref().map(|z| z.local().readable()).unwrap_or_default(),
            b: Readable::default(),
            q: Readable::default(),
            x: self.x.local_mut().into_writable().1,
            r: r.local_mut().into_writable().1,
            p: p.local_mut().into_writable().1,
            state,
            partials,
        };
        let key = cg_steps::Key { step: cg_steps::Step::Direction, dtype: T::DTYPE, compensated: false };
        let blocks = cg_steps::grid_size(n, device.multiprocessors());
        // SAFETY: as in `launch_vectors`.
        unsafe { launch(device, key.entry(), blocks, args) }
    }

    /// Adds the parts of all ranks, and computes what follows. With windows the kernels before have done so.
    fn combine(&mut self, of: Combine) -> Result<()> {
        let communicator = self.communicator();
        if communicator.windows().is_some() {
            return Ok(());
        }
        let (device, ranks) = (communicator.device(), communicator.size() as u32);
        let Sums { state, of_product, of_update, all } = &mut self.sums;
        let own = match of {
            Combine::Product => of_product,
            Combine::Update { .. } => of_update,
        };
        communicator.gather_on_device(own, all)?;
        let args = CombineArgs {
            ranks,
            is_update: u32::from(matches!(of, Combine::Update { .. })),
            begins: u32::from(matches!(of, Combine::Update { begins: true })),
            element_bytes: size_of::<T>() as u32,
            parts: all.readable(),
            state: state.writable(device).0,
        };
        let entry = Key { step: Step::Combine, dtype: DType::F64 }.entry();
        // SAFETY: the parts of all ranks, and the state, borrowed mutably.
        unsafe { launch(device, entry, 1, args) }
    }

    fn own_rows(&self) -> u32 {
        let rows = self.matrix.rows().rows(self.communicator().rank()).len();
        u32::try_from(rows).expect("a matrix has at most u32::MAX rows")
    }

    /// Where `z` comes from, and the diagonal if it comes from one.
    fn preconditioner(&self) -> (u32, Readable<'s, T>) {
        match self.m.map(|m| m.as_diagonal()) {
            None => (preconditioner::NONE, Readable::default()),
            Some(Some(diagonal)) => (preconditioner::DIAGONAL, diagonal.readable()),
            Some(None) => (preconditioner::STORED, Readable::default()),
        }
    }

    fn can_be_recorded(&self) -> bool {
        let by_m = self.m.is_none_or(|m| m.as_diagonal().is_some() || m.can_be_recorded());
        by_m && self.communicator().exchanges_in_streams()
    }

    fn at_a_time(&self) -> usize {
        if self.m.is_some_and(|m| m.is_expensive()) { 1 } else { AT_A_TIME }
    }

    fn queue(&mut self, iterations: usize) -> Result<()> {
        (0..iterations).try_for_each(|_| self.iterate())
    }
}

/// What to compute of the residual.
#[derive(Clone, Copy, PartialEq)]
enum Update {
    /// The next one, and its dots.
    OfResidual,
    /// The dots of the present one, which no iteration has led to if it `begins`.
    DotsAlone { begins: bool },
}

/// What to combine.
#[derive(Clone, Copy)]
enum Combine {
    Product,
    Update { begins: bool },
}

impl Product {
    fn of<T: Scalar>(parts: &[Part<T>]) -> Self {
        let mut lanes = [1; PARTS];
        for part in parts {
            match (part.matrix.csr(), lanes_of(&part.matrix, Lanes::Auto)) {
                (Some(Csr::Device(_)), Some(of_part)) => lanes[part.place] = of_part,
                _ => return Self::OfMatrix,
            }
        }
        Self::Fused(lanes)
    }
}

impl<T: Scalar> Method for Fused<'_, T> {
    fn size(&self) -> usize {
        self.matrix.nrows()
    }

    fn residual(&mut self) -> Result<(f64, f64)> {
        residual(self.matrix, self.b, self.x, &mut self.vectors.r)
    }

    fn set_zero(&mut self) -> Result<()> {
        self.x.fill(T::default())
    }

    fn begin(&mut self, round: Round) -> Result<()> {
        let device: &Device = self.communicator().device();
        let [first, limit] = [round.first, round.limit].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        self.sums.state.reset(device, round.target * round.target, first, limit)?;
        // So every rank queues its part.
        self.communicator().call("the beginning of conjugate gradients").all_gather(&[])?;
        self.precondition()?;
        self.update(Update::DotsAlone { begins: true })?;
        self.combine(Combine::Update { begins: true })?;
        self.direction()
    }

    /// Queues a batch, of an eighth of the iterations that are done at most: those after the end are in vain.
    fn advance(&mut self, done: usize) -> Result<()> {
        let communicator = self.communicator();
        let (device, at_a_time) = (communicator.device(), self.at_a_time());
        communicator.call(format!("{at_a_time} iterations of conjugate gradients")).all_gather(&[])?;
        if self.can_be_recorded() && self.recording.is_none() {
            self.recording = device.recorded(|| self.queue(at_a_time))?;
        }
        let iterations = if let Some(recording) = &self.recording {
            let graphs = (done / (8 * AT_A_TIME)).clamp(1, MAX_GRAPHS);
            (0..graphs).try_for_each(|_| recording.launch())?;
            graphs * at_a_time
        } else {
            let iterations = if communicator.exchanges_in_streams() { at_a_time } else { 1 };
            self.queue(iterations)?;
            iterations
        };
        let to = self.batches.back().map_or(done, |batch| batch.to) + iterations;
        self.batches.push_back(Batch { to, mark: Mark::new(device)? });
        self.has_advanced = true;
        Ok(())
    }

    /// Waits for the oldest batch, once enough are queued. What it reads is that of this batch, however far the device has gone on: so all
    /// ranks read the same.
    fn norms(&mut self, history: &mut Vec<f64>) -> Result<Phase> {
        let enough = if self.communicator().exchanges_in_streams() { BATCHES } else { 1 };
        if mem::take(&mut self.has_advanced) && self.batches.len() < enough {
            return Ok(Phase::Busy);
        }
        let Some(Batch { to, mark }) = self.batches.pop_front() else { return Ok(Phase::Idle) };
        self.communicator().settle_until(&mark)?;
        let state = &mut self.sums.state;
        while history.len() <= to
            && let Some(norm) = state.take_norm(history.len())
        {
            history.push(norm.sqrt());
        }
        Ok(match state.end().filter(|&(status, done)| ended_in(status, done) <= to) {
            Some((status, done)) => Phase::Ended(ending(status, done)),
            None if self.batches.is_empty() => Phase::Idle,
            None => Phase::Busy,
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.batches.clear();
        self.communicator().settle()
    }
}

impl<T: Scalar> Drop for Fused<'_, T> {
    /// Waits for queued work before freeing its memory: the driver does not do so for pinned memory.
    fn drop(&mut self) {
        // An error here has been reported before.
        let _ = self.communicator().settle();
    }
}

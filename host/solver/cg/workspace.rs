//! The vectors and the state of a method on its way, and the vector operations on them.

use kernels_gpu::{
    cg_state::{State, counter, mail, scalar, status},
    cg_steps::{self, Args, Key, grid_size, preconditioner},
    sums::PARTIALS,
};

use super::cpu;
use crate::{
    DType, Device, DeviceVec, Result, Scalar,
    device::{Backend, Buffer, KernelLaunch, Mailbox, Mark, Readable, Writable, launch},
};

/// What a method of systems of one size needs beyond the matrix.
#[derive(Debug)]
pub(super) struct Workspace<T> {
    pub(super) device: Device,
    pub(super) x: DeviceVec<T>,
    pub(super) r: DeviceVec<T>,
    pub(super) p: DeviceVec<T>,
    /// `A p`.
    pub(super) q: DeviceVec<T>,
    pub(super) z: Z<T>,
    pub(super) compensated: bool,
    pub(super) state: StateArrays,
    /// After what the method has queued last.
    pub(super) mark: Mark,
}

/// Where the preconditioned residual comes from.
#[derive(Debug)]
pub(super) enum Z<T> {
    Residual,
    /// The inverse of the diagonal, times the residual.
    Diagonal(DeviceVec<T>),
    /// It is computed by the user's preconditioner.
    Stored(DeviceVec<T>),
}

/// See [`State`].
#[derive(Debug)]
pub(super) struct StateArrays {
    pub(super) scalars: Buffer<f64>,
    pub(super) counters: Buffer<u32>,
    pub(super) mailbox: Mailbox,
    pub(super) partials: Buffer<f64>,
}

/// A vector operation: see the kernel family `cg_steps`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a, T> {
    Residual { b: &'a DeviceVec<T> },
    Begin { begins: bool },
    Alpha,
    Update,
    Direction,
}

/// A norm that has not come yet: no square is this NaN.
const NO_NORM: u64 = u64::MAX;

impl StateArrays {
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            scalars: Buffer::zeros(device, scalar::COUNT)?,
            counters: Buffer::zeros(device, counter::COUNT)?,
            mailbox: Mailbox::new(device, mail::COUNT)?,
            partials: Buffer::zeros(device, PARTIALS)?,
        })
    }

    /// For a kernel: the state, and the sums of blocks.
    pub(super) fn writable<'a>(&'a mut self, device: &'a Device) -> (State<KernelLaunch<'a>>, Writable<'a, f64>) {
        let Self { scalars, counters, mailbox, partials } = self;
        let (scalars, counters) = (scalars.writable(device), counters.writable(device));
        (State { scalars, counters, mailbox: mailbox.writable() }, partials.writable(device))
    }

    /// As it is before the iterations that follow `iteration`. Nothing that is queued may touch it.
    pub(super) fn reset(&mut self, device: &Device, target: f64, iteration: u32, limit: u32) -> Result<()> {
        let mut scalars = [0.0; scalar::COUNT];
        scalars[scalar::TARGET] = target;
        self.scalars.overwrite(device, 0, &scalars)?;
        let mut counters = [0; counter::COUNT];
        counters[counter::STATUS] = status::RUNNING;
        counters[counter::ITERATION] = iteration;
        counters[counter::LIMIT] = limit;
        self.counters.overwrite(device, 0, &counters)?;
        self.mailbox.set(mail::END, 0);
        (0..mail::NORMS).for_each(|place| self.mailbox.set(mail::FIRST_NORM + place, NO_NORM));
        Ok(())
    }

    /// The squared norm after an iteration, once, if it has come.
    pub(super) fn take_norm(&mut self, iteration: usize) -> Option<f64> {
        let place = mail::FIRST_NORM + iteration % mail::NORMS;
        let word = self.mailbox.get(place);
        (word != NO_NORM).then(|| {
            self.mailbox.set(place, NO_NORM);
            f64::from_bits(word)
        })
    }

    /// The status and the iterations done, if the method has ended.
    pub(super) fn end(&mut self) -> Option<(u32, usize)> {
        let word = self.mailbox.get(mail::END);
        (word != 0).then_some(((word >> 32) as u32, word as u32 as usize))
    }
}

impl<T: Scalar> Workspace<T> {
    pub(super) fn new(device: &Device, n: usize, z: Z<T>, compensated: bool) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            x: device.zeros(n)?,
            r: device.zeros(n)?,
            p: device.zeros(n)?,
            q: device.zeros(n)?,
            z,
            compensated,
            state: StateArrays::new(device)?,
            mark: Mark::new(device)?,
        })
    }

    /// The norms of `r` and of `b`, whose squares the step [`Residual`](Step::Residual) has left.
    pub(super) fn residual_norms(&self) -> Result<(f64, f64)> {
        let mut sums = [0.0; 2];
        self.state.partials.download(&self.device, 0, &mut sums)?;
        Ok((sums[0].sqrt(), sums[1].sqrt()))
    }

    /// Queues, loads or records a vector operation; the CPU does it at once.
    pub(super) fn step(&mut self, step: Step<'_, T>) -> Result<()> {
        match self.device.backend() {
            Backend::Cpu { .. } => {
                cpu::step(self, step);
                Ok(())
            }
            _ => self.launch(step),
        }
    }

    fn launch(&mut self, step: Step<'_, T>) -> Result<()> {
        let Self { device, x, r, p, q, z, compensated, state, .. } = self;
        let n = x.len() as u32;
        let entry = key_of(step, T::DTYPE, *compensated).entry();
        let blocks = grid_size(n, device.multiprocessors());
        let (state, partials) = state.writable(device);
        let args = Args {
            n,
            preconditioner: match z {
                Z::Residual => preconditioner::NONE,
                Z::Diagonal(_) => preconditioner::DIAGONAL,
                Z::Stored(_) => preconditioner::STORED,
            },
            begins: u32::from(matches!(step, Step::Begin { begins: true })),
            // What a step does not look at it is not given.
            diagonal: match (&*z, step) {
                (Z::Diagonal(diagonal), Step::Begin { .. } | Step::Update | Step::Direction) => diagonal.readable(),
                _ => Readable::default(),
            },
            z: match (&*z, step) {
                (Z::Stored(z), Step::Begin { .. } | Step::Direction) => z.readable(),
                _ => Readable::default(),
            },
            b: if let Step::Residual { b } = step { b.readable() } else { Readable::default() },
            q: match step {
                Step::Residual { .. } | Step::Alpha | Step::Update => q.readable(),
                Step::Begin { .. } | Step::Direction => Readable::default(),
            },
            x: if let Step::Direction = step { x.writable() } else { Writable::default() },
            r: r.writable(),
            p: p.writable(),
            state,
            partials,
        };
        // SAFETY: vectors of `n` elements, none a part of another, borrowed mutably where they are written; the entry is that
        // of the step for `T`, and has from the arguments what it reads. Launches follow one another on one queue.
        unsafe { launch(device, entry, blocks, args) }
    }
}

/// The key of a step. Sums of `f32` are compensated in any case, for they are `f64`.
fn key_of<T>(step: Step<'_, T>, dtype: DType, compensated: bool) -> Key {
    let (step, has_sums) = match step {
        Step::Residual { .. } => (cg_steps::Step::Residual, false),
        Step::Begin { .. } => (cg_steps::Step::Begin, true),
        Step::Alpha => (cg_steps::Step::Alpha, true),
        Step::Update => (cg_steps::Step::Update, true),
        Step::Direction => (cg_steps::Step::Direction, false),
    };
    Key { step, dtype, compensated: compensated && has_sums && dtype == DType::F64 }
}

impl<T> Drop for Workspace<T> {
    /// What is queued has ended before its memory goes: of pinned memory the driver does not see to that.
    fn drop(&mut self) {
        if self.mark.set().and_then(|()| self.mark.wait()).is_err() {
            // An error here has been one before.
            let _ = self.device.synchronize();
        }
    }
}

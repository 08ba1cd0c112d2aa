//! The vectors and the state of a solve, and the vector operations on them.

use kernels_gpu::{
    cg_state::{State, counter, mail, preconditioner, scalar, status},
    cg_steps::{self, Args, Key, grid_size},
    sums::PARTIALS,
};

use super::cpu;
use crate::{
    DType, Device, DeviceVec, Result, Scalar,
    device::{Backend, Buffer, KernelLaunch, Mailbox, Mark, Readable, Writable, launch},
};

/// The data of a solve beyond the matrix, for systems of one size.
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
    /// After the last queued operation of the method.
    pub(super) mark: Mark,
}

/// The source of the preconditioned residual.
#[derive(Debug)]
pub(super) enum Z<T> {
    Residual,
    /// The inverse of the diagonal, times the residual.
    Diagonal(DeviceVec<T>),
    /// The output of the user's preconditioner.
    Stored(DeviceVec<T>),
}

/// See [`State`].
#[derive(Debug)]
pub(crate) struct StateArrays {
    pub(crate) scalars: Buffer<f64>,
    pub(crate) counters: Buffer<u32>,
    pub(crate) mailbox: Mailbox,
    pub(crate) partials: Buffer<f64>,
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

/// A norm that has not been reported: no square has the bits of this NaN.
const NO_NORM: u64 = u64::MAX;

impl StateArrays {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            scalars: Buffer::zeros(device, scalar::COUNT)?,
            counters: Buffer::zeros(device, counter::COUNT)?,
            mailbox: Mailbox::new(device, mail::COUNT)?,
            partials: Buffer::zeros(device, PARTIALS)?,
        })
    }

    /// Returns the state and the block sums for a kernel.
    pub(crate) fn writable<'a>(&'a mut self, device: &'a Device) -> (State<KernelLaunch<'a>>, Writable<'a, f64>) {
        let Self { scalars, counters, mailbox, partials } = self;
        let (scalars, counters) = (scalars.writable(device), counters.writable(device));
        (State { scalars, counters, mailbox: mailbox.writable() }, partials.writable(device))
    }

    /// Resets the state to that before the iterations after `iteration`. No queued operation may access it.
    pub(crate) fn reset(&mut self, device: &Device, target: f64, iteration: u32, limit: u32) -> Result<()> {
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

    /// Takes the squared norm of an iteration, once it has been reported.
    pub(crate) fn take_norm(&mut self, iteration: usize) -> Option<f64> {
        let place = mail::FIRST_NORM + iteration % mail::NORMS;
        let word = self.mailbox.get(place);
        (word != NO_NORM).then(|| {
            self.mailbox.set(place, NO_NORM);
            f64::from_bits(word)
        })
    }

    /// Returns the status and the number of iterations, if the method has ended.
    pub(crate) fn end(&mut self) -> Option<(u32, usize)> {
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

    /// Returns the norms of `r` and `b`, whose squares the step [`Residual`](Step::Residual) has computed.
    pub(super) fn residual_norms(&self) -> Result<(f64, f64)> {
        let mut sums = [0.0; 2];
        self.state.partials.download(&self.device, 0, &mut sums)?;
        Ok((sums[0].sqrt(), sums[1].sqrt()))
    }

    /// Queues or records a vector operation; the CPU computes it at once.
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
            // Pass only what the step uses.
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
        // of the step for `T`, and has from the arguments what it reads. Launches follow one another on one stream.
        unsafe { launch(device, entry, blocks, args) }
    }
}

/// Returns the key of a step. Sums of `f32` need no compensation, because they are in `f64`.
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
    /// Waits for queued work before freeing its memory: the driver does not do so for pinned memory.
    fn drop(&mut self) {
        if self.mark.set().and_then(|()| self.mark.wait()).is_err() {
            // An error here has been reported before.
            let _ = self.device.synchronize();
        }
    }
}

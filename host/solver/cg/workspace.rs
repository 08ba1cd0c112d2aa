//! The vectors and the state of a method on its way, and the vector operations on them.

use kernels_gpu::{
    Variant,
    cg_state::{State, counter, mail, scalar, status},
    cg_steps::{Args, VARIANTS, grid_size, preconditioner},
    sums::PARTIALS,
};

use super::cpu;
use crate::{
    DType, Device, DeviceVec, Result, Scalar,
    device::{Backend, Buffer, KernelLaunch, Mailbox, Mark},
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
        let variant = variant_of(step, T::DTYPE, *compensated);
        let blocks = grid_size(n, device.multiprocessors());
        let mut launch = KernelLaunch::of_family(device, "cg_steps", variant, blocks);
        let mut args = Args {
            n,
            preconditioner: match z {
                Z::Residual => preconditioner::NONE,
                Z::Diagonal(_) => preconditioner::DIAGONAL,
                Z::Stored(_) => preconditioner::STORED,
            },
            begins: 0,
            diagonal: std::ptr::null(),
            z: std::ptr::null(),
            b: std::ptr::null(),
            q: std::ptr::null(),
            x: std::ptr::null_mut(),
            r: std::ptr::null_mut(),
            p: std::ptr::null_mut(),
            state: State {
                scalars: launch.write("scalars", &mut state.scalars, device),
                counters: launch.write("counters", &mut state.counters, device),
                mailbox: launch.mailbox(&mut state.mailbox),
            },
            partials: launch.write("partials", &mut state.partials, device),
        };
        if let (Z::Diagonal(diagonal), Step::Begin { .. } | Step::Update | Step::Direction) = (&*z, step) {
            args.diagonal = launch.read("diagonal", diagonal.buffer().array(), device);
        }
        if let (Z::Stored(z), Step::Begin { .. } | Step::Direction) = (&*z, step) {
            args.z = launch.read("z", z.buffer().array(), device);
        }
        if let Step::Residual { .. } | Step::Alpha | Step::Update = step {
            args.q = launch.read("q", q.buffer().array(), device);
        }
        match step {
            Step::Residual { b } => args.b = launch.read("b", b.buffer().array(), b.device()),
            Step::Begin { begins } => args.begins = u32::from(begins),
            Step::Alpha | Step::Update => {}
            Step::Direction => args.x = launch.write("x", x.parts_mut().1, device),
        }
        args.r = launch.write("r", r.parts_mut().1, device);
        args.p = launch.write("p", p.parts_mut().1, device);
        // SAFETY: vectors of `n` elements, none a part of another, borrowed mutably where they are written; the variant is that
        // of the step for `T`, and has from the arguments what it reads. Launches follow one another on one queue.
        unsafe { launch.run_variant(variant, &args) }
    }
}

fn variant_of<T>(step: Step<'_, T>, dtype: DType, compensated: bool) -> &'static Variant {
    let (name, has_sums) = match step {
        Step::Residual { .. } => ("residual", false),
        Step::Begin { .. } => ("begin", true),
        Step::Alpha => ("alpha", true),
        Step::Update => ("update", true),
        Step::Direction => ("direction", false),
    };
    named(VARIANTS, "cg_steps_", name, dtype, compensated && has_sums)
}

/// The variant of a name in parts. Sums of `f32` are compensated in any case, for they are `f64`.
pub(super) fn named(
    variants: &'static [Variant],
    prefix: &str,
    name: &str,
    dtype: DType,
    compensated: bool,
) -> &'static Variant {
    let of_name = |variant: &&Variant| {
        let rest = variant.entry.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(name));
        let is_compensated = compensated && dtype == DType::F64;
        rest.is_some_and(|rest| {
            (rest.is_empty() || rest.starts_with('_')) && rest.ends_with("_compensated") == is_compensated
        })
    };
    let mut of_type = variants.iter().filter(|variant| variant.dtype == Some(dtype));
    of_type.find(of_name).expect("a variant for every step")
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

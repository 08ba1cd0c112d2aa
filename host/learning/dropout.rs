//! Dropout: masks from a seed and the step.

use kernels_gpu::{
    args::Arguments,
    dropout::{Args, Key, grid_size},
    philox::philox,
};

use super::StepCounter;
use crate::{
    DeviceSlice, DeviceSliceMut, Error, Result, Scalar,
    device::{Backend, KernelLaunch, check_length},
    parallel::for_blocks,
};

/// Dropout: sets elements to 0 with probability `p`, and multiplies the others by `1 / (1 - p)`, so that the expected value stays (Srivastava et al.,
/// "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014).
///
/// Whether an element is dropped depends only on the seed, the step and its index in the vector or slice, the same on every device and for both types:
/// give each layer another seed. Nothing is stored for the backward pass, which is the same call on the gradient in the same step: `dx[i] = dy[i] / (1 - p)` where
/// `x[i]` was kept, otherwise 0. Generator: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).
///
/// ```
/// use warpsparse::{
///     Device,
///     learning::{Dropout, StepCounter},
/// };
///
/// let device = Device::cpu();
/// let (dropout, mut step) = (Dropout::new(0.5, 42)?, StepCounter::new(&device)?);
/// let mut x = device.filled(1000, 1.0f32)?;
/// dropout.apply(&step, &mut x)?;
/// let kept = x.to_vec()?.iter().filter(|&&x| x == 2.0).count();
/// assert!((400..600).contains(&kept));
/// step.advance()?; // other elements from now on
/// # Ok::<(), warpsparse::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    probability: f64,
    seed: u64,
}

impl Dropout {
    /// Drops elements with this probability, rounded to a multiple of 2^-32.
    ///
    /// # Errors
    /// [`InvalidOption`](Error::InvalidOption) unless the probability is at least 0 and less than 1.
    pub fn new(probability: f64, seed: u64) -> Result<Self> {
        if !(0.0..1.0).contains(&probability) {
            let problem = format!("a dropout probability of {probability}: it must be at least 0 and less than 1");
            return Err(Error::InvalidOption(problem));
        }
        Ok(Self { probability, seed })
    }

    /// Drops elements of `y` in place. Queued on its stream without waiting; `O(n)` work.
    ///
    /// # Errors
    /// [`DeviceMismatch`](Error::DeviceMismatch), [`Driver`](Error::Driver).
    pub fn apply<'a, T: Scalar>(&self, step: &StepCounter, y: impl Into<DeviceSliceMut<'a, T>>) -> Result<()> {
        self.run(step, None, y.into())
    }

    /// Writes `x` to `y`, with elements dropped.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`LengthMismatch`](Error::LengthMismatch).
    pub fn apply_from<'a, 'b, T: Scalar>(
        &self,
        step: &StepCounter,
        x: impl Into<DeviceSlice<'b, T>>,
        y: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<()> {
        let (x, y) = (x.into(), y.into());
        check_length("x", y.len(), x.len())?;
        y.device().check_same("x", x.device())?;
        self.run(step, Some(x), y)
    }

    fn run<T: Scalar>(
        &self,
        step: &StepCounter,
        x: Option<DeviceSlice<'_, T>>,
        y: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        y.device().check_same("the step counter", step.number.device())?;
        // The largest threshold still keeps an element now and then.
        let threshold = (self.probability * 4_294_967_296.0).round() as u32;
        let factor = T::from_f64(1.0 / (1.0 - self.probability));
        if y.is_empty() {
            return Ok(());
        }
        if let Backend::Cpu { .. } = y.device().backend() {
            let (number, x) = (step.number.vector().as_slice().on_cpu()[0] as u64, x.map(DeviceSlice::on_cpu));
            let y = y.on_cpu_mut();
            for_blocks(0..y.len(), y, &|range, y| {
                let mut group = (usize::MAX, [0; 4]);
                for (i, y) in range.zip(y) {
                    if group.0 != i / 4 {
                        group = (i / 4, philox([i as u64 / 4, number], self.seed));
                    }
                    let element = x.map_or(*y, |x| x[i]);
                    *y = if group.1[i % 4] < threshold { T::default() } else { element * factor };
                }
            });
            return Ok(());
        }
        let (n, entry) = (y.len() as u64, Key { dtype: T::DTYPE }.entry());
        let (queue, y) = y.into_writable();
        let args = Args {
            n,
            seed: self.seed,
            threshold,
            factor,
            step: step.number.vector().readable(),
            x: x.map(DeviceSlice::readable).unwrap_or_default(),
            y,
        };
        let mut launch = KernelLaunch::of_entry(queue, entry, grid_size::<T>(n) as u32);
        let args = args.bind(&mut launch);
        // SAFETY: both slices have n elements on this device, and y is borrowed mutably.
        unsafe { launch.run_entry(entry, &args) }
    }
}

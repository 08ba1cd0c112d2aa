//! What networks have in common: a task, and steps of Adam.

use warpsparse::{
    Device, DeviceDense, DeviceScalar, Result, Scalar,
    learning::{self, Labels, StepCounter},
};

use super::{data::Data, parameter::Parameter};

/// What a network learns.
pub(crate) struct Task<T: Scalar> {
    /// Those for training, validation and test.
    pub(crate) labels: [Labels; 3],
    /// The losses of training and validation, and the share of right answers in validation.
    pub(crate) progress: [DeviceScalar<T>; 3],
    pub(crate) step: StepCounter,
}

impl<T: Scalar> Task<T> {
    pub(crate) fn new(device: &Device, data: &Data) -> Result<Self> {
        let labels = |split: usize| Labels::new(device, data.classes, &data.labels[split]);
        let number = || device.scalar(T::default());
        let progress = [number()?, number()?, number()?];
        Ok(Self { labels: [labels(0)?, labels(1)?, labels(2)?], progress, step: StepCounter::new(device)? })
    }
}

pub(crate) trait Network<T: Scalar> {
    /// Whether a step that has been recorded is another one each time.
    const REPLAYS: bool;
    /// Epochs in which the loss in validation may fail to reach a new minimum.
    const PATIENCE: usize;

    /// Computes the logits, in training with dropout.
    fn forward(&mut self, training: bool) -> Result<()>;

    /// Computes the gradients of the loss with respect to the parameters, after a forward pass in training.
    fn backward(&mut self) -> Result<()>;

    /// The parameters, the task, and the logits.
    fn parts(&mut self) -> (Vec<&mut Parameter<T>>, &mut Task<T>, &DeviceDense<T>);

    /// Takes a step with all labels for training.
    fn take_step(&mut self) -> Result<()> {
        self.forward(true)?;
        self.backward()?;
        let (parameters, task, _) = self.parts();
        parameters.into_iter().try_for_each(|parameter| parameter.update(&task.step))?;
        task.step.advance()
    }

    /// Takes a step, and computes its progress.
    fn epoch(&mut self) -> Result<()> {
        self.take_step()?;
        self.forward(false)?;
        let (_, Task { labels, progress: [training, validation, share], .. }, logits) = self.parts();
        learning::cross_entropy(logits, &labels[0], training)?;
        learning::cross_entropy(logits, &labels[1], validation)?;
        learning::accuracy(logits, &labels[1], share)
    }
}

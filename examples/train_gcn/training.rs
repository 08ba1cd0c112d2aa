//! The training of a network: steps of Adam until the loss in validation does not decrease any more.

use std::{cell::RefCell, error::Error};

use warpsparse::{Device, Result, Scalar, learning};

use super::{data::Data, model::Gcn};

/// Epochs that have to pass before training may stop early, and over which the loss in validation is averaged.
const WINDOW: usize = 10;

/// What has become of a network.
pub(crate) struct Trained<T: Scalar> {
    pub(crate) network: Gcn<T>,
    /// The losses of training and validation and the share of right answers in validation, after each epoch.
    pub(crate) curve: Vec<[f64; 3]>,
    /// The share of right answers in the test.
    pub(crate) test: f64,
}

impl<T: Scalar> Gcn<T> {
    /// Takes a step with all labels for training, and computes its progress.
    pub(crate) fn epoch(&mut self) -> Result<()> {
        self.forward(true)?;
        self.backward()?;
        for ((optimiser, gradient), weights) in self.optimisers.iter_mut().zip(&self.gradients).zip(&mut self.weights) {
            optimiser.update(&self.step, gradient.elements(), weights.elements_mut())?;
        }
        self.step.advance()?;
        self.forward(false)?;
        let [training, validation, share] = &mut self.progress;
        learning::cross_entropy(&self.logits, &self.labels[0], training)?;
        learning::cross_entropy(&self.logits, &self.labels[1], validation)?;
        learning::accuracy(&self.logits, &self.labels[1], share)
    }
}

/// Trains a network of 16 hidden units, for so many epochs at most. An epoch is a CUDA graph on a GPU.
pub(crate) fn train<T: Scalar>(
    device: &Device,
    data: &Data,
    seed: u64,
    epochs: usize,
    mut on_epoch: impl FnMut(),
) -> std::result::Result<Trained<T>, Box<dyn Error>> {
    let network = RefCell::new(Gcn::<T>::new(device, data, 16, seed)?);
    let progress = || -> Result<[f64; 3]> {
        let [training, validation, share] = &network.borrow().progress;
        Ok([training.get()?.to_f64(), validation.get()?.to_f64(), share.get()?.to_f64()])
    };
    network.borrow_mut().epoch()?; // before the recording: the first products allocate memory
    on_epoch();
    let mut curve = vec![progress()?];
    let mut epoch = device.record(|| network.borrow_mut().epoch())?;
    while curve.len() < epochs && !has_converged(&curve) {
        epoch.launch(1)?;
        curve.push(progress()?);
        on_epoch();
    }
    drop(epoch); // gives the network back
    let mut network = network.into_inner();
    let [.., share] = &mut network.progress;
    learning::accuracy(&network.logits, &network.labels[2], share)?;
    let test = share.get()?.to_f64();
    Ok(Trained { network, curve, test })
}

/// Whether the loss in validation is above its mean over the epochs before.
fn has_converged(curve: &[[f64; 3]]) -> bool {
    let Some((&[_, last, _], before)) = curve.split_last() else { return false };
    let window = &before[before.len().saturating_sub(WINDOW)..];
    before.len() > WINDOW && last > window.iter().map(|[_, loss, _]| loss).sum::<f64>() / window.len() as f64
}

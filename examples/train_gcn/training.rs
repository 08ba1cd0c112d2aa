//! The training of a network, until the loss in validation has not decreased for long.

use std::{cell::RefCell, error::Error};

use warpsparse::{Device, Result, Scalar, learning};

use super::network::{Network, Task};

/// What has become of a network.
pub(crate) struct Trained<N> {
    pub(crate) network: N,
    /// The losses of training and validation and the share of right answers in validation, after each epoch.
    pub(crate) curve: Vec<[f64; 3]>,
    /// The share of right answers in the test, after the epoch with the least loss in validation.
    pub(crate) test: f64,
}

/// Trains a network for so many epochs at most. An epoch is a CUDA graph on a GPU, if that can be replayed.
pub(crate) fn train<T: Scalar, N: Network<T>>(
    device: &Device,
    network: N,
    epochs: usize,
    mut on_epoch: impl FnMut(),
) -> std::result::Result<Trained<N>, Box<dyn Error>> {
    let network = RefCell::new(network);
    let epoch = || network.borrow_mut().epoch();
    let progress = || -> Result<[f64; 3]> {
        let mut network = network.borrow_mut();
        let [training, validation, share] = &network.parts().1.progress;
        Ok([training.get()?.to_f64(), validation.get()?.to_f64(), share.get()?.to_f64()])
    };
    epoch()?; // before the recording: the first products allocate memory
    on_epoch();
    let mut curve = vec![progress()?];
    let (mut least, mut at) = (curve[0][1], 1);
    let mut best = device.zeros_dense(network.borrow_mut().parts().2.layout())?;
    best.assign(network.borrow_mut().parts().2)?;
    let mut recorded = if N::REPLAYS { Some(device.record(epoch)?) } else { None };
    while curve.len() < epochs && curve.len() < at + N::PATIENCE {
        match &mut recorded {
            Some(epoch) => epoch.launch(1)?,
            None => epoch()?,
        }
        curve.push(progress()?);
        on_epoch();
        let loss = curve[curve.len() - 1][1];
        if loss < least {
            (least, at) = (loss, curve.len());
            best.assign(network.borrow_mut().parts().2)?;
        }
    }
    drop(recorded); // gives the network back
    let mut network = network.into_inner();
    let Task { labels, progress: [.., share], .. } = network.parts().1;
    learning::accuracy(&best, &labels[2], share)?;
    let test = share.get()?.to_f64();
    Ok(Trained { network, curve, test })
}

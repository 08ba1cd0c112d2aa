//! The network of `examples/train_gcn`, on a graph of 60 vertices in three communities.

use std::path::Path;

use warpsparse::{Device, Scalar, learning};

use crate::{
    data::{self, Data},
    model::Gcn,
    training::train,
};

fn communities() -> Data {
    // The package when it was built, or a folder that the tests were copied to.
    let folders = [concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/communities"), "data/communities"].map(Path::new);
    data::read(folders.into_iter().find(|folder| folder.exists()).unwrap_or(folders[0])).unwrap()
}

/// The gradient of the loss with respect to each weight, with dropout in the forward pass, against finite differences in `f64`.
pub(crate) fn gradients(device: &Device) {
    let mut network = Gcn::<f64>::new(device, &communities(), 4, 3).unwrap();
    network.step.advance().unwrap();
    network.forward(true).unwrap();
    network.backward().unwrap();
    let mut loss = device.scalar(0.0).unwrap();
    // Across a kink of the rectifier, differences are not gradients: none of these is.
    for layer in [0, 1] {
        let gradient = network.gradients[layer].to_vec().unwrap();
        let weights = network.weights[layer].to_vec().unwrap();
        let largest = gradient.iter().copied().map(f64::abs).fold(0.0, f64::max);
        assert!(largest > 1e-3, "gradients of layer {layer} up to {largest}");
        for at in 0..weights.len() {
            let mut of = |shift: f64| {
                let mut weights = weights.clone();
                weights[at] += shift;
                network.weights[layer].elements_mut().copy_from(&weights).unwrap();
                network.forward(true).unwrap();
                learning::cross_entropy(&network.logits, &network.labels[0], &mut loss).unwrap();
                loss.get().unwrap()
            };
            let difference = (of(1e-6) - of(-1e-6)) / 2e-6;
            let error = (gradient[at] - difference).abs();
            assert!(error < 1e-6 * largest, "layer {layer}, weight {at}: {} and {difference}", gradient[at]);
        }
        network.weights[layer].elements_mut().copy_from(&weights).unwrap();
    }
}

/// Trained again with the same seed, recorded and not, weights have the same bits; with another seed others.
pub(crate) fn same_seed_same_bits<T: Scalar>(device: &Device) {
    let (data, epochs) = (communities(), 5);
    let weights = |network: &Gcn<T>| [0, 1].map(|layer| network.weights[layer].to_vec().unwrap());
    let trained = |seed| weights(&train::<T>(device, &data, seed, epochs, || ()).unwrap().network);
    let first = trained(1);
    assert!(first == trained(1), "the same seed");
    assert!(first != trained(2), "another seed");
    let mut network = Gcn::<T>::new(device, &data, 16, 1).unwrap();
    (0..epochs).for_each(|_| network.epoch().unwrap());
    assert!(first == weights(&network), "without a recording");
}

/// The loss falls, and most vertices of the test are found.
pub(crate) fn learns(device: &Device) {
    let trained = train::<f32>(device, &communities(), 1, 60, || ()).unwrap();
    let [first, .., last] = trained.curve[..] else { panic!("one epoch") };
    assert!(last[0] < 0.9 * first[0], "a loss of {} and of {} at last", first[0], last[0]);
    assert!(trained.test > 0.8, "an accuracy of {}", trained.test);
}

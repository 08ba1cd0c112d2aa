//! The networks of `examples/train_gcn` and `train_gat`, on a graph of 60 vertices in three communities.

use std::path::Path;

use warpsparse::{CsrMatrix, Device, Scalar, learning};

use crate::{
    data::{self, Data},
    gat::model::Gat,
    model::Gcn,
    network::Network,
    training::train,
};

fn communities() -> Data {
    // The package when it was built, or a folder that the tests were copied to.
    let folders = [concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/communities"), "data/communities"].map(Path::new);
    data::read(folders.into_iter().find(|folder| folder.exists()).unwrap_or(folders[0])).unwrap()
}

/// The gradient of the loss with respect to each weight, with dropout in the forward pass, against finite differences in `f64`.
pub(crate) fn gradients(device: &Device) {
    let data = communities();
    compare(device, Gcn::new(device, &data, &[4], 3).unwrap(), |_| ());
    compare(device, Gat::new(device, &data, (2, 3), 3).unwrap(), |gat| gat.seed -= 2);
    let (n, offsets) = (data.features.nrows(), (0..=data.features.nrows() as u32).map(|i| 3 * i).collect());
    let values = (0..3 * n).map(|k| (k as f32).sin()).collect();
    let features = CsrMatrix::try_from_csr_data(n, 3, offsets, [0, 1, 2].repeat(n), values).unwrap();
    compare(device, Gcn::new(device, &Data { features, ..data }, &[4, 5], 3).unwrap(), |_| ());
}

/// `with_the_same_dropout` makes the next step drop what the last one has dropped.
fn compare<N: Network<f64>>(device: &Device, mut network: N, with_the_same_dropout: impl Fn(&mut N)) {
    network.parts().1.step.advance().unwrap();
    network.forward(true).unwrap();
    network.backward().unwrap();
    with_the_same_dropout(&mut network);
    let mut loss = device.scalar(0.0).unwrap();
    // Across a kink of the rectifier, differences are not gradients: none of these is.
    for which in 0..network.parts().0.len() {
        let parameter = &network.parts().0[which];
        let (weights, gradient) = (parameter.weights.to_vec().unwrap(), parameter.gradient.to_vec().unwrap());
        let largest = gradient.iter().copied().map(f64::abs).fold(0.0, f64::max);
        assert!(largest > 1e-4, "gradients of {which} up to {largest}");
        // Zeros are what a head does not have.
        for at in (0..weights.len()).filter(|&at| weights[at] != 0.0) {
            let mut of = |shift: f64| {
                let mut weights = weights.clone();
                weights[at] += shift;
                network.parts().0[which].weights.elements_mut().copy_from(&weights).unwrap();
                network.forward(true).unwrap();
                let (_, task, logits) = network.parts();
                learning::cross_entropy(logits, &task.labels[0], &mut loss).unwrap();
                loss.get().unwrap()
            };
            let difference = (of(1e-6) - of(-1e-6)) / 2e-6;
            let error = (gradient[at] - difference).abs();
            assert!(error < 1e-6 * largest, "{which}, weight {at}: {} and {difference}", gradient[at]);
        }
        network.parts().0[which].weights.elements_mut().copy_from(&weights).unwrap();
    }
}

/// Trained again with the same seed, recorded and not, weights have the same bits; with another seed others.
pub(crate) fn same_seed_same_bits<T: Scalar>(device: &Device) {
    let (data, epochs) = (communities(), 5);
    let weights = |network: &Gcn<T>| [0, 1].map(|layer| network.layers[layer].parameter.weights.to_vec().unwrap());
    let gcn = |seed| Gcn::<T>::new(device, &data, &[16], seed).unwrap();
    let trained = |seed| weights(&train(device, gcn(seed), epochs, || ()).unwrap().network);
    let first = trained(1);
    assert!(first == trained(1), "the same seed");
    assert!(first != trained(2), "another seed");
    let mut network = gcn(1);
    (0..epochs).for_each(|_| network.epoch().unwrap());
    assert!(first == weights(&network), "without a recording");
}

/// The loss falls, and most vertices of the test are found.
pub(crate) fn learns(device: &Device) {
    let data = communities();
    let gcn = train(device, Gcn::<f32>::new(device, &data, &[16], 1).unwrap(), 60, || ()).unwrap();
    let gat = train(device, Gat::<f32>::new(device, &data, (2, 8), 1).unwrap(), 60, || ()).unwrap();
    for (curve, test, least) in [(gcn.curve, gcn.test, 0.8), (gat.curve, gat.test, 0.7)] {
        let [first, .., last] = curve[..] else { panic!("one epoch") };
        assert!(last[0] < 0.9 * first[0], "a loss of {} and of {} at last", first[0], last[0]);
        assert!(test > least, "an accuracy of {test}");
    }
}

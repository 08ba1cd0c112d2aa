//! The command line of the examples, and what they print.

use std::{env, error::Error, path::PathBuf};

use indicatif::ProgressBar;
use warpsparse::{Device, DeviceDense, Result};

use super::{
    data::{self, Data},
    network::Network,
    picture,
    training::train,
};

/// Trains networks: what makes them, with a seed, and what is pictured of them. Pictures are called `name`.
pub(crate) fn run<N: Network<f32>>(
    name: &str,
    new: impl Fn(&Device, &Data, u64) -> Result<N>,
    hidden: impl Fn(&N) -> &DeviceDense<f32>,
    mut epochs: usize,
) -> std::result::Result<(), Box<dyn Error>> {
    let (mut positional, mut first, mut seeds, mut pictures) = (vec![], 1, 1, PathBuf::from("target"));
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument}: a value is missing"));
        match argument.as_str() {
            "--seed" => first = value()?.parse()?,
            "--seeds" => seeds = value()?.parse()?,
            "--epochs" => epochs = value()?.parse()?,
            "--pictures" => pictures = value()?.into(),
            _ => positional.push(argument),
        }
    }
    let device = Device::from_name(positional.first().map_or("auto", String::as_str))?;
    let folder = positional.get(1).map_or("tests/data/planetoid", String::as_str);
    let data = data::read(folder.as_ref())?;
    let [training, validation, test] = [0, 1, 2].map(|split| data.labels[split].iter().flatten().count());
    println!("{folder}: {} vertices, {} features, {} classes", data.graph.nrows(), data.features.ncols(), data.classes);
    println!("labels for training, validation and test: {training}, {validation}, {test}; on {}", device.describe());
    let (mut results, mut last) = (vec![], None);
    for seed in first..first + u64::max(seeds, 1) {
        let bar = ProgressBar::new(epochs as u64);
        let trained = train(&device, new(&device, &data, seed)?, epochs, || bar.inc(1))?;
        bar.finish_and_clear();
        let (epochs, [_, loss, share]) = (trained.curve.len(), trained.curve[trained.curve.len() - 1]);
        println!("seed {seed}: {epochs} epochs, validation {share:.4} (loss {loss:.4}), test {:.4}", trained.test);
        results.push(trained.test);
        last = Some((seed, trained));
    }
    let mean = results.iter().sum::<f64>() / results.len() as f64;
    let squares = results.iter().map(|test| (test - mean).powi(2)).sum::<f64>();
    let deviation = (squares / results.len().saturating_sub(1).max(1) as f64).sqrt();
    println!("test accuracy of {} seeds: mean {mean:.4}, standard deviation {deviation:.4}", results.len());
    let (seed, mut last) = last.expect("one seed at least");
    let weights = |network: &mut N| network.parts().0[0].weights.to_vec();
    let mut again = train(&device, new(&device, &data, seed)?, epochs, || ())?;
    assert_eq!(weights(&mut again.network)?, weights(&mut last.network)?, "the same seed gives the same weights");
    let path = |name: &str| pictures.join(name).display().to_string();
    let [curve, embedding] = [path(&format!("{name}.svg")), path(&format!("{name}_embedding.svg"))];
    picture::curve(&curve, &last.curve)?;
    let rows = hidden(&last.network);
    let elements: Vec<f64> = rows.to_vec()?.into_iter().map(f64::from).collect();
    picture::embedding(&embedding, &elements, rows.ncols(), &data.labels[2])?;
    println!("pictures: {curve}, {embedding}");
    Ok(())
}

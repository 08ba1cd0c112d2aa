//! Trains a graph convolutional network (Kipf & Welling, 2017): `cargo run --release --example train_gcn [DEVICE] [FOLDER]`.
//!
//! FOLDER has a dataset in three files, by default Planetoid's Cora. `--seed 1` is the first seed, `--seeds 20` how many, one after the other; `--epochs 200` is the most.
//! `--pictures DIR` is where the pictures of the last network go.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

mod data;
mod features;
mod gradient;
mod model;
mod picture;
mod training;

use std::{env, error::Error, path::PathBuf};

use indicatif::ProgressBar;
use training::Trained;
use warpsparse::Device;

fn main() -> Result<(), Box<dyn Error>> {
    let mut positional = vec![];
    let (mut first, mut seeds, mut epochs, mut pictures) = (1, 1, 200, PathBuf::from("target"));
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
        let trained = training::train::<f32>(&device, &data, seed, epochs, || bar.inc(1))?;
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
    let (seed, last) = last.expect("one seed at least");
    let weights = |trained: &Trained<f32>| Ok::<_, Box<dyn Error>>(trained.network.weights[0].to_vec()?);
    let again = training::train::<f32>(&device, &data, seed, epochs, || ())?;
    assert_eq!(weights(&again)?, weights(&last)?, "the same seed gives the same weights");
    let path = |name: &str| pictures.join(name).display().to_string();
    picture::curve(&path("train_gcn.svg"), &last.curve)?;
    let hidden: Vec<f64> = last.network.hidden.to_vec()?.into_iter().map(f64::from).collect();
    picture::embedding(&path("train_gcn_embedding.svg"), &hidden, last.network.hidden.ncols(), &data.labels[2])?;
    println!("pictures: {}, {}", path("train_gcn.svg"), path("train_gcn_embedding.svg"));
    Ok(())
}

//! Trains a graph convolutional network (Kipf & Welling, 2017): `cargo run --release --example train_gcn [DEVICE] [FOLDER]`.
//!
//! FOLDER has a dataset in three files, by default Planetoid's Cora. `--seed 1` is the first seed, `--seeds 20` how many, one after the other; `--epochs 200` is the most.
//! `--pictures DIR` is where the pictures of the last network go.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

mod command;
mod data;
mod features;
mod model;
mod network;
mod parameter;
mod passes;
mod picture;
mod training;

use model::Gcn;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    command::run("train_gcn", |device, data, seed| Gcn::new(device, data, &[16], seed), |gcn| &gcn.layers[0].out, 200)
}

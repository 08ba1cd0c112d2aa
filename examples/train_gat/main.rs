//! Trains a graph attention network (Veličković et al., 2018): `cargo run --release --example train_gat [DEVICE] [FOLDER]`.
//!
//! It takes what `train_gcn` takes; `--epochs 700` is the most.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

#[path = "../train_gcn/command.rs"]
mod command;
#[path = "../train_gcn/data.rs"]
mod data;
#[path = "../train_gcn/features.rs"]
mod features;
mod layer;
mod model;
#[path = "../train_gcn/network.rs"]
mod network;
#[path = "../train_gcn/parameter.rs"]
mod parameter;
mod passes;
#[path = "../train_gcn/picture.rs"]
mod picture;
#[path = "../train_gcn/training.rs"]
mod training;

use model::Gat;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    command::run("train_gat", |device, data, seed| Gat::new(device, data, (8, 8), seed), |gat| &gat.hidden, 700)
}

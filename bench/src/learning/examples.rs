//! The networks of `examples/train_gcn`, and in `gat` that of `train_gat`.

#[path = "../../../examples/train_gcn/data.rs"]
pub(super) mod data;
#[path = "../../../examples/train_gcn/features.rs"]
pub(super) mod features;
#[path = "../../../examples/train_gcn/model.rs"]
pub(super) mod model;
#[path = "../../../examples/train_gcn/network.rs"]
#[allow(dead_code, reason = "steps are taken here, not the course of a training")]
pub(super) mod network;
#[path = "../../../examples/train_gcn/parameter.rs"]
pub(super) mod parameter;
#[path = "../../../examples/train_gcn/passes.rs"]
mod passes;

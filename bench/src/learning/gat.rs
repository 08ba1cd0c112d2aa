//! The network of `examples/train_gat`.

#[path = "../../../examples/train_gat/layer.rs"]
pub(super) mod layer;
#[path = "../../../examples/train_gat/model.rs"]
pub(super) mod model;
#[path = "../../../examples/train_gat/passes.rs"]
mod passes;

use super::examples::{data, features, network, parameter};

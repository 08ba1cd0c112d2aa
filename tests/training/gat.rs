//! The network of `examples/train_gat`, as there.

#[path = "../../examples/train_gat/layer.rs"]
mod layer;
#[path = "../../examples/train_gat/model.rs"]
pub(crate) mod model;
#[path = "../../examples/train_gat/passes.rs"]
mod passes;

use crate::{data, features, network, parameter};

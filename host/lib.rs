//! x

#[cfg(feature = "cuda")]
#[cfg_attr(not(test), expect(dead_code, reason = "the CUDA device loads these"))]
mod ptx;

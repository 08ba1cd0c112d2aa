//! Options for dense products.

/// Options for [`gemm_with`](crate::gemm_with).
///
/// ```
/// use warpsparse::GemmOptions;
/// let forced = GemmOptions::default().tile(128, 128).split_k(4).tensor_cores(false);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GemmOptions {
    /// The rows and columns of `C` per thread block; `None` chooses by the sizes. For a column-major `C`, they are those of
    /// its transpose.
    pub tile: Option<(u32, u32)>,
    /// The number of blocks, 1 to 64, that split the sums of a tile (split-k); `None` chooses by the sizes.
    pub split_k: Option<u32>,
    /// Whether the tensor cores multiply. `None` takes the fastest kernel that is as exact as one of fused multiply-adds: for `f64` on
    /// GPUs of compute capability 8.0 and 9.0, which have fast tensor cores for it, that can be one of theirs.
    pub tensor_cores: Option<bool>,
}

impl GemmOptions {
    /// Sets the tile: `tile(128, 128)`. Validated but ignored on the CPU.
    #[must_use]
    pub fn tile(mut self, rows: u32, cols: u32) -> Self {
        self.tile = Some((rows, cols));
        self
    }

    /// Sets the number of blocks that split the sums of a tile. Validated but ignored on the CPU.
    #[must_use]
    pub fn split_k(mut self, split_k: u32) -> Self {
        self.split_k = Some(split_k);
        self
    }

    /// Demands the tensor cores, or rules them out. Ignored on the CPU, except that there are none for `f32`.
    #[must_use]
    pub fn tensor_cores(mut self, tensor_cores: bool) -> Self {
        self.tensor_cores = Some(tensor_cores);
        self
    }
}

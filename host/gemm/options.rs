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
    /// Whether the tensor cores multiply. `None` takes the fastest kernel of fused multiply-adds: for `f64` on GPUs of compute capability 8.0 and 9.0, which have fast
    /// tensor cores for it, that can be one of theirs.
    ///
    /// In `f32` they do so on demand only, from compute capability 8.0 on. Each factor is split into two TF32 numbers of 11 bits, of which the tensor cores form
    /// three products; their sums of 8 are added up in `f32`. Elements are about as exact as by fused multiply-adds: a factor loses at most its last bit, and there are fewer
    /// roundings. Other than that:
    /// - a factor below 2^-112 is off by up to 2^-136, as TF32 has no smaller numbers;
    /// - results have other last bits, and those of a GPU are not those of the emulator, because nobody specifies in which order tensor cores add;
    /// - a tile of `C` with an infinity or a NaN is recomputed with fused multiply-adds, so these elements are those of ordinary `f32` arithmetic, but the tile takes longer;
    /// - large products on compute capability 9.0 need workspace of 8 bytes for each element of `A` and `B`, each dimension rounded up to 128 or 32, which the stream keeps.
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

    /// Demands the tensor cores, or rules them out. Ignored on the CPU.
    #[must_use]
    pub fn tensor_cores(mut self, tensor_cores: bool) -> Self {
        self.tensor_cores = Some(tensor_cores);
        self
    }
}

//! How dense products are computed.

/// How to choose the kernel for a dense product: for [`gemm_with`](crate::gemm_with).
///
/// ```
/// use warpsparse::GemmOptions;
/// let forced = GemmOptions::default().tile(128, 128).splits(4);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GemmOptions {
    /// Rows and columns of `C` that a block of GPU threads computes; `None` for what suits the sizes. If `C` is
    /// column-major, they are those of its transpose.
    pub tile: Option<(u32, u32)>,
    /// Blocks that share the sums of a tile, each a part of their length: 1 to 64; `None` for what suits the
    /// sizes.
    pub splits: Option<u32>,
}

impl GemmOptions {
    /// Sets the tile: `tile(128, 128)`. Checked but ignored on the CPU.
    #[must_use]
    pub fn tile(mut self, rows: u32, cols: u32) -> Self {
        self.tile = Some((rows, cols));
        self
    }

    /// Sets the number of blocks that share the sums of a tile. Checked but ignored on the CPU.
    #[must_use]
    pub fn splits(mut self, splits: u32) -> Self {
        self.splits = Some(splits);
        self
    }
}

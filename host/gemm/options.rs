//! How dense products are computed.

/// A GPU kernel for dense products.
///
/// All but the first are there to learn from and to compare with: the rungs of a ladder, each with one idea more than the one
/// before. They are for `f32` and row-major matrices, and each is a short file in the crate `warpsparse-kernels-gpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GemmKernel {
    /// Tiles of `C` in registers, operands staged in shared memory while the last ones are multiplied.
    #[default]
    Tiles,
    /// A rung of the ladder.
    Ladder(GemmRung),
}

pub use kernels_gpu::sgemm_ladder::Rung as GemmRung;

/// How to choose the kernel for a dense product: for [`gemm_with`](crate::gemm_with).
///
/// ```
/// use warpsparse::{GemmKernel, GemmOptions, GemmRung};
/// let naive = GemmOptions::default().kernel(GemmKernel::Ladder(GemmRung::Naive));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GemmOptions {
    /// The kernel on a GPU.
    pub kernel: GemmKernel,
    /// Rows and columns of `C` that a block of GPU threads computes, for [`GemmKernel::Tiles`]; `None` for what suits the sizes. If `C` is
    /// column-major, they are those of its transpose.
    pub tile: Option<(u32, u32)>,
    /// Blocks that share the sums of a tile, each a part of their length, for [`GemmKernel::Tiles`]: 1 to 64; `None` for what suits the
    /// sizes.
    pub splits: Option<u32>,
}

impl GemmOptions {
    /// Sets the kernel. Checked but ignored on the CPU.
    #[must_use]
    pub fn kernel(mut self, kernel: GemmKernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Sets the tile: `tile(128, 128)`. Ignored for the ladder; checked but ignored on the CPU.
    #[must_use]
    pub fn tile(mut self, rows: u32, cols: u32) -> Self {
        self.tile = Some((rows, cols));
        self
    }

    /// Sets the number of blocks that share the sums of a tile. Ignored for the ladder; checked but ignored on the CPU.
    #[must_use]
    pub fn splits(mut self, splits: u32) -> Self {
        self.splits = Some(splits);
        self
    }
}

//! Options for dense products.

/// A GPU kernel for dense products.
///
/// All but the first are for study and comparison: the rungs of a ladder, each of which adds one idea to the one
/// before. They support `f32` and row-major matrices; each is a short file in the crate `warpsparse-kernels-gpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GemmKernel {
    /// Tiles of `C` in registers; loads the next operands to shared memory while multiplying the current ones.
    #[default]
    Tiles,
    /// A rung of the ladder.
    Ladder(GemmRung),
}

pub use kernels_gpu::sgemm_ladder::Rung as GemmRung;

/// Options for [`gemm_with`](crate::gemm_with).
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
    /// The rows and columns of `C` per thread block, for [`GemmKernel::Tiles`]; `None` chooses by the sizes. For a
    /// column-major `C`, they are those of its transpose.
    pub tile: Option<(u32, u32)>,
    /// The number of blocks, 1 to 64, that split the sums of a tile (split-k), for [`GemmKernel::Tiles`]; `None`
    /// chooses by the sizes.
    pub splits: Option<u32>,
}

impl GemmOptions {
    /// Sets the kernel. Validated but ignored on the CPU.
    #[must_use]
    pub fn kernel(mut self, kernel: GemmKernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Sets the tile: `tile(128, 128)`. Ignored by the ladder; validated but ignored on the CPU.
    #[must_use]
    pub fn tile(mut self, rows: u32, cols: u32) -> Self {
        self.tile = Some((rows, cols));
        self
    }

    /// Sets the number of blocks that split the sums of a tile. Ignored by the ladder; validated but ignored on the
    /// CPU.
    #[must_use]
    pub fn splits(mut self, splits: u32) -> Self {
        self.splits = Some(splits);
        self
    }
}

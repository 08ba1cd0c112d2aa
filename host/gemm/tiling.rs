//! The kernel of a dense product on a GPU, its tile, and the number of blocks that split its sums.

use kernels_gpu::{DType, Entry, gemm_dmma, gemm_tf32, gemm_tiles, gemm_wgmma};

use super::GemmOptions;
use crate::{Error, Order, Result};

/// A kernel and a number of splits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub(super) kernel: Kernel,
    pub(super) split_k: u32,
}

/// A kernel of one of the families.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    /// On the tensor cores, in `f64`.
    Dmma(gemm_dmma::Key),
    /// On the tensor cores, in `f32`.
    Tf32(gemm_tf32::Key),
    /// On those of Hopper, in `f32`.
    Wgmma,
    /// By fused multiply-adds of the threads.
    Tiles(gemm_tiles::Key),
}

/// The product and the GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) dtype: DType,
    /// Of `A` and `B`.
    pub(super) orders: (Order, Order),
    /// Rows and columns of `C`, and the length of the sums.
    pub(super) sizes: [u32; 3],
    pub(super) multiprocessors: u32,
    pub(super) compute_capability: (u32, u32),
}

/// The maximum number of blocks that split the sums of a tile.
const MAX_SPLITS: u32 = 64;

impl Task {
    /// Whether the GPU has tensor cores for the type. In `f64`, those of other GPUs that have any are slower than their threads.
    pub(super) fn has_tensor_cores(&self) -> bool {
        match self.dtype {
            DType::F32 => self.compute_capability >= (8, 0),
            DType::F64 => matches!(self.compute_capability, (8, 0) | (9, 0)),
        }
    }

    /// How many of `A` and `B` have rows, or columns if they lie by columns, of an odd number of elements. Without gaps, not all of those
    /// begin at multiples of 16 bytes in `f64`. By the sizes alone, so that gaps do not change the bits of a product.
    fn odd_operands(&self) -> u32 {
        let [m, n, k] = self.sizes;
        let line = |order, by_rows, by_columns| if order == Order::RowMajor { by_rows } else { by_columns };
        line(self.orders.0, k, m) % 2 + line(self.orders.1, n, k) % 2
    }
}

impl Kernel {
    /// All for such a product, each family from its largest tile on.
    fn all(task: Task) -> impl Iterator<Item = Self> {
        let orders = (task.orders.0 == Order::RowMajor, task.orders.1 == Order::RowMajor);
        let on_tensor_cores = move |dtype| task.dtype == dtype && task.has_tensor_cores();
        let dmma = gemm_dmma::KEYS.iter().filter(move |_| on_tensor_cores(DType::F64));
        let dmma = dmma.filter(move |key| (key.a_by_rows, key.b_by_rows) == orders);
        let tf32 = gemm_tf32::KEYS.iter().filter(move |_| on_tensor_cores(DType::F32));
        let tf32 = tf32.filter(move |key| (key.a_by_rows, key.b_by_rows) == orders);
        let wgmma = task.compute_capability == (9, 0) && on_tensor_cores(DType::F32);
        let of_type = gemm_tiles::KEYS.iter().filter(move |key| key.dtype == task.dtype);
        let tiles = of_type.filter(move |key| (key.a_by_rows, key.b_by_rows) == orders);
        let wgmma = wgmma.then_some(Self::Wgmma).into_iter();
        let on_tensor_cores = wgmma.chain(dmma.map(|&key| Self::Dmma(key))).chain(tf32.map(|&key| Self::Tf32(key)));
        on_tensor_cores.chain(tiles.map(|&key| Self::Tiles(key)))
    }

    pub(super) fn entry(self) -> &'static Entry {
        match self {
            Self::Dmma(key) => key.entry(),
            Self::Tf32(key) => key.entry(),
            Self::Wgmma => gemm_wgmma::Key { operation: gemm_wgmma::Operation::Multiply }.entry(),
            Self::Tiles(key) => key.entry(),
        }
    }

    /// Rows and columns of `C` for each block.
    pub(super) fn tile(self) -> (u32, u32) {
        match self {
            Self::Dmma(gemm_dmma::Key { tile, .. }) => (tile.rows(), tile.cols()),
            Self::Tf32(gemm_tf32::Key { tile, .. }) => (tile.rows(), tile.cols()),
            Self::Wgmma => (gemm_wgmma::ROWS, gemm_wgmma::COLUMNS),
            Self::Tiles(gemm_tiles::Key { tile, .. }) => (tile.rows(), tile.cols()),
        }
    }

    pub(super) fn uses_tensor_cores(self) -> bool {
        !matches!(self, Self::Tiles(_))
    }

    /// Whether the options must demand it.
    pub(super) fn is_on_demand(self) -> bool {
        matches!(self, Self::Tf32(_) | Self::Wgmma)
    }

    /// Counters of arrivals of each tile, if sums are split.
    pub(super) fn counters(self) -> usize {
        if matches!(self, Self::Wgmma) { gemm_wgmma::WARPS as usize } else { 1 }
    }

    /// Places of the sums that are multiplied at a time.
    fn step(self) -> u32 {
        match self {
            Self::Dmma(_) => gemm_dmma::STEP,
            Self::Tf32(_) => gemm_tf32::STEP,
            Self::Wgmma => gemm_wgmma::STEP,
            Self::Tiles(key) => key.tile.step,
        }
    }

    /// Warps of a multiprocessor with so many blocks.
    fn warps(self, blocks: u64) -> u64 {
        let (threads, most) = match self {
            Self::Dmma(gemm_dmma::Key { tile, .. }) => (tile.block_size(), tile.min_blocks_per_sm),
            Self::Tf32(gemm_tf32::Key { tile, .. }) => (tile.block_size(), tile.min_blocks_per_sm),
            Self::Wgmma => (gemm_wgmma::THREADS, 1),
            Self::Tiles(gemm_tiles::Key { tile, .. }) => (tile.block_size(), tile.min_blocks_per_sm),
        };
        u64::from(threads / 32) * blocks.min(u64::from(most))
    }

    /// Percent of the speed of the largest tile of [`Tiles`](Self::Tiles) in `f32`, or of as many products of `f64`.
    fn speed(self, task: Task) -> u32 {
        match self {
            // As measured on an H200: 215 from the largest at 4096. The smallest is faster than `Tiles` from 384 on. What each operand
            // with lines of odd length leaves of the speed is measured at 383 to 4095; `Tiles` keep 91% or more.
            Self::Dmma(gemm_dmma::Key { tile, .. }) => {
                let (speed, percent_if_odd) = match (tile.rows(), tile.cols()) {
                    (128, 128) => (200, 81),
                    (128, 64) => (190, 73),
                    _ => (170, 73),
                };
                (0..task.odd_operands()).fold(speed, |speed, _| speed * percent_if_odd / 100)
            }
            // As measured on an H100.
            Self::Tf32(_) => 105,
            Self::Wgmma => 280,
            // As measured on an H200.
            Self::Tiles(gemm_tiles::Key { tile, .. }) => match tile.thread {
                (8, 16) => 100,
                (8, 8) => 85,
                _ => 75,
            },
        }
    }
}

impl Tiling {
    /// Chooses the cheapest of the candidates that the options allow.
    pub(super) fn choose(task: Task, options: &GemmOptions) -> Result<Self> {
        let &GemmOptions { tile, split_k, tensor_cores } = options;
        if split_k.is_some_and(|split_k| split_k == 0 || split_k > MAX_SPLITS) {
            return Err(Error::InvalidOption(format!("sums split among other than 1 to {MAX_SPLITS} blocks")));
        }
        if tensor_cores == Some(true) && !task.has_tensor_cores() {
            return Err(Error::Unsupported(why_no_tensor_cores(task)));
        }
        let allowed = |Self { kernel, .. }: &Self| match tensor_cores {
            Some(wanted) => kernel.uses_tensor_cores() == wanted,
            None => !kernel.is_on_demand(),
        };
        let cheapest = Self::candidates(task)
            .filter(|candidate| allowed(candidate) && tile.is_none_or(|tile| candidate.kernel.tile() == tile))
            .map(|candidate| Self { split_k: split_k.unwrap_or(candidate.split_k), ..candidate })
            .min_by_key(|candidate| candidate.cost(task));
        cheapest.ok_or_else(|| {
            let (rows, cols) = tile.expect("there are tiles");
            let mut others: Vec<(u32, u32)> = Vec::new();
            for candidate in Self::candidates(task).filter(allowed) {
                if !others.contains(&candidate.kernel.tile()) {
                    others.push(candidate.kernel.tile());
                }
            }
            let others: Vec<_> = others.iter().map(|(rows, cols)| format!("{rows} x {cols}")).collect();
            Error::InvalidOption(format!("a tile of {rows} x {cols}: there are {}", others.join(", ")))
        })
    }

    /// Enumerates the tiles, each with powers of two of splits that leave at least two steps each.
    pub(super) fn candidates(task: Task) -> impl Iterator<Item = Self> {
        Kernel::all(task).flat_map(move |kernel| {
            let most = (task.sizes[2].div_ceil(kernel.step()) / 2).clamp(1, MAX_SPLITS);
            (0..=most.ilog2()).map(move |log| Self { kernel, split_k: 1 << log })
        })
    }

    pub(super) fn blocks(&self, task: Task) -> u64 {
        let (rows, cols) = self.kernel.tile();
        u64::from(task.sizes[0].div_ceil(rows)) * u64::from(task.sizes[1].div_ceil(cols)) * u64::from(self.split_k)
    }

    /// Estimates the work of the busiest multiprocessor, in products of elements at the [speed](Kernel::speed) of 100%.
    fn cost(&self, task: Task) -> u128 {
        /// Estimates, in places of the sums: what it takes to have memory for an exchange of sums, and to exchange those of a block.
        const MEMORY: u32 = 256;
        const EXCHANGE: u32 = 32;
        let Self { kernel, split_k } = *self;
        let blocks = self.blocks(task).div_ceil(u64::from(task.multiprocessors));
        let places = task.sizes[2].div_ceil(kernel.step()).div_ceil(split_k) * kernel.step();
        let exchange = if split_k > 1 { MEMORY + split_k * EXCHANGE } else { 0 };
        // What is left of the speed with 4 warps where others have 8.
        let speed = kernel.speed(task);
        let speed = if kernel.warps(blocks) < 8 { speed * 9 / 10 } else { speed };
        let (rows, cols) = kernel.tile();
        let work = u128::from(blocks) * u128::from(rows * cols) * (u128::from(places) + u128::from(exchange)) * 100
            / u128::from(speed);
        // As measured on an H100, in products: the launches that split `A` and `B`, and their 12 bytes for each element.
        let [m, n, k] = task.sizes.map(u128::from);
        if matches!(kernel, Kernel::Wgmma) { work + 2_000_000 + (m + n) * k } else { work }
    }
}

/// Why no product of this type runs on the tensor cores of such a GPU.
pub(super) fn why_no_tensor_cores(task: Task) -> String {
    let (major, minor) = task.compute_capability;
    let element = match task.dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
    };
    match major {
        ..8 => format!("compute capability {major}.{minor} has no tensor cores for {element}"),
        _ => format!("the tensor cores of compute capability {major}.{minor} do not speed up {element}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h200(dtype: DType, sizes: [u32; 3]) -> Task {
        let orders = (Order::RowMajor, Order::RowMajor);
        Task { dtype, orders, sizes, multiprocessors: 132, compute_capability: (9, 0) }
    }

    fn chosen(dtype: DType, sizes: [u32; 3]) -> (u32, u32, u32) {
        let Tiling { kernel, split_k } = Tiling::choose(h200(dtype, sizes), &GemmOptions::default()).unwrap();
        (kernel.tile().0, kernel.tile().1, split_k)
    }

    #[test]
    fn tiles_keep_all_multiprocessors_busy() {
        let of_squares = [256, 512, 1024, 2048, 4096, 8192].map(|size| chosen(DType::F32, [size; 3]));
        let expected = [(32, 32, 1), (32, 32, 1), (128, 64, 1), (128, 256, 1), (128, 256, 1), (128, 256, 1)];
        assert_eq!(of_squares, expected);
        assert_eq!(chosen(DType::F32, [64, 8192, 8192]), (64, 64, 1));
        assert_eq!(chosen(DType::F32, [8192, 64, 8192]), (64, 64, 1));
        // 33 x 32 tiles of 128 x 128 are 8 for each multiprocessor, and 17 x 32 larger ones nearly 5.
        assert_eq!(chosen(DType::F32, [4095, 4097, 1023]), (128, 128, 1));
        assert_eq!(chosen(DType::F32, [1408; 3]), (128, 128, 1));
        assert_eq!(chosen(DType::F32, [i32::MAX as u32; 3]).2, 1);
        assert_eq!(chosen(DType::F64, [4096; 3]), (128, 128, 1));
        assert_eq!(chosen(DType::F64, [1; 3]), (32, 32, 1));
    }

    #[test]
    fn long_sums_are_split() {
        let (_, _, split_k) = chosen(DType::F32, [64, 64, 65536]);
        assert!(split_k >= 16, "{split_k}");
        assert_eq!(chosen(DType::F32, [64, 64, 64]).2, 1);
        assert_eq!(chosen(DType::F32, [64, 64, 0]).2, 1);
    }

    #[test]
    fn options_are_kept_or_refused() {
        let options = GemmOptions::default;
        let task = Task { orders: (Order::ColumnMajor, Order::RowMajor), ..h200(DType::F32, [128; 3]) };
        let tiling = Tiling::choose(task, &options().tile(64, 64).split_k(3)).unwrap();
        assert_eq!((tiling.kernel.entry().name, tiling.split_k), ("gemm_tiles_f32_64x64_a_cols_b_rows", 3));
        let error = |task, options| Tiling::choose(task, &options).unwrap_err().to_string();
        let tiles = "there are 128 x 256, 128 x 128, 128 x 64, 64 x 64, 32 x 32";
        assert_eq!(error(task, options().tile(3, 4)), format!("invalid option: a tile of 3 x 4: {tiles}"));
        let largest = Tiling::choose(task, &options().tile(128, 256).split_k(2)).unwrap();
        assert_eq!((largest.kernel.entry().name, largest.split_k), ("gemm_tiles_f32_128x256_a_cols_b_rows", 2));
        assert_eq!(error(task, options().split_k(0)), "invalid option: sums split among other than 1 to 64 blocks");
        assert_eq!(error(task, options().split_k(65)), "invalid option: sums split among other than 1 to 64 blocks");
        let refused = "invalid option: a tile of 64 x 64: there are 256 x 128, 128 x 128";
        assert_eq!(error(task, options().tile(64, 64).tensor_cores(true)), refused);
        let task = h200(DType::F64, [128; 3]);
        let tiles = "there are 128 x 128, 128 x 64, 64 x 64, 64 x 32, 32 x 32";
        assert_eq!(error(task, options().tile(3, 4)), format!("invalid option: a tile of 3 x 4: {tiles}"));
        let refused = "invalid option: a tile of 32 x 32: there are 128 x 128, 128 x 64, 64 x 64";
        assert_eq!(error(task, options().tile(32, 32).tensor_cores(true)), refused);
    }

    #[test]
    fn products_in_single_precision_run_on_the_tensor_cores_on_demand() {
        let kernel =
            |task, options: GemmOptions| Tiling::choose(task, &options).map(|tiling| tiling.kernel.entry().name);
        let (task, demanded) = (h200(DType::F32, [4096; 3]), GemmOptions::default().tensor_cores(true));
        assert_eq!(kernel(task, demanded.clone()).unwrap(), "gemm_wgmma_f32_256x128");
        let small = h200(DType::F32, [512; 3]);
        assert_eq!(kernel(small, demanded.clone()).unwrap(), "gemm_tf32_f32_128x128_a_rows_b_rows");
        let long = Tiling::choose(h200(DType::F32, [1024, 1024, 65536]), &demanded).unwrap();
        assert_eq!((long.kernel.entry().name, long.split_k), ("gemm_wgmma_f32_256x128", 4));
        for options in [GemmOptions::default(), GemmOptions::default().tensor_cores(false)] {
            assert_eq!(kernel(task, options).unwrap(), "gemm_tiles_f32_128x256_a_rows_b_rows");
        }
        let older = Task { compute_capability: (8, 6), ..task };
        assert_eq!(kernel(older, demanded.clone()).unwrap(), "gemm_tf32_f32_128x128_a_rows_b_rows");
        let turing = Task { compute_capability: (7, 5), ..task };
        let refused = "not supported: compute capability 7.5 has no tensor cores for f32";
        assert_eq!(kernel(turing, demanded).unwrap_err().to_string(), refused);
    }

    #[test]
    fn large_products_in_double_precision_run_on_the_tensor_cores() {
        let kernel =
            |task, options: GemmOptions| Tiling::choose(task, &options).map(|tiling| tiling.kernel.entry().name);
        let task = h200(DType::F64, [4096; 3]);
        assert_eq!(kernel(task, GemmOptions::default()).unwrap(), "gemm_dmma_f64_128x128_a_rows_b_rows");
        let ruled_out = kernel(task, GemmOptions::default().tensor_cores(false)).unwrap();
        assert_eq!(ruled_out, "gemm_tiles_f64_128x128_a_rows_b_rows");
        assert_eq!(
            kernel(h200(DType::F64, [1024; 3]), GemmOptions::default()).unwrap(),
            "gemm_dmma_f64_128x64_a_rows_b_rows"
        );
        assert_eq!(
            kernel(h200(DType::F64, [100; 3]), GemmOptions::default()).unwrap(),
            "gemm_tiles_f64_32x32_a_rows_b_rows"
        );
        // The fastest on an H200, each with lines of even length and of odd ones.
        for (sizes, expected) in [
            ([383, 383, 383], "gemm_tiles_f64_64x32_a_rows_b_rows"),
            ([512, 512, 512], "gemm_dmma_f64_64x64_a_rows_b_rows"),
            ([511, 512, 512], "gemm_dmma_f64_64x64_a_rows_b_rows"),
            ([512, 511, 512], "gemm_tiles_f64_64x32_a_rows_b_rows"),
            ([512, 512, 511], "gemm_tiles_f64_64x32_a_rows_b_rows"),
            ([511, 511, 511], "gemm_tiles_f64_64x32_a_rows_b_rows"),
            ([332, 776, 556], "gemm_dmma_f64_64x64_a_rows_b_rows"),
            ([333, 777, 555], "gemm_tiles_f64_32x32_a_rows_b_rows"),
            ([768, 768, 768], "gemm_dmma_f64_128x64_a_rows_b_rows"),
            ([767, 767, 767], "gemm_tiles_f64_32x32_a_rows_b_rows"),
            ([1000, 1000, 1000], "gemm_dmma_f64_128x64_a_rows_b_rows"),
            ([1001, 1001, 1001], "gemm_dmma_f64_128x64_a_rows_b_rows"),
            ([1023, 1023, 1023], "gemm_dmma_f64_128x64_a_rows_b_rows"),
            ([1535, 1535, 1535], "gemm_dmma_f64_64x64_a_rows_b_rows"),
            ([4095, 4097, 1023], "gemm_dmma_f64_128x128_a_rows_b_rows"),
        ] {
            assert_eq!(kernel(h200(DType::F64, sizes), GemmOptions::default()).unwrap(), expected, "{sizes:?}");
        }
        for (compute_capability, why) in [
            ((7, 5), "not supported: compute capability 7.5 has no tensor cores for f64"),
            ((8, 6), "not supported: the tensor cores of compute capability 8.6 do not speed up f64"),
            ((12, 0), "not supported: the tensor cores of compute capability 12.0 do not speed up f64"),
        ] {
            let task = Task { compute_capability, ..task };
            assert_eq!(kernel(task, GemmOptions::default()).unwrap(), "gemm_tiles_f64_128x128_a_rows_b_rows");
            assert_eq!(kernel(task, GemmOptions::default().tensor_cores(true)).unwrap_err().to_string(), why);
        }
    }
}

//! The tile of a dense product on a GPU, and the number of blocks that split its sums.

use kernels_gpu::{
    DType,
    gemm_tiles::{KEYS, Key},
};

use crate::{Error, Order, Result};

/// A tile and a number of split_k.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub(super) key: Key,
    pub(super) split_k: u32,
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
}

/// The maximum number of blocks that split the sums of a tile.
const MAX_SPLITS: u32 = 64;

impl Tiling {
    /// Chooses the cheapest of the candidates with the forced tile and split_k, if any.
    pub(super) fn choose(task: Task, tile: Option<(u32, u32)>, split_k: Option<u32>) -> Result<Self> {
        if split_k.is_some_and(|split_k| split_k == 0 || split_k > MAX_SPLITS) {
            return Err(Error::InvalidOption(format!("sums split among other than 1 to {MAX_SPLITS} blocks")));
        }
        let size = |key: Key| (key.tile.rows(), key.tile.cols());
        let cheapest = Self::candidates(task)
            .filter(|candidate| tile.is_none_or(|tile| size(candidate.key) == tile))
            .map(|candidate| Self { split_k: split_k.unwrap_or(candidate.split_k), ..candidate })
            .min_by_key(|candidate| candidate.cost(task));
        cheapest.ok_or_else(|| {
            let (rows, cols) = tile.expect("there are tiles");
            let mut others: Vec<_> = Self::candidates(task).map(|candidate| size(candidate.key)).collect();
            others.dedup();
            let others: Vec<_> = others.iter().map(|(rows, cols)| format!("{rows} x {cols}")).collect();
            Error::InvalidOption(format!("a tile of {rows} x {cols}: there are {}", others.join(", ")))
        })
    }

    /// Enumerates the tiles from the largest, with powers of two of split_k that leave at least two steps each.
    pub(super) fn candidates(task: Task) -> impl Iterator<Item = Self> {
        let (a, b) = task.orders;
        let orders = (a == Order::RowMajor, b == Order::RowMajor);
        let keys = KEYS.iter().filter(move |key| key.dtype == task.dtype && (key.a_by_rows, key.b_by_rows) == orders);
        keys.flat_map(move |&key| {
            let most = (task.sizes[2].div_ceil(key.tile.step) / 2).clamp(1, MAX_SPLITS);
            (0..=most.ilog2()).map(move |log| Self { key, split_k: 1 << log })
        })
    }

    pub(super) fn blocks(&self, task: Task) -> u64 {
        self.key.tile.grid_size(task.sizes[0], task.sizes[1]) * u64::from(self.split_k)
    }

    /// Estimates the work of the busiest multiprocessor, in products of elements at the speed of the largest tile.
    fn cost(&self, task: Task) -> u128 {
        /// Estimates, in places of the sums: what it takes to have memory for an exchange of sums, and to exchange those of a block.
        const MEMORY: u32 = 256;
        const EXCHANGE: u32 = 32;
        let Self { key: Key { tile, .. }, split_k } = *self;
        let blocks = self.blocks(task).div_ceil(u64::from(task.multiprocessors));
        let places = task.sizes[2].div_ceil(tile.step).div_ceil(split_k) * tile.step;
        let exchange = if split_k > 1 { MEMORY + split_k * EXCHANGE } else { 0 };
        // Percent of the speed of the largest tile, as measured on an H200; and what is left of it with 4 warps where others have 8.
        let speed = match tile.thread {
            (8, 16) => 100,
            (8, 8) => 85,
            _ => 75,
        };
        let warps = u64::from(tile.block_size() / 32) * blocks.min(u64::from(tile.min_blocks_per_sm));
        let speed = if warps < 8 { speed * 9 / 10 } else { speed };
        u128::from(blocks) * u128::from(tile.area()) * (u128::from(places) + u128::from(exchange)) * 100 / speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(dtype: DType, sizes: [u32; 3]) -> (u32, u32, u32) {
        let task = Task { dtype, orders: (Order::RowMajor, Order::RowMajor), sizes, multiprocessors: 132 };
        let Tiling { key, split_k } = Tiling::choose(task, None, None).unwrap();
        (key.tile.rows(), key.tile.cols(), split_k)
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
        let orders = (Order::ColumnMajor, Order::RowMajor);
        let task = Task { dtype: DType::F32, orders, sizes: [128; 3], multiprocessors: 132 };
        let tiling = Tiling::choose(task, Some((64, 64)), Some(3)).unwrap();
        assert_eq!((tiling.key.entry().name, tiling.split_k), ("gemm_tiles_f32_64x64_a_cols_b_rows", 3));
        let error = |tile, split_k| Tiling::choose(task, tile, split_k).unwrap_err().to_string();
        let tiles = "there are 128 x 256, 128 x 128, 128 x 64, 64 x 64, 32 x 32";
        assert_eq!(error(Some((3, 4)), None), format!("invalid option: a tile of 3 x 4: {tiles}"));
        let largest = Tiling::choose(task, Some((128, 256)), Some(2)).unwrap();
        assert_eq!((largest.key.entry().name, largest.split_k), ("gemm_tiles_f32_128x256_a_cols_b_rows", 2));
        assert_eq!(error(None, Some(0)), "invalid option: sums split among other than 1 to 64 blocks");
        assert_eq!(error(None, Some(65)), "invalid option: sums split among other than 1 to 64 blocks");
    }
}

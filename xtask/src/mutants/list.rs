//! The mistakes: what a hand may slip in, one or more for each family of kernels.

/// A mistake in a kernel.
pub(super) struct Mutant {
    /// Below the sources of kernels: `kernels-gpu/src`, or with `ladders/` before it `ladders/kernels/src`.
    pub(super) file: &'static str,
    pub(super) mistake: &'static str,
    /// What stands there, once.
    pub(super) right: &'static str,
    pub(super) wrong: &'static str,
    /// The file of tests, without its extension, whose emulated tests should notice.
    pub(super) test: &'static str,
}

impl Mutant {
    /// The file from the root of the repository on.
    pub(super) fn path(&self) -> String {
        match self.file.strip_prefix("ladders/") {
            Some(file) => format!("ladders/kernels/src/{file}"),
            None => format!("kernels-gpu/src/{}", self.file),
        }
    }
}

const fn mutant(
    test: &'static str,
    file: &'static str,
    mistake: &'static str,
    right: &'static str,
    wrong: &'static str,
) -> Mutant {
    Mutant { file, mistake, right, wrong, test }
}

/// Those of one file of tests stand together, so that as little as possible is built again.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "algorithms",
        "primitives/tile_prefix.rs",
        "the tiles of a group that come first are not added",
        "base.plus(before_lane(groups, in_prefix)).plus(before_lane(in_this_group, in_group))",
        "base.plus(before_lane(groups, in_prefix))",
    ),
    mutant(
        "algorithms",
        "primitives/tile_prefix.rs",
        "the prefix of the earlier tiles is not added",
        "publish(of_prefixes, prefix + 1, base.plus(groups));",
        "publish(of_prefixes, prefix + 1, groups);",
    ),
    mutant(
        "algorithms",
        "primitives/tile_prefix.rs",
        "half of a sum is taken for published",
        "self.is_missing = low & high & PUBLISHED == 0;",
        "self.is_missing = low & PUBLISHED == 0;",
    ),
    mutant(
        "algorithms",
        "primitives/prefix_sum.rs",
        "the chunks of a warp all begin at 0",
        "before[K as usize] = sum_of_warp.plus(before_lane(through, lane));",
        "before[K as usize] = before_lane(through, lane);",
    ),
    mutant(
        "algorithms",
        "primitives/radix_count.rs",
        "digits overlap",
        "shift += DIGIT_BITS;",
        "shift += DIGIT_BITS / 2;",
    ),
    mutant(
        "algorithms",
        "primitives/radix_sort.rs",
        "keys of a digit go in the order of lanes that come later",
        "(same & ((1 << lane) - 1)).count_ones()",
        "(same & !((1 << lane) - 1)).count_ones() - 1",
    ),
    mutant(
        "algorithms",
        "primitives/radix_sort.rs",
        "looking back ends at the first tile",
        "if word & PREFIX != 0 {",
        "if word & (PREFIX | COUNT) != 0 {",
    ),
    mutant(
        "algorithms",
        "primitives/compact.rs",
        "the warps of a tile all begin at the tile's place",
        "let before_warp = before_tile + before_lane(through, lane);",
        "let before_warp = before_tile;",
    ),
    mutant(
        "algorithms",
        "primitives/run_sums.rs",
        "half of the lanes are not added",
        "let mut distance = LANES / 2;",
        "let mut distance = LANES / 4;",
    ),
    mutant(
        "algorithms",
        "primitives/histogram.rs",
        "keys without a bin count",
        "if key < args.bins {",
        "if key <= args.bins {",
    ),
    mutant(
        "spmv",
        "spmv/spmv_csr_vector.rs",
        "half of a row's lanes are not added",
        "sum_of_group!(sum, LANES) };",
        "sum_of_group!(sum, LANES / 2) };",
    ),
    mutant(
        "spmv",
        "spmv/spmv_csr_vector.rs",
        "the old vector is read with a factor of 0",
        "if args.beta == T::ZERO { product } else",
        "if false { product } else",
    ),
    mutant(
        "spmv",
        "primitives/row_sum.rs",
        "the last entry of a row is left out",
        "let mut left = length.saturating_sub(lane);",
        "let mut left = length.saturating_sub(lane + 1);",
    ),
    mutant(
        "spmv",
        "primitives/row_sum.rs",
        "the last entry of quads is left out",
        "if at + J >= first && at + J < end {",
        "if at + J >= first && at + J + 1 < end {",
    ),
    mutant(
        "spmv",
        "spmv/spmv_csr_adaptive.rs",
        "the last piece of a long row is left out",
        "while other < count {",
        "while other + 1 < count {",
    ),
    // In a row of 70 001 entries, cut into pieces of 40, it is one entry.
    mutant(
        "spmv",
        "spmv/spmv_csr_adaptive.rs",
        "the 1751st piece of a row is left out, and those after it",
        "while other < count {",
        "while other < count.min(1750) {",
    ),
    mutant(
        "spmv",
        "spmv/spmv_csr_adaptive.rs",
        "no release after a piece is stored",
        "atomic_fetch_add_u32_device(arrivals, Release, 1)",
        "atomic_fetch_add_u32_device(arrivals, Relaxed, 1)",
    ),
    mutant(
        "spmv",
        "spmv/spmv_csr_adaptive.rs",
        "no acquire before pieces are loaded",
        "device_thread_fence(Acquire);",
        "",
    ),
    mutant(
        "spmv_formats",
        "spmv/spmv_coo.rs",
        "a lane's sum is handed to one lane too few",
        "if lane >= begin + DISTANCE {",
        "if lane > begin + DISTANCE {",
    ),
    mutant(
        "spmv_formats",
        "spmv/spmv_coo.rs",
        "every other slot of a long run is left out",
        "slot += WARP_SIZE;",
        "slot += 2 * WARP_SIZE;",
    ),
    mutant(
        "spmv_formats",
        "spmv/spmv_dia.rs",
        "the last column is left out",
        "if column < u64::from(args.cols) {",
        "if column + 1 < u64::from(args.cols) {",
    ),
    mutant(
        "spmv_formats",
        "spmv/spmv_ell.rs",
        "a thread ends where its first row does",
        "if columns[0] == [ELL_PADDING; ROWS] {",
        "if columns[0][0] == ELL_PADDING {",
    ),
    mutant(
        "spmv_formats",
        "primitives/epilogue.rs",
        "factor and product are exchanged",
        "else { beta.mul_add(old, product) }",
        "else { product.mul_add(old, beta) }",
    ),
    mutant(
        "spmv_formats",
        "primitives/grid.rs",
        "groups of lanes are counted as if a block had one more",
        "u64::from(BLOCK_SIZE / lanes) +",
        "u64::from(BLOCK_SIZE / lanes + 1) +",
    ),
    mutant(
        "spmv_formats",
        "spmv/spmv_csr_scatter.rs",
        "entries beyond the first of each lane are left out",
        "entry += LANES as usize;",
        "entry = end;",
    ),
    mutant(
        "spmm",
        "spmm/spmm_csr.rs",
        "the first piece of a long row is left out",
        "let mut piece = row.first_piece;",
        "let mut piece = row.first_piece + 1;",
    ),
    mutant(
        "spmm",
        "spmm/spmm_csr.rs",
        "of the entries after the last four, the third is left out",
        "unroll!(K in [0, 1, 2] {\n            if K < left {\n                columns",
        "unroll!(K in [0, 1] {\n            if K < left {\n                columns",
    ),
    mutant(
        "spmm",
        "spmm/spmm_rows.rs",
        "groups of lanes wait for the whole warp",
        "let mask = (u32::MAX >> (WARP_SIZE - LANES)) << (lane / LANES * LANES);",
        "let mask = u32::MAX;",
    ),
    mutant(
        "spmm",
        "primitives/arrival.rs",
        "no release by those who arrive",
        "arrived = atomic_fetch_add_u32_device(counter, Release, 1)",
        "arrived = atomic_fetch_add_u32_device(counter, Relaxed, 1)",
    ),
    mutant(
        "spmm_reduce",
        "spmm/spmm_csr_reduce.rs",
        "of equal products the last one counts",
        "|| value > *best ||",
        "|| value >= *best ||",
    ),
    mutant(
        "spmm_reduce",
        "spmm/spmm_csr_reduce.rs",
        "the last piece of a long row is left out",
        "while piece < row.first_piece + row.pieces {",
        "while piece + 1 < row.first_piece + row.pieces {",
    ),
    mutant(
        "spmm_ladder",
        "ladders/spmm_atomic.rs",
        "columns beyond the first of each lane are left out",
        "j += u64::from(LANES);",
        "j = u64::from(args.cols);",
    ),
    mutant(
        "gemm",
        "gemm/gemm_tiles/split_k.rs",
        "the first part of a sum is left out",
        "let mut split = 0;",
        "let mut split = 1;",
    ),
    mutant(
        "gemm",
        "gemm/gemm_tiles/operand.rs",
        "a column beyond the last is copied",
        "self.col + cols < self.sizes.1;",
        "self.col + cols <= self.sizes.1;",
    ),
    mutant(
        "gemm",
        "gemm/gemm_tiles/slices.rs",
        "no barrier before sums of other slices are loaded",
        "            });\n            thread::sync_threads();\n            unroll!",
        "            });\n            unroll!",
    ),
    mutant(
        "sgemm_ladder",
        "ladders/sgemm_ladder/shared_tile.rs",
        "no barrier before a tile is replaced",
        "            thread::sync_threads();\n            step += STEP;",
        "            step += STEP;",
    ),
    mutant(
        "cg",
        "cg/cg_csr.rs",
        "the dot is that of q with itself",
        "dot.add_product(p.widen(), sum.widen());",
        "dot.add_product(sum.widen(), sum.widen());",
    ),
    mutant(
        "cg",
        "cg/cg_steps.rs",
        "the last element is left out, of those that make no four",
        "if first < n % ELEMENTS {",
        "if first + 1 < n % ELEMENTS {",
    ),
    mutant(
        "cg",
        "cg/cg_steps.rs",
        "the direction keeps alpha times the old one",
        "each::<WIDTH>(|k| z[k] = beta.mul_add(p[k], z[k]));",
        "each::<WIDTH>(|k| z[k] = alpha.mul_add(p[k], z[k]));",
    ),
    mutant(
        "cg",
        "cg/cg_persistent.rs",
        "no barrier between direction and product",
        "            thread::sync_threads();\n        }\n        share.store(&args);",
        "        }\n        share.store(&args);",
    ),
    mutant(
        "cg",
        "cg/cg_persistent.rs",
        "a word counts before both halves have come",
        "if (low >> 32) as u32 == epoch && (high >> 32) as u32 == epoch {",
        "if (low >> 32) as u32 == epoch {",
    ),
    mutant(
        "matrix_values",
        "stored/matrix_diagonal.rs",
        "of duplicates on the diagonal the last one of a lane counts",
        "sum += mem::load_readonly(args.values.add(entry));
                }
                entry += CSR_LANES",
        "sum = mem::load_readonly(args.values.add(entry));
                }
                entry += CSR_LANES",
    ),
    mutant(
        "matrix_values",
        "stored/matrix_diagonal.rs",
        "every entry of a row looks for its diagonal",
        "args.row_indices.add(first as usize - 1)) == row {",
        "args.row_indices.add(first as usize - 1)) > row {",
    ),
    mutant(
        "matrix_values",
        "stored/matrix_diagonal.rs",
        "the last slot of ELL is left out",
        "while slot < args.width {",
        "while slot + 1 < args.width {",
    ),
    mutant(
        "matrix_values",
        "stored/matrix_scale.rs",
        "the first entry of a row gets the factor of the row before",
        "if begin > entry { high = middle }",
        "if begin >= entry { high = middle }",
    ),
    mutant(
        "matrix_values",
        "stored/matrix_scale.rs",
        "rows and columns change places",
        "Factors { rows: args.row_factors, cols: args.col_factors };
    // SAFETY: entry < entries, and each thread has an entry of its own.
    unsafe {
        let col = mem::load_streaming(args.col_indices.add(entry)) as usize;",
        "Factors { rows: args.col_factors, cols: args.row_factors };
    // SAFETY: entry < entries, and each thread has an entry of its own.
    unsafe {
        let col = mem::load_streaming(args.col_indices.add(entry)) as usize;",
    ),
    mutant(
        "matrix_values",
        "stored/matrix_scale.rs",
        "what is outside of the matrix stays",
        "mem::store(value, T::ZERO);",
        "",
    ),
    mutant(
        "cg",
        "stored/matrix_diagonal.rs",
        "a diagonal without an inverse is no error",
        "if inverse == T::ZERO || !inverse.widen().is_finite() {",
        "if inverse == T::ZERO {",
    ),
    mutant("cg", "cg/cg_mixed.rs", "what is added to the solution is added again", "mem::store(dx, 0.0);", ""),
    mutant("cg", "primitives/arrival.rs", "no acquire by the last to arrive", "device_thread_fence(Acquire);", ""),
    mutant(
        "cg_ladder",
        "ladders/cg_ladder.rs",
        "the elements after the last whole step are left out",
        "while i < n {",
        "while i + threads < n {",
    ),
    mutant(
        "structure",
        "structure/csr_structure.rs",
        "an entry is near the one before in another row",
        "near += u32::from(entry > begin &&",
        "near += u32::from(entry > 0 &&",
    ),
    mutant(
        "structure",
        "structure/csr_structure.rs",
        "no barrier before the figures of the block are added",
        "add_entries(args, block);\n        thread::sync_threads();",
        "add_entries(args, block);",
    ),
    mutant(
        "dense",
        "dense/dense_copy.rs",
        "no barrier before a tile is read",
        "thread::sync_threads();\n        let (line, at)",
        "let (line, at)",
    ),
    mutant(
        "dense",
        "dense/dense_copy.rs",
        "no barrier before a tile is overwritten",
        "thread::sync_threads();\n        number +=",
        "number +=",
    ),
    mutant(
        "dense",
        "dense/dense_copy.rs",
        "the last line of a transpose is left out",
        "if line < width && at < lines {",
        "if line + 1 < width && at < lines {",
    ),
    mutant(
        "vector",
        "vector/reduction.rs",
        "a stride of the last elements counts as whole",
        "as u64 <= self.n",
        "as u64 <= self.n + 3",
    ),
    mutant(
        "vector",
        "vector/chunk.rs",
        "the last element of a chunk that is cut off is left out",
        "if (E as usize) < W && first + u64::from(E) < n {\n                    mem::store",
        "if (E as usize) < W && first + u64::from(E) + 1 < n {\n                    mem::store",
    ),
    mutant(
        "vector",
        "vector/vector_axpby.rs",
        "the old vector is read with a factor of 0",
        "let of_y = if beta == T::ZERO {",
        "let of_y = if false {",
    ),
    mutant(
        "vector",
        "vector/vector_axpby.rs",
        "the dot product is that of the old vector",
        "true => add::<T, W, OF_SQUARES>(&mut states, new,",
        "true => add::<T, W, OF_SQUARES>(&mut states, of_y[K as usize],",
    ),
    mutant(
        "vector",
        "vector/factor.rs",
        "the denominator multiplies",
        "value = value / mem::load",
        "value = value * mem::load",
    ),
    mutant("vector", "vector/vector_map.rs", "a maximum loses a NaN", "if x > y || is_nan(x) {", "if x > y {"),
    mutant(
        "vector",
        "vector/math.rs",
        "a term of the sine is left out",
        "-1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0]",
        "0.0, 1.0 / 120.0, -1.0 / 6.0]",
    ),
    mutant(
        "vector",
        "vector/vector_random.rs",
        "one round of the generator is left out",
        "if ROUND != 0 {",
        "if ROUND > 1 {",
    ),
    mutant(
        "vector",
        "vector/vector_move.rs",
        "the last element is left out of scatter",
        "let to = mem::load_streaming(args.indices.add(i)) as usize;",
        "let to = mem::load_streaming(args.indices.add(i.min(args.n as usize - 2))) as usize;",
    ),
    mutant(
        "vector",
        "vector/vector_reduce.rs",
        "the last of equal elements counts",
        "if MAX { !(x <= earlier) } else",
        "if MAX { !(x < earlier) } else",
    ),
    mutant(
        "vector",
        "vector/reduction.rs",
        "the values of the last block are left out",
        "while block < blocks {",
        "while block + 1 < blocks {",
    ),
    mutant(
        "vector",
        "vector/reduction.rs",
        "large numbers are squared as they are",
        "if Self::USED == 3 && magnitude > LARGE {",
        "if false {",
    ),
];

//! Orders of rows and columns: valid for every matrix, known ones for small matrices, and what they gain.

mod common;

use std::collections::{HashSet, VecDeque};

use common::{
    Random,
    matrices::{self, from_rows},
    properties,
};
use proptest::prelude::any;
use warpsparse::{CooMatrix, CsrMatrix, ErrorKind, strategies};

/// The matrix with these entries, all 1; duplicates stay.
fn pattern(nrows: usize, ncols: usize, places: &[(usize, usize)]) -> CsrMatrix<f32> {
    let (rows, columns) = places.iter().map(|&(i, j)| (i as u32, j as u32)).unzip();
    CsrMatrix::try_from(&CooMatrix::try_from_triplets(nrows, ncols, rows, columns, vec![1.0; places.len()]).unwrap())
        .unwrap()
}

/// The numbers below `count` in random order.
fn shuffled(count: usize, random: &mut Random) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for k in (1..count).rev() {
        numbers.swap(k, random.next_below(k + 1));
    }
    numbers
}

fn shuffle(matrix: &CsrMatrix<f32>) -> CsrMatrix<f32> {
    let order = shuffled(matrix.nrows(), &mut Random(7));
    matrix.permute(&order, &order).unwrap()
}

/// For each new place the old one, the places checked.
fn assert_permutation(case: &str, order: &[u32], count: usize) {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..count as u32), "{case}: {order:?}");
}

/// Both orders of a matrix are what they have to be. With 64-bit offsets they are the same.
fn check(case: &str, matrix: &CsrMatrix<f32>) {
    let wide = CsrMatrix::<f32, u64>::from(matrix);
    let clustered = matrix.cluster_rows();
    assert_permutation(case, &clustered, matrix.nrows());
    assert_eq!(wide.cluster_rows(), clustered, "{case}");
    let given: Vec<u32> = (0..matrix.nrows() as u32).collect();
    assert!(group_columns(matrix, &clustered) <= group_columns(matrix, &given), "{case}");

    if matrix.nrows() == matrix.ncols() {
        let order = matrix.reverse_cuthill_mckee().unwrap();
        assert_cuthill_mckee(case, matrix, order.iter().rev().copied().collect());
        assert_eq!(wide.reverse_cuthill_mckee().unwrap(), order, "{case}");
    } else {
        let error = matrix.reverse_cuthill_mckee().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{case}");
        let size = format!("{} x {}", matrix.nrows(), matrix.ncols());
        assert!(error.to_string().ends_with(&format!("orders square matrices, and this one is {size}")), "{error}");
    }
}

/// The different columns of each 64 rows that follow one another, added up.
fn group_columns(matrix: &CsrMatrix<f32>, order: &[u32]) -> usize {
    let columns = |rows: &[u32]| rows.iter().flat_map(|&row| matrix.row(row as usize).0).collect::<HashSet<_>>().len();
    order.chunks(64).map(columns).sum()
}

/// In a Cuthill-McKee order, every component stands together; in it, all but the first row stand in the order of their
/// first neighbours, and those that have the same one, by degree.
fn assert_cuthill_mckee(case: &str, matrix: &CsrMatrix<f32>, order: Vec<u32>) {
    assert_permutation(case, &order, matrix.nrows());
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old as usize] = new);
    let mut neighbours = vec![HashSet::new(); order.len()];
    for (i, j, _) in matrix.triplets().filter(|(i, j, _)| i != j) {
        neighbours[place[i]].insert(place[j]);
        neighbours[place[j]].insert(place[i]);
    }
    let mut before = (0, 0);
    for (new, around) in neighbours.iter().enumerate() {
        match around.iter().copied().min() {
            Some(first) if first < new => {
                let key = (first, around.len());
                assert!(before <= key, "{case}: row {} is at {new}", order[new]);
                before = key;
            }
            // Begins a component: nothing before is joined to this row or to what follows.
            _ => {
                let earlier = neighbours[..new].iter().flatten().copied().max();
                assert!(earlier.is_none_or(|last| last < new), "{case}: row {} is at {new}", order[new]);
                before = (new, 0);
            }
        }
    }
}

#[test]
fn every_matrix() {
    for (name, matrix) in matrices::all::<f32>() {
        check(name, &matrix);
    }
}

#[test]
fn random_matrices() {
    let cases = (strategies::csr_matrix::<f32>(), any::<bool>());
    properties::check("reorder", 256, cases, |(matrix, make_square)| {
        let size = matrix.nrows().max(matrix.ncols());
        let places: Vec<_> = matrix.triplets().map(|(i, j, _)| (i, j)).collect();
        check("a random matrix", &if make_square { pattern(size, size, &places) } else { matrix });
        Ok(())
    });
}

#[test]
fn reverse_cuthill_mckee_by_hand() {
    let order = |size, places: &[(usize, usize)]| pattern(size, size, places).reverse_cuthill_mckee().unwrap();
    assert_eq!(order(0, &[]), []);
    // Each a component, in the order of the rows; then reversed.
    assert_eq!(order(3, &[]), [2, 1, 0]);
    assert_eq!(order(3, &[(0, 0), (1, 1), (1, 1), (2, 2)]), [2, 1, 0]);
    // Of a star, the search from 1 ends in the other leaves, and that from 2, the first of them, gets no farther.
    assert_eq!(order(5, &[(0, 1), (0, 2), (0, 3), (0, 4)]), [4, 3, 1, 0, 2]);
    // The path 4 - 1 - 3 - 0, its entries on either side of the diagonal or on both, and row 2 without entries, which
    // comes first for its degree. The search from 0 ends in 4, which is as far out.
    assert_eq!(order(5, &[(4, 1), (1, 4), (1, 4), (1, 3), (3, 0), (3, 3)]), [0, 3, 1, 4, 2]);
    // The triangle 0 1 2 with a tail 2 - 3 - 4: the search from 4 ends in 0 and 1; from 0, whose neighbours have
    // degrees 2 and 3, it is as far to 4.
    assert_eq!(order(5, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]), [4, 3, 2, 1, 0]);
}

#[test]
fn reverse_cuthill_mckee_finds_bandwidths_again() {
    let bandwidth = |matrix: &CsrMatrix<f32>| {
        let structure = matrix.structure();
        structure.lower_bandwidth.max(structure.upper_bandwidth)
    };
    let found = |matrix: &CsrMatrix<f32>| {
        let shuffled = shuffle(matrix);
        assert!(bandwidth(&shuffled) > matrix.nrows() / 2);
        let order = shuffled.reverse_cuthill_mckee().unwrap();
        bandwidth(&shuffled.permute(&order, &order).unwrap())
    };
    for (size, band) in [(500, 1), (500, 7), (1000, 40)] {
        let places: Vec<_> = (0..size).flat_map(|i| (i..size.min(i + band + 1)).map(move |j| (i, j))).collect();
        assert_eq!(found(&pattern(size, size, &places)), band, "{size} rows");
    }
    // No order of the 5-point grid of n x n points has a bandwidth below n.
    for n in [10, 31, 60] {
        let at = |y, x| y * n + x;
        let right = (0..n).flat_map(|y| (1..n).map(move |x| (at(y, x - 1), at(y, x))));
        let down = (0..n).flat_map(|x| (1..n).map(move |y| (at(y - 1, x), at(y, x))));
        let grid = pattern(n * n, n * n, &right.chain(down).collect::<Vec<_>>());
        assert_eq!(found(&grid), n, "{n} x {n} points");
    }
}

/// Row `i` has 12 columns of block `i % 5`, which has `width`; the first row has all columns, and the first column all
/// rows.
#[test]
fn rows_of_a_block_stand_together() {
    for width in [20, 64, 500] {
        let mut random = Random(11);
        let mut row = |i: usize| match i {
            0 => (0..5 * width).map(|j| (j, 1.0)).collect(),
            _ => (0..13).map(|k| (if k == 0 { 0 } else { random.next_below(width) * 5 + i % 5 }, 1.0)).collect(),
        };
        let matrix: CsrMatrix<f32> = from_rows(5 * width, (0..5 * 64).map(&mut row).collect());
        let order = matrix.cluster_rows();
        let blocks: Vec<u32> = order.iter().filter(|&&row| row != 0).map(|row| row % 5).collect();
        assert_eq!(blocks.chunk_by(u32::eq).count(), 5, "{width} columns a block: {order:?}");
    }
}

#[test]
fn a_good_order_is_kept() {
    let band: Vec<_> = (0..2000).flat_map(|i| (i..i + 9).map(move |j| (i, j))).collect();
    let band = pattern(2000, 2008, &band);
    let given: Vec<u32> = (0..2000).collect();
    assert_eq!(band.cluster_rows(), given);
}

/// An undirected graph of `size` vertices, in random order, about 16 edges at each: communities of 100 to 2000
/// vertices, degrees by a power law, 80 % of the edges within a community.
fn planted_communities(size: usize) -> CsrMatrix<f32> {
    let mut random = Random(13);
    let mut unit = || (random.next_unit() + 1.0) / 2.0;
    let mut begins = vec![0];
    while begins[begins.len() - 1] < size {
        begins.push(size.min(begins[begins.len() - 1] + (100.0 * 20f64.powf(unit())) as usize));
    }
    // Pareto's distribution, by its inverse; sums, so that a vertex can be drawn by its weight.
    let weights: Vec<f64> = (0..size).map(|_| (1.0 - unit()).powf(-0.75).min(size as f64 / 50.0)).collect();
    let mut sums = vec![0.0];
    weights.iter().for_each(|weight| sums.push(sums[sums.len() - 1] + weight));
    let mut edges = Vec::new();
    for pair in begins.windows(2) {
        for (u, weight) in (pair[0]..pair[1]).zip(&weights[pair[0]..]) {
            for _ in 0..(weight / sums[size] * size as f64 * 8.0 + unit()) as usize {
                let (low, high) = if unit() < 0.8 { (sums[pair[0]], sums[pair[1]]) } else { (0.0, sums[size]) };
                let drawn = low + (high - low) * unit();
                let v = sums.partition_point(|&sum| sum <= drawn).clamp(1, size) - 1;
                edges.extend([(u, v), (v, u)]);
            }
        }
    }
    shuffle(&pattern(size, size, &edges).canonical())
}

/// How many entries, rows taken in this order, find their column not among the `capacity` columns last used.
fn cache_misses(matrix: &CsrMatrix<f32>, order: &[u32], capacity: usize) -> usize {
    let mut last_use = vec![0; matrix.ncols()];
    // By the time of their use, some of them used again since.
    let mut uses = VecDeque::new();
    let (mut time, mut cached, mut misses) = (0, 0, 0);
    for &column in order.iter().flat_map(|&row| matrix.row(row as usize).0) {
        time += 1;
        if last_use[column as usize] == 0 {
            misses += 1;
            cached += 1;
        }
        last_use[column as usize] = time;
        uses.push_back((column, time));
        while cached > capacity {
            let (oldest, at) = uses.pop_front().unwrap();
            if last_use[oldest as usize] == at {
                last_use[oldest as usize] = 0;
                cached -= 1;
            }
        }
    }
    misses
}

#[test]
fn the_cache_model_counts_misses() {
    let matrix = from_rows(4, vec![vec![(0, 1.0), (1, 1.0), (0, 1.0)], vec![(2, 1.0), (1, 1.0)], vec![(0, 1.0)]]);
    // 0 1 0 2 1 0: with room for two, 2 replaces 1, and then 1 replaces 0, and 0 replaces 2.
    assert_eq!([1, 2, 3].map(|capacity| cache_misses(&matrix, &[0, 1, 2], capacity)), [6, 5, 3]);
}

/// A cache of 400 rows of `B` is as that of a multiprocessor, and one of a sixth of all rows as the L2 of a larger graph.
#[test]
fn clustering_saves_cache_misses() {
    let graph = planted_communities(30_000);
    let given: Vec<u32> = (0..30_000).collect();
    let clustered = graph.cluster_rows();
    for (capacity, factor) in [(400, 1.7), (5000, 2.7)] {
        let [before, after] = [&given, &clustered].map(|order| cache_misses(&graph, order, capacity) as f64);
        assert!(before > factor * after, "{capacity} columns: {before} and {after} misses of {}", graph.nnz());
    }
    // With the columns in the same order the entries lie near the diagonal.
    let distance = |matrix: &CsrMatrix<f32>| matrix.triplets().map(|(i, j, _)| i.abs_diff(j) as f64).sum::<f64>();
    let permuted = graph.permute(&clustered, &clustered).unwrap();
    assert!(distance(&graph) > 2.0 * distance(&permuted));
}

#[cfg(feature = "rayon")]
#[test]
fn the_number_of_threads_changes_nothing() {
    let graph = planted_communities(30_000);
    let [one, five] = [1, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| graph.cluster_rows())
    });
    assert_eq!(one, five);
    assert_ne!(one, (0..30_000).collect::<Vec<u32>>());
}

use super::*;
use crate::io::generate::DEFAULT_SEED;

/// The fraction of entries that are within their row's community.
fn within(nrows: usize, nnz: usize, seed: u64) -> f64 {
    let matrix: CsrMatrix<f32> = communities(nrows, nnz, seed).unwrap();
    let graph = Graph::new(nrows, nnz, seed).unwrap();
    let home = |row: usize| graph.community_of(graph.member_of_row[row] as usize).start;
    let within = matrix.triplets().filter(|&(row, column, _)| home(row) == home(column)).count();
    within as f64 / nnz as f64
}

#[test]
fn four_in_five_entries_are_within_communities() {
    for (nrows, nnz) in [(20_000, 60_000), (20_000, 200_000), (50_000, 1_000_000), (4267, 2_135_822)] {
        let within = within(nrows, nnz, DEFAULT_SEED);
        assert!((0.75..0.81).contains(&within), "{nrows} rows, {nnz} entries: {within}");
    }
    assert_eq!(within(30, 200, DEFAULT_SEED), 1.0);
}

#[test]
fn communities_cover_all_rows_and_their_sizes_are_skewed() {
    for (nrows, nnz, count) in [(0, 0, 0), (1, 0, 1), (300, 30_000, 1), (4267, 2_135_822, 2), (200_000, 2_000_000, 500)]
    {
        let graph = Graph::new(nrows, nnz, 3).unwrap();
        let mut next = 0;
        for community in &graph.communities {
            assert_eq!(community.start, next);
            assert!(community.size > 0);
            next += community.size;
        }
        assert_eq!(next, nrows);
        assert!(graph.communities.len().abs_diff(count) <= count / 4, "{nrows} rows: {}", graph.communities.len());
        for (member, &row) in graph.row_of_member.iter().enumerate() {
            assert_eq!(graph.member_of_row[row as usize] as usize, member);
        }
        let mut sizes: Vec<usize> = graph.communities.iter().map(|community| community.size).collect();
        sizes.sort_unstable();
        // Under the power law of exponent 2 half of the communities are at most twice as large as the smallest.
        if count > 200 {
            assert!(
                (72..80).contains(&sizes[0]) && sizes[sizes.len() / 2] < 160 && sizes[sizes.len() - 1] > 5000,
                "{sizes:?}"
            );
        }
    }
}

/// All sizes that are small: lengths that add up, and rows that find as many columns as they are long.
#[test]
fn every_number_of_entries_fits_a_small_matrix() {
    for nrows in 0..16 {
        for nnz in 0..=nrows * nrows {
            let matrix: CsrMatrix<f64> = communities(nrows, nnz, nnz as u64).unwrap();
            assert_eq!((matrix.nrows(), matrix.ncols(), matrix.nnz()), (nrows, nrows, nnz));
            for row in 0..nrows {
                let columns = &matrix.col_indices()[matrix.row_range(row)];
                assert!(columns.is_sorted_by(|a, b| a < b), "row {row}: {columns:?}");
            }
        }
    }
}

#[test]
#[cfg(feature = "rayon")]
fn threads_do_not_matter() {
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| communities::<f32>(30_000, 300_000, DEFAULT_SEED).unwrap())
    };
    assert_eq!(with(1), with(4));
}

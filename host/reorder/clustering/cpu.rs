//! Clustering of rows on the host.

use kernels_gpu::aggregation::{NONE, gain};

use super::{
    super::lists::Lists,
    GROUP, MAX_ROUNDS, SETTLED,
    aggregation::{Graph, aggregate, summed},
    map,
};
use crate::parallel::for_blocks;

/// The order of rows with these columns, of `ncols`.
pub(super) fn cluster_rows(rows: Lists, ncols: usize) -> Vec<u32> {
    let (rows, ncols) = rows.without_empty_columns(ncols);
    let given: Vec<u32> = (0..rows.len() as u32).collect();
    // Beyond 2^32 vertices the rows stay as they are.
    if u32::try_from(rows.len() + ncols).is_err() {
        return given;
    }
    let columns = rows.transpose(ncols);
    let places = aggregate(graph(&rows, &columns));
    let mut order = given.clone();
    order.sort_unstable_by_key(|&row| (rows.get(row as usize).is_empty(), places[row as usize]));
    if group_columns(&rows, &order) < group_columns(&rows, &given) { order } else { given }
}

/// The bipartite graph of rows and columns, first the rows, with clusters by label propagation.
fn graph(rows: &Lists, columns: &Lists) -> Graph {
    let (of_rows, of_columns) = label(rows, columns);
    let first_column = rows.len();
    let edges = map(first_column + columns.len(), |vertex| match vertex.checked_sub(first_column) {
        None => summed(rows.get(vertex).iter().map(|&column| (first_column as u32 + column, 1)).collect()),
        Some(column) => summed(columns.get(column).iter().map(|&row| (row, 1)).collect()),
    });
    let degrees = rows.iter().chain(columns.iter()).map(|list| list.len() as u64).collect();
    Graph { edges, degrees, clusters: [of_rows, of_columns].concat() }
}

/// The labels of rows and columns, by label propagation; [`NONE`] for rows without entries.
fn label(columns_of: &Lists, rows_of: &Lists) -> (Vec<u32>, Vec<u32>) {
    let label_count = rows_of.len();
    let mut of_columns: Vec<u32> = (0..label_count as u32).collect();
    let mut of_rows = vec![NONE; columns_of.len()];
    for _ in 0..MAX_ROUNDS {
        let before = of_rows;
        of_rows = best_labels(columns_of, rows_of, &of_columns, label_count);
        of_columns = best_labels(rows_of, columns_of, &of_rows, label_count);
        let changed = before.iter().zip(&of_rows).filter(|(before, now)| before != now).count();
        if changed * SETTLED < of_rows.len() {
            break;
        }
    }
    (of_rows, of_columns)
}

/// The label that each vertex of one side of the graph takes, joined as `neighbours` says to vertices of the `other`
/// side with `labels` from `0..label_count`: of those among its neighbours the one that gains modularity most, and of
/// equal ones the smallest.
fn best_labels(neighbours: &Lists, other: &Lists, labels: &[u32], label_count: usize) -> Vec<u32> {
    let mut edges = vec![0; label_count];
    for (&label, list) in labels.iter().zip(other.iter()).filter(|(label, _)| **label != NONE) {
        edges[label as usize] += list.len();
    }
    let mut best = vec![NONE; neighbours.len()];
    for_blocks(0..best.len(), &mut best, &|vertices, best: &mut [u32]| {
        let mut around = Vec::new();
        for (vertex, best) in vertices.zip(best) {
            around.clear();
            around.extend(neighbours.get(vertex).iter().map(|&other| labels[other as usize]));
            around.sort_unstable();
            let (degree, total) = (around.len() as f64, neighbours.total() as f64);
            let gain_of = |label: u32, count: usize| gain(count as f64, degree, edges[label as usize] as f64, total);
            let gains = around.chunk_by(u32::eq).map(|same| (gain_of(same[0], same.len()), same[0]));
            let most = gains.max_by(|(a, label), (b, other)| a.total_cmp(b).then(other.cmp(label)));
            *best = most.map_or(NONE, |(_, label)| label);
        }
    });
    best
}

/// The different columns of each group of rows that follow one another in this order, added up.
fn group_columns(rows: &Lists, order: &[u32]) -> usize {
    let groups: Vec<&[u32]> = order.chunks(GROUP).collect();
    let of_group = |group: usize| {
        let mut columns: Vec<u32> = groups[group].iter().flat_map(|&row| rows.get(row as usize)).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        columns.len()
    };
    map(groups.len(), of_group).iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without communities, plain label propagation ends with one label for all. Modularity keeps shares for all cores.
    #[test]
    fn no_label_takes_all() {
        // Knuth's 64-bit linear congruential generator.
        let mut random = 1u64;
        let pairs: Vec<(u32, u32)> = (0..200_000)
            .map(|k| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (k / 100, (((random >> 32) * 2000) >> 32) as u32)
            })
            .collect();
        let columns_of = Lists::sorted(2000, pairs.iter().copied());
        let rows_of = columns_of.transpose(2000);
        let (of_rows, of_columns) = label(&columns_of, &rows_of);
        assert_eq!((of_rows.len(), of_columns.len()), (2000, 2000));
        let largest = (0..2000).map(|label| of_rows.iter().filter(|&&other| other == label).count()).max();
        assert!(largest < Some(2000 / 4), "{largest:?} of 2000 rows");
    }
}

//! Clustering: places rows that share columns close together.

#[cfg(feature = "rayon")]
use rayon::prelude::*;

use super::{aggregation::aggregate, lists::Lists};
use crate::{CsrMatrix, Offset, Scalar, formats::rows::for_blocks};

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Computes an order of the rows in which rows that share columns are close to one another: `order[new] = old`, as
    /// [`permute`](Self::permute) expects.
    ///
    /// In products with a dense matrix `B`, successive rows then need the same rows of `B`, and find them in a cache.
    /// This holds for a few dozen rows as for thousands. Graphs with communities gain most, whatever their degrees;
    /// meshes gain as well; with random columns, no order helps. Permute the rows alone, or, for a square matrix, the
    /// columns with them. Rows without entries come last.
    ///
    /// If the rows are in a good order already, as in many finite-element matrices, returns that order: if groups of 64
    /// successive rows have no more distinct columns than in the computed order.
    ///
    /// Values do not matter; duplicates count with their multiplicity. The same pattern gives the same order for any
    /// number of threads.
    ///
    /// Rows and columns are the vertices of a bipartite graph, and entries are its edges. Three steps lead to an order:
    ///
    /// 1. Label propagation partitions the graph into clusters. Every column starts with its own label; then, in turn,
    ///    all rows and all columns take the label among their neighbours that increases the bipartite modularity of M.
    ///    J. Barber most (M. J. Barber and J. W. Clark, "Detecting network communities by propagating labels under
    ///    constraints", Physical Review E 80, 2009). Modularity compares the neighbours with a label with the number
    ///    expected by chance. So no label takes over, and hubs do not connect unrelated rows. Rows depend only on
    ///    columns and columns only on rows, so all cores work.
    /// 2. Within each cluster, all clusters in parallel, rows are ordered by incremental aggregation (J. Arai et al.,
    ///    "Rabbit Order: just-in-time parallel reordering for fast graph analysis", IPDPS 2016).
    /// 3. The clusters are ordered in the same way, on one core.
    ///
    /// Takes `O(nnz log(longest row or column))` time for the first step; the others are about linear. Takes 4 to 50
    /// bytes of memory per entry, most without communities, however many columns are empty.
    #[must_use]
    pub fn cluster_rows(&self) -> Vec<u32> {
        let (rows, ncols) = Lists::rows(self).without_empty_columns(self.ncols());
        let columns = rows.transpose(ncols);
        let clusters = Clusters::new(&rows, &columns);
        let count = clusters.rows.len();
        let within = map(count, |cluster| clusters.row_order(cluster));
        let between = aggregate(map(count, |cluster| clusters.edges(cluster)));
        let clustered = between.iter().flat_map(|&cluster| &within[cluster as usize]).copied();
        let empty = (0..).zip(rows.iter()).filter(|(_, columns)| columns.is_empty()).map(|(row, _)| row);
        let order: Vec<u32> = clustered.chain(empty).collect();
        let given: Vec<u32> = (0..self.nrows() as u32).collect();
        if group_columns(&rows, &order) < group_columns(&rows, &given) { order } else { given }
    }
}

/// As many rows as are compared in a group, whether they share columns.
const GROUP: usize = 64;

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

/// `f` of every index below `count`, on all cores with the feature `rayon`.
fn map<R: Send>(count: usize, f: impl Fn(usize) -> R + Send + Sync) -> Vec<R> {
    #[cfg(feature = "rayon")]
    return (0..count).into_par_iter().map(f).collect();
    #[cfg(not(feature = "rayon"))]
    return (0..count).map(f).collect();
}

/// The label, and cluster, of what has no entries.
const NONE: u32 = u32::MAX;

/// Rounds of label propagation, at most: communities are found in about five.
const MAX_ROUNDS: usize = 8;

/// No further round, once one changes the labels of less than one row in so many.
const SETTLED: usize = 16;

/// A partition of the rows and columns that have entries. Every cluster has a row.
struct Clusters<'a> {
    /// The columns of each row of the matrix.
    columns_of: &'a Lists<'a>,
    /// The cluster of each column.
    of_column: Vec<u32>,
    /// The rows and the columns of each cluster.
    rows: Lists<'static>,
    columns: Lists<'static>,
    /// Where each column stands among all of `columns`.
    column_positions: Vec<u32>,
}

impl<'a> Clusters<'a> {
    /// By label propagation on the graph in which row `i` is joined to `columns_of[i]`, column `j` to `rows_of[j]`.
    fn new(columns_of: &'a Lists, rows_of: &Lists) -> Self {
        let label_count = rows_of.len();
        let mut of_column: Vec<u32> = (0..label_count as u32).collect();
        let mut of_row = vec![NONE; columns_of.len()];
        for _ in 0..MAX_ROUNDS {
            let before = of_row;
            of_row = best_labels(columns_of, rows_of, &of_column, label_count);
            of_column = best_labels(rows_of, columns_of, &of_row, label_count);
            let changed = before.iter().zip(&of_row).filter(|(before, now)| before != now).count();
            if changed * SETTLED < of_row.len() {
                break;
            }
        }

        // A column's label is that of one of its rows: after the rows', none is new.
        let (mut numbers, mut count) = (vec![NONE; label_count], 0);
        for label in of_row.iter_mut().chain(&mut of_column).filter(|label| **label != NONE) {
            let number = &mut numbers[*label as usize];
            if *number == NONE {
                *number = count;
                count += 1;
            }
            *label = *number;
        }
        let members = |of: &[u32]| {
            let pairs = of.iter().copied().zip(0..);
            Lists::sorted(count as usize, pairs.filter(|&(cluster, _)| cluster != NONE))
        };
        let (rows, columns) = (members(&of_row), members(&of_column));
        let column_positions = columns.positions(of_column.len());
        Self { columns_of, of_column, rows, columns, column_positions }
    }

    /// The rows of a cluster in the order of the communities that they form with its columns.
    fn row_order(&self, cluster: usize) -> Vec<u32> {
        let (rows, columns) = (self.rows.get(cluster), self.columns.range(cluster));
        // Of two rows there is one order; and beyond 2^32 vertices, it stays as it is.
        if rows.len() <= 2 || u32::try_from(rows.len() + columns.len()).is_err() {
            return rows.to_vec();
        }
        // Rows are vertices from 0 on, columns after them. What joins them to other clusters is left out.
        let mut edges = vec![Vec::new(); rows.len() + columns.len()];
        for (&row, edges) in rows.iter().zip(&mut edges) {
            let positions =
                self.columns_of.get(row as usize).iter().map(|&j| self.column_positions[j as usize] as usize);
            let inside = positions.filter(|position| columns.contains(position));
            edges.extend(inside.map(|position| ((rows.len() + position - columns.start) as u32, 1.0)));
        }
        aggregate(edges).iter().filter_map(|&vertex| rows.get(vertex as usize).copied()).collect()
    }

    /// The clusters of the columns that a cluster's rows have, and how many entries those are.
    fn edges(&self, cluster: usize) -> Vec<(u32, f32)> {
        let mut clusters = Vec::new();
        for &row in self.rows.get(cluster) {
            let columns = self.columns_of.get(row as usize);
            clusters.extend(columns.iter().map(|&column| self.of_column[column as usize]));
        }
        clusters.sort_unstable();
        clusters.chunk_by(u32::eq).map(|same| (same[0], same.len() as f32)).collect()
    }
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
            // Of a vertex's edges, chance would give each label its share of all edges.
            let chance = around.len() as f64 / neighbours.total() as f64;
            let gain = |label: u32, count: usize| count as f64 - chance * edges[label as usize] as f64;
            let gains = around.chunk_by(u32::eq).map(|same| (gain(same[0], same.len()), same[0]));
            let most = gains.max_by(|(a, label), (b, other)| a.total_cmp(b).then(other.cmp(label)));
            *best = most.map_or(NONE, |(_, label)| label);
        }
    });
    best
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
        let clusters = Clusters::new(&columns_of, &rows_of);
        let largest = clusters.rows.iter().map(<[u32]>::len).max();
        assert!(largest < Some(2000 / 4), "{largest:?} of 2000 rows");
        assert_eq!((clusters.rows.total(), clusters.columns.total()), (2000, 2000));
    }
}

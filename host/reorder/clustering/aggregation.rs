//! Aggregation of the vertices of a graph, on the host.

use kernels_gpu::aggregation::{NONE, comes_before, gain, score};

use super::{super::lists::Lists, map};

/// Rounds within clusters, at most, and without clusters. A few dozen are common.
pub(super) const MAX_ROUNDS: u32 = 64;

/// An undirected graph with weighted edges, whose vertices are in clusters.
pub(super) struct Graph {
    /// `(neighbour, weight)`, neighbours ascending, from both ends.
    pub(super) edges: Vec<Vec<(u32, u64)>>,
    /// The sum of the weights of each vertex's edges; and, after merges, of the vertices that are merged in it.
    pub(super) degrees: Vec<u64>,
    pub(super) clusters: Vec<u32>,
}

/// The places of the vertices in an order in which those that are merged early stand together: see
/// [`CsrMatrix::cluster_rows`](crate::CsrMatrix::cluster_rows).
pub(super) fn aggregate(mut graph: Graph) -> Vec<u32> {
    let total = graph.degrees.iter().sum::<u64>() as f64;
    let mut merges = Vec::new();
    let mut round = 0;
    for within in [true, false] {
        for _ in 0..MAX_ROUNDS {
            let (numbers, count) = graph.merge(total, within, round);
            round += 1;
            if count == graph.edges.len() {
                break;
            }
            graph = graph.contracted(&numbers, count);
            merges.push(numbers);
        }
    }
    let mut places: Vec<u32> = (0..graph.edges.len() as u32).collect();
    for numbers in merges.iter().rev() {
        let merged = numbers.iter().map(|&number| places[number as usize]).zip(0..);
        let order = Lists::sorted(places.len(), merged);
        places = order.positions(numbers.len());
    }
    places
}

impl Graph {
    /// Which vertices are merged into their best neighbours: the new number of each vertex, and how many there are.
    fn merge(&self, total: f64, within: bool, round: u32) -> (Vec<u32>, usize) {
        let vertices = self.edges.len();
        let best = map(vertices, |vertex| self.best(vertex, total, within));
        let wants = |vertex: usize| {
            let best = best[vertex];
            let ranked = |vertex: u32| (self.degrees[vertex as usize], vertex);
            best != NONE && comes_before(ranked(vertex as u32), ranked(best), round)
        };
        let stays = map(vertices, |vertex| !wants(vertex) || wants(best[vertex] as usize));
        let (mut numbers, mut count) = (vec![NONE; vertices], 0);
        for (number, _) in numbers.iter_mut().zip(&stays).filter(|(_, stays)| **stays) {
            *number = count;
            count += 1;
        }
        for vertex in (0..vertices).filter(|&vertex| !stays[vertex]) {
            numbers[vertex] = numbers[best[vertex] as usize];
        }
        (numbers, count as usize)
    }

    /// The best neighbour of a vertex.
    fn best(&self, vertex: usize, total: f64, within: bool) -> u32 {
        let degree = self.degrees[vertex] as f64;
        let scored = self.edges[vertex].iter().filter_map(|&(other, weight)| {
            let other_degree = self.degrees[other as usize] as f64;
            let gain = gain(weight as f64, degree, other_degree, total);
            let is_allowed = gain > 0.0 && (!within || self.clusters[other as usize] == self.clusters[vertex]);
            is_allowed.then(|| (score(gain, other_degree), other))
        });
        // Of equal ones the first.
        scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map_or(NONE, |(_, other)| other)
    }

    /// The graph of the vertices with these new numbers, of `count`.
    fn contracted(&self, numbers: &[u32], count: usize) -> Self {
        let members = Lists::sorted(count, numbers.iter().copied().zip(0..));
        let edges = map(count, |number| {
            let all = members.get(number).iter().flat_map(|&member| &self.edges[member as usize]);
            let renumbered = all.map(|&(other, weight)| (numbers[other as usize], weight));
            summed(renumbered.filter(|&(other, _)| other as usize != number).collect())
        });
        let of_members = |number: usize| members.get(number).iter().map(|&member| self.degrees[member as usize]).sum();
        let degrees = map(count, of_members);
        let clusters = map(count, |number| self.clusters[members.get(number)[0] as usize]);
        Self { edges, degrees, clusters }
    }
}

/// The edges with ascending neighbours, those with the same neighbour added up.
pub(super) fn summed(mut edges: Vec<(u32, u64)>) -> Vec<(u32, u64)> {
    edges.sort_unstable();
    edges.dedup_by(|edge, kept| {
        let is_same = edge.0 == kept.0;
        kept.1 += if is_same { edge.1 } else { 0 };
        is_same
    });
    edges
}

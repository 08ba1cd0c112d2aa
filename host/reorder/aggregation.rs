//! Community detection by incremental aggregation.

/// No vertex.
const NONE: u32 = u32::MAX;

/// Orders the vertices of an undirected graph so that communities are contiguous, and within each the communities from
/// which it has grown. `edges[v]` are `(neighbour, weight)`: each edge is in the list of one of its ends, and there may
/// be any number of edges between the same vertices.
///
/// The algorithm of J. Arai, H. Shiokawa, T. Yamamuro, M. Onizuka and S. Iwamura ("Rabbit Order: just-in-time parallel
/// reordering for fast graph analysis", IPDPS 2016) on one core: every vertex, together with those merged into it, is
/// merged into the neighbour that increases modularity most, if any does. Vertices of small degree come first, so that
/// hubs join a community late, and do not connect unrelated vertices.
///
/// Weights are sums of ones: exact up to 2^24, and rounded in the same way in every run beyond.
///
/// Takes about linear time in the edges, plus sorting the vertices: merged lists are traversed again, and shrink.
pub(super) fn aggregate(mut edges: Vec<Vec<(u32, f32)>>) -> Vec<u32> {
    let count = edges.len();
    // From the other end, too.
    let lengths: Vec<usize> = edges.iter().map(Vec::len).collect();
    for (v, length) in lengths.into_iter().enumerate() {
        for k in 0..length {
            let (u, weight) = edges[v][k];
            edges[u as usize].push((v as u32, weight));
        }
    }
    let mut degrees: Vec<f64> =
        edges.iter().map(|list| list.iter().map(|&(_, weight)| f64::from(weight)).sum()).collect();
    let total: f64 = degrees.iter().sum();
    let mut by_degree: Vec<u32> = (0..count as u32).collect();
    by_degree.sort_by(|&u, &v| degrees[u as usize].total_cmp(&degrees[v as usize]));

    let mut communities = Communities::new(count);
    // The weight between the vertex's community and each neighbouring one; 0 for all others.
    let mut weights = vec![0f32; count];
    let mut neighbours = Vec::new();
    for v in by_degree {
        for (u, weight) in std::mem::take(&mut edges[v as usize]) {
            let u = communities.find(u);
            if u != v {
                if weights[u as usize] == 0.0 {
                    neighbours.push(u);
                }
                weights[u as usize] += weight;
            }
        }
        let gain = |u: u32| f64::from(weights[u as usize]) - degrees[v as usize] * degrees[u as usize] / total;
        let gains = neighbours.iter().map(|&u| (gain(u), u)).filter(|&(gain, _)| gain > 0.0);
        if let Some((_, u)) = gains.max_by(|(a, u), (b, w)| a.total_cmp(b).then(w.cmp(u))) {
            communities.merge(v, u);
            degrees[u as usize] += degrees[v as usize];
            let others = neighbours.iter().filter(|&&other| other != u);
            edges[u as usize].extend(others.map(|&other| (other, weights[other as usize])));
        }
        for u in neighbours.drain(..) {
            weights[u as usize] = 0.0;
        }
    }
    communities.into_order()
}

/// A partition of the vertices, and the order within each community.
struct Communities {
    /// A vertex of the same community nearer to its representative, which is its own parent.
    parents: Vec<u32>,
    /// The next vertex in its community's order.
    next: Vec<u32>,
    /// For representatives, the last vertex of the community; the representative is the first.
    last: Vec<u32>,
}

impl Communities {
    /// Creates one community per vertex.
    fn new(count: usize) -> Self {
        let vertices: Vec<u32> = (0..count as u32).collect();
        Self { parents: vertices.clone(), next: vec![NONE; count], last: vertices }
    }

    /// Returns the representative of the vertex's community, with path halving (R. E. Tarjan and J. van Leeuwen, 1984).
    fn find(&mut self, mut vertex: u32) -> u32 {
        loop {
            let parent = self.parents[vertex as usize];
            if parent == vertex {
                return vertex;
            }
            let grandparent = self.parents[parent as usize];
            self.parents[vertex as usize] = grandparent;
            vertex = grandparent;
        }
    }

    /// Appends the community of representative `v` to that of representative `u`.
    fn merge(&mut self, v: u32, u: u32) {
        self.parents[v as usize] = u;
        self.next[self.last[u as usize] as usize] = v;
        self.last[u as usize] = self.last[v as usize];
    }

    fn into_order(self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.parents.len());
        for (representative, &parent) in (0..).zip(&self.parents) {
            if parent == representative {
                let mut vertex = representative;
                while vertex != NONE {
                    order.push(vertex);
                    vertex = self.next[vertex as usize];
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(count: usize, edges: &[(u32, u32, f32)]) -> Vec<u32> {
        let mut lists = vec![Vec::new(); count];
        edges.iter().for_each(|&(v, u, weight)| lists[v as usize].push((u, weight)));
        aggregate(lists)
    }

    #[test]
    fn communities_stand_together() {
        assert!(order(0, &[]).is_empty());
        assert_eq!(order(3, &[]), [0, 1, 2]);
        assert_eq!(order(2, &[(0, 0, 1.0), (1, 1, 5.0)]), [0, 1]);
        // Two edges, apart from one another.
        assert_eq!(order(4, &[(0, 2, 1.0), (3, 1, 1.0)]), [2, 0, 3, 1]);
        // The triangles 0 2 4 and 1 3 5, joined by 4 - 5. 0 and 1 are merged into 2 and 3, of the neighbours of equal
        // gain the first, or lighter; 2 then into 4, 3 into 5; and the triangles have less between them than chance
        // would give.
        let triangles = [(0, 2, 1.0), (2, 4, 1.0), (4, 0, 1.0), (1, 3, 1.0), (3, 5, 1.0), (5, 1, 1.0), (4, 5, 1.0)];
        assert_eq!(order(6, &triangles), [4, 2, 0, 5, 3, 1]);
        // A path of heavy and light edges: 0 = 1 - 2 = 3.
        assert_eq!(order(4, &[(0, 1, 9.0), (1, 2, 1.0), (2, 3, 9.0)]), [1, 0, 2, 3]);
        // Edges between the same vertices add up: 0 has one of weight 2 with 1, two of 1.5 with 2.
        assert_eq!(order(3, &[(0, 1, 2.0), (0, 2, 1.5), (2, 0, 1.5), (1, 1, 3.0), (2, 2, 3.0)]), [1, 2, 0]);
    }
}

//! Reverse Cuthill-McKee on the host.

use super::super::lists::Lists;

/// The order of an undirected graph, or of the pattern of `A + Aᵀ` of a square one.
pub(super) fn reverse_cuthill_mckee(pattern: &Lists) -> Vec<u32> {
    let mut search = Search::new(&symmetric_neighbours(pattern));
    for node in std::mem::take(&mut search.by_degree) {
        if !search.seen[node as usize] {
            search.append_component(node);
        }
    }
    search.order.reverse();
    search.order
}

/// The neighbours of each row in the graph of `A + Aᵀ`, sorted, without repetitions and the row itself.
fn symmetric_neighbours(rows: &Lists) -> Lists<'static> {
    let columns = rows.transpose(rows.len());
    let mut joined = Vec::new();
    Lists::appended(rows.len(), |row, neighbours| {
        joined.clear();
        joined.extend(rows.get(row).iter().chain(columns.get(row)).filter(|&&other| other as usize != row));
        joined.sort_unstable();
        joined.dedup();
        neighbours.extend_from_slice(&joined);
    })
}

/// Breadth-first searches in an undirected graph.
struct Search {
    /// By increasing degree, those of equal degree by increasing index.
    neighbours: Lists<'static>,
    /// So are all nodes here.
    by_degree: Vec<u32>,
    /// Whether a node is in `order`.
    seen: Vec<bool>,
    /// The components that are done, and of the next what the search has met.
    order: Vec<u32>,
}

impl Search {
    fn new(graph: &Lists) -> Self {
        let count = graph.len();
        let longest = graph.iter().map(<[u32]>::len).max().unwrap_or(0);
        let degrees = graph.iter().zip(0..).map(|(neighbours, node)| (neighbours.len() as u32, node));
        let by_degree = Lists::sorted(longest + 1, degrees).into_items();
        // In an undirected graph, to tell every neighbour of each node fills the neighbours' lists in the nodes' order.
        let told = by_degree.iter().flat_map(|&node| graph.get(node as usize).iter().map(move |&other| (other, node)));
        let neighbours = Lists::sorted(count, told);
        Self { neighbours, by_degree, seen: vec![false; count], order: Vec::with_capacity(count) }
    }

    /// Appends the component of `first`, its least node, in Cuthill-McKee order: from a node farthest from `first`, of several the least.
    fn append_component(&mut self, first: u32) {
        let begin = self.order.len();
        let last_level = self.append_breadth_first(first);
        let key = |node: &u32| (self.neighbours.get(*node as usize).len(), *node);
        let start = self.order[last_level..].iter().copied().min_by_key(key).expect("no level is empty");
        for node in self.order.drain(begin..) {
            self.seen[node as usize] = false;
        }
        self.append_breadth_first(start);
    }

    /// Appends what can be reached from `start`. Returns where the last level begins.
    fn append_breadth_first(&mut self, start: u32) -> usize {
        let mut level = self.order.len();
        self.seen[start as usize] = true;
        self.order.push(start);
        loop {
            let end = self.order.len();
            for place in level..end {
                for &node in self.neighbours.get(self.order[place] as usize) {
                    if !std::mem::replace(&mut self.seen[node as usize], true) {
                        self.order.push(node);
                    }
                }
            }
            if self.order.len() == end {
                return level;
            }
            level = end;
        }
    }
}

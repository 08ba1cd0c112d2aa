//! Reverse Cuthill-McKee ordering.

use super::lists::Lists;
use crate::{CsrMatrix, Error, Offset, Result, Scalar};

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Computes an order of rows and columns that gives a square matrix a small bandwidth: `order[new] = old`, as
    /// [`permute`](Self::permute) expects for both.
    ///
    /// For meshes and other matrices that have a small bandwidth in some order. Graphs with hubs do not; for those use
    /// [`cluster_rows`](Self::cluster_rows). The pattern is treated as that of `A + Aᵀ`; values do not matter. The same
    /// pattern gives the same order.
    ///
    /// The algorithm is that of E. Cuthill and J. McKee ("Reducing the bandwidth of sparse symmetric matrices", ACM
    /// National Conference 1969), reversed (A. George, 1971): connected rows breadth-first, neighbours by increasing
    /// degree. Each component starts at the pseudo-peripheral node of A. George and J. W. H. Liu ("An implementation of
    /// a pseudoperipheral node finder", ACM Transactions on Mathematical Software 5, 1979).
    ///
    /// Takes `O(nnz log(longest row or column))` time on one core, for a few searches of each component, and 5 to 25
    /// bytes of memory per entry.
    ///
    /// ```
    /// use warpsparse::CsrMatrix;
    ///
    /// // The path 1 - 3 - 0 - 2.
    /// let a = CsrMatrix::try_from_csr_data(4, 4, vec![0u32, 2, 3, 4, 6], vec![2, 3, 3, 0, 0, 1], vec![1.0f32; 6])?;
    /// let order = a.reverse_cuthill_mckee()?;
    /// assert_eq!(order, [1, 3, 0, 2]);
    /// assert_eq!(a.permute(&order, &order)?.structure().upper_bandwidth, 1);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the matrix is not square.
    pub fn reverse_cuthill_mckee(&self) -> Result<Vec<u32>> {
        if self.nrows() != self.ncols() {
            let (nrows, ncols) = (self.nrows(), self.ncols());
            let problem = format!("reverse Cuthill-McKee orders square matrices, and this one is {nrows} x {ncols}");
            return Err(Error::InvalidOption(problem));
        }
        let mut search = Search::new(&symmetric_neighbours(&Lists::rows(self)));
        for node in std::mem::take(&mut search.by_degree) {
            if !search.seen[node as usize] {
                search.append_component(node);
            }
        }
        search.order.reverse();
        Ok(search.order)
    }
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

    /// Appends the component of `start` in Cuthill-McKee order, from a pseudo-peripheral node on.
    fn append_component(&mut self, mut start: u32) {
        let begin = self.order.len();
        let mut deepest = None;
        loop {
            let (depth, last_level) = self.append_breadth_first(start);
            if Some(depth) <= deepest {
                return;
            }
            deepest = Some(depth);
            let degree = |node: &u32| self.neighbours.get(*node as usize).len();
            start = self.order[last_level..].iter().copied().min_by_key(degree).expect("no level is empty");
            for node in self.order.drain(begin..) {
                self.seen[node as usize] = false;
            }
        }
    }

    /// Appends what can be reached from `start`. Returns how many steps away the last level is, and where it begins.
    fn append_breadth_first(&mut self, start: u32) -> (usize, usize) {
        let mut level = self.order.len();
        let mut depth = 0;
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
                return (depth, level);
            }
            (level, depth) = (end, depth + 1);
        }
    }
}

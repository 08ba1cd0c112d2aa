//! Stand-ins for published graphs.

/// A published graph, for which [`communities`](super::communities) generates a stand-in of the same size.
///
/// The numbers of rows and entries are as published. The structure is synthetic: neither the degrees nor the
/// communities are those of the named graph, and results measured on a stand-in are not results for that graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StandIn {
    /// The graph's short name, in lower case.
    pub name: &'static str,
    /// The number of rows and columns.
    pub nrows: usize,
    /// The number of entries.
    pub nnz: usize,
}

/// The 13 graphs that have stand-ins. Sparse-dense products are commonly measured on them: citations, collaborations,
/// proteins, drugs, purchases, friendships and facts, from the Open Graph Benchmark (W. Hu et al.: Open Graph
/// Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020) and other collections.
pub const STAND_INS: &[StandIn] = &[
    stand_in("arxiv", 169_343, 1_166_243),
    stand_in("collab", 235_868, 2_358_104),
    stand_in("citation", 2_927_963, 30_387_995),
    stand_in("ddi", 4_267, 2_135_822),
    stand_in("protein", 132_534, 79_122_504),
    stand_in("ppa", 576_289, 42_463_862),
    stand_in("reddit", 232_965, 114_615_891),
    stand_in("products", 2_449_029, 123_718_280),
    stand_in("youtube", 1_138_499, 5_980_886),
    stand_in("amazon", 1_569_960, 264_339_468),
    stand_in("yelp", 716_847, 13_954_819),
    stand_in("wikig2", 2_500_604, 16_109_182),
    stand_in("am", 881_680, 5_668_682),
];

const fn stand_in(name: &'static str, nrows: usize, nnz: usize) -> StandIn {
    StandIn { name, nrows, nnz }
}

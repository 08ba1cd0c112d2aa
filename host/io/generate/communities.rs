//! Graphs with communities. Each entry, and each row's length, depends only on the seed and its row: no row waits for
//! another, and only the columns within a row are sorted.

mod power_law;

use power_law::PowerLaw;

use super::{
    checked_product,
    random::{Random, choose_columns, draw_distinct},
};
use crate::{CsrMatrix, Error, Result, Scalar, formats::rows::from_rows, memory::zeros};

/// How much of a row is within its community.
const WITHIN: f64 = 0.8;

/// Generates a directed graph with communities: `nrows` rows and columns and exactly `nnz` entries without duplicates,
/// with values in (0, 1].
///
/// Follows the model of A. Lancichinetti, S. Fortunato, F. Radicchi: Benchmark graphs for testing community detection
/// algorithms, Physical Review E 78, 2008. The sizes of the communities follow a power law of exponent 2, from some 4
/// times the mean row length to 256 times as much. Within each, row lengths follow a power law of exponent 7/3, up to
/// half of its size and to at most `2 sqrt(nnz)`, twice the structural cut-off (M. Boguñá, R. Pastor-Satorras, A.
/// Vespignani: Cut-offs and finite size effects in scale-free networks, European Physical Journal B 38, 2004). Column
/// lengths nearly do so too: a vertex with a long row has a long column. Almost 4/5 of the entries are within the row's
/// community, or all of them if there is only one. Vertices are numbered at random, so the order shows none of this.
///
/// If `nnz` exceeds half of all positions there is no room for communities: then row lengths differ by at most one, and
/// columns are uniform.
///
/// Takes `O(nnz log nrows)` work on all cores, `O(nrows)` on one, and 8 bytes per row in addition to the matrix.
///
/// # Errors
/// [`Error::InvalidOption`] if `nnz` exceeds `nrows²`, or the number of rows or entries exceeds 32 bits, and
/// [`Error::OutOfMemory`].
pub fn communities<T: Scalar>(nrows: usize, nnz: usize, seed: u64) -> Result<CsrMatrix<T>> {
    checked_product("rows", &[nrows])?;
    checked_product("entries", &[nnz])?;
    let (size, entries) = (nrows as u64, nnz as u64);
    let places = size * size;
    if entries > places {
        let problem = format!("{nnz} entries, but a matrix of {nrows} rows and columns has only {places} places");
        return Err(Error::InvalidOption(problem));
    }
    if entries > places / 2 {
        let before = |row: usize| (row as u64 * entries / size) as usize;
        return from_rows(
            nrows,
            nrows,
            |row| before(row + 1) - before(row),
            |row, columns, values| {
                let mut random = Random::at(seed, row as u64);
                choose_columns(nrows as u32, columns, &mut random);
                values.fill_with(|| random.value());
            },
        );
    }
    let graph = Graph::new(nrows, nnz, seed)?;
    from_rows(
        nrows,
        nrows,
        |row| graph.row_length(row),
        |row, columns, values| {
            let mut random = Random::at(seed, row as u64);
            graph.choose_columns(row, columns, &mut random);
            values.fill_with(|| random.value());
        },
    )
}

/// The graph, but for its entries. Vertices are counted as members, one community after the other, and numbered as rows
/// at random.
struct Graph {
    nnz: usize,
    communities: Vec<Community>,
    member_of_row: Vec<u32>,
    row_of_member: Vec<u32>,
}

struct Community {
    /// Its first member.
    start: usize,
    size: usize,
    /// How entries are spread over the members, in rows and in columns.
    law: PowerLaw,
}

impl Graph {
    fn new(nrows: usize, nnz: usize, seed: u64) -> Result<Self> {
        let (mut row_of_member, mut member_of_row) = (zeros::<u32>(nrows)?, zeros::<u32>(nrows)?);
        let mut random = Random::at(!seed, 0);
        // A shuffle from the inside out (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm P).
        for member in 0..nrows {
            let other = random.below(member as u32 + 1) as usize;
            row_of_member[member] = row_of_member[other];
            row_of_member[other] = member as u32;
        }
        for (member, &row) in row_of_member.iter().enumerate() {
            member_of_row[row as usize] = member as u32;
        }
        let communities = found_communities(nrows, nnz, &mut Random::at(!seed, 1));
        Ok(Self { nnz, communities, member_of_row, row_of_member })
    }

    fn nrows(&self) -> usize {
        self.row_of_member.len()
    }

    fn community_of(&self, member: usize) -> &Community {
        &self.communities[self.communities.partition_point(|community| community.start <= member) - 1]
    }

    fn row_length(&self, row: usize) -> usize {
        let member = self.member_of_row[row] as usize;
        let community = self.community_of(member);
        self.entries_before(community, member + 1) - self.entries_before(community, member)
    }

    /// How many entries the members before this one have, in this community and those before it. A row's length is the
    /// difference of two of these, so that all lengths add up to `nnz`, however these are rounded. Rounding, once for the
    /// community and once for the member, makes a row at most two entries longer than the law.
    fn entries_before(&self, community: &Community, member: usize) -> usize {
        let before = |member: usize| (member as u64 * self.nnz as u64 / self.nrows() as u64) as usize;
        let end = community.start + community.size;
        if member == end {
            return before(end);
        }
        let all = before(end) - before(community.start);
        let share = community.law.share((member - community.start) as f64 / community.size as f64);
        before(community.start) + (share * all as f64) as usize
    }

    /// Fills `columns` with distinct columns of a row, in rising order.
    fn choose_columns(&self, row: usize, columns: &mut [u32], random: &mut Random) {
        let own = self.community_of(self.member_of_row[row] as usize);
        // Of the entries that go anywhere, some are within the community too.
        let by_chance = own.size as f64 / self.nrows() as f64;
        let chosen = ((WITHIN - by_chance) / (1.0 - by_chance)).max(0.0);
        draw_distinct(columns, || {
            let within = random.value::<f64>() <= chosen;
            let community = if within { own } else { self.community_of(random.below(self.nrows() as u32) as usize) };
            let place = community.law.quantile(random.value()) * community.size as f64;
            self.row_of_member[community.start + (place as usize).min(community.size - 1)]
        });
    }
}

/// Draws communities until every row is in one. The last takes what would be too small for another.
///
/// A row of the mean length fills at most a quarter of a community and the longest half of it, so that the law has room
/// above the mean and rows need not leave their community for lack of columns. A few communities at least share the rows,
/// as long as they can be large enough.
fn found_communities(nrows: usize, nnz: usize, random: &mut Random) -> Vec<Community> {
    const LARGEST_TO_SMALLEST: f64 = 256.0;
    let mean = nnz as f64 / nrows.max(1) as f64;
    let longest_row = 2.0 * (nnz as f64).sqrt();
    let smallest = 4.0 * mean + 32.0;
    let largest = (LARGEST_TO_SMALLEST * smallest).min(nrows as f64 / 4.0).max(smallest);
    let mut communities = Vec::new();
    let mut start = 0;
    while start < nrows {
        // Sizes have a power law of exponent 2 if their reciprocals are uniform.
        let drawn = 1.0 / (1.0 / largest + random.value::<f64>() * (1.0 / smallest - 1.0 / largest));
        let left = nrows - start;
        let size = if left as f64 - drawn < smallest { left } else { drawn as usize };
        let law = PowerLaw::up_to(longest_row.min(size as f64 / 2.0) / mean);
        communities.push(Community { start, size, law });
        start += size;
    }
    communities
}

#[cfg(test)]
mod tests;

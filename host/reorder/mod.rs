//! Orders of rows and columns that bring together what belongs together, so that a product finds in the caches what it
//! needs again.

mod aggregation;
mod clustering;
mod lists;
mod rcm;

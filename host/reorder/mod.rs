//! Orders of rows and columns that improve the locality of products.

mod aggregation;
mod clustering;
mod lists;
mod rcm;

//! Orders of rows and columns that improve the locality of products.

mod clustering;
mod lists;
mod rcm;

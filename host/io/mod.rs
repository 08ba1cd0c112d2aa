//! Reading and generating matrices.

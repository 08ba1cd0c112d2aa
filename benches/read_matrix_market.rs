//! How fast Matrix Market text is read, in MB/s of uncompressed text: `cargo bench --bench read_matrix_market`.
//!
//! The file is a random matrix of 4 million entries with 15 to 17 significant digits (about 140 MB), written to the
//! temporary directory, entries row by row or, as collections store them, column by column. The best of five reads is
//! printed, the building of the matrix included; reading uses one core.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    path::Path,
    time::Instant,
};

use flate2::{Compression, write::GzEncoder};
use warpsparse::{CooMatrix, CsrMatrix, io::generate};

fn main() {
    let matrix = generate::uniform::<f64>(250_000, 250_000, 16, generate::DEFAULT_SEED).expect("the arguments fit");
    let mut entries: Vec<_> = matrix.triplets().collect();
    let by_row = text(&matrix, &entries);
    entries.sort_by_key(|&(_, column, _)| column);
    let by_column = text(&matrix, &entries);
    drop(entries);

    let directory = std::env::temp_dir().join(format!("warpsparse-read-{}", std::process::id()));
    fs::create_dir(&directory).expect("the temporary directory can be written");
    for (order, text) in [("by row", &by_row), ("by column", &by_column)] {
        let path = directory.join("plain.mtx");
        fs::write(&path, text).expect("there is room for the file");
        let read = |path: &Path| CooMatrix::<f64>::read_matrix_market(path).map(|a| a.nnz());
        report(&format!("COO f64, {order}"), &path, text.len(), read);
        let read = |path: &Path| CsrMatrix::<f64>::read_matrix_market(path).map(|a| a.nnz());
        report(&format!("CSR f64, {order}"), &path, text.len(), read);
        let read = |path: &Path| CsrMatrix::<f32>::read_matrix_market(path).map(|a| a.nnz());
        report(&format!("CSR f32, {order}"), &path, text.len(), read);
    }
    let path = directory.join("gzipped.mtx.gz");
    let mut encoder = GzEncoder::new(File::create(&path).expect("it can be written"), Compression::new(6));
    encoder.write_all(by_column.as_bytes()).expect("there is room");
    encoder.finish().expect("there is room");
    let read = |path: &Path| CsrMatrix::<f64>::read_matrix_market(path).map(|a| a.nnz());
    report("CSR f64, by column, gzipped", &path, by_column.len(), read);
    fs::remove_dir_all(&directory).expect("the files are ours");
}

fn text(matrix: &CsrMatrix<f64>, entries: &[(usize, usize, f64)]) -> String {
    let (nrows, ncols, nnz) = (matrix.nrows(), matrix.ncols(), matrix.nnz());
    let mut text = format!("%%MatrixMarket matrix coordinate real general\n{nrows} {ncols} {nnz}\n");
    for (row, column, value) in entries {
        writeln!(text, "{} {} {value}", row + 1, column + 1).expect("memory suffices");
    }
    text
}

fn report(what: &str, path: &Path, text_bytes: usize, read: impl Fn(&Path) -> warpsparse::Result<usize>) {
    let times = (0..5).map(|_| {
        let start = Instant::now();
        let nnz = read(path).expect("the file is well-formed");
        assert!(nnz > 0);
        start.elapsed().as_secs_f64()
    });
    let best = times.fold(f64::INFINITY, f64::min);
    let megabytes = text_bytes as f64 / 1e6;
    println!("{what:30} {megabytes:4.0} MB in {best:.3} s: {:4.0} MB/s", megabytes / best);
}

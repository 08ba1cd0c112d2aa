//! Loading the matrix that the command line names, with a progress bar for files.

use indicatif::{ProgressBar, ProgressStyle};
use warpsparse::{CsrMatrix, Result, Scalar, io::MatrixSource};

/// Reads or generates the matrix. Shows a bar on stderr if that is a terminal.
pub fn load<T: Scalar>(source: &MatrixSource) -> Result<CsrMatrix<T>> {
    let style = ProgressStyle::with_template("{msg} {bar:40} {binary_bytes}/{binary_total_bytes} {eta}");
    let bar = ProgressBar::new(0).with_style(style.expect("a valid template")).with_message(source.to_string());
    let matrix = source.load_with_progress(|read, total| {
        bar.set_length(total);
        bar.set_position(read);
    });
    bar.finish_and_clear();
    matrix
}

//! Writing a vector as a Matrix Market file: array, real, general, one column.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use warpsparse::{DType, Scalar};

/// Writes with the fewest digits that read back to the same bits, gzipped if the path ends in `.gz`.
pub(super) fn write<T: Scalar>(path: &Path, elements: &[T]) -> io::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut encoder = GzEncoder::new(file, Compression::default());
        write_text(&mut encoder, elements)?;
        encoder.finish()?.flush()
    } else {
        let mut file = file;
        write_text(&mut file, elements)?;
        file.flush()
    }
}

fn write_text<T: Scalar>(output: &mut impl Write, elements: &[T]) -> io::Result<()> {
    write!(output, "%%MatrixMarket matrix array real general\n{} 1\n", elements.len())?;
    elements.iter().try_for_each(|element| match T::DTYPE {
        // As wide as it is, an f32 would take the digits of an f64.
        DType::F32 => writeln!(output, "{:?}", element.to_f64() as f32),
        DType::F64 => writeln!(output, "{:?}", element.to_f64()),
    })
}

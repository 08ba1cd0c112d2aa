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

#[cfg(test)]
mod tests {
    use warpsparse::io::MatrixMarketReader;

    use super::*;

    /// The elements as a reader of matrices finds them; it stores no zeros.
    fn read_back<T: Scalar>(elements: &[T]) -> Vec<T> {
        let mut text = Vec::new();
        write_text(&mut text, elements).unwrap();
        let column = MatrixMarketReader::new(&text[..], "x.mtx", 0).read_coo::<T>().unwrap();
        assert_eq!((column.nrows(), column.ncols()), (elements.len(), 1));
        column.values().to_vec()
    }

    #[test]
    fn every_number_reads_back() {
        let numbers =
            [1.0 / 3.0, -1e-300, f64::MIN_POSITIVE / 3.0, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, 12345.0];
        assert_eq!(read_back(&numbers), numbers);
        let numbers = [1.0 / 3.0, -1e-30, f32::MIN_POSITIVE / 3.0, f32::MAX, 16_777_217.0, -0.1];
        assert_eq!(read_back(&numbers), numbers);
        assert!(read_back(&[f64::NAN])[0].is_nan());
        assert!(read_back::<f64>(&[]).is_empty());
    }
}

//! The Matrix Market writer: its text, and that the reader gets back every bit.

#[path = "common/properties.rs"]
mod properties;

use std::{fs, io::Read, path::PathBuf};

use flate2::read::MultiGzDecoder;
use proptest::{collection::vec, prelude::*, sample::select};
use warpsparse::{CooMatrix, CsrMatrix, ErrorKind, Scalar, strategies};

/// A path for a file that a test writes.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn coo<T: Scalar>(nrows: usize, ncols: usize, entries: &[(u32, u32, T)]) -> CooMatrix<T> {
    let rows = entries.iter().map(|entry| entry.0).collect();
    let columns = entries.iter().map(|entry| entry.1).collect();
    let values = entries.iter().map(|entry| entry.2).collect();
    CooMatrix::try_from_triplets(nrows, ncols, rows, columns, values).unwrap()
}

#[test]
fn the_text_is_short_and_its_indices_count_from_1() {
    let path = scratch("text.mtx");
    let header = "%%MatrixMarket matrix coordinate real general";
    let entries = [(2, 0, 1.0), (0, 4, -0.0), (0, 4, 0.1), (1, 1, 1e300), (2, 2, -5e-324), (0, 0, 0.0)];
    coo(3, 5, &entries).write_matrix_market(&path).unwrap();
    let expected = format!("{header}\n3 5 6\n3 1 1\n1 5 -0\n1 5 0.1\n2 2 1e+300\n3 3 -5e-324\n1 1 0\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);

    let specials = [(0, 0, f32::INFINITY), (0, 1, f32::NEG_INFINITY), (1, 0, f32::NAN), (1, 1, -f32::NAN), (1, 1, 0.1)];
    coo(2, 2, &specials).write_matrix_market(&path).unwrap();
    let expected = format!("{header}\n2 2 5\n1 1 inf\n1 2 -inf\n2 1 nan\n2 2 -nan\n2 2 0.1\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);

    // Row by row, with offsets of either width: an empty row, columns out of order, a duplicate.
    let (columns, values) = (vec![2, 0, 2], vec![1.5f32, 2.0, 3.0]);
    let csr = CsrMatrix::try_from_csr_data(3, 3, vec![0u32, 2, 2, 3], columns, values).unwrap();
    let expected = format!("{header}\n3 3 3\n1 3 1.5\n1 1 2\n3 3 3\n");
    csr.write_matrix_market(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    CsrMatrix::<f32, u64>::from(&csr).write_matrix_market(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn gz_at_the_end_of_the_name_compresses() {
    let matrix = CsrMatrix::<f64>::read_matrix_market(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cora.mtx.gz"));
    let matrix = matrix.unwrap();
    let (plain, gzipped) = (scratch("cora.mtx"), scratch("cora.mtx.gz"));
    matrix.write_matrix_market(&plain).unwrap();
    matrix.write_matrix_market(&gzipped).unwrap();
    let mut text = Vec::new();
    MultiGzDecoder::new(fs::File::open(&gzipped).unwrap()).read_to_end(&mut text).unwrap();
    assert_eq!(fs::read(&plain).unwrap(), text);
    assert!(fs::metadata(&gzipped).unwrap().len() < text.len() as u64 / 2);
    for path in [plain, gzipped] {
        assert_eq!(CsrMatrix::<f64>::read_matrix_market(path).unwrap(), matrix);
    }
}

#[test]
fn empty_matrices_are_read_back() {
    let path = scratch("empty.mtx.gz");
    for (nrows, ncols) in [(0, 0), (0, 5), (5, 0), (3, 4), (u32::MAX as usize, u32::MAX as usize)] {
        let matrix = coo::<f32>(nrows, ncols, &[]);
        matrix.write_matrix_market(&path).unwrap();
        assert_eq!(CooMatrix::read_matrix_market(&path).unwrap(), matrix);
    }
    let last = u32::MAX - 1;
    let corner = coo(u32::MAX as usize, u32::MAX as usize, &[(last, last, 2.5)]);
    corner.write_matrix_market(&path).unwrap();
    assert_eq!(CooMatrix::<f64>::read_matrix_market(&path).unwrap(), corner);
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let matrix = coo(1, 1, &[(0, 0, 1.0)]);
    let refusal = |path: &str| {
        let error = matrix.write_matrix_market(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        error.to_string()
    };
    let text = refusal("no/such/folder/a.mtx");
    assert!(text.starts_with("no/such/folder/a.mtx: "), "{text}");
    assert_eq!(refusal(""), ": the path names no file");
    let folder = env!("CARGO_TARGET_TMPDIR");
    assert_eq!(refusal(folder), format!("{folder}: something that is no file has this name"));
    #[cfg(unix)]
    assert_eq!(refusal("/dev/null"), "/dev/null: something that is no file has this name");
}

/// Any value: of any bits, and those that are hard to write.
fn double() -> impl Strategy<Value = f64> {
    let specials = vec![
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        f64::MIN_POSITIVE,
        f64::MAX,
        5e-324,
        9_007_199_254_740_993.0,
    ];
    prop_oneof![any::<u64>().prop_map(f64::from_bits), -1000.0..1000.0, select(specials)]
}

fn single() -> impl Strategy<Value = f32> {
    let specials = vec![-0.0, f32::INFINITY, f32::NAN, -f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1e-45, 16_777_217.0];
    prop_oneof![any::<u32>().prop_map(f32::from_bits), -10.0f32..10.0, select(specials)]
}

fn matrices<T: Scalar>(value: impl Strategy<Value = T>) -> impl Strategy<Value = CooMatrix<T>> {
    vec((0u32..40, 0u32..60, value), 0..200).prop_map(|entries| coo(40, 60, &entries))
}

/// Sizes, places and bits, but for the payload of a NaN, of which only the sign is kept.
fn bits<T: Scalar>(matrix: &CooMatrix<T>) -> (usize, usize, Vec<(usize, usize, u64)>) {
    let bits = |value: T| match value.to_f64() {
        value if value.is_nan() => f64::NAN.copysign(value).to_bits(),
        value => value.to_bits(),
    };
    let entries = matrix.triplets().map(|(row, column, value)| (row, column, bits(value)));
    (matrix.nrows(), matrix.ncols(), entries.collect())
}

/// The significant digits in a number's text.
fn digits(text: &str) -> usize {
    let mantissa = text.split('e').next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

#[test]
fn every_bit_of_an_f64_is_read_back() {
    properties::check("io_write_f64", 200, matrices(double()), |matrix| {
        let path = scratch("bits64.mtx");
        matrix.write_matrix_market(&path).unwrap();
        prop_assert_eq!(bits(&CooMatrix::<f64>::read_matrix_market(&path).unwrap()), bits(&matrix));
        let text = fs::read_to_string(&path).unwrap();
        for (line, value) in text.lines().skip(2).zip(matrix.values()) {
            let written = line.rsplit(' ').next().unwrap();
            prop_assert_eq!(digits(written), digits(&format!("{value:e}")), "{}", written);
        }
        Ok(())
    });
}

#[test]
fn every_bit_of_an_f32_is_read_back() {
    properties::check("io_write_f32", 200, matrices(single()), |matrix| {
        let path = scratch("bits32.mtx.gz");
        matrix.write_matrix_market(&path).unwrap();
        prop_assert_eq!(bits(&CooMatrix::<f32>::read_matrix_market(&path).unwrap()), bits(&matrix));
        Ok(())
    });
}

#[test]
fn csr_matrices_are_read_back() {
    properties::check("io_write_csr", 200, strategies::csr_matrix_with_extremes::<f32>(), |matrix| {
        let path = scratch("csr.mtx");
        matrix.write_matrix_market(&path).unwrap();
        prop_assert_eq!(bits(&CooMatrix::<f32>::read_matrix_market(&path).unwrap()), bits(&CooMatrix::from(&matrix)));
        Ok(())
    });
}

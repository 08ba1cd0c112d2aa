//! The Matrix Market reader: what it accepts, what it makes of it, and that it says where a file is wrong.
#![cfg(feature = "io")]

use std::{
    cell::RefCell,
    io::{self, Read, Write},
    path::PathBuf,
};

use flate2::{Compression, write::GzEncoder};
use lzma_rust2::{XzOptions, XzWriter};
use warpsparse::{CooMatrix, CsrMatrix, Error, ErrorKind, Result, Scalar, io::MatrixMarketReader};

const REAL: &str = "%%MatrixMarket matrix coordinate real general\n";

fn read_bytes(bytes: &[u8]) -> Result<CsrMatrix<f64>> {
    MatrixMarketReader::new(bytes, "test.mtx", bytes.len() as u64).read_csr()
}

fn read(text: impl AsRef<[u8]>) -> CsrMatrix<f64> {
    read_bytes(text.as_ref()).expect("the text is well-formed")
}

fn entries<T: Scalar>(matrix: &CsrMatrix<T>) -> Vec<(usize, usize, T)> {
    matrix.triplets().collect()
}

/// Asserts that `text` is refused at `line` with exactly this problem.
#[track_caller]
fn refused(text: impl AsRef<[u8]>, line: u64, problem: &str) {
    match read_bytes(text.as_ref()) {
        Err(error @ Error::Parse { .. }) => assert_eq!(error.to_string(), format!("test.mtx:{line}: {problem}")),
        other => panic!("expected line {line} to be refused, got {other:?}"),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory suffices");
    encoder.finish().expect("memory suffices")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).expect("the preset exists");
    encoder.write_all(bytes).expect("memory suffices");
    encoder.finish().expect("memory suffices")
}

fn data(name: &str) -> PathBuf {
    let folder = std::env::var_os("WARPSPARSE_TEST_DATA").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")));
    folder.join(name)
}

#[test]
fn coordinate_real_general() {
    let a = read(format!("{REAL}3 4 4\n1 1 1.5\n3 4 -2e-3\n2 1 .25\n1 3 4.\n"));
    assert_eq!((a.nrows(), a.ncols()), (3, 4));
    assert_eq!(a.row_offsets(), [0, 2, 3, 4]);
    assert_eq!(a.col_indices(), [0, 2, 0, 3]);
    assert_eq!(a.values(), [1.5, 4.0, 0.25, -2e-3]);
}

#[test]
fn header_words_in_any_case_and_their_synonyms() {
    for header in [
        "%%matrixmarket MATRIX Coordinate REAL General",
        "%%MatrixMarket  matrix\tcoordinate double general  \r",
        "%MatrixMarket matrix coordinate integer general",
        "%%MatrixMarket matrix coordinate unsigned-integer general",
    ] {
        assert_eq!(entries(&read(format!("{header}\n1 1 1\n1 1 7\n"))), [(0, 0, 7.0)]);
    }
}

#[test]
fn comments_blank_lines_and_white_space_anywhere() {
    let text = "%%MatrixMarket matrix coordinate real general\r\n% a\n\n \t\r\n  % b\r\n\t2 \t2  2 \r\n%\n\n \
                1\t2   3 \t\r\n   % c 9 9 9\n2 1 4";
    assert_eq!(entries(&read(text)), [(0, 1, 3.0), (1, 0, 4.0)]);
    assert_eq!(entries(&read(format!("{text}\n\n% end\n"))), [(0, 1, 3.0), (1, 0, 4.0)]);
}

#[test]
fn duplicates_are_summed_in_csr_and_kept_in_coo_and_zeros_are_kept_in_both() {
    let text = format!("{REAL}2 2 4\n2 2 1\n1 1 0\n2 2 2.5\n1 2 -0.0\n");
    assert_eq!(entries(&read(&text)), [(0, 0, 0.0), (0, 1, 0.0), (1, 1, 3.5)]);
    let coo: CooMatrix<f32> = MatrixMarketReader::new(text.as_bytes(), "t", 0).read_coo().unwrap();
    let expected = [(1, 1, 1.0), (0, 0, 0.0), (1, 1, 2.5), (0, 1, 0.0)];
    assert_eq!(coo.triplets().collect::<Vec<_>>(), expected);
}

#[test]
fn patterns_are_ones() {
    let a = read("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n1 1\n3 1\n2 2\n");
    assert_eq!(entries(&a), [(0, 0, 1.0), (0, 2, 1.0), (1, 1, 1.0), (2, 0, 1.0)]);
}

#[test]
fn symmetric_files_store_either_triangle() {
    let lower = "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n3 1 5\n3 2 6\n";
    let upper = "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n1 3 5\n2 3 6\n";
    let expected = [(0, 0, 1.0), (0, 2, 5.0), (1, 2, 6.0), (2, 0, 5.0), (2, 1, 6.0)];
    assert_eq!(entries(&read(lower)), expected);
    assert_eq!(entries(&read(upper)), expected);
    let skew = "%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 2\n2 1 3\n3 2 -4\n";
    let expected = [(0, 1, -3.0), (1, 0, 3.0), (1, 2, 4.0), (2, 1, -4.0)];
    assert_eq!(entries(&read(skew)), expected);
}

#[test]
fn arrays_go_down_the_columns_and_their_zeros_are_dropped() {
    let a = read("%%MatrixMarket matrix array real general\n2 3\n1\n0\n3\n4\n-0.0\n6\n");
    assert_eq!((a.nrows(), a.ncols()), (2, 3));
    assert_eq!(entries(&a), [(0, 0, 1.0), (0, 1, 3.0), (1, 1, 4.0), (1, 2, 6.0)]);
    let a = read("%%MatrixMarket matrix array integer symmetric\n3 3\n1\n2\n0\n4\n5\n6\n");
    let expected = [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 4.0), (1, 2, 5.0), (2, 1, 5.0), (2, 2, 6.0)];
    assert_eq!(entries(&a), expected);
    let a = read("%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n");
    let expected = [(0, 1, -1.0), (0, 2, -2.0), (1, 0, 1.0), (1, 2, -3.0), (2, 0, 2.0), (2, 1, 3.0)];
    assert_eq!(entries(&a), expected);
}

#[test]
fn empty_matrices() {
    for (size, rows, columns) in [("0 0 0", 0, 0), ("0 5 0", 0, 5), ("5 0 0", 5, 0), ("3 3 0", 3, 3)] {
        let a = read(format!("{REAL}{size}\n"));
        assert_eq!((a.nrows(), a.ncols(), a.nnz()), (rows, columns, 0));
    }
    for text in ["0 0", "0 7", "7 0"] {
        assert_eq!(read(format!("%%MatrixMarket matrix array real general\n{text}\n")).nnz(), 0);
    }
    let one = read("%%MatrixMarket matrix array real skew-symmetric\n1 1\n");
    assert_eq!((one.nrows(), one.nnz()), (1, 0));
}

#[test]
fn values_in_every_spelling() {
    let spellings = [
        ("1", 1.0),
        ("+1.5", 1.5),
        ("-.5", -0.5),
        ("1.5D+03", 1500.0),
        ("-2d-1", -0.2),
        ("1E5", 1e5),
        ("inf", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        ("1e400", f64::INFINITY),
        ("1e-400", 0.0),
        ("9007199254740993", 9_007_199_254_740_992.0),
        ("0.1000000000000000055511151231257827021181583404541015625", 0.1),
        ("5e-324", 5e-324),
    ];
    for (spelling, value) in spellings {
        assert_eq!(read(format!("{REAL}1 1 1\n1 1 {spelling}\n")).values(), [value], "{spelling}");
    }
    assert!(read(format!("{REAL}1 1 1\n1 1 NaN\n")).values()[0].is_nan());
    let big = "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 -123456789012345678901234567890\n";
    assert_eq!(read(big).values(), [-123_456_789_012_345_678_901_234_567_890.0]);
}

#[test]
fn f32_is_rounded_once() {
    // Just above halfway between two floats, by less than an f64 shows: through f64 it would round down.
    let text = format!("{REAL}1 1 1\n1 1 1.000000059604644775390626\n");
    let a: CsrMatrix<f32> = MatrixMarketReader::new(text.as_bytes(), "t", 0).read_csr().unwrap();
    assert_eq!(a.values(), [1.000_000_1_f32]);
    assert_eq!("1.000000059604644775390626".parse::<f64>().unwrap() as f32, 1.0);
}

#[test]
fn broken_headers() {
    refused("", 1, "the file is empty");
    let expected = "expected `%%MatrixMarket matrix LAYOUT FIELD SYMMETRY` on the first line, found";
    refused("\n", 1, &format!("{expected} ``"));
    refused("1 2 3\n", 1, &format!("{expected} `1 2 3`"));
    refused(
        "%%MatrixMarket matrix coordinate real\n",
        1,
        "expected 4 words after `%%MatrixMarket` (matrix LAYOUT FIELD SYMMETRY), found 3",
    );
    for (words, problem) in [
        ("tensor coordinate real general", "unknown object `tensor`: expected matrix"),
        ("matrix list real general", "unknown layout `list`: expected coordinate or array"),
        ("matrix array text general", "unknown field `text`: expected real, integer or pattern"),
        ("matrix array real upper", "unknown symmetry `upper`: expected general, symmetric or skew-symmetric"),
        ("matrix array pattern general", "a pattern has no values, so it can be neither array nor skew-symmetric"),
        (
            "matrix coordinate pattern skew-symmetric",
            "a pattern has no values, so it can be neither array nor skew-symmetric",
        ),
    ] {
        refused(format!("%%MatrixMarket {words}\n1 1 1\n"), 1, problem);
    }
}

#[test]
fn unsupported_kinds_are_named() {
    for (words, problem) in [
        ("matrix coordinate complex general", "complex matrices"),
        ("matrix coordinate complex hermitian", "complex matrices"),
        ("matrix coordinate real hermitian", "hermitian matrices"),
        ("vector coordinate real general", "a Matrix Market object `vector`; only `matrix` is read"),
    ] {
        let error = read_bytes(format!("%%MatrixMarket {words}\n").as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile);
        assert_eq!(error.to_string(), format!("not supported: test.mtx: {problem}"));
    }
}

#[test]
fn broken_sizes() {
    for (size, problem) in [
        ("3 3", "the number of entries is missing"),
        ("3", "the number of columns is missing"),
        ("3 3 1 1", "expected rows, columns and entries, found `1` after that"),
        ("-3 3 1", "expected the number of rows, found `-3`"),
        ("3 3.0 1", "expected the number of columns, found `3.0`"),
        ("4294967296 1 0", "4294967296 rows, and 32-bit indices reach 4294967295"),
        ("9 9 100000000000000", "100000000000000 entries, and 32-bit indices reach 4294967295"),
        ("99999999999999999999 1 0", "99999999999999999999 rows are more than 64 bits can count"),
    ] {
        refused(format!("{REAL}%\n{size}\n"), 3, problem);
    }
    refused(format!("{REAL}%\n\n"), 3, "the file ends before its size line");
    refused("%%MatrixMarket matrix coordinate real symmetric\n3 4 0\n", 2, "a symmetric matrix is square, not 3 x 4");
    refused(
        "%%MatrixMarket matrix array real general\n3 4 12\n",
        2,
        "expected rows and columns, found `12` after that",
    );
}

#[test]
fn broken_entries() {
    for (entry, problem) in [
        ("1", "the column index is missing"),
        ("1 2", "the value is missing"),
        ("1 2 3 4", "expected row, column and value, found `4` after that"),
        ("1 2 x", "expected a number, found `x`"),
        ("1 2 1e", "expected a number, found `1e`"),
        ("1 2 1.5.2", "expected a number, found `1.5.2`"),
        ("1 2 0x10", "expected a number, found `0x10`"),
        ("1 2 -", "expected a number, found `-`"),
        ("1 2 1d", "expected a number, found `1d`"),
        ("0 1 1", "row index 0, but indices count from 1"),
        ("1 000 1", "column index 0, but indices count from 1"),
        ("3 1 1", "row index 3 is beyond the matrix, which has 2 rows"),
        ("1 5 1", "column index 5 is beyond the matrix, which has 4 columns"),
        ("99999999999999999999999 1 1", "row index 99999999999999999999999 is beyond the matrix, which has 2 rows"),
        ("-1 1 1", "expected a row index, found `-1`"),
        ("1 1.0 1", "expected a column index, found `1.0`"),
        ("1 2,5 1", "expected a column index, found `2,5`"),
        ("1 2 \u{1b}[31m", "expected a number, found `\\u{1b}[31m`"),
    ] {
        refused(format!("{REAL}2 4 2\n1 1 1\n% comment\n{entry}\n"), 5, problem);
    }
    let long = "7".repeat(100) + "y";
    let shown = format!("expected a number, found `{}…`", &long[..40]);
    refused(format!("{REAL}1 1 1\n1 1 {long}\n"), 3, &shown);
    refused(
        "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n",
        3,
        "expected an integer, found `1.5`",
    );
    refused("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 +\n", 3, "expected a number, found `+`");
    refused(
        "%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1 1\n",
        3,
        "expected row and column, found `1` after that",
    );
    refused("%%MatrixMarket matrix array real general\n2 1\n1 2\n", 3, "expected one value, found `2` after that");
}

#[test]
fn wrong_numbers_of_entries() {
    refused(format!("{REAL}2 2 3\n1 1 1\n2 2 2\n"), 4, "the file ends after 2 of 3 entries");
    refused(format!("{REAL}2 2 1\n1 1 1\n\n2 2 2\n"), 5, "more than the 1 entries that the size line promises");
    // Promises that would take 64 GiB to believe.
    refused(format!("{REAL}9 9 4294967295\n1 1 1\n"), 3, "the file ends after 1 of 4294967295 entries");
    let array = "%%MatrixMarket matrix array real general\n";
    refused(format!("{array}2 2\n1\n2\n3\n"), 5, "the file ends after 3 of 4 entries");
    refused(format!("{array}1 1\n1\n2\n"), 4, "more than the 1 values that the matrix has");
    refused(format!("{array}0 3\n2\n"), 3, "more than the 0 values that the matrix has");
    let vast = "the file ends after 1 of 18446744065119617025 entries";
    refused(format!("{array}4294967295 4294967295\n1\n"), 3, vast);
}

#[test]
fn broken_symmetry() {
    refused(
        "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n2 1 1\n2 2 1\n1 3 1\n",
        5,
        "row 1, column 3 lies across the diagonal from entries above: a symmetric file stores one triangle",
    );
    refused(
        "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 0\n",
        3,
        "a skew-symmetric matrix stores nothing on its diagonal",
    );
}

#[test]
fn many_nearly_empty_rows_are_read_as_coo_only() {
    let text = format!("{REAL}4000000000 4000000000 1\n3999999999 4000000000 2\n");
    let coo: CooMatrix<f64> = MatrixMarketReader::new(text.as_bytes(), "t", 0).read_coo().unwrap();
    let expected = [(3_999_999_998, 3_999_999_999, 2.0)];
    assert_eq!(coo.triplets().collect::<Vec<_>>(), expected);
    let error = read_bytes(text.as_bytes()).unwrap_err().to_string();
    let expected = "not supported: test.mtx: 1 entries in 4000000000 rows, nearly all empty, as a CSR matrix; a COO \
                    matrix can hold them";
    assert_eq!(error, expected);
}

#[test]
fn overlong_lines_are_refused() {
    let blanks = " ".repeat(1 << 20);
    let problem = "the line is longer than 1048576 bytes";
    refused(format!("{REAL}1 1 1\n1 1{blanks}1\n"), 3, problem);
    refused(gzip(format!("{REAL}%{blanks}").as_bytes()), 2, problem);
}

/// A matrix that takes several blocks of text, and the entries that it holds.
fn long_text() -> (String, Vec<(usize, usize, f64)>) {
    let all = (0..200_000usize).map(|k| (k / 4, k % 4 * 1000 + k % 7, k as f64 / 8.0));
    let all: Vec<_> = all.collect();
    let mut text = format!("{REAL}50000 4000 200000\n");
    for (row, column, value) in &all {
        text += &format!("{} {} {value}\n", row + 1, column + 1);
    }
    (text, all)
}

#[test]
fn gzip_and_xz_are_recognised_by_their_content_with_any_number_of_members() {
    let (text, expected) = long_text();
    for compress in [gzip, xz] {
        assert_eq!(entries(&read(compress(text.as_bytes()))), expected);
        let members: Vec<_> = text.as_bytes().chunks(700_001).flat_map(compress).collect();
        assert_eq!(entries(&read(members)), expected);
    }
}

#[test]
fn broken_gzip_is_refused_with_the_line_it_breaks_in() {
    let (text, _) = long_text();
    let whole = gzip(text.as_bytes());
    let error = read_bytes(&whole[..whole.len() / 2]).unwrap_err();
    let Error::Parse { line, problem, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(problem, "the gzip data is cut off in this line");
    assert!((50_000..150_000).contains(&line), "{line}");

    refused(&whole[..whole.len() - 4], 200_003, "the gzip data is cut off in this line");
    let mut flipped = whole.clone();
    let checksum = whole.len() - 8;
    flipped[checksum] ^= 1;
    let error = read_bytes(&flipped).unwrap_err().to_string();
    assert!(error.starts_with("test.mtx:200003: the gzip data is broken in this line: "), "{error}");
    refused(&whole[..2], 1, "the gzip data is cut off in this line");
}

#[test]
fn broken_xz_is_refused_with_the_line_before_which_all_is_read() {
    let (text, _) = long_text();
    let whole = xz(text.as_bytes());
    let refused_in = |bytes: &[u8]| match read_bytes(bytes) {
        Err(Error::Parse { line, problem, .. }) => (line, problem),
        other => panic!("{other:?}"),
    };
    let (line, problem) = refused_in(&whole[..whole.len() / 2]);
    assert_eq!(problem, "the xz data is cut off in this line or after it");
    assert!((10_000..150_000).contains(&line), "{line}");
    refused(&whole[..whole.len() - 4], 200_003, "the xz data is cut off in this line or after it");

    for at in (6..whole.len()).step_by(whole.len() / 50) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        let (line, problem) = refused_in(&flipped);
        assert!((1..=200_003).contains(&line), "{line}");
        assert!(!problem.is_empty());
    }
}

#[test]
fn readers_that_give_one_byte_at_a_time_or_fail() {
    struct Slow<'a>(&'a [u8]);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    let text = format!("{REAL}2 2 1\n2 1 4\n");
    let (zipped, xz) = (gzip(text.as_bytes()), xz(text.as_bytes()));
    for bytes in [text.as_bytes(), &zipped, &xz] {
        let a: CsrMatrix<f64> = MatrixMarketReader::new(Slow(bytes), "t", 0).read_csr().unwrap();
        assert_eq!(entries(&a), [(1, 0, 4.0)]);
    }
    for bytes in [text.as_bytes(), &zipped[..30], &xz[..30]] {
        let error = MatrixMarketReader::new(bytes.chain(Failing), "t", 0).read_csr::<f64>().unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Io, "t: unplugged"));
    }
}

#[test]
fn files_that_cannot_be_read() {
    let error = CsrMatrix::<f32>::read_matrix_market("no/such/file.mtx").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().starts_with("no/such/file.mtx: "), "{error}");
    let error = CooMatrix::<f32>::read_matrix_market(data("")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn progress_counts_the_bytes_of_the_file() {
    let path = data("bcsstk16.mtx.xz");
    let calls = RefCell::new(Vec::new());
    let reader = MatrixMarketReader::open(&path).unwrap();
    let reader = reader.progress(|read, total| calls.borrow_mut().push((read, total)));
    assert_eq!(reader.read_csr::<f32>().unwrap().nnz(), 290_378);
    let calls = calls.take();
    assert!(calls.is_sorted());
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!(calls.last(), Some(&(size, size)));
    assert!(calls.len() <= 3, "{calls:?}");

    let bytes = xz(long_text().0.as_bytes());
    let (total, mut last) = (bytes.len() as u64, None);
    let reader = MatrixMarketReader::new(&*bytes, "t", total).progress(|read, total| last = Some((read, total)));
    assert_eq!(reader.read_csr::<f32>().unwrap().nnz(), 200_000);
    assert_eq!(last, Some((total, total)));
}

/// Expected figures from SciPy's reader.
#[test]
fn real_files() {
    for (name, rows, nnz, longest, shortest, sum) in [
        ("bcsstk16.mtx.xz", 4884, 290_378, 81, 1, 286_075_903_727.538_7),
        ("dwt_992.mtx.xz", 992, 16_744, 18, 8, 16_744.0),
        ("cora.mtx.gz", 2708, 13_264, 169, 2, 13_264.0),
    ] {
        let a = CsrMatrix::<f64>::read_matrix_market(data(name)).unwrap();
        assert_eq!((a.nrows(), a.ncols(), a.nnz()), (rows, rows, nnz), "{name}");
        let lengths = || (0..rows).map(|row| a.row_range(row).len());
        assert_eq!((lengths().max(), lengths().min()), (Some(longest), Some(shortest)), "{name}");
        let total: f64 = a.values().iter().sum();
        assert!((total - sum).abs() <= 1e-9 * sum, "{name}: {total}");
        let mut transposed: Vec<_> = a.triplets().map(|(row, column, value)| (column, row, value)).collect();
        transposed.sort_by_key(|&(row, column, _)| (row, column));
        assert_eq!(entries(&a), transposed, "{name} is symmetric");
    }
    let a = CsrMatrix::<f64>::read_matrix_market(data("bcsstk16.mtx.xz")).unwrap();
    assert_eq!(a.col_indices()[..8], [0, 1, 3, 4, 6, 7, 111, 112]);
    assert_eq!(a.values()[..2], [285_559_874.919_5, 26_666_666.662_28]);
    assert_eq!(entries(&a).last(), Some(&(4883, 4883, 1.0)));
    let row_111 = a.row_range(111).start;
    assert_eq!((a.col_indices()[row_111], a.values()[row_111]), (0, 45_108_925.892_56));
}

//! The files that fuzzing of the Matrix Market reader begins with, and what becomes of each: see docs/fuzzing.md.
#![cfg(feature = "io")]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::PathBuf,
};

use warpsparse::{CooMatrix, CsrMatrix, ErrorKind};

fn folder() -> PathBuf {
    let data = std::env::var_os("WARPSPARSE_TEST_DATA").map(PathBuf::from);
    data.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))).join("corpus")
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Rows, columns, and entries in the file's order.
type Matrix = (usize, usize, &'static [(usize, usize, f64)]);

/// Files that are read, and the matrices in them.
const READ: [(&str, Matrix); 35] = [
    ("array-integer-symmetric.mtx", (2, 2, &[(0, 0, 1.0), (1, 0, 2.0), (0, 1, 2.0), (1, 1, 3.0)])),
    ("array-no-columns.mtx", (7, 0, &[])),
    ("array-real-general.mtx", (2, 3, &[(0, 0, 1.0), (0, 1, 3.0), (1, 1, 4.0), (1, 2, 6.0)])),
    (
        "array-real-skew-symmetric.mtx",
        (3, 3, &[(1, 0, 1.0), (0, 1, -1.0), (2, 0, 2.0), (0, 2, -2.0), (2, 1, 3.0), (1, 2, -3.0)]),
    ),
    ("blank-line-before-sizes.mtx", (2, 2, &[(1, 1, 1.0)])),
    ("comments-everywhere.mtx", (2, 2, &[(0, 0, 1.0), (1, 1, 2.0)])),
    ("coordinate-integer-symmetric.mtx", (3, 3, &[(0, 0, 7.0), (2, 0, -5.0), (0, 2, -5.0), (2, 1, 6.0), (1, 2, 6.0)])),
    ("coordinate-pattern-symmetric.mtx", (3, 3, &[(0, 0, 1.0), (2, 0, 1.0), (0, 2, 1.0), (1, 1, 1.0)])),
    ("coordinate-real-general.mtx", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
    ("coordinate-real-skew-symmetric.mtx", (3, 3, &[(1, 0, 3.0), (0, 1, -3.0), (2, 1, -4.0), (1, 2, 4.0)])),
    ("crlf.mtx", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
    ("duplicates.mtx", (2, 2, &[(1, 1, 1.0), (0, 0, 0.0), (1, 1, 2.5)])),
    ("gzip-members.mtx.gz", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
    ("gzip-under-another-name.mtx", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
    ("gzip.mtx.gz", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
    ("header-in-any-case.mtx", (1, 1, &[(0, 0, 1.0)])),
    ("integer-beyond-64-bits.mtx", (1, 1, &[(0, 0, -1.234_567_890_123_456_8e29)])),
    ("leading-zeros.mtx", (2, 2, &[(0, 1, 7.0)])),
    ("line-long.mtx", (1, 1, &[(0, 0, 1.0 / 3.0)])),
    ("no-columns.mtx", (7, 0, &[])),
    ("no-final-newline.mtx", (1, 1, &[(0, 0, 2.0)])),
    ("no-rows-no-columns.mtx", (0, 0, &[])),
    ("no-rows.mtx", (0, 7, &[])),
    ("sizes-huge-rows.mtx", (4_294_967_295, 4_294_967_295, &[(4_294_967_294, 4_294_967_294, 1.0)])),
    ("symmetric-upper-triangle.mtx", (3, 3, &[(0, 0, 1.0), (0, 2, 5.0), (2, 0, 5.0)])),
    ("unsorted.mtx", (2, 3, &[(1, 2, 4.0), (0, 1, 2.0), (1, 0, 3.0), (0, 0, 1.0)])),
    ("values-beyond-range.mtx", (1, 4, &[(0, 0, INF), (0, 1, -INF), (0, 2, 0.0), (0, 3, 5e-324)])),
    ("values-fortran.mtx", (1, 4, &[(0, 0, 1500.0), (0, 1, -0.2), (0, 2, 1.0), (0, 3, 5.0)])),
    ("values-infinite.mtx", (1, 4, &[(0, 0, INF), (0, 1, -INF), (0, 2, INF), (0, 3, INF)])),
    ("values-many-digits.mtx", (1, 2, &[(0, 0, 0.1), (0, 1, 9_007_199_254_740_992.0)])),
    ("values-nan.mtx", (1, 3, &[(0, 0, NAN), (0, 1, NAN), (0, 2, NAN)])),
    ("values-rounded-once.mtx", (1, 1, &[(0, 0, 1.000_000_059_604_644_8)])),
    ("xz-streams.mtx.xz", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
    ("xz-under-another-name.mtx", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
    ("xz.mtx.xz", (3, 4, &[(0, 0, 1.5), (2, 3, -0.002), (1, 0, 0.25), (0, 2, 4.0)])),
];

/// Files that are refused, and how the error's text begins behind the folder, the name and a colon.
const REFUSED: [(&str, &str); 49] = [
    ("array-pattern.mtx", "1: a pattern has no values, so it can be neither array nor skew-symmetric"),
    ("comments-without-end.mtx", "41: the file ends before its size line"),
    ("complex.mtx", "not supported: complex.mtx: complex matrices"),
    ("empty.mtx", "1: the file is empty"),
    ("entries-too-few.mtx", "4: the file ends after 2 of 3 entries"),
    ("entries-too-many.mtx", "5: more than the 1 entries that the size line promises"),
    ("entry-in-an-empty-matrix.mtx", "3: row index 1 is beyond the matrix, which has 0 rows"),
    ("entry-of-four-fields.mtx", "3: expected row, column and value, found `1` after that"),
    ("gzip-cut-off.mtx.gz", "5: the gzip data is cut off in this line"),
    ("gzip-header-only.mtx.gz", "1: the gzip data is cut off in this line"),
    ("gzip-magic-only.mtx.gz", "1: the gzip data is cut off in this line"),
    ("gzip-trailing-text.mtx.gz", "7: the gzip data is broken in this line: "),
    ("gzip-wrong-checksum.mtx.gz", "7: the gzip data is broken in this line: "),
    ("header-only.mtx", "1: the file ends before its size line"),
    ("header-short.mtx", "1: expected 4 words after `%%MatrixMarket` (matrix LAYOUT FIELD SYMMETRY), found 3"),
    ("hermitian.mtx", "not supported: hermitian.mtx: complex matrices"),
    ("index-beyond-64-bits.mtx", "3: row index 18446744073709551617 is beyond the matrix, which has 2 rows"),
    ("index-column-out-of-range.mtx", "3: column index 3 is beyond the matrix, which has 2 columns"),
    ("index-negative.mtx", "3: expected a column index, found `-1`"),
    ("index-not-an-integer.mtx", "3: expected a row index, found `1.5`"),
    ("index-row-out-of-range.mtx", "4: row index 3 is beyond the matrix, which has 2 rows"),
    ("index-zero.mtx", "3: row index 0, but indices count from 1"),
    ("sizes-beyond-32-bits.mtx", "2: 4294967296 rows, and 32-bit indices reach 4294967295"),
    ("sizes-beyond-64-bits.mtx", "2: 99999999999999999999 rows are more than 64 bits can count"),
    ("sizes-entries-beyond-32-bits.mtx", "2: 100000000000000 entries, and 32-bit indices reach 4294967295"),
    ("sizes-huge-entries.mtx", "3: the file ends after 1 of 4294967295 entries"),
    ("sizes-negative.mtx", "2: expected the number of rows, found `-3`"),
    ("sizes-not-integers.mtx", "2: expected the number of columns, found `3.0`"),
    ("sizes-not-square.mtx", "2: a symmetric matrix is square, not 3 x 4"),
    ("sizes-product-overflows-symmetric.mtx", "3: the file ends after 1 of 9223372034707292160 entries"),
    ("sizes-product-overflows.mtx", "3: the file ends after 1 of 18446744065119617025 entries"),
    ("sizes-too-few.mtx", "2: the number of entries is missing"),
    ("sizes-too-many.mtx", "2: expected rows, columns and entries, found `1` after that"),
    ("skew-symmetric-diagonal.mtx", "3: a skew-symmetric matrix stores nothing on its diagonal"),
    (
        "symmetric-both-triangles.mtx",
        "5: row 1, column 3 lies across the diagonal from entries above: a symmetric file stores one triangle",
    ),
    ("value-cut-off.mtx", "3: expected a number, found `1e`"),
    ("value-in-a-pattern.mtx", "3: expected row and column, found `1` after that"),
    ("value-missing.mtx", "3: the value is missing"),
    ("value-no-integer.mtx", "3: expected an integer, found `1.5`"),
    ("value-not-a-number.mtx", "3: expected a number, found `0x10`"),
    ("value-zero-byte.mtx", "3: expected a number, found `1\\02`"),
    ("vector.mtx", "not supported: vector.mtx: a Matrix Market object `vector`; only `matrix` is read"),
    ("xz-cut-off.mtx.xz", "1: the xz data is cut off in this line or after it"),
    ("xz-dictionary-of-4-gib.mtx.xz", "1: the xz data takes too much memory: 128 MiB are the limit"),
    ("xz-footer-missing.mtx.xz", "7: the xz data is cut off in this line or after it"),
    ("xz-header-only.mtx.xz", "1: the xz data is cut off in this line or after it"),
    ("xz-magic-only.mtx.xz", "1: the xz data is cut off in this line or after it"),
    ("xz-trailing-text.mtx.xz", "7: the xz data is broken in this line or after it: "),
    ("xz-wrong-checksum.mtx.xz", "7: the xz data is broken in this line or after it: "),
];

/// Files that are refused because their first line is no header, and how that line begins in the error.
const NO_HEADER: [(&str, &str); 8] = [
    ("binary.mtx", "\\0\\u{1}\\u{2}\\u{3}\\u{4}\\u{5}\\u{6}\\u{7}\\u{8}"),
    ("byte-order-mark.mtx", "\\u{feff}%%MatrixMarket matrix coordinate real…"),
    ("gzip-twice.mtx.gz", "\\u{1f}"),
    ("header-missing.mtx", "3 4 1"),
    ("newline-only.mtx", "`"),
    ("utf-16-without-mark.mtx", "%\\0%\\0M\\0a\\0t\\0"),
    ("utf-16.mtx", "\u{fffd}\u{fffd}%\\0%\\0M\\0a\\0t\\0"),
    ("xz-twice.mtx.xz", "\u{fffd}7zXZ\\0"),
];

#[test]
fn every_file_is_read_or_refused_as_expected() {
    for (name, expected) in READ {
        let coo = CooMatrix::<f64>::read_matrix_market(folder().join(name)).expect(name);
        // As text, NaN is equal to NaN, and 0 is not -0.
        let found = (coo.nrows(), coo.ncols(), &*coo.triplets().collect::<Vec<_>>());
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name}");
    }
    for (name, expected) in REFUSED {
        let error = error(name);
        assert!(error.starts_with(expected), "{name}: {error}");
    }
    for (name, line) in NO_HEADER {
        let expected = "1: expected `%%MatrixMarket matrix LAYOUT FIELD SYMMETRY` on the first line, found `";
        let error = error(name);
        assert!(error.starts_with(&format!("{expected}{line}")), "{name}: {error}");
    }
}

/// The error for a file, without the folder, and without the name where that comes first.
fn error(name: &str) -> String {
    let path = folder().join(name);
    let error = CooMatrix::<f64>::read_matrix_market(&path).expect_err(name).to_string();
    let error = error.replace(&path.display().to_string(), name);
    match error.strip_prefix(name).and_then(|error| error.strip_prefix(':')) {
        Some(error) => error.to_owned(),
        None => error,
    }
}

#[test]
fn as_csr_duplicates_are_summed_and_many_empty_rows_refused() {
    for (name, (nrows, ncols, entries)) in READ {
        let csr = CsrMatrix::<f64>::read_matrix_market(folder().join(name));
        if nrows > 1 << 24 {
            let error = csr.expect_err(name);
            assert_eq!(error.kind(), ErrorKind::InvalidFile);
            assert!(error.to_string().contains("1 entries in 4294967295 rows, nearly all empty"), "{error}");
            continue;
        }
        let csr = csr.expect(name);
        let mut sums = BTreeMap::new();
        for &(i, j, value) in entries {
            sums.entry((i, j)).and_modify(|sum| *sum += value).or_insert(value);
        }
        let expected: Vec<_> = sums.into_iter().map(|((i, j), sum)| (i, j, sum)).collect();
        assert_eq!((csr.nrows(), csr.ncols()), (nrows, ncols), "{name}");
        assert_eq!(format!("{:?}", csr.triplets().collect::<Vec<_>>()), format!("{expected:?}"), "{name}");
    }
}

#[test]
fn every_file_of_the_folder_is_expected() {
    let files = fs::read_dir(folder()).expect("the folder is there");
    let found: BTreeSet<_> = files.map(|file| file.expect("it can be listed").file_name()).collect();
    let read = READ.iter().map(|&(name, _)| name);
    let refused = REFUSED.iter().chain(&NO_HEADER).map(|&(name, _)| name);
    assert_eq!(found, read.chain(refused).map(OsString::from).collect());
}

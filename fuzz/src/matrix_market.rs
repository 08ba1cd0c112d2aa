//! The Matrix Market reader on any bytes: plain, compressed, and in small pieces.
//!
//! What is refused is refused alike in all three. What is read is what a plain reader of well-formed files finds, and
//! reads back to the same bits once it is written. Memory stays within a small multiple of the text.

use std::{
    fs,
    io::{Read, Write},
    path::PathBuf,
    process,
};

use flate2::{Compression, write::GzEncoder};
use warpsparse::{CooMatrix, CsrMatrix, Error, Result, Scalar, io::MatrixMarketReader};

use crate::{Entry, allocations, bits, sums};

/// What the reader takes whatever the input: its buffers, and the state of zlib or LZMA.
const BUFFERS: usize = 4 << 20;

/// Bytes of memory for a byte of text: a line of 2 bytes may be an entry and its mirror image of 16 bytes each, in arrays
/// that are at most half empty.
const MEMORY_PER_BYTE: usize = 32;

/// What gzip makes of a byte at most, and xz.
const INFLATION: (usize, usize) = (1032, 8192);

/// CSR matrices have an offset for each row, so that more rows are read as COO only.
const MAX_ROWS: usize = 1 << 12;

/// Panics unless the reader does what it promises.
pub fn check(bytes: &[u8]) {
    let wide = read::<f64>(bytes, bytes, bytes.len());
    let narrow = read::<f32>(bytes, bytes, bytes.len());
    if !is_gzip(bytes) && !is_xz(bytes) {
        let zipped = gzip(bytes);
        let in_pieces = Pieces { bytes: &zipped, next: 1 };
        same(&wide, &read::<f64>(bytes, in_pieces, zipped.len()));
        same(&narrow, &read::<f32>(bytes, Pieces { bytes, next: 1 }, 0));
    }
    match (wide, narrow) {
        (Ok(wide), Ok(narrow)) => {
            if !is_gzip(bytes) && !is_xz(bytes) {
                assert_eq!(bits(wide.triplets()), bits(plain_entries::<f64>(bytes)));
                assert_eq!(bits(narrow.triplets()), bits(plain_entries::<f32>(bytes)));
            }
            survives(&wide);
            survives(&narrow);
        }
        (Err(wide), Err(narrow)) => {
            assert_eq!(wide.to_string(), narrow.to_string());
            assert!(matches!(wide, Error::Parse { line: 1.., .. } | Error::UnsupportedFile { .. }), "{wide:?}");
        }
        (wide, narrow) => panic!("{wide:?} as f64 and {narrow:?} as f32"),
    }
}

/// Reads `input`, a form of `text`, that claims to be of this length.
fn read<T: Scalar>(text: &[u8], input: impl Read, length: usize) -> Result<CooMatrix<T>> {
    let inflation = match text {
        _ if is_gzip(text) => INFLATION.0,
        _ if is_xz(text) => INFLATION.1,
        _ => 1,
    };
    allocations::at_most(BUFFERS + MEMORY_PER_BYTE * inflation * text.len(), || {
        MatrixMarketReader::new(input, "fuzzed", length as u64).read_coo()
    })
}

fn same<T: Scalar>(a: &Result<CooMatrix<T>>, b: &Result<CooMatrix<T>>) {
    match (a, b) {
        (Ok(a), Ok(b)) => {
            assert_eq!((a.nrows(), a.ncols()), (b.nrows(), b.ncols()));
            assert_eq!(bits(a.triplets()), bits(b.triplets()));
        }
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
        _ => panic!("{a:?} and {b:?}"),
    }
}

/// A matrix that was read is valid, survives a file, and becomes the CSR matrix of its sums.
fn survives<T: Scalar>(coo: &CooMatrix<T>) {
    let (rows, columns) = (coo.row_indices().to_vec(), coo.col_indices().to_vec());
    let valid = CooMatrix::try_from_triplets(coo.nrows(), coo.ncols(), rows, columns, coo.values().to_vec());
    same(&valid, &Ok(coo.clone()));

    let file = File::new();
    coo.write_matrix_market(&file.0).expect("a file in memory can be written");
    same(&CooMatrix::read_matrix_market(&file.0), &valid);
    if coo.nrows() <= MAX_ROWS {
        let csr = CsrMatrix::<T>::read_matrix_market(&file.0).expect("it was read as COO");
        let entries: Vec<_> = coo.triplets().collect();
        assert_eq!(bits(csr.triplets()), bits(sums(&entries)));
    }
}

/// The entries of a file that is well-formed, by the standard library's way to split and parse text.
fn plain_entries<T: Scalar>(bytes: &[u8]) -> Vec<Entry<T>> {
    let mut lines = bytes.split(|&byte| byte == b'\n').map(String::from_utf8_lossy);
    let header = lines.next().expect("a header").to_ascii_lowercase();
    let mut lines = lines.filter(|line| !line.trim_ascii_start().starts_with('%') && !line.trim_ascii().is_empty());
    let size: Vec<usize> =
        lines.next().expect("a size line").split_ascii_whitespace().map(|size| size.parse().expect("a size")).collect();
    let mirrored = !header.contains("general");
    let sign = if header.contains("skew") { -1.0 } else { 1.0 };
    let value = |text: &str| {
        // Of the words for values, none has a d.
        text.to_ascii_lowercase().replace('d', "e").parse::<T>().ok().expect("a number")
    };
    let mut entries = Vec::new();
    let mut push = |i, j, value| {
        entries.push((i, j, value));
        if mirrored && i != j {
            entries.push((j, i, T::from_f64(sign) * value));
        }
    };
    if header.contains("coordinate") {
        for line in lines {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            let index = |field: &str| field.parse::<usize>().expect("an index") - 1;
            push(index(fields[0]), index(fields[1]), fields.get(2).map_or(T::from_f64(1.0), |field| value(field)));
        }
    } else {
        let first_row = |j| if !mirrored { 0 } else { j + usize::from(sign < 0.0) };
        let places = (0..size[1]).flat_map(|j| (first_row(j)..size[0]).map(move |i| (i, j)));
        for (line, (i, j)) in lines.zip(places) {
            let value = value(line.trim_ascii());
            if value != T::default() {
                push(i, j, value);
            }
        }
    }
    entries
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

fn is_xz(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xfd7zXZ\0")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory suffices");
    encoder.finish().expect("memory suffices")
}

/// Gives 1 byte, then 2, 3, up to 7, and 1 again.
struct Pieces<'a> {
    bytes: &'a [u8],
    next: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.next);
        self.next = self.next % 7 + 1;
        self.bytes.read(&mut buffer[..length])
    }
}

/// A file in memory.
struct File(PathBuf);

impl File {
    fn new() -> Self {
        Self(PathBuf::from(format!("/dev/shm/warpsparse-fuzz-{}.mtx", process::id())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Not there, if it could not be written.
        let _ = fs::remove_file(&self.0);
    }
}

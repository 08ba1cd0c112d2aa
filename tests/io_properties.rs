//! Properties of the Matrix Market reader over random matrices and random bytes.
#![cfg(feature = "io")]

#[path = "common/properties.rs"]
mod properties;

use std::{
    fmt::Write as _,
    io::{Read, Write},
};

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use lzma_rust2::{XzOptions, XzReader, XzWriter};
use proptest::{collection::vec, prelude::*};
use warpsparse::{CooMatrix, CsrMatrix, Error, io::MatrixMarketReader};

fn read<'a>(bytes: &'a [u8]) -> MatrixMarketReader<'a> {
    MatrixMarketReader::new(bytes, "test.mtx", bytes.len() as u64)
}

type Entries = Vec<(usize, usize, f64)>;

/// Sizes, and entries with the same position allowed more than once.
fn matrices() -> impl Strategy<Value = (usize, usize, Entries)> {
    (1usize..40, 1usize..40).prop_flat_map(|(rows, columns)| {
        let entry = (0..rows, 0..columns, prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL);
        (Just(rows), Just(columns), vec(entry, 0..80))
    })
}

fn text((rows, columns, entries): &(usize, usize, Entries), newline: &str) -> String {
    let header = "%%MatrixMarket matrix coordinate real general";
    let mut text = format!("{header}{newline}{rows} {columns} {}{newline}", entries.len());
    for (row, column, value) in entries {
        write!(text, "{} {} {value:e}{newline}", row + 1, column + 1).expect("memory suffices");
    }
    text
}

#[test]
fn what_is_written_is_read() {
    properties::check("io_read", 500, (matrices(), any::<bool>()), |(matrix, crlf)| {
        let text = text(&matrix, if crlf { "\r\n" } else { "\n" });
        let coo: CooMatrix<f64> = read(text.as_bytes()).read_coo().unwrap();
        prop_assert_eq!((coo.nrows(), coo.ncols()), (matrix.0, matrix.1));
        prop_assert_eq!(coo.triplets().collect::<Vec<_>>(), matrix.2.clone());
        let single: CooMatrix<f32> = read(text.as_bytes()).read_coo().unwrap();
        let printed = matrix.2.iter().map(|(_, _, value)| format!("{value:e}").parse::<f32>().unwrap());
        prop_assert_eq!(single.values(), printed.collect::<Vec<_>>());
        Ok(())
    });
}

/// Summing duplicates into a dense array, in the file's order, is what CSR holds.
#[test]
fn csr_is_the_dense_sum() {
    properties::check("io_read_csr", 500, matrices(), |(rows, columns, entries)| {
        let csr: CsrMatrix<f64> = read(text(&(rows, columns, entries.clone()), "\n").as_bytes()).read_csr().unwrap();
        let mut dense = vec![None; rows * columns];
        for (row, column, value) in entries {
            let sum: &mut Option<f64> = &mut dense[row * columns + column];
            *sum = Some(sum.map_or(value, |sum| sum + value));
        }
        let expected = dense.iter().enumerate();
        let expected: Vec<_> = expected.filter_map(|(k, sum)| Some((k / columns, k % columns, (*sum)?))).collect();
        prop_assert_eq!(csr.triplets().collect::<Vec<_>>(), expected);
        Ok(())
    });
}

/// Well-formed files of every kind, to be damaged.
const SEEDS: [&str; 4] = [
    "%%MatrixMarket matrix coordinate real general\n% c\n4 5 4\n1 1 1.5\n2 5 -3e2\n4 4 1.5D+03\n3 2 nan\n",
    "%%MatrixMarket matrix coordinate integer skew-symmetric\r\n3 3 2\r\n2 1 12\r\n3 2 -7\r\n",
    "%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n0\n4\n5\n6\n",
    "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n1 1\n3 1\n2 2",
];

#[derive(Clone, Debug)]
enum Damage {
    Replace(u8),
    Insert(Vec<u8>),
    Remove(usize),
}

fn damages() -> impl Strategy<Value = Vec<(prop::sample::Index, Damage)>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"0123456789 \n\t\r%-+.eEdD".to_vec())];
    let damage = prop_oneof![
        byte.clone().prop_map(Damage::Replace),
        vec(byte, 1..6).prop_map(Damage::Insert),
        (1usize..20).prop_map(Damage::Remove),
    ];
    vec((any::<prop::sample::Index>(), damage), 1..5)
}

/// A damaged file is read or refused, and what refuses it names one of its lines; nothing panics.
#[test]
fn damaged_files_do_not_panic() {
    let cases = (0..SEEDS.len(), damages(), 0..3);
    properties::check("io_damaged", 5000, cases, |(seed, damages, compression)| {
        let mut bytes = SEEDS[seed].as_bytes().to_vec();
        if compression == 1 {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&bytes).unwrap();
            bytes = encoder.finish().unwrap();
        } else if compression == 2 {
            let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(0)).unwrap();
            encoder.write_all(&bytes).unwrap();
            bytes = encoder.finish().unwrap();
        }
        for (place, damage) in damages {
            let at = place.index(bytes.len() + 1);
            match damage {
                Damage::Replace(byte) => bytes.iter_mut().skip(at).take(1).for_each(|old| *old = byte),
                Damage::Insert(new) => drop(bytes.splice(at..at, new)),
                Damage::Remove(length) => drop(bytes.drain(at..(at + length).min(bytes.len()))),
            }
        }
        match read(&bytes).read_csr::<f32>() {
            Ok(matrix) => prop_assert!(matrix.row_offsets().len() == matrix.nrows() + 1),
            Err(Error::Parse { line, problem, .. }) => {
                let last = 1 + lines(&bytes[..])
                    .max(lines(MultiGzDecoder::new(&bytes[..])))
                    .max(lines(XzReader::new(&bytes[..], true)));
                prop_assert!((1..=last).contains(&line), "line {line} of {last}");
                prop_assert!(!problem.is_empty());
            }
            Err(error) => prop_assert!(matches!(error, Error::UnsupportedFile { .. }), "{error:?}"),
        }
        Ok(())
    });
}

/// The ends of lines up to the first fault. Damaged compressed data may hold many.
fn lines(mut text: impl Read) -> u64 {
    let mut read = Vec::new();
    // What comes before an error is kept.
    let _ = text.read_to_end(&mut read);
    read.iter().filter(|&&byte| byte == b'\n').count() as u64
}

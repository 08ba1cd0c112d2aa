//! DIA, ELL and HYB on the host: matrices that are refused, and padding beyond its limit.

use warpsparse::{CooMatrix, CsrMatrix, DiaMatrix, EllMatrix, Error, ErrorKind, HybMatrix, Result};

const PADDING: u32 = EllMatrix::<f64>::PADDING;

/// The text of an error that is a mistake in the call.
fn text<M: std::fmt::Debug>(result: Result<M>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    error.to_string()
}

#[test]
fn broken_ell_matrices_are_refused() {
    // 2 x 3, two slots a row, unless a test says otherwise.
    let make = |leading_dimension, columns: &[u32], values: &[f32]| {
        EllMatrix::try_from_ell_data(2, 3, 2, leading_dimension, columns.to_vec(), values.to_vec())
    };
    let problem = |leading_dimension, columns: &[u32], values: &[f32]| {
        let text = text(make(leading_dimension, columns, values));
        text.strip_prefix("invalid ELL matrix: ").expect("the prefix").to_owned()
    };
    const P: u32 = PADDING;
    let (columns, values) = ([2, 0, P, P, 2, P, P, P], [1.0f32, 2.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
    let valid = make(4, &columns, &values).unwrap();
    assert_eq!(valid.triplets().collect::<Vec<_>>(), [(0, 2, 1.0), (0, 2, 3.0), (1, 0, 2.0)]);
    assert_eq!((valid.nnz(), valid.width(), valid.leading_dimension()), (3, 2, 4));
    // SAFETY: they were just accepted.
    let unchecked = unsafe { EllMatrix::from_ell_data_unchecked(2, 3, 2, 4, columns.to_vec(), values.to_vec()) };
    assert_eq!(unchecked, valid);

    let rule = "where there must be a multiple of 4, no less than the rows";
    assert_eq!(problem(0, &[], &[]), format!("a leading dimension of 0 for 2 rows, {rule}"));
    assert_eq!(problem(6, &[P; 12], &[0.0; 12]), format!("a leading dimension of 6 for 2 rows, {rule}"));
    assert_eq!(problem(4, &columns, &values[..7]), "7 values for 2 columns of 4 slots");
    assert_eq!(problem(4, &columns[..7], &values), "7 column indices for 2 columns of 4 slots");
    assert_eq!(problem(usize::MAX - 3, &[], &[]), "0 values for 2 columns of 18446744073709551612 slots");
    let changed = |slot: usize, column, value| {
        let (mut columns, mut values) = (columns, values);
        (columns[slot], values[slot]) = (column, value);
        problem(4, &columns, &values)
    };
    assert_eq!(changed(1, 3, 1.0), "row 1, slot 0: column 3 of 3");
    assert_eq!(changed(4, P - 1, 1.0), "row 0, slot 1: column 4294967294 of 3");
    assert_eq!(changed(0, P, 0.0), "row 0, slot 1: column 2 behind padding");
    assert_eq!(changed(5, P, 7.5), "row 1, slot 1: padding of the value 7.5");
    assert_eq!(changed(5, P, -0.0), "row 1, slot 1: padding of the value -0");
    assert_eq!(changed(3, P, f32::NAN), "row 3, slot 0: padding of the value NaN");
    assert_eq!(changed(2, 0, 0.0), "row 2, slot 0: column 0, where there are only 2 rows");

    // Without slots, there is no array to be wrong.
    for (nrows, width, leading_dimension) in [(0, 0, 0), (0, usize::MAX, 0), (3, 0, 4), (0, 0, usize::MAX - 3)] {
        let matrix = EllMatrix::<f64>::try_from_ell_data(nrows, 3, width, leading_dimension, vec![], vec![]).unwrap();
        assert_eq!((matrix.nnz(), matrix.triplets().count()), (0, 0));
    }
    let padding_only = EllMatrix::try_from_ell_data(0, 0, 1, 4, vec![P; 4], vec![0.0f64; 4]).unwrap();
    assert_eq!((padding_only.nnz(), padding_only.triplets().count()), (0, 0));
}

#[test]
fn broken_dia_matrices_are_refused() {
    // 2 x 3 with a leading dimension of 4, unless a test says otherwise.
    let make = |leading_dimension, offsets: &[i64], values: &[f32]| {
        DiaMatrix::try_from_dia_data(2, 3, leading_dimension, offsets.to_vec(), values.to_vec())
    };
    let problem = |leading_dimension, offsets: &[i64], values: &[f32]| {
        let text = text(make(leading_dimension, offsets, values));
        text.strip_prefix("invalid DIA matrix: ").expect("the prefix").to_owned()
    };
    let (offsets, values) = ([-1, 0, 2], [0.0f32, 1.0, 0.0, 0.0, 2.0, -0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
    let valid = make(4, &offsets, &values).unwrap();
    assert_eq!(valid.triplets().collect::<Vec<_>>(), [(0, 0, 2.0), (0, 2, 3.0), (1, 0, 1.0), (1, 1, -0.0)]);
    assert_eq!((valid.nnz(), valid.offsets()), (4, &offsets[..]));
    // SAFETY: they were just accepted.
    let unchecked = unsafe { DiaMatrix::from_dia_data_unchecked(2, 3, 4, offsets.to_vec(), values.to_vec()) };
    assert_eq!(unchecked, valid);

    let rule = "where there must be a multiple of 4, no less than the rows";
    assert_eq!(problem(0, &[], &[]), format!("a leading dimension of 0 for 2 rows, {rule}"));
    assert_eq!(problem(5, &[0], &[0.0; 5]), format!("a leading dimension of 5 for 2 rows, {rule}"));
    assert_eq!(problem(4, &offsets, &values[..11]), "11 values for 3 diagonals of 4 slots");
    for (offset, zeros) in [(-2, 4), (3, 4), (i64::MIN, 4), (i64::MAX, 4)] {
        let expected = format!("diagonal 0 has the offset {offset}, which a 2 x 3 matrix has not");
        assert_eq!(problem(4, &[offset], &vec![0.0; zeros]), expected);
    }
    assert_eq!(problem(4, &[0, 0], &[0.0; 8]), "diagonal 1 has the offset 0, after 0");
    assert_eq!(problem(4, &[1, 2, -1], &[0.0; 12]), "diagonal 2 has the offset -1, after 2");
    let changed = |slot: usize, value| {
        let mut values = values;
        values[slot] = value;
        problem(4, &offsets, &values)
    };
    assert_eq!(changed(0, 9.0), "diagonal 0, row 0: 9 outside of a 2 x 3 matrix");
    assert_eq!(changed(9, -0.0), "diagonal 2, row 1: -0 outside of a 2 x 3 matrix");
    assert_eq!(changed(7, f32::NAN), "diagonal 1, row 3: NaN outside of a 2 x 3 matrix");
    for (nrows, ncols) in [(0, 3), (3, 0), (0, 0)] {
        let make = |offsets: Vec<i64>| {
            let values = vec![0.0f64; 4 * offsets.len()];
            DiaMatrix::try_from_dia_data(nrows, ncols, 4, offsets, values)
        };
        assert_eq!(make(vec![]).unwrap().triplets().count(), 0);
        for offset in -1..2 {
            let expected = format!("which a {nrows} x {ncols} matrix has not");
            assert!(text(make(vec![offset])).ends_with(&expected), "{offset}");
        }
    }
}

#[test]
fn broken_hyb_matrices_are_refused() {
    let csr = CsrMatrix::try_from_csr_data(2, 3, vec![0u32, 1, 1], vec![1], vec![1.0]).unwrap();
    let ell = EllMatrix::try_from(&csr).unwrap();
    let coo = |nrows, rows: &[u32]| {
        CooMatrix::try_from_triplets(nrows, 3, rows.to_vec(), vec![0; rows.len()], vec![2.0; rows.len()]).unwrap()
    };
    assert_eq!(
        text(HybMatrix::try_from_parts(ell.clone(), coo(4, &[]))),
        "invalid HYB matrix: an ELL part of 2 x 3 and a COO part of 4 x 3"
    );
    assert_eq!(
        text(HybMatrix::try_from_parts(ell.clone(), coo(2, &[0, 1, 1, 0]))),
        "invalid HYB matrix: entry 3 of the COO part is in row 0, after one in row 1"
    );
    // The ELL part need not be full where the COO part has entries.
    let hyb = HybMatrix::try_from_parts(ell, coo(2, &[0, 1, 1])).unwrap();
    let expected = [(0, 1, 1.0), (0, 0, 2.0), (1, 0, 2.0), (1, 0, 2.0)];
    assert_eq!(hyb.triplets().collect::<Vec<_>>(), expected);
    assert_eq!(CsrMatrix::<f64>::try_from(&hyb).unwrap().triplets().collect::<Vec<_>>(), expected);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn dimensions_beyond_32_bits_are_refused() {
    for (nrows, ncols, what) in [(1 << 32, 1, "rows"), (usize::MAX, 1, "rows"), (0, 1 << 32, "columns")] {
        let problem = format!("{} {what}, and 32-bit indices reach 4294967295", nrows.max(ncols));
        let ell = EllMatrix::<f64>::try_from_ell_data(nrows, ncols, 0, 0, vec![], vec![]);
        assert_eq!(text(ell), format!("invalid ELL matrix: {problem}"));
        let dia = DiaMatrix::<f64>::try_from_dia_data(nrows, ncols, 0, vec![], vec![]);
        assert_eq!(text(dia), format!("invalid DIA matrix: {problem}"));
    }
}

/// `nrows` rows, the first with `longest` entries in columns 0, 1, ..., as many as it takes to have `nnz` entries with one
/// on the main diagonal.
fn uneven(nrows: usize, longest: u32, nnz: u32) -> CsrMatrix<f64> {
    let offsets = (0..=nrows as u32).map(|i| if i == 0 { 0 } else { nnz.min(longest + i - 1) }).collect();
    let columns = (0..longest).chain(1..=nnz - longest).collect();
    CsrMatrix::try_from_csr_data(nrows, nrows.max(longest as usize), offsets, columns, vec![1.0; nnz as usize]).unwrap()
}

#[test]
fn padding_is_limited() {
    // Three slots an entry, then one entry less; the first row makes three columns, and three diagonals.
    let (fits, too_few) = (uneven(32_768, 3, 32_768), uneven(32_768, 3, 32_767));
    assert_eq!((fits.nnz(), too_few.nnz()), (32_768, 32_767));
    assert_eq!(EllMatrix::try_from(&fits).unwrap().values().len(), 98_304);
    assert_eq!(DiaMatrix::try_from(&fits).unwrap().values().len(), 98_304);
    let exceeded = "would take at least 98304 slots for 32767 entries, and the limit is 98301";
    assert_eq!(text(EllMatrix::try_from(&too_few)), format!("ELL {exceeded}"));
    assert_eq!(text(DiaMatrix::try_from(&too_few)), format!("DIA {exceeded}"));
    assert_eq!(text(HybMatrix::from_csr_with_width(&too_few, usize::MAX)), format!("HYB {exceeded}"));
    assert_eq!(HybMatrix::from_csr_with_width(&too_few, 2).unwrap().ell().width(), 2);
    assert_eq!(HybMatrix::try_from(&too_few).unwrap().ell().width(), 1);

    // By another limit.
    assert_eq!(EllMatrix::from_csr_with_fill(&too_few, 3.1).unwrap().width(), 3);
    assert_eq!(DiaMatrix::from_csr_with_fill(&too_few, 3.1).unwrap().offsets(), [0, 1, 2]);
    let exceeded = "would take at least 98304 slots for 32768 entries, and the limit is 81920";
    assert_eq!(text(EllMatrix::from_csr_with_fill(&fits, 2.5)), format!("ELL {exceeded}"));
    assert_eq!(text(DiaMatrix::from_csr_with_fill(&fits, 2.5)), format!("DIA {exceeded}"));
    for (fill, name) in [(f64::NAN, "NaN"), (-1.0, "-1")] {
        let expected = format!("invalid option: {name} slots an entry, where there must be 0 or more");
        assert_eq!(text(EllMatrix::from_csr_with_fill(&fits, fill)), expected);
        assert_eq!(text(DiaMatrix::from_csr_with_fill(&fits, fill)), expected);
    }

    // ELL knows its width; the diagonals are counted as far as the limit allows.
    let long = uneven(32_768, 30_000, 30_000);
    assert_eq!(
        text(EllMatrix::try_from(&long)),
        "ELL would take at least 983040000 slots for 30000 entries, and the limit is 90000"
    );
    assert_eq!(
        text(DiaMatrix::try_from(&long)),
        "DIA would take at least 98304 slots for 30000 entries, and the limit is 90000"
    );
    assert!(matches!(
        DiaMatrix::try_from(&long),
        Err(Error::PaddingExceeded { format: "DIA", slots: 98_304, entries: 30_000, limit: 90_000 })
    ));
}

#[test]
fn small_matrices_are_padded_at_will() {
    let (fits, too_long) = (uneven(32, 2048, 2048), uneven(32, 2049, 2049));
    assert_eq!(EllMatrix::from_csr_with_fill(&fits, 0.0).unwrap().values().len(), 1 << 16);
    assert_eq!(DiaMatrix::from_csr_with_fill(&fits, 0.0).unwrap().values().len(), 1 << 16);
    let exceeded = "would take at least 65568 slots for 2049 entries, and the limit is 65536";
    assert_eq!(text(EllMatrix::try_from(&too_long)), format!("ELL {exceeded}"));
    assert_eq!(text(DiaMatrix::try_from(&too_long)), format!("DIA {exceeded}"));
}

#[test]
#[cfg(target_pointer_width = "64")]
fn memory_that_no_machine_has_is_an_error() {
    // 2^46 slots: their bytes are beyond what x86-64 and others address.
    let csr = uneven(1 << 23, 1 << 23, 1 << 23);
    let error = EllMatrix::from_csr_with_fill(&csr, f64::INFINITY).unwrap_err();
    assert_eq!(error.to_string(), "out of memory on the host: 281474976710656 bytes asked for");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}

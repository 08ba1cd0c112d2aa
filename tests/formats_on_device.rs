//! Conversions between the formats on the device: the arrays and the products are those of the conversions on the host.

mod common;

use std::process::ExitCode;

use common::{Random, matrices, on_every_device, on_gpu, properties};
use proptest::{prelude::*, test_runner::TestCaseError};
use warpsparse::{
    BlockSize, BsrMatrix, CooMatrix, CscMatrix, CsrMatrix, Device, DeviceMatrix, DiaMatrix, EllMatrix, Error, Format,
    FormatChoice, HostMatrix, HybMatrix, Result, Scalar, SpmvOptions,
};

const FORMATS: [Format; 8] = [
    Format::Csr,
    Format::Csc,
    Format::Coo,
    Format::Dia,
    Format::Ell,
    Format::Hyb,
    Format::Bsr(BlockSize::Fixed(2)),
    Format::Bsr(BlockSize::Fixed(3)),
];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    macro_rules! both {
        ($($name:ident),*) => {$(
            trials.extend(on_every_device(concat!(stringify!($name), "_f32"), $name::<f32>));
            trials.extend(on_every_device(concat!(stringify!($name), "_f64"), $name::<f64>));
        )*};
    }
    both!(hard_matrices, every_pair, special_values, sizes_around_limits, splits, uploads, wide_offsets);
    trials.extend(on_every_device("other_arrays", other_arrays));
    trials.extend(on_every_device("results_are_their_own", results_are_their_own));
    trials.extend(on_every_device("what_is_mostly_padding_is_an_error", mostly_padding));
    trials.extend(on_every_device("operands_in_any_format", operands));
    trials.push(on_gpu("nothing_is_recorded", nothing_is_recorded));
    trials.push(common::on_device("formats_properties::emulated".into(), random_cases, || Device::emulated(3)));
    common::run(trials)
}

/// The arrays of a matrix, for a comparison bit by bit: format, sizes, indices, values.
type Arrays = (&'static str, Vec<i64>, Vec<Vec<u32>>, Vec<u64>);

fn arrays<T: Scalar>(matrix: &HostMatrix<T>) -> Arrays {
    let bits = |values: &[T]| values.iter().map(|value| value.to_f64().to_bits()).collect::<Vec<_>>();
    let narrow = |offsets: &[u64]| offsets.iter().map(|&offset| offset as u32).collect::<Vec<_>>();
    let mut sizes = vec![matrix.nrows() as i64, matrix.ncols() as i64, matrix.nnz() as i64];
    match matrix {
        HostMatrix::Csr(a) => {
            ("CSR", sizes, vec![a.row_offsets().to_vec(), a.col_indices().to_vec()], bits(a.values()))
        }
        HostMatrix::Csr64(a) => {
            ("CSR64", sizes, vec![narrow(a.row_offsets()), a.col_indices().to_vec()], bits(a.values()))
        }
        HostMatrix::Csc(a) => {
            ("CSC", sizes, vec![a.col_offsets().to_vec(), a.row_indices().to_vec()], bits(a.values()))
        }
        HostMatrix::Csc64(a) => {
            ("CSC64", sizes, vec![narrow(a.col_offsets()), a.row_indices().to_vec()], bits(a.values()))
        }
        HostMatrix::Coo(a) => {
            ("COO", sizes, vec![a.row_indices().to_vec(), a.col_indices().to_vec()], bits(a.values()))
        }
        HostMatrix::Dia(a) => {
            sizes.push(a.leading_dimension() as i64);
            sizes.extend(a.offsets());
            ("DIA", sizes, vec![], bits(a.values()))
        }
        HostMatrix::Ell(a) => {
            sizes.extend([a.width() as i64, a.leading_dimension() as i64]);
            ("ELL", sizes, vec![a.col_indices().to_vec()], bits(a.values()))
        }
        HostMatrix::Hyb(a) => {
            let (ell, coo) = (a.ell(), a.coo());
            sizes.extend([ell.width() as i64, ell.leading_dimension() as i64, ell.nnz() as i64]);
            let indices = vec![ell.col_indices().to_vec(), coo.row_indices().to_vec(), coo.col_indices().to_vec()];
            ("HYB", sizes, indices, [bits(ell.values()), bits(coo.values())].concat())
        }
        HostMatrix::Bsr(a) => {
            sizes.push(a.block_size() as i64);
            ("BSR", sizes, vec![a.block_row_offsets().to_vec(), a.block_col_indices().to_vec()], bits(a.values()))
        }
        _ => unreachable!("a format that is not tested"),
    }
}

/// The conversion on the host, by way of CSR.
fn on_host<T: Scalar>(matrix: HostMatrix<T>, format: Format) -> Result<HostMatrix<T>> {
    let csr = matrix.into_csr()?;
    Ok(match format {
        Format::Csr => HostMatrix::Csr(csr),
        Format::Csc => HostMatrix::Csc(CscMatrix::try_from(&csr)?),
        Format::Coo => HostMatrix::Coo(CooMatrix::from(&csr)),
        Format::Dia => HostMatrix::Dia(DiaMatrix::try_from(&csr)?),
        Format::Ell => HostMatrix::Ell(EllMatrix::try_from(&csr)?),
        Format::Hyb => HostMatrix::Hyb(HybMatrix::try_from(&csr)?),
        Format::Bsr(size) => HostMatrix::Bsr(BsrMatrix::from_csr(&csr, size)?),
        _ => unreachable!("a format that is not tested"),
    })
}

/// The bits of the product that the format has.
fn product<T: Scalar>(matrix: &DeviceMatrix<T>, format: Format) -> Vec<u64> {
    let (mut random, device) = (Random(5), matrix.device());
    let (to, from) = match format {
        Format::Csc => (matrix.ncols(), matrix.nrows()),
        _ => (matrix.nrows(), matrix.ncols()),
    };
    let x = device.upload_vec(&random.vector::<T>(from)).unwrap();
    let mut y = device.upload_vec(&random.vector::<T>(to)).unwrap();
    let (two, half) = (T::from_f64(2.0), T::from_f64(0.5));
    match format {
        Format::Csc => matrix.spmv_transposed(two, &x, half, &mut y).unwrap(),
        _ => matrix.spmv(two, &x, half, &mut y).unwrap(),
    }
    y.to_vec().unwrap().iter().map(|value| value.to_f64().to_bits()).collect()
}

/// Converts on the device and on the host: the same arrays, sizes, kernels and products, or the same error. What there is then, on the device.
#[track_caller]
fn check<T: Scalar>(
    case: &str,
    a: &DeviceMatrix<T>,
    host: &HostMatrix<T>,
    format: Format,
) -> Option<(DeviceMatrix<T>, HostMatrix<T>)> {
    let expected = match on_host(host.clone(), format) {
        Ok(expected) => expected,
        Err(error) => {
            let found = a.convert(format).expect_err("the host refuses it").to_string();
            assert_eq!(found, error.to_string(), "{case}, to {format:?}");
            return None;
        }
    };
    let found = a.convert(format).unwrap_or_else(|error| panic!("{case}, to {format:?}: {error}"));
    assert!(arrays(&found.download().unwrap()) == arrays(&expected), "{case}, to {format:?}: other arrays");
    let uploaded = a.device().upload(&expected).unwrap();
    assert_eq!(found.nnz(), expected.nnz(), "{case}, to {format:?}");
    assert_eq!(found.describe(), uploaded.describe(), "{case}, to {format:?}");
    assert_eq!(found.spmv_bytes(), uploaded.spmv_bytes(), "{case}, to {format:?}");
    assert!(product(&found, format) == product(&uploaded, format), "{case}, to {format:?}: another product");
    Some((found, expected))
}

/// From CSR to each format, and back.
#[track_caller]
fn check_matrix<T: Scalar>(case: &str, device: &Device, matrix: &CsrMatrix<T>) {
    let a = device.upload(matrix).unwrap();
    for format in FORMATS {
        if let Some((there, host)) = check(case, &a, &HostMatrix::Csr(matrix.clone()), format) {
            check(&format!("{case}, from {format:?}"), &there, &host, Format::Csr);
        }
    }
}

fn hard_matrices<T: Scalar>(device: &Device) {
    for (name, matrix) in matrices::all::<T>() {
        check_matrix(name, device, &matrix);
    }
}

fn of_f64<T: Scalar>(matrix: &CsrMatrix<f64>) -> CsrMatrix<T> {
    let mut rows = vec![vec![]; matrix.nrows()];
    matrix.triplets().for_each(|(row, column, value)| rows[row].push((column, value)));
    matrices::from_rows(matrix.ncols(), rows)
}

/// Uploads in each format, and converts to each.
fn every_pair<T: Scalar>(device: &Device) {
    let band = (0..70).map(|i: usize| (i.saturating_sub(2)..(i + 3).min(50)).map(|j| (j, i as f64 - 20.5)).collect());
    let shuffled = (0..33).map(|i| vec![(30 - i % 7, 1.5), (i % 5, i as f64 + 0.25), (30 - i % 7, 0.75)]);
    for (name, matrix) in [
        ("stencil", of_f64(&matrices::stencil(7))),
        ("band", matrices::from_rows(50, band.collect())),
        ("duplicates, falling columns", matrices::from_rows(31, shuffled.collect())),
        ("uneven", matrices::uneven()),
        ("no entries", matrices::from_rows(3, vec![vec![]; 4])),
        ("no rows", matrices::from_rows(3, vec![])),
        ("no columns", matrices::from_rows(0, vec![vec![]; 4])),
    ] {
        for from in FORMATS {
            let host = on_host(HostMatrix::Csr(matrix.clone()), from).unwrap();
            let a = device.upload::<HostMatrix<T>>(&host).unwrap();
            for to in FORMATS {
                check(&format!("{name}, from {from:?}"), &a, &host, to);
            }
        }
    }
}

/// Zeros of both signs, alone and as sums; NaN and infinities.
fn special_values<T: Scalar>(device: &Device) {
    let rows = vec![
        vec![(0, 0.0), (1, -0.0), (2, 3.0)],
        vec![(1, 0.0), (1, -0.0), (0, -0.0), (0, -0.0)],
        vec![(2, 1.0), (2, -1.0), (0, f64::INFINITY), (1, f64::NEG_INFINITY)],
        vec![(0, f64::NAN), (2, f64::INFINITY), (2, f64::NEG_INFINITY)],
        vec![(1, 1e30), (1, 1.0), (1, -1e30), (1, 0.5)],
    ];
    let matrix = matrices::from_rows::<T>(3, rows);
    let a = device.upload(&matrix).unwrap();
    for format in FORMATS {
        let expected = on_host(HostMatrix::Csr(matrix.clone()), format).unwrap();
        // Sums that are NaN may have another sign.
        let plain = |host: &HostMatrix<T>| {
            let (name, sizes, indices, values) = arrays(host);
            let values = values.into_iter().map(|bits| if f64::from_bits(bits).is_nan() { 1 } else { bits });
            (name, sizes, indices, values.collect::<Vec<_>>())
        };
        let found = a.convert(format).unwrap();
        assert_eq!(plain(&found.download().unwrap()), plain(&expected));
        let back = found.convert(Format::Csr).unwrap().download().unwrap();
        assert_eq!(plain(&back), plain(&on_host(expected, Format::Csr).unwrap()));
    }
    let dia = a.convert(Format::Dia).unwrap();
    assert_eq!(dia.nnz(), 8);
    // A diagonal of explicit zeros alone is stored, and has no entries.
    let zeros = matrices::from_rows::<T>(2, vec![vec![(0, 0.0)], vec![(0, 1.0), (1, 0.0)]]);
    let dia = device.upload(&zeros).unwrap().convert(Format::Dia).unwrap();
    let HostMatrix::Dia(host) = dia.download().unwrap() else { panic!("not DIA") };
    assert_eq!((dia.nnz(), host.offsets()), (1, &[-1, 0][..]));
    assert_eq!(dia.convert(Format::Csr).unwrap().nnz(), 1);
}

/// Rows, widths, diagonals and entries around the pieces of threads, warps and blocks.
fn sizes_around_limits<T: Scalar>(device: &Device) {
    let mut random = Random(7);
    for width in [1, 7, 8, 9, 15, 16, 17, 33, 65] {
        for nrows in [1, 31, 33, 257] {
            let row = |i: usize, random: &mut Random| {
                (0..width)
                    .filter(|j| !(i + j).is_multiple_of(5) || j.is_multiple_of(2))
                    .map(|j| (i + j, random.next_unit()))
                    .collect()
            };
            let rows = (0..nrows).map(|i| row(i, &mut random)).collect();
            let matrix = matrices::from_rows::<T>(nrows + width, rows);
            check_matrix(&format!("{nrows} rows, {width} wide"), device, &matrix);
        }
    }
    for entries in [511, 512, 513, 4095, 4096, 4097] {
        let rows = (0..9).map(|i| (0..entries / 9 + usize::from(i < entries % 9)).map(|k| (k, k as f64)).collect());
        check_matrix(&format!("{entries} entries"), device, &matrices::from_rows::<T>(600, rows.collect()));
    }
}

/// Matrices with rows enough that HYB has both parts.
fn splits<T: Scalar>(device: &Device) {
    let mut random = Random(3);
    for (name, nrows, length) in [
        ("thirds", 13_000, (|i| i % 4) as fn(usize) -> usize),
        ("just enough rows", 4500, |i| if i < 4096 { 3 } else { 1 }),
        ("a row too few", 4500, |i| if i < 4095 { 3 } else { 1 }),
        ("long rows", 9000, |i| if i % 1000 == 999 { 700 } else { 2 }),
    ] {
        let rows = (0..nrows).map(|i| (0..length(i)).map(|_| (random.next_below(900), random.next_unit())).collect());
        check_matrix(name, device, &matrices::from_rows::<T>(900, rows.collect()));
    }
}

/// An upload that asks for a format.
fn uploads<T: Scalar>(device: &Device) {
    for (name, matrix) in [
        ("stencil", of_f64::<T>(&matrices::stencil(30))),
        ("uneven", matrices::uneven()),
        ("no rows", matrices::from_rows(2, vec![])),
        ("tall", matrices::from_rows(4, (0..9000).map(|i| (0..i % 4).map(|j| (j, i as f64)).collect()).collect())),
        ("anti-diagonal", matrices::from_rows(3000, (0..3000).map(|i| vec![(2999 - i, 1.0)]).collect())),
    ] {
        let size = BlockSize::Fixed(4);
        for (choice, format) in [
            (FormatChoice::Coo, Format::Coo),
            (FormatChoice::Dia, Format::Dia),
            (FormatChoice::Ell, Format::Ell),
            (FormatChoice::Hyb, Format::Hyb),
            (FormatChoice::Bsr(size), Format::Bsr(size)),
        ] {
            let case = format!("{name} as {choice:?}");
            let expected = on_host(HostMatrix::Csr(matrix.clone()), format);
            for found in [
                device.upload_with(&matrix, &SpmvOptions::default().format(choice)),
                device.upload_with(&CsrMatrix::<T, u64>::from(&matrix), &SpmvOptions::default().format(choice)),
            ] {
                match (&found, &expected) {
                    (Ok(found), Ok(expected)) => {
                        assert!(arrays(&found.download().unwrap()) == arrays(expected), "{case}");
                        let uploaded = device.upload(expected).unwrap();
                        assert_eq!(found.describe(), uploaded.describe(), "{case}");
                        assert_eq!(found.options().format, choice, "{case}");
                        assert_eq!(found.nnz(), matrix.nnz(), "{case}");
                        assert!(product(found, format) == product(&uploaded, format), "{case}: another product");
                    }
                    (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected.to_string(), "{case}"),
                    (found, _) => panic!("{case}: {:?}", found.as_ref().err()),
                }
            }
        }
    }
    // Full diagonals: DIA pays.
    let matrix = of_f64::<T>(&matrices::stencil(90));
    let found = device.upload_with(&matrix, &SpmvOptions::default().format(FormatChoice::Auto)).unwrap();
    if device.to_string() != "cpu" {
        let expected = on_host(HostMatrix::Csr(matrix.clone()), Format::Dia).unwrap();
        assert!(arrays(&found.download().unwrap()) == arrays(&expected), "Auto");
        assert_eq!(found.options().format, FormatChoice::Dia);
    }
}

/// Offsets of 64 bits stay in CSR and CSC; else the results are the same.
fn wide_offsets<T: Scalar>(device: &Device) {
    let matrix = matrices::uneven::<T>();
    let wide = CsrMatrix::<T, u64>::from(&matrix);
    for a in [device.upload(&wide).unwrap(), device.upload(&CscMatrix::try_from(&wide).unwrap()).unwrap()] {
        let narrow = a.download().unwrap().into_csr().unwrap();
        for format in FORMATS {
            let (name, sizes, indices, values) = arrays(&on_host(HostMatrix::Csr(narrow.clone()), format).unwrap());
            let found = arrays(&a.convert(format).unwrap().download().unwrap());
            assert_eq!(found.0.trim_end_matches("64"), name);
            assert_eq!(found.0.ends_with("64"), matches!(format, Format::Csr | Format::Csc));
            assert!((found.1, found.2, found.3) == (sizes, indices, values), "{name}");
        }
    }
}

/// Arrays that no conversion makes: unsorted triplets, more slots and a longer leading dimension than it takes, a split elsewhere, a diagonal without entries.
fn other_arrays(device: &Device) {
    let padding = EllMatrix::<f64>::PADDING;
    let columns = [
        [2, padding, 0, 1, padding, padding, padding, padding],
        [0, padding, padding, 1, padding, padding, padding, padding],
        [padding; 8],
    ];
    let values = [[1.0, 0.0, 2.0, -0.0, 0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0], [0.0; 8]];
    let ell = EllMatrix::try_from_ell_data(4, 3, 3, 8, columns.concat(), values.concat()).unwrap();
    let (rows, cols) = (vec![3, 0, 3, 1, 0, 3], vec![2, 1, 0, 0, 1, 2]);
    let coo = CooMatrix::try_from_triplets(4, 3, rows, cols, vec![1.0, 2.0, 3.0, 0.0, 5.0, 6.0]).unwrap();
    let values = vec![0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.0, 5.0, 0.0];
    let dia = DiaMatrix::try_from_dia_data(4, 3, 4, vec![-1, 0, 1], [&values[..8], &[7.0, -0.0, 0.0, 0.0]].concat());
    let hyb = HybMatrix::try_from_parts(ell.clone(), coo.sorted_by_row().unwrap()).unwrap();
    let uneven = HybMatrix::from_csr_with_width(&matrices::uneven::<f64>(), 5).unwrap();
    let all_in_coo = HybMatrix::from_csr_with_width(&matrices::uneven::<f64>(), 0).unwrap();
    for host in [
        HostMatrix::Ell(ell),
        HostMatrix::Coo(coo),
        HostMatrix::Dia(dia.unwrap()),
        HostMatrix::Hyb(hyb),
        HostMatrix::Hyb(uneven),
        HostMatrix::Hyb(all_in_coo),
    ] {
        let a = device.upload(&host).unwrap();
        for format in FORMATS {
            check(arrays(&host).0, &a, &host, format);
        }
    }
    // New values, of padding too, which is ignored.
    let mut a = device.upload(&matrices::uneven::<f64>()).unwrap().convert(Format::Ell).unwrap();
    let HostMatrix::Ell(ell) = a.download().unwrap() else { panic!("not ELL") };
    a.update_values(&device.filled(ell.values().len(), 2.0).unwrap()).unwrap();
    let csr = a.convert(Format::Csr).unwrap();
    assert_eq!(csr.download().unwrap().into_csr().unwrap().values(), vec![2.0; csr.nnz()]);
}

/// What is changed in a result does not change what it came from, and the other way round.
fn results_are_their_own(device: &Device) {
    let matrix = matrices::stencil(5);
    let mut a = device.upload(&matrix).unwrap();
    let before = arrays(&a.download().unwrap());
    for format in FORMATS {
        let mut found = a.convert(format).unwrap();
        found.scale_rows(&device.filled(25, 3.0).unwrap()).unwrap();
        assert!(arrays(&a.download().unwrap()) == before, "{format:?}");
        assert_eq!(found.diagonal().unwrap().to_vec().unwrap(), [12.0; 25]);
    }
    let found: Vec<_> = FORMATS.into_iter().map(|format| a.convert(format).unwrap()).collect();
    a.scale_rows(&device.filled(25, 3.0).unwrap()).unwrap();
    for found in found {
        assert_eq!(found.diagonal().unwrap().to_vec().unwrap(), [4.0; 25]);
    }
}

fn mostly_padding(device: &Device) {
    // A full row, and as many diagonals, in more rows than slots are always accepted.
    let mut rows = vec![vec![(0, 1.0)]; 3000];
    rows[7] = (0..3000).map(|j| (j, 1.0)).collect();
    let matrix = matrices::from_rows::<f32>(3000, rows);
    let a = device.upload(&matrix).unwrap();
    for format in [Format::Ell, Format::Dia] {
        assert!(check("a full row", &a, &HostMatrix::Csr(matrix.clone()), format).is_none());
        let error = a.convert(format).unwrap_err();
        assert!(matches!(error, Error::PaddingExceeded { entries: 5999, .. }), "{error}");
    }
    // The limit itself: 65536 slots, 64 diagonals of 1024 rows, and one more.
    for diagonals in [63, 64, 65] {
        let rows = (0..1024).map(|i| if i < diagonals { vec![(7 * i, 1.0)] } else { vec![] }).collect();
        let matrix = matrices::from_rows::<f32>(1000, rows);
        let a = device.upload(&matrix).unwrap();
        let found = check("spread diagonals", &a, &HostMatrix::Csr(matrix), Format::Dia);
        assert_eq!(found.is_some(), diagonals <= 64);
        let rows = (0..1024).map(|i| (0..if i == 5 { diagonals } else { 0 }).map(|j| (j, 1.0)).collect()).collect();
        let matrix = matrices::from_rows::<f32>(1000, rows);
        let a = device.upload(&matrix).unwrap();
        assert_eq!(check("width", &a, &HostMatrix::Csr(matrix), Format::Ell).is_some(), diagonals <= 64);
    }
}

/// Matrices in any format are operands of sparse algebra.
fn operands(device: &Device) {
    let matrix = matrices::uneven::<f64>().canonical();
    let expected = matrices::bits(&matrix.transpose().unwrap());
    let a = device.upload(&matrix).unwrap();
    for format in FORMATS {
        let transpose = a.convert(format).unwrap().transpose().unwrap();
        // In BSR with the zeros that fill up blocks.
        let transpose = transpose.download().unwrap().into_csr().unwrap().drop_zeros();
        assert_eq!(matrices::bits(&transpose), expected, "{format:?}");
    }
}

fn nothing_is_recorded(device: &Device) {
    let a = device.upload(&matrices::stencil(3)).unwrap();
    for format in FORMATS {
        let mut result = Ok(());
        let _ = device.record(|| {
            result = a.convert(format).map(drop);
            Ok(())
        });
        assert!(result.is_err(), "{format:?}");
    }
}

fn random_cases(device: &Device) {
    let entry = |ncols: usize| (0..ncols, (-2i32..3).prop_map(f64::from));
    let matrix = (1usize..70).prop_flat_map(move |ncols| {
        (Just(ncols), prop::collection::vec(prop::collection::vec(entry(ncols), 0..20), 0..70))
    });
    properties::check("formats_on_device", 25, matrix, |(ncols, rows)| {
        let matrix = matrices::from_rows::<f32>(ncols, rows);
        let host = HostMatrix::Csr(matrix.clone());
        let a = device.upload(&matrix).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for from in FORMATS {
            let expected = on_host(host.clone(), from).unwrap();
            let found = a.convert(from).unwrap();
            prop_assert_eq!(arrays(&found.download().unwrap()), arrays(&expected));
            for to in FORMATS {
                let expected = on_host(expected.clone(), to).unwrap();
                prop_assert_eq!(arrays(&found.convert(to).unwrap().download().unwrap()), arrays(&expected));
            }
        }
        Ok(())
    });
}

//! Allocations whose size comes from a header or an argument: an error with the size where memory lacks, no abort.

use std::alloc::{GlobalAlloc, Layout, System};

use warpsparse::{
    CooMatrix, CscMatrix, CsrMatrix, Device, DiaMatrix, EllMatrix, Error, ErrorKind, HybMatrix, Result, io,
};

/// The system's memory, but no more than this for one array.
struct Little;

const LIMIT: usize = 256 << 20;

#[global_allocator]
static MEMORY: Little = Little;

// SAFETY: refuses, or does as the system's allocator.
unsafe impl GlobalAlloc for Little {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if layout.size() > LIMIT { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if layout.size() > LIMIT { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        if size > LIMIT { std::ptr::null_mut() } else { unsafe { System.realloc(memory, layout, size) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

const MANY: usize = u32::MAX as usize;

fn refused<R>(what: &str, result: Result<R>, bytes: u64) {
    match result.map(|_| ()) {
        Err(Error::OutOfMemory { requested, .. }) => assert_eq!(requested, bytes, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
}

/// One entry, in the last row and column.
fn coo(nrows: usize, ncols: usize) -> CooMatrix<f32> {
    CooMatrix::try_from_triplets(nrows, ncols, vec![nrows as u32 - 1], vec![ncols as u32 - 1], vec![2.0]).unwrap()
}

#[test]
fn conversions_of_mostly_empty_matrices() {
    let (tall, wide) = (coo(MANY, 1), coo(1, MANY));
    let offsets = 4 * (MANY as u64 + 1);
    refused("COO to CSR", CsrMatrix::try_from(&tall), offsets);
    refused("a view to CSR", CsrMatrix::try_from(tall.as_view()), offsets);
    refused("COO to CSC", CscMatrix::try_from(&wide), offsets);
    refused("a view to CSC", CscMatrix::try_from(wide.as_view()), offsets);
    refused("COO by rows", tall.sorted_by_row(), offsets);
    refused("COO to DIA", DiaMatrix::try_from(&tall), offsets);
    refused("COO to ELL", EllMatrix::try_from(&tall), offsets);
    refused("COO to HYB", HybMatrix::try_from(&tall), offsets);

    let by_rows = CsrMatrix::try_from(&wide).unwrap();
    refused("the transpose", by_rows.transpose(), offsets);
    refused("CSR to CSC", CscMatrix::try_from(&by_rows), offsets);
    let by_columns = CscMatrix::try_from(&tall).unwrap();
    refused("CSC to CSR", CsrMatrix::try_from(&by_columns), offsets);
    refused("CSC to ELL", EllMatrix::try_from(&by_columns), offsets);
    refused("a matrix without columns", CsrMatrix::<f64>::from_dense(MANY, 0, &[]), offsets);
    assert_eq!(by_rows.cluster_rows(), [0]);
    assert_eq!((by_rows.norm_one(), by_rows.norm_inf()), (2.0, 2.0));
    assert_eq!(by_rows.canonical().nnz() + by_rows.drop_zeros().nnz() + by_rows.slice_rows(0..1).unwrap().nnz(), 3);
}

#[test]
fn files() {
    let text = format!("%%MatrixMarket matrix coordinate real general\n{MANY} 1 1\n1 1 1.0\n");
    let read = || io::MatrixMarketReader::new(text.as_bytes(), "tall.mtx", text.len() as u64);
    assert_eq!(read().read_coo::<f64>().unwrap().nrows(), MANY);
    assert_eq!(read().read_csr::<f64>().unwrap_err().kind(), ErrorKind::InvalidFile);
    // An array of more elements than it has lines, and entries by the billion.
    for size in [format!("{MANY} 1"), "60000 60000".into()] {
        let text = format!("%%MatrixMarket matrix array real general\n{size}\n1.0\n");
        let error = io::MatrixMarketReader::new(text.as_bytes(), "a.mtx", u64::MAX).read_coo::<f64>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile, "{error}");
    }
    let text = format!("%%MatrixMarket matrix coordinate real symmetric\n{MANY} {MANY} {MANY}\n1 1 1.0\n");
    let error = io::MatrixMarketReader::new(text.as_bytes(), "b.mtx", u64::MAX).read_coo::<f64>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFile, "{error}");
}

#[test]
fn generators() {
    refused("rows of a grid", io::generate::poisson2d::<f32>(10_000), 4 * 100_000_001);
    refused("rows", io::generate::uniform::<f32>(100_000_000, 1, 0, 1), 4 * 100_000_001);
    assert_eq!(io::generate::rmat::<f32>(28, 1, 1).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(io::generate::fem3::<f32>(30_000_000, 1).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(
        io::generate::communities::<f32>(100_000_000, 200_000_000, 1).unwrap_err().kind(),
        ErrorKind::OutOfMemory
    );
}

#[test]
fn devices() {
    for device in [Device::cpu(), Device::emulated(0)] {
        for len in [1usize << 28, 1 << 40, usize::MAX / 4, usize::MAX] {
            assert_eq!(device.zeros::<f64>(len).unwrap_err().kind(), ErrorKind::OutOfMemory, "{len}");
            assert_eq!(device.pinned_zeros::<f64>(len).unwrap_err().kind(), ErrorKind::OutOfMemory, "{len}");
        }
        let unsorted = CooMatrix::try_from_triplets(MANY, 1, vec![7, 3], vec![0, 0], vec![1.0f64, 2.0]).unwrap();
        refused("an unsorted COO matrix", device.upload(&unsorted), 4 * (MANY as u64 + 1));
    }
}

//! Matrix Market files (R. Boisvert, R. Pozo, K. Remington: The Matrix Market Exchange Formats, NISTIR 5935, 1996).
//!
//! ```text
//! %%MatrixMarket matrix coordinate real symmetric      the header: layout, field, symmetry
//! % comments and blank lines, anywhere
//! 4884 4884 147631                                     rows, columns, and in coordinate files entries
//! 1 1 285559874.9195                                   row, column, value; in array files a value alone
//! ```

mod fields;
mod header;
mod lines;
mod text;
mod write;

use std::{
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use self::{
    lines::{Lines, Progress},
    text::Text,
};
use crate::{CooMatrix, CsrMatrix, Error, Result, Scalar};

/// Reads one Matrix Market file, `.mtx`, `.mtx.gz` or `.mtx.xz`. Recognises gzip and xz by the first bytes, not by the name.
///
/// ```no_run
/// use warpsparse::io::MatrixMarketReader;
///
/// let a = MatrixMarketReader::open("bcsstk16.mtx.gz")?
///     .progress(|read, total| eprintln!("{read} of {total} bytes"))
///     .read_csr::<f64>()?;
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// # Supported files
/// - The layouts `coordinate` and `array`; the fields `real` (or `double`), `integer`, `unsigned-integer` and `pattern`
///   (every value is 1); the symmetries `general`, `symmetric` and `skew-symmetric`, whose other triangle is filled in.
///   Header words may have any case; any white space, LF or CRLF separates; the last newline may be missing.
/// - All entries of a coordinate file are kept, including zeros. A [`CooMatrix`] keeps duplicates, a [`CsrMatrix`] sums
///   them. The zeros of an array file are not stored.
/// - The format stores the lower triangle of a symmetric matrix. A file with the upper triangle is also accepted, as by
///   SciPy. A file with entries on both sides of the diagonal is rejected, because it most likely holds the whole
///   matrix under a wrong header, and every value would be doubled.
/// - Values, including integers, are rounded once, to the nearest `T`; values beyond the largest `T` become infinite.
///   Fortran's `1.5D+03`, `inf` and `nan` are accepted.
/// - `complex` and `hermitian` matrices and objects other than `matrix` are rejected with [`Error::UnsupportedFile`].
///
/// # Cost
/// One pass over the text on one core. Memory grows with the entries found, whatever the header says: a [`CooMatrix`]
/// takes 8 bytes and a value per entry (two entries if a mirror image is filled in), up to twice that while it grows; a
/// [`CsrMatrix`] is built from it. Decompressing xz takes up to 128 MiB more; a file that needs
/// more than that is refused (those of `xz -9` need 64).
pub struct MatrixMarketReader<'a> {
    name: PathBuf,
    input: Box<dyn Read + 'a>,
    bytes: u64,
    progress: Option<Progress<'a>>,
}

impl<'a> MatrixMarketReader<'a> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let open = || {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        };
        let (file, bytes) = open().map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Ok(Self::new(file, path, bytes))
    }

    /// Creates a reader of `input`, which holds `bytes` bytes (0 if unknown) and is called `name` in errors.
    pub fn new(input: impl Read + 'a, name: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { name: name.into(), input: Box::new(input), bytes, progress: None }
    }

    /// Sets a callback `callback(bytes_read, total_bytes)`, which is called every few megabytes and at the end. For a
    /// compressed file it counts compressed bytes; an unknown total is 0.
    #[must_use]
    pub fn progress(mut self, callback: impl FnMut(u64, u64) + 'a) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// Reads the matrix with its entries in the order of the file, each followed by its mirror image.
    ///
    /// # Errors
    /// [`Error::Parse`], with the line number, if the file violates the format; [`Error::UnsupportedFile`] if its kind
    /// is not supported; [`Error::Io`] if reading fails.
    pub fn read_coo<T: Scalar>(self) -> Result<CooMatrix<T>> {
        let lines = Lines::new(self.input, self.bytes, self.progress)
            .map_err(|source| Error::Io { path: self.name.clone(), source })?;
        Text::new(self.name, lines).read(self.bytes)
    }

    /// Reads the matrix with rows sorted by column and duplicates summed in the order of the file.
    ///
    /// # Errors
    /// Those of [`read_coo`](Self::read_coo), and [`Error::UnsupportedFile`] if the matrix has more than 2^24 rows and
    /// 64 times as many rows as entries: nearly all of the [`CsrMatrix`] would be offsets of empty rows, and a file of
    /// a few bytes could request gigabytes.
    pub fn read_csr<T: Scalar>(self) -> Result<CsrMatrix<T>> {
        let name = self.name.clone();
        let coo = self.read_coo()?;
        if coo.nrows() > 1 << 24 && coo.nrows() / 64 > coo.nnz() {
            let (entries, rows) = (coo.nnz(), coo.nrows());
            let problem = format!(
                "{entries} entries in {rows} rows, nearly all empty, as a CSR matrix; a COO matrix can hold them"
            );
            return Err(Error::UnsupportedFile { path: name, problem });
        }
        CsrMatrix::try_from(&coo)
    }
}

impl fmt::Debug for MatrixMarketReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reader = &mut f.debug_struct("MatrixMarketReader");
        reader.field("name", &self.name).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<T: Scalar> CooMatrix<T> {
    /// Reads a Matrix Market file, compressed or not: see [`MatrixMarketReader`].
    ///
    /// # Errors
    /// Those of [`MatrixMarketReader::open`] and [`MatrixMarketReader::read_coo`].
    pub fn read_matrix_market(path: impl AsRef<Path>) -> Result<Self> {
        MatrixMarketReader::open(path)?.read_coo()
    }
}

impl<T: Scalar> CsrMatrix<T> {
    /// Reads a Matrix Market file, compressed or not: see [`MatrixMarketReader`].
    ///
    /// # Errors
    /// Those of [`MatrixMarketReader::open`] and [`MatrixMarketReader::read_csr`].
    pub fn read_matrix_market(path: impl AsRef<Path>) -> Result<Self> {
        MatrixMarketReader::open(path)?.read_csr()
    }
}

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

/// Reads one Matrix Market file, `.mtx` or `.mtx.gz`: gzip is recognised by its first bytes, not by the name.
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
/// # What is read
/// - The layouts `coordinate` and `array`; the fields `real` (also called `double`), `integer`, `unsigned-integer` and
///   `pattern` (every value is 1); the symmetries `general`, `symmetric` and `skew-symmetric`, whose other triangle is
///   filled in. Header words in any case; any white space, LF or CRLF; the last newline may be missing.
/// - The entries of a coordinate file are all kept, zeros too; duplicates are kept in a [`CooMatrix`] and summed in a
///   [`CsrMatrix`]. The zeros of an array file are not stored.
/// - The format stores the lower triangle of a symmetric matrix. A file that stores the upper one instead is read as
///   well, as SciPy does; one with entries on both sides of the diagonal is refused, because such a file most often
///   holds the whole matrix under a wrong header, and would be read with every value doubled.
/// - Values are rounded once, to the nearest `T`, integers included; beyond the largest `T` they become infinite.
///   Fortran's `1.5D+03` is read, and so are `inf` and `nan`.
/// - `complex` and `hermitian` matrices and objects other than `matrix` are refused as [`Error::Unsupported`].
///
/// # Cost
/// One pass over the text, one core. Memory grows with the entries found, whatever the header promises: a
/// [`CooMatrix`] takes 8 bytes and a value an entry (two entries where a mirror image is filled in), up to twice that
/// while it grows; a [`CsrMatrix`] is built from that.
pub struct MatrixMarketReader<'a> {
    name: PathBuf,
    input: Box<dyn Read + 'a>,
    bytes: u64,
    progress: Option<Progress<'a>>,
}

impl<'a> MatrixMarketReader<'a> {
    /// A reader of the file at `path`.
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

    /// A reader of `input`, which holds `bytes` bytes (0 if that is not known) and is called `name` in errors.
    pub fn new(input: impl Read + 'a, name: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { name: name.into(), input: Box::new(input), bytes, progress: None }
    }

    /// Has `callback(bytes_read, total_bytes)` called every few megabytes and at the end. A gzipped file's compressed
    /// bytes count; the total is 0 where it is not known.
    #[must_use]
    pub fn progress(mut self, callback: impl FnMut(u64, u64) + 'a) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// Reads the matrix, its entries in the file's order, each with its mirror image right behind it.
    ///
    /// # Errors
    /// [`Error::Parse`], with the line, if the file breaks the format; [`Error::UnsupportedFile`] if it is of a kind that
    /// is not read; [`Error::Io`] if the system fails to read it.
    pub fn read_coo<T: Scalar>(self) -> Result<CooMatrix<T>> {
        let lines = Lines::new(self.input, self.bytes, self.progress)
            .map_err(|source| Error::Io { path: self.name.clone(), source })?;
        Text::new(self.name, lines).read(self.bytes)
    }

    /// Reads the matrix, its rows sorted by column and duplicates summed in the file's order.
    ///
    /// # Errors
    /// Those of [`read_coo`](Self::read_coo), and [`Error::UnsupportedFile`] if the matrix has more than 2^24 rows and 64
    /// times as many rows as entries: offsets of its empty rows would be nearly all of a [`CsrMatrix`], and a few
    /// bytes of file could ask for gigabytes.
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
    /// Reads a Matrix Market file, gzipped or not: see [`MatrixMarketReader`].
    ///
    /// # Errors
    /// Those of [`MatrixMarketReader::open`] and [`MatrixMarketReader::read_coo`].
    pub fn read_matrix_market(path: impl AsRef<Path>) -> Result<Self> {
        MatrixMarketReader::open(path)?.read_coo()
    }
}

impl<T: Scalar> CsrMatrix<T> {
    /// Reads a Matrix Market file, gzipped or not: see [`MatrixMarketReader`].
    ///
    /// # Errors
    /// Those of [`MatrixMarketReader::open`] and [`MatrixMarketReader::read_csr`].
    pub fn read_matrix_market(path: impl AsRef<Path>) -> Result<Self> {
        MatrixMarketReader::open(path)?.read_csr()
    }
}

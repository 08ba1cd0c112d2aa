//! Writing Matrix Market files: coordinate, real, general.

use std::{
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use flate2::{Compression, write::GzEncoder};

use crate::{CooMatrix, CsrMatrix, DType, Error, Offset, Result, Scalar};

impl<T: Scalar> CooMatrix<T> {
    /// Writes a Matrix Market file, gzipped if the path ends in `.gz`: `coordinate real general`, with the entries in
    /// storage order, including explicit zeros and duplicates.
    ///
    /// Values have the fewest digits that read back to the same bits in `T`; infinities and NaN are `inf`, `-inf`,
    /// `nan` and `-nan`, so only the payload of a NaN is lost.
    ///
    /// The text is written to a temporary file in the same folder, which replaces `path` once it is complete and on
    /// disk. So an error leaves an existing file intact. A symbolic link is replaced, not followed.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written, or if `path` exists and is not a file.
    pub fn write_matrix_market(&self, path: impl AsRef<Path>) -> Result<()> {
        write_file(path.as_ref(), [self.nrows(), self.ncols(), self.nnz()], self.triplets())
    }
}

impl<T: Scalar, O: Offset> CsrMatrix<T, O> {
    /// Writes a Matrix Market file row by row, like [`CooMatrix::write_matrix_market`].
    ///
    /// Reading it as a CSR matrix sorts rows by column and sums duplicates; files with 2³² entries or more cannot be
    /// read.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written, or if `path` exists and is not a file.
    pub fn write_matrix_market(&self, path: impl AsRef<Path>) -> Result<()> {
        write_file(path.as_ref(), [self.nrows(), self.ncols(), self.nnz()], self.triplets())
    }
}

/// `size` is rows, columns and entries.
fn write_file<T: Scalar>(
    path: &Path,
    size: [usize; 3],
    entries: impl Iterator<Item = (usize, usize, T)>,
) -> Result<()> {
    let write = || {
        let partial = Partial::create(path)?;
        if path.extension().is_some_and(|extension| extension == "gz") {
            let encoder = GzEncoder::new(&partial.file, Compression::default());
            write_text(encoder, size, entries)?.finish()?;
        } else {
            write_text(&partial.file, size, entries)?;
        }
        partial.complete(path)
    };
    write().map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn write_text<T: Scalar, W: Write>(
    output: W,
    [nrows, ncols, nnz]: [usize; 3],
    entries: impl Iterator<Item = (usize, usize, T)>,
) -> io::Result<W> {
    let mut output = BufWriter::with_capacity(1 << 18, output);
    write!(output, "%%MatrixMarket matrix coordinate real general\n{nrows} {ncols} {nnz}\n")?;
    // Three times as fast as `write!` of the same text.
    let (mut integer, mut float) = (itoa::Buffer::new(), zmij::Buffer::new());
    for (row, column, value) in entries {
        output.write_all(integer.format(row + 1).as_bytes())?;
        output.write_all(b" ")?;
        output.write_all(integer.format(column + 1).as_bytes())?;
        output.write_all(b" ")?;
        output.write_all(shortest(&mut float, value).as_bytes())?;
        output.write_all(b"\n")?;
    }
    output.into_inner().map_err(io::IntoInnerError::into_error)
}

/// The fewest digits that read back as `value`.
fn shortest<T: Scalar>(buffer: &mut zmij::Buffer, value: T) -> &str {
    let wide = value.to_f64();
    if wide.is_nan() {
        return if wide.is_sign_negative() { "-nan" } else { "nan" };
    }
    let text = match T::DTYPE {
        // As wide as it is, an f32 would take the digits of an f64.
        DType::F32 => buffer.format(wide as f32),
        DType::F64 => buffer.format(wide),
    };
    text.strip_suffix(".0").unwrap_or(text)
}

/// A file on its way to its name; removed if it does not get there.
struct Partial {
    file: File,
    name: PathBuf,
}

impl Partial {
    /// A new file in the folder of `path`.
    fn create(path: &Path) -> io::Result<Self> {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        // A rename would put a file in the place of a device, such as /dev/null.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "something that is no file has this name"));
        }
        if path.file_name().is_none() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the path names no file"));
        }
        loop {
            // Short, whatever the length of the final name, and no other writer's.
            let number = CREATED.fetch_add(1, Ordering::Relaxed);
            let name = path.with_file_name(format!(".warpsparse-{}-{number}.partial", process::id()));
            match File::create_new(&name) {
                // Left behind by a process that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return Ok(Self { file: created?, name }),
            }
        }
    }

    /// Gives the file its name, once all of it is on disk.
    fn complete(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.name, path)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a rename, there is nothing of this name.
        let _ = fs::remove_file(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::{env, panic};

    use super::*;

    /// A folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("warpsparse-{name}-{}", process::id()));
        fs::create_dir(&folder).expect("the temporary directory can be written");
        folder
    }

    #[test]
    fn a_file_that_is_not_completed_leaves_what_was_there() {
        let folder = folder("not-completed");
        for name in ["a.mtx", "a.mtx.gz"] {
            let path = folder.join(name);
            fs::write(&path, "before").unwrap();
            // Enough for the buffers to be written out.
            let entries = (0..200_000).map(|k| if k < 199_999 { (k, k, 0.5) } else { panic!("stopped") });
            let stopped = panic::catch_unwind(|| write_file(&path, [200_000; 3], entries));
            assert_eq!(stopped.unwrap_err().downcast_ref(), Some(&"stopped"));
            assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_name_left_behind_is_passed_over() {
        let folder = folder("left-behind");
        let path = folder.join("a.mtx");
        for number in 0..1000 {
            fs::write(folder.join(format!(".warpsparse-{}-{number}.partial", process::id())), "").unwrap();
        }
        write_file(&path, [0; 3], [(0, 0, 1.0); 0].into_iter()).unwrap();
        assert!(path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_the_output_refuses_is_an_error() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let entries = || (0..100_000).map(|k| (k, k, 0.25f32));
        for room in [0, 10, 500_000] {
            let error = write_text(Full(room), [100_000; 3], entries()).err().expect("there is no room");
            assert_eq!(error.kind(), ErrorKind::StorageFull);
        }
        assert!(write_text(Full(2_000_000), [100_000; 3], entries()).is_ok());
    }
}

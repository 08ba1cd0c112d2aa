//! Parses a file, from its header to its last entry.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

use super::{
    fields::{Fields, Parsed},
    header::{Field, Header, HeaderProblem, Layout, Size, Symmetry},
    lines::Lines,
};
use crate::{CooMatrix, Error, Result, Scalar};

/// The lines of a named file.
pub(super) struct Text<'a> {
    name: PathBuf,
    lines: Lines<'a>,
}

impl<'a> Text<'a> {
    pub(super) fn new(name: PathBuf, lines: Lines<'a>) -> Self {
        Self { name, lines }
    }

    /// Reads everything; `bytes` is the size of the file, or 0.
    pub(super) fn read<T: Scalar>(mut self, bytes: u64) -> Result<CooMatrix<T>> {
        let header = self.header()?;
        let size = self.size(header)?;
        let mut entries = Entries::with_capacity(header, size, bytes);
        match header.layout {
            Layout::Coordinate => self.read_coordinate(header, size, &mut entries)?,
            Layout::Array => self.read_array(header, size, &mut entries)?,
        }
        let (nrows, ncols) = (size.nrows as usize, size.ncols as usize);
        CooMatrix::try_from_triplets(nrows, ncols, entries.rows, entries.columns, entries.values)
            .map_err(|error| self.broken(error.to_string()))
    }

    fn header(&mut self) -> Result<Header> {
        if !self.lines.advance().map_err(|source| self.unreadable(source))? {
            return Err(self.broken("the file is empty".to_owned()));
        }
        Header::parse(self.lines.current()).map_err(|problem| match problem {
            HeaderProblem::Broken(problem) => self.broken(problem),
            HeaderProblem::Unsupported(problem) => Error::UnsupportedFile { path: self.name.clone(), problem },
        })
    }

    fn size(&mut self, header: Header) -> Result<Size> {
        let size = self.content()?.map(|line| Size::parse(line, header));
        size.unwrap_or_else(|| Err("the file ends before its size line".to_owned()))
            .map_err(|problem| self.broken(problem))
    }

    fn read_coordinate<T: Scalar>(&mut self, header: Header, size: Size, entries: &mut Entries<T>) -> Result<()> {
        let mut triangle = None;
        let mut found = 0;
        while let Some(line) = self.content()? {
            let parsed = parse_entry::<T>(line, header.field, size);
            let (row, column, value) = parsed.map_err(|problem| self.broken(problem))?;
            if found == size.entries {
                return Err(self.broken(format!("more than the {found} entries that the size line promises")));
            }
            found += 1;
            if header.symmetry != Symmetry::General {
                let this = row.cmp(&column);
                if this.is_eq() && header.symmetry == Symmetry::Skew {
                    return Err(self.broken("a skew-symmetric matrix stores nothing on its diagonal".to_owned()));
                }
                if this.is_ne() && *triangle.get_or_insert(this) != this {
                    let problem = format!(
                        "row {}, column {} lies across the diagonal from entries above: a {} file stores one triangle",
                        row + 1,
                        column + 1,
                        header.symmetry
                    );
                    return Err(self.broken(problem));
                }
            }
            entries.push(row, column, value);
        }
        self.expect_all(found, size)
    }

    fn read_array<T: Scalar>(&mut self, header: Header, size: Size, entries: &mut Entries<T>) -> Result<()> {
        // Column by column, from this row on.
        let first_row = |column| match header.symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric => column,
            Symmetry::Skew => column + 1,
        };
        let (mut row, mut column) = (first_row(0), 0);
        let mut found = 0;
        while let Some(line) = self.content()? {
            let mut fields = Fields::new(line);
            let value = parse_value::<T>(&mut fields, header.field);
            let value = value.and_then(|value| fields.end("one value").map(|()| value));
            let value = value.map_err(|problem| self.broken(problem))?;
            if found == size.entries {
                return Err(self.broken(format!("more than the {found} values that the matrix has")));
            }
            found += 1;
            if value != T::default() {
                entries.push(row, column, value);
            }
            row += 1;
            if row == size.nrows {
                column += 1;
                row = first_row(column);
            }
        }
        self.expect_all(found, size)
    }

    fn expect_all(&self, found: u64, size: Size) -> Result<()> {
        if found == size.entries {
            return Ok(());
        }
        Err(self.broken(format!("the file ends after {found} of {} entries", size.entries)))
    }

    /// Returns the next line that is neither blank nor a comment.
    #[inline]
    fn content(&mut self) -> Result<Option<&[u8]>> {
        loop {
            if !self.lines.advance().map_err(|source| self.unreadable(source))? {
                return Ok(None);
            }
            if !matches!(self.lines.current().trim_ascii_start().first(), None | Some(b'%')) {
                break;
            }
        }
        Ok(Some(self.lines.current()))
    }

    #[cold]
    fn broken(&self, problem: String) -> Error {
        Error::Parse { path: self.name.clone(), line: self.lines.number().max(1), problem }
    }

    #[cold]
    fn unreadable(&self, source: io::Error) -> Error {
        match source.kind() {
            ErrorKind::InvalidData => self.broken(source.to_string()),
            _ => Error::Io { path: self.name.clone(), source },
        }
    }
}

#[inline]
fn parse_entry<T: Scalar>(line: &[u8], field: Field, size: Size) -> Parsed<(u32, u32, T)> {
    let mut fields = Fields::new(line);
    let row = fields.index("row", size.nrows)?;
    let column = fields.index("column", size.ncols)?;
    let value = parse_value(&mut fields, field)?;
    fields.end(match field {
        Field::Pattern => "row and column",
        _ => "row, column and value",
    })?;
    Ok((row, column, value))
}

#[inline]
fn parse_value<T: Scalar>(fields: &mut Fields, field: Field) -> Parsed<T> {
    match field {
        Field::Real => fields.value(),
        Field::Integer => fields.integer(),
        Field::Pattern => Ok(T::from_f64(1.0)),
    }
}

/// The entries read so far.
struct Entries<T> {
    /// The factor of an entry's mirror image, if there is one.
    mirror: Option<T>,
    rows: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> Entries<T> {
    /// Reserves memory for the number of entries on the size line, or for the most that a file of this size can hold if
    /// that is less.
    fn with_capacity(header: Header, size: Size, bytes: u64) -> Self {
        const MIN_BYTES_PER_ENTRY: u64 = 4;
        /// The limit of the reservation, whatever header and size say: beyond it the arrays grow with the entries.
        const MAX_RESERVED: u64 = 1 << 24;
        let mirror = match header.symmetry {
            Symmetry::General => None,
            Symmetry::Symmetric => Some(T::from_f64(1.0)),
            Symmetry::Skew => Some(T::from_f64(-1.0)),
        };
        let stored = size.entries.min(bytes / MIN_BYTES_PER_ENTRY).min(MAX_RESERVED) as usize;
        let capacity = if mirror.is_some() { 2 * stored } else { stored };
        Self {
            mirror,
            rows: Vec::with_capacity(capacity),
            columns: Vec::with_capacity(capacity),
            values: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    fn push(&mut self, row: u32, column: u32, value: T) {
        self.rows.push(row);
        self.columns.push(column);
        self.values.push(value);
        if let Some(factor) = self.mirror
            && row != column
        {
            self.rows.push(column);
            self.columns.push(row);
            self.values.push(factor * value);
        }
    }
}

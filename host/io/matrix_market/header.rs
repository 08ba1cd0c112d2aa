//! The header and the size line of a Matrix Market file.

use std::fmt;

use super::fields::{Fields, Parsed, excerpt};

/// The layout: which numbers a line has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Coordinate,
    Array,
}

/// The field: which values there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Real,
    Integer,
    Pattern,
}

/// The symmetry: which part of the matrix is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Symmetry {
    General,
    Symmetric,
    Skew,
}

impl fmt::Display for Symmetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Symmetry::General => "general",
            Symmetry::Symmetric => "symmetric",
            Symmetry::Skew => "skew-symmetric",
        })
    }
}

/// The contents of the first line.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) layout: Layout,
    pub(super) field: Field,
    pub(super) symmetry: Symmetry,
}

/// Why a header is rejected.
pub(super) enum HeaderProblem {
    Broken(String),
    Unsupported(String),
}

impl Header {
    pub(super) fn parse(line: &[u8]) -> Result<Self, HeaderProblem> {
        use HeaderProblem::{Broken, Unsupported};

        let text = line.to_ascii_lowercase();
        let words: Vec<&[u8]> = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        // SciPy takes a single percent sign as well.
        let &[b"%%matrixmarket" | b"%matrixmarket", ref words @ ..] = words.as_slice() else {
            let found = excerpt(line);
            let expected = "expected `%%MatrixMarket matrix LAYOUT FIELD SYMMETRY` on the first line";
            return Err(Broken(format!("{expected}, found `{found}`")));
        };
        let &[object, layout, field, symmetry] = words else {
            let found = words.len();
            let problem =
                format!("expected 4 words after `%%MatrixMarket` (matrix LAYOUT FIELD SYMMETRY), found {found}");
            return Err(Broken(problem));
        };
        let unknown = |what: &str, word: &[u8], known: &str| {
            Err(Broken(format!("unknown {what} `{}`: expected {known}", excerpt(word))))
        };
        match object {
            b"matrix" => {}
            b"vector" => {
                return Err(Unsupported("a Matrix Market object `vector`; only `matrix` is read".to_owned()));
            }
            _ => return unknown("object", object, "matrix"),
        }
        let layout = match layout {
            b"coordinate" => Layout::Coordinate,
            b"array" => Layout::Array,
            _ => return unknown("layout", layout, "coordinate or array"),
        };
        let field = match field {
            b"real" | b"double" => Field::Real,
            b"integer" | b"unsigned-integer" => Field::Integer,
            b"pattern" => Field::Pattern,
            b"complex" => return Err(Unsupported("complex matrices".to_owned())),
            _ => return unknown("field", field, "real, integer or pattern"),
        };
        let symmetry = match symmetry {
            b"general" => Symmetry::General,
            b"symmetric" => Symmetry::Symmetric,
            b"skew-symmetric" => Symmetry::Skew,
            b"hermitian" => return Err(Unsupported("hermitian matrices".to_owned())),
            _ => return unknown("symmetry", symmetry, "general, symmetric or skew-symmetric"),
        };
        if field == Field::Pattern && (layout == Layout::Array || symmetry == Symmetry::Skew) {
            let problem = "a pattern has no values, so it can be neither array nor skew-symmetric";
            return Err(Broken(problem.to_owned()));
        }
        Ok(Self { layout, field, symmetry })
    }
}

/// The contents of the size line.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) nrows: u32,
    pub(super) ncols: u32,
    /// The number of following lines: entries, or the values of an array file.
    pub(super) entries: u64,
}

impl Size {
    pub(super) fn parse(line: &[u8], header: Header) -> Parsed<Self> {
        let mut fields = Fields::new(line);
        let nrows = fit(fields.size("rows")?, "rows")?;
        let ncols = fit(fields.size("columns")?, "columns")?;
        if header.symmetry != Symmetry::General && nrows != ncols {
            return Err(format!("a {} matrix is square, not {nrows} x {ncols}", header.symmetry));
        }
        let (rows, columns) = (u64::from(nrows), u64::from(ncols));
        let entries = match (header.layout, header.symmetry) {
            (Layout::Coordinate, _) => u64::from(fit(fields.size("entries")?, "entries")?),
            (Layout::Array, Symmetry::General) => rows * columns,
            (Layout::Array, Symmetry::Symmetric) => rows * (rows + 1) / 2,
            (Layout::Array, Symmetry::Skew) => rows * rows.saturating_sub(1) / 2,
        };
        fields.end(match header.layout {
            Layout::Coordinate => "rows, columns and entries",
            Layout::Array => "rows and columns",
        })?;
        Ok(Self { nrows, ncols, entries })
    }
}

fn fit(size: u64, what: &str) -> Parsed<u32> {
    u32::try_from(size).map_err(|_| format!("{size} {what}, and 32-bit indices reach {}", u32::MAX))
}

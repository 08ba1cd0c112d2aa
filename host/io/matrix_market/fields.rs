//! The numbers on a line of a Matrix Market file.

use crate::{DType, Scalar};

/// Something read from a line, or a message with what was found and what was expected.
pub(super) type Parsed<T> = std::result::Result<T, String>;

/// The fields of a line, parsed from left to right.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Parses a 1-based index of at most `limit`, and returns it 0-based.
    #[inline]
    pub(super) fn index(&mut self, what: &'static str, limit: u32) -> Parsed<u32> {
        self.skip_blanks();
        let field = self.rest;
        match self.natural() {
            Some(index) if 1 <= index && index <= u64::from(limit) => Ok((index - 1) as u32),
            _ => Err(index_problem(Fields::new(field).token(), what, limit)),
        }
    }

    /// Parses a size on the size line.
    pub(super) fn size(&mut self, what: &'static str) -> Parsed<u64> {
        self.skip_blanks();
        self.natural().ok_or_else(|| match self.token() {
            [] => format!("the number of {what} is missing"),
            token if token.iter().all(u8::is_ascii_digit) => {
                format!("{} {what} are more than 64 bits can count", excerpt(token))
            }
            token => format!("expected the number of {what}, found `{}`", excerpt(token)),
        })
    }

    /// Parses a value, correctly rounded to `T`.
    #[inline]
    pub(super) fn value<T: Scalar>(&mut self) -> Parsed<T> {
        self.skip_blanks();
        if let Some((value, length)) = parse_prefix::<T>(self.rest)
            && self.rest.get(length).is_none_or(u8::is_ascii_whitespace)
        {
            self.rest = &self.rest[length..];
            return Ok(value);
        }
        self.fortran_value()
    }

    /// Parses an integer value; beyond the integers that `T` represents, returns the nearest one.
    pub(super) fn integer<T: Scalar>(&mut self) -> Parsed<T> {
        self.skip_blanks();
        let token = self.token();
        let digits = token.strip_prefix(b"-").or(token.strip_prefix(b"+")).unwrap_or(token);
        if !token.is_empty() && !digits.iter().all(u8::is_ascii_digit) {
            return Err(format!("expected an integer, found `{}`", excerpt(token)));
        }
        self.value()
    }

    /// Fails unless the line ends here.
    #[inline]
    pub(super) fn end(&mut self, line_holds: &'static str) -> Parsed<()> {
        self.skip_blanks();
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(format!("expected {line_holds}, found `{}` after that", excerpt(self.rest)))
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while let [first, rest @ ..] = self.rest
            && first.is_ascii_whitespace()
        {
            self.rest = rest;
        }
    }

    /// Parses a whole field of decimal digits that fits in 64 bits; otherwise returns `None` without advancing.
    #[inline]
    fn natural(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut length = 0;
        while let Some(digit) = self.rest.get(length).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            length += 1;
        }
        if length == 0 || !self.rest.get(length).is_none_or(u8::is_ascii_whitespace) {
            return None;
        }
        self.rest = &self.rest[length..];
        Some(value)
    }

    /// Returns the field that begins here, without advancing.
    fn token(&self) -> &'a [u8] {
        let length = self.rest.iter().position(u8::is_ascii_whitespace);
        &self.rest[..length.unwrap_or(self.rest.len())]
    }

    /// Parses a value with a Fortran exponent, `1.5D+03`; anything else is an error.
    #[cold]
    fn fortran_value<T: Scalar>(&mut self) -> Parsed<T> {
        let token = self.token();
        if token.is_empty() {
            return Err("the value is missing".to_owned());
        }
        let mut with_e = token.to_vec();
        if let Some(exponent) = with_e.iter_mut().find(|byte| matches!(byte, b'd' | b'D')) {
            *exponent = b'e';
        }
        match parse_prefix::<T>(&with_e) {
            Some((value, length)) if length == token.len() => {
                self.rest = &self.rest[length..];
                Ok(value)
            }
            _ => Err(format!("expected a number, found `{}`", excerpt(token))),
        }
    }
}

#[cold]
fn index_problem(token: &[u8], what: &'static str, limit: u32) -> String {
    let shown = excerpt(token);
    if token.is_empty() {
        format!("the {what} index is missing")
    } else if !token.iter().all(u8::is_ascii_digit) {
        format!("expected a {what} index, found `{shown}`")
    } else if token.iter().all(|&digit| digit == b'0') {
        format!("{what} index 0, but indices count from 1")
    } else {
        format!("{what} index {shown} is beyond the matrix, which has {limit} {what}s")
    }
}

/// Returns the number at the beginning of `text`, and its length.
#[inline]
fn parse_prefix<T: Scalar>(text: &[u8]) -> Option<(T, usize)> {
    // Through f64 no f32 changes: what is parsed as f32 is rounded once.
    match T::DTYPE {
        DType::F32 => {
            let (value, length) = fast_float2::parse_partial::<f32, _>(text).ok()?;
            Some((T::from_f64(f64::from(value)), length))
        }
        DType::F64 => {
            let (value, length) = fast_float2::parse_partial::<f64, _>(text).ok()?;
            Some((T::from_f64(value), length))
        }
    }
}

/// Returns the beginning of a piece of a file, fit for display.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const MAX_SHOWN: usize = 40;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SHOWN)]);
    let more = if bytes.len() > MAX_SHOWN { "…" } else { "" };
    format!("{}{more}", shown.trim_end().escape_debug())
}

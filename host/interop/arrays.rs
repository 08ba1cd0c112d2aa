//! What the libraries have in common: the arrays of a matrix, with indices of other types, and rows whose columns rise.

use std::{
    any::{Any, type_name},
    fmt::Debug,
    mem,
};

use crate::{
    CsrMatrix, CsrView, Error, Offset, Result, Scalar,
    formats::{compressed::Names, coo::check_limits},
};

/// The offsets, the indices and the values of a compressed matrix.
type Arrays<P, I, T> = (Vec<P>, Vec<I>, Vec<T>);

/// Arrays of another library's matrix of this shape, with our indices. What `offset` and `index` cannot convert is
/// refused, and so are matrices beyond our limits; the arrays are checked no further.
pub(super) fn import<P, I, T, O: Offset>(
    names: &Names,
    (nrows, ncols): (usize, usize),
    (offsets, indices, values): Arrays<P, I, T>,
    offset: impl Fn(P) -> Option<O>,
    index: impl Fn(I) -> Option<u32>,
) -> Result<Arrays<O, u32, T>>
where
    P: Copy + Debug + 'static,
    I: Copy + Debug + 'static,
{
    check_limits::<O>(names.format, nrows, ncols, values.len())?;
    convert_both(names, (offsets, indices, values), offset, index)
}

/// The arrays of a matrix for a library whose `names` these are, with its indices. Columns that do not rise are
/// refused, as is what `offset` and `index` cannot convert.
pub(super) fn export<T: Scalar, O: Offset, P: 'static, I: 'static>(
    names: &Names,
    matrix: CsrMatrix<T, O>,
    offset: impl Fn(O) -> Option<P>,
    index: impl Fn(u32) -> Option<I>,
) -> Result<Arrays<P, I, T>> {
    check_rising(names, matrix.as_view())?;
    convert_both(names, matrix.into_csr_data(), offset, index)
}

/// Refuses columns that are out of order or repeat, and names the first.
pub(super) fn check_rising<T: Scalar, O: Offset>(names: &Names, matrix: CsrView<'_, T, O>) -> Result<()> {
    let Names { major, minor, .. } = names;
    for (i, (columns, _)) in matrix.rows().enumerate() {
        if let Some(pair) = columns.windows(2).find(|pair| pair[0] >= pair[1]) {
            let (before, column) = (pair[0], pair[1]);
            let problem = format!("{major} {i} has {minor} {column} after {minor} {before}, where {minor}s must rise");
            return Err(names.invalid(problem));
        }
    }
    Ok(())
}

fn convert_both<P, I, Q: 'static, J: 'static, T>(
    names: &Names,
    (offsets, indices, values): Arrays<P, I, T>,
    offset: impl Fn(P) -> Option<Q>,
    index: impl Fn(I) -> Option<J>,
) -> Result<Arrays<Q, J, T>>
where
    P: Copy + Debug + 'static,
    I: Copy + Debug + 'static,
{
    let offsets = convert(names.format, &format!("{} offset", names.major), offsets, offset)?;
    let indices = convert(names.format, &format!("{} index", names.minor), indices, index)?;
    Ok((offsets, indices, values))
}

/// The array with each element converted; the array itself, not a copy, where that leaves the type as it is. The error
/// names the first element that does not convert.
pub(super) fn convert<A: Copy + Debug + 'static, B: 'static>(
    format: &'static str,
    what: &str,
    mut array: Vec<A>,
    conversion: impl Fn(A) -> Option<B>,
) -> Result<Vec<B>> {
    if let Some(array) = (&mut array as &mut dyn Any).downcast_mut::<Vec<B>>() {
        return Ok(mem::take(array));
    }
    let convert = |(k, element)| {
        conversion(element).ok_or_else(|| {
            let problem = format!("{what} {k} is {element:?}, out of the range of {}", type_name::<B>());
            Error::InvalidMatrix { format, problem }
        })
    };
    array.into_iter().enumerate().map(convert).collect()
}

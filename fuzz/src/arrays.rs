//! What constructors are given: the arrays of a valid matrix, by the plainest code, and damage done to them.

use arbitrary::{Arbitrary, Result, Unstructured};
use warpsparse::{Offset, Scalar};

use crate::{Entry, bits};

/// A matrix as a list of entries, and what becomes of its arrays.
#[derive(Debug)]
pub struct Matrix {
    nrows: Size,
    ncols: Size,
    /// Slots beyond what formats that pad need.
    pub spare: u8,
    damage: Vec<Damage>,
    entries: Vec<(u16, u16, u8)>,
}

/// The entries take the rest of the input: derived code would toss a coin for each.
impl<'a> Arbitrary<'a> for Matrix {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let (nrows, ncols, spare) = u.arbitrary()?;
        let damage = (0..u8::arbitrary(u)? % 3).map(|_| u.arbitrary()).collect::<Result<_>>()?;
        let entries = (0..u.len() / 5).map(|_| u.arbitrary()).collect::<Result<_>>()?;
        Ok(Self { nrows, ncols, spare, damage, entries })
    }
}

/// Mostly a few; at most as many as the conversions split in blocks of 4096.
#[derive(Debug)]
struct Size(usize);

impl<'a> Arbitrary<'a> for Size {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let size = u8::arbitrary(u)?;
        Ok(Self(if size < 248 { usize::from(size % 31) } else { usize::from(u16::arbitrary(u)? % 5000) }))
    }
}

/// What to change, by number, and how.
#[derive(Arbitrary, Debug)]
struct Damage {
    target: u8,
    at: u16,
    change: Change,
}

/// A change of one array or size.
#[doc(hidden)]
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Change {
    /// To a number near the old one.
    Near(i8),
    /// To a number of small magnitude; -1 is the largest index.
    Small(i8),
    Any(u64),
    Push(i8),
    Truncate,
    Swap(u16),
}

impl Matrix {
    /// The sizes, and the entries by the numbers of the input: in any order, with duplicates.
    pub fn entries<T: Scalar>(&self) -> (usize, usize, Vec<Entry<T>>) {
        let (nrows, ncols) = (self.nrows.0, self.ncols.0);
        let inside = |&(i, j, v): &(u16, u16, u8)| (usize::from(i) % nrows, usize::from(j) % ncols, value(v));
        let entries = if nrows == 0 || ncols == 0 { Vec::new() } else { self.entries.iter().map(inside).collect() };
        (nrows, ncols, entries)
    }

    /// Whether the arrays stay as they are.
    pub fn is_intact(&self) -> bool {
        self.damage.is_empty()
    }

    /// Does the damage to the sizes and arrays of the matrix.
    pub fn damage(&self, targets: &mut [&mut dyn Target]) {
        for damage in &self.damage {
            let count = targets.len();
            targets[usize::from(damage.target) % count].damage(usize::from(damage.at), damage.change);
        }
    }
}

/// A value by number: sums and products of them are exact in any order, but for infinities and NaN.
pub fn value<T: Scalar>(number: u8) -> T {
    T::from_f64(match number {
        250 => f64::NAN,
        251 => f64::INFINITY,
        252 => f64::NEG_INFINITY,
        253 => -0.0,
        _ => f64::from(number as i8) / 4.0,
    })
}

/// What damage can be done to.
pub trait Target {
    #[doc(hidden)]
    fn damage(&mut self, at: usize, change: Change);
}

impl Target for usize {
    fn damage(&mut self, _: usize, change: Change) {
        match change {
            Change::Near(by) => *self = self.wrapping_add_signed(isize::from(by % 4)),
            Change::Small(by) | Change::Push(by) => *self = self.wrapping_add_signed(isize::from(by)),
            Change::Any(size) => *self = size as usize,
            Change::Truncate => *self = 0,
            Change::Swap(size) => *self = usize::from(size),
        }
    }
}

impl<E: Element> Target for Vec<E> {
    fn damage(&mut self, at: usize, change: Change) {
        match (change, self.len()) {
            (Change::Push(number), _) => self.push(E::from_bits(number as u64)),
            (_, 0) => {}
            (Change::Near(by), length) => self[at % length] = self[at % length].near(by % 4),
            (Change::Small(number), length) => self[at % length] = E::from_bits(number as u64),
            (Change::Any(number), length) => self[at % length] = E::from_bits(number),
            (Change::Truncate, length) => self.truncate(at % length),
            (Change::Swap(other), length) => self.swap(at % length, usize::from(other) % length),
        }
    }
}

/// A number of the same low bits, whatever its type.
pub trait Element {
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
    #[doc(hidden)]
    fn near(&self, by: i8) -> Self;
}

macro_rules! elements {
    ($($type:ty: $of:expr, $near:expr);*) => {$(
        impl Element for $type {
            fn from_bits(bits: u64) -> Self {
                ($of)(bits)
            }
            fn near(&self, by: i8) -> Self {
                ($near)(*self, by)
            }
        }
    )*};
}
elements!(
    u32: |bits| bits as u32, |old: u32, by: i8| old.wrapping_add_signed(by.into());
    u64: |bits| bits, |old: u64, by: i8| old.wrapping_add_signed(by.into());
    i64: |bits| bits as i64, |old: i64, by: i8| old.wrapping_add(by.into());
    f32: |bits| value(bits as u8), |old, by| old + f32::from(by);
    f64: |bits| value(bits as u8), |old, by| old + f64::from(by)
);

/// Where each of `count` rows begins among entries that are sorted by row, and where the last ends.
pub fn offsets<O: Offset>(count: usize, rows: &[u32]) -> Vec<O> {
    let before = |row: usize| rows.partition_point(|&i| (i as usize) < row);
    (0..=count).map(|row| O::from(before(row) as u32)).collect()
}

/// The entries of compressed arrays that are valid.
pub fn of_compressed<T: Scalar, O: Offset>(offsets: &[O], indices: &[u32], values: &[T]) -> Vec<Entry<T>> {
    let mut entries = Vec::new();
    for (i, ends) in offsets.windows(2).enumerate() {
        for k in ends[0].index()..ends[1].index() {
            entries.push((i, indices[k] as usize, values[k]));
        }
    }
    entries
}

/// Whether this is +0.0.
pub fn is_positive_zero<T: Scalar>(value: T) -> bool {
    bits([(0, 0, value)])[0].2 == 0
}

//! Dense matrices of 16-bit elements, and casts from and to `f32`: launches of the kernel family `half_precision`.

use std::{fmt, marker::PhantomData};

use half::{bf16, f16};
use kernels_gpu::half_precision::{self, FromF32Args, Half as _, Key, Operation, ToF32Args, VECTOR, grid_size};

use super::{DenseMut, DenseRef, DeviceDense, Rows, RowsMut, in_rows, write_rows};
use crate::{
    Device, Error, Result,
    device::{check_length, launch},
    memory,
    parallel::for_blocks,
};

/// `bf16` or `f16`, the types of the crate `half`: an element type of [`HalfDense`]. The trait is sealed.
pub trait Half: sealed::Sealed + Copy + Default + fmt::Debug + PartialEq + PartialOrd + Send + Sync + 'static {
    #[doc(hidden)]
    type Format: half_precision::Half;
    #[doc(hidden)]
    fn with_bits(bits: u16) -> Self;
    #[doc(hidden)]
    fn bits(self) -> u16;
}

macro_rules! halves {
    ($($type:ident: $Format:ident;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Half for $type {
            type Format = half_precision::$Format;
            fn with_bits(bits: u16) -> Self {
                Self::from_bits(bits)
            }
            fn bits(self) -> u16 {
                self.to_bits()
            }
        }
    )*};
}
halves! {
    bf16: Bf16;
    f16: F16;
}

mod sealed {
    /// What only this crate can name: kernels exist for no other types.
    pub trait Sealed {}
}

/// A dense matrix of [`bf16`] or [`f16`](struct@f16) in device memory, row-major: half the bytes of one in `f32`.
///
/// For storage: products read and write it, and add up in `f32` ([`Adjacency::spmm_half`](crate::Adjacency::spmm_half)). For other operations, cast to
/// `f32`. `bf16` has the range of `f32` and 8 binary digits; `f16` has 11, and numbers up to 65504.
///
/// ```
/// use warpsparse::{Device, HalfDense, bf16};
///
/// let device = Device::auto();
/// let x = device.upload_dense((2, 3), &[1.0f32, 2.0, 3.0, 1.0 / 3.0, 257.0, 1e9])?;
/// let mut rounded: HalfDense<bf16> = device.zeros_half((2, 3))?;
/// rounded.cast_from(&x)?;
/// assert_eq!(rounded.to_vec()?[..3], [1.0, 2.0, 3.0].map(bf16::from_f32));
/// let mut back = device.zeros_dense((2, 3))?;
/// rounded.cast_to(&mut back)?;
/// assert_eq!(back.to_vec()?[3..], [0.333_984_38, 256.0, 998_244_352.0]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// Memory: 2 bytes for each element, where a row has as many as the next multiple of 8 columns.
pub struct HalfDense<H> {
    /// Two elements each, the lower half first; rows are filled up to whole vectors.
    words: DeviceDense<u32>,
    ncols: usize,
    element: PhantomData<H>,
}

impl<H> fmt::Debug for HalfDense<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nrows, element) = (self.words.nrows(), std::any::type_name::<H>());
        let mut text = f.debug_struct("HalfDense");
        text.field("nrows", &nrows).field("ncols", &self.ncols).field("element", &element).finish()
    }
}

/// Words of a row of so many columns, unless there are too many.
fn words_of_row(ncols: usize) -> Result<usize> {
    // Kernels count fewer than 2^28 vectors.
    match i32::try_from(ncols.saturating_add(VECTOR - 1)) {
        Ok(_) => Ok(ncols.div_ceil(VECTOR) * (VECTOR / 2)),
        Err(_) => Err(Error::Unsupported(format!("a dense matrix of {ncols} columns of 16 bits"))),
    }
}

impl Device {
    /// Creates a matrix of zeros with 16-bit elements: `device.zeros_half::<bf16>((nrows, ncols))`.
    ///
    /// # Errors
    /// [`Unsupported`](Error::Unsupported) for more than 2³¹ - 8 columns; [`OutOfMemory`](Error::OutOfMemory); [`Driver`](Error::Driver).
    pub fn zeros_half<H: Half>(&self, (nrows, ncols): (usize, usize)) -> Result<HalfDense<H>> {
        Ok(HalfDense { words: self.zeros_dense((nrows, words_of_row(ncols)?))?, ncols, element: PhantomData })
    }

    /// Uploads a matrix of 16-bit elements, row-major and without gaps: `device.upload_half((nrows, ncols), &values)`. Waits for the copy.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch) unless there are `nrows * ncols` values; [`InvalidOption`](Error::InvalidOption) while a graph is recorded;
    /// otherwise as [`zeros_half`](Self::zeros_half).
    pub fn upload_half<H: Half>(&self, (nrows, ncols): (usize, usize), values: &[H]) -> Result<HalfDense<H>> {
        check_length("the vector of a dense matrix", nrows.saturating_mul(ncols), values.len())?;
        let of_row = words_of_row(ncols)?;
        let mut words = memory::zeros::<u32>(nrows.saturating_mul(of_row))?;
        // Of no columns there are no words either.
        for (words, values) in words.chunks_mut(of_row.max(1)).zip(values.chunks(ncols.max(1))) {
            for (word, pair) in words.iter_mut().zip(values.chunks(2)) {
                *word = pair.iter().rev().fold(0, |word, value| word << 16 | u32::from(value.bits()));
            }
        }
        Ok(HalfDense { words: self.upload_dense((nrows, of_row), &words)?, ncols, element: PhantomData })
    }
}

impl<H: Half> HalfDense<H> {
    /// Returns the number of rows.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.words.nrows()
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// Returns the device that holds the matrix, whose stream runs the operations that write it.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.words.device()
    }

    /// Copies the elements to the host in row-major order without gaps, after all earlier operations on the stream have finished.
    ///
    /// # Errors
    /// As [`DeviceVec::to_vec`](crate::DeviceVec::to_vec); [`OutOfMemory`](Error::OutOfMemory) on the host.
    pub fn to_vec(&self) -> Result<Vec<H>> {
        let (words, ncols) = (self.words.to_vec()?, self.ncols);
        let mut values = memory::room(self.nrows() * ncols)?;
        for row in words.chunks(self.words.ncols().max(1)) {
            values.extend((0..ncols).map(|column| H::with_bits((row[column / 2] >> (16 * (column % 2))) as u16)));
        }
        Ok(values)
    }

    /// Rounds the elements of a matrix of the same size, in any [layout](crate::DenseLayout), to the nearest numbers of this type, of two to that whose last
    /// digit is 0; too large ones become infinite. A NaN becomes the NaN of bits `0x7fff`. Queued on this matrix's stream; `O(n)` work. A column-major matrix is
    /// copied.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`DeviceMismatch`](Error::DeviceMismatch), [`OutOfMemory`](Error::OutOfMemory),
    /// [`Driver`](Error::Driver); [`Unsupported`](Error::Unsupported) for sizes beyond the limits of a launch.
    pub fn cast_from<'x>(&mut self, x: impl Into<DenseRef<'x, f32>>) -> Result<()> {
        let x = x.into();
        self.check_size(x.nrows(), x.ncols(), x.device())?;
        if self.nrows() == 0 || self.ncols == 0 {
            return Ok(());
        }
        let copy = in_rows(self.device(), x)?;
        let x = copy.as_ref().map_or(x, DeviceDense::view);
        let (nrows, ncols) = (self.nrows(), self.ncols);
        if self.device().is_cpu() {
            round_on_cpu::<H>(self.words.view_mut(), x);
            return Ok(());
        }
        let entry = Key { format: H::Format::FORMAT, operation: Operation::FromF32 }.entry();
        let (queue, y) = self.words.view_mut().into_writable();
        let x_stride = x.leading_dimension() as u64;
        let args = FromF32Args { rows: nrows as u64, cols: ncols as u32, x_stride, x: x.readable(), y };
        // SAFETY: matrices of one size that their vectors have room for, `x` row-major; `y` is borrowed mutably, and allocations are aligned to 16 bytes.
        unsafe { launch(queue, entry, blocks(nrows, ncols)?, args) }
    }

    /// Writes the elements to a matrix of the same size in `f32`, in any [layout](crate::DenseLayout), exactly; of a NaN some NaN. Queued on that matrix's stream;
    /// `O(n)` work.
    ///
    /// # Errors
    /// As [`cast_from`](Self::cast_from).
    pub fn cast_to<'y>(&self, y: impl Into<DenseMut<'y, f32>>) -> Result<()> {
        let y = y.into();
        self.check_size(y.nrows(), y.ncols(), y.device())?;
        if self.nrows() == 0 || self.ncols == 0 {
            return Ok(());
        }
        let (nrows, ncols) = (self.nrows(), self.ncols);
        write_rows(y, false, |y| {
            if self.device().is_cpu() {
                widen_on_cpu::<H>(y, self.words.view());
                return Ok(());
            }
            let entry = Key { format: H::Format::FORMAT, operation: Operation::ToF32 }.entry();
            let y_stride = y.leading_dimension() as u64;
            let (queue, y) = y.into_writable();
            let x = self.words.view().readable();
            let args = ToF32Args { rows: nrows as u64, cols: ncols as u32, y_stride, x, y };
            // SAFETY: matrices of one size that their vectors have room for, `y` row-major; it is borrowed mutably, and allocations are aligned to 16 bytes.
            unsafe { launch(queue, entry, blocks(nrows, ncols)?, args) }
        })
    }

    fn check_size(&self, nrows: usize, ncols: usize, device: &Device) -> Result<()> {
        check_length("the column of the matrix", self.nrows(), nrows)?;
        check_length("the row of the matrix", self.ncols, ncols)?;
        self.device().check_same("the matrix", device)
    }

    /// The words: as many rows, each filled up to whole vectors.
    pub(crate) fn words(&self) -> DenseRef<'_, u32> {
        self.words.view()
    }

    /// The same, to write them.
    pub(crate) fn words_mut(&mut self) -> DenseMut<'_, u32> {
        self.words.view_mut()
    }
}

/// The blocks of a cast.
fn blocks(nrows: usize, ncols: usize) -> Result<u32> {
    let blocks = grid_size((nrows as u64).saturating_mul(ncols.div_ceil(VECTOR) as u64), 1);
    let too_many = |_| Error::Unsupported(format!("a cast of {nrows} x {ncols} elements: the grid is too large"));
    i32::try_from(blocks).map(|blocks| blocks as u32).map_err(too_many)
}

fn round_on_cpu<H: Half>(words: DenseMut<'_, u32>, x: DenseRef<'_, f32>) {
    let (of_row, ncols, x) = (words.ncols(), x.ncols(), Rows::new(x));
    let words = RowsMut::new(words).elements;
    for_blocks(0..words.len(), words, &|places, block| {
        for (place, word) in places.zip(block) {
            let (row, column) = (x.part(place / of_row, 0, ncols), 2 * (place % of_row));
            let bits = |column: usize| row.get(column).map_or(0, |&x| u32::from(H::Format::narrow(x)));
            *word = bits(column) | bits(column + 1) << 16;
        }
    });
}

fn widen_on_cpu<H: Half>(y: DenseMut<'_, f32>, words: DenseRef<'_, u32>) {
    let (ncols, words) = (y.ncols(), Rows::new(words));
    let RowsMut { elements, leading_dimension } = RowsMut::new(y);
    for_blocks(0..elements.len(), elements, &|places, block| {
        for (place, element) in places.zip(block) {
            let (row, column) = (place / leading_dimension, place % leading_dimension);
            if column < ncols {
                *element = H::Format::widen((words.at(row, column / 2) >> (16 * (column % 2))) as u16);
            }
        }
    });
}

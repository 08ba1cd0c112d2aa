//! The order in which the rows of a triangle can be solved.

use std::borrow::Cow;

use kernels_gpu::trsv::{BLOCK_SIZE, LANES};

use super::{Diagonal, Triangle, bad_diagonal};
use crate::{Device, DeviceVec, Result, Scalar, algebra::Operand, memory};

/// Up to so many entries of a row in the mean, a row gets so many lanes. Not measured yet.
const MEAN_OF_LANES: [(u32, u32); 2] = [(6, LANES[0]), (64, LANES[1])];

/// The rows of a triangle by level.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(super) triangle: Triangle,
    pub(super) diagonal: Diagonal,
    levels: usize,
    /// For kernels; the CPU needs none.
    pub(super) on_device: Option<OnDevice>,
}

/// What kernels know.
#[derive(Debug)]
pub(super) struct OnDevice {
    pub(super) order: DeviceVec<u32>,
    /// Of each row in that order, the first entry of its part without the diagonal, in the upper half, and their number.
    pub(super) spans: DeviceVec<u64>,
    /// The first place of each tile in that order, and the end of the last.
    pub(super) tiles: DeviceVec<u32>,
    pub(super) lanes: u32,
}

impl Schedule {
    /// Analyses a triangle of a square, canonical matrix.
    ///
    /// # Errors
    /// [`Breakdown`](crate::Error::Breakdown) if an element of a stored diagonal is missing.
    pub(crate) fn new<T: Scalar>(matrix: &Operand<T>, triangle: Triangle, diagonal: Diagonal) -> Result<Self> {
        let (device, offsets, columns) = match matrix {
            Operand::Host(matrix) => (None, Cow::Borrowed(matrix.row_offsets()), Cow::Borrowed(matrix.col_indices())),
            Operand::Device(arrays) => {
                let device = &arrays.device;
                let (offsets, columns) = (arrays.row_offsets.to_vec(device)?, arrays.col_indices.to_vec(device)?);
                (Some(device), Cow::Owned(offsets), Cow::Owned(columns))
            }
        };
        let rows = Rows { offsets: &offsets, columns: &columns, triangle };
        if diagonal == Diagonal::Stored
            && let Some(row) = (0..rows.len()).find(|&row| !rows.has_diagonal(row))
        {
            return Err(bad_diagonal(row));
        }
        let (of_rows, first_places) = rows.levels()?;
        let levels = first_places.len() - 1;
        let on_device = device.map(|device| OnDevice::new(device, &rows, &of_rows, first_places)).transpose()?;
        Ok(Self { triangle, diagonal, levels, on_device })
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// The rows by level, on the device.
    pub(crate) fn order(&self) -> Option<&DeviceVec<u32>> {
        self.on_device.as_ref().map(|on_device| &on_device.order)
    }
}

/// The rows of a triangle of a canonical matrix.
struct Rows<'a> {
    offsets: &'a [u32],
    columns: &'a [u32],
    triangle: Triangle,
}

impl Rows<'_> {
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The first entry that is not below the diagonal.
    fn split(&self, row: usize) -> usize {
        let (begin, end) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        begin + self.columns[begin..end].partition_point(|&column| (column as usize) < row)
    }

    fn has_diagonal(&self, row: usize) -> bool {
        let split = self.split(row);
        split < self.offsets[row + 1] as usize && self.columns[split] as usize == row
    }

    /// The entries of the triangle without the diagonal.
    fn span(&self, row: usize) -> (usize, usize) {
        let split = self.split(row);
        match self.triangle {
            Triangle::Lower => (self.offsets[row] as usize, split),
            Triangle::Upper => (split + usize::from(self.has_diagonal(row)), self.offsets[row + 1] as usize),
        }
    }

    /// The level of each row, and the first place of each level in the order of levels, with the end of the last.
    fn levels(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let n = self.len();
        let (mut levels, mut first_places) = (memory::zeros::<u32>(n)?, vec![0u32]);
        for step in 0..n {
            let row = if self.triangle == Triangle::Lower { step } else { n - 1 - step };
            let (begin, end) = self.span(row);
            let level = self.columns[begin..end].iter().map(|&column| levels[column as usize] + 1).max().unwrap_or(0);
            levels[row] = level;
            if first_places.len() < level as usize + 2 {
                first_places.push(0);
            }
            first_places[level as usize + 1] += 1;
        }
        for level in 1..first_places.len() {
            first_places[level] += first_places[level - 1];
        }
        Ok((levels, first_places))
    }
}

impl OnDevice {
    fn new(device: &Device, rows: &Rows<'_>, levels: &[u32], first_places: Vec<u32>) -> Result<Self> {
        let n = rows.len();
        let (mut order, mut spans, mut entries) = (memory::zeros::<u32>(n)?, memory::zeros::<u64>(n)?, 0);
        let mut next = first_places.clone();
        for (row, &level) in levels.iter().enumerate() {
            let place = next[level as usize] as usize;
            next[level as usize] += 1;
            let (begin, end) = rows.span(row);
            order[place] = row as u32;
            spans[place] = (begin as u64) << 32 | (end - begin) as u64;
            entries += end - begin;
        }
        let mean = entries.div_ceil(n.max(1)) as u32;
        let lanes = MEAN_OF_LANES.iter().find(|(most, _)| mean <= *most).map_or(LANES[2], |(_, lanes)| *lanes);
        let step = BLOCK_SIZE / lanes;
        let mut tiles = vec![];
        for level in first_places.windows(2) {
            tiles.extend((level[0]..level[1]).step_by(step as usize));
        }
        tiles.push(n as u32);
        Ok(Self {
            order: device.upload_vec(&order)?,
            spans: device.upload_vec(&spans)?,
            tiles: device.upload_vec(&tiles)?,
            lanes,
        })
    }
}

//! The order in which the rows of a triangle can be solved.

use std::{borrow::Cow, ops::Range};

use kernels_gpu::trsv::{BLOCK_SIZE, LANES};

use super::{Diagonal, Triangle, bad_diagonal};
use crate::{CsrMatrix, Device, DeviceVec, Result, Scalar, algebra::Operand, memory};

/// Up to so many entries of a row in the mean, a row gets so many lanes: those load twice as many at a time, so that few rows wait twice. Rows of one lane need no
/// exchange of sums, and those of stencils differ little in length. Not measured yet.
const MEAN_OF_LANES: [(u32, u32); 4] = [(3, LANES[0]), (8, LANES[1]), (16, LANES[2]), (32, LANES[3])];

/// Blocks look for elements of `x` from so many levels of mean width before their own. In a cube the widest are about twice as wide as the mean. Not measured yet.
const REACH_OF_LEVELS: u32 = 4;

/// They do so at least from so many tiles before: one for each multiprocessor, about. Not measured yet.
const LEAST_REACH: u32 = 128;

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
    /// So many tiles before its own, a block begins to look for elements of `x`.
    pub(super) reach: u32,
}

impl Schedule {
    /// Analyses a triangle of a square matrix.
    ///
    /// # Errors
    /// [`Breakdown`](crate::Error::Breakdown) if an element of a stored diagonal is missing.
    pub(crate) fn new(rows: &Rows<'_>, triangle: Triangle, diagonal: Diagonal) -> Result<Self> {
        if diagonal == Diagonal::Stored
            && let Some(row) = (0..rows.len()).find(|&row| !rows.has_diagonal(row))
        {
            return Err(bad_diagonal(row));
        }
        let (of_rows, first_places) = rows.levels(triangle)?;
        let levels = first_places.len() - 1;
        let on_device =
            rows.device.map(|device| OnDevice::new(device, (rows, triangle), &of_rows, first_places)).transpose()?;
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

/// The pattern of a canonical matrix, on the host.
pub(crate) struct Rows<'a> {
    offsets: Cow<'a, [u32]>,
    columns: Cow<'a, [u32]>,
    /// Where the matrix is, if that is a GPU or the emulator.
    device: Option<&'a Device>,
}

impl<'a> Rows<'a> {
    /// Copies the pattern of a matrix that is not on the CPU, and waits for it.
    pub(crate) fn of<T: Scalar>(matrix: &'a Operand<T>) -> Result<Self> {
        Ok(match matrix {
            Operand::Host(matrix) => Self::on_cpu(matrix),
            Operand::Device(arrays) => {
                let device = &arrays.device;
                let (offsets, columns) = (arrays.row_offsets.to_vec(device)?, arrays.col_indices.to_vec(device)?);
                Self { offsets: offsets.into(), columns: columns.into(), device: Some(device) }
            }
        })
    }

    pub(crate) fn on_cpu<T: Scalar>(matrix: &'a CsrMatrix<T>) -> Self {
        Self { offsets: matrix.row_offsets().into(), columns: matrix.col_indices().into(), device: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The first entry of a row that is not below the diagonal: the one on it, if there is one.
    pub(crate) fn split(&self, row: usize) -> usize {
        let (begin, end) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        begin + self.columns[begin..end].partition_point(|&column| (column as usize) < row)
    }

    fn has_diagonal(&self, row: usize) -> bool {
        let split = self.split(row);
        split < self.offsets[row + 1] as usize && self.columns[split] as usize == row
    }

    /// The entries of a row of the triangle without the diagonal.
    pub(super) fn span(&self, row: usize, triangle: Triangle) -> Range<usize> {
        let split = self.split(row);
        match triangle {
            Triangle::Lower => self.offsets[row] as usize..split,
            Triangle::Upper => split + usize::from(self.has_diagonal(row))..self.offsets[row + 1] as usize,
        }
    }

    /// The level of each row, and the first place of each level in the order of levels, with the end of the last.
    fn levels(&self, triangle: Triangle) -> Result<(Vec<u32>, Vec<u32>)> {
        let n = self.len();
        let (mut levels, mut first_places) = (memory::zeros::<u32>(n)?, vec![0u32]);
        for step in 0..n {
            let row = triangle.nth(step, n);
            let columns = &self.columns[self.span(row, triangle)];
            let level = columns.iter().map(|&column| levels[column as usize] + 1).max().unwrap_or(0);
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
    fn new(
        device: &Device,
        (rows, triangle): (&Rows<'_>, Triangle),
        levels: &[u32],
        first_places: Vec<u32>,
    ) -> Result<Self> {
        let n = rows.len();
        let (mut order, mut spans, mut entries) = (memory::zeros::<u32>(n)?, memory::zeros::<u64>(n)?, 0);
        let mut next = first_places.clone();
        for (row, &level) in levels.iter().enumerate() {
            let place = next[level as usize] as usize;
            next[level as usize] += 1;
            let span = rows.span(row, triangle);
            order[place] = row as u32;
            spans[place] = (span.start as u64) << 32 | span.len() as u64;
            entries += span.len();
        }
        let mean = entries.div_ceil(n.max(1)) as u32;
        let lanes = MEAN_OF_LANES.iter().find(|(most, _)| mean <= *most).map_or(LANES[2], |(_, lanes)| *lanes);
        let step = BLOCK_SIZE / lanes;
        let mut tiles = vec![];
        for level in first_places.windows(2) {
            tiles.extend((level[0]..level[1]).step_by(step as usize));
        }
        tiles.push(n as u32);
        let reach = reach(tiles.len() as u32 - 1, first_places.len() as u32 - 1);
        Ok(Self {
            order: device.upload_vec(&order)?,
            spans: device.upload_vec(&spans)?,
            tiles: device.upload_vec(&tiles)?,
            lanes,
            reach,
        })
    }
}

/// For so many tiles of so many levels.
fn reach(tiles: u32, levels: u32) -> u32 {
    (REACH_OF_LEVELS * tiles.div_ceil(levels.max(1))).max(LEAST_REACH)
}

//! Pieces of long lists.

use std::sync::Arc;

use kernels_gpu::{
    graph_lists::{self, PIECE, threads},
    graph_pieces::{Args, Key},
};

use super::{blocks, narrow, stride_mut};
use crate::{
    DenseMut, Device, DeviceVec, Result, Scalar,
    device::{KernelLaunch, launch},
    memory::zeros,
};

/// The pieces of lists with more than [`PIECE`] entries, which groups of lanes share; none on the CPU.
#[derive(Debug)]
pub(super) struct Pieces {
    /// The list of each piece.
    lists: DeviceVec<u32>,
    /// The first entry of each piece.
    begins: DeviceVec<u32>,
    /// The first piece of each long list.
    firsts: DeviceVec<u32>,
}

impl Pieces {
    /// Those of the lists with these offsets.
    pub(super) fn new(device: &Device, offsets: &[u32]) -> Result<Self> {
        let is_long = |ends: &&[u32]| !device.is_cpu() && ends[1] - ends[0] > PIECE;
        let long_lists = offsets.windows(2).filter(is_long);
        let count = long_lists.clone().map(|ends| (ends[1] - ends[0]).div_ceil(PIECE) as usize).sum();
        let (mut lists, mut begins) = (zeros::<u32>(count)?, zeros::<u32>(count)?);
        let mut firsts = zeros::<u32>(long_lists.count())?;
        let (mut piece, mut long_list) = (0, 0);
        for (list, ends) in offsets.windows(2).enumerate().filter(|(_, ends)| is_long(ends)) {
            firsts[long_list] = piece as u32;
            long_list += 1;
            for begin in (ends[0]..ends[1]).step_by(PIECE as usize) {
                (lists[piece], begins[piece]) = (list as u32, begin);
                piece += 1;
            }
        }
        let [lists, begins, firsts] = [lists, begins, firsts].map(|array| DeviceVec::share(device, &Arc::new(array)));
        Ok(Self { lists: lists?, begins: begins?, firsts: firsts? })
    }

    /// Returns the number of pieces.
    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Returns the number of lists that have pieces.
    pub(super) fn long_lists(&self) -> usize {
        self.firsts.len()
    }

    /// Returns the blocks of a launch that has a thread for each of so many columns of every long list.
    pub(super) fn blocks(&self, columns: usize) -> Result<u32> {
        blocks(threads(self.firsts.len() as u32, narrow(columns)?), 1)
    }

    /// Writes `c = alpha * sums + beta * c` to the rows of long lists, where the sums are those of the rows of their pieces.
    pub(super) fn add_up<T: Scalar>(
        &self,
        (alpha, beta): (T, T),
        of_pieces: &DeviceVec<T>,
        c: DenseMut<'_, T>,
    ) -> Result<()> {
        if self.len() == 0 || c.ncols() == 0 {
            return Ok(());
        }
        let (columns, c_stride) = (c.ncols(), stride_mut(&c));
        let (queue, c) = c.into_writable();
        let (pieces, of_pieces) = (self.argument(), of_pieces.readable());
        let args = Args { pieces, cols: columns as u32, c_stride, alpha, beta, of_pieces, c };
        // SAFETY: the pieces of lists that this row-major matrix has a row for each; it is borrowed mutably. The entry is for `T`.
        unsafe { launch(queue, Key { dtype: T::DTYPE }.entry(), self.blocks(columns)?, args) }
    }

    /// The part of a kernel's arguments. Its rules hold for the lists of the same offsets.
    pub(super) fn argument(&self) -> graph_lists::Pieces<KernelLaunch<'_>> {
        graph_lists::Pieces {
            count: self.len() as u32,
            long_lists: self.firsts.len() as u32,
            lists: self.lists.readable(),
            begins: self.begins.readable(),
            firsts: self.firsts.readable(),
        }
    }
}

//! Pieces of long lists.

use std::sync::Arc;

use kernels_gpu::graph_lists::{self, PIECE};

use crate::{Device, DeviceVec, Result, device::KernelLaunch, memory::zeros};

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

    /// Returns the number of long lists.
    pub(super) fn long_lists(&self) -> usize {
        self.firsts.len()
    }

    /// The part of a kernel's arguments. Its rules hold for the lists of the same offsets.
    pub(super) fn argument(&self) -> graph_lists::Pieces<KernelLaunch<'_>> {
        graph_lists::Pieces {
            count: self.len() as u32,
            long_lists: self.long_lists() as u32,
            lists: self.lists.readable(),
            begins: self.begins.readable(),
            firsts: self.firsts.readable(),
        }
    }
}

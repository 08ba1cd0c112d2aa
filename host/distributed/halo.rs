//! The halo: the elements of other ranks that a product needs.

use std::{cell::RefCell, fmt, ops::Range};

use super::{
    Communicator, Partition,
    blocks::Blocks,
    bytes::to_bytes,
    communicator::{Call, decode},
    windows::Route,
};
use crate::{DeviceIndices, DeviceVec, Error, ErrorKind, Result, Scalar, memory};

/// Which rows a rank sends to the others, and which it receives from them.
pub(super) struct Halo<T> {
    /// The own rows that others need, those of rank 0 first.
    sent: Vec<u32>,
    /// How many of them each rank needs.
    sent_counts: Vec<usize>,
    /// How many rows each rank sends. They come in the order of ranks.
    received_counts: Vec<usize>,
    /// What packs rows of each width that has been exchanged, if they do not go by windows.
    packs: RefCell<Vec<Pack<T>>>,
    /// The way by windows, if they do.
    route: Option<Route>,
}

/// Asks the other ranks for rows, given in ascending order. Returns the own rows that each rank asks for, as this rank counts them.
pub(super) fn requests(call: Call<'_>, partition: &Partition, needed: &[u32]) -> Result<Vec<Vec<u32>>> {
    let own_rank = call.rank();
    let own = partition.rows(own_rank);
    let requests = call.exchange(|rank| to_bytes(&needed[of_rank(partition, rank, needed)]))?;
    let decoded = requests.iter().enumerate().map(|(rank, request)| {
        let rows = decode::<u32>(rank, request.len() / size_of::<u32>(), request)?;
        if let Some(row) = rows.iter().find(|&&row| !own.contains(&(row as usize))) {
            let problem = format!("asks rank {own_rank} for row {row}, which that does not have");
            return Err(Error::Rank { rank, problem, kind: ErrorKind::InvalidInput });
        }
        Ok(rows.iter().map(|&row| row - own.start as u32).collect())
    });
    decoded.collect()
}

/// The places of a rank's rows among the numbers of rows, which ascend.
pub(super) fn of_rank(partition: &Partition, rank: usize, numbers: &[u32]) -> Range<usize> {
    let rows = partition.rows(rank);
    let place = |row: usize| numbers.partition_point(|&number| (number as usize) < row);
    place(rows.start)..place(rows.end)
}

/// Packs the elements to send.
struct Pack<T> {
    width: usize,
    elements: DeviceIndices,
    packed: DeviceVec<T>,
}

impl<T: Scalar> Halo<T> {
    /// Asks the other ranks for rows, given in ascending order. Collective.
    pub(super) fn new(communicator: &Communicator, partition: &Partition, needed: &[u32]) -> Result<Self> {
        let call = communicator.call(format!("a halo of columns divided as {:016x}", partition.fingerprint()));
        let received_counts: Vec<usize> =
            (0..communicator.size()).map(|rank| of_rank(partition, rank, needed).len()).collect();
        let requests = requests(call, partition, needed)?;
        let sent_counts: Vec<usize> = requests.iter().map(Vec::len).collect();
        let sent = requests.concat();
        let windows = communicator.windows();
        let route = windows.map(|windows| windows.route(&sent, &sent_counts, &received_counts)).transpose()?;
        Ok(Self { sent, sent_counts, received_counts, packs: RefCell::default(), route })
    }

    /// The number of rows that this rank receives.
    pub(super) fn rows(&self) -> usize {
        self.received_counts.iter().sum()
    }

    /// The number of ranks that send rows to this one.
    pub(super) fn neighbours(&self) -> usize {
        self.received_counts.iter().filter(|&&count| count > 0).count()
    }

    /// Fills the halo of `x`, and does `meanwhile`, which reads the own rows, while it is on its way; with windows afterwards, as the exchange
    /// is over before another kernel could begin. Without a call the ranks agree already, and exchange data in streams.
    pub(super) fn exchange(
        &self,
        call: Option<Call<'_>>,
        x: &mut Blocks<T>,
        meanwhile: impl FnOnce(&Blocks<T>) -> Result<()>,
    ) -> Result<()> {
        x.reserve(self.rows())?;
        let communicator = x.communicator().clone();
        if let (Some(windows), Some(route)) = (communicator.windows(), &self.route) {
            if let Some(call) = call {
                // So every rank queues its part.
                call.all_gather(&[])?;
            }
            windows.exchange(route, x, communicator.time_limit())?;
            return meanwhile(x);
        }
        let mut packs = self.packs.borrow_mut();
        let pack = self.pack(&mut packs, x)?;
        let of_rank = |counts: &[usize], rank: usize| counts[rank] * x.width();
        let (own_rows, width) = (x.own_rows(), x.width());
        #[cfg(feature = "cuda")]
        if let Some(nccl) = communicator.nccl() {
            if let Some(call) = call {
                // So every rank queues its part.
                call.all_gather(&[])?;
            }
            let counts = |counts: &[usize]| counts.iter().map(|count| count * width).collect::<Vec<_>>();
            let (sent, received) = (counts(&self.sent_counts), counts(&self.received_counts));
            let queued = nccl.exchange(&pack.packed, &sent, x.storage_mut(), own_rows * width, &received);
            communicator.of_nccl(queued)?;
            return meanwhile(x);
        }
        let call = call.expect("host memory takes a call");
        let packed = pack.packed.to_vec()?;
        let mut start = 0;
        let posted = call.post(|rank| {
            let elements = start..start + of_rank(&self.sent_counts, rank);
            start = elements.end;
            to_bytes(&packed[elements])
        })?;
        let done = meanwhile(x);
        // Also after an error, so that the next operation does not find these messages.
        let received = posted.collect()?;
        done?;
        let mut halo = memory::room(self.rows() * width)?;
        for (rank, bytes) in received.iter().enumerate() {
            halo.extend(decode::<T>(rank, of_rank(&self.received_counts, rank), bytes)?);
        }
        x.storage_mut().slice_mut(own_rows * width..(own_rows + self.rows()) * width)?.copy_from(&halo)
    }

    /// Packs the elements to send, those for rank 0 first.
    fn pack<'p>(&self, packs: &'p mut Vec<Pack<T>>, x: &Blocks<T>) -> Result<&'p Pack<T>> {
        let place = packs.iter().position(|pack| pack.width == x.width());
        let place = match place {
            Some(place) => place,
            None => {
                packs.push(Pack::new(&self.sent, x)?);
                packs.len() - 1
            }
        };
        let Pack { elements, packed, .. } = &mut packs[place];
        packed.gather(elements, x.own())?;
        Ok(&packs[place])
    }
}

impl<T: Scalar> Pack<T> {
    fn new(rows: &[u32], x: &Blocks<T>) -> Result<Self> {
        let (device, width, len) = (x.communicator().device(), x.width(), x.own().len());
        if u32::try_from(len).is_err() {
            return Err(Error::Unsupported(format!("a halo of a rank's {len} elements, 2^32 and more")));
        }
        let mut elements = memory::room(rows.len() * width)?;
        // Each is less than the number of elements.
        elements.extend(rows.iter().flat_map(|&row| (0..width as u32).map(move |column| row * width as u32 + column)));
        let packed = device.zeros(elements.len())?;
        Ok(Self { width, elements: device.upload_indices(&elements, len)?, packed })
    }
}

impl<T> fmt::Debug for Halo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, received_counts, .. } = self;
        let received: usize = received_counts.iter().sum();
        f.debug_struct("Halo").field("sent", &sent.len()).field("received", &received).finish_non_exhaustive()
    }
}

//! The exchange of data by memory that the devices of one machine write to each other: see the kernel family `cg_ranks`.

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use kernels_gpu::cg_ranks::{
    Key, Step, SumArgs,
    halo::{HaloArgs, TABLE_NUMBERS, grid_of_halo},
    window::{GAVE_UP, Link, flag, number_count, window_words},
};

use super::{Communicator, blocks::Blocks, transport::agree};
use crate::{
    DType, Device, DeviceVec, Error, ErrorKind, Result, Scalar,
    device::{KernelLaunch, Mark, OpenWindow, Readable, Window, Writable, launch, launch_at_once},
};

/// The result of what may be impossible on some machines: why it is.
type Possible<T> = std::result::Result<T, String>;

/// The windows of all ranks, as one of them reaches them.
pub(super) struct Windows {
    device: Device,
    rank: usize,
    ranks: usize,
    /// The address of each rank's window.
    addresses: DeviceVec<u64>,
    /// Numbers of exchanges.
    numbers: RefCell<DeviceVec<u32>>,
    own: Arc<Window>,
    /// Kept as long as kernels may write there.
    _of_threads: Vec<Arc<Window>>,
    _of_processes: Vec<OpenWindow>,
}

/// What a halo needs to go by windows.
pub(super) struct Route {
    /// The own rows that others need, those of rank 0 first.
    rows: DeviceVec<u32>,
    /// See [`HaloArgs::table`].
    table: DeviceVec<u32>,
    received_rows: usize,
    /// The most rows that go from this rank to another, or the other way.
    most: usize,
}

/// Parts of an exchange that blocks do on their own: so many blocks keep a link busy.
fn channels(device: &Device) -> usize {
    // Few in the emulator, so that small halos take several rounds.
    if device.is_cuda() { 128 } else { 2 }
}

/// The least time that a kernel takes to look for a word: on a GPU that of the L2 cache, in the emulator by its definition.
fn look(device: &Device) -> Duration {
    if device.is_cuda() { Duration::from_nanos(200) } else { Duration::from_micros(100) }
}

/// How long ranks wait for each other in the test of a new connection.
const TEST_LIMIT: Duration = Duration::from_secs(10);

impl Windows {
    /// Connects all ranks, if their devices reach each other's memory; says why not otherwise. Collective.
    pub(super) fn connect(communicator: &Communicator) -> Result<Possible<Self>> {
        let words = window_words(communicator.size(), channels(communicator.device()));
        let own =
            Window::new(communicator.device(), words, flag::COUNT).map(Arc::new).map_err(|error| error.to_string());
        let own = own.and_then(|own| {
            communicator.inbox().lend(Arc::clone(&own));
            let handle = if communicator.is_thread() { Vec::new() } else { own.handle()? };
            Ok((own, handle))
        });
        let (own, handle) = match agree(communicator, "a window of memory", own)? {
            Ok(own) => own,
            Err(problem) => return Ok(Err(problem)),
        };
        let handles = communicator.call("handles of windows").all_gather(&handle)?;
        let connected = Self::open(communicator, own, &handles);
        let windows = match agree(communicator, "windows of all ranks", connected)? {
            Ok(windows) => windows,
            Err(problem) => return Ok(Err(problem)),
        };
        let tested = windows.test();
        Ok(agree(communicator, "a sum by windows", tested)?.map(|()| windows))
    }

    /// Reaches the windows of all ranks.
    fn open(communicator: &Communicator, own: Arc<Window>, handles: &[Arc<[u8]>]) -> Possible<Self> {
        let (device, rank, ranks) = (communicator.device(), communicator.rank(), communicator.size());
        let (mut of_threads, mut of_processes, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for (other, handle) in handles.iter().enumerate() {
            addresses.push(if other == rank {
                own.address()
            } else if let Some(window) = communicator.window_of_thread(other) {
                window.reach(device)?;
                of_threads.push(Arc::clone(&window));
                window.address()
            } else {
                of_processes.push(OpenWindow::new(device, handle)?);
                of_processes[of_processes.len() - 1].address()
            });
        }
        let prepare = || {
            let numbers = RefCell::new(device.zeros(number_count(ranks, channels(device)))?);
            Ok((device.upload_vec(&addresses)?, numbers))
        };
        let (addresses, numbers) = prepare().map_err(|error: Error| error.to_string())?;
        let (device, _of_threads, _of_processes) = (device.clone(), of_threads, of_processes);
        Ok(Self { device, rank, ranks, addresses, numbers, own, _of_threads, _of_processes })
    }

    /// Adds the numbers of ranks. All do at the same time.
    fn test(&self) -> Possible<()> {
        let sums = self.sums([1.0, self.rank as f64], 3, TEST_LIMIT).map_err(|error| error.to_string())?;
        let ranks = self.ranks as f64;
        match self.failure() {
            Some(rank) => Err(format!("in a test, rank {rank} has not answered within {TEST_LIMIT:?}")),
            None if sums != [ranks, ranks * (ranks - 1.0) / 2.0] => Err(format!("a test gives the sums {sums:?}")),
            None => Ok(()),
        }
    }

    /// Adds two numbers of each rank, so many times, and returns the sums. Waits. All ranks do at the same time.
    pub(super) fn sums(&self, numbers: [f64; 2], times: u32, limit: Duration) -> Result<[f64; 2]> {
        let mut sums = self.device.upload_vec(&numbers)?;
        let mut of_exchanges = self.numbers.borrow_mut();
        let args = SumArgs { times, numbers: sums.writable(), link: self.link(&mut of_exchanges, limit) };
        let entry = Key { step: Step::Sum, dtype: DType::F64 }.entry();
        // SAFETY: two numbers, borrowed mutably; the link describes the windows of all ranks, which do the same in the same order.
        unsafe { launch(&self.device, entry, 1, args)? }
        let sums = sums.to_vec()?;
        Ok([sums[0], sums[1]])
    }

    /// The way to the other ranks, for a kernel. All ranks launch the same kernels with it in the same order.
    pub(super) fn link<'a>(&'a self, numbers: &'a mut DeviceVec<u32>, limit: Duration) -> Link<KernelLaunch<'a>> {
        let patience = limit.as_nanos() / look(&self.device).as_nanos();
        Link {
            ranks: self.ranks as u32,
            rank: self.rank as u32,
            channels: channels(&self.device) as u32,
            patience: u64::try_from(patience).unwrap_or(u64::MAX).max(1),
            flags: self.own.address_of_flags(),
            windows: self.addresses.readable(),
            numbers: numbers.writable(),
        }
    }

    /// The numbers of exchanges, for [`link`](Self::link).
    pub(super) fn numbers(&self) -> &RefCell<DeviceVec<u32>> {
        &self.numbers
    }

    /// Prepares a halo: the own rows to send, those of rank 0 first, and how many go to each rank, and come from each.
    pub(super) fn route(&self, rows: &[u32], sent: &[usize], received: &[usize]) -> Result<Route> {
        let mut table = Vec::with_capacity(TABLE_NUMBERS * self.ranks);
        let mut starts = [0u32; 2];
        for counts in sent.iter().zip(received) {
            // Each rank has fewer than 2^32 rows.
            for (start, &count) in starts.iter_mut().zip([counts.0, counts.1]) {
                table.extend([*start, count as u32]);
                *start = start.wrapping_add(count as u32);
            }
        }
        Ok(Route {
            rows: self.device.upload_vec(rows)?,
            table: self.device.upload_vec(&table)?,
            received_rows: received.iter().sum(),
            most: sent.iter().chain(received).copied().max().unwrap_or(0),
        })
    }

    /// Queues the exchange of a halo. All ranks do.
    pub(super) fn exchange<T: Scalar>(&self, route: &Route, x: &mut Blocks<T>, limit: Duration) -> Result<()> {
        let (own_rows, width) = (x.own_rows(), x.width());
        let Some(most) = route.most.checked_mul(width).filter(|&most| most < 1 << 31) else {
            let problem = format!("a halo of {} rows of {width} elements, 2^31 or more, of one rank", route.most);
            return Err(Error::Unsupported(problem));
        };
        if most == 0 {
            return Ok(());
        }
        let mut numbers = self.numbers.borrow_mut();
        let args = HaloArgs {
            own_rows: own_rows as u32,
            width: width as u32,
            sent_rows: route.rows.len() as u32,
            received_rows: route.received_rows as u32,
            table: route.table.readable(),
            rows: route.rows.readable(),
            x: x.storage_mut().writable(),
            link: self.link(&mut numbers, limit),
        };
        let blocks = grid_of_halo(most as u32, size_of::<T>() as u32, channels(&self.device) as u32);
        let entry = Key { step: Step::Halo, dtype: T::DTYPE }.entry();
        // SAFETY: the rows to send are own ones, and there is room for those to receive, of the same number as the others send; the vector is
        // borrowed mutably. The link is as in `sums`. So few blocks run at the same time on any GPU, once what is queued before them has ended.
        unsafe { launch_at_once(&self.device, entry, blocks, args) }
    }

    /// The rank that a kernel has waited for in vain, if one has. After what is queued has ended.
    pub(super) fn failure(&self) -> Option<usize> {
        let word = self.own.flag(flag::IN_VAIN).load(Relaxed);
        (word != 0).then(|| (word - GAVE_UP) as usize)
    }
}

/// No way to other ranks: another transport exchanges what the kernel leaves.
pub(super) fn no_link<'a>() -> Link<KernelLaunch<'a>> {
    let (windows, numbers) = (Readable::default(), Writable::default());
    Link { ranks: 0, rank: 0, channels: 0, patience: 0, flags: 0, windows, numbers }
}

/// The error of a rank that another one has waited for.
pub(super) fn not_answered(rank: usize, limit: Duration) -> Error {
    let problem = format!("has not answered within {limit:?}");
    Error::Rank { rank, problem, kind: ErrorKind::Rank }
}

impl Drop for Windows {
    /// Waits until no kernel of this rank accesses the windows of others.
    fn drop(&mut self) {
        // An error here has been reported before.
        let _ = Mark::new(&self.device).and_then(|mark| mark.wait());
    }
}

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windows").field("rank", &self.rank).field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

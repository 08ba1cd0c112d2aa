//! What a rank knows of itself and the others, and collective operations on the host.

use std::{
    cell::{Cell, OnceCell},
    fmt,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

#[cfg(feature = "cuda")]
use super::nccl::{Nccl, PATIENCE};
use super::{
    bytes::{from_bytes, to_bytes},
    inbox::{Failure, Inbox, Label, Message},
    peers::Peers,
    transport::{Transport, TransportChoice},
    windows::{Windows, not_answered},
};
use crate::{
    Device, DeviceVec, Element, Error, ErrorKind, Result,
    device::{Mark, Window},
};
#[cfg(feature = "cuda")]
use std::thread;

/// How long a rank waits for the others unless [told](Communicator::set_time_limit) otherwise.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(30);

/// One rank of a distributed computation: its number, its device, and the way to the other ranks. Clones are handles of the same rank.
///
/// Its operations are *collective*: every rank calls the same operations in the same order, with equal sizes, and each waits for
/// the others. If one calls something else, ends, fails, panics, or lets the others wait longer than the
/// [time limit](Self::time_limit), the operation is an [`Error::Rank`] on every rank that names this one, and so is every later operation.
#[derive(Clone)]
pub struct Communicator {
    member: Rc<Member>,
}

struct Member {
    rank: usize,
    device: Device,
    peers: Peers,
    time_limit: Cell<Duration>,
    /// How data goes from device to device, once the ranks have agreed.
    transport: OnceCell<Transport>,
    /// Collective operations begun so far,
    calls: Cell<u64>,
    /// and the last that has ended.
    ended: Cell<u64>,
}

impl Communicator {
    pub(super) fn new(rank: usize, device: Device, peers: Peers) -> Self {
        let (time_limit, calls, ended) = (Cell::new(TIME_LIMIT), Cell::new(0), Cell::new(0));
        Self { member: Rc::new(Member { rank, device, peers, time_limit, transport: OnceCell::new(), calls, ended }) }
    }

    /// Returns the number of this rank, from 0 on.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.member.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.member.peers.size()
    }

    /// Returns the device of this rank.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.member.device
    }

    /// Describes the rank in one line: its device, and how it exchanges data with the others.
    #[must_use]
    pub fn describe(&self) -> String {
        let (rank, size, device) = (self.rank(), self.size(), self.device());
        let transport = self.member.transport.get().map_or_else(String::new, |transport| format!("; {transport}"));
        format!("rank {rank} of {size}, on {device}{transport}")
    }

    /// Returns how long this rank waits for the others in one operation; by default 30 seconds.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        self.member.time_limit.get()
    }

    /// Sets how long this rank waits for the others in one operation. It must allow for what the others do between two operations, such as
    /// reading a file.
    pub fn set_time_limit(&self, limit: Duration) {
        self.member.time_limit.set(limit);
    }

    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// [`Error::Rank`].
    pub fn barrier(&self) -> Result<()> {
        self.call("a barrier").all_gather(&[]).map(|_| ())
    }

    /// Returns the bytes that each rank has passed, in the order of ranks. They may have different lengths.
    ///
    /// # Errors
    /// [`Error::Rank`].
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let received = self.call("an all-gather of bytes").all_gather(bytes)?;
        Ok(received.iter().map(|bytes| bytes.to_vec()).collect())
    }

    /// Returns the bytes that the rank `root` has passed; those of the others do not count.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is no rank `root`; [`Error::Rank`].
    pub fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let call = self.call(format!("a broadcast from rank {root}"));
        if root >= self.size() {
            return Err(Error::InvalidOption(format!("a broadcast from rank {root} of {}", self.size())));
        }
        let received = call.all_gather(if root == self.rank() { bytes } else { &[] })?;
        Ok(received[root].to_vec())
    }

    /// Returns the sums over all ranks of as many numbers as each passes: `sum[i]` is the sum of their `numbers[i]`, added in the order of
    /// ranks, so that a number of ranks has the same bits in every run.
    ///
    /// ```
    /// use warpsparse::{Device, distributed};
    ///
    /// let devices = [Device::cpu(), Device::cpu(), Device::cpu()];
    /// let sums = distributed::run(&devices, |communicator| communicator.sum(&[1.0, communicator.rank() as f64]))?;
    /// assert_eq!(sums, [[3.0, 3.0], [3.0, 3.0], [3.0, 3.0]]);
    /// # Ok::<(), warpsparse::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rank`].
    pub fn sum(&self, numbers: &[f64]) -> Result<Vec<f64>> {
        let of_ranks = self.call(format!("a sum of {} numbers", numbers.len())).numbers(numbers)?;
        Ok((0..numbers.len()).map(|i| of_ranks.iter().map(|numbers| numbers[i]).sum()).collect())
    }

    /// Measures how long a sum of two numbers over all ranks takes on their devices, by peer memory: the mean of `times` sums in one launch, with that of the
    /// launch. `None` if data is exchanged in another way. Collective.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn measure_sum(&self, times: u32) -> Result<Option<Duration>> {
        self.call(format!("a measurement of {times} sums")).all_gather(&[])?;
        let Some(windows) = self.windows() else { return Ok(None) };
        let start = Instant::now();
        windows.sums([1.0, 2.0], times, self.time_limit())?;
        let time = start.elapsed();
        self.settle()?;
        Ok(Some(time / times.max(1)))
    }

    /// Begins a collective operation, before its arguments are checked: so a rank that fails in these checks, and goes on, is out of step.
    pub(super) fn call(&self, text: impl Into<Arc<str>>) -> Call<'_> {
        let number = self.member.calls.get() + 1;
        self.member.calls.set(number);
        Call { communicator: self, label: Label { number, text: text.into() } }
    }

    /// Makes the error of one rank that of all. Returns it as every rank sees it.
    pub(super) fn fail(&self, error: Error) -> Error {
        let failure = Failure::of(self.rank(), error, self.member.ended.get());
        self.member.peers.fail(&failure, self.time_limit());
        failure.into_error()
    }

    /// Agrees with the other ranks on the way of data from device to device. Collective.
    pub(super) fn connect(&self, choice: TransportChoice) -> Result<()> {
        let transport = Transport::agree(self, choice)?;
        self.member.transport.set(transport).expect("ranks connect once");
        Ok(())
    }

    /// Ends the exchange of data, if other ranks must not miss this one in it. Collective then.
    pub(super) fn disconnect(&self) -> Result<()> {
        if self.exchanges_in_streams() {
            self.settle()?;
            self.call("the end of the program").all_gather(&[])?;
        }
        #[cfg(feature = "cuda")]
        if let Some(nccl) = self.nccl() {
            nccl.finish();
        }
        Ok(())
    }

    /// The windows of all ranks, if the data of the devices goes by them.
    pub(super) fn windows(&self) -> Option<&Windows> {
        match self.member.transport.get() {
            Some(Transport::Windows(windows)) => Some(windows),
            _ => None,
        }
    }

    /// NCCL, if the data of the devices goes by it.
    #[cfg(feature = "cuda")]
    pub(super) fn nccl(&self) -> Option<&Nccl> {
        match self.member.transport.get() {
            Some(Transport::Nccl(nccl)) => Some(nccl),
            _ => None,
        }
    }

    /// Whether devices exchange data in the order of their streams, so that the host need not wait, and graphs can hold it.
    pub(super) fn exchanges_in_streams(&self) -> bool {
        !matches!(self.member.transport.get(), None | Some(Transport::Host { .. }))
    }

    /// Gathers the numbers of every rank on each rank's device, in the order of ranks. The ranks agree already that they do.
    pub(super) fn gather_on_device(&self, own: &DeviceVec<f64>, all: &mut DeviceVec<f64>) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(nccl) = self.nccl() {
            return self.of_nccl(nccl.all_gather(own, all));
        }
        let numbers = self.call("numbers of conjugate gradients").numbers(&own.to_vec()?)?;
        all.copy_from(&numbers.concat())
    }

    /// Waits for what is queued on the device, but no longer than the time limit for ranks that do not take part.
    pub(super) fn settle(&self) -> Result<()> {
        self.settle_until(&Mark::new(self.device())?)
    }

    /// Waits for what was queued before the mark, like [`settle`](Self::settle).
    pub(super) fn settle_until(&self, mark: &Mark) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(nccl) = self.nccl() {
            return self.settle_nccl(nccl, mark);
        }
        // Kernels that wait for a window in vain end by themselves.
        mark.wait()?;
        let Some(rank) = self.windows().and_then(Windows::failure) else { return Ok(()) };
        let failed = self.inbox().failure().map(Failure::into_error);
        Err(self.fail(failed.unwrap_or_else(|| not_answered(rank, self.time_limit()))))
    }

    #[cfg(feature = "cuda")]
    fn settle_nccl(&self, nccl: &Nccl, mark: &Mark) -> Result<()> {
        let start = Instant::now();
        while !self.of_nccl(mark.is_past())? {
            thread::yield_now();
            let is_late = |limit: Duration| start.elapsed() > limit.min(self.time_limit());
            // What has been queued before a rank failed may still end.
            if !is_late(PATIENCE) {
                continue;
            }
            let by_nccl = nccl.failure().map(|problem| (problem, ErrorKind::Driver));
            let failed = match by_nccl {
                Some(_) => self.explanation(),
                None => self.inbox().failure(),
            };
            let failed = failed.map(Failure::into_error);
            let waited = || (format!("has waited {:?} for other ranks in NCCL", self.time_limit()), ErrorKind::Rank);
            let own = || by_nccl.or_else(|| is_late(Duration::MAX).then(waited));
            let own = || own().map(|(problem, kind)| Error::Rank { rank: self.rank(), problem, kind });
            if let Some(error) = failed.or_else(own) {
                nccl.abort();
                // Each of the kernels that have been queued takes some milliseconds to see that it has been aborted.
                let start = Instant::now();
                while start.elapsed() < self.time_limit() && matches!(mark.is_past(), Ok(false)) {
                    thread::yield_now();
                }
                return Err(self.fail(error));
            }
        }
        // An abort lets the stream go on too.
        let failed = self.inbox().failure().filter(|_| nccl.failure().is_some());
        failed.map_or(Ok(()), |failure| Err(self.fail(failure.into_error())))
    }

    /// What NCCL has done: its error, or that of another rank that explains it.
    #[cfg(feature = "cuda")]
    pub(super) fn of_nccl<R>(&self, done: Result<R>) -> Result<R> {
        let Err(error @ Error::Driver { .. }) = done else { return done };
        Err(self.fail(self.explanation().map_or(error, Failure::into_error)))
    }

    /// The failure of another rank that explains an error of NCCL, which may notice the end of a process before this one hears of it.
    #[cfg(feature = "cuda")]
    fn explanation(&self) -> Option<Failure> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE && self.inbox().failure().is_none() {
            thread::yield_now();
        }
        self.inbox().failure()
    }

    /// Fails unless the argument `what` belongs to the same ranks.
    pub(super) fn check_same(&self, what: &str, other: &Self) -> Result<()> {
        match Rc::ptr_eq(&self.member, &other.member) {
            true => Ok(()),
            false => Err(Error::InvalidOption(format!("{what} belongs to another communicator"))),
        }
    }

    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        self.member.peers.inbox(self.rank())
    }

    /// Whether the ranks are threads of this process.
    pub(super) fn is_thread(&self) -> bool {
        matches!(self.member.peers, Peers::Threads(_))
    }

    /// The memory that a thread's rank lends to the others.
    pub(super) fn window_of_thread(&self, rank: usize) -> Option<Arc<Window>> {
        self.member.peers.window_of_thread(rank)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The others hear of the end when this rank's device does not access their memory any more.
        drop(self.transport.take());
        self.peers.end(self.rank, self.time_limit.get());
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = format_args!("{}", self.device());
        let mut of = f.debug_struct("Communicator");
        of.field("rank", &self.rank()).field("size", &self.size()).field("device", &device).finish_non_exhaustive()
    }
}

/// Returns the `count` numbers in a message of a rank.
pub(super) fn decode<E: Element>(rank: usize, count: usize, bytes: &[u8]) -> Result<Vec<E>> {
    let numbers = from_bytes(bytes)?.filter(|numbers| numbers.len() == count);
    numbers.ok_or_else(|| {
        let problem = format!("has sent {} bytes where others expect {count} numbers", bytes.len());
        Error::Rank { rank, problem, kind: ErrorKind::InvalidInput }
    })
}

/// A collective operation that this rank has begun.
pub(super) struct Call<'c> {
    communicator: &'c Communicator,
    label: Label,
}

impl<'c> Call<'c> {
    /// The number of this rank.
    pub(super) fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// Sends `content(rank)` to each rank, without waiting.
    pub(super) fn post(self, mut content: impl FnMut(usize) -> Arc<[u8]>) -> Result<Posted<'c>> {
        let Self { communicator, label } = self;
        if let Some(failure) = communicator.inbox().failure() {
            return Err(failure.into_error());
        }
        let (own, limit) = (communicator.rank(), communicator.time_limit());
        for rank in 0..communicator.size() {
            let message = Message { label: label.clone(), content: content(rank) };
            let sent = communicator.member.peers.send(own, rank, message, limit);
            sent.map_err(|error| communicator.fail(error))?;
        }
        Ok(Posted { communicator, number: label.number })
    }

    /// Sends `content(rank)` to each rank. Returns what each has sent to this one.
    pub(super) fn exchange(self, content: impl FnMut(usize) -> Arc<[u8]>) -> Result<Vec<Arc<[u8]>>> {
        self.post(content)?.collect()
    }

    /// Sends the same bytes to each rank. Returns what each has sent.
    pub(super) fn all_gather(self, bytes: &[u8]) -> Result<Vec<Arc<[u8]>>> {
        let bytes: Arc<[u8]> = bytes.into();
        self.exchange(|_| Arc::clone(&bytes))
    }

    /// Sends the same numbers to each rank. Returns those of every rank, each of which has as many.
    pub(super) fn numbers<E: Element>(self, numbers: &[E]) -> Result<Vec<Vec<E>>> {
        let received = self.exchange(|_| to_bytes(numbers))?;
        received.iter().enumerate().map(|(rank, bytes)| decode(rank, numbers.len(), bytes)).collect()
    }
}

/// A collective operation whose messages are on their way.
#[must_use]
pub(super) struct Posted<'c> {
    communicator: &'c Communicator,
    number: u64,
}

impl Posted<'_> {
    /// Returns what each rank has sent to this one. Waits for them.
    pub(super) fn collect(self) -> Result<Vec<Arc<[u8]>>> {
        let Self { communicator, number } = self;
        let messages = communicator.inbox().take(number, communicator.time_limit());
        let messages = messages.and_then(|messages| match odd_one_out(&messages) {
            Some(error) => Err(error),
            None => Ok(messages),
        });
        match messages {
            Ok(messages) => {
                communicator.member.ended.set(number);
                Ok(messages.into_iter().map(|message| message.content).collect())
            }
            Err(error) => Err(communicator.fail(error)),
        }
    }
}

/// Finds the first rank that has called another operation than most.
fn odd_one_out(messages: &[Message]) -> Option<Error> {
    let votes = |message: &Message| messages.iter().filter(|other| other.label == message.label).count();
    // The first of the largest.
    let (most, of_most) = messages.iter().enumerate().rev().max_by_key(|(_, message)| votes(message))?;
    let (rank, odd) = messages.iter().enumerate().find(|(_, message)| message.label != of_most.label)?;
    let (Label { number, text }, Label { number: expected_number, text: expected }) = (&odd.label, &of_most.label);
    let problem = format!(
        "its operation number {number} is {text}, but rank {most} calls {expected}, its operation number {expected_number}"
    );
    Some(Error::Rank { rank, problem, kind: ErrorKind::InvalidInput })
}

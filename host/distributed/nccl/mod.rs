//! The exchange of data between GPUs by NCCL, in the order of their streams.

mod library;

use std::{
    ffi::c_void,
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use library::{Comm, Functions, Status, UniqueId, datatype, nccl};

use super::{communicator::TIME_LIMIT, inbox::Inbox};
use crate::{Device, DeviceVec, Element, Error, Result, device::Mark};

/// This rank's end of a communicator of NCCL.
pub(super) struct Nccl {
    functions: &'static Functions,
    device: Device,
    /// Null once it has been aborted or finished.
    comm: Arc<Mutex<Comm>>,
    /// A thread ends it: NCCL waits for the caller's graphs; and after a failure the rank's own may wait for what is queued, to load kernels.
    ending: Option<JoinHandle<()>>,
    tell: Sender<unsafe extern "C" fn(Comm) -> Status>,
}

/// What rank 0 makes for all ranks to connect.
pub(super) type Id = [u8; 128];

/// Whether there is NCCL on this machine; its version, or why not.
pub(super) fn version() -> std::result::Result<String, String> {
    nccl().map(Functions::version)
}

/// Makes an identity for the communicator of all ranks.
pub(super) fn new_id() -> std::result::Result<Id, String> {
    let functions = nccl()?;
    let mut id = UniqueId([0; 128]);
    // SAFETY: the identity is written.
    functions.check("ncclGetUniqueId", unsafe { (functions.get_unique_id)(&raw mut id) })?;
    Ok(id.0)
}

impl Nccl {
    /// Connects this rank; waits for the others, which connect at the same time, until `gives_up` says why not.
    ///
    /// NCCL cannot be told to give up while ranks connect, in `ncclCommInitRank` and in their first exchanges. So a thread does both, on a stream of its own, and is left alone
    /// if the others do not come: it looks for them until the process ends.
    pub(super) fn connect(
        device: &Device,
        id: Id,
        place: (usize, usize),
        gives_up: impl Fn() -> Option<String>,
        inbox: Arc<Inbox>,
    ) -> std::result::Result<Self, String> {
        let functions = nccl()?;
        let own = device.new_stream().map_err(|error| error.to_string())?;
        let (sender, receiver) = mpsc::channel();
        let waits = Arc::new(());
        let is_awaited = Arc::downgrade(&waits);
        let connect = move || {
            // After an error, or without a receiver, the communicator is aborted here.
            let _ = match Self::init(functions, own, id, place, inbox) {
                Ok(nccl) => match nccl.meet(place.1, || is_awaited.strong_count() > 0) {
                    Ok(()) => sender.send(Ok(nccl)),
                    Err(error) => sender.send(Err(error.to_string())),
                },
                Err(error) => sender.send(Err(error.to_string())),
            };
        };
        start("connects by NCCL", connect).map_err(|error| error.to_string())?;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(connected) => {
                    let mut nccl = connected?;
                    nccl.device = device.clone();
                    return Ok(nccl);
                }
                Err(RecvTimeoutError::Timeout) => gives_up().map_or(Ok(()), Err)?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the thread that connects by NCCL has panicked".into());
                }
            }
        }
    }

    fn init(
        functions: &'static Functions,
        device: Device,
        id: Id,
        (rank, size): (usize, usize),
        inbox: Arc<Inbox>,
    ) -> Result<Self> {
        let mut comm = Comm::NULL;
        device.outside(|_| {
            // SAFETY: the communicator is written; the device's context is current.
            let status = unsafe { (functions.comm_init_rank)(&raw mut comm, size as i32, UniqueId(id), rank as i32) };
            functions.check("ncclCommInitRank", status).map_err(of_driver)
        })?;
        let comm = Arc::new(Mutex::new(comm));
        let (tell, told) = mpsc::channel();
        let (shared, inside) = (Arc::clone(&comm), device.clone());
        let body = move || {
            // Makes the context current.
            let _ = inside.outside(|_| Ok(()));
            let mut patience = 2 * PATIENCE;
            let told = loop {
                match told.recv_timeout(LOOK) {
                    Err(RecvTimeoutError::Timeout) if patience > LOOK => {
                        if inbox.failure().is_some() {
                            patience -= LOOK;
                        }
                    }
                    told => break told,
                }
            };
            let comm = mem::replace(&mut *lock(&shared), Comm::NULL);
            // SAFETY: the communicator is live, and nobody else has it.
            unsafe { told.unwrap_or(functions.comm_abort)(comm) };
        };
        let ending = start("ends NCCL", body).map_err(|error| {
            // SAFETY: as above.
            unsafe { (functions.comm_abort)(*lock(&comm)) };
            of_driver(error.to_string())
        })?;
        Ok(Self { functions, device, comm, ending: Some(ending), tell })
    }

    /// Exchanges numbers between all ranks in both ways that are in use, while anybody waits for that: ranks connect when they first call it.
    fn meet(&self, size: usize, is_awaited: impl Fn() -> bool) -> Result<()> {
        if !is_awaited() {
            return Ok(());
        }
        let zeros = |len| self.device.zeros::<f64>(len);
        let (mut from_all, counts) = (zeros(2 * size)?, vec![1; size]);
        self.exchange(&zeros(size)?, &counts, &mut from_all, 0, &counts)?;
        // As many as conjugate gradients gather, since NCCL connects for each of its algorithms.
        self.all_gather(&zeros(2)?, &mut from_all)?;
        let met = Mark::new(&self.device)?;
        while is_awaited() && !met.is_past()? {
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Queues the sends of parts of `packed`, and the receipt of the others' parts in `target` from the element `first` on, so many
    /// elements to and from each rank.
    pub(super) fn exchange<T: Element>(
        &self,
        packed: &DeviceVec<T>,
        sent: &[usize],
        target: &mut DeviceVec<T>,
        first: usize,
        received: &[usize],
    ) -> Result<()> {
        let bytes = |elements: usize| elements * size_of::<T>();
        let (mut from, mut to) = (packed.address()?, target.address()?.wrapping_add(first));
        let functions = self.functions;
        self.queue(|comm, stream| {
            // SAFETY: the device's context is current. The ranges are parts of the two vectors, whose memory is freed in the order of the
            // stream, and which nothing else writes.
            unsafe {
                functions.check("ncclGroupStart", (functions.group_start)())?;
                let mut queued = Ok(());
                for (peer, elements) in parts(sent) {
                    let status = (functions.send)(
                        from.cast::<c_void>(),
                        bytes(elements),
                        datatype::UINT8,
                        peer as i32,
                        comm,
                        stream,
                    );
                    queued = queued.and(functions.check("ncclSend", status));
                    from = from.wrapping_add(elements);
                }
                for (peer, elements) in parts(received) {
                    let status = (functions.recv)(
                        to.cast::<c_void>(),
                        bytes(elements),
                        datatype::UINT8,
                        peer as i32,
                        comm,
                        stream,
                    );
                    queued = queued.and(functions.check("ncclRecv", status));
                    to = to.wrapping_add(elements);
                }
                queued.and(functions.check("ncclGroupEnd", (functions.group_end)()))
            }
        })
    }

    /// Queues an all-gather: `all` gets the numbers of every rank, in the order of ranks.
    pub(super) fn all_gather(&self, own: &DeviceVec<f64>, all: &mut DeviceVec<f64>) -> Result<()> {
        let (from, to) = (own.address()?, all.address()?);
        let functions = self.functions;
        self.queue(|comm, stream| {
            // SAFETY: the device's context is current. As many numbers from each rank, for which there is room; the memory is freed in the
            // order of the stream.
            let status = unsafe {
                (functions.all_gather)(
                    from.cast::<c_void>(),
                    to.cast::<c_void>(),
                    own.len(),
                    datatype::FLOAT64,
                    comm,
                    stream,
                )
            };
            functions.check("ncclAllGather", status)
        })
    }

    /// The version of NCCL.
    pub(super) fn version(&self) -> String {
        self.functions.version()
    }

    /// Disconnects, when nothing is queued on any rank.
    pub(super) fn finish(&self) {
        let _ = self.tell.send(self.functions.comm_destroy);
    }

    /// Stops what is queued, so that the stream goes on without the other ranks: NCCL marks the communicator, which ends its kernels.
    pub(super) fn abort(&self) {
        let _ = self.tell.send(self.functions.comm_abort);
    }

    /// What has gone wrong since the last call.
    pub(super) fn failure(&self) -> Option<String> {
        let mut status = 0;
        let comm = lock(&self.comm);
        if *comm == Comm::NULL {
            return Some("the communicator of NCCL has ended".into());
        }
        // SAFETY: the communicator is live.
        let asked = unsafe { (self.functions.comm_get_async_error)(*comm, &raw mut status) };
        let asked = self.functions.check("ncclCommGetAsyncError", asked);
        asked.and(self.functions.check("NCCL", status)).err()
    }

    fn queue(&self, work: impl FnOnce(Comm, *mut c_void) -> std::result::Result<(), String>) -> Result<()> {
        // The lock keeps the communicator from being aborted during the call.
        let comm = lock(&self.comm);
        if *comm == Comm::NULL {
            return Err(of_driver("the communicator of NCCL has ended".into()));
        }
        self.device.outside(|stream| work(*comm, stream).map_err(of_driver))
    }
}

/// How long what is queued may take to end after a rank has failed, and the news of a failure to come.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// How often a thread that waits for another looks whether to go on waiting.
const LOOK: Duration = Duration::from_millis(10);

fn lock(comm: &Mutex<Comm>) -> MutexGuard<'_, Comm> {
    comm.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(body)
}

impl Drop for Nccl {
    /// Stops what other ranks have not joined, unless it has been [finished](Self::finish). Waits for NCCL, which must not be at work when the process ends; but
    /// not for ever, as a graph of the caller's may hold the communicator.
    fn drop(&mut self) {
        self.abort();
        let Some(ending) = self.ending.take() else { return };
        let start = Instant::now();
        while !ending.is_finished() && start.elapsed() < TIME_LIMIT {
            thread::sleep(LOOK);
        }
        if ending.is_finished() {
            let _ = ending.join();
        }
    }
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl").field("version", &self.functions.version()).finish_non_exhaustive()
    }
}

/// The ranks with elements, and how many.
fn parts(counts: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    counts.iter().copied().enumerate().filter(|&(_, elements)| elements > 0)
}

fn of_driver(message: String) -> Error {
    Error::Driver { call: "NCCL".into(), message }
}

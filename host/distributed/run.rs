//! Ranks as threads of this process.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use super::{
    Communicator, TransportChoice,
    inbox::{Failure, Inbox},
    peers::Peers,
};
use crate::{Device, Error, ErrorKind, Result};

/// Runs a program on several devices: a thread for each, its rank, which calls `program` with its [`Communicator`]. Returns the results in
/// the order of ranks, when all threads have ended.
///
/// On GPUs, run one program at a time: NCCL's operations of two, queued on the same streams in different orders, wait for each other until the
/// [time limit](Communicator::time_limit), and then fail.
///
/// Drop graphs that the program records before it returns: NCCL waits for them, for up to 30 seconds, before this function returns.
///
/// The same device may occur several times. Every rank runs the same program; what it does depends on
/// [`Communicator::rank`]. A matrix or vector that a rank makes stays with it.
///
/// ```
/// use warpsparse::{CsrMatrix, Device, distributed::{self, DistributedMatrix, DistributedVec}};
///
/// // 2 1 0
/// // 0 3 0
/// // 4 0 5
/// let a = CsrMatrix::try_from_csr_data(3, 3, vec![0u32, 2, 3, 5], vec![0, 1, 1, 0, 2], vec![2.0f64, 1.0, 3.0, 4.0, 5.0])?;
/// let products = distributed::run(&[Device::cpu(), Device::cpu()], |communicator| {
///     let a = DistributedMatrix::from_whole(communicator, &a)?; // some rows on each
///     let mut x = DistributedVec::from_whole(communicator, a.columns(), &[1.0, 10.0, 100.0])?;
///     let mut y = DistributedVec::zeros(communicator, a.rows())?;
///     a.spmv(1.0, &mut x, 0.0, &mut y)?;
///     y.gather()
/// })?;
/// assert_eq!(products, [[12.0, 30.0, 504.0], [12.0, 30.0, 504.0]]);
/// # Ok::<(), warpsparse::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidOption`] without devices. [`Error::Rank`] if a rank fails or panics: it names the rank and says why, and its
/// [`kind`](Error::kind) is that of the rank's error. The collective operations of the other ranks fail with the same error, so none
/// waits for that rank. A rank that neither ends nor calls a collective operation keeps this function from returning.
pub fn run<R: Send>(devices: &[Device], program: impl Fn(&Communicator) -> Result<R> + Sync) -> Result<Vec<R>> {
    run_with(devices, TransportChoice::Auto, program)
}

/// Runs a program like [`run`], with data that goes from device to device as `choice` says.
///
/// # Errors
/// As [`run`]; [`Error::Unsupported`], as that of a rank, if the ranks cannot exchange data so.
pub fn run_with<R: Send>(
    devices: &[Device],
    choice: TransportChoice,
    program: impl Fn(&Communicator) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if devices.is_empty() {
        return Err(Error::InvalidOption("no devices to run on".into()));
    }
    let inboxes: Arc<[_]> = devices.iter().map(|_| Arc::new(Inbox::new(devices.len()))).collect();
    let results: Vec<Result<R>> = thread::scope(|scope| {
        let start = |(rank, device): (usize, &Device)| {
            let (device, inboxes, program) = (device.clone(), Arc::clone(&inboxes), &program);
            let body = move || one_rank(&Communicator::new(rank, device, Peers::Threads(inboxes)), choice, program);
            thread::Builder::new().name(format!("rank {rank}")).spawn_scoped(scope, body)
        };
        let threads: Vec<_> = devices.iter().enumerate().map(start).collect();
        for (rank, thread) in threads.iter().enumerate() {
            if let Err(error) = thread {
                let failure = no_thread(rank, error);
                inboxes.iter().for_each(|inbox| inbox.fail(&failure));
            }
        }
        let end = |(rank, thread): (usize, std::io::Result<thread::ScopedJoinHandle<'_, Result<R>>>)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| Err(panicked(rank, &*panic))),
            Err(error) => Err(no_thread(rank, &error).into_error()),
        };
        threads.into_iter().enumerate().map(end).collect()
    });
    // A rank that names itself knows best; of several, the first.
    let names_itself =
        |(rank, result): (usize, &Result<R>)| matches!(result, Err(Error::Rank { rank: named, .. }) if *named == rank);
    match results.iter().enumerate().position(names_itself) {
        Some(rank) => results.into_iter().nth(rank).into_iter().collect(),
        None => results.into_iter().collect(),
    }
}

/// Runs a program as one rank. Tells the others if it fails.
pub(super) fn one_rank<R>(
    communicator: &Communicator,
    choice: TransportChoice,
    program: &impl Fn(&Communicator) -> Result<R>,
) -> Result<R> {
    // What the program has left behind is not used again.
    let result = catch_unwind(AssertUnwindSafe(|| {
        communicator.connect(choice)?;
        let result = program(communicator)?;
        communicator.disconnect()?;
        Ok(result)
    }));
    let result = result.unwrap_or_else(|panic| Err(panicked(communicator.rank(), &*panic)));
    result.map_err(|error| communicator.fail(error))
}

fn panicked(rank: usize, panic: &(dyn Any + Send)) -> Error {
    let message = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let problem = format!("panicked: {}", message.unwrap_or("with a value that is no text"));
    Error::Rank { rank, problem, kind: ErrorKind::Rank }
}

fn no_thread(rank: usize, error: &std::io::Error) -> Failure {
    Failure { rank, problem: format!("its thread could not be started: {error}"), kind: ErrorKind::Rank, after: 0 }
}

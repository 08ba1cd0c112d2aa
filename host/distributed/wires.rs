//! The connections between processes: a socket for each pair, and a thread for each socket that moves what comes into the inbox.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    Rendezvous,
    inbox::{Failure, Inbox, Label, Message},
};
use crate::{Error, ErrorKind, Result, memory};

/// What a connection begins with: another program, or another version, is turned away.
const HELLO: &[u8; 16] = b"warpsparse ranks";

/// The longest text of a message: no operation and no error has a longer one.
const MAX_TEXT: usize = 1 << 20;

/// How long a rank waits before it tries again to reach another that may not have started yet.
const RETRY: Duration = Duration::from_millis(50);

/// How much longer than rank 0 the others wait for the outcome of the meeting.
const GRACE: Duration = Duration::from_secs(1);

/// This process's end of the connections to all ranks.
#[derive(Debug)]
pub(super) struct Wires {
    rank: usize,
    inbox: Arc<Inbox>,
    /// By rank; none to this one.
    streams: Vec<Option<Mutex<TcpStream>>>,
}

/// The kinds of frames: a message, a failure, the end of a rank.
mod frame {
    pub(super) const MESSAGE: u8 = 1;
    pub(super) const FAILURE: u8 = 2;
    pub(super) const END: u8 = 3;
}

impl Wires {
    /// Connects this process with all others. Waits for them up to the time limit.
    pub(super) fn connect(meeting: &Rendezvous, limit: Duration) -> Result<Self> {
        let Rendezvous { rank, size, ref address, .. } = *meeting;
        let deadline = Instant::now() + limit;
        let of_0 = |error: io::Error| failed(0, format!("cannot be reached at {address}: {error}"));
        let mut streams: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
        if rank == 0 {
            let met = meet(&listen(address, deadline)?, &mut streams, deadline);
            let answer = met.as_ref().map_or_else(no_meeting, |addresses| addresses.join("\n"));
            for stream in streams.iter_mut().flatten() {
                // One that is gone is missed by all as soon as they read from it.
                let _ = write_text(stream, &answer);
            }
            met?;
        } else {
            let mut to_0 = reach(address, deadline).map_err(of_0)?;
            let own = TcpListener::bind((to_0.local_addr().map_err(of_0)?.ip(), 0));
            let own = own.map_err(|error| failed(rank, format!("cannot listen: {error}")))?;
            let port = own.local_addr().map_err(|error| failed(rank, format!("cannot listen: {error}")))?.port();
            write_hello(&mut to_0, (rank, size, port)).map_err(of_0)?;
            // Rank 0 may have begun to wait for the others just now.
            to_0.set_read_timeout(Some(limit + GRACE)).map_err(of_0)?;
            let list = read_text(&mut to_0).map_err(|error| failed(0, not_there(&error)))?;
            if let Some(error) = why_no_meeting(&list) {
                return Err(error);
            }
            let deadline = deadline.max(Instant::now() + GRACE);
            streams[0] = Some(to_0);
            // Each connects to those before it, and is called by those after it.
            for (other, address) in list.split('\n').enumerate().take(rank).skip(1) {
                let reached = reach(address, deadline).and_then(|mut stream| {
                    write_hello(&mut stream, (rank, size, 0))?;
                    Ok(stream)
                });
                let unreachable = |error| failed(other, format!("cannot be reached at {address}: {error}"));
                streams[other] = Some(reached.map_err(unreachable)?);
            }
            while let Some(missing) = (rank + 1..size).find(|&rank| streams[rank].is_none()) {
                let mut stream = accept(&own, deadline).map_err(|error| failed(missing, not_there(&error)))?;
                let Ok((other, of_size, _)) = read_hello(&mut stream, deadline) else { continue };
                if of_size == size && other > rank && other < size {
                    streams[other] = Some(stream);
                }
            }
        }
        Self::start(rank, streams)
    }

    /// Starts the threads that read.
    fn start(rank: usize, streams: Vec<Option<TcpStream>>) -> Result<Self> {
        let inbox = Arc::new(Inbox::new(streams.len()));
        for (sender, stream) in streams.iter().enumerate() {
            let Some(stream) = stream else { continue };
            let prepare = || {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(None)?;
                let (stream, inbox) = (stream.try_clone()?, Arc::clone(&inbox));
                let body = move || read_all(io::BufReader::new(stream), sender, &inbox);
                thread::Builder::new().name(format!("from rank {sender}")).spawn(body)
            };
            prepare().map_err(|error| failed(sender, lost(&error)))?;
        }
        let streams = streams.into_iter().map(|stream| stream.map(Mutex::new)).collect();
        Ok(Self { rank, inbox, streams })
    }

    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    pub(super) fn size(&self) -> usize {
        self.streams.len()
    }

    /// Sends a message to a rank, which takes it within the time limit.
    pub(super) fn send(&self, rank: usize, message: Message, limit: Duration) -> Result<()> {
        if rank == self.rank {
            self.inbox.deliver(rank, message);
            return Ok(());
        }
        let Message { label: Label { number, text }, content } = message;
        let mut head = vec![frame::MESSAGE];
        head.extend(number.to_le_bytes());
        head.extend((text.len() as u32).to_le_bytes());
        head.extend((content.len() as u64).to_le_bytes());
        head.extend(text.as_bytes());
        self.write(rank, &[&head, &content], limit).map_err(|error| failed(rank, lost(&error)))
    }

    /// Tells all ranks of a failure.
    pub(super) fn fail(&self, failure: &Failure, limit: Duration) {
        self.inbox.fail(failure);
        let mut head = vec![frame::FAILURE, failure.kind.number()];
        head.extend((failure.rank as u64).to_le_bytes());
        head.extend(failure.after.to_le_bytes());
        head.extend((failure.problem.len() as u32).to_le_bytes());
        head.extend(failure.problem.as_bytes());
        self.tell_all(&head, limit);
    }

    /// Tells all ranks that this one has ended.
    pub(super) fn end(&self, limit: Duration) {
        self.tell_all(&[frame::END], limit);
    }

    /// Ranks that are gone need not hear it.
    fn tell_all(&self, bytes: &[u8], limit: Duration) {
        for rank in 0..self.size() {
            let _ = self.write(rank, &[bytes], limit);
        }
    }

    fn write(&self, rank: usize, parts: &[&[u8]], limit: Duration) -> io::Result<()> {
        let Some(stream) = &self.streams[rank] else { return Ok(()) };
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.set_write_timeout(Some(limit.max(RETRY)))?;
        parts.iter().try_for_each(|part| stream.write_all(part))
    }
}

/// Rank 0 accepts all others. Returns where each of them listens.
fn meet(listener: &TcpListener, streams: &mut [Option<TcpStream>], deadline: Instant) -> Result<Vec<String>> {
    let size = streams.len();
    let mut addresses = vec![String::new(); size];
    while let Some(missing) = (1..size).find(|&rank| streams[rank].is_none()) {
        let mut stream = accept(listener, deadline).map_err(|error| failed(missing, not_there(&error)))?;
        // Whoever does not say hello in the right way is nobody's rank.
        let Ok((rank, of_size, port)) = read_hello(&mut stream, deadline) else { continue };
        if let Some(problem) = why_refused(rank, of_size, streams) {
            let error = failed(rank, problem);
            // Nobody else tells this process. One that is gone need not hear it.
            let _ = write_text(&mut stream, &no_meeting(&error));
            return Err(error);
        }
        let host = stream.peer_addr().map_err(|error| failed(rank, lost(&error)))?.ip();
        addresses[rank] = std::net::SocketAddr::from((host, port)).to_string();
        streams[rank] = Some(stream);
    }
    Ok(addresses)
}

/// Why rank 0 refuses a process that says that it is this rank, if it does.
fn why_refused(rank: usize, of_size: usize, streams: &[Option<TcpStream>]) -> Option<String> {
    let size = streams.len();
    if of_size != size || rank == 0 || rank >= size {
        return Some(format!("says that it is rank {rank} of {of_size}, where {size} ranks meet"));
    }
    streams[rank].is_some().then(|| format!("two processes say that they are rank {rank} of {size}"))
}

/// What rank 0 tells the others in place of addresses, which do not begin so.
fn no_meeting(error: &Error) -> String {
    match error {
        Error::Rank { rank, problem, .. } => format!("!{rank}\n{problem}"),
        other => format!("!0\n{other}"),
    }
}

/// The error that rank 0 tells, if it does.
fn why_no_meeting(answer: &str) -> Option<Error> {
    let (rank, problem) = answer.strip_prefix('!')?.split_once('\n')?;
    Some(failed(rank.parse().ok()?, problem.into()))
}

/// Moves what a rank sends into the inbox, until it has ended.
fn read_all(mut stream: impl Read, sender: usize, inbox: &Inbox) {
    if let Err(error) = read_frames(&mut stream, sender, inbox) {
        let problem = format!("its connection is lost: {error}; the process has most likely ended");
        inbox.fail(&Failure { rank: sender, problem, kind: ErrorKind::Rank, after: 0 });
    }
    inbox.end(sender);
}

fn read_frames(stream: &mut impl Read, sender: usize, inbox: &Inbox) -> io::Result<()> {
    loop {
        match read::<1>(stream)?[0] {
            frame::MESSAGE => {
                let number = u64::from_le_bytes(read(stream)?);
                let text_len = u32::from_le_bytes(read(stream)?) as usize;
                let content_len = u64::from_le_bytes(read(stream)?);
                let text = read_string(stream, text_len)?;
                let content = read_bytes(stream, usize::try_from(content_len).unwrap_or(usize::MAX))?;
                inbox.deliver(sender, Message { label: Label { number, text: text.into() }, content: content.into() });
            }
            frame::FAILURE => {
                let kind = ErrorKind::of_number(read::<1>(stream)?[0]);
                let rank = u64::from_le_bytes(read(stream)?) as usize;
                let after = u64::from_le_bytes(read(stream)?);
                let len = u32::from_le_bytes(read(stream)?) as usize;
                let problem = read_string(stream, len)?;
                inbox.fail(&Failure { rank, problem, kind, after });
            }
            frame::END => return Ok(()),
            other => return Err(io::Error::other(format!("a frame of the unknown kind {other}"))),
        }
    }
}

fn read<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_bytes(stream: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = memory::room(len).map_err(io::Error::other)?;
    stream.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() == len { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn read_string(stream: &mut impl Read, len: usize) -> io::Result<String> {
    if len > MAX_TEXT {
        return Err(io::Error::other(format!("a text of {len} bytes")));
    }
    String::from_utf8(read_bytes(stream, len)?).map_err(io::Error::other)
}

fn read_text(stream: &mut impl Read) -> io::Result<String> {
    let len = u32::from_le_bytes(read(stream)?) as usize;
    read_string(stream, len)
}

fn write_text(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(&(text.len() as u32).to_le_bytes())?;
    stream.write_all(text.as_bytes())
}

fn write_hello(stream: &mut TcpStream, (rank, size, port): (usize, usize, u16)) -> io::Result<()> {
    let mut bytes = HELLO.to_vec();
    bytes.extend((rank as u64).to_le_bytes());
    bytes.extend((size as u64).to_le_bytes());
    bytes.extend(port.to_le_bytes());
    stream.write_all(&bytes)
}

/// The rank, the number of ranks, and the port where it listens.
fn read_hello(stream: &mut TcpStream, deadline: Instant) -> io::Result<(usize, usize, u16)> {
    // A stranger that says nothing does not keep the ranks waiting for long.
    stream.set_read_timeout(Some(left(deadline).clamp(RETRY, Duration::from_secs(2))))?;
    if read::<16>(stream)? != *HELLO {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let [rank, size] =
        [u64::from_le_bytes(read(stream)?), u64::from_le_bytes(read(stream)?)].map(|number| number as usize);
    Ok((rank, size, u16::from_le_bytes(read(stream)?)))
}

fn listen(address: &str, deadline: Instant) -> Result<TcpListener> {
    let cannot = |error| failed(0, format!("cannot listen at {address}: {error}"));
    // The port of an earlier run may be free in a moment.
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && !left(deadline).is_zero() => thread::sleep(RETRY),
            bound => return bound.map_err(cannot),
        }
    }
}

fn accept(listener: &TcpListener, deadline: Instant) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !left(deadline).is_zero() => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            accepted => {
                let (stream, _) = accepted?;
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }
}

fn reach(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    loop {
        let attempt = || {
            let mut last = io::Error::other("the name has no address");
            for address in address.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, left(deadline).max(RETRY)) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        match attempt() {
            Err(_) if !left(deadline).is_zero() => thread::sleep(RETRY),
            done => return done,
        }
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn failed(rank: usize, problem: String) -> Error {
    Error::Rank { rank, problem, kind: ErrorKind::Rank }
}

fn not_there(error: &io::Error) -> String {
    format!("has not come to the meeting of ranks: {error}")
}

fn lost(error: &io::Error) -> String {
    format!("its connection is lost: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_come_is_named() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let connect = |rank, size| {
            let meeting = Rendezvous { rank, size, local_rank: rank, address: format!("127.0.0.1:{port}") };
            Wires::connect(&meeting, Duration::from_millis(300)).map(|_| ()).unwrap_err().to_string()
        };
        let start = Instant::now();
        assert!(connect(1, 2).starts_with("rank 0: cannot be reached at 127.0.0.1:"));
        // Rank 1 comes, rank 2 does not, and a stranger does.
        let errors = thread::scope(|scope| {
            let rank_0 = scope.spawn(|| connect(0, 3));
            let rank_1 = scope.spawn(|| connect(1, 3));
            let mut stranger =
                reach(&format!("127.0.0.1:{port}"), Instant::now() + Duration::from_millis(200)).unwrap();
            stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            [rank_0.join().unwrap(), rank_1.join().unwrap()]
        });
        // Rank 0 says so to rank 1.
        assert!(errors.iter().all(|error| error.starts_with("rank 2: has not come to the meeting")), "{errors:?}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_refused_process_hears_why() {
        // The last process comes when the meeting point has heard the others, and none of them is rank 2 of 3.
        let errors_with_a_last = |rank, size| {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let connect = move |rank, size| {
                let meeting = Rendezvous { rank, size, local_rank: rank, address: format!("127.0.0.1:{port}") };
                Wires::connect(&meeting, Duration::from_secs(10)).map(|_| ()).unwrap_err().to_string()
            };
            thread::scope(|scope| {
                let mut processes = vec![];
                for (rank, size) in [(0, 3), (1, 3), (rank, size)] {
                    processes.push(scope.spawn(move || connect(rank, size)));
                    thread::sleep(Duration::from_millis(300));
                }
                processes.into_iter().map(|process| process.join().unwrap()).collect::<Vec<_>>()
            })
        };
        assert_eq!(errors_with_a_last(1, 3), ["rank 1: two processes say that they are rank 1 of 3"; 3]);
        assert_eq!(errors_with_a_last(2, 4), ["rank 2: says that it is rank 2 of 4, where 3 ranks meet"; 3]);
    }
}

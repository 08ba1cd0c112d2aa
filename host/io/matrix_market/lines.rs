//! Splits a byte stream, compressed or not, into lines: in large blocks, without allocating per line.

use std::{
    cell::Cell,
    io::{self, BufReader, Cursor, ErrorKind, Read},
    ops::Range,
    rc::Rc,
};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use memchr::memchr;

/// The block size of reads, and the maximum length of a line.
const BLOCK: usize = 1 << 20;

/// The most memory that xz data may take, in MiB. Files of `xz -9` take 64 and a little.
const XZ_MEMORY: u32 = 128;

/// Bytes read between two calls of the progress callback.
const PROGRESS_STEP: u64 = 4 << 20;

/// The progress callback: bytes read so far, and in total.
pub(super) type Progress<'a> = Box<dyn FnMut(u64, u64) + 'a>;

/// How a stream is compressed.
#[derive(Clone, Copy)]
enum Compression {
    Gzip,
    Xz,
}

/// The lines of a stream, and their count.
pub(super) struct Lines<'a> {
    input: Box<dyn Read + 'a>,
    compression: Option<Compression>,
    /// Whether the stream itself has failed, not what decompresses it.
    failed: Rc<Cell<bool>>,
    buffer: Vec<u8>,
    /// The part of `buffer` with data not yet returned.
    begin: usize,
    end: usize,
    /// The current line.
    line: Range<usize>,
    /// The reason for the end of reading, if reached. Reported after the lines before it have been returned.
    finished: Option<io::Result<()>>,
    number: u64,
}

impl<'a> Lines<'a> {
    /// Creates the lines of `input`; its first bytes tell how it is compressed.
    pub(super) fn new(input: Box<dyn Read + 'a>, total: u64, progress: Option<Progress<'a>>) -> io::Result<Self> {
        let failed = Rc::new(Cell::new(false));
        let counted = Counted { input, failed: failed.clone(), bytes: 0, total, next: 0, progress };
        let mut input = BufReader::with_capacity(BLOCK / 4, counted);
        let mut magic = Vec::with_capacity(6);
        input.by_ref().take(6).read_to_end(&mut magic)?;
        let compression = match &*magic {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            b"\xfd7zXZ\0" => Some(Compression::Xz),
            _ => None,
        };
        let whole = Cursor::new(magic).chain(input);
        Ok(Self {
            input: match compression {
                None => Box::new(whole),
                Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(whole)),
                Some(Compression::Xz) => Box::new(XzReader::new_mem_limit(whole, true, XZ_MEMORY << 10)),
            },
            compression,
            failed,
            buffer: vec![0; BLOCK],
            begin: 0,
            end: 0,
            line: 0..0,
            finished: None,
            number: 0,
        })
    }

    /// Returns the number of the current line, starting at 1; after an error, of the line with the error.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Advances to the next line; returns `false` after the last.
    ///
    /// Broken compressed data and overlong lines are errors of kind `InvalidData`; others come from the stream.
    #[inline]
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        let length = match memchr(b'\n', &self.buffer[self.begin..self.end]) {
            Some(length) => length,
            None => match self.fill()? {
                Some(length) => length,
                None => return Ok(false),
            },
        };
        self.line = self.begin..self.begin + length;
        self.begin = (self.line.end + 1).min(self.end);
        self.number += 1;
        Ok(true)
    }

    /// Returns the current line, without its newline.
    #[inline]
    pub(super) fn current(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    /// Reads until the buffer holds a whole line, and returns its length; `None` at the end.
    #[cold]
    fn fill(&mut self) -> io::Result<Option<usize>> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        loop {
            if let Some(finished) = self.finished.take() {
                let left = self.end;
                if finished.is_err() {
                    self.number += 1;
                }
                finished?;
                self.finished = Some(Ok(()));
                return Ok((left > 0).then_some(left));
            }
            if self.end == self.buffer.len() {
                self.number += 1;
                let problem = format!("the line is longer than {BLOCK} bytes");
                return Err(io::Error::new(ErrorKind::InvalidData, problem));
            }
            let searched = self.end;
            match self.input.read(&mut self.buffer[searched..]) {
                Ok(0) => self.finished = Some(Ok(())),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.finished = Some(Err(self.explain(error))),
            }
            if let Some(length) = memchr(b'\n', &self.buffer[searched..self.end]) {
                return Ok(Some(searched + length));
            }
        }
    }

    /// Distinguishes errors in compressed data, which are terse, from those of the underlying stream.
    fn explain(&self, error: io::Error) -> io::Error {
        let (data, place) = match self.compression.filter(|_| !self.failed.get()) {
            None => return error,
            Some(Compression::Gzip) => ("gzip data", "in this line"),
            // Some of the text before the fault is lost with it.
            Some(Compression::Xz) => ("xz data", "in this line or after it"),
        };
        let problem = match error.kind() {
            ErrorKind::UnexpectedEof => format!("the {data} is cut off {place}"),
            ErrorKind::OutOfMemory => format!("the {data} takes too much memory: {XZ_MEMORY} MiB are the limit"),
            _ => format!("the {data} is broken {place}: {error}"),
        };
        io::Error::new(ErrorKind::InvalidData, problem)
    }
}

/// Counts and reports the bytes read.
struct Counted<'a> {
    input: Box<dyn Read + 'a>,
    failed: Rc<Cell<bool>>,
    bytes: u64,
    total: u64,
    /// The count at the next report.
    next: u64,
    progress: Option<Progress<'a>>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer);
        let read = read.inspect_err(|error| self.failed.set(error.kind() != ErrorKind::Interrupted))?;
        self.bytes += read as u64;
        let at_end = read == 0 && self.next != u64::MAX;
        if let Some(progress) = &mut self.progress
            && (self.bytes >= self.next || at_end)
        {
            progress(self.bytes, self.total);
            self.next = if at_end { u64::MAX } else { self.bytes + PROGRESS_STEP };
        }
        Ok(read)
    }
}

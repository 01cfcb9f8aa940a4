//! What is to leave at the end of a turn: which bytes, for whom, in which order.

use std::io::{self, IoSlice, Write};

use mio::net::TcpStream;
use plugsock_ws::fragment;

use crate::outbound::{Commit, Outbox, Verdict};

const NIL: u32 = u32::MAX;
/// Pieces that one system call takes.
const MAX_SLICES: usize = 64;

/// All pieces of a turn. Each connection has a list in it, so that everything for one connection
/// leaves in one write, and K messages to N connections cost N writes.
#[derive(Debug, Default)]
pub struct Pieces {
    list: Vec<Piece>,
    /// Bytes that the shard itself made: control frames, responses, the built-in echo.
    scratch: Vec<u8>,
}

/// Where a piece's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the scratch, as part of a control frame or response: never dropped.
    Control,
    /// In the scratch, as a message.
    Scratch,
    /// In the turn's commit of this number, as messages.
    Commit(u32),
    /// The same, compressed.
    Deflated(u32),
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    source: Source,
    at: u32,
    len: u32,
    next: u32,
}

/// One connection's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
}

/// How a flush went for the messages of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// All have left, or wait in the outbox.
    Kept,
    /// The outbox was full before all were in; the rest is still to be judged from this one on.
    Full(u32),
}

impl Queue {
    pub(super) const EMPTY: Self = Self { head: NIL, tail: NIL };

    pub(super) fn is_empty(self) -> bool {
        self.head == NIL
    }

    /// Appends a range of bytes. Joined to the last one if it follows on, unless that would make
    /// a chunk too large to be dropped at once.
    pub(super) fn push(&mut self, pieces: &mut Pieces, source: Source, at: u32, len: u32) {
        const JOINED: u32 = 16 * 1024;
        let list = &mut pieces.list;
        if let Some(last) = list.get_mut(self.tail as usize) {
            let follows = last.source == source && last.at + last.len == at;
            if follows && last.len + len <= JOINED {
                last.len += len;
                return;
            }
        }
        let index = u32::try_from(list.len()).unwrap_or(NIL);
        list.push(Piece { source, at, len, next: NIL });
        match list.get_mut(self.tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }
}

impl Pieces {
    /// Nothing is left of the turn.
    pub fn clear(&mut self) {
        if self.scratch.capacity() > Self::FULL_SCRATCH * 4 {
            self.scratch = Vec::new();
        }
        if self.list.capacity() > Self::FULL_LIST * 4 {
            self.list = Vec::new();
        }
        self.list.clear();
        self.scratch.clear();
    }

    /// Scratch bytes after which the shard flushes in mid-turn.
    pub const FULL_SCRATCH: usize = 1024 * 1024;

    /// Pieces after which the shard flushes in mid-turn; 20 bytes each.
    pub const FULL_LIST: usize = 65_536;

    /// Whether the shard should flush before it goes on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.scratch.len() >= Self::FULL_SCRATCH || self.list.len() >= Self::FULL_LIST
    }

    /// Appends what `write` makes to the scratch and to a connection's list.
    pub(super) fn put(
        &mut self,
        queue: &mut Queue,
        source: Source,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let at = self.scratch.len();
        write(&mut self.scratch);
        let len = self.scratch.len() - at;
        if len > 0 {
            let (at, len) = (u32::try_from(at), u32::try_from(len));
            if let (Ok(at), Ok(len)) = (at, len) {
                queue.push(self, source, at, len);
            }
        }
    }

    fn bytes<'a>(&'a self, piece: &Piece, commits: &'a [Commit]) -> &'a [u8] {
        let all = match piece.source {
            Source::Control | Source::Scratch => &self.scratch,
            Source::Commit(index) => &commits[index as usize].bytes,
            Source::Deflated(index) => &commits[index as usize].deflated,
        };
        &all[piece.at as usize..(piece.at + piece.len) as usize]
    }

    /// Writes a connection's list straight to its socket, as far as that takes it. Returns the
    /// first piece that did not leave whole, and how much of it did.
    pub(super) fn write(
        &self,
        queue: Queue,
        commits: &[Commit],
        socket: &mut TcpStream,
    ) -> io::Result<Option<(u32, usize)>> {
        let mut next = queue.head;
        let mut skip = 0;
        while next != NIL {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let (mut count, mut offered, mut index) = (0, 0, next);
            while index != NIL && count < MAX_SLICES {
                let piece = &self.list[index as usize];
                let bytes = &self.bytes(piece, commits)[if count == 0 { skip } else { 0 }..];
                slices[count] = IoSlice::new(bytes);
                offered += bytes.len();
                count += 1;
                index = piece.next;
            }
            let written = match &slices[..count] {
                [one] => socket.write(one),
                several => socket.write_vectored(several),
            };
            match written {
                Ok(n) if n == offered => (next, skip) = (index, 0),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => return Ok(Some(self.advance(next, skip + n))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Some((next, skip)));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Keeps what did not leave: `skip` bytes of piece `from` have.
    pub(super) fn keep(
        &self,
        from: u32,
        skip: usize,
        commits: &[Commit],
        outbox: &mut Outbox,
        limit: usize,
    ) -> Flushed {
        let (mut index, mut skip) = (from, skip);
        while let Some(piece) = self.list.get(index as usize) {
            let bytes = self.bytes(piece, commits);
            if skip > 0 {
                outbox.push_begun(bytes, skip);
            } else if piece.source == Source::Control {
                outbox.push_control(bytes);
            } else if outbox.push(bytes, limit) == Verdict::Full {
                return Flushed::Full(index);
            }
            (index, skip) = (piece.next, 0);
        }
        Flushed::Kept
    }

    /// Keeps only the control frames from piece `from` on; returns how many messages were dropped.
    pub(super) fn keep_control(&self, from: u32, commits: &[Commit], outbox: &mut Outbox) -> u64 {
        let (mut index, mut dropped) = (from, 0);
        while let Some(piece) = self.list.get(index as usize) {
            if piece.source == Source::Control {
                outbox.push_control(self.bytes(piece, commits));
            } else {
                dropped += fragment::messages(self.bytes(piece, commits));
            }
            index = piece.next;
        }
        dropped
    }

    pub(super) fn first(queue: Queue) -> u32 {
        queue.head
    }

    fn advance(&self, from: u32, written: usize) -> (u32, usize) {
        let (mut index, mut left) = (from, written);
        while let Some(piece) = self.list.get(index as usize) {
            if left < piece.len as usize {
                break;
            }
            left -= piece.len as usize;
            index = piece.next;
        }
        (index, left)
    }
}

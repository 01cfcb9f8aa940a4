//! What a connection could not be sent at once, because its socket is full.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

use plugsock_ws::fragment;

/// Pieces that one system call takes.
const MAX_SLICES: usize = 64;

/// Exists only while the peer reads more slowly than it is sent to. Holds whole messages (up to
/// 16 KiB of small ones in one chunk), so that dropping never tears one.
#[derive(Debug, Default)]
pub struct Outbox {
    chunks: VecDeque<Chunk>,
    /// How much of the first chunk has been written.
    written: usize,
    bytes: usize,
    got_on: u32,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Whole messages: may be dropped.
    Messages,
    /// Control frames, and the later frames of a message that has begun to leave: never dropped.
    Kept,
    /// The one pong that waits.
    Pong,
}

/// What became of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It waits its turn.
    Queued,
    /// The outbox is full; nothing was queued.
    Full,
}

impl Outbox {
    /// Empty.
    #[must_use]
    pub fn new(now: u32) -> Self {
        Self { got_on: now, ..Self::default() }
    }

    /// When some of it last left, or it was begun, in its owner's time.
    #[must_use]
    pub fn got_on(&self) -> u32 {
        self.got_on
    }

    /// Some of it has left.
    pub fn gets_on(&mut self, now: u32) {
        self.got_on = now;
    }

    /// Appends whole messages. The outbox is full when it holds `limit` bytes or more, so that it
    /// holds at most `limit` and one chunk.
    pub fn push(&mut self, bytes: &[u8], limit: usize) -> Verdict {
        if self.bytes >= limit {
            return Verdict::Full;
        }
        self.append(bytes, Kind::Messages);
        Verdict::Queued
    }

    /// Appends control frames, whatever waits: the connection has at most one pong, one ping and
    /// one close frame here.
    pub fn push_control(&mut self, bytes: &[u8]) {
        self.append(bytes, Kind::Kept);
    }

    /// The pong that goes out next, before the messages and between the frames of one that has
    /// begun to leave. It takes the place of one that still waits: only the newest ping need be
    /// answered (RFC 6455 §5.5.3), so a flood of pings holds no memory.
    pub fn set_pong(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        let chunk = Chunk { bytes: frame, kind: Kind::Pong };
        if let Some(waiting) = self.waiting_pong() {
            let old = std::mem::replace(waiting, chunk);
            self.bytes -= old.bytes.len();
            return;
        }
        if self.written == 0 {
            self.chunks.push_front(chunk);
            return;
        }
        let Some(begun) = self.chunks.front_mut() else { return };
        let later_frames = begun.bytes.split_off(frame_end(&begun.bytes, self.written));
        if !later_frames.is_empty() {
            self.chunks.insert(1, Chunk { bytes: later_frames, kind: Kind::Kept });
        }
        self.chunks.insert(1, chunk);
    }

    /// Keeps a chunk of which `written` bytes have already been written to the socket. The outbox
    /// must be empty.
    pub fn push_begun(&mut self, bytes: &[u8], written: usize) {
        debug_assert!(self.chunks.is_empty());
        self.append(bytes, Kind::Kept);
        self.bytes -= written;
        self.written = written;
    }

    /// Drops the oldest messages that have not begun to leave until `limit` has room, at 0 all of
    /// them. Returns how many went.
    pub fn drop_oldest(&mut self, limit: usize) -> u64 {
        let mut dropped = 0;
        let mut index = usize::from(self.written > 0);
        while self.bytes >= limit && index < self.chunks.len() {
            if self.chunks[index].kind != Kind::Messages {
                index += 1;
                continue;
            }
            if let Some(chunk) = self.chunks.remove(index) {
                self.bytes -= chunk.bytes.len();
                dropped += fragment::messages(&chunk.bytes);
            }
        }
        dropped
    }

    /// Bytes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether everything has left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Writes until everything has left or the socket is full. Returns how many bytes left.
    ///
    /// # Errors
    /// Those of the socket but "would block" and "interrupted".
    pub fn write_to(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        let mut total = 0;
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let mut count = 0;
            let mut offered = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                let start = if count == 0 { self.written } else { 0 };
                *slice = IoSlice::new(&chunk.bytes[start..]);
                offered += slice.len();
                count += 1;
            }
            match socket.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.advance(n);
                    total += n;
                    if n < offered {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// A pong that has not begun to leave.
    fn waiting_pong(&mut self) -> Option<&mut Chunk> {
        let begun = usize::from(self.written > 0);
        self.chunks.iter_mut().skip(begun).find(|chunk| chunk.kind == Kind::Pong)
    }

    fn append(&mut self, bytes: &[u8], kind: Kind) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.chunks.push_back(Chunk { bytes: bytes.to_vec(), kind });
        }
    }

    fn advance(&mut self, written: usize) {
        self.bytes -= written;
        let mut left = self.written + written;
        while let Some(chunk) = self.chunks.front() {
            if left < chunk.bytes.len() {
                break;
            }
            left -= chunk.bytes.len();
            self.chunks.pop_front();
        }
        self.written = left;
    }
}

/// Where the frame ends in which byte `at` of these whole frames lies.
fn frame_end(frames: &[u8], at: usize) -> usize {
    let ends = fragment::frames(frames).scan(0, |end, (header, payload)| {
        *end += header.size() + payload.len();
        Some(*end)
    });
    { ends }.find(|end| *end >= at).unwrap_or(frames.len())
}

#[cfg(test)]
mod tests {
    use plugsock_ws::{Kind as Message, frame};

    use super::*;

    /// Takes so many bytes per call, then would block.
    struct Narrow {
        taken: Vec<u8>,
        portions: Vec<usize>,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Some(portion) = self.portions.pop() else {
                return Err(io::ErrorKind::WouldBlock.into());
            };
            let n = portion.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            self.write(&all)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_leaves_in_order_whatever_the_socket_takes() {
        for step in 1..12 {
            let mut outbox = Outbox::default();
            for text in ["one", "two", "three"] {
                assert_eq!(outbox.push(text.as_bytes(), 100), Verdict::Queued);
            }
            let mut socket = Narrow { taken: Vec::new(), portions: Vec::new() };
            for _ in 0..100 {
                socket.portions = vec![step];
                outbox.write_to(&mut socket).unwrap();
            }
            assert_eq!(socket.taken, b"onetwothree");
            assert!(outbox.is_empty());
            assert_eq!(outbox.len(), 0);
        }
    }

    #[test]
    fn it_holds_the_limit_and_one_chunk() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.push(&[0; 9], 10), Verdict::Queued);
        assert_eq!(outbox.push(&[0; 5], 10), Verdict::Queued, "9 are below 10");
        assert_eq!(outbox.push(&[0; 1], 10), Verdict::Full);
        assert_eq!(outbox.len(), 14);
    }

    #[test]
    fn the_oldest_go_first_but_never_one_that_has_begun() {
        let mut outbox = Outbox::default();
        let [begun, old, new] = ["begun", "old", "new"].map(|text| {
            let mut message = Vec::new();
            frame::encode(Message::Text, text.as_bytes(), &mut message);
            message
        });
        let _ = outbox.push(&begun, 100);
        let _ = outbox.push(&[&old[..], &old].concat(), 100);
        outbox.push_control(b"PONG");
        let _ = outbox.push(&new, 100);
        let mut socket = Narrow { taken: Vec::new(), portions: vec![2] };
        outbox.write_to(&mut socket).unwrap();
        assert_eq!(outbox.drop_oldest(5 + 4 + 5 + 1), 2, "two messages in one chunk");
        socket.portions = vec![100; 10];
        outbox.write_to(&mut socket).unwrap();
        assert_eq!(socket.taken, [&begun[..], b"PONG", &new].concat());
    }

    #[test]
    fn a_pong_does_not_tear_what_was_half_written_before_the_outbox_was_there() {
        let mut outbox = Outbox::default();
        let mut message = Vec::new();
        frame::encode(Message::Binary, b"half of this was written", &mut message);
        outbox.push_begun(&message, 10);
        outbox.set_pong(b"PONG".to_vec());
        let mut socket = Narrow { taken: Vec::new(), portions: vec![100] };
        outbox.write_to(&mut socket).unwrap();
        assert_eq!(socket.taken, [&message[10..], b"PONG"].concat());
    }

    #[test]
    fn a_pong_goes_between_the_frames_of_a_message_and_none_of_them_is_dropped() {
        let (mut first, mut later) = (Vec::new(), Vec::new());
        frame::encode_header(frame::Opcode::Text, false, 300, &mut first);
        first.resize(first.len() + 300, b'a');
        frame::encode_header(frame::Opcode::Continuation, true, 300, &mut later);
        later.resize(later.len() + 300, b'b');
        for written in 1..=first.len() {
            let mut outbox = Outbox::default();
            outbox.push_begun(&[first.clone(), later.clone()].concat(), written);
            outbox.set_pong(b"PONG".to_vec());
            assert_eq!(outbox.drop_oldest(0), 0);
            assert_eq!(outbox.len(), first.len() + later.len() + 4 - written);
            let mut socket = Narrow { taken: Vec::new(), portions: vec![1_000; 3] };
            outbox.write_to(&mut socket).unwrap();
            assert_eq!(socket.taken, [&first[written..], b"PONG", &later].concat());
        }
    }

    #[test]
    fn only_the_newest_pong_waits_and_it_goes_first() {
        let mut outbox = Outbox::default();
        let mut begun = Vec::new();
        frame::encode(Message::Text, b"begun", &mut begun);
        let _ = outbox.push(&begun, 100);
        let _ = outbox.push(b"next", 100);
        let mut socket = Narrow { taken: Vec::new(), portions: vec![2] };
        outbox.write_to(&mut socket).unwrap();
        outbox.set_pong(b"PING1".to_vec());
        outbox.set_pong(b"P2".to_vec());
        assert_eq!(outbox.len(), 5 + 2 + 4);
        socket.portions = vec![100; 10];
        outbox.write_to(&mut socket).unwrap();
        assert_eq!(socket.taken, [&begun[..], b"P2next"].concat());
        assert_eq!(outbox.len(), 0);
    }
}

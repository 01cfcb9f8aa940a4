//! WebSocket frames (RFC 6455, section 5.2), as little as an echo needs.

use std::io;
use std::ops::Range;

/// Ends a message (section 5.2).
pub(crate) const FIN: u8 = 0x80;
/// The opcodes that need an answer of their own, and for tests the others (section 11.8).
#[cfg(test)]
pub(crate) const TEXT: u8 = 1;
#[cfg(test)]
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// The longest header a server writes: two bytes and a 64-bit length.
const HEADER_MAX: usize = 10;

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// FIN, reserved bits and opcode, as received.
    pub(crate) first: u8,
    /// Bytes of the header itself, masking key included.
    pub(crate) len: usize,
    pub(crate) payload_len: usize,
    pub(crate) mask: Option<[u8; 4]>,
}

impl Header {
    /// Reads the header that `bytes` begin with; `None` if some of it is still to come.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let [first, second, rest @ ..] = bytes else {
            return None;
        };
        let (payload_len, after) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 2),
            127 => (u64::from_be_bytes(*rest.first_chunk()?), 8),
            short => (u64::from(short), 0),
        };
        let mask = match second & 0x80 {
            0 => None,
            _ => Some(*rest.get(after..)?.first_chunk()?),
        };
        let len = 2 + after + if mask.is_some() { 4 } else { 0 };
        // A length past the address space is one that never arrives.
        let payload_len = usize::try_from(payload_len).unwrap_or(usize::MAX);
        Some(Self { first: *first, len, payload_len, mask })
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.first & 0x0f
    }

    /// Bytes of the whole frame.
    #[inline]
    pub(crate) fn frame_len(&self) -> usize {
        self.len.saturating_add(self.payload_len)
    }
}

/// Appends a client's frame.
#[cfg(test)]
pub(crate) fn write_masked(out: &mut Vec<u8>, first: u8, key: [u8; 4], payload: &[u8]) {
    let (mut header, len) = header(first, payload.len());
    header[1] |= 0x80;
    out.extend_from_slice(&header[..len]);
    out.extend_from_slice(&key);
    let at = out.len();
    out.extend_from_slice(payload);
    mask(&mut out[at..], key);
}

/// What [`echo`] made of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    /// Where in the buffer the replies lie, one after another.
    pub(crate) reply: Range<usize>,
    /// Bytes of whole frames; what follows is the beginning of one more.
    pub(crate) consumed: usize,
    /// A close frame was answered: the connection ends with this reply.
    pub(crate) closed: bool,
}

/// Turns the client's whole frames in `bytes` into the server's replies, in place.
///
/// A reply is four bytes shorter than what it answers. So the first one is made where its payload
/// lies, and each of the others moves down to the end of the one before.
#[inline]
pub(crate) fn echo(bytes: &mut [u8]) -> io::Result<Echo> {
    let mut echo = Echo { reply: 0..0, consumed: 0, closed: false };
    while let Some(frame) = Header::parse(&bytes[echo.consumed..]) {
        if bytes.len() - echo.consumed < frame.frame_len() {
            break;
        }
        let Some(key) = frame.mask else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "frame without a mask"));
        };
        let payload = echo.consumed + frame.len..echo.consumed + frame.frame_len();
        echo.consumed = payload.end;
        let first = match frame.opcode() {
            PING => FIN | PONG,
            PONG => continue,
            _ => frame.first,
        };
        mask(&mut bytes[payload.clone()], key);
        let (header, len) = header(first, frame.payload_len);
        if echo.reply.is_empty() {
            echo.reply = payload.start - len..payload.end;
            bytes[echo.reply.start..payload.start].copy_from_slice(&header[..len]);
        } else {
            let start = echo.reply.end + len;
            bytes[echo.reply.end..start].copy_from_slice(&header[..len]);
            bytes.copy_within(payload, start);
            echo.reply.end = start + frame.payload_len;
        }
        if frame.opcode() == CLOSE {
            echo.closed = true;
            break;
        }
    }
    Ok(echo)
}

/// An unmasked header and its length in bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each arm bounds the length")]
fn header(first: u8, payload_len: usize) -> ([u8; HEADER_MAX], usize) {
    let mut header = [0; HEADER_MAX];
    header[0] = first;
    let len = match payload_len {
        0..=125 => {
            header[1] = payload_len as u8;
            2
        }
        126..=0xffff => {
            header[1] = 126;
            header[2..4].copy_from_slice(&(payload_len as u16).to_be_bytes());
            4
        }
        _ => {
            header[1] = 127;
            header[2..].copy_from_slice(&(payload_len as u64).to_be_bytes());
            HEADER_MAX
        }
    };
    (header, len)
}

/// Masks or unmasks a payload from its first byte (section 5.3).
#[inline]
fn mask(payload: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (chunks, rest) = payload.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.into_iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    fn server_frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let (header, len) = header(first, payload.len());
        [&header[..len], payload].concat()
    }

    #[test]
    fn masks_the_example_of_section_5_7() {
        let mut out = Vec::new();
        write_masked(&mut out, FIN | TEXT, KEY, b"Hello");
        assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    #[test]
    fn a_header_is_read_whole_or_not_at_all() {
        for size in [0, 125, 126, 0xffff, 0x1_0000] {
            let mut frame = Vec::new();
            write_masked(&mut frame, FIN | BINARY, KEY, &vec![0; size]);
            let header = Header::parse(&frame).unwrap();
            assert_eq!(header.payload_len, size);
            assert_eq!(header.frame_len(), frame.len());
            assert_eq!(header.mask, Some(KEY));
            for short in 0..header.len {
                assert_eq!(Header::parse(&frame[..short]), None);
            }
        }
    }

    #[test]
    fn echoes_a_run_of_frames_as_one_reply() {
        let sizes = [0, 1, 7, 8, 9, 125, 126, 127, 300, 0xffff, 0x1_0000, 3];
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (size, fill) in sizes.into_iter().zip(1..) {
            let payload = vec![fill; size];
            write_masked(&mut bytes, FIN | BINARY, KEY, &payload);
            expected.extend(server_frame(FIN | BINARY, &payload));
        }
        let whole = bytes.len();
        write_masked(&mut bytes, FIN | BINARY, KEY, b"cut off");
        bytes.pop();
        let echo = echo(&mut bytes).unwrap();
        assert_eq!(echo.consumed, whole);
        assert!(bytes[echo.reply] == expected);
    }

    #[test]
    fn answers_pings_drops_pongs_and_stops_at_close() {
        let mut bytes = Vec::new();
        write_masked(&mut bytes, FIN | PONG, KEY, b"idle");
        write_masked(&mut bytes, FIN | PING, KEY, b"there?");
        write_masked(&mut bytes, FIN | PONG, KEY, b"idle");
        write_masked(&mut bytes, TEXT, KEY, b"frag");
        write_masked(&mut bytes, FIN | CLOSE, KEY, &[3, 232]);
        let end = bytes.len();
        write_masked(&mut bytes, FIN | TEXT, KEY, b"too late");
        let echo = echo(&mut bytes).unwrap();
        let expected = [
            server_frame(FIN | PONG, b"there?"),
            server_frame(TEXT, b"frag"),
            server_frame(FIN | CLOSE, &[3, 232]),
        ];
        assert!(echo.closed);
        assert_eq!(echo.consumed, end);
        assert_eq!(bytes[echo.reply], expected.concat());
    }

    #[test]
    fn refuses_a_frame_without_mask() {
        assert!(echo(&mut server_frame(FIN | TEXT, b"x")).is_err());
    }

    #[test]
    fn waits_for_a_frame_longer_than_memory() {
        let mut bytes = [0x82, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0];
        assert_eq!(echo(&mut bytes).unwrap().consumed, 0);
    }
}

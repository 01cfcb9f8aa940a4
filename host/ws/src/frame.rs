//! Frame headers: reading them, and encoding frames for the sender (RFC 6455 §5.2).

use std::fmt;

use crate::deflate::Compressor;
use crate::{Error, Kind, mask};

/// The longest payload of a control frame in bytes (RFC 6455 §5.5).
pub const MAX_CONTROL_PAYLOAD: usize = 125;

/// The longest header of a server's frame in bytes: two, and eight of length.
pub const MAX_SERVER_HEADER_SIZE: usize = 10;

/// The bit of a frame's first byte that control opcodes have (RFC 6455 §5.2).
pub(crate) const CONTROL: u8 = 0x08;

/// The longest header in bytes: a client's, with four more of masking key.
pub const MAX_HEADER_SIZE: usize = MAX_SERVER_HEADER_SIZE + 4;

const FIN: u8 = 0x80;
const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
const LENGTH_IN_16_BITS: u8 = 126;
const LENGTH_IN_64_BITS: u8 = 127;

/// Which end of the connection this is. A client masks its frames, a server does not.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Accepted the connection.
    Server,
    /// Opened the connection.
    Client,
}

/// What a frame is (RFC 6455 §5.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Goes on with the message of the frames before.
    Continuation = 0,
    /// Begins a text message.
    Text = 1,
    /// Begins a binary message.
    Binary = 2,
    /// Begins or answers the closing handshake.
    Close = 8,
    /// Asks for a pong.
    Ping = 9,
    /// Answers a ping, or is sent unasked.
    Pong = 10,
}

/// A frame's header: everything before the payload.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The last frame of its message.
    pub fin: bool,
    /// RSV1: the first frame of a message that is compressed (RFC 7692 §6).
    pub compressed: bool,
    /// What the frame is.
    pub opcode: Opcode,
    /// The masking key; `None` if the payload is not masked.
    pub key: Option<[u8; 4]>,
    /// Bytes of payload, less than 2⁶³.
    pub len: u64,
}

/// A control payload is longer than [`MAX_CONTROL_PAYLOAD`] bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ControlTooLong;

/// Appends one unmasked frame that is a whole message: header and payload.
pub fn encode(kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
    out.reserve(MAX_SERVER_HEADER_SIZE + payload.len());
    encode_header(kind.into(), true, payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// Appends one unmasked frame that is a whole message, compressed without context if that makes
/// it shorter. Returns whether it is compressed.
///
/// Such a frame is fit for every connection whose agreement allows the compressor's window; see
/// [`Machine::takes`](crate::Machine::takes) and
/// [`Machine::record_sent`](crate::Machine::record_sent).
pub fn encode_compressed(
    kind: Kind,
    payload: &[u8],
    compressor: &mut Compressor,
    out: &mut Vec<u8>,
) -> bool {
    let Some(compressed) = compressor.compress(payload).filter(|it| is_worth_it(it, payload))
    else {
        encode(kind, payload, out);
        return false;
    };
    encode_message(kind, true, compressed, None, out);
    true
}

/// Appends one frame that is a whole message.
pub(crate) fn encode_message(
    kind: Kind,
    compressed: bool,
    payload: &[u8],
    key: Option<[u8; 4]>,
    out: &mut Vec<u8>,
) {
    out.reserve(MAX_HEADER_SIZE + payload.len());
    let len = payload.len() as u64;
    Header { fin: true, compressed, opcode: kind.into(), key, len }.encode(out);
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(key) = key {
        mask::apply(key, 0, out.get_mut(start..).unwrap_or_default());
    }
}

/// Whether a message is to leave compressed. An empty one, which cannot shrink, does: receivers
/// agree on what it means.
pub(crate) const fn is_worth_it(compressed: &[u8], message: &[u8]) -> bool {
    compressed.len() < message.len() || message.is_empty()
}

/// Appends the header of an unmasked frame; `len` bytes of payload are to follow.
///
/// A message leaves in fragments as its own opcode without `fin`, then
/// [`Opcode::Continuation`], the last with `fin`.
pub fn encode_header(opcode: Opcode, fin: bool, len: u64, out: &mut Vec<u8>) {
    Header { fin, compressed: false, opcode, key: None, len }.encode(out);
}

/// Appends one frame as a client sends it. `key` must be new and unpredictable for each frame
/// (RFC 6455 §5.3).
pub fn encode_masked(opcode: Opcode, fin: bool, payload: &[u8], key: [u8; 4], out: &mut Vec<u8>) {
    out.reserve(MAX_HEADER_SIZE + payload.len());
    let len = payload.len() as u64;
    Header { fin, compressed: false, opcode, key: Some(key), len }.encode(out);
    let start = out.len();
    out.extend_from_slice(payload);
    mask::apply(key, 0, out.get_mut(start..).unwrap_or_default());
}

/// Appends an unmasked ping. Nothing is appended if the payload does not fit.
pub fn ping(payload: &[u8], out: &mut Vec<u8>) -> Result<(), ControlTooLong> {
    encode_control(Opcode::Ping, payload, out)
}

/// Appends an unmasked pong; the answer to a ping carries the ping's payload (RFC 6455 §5.5.3).
/// Nothing is appended if the payload does not fit, which a received ping's always does.
pub fn pong(payload: &[u8], out: &mut Vec<u8>) -> Result<(), ControlTooLong> {
    encode_control(Opcode::Pong, payload, out)
}

fn encode_control(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) -> Result<(), ControlTooLong> {
    if payload.len() > MAX_CONTROL_PAYLOAD {
        return Err(ControlTooLong);
    }
    encode_header(opcode, true, payload.len() as u64, out);
    out.extend_from_slice(payload);
    Ok(())
}

impl Header {
    /// Reads the header at the start of `bytes` as `receiver` may receive it. Returns it with
    /// its size in bytes, or `None` if more bytes are needed; a header that is wrong already
    /// fails before it is complete.
    pub fn parse(receiver: Role, bytes: &[u8]) -> Result<Option<(Self, usize)>, Error> {
        Self::parse_as(receiver, false, bytes)
    }

    /// As [`parse`](Self::parse); with `compression` a message's first frame may have RSV1 set.
    pub fn parse_as(
        receiver: Role,
        compression: bool,
        bytes: &[u8],
    ) -> Result<Option<(Self, usize)>, Error> {
        let [first, rest @ ..] = bytes else {
            return Ok(None);
        };
        let fin = first & FIN != 0;
        let compressed = first & COMPRESSED != 0 && compression;
        let opcode = Opcode::from_first_byte(first & !if compressed { COMPRESSED } else { 0 })?;
        if compressed && !matches!(opcode, Opcode::Text | Opcode::Binary) {
            return Err(Error::ReservedBits);
        }
        if opcode.is_control() && !fin {
            return Err(Error::FragmentedControl);
        }

        let [second, rest @ ..] = rest else {
            return Ok(None);
        };
        match (receiver, second & MASKED != 0) {
            (Role::Server, false) => return Err(Error::MaskRequired),
            (Role::Client, true) => return Err(Error::MaskForbidden),
            (Role::Server, true) | (Role::Client, false) => {}
        }
        let short = second & LENGTH;
        if opcode.is_control() && usize::from(short) > MAX_CONTROL_PAYLOAD {
            return Err(Error::ControlTooLong);
        }

        let Some((len, rest)) = parse_length(short, rest)? else {
            return Ok(None);
        };
        let (key, rest) = match receiver {
            Role::Client => (None, rest),
            Role::Server => match rest.split_first_chunk() {
                Some((key, rest)) => (Some(*key), rest),
                None => return Ok(None),
            },
        };
        Ok(Some((Self { fin, compressed, opcode, key, len }, bytes.len() - rest.len())))
    }

    /// Appends the header with the length in its shortest form.
    #[expect(clippy::cast_possible_truncation, reason = "each arm's range fits its type")]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let first = self.opcode as u8
            | if self.fin { FIN } else { 0 }
            | if self.compressed { COMPRESSED } else { 0 };
        let masked = if self.key.is_some() { MASKED } else { 0 };
        match self.len {
            0..=125 => out.extend_from_slice(&[first, masked | self.len as u8]),
            126..=0xffff => {
                out.extend_from_slice(&[first, masked | LENGTH_IN_16_BITS]);
                out.extend_from_slice(&(self.len as u16).to_be_bytes());
            }
            _ => {
                out.extend_from_slice(&[first, masked | LENGTH_IN_64_BITS]);
                out.extend_from_slice(&self.len.to_be_bytes());
            }
        }
        if let Some(key) = self.key {
            out.extend_from_slice(&key);
        }
    }

    /// The number of bytes that [`encode`](Self::encode) appends.
    pub const fn size(&self) -> usize {
        let length = match self.len {
            0..=125 => 0,
            126..=0xffff => 2,
            _ => 8,
        };
        2 + length + if self.key.is_some() { 4 } else { 0 }
    }
}

/// The payload length and the bytes after it, or `None` if more bytes are needed.
fn parse_length(short: u8, bytes: &[u8]) -> Result<Option<(u64, &[u8])>, Error> {
    match short {
        LENGTH_IN_16_BITS => {
            let Some((long, rest)) = bytes.split_first_chunk() else {
                return Ok(None);
            };
            let len = u16::from_be_bytes(*long);
            if len < u16::from(LENGTH_IN_16_BITS) {
                return Err(Error::LengthNotMinimal);
            }
            Ok(Some((u64::from(len), rest)))
        }
        LENGTH_IN_64_BITS => {
            let Some((long, rest)) = bytes.split_first_chunk() else {
                return Ok(None);
            };
            let len = u64::from_be_bytes(*long);
            if len >> 63 != 0 {
                return Err(Error::LengthTopBit);
            }
            if len <= u64::from(u16::MAX) {
                return Err(Error::LengthNotMinimal);
            }
            Ok(Some((len, rest)))
        }
        len => Ok(Some((u64::from(len), bytes))),
    }
}

impl Opcode {
    /// Close, ping or pong: never fragmented, and allowed between the fragments of a message.
    pub const fn is_control(self) -> bool {
        self as u8 & 8 != 0
    }

    const fn from_first_byte(byte: u8) -> Result<Self, Error> {
        if byte & RESERVED != 0 {
            return Err(Error::ReservedBits);
        }
        match byte & OPCODE {
            0 => Ok(Self::Continuation),
            1 => Ok(Self::Text),
            2 => Ok(Self::Binary),
            8 => Ok(Self::Close),
            9 => Ok(Self::Ping),
            10 => Ok(Self::Pong),
            unknown => Err(Error::UnknownOpcode(unknown)),
        }
    }
}

impl From<Kind> for Opcode {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text,
            Kind::Binary => Self::Binary,
        }
    }
}

impl fmt::Display for ControlTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a control payload is longer than {MAX_CONTROL_PAYLOAD} bytes")
    }
}

impl std::error::Error for ControlTooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_their_shortest_form_and_come_back() {
        for (len, size) in
            [(0, 2), (125, 2), (126, 4), (0xffff, 4), (0x1_0000, 10), (i64::MAX as u64, 10)]
        {
            for (receiver, key) in [(Role::Client, None), (Role::Server, Some([1, 2, 3, 4]))] {
                let (fin, opcode) = (true, Opcode::Binary);
                let header = Header { fin, compressed: false, opcode, key, len };
                let mut bytes = Vec::new();
                header.encode(&mut bytes);
                assert_eq!(bytes.len(), size + key.map_or(0, |key| key.len()));
                assert_eq!(bytes.len(), header.size());
                assert_eq!(Header::parse(receiver, &bytes), Ok(Some((header, bytes.len()))));
                for cut in 0..bytes.len() {
                    assert_eq!(Header::parse(receiver, &bytes[..cut]), Ok(None));
                }
            }
        }
    }

    #[test]
    fn the_longest_headers_have_the_stated_sizes() {
        let mut bytes = Vec::new();
        encode_header(Opcode::Binary, true, u64::from(u32::MAX), &mut bytes);
        assert_eq!(bytes.len(), MAX_SERVER_HEADER_SIZE);
        bytes.clear();
        let key = Some([0; 4]);
        let (compressed, opcode) = (true, Opcode::Text);
        Header { fin: true, compressed, opcode, key, len: 1 << 40 }.encode(&mut bytes);
        assert_eq!(bytes.len(), MAX_HEADER_SIZE);
    }

    #[test]
    fn frames_match_the_examples_of_rfc_6455_section_5_7() {
        let mut out = Vec::new();
        encode(Kind::Text, b"Hello", &mut out);
        assert_eq!(out, b"\x81\x05Hello");
        out.clear();
        encode_masked(Opcode::Text, true, b"Hello", [0x37, 0xfa, 0x21, 0x3d], &mut out);
        assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
        out.clear();
        encode_header(Opcode::Text, false, 3, &mut out);
        encode_header(Opcode::Continuation, true, 2, &mut out);
        assert_eq!(out, [0x01, 0x03, 0x80, 0x02]);
    }

    #[test]
    fn a_control_payload_fits_up_to_125_bytes() {
        let mut out = Vec::new();
        assert_eq!(ping(&[7; 126], &mut out), Err(ControlTooLong));
        assert_eq!(pong(&[7; 126], &mut out), Err(ControlTooLong));
        assert!(out.is_empty());
        assert_eq!(ping(&[7; 125], &mut out), Ok(()));
        assert_eq!(pong(b"k", &mut out), Ok(()));
        assert_eq!(out[..2], [0x89, 125]);
        assert_eq!(out[127..], [0x8a, 1, b'k']);
    }

    #[test]
    fn every_first_byte_is_known_or_refused() {
        for byte in 0..=255 {
            let valid = matches!(byte, 0..=2 | 0x80..=0x82 | 0x88..=0x8a);
            assert_eq!(Header::parse(Role::Server, &[byte]).is_ok(), valid, "{byte:#x}");
            let compressed = matches!(byte, 0x41 | 0x42 | 0xc1 | 0xc2);
            let parsed = Header::parse_as(Role::Server, true, &[byte]);
            assert_eq!(parsed.is_ok(), valid || compressed, "{byte:#x}");
        }
    }
}

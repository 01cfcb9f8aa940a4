//! The protocol a second time, as plainly as the RFC tells it: whole streams, no seams, no care for
//! speed. What the crate sends and reports is compared with this.

use std::fmt;

use plugsock_ws::extension::Agreement;
use plugsock_ws::{Limits, Role};

use crate::inflate::{Bad, Window};

pub(crate) const FIN: u8 = 0x80;

/// The first frame of a compressed message (RFC 7692 §6).
pub(crate) const RSV1: u8 = 0x40;

/// What one end tells the other.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Unit {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

/// How far a stream leads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No close frame, no error.
    Open,
    /// A close frame with this code, if it has one.
    Close(Option<u16>),
    /// An error that is answered with this code.
    Error(u16),
    /// An error, answered with 1009; or with 1007 if the message, beyond the limit, has an end that
    /// nobody needs to reach.
    Overflow,
}

/// The point from which a receiver looks at nothing but framing: its own close frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// How many bytes it had received.
    pub(crate) at: usize,
    /// The last of these ended a message that it had not wholly inflated.
    pub(crate) amid_message: bool,
}

/// All that a stream says.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) units: Vec<Unit>,
    pub(crate) verdict: Verdict,
    /// Nothing is incomplete at the end.
    pub(crate) idle: bool,
}

/// Data frames whose message has not ended.
struct Message {
    text: bool,
    compressed: bool,
    bytes: Vec<u8>,
    empty: usize,
    dropped: bool,
}

/// One frame with any first byte (FIN, reserved bits, opcode). With a key it is masked.
pub(crate) fn frame(first: u8, key: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let mut frame = header(first, key, payload.len() as u64);
    let start = frame.len();
    frame.extend_from_slice(payload);
    unmask(key, &mut frame[start..]);
    frame
}

pub(crate) fn header(first: u8, key: Option<[u8; 4]>, len: u64) -> Vec<u8> {
    let mask = if key.is_some() { 0x80 } else { 0 };
    let long = len.to_be_bytes();
    let mut header = vec![first];
    match len {
        0..=125 => header.push(mask | long[7]),
        126..=65_535 => header.extend([mask | 126, long[6], long[7]]),
        _ => {
            header.push(mask | 127);
            header.extend(long);
        }
    }
    header.extend(key.into_iter().flatten());
    header
}

/// The payload of one frame.
pub(crate) fn unframed(key: Option<[u8; 4]>, frame: &[u8]) -> Vec<u8> {
    let extended = match frame[1] & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mut payload = frame[2 + extended + key.map_or(0, |_| 4)..].to_vec();
    unmask(key, &mut payload);
    payload
}

/// What `receiver` is to report of `stream`. Once it has sent its own close frame it reports only
/// a close frame, and keeps no data.
pub(crate) fn decode(
    receiver: Role,
    limits: &Limits,
    agreed: Option<&Agreement>,
    stream: &[u8],
    closing: Option<Closing>,
) -> Decoded {
    let mut units = Vec::new();
    let mut message = None;
    let mut window = agreed.map(|agreed| Window::new(agreed, other(receiver)));
    let closed_at = closing.map_or(usize::MAX, |closing| closing.at);
    let unread = closing.filter(|closing| closing.amid_message).map(|closing| closing.at);
    let mut at = 0;
    let verdict = loop {
        let rest = &stream[at..];
        let (first, size, key, len) = match read_header(receiver, agreed.is_some(), rest) {
            Ok(Some(header)) => header,
            Ok(None) => break Verdict::Open,
            Err(code) => break Verdict::Error(code),
        };
        let payload = &rest[size..];
        let got = payload.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        let complete = got as u64 == len;
        let mut payload = payload[..got].to_vec();
        unmask(key, &mut payload);
        let end = at + size + got;

        if first & 8 == 0 {
            // What came before our close frame was looked at, what came after was not.
            let seen = closed_at.saturating_sub(at + size).min(got);
            let whole = complete && end <= closed_at && unread != Some(end);
            let frame = DataFrame { first, len, payload: &payload[..seen], whole };
            let dropped = at + size > closed_at;
            match frame.judge(&mut message, window.as_mut(), limits, dropped) {
                Ok(unit) => units.extend(unit),
                Err(verdict) => break verdict,
            }
        } else if complete {
            match control(first, payload) {
                Ok(Unit::Close(close)) => {
                    let code = close.as_ref().map(|(code, _)| *code);
                    units.push(Unit::Close(close));
                    break Verdict::Close(code);
                }
                Ok(unit) if end <= closed_at => units.push(unit),
                Ok(_) => {}
                Err(code) => break Verdict::Error(code),
            }
        }
        if !complete {
            break Verdict::Open;
        }
        if first & (FIN | 8) == FIN {
            message = None;
        }
        at = end;
    };
    Decoded { units, verdict, idle: at == stream.len() && message.is_none() }
}

/// First byte, size in bytes, masking key and payload length.
type Header = (u8, usize, Option<[u8; 4]>, u64);

fn read_header(receiver: Role, deflates: bool, bytes: &[u8]) -> Result<Option<Header>, u16> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let (fin, opcode) = (first & FIN != 0, first & 15);
    let reserved = if deflates && matches!(opcode, 1 | 2) { 0x70 & !RSV1 } else { 0x70 };
    if first & reserved != 0 || matches!(opcode, 3..=7 | 11..) || (opcode >= 8 && !fin) {
        return Err(1002);
    }
    let Some(&second) = bytes.get(1) else { return Ok(None) };
    let (masked, short) = (second & 0x80 != 0, second & 0x7f);
    if masked != (receiver == Role::Server) || (opcode >= 8 && short > 125) {
        return Err(1002);
    }
    let extended = match short {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some(long) = bytes.get(2..2 + extended) else { return Ok(None) };
    let long = long.iter().fold(0, |len, byte| len << 8 | u64::from(*byte));
    let len = match short {
        126 if long < 126 => return Err(1002),
        127 if long < 65_536 || long >> 63 != 0 => return Err(1002),
        126 | 127 => long,
        _ => u64::from(short),
    };
    if !masked {
        return Ok(Some((first, 2 + extended, None, len)));
    }
    let key = bytes.get(2 + extended..6 + extended).and_then(|key| key.try_into().ok());
    Ok(key.map(|key| (first, 6 + extended, Some(key), len)))
}

/// A data frame as far as it has come.
struct DataFrame<'a> {
    first: u8,
    len: u64,
    payload: &'a [u8],
    /// It came whole before our close frame, so its message may be reported.
    whole: bool,
}

impl DataFrame<'_> {
    fn judge(
        &self,
        message: &mut Option<Message>,
        window: Option<&mut Window>,
        limits: &Limits,
        dropped: bool,
    ) -> Result<Option<Unit>, Verdict> {
        let (fin, opcode) = (self.first & FIN != 0, self.first & 15);
        if (opcode == 0) != message.is_some() {
            return Err(Verdict::Error(1002));
        }
        let message = message.get_or_insert_with(|| Message {
            text: opcode == 1,
            compressed: self.first & RSV1 != 0,
            bytes: Vec::new(),
            empty: 0,
            dropped: false,
        });
        if dropped {
            message.dropped = true;
            message.bytes.clear();
        }
        if self.len > limits.max_frame_size
            || self.len > limits.max_message_size - message.bytes.len() as u64
        {
            return Err(Verdict::Error(1009));
        }
        message.empty += usize::from(self.len == 0 && !fin);
        if message.empty > usize::from(Limits::MAX_EMPTY_FRAGMENTS) {
            return Err(Verdict::Error(1008));
        }
        if message.dropped {
            return Ok(None);
        }
        message.bytes.extend_from_slice(self.payload);
        let ends = fin && self.whole;
        if message.text
            && !message.compressed
            && let Err(error) = std::str::from_utf8(&message.bytes)
            && (error.error_len().is_some() || ends)
        {
            return Err(Verdict::Error(1007));
        }
        if ends { message.finish(window, limits).map(Some) } else { Ok(None) }
    }
}

impl Message {
    fn finish(&mut self, window: Option<&mut Window>, limits: &Limits) -> Result<Unit, Verdict> {
        let mut bytes = std::mem::take(&mut self.bytes);
        if let Some(window) = window.filter(|_| self.compressed) {
            let received = window.receive(&bytes, self.text, limits.max_message_size);
            bytes = received.map_err(|bad| match bad {
                Bad::Data => Verdict::Error(1007),
                Bad::TooManyFinalBlocks => Verdict::Error(1008),
                Bad::TooLarge => Verdict::Overflow,
            })?;
        }
        Ok(if self.text { Unit::Text(bytes) } else { Unit::Binary(bytes) })
    }
}

impl Verdict {
    /// Whether a receiver that came to `found` judged rightly.
    pub(crate) fn admits(self, found: Self) -> bool {
        match self {
            Self::Overflow => matches!(found, Self::Error(1007 | 1009)),
            verdict => verdict == found,
        }
    }
}

pub(crate) const fn other(role: Role) -> Role {
    match role {
        Role::Client => Role::Server,
        Role::Server => Role::Client,
    }
}

fn control(first: u8, payload: Vec<u8>) -> Result<Unit, u16> {
    match (first & 15, payload.as_slice()) {
        (9, _) => Ok(Unit::Ping(payload)),
        (10, _) => Ok(Unit::Pong(payload)),
        (_, []) => Ok(Unit::Close(None)),
        (_, [_]) => Err(1002),
        (_, [high, low, reason @ ..]) => {
            let code = u16::from_be_bytes([*high, *low]);
            if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                return Err(1002);
            }
            let reason = String::from_utf8(reason.to_vec()).map_err(|_| 1007_u16)?;
            Ok(Unit::Close(Some((code, reason))))
        }
    }
}

fn unmask(key: Option<[u8; 4]>, payload: &mut [u8]) {
    let Some(key) = key else { return };
    for four in payload.chunks_mut(4) {
        for (byte, key) in four.iter_mut().zip(key) {
            *byte ^= key;
        }
    }
}

/// Long payloads by their size, so that a failure can be read.
impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, payload) = match self {
            Self::Text(payload) => ("text", payload),
            Self::Binary(payload) => ("binary", payload),
            Self::Ping(payload) => ("ping", payload),
            Self::Pong(payload) => ("pong", payload),
            Self::Close(None) => return f.write_str("close"),
            Self::Close(Some((code, reason))) => {
                let text = format!("close {code} {reason}");
                return f.write_str(text.trim_end());
            }
        };
        match payload.len() {
            0 => f.write_str(name),
            1..=40 => write!(f, "{name} {}", String::from_utf8_lossy(payload)),
            len => write!(f, "{name} of {len}"),
        }
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

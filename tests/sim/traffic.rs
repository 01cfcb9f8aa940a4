//! What the two ends say: messages of all sizes, close frames, and broken rules.

use plugsock_ws::frame::Opcode;
use plugsock_ws::{Kind, Limits, Role};

use crate::choices::Choices;
use crate::reference::{FIN, frame, header};

/// The edges of the length forms, of masking by words, and of control frames.
const EDGES: [usize; 16] =
    [0, 1, 2, 3, 4, 7, 8, 9, 124, 125, 126, 127, 128, 65_535, 65_536, 65_537];

const MAX_MESSAGE: usize = 200 << 10;

/// The usual limits, or small ones of which messages meet the edges.
pub(crate) fn limits(choices: &mut Choices<'_>) -> Limits {
    if choices.once_in(2) {
        return Limits::default();
    }
    let max_frame_size = choices.below(400) as u64;
    let max_message_size = choices.below(400) as u64;
    Limits { max_frame_size, max_message_size }
}

/// A message that passes the limits.
pub(crate) fn message(choices: &mut Choices<'_>, limits: &Limits) -> (Kind, Vec<u8>) {
    let most = usize::try_from(limits.max_message_size).unwrap_or(MAX_MESSAGE);
    let len = match choices.below(20) {
        0..=6 => choices.below(32),
        7..=10 => choices.below(300),
        11..=14 => most,
        15..=17 => choices.pick(&EDGES),
        18 => choices.below(5_000),
        _ if choices.once_in(6) => choices.below(MAX_MESSAGE),
        _ => choices.below(2_000),
    };
    // The limit itself where it is small.
    let len = if len > MAX_MESSAGE { choices.pick(&EDGES) } else { len.min(most) };
    if choices.once_in(2) {
        (Kind::Binary, choices.bytes(len).to_vec())
    } else {
        (Kind::Text, choices.text(len).into_bytes())
    }
}

/// The size of a message's next fragment if `rest` bytes are still to go.
pub(crate) fn fragment(choices: &mut Choices<'_>, limits: &Limits, rest: usize) -> usize {
    let len = match choices.below(4) {
        0 | 1 => rest,
        2 => choices.below(rest + 1),
        _ => choices.below(6),
    };
    len.min(rest).min(usize::try_from(limits.max_frame_size).unwrap_or(MAX_MESSAGE))
}

/// A control frame's payload.
pub(crate) fn control(choices: &mut Choices<'_>) -> Vec<u8> {
    let len = choices.pick(&[0, 1, 4, 30, 124, 125]);
    choices.bytes(len).to_vec()
}

/// A close frame's code and reason, or none.
pub(crate) fn close(choices: &mut Choices<'_>) -> Option<(u16, String)> {
    if choices.once_in(4) {
        return None;
    }
    let code = choices.pick(&[1000, 1001, 1003, 1007, 1011, 1013, 1014, 3000, 4999]);
    let len = choices.pick(&[0, 1, 20, 122, 123]);
    Some((code, choices.text(len)))
}

/// Frames that break one rule, and the code by which the receiver must close.
pub(crate) struct Breach {
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) code: u16,
}

/// A broken rule. `open` is whether the sender has begun a message, of which `sent` bytes are out.
pub(crate) fn breach(
    choices: &mut Choices<'_>,
    sender: Role,
    limits: &Limits,
    open: Option<u64>,
) -> Breach {
    let key = (sender == Role::Client).then(|| choices.key());
    let wrong_key = key.is_none().then_some([1, 2, 3, 4]);
    let one = |first: u8, payload: &[u8]| vec![frame(first, key, payload)];
    let first = |fin: u8| if open.is_some() { fin } else { fin | Opcode::Binary as u8 };
    let close = FIN | Opcode::Close as u8;
    let room = limits.max_message_size - open.unwrap_or(0);
    let (frames, code) = match choices.below(16) {
        0 => (one(0x10 << choices.below(3) | first(FIN), b""), 1002),
        1 => (one(FIN | choices.pick(&[3, 7, 11, 15]), b""), 1002),
        2 => (one(choices.pick(&[8, 9, 10]), b""), 1002),
        3 => (one(FIN | choices.pick(&[8, 9, 10]), &[b'x'; 126]), 1002),
        4 => (vec![frame(first(FIN), wrong_key, b"x")], 1002),
        5 => (vec![stretched(first(FIN), key, choices.once_in(2))], 1002),
        6 => (vec![header(first(FIN), key, 1 << 63 | 5)], 1002),
        7 => {
            // A continuation of nothing, or a message inside another.
            let opcode = if open.is_some() { Opcode::Text } else { Opcode::Continuation };
            (one(FIN | opcode as u8, b""), 1002)
        }
        8 => (one(close, b"\x03"), 1002),
        9 => {
            let codes = [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535_u16];
            (one(close, &choices.pick(&codes).to_be_bytes()), 1002)
        }
        10 => (one(close, b"\x03\xe8ok\xc3("), 1007),
        11 if limits.max_frame_size.min(room) > 1_100 && open.is_none() => {
            (bad_text(choices, key), 1007)
        }
        12 | 13 => {
            let len = limits.max_frame_size.min(room) + 1;
            (vec![header(first(FIN), key, len)], 1009)
        }
        14 => (vec![header(first(0), key, u64::MAX >> 1)], 1009),
        15 if choices.once_in(4) => {
            let mut frames = vec![frame(first(0), key, b"")];
            let rest = frame(0, key, b"");
            // A message that has begun may hold some already.
            frames.resize(1 + usize::from(Limits::MAX_EMPTY_FRAGMENTS), rest);
            (frames, 1008)
        }
        _ => (one(FIN | 0x70 | Opcode::Ping as u8, b"x"), 1002),
    };
    Breach { frames, code }
}

/// A length in a longer form than it needs.
fn stretched(first: u8, key: Option<[u8; 4]>, wide: bool) -> Vec<u8> {
    let mut frame = if wide { header(first, key, 65_536) } else { header(first, key, 126) };
    let (at, len) = if wide { (2..10, 65_535_u64) } else { (2..4, 125) };
    let long = len.to_be_bytes();
    let width = at.len();
    frame[at].copy_from_slice(&long[8 - width..]);
    frame
}

/// Text that is not UTF-8, in one frame or with the fault on a seam.
fn bad_text(choices: &mut Choices<'_>, key: Option<[u8; 4]>) -> Vec<Vec<u8>> {
    let faults: [&[u8]; 7] = [
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5",
        b"\xe2\x82",
        b"\x80",
        b"\xce(",
    ];
    let mut payload = b"\xce\xba".repeat(choices.below(500));
    payload.extend_from_slice(choices.pick(&faults));
    let at = payload.len() - choices.below(payload.len().min(6));
    let (start, end) = payload.split_at(at);
    if choices.once_in(2) {
        return vec![frame(FIN | 1, key, &payload)];
    }
    vec![frame(1, key, start), frame(0, key, b""), frame(FIN, key, end)]
}

//! What the two ends say: messages of all sizes, close frames, and broken rules.

use miniz_oxide::deflate::compress_to_vec;
use plugsock_ws::frame::Opcode;
use plugsock_ws::{Kind, Limits, Role};

use crate::choices::Choices;
use crate::inflate::{MAX_FINAL_BLOCKS, Window};
use crate::reference::{FIN, RSV1, frame, header};

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

/// A message that passes the limits. One that may be compressed repeats itself and others.
pub(crate) fn message(
    choices: &mut Choices<'_>,
    limits: &Limits,
    may_compress: bool,
) -> (Kind, Vec<u8>) {
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
    let repeats = may_compress && choices.below(8) > 0;
    if choices.once_in(2) {
        let bytes = if repeats { repetitive(choices, len) } else { choices.bytes(len).to_vec() };
        (Kind::Binary, bytes)
    } else if repeats {
        let mut text = repetitive(choices, len);
        text.make_ascii_lowercase();
        text.iter_mut().for_each(|byte| *byte &= 0x7f);
        (Kind::Text, text)
    } else {
        (Kind::Text, choices.text(len).into_bytes())
    }
}

/// Words from a small stock, in any order, with noise in between.
fn repetitive(choices: &mut Choices<'_>, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    let noise = choices.pick(&[0, 0, 1, 5]);
    while bytes.len() < len {
        let start = 31 * choices.below(16);
        bytes.extend_from_slice(choices.word(start));
        bytes.extend_from_slice(choices.bytes(noise));
        if bytes.len() > 2_000 {
            // What is long is all the same from here on: deciding costs time.
            let period = 1 + choices.below(bytes.len());
            let repeated = bytes[bytes.len() - period..].to_vec();
            let times = (len / period).min(1 + choices.below(20_000 / period + 20));
            bytes.extend(repeated.repeat(times));
        }
    }
    bytes.truncate(len);
    bytes
}

/// A payload as another sender might make it: a final block that is not the last (RFC 7692
/// §7.2.3.4), or stored blocks, among them empty ones.
pub(crate) fn foreign(choices: &mut Choices<'_>, message: &[u8]) -> Vec<u8> {
    if choices.once_in(2) {
        return finished(message, choices.pick(&[1, 6, 0, 9]));
    }
    let mut payload = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let most = rest.len().min(60_000);
        let len = if payload.len() < 200 { choices.below(most + 1) } else { most };
        let (block, later) = rest.split_at(len);
        payload.extend(stored(block));
        rest = later;
    }
    payload.push(0);
    payload
}

/// The payload after final blocks that say nothing, now and then as many as may be, if that keeps
/// the limit.
pub(crate) fn after_final_blocks(
    choices: &mut Choices<'_>,
    limits: &Limits,
    payload: &[u8],
) -> Vec<u8> {
    let count = match choices.below(20) {
        0..=14 => 0,
        few @ 15..=18 => few - 14,
        // Each costs the receiver a reading of what was said before.
        _ => MAX_FINAL_BLOCKS,
    };
    let blocks = EMPTY_FINAL_BLOCK.repeat(count);
    let fits = (blocks.len() + payload.len()) as u64 <= limits.max_message_size;
    if fits { [&blocks, payload].concat() } else { payload.to_vec() }
}

const EMPTY_FINAL_BLOCK: &[u8] = b"\x03\x00";

fn finished(message: &[u8], level: u8) -> Vec<u8> {
    let mut payload = compress_to_vec(message, level);
    payload.push(0);
    payload
}

/// A stored block that is not final. Its header begins with a whole byte, as the last one ended.
fn stored(block: &[u8]) -> Vec<u8> {
    let len = u16::try_from(block.len()).unwrap();
    [&[0][..], &len.to_le_bytes(), &(!len).to_le_bytes(), block].concat()
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

/// A broken rule. `open` is whether the sender has begun a message, of which `sent` bytes are out;
/// `window` is there if it may compress.
pub(crate) fn breach(
    choices: &mut Choices<'_>,
    sender: Role,
    limits: &Limits,
    open: Option<u64>,
    window: Option<&Window>,
) -> Breach {
    let key = (sender == Role::Client).then(|| choices.key());
    if let Some(window) = window
        && choices.once_in(2)
    {
        return breach_of_compression(choices, key, limits, open.is_some(), window);
    }
    let wrong_key = key.is_none().then_some([1, 2, 3, 4]);
    let one = |first: u8, payload: &[u8]| vec![frame(first, key, payload)];
    let first = |fin: u8| if open.is_some() { fin } else { fin | Opcode::Binary as u8 };
    let close = FIN | Opcode::Close as u8;
    let room = limits.max_message_size - open.unwrap_or(0);
    let (frames, code) = match choices.below(16) {
        0 => {
            let bits = if window.is_none() { 3 } else { 2 };
            (one(0x10 << choices.below(bits) | first(FIN), b""), 1002)
        }
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

/// A broken rule of RFC 7692 §6 or §7.2.
fn breach_of_compression(
    choices: &mut Choices<'_>,
    key: Option<[u8; 4]>,
    limits: &Limits,
    open: bool,
    window: &Window,
) -> Breach {
    let fin = if choices.once_in(2) { FIN } else { 0 };
    let (payload, code) = broken_payload(choices, limits, window);
    let most = limits.max_frame_size.min(limits.max_message_size);
    if open || payload.len() as u64 > most {
        // Control frames and continuations have no such bit.
        let opcode = if open { choices.pick(&[0, 9]) } else { 10 };
        let fin = if opcode == 0 { fin } else { FIN };
        return Breach { frames: vec![frame(fin | RSV1 | opcode, key, b"")], code: 1002 };
    }
    let opcode = RSV1 | if code == 1007 { 1 } else { 2 };
    if fin != 0 {
        return Breach { frames: vec![frame(FIN | opcode, key, &payload)], code };
    }
    let (start, end) = payload.split_at(choices.below(payload.len() + 1));
    Breach { frames: vec![frame(opcode, key, start), frame(FIN, key, end)], code }
}

/// A compressed payload that must not be delivered, and the code that says so.
fn broken_payload(choices: &mut Choices<'_>, limits: &Limits, window: &Window) -> (Vec<u8>, u16) {
    let payload: &[u8] = match choices.below(10) {
        0 => b"",
        // A third kind of block, at once and after a good one.
        1 => b"\x06",
        2 => b"\xf2\x48\xcd\xc9\xc9\x07\x00\x00\x00\xff\xff\x06",
        // A stored block that lacks its end, and one with a wrong length.
        3 => b"\x00\x0a\x00\xf5\xffHello",
        4 => b"\x00\x05\x00\xfb\xffHello\x00",
        // One byte, and four from five back.
        5 if window.reach() < 4 => b"\xf2\x00\x11\x00\x00",
        6 => b"\x00\x02\x00\xfd\xff\xed\xa0\x00",
        7 => return (finished(b"what begins well\xce", 1), 1007),
        8 => {
            let mut payload = EMPTY_FINAL_BLOCK.repeat(MAX_FINAL_BLOCKS + 1);
            payload.push(0);
            return (payload, 1008);
        }
        _ => {
            let limit = usize::try_from(limits.max_message_size).unwrap();
            if limit > 1_000 && !choices.once_in(10) {
                return (b"\x07".to_vec(), 1007);
            }
            return (finished(&vec![0; limit + 1], 1), 1009);
        }
    };
    (payload.to_vec(), 1007)
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

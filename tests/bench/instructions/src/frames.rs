//! Frames in and out, without compression.

use std::hint::black_box;

use plugsock_ws::frame::{self, Opcode};
use plugsock_ws::{Event, Input, Kind, Limits, Machine, Role, mask};

/// Unmasking twice masks again, so that the same buffer serves for ever; below 128, so that ASCII
/// stays ASCII.
const KEY: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

pub(crate) fn unmask(len: usize, times: usize) {
    let mut payload = vec![b'x'; len];
    for _ in 0..times {
        mask::apply(KEY, 0, black_box(&mut payload));
    }
}

/// A masked binary frame, which lies whole in the input.
pub(crate) fn receive_masked(len: usize, times: usize) {
    receive_many(len, 1, times);
}

/// Several masked frames in one receive.
pub(crate) fn receive_many(len: usize, frames: usize, times: usize) {
    let mut bytes = Vec::new();
    for _ in 0..frames {
        frame::encode_masked(Opcode::Binary, true, &vec![b'x'; len], KEY, &mut bytes);
    }
    receive(Role::Server, &mut bytes, times);
}

/// A message whose frames come in one receive.
pub(crate) fn receive_fragments(frames: usize, len: usize, times: usize) {
    let mut bytes = Vec::new();
    for number in 1..=frames {
        let opcode = if number == 1 { Opcode::Binary } else { Opcode::Continuation };
        frame::encode_masked(opcode, number == frames, &vec![b'x'; len], KEY, &mut bytes);
    }
    receive(Role::Server, &mut bytes, times);
}

/// What a text message of the same length is beside, to see the checking of UTF-8 alone.
pub(crate) fn receive_unmasked(payload: &[u8], times: usize) {
    let mut bytes = Vec::new();
    frame::encode(Kind::Binary, payload, &mut bytes);
    receive(Role::Client, &mut bytes, times);
}

pub(crate) fn receive_text(payload: &[u8], times: usize) {
    let mut bytes = Vec::new();
    frame::encode(Kind::Text, payload, &mut bytes);
    receive(Role::Client, &mut bytes, times);
}

/// A frame into a buffer that has room.
pub(crate) fn encode(len: usize, times: usize) {
    let payload = vec![b'x'; len];
    let mut out = Vec::with_capacity(len + frame::MAX_HEADER_SIZE);
    for _ in 0..times {
        out.clear();
        frame::encode(Kind::Binary, black_box(&payload), &mut out);
        black_box(&out);
    }
}

fn receive(role: Role, bytes: &mut [u8], times: usize) {
    let limits = Limits::default();
    let mut machine = Machine::new(role);
    for _ in 0..times {
        let mut input = Input::new(black_box(bytes));
        let mut messages = 0;
        while let Some(event) = machine.next(&limits, &mut input).unwrap_or_default() {
            messages += usize::from(matches!(black_box(event), Event::Message { .. }));
        }
        assert!(messages > 0, "nothing was received");
    }
}

//! Messages compressed and inflated, with and without context takeover.

use std::hint::black_box;

use plugsock_ws::deflate::Codec;
use plugsock_ws::extension::{Agreement, Policy};
use plugsock_ws::{Event, Input, Kind, Limits, Machine, Role, Step};

const LEN: usize = 1024;
/// Different messages, which come again and again: twice a window of 32 KiB, so that none is found
/// in the context as a whole. Once windows are full all rounds have the same frames, so that those
/// of one serve for ever.
const ROUND: u64 = 64;

/// A server sends. `times` is rounds of 64 messages.
pub(crate) fn compress(takeover: bool, times: usize) {
    let mut sender = Sender::new(takeover);
    for _ in 0..=times {
        sender.send_round();
    }
}

/// A client receives what a server sent. `times` is rounds of 64 messages.
pub(crate) fn inflate(takeover: bool, times: usize) {
    let mut sender = Sender::new(takeover);
    let mut receiver = Machine::with_agreement(Role::Client, sender.agreement);
    let mut codec = Codec::default();
    sender.send_round();
    receive_round(&mut receiver, &mut codec, &mut sender);
    sender.send_round();
    for _ in 0..times {
        receive_round(&mut receiver, &mut codec, &mut sender);
    }
}

fn receive_round(receiver: &mut Machine, codec: &mut Codec, sent: &mut Sender) {
    let limits = Limits::default();
    for (frame, message) in sent.frames.iter_mut().zip(&sent.messages) {
        let mut input = Input::new(black_box(frame));
        let step = receiver.next_with(&limits, &mut input, codec);
        let Ok(Step::Event(Event::Message { payload, .. })) = step else {
            unreachable!("{step:?}");
        };
        assert_eq!(payload, message);
    }
}

struct Sender {
    agreement: Agreement,
    machine: Machine,
    codec: Codec,
    messages: Vec<Vec<u8>>,
    /// Of the latest round.
    frames: Vec<Vec<u8>>,
}

impl Sender {
    fn new(context_takeover: bool) -> Self {
        let policy = Policy { context_takeover, ..Policy::default() };
        let Some(agreement) = policy.negotiate([policy.offer().as_bytes()]) else {
            unreachable!("a policy takes its own offer");
        };
        Self {
            agreement,
            machine: Machine::with_agreement(Role::Server, agreement),
            codec: Codec::default(),
            messages: (1..=ROUND).map(json).collect(),
            frames: (0..ROUND).map(|_| Vec::with_capacity(LEN)).collect(),
        }
    }

    fn send_round(&mut self) {
        for (message, out) in self.messages.iter().zip(&mut self.frames) {
            out.clear();
            let message = black_box(message);
            let shorter = self.machine.encode(Kind::Text, message, &mut self.codec, out, None);
            assert!(shorter, "it was not compressed");
        }
    }
}

/// An array of records, cut at 1 KiB.
pub(crate) fn json(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = String::from("[");
    while text.len() < LEN {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (id, user, room) = (state % 100_000, state % 977, state % 31);
        text += &format!(r#"{{"id":{id},"user":"user{user}","text":"hello room {room}"}},"#);
    }
    text.truncate(LEN);
    text.into_bytes()
}

//! What compression costs: `cargo run --release -p plugsock-ws --example deflate`.
//!
//! Nanoseconds a message, the best of nine rounds, for JSON as servers publish it. The last
//! columns are bytes: of the compressed message, and of what the connection keeps.

#![expect(clippy::print_stdout, reason = "a tool for a terminal")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::unwrap_used, reason = "its input is its own")]

use std::hint::black_box;
use std::time::Instant;

use plugsock_ws::deflate::{Codec, Compressor, Settings};
use plugsock_ws::extension::{Policy, WindowBits};
use plugsock_ws::{Input, Kind, Limits, Machine, Role, frame};

const ROUNDS: usize = 9;
const MESSAGES: usize = 2000;

fn main() {
    for len in [100, 1024, 16 * 1024] {
        let messages: Vec<Vec<u8>> = (1..=16).map(|seed| json(len, seed)).collect();
        for (level, mem_level) in [(1, 8), (1, 1), (6, 8)] {
            without_takeover(&messages, Settings { level, mem_level });
        }
        for bits in [15, 12, 10] {
            with_takeover(&messages, WindowBits::new(bits).unwrap());
        }
    }
}

/// One frame encoded, as for a broadcast; and the same received.
fn without_takeover(messages: &[Vec<u8>], settings: Settings) {
    let mut compressor = Compressor::new(settings, WindowBits::MAX);
    let mut out = Vec::new();
    let encode = best(|at| {
        out.clear();
        let message = &messages[at % messages.len()];
        black_box(frame::encode_compressed(Kind::Text, message, &mut compressor, &mut out));
    });
    let agreement = Policy::default().negotiate([&b"permessage-deflate"[..]]).unwrap();
    let machine = Machine::with_agreement(Role::Client, agreement);
    let decode = receive(machine, &[out.clone()]);
    let Settings { level, mem_level } = settings;
    let name = format!("level {level}, mem_level {mem_level}, no takeover");
    report(messages, &name, encode, decode, out.len(), 0);
}

/// One connection's messages, each with reference to those before; and the same received.
fn with_takeover(messages: &[Vec<u8>], window_bits: WindowBits) {
    let policy = Policy {
        server_max_window_bits: window_bits,
        client_max_window_bits: window_bits,
        context_takeover: true,
    };
    let agreement = policy.negotiate([policy.offer().as_bytes()]).unwrap();
    let mut server = Machine::with_agreement(Role::Server, agreement);
    let mut codec = Codec::default();
    let mut frames = Vec::new();
    let encode = best(|at| {
        let mut out = Vec::new();
        let message = &messages[at % messages.len()];
        server.encode(Kind::Text, message, &mut codec, &mut out, None);
        frames.push(out);
    });
    let size = frames.last().unwrap().len();
    let kept = server.history_bytes();
    let decode = receive(Machine::with_agreement(Role::Client, agreement), &frames);
    let name = format!("level 1, takeover of {window_bits} bits");
    report(messages, &name, encode, decode, size, kept);
}

fn receive(mut machine: Machine, frames: &[Vec<u8>]) -> u128 {
    let (mut codec, limits) = (Codec::default(), Limits::default());
    let mut buffer = Vec::new();
    let mut next = frames.iter().cycle();
    best(|_| {
        buffer.clear();
        buffer.extend_from_slice(next.next().unwrap());
        let mut input = Input::new(&mut buffer);
        black_box(machine.next_with(&limits, &mut input, &mut codec).unwrap());
    })
}

fn best(mut work: impl FnMut(usize)) -> u128 {
    let round = |_| {
        let start = Instant::now();
        (0..MESSAGES).for_each(&mut work);
        start.elapsed().as_nanos() / MESSAGES as u128
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

fn report(messages: &[Vec<u8>], name: &str, encode: u128, decode: u128, size: usize, kept: usize) {
    let len = messages[0].len();
    println!("{len:6} B  {name:34} encode {encode:7} ns  decode {decode:6} ns  {size:6} {kept:6}");
}

/// An array of records, cut at `len` bytes.
fn json(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = String::from("[");
    while text.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (id, user, room) = (state % 100_000, state % 977, state % 31);
        text += &format!(r#"{{"id":{id},"user":"user{user}","text":"hello room {room}"}},"#);
    }
    text.truncate(len);
    text.into_bytes()
}

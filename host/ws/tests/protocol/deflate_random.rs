//! Random traffic with compression: all combinations of takeover, windows, levels and roles.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use plugsock_ws::deflate::{Codec, Settings};
use plugsock_ws::extension::{Agreement, Policy, WindowBits};
use plugsock_ws::frame::{Header, Opcode};
use plugsock_ws::{Kind, Limits, Machine, Role};

use crate::support::{Random, Seen, agree, feed_with};

const ITERATIONS: u64 = 3_000;

fn agreement(random: &mut Random) -> Agreement {
    let mut offer = "permessage-deflate".to_owned();
    for parameter in ["server_no_context_takeover", "client_no_context_takeover"] {
        if random.below(2) == 0 {
            offer += &format!("; {parameter}");
        }
    }
    for parameter in ["server_max_window_bits", "client_max_window_bits"] {
        if random.below(2) == 0 {
            offer += &format!("; {parameter}={}", 9 + random.below(7));
        }
    }
    let policy = Policy {
        server_max_window_bits: WindowBits::MAX,
        client_max_window_bits: WindowBits::MAX,
        context_takeover: true,
    };
    agree(&policy, &offer).unwrap()
}

/// Words from a small stock, so that there is much to refer to; now and then a long message.
fn message(random: &mut Random) -> Vec<u8> {
    let len = match random.below(40) {
        0 => 200_000,
        1..4 => 20_000,
        4..8 => 0,
        _ => random.below(1500),
    };
    let mut bytes = Vec::new();
    while bytes.len() < len {
        match random.below(5) {
            0 => bytes.extend(random.bytes(5)),
            1 => bytes.extend(vec![b' '; random.below(400)]),
            _ => bytes.extend(format!("\"name{}\":", random.below(50)).bytes()),
        }
    }
    bytes
}

/// Appends the message compressed in fragments, or plain.
fn send(
    machine: &mut Machine,
    role: Role,
    bytes: &[u8],
    codec: &mut Codec,
    random: &mut Random,
) -> Vec<u8> {
    let mut out = Vec::new();
    let key = |random: &mut Random| (role == Role::Client).then(|| random.key());
    if random.below(2) == 0 {
        let key = key(random);
        machine.encode(Kind::Binary, bytes, codec, &mut out, key);
        return out;
    }
    let (payload, compressed) = match machine.compress(bytes, codec) {
        Some(payload) => (payload.to_vec(), true),
        None => (bytes.to_vec(), false),
    };
    let (mut rest, mut first) = (payload.as_slice(), true);
    loop {
        let fin = random.below(3) == 0;
        let len = if fin { rest.len() } else { random.below(rest.len() + 1) };
        let (part, after) = rest.split_at(len);
        let opcode = if first { Opcode::Binary } else { Opcode::Continuation };
        let (key, len) = (key(random), len as u64);
        Header { fin, compressed: compressed && first, opcode, key, len }.encode(&mut out);
        let start = out.len();
        out.extend_from_slice(part);
        if let Some(key) = key {
            plugsock_ws::mask::apply(key, 0, &mut out[start..]);
        }
        if fin {
            return out;
        }
        (rest, first) = (after, false);
    }
}

fn pieces<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    match random.below(3) {
        0 => vec![bytes],
        _ => bytes.chunks(1 + random.below(bytes.len().min(5000))).collect(),
    }
}

#[test]
fn what_one_end_compresses_the_other_inflates() {
    let limits = Limits::default();
    let mut compressed = 0;
    let mut codecs: Vec<Codec> = [(0, 8), (1, 8), (1, 1), (2, 3), (6, 9), (9, 5)]
        .map(|(level, mem_level)| Codec::new(Settings { level, mem_level }))
        .into();
    for seed in 1..=ITERATIONS {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let agreed = agreement(&mut random);
        let sender = if seed % 2 == 0 { Role::Server } else { Role::Client };
        let receiver = if seed % 2 == 0 { Role::Client } else { Role::Server };
        let codec = &mut codecs[random.below(6)];
        let mut from = Machine::with_agreement(sender, agreed);
        let mut to = Machine::with_agreement(receiver, agreed);
        for _ in 0..1 + random.below(6) {
            let message = message(&mut random);
            let bytes = send(&mut from, sender, &message, codec, &mut random);
            compressed += u64::from(bytes[0] & 0x40 != 0);
            let pieces = pieces(&bytes, &mut random);
            let run = feed_with(&mut to, &limits, codec, &pieces);
            assert!(run.error.is_none(), "seed {seed}, {agreed}: {:?}", run.error);
            assert!(run.seen == [Seen::Binary(message)], "seed {seed}, {agreed}");
            assert_eq!(run.partial_bytes, 0, "seed {seed}");
        }
    }
    assert!(compressed > ITERATIONS, "{compressed}");
}

#[test]
fn broken_messages_are_judged_alike_however_they_are_cut() {
    let limits = Limits { max_frame_size: 10_000, max_message_size: 10_000 };
    let mut codec = Codec::default();
    let mut failed = 0;
    for seed in 1..=ITERATIONS {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let agreed = agreement(&mut random);
        let mut from = Machine::with_agreement(Role::Client, agreed);
        let mut bytes = Vec::new();
        for _ in 0..3 {
            let message = message(&mut random);
            bytes.extend(send(&mut from, Role::Client, &message, &mut codec, &mut random));
        }
        bytes.truncate(3000);
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        let mut whole = Machine::with_agreement(Role::Server, agreed);
        let whole = feed_with(&mut whole, &limits, &mut codec, &[&bytes]);
        let mut cut = Machine::with_agreement(Role::Server, agreed);
        let cut = feed_with(&mut cut, &limits, &mut codec, &pieces(&bytes, &mut random));
        assert_eq!((cut.state, cut.error), (whole.state, whole.error), "seed {seed}");
        assert!(cut.seen == whole.seen, "seed {seed}");
        failed += u64::from(whole.error.is_some());
    }
    assert!(failed > ITERATIONS / 4, "the traffic is too harmless: {failed}");
}

//! Random traffic between a client and a server, and random bytes.

use plugsock_ws::frame::{self, Opcode, encode_masked};
use plugsock_ws::handshake::{HeadBuffer, HeadLimits, Progress, Upgrade};
use plugsock_ws::{Kind, Limits, Machine, Role};

use crate::support::{Random, Seen, feed};

const ITERATIONS: u64 = 10_000;

/// Up to 300 bytes, now and then at a boundary of the length forms.
fn size(random: &mut Random) -> usize {
    match random.below(500) {
        0 => 65_535,
        1 => 65_536,
        2..=20 => 125 + random.below(3),
        _ => random.below(300),
    }
}

fn message(random: &mut Random) -> (Opcode, Vec<u8>, Seen) {
    let size = size(random);
    if random.below(2) == 0 {
        let bytes = random.bytes(size);
        return (Opcode::Binary, bytes.clone(), Seen::Binary(bytes));
    }
    let mut text = String::new();
    while text.len() < size {
        text.push(['a', 'é', '€', '😀', '\0', '\u{10ffff}'][random.below(6)]);
    }
    (Opcode::Text, text.clone().into_bytes(), Seen::Text(text))
}

/// One frame as `sender` sends it.
fn send(sender: Role, opcode: Opcode, fin: bool, payload: &[u8], key: [u8; 4], out: &mut Vec<u8>) {
    match sender {
        Role::Client => encode_masked(opcode, fin, payload, key, out),
        Role::Server => {
            frame::encode_header(opcode, fin, payload.len() as u64, out);
            out.extend_from_slice(payload);
        }
    }
}

/// A few messages in random fragments with pings in between, and what is to come of them.
fn traffic(sender: Role, random: &mut Random) -> (Vec<u8>, Vec<Seen>) {
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..=random.below(3) {
        let (mut opcode, payload, seen) = message(random);
        let mut rest = payload.as_slice();
        while random.below(3) == 0 {
            let (part, after) = rest.split_at(random.below(rest.len() + 1));
            send(sender, opcode, false, part, random.key(), &mut out);
            (rest, opcode) = (after, Opcode::Continuation);
            if random.below(2) == 0 {
                let len = random.below(126);
                let payload = random.bytes(len);
                send(sender, Opcode::Ping, true, &payload, random.key(), &mut out);
                expected.push(Seen::Ping(payload));
            }
        }
        send(sender, opcode, true, rest, random.key(), &mut out);
        expected.push(seen);
    }
    (out, expected)
}

/// Random pieces, from single bytes to all at once.
fn pieces<'a>(mut bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let most = 1 << random.below(17);
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at((1 + random.below(most)).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

#[test]
fn what_one_end_sends_the_other_receives() {
    for seed in 1..=ITERATIONS {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (sender, receiver) = match seed % 2 {
            0 => (Role::Client, Role::Server),
            _ => (Role::Server, Role::Client),
        };
        let (bytes, expected) = traffic(sender, &mut random);
        let mut machine = Machine::new(receiver);
        let run = feed(&mut machine, &Limits::default(), &pieces(&bytes, &mut random));
        assert_eq!((run.seen, run.error), (expected, None), "seed {seed}");
        assert_eq!(run.partial_bytes, 0, "seed {seed}");
    }
}

#[test]
fn broken_traffic_is_judged_alike_however_it_is_cut() {
    let limits = Limits { max_frame_size: 500, max_message_size: 700 };
    let mut failed = 0;
    for seed in 1..=ITERATIONS {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut bytes, _) = traffic(Role::Client, &mut random);
        bytes.truncate(2000);
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        let whole = feed(&mut Machine::new(Role::Server), &limits, &[&bytes]);
        let mut machine = Machine::new(Role::Server);
        let cut = feed(&mut machine, &limits, &pieces(&bytes, &mut random));
        assert_eq!(cut.state, whole.state, "seed {seed}");
        assert_eq!((cut.seen, cut.error), (whole.seen, whole.error), "seed {seed}");
        failed += u64::from(whole.error.is_some());
    }
    assert!(failed > ITERATIONS / 4, "the traffic is too harmless: {failed}");
}

#[test]
fn broken_heads_are_judged_alike_however_they_are_cut() {
    let head = b"GET /chat?x=1 HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\n\
        Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let judge = |pieces: &[&[u8]]| {
        let mut buffer = HeadBuffer::new();
        for piece in pieces {
            match buffer.push(&HeadLimits::default(), piece) {
                Ok(Progress::Partial) => {}
                Ok(Progress::Complete { .. }) => {
                    let request = buffer.request().map_err(|refusal| refusal.status())?;
                    let upgrade = Upgrade::from_request(&request).map_err(|r| r.status())?;
                    return Ok(upgrade.map(|upgrade| upgrade.subprotocols().join("+")));
                }
                Err(refusal) => return Err(refusal.status()),
            }
        }
        Ok(Some("partial".to_owned()))
    };
    let mut refused = 0;
    for seed in 1..=ITERATIONS {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = head.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = random.bytes(1)[0];
        }
        let whole = judge(&[&bytes]);
        assert_eq!(judge(&pieces(&bytes, &mut random)), whole, "seed {seed}");
        refused += u64::from(whole.is_err());
    }
    assert!((ITERATIONS / 4..ITERATIONS).contains(&refused), "{refused}");
}

#[test]
fn what_encode_writes_a_client_receives() {
    let mut random = Random::new(1);
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let (opcode, payload, seen) = message(&mut random);
        let kind = if opcode == Opcode::Text { Kind::Text } else { Kind::Binary };
        frame::encode(kind, &payload, &mut bytes);
        expected.push(seen);
    }
    let mut machine = Machine::new(Role::Client);
    let run = feed(&mut machine, &Limits::default(), &[&bytes]);
    assert_eq!((run.seen, run.error), (expected, None));
}

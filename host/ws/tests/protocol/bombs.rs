//! Messages that inflate to far more than was received.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use plugsock_ws::deflate::{Codec, Settings};
use plugsock_ws::extension::{Agreement, Policy};
use plugsock_ws::frame::{Header, Opcode};
use plugsock_ws::{Error, Event, Input, Limits, Machine, Role, Step};

use crate::support::{Seen, agree, feed_with};

const KEY: [u8; 4] = [0; 4];
const MIB: usize = 1 << 20;

fn agreement(parameters: &str) -> Agreement {
    let policy = Policy { context_takeover: true, ..Policy::default() };
    agree(&policy, &format!("permessage-deflate{parameters}")).unwrap()
}

fn limits() -> Limits {
    Limits { max_frame_size: 8 << 20, max_message_size: MIB as u64 }
}

/// `count` zeros, compressed at level 9.
fn zeros(count: usize) -> Vec<u8> {
    let mut codec = Codec::new(Settings { level: 9, mem_level: 8 });
    let mut machine = Machine::with_agreement(Role::Client, agreement(""));
    machine.compress(&vec![0; count], &mut codec).unwrap().to_vec()
}

/// The payload in so many frames of a client.
fn in_frames(payload: &[u8], count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, part) in payload.chunks(payload.len().div_ceil(count)).enumerate() {
        let opcode = if at == 0 { Opcode::Binary } else { Opcode::Continuation };
        let fin = part.as_ptr_range().end == payload.as_ptr_range().end;
        let (key, len) = (Some(KEY), part.len() as u64);
        Header { fin, compressed: at == 0, opcode, key, len }.encode(&mut out);
        out.extend_from_slice(part);
    }
    out
}

/// The most bytes that the machine held, and how it ended.
fn run(machine: &mut Machine, mut bytes: Vec<u8>) -> (usize, Result<usize, Error>) {
    let mut codec = Codec::default();
    let mut input = Input::new(&mut bytes);
    let mut most = 0;
    loop {
        let end = match machine.next_with(&limits(), &mut input, &mut codec) {
            Ok(Step::Working) => {
                most = most.max(machine.partial_bytes());
                continue;
            }
            Ok(Step::Event(Event::Message { payload, .. })) => {
                assert!(payload.iter().all(|&byte| byte == 0));
                Ok(payload.len())
            }
            Err(error) => Err(error),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(machine.partial_bytes(), 0);
        return (most, end);
    }
}

#[test]
fn bl_15_a_bomb_stops_one_past_the_limit() {
    let bomb = zeros(64 * MIB);
    assert!(bomb.len() < 70_000, "{}", bomb.len());
    let error = Error::MessageTooLarge { size: MIB as u64 + 1, limit: MIB as u64 };
    for count in [1, 2, 1000] {
        for parameters in ["", "; client_no_context_takeover"] {
            let mut machine = Machine::with_agreement(Role::Server, agreement(parameters));
            let (most, end) = run(&mut machine, in_frames(&bomb, count));
            assert_eq!(end, Err(error), "in {count} frames");
            assert!(most > MIB - (64 << 10), "stopped early: {most}");
            assert!(most < MIB + (256 << 10), "in {count} frames: {most}");
        }
    }
}

#[test]
fn bl_15_exactly_the_limit_passes() {
    for count in [1, 2, 1000] {
        for (size, passes) in [(MIB - 1, true), (MIB, true), (MIB + 1, false)] {
            let mut machine = Machine::with_agreement(Role::Server, agreement(""));
            let (_, end) = run(&mut machine, in_frames(&zeros(size), count));
            assert_eq!(end.ok(), passes.then_some(size), "{size} in {count} frames");
        }
    }
}

#[test]
fn bl_15_limits_around_a_step_are_exact() {
    let step = 64 << 10;
    for limit in [100, step - 1, step, step + 1, 2 * step] {
        let limits = Limits { max_frame_size: 1 << 20, max_message_size: limit as u64 };
        for (size, passes) in [(limit, true), (limit + 1, false)] {
            let mut machine = Machine::with_agreement(Role::Server, agreement(""));
            let bytes = in_frames(&zeros(size), 1);
            let run = feed_with(&mut machine, &limits, &mut Codec::default(), &[&bytes]);
            assert_eq!(run.error.is_none(), passes, "{size} of {limit}");
            assert_eq!(run.seen.len(), usize::from(passes));
        }
    }
}

#[test]
fn bl_15_the_compressed_size_is_limited_too() {
    // Empty stored blocks: a message of nothing that is as long as you like.
    let payload = |blocks: usize| [[0, 0, 0, 0xff, 0xff].repeat(blocks), vec![0]].concat();
    let limits = Limits { max_frame_size: 4096, max_message_size: 501 };
    for (blocks, passes) in [(100, true), (101, false)] {
        for count in [1, 3] {
            let bytes = in_frames(&payload(blocks), count);
            let mut machine = Machine::with_agreement(Role::Server, agreement(""));
            let run = feed_with(&mut machine, &limits, &mut Codec::default(), &[&bytes]);
            let expected = if passes { vec![Seen::Binary(vec![])] } else { vec![] };
            assert_eq!(run.seen, expected);
        }
    }
}

#[test]
fn bl_15_steps_are_bounded_so_that_others_get_their_turn() {
    let agreed = agreement("");
    let mut codec = Codec::default();
    let mut bomb = in_frames(&zeros(MIB), 1);
    let mut slow = Machine::with_agreement(Role::Server, agreed);
    let mut input = Input::new(&mut bomb);
    let mut steps = 0;
    while slow.next_with(&limits(), &mut input, &mut codec) == Ok(Step::Working) {
        steps += 1;
        // Another connection, between the steps and with the same codec.
        let mut quick = Machine::with_agreement(Role::Server, agreed);
        let hello = b"\xc1\x87\0\0\0\0\xf2\x48\xcd\xc9\xc9\x07\x00";
        let run = feed_with(&mut quick, &limits(), &mut codec, &[hello]);
        assert_eq!(run.seen, [crate::support::text("Hello")]);
    }
    assert_eq!(steps, 16, "64 KiB each");

    // Blocks that inflate to nothing: the input is bounded.
    let payload = [[0, 0, 0, 0xff, 0xff].repeat(20_000), vec![0]].concat();
    let mut bytes = in_frames(&payload, 1);
    let mut input = Input::new(&mut bytes);
    let mut machine = Machine::with_agreement(Role::Server, agreed);
    let mut steps = 0;
    while machine.next_with(&limits(), &mut input, &mut codec) == Ok(Step::Working) {
        steps += 1;
    }
    assert_eq!(steps, 6, "16 KiB each of 100,001 bytes");
}

//! Sizes at the limit and one past it, and the memory that a connection holds.

use plugsock_ws::frame::{Opcode, encode_masked};
use plugsock_ws::{Error, Input, Limits, Machine, Role};

use crate::support::{Seen, feed, frames};

const KEY: [u8; 4] = [9, 8, 7, 6];

/// Client frames with the given opcodes, FIN bits and sizes.
fn stream(parts: &[(Opcode, bool, usize)]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(opcode, fin, len) in parts {
        encode_masked(opcode, fin, &vec![b'a'; len], KEY, &mut out);
    }
    out
}

/// The size of the one message that comes of `parts`, or the error.
fn run(limits: Limits, parts: &[(Opcode, bool, usize)]) -> Result<usize, Error> {
    let mut run = feed(&mut Machine::new(Role::Server), &limits, &[&stream(parts)]);
    assert_eq!(run.partial_bytes, 0);
    let size = match run.seen.pop() {
        Some(Seen::Binary(payload)) => Some(payload.len()),
        _ => None,
    };
    assert!(run.seen.is_empty());
    assert_eq!(size.is_none(), run.error.is_some(), "a message or an error");
    run.error.map_or(Ok(size.unwrap_or_default()), Err)
}

#[test]
fn exactly_the_frame_limit_passes() {
    let limits = Limits { max_frame_size: 200, max_message_size: 1000 };
    assert_eq!(run(limits, &[(Opcode::Binary, true, 200)]), Ok(200));
    let error = Error::FrameTooLarge { declared: 201, limit: 200 };
    assert_eq!(run(limits, &[(Opcode::Binary, true, 201)]), Err(error));
    let fragments = [(Opcode::Binary, false, 200), (Opcode::Continuation, true, 200)];
    assert_eq!(run(limits, &fragments), Ok(400));
}

#[test]
fn exactly_the_message_limit_passes() {
    let limits = Limits { max_frame_size: 1000, max_message_size: 300 };
    assert_eq!(run(limits, &[(Opcode::Binary, true, 300)]), Ok(300));
    let error = Error::MessageTooLarge { size: 301, limit: 300 };
    assert_eq!(run(limits, &[(Opcode::Binary, true, 301)]), Err(error));
    let fragments = |last| [(Opcode::Binary, false, 200), (Opcode::Continuation, true, last)];
    assert_eq!(run(limits, &fragments(100)), Ok(300));
    assert_eq!(run(limits, &fragments(101)), Err(error));
}

#[test]
fn the_default_limits_take_4_mib() {
    let max = 4 << 20;
    assert_eq!(run(Limits::default(), &[(Opcode::Binary, true, max)]), Ok(max));
    let error = Error::FrameTooLarge { declared: max as u64 + 1, limit: max as u64 };
    assert_eq!(run(Limits::default(), &[(Opcode::Binary, true, max + 1)]), Err(error));
}

#[test]
fn so_many_empty_fragments_pass_and_no_more() {
    let max = usize::from(Limits::MAX_EMPTY_FRAGMENTS);
    let mut parts = vec![(Opcode::Binary, false, 0)];
    parts.resize(max, (Opcode::Continuation, false, 0));
    let ended = [parts.as_slice(), &[(Opcode::Continuation, true, 0)]].concat();
    assert_eq!(run(Limits::default(), &ended), Ok(0));
    parts.push((Opcode::Continuation, false, 0));
    assert_eq!(run(Limits::default(), &parts), Err(Error::TooManyEmptyFragments));
}

#[test]
fn as_many_small_fragments_pass_as_the_message_limit_has_bytes() {
    let limits = Limits { max_frame_size: 10, max_message_size: 70_000 };
    let mut parts = vec![(Opcode::Binary, false, 1)];
    parts.resize(69_999, (Opcode::Continuation, false, 1));
    parts.push((Opcode::Continuation, true, 1));
    assert_eq!(run(limits, &parts), Ok(70_000));
}

#[test]
fn bl_03_memory_grows_with_what_came_and_not_with_what_was_declared() {
    let limits = Limits::default();
    let mut machine = Machine::new(Role::Server);
    // 4 MiB − 16.
    let header = frames("82 FF 00 00 00 00 00 3F FF F0 [K]", KEY);
    assert_eq!(header.len(), 14);
    feed(&mut machine, &limits, &[&header]);
    let fixed = machine.partial_bytes();
    assert!(fixed < 512, "{fixed}");

    let mut received = 0;
    for size in [1, 1, 1, 100, 1000, 1, 64 << 10, 64 << 10, 1] {
        feed(&mut machine, &limits, &[&vec![0; size]]);
        received += size;
        assert!(machine.partial_bytes() >= received);
        assert!(machine.partial_bytes() <= fixed + 2 * received, "after {received}");
    }
}

#[test]
fn a_message_never_takes_more_than_its_own_size_in_its_last_frame() {
    let limits = Limits::default();
    let mut machine = Machine::new(Role::Server);
    let bytes = stream(&[(Opcode::Binary, true, 100_000)]);
    let mut most = 0;
    for piece in bytes.chunks(7000) {
        feed(&mut machine, &limits, &[piece]);
        most = most.max(machine.partial_bytes());
    }
    assert!(most < 100_000 + 512, "{most}");
    assert_eq!(machine.partial_bytes(), 0);
}

#[test]
fn the_connection_holds_nothing_while_its_message_is_lent() {
    let limits = Limits::default();
    let mut machine = Machine::new(Role::Server);
    let mut bytes = stream(&[(Opcode::Binary, true, 1000)]);
    let (first, second) = bytes.split_at_mut(500);
    feed(&mut machine, &limits, &[first]);
    assert!(machine.partial_bytes() > 400);
    let mut input = Input::new(second);
    let event = machine.next(&limits, &mut input).unwrap();
    assert_eq!(machine.partial_bytes(), 0);
    assert!(event.is_some());
}

#[test]
fn a_control_frame_cut_in_two_costs_its_own_bytes() {
    let limits = Limits::default();
    let mut machine = Machine::new(Role::Server);
    let bytes = stream(&[(Opcode::Ping, true, 125)]);
    feed(&mut machine, &limits, &[&bytes[..100]]);
    assert!((1..1024).contains(&machine.partial_bytes()));
    let run = feed(&mut machine, &limits, &[&bytes[100..]]);
    assert_eq!((run.seen, run.partial_bytes), (vec![Seen::Ping(vec![b'a'; 125])], 0));
}

//! The closing handshake from both ends, and what a machine does outside of it.

use plugsock_ws::close::{Code, Frame};
use plugsock_ws::{Error, Event, Input, Limits, Machine, Role, State, frame};

use crate::support::{Seen, cuts, feed, frames, text};

const KEY: [u8; 4] = [1, 2, 3, 4];

fn server() -> Machine {
    Machine::new(Role::Server)
}

#[test]
fn the_peer_begins_and_gets_one_answer() {
    let mut machine = server();
    let bytes = frames("88 82 [K] 03 E8", KEY);
    let run = feed(&mut machine, &Limits::default(), &[&bytes]);
    assert_eq!(run.seen, [Seen::Close(Some((1000, String::new())))]);
    assert_eq!(run.state, State::CloseReceived);

    let mut out = Vec::new();
    assert!(machine.close(Some(Frame::bare(Code::NORMAL)), &mut out, None));
    assert_eq!(machine.state(), State::Closed);
    assert!(!machine.close(None, &mut out, None));
    assert_eq!(out, [0x88, 0x02, 0x03, 0xe8]);
}

#[test]
fn what_follows_a_close_frame_or_an_error_is_used_up_with_it() {
    for stream in ["88 80 [K] · 81 81 [K] 61", "88 81 [K] 03 · 81 81 [K] 61", "83 80 [K]"] {
        let mut bytes = frames(stream, KEY);
        let len = bytes.len();
        let mut input = Input::new(&mut bytes);
        let mut machine = server();
        assert!(!matches!(machine.next(&Limits::default(), &mut input), Ok(None)));
        assert_eq!(input.consumed(), len, "{stream}");
        assert!(!machine.state().reads());
    }
}

#[test]
fn after_our_close_only_the_answer_is_reported() {
    let stream = "80 81 [K] 62 · 81 81 [K] 61 · 89 81 [K] 31 · 8A 80 [K] · 81 81 [K] FF \
                  · 02 81 [K] 63 · 89 80 [K] · 80 81 [K] 64 · 88 80 [K] · 81 81 [K] 65";
    let bytes = frames(stream, KEY);
    for pieces in cuts(&bytes) {
        let mut machine = server();
        let begun = frames("01 82 [K] 61 62", KEY);
        feed(&mut machine, &Limits::default(), &[&begun]);
        let held = machine.partial_bytes();

        let mut out = Vec::new();
        assert!(machine.close(None, &mut out, None));
        assert_eq!((out.as_slice(), machine.state()), (&[0x88, 0][..], State::CloseSent));
        assert!(machine.partial_bytes() < held, "the half message is freed");

        let run = feed(&mut machine, &Limits::default(), &pieces);
        assert_eq!((run.seen, run.error), (vec![Seen::Close(None)], None));
        assert_eq!((run.state, run.partial_bytes), (State::Closed, 0));
    }
}

#[test]
fn after_our_close_the_framing_still_counts() {
    for (stream, error) in [
        ("80 80 [K]", Error::UnexpectedContinuation),
        ("83 80 [K]", Error::UnknownOpcode(3)),
        ("01 81 [K] 61 · 81 80 [K]", Error::ExpectedContinuation),
        ("88 81 [K] 03", Error::ClosePayloadTooShort),
    ] {
        let mut machine = server();
        let mut out = Vec::new();
        machine.close(None, &mut out, None);
        let run = feed(&mut machine, &Limits::default(), &[&frames(stream, KEY)]);
        assert_eq!((run.seen, run.error), (vec![], Some(error)));
        assert_eq!(run.state, State::Closed);
        assert!(!machine.close(None, &mut out, None), "one close frame at most");
    }
}

#[test]
fn after_our_close_dropped_payload_takes_no_memory() {
    let mut machine = server();
    machine.close(None, &mut Vec::new(), None);
    let mut bytes = frames("82 FF 00 00 00 00 00 10 00 00 [K]", KEY);
    bytes.resize(bytes.len() + (1 << 20) - 1, 0);
    feed(&mut machine, &Limits::default(), &[&bytes]);
    assert!((1..1024).contains(&machine.partial_bytes()), "{}", machine.partial_bytes());
}

#[test]
fn an_error_ends_reading_and_leaves_one_close_frame_to_send() {
    let mut machine = server();
    let bytes = frames("81 81 [K] 61 · 83 80 [K] · 81 81 [K] 62", KEY);
    let run = feed(&mut machine, &Limits::default(), &[&bytes, &bytes]);
    assert_eq!((run.seen, run.error), (vec![text("a")], Some(Error::UnknownOpcode(3))));
    assert_eq!(run.state, State::CloseReceived);
    assert!(machine.close(Some(Frame::bare(Code::PROTOCOL_ERROR)), &mut Vec::new(), None));
    assert_eq!(machine.state(), State::Closed);
}

#[test]
fn both_ends_close_at_once() {
    let (mut server, mut client) = (server(), Machine::new(Role::Client));
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    server.close(Some(Frame::bare(Code::GOING_AWAY)), &mut to_client, None);
    client.close(Some(Frame::bare(Code::NORMAL)), &mut to_server, Some(KEY));
    let at_server = feed(&mut server, &Limits::default(), &[&to_server]);
    let at_client = feed(&mut client, &Limits::default(), &[&to_client]);
    assert_eq!(at_server.seen, [Seen::Close(Some((1000, String::new())))]);
    assert_eq!(at_client.seen, [Seen::Close(Some((1001, String::new())))]);
    assert_eq!((server.state(), client.state()), (State::Closed, State::Closed));
}

#[test]
fn a_client_refuses_masked_frames() {
    let mut client = Machine::new(Role::Client);
    let run = feed(&mut client, &Limits::default(), &[&frames("81 81 [K] 61", KEY)]);
    assert_eq!((run.seen, run.error), (vec![], Some(Error::MaskForbidden)));
    let mut client = Machine::new(Role::Client);
    let run = feed(&mut client, &Limits::default(), &[&frames("81 01 61", KEY)]);
    assert_eq!((run.seen, run.error), (vec![text("a")], None));
}

#[test]
fn the_caller_may_stop_between_events_and_go_on_later() {
    let bytes = frames("81 81 [K] 61 · 89 81 [K] 62 · 81 82 [K] 63 64 · 82 84 [K] 65", KEY);
    let mut machine = server();
    let mut rest = bytes;
    let mut count = 0;
    let limits = Limits::default();
    loop {
        let mut input = Input::new(&mut rest);
        let Some(event) = machine.next(&limits, &mut input).unwrap() else {
            break;
        };
        match (count, event) {
            (0, Event::Message { payload: b"a", .. }) | (1, Event::Ping(b"b")) => {}
            (2, Event::Message { payload: b"cd", .. }) => {}
            other => panic!("{other:?}"),
        }
        count += 1;
        let kept = input.remaining().to_vec();
        assert_eq!(input.consumed() + kept.len(), rest.len());
        rest = kept;
    }
    assert_eq!(count, 3);
    assert!(machine.partial_bytes() > 0, "the last frame waits for three bytes");
}

#[test]
fn a_pong_carries_the_payload_of_its_ping() {
    let mut machine = server();
    let mut bytes = frames("89 81 [K] 6B", KEY);
    let mut input = Input::new(&mut bytes);
    let mut out = Vec::new();
    let Ok(Some(Event::Ping(payload))) = machine.next(&Limits::default(), &mut input) else {
        panic!("a ping was sent");
    };
    frame::pong(payload, &mut out).unwrap();
    assert_eq!(out, [0x8a, 0x01, 0x6b]);
}

//! One connection's machine, from the bytes of a receive to the bytes of the answer.

use plugsock_ws::deflate::Codec;
use plugsock_ws::extension::{Agreement, Policy};
use plugsock_ws::frame::{Opcode, encode_masked};
use plugsock_ws::{Event, Input, Kind, Limits, Machine, Role, Step};

use crate::counter::count;

const KEY: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
/// Messages of 1 KiB until both windows of 32 KiB are full and the buffers have their size.
const WARM_UP: usize = 70;

/// A server that echoes, with what its thread has for all connections.
struct Echo {
    machine: Machine,
    codec: Codec,
    received: Vec<u8>,
    /// As in the host, a message is copied before it is answered.
    message: Vec<u8>,
    out: Vec<u8>,
}

impl Echo {
    fn new(machine: Machine) -> Self {
        let (received, message, out) = (Vec::new(), Vec::new(), Vec::new());
        Self { machine, codec: Codec::default(), received, message, out }
    }

    /// One receive. The answer, if there is one, lies in `out`.
    fn turn(&mut self, bytes: &[u8]) {
        self.received.clear();
        self.received.extend_from_slice(bytes);
        let mut input = Input::new(&mut self.received);
        loop {
            match self.machine.next_with(&Limits::default(), &mut input, &mut self.codec) {
                Ok(Step::Event(Event::Message { kind, payload })) => {
                    self.message.clear();
                    self.message.extend_from_slice(payload);
                    let (message, codec) = (&self.message, &mut self.codec);
                    self.machine.encode(kind, message, codec, &mut self.out, None);
                }
                Ok(Step::Waiting) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Receives a message in these pieces and answers it.
    fn echo(&mut self, pieces: &[&[u8]]) {
        self.out.clear();
        self.message.clear();
        pieces.iter().for_each(|piece| self.turn(piece));
        assert!(!self.message.is_empty() && !self.out.is_empty(), "no message");
    }
}

/// Allocations of one message more, when warm.
fn plain(pieces: &[&[u8]]) -> usize {
    let mut echo = Echo::new(Machine::new(Role::Server));
    (0..WARM_UP).for_each(|_| echo.echo(pieces));
    count(|| echo.echo(pieces))
}

/// Allocations of one compressed message more, when warm.
fn compressed(context_takeover: bool, cut_at: Option<usize>) -> usize {
    let policy = Policy { context_takeover, ..Policy::default() };
    let agreement = policy.negotiate([policy.offer().as_bytes()]).unwrap();
    let mut frames = client_frames(agreement);
    let last = frames.pop().unwrap();
    let mut echo = Echo::new(Machine::with_agreement(Role::Server, agreement));
    let pieces = |frame: &[u8]| {
        let (first, second) = frame.split_at(cut_at.unwrap_or(0));
        [first.to_vec(), second.to_vec()]
    };
    for frame in &frames {
        let [first, second] = pieces(frame);
        echo.echo(&[&first, &second]);
    }
    let [first, second] = pieces(&last);
    count(|| echo.echo(&[&first, &second]))
}

/// Different messages of 1 KiB.
fn client_frames(agreement: Agreement) -> Vec<Vec<u8>> {
    let (mut client, mut codec) =
        (Machine::with_agreement(Role::Client, agreement), Codec::default());
    let frame = |number: usize| {
        let (mut message, mut out) = (String::new(), Vec::new());
        while message.len() < 1024 {
            message += &format!("{{\"number\":{},\"from\":{number}}},", message.len() * number);
        }
        message.truncate(1024);
        let kind = Kind::Text;
        let shorter = client.encode(kind, message.as_bytes(), &mut codec, &mut out, Some(KEY));
        assert!(shorter, "it was not compressed");
        out
    };
    (1..=WARM_UP).map(frame).collect()
}

/// A masked message in so many frames.
fn message(frames: usize, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 1..=frames {
        let opcode = if number == 1 { Opcode::Text } else { Opcode::Continuation };
        encode_masked(opcode, number == frames, &vec![b'x'; len], KEY, &mut bytes);
    }
    bytes
}

#[test]
fn a_message_whole_in_the_input_allocates_nothing() {
    assert_eq!(plain(&[&message(1, 100)]), 0);
    assert_eq!(plain(&[&message(1, 60_000)]), 0);
}

#[test]
fn a_frame_in_two_receives_allocates_what_it_keeps() {
    let bytes = message(1, 100);
    assert_eq!(plain(&[&bytes[..3], &bytes[3..]]), 1, "what is kept of a header has one place");
    assert_eq!(plain(&[&bytes[..50], &bytes[50..]]), 3, "and of a payload a buffer, which grows");
}

#[test]
fn fragments_allocate_the_message_and_what_is_incomplete() {
    assert_eq!(plain(&[&message(2, 50)]), 3, "a place, and a buffer, which grows");
    assert_eq!(plain(&[&message(8, 50)]), 5, "it doubles");
}

#[test]
fn a_compressed_message_allocates_nothing() {
    assert_eq!(compressed(false, None), 0, "without context takeover");
    assert_eq!(compressed(true, None), 0, "with it");
}

#[test]
fn a_compressed_frame_in_two_receives_allocates_what_it_keeps() {
    assert_eq!(compressed(false, Some(50)), 3, "without context takeover");
    assert_eq!(compressed(true, Some(50)), 3, "with it");
}

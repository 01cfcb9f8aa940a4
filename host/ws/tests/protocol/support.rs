//! Byte strings as they stand in a bug report, and the ways to cut them.

use plugsock_ws::deflate::Codec;
use plugsock_ws::extension::{Agreement, Policy};
use plugsock_ws::{Error, Event, Input, Kind, Limits, Machine, Role, State, Step, close};

/// An event that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

/// All that a machine reported, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) seen: Vec<Seen>,
    pub(crate) error: Option<Error>,
    pub(crate) state: State,
    pub(crate) partial_bytes: usize,
}

/// xorshift64*: small, seeded, the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.bits() >> 33).unwrap_or(0) % end
    }

    pub(crate) fn key(&mut self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.bits().to_be_bytes();
        [a, b, c, d]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits().to_be_bytes()[0]).collect()
    }
}

/// Frames from a string such as `01 85 [K] 68 69 · 89 80 [K]`: hexadecimal bytes, `[K]` for the
/// masking key, `·` between frames. What follows the key in a frame is masked with it.
pub(crate) fn frames(text: &str, key: [u8; 4]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in text.split('·') {
        let mut masked_at = None;
        for word in frame.split_whitespace() {
            if word == "[K]" {
                out.extend_from_slice(&key);
                masked_at = Some(0);
                continue;
            }
            let byte = u8::from_str_radix(word, 16);
            assert!(byte.is_ok(), "{word}");
            let mask = masked_at.as_mut().map_or(0, |at: &mut usize| {
                *at += 1;
                key[(*at - 1) % 4]
            });
            out.push(byte.unwrap_or_default() ^ mask);
        }
    }
    out
}

/// `bytes` in one piece, byte by byte, and cut in two at every offset.
pub(crate) fn cuts(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut all = vec![vec![bytes], bytes.chunks(1).collect()];
    all.extend((1..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
    all
}

/// Feeds the pieces to a machine, each in a buffer of its own.
pub(crate) fn feed(machine: &mut Machine, limits: &Limits, pieces: &[&[u8]]) -> Run {
    let mut seen = Vec::new();
    let mut error = None;
    for piece in pieces {
        let mut buffer = piece.to_vec();
        let mut input = Input::new(&mut buffer);
        loop {
            match machine.next(limits, &mut input) {
                Ok(Some(event)) => seen.push(own(event)),
                Ok(None) => break,
                Err(this) => assert_eq!(error.replace(this), None, "two errors"),
            }
        }
        assert!(input.is_empty() && input.consumed() == piece.len());
    }
    Run { seen, error, state: machine.state(), partial_bytes: machine.partial_bytes() }
}

/// Runs a server over the frames in `text`: with several keys, cut in all ways. All runs must
/// agree, and hold no memory at the end.
pub(crate) fn serve(text: &str) -> (Vec<Seen>, Option<Error>) {
    let mut random = Random::new(6455);
    let mut first: Option<Run> = None;
    for key in [[0; 4], random.key(), random.key()] {
        let bytes = frames(text, key);
        for pieces in cuts(&bytes) {
            let mut machine = Machine::new(Role::Server);
            let run = feed(&mut machine, &Limits::default(), &pieces);
            assert_eq!(run.partial_bytes, 0, "{text} {pieces:x?}");
            match &first {
                Some(first) => assert_eq!(&run, first, "{text} {pieces:x?}"),
                None => first = Some(run),
            }
        }
    }
    first.map(|run| (run.seen, run.error)).unwrap_or_default()
}

/// As [`feed`], with compression.
pub(crate) fn feed_with(
    machine: &mut Machine,
    limits: &Limits,
    codec: &mut Codec,
    pieces: &[&[u8]],
) -> Run {
    let mut seen = Vec::new();
    let mut error = None;
    for piece in pieces {
        let mut buffer = piece.to_vec();
        let mut input = Input::new(&mut buffer);
        loop {
            match machine.next_with(limits, &mut input, codec) {
                Ok(Step::Event(event)) => seen.push(own(event)),
                Ok(Step::Working) => {}
                Ok(Step::Waiting) => break,
                Err(this) => assert_eq!(error.replace(this), None, "two errors"),
            }
        }
        assert!(input.is_empty() && !machine.is_working());
    }
    Run { seen, error, state: machine.state(), partial_bytes: machine.partial_bytes() }
}

/// As [`serve`], under an agreement.
pub(crate) fn serve_with(agreement: Agreement, text: &str) -> (Vec<Seen>, Option<Error>) {
    let mut random = Random::new(7692);
    let mut codec = Codec::default();
    let mut first: Option<Run> = None;
    for key in [[0; 4], random.key()] {
        let bytes = frames(text, key);
        for pieces in cuts(&bytes) {
            let mut machine = Machine::with_agreement(Role::Server, agreement);
            let run = feed_with(&mut machine, &Limits::default(), &mut codec, &pieces);
            assert_eq!(run.partial_bytes, 0, "{text} {pieces:x?}");
            match &first {
                Some(first) => assert_eq!(&run, first, "{text} {pieces:x?}"),
                None => first = Some(run),
            }
        }
    }
    first.map(|run| (run.seen, run.error)).unwrap_or_default()
}

/// What a policy makes of one line of offers.
pub(crate) fn agree(policy: &Policy, offers: &str) -> Option<Agreement> {
    policy.negotiate([offers.as_bytes()])
}

pub(crate) fn text(text: &str) -> Seen {
    Seen::Text(text.to_owned())
}

/// The close frame's bytes that a server answers an error with.
pub(crate) fn answer_to(error: Error) -> Vec<u8> {
    let mut out = Vec::new();
    let mut machine = Machine::new(Role::Server);
    assert!(machine.close(Some(close::Frame::bare(error.close_code())), &mut out, None));
    out
}

fn own(event: Event<'_>) -> Seen {
    match event {
        Event::Message { kind: Kind::Text, payload } => {
            let text = String::from_utf8(payload.to_vec());
            assert!(text.is_ok(), "text that is not UTF-8 was delivered");
            Seen::Text(text.unwrap_or_default())
        }
        Event::Message { kind: Kind::Binary, payload } => Seen::Binary(payload.to_vec()),
        Event::Ping(payload) => Seen::Ping(payload.to_vec()),
        Event::Pong(payload) => Seen::Pong(payload.to_vec()),
        Event::Close(frame) => {
            Seen::Close(frame.map(|frame| (frame.code().get(), frame.reason().to_owned())))
        }
    }
}

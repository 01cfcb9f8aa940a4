//! What the fuzz targets do with their inputs. The committed corpus runs through the same.

use plugsock_ws::deflate::Codec;
use plugsock_ws::extension::{Agreement, Policy, WindowBits};
use plugsock_ws::handshake::{
    Failure, Field, HeadBuffer, HeadLimits, Key, Offer, Progress, Refusal, ResponseHead, Upgrade,
    accept_with, choose_subprotocol,
};
use plugsock_ws::{Input, Kind, Limits, Machine, Role, State, fragment};

use crate::choices::Choices;
use crate::endpoint::{Found, PARTIAL_OVERHEAD, advance};
use crate::reference::{Closing, Unit, Verdict, decode};
use crate::terms;
use crate::world::{self, Trouble};

/// Small, so that inputs meet them.
const HEAD_LIMITS: HeadLimits = HeadLimits { max_size: 600, max_headers: 10, max_target: 60 };

/// A script for both ends and the network between them.
pub(crate) fn whole(input: &[u8]) {
    let Some((trouble, script)) = input.split_first() else { return };
    let trouble = match trouble % 4 {
        0 => Trouble::None,
        1 => Trouble::Lost,
        2 => Trouble::Changed,
        _ => Trouble::Breach,
    };
    world::run(Choices::from_bytes(script), trouble);
}

/// Frames for one machine. The first byte is role, limits and after how many events it closes, the
/// second is what was agreed, the third is the size of the pieces.
pub(crate) fn frames(input: &[u8]) {
    let [how, terms, size, stream @ ..] = input else { return };
    let role = if how & 1 == 0 { Role::Server } else { Role::Client };
    let limits = if how & 2 == 0 {
        Limits { max_frame_size: 30, max_message_size: 40 }
    } else {
        Limits { max_frame_size: 70_000, max_message_size: 50_000 }
    };
    let closes_after = usize::from(how >> 2).checked_sub(1);
    let agreed = terms::agreement(*terms);
    deliver(role, &limits, agreed.as_ref(), pieces(*size, stream), closes_after);
}

/// Two compressed messages for one machine. The first byte is their kind and the limits, the second
/// is what was agreed, the third is the size of fragments, the fourth is that of the first message.
pub(crate) fn inflate(input: &[u8]) {
    let [how, terms, size, first, payloads @ ..] = input else { return };
    let max_message_size = if how & 1 == 0 { 300 } else { 150_000 };
    let limits = Limits { max_frame_size: 5_000, max_message_size };
    let agreed = terms::agreement((*terms).max(1));
    let mut stream = Vec::new();
    let (first, second) = payloads.split_at(payloads.len().min(usize::from(*first)));
    let kind = if how & 2 == 0 { Kind::Binary } else { Kind::Text };
    let size = if *size == 0 { usize::MAX } else { usize::from(*size) };
    for payload in [first, second] {
        fragment::encode(kind, true, payload, size, &mut stream);
    }
    let (units, verdict) =
        deliver(Role::Client, &limits, agreed.as_ref(), std::iter::once(&*stream), None);
    if how & 4 != 0 {
        let again = deliver(Role::Client, &limits, agreed.as_ref(), stream.chunks(7), None);
        assert_eq!(again, (units, verdict));
    }
}

/// A request's head and what follows it. The first byte is the size of the pieces.
pub(crate) fn handshake(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let whole = ask(std::iter::once(bytes));
    assert_eq!(ask(pieces(*size, bytes)), whole);
    if let Some(Ok(Some(consumed))) = whole {
        assert!(bytes[..consumed].ends_with(b"\r\n\r\n"));
    }
}

/// A response's head and what follows it, as `handshake`.
pub(crate) fn response(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let whole = answer(std::iter::once(bytes));
    assert_eq!(answer(pieces(*size, bytes)), whole);
    if let Some(Ok(subprotocol)) = whole {
        let (head, _) = split_head(bytes);
        let head = String::from_utf8_lossy(head);
        // An empty line before it is let pass.
        assert!(head.trim_start().starts_with("HTTP/1.1 101"));
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        let has = |name: &str| head.to_ascii_lowercase().contains(&format!("\r\n{name}:"));
        assert!(has("upgrade") && has("connection"));
        assert_eq!(has("sec-websocket-protocol"), subprotocol.is_some());
        assert!(subprotocol.is_none_or(|name| head.contains(name)));
    }
}

/// Feeds a machine and compares all it reports with the reference. `closes_after` is the number of
/// events after which it sends its own close frame.
pub(crate) fn deliver<'a>(
    role: Role,
    limits: &Limits,
    agreed: Option<&Agreement>,
    pieces: impl Iterator<Item = &'a [u8]>,
    closes_after: Option<usize>,
) -> (Vec<Unit>, Verdict) {
    let mut machine =
        agreed.map_or(Machine::new(role), |agreed| Machine::with_agreement(role, *agreed));
    let mut codec = agreed.map(|_| Codec::default());
    let (mut stream, mut seen, mut verdict) = (Vec::new(), Vec::new(), Verdict::Open);
    let mut closing = None;
    for piece in pieces {
        let base = stream.len();
        stream.extend_from_slice(piece);
        let mut bytes = piece.to_vec();
        let mut input = Input::new(&mut bytes);
        loop {
            if closes_after == Some(seen.len()) && machine.state() == State::Open {
                let (at, amid_message) = (base + input.consumed(), machine.is_working());
                closing = Some(Closing { at, amid_message });
                let mut out = Vec::new();
                assert!(machine.close(None, &mut out, (role == Role::Client).then_some([7; 4])));
                assert!(machine.partial_bytes() as u64 <= PARTIAL_OVERHEAD);
            }
            let state = machine.state();
            let found = advance(&mut machine, limits, &mut input, codec.as_mut());
            assert!(state.reads() || found == Ok(Found::Nothing), "more after {verdict:?}");
            match found {
                Ok(Found::Nothing) => break,
                Ok(Found::Working) => {}
                Ok(Found::Unit(unit)) => {
                    if let Unit::Close(frame) = &unit {
                        verdict = Verdict::Close(frame.as_ref().map(|(code, _)| *code));
                    }
                    seen.push(unit);
                }
                Err(error) => verdict = Verdict::Error(error.close_code().get()),
            }
            assert!(machine.state().reads() || input.is_empty(), "input is left after the end");
        }
        assert_eq!(input.consumed(), piece.len());
        let received = if closing.is_none() { stream.len() as u64 } else { 0 };
        let most = 2 * received.min(limits.max_message_size) + PARTIAL_OVERHEAD;
        assert!(machine.partial_bytes() as u64 <= most, "{}", machine.partial_bytes());
    }
    let decoded = decode(role, limits, agreed, &stream, closing);
    let right = decoded.verdict.admits(verdict);
    assert!(right, "{role:?} {closing:?}: {verdict:?}, not {:?}", decoded.verdict);
    assert_eq!(seen, decoded.units, "{role:?} {closing:?}");
    if decoded.idle || verdict != Verdict::Open {
        assert_eq!(machine.partial_bytes(), 0);
    }
    let ended = verdict != Verdict::Open;
    let state = match (ended, closing.is_some()) {
        (false, false) => State::Open,
        (false, true) => State::CloseSent,
        (true, false) => State::CloseReceived,
        (true, true) => State::Closed,
    };
    assert_eq!(machine.state(), state);
    (seen, verdict)
}

/// What a server makes of a head: the size of a request, `Some(None)` without an upgrade; or the
/// status of its refusal. `None` if the head is not complete.
pub(crate) fn ask<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Option<Result<Option<usize>, u16>> {
    let refused = |refusal: Refusal| {
        let mut out = Vec::new();
        refusal.write(&mut out);
        let (head, body) = split_head(&out);
        assert!(head.starts_with(format!("HTTP/1.1 {} ", refusal.status()).as_bytes()));
        assert_eq!(body, refusal.body());
        Some(Err(refusal.status()))
    };
    let mut buffer = HeadBuffer::new();
    let mut before = 0;
    for piece in pieces {
        match buffer.push(&HEAD_LIMITS, piece) {
            Ok(Progress::Partial) => before += piece.len(),
            Ok(Progress::Complete { consumed }) => {
                let upgraded = buffer.request().and_then(|request| {
                    let upgrade = Upgrade::from_request(&request)?;
                    upgrade.as_ref().map(check_acceptance);
                    Ok(upgrade.map(|_| before + consumed))
                });
                return upgraded.map_or_else(refused, |size| Some(Ok(size)));
            }
            Err(refusal) => return refused(refusal),
        }
    }
    None
}

/// Our answer to a good request satisfies a client who asked so.
fn check_acceptance(upgrade: &Upgrade<'_>) {
    let chosen = choose_subprotocol(upgrade.subprotocols(), &["chat", "b", "x"]);
    let field = Field::new("Server", b"sim").unwrap();
    let policy = policy();
    let agreed = policy.negotiate(upgrade.extensions());
    let mut out = Vec::new();
    let accepted = accept_with(&upgrade.key(), chosen, agreed.as_ref(), &[field], &mut out);
    assert_eq!(accepted, Ok(()));
    assert_eq!(split_head(&out).1, b"");

    let mut head = ResponseHead::new();
    let consumed = out.len();
    assert_eq!(head.push(&HeadLimits::default(), &out), Ok(Progress::Complete { consumed }));
    let subprotocols = upgrade.subprotocols();
    let offer = Offer { host: "t", target: "/", key: upgrade.key(), subprotocols, fields: &[] };
    // The peer may have promised to keep within a window that we could not promise.
    let ours = |agreed: &Agreement| agreed.window_bits(Role::Client) >= WindowBits::MIN_TO_COMPRESS;
    if agreed.as_ref().is_none_or(ours) {
        let verified = offer.verify_with(Some(&policy), &head);
        let takeover = |agreed: Option<Agreement>| {
            agreed.map(|agreed| [Role::Server, Role::Client].map(|s| agreed.context_takeover(s)))
        };
        let verified = verified.map(|(chosen, agreed)| (chosen, takeover(agreed)));
        assert_eq!(verified, Ok((chosen, takeover(agreed))));
    }
}

/// What a client makes of a head. `None` if it is not complete.
pub(crate) fn answer<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Option<Result<Option<&'static str>, Failure>> {
    let key = Key::from_nonce(*b"the sample nonce");
    let subprotocols = &["chat", "b"];
    let offer = Offer { host: "t", target: "/", key, subprotocols, fields: &[] };
    let mut head = ResponseHead::new();
    for piece in pieces {
        match head.push(&HEAD_LIMITS, piece) {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete { .. }) => {
                let verified = offer.verify_with(Some(&policy()), &head);
                return Some(verified.map(|(subprotocol, _)| subprotocol));
            }
            Err(failure) => return Some(Err(failure)),
        }
    }
    None
}

fn policy() -> Policy {
    Policy { context_takeover: true, ..Policy::default() }
}

/// Pieces of `size` bytes, all at once if it is 0.
fn pieces(size: u8, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let size = if size == 0 { bytes.len() } else { usize::from(size) };
    bytes.chunks(size.max(1))
}

/// A response's head with its empty line, and its body.
fn split_head(response: &[u8]) -> (&[u8], &[u8]) {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    response.split_at(end)
}

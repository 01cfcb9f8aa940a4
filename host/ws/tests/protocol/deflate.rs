//! Compressed messages: faults seen in other servers, each with the bytes that show it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use plugsock_ws::close::{Code, Frame};
use plugsock_ws::deflate::{Codec, Compressor, Settings};
use plugsock_ws::extension::{Agreement, Policy, WindowBits};
use plugsock_ws::frame::{self, Header, Opcode, encode_compressed};
use plugsock_ws::{Error, Input, Kind, Limits, Machine, Role, State, Step};

use crate::puff::puff;
use crate::support::{Random, Seen, agree, answer_to, feed_with, frames, serve, serve_with, text};

const HELLO: &str = "F2 48 CD C9 C9 07 00";
const HELLO_AGAIN: &str = "F2 00 11 00 00";

/// What a server with context takeover on agrees to.
fn agreement(parameters: &str) -> Agreement {
    let policy = Policy { context_takeover: true, ..Policy::default() };
    agree(&policy, &format!("permessage-deflate{parameters}")).unwrap()
}

fn passes(frames: &str, seen: &[Seen]) {
    assert_eq!(serve_with(agreement(""), frames), (seen.to_vec(), None), "{frames}");
}

fn fails(frames: &str, error: Error) {
    assert_eq!(serve_with(agreement(""), frames), (vec![], Some(error)), "{frames}");
}

#[test]
fn the_examples_of_rfc_7692_section_7_2_3_are_hello() {
    let hello = [text("Hello")];
    passes(&format!("C1 87 [K] {HELLO}"), &hello);
    passes("41 83 [K] F2 48 CD · 80 84 [K] C9 C9 07 00", &hello);
    // With the second by reference, in a stored block, after a final block, in two blocks.
    let both = format!("C1 87 [K] {HELLO} · C1 85 [K] {HELLO_AGAIN}");
    passes(&both, &[text("Hello"), text("Hello")]);
    passes("C1 8B [K] 00 05 00 FA FF 48 65 6C 6C 6F 00", &hello);
    passes("C1 88 [K] F3 48 CD C9 C9 07 00 00", &hello);
    passes("C1 8D [K] F2 48 05 00 00 00 FF FF CA C9 C9 07 00", &hello);
    passes("C1 81 [K] 00", &[text("")]);
}

#[test]
fn a_final_block_ends_neither_the_message_nor_the_history() {
    // "Hello" in a final block, and again by reference behind it and in the next message.
    let frames = format!(
        "C1 8C [K] F3 48 CD C9 C9 07 00 {HELLO_AGAIN} · C1 85 [K] {HELLO_AGAIN} · C1 87 [K] {HELLO}"
    );
    passes(&frames, &[text("HelloHello"), text("Hello"), text("Hello")]);
    passes("C1 81 [K] 01 · C1 87 [K] F2 48 CD C9 C9 07 04", &[text(""), text("Hello")]);
    // Final blocks that only the tail would complete, or that nothing follows.
    fails("C1 81 [K] 03", Error::InvalidDeflate);
    fails("C1 82 [K] 03 00", Error::InvalidDeflate);
    fails("C1 87 [K] F3 48 CD C9 C9 07 00", Error::InvalidDeflate);
}

#[test]
fn final_blocks_pass_up_to_their_limit() {
    let run = |blocks: usize| {
        // Empty blocks of fixed codes, each final.
        let payload = [[0x03, 0x00].repeat(blocks), vec![0x00]].concat();
        let mut bytes = Vec::new();
        let (key, len) = (Some([0; 4]), payload.len() as u64);
        let opcode = Opcode::Binary;
        Header { fin: true, compressed: true, opcode, key, len }.encode(&mut bytes);
        bytes.extend(payload);
        let mut machine = Machine::with_agreement(Role::Server, agreement(""));
        feed_with(&mut machine, &Limits::default(), &mut Codec::default(), &[&bytes])
    };
    assert_eq!(run(1024).seen, [Seen::Binary(vec![])]);
    assert_eq!(run(1025).error, Some(Error::TooManyFinalBlocks));
    assert_eq!(Error::TooManyFinalBlocks.close_code(), Code::POLICY);
}

#[test]
fn bl_16_empty_messages_both_ways() {
    let mut codec = Codec::default();
    for parameters in ["", "; server_no_context_takeover"] {
        let mut server = Machine::with_agreement(Role::Server, agreement(parameters));
        let mut client = Machine::with_agreement(Role::Client, agreement(parameters));
        let mut bytes = Vec::new();
        let long = "Hello ".repeat(10);
        assert!(server.encode(Kind::Text, long.as_bytes(), &mut codec, &mut bytes, None));
        let start = bytes.len();
        assert!(server.encode(Kind::Text, b"", &mut codec, &mut bytes, None));
        assert_eq!(bytes[start..], [0xc1, 1, 0]);
        server.encode(Kind::Text, long.as_bytes(), &mut codec, &mut bytes, None);
        let run = feed_with(&mut client, &Limits::default(), &mut codec, &[&bytes]);
        assert_eq!(run.seen, [text(&long), text(""), text(&long)]);
    }
    let hello = format!("C1 87 [K] {HELLO}");
    passes(&format!("C1 81 [K] 00 · {hello}"), &[text(""), text("Hello")]);
    passes(&format!("C1 81 [K] 00 · C1 81 [K] 00 · {hello}"), &[text(""), text(""), text("Hello")]);
}

#[test]
fn bl_16_an_empty_payload_is_not_deflate_and_fails_at_once() {
    fails("C1 80 [K]", Error::InvalidDeflate);
    fails(&format!("C1 80 [K] · C1 87 [K] {HELLO}"), Error::InvalidDeflate);
    fails("41 80 [K] · 80 80 [K]", Error::InvalidDeflate);
    assert_eq!(answer_to(Error::InvalidDeflate), [0x88, 0x02, 0x03, 0xef]);
}

/// Four octets are appended to a message before it is inflated (RFC 7692 §7.2.2), and by the letter
/// they may be the content of its last block. A block that announces more, or leaves a part of them
/// for another, has not ended.
#[test]
fn a_block_that_has_not_ended_is_not_filled_with_what_follows_the_message() {
    for len in [1_u8, 5, 9] {
        for first in [0, 1] {
            let block = format!("{first:02X} {len:02X} 00 {:02X} FF", !len);
            fails(&format!("C2 85 [K] {block}"), Error::InvalidDeflate);
            fails(&format!("C1 85 [K] {block}"), Error::InvalidDeflate);
        }
    }
}

#[test]
fn bl_17_rsv1_stands_on_the_first_frame_of_a_message_only() {
    fails("41 84 [K] F2 48 CD C9 · C0 83 [K] C9 07 00", Error::ReservedBits);
    fails("01 81 [K] 61 · C0 81 [K] 00", Error::ReservedBits);
    fails("C9 80 [K]", Error::ReservedBits);
    fails("CA 80 [K]", Error::ReservedBits);
    fails("C8 80 [K]", Error::ReservedBits);
    fails("E1 80 [K]", Error::ReservedBits);
    fails("D1 80 [K]", Error::ReservedBits);
    fails("C3 80 [K]", Error::UnknownOpcode(3));
    assert_eq!(answer_to(Error::ReservedBits), [0x88, 0x02, 0x03, 0xea]);
    let (seen, error) = serve(&format!("C1 87 [K] {HELLO}"));
    assert_eq!((seen, error), (vec![], Some(Error::ReservedBits)), "without agreement");
}

#[test]
fn bl_17_the_first_frame_decides_for_its_whole_message() {
    passes("41 84 [K] F2 48 CD C9 · 80 83 [K] C9 07 00", &[text("Hello")]);
    passes("41 80 [K] · 00 84 [K] F2 48 CD C9 · 80 83 [K] C9 07 00", &[text("Hello")]);
    passes(
        "41 84 [K] F2 48 CD C9 · 89 81 [K] 70 · 80 83 [K] C9 07 00",
        &[Seen::Ping(b"p".to_vec()), text("Hello")],
    );
    passes("81 85 [K] 48 65 6C 6C 6F", &[text("Hello")]);
    passes(
        &format!("01 82 [K] 48 65 · 80 83 [K] 6C 6C 6F · C2 87 [K] {HELLO}"),
        &[text("Hello"), Seen::Binary(b"Hello".to_vec())],
    );
}

#[test]
fn bl_18_context_is_kept_where_the_answer_allows_it_and_nowhere_else() {
    let again = format!("C1 87 [K] {HELLO} · C1 85 [K] {HELLO_AGAIN}");
    let alone = format!("C1 87 [K] {HELLO} · C1 87 [K] {HELLO}");
    let hint = "; client_max_window_bits";
    for server in ["", "; server_no_context_takeover"] {
        for hint in ["", hint] {
            let kept = agreement(&format!("{server}{hint}"));
            let hello = [text("Hello"), text("Hello")];
            assert_eq!(serve_with(kept, &again), (hello.to_vec(), None));
            assert_eq!(serve_with(kept, &alone), (hello.to_vec(), None));

            let fresh = agreement(&format!("{server}; client_no_context_takeover{hint}"));
            let error = Some(Error::InvalidDeflate);
            assert_eq!(serve_with(fresh, &again), (vec![text("Hello")], error));
            assert_eq!(serve_with(fresh, &alone), (hello.to_vec(), None));
        }
    }
}

#[test]
fn bl_18_our_own_messages_obey_the_answer() {
    let message = Random::new(18).bytes(200);
    let mut codec = Codec::default();
    for client in ["", "; client_no_context_takeover"] {
        let mut machine = Machine::with_agreement(Role::Server, agreement(client));
        assert_eq!(machine.compress(&message, &mut codec), None, "random bytes do not shrink");
        machine.record_sent(&message);
        let second = machine.compress(&message, &mut codec).unwrap();
        assert!(second.len() < 20, "by reference");

        let fresh = agreement(&format!("; server_no_context_takeover{client}"));
        let mut machine = Machine::with_agreement(Role::Server, fresh);
        machine.record_sent(&message);
        assert_eq!(machine.compress(&message, &mut codec), None);
        assert_eq!(machine.history_bytes(), 0);
    }
}

#[test]
fn bl_18_uncompressed_messages_stay_out_of_the_history() {
    // Fifteen bytes in between would move "Hello" out of the reference's reach.
    let plain = "81 8F [K] 61 61 61 61 61 61 61 61 61 61 61 61 61 61 61";
    let frames = format!("C1 87 [K] {HELLO} · {plain} · C1 85 [K] {HELLO_AGAIN}");
    passes(&frames, &[text("Hello"), text("aaaaaaaaaaaaaaa"), text("Hello")]);
}

#[test]
fn bl_19_memory_is_bounded_by_the_agreed_windows_and_none_without_takeover() {
    let mut random = Random::new(19);
    let mut codec = Codec::default();
    for (parameters, most) in [
        ("", 64 << 10),
        ("; server_max_window_bits=10; client_max_window_bits=10", 2 << 10),
        ("; server_no_context_takeover; client_max_window_bits=9", 512),
        ("; server_no_context_takeover; client_no_context_takeover", 0),
    ] {
        let agreement = agreement(parameters);
        assert_eq!(agreement.max_history(), most);
        let mut server = Machine::with_agreement(Role::Server, agreement);
        let mut client = Machine::with_agreement(Role::Client, agreement);
        for _ in 0..300 {
            let len = random.below(2000);
            let message = vec![random.bytes(1)[0]; len];
            let (mut there, mut back) = (Vec::new(), Vec::new());
            client.encode(Kind::Binary, &message, &mut codec, &mut there, Some(random.key()));
            server.encode(Kind::Binary, &message, &mut codec, &mut back, None);
            let at_server = feed_with(&mut server, &Limits::default(), &mut codec, &[&there]);
            let at_client = feed_with(&mut client, &Limits::default(), &mut codec, &[&back]);
            assert_eq!(at_server.seen, [Seen::Binary(message)]);
            assert_eq!(at_server.seen, at_client.seen);
            assert!(server.history_bytes() <= most + 64, "{}", server.history_bytes());
        }
        assert!(server.history_bytes() >= most, "the bound is not met: {parameters}");
        assert_eq!((server.partial_bytes(), client.partial_bytes()), (0, 0));
    }
}

/// JSON-like messages that repeat what lies some 2 KB back.
fn published(random: &mut Random) -> Vec<Vec<u8>> {
    let pool: Vec<Vec<u8>> = (0..10).map(|_| random.bytes(200)).collect();
    (0..200).map(|_| pool[random.below(10)].repeat(1 + random.below(3))).collect()
}

#[test]
fn bl_20_one_compressed_frame_fits_all_whose_agreement_allows_it() {
    let mut random = Random::new(20);
    let mut codec = Codec::default();
    let mut shared = Compressor::new(Settings::default(), WindowBits::MAX);
    let agreements = [
        None,
        Some(agreement("; server_no_context_takeover; client_no_context_takeover")),
        Some(agreement("")),
        Some(agreement("; server_max_window_bits=9")),
        Some(agreement("; client_max_window_bits=9")),
    ];
    let machine = |role, agreed: Option<Agreement>| match agreed {
        Some(agreed) => Machine::with_agreement(role, agreed),
        None => Machine::new(role),
    };
    let mut servers = agreements.map(|agreed| machine(Role::Server, agreed));
    let mut clients = agreements.map(|agreed| machine(Role::Client, agreed));
    assert_eq!(
        servers.each_ref().map(|s| s.takes(shared.window_bits())),
        [false, true, true, false, true]
    );
    let mut sharers = 0;
    for (turn, message) in published(&mut random).iter().enumerate() {
        let (mut plain, mut packed) = (Vec::new(), Vec::new());
        frame::encode(Kind::Binary, message, &mut plain);
        let compressed = encode_compressed(Kind::Binary, message, &mut shared, &mut packed);
        for (at, (server, client)) in servers.iter_mut().zip(&mut clients).enumerate() {
            let mut bytes = Vec::new();
            let mut expected = vec![Seen::Binary(message.clone())];
            if (at == 4 || turn % 3 == 0) && random.below(3) == 0 {
                // A private message from the published stock, by reference if there was any.
                let private = [&message[..50], b"private"].concat();
                server.encode(Kind::Binary, &private, &mut codec, &mut bytes, None);
                expected.insert(0, Seen::Binary(private));
            }
            if server.takes(shared.window_bits()) && compressed {
                bytes.extend_from_slice(&packed);
                server.record_sent(message);
                sharers += 1;
            } else if server.takes(WindowBits::new(9).unwrap()) {
                server.encode(Kind::Binary, message, &mut codec, &mut bytes, None);
            } else {
                bytes.extend_from_slice(&plain);
            }
            let run = feed_with(client, &Limits::default(), &mut codec, &[&bytes]);
            assert_eq!((run.seen, run.error), (expected, None), "turn {turn}, client {at}");
        }
    }
    assert!(sharers > 300, "{sharers}");
}

#[test]
fn references_reach_back_no_further_than_agreed() {
    let mut random = Random::new(14);
    for level in [1, 2, 4, 6, 9] {
        for bits in 9..=15 {
            let mut codec = Codec::new(Settings { level, mem_level: 1 + bits % 9 });
            let agreed = agreement(&format!("; server_max_window_bits={bits}"));
            let mut machine = Machine::with_agreement(Role::Server, agreed);
            let (mut history, mut farthest) = (Vec::new(), 0);
            let pool = random.bytes(40_000);
            for _ in 0..60 {
                let at = random.below(39_000);
                let message = pool[at..at + random.below(1000)].repeat(1 + random.below(3));
                let Some(payload) = machine.compress(&message, &mut codec) else { continue };
                let (inflated, distance) = puff(&history, payload);
                assert!(inflated == message, "level {level}, {bits} bits");
                farthest = farthest.max(distance);
                history.extend(message);
            }
            let window = 1 << bits;
            assert!(farthest <= window, "{farthest} at {bits} bits, level {level}");
            assert!(farthest > window / 4, "only {farthest} at {bits} bits, level {level}");
        }
    }
}

#[test]
fn every_truncated_message_fails_and_none_is_delivered_short() {
    let mut codec = Codec::new(Settings { level: 6, mem_level: 8 });
    let plain: String = (0..60).map(|i| format!("{{\"id\":{},\"ok\":true}}", i * i * 7)).collect();
    for agreed in [agreement("; server_no_context_takeover"), agreement("")] {
        let mut machine = Machine::with_agreement(Role::Server, agreed);
        let payload = machine.compress(plain.as_bytes(), &mut codec).unwrap().to_vec();
        for len in 0..=payload.len() {
            let mut bytes = Vec::new();
            let (opcode, key) = (Opcode::Text, None);
            Header { fin: true, compressed: true, opcode, key, len: len as u64 }.encode(&mut bytes);
            bytes.extend_from_slice(&payload[..len]);
            let mut client = Machine::with_agreement(Role::Client, agreed);
            let run = feed_with(&mut client, &Limits::default(), &mut codec, &[&bytes]);
            let whole = (len == payload.len()).then(|| text(&plain));
            assert_eq!(run.error.is_none(), whole.is_some(), "{len} of {}", payload.len());
            assert_eq!(run.seen, Vec::from_iter(whole));
        }
    }
}

#[test]
fn inflated_text_must_be_utf8() {
    // Stored blocks: F5 · C3 | A9, whole · C3 alone.
    fails("C1 87 [K] 00 01 00 FE FF F5 00", Error::InvalidUtf8);
    passes("C1 8D [K] 00 01 00 FE FF C3 00 01 00 FE FF A9 00", &[text("é")]);
    fails("C1 87 [K] 00 01 00 FE FF C3 00", Error::InvalidUtf8);
    passes("C2 87 [K] 00 01 00 FE FF F5 00", &[Seen::Binary(vec![0xf5])]);
}

#[test]
fn long_text_is_checked_over_the_seams_of_steps() {
    let mut codec = Codec::default();
    let agreed = agreement("");
    for shift in 0..4 {
        let long = "a".repeat(shift) + &"😀é".repeat(50_000);
        for cut in [0, 1] {
            let mut server = Machine::with_agreement(Role::Server, agreed);
            let mut bytes = Vec::new();
            let plain = &long.as_bytes()[..long.len() - cut];
            let payload = server.compress(plain, &mut codec).unwrap();
            let (opcode, key, len) = (Opcode::Text, None, payload.len() as u64);
            Header { fin: true, compressed: true, opcode, key, len }.encode(&mut bytes);
            bytes.extend_from_slice(payload);
            let mut client = Machine::with_agreement(Role::Client, agreed);
            let run = feed_with(&mut client, &Limits::default(), &mut codec, &[&bytes]);
            match cut {
                0 => assert!(run.seen == [text(&long)]),
                _ => assert_eq!((run.seen, run.error), (vec![], Some(Error::InvalidUtf8))),
            }
        }
    }
}

#[test]
fn after_our_close_compressed_messages_are_dropped_unread() {
    let mut codec = Codec::default();
    let mut machine = Machine::with_agreement(Role::Server, agreement(""));
    machine.close(Some(Frame::bare(Code::NORMAL)), &mut Vec::new(), None);
    let bytes = frames("C1 80 [K] · 41 81 [K] FF · 80 80 [K] · 88 80 [K]", [1; 4]);
    let run = feed_with(&mut machine, &Limits::default(), &mut codec, &[&bytes]);
    assert_eq!((run.seen, run.error), (vec![Seen::Close(None)], None));
    assert_eq!((run.state, run.partial_bytes), (State::Closed, 0));
}

#[test]
fn closing_in_the_middle_of_a_long_message_frees_it() {
    let mut codec = Codec::default();
    let mut client = Machine::with_agreement(Role::Client, agreement(""));
    let mut bytes = Vec::new();
    client.encode(Kind::Binary, &vec![0; 1 << 20], &mut codec, &mut bytes, Some([1; 4]));
    let mut server = Machine::with_agreement(Role::Server, agreement(""));
    let mut input = Input::new(&mut bytes);
    let step = server.next_with(&Limits::default(), &mut input, &mut codec);
    assert!(step == Ok(Step::Working) && server.is_working() && server.partial_bytes() > 64 << 10);
    server.close(None, &mut Vec::new(), None);
    assert!(!server.is_working());
    assert_eq!(server.partial_bytes(), 0);
    let step = server.next_with(&Limits::default(), &mut input, &mut codec);
    assert_eq!(step, Ok(Step::Waiting));
}

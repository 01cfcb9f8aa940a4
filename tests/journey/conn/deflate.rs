//! permessage-deflate as bytes (RFC 7692): offers, and what a client may send under each.

use plugsock_ws::{Kind, Role};

use super::compression::{DEFLATE, OFFERS};
use crate::support::{
    Case, Client, Got, HEAD, Random, Request, Site, Stage, eventually, frame, masked, prose,
};

/// The compressed payload of "Hello", and of another one that refers back to it (RFC 7692
/// §7.2.3.2).
const HELLO: [u8; 7] = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
const AGAIN: [u8; 5] = [0xf2, 0x00, 0x11, 0x00, 0x00];

/// A host that agrees to compress.
pub(super) fn compressing() -> Site {
    Site::new().set("compression.enabled", "true")
}

fn hello() -> Got {
    Got::Text("Hello".to_owned())
}

fn play(site: Site, cases: Vec<Case>) {
    let mut stage = Stage::new(site);
    for case in cases {
        stage.check(&case.offering(DEFLATE));
    }
    stage.end();
}

fn with_takeover() -> Site {
    compressing().set("compression.context_takeover", "true")
}

#[test]
fn bl_14_malformed_offers_are_declined_and_the_connection_opens_without() {
    let mut stage = Stage::new(with_takeover());
    for (parameters, accepted) in [
        ("server_max_window_bits=8", None),
        ("client_max_window_bits=8", Some("; client_max_window_bits=8")),
        ("server_max_window_bits=\"10\"", Some("; server_max_window_bits=10")),
        ("server_max_window_bits=9", Some("; server_max_window_bits=9")),
        ("server_max_window_bits=15", Some("; server_max_window_bits=15")),
        ("server_max_window_bits", None),
        ("server_max_window_bits=7", None),
        ("server_max_window_bits=16", None),
        ("server_max_window_bits=09", None),
        ("client_max_window_bits=7", None),
        ("client_max_window_bits=16", None),
        ("client_max_window_bits=08", None),
        ("client_max_window_bits=\"\"", None),
        ("client_max_window_bits; client_max_window_bits", None),
        ("client_no_context_takeover=1", None),
        ("server_no_context_takeover=true", None),
        ("server_no_context_takeover; server_no_context_takeover", None),
        ("foo=1", None),
    ] {
        for (fallback, without) in [("", None), (", permessage-deflate", Some(DEFLATE))] {
            let offer = format!("{DEFLATE}; {parameters}{fallback}");
            let agreed = accepted.map(|parameters| format!("{DEFLATE}{parameters}"));
            let agreed = agreed.as_deref().or(without);
            let head = format!("{HEAD}Sec-WebSocket-Extensions: {offer}\r\n\r\n");
            let fields = &[("Sec-WebSocket-Extensions", agreed)];
            stage.request(&Request { what: &offer, head, status: 101, fields });
        }
    }
    stage.end();
}

#[test]
fn bl_14_who_was_declined_is_served_without_compression() {
    let mut stage = Stage::new(with_takeover());
    for parameter in ["foo=1", "server_max_window_bits=8", "client_max_window_bits=08"] {
        let offer = format!("{DEFLATE}; {parameter}");
        let mut client = Client::open_offering(stage.address(), "/ledger", &offer);
        let long = "without ".repeat(100);
        client.echo(&long);
        assert!(client.frames().iter().all(|frame| !frame.compressed));
        client.raw(&frame(0xC1, &HELLO));
        assert_eq!(client.expect_close().0, 1002);
    }
    stage.expect_told(3, 1002, "declined");
    stage.expect_calm("declined");
    stage.end();
}

#[test]
fn bl_16_empty_messages_poison_nothing() {
    let empty = || Got::Text(String::new());
    play(
        with_takeover(),
        vec![
            Case::answers("an empty block", &[empty()], |key| masked(0xC1, &[0], key)),
            Case::answers("empty between two others", &[hello(), empty(), hello()], |key| {
                let (before, after) = (masked(0xC1, &HELLO, key), masked(0xC1, &AGAIN, key));
                [before, masked(0xC1, &[0], key), after].concat()
            }),
            Case::answers("two empty ones", &[empty(), empty(), hello()], |key| {
                let one = masked(0xC1, &[0], key);
                [one.clone(), one, masked(0xC1, &HELLO, key)].concat()
            }),
            Case::closes("no byte at all, and a message behind it", 1007, |key| {
                [masked(0xC1, b"", key), masked(0xC1, &HELLO, key)].concat()
            }),
            Case::closes("no byte in two fragments", 1007, |key| {
                [masked(0x41, b"", key), masked(0x80, b"", key)].concat()
            }),
        ],
    );
}

#[test]
fn bl_16_what_is_sent_for_an_empty_message_can_be_read() {
    for takeover in ["true", "false"] {
        let site = compressing().set("compression.threshold", "0B");
        let mut stage = Stage::new(site.set("compression.context_takeover", takeover));
        for path in ["/echo", "/builtin"] {
            let mut client = Client::open_offering(stage.address(), path, DEFLATE);
            let long = "Hello ".repeat(100);
            for _ in 0..3 {
                client.echo(&long);
                client.echo("");
                client.echo("");
                let frames = client.frames();
                assert!(frames[0].compressed);
                for frame in &frames[1..] {
                    assert_eq!(frame.len, u64::from(frame.compressed), "{path}");
                }
            }
            drop(client);
        }
        stage.expect_calm("empty messages");
        stage.end();
    }
}

#[test]
fn bl_16_what_is_not_deflate_costs_the_connection() {
    let bad = |what: &str, payload: &'static [u8]| {
        Case::closes(what, 1007, move |key| masked(0xC1, payload, key))
    };
    play(
        with_takeover(),
        vec![
            bad("a block of type 3", &[0xff; 20]),
            bad("stored lengths that differ", &[0, 5, 0, 0, 0, 1]),
            bad("a reference to before the start", &AGAIN),
            bad("text that is not UTF-8", &[0, 2, 0, 0xfd, 0xff, 0xc3, 0x28, 0]),
        ],
    );
}

#[test]
fn bl_17_rsv1_stands_on_the_first_frame_and_counts_for_all() {
    let halves = |first: u8, second: u8, key| {
        [masked(first, &HELLO[..4], key), masked(second, &HELLO[4..], key)]
    };
    play(
        compressing(),
        vec![
            Case::closes("RSV1 on a continuation", 1002, move |key| {
                halves(0x41, 0xC0, key).concat()
            }),
            Case::closes("RSV1 on a continuation only", 1002, |key| {
                [masked(0x01, b"He", key), masked(0xC0, b"llo", key)].concat()
            }),
            Case::closes("RSV2 beside it", 1002, |key| masked(0xE1, &HELLO, key)),
            Case::answers("two fragments", &[hello()], move |key| halves(0x41, 0x80, key).concat()),
            Case::answers("an uncompressed message", &[hello()], |key| masked(0x81, b"Hello", key)),
            Case::answers("one of each", &[hello(), hello(), hello()], |key| {
                let compressed = masked(0xC1, &HELLO, key);
                [compressed.clone(), masked(0x81, b"Hello", key), compressed].concat()
            }),
            Case::answers("a ping within", &[Got::Pong(b"p".to_vec()), hello()], move |key| {
                let [one, other] = halves(0x41, 0x80, key);
                [one, masked(0x89, b"p", key), other].concat()
            }),
        ],
    );
}

#[test]
fn bl_17_without_an_agreement_rsv1_costs_the_connection() {
    let mut stage = Stage::new(compressing());
    stage.check(&Case::closes("RSV1 on a text", 1002, |key| masked(0xC1, &HELLO, key)));
    stage.check(&Case::closes("RSV1 on a fragment", 1002, |key| masked(0x41, &HELLO[..4], key)));
    stage.end();
}

#[test]
fn bl_18_the_second_message_is_read_as_was_agreed() {
    let twice = |second: &'static [u8]| {
        move |key| [masked(0xC1, &HELLO, key), masked(0xC1, second, key)].concat()
    };
    for takeover in ["true", "false"] {
        let mut stage = Stage::new(compressing().set("compression.context_takeover", takeover));
        for (words, _, client_keeps) in OFFERS {
            for hint in ["", "; client_max_window_bits"] {
                let offer = format!("{DEFLATE}{words}{hint}");
                let what = format!("{offer}, {takeover}");
                let both = Case::answers(&what, &[hello(), hello()], twice(&HELLO));
                stage.check(&both.offering(&offer));
                let back = if client_keeps && takeover == "true" {
                    Case::answers(&what, &[hello(), hello()], twice(&AGAIN))
                } else {
                    Case::closes(&what, 1007, twice(&AGAIN)).after(&[hello()])
                };
                stage.check(&back.offering(&offer));
            }
        }
        stage.end();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn bl_19_the_memory_of_crowds_that_vanish_goes_back_to_the_system() {
    let mut stage = Stage::new(with_takeover().set("compression.threshold", "0B"));
    let base = stage.process().resident_kib();
    for _ in 0..3 {
        vanish(&mut stage);
    }
    let now = || stage.process().resident_kib();
    eventually("the memory that there was before", || now() < base + base / 5);
    stage.end();
}

/// Opens 500 connections that keep two windows each, lets 495 of them end by a reset with answers
/// on their way, and then 20 new ones talk.
fn vanish(stage: &mut Stage) {
    let mut random = Random::new(19);
    let open = |stage: &Stage| Client::open_offering(stage.address(), "/echo", DEFLATE);
    let mut crowd: Vec<Client> = (0..500).map(|_| open(stage)).collect();
    // Fills a window.
    let long = prose(&mut random, 32 << 10);
    for client in &mut crowd {
        assert!(client.agreement.unwrap().context_takeover(Role::Server));
        client.echo(&long);
    }
    for client in &mut crowd {
        for _ in 0..5 {
            client.message(Kind::Text, prose(&mut random, 200).as_bytes());
        }
    }
    crowd.drain(5..).for_each(Client::reset);
    for _ in 0..20 {
        let mut new = open(stage);
        assert!(new.agreement.unwrap().context_takeover(Role::Server));
        for _ in 0..3 {
            new.echo(&prose(&mut random, 2_000));
            assert!(new.frames().iter().all(|frame| frame.compressed));
        }
    }
    drop(crowd);
    stage.expect_calm("a crowd that vanished");
}

//! permessage-deflate (RFC 7692) from end to end.

use plugsock::metrics::Counter;
use plugsock_ws::frame::{Header, Opcode};
use plugsock_ws::{Kind, Role};

use crate::support::{Client, Got, Random, Served, Site, eventually, frame, prose, upgrade};

pub(super) const DEFLATE: &str = "permessage-deflate";
const MIB: usize = 1 << 20;

pub(super) fn site() -> Site {
    Site::new().plugin("echo").set("compression.enabled", "true")
}

/// The extensions in the answer to a request that offers these.
fn answer(served: &Served, offer: &str) -> Option<String> {
    let field = format!("Sec-WebSocket-Extensions: {offer}\r\n");
    upgrade(served.address(), &field).0.field("sec-websocket-extensions").map(str::to_owned)
}

/// The frames of messages, without the control frames in between.
fn data_frames(client: &mut Client) -> Vec<Header> {
    client.frames().into_iter().filter(|header| !header.opcode.is_control()).collect()
}

fn wire_bytes(frames: &[Header]) -> u64 {
    frames.iter().map(|header| header.len).sum()
}

#[test]
fn nothing_is_agreed_on_unless_the_operator_wants_it() {
    let served = Site::new().plugin("echo").start();
    assert_eq!(answer(&served, DEFLATE), None);
    let mut client = Client::open_offering(served.address(), "/echo", DEFLATE);
    assert_eq!(client.agreement, None);
    client.echo(&"a".repeat(1_000));
    assert_eq!(data_frames(&mut client).len(), 1);
    client.raw(&frame(0xC1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]));
    assert_eq!(client.expect_close().0, 1002);
}

#[test]
fn the_answer_says_what_was_offered_and_what_the_operator_allows() {
    let none = "server_no_context_takeover; client_no_context_takeover";
    let served = site().start();
    for (offer, expected) in [
        (DEFLATE, format!("{DEFLATE}; {none}")),
        // What the Python package websockets and browsers offer.
        (
            "permessage-deflate; client_max_window_bits",
            format!("{DEFLATE}; {none}; client_max_window_bits=15"),
        ),
        (
            "permessage-deflate; server_max_window_bits=9; client_max_window_bits=10",
            format!("{DEFLATE}; {none}; server_max_window_bits=9; client_max_window_bits=10"),
        ),
        ("permessage-deflate; server_max_window_bits=\"10\"", {
            format!("{DEFLATE}; {none}; server_max_window_bits=10")
        }),
        ("permessage-deflate; client_max_window_bits=8", {
            format!("{DEFLATE}; {none}; client_max_window_bits=8")
        }),
        ("x-other, permessage-deflate; foo, permessage-deflate", format!("{DEFLATE}; {none}")),
    ] {
        assert_eq!(answer(&served, offer), Some(expected), "{offer}");
    }
    for bits in 9..=15 {
        let bits = bits.to_string();
        let server = site().set("compression.server_max_window_bits", &bits);
        let both = server.set("compression.client_max_window_bits", &bits);
        let served = both.set("compression.context_takeover", "true").start();
        let server = match &*bits {
            "15" => String::new(),
            less => format!("; server_max_window_bits={less}"),
        };
        let hinted = answer(&served, "permessage-deflate; client_max_window_bits");
        assert_eq!(hinted, Some(format!("{DEFLATE}{server}; client_max_window_bits={bits}")));
        // Who does not offer to keep within less may not refer back at all.
        let client = if bits == "15" { "" } else { "; client_no_context_takeover" };
        assert_eq!(answer(&served, DEFLATE), Some(format!("{DEFLATE}{client}{server}")));
    }
}

/// Offers for every combination of takeover, and whether the server and the client may use it.
pub(super) const OFFERS: [(&str, bool, bool); 4] = [
    ("", true, true),
    ("; server_no_context_takeover", false, true),
    ("; client_no_context_takeover", true, false),
    ("; server_no_context_takeover; client_no_context_takeover", false, false),
];

#[test]
fn messages_that_resemble_one_another_come_back_under_every_agreement() {
    for allowed in [true, false] {
        let takeover = if allowed { "true" } else { "false" };
        let served = site().set("compression.context_takeover", takeover).start();
        for (words, server, client) in OFFERS {
            for bits in [9, 15] {
                let offer = format!(
                    "{DEFLATE}; server_max_window_bits={bits}; client_max_window_bits={bits}{words}"
                );
                for path in ["/echo", "/builtin"] {
                    let mut conn = Client::open_offering(served.address(), path, &offer);
                    let agreed = conn.agreement.unwrap();
                    assert_eq!(agreed.context_takeover(Role::Server), server && allowed, "{offer}");
                    assert_eq!(agreed.context_takeover(Role::Client), client && allowed, "{offer}");
                    for role in [Role::Server, Role::Client] {
                        assert_eq!(agreed.window_bits(role).get(), bits, "{offer}");
                    }
                    talk(&mut conn, server && allowed && bits == 15, &format!("{path} {offer}"));
                }
            }
        }
    }
}

/// Fifty messages that share most of their 2 KB; with takeover, all but the first are short.
fn talk(client: &mut Client, refers_back: bool, what: &str) {
    let base = prose(&mut Random::new(7), 2_000);
    let mut first = 0;
    for number in 0..50 {
        let text = format!("{{\"number\":{number},\"text\":\"{base}\",\"next\":{}}}", number + 1);
        assert!(client.message(Kind::Text, text.as_bytes()), "{what}");
        client.expect(&text);
        let frames = data_frames(client);
        assert!(frames[0].compressed, "{what}: {number}");
        let size = wire_bytes(&frames);
        assert!(size < text.len() as u64 * 3 / 4, "{what}: {number} takes {size}");
        match number {
            0 => first = size,
            _ if refers_back => assert!(size < first / 4, "{what}: {size} after {first}"),
            _ => assert!(size > first / 4 * 3, "{what}: {size} after {first}"),
        }
    }
}

#[test]
fn every_size_comes_back_and_shrinks_where_it_should() {
    for takeover in ["true", "false"] {
        let served = site().set("compression.context_takeover", takeover).start();
        for bits in [9, 15] {
            for path in ["/echo", "/builtin"] {
                let offer = format!("{DEFLATE}; server_max_window_bits={bits}");
                let mut client = Client::open_offering(served.address(), path, &offer);
                for size in [0, 255, 256, 1 << 10, 64 << 10, 4 * MIB] {
                    let what = format!("{size} bytes, {path}, {bits} bits, takeover {takeover}");
                    // The built-in echo has no worker that could compress more.
                    let shrinks = size >= 256 && (path == "/echo" || size <= 64 << 10);
                    come_back(&mut client, &prose(&mut Random::new(3), size), shrinks, &what);
                    let mut random = Random::new(size as u64 + 1);
                    let noise: Vec<u8> = (0..size.div_ceil(4)).flat_map(|_| random.key()).collect();
                    let noise = &noise[..size];
                    client.binary(noise);
                    assert!(client.next() == Got::Binary(noise.to_vec()), "noise of {what}");
                    let frames = data_frames(&mut client);
                    assert!(frames.iter().all(|frame| !frame.compressed), "noise of {what}");
                }
            }
        }
    }
}

fn come_back(client: &mut Client, text: &str, shrinks: bool, what: &str) {
    client.text(text);
    assert!(client.next() == Got::Text(text.to_owned()), "{what}");
    let frames = data_frames(client);
    assert_eq!(frames[0].compressed, shrinks, "{what}");
    let size = wire_bytes(&frames);
    if shrinks {
        assert!(size < text.len() as u64, "{what}: {size}");
    } else {
        assert_eq!(size, text.len() as u64, "{what}");
    }
}

#[test]
fn a_client_may_leave_messages_uncompressed() {
    let served = site().set("compression.context_takeover", "true").start();
    let mut client = Client::open_offering(served.address(), "/echo", DEFLATE);
    let text = prose(&mut Random::new(9), 2_000);
    for _ in 0..5 {
        client.send(Opcode::Text, text.as_bytes());
        client.expect(&text);
        client.text(&text);
        client.expect(&text);
        assert!(client.frames().iter().all(|frame| frame.compressed));
    }
}

/// Texts whose likenesses lie some 2 KB back.
fn publishes() -> Vec<String> {
    let blocks: Vec<String> = (0..3).map(|seed| prose(&mut Random::new(100 + seed), 700)).collect();
    (0..200).map(|number| format!("{number:03} {}", blocks[number % 3])).collect()
}

#[test]
fn bl_20_one_room_many_agreements() {
    for bits in ["15", "9"] {
        let site = Site::new().plugin("chat").set("compression.enabled", "true");
        let site = site.set("compression.context_takeover", "true");
        let served = site
            .set("compression.threshold", "0B")
            .set("compression.server_max_window_bits", bits)
            .start();
        let open = |name: &str, offer: &str| {
            let target = format!("/chat?room=tea&name={name}");
            match offer {
                "" => Client::open(served.address(), &target),
                offer => Client::open_offering(served.address(), &target, offer),
            }
        };
        let offers = [
            "",
            "permessage-deflate; server_no_context_takeover",
            DEFLATE,
            "permessage-deflate; server_max_window_bits=9",
            DEFLATE,
        ];
        let mut clients: Vec<Client> = Vec::new();
        for (number, offer) in offers.into_iter().enumerate() {
            let mut client = open(&format!("c{number}"), offer);
            let joined = format!("* c{number} joined, {} here.", number + 1);
            client.expect(&joined);
            clients.iter_mut().for_each(|earlier| earlier.expect(&joined));
            clients.push(client);
        }
        for _ in 0..5 {
            whisper(&mut clients[4]);
            clients[4].expect(REBUKE);
        }
        clients.iter_mut().for_each(|client| drop(client.frames()));
        hear_all(&mut clients);
        let shared = |client: &mut Client| {
            let frames = data_frames(client);
            frames.iter().filter(|frame| frame.compressed && frame.len > 100).count()
        };
        assert_eq!(shared(&mut clients[0]), 0);
        for number in [1, 2, 4] {
            assert_eq!(shared(&mut clients[number]), 200, "client {number}, {bits} bits");
        }
        let narrow = if bits == "9" { 200 } else { 0 };
        assert_eq!(shared(&mut clients[3]), narrow, "a window of 9 bits, {bits} bits");
    }
}

const REBUKE: &str = "* A name has 1 to 32 characters, no colon and no star: /name Ada";

/// Asks for a message that only this client gets.
fn whisper(client: &mut Client) {
    client.text("/name *");
}

/// The first client says all there is to say, the last and the middle one are whispered to
/// meanwhile.
fn hear_all(clients: &mut [Client]) {
    for ten in publishes().chunks(10) {
        for text in ten {
            clients[0].text(text);
        }
        whisper(&mut clients[4]);
        whisper(&mut clients[2]);
        for (number, client) in clients.iter_mut().enumerate() {
            let mut whispers = usize::from(matches!(number, 2 | 4));
            let mut next = ten.iter();
            while next.len() + whispers > 0 {
                let text = client.next_text();
                if text == REBUKE {
                    whispers -= 1;
                } else {
                    assert_eq!(text, format!("c0: {}", next.next().unwrap()), "client {number}");
                }
            }
        }
    }
}

#[test]
fn takeover_is_for_as_many_as_the_budget_holds_and_is_given_back() {
    let takes_over = |client: &Client| {
        let agreed = client.agreement.unwrap();
        let (server, own) = (Role::Server, Role::Client);
        assert_eq!(agreed.context_takeover(server), agreed.context_takeover(own));
        agreed.context_takeover(server)
    };
    // Two windows of 32 KiB a connection.
    for (budget, expected) in [("131072", [true, true, false]), ("131071", [true, false, false])] {
        let site = site().set("compression.context_takeover", "true");
        let served = site.set("compression.memory_budget", budget).start();
        let open = || Client::open_offering(served.address(), "/echo", DEFLATE);
        let mut clients: Vec<Client> = (0..3).map(|_| open()).collect();
        assert_eq!(clients.iter().map(takes_over).collect::<Vec<_>>(), expected, "{budget}");
        for (client, expected) in clients.iter_mut().zip(expected) {
            talk(client, expected, budget);
        }
        for (gone, reset) in (1..).zip([false, true]) {
            let mut first = clients.remove(0);
            if reset {
                first.reset();
            } else {
                first.close(1000, "");
                assert_eq!(first.expect_close().0, 1000);
            }
            eventually("its end", || served.count(Counter::Closed) == gone);
            let mut new = open();
            assert!(takes_over(&new), "{budget}, after a reset: {reset}");
            talk(&mut new, true, "new");
            clients.insert(0, new);
            let mut late = open();
            assert!(!takes_over(&late), "{budget}");
            talk(&mut late, false, "late");
            clients.push(late);
        }
    }
}

/// A message left out would be missed by all that refer to it.
#[test]
fn a_slow_consumer_with_takeover_is_closed_rather_than_torn() {
    for policy in ["drop-newest", "drop-oldest"] {
        let site = Site::new().plugin("chat").set("compression.enabled", "true");
        let site = site.set("compression.context_takeover", "true");
        let site = site.set("limits.outbox_size", "64KiB").set("limits.slow_consumer", policy);
        // Without pings, a host that goes on in silence is found out.
        let site = site.set("heartbeat.enabled", "false");
        let served = site.set("server.close_timeout", "20s").start();
        let room = |name: &str| format!("/chat?room=tea&name={name}");
        let (address, target) = (served.address(), room("sleeper"));
        let mut sleeper = Client::open_offering_with_buffers(address, &target, DEFLATE, 4096);
        sleeper.expect("* sleeper joined, 1 here.");
        let mut talker = Client::open(served.address(), &room("talker"));
        talker.expect("* talker joined, 2 here.");
        let mut random = Random::new(5);
        let mut said = Vec::new();
        while served.count_slow() == 0 {
            let text = format!("{} {}", said.len(), prose(&mut random, 4_000));
            talker.text(&text);
            let heard = format!("talker: {text}");
            while talker.next_text() != heard {}
            said.push(heard);
            assert!(said.len() < 20_000, "80 MB wait somewhere");
        }
        let mut heard = 0;
        let end = loop {
            match sleeper.next() {
                Got::Text(text) if text.starts_with("* ") => {}
                Got::Text(text) => {
                    assert!(text == said[heard], "{heard} is torn, or comes after a gap");
                    heard += 1;
                }
                other => break other,
            }
        };
        assert!(matches!(end, Got::Close(1008, _)), "{policy}: {end:?}");
        assert!(heard < said.len());
        assert!(sleeper.frames().iter().any(|frame| frame.compressed));
        sleeper.close(1008, "");
        sleeper.expect_end();
    }
}

//! The closing handshake, from either side.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use plugsock::metrics::Counter;

use crate::support::{Client, Got, Records, Served, Site, eventually, frame};

/// A client of `farewell` that is told how the others ended.
fn watcher(served: &Served) -> Client {
    let mut watcher = Client::open(served.address(), "/farewell");
    watcher.text("watch");
    watcher.expect("watching");
    watcher
}

#[test]
fn messages_before_a_close_frame_are_answered_and_none_behind_it() {
    let served = Site::new().plugin("sleepy").plugin("echo").start();
    for path in ["/echo", "/builtin", "/sleepy"] {
        let mut client = Client::open(served.address(), path);
        let mut bytes = Vec::new();
        for number in 0..150 {
            let text = match path {
                "/sleepy" if number % 50 == 0 => "sleep 20".to_owned(),
                _ => number.to_string(),
            };
            bytes.extend(frame(0x81, text.as_bytes()));
        }
        bytes.extend(frame(0x88, b"\x0f\xa0done"));
        bytes.extend(frame(0x81, b"too late"));
        bytes.extend(frame(0x89, b"too late"));
        client.raw(&bytes);
        for number in 0..150 {
            let text = match path {
                "/sleepy" if number % 50 == 0 => "slept".to_owned(),
                _ => number.to_string(),
            };
            client.expect(&text);
        }
        assert_eq!(client.expect_close().0, 4000, "{path}");
    }
}

#[test]
fn each_end_is_told_once_and_by_its_own_code() {
    let served = Site::new().plugin("farewell").start();
    let mut watcher = watcher(&served);
    let open = || {
        let mut client = Client::open(served.address(), "/farewell");
        client.echo("hello");
        client
    };
    let mut told = |how: &str, code: u16| {
        assert_eq!(watcher.next_text(), format!("left {code}"), "{how}");
        watcher.text("members");
        watcher.expect("1");
    };

    let mut client = open();
    client.close(1000, "");
    client.expect_close();
    told("client closes with 1000", 1000);
    let mut client = open();
    client.close(4321, "with a reason");
    client.expect_close();
    told("client closes with 4321", 4321);
    let mut client = open();
    client.close_without_code();
    client.expect_close();
    told("client closes without a code", 1005);
    open().reset();
    told("reset", 1006);
    let mut client = open();
    client.finish();
    client.expect_end();
    told("end of the stream", 1006);
    let mut client = open();
    client.text("close 3001 go");
    assert_eq!(client.expect_close(), (3001, "go".to_owned()));
    told("plugin closes", 3001);
    let mut client = open();
    client.raw(b"\x81\x02hi");
    assert_eq!(client.expect_close().0, 1002);
    told("protocol error", 1002);
    // Both at once: the first close frame counts.
    let mut client = open();
    client.close(1000, "");
    client.close(1001, "");
    assert_eq!(client.expect_close().0, 1000);
    told("two close frames", 1000);
}

#[test]
fn bl_05_a_plugin_closes_with_what_may_stand_on_the_wire_and_nothing_else() {
    let served = Site::new().plugin("farewell").start();
    let longest = "r".repeat(123);
    for (code, reason) in [(1000, ""), (1013, "later"), (4999, &*longest), (3000, "ä€𝄞")] {
        let mut client = Client::open(served.address(), "/farewell");
        client.text("before");
        client.text(&format!("close {code} {reason}"));
        client.expect("before");
        assert_eq!(client.expect_close(), (code, reason.to_owned()));
    }
    let mut client = Client::open(served.address(), "/farewell");
    for bad in ["999", "1004", "1005", "1006", "1015", "2999", "5000"] {
        client.text(&format!("close {bad} x"));
        let Got::Text(error) = client.next() else { panic!("closed with {bad}") };
        assert!(!error.is_empty());
    }
    client.text(&format!("close 1000 {longest}r"));
    assert!(matches!(client.next(), Got::Text(_)), "a reason of 124 bytes");
    client.echo("still open");
}

/// Two hundred, not the thousand of the report: a test has as many descriptors as its host.
#[test]
fn bl_28_peers_that_do_not_answer_the_close_frame_are_dropped_whatever_else_they_send() {
    const CLIENTS: usize = 200;
    let site = Site::new().plugin("recorder").set("server.close_timeout", "2s");
    let served = site.start();
    let mut records = Records::watch(served.address());
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|number| {
            let mut client = Client::open(served.address(), &format!("/recorder?name={number}"));
            client.text("close 4001");
            client
        })
        .collect();
    for client in &mut clients {
        assert_eq!(client.next(), Got::Close(4001, String::new()));
    }
    let noise = [frame(0x89, b"but I am here"), frame(0x81, &[b'x'; 1_000])].concat();
    let mut sockets: Vec<_> = clients.into_iter().map(|client| client.socket).collect();
    let mut said = 0;
    eventually("the end of all", || {
        sockets.retain_mut(|socket| match socket.write_all(&noise) {
            Ok(()) => true,
            Err(error) => {
                let kind = error.kind();
                assert!(
                    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
                    "{kind}"
                );
                false
            }
        });
        said += 1;
        plugsock::task::sleep(Duration::from_millis(50));
        sockets.is_empty()
    });
    assert!(said > 1, "nobody was heard after the close frame");
    records.until_ended(CLIENTS);
    records.settle();
    assert_eq!(records.close_codes().len(), CLIENTS);
    assert!(records.close_codes().values().all(|code| *code == 4001));
    // The command that closes, and nothing that came behind it.
    assert_eq!(served.count(Counter::MessagesIn), CLIENTS as u64 + 1);
    for number in 0..CLIENTS {
        assert_eq!(records.of(&number.to_string()).len(), 3);
    }
    assert_eq!(served.count(Counter::Closed), CLIENTS as u64);
}

#[test]
fn a_close_frame_waits_for_a_running_handler_but_not_for_ever() {
    let site = Site::new().plugin("sleepy").set("server.close_timeout", "300ms");
    let served =
        site.set("workers.call_deadline", "1h").set("server.drain_timeout", "50ms").start();
    let mut client = Client::open(served.address(), "/sleepy");
    client.text("sleep 3600000");
    client.close(1000, "");
    assert_eq!(client.expect_close().0, 1000);
}

#[test]
fn a_fault_behind_a_message_waits_for_its_answer() {
    let served = Site::new().plugin("sleepy").start();
    let mut client = Client::open(served.address(), "/sleepy");
    client.raw(&[frame(0x81, b"sleep 200"), frame(0x91, b"")].concat());
    client.expect("slept");
    assert_eq!(client.expect_close(), (1002, "reserved bits are set".to_owned()));
}

/// Nothing but the end of the handler is missing, and nobody waits for that.
#[test]
fn a_peer_that_answers_the_close_frame_is_let_go_though_its_handler_runs() {
    let site = Site::new().plugin("sleepy").set("workers.call_deadline", "1h");
    let site = site.set("server.drain_timeout", "1h").set("server.close_timeout", "30s");
    let process = site.spawn();
    let mut client = Client::open(process.address(), "/sleepy");
    client.echo("hello");
    client.text("sleep 3600000");
    client.ping(b"");
    assert_eq!(client.next(), Got::Pong(Vec::new()));
    process.signal("TERM");
    client.socket.set_read_timeout(Some(WELL_BEFORE_THE_TIMEOUT)).unwrap();
    assert_eq!(client.expect_close().0, 1001);
}

/// Of a `close_timeout` of 30 s.
const WELL_BEFORE_THE_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn a_plugin_that_closes_does_not_wait_for_the_messages_behind() {
    let served = Site::new().plugin("farewell").set("server.close_timeout", "30s").start();
    let mut watcher = watcher(&served);
    for _ in 0..20 {
        let mut client = Client::open(served.address(), "/farewell");
        client.socket.set_read_timeout(Some(WELL_BEFORE_THE_TIMEOUT)).unwrap();
        let mut bytes = frame(0x81, b"close 3001 go");
        for _ in 0..60 {
            bytes.extend(frame(0x81, b"late"));
        }
        client.raw(&bytes);
        assert_eq!(client.expect_close(), (3001, "go".to_owned()));
        watcher.expect("left 3001");
    }
}

/// The peer has said all and shut its side: what its messages lead to still reaches it.
#[test]
fn a_close_frame_and_the_end_of_the_stream_behind_it_lose_no_answer() {
    let served = Site::new().plugin("echo").plugin("sleepy").start();
    for path in ["/echo", "/builtin", "/sleepy"] {
        let mut client = Client::open(served.address(), path);
        let mut bytes = Vec::new();
        if path == "/sleepy" {
            bytes.extend(frame(0x81, b"sleep 100"));
        }
        (0..20).for_each(|number: u32| bytes.extend(frame(0x81, number.to_string().as_bytes())));
        bytes.extend(frame(0x88, &1000_u16.to_be_bytes()));
        client.raw(&bytes);
        client.finish();
        if path == "/sleepy" {
            client.expect("slept");
        }
        (0..20).for_each(|number| client.expect(&number.to_string()));
        assert_eq!(client.next(), Got::Close(1000, String::new()), "{path}");
        client.expect_end();
    }
}

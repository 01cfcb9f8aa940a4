//! Pings either way, and peers that vanish without a word.

use std::io::Read;
use std::time::Duration;

use socket2::SockRef;

use crate::support::{Client, Got, Served, Site, eventually, frame, masked, spawn};

#[test]
fn bl_09_a_silent_peer_is_gone_and_one_that_answers_stays() {
    let site = Site::new().plugin("farewell");
    let site = site.set("heartbeat.interval", "100ms").set("heartbeat.timeout", "400ms");
    let served = site.start();
    let mut watcher = Client::open(served.address(), "/farewell");
    watcher.text("watch");
    watcher.expect("watching");
    for _ in 0..2 {
        let silent = Client::open(served.address(), "/farewell");
        // It answers pings while it waits for this.
        watcher.expect("left 1006");
        drop(silent);
    }
    watcher.echo("and stays");
}

#[test]
fn pings_come_unasked_and_messages_count_as_signs_of_life() {
    let site = Site::new().plugin("echo");
    let served = site.set("heartbeat.interval", "50ms").set("heartbeat.timeout", "5s").start();
    let mut client = Client::open(served.address(), "/echo");
    client.ignore_pings();
    for _ in 0..3 {
        assert!(matches!(client.next(), Got::Ping(_)));
    }
    client.text("hello");
    loop {
        match client.next() {
            Got::Ping(_) => {}
            got => break assert_eq!(got, Got::Text("hello".to_owned())),
        }
    }
}

/// While its handler runs and its queue is full, the host does not read: that is no silence.
#[test]
fn a_peer_that_the_host_does_not_read_is_not_called_silent() {
    let site = Site::new().plugin("sleepy").set("workers.queue_per_connection", "1");
    let site = site.set("workers.call_deadline", "10s");
    let served = site.set("heartbeat.interval", "50ms").set("heartbeat.timeout", "200ms").start();
    let mut client = Client::open(served.address(), "/sleepy");
    client.text("sleep 1500");
    client.text("and then");
    client.ignore_pings();
    let mut texts = Vec::new();
    while texts.len() < 2 {
        match client.next() {
            Got::Ping(_) => {}
            Got::Text(text) => texts.push(text),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(texts, ["slept", "and then"]);
}

/// The handler runs and the queue is full: no message is taken, but what stands before it is.
#[test]
fn a_ping_before_a_message_that_must_wait_is_answered_at_once() {
    let site = Site::new().plugin("sleepy").set("workers.queue_per_connection", "1");
    let served = site.set("workers.call_deadline", "30s").start();
    let mut client = Client::open(served.address(), "/sleepy");
    client.text("sleep 2000");
    for body in [b"one", b"two"] {
        client.ping(body);
        assert_eq!(client.next(), Got::Pong(body.to_vec()));
    }
    client.text("then this");
    client.expect("slept");
    client.expect("then this");
}

/// Longer than twice the timeout. The report has pings every 2 s, a timeout of 3 s and 10 MB.
const BUSY: usize = 60;
const STEP: Duration = Duration::from_millis(50);

/// One that takes its time to send a message, one that only pings, one that only pongs: none of
/// them answers a ping.
#[test]
fn bl_24_any_byte_from_the_peer_is_a_sign_of_life() {
    let site = Site::new().plugin("echo");
    let served = site.set("heartbeat.interval", "200ms").set("heartbeat.timeout", "1200ms").start();
    let open = || {
        let mut client = Client::open(served.address(), "/echo");
        client.ignore_pings();
        client
    };
    let (mut slow, mut pings, mut pongs) = (open(), open(), open());
    let message = vec![7; 60_000];
    for part in frame(0x82, &message).chunks(60_008 / BUSY + 1) {
        slow.raw(part);
        pings.raw(&frame(0x89, b"here"));
        pongs.raw(&frame(0x8A, b"here"));
        plugsock::task::sleep(STEP);
    }
    pings.text("and still");
    pongs.text("and still");
    let all_but_pings = |client: &mut Client| {
        loop {
            match client.next() {
                Got::Ping(_) | Got::Pong(_) => {}
                got => return got,
            }
        }
    };
    assert!(all_but_pings(&mut slow) == Got::Binary(message));
    assert_eq!(all_but_pings(&mut pings), Got::Text("and still".to_owned()));
    assert_eq!(all_but_pings(&mut pongs), Got::Text("and still".to_owned()));
}

/// Sixteen megabytes for a client that reads 200 KB every 50 ms, until all has left the host. What
/// the kernel still holds then is read at once, since the ping stands behind it.
#[test]
fn bl_24_bytes_that_the_peer_takes_are_a_sign_of_life() {
    let served = slow_reader_site().start();
    let (mut client, mut publisher, id) = slow_reader(&served);
    let mut slowly = 0;
    for number in 0..80 {
        if buffered(&mut publisher, &id) > 0 {
            plugsock::task::sleep(STEP);
            slowly += 1;
        }
        assert_eq!(number_of(&mut client), number);
    }
    client.echo("and still");
    assert!(STEP * slowly > Duration::from_millis(1_200), "too little waited in the host");
}

/// The other way round: the last four megabytes are read slowly. The host's kernel must not take
/// them all at once, or the pings would stand behind them.
#[test]
fn bl_24_bytes_that_the_kernel_still_holds_are_no_silence() {
    let served = slow_reader_site().start();
    let (mut client, ..) = slow_reader(&served);
    for number in 0..80 {
        if number >= 60 {
            plugsock::task::sleep(STEP * 4);
        }
        assert_eq!(number_of(&mut client), number);
    }
    client.echo("and still");
}

fn slow_reader_site() -> Site {
    let site = Site::new().plugin("publisher").set("limits.outbox_size", "32MiB");
    site.set("heartbeat.interval", "200ms").set("heartbeat.timeout", "1200ms")
}

/// A client to whom eighty messages of 200 KB are on their way, who it is, and another one.
fn slow_reader(served: &Served) -> (Client, Client, String) {
    let mut client = Client::open_with_buffers(served.address(), "/publisher", 32 << 10);
    client.text("id");
    let id = client.next_text();
    let mut publisher = Client::open(served.address(), "/publisher");
    publisher.text(&format!("send {id} 0 80 200000"));
    publisher.expect("done");
    (client, publisher, id)
}

fn buffered(publisher: &mut Client, id: &str) -> usize {
    publisher.text(&format!("buffered {id}"));
    publisher.next_text().parse().unwrap()
}

fn number_of(client: &mut Client) -> usize {
    client.next_text()[..10].parse().unwrap()
}

/// A plugin cannot send a pong, so that the report's last case has no counterpart here.
#[test]
fn bl_25_pings_are_answered_with_their_body_and_unasked_pongs_are_harmless() {
    let served = Site::new().plugin("echo").start();
    for path in ["/echo", "/builtin"] {
        let mut client = Client::open(served.address(), path);
        client.raw(&masked(0x89, b"abcd", [0x37, 0xfa, 0x21, 0x3d]));
        assert_eq!(client.next(), Got::Pong(b"abcd".to_vec()));
        client.raw(&frame(0x89, b""));
        assert_eq!(client.next(), Got::Pong(Vec::new()));
        client.raw(&frame(0x89, &[0xff; 125]));
        assert_eq!(client.next(), Got::Pong(vec![0xff; 125]));

        let ten: Vec<u8> = (0..10).flat_map(|number| frame(0x89, &[number])).collect();
        client.raw(&ten);
        let mut last = None;
        while last != Some(9) {
            let Got::Pong(body) = client.next() else { panic!("not a pong") };
            assert!(body.first().copied() > last, "{body:?} after {last:?}");
            last = body.first().copied();
        }
        client.raw(&[frame(0x8A, b""), frame(0x8A, b"zzzz"), frame(0x8A, &[0; 125])].concat());
        client.echo("nothing has come of them");
        client.raw(&frame(0x89, &[0; 126]));
        assert_eq!(client.expect_close().0, 1002);
    }
}

/// A million pings on twenty connections that read nothing. Only the newest ping need be answered,
/// so that they cost the host no memory.
#[test]
#[cfg(target_os = "linux")]
fn bl_26_a_flood_of_pings_from_clients_that_do_not_read() {
    let site = Site::new().plugin("echo").set("limits.max_control_rate", "65534");
    let process = site.spawn();
    let mut bystander = Client::open(process.address(), "/echo");
    bystander.echo("warm");
    let base = process.resident_kib();
    let mut flooders: Vec<Client> = (0..20)
        .map(|_| {
            let flooder = Client::open_narrow(process.address(), "/echo");
            // Narrow in one direction only: it writes without waiting for acknowledgements.
            SockRef::from(&flooder.socket).set_send_buffer_size(1 << 20).unwrap();
            flooder
        })
        .collect();
    let pings: Vec<u8> = (0..500).flat_map(|_| frame(0x89, &[b'p'; 125])).collect();
    for round in 0..100 {
        flooders.iter_mut().for_each(|flooder| flooder.raw(&pings));
        bystander.echo(&round.to_string());
    }
    let mut flooder = flooders.pop().unwrap();
    flooder.ping(b"the last one");
    // The newest pong may overtake older ones.
    while flooder.next() != Got::Pong(b"the last one".to_vec()) {}
    flooder.text("back again");
    eventually("its own words", || flooder.next() == Got::Text("back again".to_owned()));
    let grown = process.peak_kib().saturating_sub(base);
    assert!(grown < 16 << 10, "{grown} KiB for 131 MB of pings");
}

/// As many pings as the host answers, from a client that reads the answers.
#[test]
fn bl_26_a_flood_of_pings_from_a_client_that_reads() {
    let site = Site::new().plugin("echo").set("limits.max_control_rate", "65534");
    let served = site.start();
    let mut bystander = Client::open(served.address(), "/echo");
    let mut flooder = Client::open(served.address(), "/echo");
    let mut reading = flooder.socket.try_clone().unwrap();
    let reader = spawn(move || {
        let mut all = Vec::new();
        let _ = reading.read_to_end(&mut all);
        all
    });
    let pings: Vec<u8> = (0..500).flat_map(|_| frame(0x89, &[b'p'; 125])).collect();
    for round in 0..100 {
        flooder.raw(&pings);
        bystander.echo(&round.to_string());
    }
    flooder.ping(b"the last one");
    flooder.close(1000, "");
    let answers = reader.join().unwrap();
    // Only this pong must come; the close frame stands behind it.
    assert!(answers.ends_with(b"\x8a\x0cthe last one\x88\x02\x03\xe8"), "{}", answers.len());
}

//! Peers that vanish without a word.

use crate::support::{Client, Got, Site};

#[test]
fn a_silent_peer_is_gone_and_one_that_answers_stays() {
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

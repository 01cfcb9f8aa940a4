//! Tells the channel "watch" of every connection: "opened ID" at the end of its on-open and
//! "closed ID CODE" in its on-close. `?turns=N` in the target makes on-open compute for so many
//! million turns first.
//!
//! "watch" subscribes; everything else is echoed.

use std::hint::black_box;

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{Channel, Close, Connection, Message, Plugin, register};

const WATCH: Channel<'static> = Channel::new("watch");

#[derive(Default)]
struct Ledger;

impl Plugin for Ledger {
    fn on_open(&mut self, conn: Connection) {
        let request = conn.upgrade_request();
        let turns = request.and_then(|request| request.query_param("turns"));
        compute(turns.and_then(|turns| turns.parse().ok()).unwrap_or(0));
        note(&format!("opened {}", conn.id()));
    }

    fn on_message(&mut self, conn: Connection, message: Message) {
        match command(&message) {
            ("watch", "") => match conn.subscribe(WATCH.name()) {
                Ok(()) => reply(conn, "watching"),
                Err(error) => reply(conn, &error.to_string()),
            },
            _ => echo(conn, &message),
        }
    }

    fn on_close(&mut self, conn: Connection, close: Close) {
        note(&format!("closed {} {}", conn.id(), close.code.get()));
    }
}

register!(Ledger);

fn compute(millions: u64) {
    for turn in 0..millions * 1_000_000 {
        black_box(turn);
    }
}

fn note(text: &str) {
    if let Err(error) = WATCH.publish(text) {
        eprintln!("guest cannot publish: {error}");
    }
}

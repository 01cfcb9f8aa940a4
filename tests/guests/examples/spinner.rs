//! Computes: "loop" never ends, "spin N" does so N million times and answers "spun N"; everything
//! else is echoed. It imports nothing to wait with, not even a clock.

use std::hint::black_box;

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{Connection, Message, Plugin, register};

#[derive(Default)]
struct Spinner;

impl Plugin for Spinner {
    fn on_message(&mut self, conn: Connection, message: Message) {
        match command(&message) {
            ("spin", millions) => {
                let Ok(turns) = millions.parse::<u64>() else { return reply(conn, "not a number") };
                (0..turns * 1_000_000).for_each(|turn| {
                    black_box(turn);
                });
                reply(conn, &format!("spun {millions}"));
            }
            ("loop", _) => while black_box(true) {},
            _ => echo(conn, &message),
        }
    }
}

register!(Spinner);

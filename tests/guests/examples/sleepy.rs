//! Takes its time: "sleep MS" waits in the host's clock and answers "slept", "spin MS" computes
//! that long and answers "spun", "loop" never ends; everything else is echoed.
//!
//! It needs the clocks of WASI, so it is not built for `wasm32-unknown-unknown`.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{Connection, Message, Plugin, register};

#[derive(Default)]
struct Sleepy;

impl Plugin for Sleepy {
    fn on_message(&mut self, conn: Connection, message: Message) {
        match command(&message) {
            ("sleep", ms) => with_time(conn, ms, sleep, "slept"),
            ("spin", ms) => with_time(conn, ms, spin, "spun"),
            ("loop", _) => while black_box(true) {},
            _ => echo(conn, &message),
        }
    }
}

register!(Sleepy);

fn with_time(conn: Connection, ms: &str, pass: fn(Duration), answer: &str) {
    let Ok(ms) = ms.parse() else { return reply(conn, "not a number") };
    pass(Duration::from_millis(ms));
    reply(conn, answer);
}

#[expect(clippy::disallowed_methods, reason = "a guest has no clock but WASI's")]
fn sleep(time: Duration) {
    thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "a guest has no clock but WASI's")]
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

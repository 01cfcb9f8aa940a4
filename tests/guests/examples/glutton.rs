//! Wants more than it may have: "grow" allocates until the allocation fails, "stack" recurses
//! without end, "flood" sends ten million messages of 1 KiB and then answers "flooded"; everything
//! else is echoed.

use std::hint::black_box;

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{Connection, Message, Plugin, register};

#[derive(Default)]
struct Glutton;

impl Plugin for Glutton {
    fn on_message(&mut self, conn: Connection, message: Message) {
        match command(&message) {
            ("grow", _) => grow(),
            ("stack", _) => reply(conn, &recurse(black_box(0)).to_string()),
            ("flood", _) => flood(conn),
            _ => echo(conn, &message),
        }
    }
}

register!(Glutton);

/// Ends in the allocator's abort, which is a trap.
fn grow() {
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    while black_box(true) {
        hoard.push(black_box(vec![1; 1 << 20]));
    }
}

/// Not a tail call: each frame waits for the next one's result.
#[expect(unconditional_recursion, reason = "this guest is for it")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    recurse(depth + 1) + frame.iter().sum::<u64>()
}

/// Refusals are counted and do not stop it.
fn flood(conn: Connection) {
    let payload = [b'x'; 1 << 10];
    let refused = (0..10_000_000).filter(|_| conn.send_binary(&payload).is_err()).count();
    reply(conn, &format!("flooded, {refused} refused"));
}

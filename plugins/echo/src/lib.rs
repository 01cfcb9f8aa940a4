//! Sends every message back to where it came from.

use plugsock_plugin::{Connection, Message, Plugin, register};

#[derive(Default)]
struct Echo;

impl Plugin for Echo {
    fn on_message(&mut self, conn: Connection, message: Message) {
        if let Err(error) = conn.send(message) {
            eprintln!("cannot echo: {error}");
        }
    }
}

register!(Echo);

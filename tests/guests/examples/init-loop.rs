//! `init` never returns.

use std::hint::black_box;

use plugsock_guests::echo;
use plugsock_plugin::{BoxError, Connection, Lifecycle, Message, Plugin, register};

#[derive(Default)]
struct InitLoop;

impl Plugin for InitLoop {
    fn on_message(&mut self, conn: Connection, message: Message) {
        echo(conn, &message);
    }
}

impl Lifecycle for InitLoop {
    fn init(&mut self) -> Result<(), BoxError> {
        while black_box(true) {}
        Ok(())
    }
}

register!(InitLoop: Lifecycle);

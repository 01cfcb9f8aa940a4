//! `init` fails with "no luck today"; nothing must ever be handled.

use plugsock_guests::echo;
use plugsock_plugin::{BoxError, Connection, Lifecycle, Message, Plugin, register};

#[derive(Default)]
struct BadInit;

impl Plugin for BadInit {
    fn on_message(&mut self, conn: Connection, message: Message) {
        echo(conn, &message);
    }
}

impl Lifecycle for BadInit {
    fn init(&mut self) -> Result<(), BoxError> {
        Err("no luck today".into())
    }
}

register!(BadInit: Lifecycle);

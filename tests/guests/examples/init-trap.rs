//! `init` panics.

use plugsock_guests::echo;
use plugsock_plugin::{BoxError, Connection, Lifecycle, Message, Plugin, register};

#[derive(Default)]
struct InitTrap;

impl Plugin for InitTrap {
    fn on_message(&mut self, conn: Connection, message: Message) {
        echo(conn, &message);
    }
}

impl Lifecycle for InitTrap {
    #[expect(clippy::panic, reason = "this guest is for it")]
    fn init(&mut self) -> Result<(), BoxError> {
        panic!("init panics");
    }
}

register!(InitTrap: Lifecycle);

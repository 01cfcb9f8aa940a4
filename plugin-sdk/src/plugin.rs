use std::error::Error;

use crate::{Close, Connection, Message};

/// Any error, made from a `&str` or `String` with `into()` or from another error with `?`.
pub type BoxError = Box<dyn Error>;

/// What a plugin does. Every method has a default that does nothing.
///
/// The host makes an instance with [`Default`] and calls it from one thread, never while another
/// of its calls is running. It keeps several instances unless the configuration says
/// `instances = "single"`, and any of them may serve any connection.
///
/// [`register!`](crate::register!) exports the type.
pub trait Plugin: Default + 'static {
    /// The upgrade is complete; the client may already have sent messages.
    fn on_open(&mut self, conn: Connection) {
        let _ = conn;
    }

    /// One complete message, reassembled and inflated (RFC 6455 §5.6). Not called after the
    /// client's close frame.
    fn on_message(&mut self, conn: Connection, message: Message) {
        let _ = (conn, message);
    }

    /// The connection is gone and in no channel any more: sending to it is an error, publishing
    /// is not. Its attachment and its request can still be read. Comes exactly once per
    /// [`on_open`](Plugin::on_open).
    fn on_close(&mut self, conn: Connection, close: Close) {
        let _ = (conn, close);
    }
}

/// Optional: lets a plugin prepare itself and refuse to serve. Exported with
/// `register!(MyPlugin: Lifecycle)`.
pub trait Lifecycle: Plugin {
    /// Called once per instance, before any other call and under the same deadline.
    ///
    /// # Errors
    ///
    /// The instance does not serve; the operator reads the message.
    fn init(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    /// For a host that swaps versions while it runs, which asks it whether a new one may go live.
    /// This version of the host does not, and never calls it.
    ///
    /// # Errors
    ///
    /// The version is not fit to go live; the text says why.
    fn healthy(&mut self) -> Result<(), BoxError> {
        Ok(())
    }
}

//! Values that several steps of a message's journey share. Nothing here does I/O, waits or locks.

mod id;
mod message;
mod request;

pub use id::{ConnectionId, PluginId, RouteId};
pub use message::{Kept, Message};
pub use plugsock_ws::Kind;
pub use request::{Header, Request};

//! Write Plugsock plugins in Rust: WebSocket handlers that run sandboxed as
//! WebAssembly components, in instances that the host may replace while clients stay connected.
//!
//! A whole plugin, which sends every message to everyone in the lobby:
//!
//! ```no_run
//! use plugsock_plugin::{Channel, Connection, Message, Plugin, register};
//!
//! const LOBBY: Channel<'static> = Channel::new("lobby");
//!
//! #[derive(Default)]
//! struct Lobby;
//!
//! impl Plugin for Lobby {
//!     fn on_open(&mut self, conn: Connection) {
//!         if let Err(error) = conn.subscribe(LOBBY.name()) {
//!             eprintln!("cannot join: {error}");
//!         }
//!     }
//!
//!     fn on_message(&mut self, _conn: Connection, message: Message) {
//!         if let Err(error) = LOBBY.publish(message) {
//!             eprintln!("cannot publish: {error}");
//!         }
//!     }
//! }
//!
//! register!(Lobby);
//! ```
//!
//! `Cargo.toml` needs `crate-type = ["cdylib"]` under `[lib]` and this crate as its one
//! dependency; `cargo build --release --target wasm32-wasip2` gives the component.
//!
//! # What a handler may rely on
//!
//! - For one connection, `on_open`, every `on_message` and `on_close` run one after another, in
//!   order. Different connections may run in different instances at the same time.
//! - Effects (send, publish, subscribe, close, attachment) are collected and take effect when the
//!   handler returns, in the order asked for. A handler that panics or passes its deadline leaves
//!   nothing behind. [`flush`] commits early.
//! - The host runs several instances of a plugin and replaces them when it likes, so fields of the
//!   plugin are a cache. What must last belongs in [`Connection::set_attachment`]. Only with
//!   `instances = "single"` does one instance see every event.
//! - A panic is a trap: the instance is gone, its state with it.
//!
//! # Logging
//!
//! `eprintln!` and `println!` become log lines of the host, one per line of text. A panic becomes
//! one warning with its place and message. (Not in components built for
//! `wasm32-unknown-unknown`, where the standard library has no output.)
//!
//! # Testing
//!
//! On any target but WebAssembly the `testing` module stands in for the host, so that a plugin's
//! unit tests run with plain `cargo test`.

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
mod channel;
mod close;
mod connection;
mod error;
#[cfg(target_arch = "wasm32")]
mod host;
mod message;
mod plugin;
#[doc(hidden)]
pub mod register;
mod request;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

#[cfg(not(target_arch = "wasm32"))]
use testing::host;

pub use channel::{Channel, Frame, broadcast, broadcast_frame, flush};
pub use close::{Close, CloseCode};
pub use connection::Connection;
pub use error::{CloseError, EffectError};
pub use message::{AsMessage, Message, MessageRef};
pub use plugin::{BoxError, Lifecycle, Plugin};
pub use request::{Header, Request};

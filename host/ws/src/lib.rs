//! The WebSocket protocol (RFC 6455) without I/O: bytes in, events and bytes out.
//!
//! There is no socket, clock, thread or source of randomness in here. The caller reads bytes and
//! hands them in, writes the bytes that come out, and brings masking keys where the client role
//! needs them.
//!
//! The modules in the order in which a connection and its messages travel:
//!
//! 1. [`handshake`]: the HTTP request becomes an upgrade or a refusal. Bytes after the head are
//!    frames already and go to the machine.
//!    [`extension`]: whether and how messages are compressed.
//! 2. [`Input`]: a cursor over the bytes of one receive. The buffer belongs to the caller, who
//!    may use one for all connections.
//! 3. [`frame`]: header, length and masking key; encoding for the sender, who may split a message
//!    ([`fragment`]).
//! 4. [`mask`]: payloads are unmasked where they lie.
//! 5. `assemble`: what outlives one receive. A connection owns heap memory only while a frame or
//!    a fragmented message is incomplete.
//! 6. [`deflate`]: compressed messages are inflated in bounded steps. Compressors and
//!    decompressors belong to the caller, who needs one set for all connections of a thread.
//! 7. `utf8`: text is checked as it comes, over the seams of fragments and receives.
//! 8. [`close`]: close codes and reasons that may stand on the wire.
//! 9. [`Machine`]: ties these together and keeps the state of the closing handshake.
//! 10. [`Error`]: the broken rule, whose fault it is and the close code that says so.
//!
//! An echo server's whole turn, from received bytes to bytes to send:
//!
//! ```
//! use plugsock_ws::{Event, Input, Limits, Machine, Role, close, frame};
//!
//! fn turn(machine: &mut Machine, limits: &Limits, received: &mut [u8], out: &mut Vec<u8>) {
//!     let mut input = Input::new(received);
//!     loop {
//!         match machine.next(limits, &mut input) {
//!             Ok(Some(Event::Message { kind, payload })) => frame::encode(kind, payload, out),
//!             Ok(Some(Event::Ping(payload))) => frame::pong(payload, out).unwrap_or_default(),
//!             Ok(Some(Event::Pong(_))) => {}
//!             Ok(Some(Event::Close(frame))) => _ = machine.close(frame, out, None),
//!             Ok(None) => break,
//!             Err(error) => {
//!                 let code = close::Frame::bare(error.close_code());
//!                 machine.close(Some(code), out, None);
//!             }
//!         }
//!     }
//! }
//!
//! let mut out = Vec::new();
//! let mut received = *b"\x81\x82\0\0\0\0hi\x88\x80\0\0\0\0";
//! turn(&mut Machine::new(Role::Server), &Limits::default(), &mut received, &mut out);
//! assert_eq!(out, *b"\x81\x02hi\x88\x00");
//! ```

#![warn(clippy::indexing_slicing)]

pub mod extension;
pub mod handshake;

mod input;

pub mod fragment;
pub mod frame;
pub mod mask;

mod assemble;
pub mod deflate;
mod utf8;

pub mod close;

mod error;
mod machine;

pub use error::{Error, Fault};
pub use frame::Role;
pub use input::Input;
pub use machine::{Event, Kind, Limits, Machine, State, Step};

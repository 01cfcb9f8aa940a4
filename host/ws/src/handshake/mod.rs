//! The opening handshake (RFC 6455 §4) over HTTP/1.1 (RFC 9112).
//!
//! A server feeds received bytes to a [`HeadBuffer`] until the head is complete, reads it as a
//! [`Request`], takes the [`Upgrade`] out of it, and answers with [`accept`] or with a
//! [`Refusal`]. Other requests than upgrades are told apart, so a caller may answer them.
//!
//! A client writes an [`Offer`] and verifies the answer with it.

mod client;
mod field;
mod head;
mod key;
mod refusal;
mod request;
mod upgrade;

pub use client::{Failure, Offer, ResponseHead};
pub(crate) use field::is_token_byte;
pub use field::{Field, InvalidField};
pub use head::{HeadBuffer, HeadLimits, Progress};
pub use key::Key;
pub use refusal::{InvalidStatus, Refusal};
pub use request::Request;
pub use upgrade::{Upgrade, accept, accept_with, choose_subprotocol};

//! The host's functions, in this crate's types. `testing::host` is its twin for native targets.

pub(crate) use crate::bindings::plugin::plugsock::plugin::channels::Frame;

use crate::bindings::plugin::plugsock::plugin::{channels, connections, outbox, types};
use crate::{CloseError, EffectError, Header, MessageRef, Request};

pub(crate) fn send(conn: u64, message: MessageRef<'_>) -> Result<(), EffectError> {
    connections::send(conn, message.into()).map_err(Into::into)
}

pub(crate) fn close(conn: u64, code: u16, reason: &str) -> Result<(), CloseError> {
    connections::close(conn, code, reason).map_err(Into::into)
}

pub(crate) fn upgrade_request(conn: u64) -> Option<Request> {
    connections::upgrade_request(conn).map(Into::into)
}

pub(crate) fn attachment(conn: u64) -> Option<Vec<u8>> {
    connections::attachment(conn)
}

pub(crate) fn set_attachment(conn: u64, attachment: &[u8]) -> Result<(), EffectError> {
    connections::set_attachment(conn, attachment).map_err(Into::into)
}

pub(crate) fn buffered(conn: u64) -> u64 {
    connections::buffered(conn)
}

pub(crate) fn subscribe(conn: u64, channel: &str) -> Result<(), EffectError> {
    channels::subscribe(conn, channel).map_err(Into::into)
}

pub(crate) fn unsubscribe(conn: u64, channel: &str) -> Result<(), EffectError> {
    channels::unsubscribe(conn, channel).map_err(Into::into)
}

pub(crate) fn publish(
    channel: &str,
    message: MessageRef<'_>,
    except: Option<u64>,
) -> Result<(), EffectError> {
    channels::publish(channel, message.into(), except).map_err(Into::into)
}

pub(crate) fn frame(message: MessageRef<'_>) -> Frame {
    Frame::new(message.into())
}

pub(crate) fn publish_frame(
    channel: &str,
    frame: &Frame,
    except: Option<u64>,
) -> Result<(), EffectError> {
    channels::publish_frame(channel, frame, except).map_err(Into::into)
}

pub(crate) fn broadcast(message: MessageRef<'_>) -> Result<(), EffectError> {
    channels::broadcast(message.into()).map_err(Into::into)
}

pub(crate) fn broadcast_frame(frame: &Frame) -> Result<(), EffectError> {
    channels::broadcast_frame(frame).map_err(Into::into)
}

pub(crate) fn subscribers(channel: &str) -> u64 {
    channels::subscribers(channel)
}

pub(crate) fn flush() {
    outbox::flush();
}

impl<'a> From<MessageRef<'a>> for types::MessageParam<'a> {
    fn from(message: MessageRef<'a>) -> Self {
        match message {
            MessageRef::Text(text) => Self::Text(text),
            MessageRef::Binary(bytes) => Self::Binary(bytes),
        }
    }
}

impl From<types::EffectError> for EffectError {
    fn from(error: types::EffectError) -> Self {
        match error {
            types::EffectError::NotOpen => Self::NotOpen,
            types::EffectError::TooLarge => Self::TooLarge,
            types::EffectError::OverBudget => Self::OverBudget,
            types::EffectError::Other(reason) => Self::Other(reason),
        }
    }
}

impl From<connections::CloseError> for CloseError {
    fn from(error: connections::CloseError) -> Self {
        match error {
            connections::CloseError::NotOpen => Self::NotOpen,
            connections::CloseError::InvalidCode => Self::InvalidCode,
            connections::CloseError::ReasonTooLong => Self::ReasonTooLong,
            connections::CloseError::Other(reason) => Self::Other(reason),
        }
    }
}

impl From<types::Request> for Request {
    fn from(request: types::Request) -> Self {
        let header = |field: types::Header| Header { name: field.name, value: field.value };
        Self {
            path: request.path,
            query: request.query,
            headers: request.headers.into_iter().map(header).collect(),
            client_address: request.client_address,
            secure: request.secure,
            subprotocols: request.subprotocols,
        }
    }
}

//! The values of `wit/` as they cross into and out of a guest.
//!
//! Written by hand so that a payload is never copied on the way: what goes in is borrowed, what
//! comes out stays in the guest's memory until the host has read it. wasmtime compares each of
//! them with the component's own types when it is loaded; a test compares them with `wit/`.

use std::borrow::Cow;

use wasmtime::StoreContext;
use wasmtime::component::{ComponentType, Lift, Lower, WasmList, WasmStr};

use super::host;
use crate::types::{self, Kind};

/// The interface that makes a component a plugin.
pub(super) const HANDLER: &str = "plugsock:plugin/handler@0.1.0";
/// Optional: prepares an instance.
pub(super) const LIFECYCLE: &str = "plugsock:plugin/lifecycle@0.1.0";
/// Optional: decides upgrades.
pub(super) const GATE: &str = "plugsock:plugin/gate@0.1.0";
/// Single connections.
pub(super) const CONNECTIONS: &str = "plugsock:plugin/connections@0.1.0";
/// Groups of connections.
pub(super) const CHANNELS: &str = "plugsock:plugin/channels@0.1.0";
/// Early commit.
pub(super) const OUTBOX: &str = "plugsock:plugin/outbox@0.1.0";

/// `types.message` on its way into a guest.
#[derive(Clone, Copy, Debug, ComponentType, Lower)]
#[component(variant)]
pub(super) enum Message<'a> {
    #[component(name = "text")]
    Text(&'a str),
    #[component(name = "binary")]
    Binary(&'a [u8]),
}

/// `types.message` in the memory of the guest that asks for something.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Payload {
    #[component(name = "text")]
    Text(WasmStr),
    #[component(name = "binary")]
    Binary(WasmList<u8>),
}

/// `types.close-frame` on its way into a guest.
#[derive(Clone, Copy, Debug, ComponentType, Lower)]
#[component(record)]
pub(super) struct CloseFrame<'a> {
    #[component(name = "code")]
    pub(super) code: u16,
    #[component(name = "reason")]
    pub(super) reason: &'a str,
}

/// `types.effect-error`.
#[derive(Debug, ComponentType, Lower)]
#[component(variant)]
pub(super) enum EffectError {
    #[component(name = "not-open")]
    NotOpen,
    #[component(name = "too-large")]
    TooLarge,
    #[component(name = "over-budget")]
    OverBudget,
    #[component(name = "other")]
    Other(String),
}

/// `connections.close-error`.
#[derive(Debug, ComponentType, Lower)]
#[component(variant)]
pub(super) enum CloseError {
    #[component(name = "not-open")]
    NotOpen,
    #[component(name = "invalid-code")]
    InvalidCode,
    #[component(name = "reason-too-long")]
    ReasonTooLong,
    #[component(name = "other")]
    Other(String),
}

/// `types.header`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(super) struct Header {
    #[component(name = "name")]
    name: String,
    #[component(name = "value")]
    value: Vec<u8>,
}

/// `types.request`.
#[derive(Debug, ComponentType, Lower)]
#[component(record)]
pub(super) struct Request {
    #[component(name = "path")]
    path: String,
    #[component(name = "query")]
    query: Option<String>,
    #[component(name = "headers")]
    headers: Vec<Header>,
    #[component(name = "client-address")]
    client_address: String,
    #[component(name = "secure")]
    secure: bool,
    #[component(name = "subprotocols")]
    subprotocols: Vec<String>,
}

impl Payload {
    /// The bytes where they lie. Text is copied only for a guest that keeps its strings in UTF-16.
    ///
    /// # Errors
    /// Text that is not Unicode: the guest breaks the component model's rules and traps.
    pub(super) fn read<'a, T: 'static>(
        &self,
        memory: impl Into<StoreContext<'a, T>>,
    ) -> wasmtime::Result<(Kind, Cow<'a, [u8]>)> {
        Ok(match self {
            Self::Text(text) => match text.to_str(memory)? {
                Cow::Borrowed(text) => (Kind::Text, Cow::Borrowed(text.as_bytes())),
                Cow::Owned(text) => (Kind::Text, Cow::Owned(text.into_bytes())),
            },
            Self::Binary(bytes) => (Kind::Binary, Cow::Borrowed(bytes.as_le_slice(memory))),
        })
    }
}

impl From<host::EffectError> for EffectError {
    fn from(error: host::EffectError) -> Self {
        match error {
            host::EffectError::NotOpen => Self::NotOpen,
            host::EffectError::TooLarge => Self::TooLarge,
            host::EffectError::OverBudget => Self::OverBudget,
        }
    }
}

impl From<host::CloseError> for CloseError {
    fn from(error: host::CloseError) -> Self {
        match error {
            host::CloseError::NotOpen => Self::NotOpen,
            host::CloseError::InvalidCode => Self::InvalidCode,
            host::CloseError::ReasonTooLong => Self::ReasonTooLong,
            host::CloseError::OverBudget => {
                Self::Other("this call's budget of effects is used up".to_owned())
            }
        }
    }
}

impl From<&types::Request> for Request {
    fn from(request: &types::Request) -> Self {
        Self {
            path: request.path.clone(),
            query: request.query.clone(),
            headers: request.headers.iter().map(Header::from).collect(),
            client_address: request.client_address.to_string(),
            secure: request.secure,
            subprotocols: request.subprotocols.clone(),
        }
    }
}

impl From<&types::Header> for Header {
    fn from(header: &types::Header) -> Self {
        Self { name: header.name.clone(), value: header.value.clone() }
    }
}

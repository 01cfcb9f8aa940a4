//! The HTTP request that asked for an upgrade, as a plugin may see it.

use std::net::IpAddr;

/// One header field; the name is lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Lower case.
    pub name: String,
    /// As it came; not necessarily UTF-8.
    pub value: Vec<u8>,
}

/// The request that opened a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Absolute path without the query, percent-encoding kept.
    pub path: String,
    /// What followed the first `?`.
    pub query: Option<String>,
    /// In the order in which they came.
    pub headers: Vec<Header>,
    /// The client's address.
    pub client_address: IpAddr,
    /// Whether the client's own hop was encrypted.
    pub secure: bool,
    /// What `Sec-WebSocket-Protocol` offered, in order.
    pub subprotocols: Vec<String>,
}

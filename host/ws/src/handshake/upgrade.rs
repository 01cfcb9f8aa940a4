//! The server's side of the opening handshake (RFC 6455 §4.2).

use super::field::{elements, is_token};
use super::{Field, InvalidField, Key, Refusal, Request};
use crate::extension::Agreement;

/// A valid request to speak WebSocket.
#[derive(Debug)]
pub struct Upgrade<'a> {
    request: &'a Request<'a>,
    key: Key,
    subprotocols: Vec<&'a str>,
    origin: Option<&'a str>,
}

const VERSION: &[u8] = b"13";

impl<'a> Upgrade<'a> {
    /// Takes the upgrade out of a request (RFC 6455 §4.2.1). `Ok(None)` is an ordinary GET that
    /// asks for no WebSocket: serve it, or answer [`Refusal::upgrade_required`].
    pub fn from_request(request: &'a Request<'a>) -> Result<Option<Self>, Refusal> {
        if request.method() != "GET" {
            return Err(Refusal::method_not_allowed());
        }
        let asks = request.has_token("upgrade", "websocket");
        if !asks && request.header("sec-websocket-key").is_none() {
            return Ok(None);
        }
        if !asks {
            return Err(Refusal::bad_request("The Upgrade header does not list websocket."));
        }
        if !request.has_token("connection", "upgrade") {
            return Err(Refusal::bad_request("The Connection header does not list Upgrade."));
        }
        let version = only(request, "sec-websocket-version")
            .map_err(|()| Refusal::bad_request("Sec-WebSocket-Version is repeated."))?;
        if version != Some(VERSION) {
            return Err(Refusal::version_required());
        }
        let key = only(request, "sec-websocket-key")
            .ok()
            .flatten()
            .and_then(Key::parse)
            .ok_or(Refusal::bad_request("Sec-WebSocket-Key is not one key of 16 bytes."))?;
        let origin = only(request, "origin")
            .and_then(|origin| origin.map(std::str::from_utf8).transpose().map_err(|_| ()))
            .map_err(|()| Refusal::bad_request("The Origin header is malformed or repeated."))?;
        let subprotocols = offered_subprotocols(request)?;
        Ok(Some(Self { request, key, subprotocols, origin }))
    }

    /// The request that asked.
    pub const fn request(&self) -> &'a Request<'a> {
        self.request
    }

    /// What [`accept`] answers.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// The subprotocols offered, the client's favourite first.
    pub fn subprotocols(&self) -> &[&'a str] {
        &self.subprotocols
    }

    /// The values of `Sec-WebSocket-Extensions`, unparsed, in order. See
    /// [`Policy::negotiate`](crate::extension::Policy::negotiate).
    pub fn extensions(&self) -> impl Iterator<Item = &'a [u8]> {
        self.request.headers("sec-websocket-extensions")
    }

    /// The origin of the page that asked, if it was a page.
    pub const fn origin(&self) -> Option<&'a str> {
        self.origin
    }
}

/// Appends the 101 response (RFC 6455 §4.2.2). `subprotocol` is one of those offered. Nothing is
/// appended if it or one of `fields` may not be sent; the handshake's own fields are reserved.
pub fn accept(
    key: &Key,
    subprotocol: Option<&str>,
    fields: &[Field<'_>],
    out: &mut Vec<u8>,
) -> Result<(), InvalidField> {
    accept_with(key, subprotocol, None, fields, out)
}

/// As [`accept`], with the extension agreed on, if there is one.
pub fn accept_with(
    key: &Key,
    subprotocol: Option<&str>,
    agreement: Option<&Agreement>,
    fields: &[Field<'_>],
    out: &mut Vec<u8>,
) -> Result<(), InvalidField> {
    if subprotocol.is_some_and(|name| !is_token(name.as_bytes())) {
        return Err(InvalidField::Value);
    }
    let reserved = ["connection", "upgrade", "content-length", "transfer-encoding"];
    if fields.iter().any(|field| field.is_reserved(&reserved)) {
        return Err(InvalidField::Reserved);
    }
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\n\
          Upgrade: websocket\r\n\
          Connection: Upgrade\r\n\
          Sec-WebSocket-Accept: ",
    );
    out.extend_from_slice(key.answer().as_bytes());
    out.extend_from_slice(b"\r\n");
    if let Some(subprotocol) = subprotocol {
        Field::new("Sec-WebSocket-Protocol", subprotocol.as_bytes())?.encode(out);
    }
    if let Some(agreement) = agreement {
        Field::new("Sec-WebSocket-Extensions", agreement.to_string().as_bytes())?.encode(out);
    }
    for field in fields {
        field.encode(out);
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The first offered subprotocol that is supported; the case of letters matters (RFC 6455
/// §4.2.2). `None` leaves the field out of the response.
pub fn choose_subprotocol<'a>(
    offered: &[&'a str],
    supported: &[impl AsRef<str>],
) -> Option<&'a str> {
    let is_supported = |name: &str| supported.iter().any(|supported| supported.as_ref() == name);
    offered.iter().copied().find(|name| is_supported(name))
}

/// All that `Sec-WebSocket-Protocol` offers, over any number of lines (RFC 6455 §11.3.4).
fn offered_subprotocols<'a>(request: &Request<'a>) -> Result<Vec<&'a str>, Refusal> {
    let malformed = || Refusal::bad_request("Sec-WebSocket-Protocol is not a list of tokens.");
    let mut offered = Vec::new();
    for value in request.headers("sec-websocket-protocol") {
        let before = offered.len();
        for element in elements(value) {
            let name = std::str::from_utf8(element).ok().filter(|name| is_token(name.as_bytes()));
            offered.push(name.ok_or_else(malformed)?);
        }
        if offered.len() == before {
            return Err(malformed());
        }
    }
    Ok(offered)
}

/// The value of the only field called `name`, `None` without one, an error if it is repeated.
fn only<'a>(request: &Request<'a>, name: &str) -> Result<Option<&'a [u8]>, ()> {
    let mut values = request.headers(name);
    let value = values.next();
    if values.next().is_some() { Err(()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_unless_all_may_be_sent() {
        let key = Key::from_nonce([0; 16]);
        let mut out = Vec::new();
        assert_eq!(accept(&key, Some("a\r\nb"), &[], &mut out), Err(InvalidField::Value));
        assert_eq!(accept(&key, Some(""), &[], &mut out), Err(InvalidField::Value));
        for name in ["Upgrade", "connection", "SEC-WEBSOCKET-ACCEPT", "Content-Length"] {
            let field = Field::new(name, b"x").unwrap();
            assert_eq!(accept(&key, None, &[field], &mut out), Err(InvalidField::Reserved));
        }
        assert!(out.is_empty());
    }

    #[test]
    fn the_first_offered_and_supported_subprotocol_is_chosen() {
        assert_eq!(choose_subprotocol(&["a", "b", "c"], &["c", "b"]), Some("b"));
        assert_eq!(choose_subprotocol(&["B"], &["b"]), None);
        assert_eq!(choose_subprotocol(&[], &["b"]), None);
        assert_eq!(choose_subprotocol(&["b"], &[] as &[&str]), None);
    }
}

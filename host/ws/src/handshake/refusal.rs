//! The HTTP response that ends a handshake.

use std::borrow::Cow;
use std::fmt;

use super::field::write_field;
use super::{Field, InvalidField};

/// A complete HTTP/1.1 response that refuses the request. The connection is closed after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: u16,
    fields: Vec<(Cow<'static, str>, Cow<'static, [u8]>)>,
    body: Cow<'static, [u8]>,
}

/// A refusal's status is 400 to 599.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct InvalidStatus(pub u16);

const DEFAULT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";

impl Refusal {
    /// Any status from 400 to 599 with a body that is sent as it is.
    pub fn new(status: u16, body: impl Into<Cow<'static, [u8]>>) -> Result<Self, InvalidStatus> {
        match status {
            400..=599 => Ok(Self { status, fields: Vec::new(), body: body.into() }),
            _ => Err(InvalidStatus(status)),
        }
    }

    /// 400: the request is malformed.
    pub const fn bad_request(sentence: &'static str) -> Self {
        Self::sentence(400, sentence)
    }

    /// 403: the request may not be served, for instance because of its origin.
    pub const fn forbidden(sentence: &'static str) -> Self {
        Self::sentence(403, sentence)
    }

    /// 404: nothing is served at this path.
    pub const fn not_found() -> Self {
        Self::sentence(404, "Nothing is served at this path.")
    }

    /// 405: only GET is served.
    pub fn method_not_allowed() -> Self {
        Self::sentence(405, "Only GET is served here.").with("Allow", "GET")
    }

    /// 414: the request target is too long.
    pub const fn uri_too_long() -> Self {
        Self::sentence(414, "The request target is too long.")
    }

    /// 426: an ordinary request came where only WebSocket is spoken (RFC 9110 §15.5.22).
    pub fn upgrade_required() -> Self {
        Self::sentence(426, "Only WebSocket is spoken here.").with("Upgrade", "websocket")
    }

    /// 426: another version of WebSocket is asked for (RFC 6455 §4.4).
    pub fn version_required() -> Self {
        Self::sentence(426, "Only version 13 of WebSocket is spoken here.")
            .with("Upgrade", "websocket")
            .with("Sec-WebSocket-Version", "13")
    }

    /// 429: this client has too much open or comes too often.
    pub fn too_many_requests(retry_after_s: u32) -> Self {
        Self::sentence(429, "Too many connections from this client.").retry_after(retry_after_s)
    }

    /// 431: the head is too large or has too many header fields (RFC 6585 §5).
    pub const fn header_too_large() -> Self {
        Self::sentence(431, "The header is too large.")
    }

    /// 503: the server is full or stops.
    pub fn unavailable(sentence: &'static str, retry_after_s: u32) -> Self {
        Self::sentence(503, sentence).retry_after(retry_after_s)
    }

    /// Adds a field. `Content-Type` replaces the default; fields that frame the response
    /// (`Connection`, `Content-Length`, `Transfer-Encoding`) are reserved.
    pub fn with_field(mut self, field: Field<'_>) -> Result<Self, InvalidField> {
        if field.is_reserved(&["connection", "content-length", "transfer-encoding"]) {
            return Err(InvalidField::Reserved);
        }
        self.fields.push((field.name().to_owned().into(), field.value().to_owned().into()));
        Ok(self)
    }

    /// 400 to 599.
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// What the client reads.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Appends the whole response.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (status, reason) = (self.status, reason_phrase(self.status));
        out.extend_from_slice(format!("HTTP/1.1 {status} {reason}\r\n").as_bytes());
        let has =
            |name: &str| self.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        if !has("content-type") {
            write_field("Content-Type", DEFAULT_CONTENT_TYPE.as_bytes(), out);
        }
        write_field("Content-Length", self.body.len().to_string().as_bytes(), out);
        // RFC 9110 §7.8: who sends `Upgrade` also names it in `Connection`.
        let connection = if has("upgrade") { "Upgrade, close" } else { "close" };
        write_field("Connection", connection.as_bytes(), out);
        for (name, value) in &self.fields {
            write_field(name, value, out);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }

    const fn sentence(status: u16, sentence: &'static str) -> Self {
        Self { status, fields: Vec::new(), body: Cow::Borrowed(sentence.as_bytes()) }
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.fields.push(("Retry-After".into(), seconds.to_string().into_bytes().into()));
        self
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.fields.push((name.into(), value.as_bytes().into()));
        self
    }
}

/// The status and, where it is text, the body.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for InvalidStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} is not between 400 and 599", self.0)
    }
}

impl std::error::Error for InvalidStatus {}

/// Empty where the status is not one of those we send ourselves; that is legal (RFC 9112 §4).
const fn reason_phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        414 => "URI Too Long",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(refusal: &Refusal) -> String {
        let mut out = Vec::new();
        refusal.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_refusal_is_a_complete_response() {
        assert_eq!(
            text(&Refusal::unavailable("Full.", 7)),
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 5\r\nConnection: close\r\nRetry-After: 7\r\n\r\nFull."
        );
    }

    #[test]
    fn what_is_supported_is_said() {
        assert!(text(&Refusal::method_not_allowed()).contains("\r\nAllow: GET\r\n"));
        let upgrade = text(&Refusal::upgrade_required());
        assert!(upgrade.contains("\r\nUpgrade: websocket\r\n"), "{upgrade}");
        assert!(upgrade.contains("\r\nConnection: Upgrade, close\r\n"), "{upgrade}");
        let version = text(&Refusal::version_required());
        assert!(version.contains("\r\nSec-WebSocket-Version: 13\r\n"), "{version}");
    }

    #[test]
    fn the_status_is_400_to_599() {
        for status in [0, 101, 200, 399, 600, u16::MAX] {
            assert_eq!(Refusal::new(status, b"".as_slice()), Err(InvalidStatus(status)));
        }
        let teapot = Refusal::new(418, b"short".as_slice()).unwrap();
        assert!(text(&teapot).starts_with("HTTP/1.1 418 \r\n"));
        assert!(Refusal::new(400, b"".as_slice()).is_ok());
        assert!(Refusal::new(599, b"".as_slice()).is_ok());
    }

    #[test]
    fn fields_that_frame_the_response_are_reserved() {
        for name in ["Connection", "content-length", "Transfer-Encoding", "Sec-WebSocket-Accept"] {
            let field = Field::new(name, b"1").unwrap();
            let refused = Refusal::not_found().with_field(field);
            assert_eq!(refused, Err(InvalidField::Reserved));
        }
        let html = Field::new("content-type", b"text/html").unwrap();
        let response = text(&Refusal::not_found().with_field(html).unwrap());
        assert!(!response.contains("text/plain") && response.contains("text/html"));
    }
}

//! The client's side of the opening handshake (RFC 6455 §4.1).

use std::fmt;

use httparse::EMPTY_HEADER;

use super::field::{elements, is_token, values};
use super::head::HeadError;
use super::{Field, HeadBuffer, HeadLimits, InvalidField, Key, Progress};
use crate::extension::{Agreement, Policy};

/// What a client asks for, and by which it judges the answer.
#[derive(Copy, Clone, Debug)]
pub struct Offer<'a> {
    /// Host and, unless it is the default, port.
    pub host: &'a str,
    /// Absolute path and query, percent-encoded.
    pub target: &'a str,
    /// New for each connection.
    pub key: Key,
    /// The favourite first.
    pub subprotocols: &'a [&'a str],
    /// Sent besides; the handshake's own fields are reserved.
    pub fields: &'a [Field<'a>],
}

/// The head of a response, as far as it has come.
#[derive(Debug)]
pub struct ResponseHead(HeadBuffer);

/// Why there is no WebSocket connection after the server's answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The head is not HTTP/1.1.
    Malformed,
    /// The head is over a limit.
    TooLarge,
    /// Another status than 101.
    Status(u16),
    /// `Upgrade` does not name websocket.
    Upgrade,
    /// `Connection` does not list Upgrade.
    Connection,
    /// `Sec-WebSocket-Accept` does not answer the key.
    Accept,
    /// A subprotocol that was not offered, or several.
    Subprotocol,
    /// An extension that was not offered, or not so.
    Extension,
}

impl<'a> Offer<'a> {
    /// Appends the request, or nothing if part of it may not be sent.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), InvalidField> {
        self.write_with(None, out)
    }

    /// As [`write`](Self::write), with an offer of permessage-deflate if there is a policy.
    pub fn write_with(
        &self,
        compression: Option<&Policy>,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidField> {
        let is_path =
            self.target.starts_with('/') && self.target.bytes().all(|b| b.is_ascii_graphic());
        if !is_path || !self.subprotocols.iter().all(|name| is_token(name.as_bytes())) {
            return Err(InvalidField::Value);
        }
        let reserved = ["host", "connection", "upgrade", "content-length", "transfer-encoding"];
        if self.fields.iter().any(|field| field.is_reserved(&reserved)) {
            return Err(InvalidField::Reserved);
        }
        let host = Field::new("Host", self.host.as_bytes())?;

        out.extend_from_slice(format!("GET {} HTTP/1.1\r\n", self.target).as_bytes());
        host.encode(out);
        out.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n");
        out.extend_from_slice(b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ");
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(b"\r\n");
        if !self.subprotocols.is_empty() {
            let list = self.subprotocols.join(", ");
            Field::new("Sec-WebSocket-Protocol", list.as_bytes())?.encode(out);
        }
        if let Some(policy) = compression {
            Field::new("Sec-WebSocket-Extensions", policy.offer().as_bytes())?.encode(out);
        }
        for field in self.fields {
            field.encode(out);
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Judges the complete head of the answer and returns the subprotocol that was chosen.
    pub fn verify(&self, head: &ResponseHead) -> Result<Option<&'a str>, Failure> {
        self.verify_with(None, head).map(|(subprotocol, _)| subprotocol)
    }

    /// As [`verify`](Self::verify), where [`write_with`](Self::write_with) was given the same
    /// policy. Returns what was agreed on, too.
    pub fn verify_with(
        &self,
        compression: Option<&Policy>,
        head: &ResponseHead,
    ) -> Result<(Option<&'a str>, Option<Agreement>), Failure> {
        let mut fields = vec![EMPTY_HEADER; head.0.fields()];
        let mut response = httparse::Response::new(&mut fields);
        let status = response.parse(head.0.bytes()).map_err(|_| Failure::Malformed)?;
        let (Some(code), Some(1), true) = (response.code, response.version, status.is_complete())
        else {
            return Err(Failure::Malformed);
        };
        if code != 101 {
            return Err(Failure::Status(code));
        }
        if !has_token(&fields, "upgrade", b"websocket") {
            return Err(Failure::Upgrade);
        }
        if !has_token(&fields, "connection", b"upgrade") {
            return Err(Failure::Connection);
        }
        let mut answers = values(&fields, "sec-websocket-accept");
        let answer = answers.next().unwrap_or_default();
        if answer != self.key.answer().as_bytes() || answers.next().is_some() {
            return Err(Failure::Accept);
        }
        let mut extensions = values(&fields, "sec-websocket-extensions");
        let agreement = match compression {
            Some(policy) => policy.verify(extensions).map_err(|_| Failure::Extension)?,
            None if extensions.any(|value| elements(value).next().is_some()) => {
                return Err(Failure::Extension);
            }
            None => None,
        };
        Ok((self.chosen_subprotocol(&fields)?, agreement))
    }

    fn chosen_subprotocol(
        &self,
        fields: &[httparse::Header<'_>],
    ) -> Result<Option<&'a str>, Failure> {
        let mut chosen = values(fields, "sec-websocket-protocol");
        let Some(name) = chosen.next() else {
            return Ok(None);
        };
        let offered = self.subprotocols.iter().find(|offered| offered.as_bytes() == name);
        match (offered, chosen.next()) {
            (Some(name), None) => Ok(Some(name)),
            _ => Err(Failure::Subprotocol),
        }
    }
}

impl ResponseHead {
    /// An empty buffer. It allocates with the first byte.
    pub fn new() -> Self {
        Self(HeadBuffer::for_response())
    }

    /// Takes bytes as far as the head goes. `max_target` plays no part.
    pub fn push(&mut self, limits: &HeadLimits, bytes: &[u8]) -> Result<Progress, Failure> {
        self.0.collect(limits, bytes).map_err(|error| match error {
            HeadError::Malformed(_) => Failure::Malformed,
            HeadError::TargetTooLong | HeadError::TooLarge => Failure::TooLarge,
        })
    }
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the answer is not HTTP/1.1"),
            Self::TooLarge => f.write_str("the answer's head is too large"),
            Self::Status(status) => write!(f, "the server answered with status {status}"),
            Self::Upgrade => f.write_str("the answer's Upgrade does not name websocket"),
            Self::Connection => f.write_str("the answer's Connection does not list Upgrade"),
            Self::Accept => f.write_str("Sec-WebSocket-Accept does not answer the key"),
            Self::Subprotocol => f.write_str("the server chose a subprotocol not offered"),
            Self::Extension => f.write_str("the server chose an extension that was not offered so"),
        }
    }
}

impl std::error::Error for Failure {}

fn has_token(fields: &[httparse::Header<'_>], name: &str, token: &[u8]) -> bool {
    values(fields, name).flat_map(elements).any(|element| element.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\
        Connection: keep-alive, upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    fn offer() -> Offer<'static> {
        Offer {
            host: "t",
            target: "/ws?a",
            key: Key::from_nonce(*b"the sample nonce"),
            subprotocols: &["a", "b"],
            fields: &[],
        }
    }

    fn verify(head: &str) -> Result<Option<&'static str>, Failure> {
        let mut response = ResponseHead::new();
        for byte in head.bytes() {
            response.push(&HeadLimits::default(), &[byte])?;
        }
        offer().verify(&response)
    }

    #[test]
    fn a_good_answer_passes_and_names_the_subprotocol() {
        assert_eq!(verify(&format!("{HEAD}\r\n")), Ok(None));
        assert_eq!(verify(&format!("{HEAD}Sec-WebSocket-Protocol: b\r\n\r\n")), Ok(Some("b")));
    }

    #[test]
    fn an_answer_that_breaks_one_rule_fails_by_name() {
        let with = |line: &str| verify(&format!("{HEAD}{line}\r\n\r\n"));
        assert_eq!(with("Sec-WebSocket-Protocol: c"), Err(Failure::Subprotocol));
        assert_eq!(with("Sec-WebSocket-Protocol: a, b"), Err(Failure::Subprotocol));
        assert_eq!(
            with("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a"),
            Err(Failure::Subprotocol)
        );
        assert_eq!(with("Sec-WebSocket-Extensions: x"), Err(Failure::Extension));
        assert_eq!(with("Sec-WebSocket-Accept: x"), Err(Failure::Accept));

        let replaced = |from: &str, to: &str| verify(&format!("{}\r\n", HEAD.replace(from, to)));
        assert_eq!(replaced("101", "200"), Err(Failure::Status(200)));
        assert_eq!(replaced("HTTP/1.1", "HTTP/1.0"), Err(Failure::Malformed));
        assert_eq!(replaced("WebSocket\r", "h2c\r"), Err(Failure::Upgrade));
        assert_eq!(replaced("upgrade\r", "close\r"), Err(Failure::Connection));
        assert_eq!(replaced("s3p", "S3p"), Err(Failure::Accept));
        assert_eq!(replaced("Upgrade: ", "Upgrade : "), Err(Failure::Malformed));
    }

    #[test]
    fn what_may_not_be_sent_is_not_written() {
        let host = Field::new("Host", b"u").unwrap();
        for bad in [
            Offer { host: "t\r\nX: y", ..offer() },
            Offer { target: "ws", ..offer() },
            Offer { target: "/a b", ..offer() },
            Offer { subprotocols: &["a,b"], ..offer() },
            Offer { fields: &[host], ..offer() },
        ] {
            let mut out = Vec::new();
            assert!(bad.write(&mut out).is_err(), "{bad:?}");
            assert!(out.is_empty());
        }
    }
}

//! The opening handshake (RFC 6455, section 4), as little as a server needs.

use std::io;

use plugsock_ws::extension::Agreement;
use tungstenite::handshake::derive_accept_key;

/// The length of the request head that `bytes` begin with, its blank line included.
pub(crate) fn head_len(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(at + 4)
}

/// The server's answer to a request head, with the extension that was agreed on.
pub(crate) fn accept(head: &[u8], agreement: Option<Agreement>) -> io::Result<Vec<u8>> {
    let mut keys = fields(head, "sec-websocket-key");
    let key = keys.next().ok_or_else(|| invalid("request without a key"))?;
    let accept = derive_accept_key(key);
    let mut response = format!(
        "HTTP/1.1 101 Switching Protocols\r\n\
         Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
    );
    if let Some(agreement) = agreement {
        response += &format!("Sec-WebSocket-Extensions: {agreement}\r\n");
    }
    response += "\r\n";
    Ok(response.into_bytes())
}

/// The extensions that a request head offers.
pub(crate) fn offers(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    fields(head, "sec-websocket-extensions")
}

/// A client's request, with the key of the example of section 1.3.
#[cfg(test)]
pub(crate) fn request(path: &str) -> Vec<u8> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    );
    request.into_bytes()
}

fn fields<'a>(head: &'a [u8], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    head.split(|byte| *byte == b'\n').filter_map(move |line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (field, value) = line.split_at(colon);
        field.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
    })
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use plugsock_ws::extension::Policy;

    use super::*;

    #[test]
    fn a_request_is_answered() {
        let request = request("/echo");
        assert_eq!(head_len(&request), Some(request.len()));
        assert_eq!(head_len(&request[..request.len() - 1]), None);
        let response = String::from_utf8(accept(&request, None).unwrap()).unwrap();
        assert!(response.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{response}");
        assert!(response.ends_with("\r\n\r\n"));
    }

    #[test]
    fn a_request_without_a_key_is_an_error() {
        assert!(accept(b"GET / HTTP/1.1\r\n\r\n", None).is_err());
    }

    #[test]
    fn an_offer_is_answered_with_what_was_agreed_on() {
        let mut request = request("/");
        request.truncate(request.len() - 2);
        request.extend(b"sec-websocket-extensions: permessage-deflate\r\n\r\n");
        let agreement = Policy::default().negotiate(offers(&request));
        let response = String::from_utf8(accept(&request, agreement).unwrap()).unwrap();
        assert!(response.contains("\r\nSec-WebSocket-Extensions: permessage-deflate;"));
        assert!(response.ends_with("_no_context_takeover\r\n\r\n"), "{response}");
    }
}

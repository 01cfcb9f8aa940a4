//! The opening handshake (RFC 6455, section 4), as little as both sides need to agree.

use std::io;

use tungstenite::handshake::derive_accept_key;

/// The key of all our requests: the example of section 1.3. Nobody caches on this path.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The length of the request or response head that `bytes` begin with, its blank line included.
pub(crate) fn head_len(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(at + 4)
}

/// The server's answer to a request head.
pub(crate) fn accept(head: &[u8]) -> io::Result<Vec<u8>> {
    let key = field(head, "sec-websocket-key").ok_or_else(|| invalid("request without a key"))?;
    let accept = derive_accept_key(key);
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\n\
         Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    Ok(response.into_bytes())
}

/// The client's request for `path` on `host`.
pub(crate) fn request(host: &str, path: &str) -> Vec<u8> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    request.into_bytes()
}

/// Fails unless the response head accepts our request.
pub(crate) fn check_response(head: &[u8]) -> io::Result<()> {
    if !head.starts_with(b"HTTP/1.1 101 ") {
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        return Err(invalid(&format!("the server refused the upgrade: {line}")));
    }
    match field(head, "sec-websocket-accept") {
        Some(accept) if accept == derive_accept_key(KEY.as_bytes()).as_bytes() => Ok(()),
        _ => Err(invalid("the server's Sec-WebSocket-Accept is wrong")),
    }
}

fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
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
    use super::*;

    #[test]
    fn the_two_sides_agree() {
        let request = request("localhost", "/echo");
        assert_eq!(head_len(&request), Some(request.len()));
        assert_eq!(head_len(&request[..request.len() - 1]), None);
        let response = accept(&request).unwrap();
        let text = String::from_utf8(response.clone()).unwrap();
        assert!(text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{text}");
        check_response(&response).unwrap();
    }

    #[test]
    fn a_refusal_or_a_wrong_key_is_an_error() {
        let refusal = check_response(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err();
        assert!(refusal.to_string().ends_with("HTTP/1.1 404 Not Found"), "{refusal}");
        assert!(check_response(b"HTTP/1.1 101 x\r\nSec-WebSocket-Accept: a\r\n\r\n").is_err());
        assert!(accept(b"GET / HTTP/1.1\r\n\r\n").is_err());
    }
}

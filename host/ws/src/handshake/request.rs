//! A request's head, read strictly (RFC 9112 §2–§6).

use httparse::EMPTY_HEADER;

use super::field::{elements, values};
use super::{Field, Refusal};

/// A request whose head is well formed and that has no body.
#[derive(Debug)]
pub struct Request<'a> {
    method: &'a str,
    host: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    fields: Vec<httparse::Header<'a>>,
}

impl<'a> Request<'a> {
    /// Reads a complete head with `count` header fields.
    pub(super) fn parse(head: &'a [u8], count: usize) -> Result<Self, Refusal> {
        let mut fields = vec![EMPTY_HEADER; count];
        let mut parser = httparse::Request::new(&mut fields);
        let status = parser.parse(head).map_err(|error| match error {
            httparse::Error::Version => Refusal::bad_request("Only HTTP/1.1 is spoken here."),
            httparse::Error::TooManyHeaders => Refusal::header_too_large(),
            _ => Refusal::bad_request("The request is malformed."),
        })?;
        let (Some(method), Some(target), Some(version), true) =
            (parser.method, parser.path, parser.version, status.is_complete())
        else {
            return Err(Refusal::bad_request("The request is not complete."));
        };
        if version != 1 {
            return Err(Refusal::bad_request("Only HTTP/1.1 is spoken here."));
        }

        let field_host = the_host(&fields)?;
        let (authority, target) = split_target(target)?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        if has_body(&fields) {
            return Err(Refusal::bad_request("A request with a body is not served here."));
        }
        let host = authority.unwrap_or(field_host);
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { method, host, path, query, fields })
    }

    /// The method, as it came.
    pub const fn method(&self) -> &'a str {
        self.method
    }

    /// Host and, where given, port. Of an absolute target it is the target's (RFC 9112 §3.2.2).
    pub const fn host(&self) -> &'a str {
        self.host
    }

    /// The absolute path without the query. Percent-encoding is kept.
    pub const fn path(&self) -> &'a str {
        self.path
    }

    /// What follows the first `?`.
    pub const fn query(&self) -> Option<&'a str> {
        self.query
    }

    /// All header fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> {
        self.fields.iter().map(Field::from)
    }

    /// The value of the first field called `name`, in any case.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers(name).next()
    }

    /// The values of all fields called `name`, in any case, in order.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        values(&self.fields, name)
    }

    /// Whether one of the fields called `name` lists `token`, both in any case.
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.headers(name)
            .flat_map(elements)
            .any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
    }
}

/// The one `Host` field (RFC 9112 §3.2).
fn the_host<'a>(fields: &[httparse::Header<'a>]) -> Result<&'a str, Refusal> {
    let mut hosts = values(fields, "host");
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::bad_request("Exactly one Host header is needed."));
    };
    match std::str::from_utf8(host) {
        Ok(host) if is_authority(host) => Ok(host),
        _ => Err(Refusal::bad_request("The Host header is malformed.")),
    }
}

/// An absolute target's authority, if it is one, and the path with the query.
fn split_target(target: &str) -> Result<(Option<&str>, &str), Refusal> {
    let malformed = Refusal::bad_request("The request target is malformed.");
    if !target.is_ascii() || target.contains('#') {
        return Err(malformed);
    }
    if target.starts_with('/') {
        return Ok((None, target));
    }
    let Some((scheme, rest)) = target.split_once("://") else {
        return Err(malformed);
    };
    let known = ["http", "https", "ws", "wss"];
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let known = known.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !known || authority.is_empty() || !is_authority(authority) {
        return Err(malformed);
    }
    Ok((Some(authority), path))
}

/// Whether only bytes of a host and port stand in `value` (RFC 3986 §3.2.2); no user name.
fn is_authority(value: &str) -> bool {
    // Unreserved characters, sub-delims, and what separates the port or encloses an IPv6 address.
    value.bytes().all(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'')
            || matches!(byte, b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'[' | b']')
    })
}

/// Whether a body is announced. Bodies are not read here; the bytes would pass for frames.
fn has_body(fields: &[httparse::Header<'_>]) -> bool {
    values(fields, "transfer-encoding").next().is_some()
        || values(fields, "content-length")
            .any(|length| length.is_empty() || length.iter().any(|&digit| digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Request<'_>, u16> {
        let count = head.lines().count().saturating_sub(2);
        Request::parse(head.as_bytes(), count).map_err(|refusal| refusal.status())
    }

    fn target(target: &str) -> Result<(String, String, Option<String>), u16> {
        let head = format!("GET {target} HTTP/1.1\r\nHost: t:1\r\n\r\n");
        let request = parse(&head)?;
        let query = request.query().map(str::to_owned);
        Ok((request.host().to_owned(), request.path().to_owned(), query))
    }

    #[test]
    fn targets_come_in_origin_or_absolute_form() {
        let expect = |host: &str, path: &str, query: Option<&str>| {
            Ok((host.to_owned(), path.to_owned(), query.map(str::to_owned)))
        };
        assert_eq!(target("/a/b?c?d"), expect("t:1", "/a/b", Some("c?d")));
        assert_eq!(target("/?"), expect("t:1", "/", Some("")));
        assert_eq!(target("//a"), expect("t:1", "//a", None));
        assert_eq!(target("HTTP://other:2/a?b"), expect("other:2", "/a", Some("b")));
        assert_eq!(target("ws://other"), expect("other", "/", None));
        assert_eq!(target("ws://other?b"), expect("other", "/", Some("b")));
        assert_eq!(target("http://[::1]:80/"), expect("[::1]:80", "/", None));
        for bad in ["*", "t:1", "a", "http:///a", "ftp://t/a", "http://u@t/", "/a#b", "?a", "/é"] {
            assert_eq!(target(bad), Err(400), "{bad}");
        }
    }

    #[test]
    fn bodies_are_refused() {
        let status = |field: &str| {
            parse(&format!("GET / HTTP/1.1\r\nHost: t\r\n{field}\r\n\r\n")).map(|_| ())
        };
        assert_eq!(status("Content-Length: 0"), Ok(()));
        assert_eq!(status("Content-Length: 1"), Err(400));
        assert_eq!(status("Content-Length: 0, 5"), Err(400));
        assert_eq!(status("Content-Length: +0"), Err(400));
        assert_eq!(status("Content-Length:"), Err(400));
        assert_eq!(status("Content-Length: 0\r\nContent-Length: 4"), Err(400));
        assert_eq!(status("Transfer-Encoding: chunked"), Err(400));
    }

    #[test]
    fn exactly_one_well_formed_host() {
        let status = |fields: &str| parse(&format!("GET / HTTP/1.1\r\n{fields}\r\n")).map(|_| ());
        assert_eq!(status("Host: t\r\n"), Ok(()));
        assert_eq!(status("Host:\r\n"), Ok(()));
        assert_eq!(status("X: t\r\n"), Err(400));
        assert_eq!(status("Host: t\r\nhost: t\r\n"), Err(400));
        assert_eq!(status("Host: a b\r\n"), Err(400));
        assert_eq!(status("Host: a/b\r\n"), Err(400));
        assert_eq!(status("Host : t\r\n"), Err(400));
    }

    #[test]
    fn only_http_1_1() {
        for version in ["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 "] {
            assert!(parse(&format!("GET / {version}\r\nHost: t\r\n\r\n")).is_err(), "{version}");
        }
    }

    #[test]
    fn tokens_are_found_over_several_lines() {
        let head = "GET / HTTP/1.1\r\nHost: t\r\nA: x, Yy\r\na:\tz\t\r\n\r\n";
        let request = parse(head).unwrap();
        assert!(request.has_token("a", "yY") && request.has_token("A", "Z"));
        assert!(!request.has_token("a", "y") && !request.has_token("b", "x"));
        assert_eq!(request.headers("a").collect::<Vec<_>>(), [&b"x, Yy"[..], b"z"]);
        assert_eq!(request.fields().count(), 3);
    }
}

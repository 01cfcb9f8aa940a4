/// The HTTP request that asked for the upgrade (RFC 6455 §4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Absolute path without the query, percent-encoding kept.
    pub path: String,
    /// What follows the first `?`, percent-encoding kept; `None` without a `?`.
    pub query: Option<String>,
    /// In the order of arrival; a name may come more than once.
    pub headers: Vec<Header>,
    /// Address of the client after trusted proxies, without the port.
    pub client_address: String,
    /// True where the client's own hop was encrypted, here or at a trusted proxy.
    pub secure: bool,
    /// What `Sec-WebSocket-Protocol` offered, in order.
    pub subprotocols: Vec<String>,
}

/// One HTTP header field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Lower case.
    pub name: String,
    /// Without leading and trailing white space; not always UTF-8.
    pub value: Vec<u8>,
}

impl Request {
    /// A request for this path and query and nothing else, for tests.
    #[must_use]
    pub fn new(target: &str) -> Self {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        Self { path: path.to_owned(), query, ..Self::default() }
    }

    /// The first header field of this name, which is compared without regard to case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let field = self.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        Some(&field.value)
    }

    /// The first query parameter of this name, decoded as an HTML form's: `+` is a space, `%41`
    /// is `A`, and bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn query_param(&self, name: &str) -> Option<String> {
        self.query.as_deref()?.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key) == name).then(|| decode(value))
        })
    }
}

/// A `%` without two hexadecimal digits stands for itself, as in the URL standard.
fn decode(text: &str) -> String {
    let mut rest = text.as_bytes();
    let mut decoded = Vec::with_capacity(rest.len());
    while let [byte, tail @ ..] = rest {
        rest = tail;
        decoded.push(match (byte, tail) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    rest = after;
                    high << 4 | low
                }
                _ => b'%',
            },
            _ => *byte,
        });
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Header, Request};

    #[test]
    fn a_query_parameter_is_decoded() {
        let request = Request::new("/chat?a=1&room=caf%C3%A9+au%20lait&room=second&flag");
        assert_eq!(request.path, "/chat");
        assert_eq!(request.query_param("room").as_deref(), Some("café au lait"));
        assert_eq!(request.query_param("flag").as_deref(), Some(""));
        assert_eq!(request.query_param("oo"), None);
        assert_eq!(Request::new("/chat").query_param("room"), None);
    }

    #[test]
    fn a_broken_escape_stands_for_itself() {
        let request = Request::new("/?a=100%&b=%4&c=%zz&d=%ff&e=%41%4");
        let get = |name| request.query_param(name).unwrap();
        assert_eq!(get("a"), "100%");
        assert_eq!(get("b"), "%4");
        assert_eq!(get("c"), "%zz");
        assert_eq!(get("d"), "\u{fffd}");
        assert_eq!(get("e"), "A%4");
    }

    #[test]
    fn a_header_is_found_in_any_case() {
        let mut request = Request::new("/");
        request.headers.push(Header { name: "user-agent".into(), value: b"x".to_vec() });
        assert_eq!(request.header("User-Agent"), Some(&b"x"[..]));
        assert_eq!(request.header("agent"), None);
    }
}

//! The path of a URL, and the names in it.

/// The decoded names in a path that is empty or begins with a slash; one slash at its end is
/// ignored. `None` if a name could lead anywhere but down, is hidden, or is not properly encoded.
pub(super) fn parts(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(|part| decode(part).filter(|name| is_plain(name))).collect()
}

/// The names as a path that begins with a slash, if there are any.
pub(super) fn encode(parts: &[String]) -> String {
    let mut path = String::new();
    for part in parts {
        path.push('/');
        for byte in part.bytes() {
            // RFC 3986 §2.3: the others may mean something.
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    path
}

/// Hidden files are refused because editors, version control and people keep secrets in them.
fn is_plain(name: &str) -> bool {
    let hidden = name.starts_with('.') && name != ".well-known";
    let drive_or_stream = cfg!(windows) && name.contains(':');
    !name.is_empty() && !hidden && !drive_or_stream && !name.contains(['/', '\\', '\0'])
}

/// RFC 3986 §2.1.
fn decode(part: &str) -> Option<String> {
    let mut bytes = part.bytes();
    let mut decoded = Vec::with_capacity(part.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            decoded.push(hex(bytes.next()?)? << 4 | hex(bytes.next()?)?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
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
    use super::*;

    #[test]
    fn names_lead_down_or_nowhere() {
        let some = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        for (path, expected) in [
            ("", some(&[])),
            ("/", some(&[])),
            ("/a", some(&["a"])),
            ("/a/", some(&["a"])),
            ("/a/b.css", some(&["a", "b.css"])),
            ("/%61%20b%C3%A9", some(&["a b\u{e9}"])),
            ("/a..b/c..", some(&["a..b", "c.."])),
            ("/.well-known/x", some(&[".well-known", "x"])),
            ("/%2561", some(&["%61"])),
            ("//", None),
            ("//a", None),
            ("/a//b", None),
            ("/a//", None),
            ("/.", None),
            ("/..", None),
            ("/../a", None),
            ("/a/../b", None),
            ("/%2e%2e/a", None),
            ("/.%2E/a", None),
            ("/...", None),
            ("/.git/config", None),
            ("/%2egit", None),
            ("/a%2fb", None),
            ("/..%2f..%2fetc", None),
            ("/a\\b", None),
            ("/..\\a", None),
            ("/a%5Cb", None),
            ("/a%00", None),
            ("/a\0", None),
            ("/%", None),
            ("/%4", None),
            ("/%zz", None),
            ("/%+1", None),
            ("/%ff", None),
            ("/%C0%AE%C0%AE", None),
        ] {
            assert_eq!(parts(path), expected, "{path:?}");
        }
    }

    #[test]
    fn encoding_is_undone_by_decoding() {
        let names = vec!["a b".to_owned(), "\u{e9}\r\n?#%".to_owned()];
        assert_eq!(encode(&names), "/a%20b/%C3%A9%0D%0A%3F%23%25");
        assert_eq!(parts(&encode(&names)), Some(names));
    }
}

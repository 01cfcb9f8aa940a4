//! The list in `Sec-WebSocket-Extensions` (RFC 6455 §9.1).

use std::iter;

use crate::handshake::is_token_byte;

/// One extension with its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) name: &'a [u8],
    pub(super) parameters: Vec<(&'a [u8], Option<Value<'a>>)>,
}

/// A parameter's value: a token, or one in quotes, perhaps with backslashes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Value<'a> {
    raw: &'a [u8],
}

/// An element that does not keep to the grammar.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The elements of one field's value, without the empty ones. After a malformed one it goes on
/// at the next comma outside of quotes.
///
/// Cost: one pass over the bytes, two for malformed elements.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = Result<Element<'_>, Malformed>> {
    let mut rest = value;
    iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let (element, after) = split(rest);
            rest = after;
            let mut cursor = Cursor(element);
            cursor.skip_space();
            if !cursor.0.is_empty() {
                return Some(cursor.element());
            }
        }
    })
}

/// The bytes before the first comma outside of quotes, and those after it.
fn split(list: &[u8]) -> (&[u8], &[u8]) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in list.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                let (element, rest) = list.split_at(at);
                return (element, rest.get(1..).unwrap_or_default());
            }
            _ => {}
        }
    }
    (list, &[])
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn element(&mut self) -> Result<Element<'a>, Malformed> {
        let name = self.token()?;
        let mut parameters = Vec::new();
        while self.skip(b';') {
            let name = self.token()?;
            let value = if self.skip(b'=') { Some(self.value()?) } else { None };
            parameters.push((name, value));
        }
        if self.0.is_empty() { Ok(Element { name, parameters }) } else { Err(Malformed) }
    }

    fn token(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.0.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        self.skip_space();
        if token.is_empty() { Err(Malformed) } else { Ok(token) }
    }

    /// A token or a quoted string. What the quotes hold must be a token too (RFC 6455 §9.1).
    fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let [b'"', inner @ ..] = self.0 else {
            return self.token().map(|raw| Value { raw });
        };
        let mut escaped = false;
        let end = inner.iter().position(|&byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let (raw, rest) = inner.split_at(end.ok_or(Malformed)?);
        self.0 = rest.get(1..).unwrap_or_default();
        self.skip_space();
        let value = Value { raw };
        let bytes = value.bytes();
        let is_token = !bytes.is_empty() && bytes.iter().copied().all(is_token_byte);
        if is_token { Ok(value) } else { Err(Malformed) }
    }

    /// Steps over `byte` and the white space behind it, if it comes next.
    fn skip(&mut self, byte: u8) -> bool {
        let Some((&first, rest)) = self.0.split_first() else {
            return false;
        };
        if first == byte {
            self.0 = rest;
            self.skip_space();
        }
        first == byte
    }

    fn skip_space(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }
}

impl Value<'_> {
    /// Without backslashes. A token cannot hold one.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut escaped = false;
        let is_text = |&byte: &u8| {
            escaped = byte == b'\\' && !escaped;
            !escaped
        };
        self.raw.iter().copied().filter(is_text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, parameters and values as text; `None` for a malformed element.
    fn read(list: &str) -> Vec<Option<String>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let element = |element: Element<'_>| {
            let parameters = element.parameters.iter().map(|(name, value)| match value {
                Some(value) => format!(";{}={}", text(name), text(&value.bytes())),
                None => format!(";{}", text(name)),
            });
            text(element.name) + &parameters.collect::<String>()
        };
        elements(list.as_bytes()).map(|this| this.ok().map(element)).collect()
    }

    fn all(list: &str, expected: &[Option<&str>]) {
        let expected: Vec<_> = expected.iter().map(|this| this.map(str::to_owned)).collect();
        assert_eq!(read(list), expected, "{list}");
    }

    #[test]
    fn elements_come_apart_at_commas_outside_of_quotes() {
        all("a", &[Some("a")]);
        all(" a ; b ; c = d\t, e;f=\"g\" ", &[Some("a;b;c=d"), Some("e;f=g")]);
        all(r#"a; b="c\d\e""#, &[Some("a;b=cde")]);
        all(",, a,,b ,", &[Some("a"), Some("b")]);
        all("", &[]);
        all(" \t, ,", &[]);
    }

    #[test]
    fn a_malformed_element_costs_no_other() {
        all("a;, b", &[None, Some("b")]);
        all(",;x", &[None]);
        all("a b, c", &[None, Some("c")]);
        all("a=b, c", &[None, Some("c")]);
        all("a;b=, c", &[None, Some("c")]);
        all("a;b=\"\", c", &[None, Some("c")]);
        all("a;b=\"c, d\", e", &[None, Some("e")]);
        all(r#"a;b="c\", d", e"#, &[None, Some("e")]);
        all("a;b=\"c, d", &[None]);
        all(r#"a;b="c\"#, &[None]);
        all("a;b=\"c\"d, e", &[None, Some("e")]);
        all("\"a\", b", &[None, Some("b")]);
    }
}

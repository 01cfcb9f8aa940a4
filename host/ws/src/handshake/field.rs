//! Header fields and the lists inside them (RFC 9110 §5).

use std::fmt;

/// One header field: the name is a token, the value free of CR, LF and other control
/// characters. So a field can never end the line that it stands in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    name: &'a str,
    value: &'a [u8],
}

/// Why a header field cannot be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum InvalidField {
    /// The name is not a token.
    Name,
    /// The value holds a control character, or is not what this field may say.
    Value,
    /// The field belongs to the handshake or to the framing of the message.
    Reserved,
}

impl<'a> Field<'a> {
    /// A field fit to be sent. The value may hold bytes from 0x80 on.
    pub fn new(name: &'a str, value: &'a [u8]) -> Result<Self, InvalidField> {
        if !is_token(name.as_bytes()) {
            return Err(InvalidField::Name);
        }
        if !value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..)) {
            return Err(InvalidField::Value);
        }
        Ok(Self { name, value })
    }

    /// As it came; compare it without regard to case.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Without white space around it if it was received.
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        write_field(self.name, self.value, out);
    }

    /// Whether the name is one of `names`, or of the handshake's own fields.
    pub(super) fn is_reserved(&self, names: &[&str]) -> bool {
        const PREFIX: &str = "sec-websocket-";
        let prefix = self.name.get(..PREFIX.len());
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX))
            || names.iter().any(|name| self.name.eq_ignore_ascii_case(name))
    }
}

impl<'a> From<&httparse::Header<'a>> for Field<'a> {
    fn from(header: &httparse::Header<'a>) -> Self {
        Self { name: header.name, value: header.value }
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a header name is not a token",
            Self::Value => "a header value is not allowed there",
            Self::Reserved => "a header is reserved for the handshake",
        })
    }
}

impl std::error::Error for InvalidField {}

/// Appends one header line. Neither part may hold CR or LF: see [`Field::new`].
pub(super) fn write_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The values of all fields called `name`, in order.
pub(super) fn values<'a>(
    fields: &[httparse::Header<'a>],
    name: &str,
) -> impl Iterator<Item = &'a [u8]> {
    fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name))
        .map(|field| field.value)
}

/// The elements of a comma-separated list (RFC 9110 §5.6.1), without the empty ones. Fit for
/// lists of tokens only: a comma inside quotes separates too.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// Whether `value` is a token (RFC 9110 §5.6.2).
pub(super) fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().copied().all(is_token_byte)
}

/// Whether `byte` may stand in a token (RFC 9110 §5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// `value` without the spaces and tabs around it.
fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    value.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_cannot_end_its_line() {
        assert_eq!(Field::new("x", b"a\r\nSet-Cookie: b"), Err(InvalidField::Value));
        for byte in 0..=255 {
            let sendable = matches!(byte, b'\t' | 0x20..=0x7e | 0x80..);
            assert_eq!(Field::new("x", &[byte]).is_ok(), sendable, "{byte:#x}");
        }
        for name in ["", "a b", "a:", "a\r", "é"] {
            assert_eq!(Field::new(name, b""), Err(InvalidField::Name));
        }
    }

    #[test]
    fn list_elements_lose_their_white_space_and_empty_ones_vanish() {
        let list: Vec<&[u8]> = elements(b", a,\t b c ,,d, ").collect();
        assert_eq!(list, [&b"a"[..], b"b c", b"d"]);
        assert_eq!(elements(b" \t").count(), 0);
    }
}

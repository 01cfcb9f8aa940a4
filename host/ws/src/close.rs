//! Close frames: codes and reasons that may stand on the wire (RFC 6455 §5.5.1, §7.4).

use std::fmt;

use crate::Error;
use crate::frame::MAX_CONTROL_PAYLOAD;

/// The longest reason in bytes: a control payload less the two bytes of the code.
pub const MAX_REASON_SIZE: usize = MAX_CONTROL_PAYLOAD - 2;

/// Whether `code` may be sent or received: 1000–1003, 1007–1014, 3000–4999 (RFC 6455 §7.4 and
/// the IANA registry). The others are unassigned or describe what was never sent.
pub const fn is_valid_on_wire(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// A close code that [may stand on the wire](is_valid_on_wire).
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl Code {
    /// 1000: the purpose is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// 1001: this end goes away.
    pub const GOING_AWAY: Self = Self(1001);
    /// 1002: the peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// 1003: a type of data this end does not take.
    pub const UNSUPPORTED: Self = Self(1003);
    /// 1007: data that does not fit its type.
    pub const INVALID_DATA: Self = Self(1007);
    /// 1008: the peer violated a policy.
    pub const POLICY: Self = Self(1008);
    /// 1009: a message too big to process.
    pub const TOO_BIG: Self = Self(1009);
    /// 1011: this end failed.
    pub const INTERNAL_ERROR: Self = Self(1011);
    /// 1012: this end restarts.
    pub const RESTART: Self = Self(1012);
    /// 1013: this end is overloaded, try again later.
    pub const TRY_AGAIN_LATER: Self = Self(1013);

    /// `None` if `code` may not stand on the wire.
    pub const fn new(code: u16) -> Option<Self> {
        if is_valid_on_wire(code) { Some(Self(code)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A close frame's payload: a code and a reason of at most [`MAX_REASON_SIZE`] bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    code: Code,
    reason: &'a str,
}

/// The reason is longer than [`MAX_REASON_SIZE`] bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReasonTooLong;

impl<'a> Frame<'a> {
    /// A code and no reason.
    pub const fn bare(code: Code) -> Self {
        Self { code, reason: "" }
    }

    /// A code with the whole of `reason`, or the error that it does not fit.
    pub const fn new(code: Code, reason: &'a str) -> Result<Self, ReasonTooLong> {
        if reason.len() > MAX_REASON_SIZE {
            return Err(ReasonTooLong);
        }
        Ok(Self { code, reason })
    }

    /// A code with as many whole characters of `reason` as fit.
    pub fn truncated(code: Code, reason: &'a str) -> Self {
        let end = reason.floor_char_boundary(MAX_REASON_SIZE);
        Self { code, reason: reason.get(..end).unwrap_or_default() }
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The reason; it may be empty.
    pub const fn reason(&self) -> &'a str {
        self.reason
    }

    /// Reads a close frame's payload. `None` if it is empty: to the application that is 1005,
    /// "no code was sent".
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Option<Self>, Error> {
        if payload.is_empty() {
            return Ok(None);
        }
        let Some((code, reason)) = payload.split_first_chunk::<2>() else {
            return Err(Error::ClosePayloadTooShort);
        };
        let number = u16::from_be_bytes(*code);
        let code = Code::new(number).ok_or(Error::InvalidCloseCode(number))?;
        let reason = std::str::from_utf8(reason).map_err(|_| Error::InvalidCloseReason)?;
        Ok(Some(Self { code, reason }))
    }

    /// Bytes of payload, at most [`MAX_CONTROL_PAYLOAD`].
    pub(crate) const fn size(&self) -> usize {
        2 + self.reason.len()
    }

    /// Appends the payload.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.code.get().to_be_bytes());
        out.extend_from_slice(self.reason.as_bytes());
    }
}

impl fmt::Display for ReasonTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reason is longer than {MAX_REASON_SIZE} bytes")
    }
}

impl std::error::Error for ReasonTooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_codes_are_exactly_those_of_the_registry() {
        let valid: Vec<u16> = (0..=u16::MAX).filter(|&code| is_valid_on_wire(code)).collect();
        let mut expected: Vec<u16> = (1000..=1003).chain(1007..=1014).collect();
        expected.extend(3000..=4999);
        assert_eq!(valid, expected);
    }

    #[test]
    fn a_reason_fits_up_to_123_bytes() {
        let fits = "r".repeat(MAX_REASON_SIZE);
        assert_eq!(Frame::new(Code::NORMAL, &fits).unwrap().reason(), fits);
        assert_eq!(Frame::new(Code::NORMAL, &format!("{fits}r")), Err(ReasonTooLong));
    }

    #[test]
    fn truncation_keeps_characters_whole() {
        let reason = format!("{}é", "r".repeat(MAX_REASON_SIZE - 1));
        let frame = Frame::truncated(Code::NORMAL, &reason);
        assert_eq!(frame.reason(), "r".repeat(MAX_REASON_SIZE - 1));
        let fits = format!("{}é", "r".repeat(MAX_REASON_SIZE - 2));
        assert_eq!(Frame::truncated(Code::NORMAL, &fits).reason(), fits);
    }
}

//! What a peer did wrong, and the close code that tells it.

use std::fmt;

use crate::close::Code;

/// The rule a peer broke or the limit it passed. Always the peer's fault; the connection is to
/// be closed with [`close_code`](Self::close_code).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A reserved bit is set and no extension gives it a meaning (RFC 6455 §5.2).
    ReservedBits,
    /// An opcode without a meaning: 3–7 or 11–15 (RFC 6455 §5.2).
    UnknownOpcode(u8),
    /// A control frame without FIN (RFC 6455 §5.5).
    FragmentedControl,
    /// A control frame with more than 125 bytes of payload (RFC 6455 §5.5).
    ControlTooLong,
    /// A client's frame came unmasked (RFC 6455 §5.1).
    MaskRequired,
    /// A server's frame came masked (RFC 6455 §5.1).
    MaskForbidden,
    /// A longer form of the length than the length needs (RFC 6455 §5.2).
    LengthNotMinimal,
    /// A 64-bit length with the top bit set (RFC 6455 §5.2).
    LengthTopBit,
    /// A continuation frame where no message was begun (RFC 6455 §5.4).
    UnexpectedContinuation,
    /// A new message where the last one has not ended (RFC 6455 §5.4).
    ExpectedContinuation,
    /// A text message that is not UTF-8 (RFC 6455 §8.1).
    InvalidUtf8,
    /// A close frame with one byte of payload: too short for a code (RFC 6455 §5.5.1).
    ClosePayloadTooShort,
    /// A close code that must not stand on the wire (RFC 6455 §7.4).
    InvalidCloseCode(u16),
    /// A close reason that is not UTF-8 (RFC 6455 §5.5.1).
    InvalidCloseReason,
    /// A frame that declares more bytes than [`Limits::max_frame_size`](crate::Limits).
    FrameTooLarge {
        /// Bytes of payload in the header.
        declared: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A message of more bytes than [`Limits::max_message_size`](crate::Limits).
    MessageTooLarge {
        /// Bytes received plus bytes declared by the frame that went over. Where an inflated
        /// message went over, as far as it was inflated: one past the limit.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A message with more than [`Limits::MAX_EMPTY_FRAGMENTS`](crate::Limits) empty fragments.
    TooManyEmptyFragments,
    /// A compressed message that is not DEFLATE from its first octet to its last, or that refers
    /// further back than it may (RFC 7692 §7.2.2).
    InvalidDeflate,
    /// A compressed message with more than 1024 final blocks.
    TooManyFinalBlocks,
}

/// What kind of wrong an [`Error`] is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer broke a rule of the protocol: a defect of the peer.
    Rule,
    /// The peer passed a limit of ours: legal, but more than we take.
    Limit,
}

impl Error {
    /// The code of the close frame that answers this error.
    pub const fn close_code(&self) -> Code {
        match self {
            Self::ReservedBits
            | Self::UnknownOpcode(_)
            | Self::FragmentedControl
            | Self::ControlTooLong
            | Self::MaskRequired
            | Self::MaskForbidden
            | Self::LengthNotMinimal
            | Self::LengthTopBit
            | Self::UnexpectedContinuation
            | Self::ExpectedContinuation
            | Self::ClosePayloadTooShort
            | Self::InvalidCloseCode(_) => Code::PROTOCOL_ERROR,
            Self::InvalidUtf8 | Self::InvalidCloseReason | Self::InvalidDeflate => {
                Code::INVALID_DATA
            }
            Self::FrameTooLarge { .. } | Self::MessageTooLarge { .. } => Code::TOO_BIG,
            Self::TooManyEmptyFragments | Self::TooManyFinalBlocks => Code::POLICY,
        }
    }

    /// Whether a rule was broken or a limit passed.
    pub const fn fault(&self) -> Fault {
        match self {
            Self::FrameTooLarge { .. }
            | Self::MessageTooLarge { .. }
            | Self::TooManyEmptyFragments
            | Self::TooManyFinalBlocks => Fault::Limit,
            _ => Fault::Rule,
        }
    }
}

/// One sentence without a full stop, at most 123 bytes: fit for a close reason.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedBits => f.write_str("reserved bits are set"),
            Self::UnknownOpcode(opcode) => write!(f, "opcode {opcode} is unknown"),
            Self::FragmentedControl => f.write_str("a control frame is fragmented"),
            Self::ControlTooLong => f.write_str("a control frame is longer than 125 bytes"),
            Self::MaskRequired => f.write_str("a client's frame is not masked"),
            Self::MaskForbidden => f.write_str("a server's frame is masked"),
            Self::LengthNotMinimal => f.write_str("a length is not in its shortest form"),
            Self::LengthTopBit => f.write_str("the top bit of a length is set"),
            Self::UnexpectedContinuation => f.write_str("a continuation frame continues nothing"),
            Self::ExpectedContinuation => f.write_str("a message begins inside another"),
            Self::InvalidUtf8 => f.write_str("text is not UTF-8"),
            Self::ClosePayloadTooShort => f.write_str("a close frame has half a code"),
            Self::InvalidCloseCode(code) => write!(f, "close code {code} may not be sent"),
            Self::InvalidCloseReason => f.write_str("a close reason is not UTF-8"),
            Self::FrameTooLarge { declared, limit } => {
                write!(f, "a frame of {declared} bytes is over the limit of {limit}")
            }
            Self::MessageTooLarge { size, limit } => {
                write!(f, "a message of {size} bytes is over the limit of {limit}")
            }
            Self::TooManyEmptyFragments => f.write_str("a message has too many empty fragments"),
            Self::InvalidDeflate => f.write_str("a compressed message is not DEFLATE"),
            Self::TooManyFinalBlocks => f.write_str("a message has too many final blocks"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::close::MAX_REASON_SIZE;

    #[test]
    fn the_longest_sentences_fit_a_close_reason() {
        for error in [
            Error::MessageTooLarge { size: u64::MAX, limit: u64::MAX },
            Error::FrameTooLarge { declared: u64::MAX, limit: u64::MAX },
        ] {
            assert!(error.to_string().len() <= MAX_REASON_SIZE, "{error}");
        }
    }
}

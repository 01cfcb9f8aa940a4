use std::error::Error;
use std::fmt;

/// Why the host did not take an effect. The handler goes on; its other effects stand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectError {
    /// The connection is closed, closing, or not one of this plugin's.
    NotOpen,
    /// Outside of the host's limit for a message, an attachment or a channel's name, which has 1
    /// to 255 bytes.
    TooLarge,
    /// The running handler's budget of effects is used up.
    OverBudget,
    /// Any other reason, for a person to read.
    Other(String),
}

impl fmt::Display for EffectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOpen => "the connection is not open",
            Self::TooLarge => "outside of the host's limit for a message, an attachment or a name",
            Self::OverBudget => "more effects in one call than the host allows",
            Self::Other(reason) => reason,
        })
    }
}

impl Error for EffectError {}

/// Why the host did not begin to close a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseError {
    /// The connection is closed, closing, or not one of this plugin's.
    NotOpen,
    /// Not a code that an application may send (RFC 6455 §7.4).
    InvalidCode,
    /// More than 123 bytes.
    ReasonTooLong,
    /// Any other reason, for a person to read.
    Other(String),
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOpen => "the connection is not open",
            Self::InvalidCode => "not a close code that an application may send",
            Self::ReasonTooLong => "a close reason of more than 123 bytes",
            Self::Other(reason) => reason,
        })
    }
}

impl Error for CloseError {}

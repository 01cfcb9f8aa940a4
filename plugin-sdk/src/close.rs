/// How a connection ended (RFC 6455 §7.1.5, §7.1.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Close {
    /// The peer's code; [`CloseCode::NO_STATUS`] or [`CloseCode::ABNORMAL`] where it sent none.
    pub code: CloseCode,
    /// At most 123 bytes; empty where the peer gave none.
    pub reason: String,
}

impl Close {
    pub(crate) fn new(code: u16, reason: String) -> Self {
        Self { code: CloseCode(code), reason }
    }
}

/// A close code (RFC 6455 §7.4). A plugin may send 1000 to 1003, 1007 to 1014 and 3000 to 4999;
/// of these, 4000 to 4999 are the application's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(u16);

impl CloseCode {
    /// 1000: the purpose is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// 1001: a page was left or a server stops.
    pub const GOING_AWAY: Self = Self(1001);
    /// 1002: the protocol was violated.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// 1003: a kind of data that is not accepted.
    pub const UNSUPPORTED_DATA: Self = Self(1003);
    /// 1005: the peer's close frame had no code. Received only, never sent.
    pub const NO_STATUS: Self = Self(1005);
    /// 1006: there was no closing handshake. Received only, never sent.
    pub const ABNORMAL: Self = Self(1006);
    /// 1007: data that is not what its type says, such as text that is not UTF-8.
    pub const INVALID_DATA: Self = Self(1007);
    /// 1008: a rule of the application was broken.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// 1009: a message that is too big.
    pub const TOO_BIG: Self = Self(1009);
    /// 1011: the server failed.
    pub const INTERNAL_ERROR: Self = Self(1011);
    /// 1012: the service restarts (IANA registry).
    pub const SERVICE_RESTART: Self = Self(1012);
    /// 1013: try again later (IANA registry).
    pub const TRY_AGAIN_LATER: Self = Self(1013);

    /// Any code. The host checks it where it is sent.
    #[must_use]
    pub const fn new(code: u16) -> Self {
        Self(code)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl From<u16> for CloseCode {
    fn from(code: u16) -> Self {
        Self(code)
    }
}

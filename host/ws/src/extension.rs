//! The extension permessage-deflate: offers and the answer (RFC 7692 §5, §7.1).
//!
//! A server lets its [`Policy`] [choose](Policy::negotiate) among the offers and sends the
//! [`Agreement`] with the 101. A client sends the policy's [offer](Policy::offer) and
//! [verifies](Policy::verify) the answer. Then both give the agreement to their machine.

mod grammar;

use std::fmt;
use std::num::NonZeroU8;

use crate::Role;
use grammar::{Element, Value};

const NAME: &str = "permessage-deflate";
const SERVER_NO_CONTEXT_TAKEOVER: &str = "server_no_context_takeover";
const CLIENT_NO_CONTEXT_TAKEOVER: &str = "client_no_context_takeover";
const SERVER_MAX_WINDOW_BITS: &str = "server_max_window_bits";
const CLIENT_MAX_WINDOW_BITS: &str = "client_max_window_bits";

/// The binary logarithm of a window's size in bytes, 8 to 15: 256 bytes to 32 KiB.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowBits(NonZeroU8);

/// What this end wants.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How far back the server's messages may refer; 8 is taken for 9.
    pub server_max_window_bits: WindowBits,
    /// How far back the client's messages may refer; 8 is taken for 9. A client that does not
    /// offer to keep within less than 15 is denied context takeover instead.
    pub client_max_window_bits: WindowBits,
    /// Whether messages may refer to earlier ones where the peer does not mind. It costs a
    /// connection up to both windows in bytes.
    pub context_takeover: bool,
}

/// What both ends agreed on. As text it is the answer in `Sec-WebSocket-Extensions`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    server_context_takeover: bool,
    client_context_takeover: bool,
    server_max_window_bits: Option<WindowBits>,
    client_max_window_bits: Option<WindowBits>,
}

/// The server's answer does not fit the offer (RFC 7692 §7.1).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mismatch;

/// The parameters of one offer or answer; each at most once, with a valid value.
#[derive(Copy, Clone, Debug, Default)]
struct Parameters {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<WindowBits>,
    client_max_window_bits: Option<WindowLimit>,
}

/// `client_max_window_bits`, which an offer may leave without a value.
#[derive(Copy, Clone, Debug)]
enum WindowLimit {
    Any,
    AtMost(WindowBits),
}

impl WindowBits {
    /// 15, a window of 32 KiB.
    pub const MAX: Self = Self(NonZeroU8::MIN.saturating_add(14));
    /// 9: zlib cannot build a window of 256 bytes.
    pub const MIN_TO_COMPRESS: Self = Self(NonZeroU8::MIN.saturating_add(8));

    /// `None` unless `bits` is 8 to 15.
    pub const fn new(bits: u8) -> Option<Self> {
        match NonZeroU8::new(bits) {
            Some(nonzero) if matches!(bits, 8..=15) => Some(Self(nonzero)),
            _ => None,
        }
    }

    /// The number of bits.
    pub const fn get(self) -> u8 {
        self.0.get()
    }

    /// The window in bytes.
    pub const fn size(self) -> usize {
        1 << self.0.get()
    }
}

impl Policy {
    /// Agrees to the first acceptable offer of permessage-deflate among the values of
    /// `Sec-WebSocket-Extensions`, or to none: then the answer has no such field.
    ///
    /// Malformed offers, those with unknown, repeated or invalid parameters and those for a
    /// window of 256 bytes on this side are declined one by one (RFC 7692 §5.1, §7.1).
    pub fn negotiate<'a>(&self, offers: impl IntoIterator<Item = &'a [u8]>) -> Option<Agreement> {
        offers
            .into_iter()
            .flat_map(grammar::elements)
            .flatten()
            .filter(|element| element.name == NAME.as_bytes())
            .find_map(|element| self.accept(Parameters::read(&element)?))
    }

    /// A client's offer, as a value of `Sec-WebSocket-Extensions`.
    pub fn offer(&self) -> String {
        let mut offer = NAME.to_owned();
        if !self.context_takeover {
            offer += "; server_no_context_takeover; client_no_context_takeover";
        }
        if self.server_bits() < WindowBits::MAX {
            offer += &format!("; {SERVER_MAX_WINDOW_BITS}={}", self.server_bits());
        }
        offer += "; client_max_window_bits";
        if self.client_bits() < WindowBits::MAX {
            offer += &format!("={}", self.client_bits());
        }
        offer
    }

    /// Judges the answer to [`offer`](Self::offer). `Ok(None)`: no compression.
    pub fn verify<'a>(
        &self,
        answers: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Agreement>, Mismatch> {
        let mut elements = answers.into_iter().flat_map(grammar::elements);
        let Some(first) = elements.next() else {
            return Ok(None);
        };
        let element = first.map_err(|_| Mismatch)?;
        if element.name != NAME.as_bytes() || elements.next().is_some() {
            return Err(Mismatch);
        }
        let answer = Parameters::read(&element).ok_or(Mismatch)?;
        let client = match answer.client_max_window_bits {
            None => None,
            Some(WindowLimit::Any) => return Err(Mismatch),
            Some(WindowLimit::AtMost(bits)) => Some(bits),
        };
        let takeover_denied = !self.context_takeover && !answer.server_no_context_takeover;
        let server = answer.server_max_window_bits.unwrap_or(WindowBits::MAX);
        let client_fits = client
            .is_none_or(|bits| (WindowBits::MIN_TO_COMPRESS..=self.client_bits()).contains(&bits));
        if takeover_denied || server > self.server_bits() || !client_fits {
            return Err(Mismatch);
        }
        Ok(Some(Agreement {
            server_context_takeover: !answer.server_no_context_takeover,
            client_context_takeover: self.context_takeover && !answer.client_no_context_takeover,
            server_max_window_bits: answer.server_max_window_bits,
            // What the offer promised holds whether the answer repeats it or not.
            client_max_window_bits: Some(client.unwrap_or(self.client_bits())),
        }))
    }

    fn accept(&self, offer: Parameters) -> Option<Agreement> {
        let asked = offer.server_max_window_bits;
        if asked.is_some_and(|bits| bits < WindowBits::MIN_TO_COMPRESS) {
            return None;
        }
        let server = asked.unwrap_or(WindowBits::MAX).min(self.server_bits());
        let client = match offer.client_max_window_bits {
            None => None,
            Some(WindowLimit::Any) => Some(self.client_bits()),
            Some(WindowLimit::AtMost(bits)) => Some(bits.min(self.client_bits())),
        };
        let client_keeps_within = client.unwrap_or(WindowBits::MAX) <= self.client_bits();
        Some(Agreement {
            server_context_takeover: self.context_takeover && !offer.server_no_context_takeover,
            client_context_takeover: self.context_takeover
                && !offer.client_no_context_takeover
                && client_keeps_within,
            server_max_window_bits: (asked.is_some() || server < WindowBits::MAX).then_some(server),
            client_max_window_bits: client,
        })
    }

    fn server_bits(&self) -> WindowBits {
        self.server_max_window_bits.max(WindowBits::MIN_TO_COMPRESS)
    }

    fn client_bits(&self) -> WindowBits {
        self.client_max_window_bits.max(WindowBits::MIN_TO_COMPRESS)
    }
}

impl Agreement {
    /// Whether messages that `sender` sends may refer to its earlier ones.
    pub const fn context_takeover(&self, sender: Role) -> bool {
        match sender {
            Role::Server => self.server_context_takeover,
            Role::Client => self.client_context_takeover,
        }
    }

    /// How far back messages that `sender` sends may refer.
    pub fn window_bits(&self, sender: Role) -> WindowBits {
        let bits = match sender {
            Role::Server => self.server_max_window_bits,
            Role::Client => self.client_max_window_bits,
        };
        bits.unwrap_or(WindowBits::MAX)
    }

    /// The most that a connection keeps for context takeover in both directions, in bytes.
    pub fn max_history(&self) -> usize {
        let history = |sender| match self.context_takeover(sender) {
            true => self.window_bits(sender).max(WindowBits::MIN_TO_COMPRESS).size(),
            false => 0,
        };
        history(Role::Server) + history(Role::Client)
    }
}

impl Parameters {
    /// `None` if the offer or answer must be declined.
    fn read(element: &Element<'_>) -> Option<Self> {
        let mut found = Self::default();
        for (name, value) in &element.parameters {
            let value = value.as_ref();
            let fresh = match std::str::from_utf8(name).ok()? {
                SERVER_NO_CONTEXT_TAKEOVER => {
                    value.is_none()
                        && !std::mem::replace(&mut found.server_no_context_takeover, true)
                }
                CLIENT_NO_CONTEXT_TAKEOVER => {
                    value.is_none()
                        && !std::mem::replace(&mut found.client_no_context_takeover, true)
                }
                SERVER_MAX_WINDOW_BITS => {
                    found.server_max_window_bits.replace(window_bits(value?)?).is_none()
                }
                CLIENT_MAX_WINDOW_BITS => {
                    let limit = match value {
                        None => WindowLimit::Any,
                        Some(value) => WindowLimit::AtMost(window_bits(value)?),
                    };
                    found.client_max_window_bits.replace(limit).is_none()
                }
                _ => false,
            };
            if !fresh {
                return None;
            }
        }
        Some(found)
    }
}

/// 8 to 15 in decimal without a leading zero (RFC 7692 §7.1.2).
fn window_bits(value: &Value<'_>) -> Option<WindowBits> {
    match value.bytes().as_slice() {
        [digit @ b'8'..=b'9'] => WindowBits::new(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => WindowBits::new(10 + digit - b'0'),
        _ => None,
    }
}

/// 15 bits each way, no context takeover.
impl Default for Policy {
    fn default() -> Self {
        Self {
            server_max_window_bits: WindowBits::MAX,
            client_max_window_bits: WindowBits::MAX,
            context_takeover: false,
        }
    }
}

impl fmt::Display for WindowBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)?;
        if !self.server_context_takeover {
            write!(f, "; {SERVER_NO_CONTEXT_TAKEOVER}")?;
        }
        if !self.client_context_takeover {
            write!(f, "; {CLIENT_NO_CONTEXT_TAKEOVER}")?;
        }
        if let Some(bits) = self.server_max_window_bits {
            write!(f, "; {SERVER_MAX_WINDOW_BITS}={bits}")?;
        }
        if let Some(bits) = self.client_max_window_bits {
            write!(f, "; {CLIENT_MAX_WINDOW_BITS}={bits}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the extensions in the answer do not fit the offer")
    }
}

impl std::error::Error for Mismatch {}

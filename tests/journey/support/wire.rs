//! The frames behind the messages.

use plugsock_ws::Role;
use plugsock_ws::frame::Header;

/// Reads the headers in what a server sends, however it is cut.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Of a header that is not complete.
    begun: Vec<u8>,
    /// Bytes of payload still to come.
    payload: u64,
    frames: Vec<Header>,
}

impl Wire {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let skipped = self.payload.min(rest.len() as u64);
            self.payload -= skipped;
            rest = &rest[usize::try_from(skipped).unwrap()..];
            let [byte, later @ ..] = rest else { return };
            self.begun.push(*byte);
            rest = later;
            if let Some((header, _)) = Header::parse_as(Role::Client, true, &self.begun).unwrap() {
                self.begun.clear();
                self.payload = header.len;
                self.frames.push(header);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The headers since the last call.
    pub(crate) fn take(&mut self) -> Vec<Header> {
        std::mem::take(&mut self.frames)
    }
}

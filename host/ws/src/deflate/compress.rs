//! Compressing messages (RFC 7692 §7.2.1).

use std::fmt;

use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Method, Status, Strategy};

use super::TAIL;
use crate::extension::WindowBits;

/// How hard a compressor tries.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 0 to 9; what lies above is taken for 9. Level 1 takes 2.3 µs for 1 KiB of JSON, level 6
    /// four times as long for a quarter less on the wire.
    pub level: u8,
    /// 1 to 9, others are taken for the nearest. How much is gathered before it is encoded:
    /// `512 << mem_level` bytes in a compressor of about `128 KiB + (6 << window bits)` besides.
    pub mem_level: u8,
}

/// Compresses messages, each on its own unless a history is given.
///
/// One serves any number of connections whose agreement allows its window. It takes 380 KB with
/// a window of 15 bits and `mem_level` 8, 266 KB with `mem_level` 1, 139 KB with 10 bits and 1.
/// Starting a message anew costs 1.1 µs, the clearing of a table of 128 KiB.
pub struct Compressor {
    stream: Deflate,
    window_bits: WindowBits,
    /// Lent to the caller; only its start is filled.
    buffer: Vec<u8>,
}

/// The buffer's size between large messages, in bytes.
const KEPT_BUFFER: usize = 64 * 1024;

impl Compressor {
    /// A compressor that refers back by less than `window_bits` allow. A window of 8 bits cannot
    /// be built; it becomes 9.
    pub fn new(settings: Settings, window_bits: WindowBits) -> Self {
        let window_bits = window_bits.max(WindowBits::MIN_TO_COMPRESS);
        let stream = Deflate::new_with_config(DeflateConfig {
            level: settings.level.min(9).into(),
            method: Method::Deflated,
            // Negative: raw DEFLATE.
            window_bits: -i32::from(window_bits.get()),
            mem_level: settings.mem_level.clamp(1, 9).into(),
            strategy: Strategy::Default,
        });
        Self { stream, window_bits, buffer: Vec::new() }
    }

    /// What an agreement must allow for its connection to get this compressor's output.
    pub const fn window_bits(&self) -> WindowBits {
        self.window_bits
    }

    /// The payload of a message compressed without context, to be sent with RSV1 on the first
    /// frame. It lasts until the next call. An empty message becomes one octet (RFC 7692
    /// §7.2.3.6).
    ///
    /// `None` if it would come out longer by an eighth or more: send it as it is.
    pub fn compress(&mut self, message: &[u8]) -> Option<&[u8]> {
        self.compress_after(&[], message)
    }

    /// As [`compress`](Self::compress), with references to `history`, which the receiver has.
    pub(crate) fn compress_after(&mut self, history: &[u8], message: &[u8]) -> Option<&[u8]> {
        let needed = message.len() + message.len() / 8 + 64;
        if self.buffer.len() > KEPT_BUFFER.max(needed) {
            self.buffer.truncate(KEPT_BUFFER.max(needed));
            self.buffer.shrink_to_fit();
        }
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        if message.is_empty() {
            // The header of an empty stored block.
            let empty = self.buffer.get_mut(..1)?;
            empty.fill(0);
            return Some(empty);
        }

        self.stream.reset();
        if !history.is_empty() {
            self.stream.set_dictionary(history).ok()?;
        }
        let status = self.stream.compress(message, &mut self.buffer, DeflateFlush::SyncFlush);
        let len = usize::try_from(self.stream.total_out()).ok()?;
        // With room left in the buffer the flush is complete.
        let flushed = status == Ok(Status::Ok)
            && self.stream.total_in() == message.len() as u64
            && len < self.buffer.len();
        let compressed = self.buffer.get(..len).filter(|_| flushed)?;
        compressed.strip_suffix(&TAIL)
    }
}

/// The default of the configuration: fast.
impl Default for Settings {
    fn default() -> Self {
        Self { level: 1, mem_level: 8 }
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("window_bits", &self.window_bits)
            .field("buffer", &self.buffer.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressor(level: u8) -> Compressor {
        Compressor::new(Settings { level, mem_level: 8 }, WindowBits::MAX)
    }

    #[test]
    fn hello_is_the_example_of_rfc_7692_section_7_2_3() {
        let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        for level in 1..=9 {
            let mut compressor = compressor(level);
            assert_eq!(compressor.compress(b"Hello"), Some(&hello[..]), "level {level}");
            assert_eq!(compressor.compress(b"Hello"), Some(&hello[..]), "level {level}");
        }
        let again = compressor(6).compress_after(b"Hello", b"Hello").map(<[u8]>::to_vec);
        assert_eq!(again, Some(vec![0xf2, 0x00, 0x11, 0x00, 0x00]));
        let stored = compressor(0).compress(b"Hello").map(<[u8]>::to_vec);
        assert_eq!(stored, Some(b"\x00\x05\x00\xfa\xffHello\x00".to_vec()));
    }

    #[test]
    fn bl_16_an_empty_message_is_one_octet_between_others_too() {
        let mut compressor = compressor(1);
        assert_eq!(compressor.compress(b""), Some(&[0][..]));
        let hello = compressor.compress(b"Hello").map(<[u8]>::to_vec);
        assert_eq!(compressor.compress(b""), Some(&[0][..]));
        assert_eq!(compressor.compress_after(b"Hello", b""), Some(&[0][..]));
        assert_eq!(compressor.compress(b"Hello"), hello.as_deref());
    }

    #[test]
    fn the_buffer_of_a_large_message_is_not_kept() {
        let mut compressor = compressor(1);
        assert!(compressor.compress(&vec![b'a'; 1 << 20]).is_some());
        assert!(compressor.buffer.capacity() >= 1 << 20);
        assert!(compressor.compress(b"a").is_some());
        assert!(compressor.buffer.capacity() <= KEPT_BUFFER);
    }
}

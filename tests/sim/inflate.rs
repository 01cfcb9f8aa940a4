//! DEFLATE by other hands: what compressed messages say, and whether a sender kept within the
//! window (RFC 7692 §7.2).

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY,
    TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use plugsock_ws::Role;
use plugsock_ws::extension::{Agreement, WindowBits};

/// What is to be appended to each payload (RFC 7692 §7.2.2).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Final blocks in one message; exactly so many pass.
pub(crate) const MAX_FINAL_BLOCKS: usize = 1024;

/// The messages of one direction that later ones may refer to.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    takeover: bool,
    size: usize,
    said: Vec<u8>,
}

/// Why a compressed message is not delivered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is not DEFLATE, or not all of it, or it is not UTF-8 though it ought to be.
    Data,
    TooManyFinalBlocks,
    /// It inflates to more than the limit. What lies behind that was not looked at.
    TooLarge,
}

impl Window {
    /// What `sender` may refer to. A window of 8 bits is taken for 9, as many a zlib does.
    pub(crate) fn new(agreed: &Agreement, sender: Role) -> Self {
        let bits = agreed.window_bits(sender).max(WindowBits::MIN_TO_COMPRESS);
        Self { takeover: agreed.context_takeover(sender), size: bits.size(), said: Vec::new() }
    }

    /// Notes a message that went or came compressed.
    pub(crate) fn push(&mut self, message: &[u8]) {
        if self.takeover {
            let message = &message[message.len().saturating_sub(self.size)..];
            self.said.extend_from_slice(message);
            self.said.drain(..self.said.len().saturating_sub(self.size));
        }
    }

    /// How many bytes back a message may refer at its start.
    pub(crate) const fn reach(&self) -> usize {
        self.said.len()
    }

    /// What a receiver is to make of a payload, and the window after it.
    pub(crate) fn receive(
        &mut self,
        payload: &[u8],
        text: bool,
        limit: u64,
    ) -> Result<Vec<u8>, Bad> {
        let message = self.inflate(&[payload, &TAIL].concat(), text, limit)?;
        if text && std::str::from_utf8(&message).is_err() {
            return Err(Bad::Data);
        }
        self.push(&message);
        Ok(message)
    }

    /// What a sender's payload says to a receiver who has no more than the agreed window.
    pub(crate) fn read_within(&self, payload: &[u8]) -> Vec<u8> {
        let mut ring = self.said.clone();
        let mut at = ring.len() % self.size;
        ring.resize(self.size, 0);
        let (mut state, mut out) = (DecompressorOxide::new(), Vec::new());
        let bytes = [payload, &TAIL].concat();
        let mut rest = bytes.as_slice();
        loop {
            let flags = TINFL_FLAG_HAS_MORE_INPUT;
            let (status, read, written) = decompress(&mut state, rest, &mut ring, at, flags);
            out.extend_from_slice(&ring[at..at + written]);
            (at, rest) = ((at + written) % self.size, &rest[read..]);
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::Done if !rest.is_empty() => state = DecompressorOxide::new(),
                TINFLStatus::Done | TINFLStatus::NeedsMoreInput => return out,
                status => unreachable!("we sent what none can inflate: {status:?}"),
            }
        }
    }

    fn inflate(&self, bytes: &[u8], text: bool, limit: u64) -> Result<Vec<u8>, Bad> {
        let before = self.said.len();
        let most = before + usize::try_from(limit).unwrap_or(usize::MAX >> 1) + 1;
        let mut out = self.said.clone();
        out.resize(most.min(before + 4 * bytes.len()), 0);
        let (mut state, mut at, mut rest) = (DecompressorOxide::new(), before, bytes);
        let mut final_blocks = 0;
        loop {
            let flags = TINFL_FLAG_HAS_MORE_INPUT
                | TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY
                | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
            let (status, read, written) = decompress(&mut state, rest, &mut out, at, flags);
            (at, rest) = (at + written, &rest[read..]);
            if at == most {
                return Err(Bad::TooLarge);
            }
            let bits_left = state.block_boundary_state().map_or(0, |state| state.num_bits);
            match status {
                // All is read, and the last block has ended with it.
                TINFLStatus::BlockBoundary | TINFLStatus::Done
                    if rest.is_empty() && bits_left == 0 =>
                {
                    out.truncate(at);
                    return Ok(out.split_off(before));
                }
                TINFLStatus::BlockBoundary => {}
                TINFLStatus::Done => {
                    let so_far = std::str::from_utf8(&out[before..at]);
                    if text && so_far.is_err_and(|error| error.error_len().is_some()) {
                        return Err(Bad::Data);
                    }
                    final_blocks += 1;
                    if final_blocks > MAX_FINAL_BLOCKS {
                        return Err(Bad::TooManyFinalBlocks);
                    }
                    // The next one begins with a whole byte, and may refer to all before.
                    state = DecompressorOxide::new();
                }
                TINFLStatus::HasMoreOutput => out.resize(most.min(2 * out.len()), 0),
                _ => return Err(Bad::Data),
            }
        }
    }
}

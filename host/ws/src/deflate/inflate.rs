//! Inflating messages in bounded steps (RFC 7692 §7.2.2).

use std::fmt;

use zlib_rs::{Inflate, InflateFlush, Status};

use super::{MAX_FINAL_BLOCKS, MAX_STEP_INPUT, TAIL};
use crate::Error;

/// One message's decompression, as far as it has come.
///
/// It takes [`SIZE`](Self::SIZE) bytes, whatever the window, so only a message in work has one.
pub(crate) struct Inflater {
    stream: Inflate,
    /// Compressed bytes read.
    read: usize,
    /// How much of [`END`] was read.
    end_read: usize,
    final_blocks: u16,
    /// Bytes inflated.
    written: u64,
}

/// How a step left the message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// There is more to inflate.
    Working,
    /// A final block ended, and the message goes on: [`Inflater::resume`] before the next step.
    Final,
    /// All is inflated.
    Done,
}

/// Follows the payload: the tail that was not sent, then a final empty block. zlib reports the
/// end of that block only if the payload ended at the end of another.
const END: [u8; 9] = {
    let [a, b, c, d] = TAIL;
    [a, b, c, d, 1, a, b, c, d]
};

impl Inflater {
    /// Bytes on the heap: zlib-rs makes no smaller window than 32 KiB.
    pub(crate) const SIZE: usize = 47_552;

    pub(crate) fn new() -> Self {
        let stream = Inflate::new(false, 15);
        Self { stream, read: 0, end_read: 0, final_blocks: 0, written: 0 }
    }

    /// Begins a message that may refer to `history`.
    pub(crate) fn begin(&mut self, history: &[u8]) -> Result<(), Error> {
        (self.read, self.end_read, self.final_blocks, self.written) = (0, 0, 0, 0);
        self.resume(history)
    }

    /// Goes on after a final block, with all that may still be referred to.
    pub(crate) fn resume(&mut self, history: &[u8]) -> Result<(), Error> {
        self.stream.reset(false);
        if history.is_empty() {
            return Ok(());
        }
        self.stream.set_dictionary(history).map(|_| ()).map_err(|_| Error::InvalidDeflate)
    }

    /// Inflates into `out`, which is not empty. Returns how many bytes of it were filled.
    ///
    /// `payload` is what was not yet read of the message: at first the whole, later less by what
    /// [`take_read`](Self::take_read) told.
    pub(crate) fn step(&mut self, payload: &[u8], out: &mut [u8]) -> Result<(usize, Pace), Error> {
        let mut filled = 0;
        let until = payload.len().min(self.read + MAX_STEP_INPUT);
        loop {
            let rest = payload.get(self.read..until).unwrap_or_default();
            let at_end = self.read >= payload.len();
            // First the tail alone: it ends every block that the message has begun.
            let past_tail = at_end && self.end_read >= TAIL.len();
            let end = if past_tail { &END[..] } else { &TAIL[..] };
            let source = if at_end { end.get(self.end_read..).unwrap_or_default() } else { rest };
            let room = out.get_mut(filled..).unwrap_or_default();
            let before = filled;
            let status = self.inflate(source, room, at_end, &mut filled)?;
            if past_tail && filled > before {
                // What comes behind the tail is ours, so a block had not ended.
                return Err(Error::InvalidDeflate);
            }

            if status == Status::StreamEnd {
                if !at_end {
                    return self.count_final_block().map(|()| (filled, Pace::Final));
                }
                // The tail alone ends a message whose last block, an empty one, was final.
                let whole = self.end_read == END.len() || self.end_read == TAIL.len();
                return if whole { Ok((filled, Pace::Done)) } else { Err(Error::InvalidDeflate) };
            }
            if filled == out.len() || (self.read == until && until < payload.len()) {
                return Ok((filled, Pace::Working));
            }
            if at_end && self.end_read == END.len() {
                return Err(Error::InvalidDeflate);
            }
        }
    }

    /// How many bytes of the payload were read since the last call; the caller drops them.
    pub(crate) const fn take_read(&mut self) -> usize {
        std::mem::replace(&mut self.read, 0)
    }

    /// Bytes inflated so far.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    fn inflate(
        &mut self,
        source: &[u8],
        out: &mut [u8],
        at_end: bool,
        filled: &mut usize,
    ) -> Result<Status, Error> {
        let (before_in, before_out) = (self.stream.total_in(), self.stream.total_out());
        let status = self.stream.decompress(source, out, InflateFlush::SyncFlush);
        let status = status.map_err(|_| Error::InvalidDeflate)?;
        let read = usize::try_from(self.stream.total_in() - before_in).unwrap_or(usize::MAX);
        let written = self.stream.total_out() - before_out;
        if read == 0 && written == 0 && status != Status::StreamEnd {
            // Nothing would ever change; zlib does not do this with bytes to read and to fill.
            return Err(Error::InvalidDeflate);
        }
        *(if at_end { &mut self.end_read } else { &mut self.read }) += read;
        self.written += written;
        *filled += usize::try_from(written).unwrap_or(usize::MAX);
        Ok(status)
    }

    const fn count_final_block(&mut self) -> Result<(), Error> {
        self.final_blocks += 1;
        if self.final_blocks > MAX_FINAL_BLOCKS {
            return Err(Error::TooManyFinalBlocks);
        }
        Ok(())
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater")
            .field("read", &self.read)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}
